"""measurements.md, from figures."""
import datetime
import itertools
import math
import os
import subprocess

from command import COMMANDS, UNCOUNTED
from figures import quantile
from goals import goals, idle, over, per_hand_over, waiting
from plots import plot_all
from short import short_table
from systems import SYSTEMS
from tables import number, table, us
from wakeups import ROLES

PLACES = {"tmpfs": "one server, data in memory", "disk": "one server, data on disk", "three": "three servers, data in memory"}


def goal_table(bench):
    rows = []
    for work, goal, value, form, met in goals(bench):
        rows.append([work, goal, number(value, form), "-" if math.isnan(value) else "yes" if met(value) else "**no**"])
    return table(["work", "goal", "measured", "reached"], rows)


def systems_of(runs, job, place):
    return [system for system in SYSTEMS if runs.has(job, place, system)]


def free_table(bench):
    rows, runs = [], bench.runs
    for place in bench.size.places:
        for system in systems_of(runs, "free", place):
            key = ("free", place, system, "cycle_us")
            low, high = runs.quartiles(*key)
            rows.append([PLACES[place] if SYSTEMS[system][2] == "zookeeper" else "its own server", SYSTEMS[system][0],
                         us(runs.median(*key)), f"{us(low)} to {us(high)}",
                         number(runs.ratio("free", place, system, "raw", "cycle_us"), "{:.2f}")])
    return table(["where", "", "acquire + release", "quartiles of the rounds", "x raw"], rows)


def contest_table(bench, job, places):
    rows, runs = [], bench.runs
    for place in places:
        for system in systems_of(runs, job, place):
            between = runs.pooled(job, place, system)
            luck = runs.median(job, place, system, "luckiest"), runs.median(job, place, system, "unluckiest")
            grants, requests, client, server = (sum(runs.values(job, place, system, what)) for what in
                                                ("sections", "requests", "client_cpu_s", "server_cpu_s"))
            rows.append([PLACES[place] if SYSTEMS[system][2] == "zookeeper" else "its own server", SYSTEMS[system][0],
                         number(runs.upper(job, place, system, "grants_s")), number(runs.median(job, place, system, "grants_s")),
                         *(us(quantile(between, q)) for q in (0.5, 0.99, 1)), f"{luck[0]:.0f} : {luck[1]:.0f}",
                         number(over(requests, grants), "{:.1f}"),
                         f"{us(1e6 * over(client, grants))} + {us(1e6 * over(server, grants))}"])
    return table(["where", "", "grants/s, upper quartile", "median", "hand-over p50", "p99", "max", "luckiest : unluckiest",
                  "requests per grant", "processor per grant, client + server"], rows)


def busy_table(bench):
    rows, runs = [], bench.runs
    for system in systems_of(runs, "busy", "tmpfs"):
        between = runs.pooled("busy", "tmpfs", system)
        requests, waited = (sum(runs.values("busy", "tmpfs", system, what)) for what in ("requests", "waiting_s"))
        luck = runs.median("busy", "tmpfs", system, "luckiest"), runs.median("busy", "tmpfs", system, "unluckiest")
        grants = sum(runs.values("busy", "tmpfs", system, "sections"))
        rows.append([SYSTEMS[system][0], *(us(quantile(between, q)) for q in (0.5, 0.99, 1)), number(over(requests, grants), "{:.1f}"),
                     number(over(requests, waited), "{:.1f}"), f"{luck[0]:.0f} : {luck[1]:.0f}"])
    return table(["", "hand-over p50", "p99", "max", "requests per grant", "requests per waiting second", "luckiest : unluckiest"], rows)


def waiters_table(bench):
    rows, runs = [], bench.runs
    for count, system in itertools.product(bench.size.waiters, ("zklock", "listing")):
        job = f"waiters{count}"
        between = runs.pooled(job, "tmpfs", system)
        rows.append([SYSTEMS[system][0], f"{count:,}", *(us(quantile(between, q)) for q in (0.5, 0.99)),
                     *(number(per_hand_over(runs, job, what, system), "{:.2f}") for what in ("events", "requests", "writes"))])
    return table(["", "waiters", "hand-over p50", "p99", "events sent by the server, per hand-over", "requests", "writes"], rows)


def crowd_table(bench):
    def fact(job, name, form="{:,.0f}"):
        return number(bench.runs.median(job, "tmpfs", "zklock", name), form)
    held, pending = f"{bench.size.held:,} locks held by one session", f"{bench.size.pending:,} acquires pending on one thread"
    return table(["", ""], [
        [held + ": heap, each", fact("held", "heap_bytes_each") + " bytes"],
        ["resident memory, each, libzookeeper's included", fact("held", "rss_bytes_each") + " bytes"],
        ["all granted after", fact("held", "granted_ms") + " ms"],
        ["threads of the process, before and with them", fact("held", "threads_before") + ", " + fact("held", "threads")],
        [f"requests in {bench.size.wait_ms / 4000:g} s while they are held; while one is", fact("held", "requests") + "; " + fact("held1", "requests")],
        [pending + ": threads of the process, before and with them", fact("pending", "threads_before") + ", " + fact("pending", "threads")],
        ["all granted, once their holder's session was closed, after", fact("pending", "granted_ms") + " ms"]])


