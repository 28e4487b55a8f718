"""The command as its users pay for it: whole processes. `zklock run` on a free lock against `etcdctl lock` and, as the floors, a raw client that
does no more than the wire asks for, and flock; where its time is spent; and `zklock ls` of a long queue."""
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from systems import Missing

# name: the words for people
COMMANDS = {"zklock": "`zklock run LOCK -- true`", "raw": "raw client: session, create and list, `true`, close",
            "etcd": "`etcdctl lock LOCK true`", "flock": "`flock FILE true` (no server)", "version": "`zklock --version` (no server)"}
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "ETCDCTL_API": "3"}  # short: each command looks for `true` in it
# What `zklock run` does, one part after the other.
PARTS = ["start: dynamic linking, the keeper's process", "connect, a session, who the user is", "acquire",
         "the command: its start, its work, its end", "release", "close the session, end"]
UNCOUNTED = 10  # the first ones find a virtual machine that has not compiled what they need


def whole_ms(words):
    """From the start of a process to its end. Spawned directly: Python's own way costs more than a short command."""
    quiet = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    began = time.monotonic_ns()
    _, status = os.waitpid(os.posix_spawnp(words[0], words, ENVIRONMENT, file_actions=quiet), 0)
    ended = time.monotonic_ns()
    if status != 0:
        raise Missing(f"{words[0]} failed")
    return (ended - began) / 1e6


def run_words(bench):
    return [os.path.abspath(bench.build) + "/zklock", "-s", bench.server("zookeeper", "tmpfs").servers, "run", "/bench/command", "--", "true"]


def time_runs(bench, folder):
    """Each in turn, in odd rounds the other way round."""
    servers = bench.server("zookeeper", "tmpfs").servers
    # The raw client uses the directory that zklock has made.
    words = {"zklock": run_words(bench), "raw": [bench.build + "/bench/raw_command", servers, "/bench/command", "true"],
             "version": [bench.build + "/zklock", "--version"], "flock": ["flock", folder + "/lock", "true"]}
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


def part_ends(lines):
    """Of lines of strace (process, seconds, what it did): when each part of the command's work ended."""
    def first(pattern, after=0.0, process=None):
        for pid, at, what in lines:
            if at > after and process in (None, pid) and re.search(pattern, what):
                return pid, at
        raise Missing(f"strace shows no {pattern}")
    _, connect = first(r"^connect\(.*AF_INET")
    _, create = first(r"^sendto\(.*/_c_", connect)
    child, execute = first(r"^execve\(", create)
    _, ended = first(r"^\+\+\+ exited", execute, child)
    _, close = first(r"^sendto\(.*\\377\\377\\377\\365", ended)  # the request closeSession
    return dict(zip(PARTS, (connect, create, execute, ended, close, lines[-1][1])))


def trace_runs(bench, folder):
    """strace stops a process at each of these calls, so shares are looked at, not times."""
    if not shutil.which("strace"):
        bench.leave_out("where the command's time is spent", "strace is not installed")
        return
    file = folder + "/trace"
    words = ["strace", "-f", "--seccomp-bpf", "-ttt", "-s", "64", "-e", "trace=execve,connect,sendto", "-o", file, *run_words(bench)]
    try:
        for number in range(-1, max(2, bench.size.commands // 2)):
            whole_ms(words)
            with open(file, encoding="utf-8") as trace:
                lines = [(pid, float(at), what) for pid, at, what in (line.split(maxsplit=2) for line in trace)]
            began, last = lines[0][1], lines[0][1]
            shares = {}
            for part, at in part_ends(lines).items():
                shares[part] = 100 * (at - last) / (lines[-1][1] - began)
                last = at
            if number >= 0:
                bench.runs.add("parts", "tmpfs", "zklock", number, shares)
    except Missing as missing:
        bench.leave_out("where the command's time is spent", str(missing))


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


def show(bench):
    """The command alone, printed: its time, times the raw client's, and where it is spent."""
    with tempfile.TemporaryDirectory(prefix="zklock-bench-", dir="/dev/shm") as folder:
        time_runs(bench, folder)
        trace_runs(bench, folder)
    for system, words in COMMANDS.items():
        times = bench.runs.values("command", "tmpfs", system, "whole_ms")
        ratios = bench.runs.ratios("command", "tmpfs", system, "raw", "whole_ms")
        if times and ratios:
            print(f"{words:56} {statistics.median(times):6.2f} ms, {statistics.median(ratios):.2f} x the raw client")
    for part in PARTS:
        print(f"{part:56} {statistics.median(bench.runs.values('parts', 'tmpfs', 'zklock', part)):6.0f} % of the time under strace")


def measure(bench):
    with tempfile.TemporaryDirectory(prefix="zklock-bench-", dir="/dev/shm") as folder:
        time_runs(bench, folder)
        trace_runs(bench, folder)
    time_list(bench)
