"""Figures as words, and tables of them."""
import math


def us(value):
    return "-" if math.isnan(value) else f"{value / 1000:,.1f} ms" if value >= 10000 else f"{value:,.0f} us"


def number(value, form="{:,.0f}"):
    return "-" if math.isnan(value) else form.format(value)


def table(head, rows):
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]) + "\n"
