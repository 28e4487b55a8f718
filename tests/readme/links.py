#!/usr/bin/env python3
"""links.py SOURCE: what the pages (*.md) point to exists: files, headings in them, and paths of this tree named in code spans. So do the
pages that code, scripts and manual pages name; a public header also names the heading, as in docs/lease.md#assumptions. And each block of
code on a page is compiled or run by CMakeLists.txt."""
import fnmatch
import os
import pathlib
import re
import sys

CODE = "include src recipes bench man examples scripts docker monitoring systemd packaging"
REFERENCE = r"\b((?:docs/[a-z-]+|SECURITY|RELEASING|CONTRIBUTING)\.md(?:#[a-z0-9_-]+)?)"
# Blocks of these languages are shown: what a program prints, or a file of another program. `console` is for README.md, whose lines
# scripts/soak platforms types in a fresh Debian.
SHOWN = {"text", "yaml"}
PATH = r"(bench|cmake|docker|docs|examples|include|man|recipes|scripts|src|systemd|tests)/[A-Za-z0-9_./*-]+"


def prose(path):
    """Without its blocks of code."""
    return re.sub(r"(?ms)^ *```.*?(^ *```[^\n]*|\Z)", "", path.read_text())


def headings(path):
    """Their names as links have them."""
    found = re.findall(r"(?m)^#{1,6} *(.*)", prose(path))
    return {re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in found}


def wrong_link(target, page, folder):
    """target: of a link, or the name of a page; without a file it is this page."""
    name, _, anchor = target.partition("#")
    file = folder / name if name else page
    if not file.exists():
        return "which is not there"
    if anchor:
        return None if anchor in headings(file) else "no such heading"
    return "without a heading of it: a reader of a header looks for the section" if page.parts[0] == "include" else None


def wrong_span(span, page, names):
    """`src/protocol/lease.c`, `scripts/soak sim`, `tests/sim/golden`: from the root, or from where the page is; `lease.c`: anywhere"""
    path = re.split("[ :]", span)[0]
    if "NAME" in path:  # a pattern
        return None
    if re.fullmatch(r"[a-z_.*]+\.[ch]", path) and not fnmatch.filter(names, path):
        return "which is nowhere"
    there = not re.fullmatch(PATH, path) or any(any(folder.glob(path)) for folder in (pathlib.Path(), page.parent))
    return None if there else "which is not there"


def blocks_tested():
    """(language, page) of all blocks that CMakeLists.txt compiles or runs."""
    text = pathlib.Path("tests/readme/CMakeLists.txt").read_text()
    found = set(re.findall(r"(?m)^ *page_blocks\((\w+) (\S+) ", text)) | {("console", "README.md")}
    return found | {("sh", page) for page in re.findall(r"(?m)^ *page_commands\(\w+ (\S+)\)", text)}


def main():
    os.chdir(sys.argv[1])
    paths = [path for path in pathlib.Path().rglob("*") if not {"build", ".git"} & set(path.parts)]
    names = {path.name for path in paths}
    tested, found = blocks_tested(), []
    for page in (path for path in paths if path.suffix == ".md"):
        found += [(page, link, wrong_link(link, page, page.parent)) for link in re.findall(r"\]\((?!https?://)([^) \n]+)\)", prose(page))]
        found += [(page, span, wrong_span(span, page, names)) for span in re.findall(r"`([^`\n]+)`", prose(page))]
        for language in re.findall(r"(?m)^ *```(.*)", page.read_text())[::2]:
            if language not in SHOWN and (language, str(page)) not in tested:
                found.append((page, f"a block of {language or 'no language'}", "which no test takes"))
    for path in paths:  # named from the root
        if path.parts[0] in CODE.split() and path.is_file():
            text = path.read_text(errors="replace")
            found += [(path, name, wrong_link(name, path, pathlib.Path())) for name in re.findall(REFERENCE, text)]
    wrong = [f"{page} names {what}: {why}" for page, what, why in found if why]
    print(*wrong, sep="\n", file=sys.stderr)
    return bool(wrong)


sys.exit(main())
