"""contend.py PATH ROUNDS SCENE: the same as contend.c, as kazoo's contender."""
import os
import sys

from kazoo.client import KazooClient


def enter(scene):
    while True:
        try:
            fd = os.open(scene, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            os.write(fd, str(os.getpid()).encode())
            os.close(fd)
            return True
        except FileExistsError:
            try:
                with open(scene, encoding="ascii") as file:
                    owner = int(file.read())
                os.kill(owner, 0)
                return False
            except ProcessLookupError:
                os.unlink(scene)
            except (FileNotFoundError, ValueError):
                return False


def main():
    path, rounds, scene = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    client = KazooClient(hosts=os.environ["ZKLOCK_SERVERS"], timeout=5.0)
    client.start()
    # Without the pattern kazoo does not see contenders of other clients at all.
    lock = client.Lock(path, "kazoo", extra_lock_patterns=["lock-"])
    for _ in range(rounds):
        if not lock.acquire(timeout=60):
            sys.exit("kazoo: acquire failed")
        if not enter(scene):
            print("OVERLAP kazoo", os.getpid())
        os.unlink(scene)
        print("round kazoo", flush=True)
        lock.release()
    client.stop()
    client.close()


main()
