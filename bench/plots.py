"""Plots, by gnuplot."""
import subprocess

from figures import quantile
from systems import SYSTEMS

HEAD = """set terminal svg size 760,{height} font "sans,13" background "#ffffff"
set output "{output}"
set border 3 lc rgb "#555555"
set tics nomirror
set grid lc rgb "#dddddd"
set style fill solid 0.85 noborder
"""
COLOURS = {"raw": "#888888", "raw1": "#bbbbbb", "zklock": "#1b6ca8", "curator": "#d9822b", "kazoo": "#3d8c5f"}


def gnuplot(path, height, script, rows):
    """script has two plots of the rows."""
    data = "".join("\t".join(str(word) for word in row) + "\n" for row in rows) + "e\n"
    subprocess.run(["gnuplot"], input=HEAD.format(height=height, output=path) + script + 2 * data, text=True, check=True)


def bar_plot(path, label, rows):
    """rows: (system, value), longest name on the left."""
    most = max(value for _, value in rows)
    gnuplot(path, 80 + 34 * len(rows), f'set xlabel "{label}"\nset yrange [-0.6:{len(rows) - 0.4}]\nset xrange [0:{1.2 * most}]\n'
            "unset key\nunset xtics\nset ytics scale 0\nunset grid\nset border 2\nset datafile separator tab\n"
            'plot "-" using (0.5*$3):2:(0.5*$3):(0.35):4:ytic(1) with boxxyerror lc rgb variable '
            f'title "{label}", "-" using 3:2:5 with labels left offset 0.6,0 title "{label}"\n',
            [(f'"{SYSTEMS[system][0]}"', i, value, int(COLOURS[system][1:], 16), f"{value:,.0f}") for i, (system, value) in enumerate(reversed(rows))])


def plot_all(bench, folder):
    runs, counts = bench.runs, bench.size.waiters
    rates = [(s, runs.median("eight", s, "grants_s")) for s in ("raw", "raw1", "zklock", "curator", "kazoo") if runs.all["eight", s, "tmpfs"]]
    bar_plot(f"{folder}/grants.svg", "grants a second, 8 sessions on one lock (medians)", rates)
    free = [(s, runs.median("free", s, "cycle_us")) for s in ("raw", "zklock", "curator", "kazoo") if runs.all["free", s, "tmpfs"]]
    bar_plot(f"{folder}/free.svg", "acquire and release of a free lock (us)", free)
    rows = [(n, *(quantile(runs.pooled(f"waiters{n}", "zklock"), q) for q in (0.5, 0.99))) for n in counts]
    gnuplot(f"{folder}/waiters.svg", 340, 'set logscale x\nset xlabel "waiters on one lock"\nset ylabel "hand-over (us)"\nset yrange [0:*]\n'
            f'set xrange [{counts[0] / 2}:{counts[-1] * 2}]\nset key above\nset xtics (' + ", ".join(str(n) for n in counts) + ")\n"
            f'plot "-" using 1:2 with linespoints lw 2.5 pt 7 lc rgb "{COLOURS["zklock"]}" title "median", '
            '"-" using 1:3 with linespoints lw 1.5 pt 6 lc rgb "#999999" title "99 of 100 are faster"\n', rows)
