#!/usr/bin/env python3
"""verbs.py ZKLOCK SERVERS PATH... - the verbs of the command that read a queue, at each PATH, where sweep.c has made foreign znodes.

Each is good that ends in time with 0, or with an error that names the path; the others are printed. Exit code: whether there were any."""
import concurrent.futures
import signal
import subprocess
import sys

SOON = 30  # s
SANITIZER = 99
CALLS = ("ls PATH", "--json ls PATH", "check PATH", "--json watch PATH", "revoke -w 100ms PATH", "run -n PATH -- true",
         "run -n -j 0 PATH -- true", "release --force --yes PATH")
ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin", "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=99",
               "ASAN_OPTIONS": "detect_leaks=0:handle_abort=1:exitcode=99"}


def fault(call, path):
    """What is wrong with it; None: nothing."""
    command = [zklock, "-s", servers, "--tick", "500ms"] + call.replace("PATH", path).split()
    with subprocess.Popen(command, bufsize=0, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as process:
        output = b""
        if "watch" in call:  # goes on until it is interrupted: it is once it has printed something
            output = process.stdout.readline()
            process.send_signal(signal.SIGINT)
        try:
            output += process.communicate(timeout=SOON)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            return f"{call}, {path}: does not end"
    good = process.returncode == 0 or (0 < process.returncode != SANITIZER and path.encode() in output)
    return None if good else f"{call}, {path}: {process.returncode}\n{output.decode(errors='replace')}"


zklock, servers, *paths = sys.argv[1:]
runs = [(call, path) for path in paths for call in CALLS] + [("doctor", "/locks")]
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    faults = [text for text in pool.map(fault, *zip(*runs)) if text]
print(f"{len(runs)} runs of the command, {len(faults)} bad", *faults, sep="\n")
sys.exit(len(faults) > 0)
