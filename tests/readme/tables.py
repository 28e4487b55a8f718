#!/usr/bin/env python3
"""tables.py SOURCE BUILD: what tests/features.tsv, tests/faults.tsv, tests/security/attacks.tsv and docs/lessons.md name as shown exists:
programs, tests in them, faults and invariants of the simulator, stories, plans, kinds of chaos, mutants."""
import os
import re
import subprocess
import sys
from pathlib import Path

os.chdir(sys.argv[1])
KNOWN = set(re.findall(r"Test +#\d+: (\S+)", subprocess.run(["ctest", "-N"], cwd=sys.argv[2], capture_output=True, text=True).stdout))
LISTS = "\n".join(path.read_text() for path in Path().glob("tests/**/CMakeLists.txt"))
PROGRAM = r"\b(?:unit|integration|security|sim|shell|chaos|cli|interop|cost|consumer|readme|man)_[a-z0-9_]+"
# `x` of the kind: a file, or a pattern in one
FILES = {"mutant": "mutants.d/{}.mutant", "golden": "golden/{}.txt", "plan": "seeds/{}.plan"}
PATTERNS = {
    "chaos": ("tests/chaos/chaos.c", '{{"{}",'),
    "fault": ("tests/sim/plan_text.c", '"{}"'),
    "invariant": ("tests/sim/invariants.h", "\n *  {} "),
}


def missing_words(text):
    for kind, name in re.findall(r"(fault|invariant|plan|mutant|golden|chaos) `([a-z-]+)`", text):
        if kind in FILES:
            there = any(Path().glob("tests/**/" + FILES[kind].format(name)))
        else:
            path, pattern = PATTERNS[kind]
            there = pattern.format(name) in Path(path).read_text()
        if not there:
            yield f"no {kind} {name}"


def missing_tests(clause):
    """clause: "program: test_a, test_b", "cli_queue" """
    for program in re.findall(PROGRAM, clause.partition(":")[0]):
        tier, _, name = program.partition("_")
        path = {"shell": f"tests/shell/test_{program}.c"}.get(tier, f"tests/{tier}/test_{name}.c")
        there = tier in ("unit", "integration", "security", "shell") and os.path.exists(path)
        if not there and program not in KNOWN and not re.search(rf"(NAME |set\(name |zklock_test\(){program}\b", LISTS):
            yield f"no test program {program}"
        for test in re.findall(r"\btest_[a-z0-9_]+", clause):
            if not there or not re.search(rf"\bTEST[A-Z_]*\(([a-z_]+, )?{test}\)", Path(path).read_text()):
                yield f"{program} has no {test}"


def main():
    wrong = [f"docs/lessons.md: {what}" for what in missing_words(Path("docs/lessons.md").read_text())]
    for table in ("tests/features.tsv", "tests/faults.tsv", "tests/security/attacks.tsv"):
        for line in Path(table).read_text().splitlines()[1:]:
            shown = line.split("\t")[2]
            wrong += [f"{table}: {what}" for what in missing_words(shown)]
            wrong += [f"{table}: {what}" for clause in shown.split(";") for what in missing_tests(clause)]
    print(*wrong, sep="\n", file=sys.stderr)
    return bool(wrong)


sys.exit(main())
