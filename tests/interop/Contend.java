import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Contend PATH ROUNDS SCENE [lock|latch|semaphore]: the same as contend.c, as Curator's contender. */
public class Contend {
    static boolean enter(Path scene) throws Exception {
        while (true) {
            try {
                Files.writeString(scene, Long.toString(ProcessHandle.current().pid()), StandardOpenOption.CREATE_NEW);
                return true;
            } catch (FileAlreadyExistsException e) {
                try {
                    long owner = Long.parseLong(Files.readString(scene));
                    if (ProcessHandle.of(owner).map(ProcessHandle::isAlive).orElse(false)) {
                        return false;
                    }
                    Files.deleteIfExists(scene);
                } catch (NoSuchFileException | NumberFormatException gone) {
                    return false;
                }
            }
        }
    }

    interface Contender {
        /** What gives it back; null: not granted. */
        AutoCloseable take() throws Exception;
    }

    static Contender contender(CuratorFramework client, String path, String recipe) {
        switch (recipe) {
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
            InterProcessMutex mutex = new InterProcessMutex(client, path);
            return () -> mutex.acquire(60, TimeUnit.SECONDS) ? mutex::release : null;
        }
    }

    public static void main(String[] args) throws Exception {
        Path scene = Path.of(args[2]);
        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(System.getenv("ZKLOCK_SERVERS"))
            .sessionTimeoutMs(5000)
            .connectionTimeoutMs(5000)
            .retryPolicy(new ExponentialBackoffRetry(100, 5))
            .build();
        client.start();
        Contender contender = contender(client, args[0], args.length > 3 ? args[3] : "lock");
        for (int round = Integer.parseInt(args[1]); round > 0; round--) {
            AutoCloseable held = contender.take();
            if (held == null) {
                throw new IllegalStateException("acquire failed");
            }
            if (!enter(scene)) {
                System.out.println("OVERLAP curator " + ProcessHandle.current().pid());
            }
            Files.deleteIfExists(scene);
            System.out.println("round curator");
            held.close();
        }
        client.close();
    }
}
