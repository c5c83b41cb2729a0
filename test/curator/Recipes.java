import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.Stat;

/**
 * The recipes of Apache Curator, one after the other, against one server:
 *
 *     java -cp ... Recipes HOST:PORT
 *
 * Prints a line for each observation. The lines do not depend on timing, so that the output on our
 * port can be compared with that on a ZooKeeper. The server must check for empty containers and
 * expired TTL nodes several times a second.
 */
public class Recipes {
    private static final int LONG_S = 60;
    private static CuratorFramework a, b;

    private interface Recipe {
        void run() throws Exception;
    }

    private static void say(String format, Object... arguments) {
        System.out.println("  " + String.format(format, arguments));
    }

    private static void await(String what, Callable<Boolean> condition) throws Exception {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(LONG_S);
        while (!condition.call()) {
            if (System.nanoTime() > until)
                throw new Exception("waited in vain: " + what);
            Thread.sleep(5);
        }
        say("%s", what);
    }

    private static boolean exists(String path) throws Exception {
        return b.checkExists().forPath(path) != null;
    }

    private static CuratorFramework connect(String server) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
            server, 30000, 30000, new ExponentialBackoffRetry(50, 5));
        client.start();
        if (!client.blockUntilConnected(LONG_S, TimeUnit.SECONDS))
            throw new Exception("no connection to " + server);
        return client;
    }

    private static void mutex() throws Exception {
        InterProcessMutex one = new InterProcessMutex(a, "/curator/mutex");
        InterProcessMutex two = new InterProcessMutex(b, "/curator/mutex");
        say("first takes it: %s", one.acquire(LONG_S, TimeUnit.SECONDS));
        say("first takes it again: %s", one.acquire(LONG_S, TimeUnit.SECONDS));
        say("second must wait: %s", two.acquire(100, TimeUnit.MILLISECONDS));
        one.release();
        say("still held: %s", one.isAcquiredInThisProcess());
        Stat stat = b.checkExists().forPath("/curator/mutex");
        say("a container shows no owner: %d", stat.getEphemeralOwner());
        ExecutorService pool = Executors.newSingleThreadExecutor();
        Future<Boolean> taken = pool.submit(() -> {
            boolean is = two.acquire(LONG_S, TimeUnit.SECONDS);
            two.release();
            return is;
        });
        await("second waits", () -> one.getParticipantNodes().size() == 2);
        one.release();
        say("second has taken it: %s", taken.get());
        pool.shutdown();
        await("the empty container is gone", () -> !exists("/curator/mutex"));
    }

    private static void readWriteLock() throws Exception {
        InterProcessReadWriteLock one = new InterProcessReadWriteLock(a, "/curator/rw");
        InterProcessReadWriteLock two = new InterProcessReadWriteLock(b, "/curator/rw");
        say("first reads: %s", one.readLock().acquire(LONG_S, TimeUnit.SECONDS));
        say("second reads: %s", two.readLock().acquire(LONG_S, TimeUnit.SECONDS));
        two.readLock().release();
        say("second must not write: %s", two.writeLock().acquire(100, TimeUnit.MILLISECONDS));
        one.readLock().release();
        say("second writes: %s", two.writeLock().acquire(LONG_S, TimeUnit.SECONDS));
        say("first must not read: %s", one.readLock().acquire(100, TimeUnit.MILLISECONDS));
        two.writeLock().release();
    }

    private static void semaphore() throws Exception {
        InterProcessSemaphoreV2 one = new InterProcessSemaphoreV2(a, "/curator/semaphore", 2);
        InterProcessSemaphoreV2 two = new InterProcessSemaphoreV2(b, "/curator/semaphore", 2);
        Lease first = one.acquire(LONG_S, TimeUnit.SECONDS);
        Lease second = two.acquire(LONG_S, TimeUnit.SECONDS);
        say("two leases: %s", first != null && second != null);
        say("no third: %s", two.acquire(100, TimeUnit.MILLISECONDS) == null);
        first.close();
        Lease third = two.acquire(LONG_S, TimeUnit.SECONDS);
        say("a third after one was returned: %s", third != null);
        second.close();
        third.close();
    }

    private static void leaderLatch() throws Exception {
        LeaderLatch one = new LeaderLatch(a, "/curator/latch", "one");
        LeaderLatch two = new LeaderLatch(b, "/curator/latch", "two");
        one.start();
        say("first leads: %s", one.await(LONG_S, TimeUnit.SECONDS));
        two.start();
        await("both take part", () -> one.getParticipants().size() == 2);
        say("second does not lead: %s", two.hasLeadership());
        one.close();
        say("second leads: %s", two.await(LONG_S, TimeUnit.SECONDS));
        say("the leader is %s", two.getLeader().getId());
        two.close();
    }

    private static void leaderSelector() throws Exception {
        List<String> terms = Collections.synchronizedList(new ArrayList<>());
        AtomicInteger leaders = new AtomicInteger();
        List<LeaderSelector> selectors = new ArrayList<>();
        for (String name : Arrays.asList("one", "two")) {
            LeaderSelector selector = new LeaderSelector(name.equals("one") ? a : b,
                "/curator/selector", new LeaderSelectorListenerAdapter() {
                    @Override
                    public void takeLeadership(CuratorFramework client) {
                        if (leaders.incrementAndGet() != 1)
                            terms.add("two at once");
                        terms.add(name);
                        leaders.decrementAndGet();
                    }
                });
            selector.autoRequeue();
            selectors.add(selector);
        }
        for (LeaderSelector selector : selectors)
            selector.start();
        await("both have led", () -> terms.contains("one") && terms.contains("two"));
        for (LeaderSelector selector : selectors)
            selector.close();
        say("never two at once: %s", !terms.contains("two at once"));
    }

    private static void barriers() throws Exception {
        DistributedBarrier barrier = new DistributedBarrier(a, "/curator/barrier");
        barrier.setBarrier();
        DistributedBarrier other = new DistributedBarrier(b, "/curator/barrier");
        say("blocked: %s", !other.waitOnBarrier(100, TimeUnit.MILLISECONDS));
        barrier.removeBarrier();
        say("passed: %s", other.waitOnBarrier(LONG_S, TimeUnit.SECONDS));
        ExecutorService pool = Executors.newFixedThreadPool(2);
        List<Future<Boolean>> members = new ArrayList<>();
        for (CuratorFramework client : Arrays.asList(a, b))
            members.add(pool.submit(() -> {
                DistributedDoubleBarrier gate =
                    new DistributedDoubleBarrier(client, "/curator/double", 2);
                return gate.enter(LONG_S, TimeUnit.SECONDS) && gate.leave(LONG_S, TimeUnit.SECONDS);
            }));
        for (Future<Boolean> member : members)
            say("entered and left: %s", member.get());
        pool.shutdown();
    }

    private static void persistentNodes() throws Exception {
        PersistentNode node =
            new PersistentNode(a, CreateMode.EPHEMERAL, false, "/curator/persistent", "x".getBytes());
        node.start();
        say("created: %s", node.waitForInitialCreate(LONG_S, TimeUnit.SECONDS));
        long first = b.checkExists().forPath("/curator/persistent").getCzxid();
        b.delete().forPath("/curator/persistent");
        await("created again", () -> exists("/curator/persistent")
            && b.checkExists().forPath("/curator/persistent").getCzxid() > first);
        node.close();
        await("removed on close", () -> !exists("/curator/persistent"));

        PersistentTtlNode ttl = new PersistentTtlNode(a, "/curator/ttl", 300, "x".getBytes());
        ttl.start();
        say("with a time to live: %s", ttl.waitForInitialCreate(LONG_S, TimeUnit.SECONDS));
        await("touched", () -> exists("/curator/ttl/touch"));
        ttl.close();
        await("expired after close", () -> !exists("/curator/ttl"));

        GroupMember one = new GroupMember(a, "/curator/group", "one", "1".getBytes());
        GroupMember two = new GroupMember(b, "/curator/group", "two", "2".getBytes());
        one.start();
        two.start();
        await("two members", () -> one.getCurrentMembers().size() == 2);
        two.close();
        await("one member", () -> one.getCurrentMembers().size() == 1);
        one.close();
    }

    private static void caches() throws Exception {
        a.createContainers("/curator/cache");
        PathChildrenCache children = new PathChildrenCache(b, "/curator/cache", true);
        children.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
        TreeCache tree = new TreeCache(b, "/curator/cache");
        tree.start();
        a.create().forPath("/curator/cache/x", "1".getBytes());
        a.create().creatingParentsIfNeeded().forPath("/curator/cache/y/z", "2".getBytes());
        await("two children", () -> children.getCurrentData().size() == 2);
        await("the grandchild", () -> tree.getCurrentData("/curator/cache/y/z") != null);
        a.setData().forPath("/curator/cache/x", "3".getBytes());
        await("new data", () -> tree.getCurrentData("/curator/cache/x") != null
            && new String(tree.getCurrentData("/curator/cache/x").getData()).equals("3")
            && new String(children.getCurrentData("/curator/cache/x").getData()).equals("3"));
        a.delete().deletingChildrenIfNeeded().forPath("/curator/cache/y");
        await("one child", () -> children.getCurrentData().size() == 1
            && tree.getCurrentChildren("/curator/cache").size() == 1);
        children.close();
        tree.close();
    }

    private static void counters() throws Exception {
        SharedCount one = new SharedCount(a, "/curator/shared", 5);
        SharedCount two = new SharedCount(b, "/curator/shared", 5);
        one.start();
        two.start();
        say("set: %s", one.trySetCount(one.getVersionedValue(), 6));
        await("seen by the other", () -> two.getCount() == 6);
        one.close();
        two.close();
        ExecutorService pool = Executors.newFixedThreadPool(2);
        List<Future<Integer>> adders = new ArrayList<>();
        for (CuratorFramework client : Arrays.asList(a, b))
            adders.add(pool.submit(() -> {
                DistributedAtomicLong counter = new DistributedAtomicLong(
                    client, "/curator/atomic", new ExponentialBackoffRetry(1, 29));
                int done = 0;
                while (done < 50)
                    done += counter.increment().succeeded() ? 1 : 0;
                return done;
            }));
        for (Future<Integer> adder : adders)
            adder.get();
        pool.shutdown();
        AtomicValue<Long> value =
            new DistributedAtomicLong(a, "/curator/atomic", new ExponentialBackoffRetry(1, 29)).get();
        say("counted: %d", value.postValue());
    }

    private static void queues() throws Exception {
        SimpleDistributedQueue simple = new SimpleDistributedQueue(a, "/curator/simple");
        for (String item : Arrays.asList("x", "y", "z"))
            simple.offer(item.getBytes());
        SimpleDistributedQueue reader = new SimpleDistributedQueue(b, "/curator/simple");
        say("in order: %s %s %s", new String(reader.take()), new String(reader.poll()),
            new String(reader.poll(LONG_S, TimeUnit.SECONDS)));
        List<String> consumed = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch all = new CountDownLatch(20);
        QueueSerializer<String> serializer = new QueueSerializer<String>() {
            @Override
            public byte[] serialize(String item) {
                return item.getBytes();
            }

            @Override
            public String deserialize(byte[] bytes) {
                return new String(bytes);
            }
        };
        QueueConsumer<String> consumer = new QueueConsumer<String>() {
            @Override
            public void consumeMessage(String message) {
                consumed.add(message);
                all.countDown();
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {
            }
        };
        DistributedQueue<String> writer =
            QueueBuilder.builder(a, null, serializer, "/curator/queue").buildQueue();
        DistributedQueue<String> taker = QueueBuilder.builder(b, consumer, serializer, "/curator/queue")
            .lockPath("/curator/queue-locks").buildQueue();
        writer.start();
        taker.start();
        for (int i = 0; i < 20; i++)
            writer.put("m" + i);
        say("all consumed: %s", all.await(LONG_S, TimeUnit.SECONDS));
        Collections.sort(consumed);
        say("each once: %s", consumed.stream().distinct().count() == 20 && consumed.size() == 20);
        writer.close();
        taker.close();
    }

    public static void main(String[] arguments) throws Exception {
        a = connect(arguments[0]);
        b = connect(arguments[0]);
        String[] names = {"mutex", "read-write mutex", "semaphore", "leader latch", "leader selector",
            "barriers", "persistent nodes", "caches", "counters", "queues"};
        Recipe[] recipes = {Recipes::mutex, Recipes::readWriteLock, Recipes::semaphore,
            Recipes::leaderLatch, Recipes::leaderSelector, Recipes::barriers,
            Recipes::persistentNodes, Recipes::caches, Recipes::counters, Recipes::queues};
        int failed = 0;
        for (int i = 0; i < recipes.length; i++) {
            System.out.println(names[i]);
            try {
                recipes[i].run();
            } catch (Exception e) {
                failed++;
                say("FAILED: %s", e);
            }
        }
        a.close();
        b.close();
        System.exit(failed == 0 ? 0 : 1);
    }
}
