"""bench.py BUILD_DIR OUT_DIR [--quick | --smoke | --rounds N]: sets the drivers against each other on the same jobs, in turn, and writes measurements.md
and img/*.svg to OUT_DIR. scripts/bench calls it."""
import sys
import time

import machine
from figures import Runs, figures
from report import write_report
from systems import SYSTEMS, Driver, DriverEnded, Missing, Postgres, Redis, ZooKeeper

QUEUES = ["zklock", "curator", "kazoo"]
POLLERS = ["redis10", "redis100", "postgres100"]

# job: (the drivers' job, contenders, section in us, times the usual length, systems, places)
JOBS = {
    "free": ("sessions", 1, 0, 1, ["raw", *QUEUES, *POLLERS[1:]], ["tmpfs", "disk", "three"]),
    "eight": ("sessions", 8, 0, 1, [*QUEUES, *POLLERS], ["tmpfs", "disk", "three"]),
    "threads": ("threads", 8, 0, 1, QUEUES, ["tmpfs"]),
    "pair": ("sessions", 2, 2000, 1, QUEUES, ["tmpfs"]),
    "relay": ("relay", 2, 2000, 1, ["zklock"], ["tmpfs"]),
    "event": ("event", 2, 2000, 1, ["raw"], ["tmpfs"]),
    "read": ("read", 1, 2000, 1, ["raw"], ["tmpfs"]),
    "busy": ("sessions", 8, 50000, 3, [*QUEUES, *POLLERS], ["tmpfs"]),
}


class Size:
    """How much of everything."""

    def __init__(self, word, rounds=9):
        self.word = word
        smoke, quick = word == "--smoke", word == "--quick"
        self.rounds = 1 if smoke else 3 if quick else rounds
        self.warm_up = 0 if smoke else 1 if quick else 2
        self.contenders = 3 if smoke else 8  # at most, but for crowds
        self.ms = 50 if smoke else 300 if quick else 1000
        self.places = ["tmpfs"] if smoke else ["tmpfs", "disk", "three"]
        self.waiters = [10] if smoke else [10, 1000] if quick else [10, 100, 1000, 5000]
        self.waiters_rounds = 1 if smoke else 2 if quick else max(1, rounds // 3)
        self.held = 100 if smoke else 10000
        self.pending = 100 if smoke else 5000
        self.wait_ms = 200 if smoke else 10000 if quick else 60000


class Bench:
    def __init__(self, build, size):
        self.build, self.size = build, size
        self.runs, self.missing = Runs(), {}
        self.servers, self.drivers, self.paths = {}, {}, 0

    def server(self, kind, place):
        key = place if kind == "zookeeper" else kind
        if key not in self.servers:
            self.servers[key] = {"zookeeper": lambda: ZooKeeper(self.build, place), "redis": Redis, "postgres": Postgres}[kind]()
        return self.servers[key]

    def leave_out(self, system, why):
        print(f"bench: {system} is left out: {why}", flush=True)
        self.missing[system] = why

    def driver(self, system, place):
        """None: something that it needs is missing, and a line says what."""
        if system in self.missing:
            return None
        if (system, place) not in self.drivers:
            _, command, kind, more = SYSTEMS[system]
            try:
                words = command(self.build)
                self.drivers[system, place] = Driver([*words, self.server(kind, place).servers, *more])
            except Missing as missing:
                self.leave_out(system, str(missing))
                return None
        return self.drivers[system, place]

    def run(self, job, place, system, number, words, look=None):
        """words: the drivers' job, contenders, ms, section in us. Round 0 is for warming up."""
        driver = self.driver(system, place)
        if not driver:
            return
        server = self.server(SYSTEMS[system][2], place)
        self.paths += 1
        look = look or (lambda: server.counters() if SYSTEMS[system][2] == "zookeeper" else None)
        try:
            answer = driver.run(*words, f"/bench/{self.paths}", look, server.process.pid)
        except DriverEnded as ended:
            if system in ("raw", "zklock"):
                raise
            self.leave_out(system, str(ended))
            return
        if answer and number > 0:
            self.runs.add(job, place, system, number, figures(job, *answer))

    def play(self, number):
        """Every job once, every system in turn; in odd rounds the other way round."""
        for job, (kind, contenders, hold_us, length, systems, places) in JOBS.items():
            for place in places:
                if place not in self.size.places:
                    continue
                for system in systems if number % 2 == 0 else reversed(systems):
                    if SYSTEMS[system][2] == "zookeeper" or place == "tmpfs":
                        few = min(contenders, self.size.contenders)
                        self.run(job, place, system, number, (kind, few, self.size.ms * length, hold_us))

    def watches_set(self, count):
        """Looks once all but the holder watch the one before."""
        server, end = self.server("zookeeper", "tmpfs"), time.monotonic() + 60
        while server.counters()["watches"] < count and time.monotonic() < end:
            time.sleep(0.01)
        return server.counters()

    def crowds(self):
        size = self.size
        for number in range(1, size.waiters_rounds + 1):
            for count in size.waiters:
                looks = iter([lambda: None, lambda n=count: self.watches_set(n - 1)])
                counters = self.server("zookeeper", "tmpfs").counters
                self.run(f"waiters{count}", "tmpfs", "zklock", number, ("waiters", count, 0, 2000),
                         lambda it=looks, last=counters: next(it, last)())
        for system in ("raw", "zklock"):
            self.run("idle", "tmpfs", system, 1, ("idle", 8, size.wait_ms, 0))
        for count in (1, 9):
            self.run(f"wait{count}", "tmpfs", "zklock", 1, ("wait", count, size.wait_ms, 0))
        self.run("held", "tmpfs", "zklock", 1, ("held", size.held, size.wait_ms // 4, 0))
        self.run("held1", "tmpfs", "zklock", 1, ("held", 1, size.wait_ms // 4, 0))
        self.run("pending", "tmpfs", "zklock", 1, ("pending", size.pending, 0, 0))

    def go(self):
        for _ in range(self.size.warm_up):
            self.play(0)
        for number in range(1, self.size.rounds + 1):
            print(f"bench: round {number} of {self.size.rounds}", flush=True)
            self.play(number)
        print("bench: many waiters, many locks, long waits", flush=True)
        self.crowds()

    def stop(self):
        for child in [*self.drivers.values(), *self.servers.values()]:
            child.stop()


def main():
    words = sys.argv[3:]
    counted = len(words) == 2 and words[0] == "--rounds" and words[1].isdecimal() and int(words[1]) > 0
    if len(sys.argv) < 3 or not (counted or words in ([], ["--quick"], ["--smoke"])):
        sys.exit(__doc__)
    bench = Bench(sys.argv[1], Size(" ".join(words), int(words[1])) if counted else Size("".join(words)))
    began, where = time.monotonic(), machine.describe()
    try:
        bench.go()
    except Missing as missing:  # of the servers, without which there is nothing to measure
        sys.exit(f"bench: {missing}")
    finally:
        bench.stop()
    sys.exit(0 if write_report(bench, sys.argv[2], where, time.monotonic() - began) else 1)


main()
