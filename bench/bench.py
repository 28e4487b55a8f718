"""bench.py BUILD_DIR OUT_DIR [--quick | --smoke | --rounds N]: sets the drivers against each other on the same jobs, in turn, and writes
measurements.json and img/*.svg to OUT_DIR, and the run and the short table between the marks of OUT_DIR's measurements.md and of the README beside
OUT_DIR, if they are there. page.py makes a page of the JSON. scripts/bench calls it."""
import concurrent.futures
import signal
import sys
import threading
import time
from typing import NamedTuple

import command
import machine
import wakeups
from figures import Runs, figures
from report import run_line, write_report
from short import write_short
from systems import SYSTEMS, Driver, DriverEnded, Etcd, Missing, Postgres, Redis, ZooKeeper

QUEUES = ["zklock", "curator", "kazoo"]
POLLERS = ["redis10", "redis100", "postgres100"]
SUSTAINED_MS = 11000  # a second of warming up, and ten that count: a rate that lasts for less is of no use to anybody
ONE_PLACE = ["linger"]  # does not need its servers

class Job(NamedTuple):
    kind: str  # the drivers' word for it
    contenders: int
    hold_us: int  # what a section lasts
    systems: list
    places: list = ["tmpfs"]
    sustained: bool = False  # counts per second: for SUSTAINED_MS, in every third round, and not in rounds for warming up
    processes: bool = False  # a process for each contender


