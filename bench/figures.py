"""From sections to figures, and from figures to words. A section is (contender, asked, granted, released, done), times in ns of one clock."""
import collections
import math
import statistics


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else math.nan


def hand_overs_us(sections):
    """Release call of one to section start of the next, where the next one was waiting already, and is another contender."""
    order = sorted(sections, key=lambda s: s[2])
    return [(b[2] - a[3]) / 1e3 for a, b in zip(order, order[1:]) if a[0] != b[0] and b[1] < a[3]]


def overlaps(sections):
    order = sorted(sections, key=lambda s: s[2])
    return sum(b[2] < a[3] for a, b in zip(order, order[1:]))


def by_second(sections, facts):
    """Grants that ended in each whole second, from the first grant on: a crowd takes seconds to queue."""
    if "grants_0" in facts:
        return [facts[f"second_{i}"] for i in range(sum(name.startswith("second_") for name in facts))]
    begin, end = min(s[2] for s in sections), max(s[4] for s in sections)
    counts = collections.Counter((s[4] - begin) // 10**9 for s in sections)
    return [counts[i] for i in range((end - begin) // 10**9)]  # the last one is not whole


def by_contender(sections, facts):
    """Grants of each contender. Facts count all of them, sections may be the first ones only."""
    counts = collections.Counter(s[0] for s in sections)
    return [facts.get(f"grants_{i}", counts[i]) for i in range(1 + max(counts))]


def by_session(sections):
    """Sections of two sessions, from when both have held: a session that is alone has a million grants a second."""
    half = (max(s[0] for s in sections) + 2) // 2
    both = max(min((s[2] for s in sections if (s[0] < half) == first), default=math.inf) for first in (True, False))
    return [(int(s[0] >= half), *s[1:]) for s in sections if s[2] >= both]


def figures(job, sections, facts, looks):
    """One run's. Looks are counters of the server; the two in the middle are around what counts."""
    result = dict(facts)
    first, last = looks[len(looks) // 2 - 1], looks[len(looks) // 2]
    if first is not None:
        result["requests"] = last["received"] - first["received"]
        result["events"] = last["sent"] - last["received"] - (first["sent"] - first["received"])
        result["writes"] = last["zxid"] - first["zxid"]
    if not sections:
        return result
    seconds, grants = by_second(sections, facts), sum(by_contender(sections, facts))
    for what, name, factor in (("requests", "requests_each", 1), ("client_cpu_ns", "client_us", 1e-3)):
        if what in result:
            result[name] = factor * result[what] / grants
    if job == "two":
        sections, facts = by_session(sections), {}
    if not sections:
        return result
    counts, between = by_contender(sections, facts), hand_overs_us(sections)
    if len(seconds) > 2:  # the first second is for warming up
        rate, slowest = statistics.mean(seconds[1:]), min(seconds[1:])
    else:
        rate = slowest = len(sections) * 1e9 / (max(s[4] for s in sections) - min(s[1] for s in sections))
    result.update(cycle_us=statistics.median((s[4] - s[1]) / 1e3 for s in sections), wait_us=statistics.median((s[2] - s[1]) / 1e3 for s in sections),
                  grants_s=rate, slowest_s=slowest, luckiest=max(counts), unluckiest=min(counts), luck=max(counts) / max(1, min(counts)),
                  overlaps=overlaps(sections),
                  hand_overs=between, hand_over_us=statistics.median(between) if between else math.nan)
    return result


class Runs:
    """Figures of many runs, by job, system, place and round."""

    def __init__(self):
        self.all = collections.defaultdict(dict)

    def add(self, job, system, place, number, result):
        self.all[job, system, place][number] = result

    def values(self, job, system, name, place="tmpfs"):
        return [run[name] for run in self.all[job, system, place].values() if name in run]

    def pooled(self, job, system, place="tmpfs"):
        """Hand-overs of all rounds."""
        return [x for hand_overs in self.values(job, system, "hand_overs", place) for x in hand_overs]

    def median(self, job, system, name, place="tmpfs"):
        values = self.values(job, system, name, place)
        return statistics.median(values) if values else math.nan

    def ratios(self, job, system, other, name, place="tmpfs", to=None):
        """System's figure by other's in the same round, for each round. to: other's job, if it is another one."""
        mine, theirs = self.all[job, system, place], self.all[to or job, other, place]
        return [mine[r][name] / theirs[r][name] for r in mine if r in theirs and theirs[r].get(name)]


def us(value):
    return f"{value / 1000:,.1f} ms" if value >= 10000 else f"{value:,.0f} us" if value >= 10 or not value else f"{value:.2f} us"


def spread(values, form="{:,.0f}"):
    """There is one statistic: the median, with both quartiles in parentheses. form: a format, or a function that makes words of a value.
    Values that do not differ are one."""
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


def markdown(table):
    """A table, whose first row is its head, for a page."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [table[0], ["---"] * len(table[0]), *table[1:]]) + "\n"
