"""meet.py PATH ROUNDS SCENE RECIPE INDEX: the same as meet.c, as kazoo's member: group (Party), barrier (Barrier)."""
import os
import signal
import sys
import time

from kazoo.client import KazooClient

MEMBERS = 4
LONG = 60

base, rounds, scene, recipe, own = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])


def mark(what, number):
    with open("%s/%s.%d.%d" % (scene, what, number, own), "w", encoding="ascii"):
        pass


def marks(what, number):
    return sum(os.path.exists("%s/%s.%d.%d" % (scene, what, number, i)) for i in range(MEMBERS))


def die(what):
    print("FAILED kazoo.%d: %s" % (own, what), flush=True)
    os._exit(1)


def wait_for(what, count, look):
    end = time.monotonic() + LONG
    while look() != count:
        if time.monotonic() > end:
            die(what + ": never so many")
        time.sleep(0.02)


def who_go(number):
    return MEMBERS // 2 if number == rounds - 1 else MEMBERS


def stay_or_go(number):
    if number == rounds - 1:
        print("waits", flush=True)
        if own % 2 == 1:
            signal.pause()


def group(client, path, number):
    party = client.Party(path, "kazoo")

    def listed():
        return len([data for data in party if data])

    party.join()
    wait_for("members", MEMBERS, listed)
    mark("saw", number)
    stay_or_go(number)
    wait_for("saw", MEMBERS, lambda: marks("saw", number))
    if who_go(number) < MEMBERS:
        wait_for("members", who_go(number), listed)
        mark("saw-the-rest", number)
        wait_for("saw-the-rest", who_go(number), lambda: marks("saw-the-rest", number))
    party.leave()
    wait_for("members", 0, listed)


def plain(client, path, number):
    barrier = client.Barrier(path)
    if number % MEMBERS == own:
        barrier.create()
        mark("set", number)
        wait_for("here", MEMBERS - 1, lambda: marks("here", number))
        mark("lift", number)
        barrier.remove()
    else:
        wait_for("set", 1, lambda: marks("set", number))
        mark("here", number)
        if not barrier.wait(LONG):
            die("wait")
        if marks("lift", number) != 1:
            die("lift: too early")


client = KazooClient(hosts=os.environ["ZKLOCK_SERVERS"], timeout=15.0)
client.start()
for i in range(rounds):
    {"group": group, "barrier": plain}[recipe](client, "%s/%d" % (base, i), i)
    print("round kazoo", flush=True)
client.stop()
client.close()
