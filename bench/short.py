"""The few figures that matter most, and where others are ahead: on every page that a person reads."""
import os
import re
import statistics

from command import COMMANDS
from figures import quantile
from systems import SYSTEMS
from tables import by_figure, number, spread, table

BLOCK = re.compile(r"(<!-- measured: .*? -->\n).*?(<!-- /measured -->)", re.DOTALL)
PLACES = {"tmpfs": "one server, data in memory", "disk": "one server, data on disk", "three": "three servers, data in memory"}
# Rows of the short table that README.md has, too.
README_ROWS = ("free lock, time", "8 sessions on one lock, grants a second", "the same, three servers", "`zklock run`, time")
# What README.md says of who is ahead: in these works, with the data of one server in memory. The rows above have the raw client.
README_AHEAD = ("a free lock, time", "8 sessions, grants a second")
README_WHERE = ("its own server", "one server, data in memory")
NOT_OTHERS = ("zklock", "linger", "st", "version")
# What others are compared in: job, figure, whether less of it is better.
WORKS = {"a free lock, time": ("free", "cycle_us", True), "8 sessions, grants a second": ("eight", "grants_s", False),
         "8 processes, grants a second": ("processes", "grants_s", False), "8 threads, grants a second": ("threads", "grants_s", False),
         "2 sessions, one waits, hand-over time": ("pair", "hand_over_us", True),
         "8 sessions that work, hand-over time": ("busy", "hand_over_us", True), "a command, time": ("command", "whole_ms", True)}


def times(values):
    return number(statistics.median(values), "{:,.0f} x" if statistics.median(values) >= 100 else "{:.2f} x") if values else "-"


def short_table(bench):
    runs, most = bench.runs, bench.size.waiters[-1]

    def ratio(job, other, name, system="zklock", place="tmpfs"):
        return times(runs.ratios(job, place, system, other, name))

    def luck(system):
        return " : ".join(number(runs.median("busy", "tmpfs", system, what)) for what in ("luckiest", "unluckiest"))

    def tail(count):
        return quantile(runs.pooled(f"waiters{count}", "tmpfs", "zklock"), 0.99)
    return table(["", "against", "measured"], [
        ["free lock, time", "the raw client", ratio("free", "raw", "cycle_us")],
        ["", "Curator", ratio("free", "curator", "cycle_us")],
        ["the same, lingering, times as fast", "Curator", times(runs.ratios("free", "tmpfs", "curator", "linger", "cycle_us"))],
        ["8 sessions on one lock, grants a second", "the raw client", ratio("eight", "raw", "grants_s")],
        ["", "Curator", ratio("eight", "curator", "grants_s")],
        ["the same, three servers", "the raw client", ratio("eight", "raw", "grants_s", place="three")],
        ["", "Curator", ratio("eight", "curator", "grants_s", place="three")],
        ["8 threads of one session, grants a second", "Curator", ratio("threads", "curator", "grants_s")],
        ["the same, lingering", "Curator", ratio("threads", "curator", "grants_s", "linger")],
        ["8 processes on libzklock_st, grants a second", "libzklock", ratio("processes", "zklock", "grants_s", "st")],
        ["", "a bare recipe on one thread", ratio("processes", "raw1", "grants_s", "st")],
        ["the same, processor per grant", "libzklock", ratio("processes", "zklock", "client_us", "st")],
        ["8 sessions that work, luckiest : unluckiest", "Redis, tried every 10 ms", f"{luck('zklock')} against {luck('redis10')}"],
        [f"{most:,} waiters, hand-over time", f"{bench.size.waiters[0]:,} waiters",
         times(runs.ratios(f"waiters{most}", "tmpfs", "zklock", "zklock", "hand_over_us", to=f"waiters{bench.size.waiters[0]}"))],
        ["the same, 99th percentile", "", times([tail(most) / tail(bench.size.waiters[0])])],
        ["`zklock run`, time", "`etcdctl lock`", ratio("command", "etcd", "whole_ms")],
        ["", "`flock`", ratio("command", "flock", "whole_ms")]])


def ahead(bench):
    """(work, place, system, ratios of its figure to zklock's), where the median is ahead."""
    found = []
    for work, (job, name, less) in WORKS.items():
        for place in bench.size.places:
            others = [key[2] for key in bench.runs.all if key[:2] == (job, place) and key[2] not in NOT_OTHERS]
            ratios = {system: bench.runs.ratios(job, place, system, "zklock", name) for system in others}
            medians = sorted(((round(statistics.median(values), 2), system) for system, values in ratios.items() if values), reverse=not less)
            found += [(work, place, system, ratios[system]) for median, system in medians if (median < 1 if less else median > 1)]
    return found


def name_of(work, system):
    return COMMANDS[system].partition(" (")[0] if WORKS[work][0] == "command" else SYSTEMS[system][0]


def place_of(work, place, system):
    return "-" if WORKS[work][0] == "command" else PLACES[place] if SYSTEMS[system][2] == "zookeeper" else "its own server"


def ahead_table(bench):
    rows = [[work, place_of(work, place, system), name_of(work, system), spread(ratios, "{:.2f} x")] for work, place, system, ratios in ahead(bench)]
    return table(["", "where", "ahead of zklock", "its figure, of zklock's"], rows)


def short_list(rows):
    """The rows of the short table that README.md has."""
    found = by_figure(rows)
    return "".join(found[name] + "\n" for name in README_ROWS if name in found)


def ahead_line(rows):
    """The part of ahead_table() that README.md has: every other system that is ahead, the one furthest ahead first."""
    found = {}
    for work, where, system, ratios in rows[1:]:
        name = re.split(", (?:tried|its)", system)[0]
        if work in README_AHEAD and where in README_WHERE and name != SYSTEMS["raw"][0]:
            found.setdefault(work, {}).setdefault(name, ratios.partition(" (")[0])
    works = [f"*{work}*: " + "; ".join(f"{name} {ratio}" for name, ratio in systems.items()) for work, systems in found.items()]
    return "Where others are ahead, their figure as a multiple of zklock's. " + ". ".join(works) + ".\n" if works else "Nobody else was ahead.\n"


def write_short(bench, folder, run):
    """Between the marks of folder's measurements.md and of the README beside folder, as far as these are there. Only the README has figures
    there, and says who is ahead."""
    readme = os.path.join(os.path.dirname(os.path.abspath(folder)), "README.md")
    for path, more in ((os.path.join(folder, "measurements.md"), ""), (readme, f"{short_list(short_table(bench))}\n{ahead_line(ahead_table(bench))}\n")):
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            with open(path, "w", encoding="utf-8") as file:
                file.write(BLOCK.sub(lambda marks, made=f"\n{run}\n\n{more}": marks[1] + made + marks[2], text))
