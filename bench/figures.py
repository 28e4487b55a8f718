"""From sections to figures. A section is (contender, asked, granted, released, done), times in ns of one clock."""
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


def figures(job, sections, facts, looks):
    """One run's. Counters: before and after, on the server; or what the driver counted itself."""
    result = dict(facts)
    # A driver that says itself when to look is looked at four times.
    first, last = (looks[1], looks[2]) if len(looks) == 4 else (looks[0], looks[-1])
    if first is not None:
        result["requests"] = last["received"] - first["received"]
        result["events"] = last["sent"] - last["received"] - (first["sent"] - first["received"])
        result["writes"] = last["zxid"] - first["zxid"]
    if not sections:
        return result
    cycles = [(s[4] - s[1]) / 1e3 for s in sections]
    waits = [(s[2] - s[1]) / 1e3 for s in sections]
    counts = [0] * (1 + max(s[0] for s in sections))
    for s in sections:
        counts[s[0]] += 1
    seconds = (max(s[4] for s in sections) - min(s[1] for s in sections)) / 1e9
    between = hand_overs_us(sections)
    result.update(sections=len(sections), cycle_us=statistics.median(cycles), wait_us=statistics.median(waits),
                  span_s=seconds, grants_s=len(sections) / seconds, luckiest=max(counts), unluckiest=min(counts),
                  waiting_s=sum(waits) / 1e6, overlaps=overlaps(sections) if job not in ("relay", "event", "read") else 0,
                  hand_overs=between)
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

    def quartiles(self, *key):
        values = self.values(*key)
        return quantile(values, 0.25), quantile(values, 0.75)

    def upper(self, *key):
        return quantile(self.values(*key), 0.75)

    def ratio(self, job, place, system, other, name, to=None):
        """Median over the rounds of system's figure by other's in the same round. to: (job, name) of other's, if they differ."""
        mine = self.all.get((job, place, system), {})
        theirs = self.all.get((to[0] if to else job, place, other), {})
        key = to[1] if to else name
        ratios = [mine[r][name] / theirs[r][key] for r in mine if r in theirs and theirs[r].get(key)]
        return statistics.median(ratios) if ratios else float("nan")
