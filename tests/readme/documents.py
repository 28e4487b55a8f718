#!/usr/bin/python3
"""documents.py SOURCE: each block of code on a page (*.md) of the tree is compiled or run by CMakeLists.txt."""
import pathlib
import re
import sys

# Blocks of these languages are shown: what a program prints, or a file of another program. `console` is for README.md, whose lines
# scripts/soak platforms types in a fresh Debian.
SHOWN = {"text", "yaml"}


def tested_blocks(root):
    """(language, page) of all blocks that tests/readme/CMakeLists.txt compiles or runs."""
    text = (root / "tests/readme/CMakeLists.txt").read_text()
    found = set(re.findall(r"^ *page_blocks\((\w+) (\S+) ", text, re.M))
    found |= {("sh", page) for page in re.findall(r"^ *page_commands\(\w+ (\S+)\)", text, re.M)}
    return found | {("console", "README.md")}


def main():
    root = pathlib.Path(sys.argv[1])
    tested, wrong = tested_blocks(root), 0
    for path in root.rglob("*.md"):
        page = str(path.relative_to(root))
        fences = re.findall(r"^ *```(.*)$", path.read_text(), re.M) if not page.startswith("build") else []
        for language in fences[::2]:
            if language not in SHOWN and (language, page) not in tested:
                print(f"{page}: a block of {language or 'no language'}, which no test takes")
                wrong += 1
    return wrong > 0


sys.exit(main())
