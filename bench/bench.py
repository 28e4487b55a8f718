"""bench.py BUILD_DIR OUT_DIR [--quick | --smoke | --rounds N | --command]: sets the drivers against each other on the same jobs, in turn, and
writes measurements.json and img/*.svg to OUT_DIR. page.py makes a page of the JSON. --command: times the command only, and prints it.
scripts/bench calls it."""
import os
import signal
import subprocess
import sys
import time
from typing import NamedTuple

from figures import Runs, figures, markdown
from report import COMMANDS, command_table, machine, write_report
from systems import SYSTEMS, Missing, ZooKeeper, etcd, redis, run_drivers, scratch, start_driver, stop


class Job(NamedTuple):
    kind: str  # the word of the drivers for it
    contenders: int
    hold_us: int  # what a section lasts
    systems: list
    places: list = ["tmpfs"]
    sustained: bool = False  # counts per second: for sustained_ms, in every third round, and not in rounds for warming up
    processes: bool = False  # a process for each contender


JOBS = {
    "free": Job("sessions", 1, 0, ["raw", "raw1", "linger", "st", "zklock", "curator", "kazoo", "etcd", "redis100"], ["tmpfs", "disk", "three"]),
    "eight": Job("sessions", 8, 0, ["raw", "raw1", "zklock", "curator", "kazoo", "etcd", "redis10"], ["tmpfs", "three"], sustained=True),
    "processes": Job("sessions", 8, 0, ["raw1", "zklock", "st"], sustained=True, processes=True),
    "threads": Job("threads", 8, 0, ["linger", "zklock", "curator"], sustained=True),
    "two": Job("two", 8, 0, ["linger"], sustained=True),
    "relay": Job("relay", 2, 2000, ["zklock"]),
    "yield": Job("yield", 2, 2000, ["linger"]),
    "event": Job("event", 2, 2000, ["raw"]),
    "read": Job("read", 1, 2000, ["raw"]),
    "busy": Job("sessions", 8, 50000, ["zklock", "redis10"], sustained=True),
    **{f"waiters{count}": Job("waiters", count, 2000, ["zklock"], sustained=True) for count in (10, 100, 1000, 5000)},
}
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}  # short: each command looks for `true` in it
UNCOUNTED = 10  # the first commands find a virtual machine that has not compiled what they need


class Size:
    """How much of everything."""
    rounds, warm_up = 9, 2
    ms, sustained_ms = 600, 11000  # a second of warming up, and ten that count: a rate that lasts for less is of no use to anybody
    wait_ms = 60000
    places = ["tmpfs", "disk", "three"]
    waiters = [10, 100, 1000, 5000]
    locks = 10000
    commands, commands_s, listed = 40, 60, 1000  # so many rounds, and at least so long


class Quick(Size):
    rounds, warm_up = 3, 1
    ms, sustained_ms = 300, 3000
    wait_ms = 10000
    commands_s = 0


class Smoke(Size):
    rounds, warm_up = 1, 0
    ms, sustained_ms = 50, 50
    wait_ms = 200
    places = ["tmpfs"]
    waiters = [10]
    locks = 100
    commands, commands_s, listed = 2, 0, 10


