#!/usr/bin/python3
"""documents.py SOURCE [COUNT]: counts what makes the documents long or hard to read, and fails above the limits below.
With the name of one COUNT it lists every place that counts.

  readme     words of README.md, code and tables included
  comparison words of docs/comparison.md
  all        words of all documents together, code and tables included: README.md, RELEASING.md and docs/
  measured   words of docs/measurements.md
  sentence   words of a sentence at the 90th percentile, over the same documents. A sentence is a part of a paragraph or list item that ends
             with a full stop, a question mark, an exclamation mark or the paragraph. Headings, tables and code have no sentences. A code span is
             one word; a link is its text
  private    words that only this project uses in that sense, where the field has one of its own; in SECURITY.md and tests/README.md, too
  unmarked   blocks of code, on any page of the tree, without a language, or of a language that has to be compiled or run and is not
"""
import math
import pathlib
import re
import sys

LIMITS = {"readme": 1000, "comparison": 1200, "measured": 900, "all": 23200, "sentence": 24, "private": 2, "unmarked": 0}


# Blocks of these languages are shown: what a program prints, or a file of another program. `console` is for README.md, whose lines
# scripts/soak platforms types in a fresh Debian. All others have to be compiled or run by CMakeLists.txt.
SHOWN = {"text", "yaml"}

PRIVATE = [
    r"places?(?! of)", r"(?<!in )(?<!In )turns?(?! .{1,40}\binto\b)", r"blockers?", r"the one before", r"twins?", r"joints?", r"wish(es)?", r"patience",
    r"put(s|ting)? off", r"stir(s|red)?", r"agents?", r"asks?", r"asked", r"asking", r"answers?", r"answered", r"answering", r"ear", r"told", r"tell",
    r"tells", r"hears?", r"heard", r"gone", r"goes(?! on)", r"rooms?", r"houses?", r"arrows?", r"in vain", r"bears?", r"mends?", r"mended",
    r"dearer", r"at once", r"(a|the|its|their|each) shares?", r"inside who", r"who (asks|waits|holds|has|comes|gave|was|is next|stood|lists)",
    r"that which", r"swap(s|ped)?", r"scratch", r"wishes",
]
# Where one of these words is the field's own.
ALLOWED = re.compile(r"take (the )?place|takes place|in place of|in the place|(in|by) turns?|in turn\b|/usr/share|share of|answer section")


def documents(root):
    pages = [root / "README.md", root / "RELEASING.md", *sorted((root / "docs").rglob("*.md"))]
    return {str(p.relative_to(root)): p.read_text() for p in pages}


def others(root):
    return {page: (root / page).read_text() for page in ("SECURITY.md", "tests/README.md")}


def without_comments(text):
    return re.sub(r"<!--.*?-->", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)


def without_code(text):
    kept, in_code = [], False
    for line in without_comments(text).splitlines():
        if line.lstrip().startswith("```"):
            in_code = not in_code
            line = ""
        kept.append("" if in_code else line)
    return kept


def count_words(text):
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def sentences(text):
    """(line, sentence) of each."""
    paragraph, begin = [], 0
    for number, line in enumerate(without_code(text) + [""], 1):
        stripped = line.strip()
        prose = stripped and not re.match(r"\||#|!\[|    ", line)
        item = re.match(r"([-*]|\d+\.) +", stripped)
        if paragraph and (not prose or item):
            yield from split(" ".join(paragraph), begin)
            paragraph = []
        if prose:
            begin = begin if paragraph else number
            paragraph.append(stripped[item.end():] if item else stripped)


def split(paragraph, line):
    paragraph = re.sub(r"`[^`]*`", "code", paragraph)
    paragraph = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
    paragraph = re.sub(r"\b(e\.g|i\.e|etc|vs)\.", r"\1", paragraph)
    for sentence in re.split(r"(?<=[.!?])[\"*_)]*\s+(?=[\"*_(]*(?:[A-Z0-9]|code\b))", paragraph):
        if count_words(sentence):
            yield line, sentence


def private_words(text):
    pattern = re.compile(r"(?<![-\w`/])(" + "|".join(PRIVATE) + r")(?![-\w`/])", re.I)
    for number, line in enumerate(without_code(text), 1):
        line = ALLOWED.sub("", re.sub(r"`[^`]*`|\]\([^)]*\)", "", line))
        for found in pattern.finditer(line):
            yield number, found.group()


def tested_blocks(root):
    """(language, page) of all blocks that tests/readme/CMakeLists.txt compiles or runs."""
    text = (root / "tests/readme/CMakeLists.txt").read_text()
    found = set(re.findall(r"^ *page_blocks\((\w+) (\S+) ", text, re.M))
    found |= {("sh", page) for page in re.findall(r"^ *page_commands\(\w+ (\S+)\)", text, re.M)}
    return found | {("console", "README.md")}


def unmarked(root):
    tested = tested_blocks(root)
    for path in sorted(root.rglob("*.md")):
        page = str(path.relative_to(root))
        if not page.startswith("build"):
            yield from ((page, n, w) for n, w in unmarked_blocks(page, path.read_text(), tested))


def unmarked_blocks(page, text, tested):
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        fence = line.lstrip().startswith("```")
        if fence and not in_code:
            language = line.strip()[3:]
            if language not in SHOWN and (language, page) not in tested:
                yield number, f"a block of {language or 'no language'}, which no test takes"
        in_code ^= fence


def main():
    root, shown = pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    pages = documents(root)
    lengths = sorted((count_words(s), page, line, s) for page, text in pages.items() for line, s in sentences(text))
    found = {
        "private": [(p, n, w) for p, t in {**pages, **others(root)}.items() for n, w in private_words(t)],
        "unmarked": list(unmarked(root)),
    }
    counts = {
        "readme": count_words(without_comments(pages["README.md"])),
        "comparison": count_words(without_comments(pages["docs/comparison.md"])),
        "measured": count_words(without_comments(pages["docs/measurements.md"])),
        "all": sum(count_words(without_comments(t)) for t in pages.values()),
        "sentence": lengths[math.ceil(0.9 * len(lengths)) - 1][0],
        "private": len(found["private"]),
        "unmarked": len(found["unmarked"]),
    }
    for page, number, what in found.get(shown, []):
        print(f"{page}:{number}: {what}")
    if shown == "all":
        for page, text in pages.items():
            print(f"{count_words(without_comments(text)):6} {page}")
    if shown == "sentence":
        for words, page, line, sentence in lengths[math.floor(0.9 * len(lengths)):]:
            print(f"{words:4} {page}:{line}: {sentence[:100]}")
    for name, count in counts.items():
        print(f"{name}: {count}, limit {LIMITS[name]}" + (": TOO MANY" if count > LIMITS[name] else ""))
    return any(count > LIMITS[name] for name, count in counts.items())


if __name__ == "__main__":
    sys.exit(main())
