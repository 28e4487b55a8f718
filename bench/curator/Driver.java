import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Driver SERVERS: Curator's InterProcessMutex, by the line protocol of bench/driver.h, jobs sessions and threads. */
public class Driver {
    static CuratorFramework client(String servers) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(servers, 10000, 10000, new ExponentialBackoffRetry(100, 5));
        client.start();
        client.blockUntilConnected();
        return client;
    }

    /** Its sections, as lines. */
    static String takeTurns(int number, InterProcessMutex mutex, CyclicBarrier start, long ms, long holdUs) throws Exception {
        List<long[]> sections = new ArrayList<>();
        start.await();
        long end = System.nanoTime() + ms * 1000000;
        do {
            long asked = System.nanoTime();
            mutex.acquire();
            long granted = System.nanoTime();
            if (holdUs > 0) {
                Thread.sleep(holdUs / 1000, (int)(holdUs % 1000 * 1000));
            }
            long released = System.nanoTime();
            mutex.release();
            sections.add(new long[] {asked, granted, released, System.nanoTime()});
        } while (System.nanoTime() < end);
        StringBuilder lines = new StringBuilder();
        for (long[] s : sections) {
            lines.append(number + " " + s[0] + " " + s[1] + " " + s[2] + " " + s[3] + "\n");
        }
        return lines.toString();
    }

    public static void main(String[] args) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        ExecutorService threads = Executors.newCachedThreadPool();
        List<CuratorFramework> clients = new ArrayList<>();
        List<Callable<String>> contenders = new ArrayList<>();
        for (String order = orders.readLine(); order != null; order = orders.readLine()) {
            String[] words = order.split(" ");
            if (words[0].equals("run")) {
                CyclicBarrier start = new CyclicBarrier(Integer.parseInt(words[2]));
                for (int i = 0; i < start.getParties(); i++) {
                    if (i == 0 || words[1].equals("sessions")) {
                        clients.add(client(args[0]));
                    }
                    int number = i;
                    InterProcessMutex mutex = new InterProcessMutex(clients.get(clients.size() - 1), words[5]);
                    contenders.add(() -> takeTurns(number, mutex, start, Long.parseLong(words[3]), Long.parseLong(words[4])));
                }
                System.out.println("ready");
            } else if (words[0].equals("go")) {
                for (Future<String> sections : threads.invokeAll(contenders)) {
                    System.out.print(sections.get());
                }
                System.out.println("end");
            } else {
                for (CuratorFramework client : clients) {
                    client.close();
                }
                clients.clear();
                contenders.clear();
                System.out.println("closed");
            }
            System.out.flush();
        }
        threads.shutdown();
    }
}