class Bench:
    def __init__(self, build, size):
        self.build, self.size = build, size
        self.runs, self.missing = Runs(), {}
        self.servers, self.drivers, self.paths = {}, {}, 0

    def server(self, kind, place):
        key = place if kind == "zookeeper" else kind
        if key not in self.servers:
            self.servers[key] = ZooKeeper(self.build, place) if kind == "zookeeper" else {"redis": redis, "etcd": etcd}[kind]()
        return self.servers[key]

    def leave_out(self, system, why):
        print(f"bench: {system} is left out: {why}", flush=True)
        self.missing[system] = why

    def run(self, name, job, system, number, ms, place="tmpfs", settled=None):
        """Round 0 is for warming up. settled: instead of the server's."""
        if system in self.missing:
            return
        self.paths += 1
        count = job.contenders if job.processes else 1
        words = f"run {job.kind} {job.contenders // count} {ms} {job.hold_us} /bench{self.paths}"
        try:
            server, drivers = self.server(SYSTEMS[system][1], place), self.drivers.setdefault((system, place), [])
            while len(drivers) < count:
                drivers.append(start_driver(self.build, system, server.servers))
            done = run_drivers(drivers[:count], words, server.counters, settled or server.settled)
        except Missing as missing:
            self.leave_out(system, f"{name}, round {number}: {missing}")
            return
        if number > 0:
            self.runs.add(name, system, place, number, figures(name, *done))

    def play(self, number):
        """Every job once, every system in turn; in odd rounds the other way round."""
        for name, job in JOBS.items():
            if job.sustained and (number == 0 or number % min(3, self.size.rounds) != 0):
                continue
            if job.kind == "waiters" and job.contenders not in self.size.waiters:
                continue
            for place in [place for place in job.places if place in self.size.places]:
                for system in job.systems if number % 2 == 0 else reversed(job.systems):
                    if place == "tmpfs" or SYSTEMS[system][1] == "zookeeper":
                        self.run(name, job, system, number, self.size.sustained_ms if job.sustained else self.size.ms, place)

    def play_once(self):
        """Many locks, and what is sent while nothing happens."""
        locks, wait_ms = self.size.locks, self.size.wait_ms
        for name, kind, system, contenders, ms in [
                ("held", "held", "zklock", locks, wait_ms // 4), ("held1", "held", "zklock", 1, wait_ms // 4),
                ("pending", "pending", "zklock", locks // 2, 0), ("idle", "idle", "raw", 8, wait_ms), ("wait1", "wait", "zklock", 1, wait_ms),
                ("wait9", "wait", "zklock", 9, wait_ms)]:
            self.run(name, Job(kind, contenders, 0, [system]), system, 1, ms)

    def time_commands(self):
        """The command as its users pay for it: whole processes, each in turn, in odd rounds the other way round."""
        servers, folder = self.server("zookeeper", "tmpfs").servers, scratch("/dev/shm")
        # The raw client uses the directory that zklock has made.
        words = {"zklock": [os.path.abspath(self.build) + "/zklock", "-s", servers, "run", "/bench/command", "--", "true"],
                 "raw": [self.build + "/bench/bench_raw", servers, "/bench/command", "true"], "flock": ["flock", folder + "/lock", "true"]}
        try:
            words["etcd"] = ["etcdctl", "--endpoints", self.server("etcd", None).servers, "lock", "bench", "true"]
        except Missing as missing:
            self.leave_out("etcd", str(missing))
        number, began = -min(UNCOUNTED, self.size.commands), time.monotonic()
        while number < self.size.commands or time.monotonic() - began < self.size.commands_s:
            for system in list(words)[:: 1 if number % 2 == 0 else -1]:
                self.time_command("command", system, words[system], number)
            number += 1

    def time_command(self, job, system, words, number):
        """From the start of a process to its end. Spawned directly: Python's own way costs more than a short command."""
        quiet = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
        began = time.monotonic_ns()
        _, status = os.waitpid(os.posix_spawnp(words[0], words, ENVIRONMENT, file_actions=quiet), 0)
        ended = time.monotonic_ns()
        if status != 0:
            sys.exit(f"bench: {' '.join(words)}: failed")
        if number >= 0:
            self.runs.add(job, system, "tmpfs", number, {"whole_ms": (ended - began) / 1e6})

    def time_lists(self):
        """While so many wait."""
        def list_queue():
            words = [self.build + "/zklock", "-s", self.server("zookeeper", "tmpfs").servers, "ls", f"/bench{self.paths}"]
            for number in range(-min(UNCOUNTED, self.size.commands), self.size.commands):
                self.time_command("ls", "zklock", words, number)
        self.run("queued", Job("waiters", self.size.listed, 0, ["zklock"]), "zklock", 0, 0, settled=list_queue)

    def go(self):
        for number in [0] * self.size.warm_up + list(range(1, self.size.rounds + 1)):
            print(f"bench: round {number} of {self.size.rounds}", flush=True)  # 0 is for warming up
            self.play(number)
        print("bench: the command, many locks, long waits", flush=True)
        self.time_commands()
        self.time_lists()
        self.play_once()

    def stop(self):
        for process in [*sum(self.drivers.values(), []), *(server.process for server in self.servers.values())]:
            stop(process)


def main():
    build, out, *words = sys.argv[1:]
    size = {"--quick": Quick, "--smoke": Smoke}.get(words[0] if words else "", Size)()
    if words[:1] == ["--rounds"]:
        size.rounds = int(words[1])
    bench = Bench(build, size)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what servers have written goes with them
    began, where = time.monotonic(), machine()
    try:
        if words == ["--command"]:
            bench.time_commands()
            print(len(bench.runs.values("command", "zklock", "whole_ms")), "rounds:\n" + markdown(command_table(bench)))
            return
        bench.go()
    finally:
        bench.stop()
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=os.path.dirname(__file__), capture_output=True, text=True, check=False)
    run = (f"`scripts/bench{''.join(' ' + word for word in words)}` measured this on {time.strftime('%Y-%m-%d')}, with the tree of commit "
           f"{commit.stdout.strip() or 'unknown'}: {size.rounds} rounds, {max(1, (time.monotonic() - began) / 60):.0f} minutes. Machine: {where}.")
    sound = write_report(bench, out, run)
    sys.exit(0 if sound and not bench.missing.keys() & {"raw", "raw1", "zklock", "linger", "st"} else 1)


main()
