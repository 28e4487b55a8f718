import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.UUID;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.*;
import org.apache.curator.framework.recipes.locks.*;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.CreateMode;

/** Contend PATH ROUNDS RECIPE: the same as contend.c, as Curator's contender: lock, rw, latch, selector, semaphore. */
public class Contend {
    static final long PID = ProcessHandle.current().pid();

    static void printTime(String event, String mode) {
        long now = ChronoUnit.NANOS.between(Instant.EPOCH, Instant.now());
        System.out.println(now + " " + event + " " + mode + " curator " + PID);
    }

    static void visit(String mode) throws Exception {
        printTime("in", mode);
        Thread.sleep(mode.equals("w") ? 1 : 20);
        printTime("out", mode);
    }

    interface Contender {
        /** What gives it back; null: not granted. */
        AutoCloseable take() throws Exception;
    }

    static Contender selector(CuratorFramework client, String path) {
        Semaphore leads = new Semaphore(0);
        Semaphore ends = new Semaphore(0);
        LeaderSelector selector = new LeaderSelector(client, path, new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework ignored) throws Exception {
                leads.release();
                ends.acquire();
            }
        });
        selector.autoRequeue();
        selector.start();
        return () -> leads.tryAcquire(60, TimeUnit.SECONDS) ? ends::release : null;
    }

    static Contender contender(CuratorFramework client, String path, String recipe) {
        switch (recipe) {
        case "selector":
            return selector(client, path);
        case "latch":
            return () -> {
                LeaderLatch latch = new LeaderLatch(client, path, "java");
                latch.start();
                return latch.await(60, TimeUnit.SECONDS) ? latch : null;
            };
        case "semaphore":
            InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, 1);
            return () -> {
                Lease lease = semaphore.acquire(60, TimeUnit.SECONDS);
                return lease == null ? null : () -> semaphore.returnLease(lease);
            };
        default:
            return mutex(new InterProcessMutex(client, path));
        }
    }

    static Contender mutex(InterProcessMutex mutex) {
        return () -> mutex.acquire(60, TimeUnit.SECONDS) ? mutex::release : null;
    }

    static AutoCloseable take(Contender contender) throws Exception {
        AutoCloseable held = contender.take();
        if (held == null) {
            throw new IllegalStateException("acquire failed");
        }
        return held;
    }

    static void play(Contender contender, String mode) throws Exception {
        AutoCloseable held = take(contender);
        visit(mode);
        System.out.println("round curator");
        held.close();
    }

    /**
     * Becomes a reader while it writes as Curator does since CURATOR-621 was mended: a reader's znode with the writer's number. Debian's 5.4.0 is
     * older, and lets the next writer in between, its own kind, too.
     */
    static void downgrade(CuratorFramework client, String path, InterProcessMutex writer) throws Exception {
        AutoCloseable writes = take(mutex(writer));
        visit("w");
        String own = writer.getParticipantNodes().iterator().next();
        String number = own.substring(own.length() - 10);
        String reader = path + "/_c_" + UUID.randomUUID() + "-__READ__" + number;
        client.create().withMode(CreateMode.EPHEMERAL).forPath(reader);
        writes.close();
        visit("r");
        System.out.println("round curator");
        client.delete().forPath(reader);
    }

    static CuratorFramework newClient() {
        return CuratorFrameworkFactory.builder()
            .connectString(System.getenv("ZKLOCK_SERVERS"))
            .sessionTimeoutMs(15000)
            .connectionTimeoutMs(15000)
            .retryPolicy(new ExponentialBackoffRetry(100, 5))
            .build();
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = newClient();
        client.start();
        client.blockUntilConnected();
        System.out.println("ready");
        System.in.read();
        int rounds = Integer.parseInt(args[1]);
        if (args[2].equals("rw")) {
            InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, args[0]);
            Contender writer = mutex(lock.writeLock());
            Contender reader = mutex(lock.readLock());
            for (int i = 0; i < rounds; i++) {
                switch (i % 3) {
                case 0: play(writer, "w"); break;
                case 1: play(reader, "r"); break;
                default: downgrade(client, args[0], lock.writeLock());
                }
            }
        } else {
            Contender contender = contender(client, args[0], args[2]);
            for (int i = 0; i < rounds; i++) {
                play(contender, "w");
            }
        }
        client.close();
    }
}
