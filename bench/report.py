"""measurements.json, from figures."""
import datetime
import json
import math
import os
import statistics
import subprocess

from command import COMMANDS, PARTS, UNCOUNTED
from figures import quantile
from goals import goals, idle, per_hand_over, waiting
from plots import plot_all
from short import PLACES, ahead_table, short_table
from systems import SYSTEMS
from tables import number, spread, table, us
from wakeups import ROLES


def goal_table(bench):
    rows = []
    for work, goal, values, form, met in goals(bench):
        known = [value for value in values if not math.isnan(value)]
        rows.append([work, goal, spread(known, form), "-" if not known else "yes" if met(statistics.median(known)) else "**no**"])
    return table(["work", "goal", "measured", "reached"], rows)


def systems_of(runs, job, place):
    return [system for system in SYSTEMS if runs.has(job, place, system)]


def place_of(place, system):
    return PLACES[place] if SYSTEMS[system][2] == "zookeeper" else "its own server"


def free_table(bench):
    rows, runs = [], bench.runs
    for place in bench.size.places:
        for system in systems_of(runs, "free", place):
            rows.append([place_of(place, system), SYSTEMS[system][0], spread(runs.values("free", place, system, "cycle_us"), us),
                         spread(runs.ratios("free", place, system, "raw", "cycle_us"), lambda x: f"{x:.2f}" if x >= 0.1 else f"{x:.4f}"),
                         spread(runs.values("free", place, system, "requests_each"), "{:.1f}")])
    return table(["where", "", "acquire + release", "x raw", "requests"], rows)


def slowest(runs, job, place, system):
    """The slowest second, and a word where it is under half of the mean."""
    rounds = runs.all[job, place, system].values()
    falls = any(run["slowest_s"] < run["grants_s"] / 2 for run in rounds if "slowest_s" in run)
    return spread(runs.values(job, place, system, "slowest_s")) + (", **under half of the mean**" if falls else "")


def contest_table(bench, job, places):
    rows, runs = [], bench.runs
    for place in places:
        for system in systems_of(runs, job, place):
            def values(name, key=(job, place, system)):
                return runs.values(*key, name)
            luck = (number(runs.median(job, place, system, what)) for what in ("luckiest", "unluckiest"))
            rows.append([place_of(place, system), SYSTEMS[system][0], spread(values("grants_s")), slowest(runs, job, place, system), spread(values("hand_over_us"), us),
                         us(quantile(runs.pooled(job, place, system), 0.99)), " : ".join(luck), spread(values("requests_each"), "{:.1f}"),
                         spread(values("client_us"), us), spread(values("server_us"), us)])
    return table(["where", "", "grants a second", "slowest second", "hand-over", "p99", "luckiest : unluckiest", "requests per grant",
                  "processor per grant, client", "server"], rows)


def busy_table(bench):
    rows, runs = [], bench.runs
    for system in systems_of(runs, "busy", "tmpfs"):
        luck = (number(runs.median("busy", "tmpfs", system, what)) for what in ("luckiest", "unluckiest"))
        waited = [requests / seconds for requests, seconds in zip(*(runs.values("busy", "tmpfs", system, what) for what in ("requests", "waiting_s")))]
        rows.append([SYSTEMS[system][0], spread(runs.values("busy", "tmpfs", system, "hand_over_us"), us),
                     us(quantile(runs.pooled("busy", "tmpfs", system), 0.99)), spread(runs.values("busy", "tmpfs", system, "requests_each"), "{:.1f}"),
                     spread(waited, "{:.1f}"), " : ".join(luck)])
    return table(["", "hand-over", "p99", "requests per grant", "requests per waiting second", "luckiest : unluckiest"], rows)


def relay_table(bench):
    def row(words, job, system):
        return [words, spread(bench.runs.values(job, "tmpfs", system, "wait_us"), us)]
    return table(["", "time"], [
        row("hand-over to a waiter, zklock", "relay", "zklock"),
        row("raw delete-to-event", "event", "raw"), row("raw read", "read", "raw"),
        row("acquire of a free lock, zklock", "free", "zklock"),
        row("acquire of a lock that lingers unused in another session", "yield", "linger")])


def waiters_table(bench):
    rows, runs = [], bench.runs
    for count in bench.size.waiters:
        job = f"waiters{count}"
        rows.append([f"{count:,}", spread(runs.values(job, "tmpfs", "zklock", "hand_over_us"), us),
                     us(quantile(runs.pooled(job, "tmpfs", "zklock"), 0.99)),
                     *(spread(per_hand_over(runs, job, what), "{:.2f}") for what in ("events", "requests", "writes"))])
    return table(["waiters", "hand-over", "p99", "events sent by the server, per hand-over", "requests", "writes"], rows)


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
            rows.append([words, spread(times, "{:.1f} ms"),
                         *(spread(runs.ratios("command", "tmpfs", system, other, "whole_ms"), "{:.2f} x") for other in ("raw", "etcd", "flock"))])
    rows.append([f"`zklock ls LOCK`, {bench.size.listed:,} in the queue", spread(runs.values("ls", "tmpfs", "zklock", "whole_ms"), "{:.1f} ms"), "", "", ""])
    return table(["whole process", "time", "against the raw client", "against etcdctl", "against flock"], rows)


