"""What is measured: servers that live for one run of the bench, and drivers that obey the line protocol of driver.h."""
import atexit
import glob
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
JARS = "/usr/share/java"
CURATOR = ("curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava", "slf4j-api", "slf4j-nop")


class Missing(Exception):
    """Something is not installed: the line that says so."""


class DriverEnded(Exception):
    """In the middle of a job; its words are on stderr."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(command, **options):
    """A child that ends with us, however we end."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "TERM", "--", *command], text=True, **options)


def stop(process):
    process.terminate()
    process.wait()


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
            raise Missing("ZooKeeper did not start")

    def ask(self, server, word):
        host, port = server.split(":")
        with socket.create_connection((host, int(port)), 10) as s:
            s.sendall(word.encode())
            answer = b""
            while chunk := s.recv(65536):
                answer += chunk
        return answer.decode()

    def counters(self):
        """Of all servers: packets of the sessions that are open, watches, the highest zxid."""
        sums = {"received": 0, "sent": 0, "watches": 0, "zxid": 0}
        for server in self.servers.split(","):
            for line in self.ask(server, "cons").splitlines():
                if found := re.search(r"recved=(\d+),sent=(\d+),sid=", line):
                    sums["received"] += int(found[1])
                    sums["sent"] += int(found[2])
            sums["watches"] += int(re.search(r"Total watches:(\d+)", self.ask(server, "wchs"))[1])
            sums["zxid"] = max(sums["zxid"], int(re.search(r"Zxid: (\w+)", self.ask(server, "srvr"))[1], 16))
        return sums

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


class Redis:
    def __init__(self):
        if not shutil.which("redis-server"):
            raise Missing("redis-server is not installed")
        self.dir = scratch("/dev/shm")
        port = free_port()
        self.process = start(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                              "--dir", self.dir], stdout=subprocess.PIPE)
        for line in self.process.stdout:
            if "Ready to accept connections" in line:
                break
        self.servers = f"127.0.0.1:{port}"

    def stop(self):
        stop(self.process)


class Etcd:
    """With its data in memory."""

    def __init__(self):
        if not shutil.which("etcd") or not shutil.which("etcdctl"):
            raise Missing("etcd-server or etcd-client is not installed")
        self.servers, peer = f"127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
        url = "http://" + self.servers
        self.process = start(["etcd", "--name", "bench", "--data-dir", scratch("/dev/shm"), "--listen-client-urls", url,
                              "--advertise-client-urls", url, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                              "--initial-cluster", f"bench={peer}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.words = ["etcdctl", "--endpoints", url]
        end = time.monotonic() + 60
        while subprocess.run([*self.words, "endpoint", "health"], capture_output=True, check=False).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise Missing("etcd did not start")

    def stop(self):
        stop(self.process)


class Postgres:
    def __init__(self):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
        if not found:
            raise Missing("postgresql is not installed")
        tools = os.path.dirname(found[-1])
        self.dir = scratch("/dev/shm")
        user = []
        if os.getuid() == 0:  # the server refuses root
            shutil.chown(self.dir, "postgres", "postgres")
            user = ["--reuid", "postgres", "--regid", "postgres", "--init-groups"]
        data, port = self.dir + "/data", str(free_port())
        made = subprocess.run(["setpriv", *user, tools + "/initdb", "-D", data, "-A", "trust", "-U", "postgres"], check=False,
                              stdout=subprocess.DEVNULL, cwd=self.dir)
        if made.returncode != 0:
            raise Missing("initdb failed")
        command = [tools + "/postgres", "-D", data, "-p", port, "-h", "127.0.0.1", "-k", self.dir]
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *user, *command], text=True, cwd=self.dir,
                                        stderr=subprocess.PIPE)
        for line in self.process.stderr:
            if "ready to accept connections" in line:
                break
        self.servers = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"

    def stop(self):
        self.process.send_signal(2)  # fast shutdown: what is connected is cut
        self.process.wait()


class Driver:
    """A driver's process. Sections are tuples of contender and four times in ns."""

    def __init__(self, command):
        self.name = os.path.basename(command[0])
        self.process = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def order(self, words):
        try:
            self.process.stdin.write(words + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise DriverEnded(f"{self.name} ended") from None

    def answer(self):
        line = self.process.stdout.readline().strip()
        if not line:
            raise DriverEnded(f"{self.name} ended")
        return line

    def run(self, job, contenders, ms, hold_us, path, look, server_pid):
        """look() is called before and after what counts, and at a driver's wish; returns sections and facts, or None: no such job."""
        self.order(f"run {job} {contenders} {ms} {hold_us} {path}")
        if self.answer().startswith("skip"):
            return None
        sections, facts, looks = [], {"process_threads": len(os.listdir(f"/proc/{self.process.pid}/task"))}, [look()]
        client, server = cpu_s(self.process.pid), cpu_s(server_pid)
        self.order("go")
        while (line := self.answer()) != "end":
            if line == "count":
                looks.append(look())
                self.order("")
            elif line.startswith("fact "):
                _, name, value = line.split()
                facts[name] = float(value)
            else:
                sections.append(tuple(int(word) for word in line.split()))
        facts["client_cpu_s"] = cpu_s(self.process.pid) - client
        facts["server_cpu_s"] = cpu_s(server_pid) - server
        looks.append(look())
        self.order("close")
        self.answer()
        return sections, facts, looks

    def stop(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.stdout.close()  # the rest of a job that was given up
        self.process.wait()


def curator_command(build):
    jars = [f"{JARS}/{name}.jar" for name in CURATOR]
    if not shutil.which("javac") or not all(os.path.exists(jar) for jar in jars):
        raise Missing("libcurator-recipes-java or a JDK is not installed")
    classes = build + "/bench/curator"
    os.makedirs(classes, exist_ok=True)
    if subprocess.run(["javac", "-cp", ":".join(jars), "-d", classes, HERE + "/curator/Driver.java"], check=False).returncode != 0:
        raise Missing("javac refuses its driver")
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
