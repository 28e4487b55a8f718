#!/usr/bin/env python3
"""mutate.py - programs that use the library or the command through a server that lies.

  mutate.py [--seed N] [--runs N] [--jobs N] DRIVERS COMMAND [PROGRAM...]

Each run has a seed: the same seed tells the same lies about the same replies. How many replies there are is a matter of time. Without
PROGRAM, all of them run. The server is COMMAND's sandbox.

First, one run of each program without lies shows what it needs. A run with lies is good when the program ends by itself, in time, with a code
that it may end with, without a report of the sanitizers, and with at most 64 MB above the quiet run (the kernel counts this program itself,
before it becomes the other one). Two holders are good only after a lie about what decides that. A lie that the client library does not survive
(SECURITY.md, lies.py) excuses a crash; a crash in the client library after another lie is reported."""
import argparse
import asyncio
import collections
import concurrent.futures
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # the tree of sources stays as it is
import lies  # noqa: E402

# By the recipes that they use (../foreign/recipes.h).
LIBRARY = ("lock", "write", "semaphore", "multilock", "election+observer", "group-watch+group", "partition", "barrier+double-barrier", "once",
           "queue-list+queue-verbs")
PROGRAMS = LIBRARY + ("run", "ls", "doctor")
DEADLINE = 60  # s: the slowest program's own deadlines add up to 20 s
MEMORY_KB = 64 * 1024
FRAME_MAX = 1 << 20
ENVIRONMENT = {
    "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin", "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=99",
    "ASAN_OPTIONS": "detect_leaks=0:handle_abort=1:handle_sigill=1:quarantine_size_mb=4:allocator_may_return_null=1:max_allocation_size_mb=512:"
                    "exitcode=99"}


