import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Driver SERVERS: Curator's InterProcessMutex, by the line protocol of bench/driver.h. */
public class Driver {
    static CuratorFramework client(String servers) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(servers)
            .sessionTimeoutMs(10000)
            .connectionTimeoutMs(10000)
            .retryPolicy(new ExponentialBackoffRetry(100, 5))
            .build();
        client.start();
        client.blockUntilConnected();
        return client;
    }

    static class Contender extends Thread {
        final InterProcessMutex mutex;
        final List<long[]> sections = new ArrayList<>();
        CyclicBarrier start;
        long ms, holdUs;
        Exception failure;

        Contender(CuratorFramework client, String path) {
            mutex = new InterProcessMutex(client, path);
        }

        public void run() {
            try {
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
            } catch (Exception e) {
                failure = e;
            }
        }
    }

    static void go(List<Contender> contenders) throws Exception {
        for (Contender contender : contenders) {
            contender.start();
        }
        StringBuilder out = new StringBuilder();
        for (int i = 0; i < contenders.size(); i++) {
            contenders.get(i).join();
            if (contenders.get(i).failure != null) {
                throw contenders.get(i).failure;
            }
            for (long[] s : contenders.get(i).sections) {
                out.append(i + " " + s[0] + " " + s[1] + " " + s[2] + " " + s[3] + "\n");
            }
        }
        System.out.print(out + "end\n");
    }

    public static void main(String[] args) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        List<CuratorFramework> clients = new ArrayList<>();
        List<Contender> contenders = new ArrayList<>();
        for (String order = orders.readLine(); order != null; order = orders.readLine()) {
            String[] words = order.split(" ");
            if (words[0].equals("run") && (words[1].equals("sessions") || words[1].equals("threads"))) {
                CyclicBarrier start = new CyclicBarrier(Integer.parseInt(words[2]));
                for (int i = 0; i < start.getParties(); i++) {
                    if (i == 0 || words[1].equals("sessions")) {
                        clients.add(client(args[0]));
                    }
                    Contender contender = new Contender(clients.get(clients.size() - 1), words[5]);
                    contender.start = start;
                    contender.ms = Long.parseLong(words[3]);
                    contender.holdUs = Long.parseLong(words[4]);
                    contenders.add(contender);
                }
                System.out.println("ready");
            } else if (words[0].equals("run")) {
                System.out.println("skip no such job here: " + words[1]);
            } else if (words[0].equals("go")) {
                go(contenders);
            } else if (words[0].equals("close")) {
                for (CuratorFramework client : clients) {
                    client.close();
                }
                clients.clear();
                contenders.clear();
                System.out.println("closed");
            }
            System.out.flush();
        }
    }
}
