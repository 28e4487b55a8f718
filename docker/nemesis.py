#!/usr/bin/env python3
"""Kills and cuts off the containers of compose.yml while it runs, says to the history what it did, and ends all in good order.

    nemesis.py PROJECT RECORD SECONDS [SEED]      PROJECT: docker-compose's -p; RECORD: the folder that is /record

One fault at a time, and peace for a while after it. Exit 0: everything ended well; what the records prove is for the judges."""

import json
import os
import random
import subprocess
import sys
import time

PROJECT, RECORD, SECONDS = sys.argv[1], sys.argv[2], float(sys.argv[3])
SEED = sys.argv[4] if len(sys.argv) > 4 else str(time.time_ns())
SERVERS = ["zoo1", "zoo2", "zoo3"]
WORKERS = ["worker1", "worker2", "worker3", "worker4", "singleton1", "singleton2", "singleton3"]
CONTENDERS = ["contender1", "contender2", "contender3"]
# Every queue that contender.sh uses: the locks, the group, the partition's members and pieces.
PATHS = ["/chaos/a", "/chaos/b", "/chaos/c", "/chaos/g", "/chaos/p/members"]
PATHS += [f"/chaos/p/pieces/q{number}" for number in range(6)]


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def note(client, op, path="-", token=0, lease=0):
    """A line of tests/chaos/history.h."""
    with open(f"{RECORD}/nemesis.history", "a", encoding="ascii") as file:
        file.write(f"{boot_ns()} {client} 0 {op} {path} - {token} {lease}\n")


def docker(*words, check=True):
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        sys.exit(f"nemesis: docker {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def container(service):
    return f"{PROJECT}_{service}_1"


def life(contender):
    """The name under which a contender writes now: that of its youngest history."""
    names = [name[:-len(".history")] for name in os.listdir(RECORD) if name.startswith(contender + "-")]
    return max(names, key=lambda name: int(name.rsplit("-", 1)[1]), default=None)


def pause(low, high):
    time.sleep(random.uniform(low, high))


# --- faults ----------------------------------------------------------------------------------------------------------


def kill(service):
    """SIGKILL to all of a container, and a new life."""
    name = life(service) if service in CONTENDERS else None
    docker("kill", container(service))
    if name:
        note(name, "killed")
    pause(0, 5)
    docker("start", container(service))


def freeze(contender):
    """All of its processes stand still; time does not."""
    name = life(contender)
    if name:
        note(name, "stopped")
        docker("pause", container(contender))
        pause(0.2, 10)
        docker("unpause", container(contender))
        note(name, "continued")


def cut(service, network):
    """No packet to or from it on that network; then the same address again, so that old connections may live on."""
    full = f"{PROJECT}_{network}"
    form = f'{{{{(index .NetworkSettings.Networks "{full}").IPAddress}}}}'
    address = docker("inspect", "-f", form, container(service))
    alias = f"{service}-quorum" if network == "quorum" else service
    docker("network", "disconnect", full, container(service))
    pause(0.5, 12)
    docker("network", "connect", "--ip", address, "--alias", alias, full, container(service))


FAULTS = [
    ("kill-server", lambda: kill(random.choice(SERVERS))),
    ("cut-server-from-servers", lambda: cut(random.choice(SERVERS), "quorum")),
    ("cut-server-from-clients", lambda: cut(random.choice(SERVERS), "clients")),
    ("kill-worker", lambda: kill(random.choice(WORKERS))),
    ("cut-worker", lambda: cut(random.choice(WORKERS), "clients")),
    ("kill-contender", lambda: kill(random.choice(CONTENDERS))),
    ("freeze-contender", lambda: freeze(random.choice(CONTENDERS))),
    ("cut-contender", lambda: cut(random.choice(CONTENDERS), "clients")),
]

# --- beginning and end -----------------------------------------------------------------------------------------------


def await_true(what, is_so, seconds=180):
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"nemesis: {what} did not happen within {seconds} s")
        time.sleep(0.2)


def size(name):
    try:
        return os.path.getsize(f"{RECORD}/{name}")
    except FileNotFoundError:
        return 0


def await_progress():
    """Everybody gets on: the journals and the resource's history grow."""
    for name in ["jobs.journal", "singleton.journal", "resource.history"]:
        before = size(name)
        await_true(f"{name} growing", lambda name=name, before=before: size(name) > before)


def stop_contenders():
    for service in CONTENDERS:
        docker("stop", "--time", "120", container(service))
        code = docker("inspect", "-f", "{{.State.ExitCode}}", container(service))
        if code != "0":
            sys.exit(f"nemesis: {service} ended with {code}: see docker logs {container(service)}")


def places(path):
    """How many znodes stand in the queue, strangers' too."""
    ls = ["--json", "--tick", "500ms", "--session-timeout", "6s", "ls", path]
    queue = json.loads(docker("exec", container("worker1"), "zklock", *ls))
    return len(queue["contenders"]) + queue["foreign"]


def look_for_orphans():
    for path in PATHS:
        end = time.monotonic() + 60
        while places(path) > 0 and time.monotonic() < end:
            time.sleep(0.5)
        note("nemesis", "queue", path, places(path))


def main():
    random.seed(SEED)
    print(f"nemesis: seed {SEED}, {SECONDS:.0f} s", flush=True)
    await_progress()
    done = {}
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        name, fault = random.choice(FAULTS)
        note("nemesis", "fault")
        fault()
        done[name] = done.get(name, 0) + 1
        pause(0.5, 5)
    print("nemesis: " + ", ".join(f"{count} {name}" for name, count in sorted(done.items())), flush=True)
    await_progress()
    stop_contenders()
    look_for_orphans()


main()