def parts_table(bench):
    return table(["part of `zklock run`", "share of its time"],
                 [[part, spread(bench.runs.values("parts", "tmpfs", "zklock", part), "{:.0f} %")] for part in PARTS])


def grant_table(bench):
    """What a grant among eight sessions is made of."""
    runs = bench.runs
    shown = [s for s in ("raw", "raw1", "zklock", "curator") if runs.has("eight", "tmpfs", s)]

    def row(words, name, form=us):
        return [words, *(spread(runs.values("eight", "tmpfs", s, name), form) for s in shown)]
    cores = [[100 * (client + server) / whole / os.cpu_count() for client, server, whole in
              zip(*(runs.values("eight", "tmpfs", s, name) for name in ("client_us", "server_us", "grant_us")))] for s in shown]
    rows = [row("time from one grant to the next", "grant_us"), row("processor, client", "client_us"), row("processor, server", "server_us"),
            ["share of all cores that is", *(spread(values, "{:.0f} %") for values in cores)],
            row("requests", "requests_each", "{:.1f}"), row("events", "events_each", "{:.1f}"),
            ["to raw grants a second", *(spread(runs.ratios("eight", "tmpfs", s, "raw", "grants_s"), "{:.2f} x") for s in shown)]]
    for role in ROLES if bench.wakeups else []:
        rows.append([f"wake-ups, {role}", *(number(bench.wakeups.get(s, {}).get(role, math.nan), "{:.1f}") for s in shown)])
    return table(["for each grant", *(SYSTEMS[s][0] for s in shown)], rows)


def commit_of_tree():
    """Abbreviated, with -dirty where the tree differs from it."""
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=here, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def run_line(size, seconds, where):
    """When, with which tree, how and where it was measured."""
    word = " " + size.words if size.words else ""
    return (f"`scripts/bench{word}` measured this on {datetime.date.today().isoformat()}, with the tree of commit {commit_of_tree()}: "
            f"{size.rounds} rounds, {max(1, seconds / 60):.0f} minutes. Machine: {where[0]}.")


def threads_of_processes(bench):
    names = {"zklock": "libzklock", "st": "libzklock_st"}
    return ", ".join(f"{number(bench.runs.median('processes', 'tmpfs', system, 'process_threads'))} threads with {name}" for system, name in names.items()
                     if bench.runs.has("processes", "tmpfs", system)).replace("1 threads", "1 thread")


def write_report(bench, folder, machine, run):
    """The figures as data: page.py makes a page of them. False: two contenders held at once."""
    runs, size = bench.runs, bench.size
    plot_all(bench, folder + "/img")
    figures = {
        "run": run, "missing": "".join(f" {SYSTEMS[s][0] if s in SYSTEMS else s} is left out: {why}." for s, why in bench.missing.items()),
        "machine": "\n".join("- " + line for line in machine), "sustained_s": max(0, size.sustained_ms / 1000 - 1), "commands": size.commands,
        "uncounted": min(UNCOUNTED, size.commands), "process_threads": threads_of_processes(bench), "wait_s": size.wait_ms / 1000,
        "hand_overs": number(runs.median(f"waiters{size.waiters[-1]}", "tmpfs", "zklock", "hand_over_count")),
        "short": short_table(bench), "ahead": ahead_table(bench), "goals": goal_table(bench), "free": free_table(bench),
        **{job: contest_table(bench, job, [place for place in size.places if any(runs.has(job, place, s) for s in SYSTEMS)])
           for job in ("eight", "processes", "threads", "two", "pair")},
        "grant": grant_table(bench), "busy": busy_table(bench), "relay": relay_table(bench), "command": command_table(bench),
        "parts": parts_table(bench), "waiters": waiters_table(bench), "crowd": crowd_table(bench), "wait": wait_table(bench)}
    with open(folder + "/measurements.json", "w", encoding="utf-8") as file:
        file.write(as_text(figures))
    overlapping = [key for key, rounds in runs.all.items() if any(run.get("overlaps") for run in rounds.values())]
    for job, place, system in overlapping:
        print(f"bench: {system} let two in at once: {job}, {place}")
    return not overlapping


def as_text(figures):
    """JSON with a line for each row of a table."""
    values = {name: "[\n  " + ",\n  ".join(map(json.dumps, value)) + "]" if isinstance(value, list) else json.dumps(value)
              for name, value in figures.items()}
    return "{" + ",\n".join(f'"{name}": {text}' for name, text in values.items()) + "}\n"
