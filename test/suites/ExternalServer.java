import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.server.ServerCnxn;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/**
 * The server that ZooKeeper's own tests start in their process, in a process of its own:
 * -Dzookeeper.serverCnxnFactory=ExternalServer. It gets the port, the directory, the limits and all
 * properties that the test has set, and is started by the program that SUITES_JAVA names.
 */
public class ExternalServer extends ServerCnxnFactory {
    private InetSocketAddress address;
    private int maxPerHost;
    private Process process;

    @Override
    public void configure(InetSocketAddress addr, int maxcc, int backlog, boolean isSecure) {
        address = addr;
        maxPerHost = maxcc;
        secure = isSecure;
    }

    @Override
    public void startup(ZooKeeperServer zks, boolean startServer)
            throws IOException, InterruptedException {
        setZooKeeperServer(zks);
        File data = zks.getTxnLogFactory().getDataDir().getParentFile();
        File config = new File(data, "zoo.cfg");
        Files.write(config.toPath(), List.of(
            "clientPort=" + address.getPort(), "dataDir=" + data.getAbsolutePath(),
            "tickTime=" + zks.getTickTime(), "maxClientCnxns=" + maxPerHost,
            "minSessionTimeout=" + zks.getMinSessionTimeout(),
            "maxSessionTimeout=" + zks.getMaxSessionTimeout()));
        List<String> command = new ArrayList<>(List.of(System.getenv("SUITES_JAVA")));
        System.getProperties().forEach((name, value) -> {
            if (name.toString().matches("(zookeeper|jute|znode|readonlymode)\\..*")) {
                command.add("-D" + name + "=" + value);
            }
        });
        command.add(config.getAbsolutePath());
        process = new ProcessBuilder(command).inheritIO().start();
        Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
    }

    @Override
    public void shutdown() {
        if (process == null) {
            return;
        }
        process.destroy();
        try {
            if (!process.waitFor(10, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
        }
    }

    @Override
    public void join() throws InterruptedException {
        process.waitFor();
    }

    @Override
    public int getLocalPort() {
        return address.getPort();
    }

    @Override
    public InetSocketAddress getLocalAddress() {
        return address;
    }

    @Override
    public int getMaxClientCnxnsPerHost() {
        return maxPerHost;
    }

    @Override
    public void setMaxClientCnxnsPerHost(int max) {
        maxPerHost = max;
    }

    @Override
    public int getSocketListenBacklog() {
        return -1;
    }

    // The connections are in the other process.

    @Override
    public Iterable<ServerCnxn> getConnections() {
        return List.of();
    }

    @Override
    public Iterable<Map<String, Object>> getAllConnectionInfo(boolean brief) {
        return List.of();
    }

    @Override
    public void reconfigure(InetSocketAddress addr) {
    }

    @Override
    public void start() {
    }

    @Override
    public void closeAll(ServerCnxn.DisconnectReason reason) {
    }

    @Override
    public void resetAllConnectionStats() {
    }
}
