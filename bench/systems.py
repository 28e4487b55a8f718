"""What is measured: servers that live for one run of the bench, and drivers that obey the line protocol of driver.h."""
import atexit
import collections
import glob
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
JARS = "/usr/share/java"
CURATOR = ("curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava", "slf4j-api", "slf4j-nop")


class Missing(Exception):
    """Something is not installed, or ended: the line that says so."""


def start(command, user=(), **options):
    """A child that ends with us, however we end. user: setpriv's options for another one."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *user, *command], text=True, **options)


def stop(process):
    if not process.stdin:  # drivers and bench_server end with it
        process.terminate()
    process.communicate()


def cpu_s(pid):
    """Seconds of processor that a process and its children have used."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        children = file.read().split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(cpu_s(int(child)) for child in children)


def scratch(parent):
    """A directory that goes when we end, however we end."""
    folder = tempfile.mkdtemp(prefix="zklock-bench-", dir=parent)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class ZooKeeper:
    """One place: servers with their data in memory, on a disk, or three of them."""

    def __init__(self, build, place):
        options = ["-d", scratch("/var/tmp")] if place == "disk" else ["-n", "3"] if place == "three" else []
        self.process = start([build + "/bench/bench_server", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.servers = self.process.stdout.readline().strip()
        if not self.servers:
            sys.exit("bench: ZooKeeper did not start")

    def ask(self, server, word):
        host, port = server.split(":")
        with socket.create_connection((host, int(port)), 10) as s, s.makefile("rw") as stream:
            stream.write(word)
            stream.flush()
            return stream.read()

    def counters(self):
        """Of all servers: packets of the sessions that are open, the highest zxid."""
        sums = collections.Counter()
        for server in self.servers.split(","):
            for received, sent in re.findall(r"recved=(\d+),sent=(\d+),sid=", self.ask(server, "cons")):
                sums["received"] += int(received)
                sums["sent"] += int(sent)
            sums["zxid"] = max(sums["zxid"], int(re.search(r"Zxid: (\w+)", self.ask(server, "srvr"))[1], 16))
        return sums

    def settled(self):
        """The counters as soon as fewer than 10 requests came in half a second: all watches are set, or grants are over; heartbeats go on."""
        now, end = self.counters(), time.monotonic() + 60
        while True:
            time.sleep(0.5)
            before, now = now, self.counters()
            if now["received"] - before["received"] < 10 or time.monotonic() > end:
                return now


class Server:
    """Another server, with its data in memory."""

    def __init__(self, command, ready, servers, user=()):
        """ready: a command that succeeds as soon as the server serves."""
        if not shutil.which(command[0]) or not shutil.which(ready[0]):
            raise Missing(f"{command[0]} or {ready[0]} is not installed")
        self.servers = servers
        self.process = start(command, user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while subprocess.run(ready, capture_output=True, check=False).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > end:
                stop(self.process)
                raise Missing(f"{command[0]} did not start")
            time.sleep(0.1)

    def counters(self):
        return None

    settled = counters


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def redis():
    port = free_port()
    return Server(["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", scratch("/dev/shm")],
                  ["redis-cli", "-p", port, "ping"], "127.0.0.1:" + port)


def etcd():
    servers, peer = "127.0.0.1:" + free_port(), "http://127.0.0.1:" + free_port()
    url = "http://" + servers
    return Server(["etcd", "--name", "bench", "--data-dir", scratch("/dev/shm"), "--listen-client-urls", url, "--advertise-client-urls", url,
                   "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "bench=" + peer],
                  ["etcdctl", "--endpoints", servers, "endpoint", "health"], servers)


def postgres():
    tools = "".join(sorted(glob.glob("/usr/lib/postgresql/*/bin/"))[-1:])
    folder, port, user = scratch("/dev/shm"), free_port(), ()
    if os.getuid() == 0:  # the server refuses root
        shutil.chown(folder, "postgres", "postgres")
        user = ("--reuid", "postgres", "--regid", "postgres", "--init-groups")
    data = folder + "/data"
    if start([tools + "initdb", "-D", data, "-A", "trust", "-U", "postgres"], user, cwd=folder, stdout=subprocess.DEVNULL).wait() != 0:
        raise Missing("postgresql is not installed, or its initdb failed")
    return Server([tools + "postgres", "-D", data, "-p", port, "-h", "127.0.0.1", "-k", folder], [tools + "pg_isready", "-h", "127.0.0.1", "-p", port],
                  f"host=127.0.0.1 port={port} user=postgres dbname=postgres", user)


class Driver:
    """A driver's process."""

    def __init__(self, command):
        self.name = os.path.basename(command[0])
        self.process = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def order(self, words):
        try:
            self.process.stdin.write(words + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Missing(f"{self.name} ended") from None

    def answer(self):
        line = self.process.stdout.readline().strip()
        if not line:
            raise Missing(f"{self.name} ended")
        return line


def run_drivers(drivers, words, counters, settled):
    """Sections, facts and looks of a job that several drivers do together, with one contender each, or one driver alone. counters() is called
    before and after what counts; a driver with jobs of its own tells itself when, twice: settled() is the first of these looks."""
    sections, facts, looks = [], collections.Counter(), []
    for driver in drivers:
        driver.order(words)
        driver.answer()
    facts["process_threads"] = len(os.listdir(f"/proc/{drivers[0].process.pid}/task"))
    looks.append(counters())
    facts["client_cpu_s"] = -sum(cpu_s(driver.process.pid) for driver in drivers)
    for driver in drivers:
        driver.order("go")
    for number, driver in enumerate(drivers):
        while (line := driver.answer()) != "end":
            if line == "count":
                looks.append(settled() if len(looks) == 1 else counters())
                driver.order("")
            elif line.startswith("fact "):
                _, name, value = line.split()
                facts[f"grants_{number}" if name == "grants_0" else name] += float(value)
            else:
                contender, *times = (int(word) for word in line.split())
                sections.append((number + contender, *times))
    facts["client_cpu_s"] += sum(cpu_s(driver.process.pid) for driver in drivers)
    looks.append(counters())
    for driver in drivers:
        driver.order("close")
        driver.answer()
    return sections, facts, looks


def curator_command(build):
    jars = [f"{JARS}/{name}.jar" for name in CURATOR]
    classes = build + "/bench/curator"
    if not shutil.which("javac") or subprocess.run(["javac", "-cp", ":".join(jars), "-d", classes, HERE + "/curator/Driver.java"],
                                                   check=False).returncode != 0:
        raise Missing("libcurator-recipes-java or a JDK is not installed")
    return ["java", "-Xmx512m", "-cp", ":".join([classes, *jars]), "Driver"]


def kazoo_command(_build):
    if subprocess.run(["/usr/bin/python3", "-c", "import kazoo"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise Missing("python3-kazoo is not installed")
    return ["/usr/bin/python3", HERE + "/kazoo_driver.py"]


def built_command(name):
    def command(build):
        if not os.path.exists(f"{build}/bench/{name}"):
            raise Missing(f"{name} was not built: its client library is not installed")
        return [f"{build}/bench/{name}"]
    return command


# name: the words for people, the driver's command, the kind of server, the driver's further arguments
SYSTEMS = {
    "raw": ("bare recipe, raw client", built_command("bench_raw"), "zookeeper", []),
    "raw1": ("bare recipe, one thread", built_command("bench_raw_st"), "zookeeper", []),
    "zklock": ("zklock", built_command("bench_zklock"), "zookeeper", []),
    "linger": ("zklock, lingering", built_command("bench_zklock"), "zookeeper", ["linger"]),
    "st": ("zklock, libzklock_st", built_command("bench_zklock_st"), "zookeeper", []),
    "curator": ("Curator 5.4", curator_command, "zookeeper", []),
    "kazoo": ("kazoo 2.8", kazoo_command, "zookeeper", []),
    "etcd": ("etcd 3.4, its lock service", built_command("bench_etcd"), "etcd", []),
    "redis10": ("Redis, tried every 10 ms", built_command("bench_redis"), "redis", ["10"]),
    "redis100": ("Redis, tried every 100 ms", built_command("bench_redis"), "redis", ["100"]),
    "postgres100": ("PostgreSQL, tried every 100 ms", built_command("bench_postgres"), "postgres", ["100"]),
}
