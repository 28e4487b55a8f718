"""From figures to measurements.json, which page.py makes a page of."""
import json
import math
import os
import platform
import re
import statistics

from figures import quantile, spread, us
from goals import goal_table, waiting
from plots import plot_all
from systems import SYSTEMS

PLACES = {"tmpfs": "one server, data in memory", "disk": "one server, data on disk", "three": "three servers, data in memory"}
COMMANDS = {"zklock": "`zklock run LOCK -- true`", "raw": "raw client: session, create and list, `true`, close",
            "etcd": "`etcdctl lock LOCK true`", "flock": "`flock FILE true` (no server)"}


def machine():
    """To be called before anything is measured, for the sake of the load."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        processor = re.search(r"^model name\s*: (.*)", file.read(), re.M)
    return (f"{os.cpu_count()} cores ({processor[1] if processor else platform.machine()}), Linux {platform.release()}, "
            f"load before the run {os.getloadavg()[0]:.2f}")


def rows_of(bench, job, columns):
    """A row for each place and system that did the job: where, its name, columns(system, place)."""
    rows = []
    for place, words in PLACES.items():
        for system in SYSTEMS:
            if bench.runs.all[job, system, place]:
                rows.append([words if SYSTEMS[system][1] == "zookeeper" else "its own server", SYSTEMS[system][0], *columns(system, place)])
    return rows


def free_table(bench):
    return [["where", "", "acquire + release"],
            *rows_of(bench, "free", lambda system, place: [spread(bench.runs.values("free", system, "cycle_us", place), us)])]


def contest_table(bench, job):
    runs = bench.runs

    def columns(system, place):
        def column(name, form="{:,.0f}"):
            return spread(runs.values(job, system, name, place), form)
        luck = (f"{runs.median(job, system, name, place):,.0f}" for name in ("luckiest", "unluckiest"))
        return [column("grants_s"), column("slowest_s"), column("hand_over_us", us), spread([quantile(runs.pooled(job, system, place), 0.99)], us),
                " : ".join(luck), column("requests_each", "{:.1f}"), column("client_us", us)]
    return [["where", "", "grants a second", "slowest second", "hand-over", "p99", "luckiest : unluckiest", "requests per grant",
             "processor per grant, client"], *rows_of(bench, job, columns)]


def waiters_table(bench):
    rows = []
    for count in bench.size.waiters:
        job = f"waiters{count}"
        rows.append([f"{count:,}", spread(bench.runs.values(job, "zklock", "hand_over_us"), us), spread([quantile(bench.runs.pooled(job, "zklock"), 0.99)], us)])
    return [["waiters", "hand-over", "p99"], *rows]


def wait_table(bench):
    def row(who, packets, writes):
        return [who, spread([packets], "{:.1f}"), spread([writes], "{:.1f}")]
    holder = (bench.runs.median("wait1", "zklock", what) / (bench.size.wait_ms / 60000) for what in ("requests", "writes"))
    return [["a session, per minute", "packets to the server", "writes"],
            row("zklock, one that waits", waiting(bench, "requests"), waiting(bench, "writes")), row("zklock, one that holds", *holder)]


def command_table(bench):
    rows = []
    for system, words in COMMANDS.items():
        rows.append([words, spread(bench.runs.values("command", system, "whole_ms"), "{:.1f} ms"),
                     spread(bench.runs.ratios("command", system, "raw", "whole_ms"), "{:.2f} x")])
    rows.append([f"`zklock ls LOCK`, {bench.size.listed:,} in the queue", spread(bench.runs.values("ls", "zklock", "whole_ms"), "{:.1f} ms"), ""])
    return [["whole process", "time", "against the raw client"], *rows]


def readme_lines(bench):
    """What README.md has between its marks: zklock's figure as a multiple of others', and who is ahead of it."""
    def median(*key):
        ratios = bench.runs.ratios(*key)
        return statistics.median(ratios) if ratios else math.nan
    lines = []
    for work, job, name, place, others in [
            ("free lock, time", "free", "cycle_us", "tmpfs", {"raw": "the raw client", "curator": "Curator"}),
            ("8 sessions on one lock, grants a second", "eight", "grants_s", "tmpfs", {"raw": "the raw client", "curator": "Curator"}),
            ("the same, three servers", "eight", "grants_s", "three", {"raw": "the raw client", "curator": "Curator"}),
            ("`zklock run`, time", "command", "whole_ms", "tmpfs", {"etcd": "`etcdctl lock`", "flock": "`flock`"})]:
        lines.append(f"- {work}: " + "; ".join(f"{words} {median(job, 'zklock', other, name, place):.2f} x" for other, words in others.items()))
    works = []
    for work, job, name, less in [("a free lock, time", "free", "cycle_us", True), ("8 sessions, grants a second", "eight", "grants_s", False)]:
        # The lines above have the raw client; a lock that lingers and libzklock_st are not others.
        others = [(round(median(job, system, "zklock", name), 2), re.split(", (?:tried|its)", words)[0]) for system, (words, *_) in SYSTEMS.items()
                  if system not in ("raw", "zklock", "linger", "st")]
        ahead = sorted((other for other in others if (other[0] < 1 if less else other[0] > 1)), reverse=not less)
        works += [f"*{work}*: " + "; ".join(f"{words} {ratio:.2f} x" for ratio, words in ahead)] if ahead else []
    return lines + ["", "Where others are ahead, their figure as a multiple of zklock's. " + ". ".join(works) + "." if works else "Nobody else was ahead."]


def write_report(bench, folder, run):
    """False: two contenders held at once."""
    os.makedirs(folder + "/img", exist_ok=True)
    plot_all(bench, folder + "/img")
    figures = {
        "run": run, "missing": "".join(f" {SYSTEMS[system][0]} is left out: {why}." for system, why in bench.missing.items()),
        "readme": "\n".join(readme_lines(bench)), "goals": goal_table(bench), "free": free_table(bench),
        **{job: contest_table(bench, job) for job in ("eight", "processes", "threads", "two", "busy")},
        "command": command_table(bench), "waiters": waiters_table(bench), "wait": wait_table(bench)}
    with open(folder + "/measurements.json", "w", encoding="utf-8") as file:
        file.write(json.dumps(figures).replace("], ", "],\n") + "\n")  # a line for each row
    overlapping = [key for key, rounds in bench.runs.all.items() if any(run.get("overlaps") for run in rounds.values())]
    for key in overlapping:
        print("bench: two were let in at once:", *key)
    return not overlapping
