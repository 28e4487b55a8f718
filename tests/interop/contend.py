"""contend.py PATH ROUNDS RECIPE: the same as contend.c, as kazoo's contender: lock, rw, election (kazoo's, at a path of locks),
latch (kazoo's election among ours)."""
import os
import sys
import time

import kazoo
from kazoo.client import KazooClient
from kazoo.recipe.lock import ReadLock

KIND = "kazoo"


def print_time(event, mode):
    print(time.time_ns(), event, mode, KIND, os.getpid(), flush=True)


def visit(mode):
    print_time("in", mode)
    time.sleep(0.001 if mode == "w" else 0.02)
    print_time("out", mode)


class Reader(ReadLock):
    """Before 2.9 kazoo's reader waits for writers behind it, too, which wait for it (kazoo #649)."""

    def _get_predecessor(self, node):
        own = node[-10:]
        before = [m.string for m in map(self._contenders_re.search, self.client.get_children(self.path)) if m]
        return max((name for name in before if name[-10:] < own), key=lambda name: name[-10:], default=None)


def play(lock, mode):
    # Without a context manager, whose __enter__ takes no timeout.
    if not lock.acquire(timeout=60):
        sys.exit("kazoo: acquire failed")
    visit(mode)
    print("round kazoo", flush=True)
    lock.release()


def main():
    path, rounds, recipe = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    client = KazooClient(hosts=os.environ["ZKLOCK_SERVERS"], timeout=15.0)
    client.start()
    print("ready", flush=True)
    sys.stdin.read()
    # Without patterns kazoo does not see contenders of other clients at all.
    if recipe == "rw":
        reader = Reader if kazoo.__version__ < "2.9" else ReadLock
        locks = [
            (client.WriteLock(path, KIND, extra_lock_patterns=["__READ__", "__WRIT__"]), "w"),
            (reader(client, path, KIND, extra_lock_patterns=["__WRIT__"]), "r"),
        ]
    else:
        locks = [(client.Lock(path, KIND, extra_lock_patterns=["lock-", "latch-"]), "w")]
    for i in range(rounds):
        lock, mode = locks[i % len(locks)]
        if recipe in ("election", "latch"):
            election = client.Election(path, KIND)
            election.lock = lock  # it has no option for patterns
            election.run(visit, mode)
            print("round kazoo", flush=True)
        else:
            play(lock, mode)
    client.stop()
    client.close()


main()
