#!/usr/bin/python3
"""measured.py SOURCE [--write]: the figures that people read are those that scripts/bench measured.

docs/measurements.json is the source: scripts/bench writes it. README.md and docs/measurements.md show its date and its commit, README.md
its lines of ratios, too. Each figure in the sentences of docs/measurements.md stands in sentences() below, which computes it from a cell of the tables: a sentence with
another figure fails, and so does a figure that no sentence of the list has. With --write the pages get what the JSON has instead.
"""
import json
import pathlib
import re
import sys

MEMORY, DISK, THREE = "one server, data in memory", "one server, data on disk", "three servers, data in memory"
# The tables.
GOALS, FREE, EIGHT, BUSY, WAITERS, COMMAND, LONG = "goals", "free", "eight", "busy", "waiters", "command", "wait"
BARE, ONE_THREAD, CURATOR = "bare recipe, raw client", "bare recipe, one thread", "Curator 5.4"
LINGERING, ETCD = "zklock, lingering", "etcd 3.4, its lock service"
REDIS10, REDIS100 = "Redis, tried every 10 ms", "Redis, tried every 100 ms"
RUN, LS = "`zklock run LOCK -- true`", "`zklock ls LOCK`, 1,000 in the queue"
EIGHT_WORK, EIGHT_GOAL, FLOCK_GOAL = "8 sessions, one lock: grants a second", "at least 1.6 x Curator's", "at most 2.5 x `flock` on a local file"
PINGS_GOAL = "at most 1.5 x the packets of the client's own pings"
GIVEN_FACTOR = re.compile(r"[\d.]+ x")
# What scripts/bench writes.
BLOCK = re.compile(r"(<!-- measured: .*? -->\n)(.*?)(<!-- /measured -->)", re.S)
# What looks like a figure: a number with a unit, a decimal point, or thousands.
FIGURE = re.compile(r"\d+[.,]\d+|\b\d+ (?:us|ms|s|x|times|bytes|grants|requests|writes)\b")
# Of the measurement itself, not its results.
GIVEN = re.compile(r"Sections that last 50 ms|sections of 50 ms|tried every 10 ms|\b(?:Curator|kazoo|ZooKeeper|Redis|etcd) \d\.\d(?:\.\d)?|10,000 locks|a queue of 1,000"
                   r"|5,000 waiters|with 5,000|about 40 minutes|every 100 ms \(`syncWatchersLoop`\)")
# A figure of a sentence, where it is written.
WRITTEN = r"\d[\d,]*(?:\.\d+)?(?:\s(?:us|ms))?"


