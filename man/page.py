#!/usr/bin/env python3
"""page.py - a page of section 1 or 7. usage: page.py SCDOC PAGE.scd FAILURE_MODEL.md MESSAGES.txt COMMAND OUTPUT

The table of the failure model stands in docs/failure-model.md alone; a line @FAILURES@ takes it in. A line @MESSAGES@ takes in those messages
of man/messages.txt that have a line which says what to do. How an option is typed is in the tables of the command's sources, in the directory
COMMAND; @--name@ is its letter, its name and its value.
"""
import glob
import re
import subprocess
import sys


def escape(text):
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"([\\_<>#\[|])", r"\\\1", text)
    return re.sub(r"`([^`]*)`", r"*\1*", text)


def failures(markdown):
    """A row becomes: what happened, and below it who sees what."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in markdown.split("\n") if line.startswith("|")]
    heads, out = rows[0], []
    for row in rows[2:]:
        said = ["%s: %s." % (escape(head), escape(cell).rstrip(".")) for head, cell in zip(heads[1:], row[1:]) if cell]
        out += ["*%s*" % escape(row[0]).replace("*", ""), "\t" + "++\n".join(said), ""]
    return "\n".join(out)


def messages(text):
    """Each message, and below it what to do."""
    found = re.findall(r"^(?!# )(\S.*)\n\t(.*)$", text, re.M)
    return "".join("*%s*\n\t%s\n\n" % (escape(message.replace("*", "")), escape(what)) for message, what in found)


OPTION = re.compile(r"""OPTION_([A-Z]+)\(\s*"([a-z-]+)",\s*'(.|\\0)',\s*(?:"([^"]*)"|NULL|&)""")


def options(directory):
    """Name to the line that begins what is said of it."""
    found = {}
    for path in glob.glob(directory + "/*.[ch]"):
        with open(path, encoding="utf-8") as file:
            text = file.read().replace("\\\n", " ")
        for kind, name, letter, value in OPTION.findall(text):
            value = {"FLAG": "", "DURATION": "DUR"}.get(kind, value)
            line = "*--%s*" % name + (value and "=" + re.sub("[A-Z]+", r"_\g<0>_", value))
            found[name] = line if letter == "\\0" else "*-%s*, %s" % (letter, line)
    return found


def main():
    scdoc, source, model, said, command, output = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        text = file.read()
    with open(model, encoding="utf-8") as file:
        text = text.replace("@FAILURES@\n", failures(file.read()))
    with open(said, encoding="utf-8") as file:
        text = text.replace("@MESSAGES@\n", messages(file.read()))
    typed = options(command)
    text = re.sub("@--([a-z-]+)@", lambda found: typed[found.group(1)], text)
    done = subprocess.run([scdoc], input=text.encode(), stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit("%s: scdoc refuses it" % source)
    with open(output, "wb") as file:
        file.write(done.stdout)


main()
