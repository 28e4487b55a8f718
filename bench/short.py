"""The few figures that matter most: a table on the page, and the same table in the README."""
import os
import re

from goals import per_hand_over, typical_hand_over
from tables import number, table

BLOCK = re.compile(r"(<!-- measured: .*? -->\n).*?(<!-- /measured -->)", re.DOTALL)


def short_table(bench):
    runs, longest = bench.runs, f"waiters{bench.size.waiters[-1]}"

    def times(value):
        return number(value, "{:.2f} x")

    def ratio(job, other, name):
        return times(runs.ratio(job, "tmpfs", "zklock", other, name))

    def luck(system):
        return " : ".join(number(runs.median("busy", "tmpfs", system, what)) for what in ("luckiest", "unluckiest"))
    return table(["", "zklock against", "measured"], [
        ["acquire and release of a free lock, time", "the raw client's round trips", ratio("free", "raw", "cycle_us")],
        ["", "Curator", ratio("free", "curator", "cycle_us")],
        ["8 sessions on one lock, grants a second", "a bare recipe on the raw client", ratio("eight", "raw", "grants_s")],
        ["", "Curator", ratio("eight", "curator", "grants_s")],
        ["8 threads of one session, grants a second", "Curator", ratio("threads", "curator", "grants_s")],
        ["8 sessions that work, luckiest : unluckiest", "Redis, tried every 10 ms", f"{luck('zklock')} against {luck('redis10')}"],
        [f"{bench.size.waiters[-1]:,} waiters, hand-over time", f"{bench.size.waiters[0]:,} waiters",
         times(typical_hand_over(runs, longest) / typical_hand_over(runs, f"waiters{bench.size.waiters[0]}"))],
        ["", "watch events per grant, including the releaser's own",
         number(per_hand_over(runs, longest, "events"), "{:.2f}")],
        ["`zklock run` on a free lock, the whole process", "`etcdctl lock`, time", ratio("command", "etcd", "whole_ms")]])


def write_readme(bench, folder):
    """Between the marks of the README beside the page's folder, if there is one."""
    path = os.path.join(os.path.dirname(os.path.abspath(folder)), "README.md")
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(BLOCK.sub(lambda block: block[1] + "\n" + short_table(bench) + "\n" + block[2], text))
