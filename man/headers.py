#!/usr/bin/env python3
"""headers.py - manual pages of section 3, from the comments of the public headers.

usage: headers.py OUTPUT_DIR VERSION EXAMPLES_DIR HEADER...

One page a header (zklock_lock.3), and for every function and type in it a page that is the same one (zkl_lock_acquire.3). What a header
says first is the description; a comment right above functions is theirs; the rest comes under TYPES. The program of the same name in
EXAMPLES_DIR, or that of EXAMPLES, if there is one, is the page's example.
"""
import re
import sys
from pathlib import Path

BLOCK = re.compile(
    r"(?P<comment>/\*.*?\*/)"
    r"|(?P<define>\#define(?:\\\n|[^\n])*)"
    r"|(?P<other>\#[^\n]*|extern \"C\" \{|^\})"
    r"|(?P<code>[A-Za-z](?:/\*.*?\*/|\{(?:[^{}]|\{[^{}]*\})*\}|[^;{}])*;)",
    re.S | re.M,
)
FUNCTION = re.compile(r"\b(zkl_\w+)\(")
TYPE = re.compile(r"^typedef (?:.*\(\*(zkl_\w+)\)\(|.*\b(zkl_\w+);$)", re.S)
EXAMPLES = {"error": "barrier", "lock": "guarded", "session": "epoll", "stop": "stop", "types": "once", "version": "queue",
            "zookeeper": "transfer"}


def words(comment):
    """The text of a comment, as paragraphs and verbatim blocks."""
    lines = [re.sub(r"^ ?\* ?", "", line.rstrip()) for line in comment[2:-2].strip().split("\n")]
    paragraphs, current = [], []
    for line in lines + [""]:
        if line.strip():
            if current and re.match(r"(Errors|Caveats|Guarantees|Returns)\b", line):
                paragraphs.append(current)
                current = []
            current.append(line)
        elif current:
            paragraphs.append(current)
            current = []
    return paragraphs


def blocks(text):
    """(comment or None, code, kind), in order; a comment belongs to what follows it on the next line, and to functions right below that."""
    comment, end, above = None, 0, None
    for match in BLOCK.finditer(text):
        gap = text[end:match.start()]
        end = match.end()
        if match.lastgroup == "comment":
            if comment:
                yield comment, None, "note"
            comment = match["comment"]
            continue
        if comment and gap.count("\n") > 1:
            yield comment, None, "note"
            comment = None
        if match.lastgroup == "other":
            continue
        code = match[0].strip()
        is_function = code.startswith("ZKL_API")
        if is_function and not comment and gap.count("\n") == 1:
            comment = above
        yield comment, code, "function" if is_function else "type"
        comment, above = None, comment
    if comment:
        yield comment, None, "note"


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("^", "\\(ha").replace("~", "\\(ti")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def prose(paragraphs):
    out = []
    for paragraph in paragraphs:
        out.append(".PP")
        out += [escape(line) for line in paragraph]
    return out


def verbatim(code):
    return [".PP", ".nf", ".RS 4", escape(code), ".RE", ".fi"]


def prototype(code):
    return re.sub(r"\s+", " ", code.replace("ZKL_API ", "", 1))


def wrapped(code):
    """A prototype over several lines, its arguments below each other's beginning."""
    head, arguments = prototype(code).split("(", 1)
    lines, line = [], head + "("
    for argument in arguments.split(", "):
        piece = argument if line.endswith("(") else ", " + argument
        if len(line) + len(piece) > 78:
            lines.append(line + ",")
            line, piece = " " * (len(head) + 1), argument
        line += piece
    return "\n".join(lines + [line])


def bold(code):
    return ["\\fB" + escape(line) + "\\fR" for line in code.split("\n")]


def errors_of(table, text):
    named = set(re.findall(r"\bZKL_E[A-Z]+\b", text))
    return [(name, meaning) for name, meaning in table if name in named]


def page(header, text, table, version, others, example):
    name = "zklock_" + header.stem
    parts = list(blocks(text))
    first = words(parts[0][0])
    title = " ".join(first[0]).split(" - ", 1)[1]
    functions = [(c, code) for c, code, kind in parts if kind == "function"]
    names = [FUNCTION.search(code)[1] for _, code in functions]
    out = [
        '.\\" Made from include/zklock/%s by man/headers.py.' % header.name,
        '.TH "%s" 3 "" "zklock %s" "zklock"' % (name.upper(), version),
        ".nh",
        ".ad l",
        ".SH NAME",
        escape(", ".join([name] + names)) + " \\- " + escape(title.rstrip(".")),
        ".SH SYNOPSIS",
        ".nf",
        ".B #include <zklock/%s>" % header.name,
        "",
    ]
    for _, code in functions:
        out += bold(wrapped(code))
    out += [".fi", ".PP", "Link with \\fB\\-lzklock\\fR (pkg\\-config zklock, or CMake's zklock::zklock).", ".SH DESCRIPTION"]
    out += prose(first[1:])
    for comment, _, kind in parts[1:]:
        if kind == "note" and "\n" in comment:
            out += prose(words(comment))
    types = [(c, code) for c, code, kind in parts if kind == "type" and not code.startswith("#define ZKLOCK_")]
    if types:
        out.append(".SH TYPES AND CONSTANTS")
        for comment, code in types:
            out += prose(words(comment)) if comment else []
            out += verbatim(re.sub(r"(_INIT)\s*\\?\n.*", r"\1", code, flags=re.S))
    if functions:
        out.append(".SH FUNCTIONS")
        for i, (comment, code) in enumerate(functions):
            out += [".PP"] if i == 0 or comment != functions[i - 1][0] else []
            out += [".nf"] + bold(wrapped(code)) + [".fi"]
            if comment and (i + 1 == len(functions) or functions[i + 1][0] != comment):
                out += [".RS 4"] + prose(words(comment)) + [".RE"]
    if example.exists():
        out += [".SH EXAMPLE"] + verbatim(example.read_text(encoding="utf-8").rstrip())
    listed = errors_of(table, text) if header.stem != "error" else table
    if listed:
        out.append(".SH ERRORS")
        for error, meaning in listed:
            out += [".TP", ".B " + error, escape(meaning) + "."]
    out += [".SH SEE ALSO", ", ".join("\\fB%s\\fR(3)" % other for other in others if other != name) + ", \\fBzklock\\fR(1), \\fBzklock\\fR(7)"]
    found = [TYPE.match(code) for _, code in types]
    return name, names + [match[1] or match[2] for match in found if match], "\n".join(out) + "\n"


def main():
    target, version, examples, headers = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), [Path(h) for h in sys.argv[4:]]
    for old in target.glob("*.3"):
        old.unlink()
    texts = {header: header.read_text(encoding="utf-8") for header in headers}
    table = re.findall(r'X\((ZKL_E\w+), [-\d]+, \w+, "([^"]*)"\)', next(t for h, t in texts.items() if h.stem == "error"))
    others = ["zklock_" + header.stem for header in headers if FUNCTION.search(texts[header])]
    for header, text in texts.items():
        if "zklock_" + header.stem not in others:
            continue
        example = examples / (EXAMPLES.get(header.stem, header.stem) + ".c")
        name, aliases, roff = page(header, text, table, version, others, example)
        (target / (name + ".3")).write_text(roff, encoding="utf-8")
        for alias in aliases:
            (target / (alias + ".3")).write_text(".so man3/%s.3\n" % name, encoding="utf-8")


main()
