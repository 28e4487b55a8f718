"""bench.py BUILD_DIR OUT_DIR [--quick | --smoke | --rounds N]: sets the drivers against each other on the same jobs, in turn, and writes measurements.md
and img/*.svg to OUT_DIR, and the page's short table into the README beside it, if there is one. scripts/bench calls it."""
import itertools
import signal
import sys
import threading
import time
from typing import NamedTuple

import command
import machine
import wakeups
from figures import Runs, figures
from report import write_report
from short import write_readme
from systems import SYSTEMS, Driver, DriverEnded, Missing, Postgres, Redis, ZooKeeper

OURS = ["zklock", "listing"]
QUEUES = ["zklock", "curator", "kazoo"]
POLLERS = ["redis10", "redis100", "postgres100"]

class Job(NamedTuple):
    kind: str  # the drivers' word for it
    contenders: int
    hold_us: int  # what a section lasts
    systems: list
    places: list = ["tmpfs"]
    length: int = 1  # times the usual
    every: int = 1  # only in every so many rounds; if so, without warming up


JOBS = {
    "free": Job("sessions", 1, 0, ["raw", *QUEUES, *POLLERS[1:]], ["tmpfs", "disk", "three"]),
    "eight": Job("sessions", 8, 0, ["raw", "raw1", "listing", *QUEUES, *POLLERS], ["tmpfs", "disk", "three"]),
    "threads": Job("threads", 8, 0, QUEUES),
    "pair": Job("sessions", 2, 2000, ["raw", "listing", *QUEUES]),
    "relay": Job("relay", 2, 2000, OURS),
    "event": Job("event", 2, 2000, ["raw"]),
    "read": Job("read", 1, 2000, ["raw"]),
    "busy": Job("sessions", 8, 50000, [*QUEUES, *POLLERS], length=8, every=3),
}
# Jobs that are waiting and little else, in 15 s or a minute: all at once, each with a server of its own.
QUIET = [("idle", "raw", "idle", 8, 1), ("idle", "zklock", "idle", 8, 1), ("wait1", "zklock", "wait", 1, 1),
         ("wait9", "zklock", "wait", 9, 1), ("held1", "zklock", "held", 1, 4)]


