"""kazoo_driver.py SERVERS: kazoo's Lock, by the line protocol of bench/driver.h. Sessions are processes: in one process they would share
the interpreter's lock, which is not the lock that is measured."""
import multiprocessing
import sys
import threading
import time

from kazoo.client import KazooClient


def connect(servers):
    client = KazooClient(hosts=servers, timeout=10.0)
    client.start()
    return client


def disconnect(client):
    client.stop()
    client.close()


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
    client = connect(servers)
    lock = client.Lock(path)
    pipe.send("ready")
    pipe.recv()
    pipe.send(take_turns(lock, ms, hold_us))
    pipe.recv()
    disconnect(client)
    pipe.send("closed")


class Sessions:
    def __init__(self, servers, contenders, ms, hold_us, path):
        self.pipes = []
        for _ in range(contenders):
            ours, theirs = multiprocessing.Pipe()
            multiprocessing.Process(target=session, args=(theirs, servers, ms, hold_us, path), daemon=True).start()
            self.pipes.append(ours)
        for pipe in self.pipes:
            pipe.recv()

    def go(self):
        for pipe in self.pipes:
            pipe.send("go")
        return [pipe.recv() for pipe in self.pipes]

    def close(self):
        for pipe in self.pipes:
            pipe.send("close")
            pipe.recv()


class Threads:
    """Threads of one session, a Lock object for each."""

    def __init__(self, servers, contenders, ms, hold_us, path):
        self.client = connect(servers)
        self.arguments = (ms, hold_us)
        self.locks = [self.client.Lock(path) for _ in range(contenders)]

    def go(self):
        results = [None] * len(self.locks)

        def run(i):
            results[i] = take_turns(self.locks[i], *self.arguments)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(len(self.locks))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    def close(self):
        disconnect(self.client)


def main():
    run = None
    for order in sys.stdin:
        words = order.split()
        if words[0] == "run" and words[1] in ("sessions", "threads"):
            kind = Sessions if words[1] == "sessions" else Threads
            run = kind(sys.argv[1], int(words[2]), int(words[3]), int(words[4]), words[5])
            print("ready", flush=True)
        elif words[0] == "run":
            print("skip no such job here:", words[1], flush=True)
        elif words[0] == "go":
            for contender, sections in enumerate(run.go()):
                for section in sections:
                    print(contender, *section)
            print("end", flush=True)
        elif words[0] == "close":
            run.close()
            print("closed", flush=True)


main()
