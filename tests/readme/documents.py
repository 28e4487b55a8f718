#!/usr/bin/python3
"""documents.py SOURCE [COUNT]: counts the words of the documents, and the blocks of code that no test takes, and fails above the limits below.
With the name of one COUNT it lists what counts.

  readme     words of README.md, code and tables included
  all        words of every *.md of the tree, code and tables included
  unmarked   blocks of code, on any page of the tree, without a language, or of a language that has to be compiled or run and is not
"""
import pathlib
import re
import sys

LIMITS = {"readme": 800, "all": 26000, "unmarked": 0}

# Blocks of these languages are shown: what a program prints, or a file of another program. `console` is for README.md, whose lines
# scripts/soak platforms types in a fresh Debian. All others have to be compiled or run by CMakeLists.txt.
SHOWN = {"text", "yaml"}


def documents(root):
    pages = {str(path.relative_to(root)): path for path in sorted(root.rglob("*.md"))}
    return {page: path.read_text() for page, path in pages.items() if not page.startswith("build")}


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


def tested_blocks(root):
    """(language, page) of all blocks that tests/readme/CMakeLists.txt compiles or runs."""
    text = (root / "tests/readme/CMakeLists.txt").read_text()
    found = set(re.findall(r"^ *page_blocks\((\w+) (\S+) ", text, re.M))
    found |= {("sh", page) for page in re.findall(r"^ *page_commands\(\w+ (\S+)\)", text, re.M)}
    return found | {("console", "README.md")}


def unmarked_blocks(page, text, tested):
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        fence = line.lstrip().startswith("```")
        if fence and not in_code:
            language = line.strip()[3:]
            if language not in SHOWN and (language, page) not in tested:
                yield f"{page}:{number}: a block of {language or 'no language'}, which no test takes"
        in_code ^= fence


def main():
    root, shown = pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    pages, tested = documents(root), tested_blocks(root)
    words = {page: len(text.split()) for page, text in pages.items()}
    unmarked = [found for page, text in pages.items() for found in unmarked_blocks(page, text, tested)]
    counts = {"readme": words["README.md"], "all": sum(words.values()), "unmarked": len(unmarked)}
    listed = {"all": [f"{count:6} {page}" for page, count in words.items()], "unmarked": unmarked}
    print(*listed.get(shown, []), sep="\n")
    for name, count in counts.items():
        print(f"{name}: {count}, limit {LIMITS[name]}" + (": TOO MANY" if count > LIMITS[name] else ""))
    return any(count > LIMITS[name] for name, count in counts.items())


if __name__ == "__main__":
    sys.exit(main())
