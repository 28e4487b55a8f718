#!/usr/bin/env python3
"""The judge is judged: planted violations are found, each by its name and nothing beside it, and histories without one pass."""
import pathlib
import sys

sys.dont_write_bytecode = True  # the tree of sources stays as it is
import judge  # noqa: E402

UNREADABLE = """1000 a.0 1f acquire /x - 0
1000 a.0 1f acquire /x - 0 0 0
1000 a.0 1f enquire /x - 0 0
soon a.0 1f acquire /x - 0 0
1000 - 1f acquire /x - 0 0
1000 a.0 1f acquire /x 2/ 0 0
1000 a.0 1f acquire /x 3/2 0 0
1000 a.0 1f downgrade /x 0/2 0 0"""
wrong, seen = [], set()


def found_in(*texts):
    events = sum((judge.read("", text) for text in texts), [])
    return set(judge.Judge(sorted(events, key=lambda event: event.at), 100, None).found)


def is_readable(line):
    try:
        judge.read("bad", "# a remark\n\n" + line + "\n")
    except judge.NoHistory:
        return False
    return True


for path in sorted((pathlib.Path(__file__).parent / "planted").glob("*.history")):
    text = path.read_text(encoding="utf-8")
    expected = set(text.split("\n", 1)[0].removeprefix("# expect:").split())
    found = found_in(text)
    seen |= expected
    if found != expected:
        wrong.append(f"{path.name}: {found}, not {expected}")
# A kind that nobody planted may be one that is never found.
wrong += [f"{kind} is planted nowhere, or is no kind" for kind in seen ^ set(judge.KINDS)]
wrong += [f"read: {line}" for line in UNREADABLE.split("\n") if is_readable(line)]
# Whoever is killed is killed within a line; files come in any order, their events in the order of time.
if found_in("5000 judge 0 queue /x - 0 0\n", "1200 a.0 1f done /x ZKL_EBUSY 0 0\n1000 a.0 1f acquire /x - 0 0\n1201 a.0 1f do"):
    wrong.append("the order of time, or the cut line")
print("\n".join(wrong) or f"{len(seen)} kinds")
sys.exit(bool(wrong))