def wait_table(bench):
    def holder(what):
        return bench.runs.median("wait1", "tmpfs", "zklock", what) / (bench.size.wait_ms / 60000)

    def row(who, packets, writes):
        return [who, number(packets, "{:.1f}"), number(writes, "{:.1f}")]
    return table(["a session, per minute", "packets to the server", "writes"], [
        row("raw client, nothing to do: its pings", idle(bench, "raw"), 0), row("zklock, nothing to do", idle(bench, "zklock"), 0),
        row("zklock, one that waits", waiting(bench, "requests"), waiting(bench, "writes")),
        row("zklock, one that holds", holder("requests"), holder("writes"))])


def command_table(bench):
    rows, runs = [], bench.runs
    for system, words in COMMANDS.items():
        times = runs.values("command", "tmpfs", system, "whole_ms")
        if times:
            rows.append([words, *(number(quantile(times, q), "{:.1f} ms") for q in (0, 0.5, 0.9)),
                         number(runs.ratio("command", "tmpfs", system, "etcd", "whole_ms"), "{:.2f} x")])
    times = runs.values("ls", "tmpfs", "zklock", "whole_ms")
    rows.append([f"`zklock ls LOCK`, {bench.size.listed:,} in the queue", *(number(quantile(times, q), "{:.1f} ms") for q in (0, 0.5, 0.9)),
                 ""])
    return table(["whole process", "min", "median", "9 of 10 are faster than", "against etcdctl"], rows)


def grant_table(bench):
    """What a grant among eight sessions is made of."""
    runs = bench.runs
    shown = [s for s in ("raw", "raw1", "zklock", "listing", "curator") if runs.has("eight", "tmpfs", s)]

    def each(what, factor=1.0):
        return [factor * over(sum(runs.values("eight", "tmpfs", s, what)), sum(runs.values("eight", "tmpfs", s, "sections")))
                for s in shown]

    def row(words, values, form="{:,.0f} us"):
        return [words, *(number(value, form) for value in values)]
    client, server, wall = each("client_cpu_s", 1e6), each("server_cpu_s", 1e6), each("span_s", 1e6)
    rows = [row("time from one grant to the next", wall), row("processor, client", client), row("processor, server", server),
            row("share of all cores that is", [100 * (c + s) / w / os.cpu_count() for c, s, w in zip(client, server, wall)], "{:.0f} %"),
            row("requests", each("requests"), "{:.1f}"), row("events", each("events"), "{:.1f}"),
            row("to raw grants a second", [runs.ratio("eight", "tmpfs", s, "raw", "grants_s") for s in shown], "{:.2f} x")]
    for role in ROLES if bench.wakeups else []:
        rows.append(row(f"wake-ups, {role}", [bench.wakeups.get(s, {}).get(role, math.nan) for s in shown], "{:.1f}"))
    return table(["for each grant", *(SYSTEMS[s][0] for s in shown)], rows)


