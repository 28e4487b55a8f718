"""What is measured: servers that live for one run of the bench, and drivers that obey the line protocol of driver.h."""
import atexit
import collections
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# What Debian installs for Curator.
JARS = ":".join(f"/usr/share/java/{name}.jar" for name in ("curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava",
                                                           "slf4j-api", "slf4j-nop"))


class Missing(Exception):
    """Something is not installed, or ended: the line that says so."""


def start(command, **options):
    """A child that ends with us, however we end. The command may begin with more options of setpriv."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *command], text=True, **options)


def stop(process):
    if not process.stdin:  # drivers and bench_server end with it
        process.terminate()
    process.communicate()


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

    def __init__(self, command, ready, servers):
        """ready: a command that succeeds as soon as the server serves."""
        if not shutil.which(ready[0]):
            raise Missing(f"{ready[0]} is not installed")
        self.servers = servers
        self.process = start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while subprocess.run(ready, capture_output=True, check=False).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > end:
                stop(self.process)
                raise Missing(f"{ready[0]} finds no server")
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


def order(driver, words):
    try:
        driver.stdin.write(words + "\n")
        driver.stdin.flush()
    except BrokenPipeError:
        raise Missing("its driver ended") from None


def answer(driver):
    line = driver.stdout.readline().strip()
    if not line:
        raise Missing("its driver ended")
    return line


def run_drivers(drivers, words, counters, settled):
    """Sections, facts and looks of a job that several drivers do together, with one contender each, or one driver alone. counters() is called
    before and after what counts; a driver with jobs of its own tells itself when, twice: settled() is the first of these looks."""
    sections, facts, looks = [], collections.Counter(), []
    for driver in drivers:
        order(driver, words)
        answer(driver)
    facts["process_threads"] = len(os.listdir(f"/proc/{drivers[0].pid}/task"))
    looks.append(counters())
    for driver in drivers:
        order(driver, "go")
    for number, driver in enumerate(drivers):
        while (line := answer(driver)) != "end":
            if line == "count":
                looks.append(settled() if len(looks) == 1 else counters())
                order(driver, "")
            elif line.startswith("fact "):
                _, name, value = line.split()
                facts[f"grants_{number}" if name == "grants_0" else name] += float(value)
            else:
                contender, *times = (int(word) for word in line.split())
                sections.append((number + contender, *times))
    looks.append(counters())
    for driver in drivers:
        order(driver, "close")
        answer(driver)
    return sections, facts, looks


# name: the words for people, the kind of server, the command of the driver
SYSTEMS = {
    "raw": ("bare recipe, raw client", "zookeeper", "{build}/bench_raw {servers}"),
    "raw1": ("bare recipe, one thread", "zookeeper", "{build}/bench_raw_st {servers}"),
    "zklock": ("zklock", "zookeeper", "{build}/bench_zklock {servers}"),
    "linger": ("zklock, lingering", "zookeeper", "{build}/bench_zklock {servers} linger"),
    "st": ("zklock, libzklock_st", "zookeeper", "{build}/bench_zklock_st {servers}"),
    "curator": ("Curator 5.4", "zookeeper", "java -Xmx512m -cp {jars} {here}/curator/Driver.java {servers}"),
    "kazoo": ("kazoo 2.8", "zookeeper", "/usr/bin/python3 {here}/kazoo_driver.py {servers}"),
    "etcd": ("etcd 3.4, its lock service", "etcd", "{build}/bench_etcd {servers}"),
    "redis10": ("Redis, tried every 10 ms", "redis", "{build}/bench_redis {servers} 10"),
    "redis100": ("Redis, tried every 100 ms", "redis", "{build}/bench_redis {servers} 100"),
}


def start_driver(build, system, servers):
    words = [word.format(build=build + "/bench", here=HERE, jars=JARS, servers=servers) for word in SYSTEMS[system][2].split()]
    return start(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
