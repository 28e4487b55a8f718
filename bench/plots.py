"""Plots, by gnuplot."""
import os
import subprocess
import tempfile

from figures import quantile
from systems import SYSTEMS

HEAD = """set terminal svg size 760,{height} font "sans,13" background "#ffffff"
set output "{output}"
set border 3 lc rgb "#555555"
set tics nomirror
set grid lc rgb "#dddddd"
set style fill solid 0.85 noborder
"""
COLOURS = {"raw": "#888888", "raw1": "#bbbbbb", "zklock": "#1b6ca8", "curator": "#d9822b", "kazoo": "#3d8c5f", "redis10": "#b23a48",
           "redis100": "#e08e97", "postgres100": "#7a5ca8", "etcd": "#2a9d8f"}


def gnuplot(path, height, script, data):
    """script may name the data files as @0, @1, ..."""
    with tempfile.TemporaryDirectory() as folder:
        for i, rows in enumerate(data):
            with open(f"{folder}/{i}", "w", encoding="utf-8") as file:
                file.writelines("\t".join(str(word) for word in row) + "\n" for row in rows)
            script = script.replace(f"@{i}@", f"{folder}/{i}")
        subprocess.run(["gnuplot"], input=HEAD.format(height=height, output=path) + script, text=True, check=True)


def hand_over_plot(runs, path, systems):
    """How often a hand-over took no longer than that."""
    data, lines = [], []
    for system in systems:
        values = sorted(us / 1000 for us in runs.pooled("busy", "tmpfs", system))
        if values:
            data.append([(values[min(len(values) - 1, i * len(values) // 100)], i) for i in range(101)])
            lines.append(f'"@{len(data) - 1}@" using 1:2 with lines lw 2.5 lc rgb "{COLOURS[system]}" title "{SYSTEMS[system][0]}"')
    gnuplot(path, 460, 'set logscale x\nset xlabel "from the release call of one to the section of the next (ms)"\nset rmargin 4\n'
            'set ylabel "% of hand-overs"\nset yrange [0:100]\nset xrange [:200]\nset key above maxrows 3\nset format x "%g"\n'
            "plot " + ", ".join(lines) + "\n", data)


def bar_plot(path, label, rows):
    """rows: (system, value), longest name on the left."""
    data = [[(f'"{SYSTEMS[system][0]}"', i, value, int(COLOURS[system][1:], 16), f"{value:,.0f}")
             for i, (system, value) in enumerate(reversed(rows))]]
    most = max(value for _, value in rows)
    gnuplot(path, 80 + 34 * len(rows), f'set xlabel "{label}"\nset yrange [-0.6:{len(rows) - 0.4}]\nset xrange [0:{1.2 * most}]\n'
            "unset key\nunset xtics\nset ytics scale 0\nunset grid\nset border 2\nset datafile separator tab\n"
            'plot "@0@" using (0.5*$3):2:(0.5*$3):(0.35):4:ytic(1) with boxxyerror lc rgb variable '
            f'title "{label}", "" using 3:2:5 with labels left offset 0.6,0 title "{label}"\n', data)


def waiters_plot(runs, path, counts):
    rows = [(n, *(quantile(runs.pooled(f"waiters{n}", "tmpfs", "zklock"), q) for q in (0.5, 0.99))) for n in counts]
    gnuplot(path, 340, 'set logscale x\nset xlabel "waiters on one lock"\nset ylabel "hand-over (us)"\nset yrange [0:*]\n'
            f'set xrange [{counts[0] / 2}:{counts[-1] * 2}]\nset key above\nset xtics (' + ", ".join(str(n) for n in counts) + ")\n"
            f'plot "@0@" using 1:2 with linespoints lw 2.5 pt 7 lc rgb "{COLOURS["zklock"]}" title "median", '
            '"" using 1:3 with linespoints lw 1.5 pt 6 lc rgb "#999999" title "99 of 100 are faster"\n', [rows])


def plot_all(bench, folder):
    """The plots that there are figures for: (file, what it shows)."""
    runs = bench.runs
    os.makedirs(folder, exist_ok=True)
    shown = [s for s in SYSTEMS if runs.pooled("busy", "tmpfs", s)]
    hand_over_plot(runs, f"{folder}/hand-over.svg", shown)
    rates = [(s, runs.median("eight", "tmpfs", s, "grants_s")) for s in ("raw", "raw1", "zklock", "curator", "kazoo")
             if runs.has("eight", "tmpfs", s)]
    bar_plot(f"{folder}/grants.svg", "grants a second, 8 sessions on one lock (medians)", rates)
    free = [(s, runs.median("free", "tmpfs", s, "cycle_us")) for s in ("raw", "zklock", "curator", "kazoo")
            if runs.has("free", "tmpfs", s)]
    bar_plot(f"{folder}/free.svg", "acquire and release of a free lock (us)", free)
    if len(bench.size.waiters) > 1:
        waiters_plot(runs, f"{folder}/waiters.svg", bench.size.waiters)
