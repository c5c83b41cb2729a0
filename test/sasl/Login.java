import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;

/**
 * Connects with the JAAS configuration of the JVM; prints what a request gets once it is decided, then all
 * states in their order: they come on a thread of their own, at any time.
 */
public class Login {
    public static void main(String[] arguments) throws Exception {
        CountDownLatch decided = new CountDownLatch(1);
        List<String> states = Collections.synchronizedList(new ArrayList<>());
        ZooKeeper client = new ZooKeeper(arguments[0], 30000, event -> {
            states.add(event.getType() + " " + event.getState());
            if (event.getState() == Watcher.Event.KeeperState.AuthFailed
                || event.getState() == Watcher.Event.KeeperState.SaslAuthenticated)
                decided.countDown();
        });
        System.out.println(decided.await(60, TimeUnit.SECONDS) ? "decided" : "still trying");
        try {
            client.exists("/", false);
            System.out.println("exists");
        } catch (KeeperException e) {
            System.out.println(e.code());
        }
        System.out.println(client.getState() + " " + client.getState().isAlive());
        client.close(60000);
        states.forEach(System.out::println);
    }
}
