"""Who wakes whom, how often for one grant: eight sessions on one lock under perf, which counts every wake-up of a thread. Under perf times
mean nothing; counts do."""
import collections
import os
import re
import shutil
import subprocess
import tempfile

from systems import Missing

SYSTEMS_TRACED = ["raw", "raw1", "zklock", "curator"]
# What a thread is called here, by its name (Java) or by what it sleeps in (the client library's threads have no names).
NAMES = [("SendThread", "client: connection"), ("EventThrea", "client: callbacks"), ("NIOServerCxn", "server: connections"),
         ("NIOWorker", "server: connections"), ("RequestThrottl", "server: request pipeline"), ("ProcessThread", "server: request pipeline"),
         ("SyncThread", "server: request pipeline")]
SLEEPS = [("poll", "client: connection"), ("futex", "client: callbacks")]
CALLER = "client: caller"
ROLES = ["client: connection", "client: callbacks", CALLER, "server: connections", "server: request pipeline"]


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def threads(pid):
    return [(task, f"/proc/{pid}/task/{task}") for task in os.listdir(f"/proc/{pid}/task")]


def roles_of(pid, table, file):
    """Of the threads of a process: thread to role."""
    roles = {}
    for task, folder in threads(pid):
        text = read(f"{folder}/{file}")
        roles[task] = next((role for word, role in table if word in text), "other")
    return roles


class Trace:
    """perf from the look before a job to the look after it."""

    def __init__(self, driver, server, folder):
        self.driver, self.file, self.perf = driver, folder + "/perf.data", None
        java = read(f"/proc/{server}/task/{server}/children").split()[0]
        self.roles = roles_of(java, NAMES, "comm")

    def tell(self, word):
        """To perf, which answers."""
        try:
            os.write(self.orders, (word + "\n").encode())
        except BrokenPipeError:
            pass
        if not os.read(self.answers, 16):
            raise Missing("perf may not trace here (root, and a kernel with trace points)")

    def start(self):
        orders, self.orders = os.pipe()
        self.answers, answers = os.pipe()
        self.perf = subprocess.Popen(["perf", "record", "-q", "-a", "-e", "sched:sched_wakeup", "-o", self.file, "-D", "-1",
                                      f"--control=fd:{orders},{answers}"], pass_fds=(orders, answers), stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
        os.close(orders)
        os.close(answers)
        self.tell("enable")

    def stop(self):
        if self.perf:
            self.perf.terminate()
            self.perf.wait()
            os.close(self.orders)
            os.close(self.answers)
            self.perf = None

    def look(self):
        if self.perf:
            self.tell("disable")
            self.stop()
            return
        java = read(f"/proc/{self.driver}/comm").strip() == "java"
        self.roles |= roles_of(self.driver, NAMES if java else SLEEPS, "comm" if java else "stack")
        self.start()

    def wakeups(self):
        """Times that a thread of each role was woken. Threads that ask for the lock live while the job lasts."""
        counts = collections.Counter()
        script = subprocess.run(["perf", "script", "-i", self.file, "-F", "trace"], capture_output=True, text=True, check=False)
        for name, woken in re.findall(r"comm=(.+?) pid=(\d+)", script.stdout):
            caller = name.startswith(("bench_", "Thread-"))
            counts[self.roles.get(woken, CALLER if caller else "other")] += 1
        return counts


def measure(bench):
    """Into bench.wakeups: system: role: times per grant."""
    if not shutil.which("perf"):
        bench.leave_out("who wakes whom", "perf is not installed")
        return
    server = bench.server("zookeeper", "tmpfs")
    try:
        for system in SYSTEMS_TRACED:
            driver = bench.driver(system, "tmpfs")
            if driver:
                with tempfile.TemporaryDirectory(prefix="zklock-bench-") as folder:
                    trace_one(bench, system, Trace(driver.process.pid, server.process.pid, folder))
    except Missing as missing:
        bench.leave_out("who wakes whom", str(missing))


def trace_one(bench, system, trace):
    try:
        bench.run("traced", "tmpfs", system, 1, ("sessions", bench.size.contenders, bench.size.ms, 0), trace.look)
        counts, grants = trace.wakeups(), bench.runs.median("traced", "tmpfs", system, "sections")
        bench.wakeups[system] = {role: counts[role] / grants for role in ROLES}
    finally:
        trace.stop()
