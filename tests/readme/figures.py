#!/usr/bin/python3
"""figures.py SOURCE: every figure of every page (*.md, man/*.scd) that was measured has its source.

A figure is a number with a unit (UNIT below), or a cell of a table that is only a number (not in its first row or first column, which name
the case). Code is not searched. A number is *given*, not measured, if somebody chose it (an option, a default, a limit, the case that is
looked at), or if it follows from such numbers by arithmetic. GIVEN lists those, word for word, for each page: a new number is listed there, or it
has a source.

The source is a date, a commit and a command: `2026-11-22`, `commit c00cc74`, and a code span that names a program of this tree (`scripts/bench`) or a test
(`integration_close`). A link to measurements.md, which has them, will do. The source stands in the row, the paragraph or the table of the figure, or in
the block right before or after it.

Left out are sections that another test compares with what it measures (COMPARED).
"""
import pathlib
import re
import sys

UNIT = r"us|µs|ms|s|min|minutes?|seconds?|hours?|days?|kB|KiB|MB|MiB|GB|bytes|x|times|grants?|requests?|writes?"
FIGURE = re.compile(rf"(?<![\w.,-])(\d[\d,]*(?:\.\d+)?)(?:(?: ?%)|(?: (?:{UNIT})(?![\w-])))")
CELL = re.compile(r"[\d,]+(\.\d+)?")

# Page: headings of the sections ("": the whole page) that another test compares with what it measures.
COMPARED = {
    "docs/measurements.md": [""],         # measured.py
    "README.md": ["Measured"],            # measured.py
    "docs/scaling.md": ["One operation", "A second"],  # tests/cost
}

GIVEN = {
    "SECURITY.md": ["within 90 days", "at most 64 MB more"],
    "docs/compatibility.md": ["containers reaped every 20 ms"],
    "docs/comparison.md": ["after 13 s", "and 7 s at a session timeout of 4 s"],
    "docs/failure-model.md": ["13 s with the defaults"],
    "docs/lease.md": ["default poll interval of 32 s", "may be up to 0.4 s", "tickTime 2 s and session timeout 4 s",
                      "ended after 1 s at first", "With T 2 s and P 0.5 s",
                      "| 4 s | 1.4 s | refused | 7 s |", "| 6 s | 2.9 s | refused | 9 s |", "| 10 s (default) | 5.9 s | 2.7 s | 13 s |",
                      "| 30 s | 20.9 s | 14.4 s | 33 s |"],
    "docs/migrating.md": ["tries every 10 or 100 ms"],
    "docs/operations.md": ["took longer to die than 100 ms", "by default 2.8 s", "after 10 s, then later each time", "after 5 s. After 121"],
    "docs/scaling.md": ["One that commits 5,000 writes a second", "τ = 10 s", "about 1,200 grants a second", "10,000 waiters make 590 kB",
                        "a response above 1 MB", "700,000 bytes of watched paths"],
    "man/zklock-revoke.1.scd": ["10 seconds by default"],
    "man/zklock-run.1.scd": ["2.8 s with the default", "at the grant, every 10 seconds", "up to 99 times"],
    "man/zklock.7.scd": ["session timeout 10 s, tick 2 s", "at least 5.9 s of lease left", "2.7 s with two stages"],
    "tests/conformance/README.md": ["requests of 1 MB and more"],
}


