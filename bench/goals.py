"""What was meant to be reached, and whether it was."""
import math

from figures import quantile

TMPFS_ZKLOCK = ("tmpfs", "zklock")


def over(a, b):
    return a / b if b else math.nan


def per_hand_over(runs, job, what):
    return [over(a, b) for a, b in zip(*(runs.values(job, *TMPFS_ZKLOCK, name) for name in (what, "hand_over_count")))]


def waiting(bench, what):
    """Per waiter and minute: eight waiters and a holder, less the holder alone, whose heartbeats are one more or less."""
    many, one = (bench.runs.median(job, *TMPFS_ZKLOCK, what) for job in ("wait9", "wait1"))
    return max(many - one, 0) / 8 / (bench.size.wait_ms / 60000)


def idle(bench, system):
    """Packets of a session with nothing to do, per minute."""
    return bench.runs.median("idle", "tmpfs", system, "requests") / 8 / (bench.size.wait_ms / 60000)


def against_sum(runs, one, *others):
    """The wait of one (job, system), against the sum of others' in the same round."""
    values = [runs.values(job, "tmpfs", system, "wait_us") for job, system in (one, *others)]
    return [over(first, sum(rest)) for first, *rest in zip(*values)]


def free_goals(runs):
    return [
        ("acquire + release, free lock", "at most 1.10 x the raw round trips",
         runs.ratios("free", "tmpfs", "zklock", "raw", "cycle_us"), "{:.2f} x", lambda x: x <= 1.10),
        ("", "Curator at least 1.4 x ours", runs.ratios("free", "tmpfs", "curator", "zklock", "cycle_us"), "{:.2f} x",
         lambda x: x >= 1.4),
        ("acquire + release, lingering lock", "at most 1 us", runs.values("free", "tmpfs", "linger", "cycle_us"), "{:.2f} us",
         lambda x: x <= 1),
        ("", "no request", runs.values("free", "tmpfs", "linger", "requests_each"), "{:.2f}", lambda x: x < 0.005),
        ("", "Curator at least 300 x ours", runs.ratios("free", "tmpfs", "curator", "linger", "cycle_us"), "{:,.0f} x",
         lambda x: x >= 300),
        ("another session acquires a lock that lingers unused", "call to grant at most 1.5 x a hand-over to a waiter",
         runs.ratios("yield", "tmpfs", "linger", "zklock", "wait_us", to="relay"), "{:.2f} x", lambda x: x <= 1.5),
        ("", "at most 1.5 x acquire of a free lock + hand-over", against_sum(runs, ("yield", "linger"), ("free", "zklock"), ("relay", "zklock")),
         "{:.2f} x", lambda x: x <= 1.5),
        ("two sessions of four threads, lingering lock", "luckiest session's grants at most 1.1 x the unluckiest's",
         runs.values("two", "tmpfs", "linger", "luck"), "{:.2f} x", lambda x: x <= 1.1),
    ]


def grant_goals(runs):
    def grants(job, system, other="curator"):
        return runs.ratios(job, "tmpfs", system, other, "grants_s")
    return [
        ("8 sessions, one lock: grants a second", "at least 1.6 x Curator's", grants("eight", "zklock"), "{:.2f} x",
         lambda x: x >= 1.6),
        ("8 threads of one session, one lock: grants a second", "at least 5 x Curator's", grants("threads", "zklock"), "{:.2f} x",
         lambda x: x >= 5),
        ("", "lingering lock: at least 100 x Curator's", grants("threads", "linger"), "{:,.0f} x", lambda x: x >= 100),
        ("8 processes on libzklock_st, one lock", "grants a second: at least 1.15 x libzklock's", grants("processes", "st", "zklock"), "{:.2f} x",
         lambda x: x >= 1.15),
        ("", "at least 1.15 x the bare recipe on one thread", grants("processes", "st", "raw1"), "{:.2f} x", lambda x: x >= 1.15),
        ("", "processor per grant: at most 0.7 x libzklock's", runs.ratios("processes", "tmpfs", "st", "zklock", "client_us"), "{:.2f} x",
         lambda x: x <= 0.7),
        ("", "free lock: at most 1.02 x the bare recipe on one thread", runs.ratios("free", "tmpfs", "st", "raw1", "cycle_us"), "{:.2f} x",
         lambda x: x <= 1.02),
        ("", "one thread in a process with a session", runs.values("processes", "tmpfs", "st", "process_threads"), "{:.0f}", lambda x: x == 1),
        ("release call to the next holder running, another session", "at most 1.1 x (raw delete-to-event + one read)",
         against_sum(runs, ("relay", "zklock"), ("event", "raw"), ("read", "raw")), "{:.2f} x", lambda x: x <= 1.1),
    ]


def crowd_goals(bench):
    runs, size = bench.runs, bench.size
    many = f"waiters{size.waiters[-1]}"

    def threads(job):
        return [runs.median(job, *TMPFS_ZKLOCK, "threads") - runs.median(job, *TMPFS_ZKLOCK, "threads_before")]
    return [
        (f"{size.waiters[-1]:,} waiters on one lock", "one client woken per grant", per_hand_over(runs, many, "events"),
         "{:.2f} events sent per hand-over", lambda x: abs(x - 1) < 0.03),
        (f"{size.held:,} locks held by one process", "at most 1.5 KiB each", runs.values("held", *TMPFS_ZKLOCK, "heap_bytes_each"),
         "{:,.0f} bytes of heap", lambda x: x <= 1536),
        ("", "no thread more", threads("held"), "{:+.0f}", lambda x: x == 0),
        ("", "one heartbeat per session", runs.ratios("held", "tmpfs", "zklock", "zklock", "requests", to="held1"),
         "{:.2f} x the requests of one lock held", lambda x: x < 1.2),
        (f"{size.pending:,} acquires pending on one thread", "no thread more", threads("pending"), "{:+.0f}", lambda x: x == 0),
    ]


def command_goals(bench):
    runs, size = bench.runs, bench.size

    def whole(other):
        return runs.ratios("command", *TMPFS_ZKLOCK, other, "whole_ms")
    return [
        ("`zklock run` on a free lock, the whole process", "at most 0.33 x `etcdctl lock`", whole("etcd"), "{:.2f} x", lambda x: round(x, 2) <= 0.33),
        ("", "at most 1.15 x a raw client that opens, creates, lists, forks and closes", whole("raw"), "{:.2f} x", lambda x: round(x, 2) <= 1.15),
        ("", "at most 2.5 x `flock` on a local file", whole("flock"), "{:.2f} x", lambda x: x <= 2.5),
        (f"`zklock ls` of {size.listed:,} in a queue", "under 100 ms, 9 of 10 times",
         [quantile(runs.values("ls", *TMPFS_ZKLOCK, "whole_ms"), 0.9)], "{:.0f} ms", lambda x: x < 100),
        ("a long wait, each waiter", "no write", [waiting(bench, "writes")], "{:.1f} a minute", lambda x: x < 0.5),
        ("", "at most 1.5 x the packets of the client's own pings", [over(waiting(bench, "requests"), idle(bench, "raw"))], "{:.2f} x",
         lambda x: x <= 1.5),
    ]


def goals(bench):
    """Rows of (work, goal, figures of the rounds, how they are written, whether their median reaches it)."""
    return [*free_goals(bench.runs), *grant_goals(bench.runs), *crowd_goals(bench), *command_goals(bench)]
