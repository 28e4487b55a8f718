"""kazoo_driver.py SERVERS: kazoo's Lock, by the line protocol of bench/driver.h, job sessions. Sessions are processes: in one process they would
share the interpreter's lock, which is not the lock that is measured."""
import multiprocessing
import sys
import time

from kazoo.client import KazooClient


def take_turns(lock, ms, hold_us):
    sections = []
    now = time.monotonic_ns
    end = now() + ms * 1000000
    while True:
        asked = now()
        lock.acquire()
        granted = now()
        if hold_us:
            time.sleep(hold_us / 1e6)
        released = now()
        lock.release()
        done = now()
        sections.append((asked, granted, released, done))
        if done >= end:
            return sections


def session(pipe, servers, ms, hold_us, path):
    """The process of one session: a word on the pipe, then its sections, then the next word ends it."""
    client = KazooClient(hosts=servers, timeout=10.0)
    client.start()
    lock = client.Lock(path)
    pipe.send("ready")
    pipe.recv()
    pipe.send(take_turns(lock, ms, hold_us))
    pipe.recv()
    client.stop()
    client.close()
    pipe.send("closed")


def main():
    pipes = []
    for order in sys.stdin:
        words = order.split()
        if words[0] == "run":
            _, _, contenders, ms, hold_us, path = words
            for _ in range(int(contenders)):
                ours, theirs = multiprocessing.Pipe()
                pipes.append(ours)
                multiprocessing.Process(target=session, args=(theirs, sys.argv[1], int(ms), int(hold_us), path), daemon=True).start()
        else:
            for pipe in pipes:
                pipe.send(words[0])
        answers = [pipe.recv() for pipe in pipes]
        if words[0] == "go":
            for contender, sections in enumerate(answers):
                for section in sections:
                    print(contender, *section)
        elif words[0] == "close":
            pipes = []
        print({"run": "ready", "go": "end", "close": "closed"}[words[0]], flush=True)


main()
