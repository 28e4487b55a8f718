#!/usr/bin/env python3
"""growth.py FOLDER: every public struct can grow without breaking a program that was built before.

A struct that the caller makes begins with its size, or ends with a reserve. The others are listed here, each with what grows instead."""
import pathlib
import re
import sys

# Made by the library, one at a time, and read by the caller through a pointer: they grow at the end.
MADE_BY_THE_LIBRARY = {"zkl_leader", "zkl_queue", "zkl_members", "zkl_data", "zkl_log_record"}
# They hang from a struct of options by a pointer: what they lack becomes another option.
OF_OPTIONS = {"zkl_acl", "zkl_acl_entry", "zkl_heap", "zkl_sasl"}
# A histogram stands inside zkl_stats, a stop token in the caller's memory: both are final.
FINAL = {"zkl_histogram", "zkl_stop"}

FROZEN = MADE_BY_THE_LIBRARY | OF_OPTIONS | FINAL
STRUCT = re.compile(r"typedef struct (zkl_\w+) \{(.*?)^\} \1;", re.S | re.M)


def main():
    headers = sorted(pathlib.Path(sys.argv[1]).glob("*.h"))
    text = "\n".join(re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S) for header in headers)
    structs = {name: body.split(";") for name, body in STRUCT.findall(text)}
    grow = {name for name, members in structs.items()
            if members[0].strip() == "size_t size" or re.search(r"\breserved\[\d+\]$", members[-2].strip())}
    stuck = sorted(set(structs) - grow - FROZEN)
    for name in stuck:
        print(f"{name} neither begins with its size nor ends with a reserve")
    stale = sorted(FROZEN - set(structs) | FROZEN & grow)
    for name in stale:
        print(f"{name} is listed in growth.py without need")
    return 1 if stuck or stale or len(structs) < 15 else 0


sys.exit(main())
