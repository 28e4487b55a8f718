import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Contend PATH ROUNDS SCENE: the same as contend.c, as Curator's contender. */
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

    public static void main(String[] args) throws Exception {
        Path scene = Path.of(args[2]);
        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(System.getenv("ZKLOCK_SERVERS"))
            .sessionTimeoutMs(5000)
            .connectionTimeoutMs(5000)
            .retryPolicy(new ExponentialBackoffRetry(100, 5))
            .build();
        client.start();
        InterProcessMutex mutex = new InterProcessMutex(client, args[0]);
        for (int round = Integer.parseInt(args[1]); round > 0; round--) {
            if (!mutex.acquire(60, TimeUnit.SECONDS)) {
                throw new IllegalStateException("acquire failed");
            }
            if (!enter(scene)) {
                System.out.println("OVERLAP curator " + ProcessHandle.current().pid());
            }
            Files.deleteIfExists(scene);
            System.out.println("round curator");
            mutex.release();
        }
        client.close();
    }
}
