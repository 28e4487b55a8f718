"""The command as its users pay for it: whole processes. `zklock run` on a free lock against `etcdctl lock` and, as the floor, flock; and
`zklock ls` of a long queue."""
import os
import shutil
import subprocess
import tempfile
import time

from systems import Missing, free_port, scratch, start, stop

# name: the words for people
COMMANDS = {"zklock": "`zklock run LOCK -- true`", "etcd": "`etcdctl lock LOCK true`", "flock": "`flock FILE true` (no server)"}
UNCOUNTED = 10  # the first ones find a virtual machine that has not compiled what they need


class Etcd:
    """A throw-away etcd with its data in memory."""

    def __init__(self):
        if not shutil.which("etcd") or not shutil.which("etcdctl"):
            raise Missing("etcd-server or etcd-client is not installed")
        data = scratch("/dev/shm")
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.process = start(["etcd", "--name", "bench", "--data-dir", data, "--listen-client-urls", client,
                              "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                              "--initial-cluster", f"bench={peer}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.words = ["etcdctl", "--endpoints", client]
        end = time.monotonic() + 60
        while subprocess.run([*self.words, "endpoint", "health"], capture_output=True, check=False).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise Missing("etcd did not start")

    def stop(self):
        stop(self.process)


def whole_ms(words):
    """From the start of a process to its end. Spawned directly: Python's own way costs more than a short command."""
    quiet = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    began = time.monotonic_ns()
    _, status = os.waitpid(os.posix_spawnp(words[0], words, os.environ | {"ETCDCTL_API": "3"}, file_actions=quiet), 0)
    ended = time.monotonic_ns()
    if status != 0:
        raise Missing(f"{words[0]} failed")
    return (ended - began) / 1e6


def time_runs(bench, folder):
    """Each in turn, in odd rounds the other way round."""
    words = {"zklock": [bench.build + "/zklock", "-s", bench.server("zookeeper", "tmpfs").servers, "run", "/bench/command", "--", "true"],
             "flock": ["flock", folder + "/lock", "true"]}
    try:
        words["etcd"] = [*bench.server("etcd", None).words, "lock", "bench", "true"]
    except Missing as missing:
        bench.leave_out("etcd", str(missing))
    for number in range(-min(UNCOUNTED, bench.size.commands), bench.size.commands):
        for system in list(words)[:: 1 if number % 2 == 0 else -1]:
            try:
                took = whole_ms(words[system])
            except Missing as missing:
                if system == "zklock":
                    raise
                bench.leave_out(system, str(missing))
                del words[system]
                continue
            if number >= 0:
                bench.runs.add("command", "tmpfs", system, number, {"whole_ms": took})


def time_list(bench):
    """While so many wait: the driver asks for a look when they have queued, and that look is the measurement."""
    def look():
        if bench.runs.has("ls", "tmpfs", "zklock") or not queued:
            queued.append(True)
            return None
        words = [bench.build + "/zklock", "-s", bench.server("zookeeper", "tmpfs").servers, "ls", path]
        for number in range(-min(UNCOUNTED, bench.size.lists), bench.size.lists):
            took = whole_ms(words)
            if number >= 0:
                bench.runs.add("ls", "tmpfs", "zklock", number, {"whole_ms": took})
        return None
    queued, path = [], f"/bench/{bench.paths + 1}"
    bench.run("queued", "tmpfs", "zklock", 0, ("waiters", bench.size.listed, 0, 0), look)


def measure(bench):
    with tempfile.TemporaryDirectory(prefix="zklock-bench-", dir="/dev/shm") as folder:
        time_runs(bench, folder)
    time_list(bench)