def sentences(figures):
    """The sentences with figures of docs/measurements.md."""
    def whole(name, column, *first):
        """The cell in that column (name, or number from 0) of the row that begins with these cells."""
        head, *rows = figures[name]
        number = column if isinstance(column, int) else head.index(column)
        found = [row[number] for row in rows if row[:len(first)] == list(first)]
        if len(found) != 1:
            sys.exit(f"docs/measurements.json: {len(found)} rows of '{name}' begin with {first}")
        return found[0]

    def cell(name, column, *first):
        """The median, without its quartiles."""
        return whole(name, column, *first).partition(" (")[0]

    def free(system, where=MEMORY):
        return cell(FREE, "acquire + release", where, system)

    def grants(name, system, where=MEMORY):
        return cell(name, "grants a second", where, system)

    def waiters(count, column):
        return cell(WAITERS, column, count)

    def command(words):
        return cell(COMMAND, "time", words)

    def three(column, system):
        return cell(EIGHT, column, THREE, system)
    own = "its own server"
    goals = figures[GOALS][1:]
    missed = [goal for goal in goals if goal[3] != "yes"]
    return [
        f"Of {len(goals)} goals, {len(missed)} were missed",
        f"Eight sessions made {cell(GOALS, 'measured', EIGHT_WORK, EIGHT_GOAL)} Curator's grants, and {GIVEN_FACTOR.search(EIGHT_GOAL)[0]} was the goal. "
        f"`zklock run` took {cell(GOALS, 'measured', '', FLOCK_GOAL)} the time of `flock`, and {GIVEN_FACTOR.search(FLOCK_GOAL)[0]} was the goal.",
        f"zklock acquires and releases a free lock in {free('zklock')}. The raw client takes {free(BARE)}, Curator {free(CURATOR)} and kazoo "
        f"{free('kazoo 2.8')}. etcd takes {free(ETCD, own)}: this is its lock service, in JSON over HTTP. Redis takes {free(REDIS100, own)}:",
        f"With the data on a disk, zklock takes {free('zklock', DISK)} and the raw client {free(BARE, DISK)}. "
        f"With three servers it is {free('zklock', THREE)} and {free(BARE, THREE)}.",
        f"Acquire and release take {free(LINGERING)}.",
        f"zklock makes {grants(EIGHT, 'zklock')} grants a second, the raw client {grants(EIGHT, BARE)}, Curator {grants(EIGHT, CURATOR)}, "
        f"kazoo {grants(EIGHT, 'kazoo 2.8')} and etcd {grants(EIGHT, ETCD, own)}.",
        f"With three servers zklock makes {three('grants a second', 'zklock')}, the raw client {three('grants a second', BARE)}, "
        f"Curator {three('grants a second', CURATOR)}, and the bare recipe on one thread {three('grants a second', ONE_THREAD)}. "
        f"The slowest second of zklock had {three('slowest second', 'zklock')} there, of the raw client {three('slowest second', BARE)}, "
        f"and of Curator {three('slowest second', CURATOR)}. The 99th percentile of zklock's hand-overs was {three('p99', 'zklock')}, "
        f"of the raw client's {three('p99', BARE)}, and of Curator's {three('p99', CURATOR)}.",
        f"zklock needs {cell(EIGHT, 'requests per grant', MEMORY, 'zklock')} requests for a grant, as the bare recipe does.",
        f"Redis, tried every 10 ms, makes {grants(EIGHT, REDIS10, own)} grants a second.",
        f"the grants of the luckiest and the unluckiest contender are {whole(EIGHT, 'luckiest : unluckiest', MEMORY, 'zklock')} with zklock.",
        f"With sections of 50 ms, they are {whole(BUSY, 'luckiest : unluckiest', own, REDIS10)} with Redis.",
        f"The median hand-over takes {waiters('10', 'hand-over')} with 10 waiters, and {waiters('5,000', 'hand-over')} with 5,000. "
        f"The 99th percentile is {waiters('10', 'p99')} and {waiters('5,000', 'p99')}.",
        f"takes {command(RUN)} from the start of the process to its end, `etcdctl lock` {command('`etcdctl lock LOCK true`')}. "
        f"`flock` on a local file takes {command('`flock FILE true` (no server)')}.",
        f"`zklock ls` of a queue of 1,000 takes {command(LS)}.",
        f"needs {cell(GOALS, 'measured', '10,000 locks held by one process')} for each,",
        f"all of them: {whole(LONG, 1, 'zklock, one that holds')} requests a minute. A session that waits sends {whole(LONG, 1, 'zklock, one that waits')}, "
        f"and writes nothing. That is {cell(GOALS, 'measured', '', PINGS_GOAL)} the raw client's pings, and {GIVEN_FACTOR.search(PINGS_GOAL)[0]} was the goal.",
    ]


def with_figures(page, sentence):
    """The page with the figures of this sentence, if it has the sentence with whatever figures; its lines stay as they are."""
    parts = re.split(f"({WRITTEN})", sentence)
    pattern = "".join(f"({WRITTEN})" if i % 2 else re.sub(r"(?:\\? )+", r"\\s+", re.escape(part)) for i, part in enumerate(parts))
    found = re.search(pattern, page)
    for number, figure in reversed(list(enumerate(parts[1::2], 1)) if found else []):
        page = page[:found.start(number)] + figure + page[found.end(number):]
    return page


def without_block(text):
    """Nor what was measured apart, whose source stands with it."""
    return re.sub(r"### Where its time goes\n.*?(?=\n#)", "", BLOCK.sub("", text), flags=re.S)


def main():
    root = pathlib.Path(sys.argv[1])
    figures = json.loads((root / "docs/measurements.json").read_text())
    wrong = []
    for path, expected, measured in (("README.md", [], f"\n{figures['run']}\n\n{figures['readme']}\n\n"),
                                     ("docs/measurements.md", sentences(figures), f"\n{figures['run']}\n\n")):
        page = (root / path).read_text()
        if sys.argv[2:] == ["--write"]:
            page = BLOCK.sub(lambda block, new=measured: block[1] + new + block[3], page)
            for sentence in expected:
                page = with_figures(page, sentence)
            (root / path).write_text(page)
        if [block[1] for block in BLOCK.findall(page)] != [measured]:
            wrong.append(f"{path} has another date, commit or figure between its marks than docs/measurements.json: scripts/bench writes both")
        # README has figures in one section only.
        prose = page[page.index("## Measured"):page.index("## Where to read on")] if path == "README.md" else page
        prose = " ".join(without_block(prose).split())
        for sentence in expected:
            if sentence not in prose:
                wrong.append(f"{path} should say: {sentence}")
            prose = prose.replace(sentence, " ")
        prose = GIVEN.sub(" ", prose)
        wrong += [f"{path}: '{prose[max(0, m.start() - 40):m.end() + 20]}': a figure that no sentence of tests/readme/measured.py has"
                  for m in FIGURE.finditer(prose)]
    print(*wrong, sep="\n")
    return bool(wrong)


sys.exit(main())
