#!/usr/bin/env python3
"""names.py SOURCE ZKLOCK: what pages and manual pages name of the interface is there.

README.md, SECURITY.md, docs/ and man/ name functions, types, constants and members of the C headers, names of the C++ headers, and options
of the command. A decision (docs/adr/) may name what it did away with."""
import pathlib
import re
import subprocess
import sys

NOT_READ = ("docs/adr/",)
# Of other programs, which a page may name by themselves: an option of pkg-config, a line of mntr.
FOREIGN = {"--static"}
SETTINGS = {"zk_max_jvm_pause_time_ms"}


def options_of(command, *subcommand):
    text = subprocess.run([command, *subcommand, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"--[a-z][-a-z]*", text)), text


def words(paths):
    """Of the code, not of the comments."""
    return {word for path in paths for word in re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S))}


def spans(text, manual):
    """(line, text) of what stands as code."""
    pattern = r"\*([^*\n]+)\*" if manual else r"`([^`\n]+)`"
    return [(n, s) for n, line in enumerate(text.splitlines(), 1) for s in re.findall(pattern, line)]


class Interface:
    def __init__(self, root, command):
        self.c = words(root.glob("include/zklock/*.h"))
        self.cpp = words([*root.glob("include/zklock/*.hpp"), *root.glob("cmake/*")]) | self.c
        self.members = self.c | words(root.glob("src/cli/*.c")) | SETTINGS  # those of JSON are in the command
        whole, text = options_of(command)
        self.options = {"": whole}
        for name in re.findall(r"^  ([a-z]+) ", text.split("Subcommands:")[1].split("\n\n")[0], re.M):
            self.options[name] = whole | options_of(command, name)[0]
        scripts = [p for p in [*root.glob("scripts/*"), *root.glob("tests/mutants"), *root.glob("bench/*.c")] if p.is_file()]
        self.any_option = set().union(*self.options.values(), FOREIGN)
        self.of_scripts = {o for p in scripts for o in re.findall(r"--[a-z][-a-z]*", p.read_text(errors="replace"))}

    def missing_names(self, text):
        for name, star in re.findall(r"\b((?:zkl|ZKL)_(?!_)[A-Za-z0-9_]*[A-Za-z0-9])(_?[*.]|_)?", text):
            if name not in self.c and not (star and any(word.startswith(name) for word in self.c)):
                yield name
        for name in re.findall(r"\bzklock::((?:\w+::)*\w+)", text):
            yield from (f"zklock::{name}" for part in name.split("::") if part not in self.cpp)

    def missing_in_span(self, span):
        for member in re.findall(r"(?<![\w.-])[a-z][a-z_]+_(?:ms|fn)\b(?!\()", span):
            if member not in self.members:
                yield member
        for kind, member in re.findall(r"\b(session|mutex|\w+_options|group|partition)::(\w+)", span):
            if member not in self.cpp:
                yield f"{kind}::{member}"
        first, subcommand = (re.sub(r"^(-\S+ )*(zklock )?(-\S+ )*", "", span).split(" ") + [""])[0], ""
        if first in self.options:
            subcommand = first
        elif not re.match(r"(zklock )?-", span):
            return  # of another program
        known = self.options[subcommand] if subcommand else self.any_option | self.of_scripts
        yield from (f"{subcommand} {o}".strip() for o in re.findall(r"(?<![\w-])--[a-z][-a-z]*", span.split(" -- ")[0]) if o not in known)


def main():
    root, command = pathlib.Path(sys.argv[1]), sys.argv[2]
    interface = Interface(root, command)
    pages = [root / "README.md", root / "SECURITY.md", *sorted(root.glob("docs/**/*.md")), *sorted(root.glob("man/*.scd"))]
    wrong = 0
    for page in pages:
        name = str(page.relative_to(root))
        if name.startswith(NOT_READ):
            continue
        text = page.read_text()
        found = [(n, m) for n, line in enumerate(text.splitlines(), 1) for m in interface.missing_names(line)]
        found += [(n, m) for n, span in spans(text, page.suffix == ".scd") for m in interface.missing_in_span(span)]
        for number, missing in sorted(set(found)):
            print(f"{name}:{number}: {missing}, which there is not")
            wrong += 1
    return wrong > 0


sys.exit(main())