class Link:
    """One connection of a client, through the liar."""

    def __init__(self, run):
        self.run = run
        run.links += 1
        self.number = run.links
        self.frames = 0
        self.plain = False  # a four-letter command, whose reply is text
        self.asked = self.welcomed = False
        self.sent = collections.deque()  # xid and type of requests without a reply
        self.paths = collections.deque(maxlen=8)
        self.behind = b""  # for the client, behind the next frame

    async def serve(self, reader, writer):
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.run.server_port)
        except OSError:
            writer.close()
            return
        ways = [asyncio.create_task(self.pass_requests(reader, server_writer)), asyncio.create_task(self.pass_replies(server_reader, writer))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for task in ways:
            task.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        writer.close()
        server_writer.close()

    async def pass_requests(self, reader, writer):
        rest = b""
        while data := await reader.read(65536):
            self.plain = self.plain or (not self.asked and data[0] >= ord("a"))
            writer.write(data)
            await writer.drain()
            frames, rest = take_frames(b"" if self.plain else rest + data)
            for frame in frames:
                self.note_request(frame)

    def note_request(self, frame):
        if not self.asked or len(frame) < 8:
            self.asked = True  # for a session
            return
        xid, kind = struct.unpack_from(">ii", frame)
        if xid < 0:
            return
        self.sent.append((xid, kind))
        path = lies.text_at(frame, 8) if kind != lies.MULTI else b""
        if path.startswith(b"/"):
            self.paths.append(path)

    def kind_of(self, frame):
        """What the reply answers. Requests before it have none any more."""
        if not self.welcomed:
            self.welcomed = True
            return lies.WELCOME
        xid = struct.unpack_from(">i", frame)[0] if len(frame) >= 4 else -2
        if xid == -1:
            return lies.EVENT
        while any(sent == xid for sent, _ in self.sent):
            sent, kind = self.sent.popleft()
            if sent == xid:
                return kind
        return lies.OTHER

    async def pass_replies(self, reader, writer):
        rest = b""
        while data := await reader.read(65536):
            if self.plain:
                self.frames += 1
                writer.write(self.run.liar.garble(data, self.dice()))
                continue
            frames, rest = take_frames(rest + data)
            for frame in frames:
                if not await self.say(frame, writer):
                    return

    def dice(self):
        return random.Random(f"{self.run.seed} {self.number} {self.frames}")

    async def say(self, frame, writer):
        """False: the connection ends, in the middle of a frame."""
        self.frames += 1
        kind, dice = self.kind_of(frame), self.dice()
        fate, said = self.run.liar.say(dice, frame, kind, bool(self.sent), dice.choice(self.paths) if self.paths else b"")
        if fate == "cut":
            writer.write(said[:len(said) // 2])
            return False
        if fate == "reorder":
            self.behind += said
            return True
        if fate == "delay":
            await asyncio.sleep(dice.uniform(0.5, 1.5) if dice.randrange(4) == 0 else dice.uniform(0.005, 0.15))
        writer.write(said * {"drop": 0, "repeat": 2}.get(fate, 1) + self.behind)
        await writer.drain()
        self.behind = b""
        return True


def take_frames(data):
    """Whole frames, and what is no whole one yet."""
    frames = []
    while len(data) >= 4:
        length = struct.unpack_from(">i", data)[0]
        if not 0 <= length <= FRAME_MAX:
            raise ConnectionError
        if len(data) < 4 + length:
            break
        frames.append(data[4:4 + length])
        data = data[4 + length:]
    return frames, data


class Run:
    def __init__(self, program, seed, quiet, everything):
        self.program, self.seed, self.quiet = program, f"{seed} {program}", quiet
        self.server_port = everything.port
        self.links = 0
        self.output = tempfile.TemporaryFile("w+", errors="replace")
        self.liar = lies.Liar(random.Random(self.seed), quiet, self.output)
        self.command, self.drivers, self.servers = everything.command, everything.drivers, everything.servers
        self.path = f"/mutate/{seed}-{program}"  # not with ten digits at the end: that is the name of a contender, and no lock's

    async def finish(self):
        """Returns whether it was late, the exit status and its use of resources."""
        listener = await asyncio.start_server(lambda *sides: Link(self).serve(*sides), "127.0.0.1", 0)
        liar = "127.0.0.1:%d" % listener.sockets[0].getsockname()[1]
        if self.program in LIBRARY:
            argv = [self.drivers, liar, self.servers, self.path, *self.program.split("+")]
        else:
            more = ["-w", "700ms", self.path, "--", "true"] if self.program == "run" else []
            argv = [self.command, "-s", liar, "--session-timeout", "2s", "--tick", "100ms", self.program] + more
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output, env=ENVIRONMENT, process_group=0)
        end = asyncio.create_task(asyncio.to_thread(os.wait4, self.process.pid, 0))
        _, late = await asyncio.wait({end}, timeout=DEADLINE)
        if late:
            os.killpg(self.process.pid, 9)
        _, status, usage = await end
        self.process.returncode = os.waitstatus_to_exitcode(status)
        try:
            os.killpg(self.process.pid, 9)  # what it left behind of its own
        except ProcessLookupError:
            pass
        listener.close()
        return bool(late), self.process.returncode, usage

    def read_output(self):
        self.output.seek(0)
        with self.output:
            return self.output.read(200000)


def crashed_in_client_library(output):
    """The first place of the report's stack that is neither the C library's nor the sanitizer's."""
    if "zookeeper.c:" in output and "Assertion `" in output:
        return True
    for line in re.findall(r"\n(    #.*)", output):
        if "libzookeeper_mt" in line:
            return True
        if re.search("/(src|recipes|tests)/", line) and not re.search("sanitizer|asan|csu", line):
            return False
    return False


class Everything:
    def __init__(self, drivers, command, servers):
        self.drivers, self.command, self.servers = drivers, command, servers
        self.port = int(servers.split(":")[1].split("/")[0])
        self.base_kb, self.told = {}, collections.Counter()
        self.client_library = self.two_holders = self.bad = 0
        self.forget()

    def forget(self):
        self.done, self.grants = collections.Counter(), collections.Counter()

    def verdict(self, run, output, late, code, usage):
        """What is wrong with the run; None: nothing."""
        ended = code == 0 or (run.program not in LIBRARY and (code == 1 or 120 <= code <= 125))
        if late:
            return "did not end in time"
        if "ERROR: AddressSanitizer" in output or "runtime error:" in output or not ended:
            if not crashed_in_client_library(output) and not run.liar.excuse:
                return "crashed"
            self.client_library += 1
            return None if run.liar.excuse else "crashed in the client library, by a lie that is not known for it"
        if not run.quiet and usage.ru_maxrss > self.base_kb[run.program] + MEMORY_KB:
            return "used more memory than it may"
        if "two holders" in output:
            self.two_holders += 1
            return None if run.liar.decisive else "two held, and nobody had lied about what decides that"
        return None

    async def run(self, program, seed, quiet, room):
        async with room:
            run = Run(program, seed, quiet, self)
            late, code, usage = await run.finish()
        output = run.read_output()
        wrong = self.verdict(run, output, late, code, usage)
        grants = re.search(r"(\d+) grants\n", output)
        self.grants[program] += int(grants[1]) if grants else code == 0
        self.done[program] += 1
        if quiet:
            self.base_kb[program] = usage.ru_maxrss
        self.told += run.liar.told
        if wrong:
            self.bad += 1
            print(f"{program} --seed {seed}: {wrong} ({run.liar.excuse or '-'}, {usage.ru_maxrss} KB, code {code})\n{output}")

    async def run_all(self, programs, seeds, jobs, quiet):
        room = asyncio.Semaphore(jobs)
        await asyncio.gather(*(self.run(program, seed, quiet, room) for seed in seeds for program in programs))

    async def run_quietly(self, programs, seed, jobs):
        """A program that is granted nothing without lies shows nothing: on a machine that is too busy for its deadlines, it runs again."""
        missing = programs
        for _ in range(20):
            await self.run_all(missing, [seed], jobs, True)
            missing = [program for program in programs if not self.grants[program]]
            if self.bad or not missing:
                break
        for program in missing:
            print(f"mutate: {program} does nothing without lies", file=sys.stderr)
        self.forget()
        return not missing and not self.bad

    def report(self, programs):
        for program in programs:
            print(f"{program:22} {self.done[program]} runs, {self.grants[program]} grants")
        print(", ".join(f"{lie} {self.told[lie]}" for lie in lies.LIES), "lies")
        print(f"{self.client_library} ended by the client library's own faults, {self.two_holders} with two holders after a lie that a client "
              f"cannot see; {self.bad} runs were bad")


def hold_something(command):
    """What there is to see for the command: a holder, and a waiter behind it, for as long as mutate runs."""
    holders = [subprocess.Popen([command, "--session-timeout", "2s", "--tick", "100ms", "hold", "/locks/held"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) for _ in range(2)]
    while subprocess.run([command, "ls", "/locks/held"], capture_output=True, text=True, check=False).stdout.count("\n  ") < 2:
        pass
    return holders


async def work(options):
    everything = Everything(options.drivers, options.command, os.environ["ZKLOCK_SERVERS"])
    programs = options.programs or PROGRAMS
    # A thread waits for the end of each program.
    asyncio.get_running_loop().set_default_executor(concurrent.futures.ThreadPoolExecutor(options.jobs))
    if not await everything.run_quietly(programs, options.seed, options.jobs):
        return 1
    await everything.run_all(programs, range(options.seed, options.seed + options.runs), options.jobs, False)
    everything.report(programs)
    return 1 if everything.bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("--seed", 1), ("--runs", 1), ("--jobs", 24)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("drivers")
    parser.add_argument("command")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", choices=[[], *PROGRAMS])
    options = parser.parse_args()
    if not shutil.which("java"):
        sys.exit(77)
    if "ZKLOCK_SANDBOX_DIR" not in os.environ:
        os.execv(options.command, [options.command, "--tick", "100ms", "sandbox", "--", sys.executable, *sys.argv])
    holders = hold_something(options.command)
    code = asyncio.run(work(options))
    for holder in holders:
        holder.kill()
    sys.exit(code)


main()