TEXT = """# Measurements

Made by `scripts/bench{word}`, which replaces this page: {rounds} rounds, {minutes:.0f} minutes, on {date}, with the tree of commit {commit}. In each round every system does every job, in odd rounds in the
opposite order. Figures are medians over the rounds, and ratios are medians of the ratios within a round. Grants per second have two
modes on a machine with few cores (whether the next thread is awake already), so their upper quartile is given as well. Machine:

{machine}

The servers have tickTime 2000, sessions 10 s. *Data in memory* is `/dev/shm`: no fsync is in the figure, so the client's part is as large as possible. On
one machine clients and servers compete for its cores: compare ratios.{missing}

## In short
Medians of the ratios within a round.

{short}
## Goals
Grants a second compare the upper quartiles of the rounds here, not the medians of the ratios as above; hand-overs of waiters compare their medians (p50).

{goals}
*The raw client* is libzookeeper_mt called directly with name resolution switched off: create and list sent together, a get with a watch on the predecessor and a list when
that is deleted, then delete. It is a floor, not a lock: the first fault ends it. Delete-to-event ends in the client library's callback. The read includes waking the
requesting thread.

## A free lock
One session acquires and releases a lock for which nobody else contends.

![Acquire and release of a free lock](img/free.svg)

{free}
## Eight sessions, one lock
Each acquires, releases and acquires again, without a pause: the worst case for throughput. *Hand-over* is from the release call of one to the
return of another's acquire that was waiting. *Luckiest : unluckiest* are grants of one contender in a round. kazoo's sessions are processes, the others' threads.
*zklock, not announced* has znodes that others may write. So no release is announced, and a waiter reads the list before it holds.

![Grants a second](img/grants.svg)

{eight}
*Processor per grant* is the processor time of both sides, user and system. Other work on the machine disturbs it less than any elapsed time. Where all
cores are busy it bounds the rate, and the server's part of it grows with the number of requests, whatever client sends them.

Polled locks look fast here for a bad reason: the last holder tries first, and is granted the lock again. Compare luckiest and unluckiest, and the hand-overs of the next but one table.

### Why not faster
The cost of one grant on the first server of that table. Wake-ups are counted by the kernel's trace points (`perf record -e sched:sched_wakeup`, in a run
of its own); `bench/wakeups.py` assigns them to threads.

{grant}
- **The number of requests is the same.** A listing recipe needs five requests per grant, with any client: create, list, get with a watch, list, delete. An announced release
  spares the second list, but each waiter watches its own znode, too. That is as many requests, and one round trip less between two holders.
- **The server does most of the work**: each request passes its selector, a worker, and three more threads, and the response passes the first two. Each of
  them sleeps between two requests. Clients compete with it for the same cores here.
- **zklock against raw**: the difference is all that zklock adds to the client library.
- **The client library has two threads.** One reads the socket, the other runs callbacks. A request is queued, and a pipe wakes the first thread to send it. From an event
  to the holder's next request, a listing recipe wakes: connection, callbacks, connection (sends the list), connection, callbacks, caller (it holds), connection. *The same, one thread*
  is the same recipe on libzookeeper_st, where the waiter reads the socket itself and sends immediately. The difference is the cost of these hand-overs between threads.

## Eight threads of one session
{threads}
## Eight sessions that work
Each section lasts 50 ms, so somebody always waits. Requests are counted by the server (by the driver for Redis and PostgreSQL), heartbeats and pings included.

![How long hand-overs take](img/hand-over.svg)

{busy}
## Two sessions, one waits
A section of 2 ms, so that the other one certainly waits. The releaser acquires again immediately, which delays the other.

{pair}
Without that: zklock hands over in {relay}, in {relay_listing} when listing, where raw delete-to-event takes {event} and a raw read {read}.

## The command
From the start of the process to its end, client library and connection included, in turn as everything else, {commands} times after {uncounted} that do not
count. Lock and LOCK are free; etcd, as ZooKeeper, has its data in memory.

{command}
## Many waiters
All queue before the first release; {hand_overs} hand-overs at that length, each to another session. A listing recipe reads the whole queue
at each grant, and the bytes of that list grow with it. A release wakes the next waiter only. An announced release notifies its own session, too.
{waiters_plot}
{waiters}
## Many locks, many pending acquires
{crowd}
## A long wait
{wait_s:g} s stand for an hour: what is sent is periodic, with the session timeout (10 s) and nothing else.

{wait}
"""


def commit_of_tree():
    """Abbreviated, with -dirty where the tree differs from it."""
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=here, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def write_report(bench, folder, machine, seconds):
    runs, size = bench.runs, bench.size
    plot_all(bench, folder + "/img")
    left_out = "".join(f" {SYSTEMS[s][0] if s in SYSTEMS else s} is left out: {why}." for s, why in bench.missing.items())
    text = TEXT.format(
        word=" " + size.words if size.words else "", rounds=size.rounds, date=datetime.date.today().isoformat(),
        commit=commit_of_tree(), minutes=max(1, seconds / 60), missing=left_out,
        machine="\n".join("- " + line for line in machine), goals=goal_table(bench), short=short_table(bench),
        grant=grant_table(bench), command=command_table(bench), commands=size.commands, uncounted=min(UNCOUNTED, size.commands), free=free_table(bench),
        eight=contest_table(bench, "eight", size.places), threads=contest_table(bench, "threads", ["tmpfs"]), busy=busy_table(bench),
        relay=us(runs.median("relay", "tmpfs", "zklock", "wait_us")), relay_listing=us(runs.median("relay", "tmpfs", "listing", "wait_us")),
        event=us(runs.median("event", "tmpfs", "raw", "wait_us")), read=us(runs.median("read", "tmpfs", "raw", "wait_us")),
        pair=contest_table(bench, "pair", ["tmpfs"]), hand_overs=number(runs.median(f"waiters{size.waiters[-1]}", "tmpfs", "zklock", "hand_over_count")),
        waiters_plot="\n![Hand-over by length of the queue](img/waiters.svg)\n" if len(size.waiters) > 1 else "",
        waiters=waiters_table(bench), crowd=crowd_table(bench), wait_s=size.wait_ms / 1000, wait=wait_table(bench))
    with open(folder + "/measurements.md", "w", encoding="utf-8") as file:
        file.write(text)
    overlapping = [key for key, rounds in runs.all.items() if any(run.get("overlaps") for run in rounds.values())]
    for job, place, system in overlapping:
        print(f"bench: {system} let two in at once: {job}, {place}")
    return not overlapping
