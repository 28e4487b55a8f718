"""contend.py PATH ROUNDS SCENE RECIPE: the same as contend.c, as kazoo's contender: lock, rw, election (kazoo's, at a path of locks),
latch (kazoo's election among ours)."""
import os
import sys
import time

import kazoo
from kazoo.client import KazooClient
from kazoo.recipe.lock import ReadLock

KIND = "kazoo"
met = []


def look(scene, mode):
    company = False
    for name in os.listdir(scene):
        their_mode, kind, pid = name.split(".")
        if int(pid) == os.getpid():
            continue
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            try:
                os.unlink(os.path.join(scene, name))
            except FileNotFoundError:
                pass
            continue
        if "w" in (mode, their_mode):
            print("OVERLAP %s.%s.%d with %s" % (mode, KIND, os.getpid(), name))
        company = company or kind != KIND
    return company


def visit(scene, mode):
    name = os.path.join(scene, "%s.%s.%d" % (mode, KIND, os.getpid()))
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o600))
    company = look(scene, mode)
    for _ in range(20 if met else 300):
        if mode == "w" or company:
            break
        time.sleep(0.001)
        company = look(scene, mode)
    if mode == "r" and company:
        print("together")
        met.append(name)
    os.unlink(name)


class Reader(ReadLock):
    """Before 2.9 kazoo's reader waits for writers behind it, too, which wait for it (kazoo #649)."""

    def _get_predecessor(self, node):
        own = node[-10:]
        before = [m.string for m in map(self._contenders_re.search, self.client.get_children(self.path)) if m]
        return max((name for name in before if name[-10:] < own), key=lambda name: name[-10:], default=None)


def play(lock, scene, mode):
    # Without a context manager, whose __enter__ takes no timeout.
    if not lock.acquire(timeout=60):
        sys.exit("kazoo: acquire failed")
    visit(scene, mode)
    print("round kazoo", flush=True)
    lock.release()


def main():
    path, rounds, scene, recipe = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    client = KazooClient(hosts=os.environ["ZKLOCK_SERVERS"], timeout=15.0)
    client.start()
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
            election.run(visit, scene, mode)
            print("round kazoo", flush=True)
        else:
            play(lock, scene, mode)
    client.stop()
    client.close()


main()
