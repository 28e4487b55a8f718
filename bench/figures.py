"""From sections to figures. A section is (contender, asked, granted, released, done), times in ns of one clock."""
import math
import statistics


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else float("nan")


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
        return [int(facts[f"second_{i}"]) for i in range(sum(name.startswith("second_") for name in facts))]
    begin, end = min(s[2] for s in sections), max(s[4] for s in sections)
    counts = [0] * ((end - begin) // 10**9 + 1)
    for s in sections:
        counts[(s[4] - begin) // 10**9] += 1
    return counts[:-1]  # the last one is not whole


def by_contender(sections, facts):
    """Grants of each contender. Facts count all of them, sections may be the first ones only."""
    counts = [0] * (1 + max(s[0] for s in sections))
    for s in sections:
        counts[s[0]] += 1
    return [int(facts.get(f"grants_{i}", count)) for i, count in enumerate(counts)]


def figures(job, sections, facts, looks):
    """One run's. Counters: before and after, on the server; or what the driver counted itself."""
    result = dict(facts)
    # A driver that says itself when to look is looked at four times.
    first, last = (looks[1], looks[2]) if len(looks) == 4 else (looks[0], looks[-1])
    if first is not None:
        result["requests"] = last["received"] - first["received"]
        result["events"] = last["sent"] - last["received"] - (first["sent"] - first["received"])
        result["writes"] = last["zxid"] - first["zxid"]
    if job == "two":  # from when both sessions have held: a session that is alone has a million grants a second
        half = (max(s[0] for s in sections) + 2) // 2
        both = max(min((s[2] for s in sections if (s[0] < half) == first), default=math.inf) for first in (True, False))
        rest = [(int(s[0] >= half), *s[1:]) for s in sections if s[2] >= both]
    else:
        rest = sections
    if not rest:
        return result
    seconds, counts = by_second(sections, facts), by_contender(rest, {} if job == "two" else facts)
    grants = sum(by_contender(sections, facts))
    sections = rest
    cycles = [(s[4] - s[1]) / 1e3 for s in sections]
    waits = [(s[2] - s[1]) / 1e3 for s in sections]
    if len(seconds) > 2:  # the first second is for warming up
        rate, slowest = statistics.mean(seconds[1:]), min(seconds[1:])
    else:
        rate = slowest = len(sections) * 1e9 / (max(s[4] for s in sections) - min(s[1] for s in sections))
    between = hand_overs_us(sections)
    result.update(sections=len(sections), cycle_us=statistics.median(cycles), wait_us=statistics.median(waits),
                  grants_s=rate, slowest_s=slowest, luckiest=max(counts), unluckiest=min(counts), luck=max(counts) / max(1, min(counts)),
                  waiting_s=sum(waits) / 1e6, overlaps=overlaps(sections) if job not in ("relay", "event", "read", "yield") else 0,
                  hand_overs=between, hand_over_us=statistics.median(between) if between else float("nan"), grant_us=1e6 / rate if rate else float("inf"))
    for what, name, factor in (("requests", "requests_each", 1), ("events", "events_each", 1), ("client_cpu_s", "client_us", 1e6),
                               ("server_cpu_s", "server_us", 1e6)):
        if what in result:
            result[name] = factor * result[what] / grants
    return result


class Runs:
    """Figures of many runs, by job, place, system and round."""

    def __init__(self):
        self.all = {}

    def add(self, job, place, system, number, result):
        self.all.setdefault((job, place, system), {})[number] = result

    def has(self, job, place, system):
        return (job, place, system) in self.all

    def values(self, job, place, system, name):
        return [run[name] for run in self.all.get((job, place, system), {}).values() if name in run]

    def pooled(self, job, place, system):
        """Hand-overs of all rounds."""
        return [x for run in self.all.get((job, place, system), {}).values() for x in run.get("hand_overs", [])]

    def median(self, *key):
        values = self.values(*key)
        return statistics.median(values) if values else float("nan")

    def ratios(self, job, place, system, other, name, to=None):
        """System's figure by other's in the same round, for each round. to: other's job, if it is another one."""
        mine, theirs = self.all.get((job, place, system), {}), self.all.get((to or job, place, other), {})
        return [mine[r][name] / theirs[r][name] for r in mine if r in theirs and theirs[r].get(name)]