class Size:
    """How much of everything."""

    def __init__(self, words):
        self.words = " ".join(words)
        word, rounds = (words or [""])[0], int(words[1]) if "--rounds" in words else 9
        smoke, quick = word == "--smoke", word == "--quick"
        self.rounds = 1 if smoke else 3 if quick else rounds
        self.warm_up = 0 if smoke else 1 if quick else 2
        self.contenders = 3 if smoke else 8  # at most, but for crowds
        self.ms = 50 if smoke else 300 if quick else 600
        self.places = ["tmpfs"] if smoke else ["tmpfs", "disk", "three"]
        self.waiters = [10] if smoke else [10, 1000] if quick else [10, 100, 1000, 5000]
        self.waiters_rounds = 1 if smoke else 2 if quick else max(1, rounds // 3)
        self.held = 100 if smoke else 10000
        self.pending = 100 if smoke else 5000
        self.wait_ms = 200 if smoke else 10000 if quick else 60000
        self.commands = 2 if smoke else 40
        self.listed = 10 if smoke else 1000
        self.lists = 2 if smoke else 30


class Bench:
    def __init__(self, build, size):
        self.build, self.size = build, size
        self.runs, self.missing, self.wakeups = Runs(), {}, {}
        self.broken = []  # jobs in which a driver of ours ended
        self.servers, self.drivers, self.paths = {}, {}, 0

    def server(self, kind, place):
        key = place if kind == "zookeeper" else kind
        if key not in self.servers:
            self.servers[key] = {"zookeeper": lambda: ZooKeeper(self.build, place), "redis": Redis, "postgres": Postgres,
                                 "etcd": command.Etcd}[kind]()
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

    def run(self, job, place, system, number, words, look=None, at=None):
        """words: the drivers' job, contenders, ms, section in us. Round 0 is for warming up. at: a server of its own, by another name than
        the place that it stands for."""
        driver = self.driver(system, at or place)
        if not driver:
            return
        server = self.server(SYSTEMS[system][2], at or place)
        self.paths += 1
        look = look or (lambda: server.counters() if SYSTEMS[system][2] == "zookeeper" else None)
        try:
            answer = driver.run(*words, f"/bench/{self.paths}", look, server.process.pid)
        except DriverEnded as ended:
            self.drivers.pop((system, at or place)).stop()
            if system not in ("raw", *OURS):
                self.leave_out(system, str(ended))
                return
            self.broken.append(job)  # the next job starts another one
            print(f"bench: {ended} in the middle of {job}, round {number}", flush=True)
            if len(self.broken) > 5:
                raise Missing(f"no use in going on: {', '.join(self.broken)}") from None
            return
        if answer and number > 0:
            self.runs.add(job, place, system, number, figures(job, *answer))

    def play(self, number):
        """Every job once, every system in turn; in odd rounds the other way round."""
        for name, job in JOBS.items():
            wanted = job.every == 1 or (number > 0 and number % min(job.every, self.size.rounds) == 0)
            for place in [place for place in job.places if wanted and place in self.size.places]:
                for system in job.systems if number % 2 == 0 else reversed(job.systems):
                    if SYSTEMS[system][2] == "zookeeper" or place == "tmpfs":
                        few = min(job.contenders, self.size.contenders)
                        self.run(name, place, system, number, (job.kind, few, self.size.ms * job.length, job.hold_us))

    def watches_set(self, count):
        """Looks once all but the holder watch the one before."""
        server, end = self.server("zookeeper", "tmpfs"), time.monotonic() + 60
        while server.counters()["watches"] < count and time.monotonic() < end:
            time.sleep(0.01)
        return server.counters()

    def crowds(self):
        size = self.size
        for number in range(1, size.waiters_rounds + 1):
            for count, system in itertools.product(size.waiters, OURS):
                looks = iter([lambda: None, lambda n=count: self.watches_set(n - 1)])
                counters = self.server("zookeeper", "tmpfs").counters
                self.run(f"waiters{count}", "tmpfs", system, number, ("waiters", count, 0, 2000),
                         lambda it=looks, last=counters: next(it, last)())
        self.run("held", "tmpfs", "zklock", 1, ("held", size.held, size.wait_ms // 4, 0))
        self.run("pending", "tmpfs", "zklock", 1, ("pending", size.pending, 0, 0))

    def quiet(self):
        """What is sent while nothing happens. Children are started on this thread: they end with who started them."""
        threads = []
        for i, (name, system, kind, contenders, part) in enumerate(QUIET):
            self.server("zookeeper", f"quiet {i}")
            self.driver(system, f"quiet {i}")
            words = (kind, contenders, self.size.wait_ms // part, 0)
            threads.append(threading.Thread(target=self.run, args=(name, "tmpfs", system, 1, words, None, f"quiet {i}")))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def go(self):
        rounds, began = self.size.warm_up + self.size.rounds, time.monotonic()
        for done in range(rounds):
            number = max(0, done + 1 - self.size.warm_up)
            left = f", about {(time.monotonic() - began) / done * (rounds - done) / 60 + 2:.0f} minutes left" if done else ""
            print(f"bench: round {number} of {self.size.rounds}{left}" if number else "bench: warming up", flush=True)
            self.play(number)
        for words, part in (("the command", lambda: command.measure(self)), ("who wakes whom", lambda: wakeups.measure(self)),
                            ("many waiters, many locks", self.crowds), ("long waits", self.quiet)):
            print(f"bench: {words}", flush=True)
            part()

    def stop(self):
        for child in [*self.drivers.values(), *self.servers.values()]:
            child.stop()


def main():
    words = sys.argv[3:]
    counted = len(words) == 2 and words[0] == "--rounds" and words[1].isdecimal() and int(words[1]) > 0
    if len(sys.argv) < 3 or not (counted or words in ([], ["--quick"], ["--smoke"])):
        sys.exit(__doc__)
    bench = Bench(sys.argv[1], Size(words))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what servers have written goes with them
    began, where = time.monotonic(), machine.describe()
    try:
        bench.go()
    except Missing as missing:  # of the servers, without which there is nothing to measure
        sys.exit(f"bench: {missing}")
    finally:
        bench.stop()
    sound = write_report(bench, sys.argv[2], where, time.monotonic() - began)
    write_readme(bench, sys.argv[2])
    sys.exit(0 if sound and not bench.broken else 1)


main()