JOBS = {
    "free": Job("sessions", 1, 0, ["raw", "raw1", "linger", "st", *QUEUES, "etcd", *POLLERS[1:]], ["tmpfs", "disk", "three"]),
    "eight": Job("sessions", 8, 0, ["raw", "raw1", *QUEUES, "etcd", *POLLERS], ["tmpfs", "disk", "three"], sustained=True),
    "processes": Job("sessions", 8, 0, ["raw", "raw1", "zklock", "st"], ["tmpfs", "three"], sustained=True, processes=True),
    "threads": Job("threads", 8, 0, ["linger", *QUEUES], sustained=True),
    "two": Job("two", 8, 0, ["zklock", "linger"], sustained=True),
    "pair": Job("sessions", 2, 2000, ["raw", *QUEUES], sustained=True),
    "relay": Job("relay", 2, 2000, ["zklock"]),
    "yield": Job("yield", 2, 2000, ["linger"]),
    "event": Job("event", 2, 2000, ["raw"]),
    "read": Job("read", 1, 2000, ["raw"]),
    "busy": Job("sessions", 8, 50000, [*QUEUES, "etcd", *POLLERS], sustained=True),
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
        self.sustained_ms = 50 if smoke else 3000 if quick else SUSTAINED_MS
        self.places = ["tmpfs"] if smoke else ["tmpfs", "disk", "three"]
        self.waiters = [10] if smoke else [10, 5000] if quick else [10, 100, 1000, 5000]
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
                                 "etcd": Etcd}[kind]()
        return self.servers[key]

    def leave_out(self, system, why):
        print(f"bench: {system} is left out: {why}", flush=True)
        self.missing[system] = why

    def driver(self, system, place, process=0):
        """None: something that it needs is missing, and a line says what."""
        if system in self.missing:
            return None
        if (system, place, process) not in self.drivers:
            _, command, kind, more = SYSTEMS[system]
            try:
                words = command(self.build)
                self.drivers[system, place, process] = Driver([*words, self.server(kind, place).servers, *more])
            except Missing as missing:
                self.leave_out(system, str(missing))
                return None
        return self.drivers[system, place, process]

    def run_processes(self, system, place, words, look, pid):
        """As Driver.run, with a process for each contender. They begin together."""
        kind, count, *more = words
        drivers = [self.driver(system, place, process) for process in range(count)]
        looks = []
        barrier = threading.Barrier(count, lambda: looks.append(look()), 120)

        def run_one(driver):
            try:
                return driver.run(kind, 1, *more, barrier.wait, pid)
            except DriverEnded:
                barrier.abort()
                raise
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            try:
                answers = list(pool.map(run_one, drivers))
            except threading.BrokenBarrierError:
                raise DriverEnded(f"a process of {drivers[0].name} ended") from None
        sections = [(number, *section[1:]) for number, (sections, *_) in enumerate(answers) for section in sections]
        added = [name for name in answers[0][1] if name == "client_cpu_s" or name.startswith("second_")]
        facts = answers[0][1] | {name: sum(facts[name] for _, facts, _ in answers) for name in added}
        facts |= {f"grants_{number}": facts["grants_0"] for number, (_, facts, _) in enumerate(answers)}
        return sections, facts, looks

    def run(self, job, place, system, number, words, look=None, at=None):
        """words: the drivers' job, contenders, ms, section in us. Round 0 is for warming up. at: a server of its own, by another name than
        the place that it stands for."""
        driver = self.driver(system, at or place)
        if not driver:
            return
        server = self.server(SYSTEMS[system][2], at or place)
        self.paths += 1
        look = look or (lambda: server.counters() if SYSTEMS[system][2] == "zookeeper" else None)
        words = (*words, f"/bench/{self.paths}")
        try:
            if job in JOBS and JOBS[job].processes:
                answer = self.run_processes(system, place, words, look, server.process.pid)
            else:
                answer = driver.run(*words, look, server.process.pid)
        except DriverEnded as ended:
            self.give_up(job, at or place, system, f"{ended} in the middle of {job}, round {number}")
            return
        if answer and number > 0:
            self.runs.add(job, place, system, number, figures(job, *answer))

    def give_up(self, job, place, system, why):
        for key in [key for key in self.drivers if key[:2] == (system, place)]:
            self.drivers.pop(key).stop()
        if system not in ("raw", "raw1", "zklock", "linger", "st"):
            self.leave_out(system, why)
            return
        self.broken.append(job)  # the next job starts another one
        print(f"bench: {why}", flush=True)
        if len(self.broken) > 5:
            raise Missing(f"no use in going on: {', '.join(self.broken)}")

    def play(self, number):
        """Every job once, every system in turn; in odd rounds the other way round."""
        for name, job in JOBS.items():
            wanted = not job.sustained or (number > 0 and number % min(3, self.size.rounds) == 0)
            ms = self.size.sustained_ms if job.sustained else self.size.ms
            for place in [place for place in job.places if wanted and place in self.size.places]:
                for system in job.systems if number % 2 == 0 else reversed(job.systems):
                    if place == "tmpfs" or (SYSTEMS[system][2] == "zookeeper" and system not in ONE_PLACE):
                        few = min(job.contenders, self.size.contenders)
                        self.run(name, place, system, number, (job.kind, few, ms, job.hold_us))

    def watches_set(self, count):
        """Looks once all but the holder watch the one before."""
        server, end = self.server("zookeeper", "tmpfs"), time.monotonic() + 60
        while server.counters()["watches"] < count and time.monotonic() < end:
            time.sleep(0.01)
        return server.counters()

    def settled(self):
        """The counters as soon as fewer than 10 requests came in half a second: the grants are over, heartbeats go on."""
        server, end = self.server("zookeeper", "tmpfs"), time.monotonic() + 60
        before = server.counters()
        while time.monotonic() < end:
            time.sleep(0.5)
            now = server.counters()
            if now["received"] - before["received"] < 10:
                break
            before = now
        return now

    def crowds(self):
        size = self.size
        for number in range(1, size.waiters_rounds + 1):
            for count in size.waiters:
                looks = iter([lambda: None, lambda n=count: self.watches_set(n - 1)])
                counters = self.server("zookeeper", "tmpfs").counters
                self.run(f"waiters{count}", "tmpfs", "zklock", number, ("waiters", count, 0, 2000),
                         lambda it=looks, last=counters: next(it, last)())
        looks, counters = iter([lambda: None, self.settled]), self.server("zookeeper", "tmpfs").counters
        self.run("held", "tmpfs", "zklock", 1, ("held", size.held, size.wait_ms // 4, 0), lambda: next(looks, counters)())
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
    if len(sys.argv) < 3 or not (counted or words in ([], ["--quick"], ["--smoke"], ["--command"])):
        sys.exit(__doc__)
    bench = Bench(sys.argv[1], Size(words))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what servers have written goes with them
    began, where = time.monotonic(), machine.describe()
    try:
        if words == ["--command"]:
            command.show(bench)
            return
        bench.go()
    except Missing as missing:  # of the servers, without which there is nothing to measure
        sys.exit(f"bench: {missing}")
    finally:
        bench.stop()
    run = run_line(bench.size, time.monotonic() - began, where)  # before anything is written, which the commit would call dirty
    sound = write_report(bench, sys.argv[2], where, run)
    write_short(bench, sys.argv[2], run)
    sys.exit(0 if sound and not bench.broken else 1)


main()
