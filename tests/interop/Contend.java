import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.CreateMode;

/** Contend PATH ROUNDS SCENE RECIPE: the same as contend.c, as Curator's contender: lock, rw, latch, selector, semaphore. */
public class Contend {
    static final long PID = ProcessHandle.current().pid();
    static Path scene;
    static boolean met;

    static boolean look(String mode) throws IOException {
        List<String> names;
        try (Stream<Path> files = Files.list(scene)) {
            names = files.map(file -> file.getFileName().toString()).collect(Collectors.toList());
        }
        boolean company = false;
        for (String name : names) {
            String[] parts = name.split("\\.");
            long pid = Long.parseLong(parts[2]);
            if (pid == PID) {
                continue;
            }
            if (!ProcessHandle.of(pid).map(ProcessHandle::isAlive).orElse(false)) {
                Files.deleteIfExists(scene.resolve(name));
                continue;
            }
            if (mode.equals("w") || parts[0].equals("w")) {
                System.out.println("OVERLAP " + mode + ".curator." + PID + " with " + name);
            }
            company |= !parts[1].equals("curator");
        }
        return company;
    }

    static void visit(String mode) throws Exception {
        Path own = scene.resolve(mode + ".curator." + PID);
        Files.createFile(own);
        boolean company = look(mode);
        for (int i = 0; mode.equals("r") && !company && i < (met ? 20 : 300); i++) {
            Thread.sleep(1);
            company = look(mode);
        }
        if (mode.equals("r") && company) {
            System.out.println("together");
            met = true;
        }
        Files.delete(own);
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
        scene = Path.of(args[2]);
        CuratorFramework client = newClient();
        client.start();
        int rounds = Integer.parseInt(args[1]);
        if (args[3].equals("rw")) {
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
            Contender contender = contender(client, args[0], args[3]);
            for (int i = 0; i < rounds; i++) {
                play(contender, "w");
            }
        }
        client.close();
    }
}