def without_code(text):
    text = re.sub(r"<!--.*?-->", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    kept, in_code = [], False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            in_code = not in_code
            line = ""
        kept.append("" if in_code else line)
    return kept


def blocks(text):
    """(line, heading, lines) of each paragraph, list item or table."""
    heading, block, begin = "", [], 0
    for number, line in enumerate(without_code(text) + [""], 1):
        stripped = line.strip()
        new_item = re.match(r"([-*]|\d+\.) ", stripped)
        if block and (not stripped or stripped.startswith("#") or new_item or
                      stripped.startswith("|") != block[0].startswith("|")):
            yield begin, heading, block
            block = []
        if stripped.startswith("#"):
            heading = stripped.lstrip("# ")
        elif stripped:
            begin = begin if block else number
            block.append(stripped)


class Source:
    def __init__(self, root):
        self.root = root
        lists = [*root.glob("tests/**/CMakeLists.txt"), root / "CMakeLists.txt"]
        self.tests = set(re.findall(r"\b\w+_\w+\b", " ".join(p.read_text() for p in lists)))
        self.tests |= {f"{p.parent.name}_{p.stem[5:]}" for p in root.glob("tests/*/test_*.*")}

    def is_command(self, span):
        return any(word in self.tests or re.match(r"(scripts|bench|tests)/", word) and (self.root / word).exists() for word in span.split())

    def in_text(self, text):
        return bool(re.search(r"\]\((docs/)?measurements\.md", text)) or (
            bool(re.search(r"\b20\d\d-\d\d-\d\d\b", text) and re.search(r"\bcommits? `?[0-9a-f]{7,}|\d, [0-9a-f]{7,}\b", text))
            and any(self.is_command(span) for span in re.findall(r"`([^`]+)`", text)))


def figures_of(line, heads):
    """(where, what) of each figure in it. heads: it is the first row of a table."""
    plain = re.sub(r"`[^`]*`|\]\([^)]*\)", lambda m: "`" * len(m.group()), line)
    for m in FIGURE.finditer(plain):
        yield m.start(), m.group()
    if line.startswith("|") and not heads:
        at = 0
        for column, cell in enumerate(plain.split("|")):
            if column > 1 and CELL.fullmatch(cell.strip()):
                yield at + cell.index(cell.strip()), cell.strip()
            at += len(cell) + 1


def unlisted(lines, given):
    """(line's index, figure, context): those that GIVEN does not have. A phrase may run on over two lines."""
    text, starts = "", []
    for line in lines:
        starts.append(len(text))
        text += line + " "
    covered = []
    for phrase in given:
        covered += [(m.start(), m.end(), phrase) for m in re.finditer(re.escape(phrase), text)]
    found = []
    for i, line in enumerate(lines):
        for at, what in figures_of(line, i == 0):
            place = starts[i] + at
            if not any(a <= place < b for a, b, _ in covered):
                found.append((i, what, text[max(0, place - 50):place + len(what) + 20].strip()))
    return found, {phrase for _, _, phrase in covered}


def check_page(page, text, source):
    given, used, wrong = GIVEN.get(page, []), set(), []
    all_blocks = list(blocks(text))
    for n, (begin, heading, lines) in enumerate(all_blocks):
        if heading in COMPARED.get(page, []) or "" in COMPARED.get(page, []):
            continue
        around = " ".join(" ".join(b[2]) for b in (all_blocks[max(0, n - 1)], *all_blocks[n + 1:n + 2]) if not b[2][0].startswith("|"))
        found, phrases = unlisted(lines, given)
        used |= phrases
        for i, what, context in found:
            own = lines[i] if lines[0].startswith("|") else " ".join(lines)
            if not source.in_text(own + " " + around):
                wrong.append(f"{page}:{begin + i}: '{what}' in '{context}' has no date, commit and command, and GIVEN of "
                             "tests/readme/figures.py does not list it")
    wrong += [f"{page}: GIVEN of tests/readme/figures.py lists '{phrase}', which is not there" for phrase in given if phrase not in used]
    return wrong


def check_pictures(root):
    """They are drawn by hand: the one of a loss has medians of its page, and that of the layers has each of them."""
    page, build, loss, drawn = ((root / name).read_text() for name in ("docs/lease.md", "CMakeLists.txt", "docs/img/loss.svg", "docs/img/layers.svg"))
    missing = set(re.findall(r"(?<!\+)\b(\d\.\d) s", loss)) - {f"{int(ms) / 1000:.1f}" for ms in re.findall(r"\| (\d+) \| \d+ \|$", page, re.M)}
    missing |= {layer for layer in re.findall(r"^\w+\(zklock_\w+ FOLDER ([^\s)]+)", build, re.M) if f">{layer}<" not in drawn}
    return [f"docs/img: {what} is drawn wrong, or not" for what in missing]


def main():
    root = pathlib.Path(sys.argv[1])
    source, wrong = Source(root), check_pictures(root)
    for path in sorted([*root.rglob("*.md"), *root.glob("man/*.scd")]):
        page = str(path.relative_to(root))
        if not page.startswith("build"):
            wrong += check_page(page, path.read_text(), source)
    wrong += [f"there is no {page}, which tests/readme/figures.py names" for page in {**GIVEN, **COMPARED} if not (root / page).exists()]
    print(*wrong, sep="\n")
    return bool(wrong)


sys.exit(main())
