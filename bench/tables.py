"""Figures as words, and tables of them. There is one statistic: the median, with both quartiles in parentheses."""
import math
import statistics

from figures import quantile


def us(value):
    if math.isnan(value):
        return "-"
    return f"{value / 1000:,.1f} ms" if value >= 10000 else f"{value:,.0f} us" if value >= 10 or not value else f"{value:.2f} us"


def number(value, form="{:,.0f}"):
    return "-" if math.isnan(value) else form.format(value)


def spread(values, form="{:,.0f}"):
    """form: a format, or a function that makes words of a value. Values that do not differ are one."""
    values = [value for value in values if not math.isnan(value)]
    if not values:
        return "-"
    words = form if callable(form) else form.format
    low, middle, high = (words(value) for value in (quantile(values, 0.25), statistics.median(values), quantile(values, 0.75)))
    if low == high == middle:
        return middle
    if len({text.partition(" ")[2] for text in (low, middle, high)}) == 1:
        low, high = (text.partition(" ")[0] for text in (low, high))
    return f"{middle} ({low} to {high})"


def table(head, rows):
    return [head, *rows]


def markdown(lines):
    """A table, whose first line is its head, for a page."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], ["---"] * len(lines[0]), *lines[1:]]) + "\n"


def by_figure(lines):
    """A table of figure, what it is compared with, and ratio: for each figure a line of a list. A row without a figure has that of the row before."""
    found, name = {}, ""
    for first, against, value in lines[1:]:
        name = first or name
        found.setdefault(name, []).append(f"{against} {value}")
    return {name: f"- {name}: {'; '.join(values)}" for name, values in found.items()}
