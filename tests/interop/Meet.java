import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.IntSupplier;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.*;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.state.ConnectionState;

/** Meet PATH ROUNDS SCENE RECIPE INDEX: the same as meet.c, as Curator's member: group, double, barrier. */
public class Meet {
    static final int MEMBERS = 4;
    static final long LONG = 60;
    static String recipe;
    static Path scene;
    static int rounds;
    static int own;
    static volatile int current;

    static Path place(String what, int round, int who) {
        return scene.resolve(what + "." + round + "." + who);
    }

    static void mark(String what, int round) throws Exception {
        Files.createFile(place(what, round, own));
    }

    static int marks(String what, int round) {
        int count = 0;
        for (int i = 0; i < MEMBERS; i++) {
            count += Files.exists(place(what, round, i)) ? 1 : 0;
        }
        return count;
    }

    static void check(boolean fine, String what) {
        if (!fine) {
            fail(what);
        }
    }

    static void fail(String what) {
        try {
            Thread.sleep(2000); // a lost connection, if that is why, is told on another thread, which ends us
        } catch (InterruptedException e) {
            // nobody does that
        }
        System.out.println("FAILED curator." + own + ": " + what);
        Runtime.getRuntime().halt(1);
    }

    /**
     * The watcher of Curator 5.4's double barrier takes every event for "ready", that of a lost connection, too
     * (DistributedDoubleBarrier.watcher): a member that is cut off for a moment is let in alone, or gets an exception.
     * Neither says anything about this library: the meeting ends, with an exit code of its own.
     */
    static void endWhenCutOff(ConnectionState state) {
        boolean cut = state == ConnectionState.SUSPENDED || state == ConnectionState.LOST;
        if (cut && current < rounds) {
            System.out.println("curator." + own + " lost its connection in round " + current
                + ": its double barrier may let it in for that");
            Runtime.getRuntime().halt(3);
        }
    }

    static void await(String what, int count, IntSupplier look) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(LONG);
        while (look.getAsInt() != count) {
            check(System.nanoTime() < end, what + ": never so many");
            Thread.sleep(20);
        }
    }

    static int whoGo(int round) {
        return round == rounds - 1 ? MEMBERS / 2 : MEMBERS;
    }

    static void stayOrGo(int round) throws Exception {
        if (round == rounds - 1) {
            System.out.println("waits");
            if (own % 2 == 1) {
                Thread.currentThread().join();
            }
        }
    }

    static void group(CuratorFramework client, String path, int round) throws Exception {
        GroupMember member = new GroupMember(client, path, "curator-" + own, "data".getBytes());
        IntSupplier listed = () -> {
            Map<String, byte[]> members = member.getCurrentMembers();
            return (int) members.values().stream().filter(data -> data.length > 0).count();
        };
        member.start();
        await("members", MEMBERS, listed);
        mark("saw", round);
        stayOrGo(round);
        await("saw", MEMBERS, () -> marks("saw", round));
        if (whoGo(round) < MEMBERS) {
            await("members", whoGo(round), listed);
            mark("saw-the-rest", round);
            await("saw-the-rest", whoGo(round), () -> marks("saw-the-rest", round));
        }
        member.close();
    }

    /**
     * Curator 5.4's enter waits for ever when "ready" comes between its list and its wait: it has been told, and then asks Object.wait for no
     * time at all, since nobody tells it again (internalEnter). With "ready" there and long told, one more wake-up is what it lacks.
     */
    static Thread tellAgain(CuratorFramework client, String path, Object barrier) {
        Thread thread = new Thread(() -> {
            try {
                while (client.checkExists().forPath(path + "/ready") == null) {
                    Thread.sleep(50);
                }
                Thread.sleep(3000);
                synchronized (barrier) {
                    barrier.notifyAll();
                }
            } catch (Exception e) {
                // it has entered, and interrupts us
            }
        });
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    static void doubleBarrier(CuratorFramework client, String path, int round) throws Exception {
        DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, path, MEMBERS);
        mark("in", round);
        Thread again = tellAgain(client, path, barrier);
        check(barrier.enter(LONG, TimeUnit.SECONDS), "enter");
        again.interrupt();
        again.join();
        check(marks("in", round) == MEMBERS, "in: too early");
        stayOrGo(round);
        mark("out", round);
        check(barrier.leave(LONG, TimeUnit.SECONDS), "leave");
        // Curator's leave returns when it is woken while one member is left, whoever that is (internalLeave: children.size() == 1).
        check(marks("out", round) >= whoGo(round) - 1, "out: too early");
    }

    static void barrier(CuratorFramework client, String path, int round) throws Exception {
        DistributedBarrier barrier = new DistributedBarrier(client, path);
        if (round % MEMBERS == own) {
            barrier.setBarrier();
            mark("set", round);
            await("here", MEMBERS - 1, () -> marks("here", round));
            mark("lift", round);
            barrier.removeBarrier();
        } else {
            await("set", 1, () -> marks("set", round));
            mark("here", round);
            check(barrier.waitOnBarrier(LONG, TimeUnit.SECONDS), "wait");
            check(marks("lift", round) == 1, "lift: too early");
        }
    }

    public static void main(String[] args) throws Exception {
        rounds = Integer.parseInt(args[1]);
        scene = Path.of(args[2]);
        recipe = args[3];
        own = Integer.parseInt(args[4]);
        CuratorFramework client = Contend.newClient();
        if (recipe.equals("double")) {
            client.getConnectionStateListenable().addListener((ignored, state) -> endWhenCutOff(state));
        }
        client.start();
        try {
            meet(client, args[0]);
        } catch (Exception e) {
            fail(e.toString());
        }
        current = rounds;
        client.close();
    }

    static void meet(CuratorFramework client, String base) throws Exception {
        for (int round = 0; round < rounds; round++) {
            current = round;
            String path = base + "/" + round;
            switch (recipe) {
            case "group": group(client, path, round); break;
            case "double": doubleBarrier(client, path, round); break;
            default: barrier(client, path, round);
            }
            System.out.println("round curator");
        }
    }
}
