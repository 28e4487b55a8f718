"""What was meant to be reached, and whether it was."""
import math
import statistics

from figures import quantile, spread


def against_sum(runs, one, *others):
    """The wait of one (job, system), against the sum of others' in the same round."""
    values = [runs.values(job, system, "wait_us") for job, system in (one, *others)]
    return [first / sum(rest) for first, *rest in zip(*values)]


def waiting(bench, what):
    """Per waiter and minute: eight waiters and a holder, less the holder alone, whose heartbeats are one more or less."""
    many, one = (bench.runs.median(job, "zklock", what) for job in ("wait9", "wait1"))
    return max(many - one, 0) / 8 / (bench.size.wait_ms / 60000)


def lock_goals(bench):
    runs = bench.runs
    return [
        ("acquire + release, free lock", "at most 1.10 x the raw round trips", runs.ratios("free", "zklock", "raw", "cycle_us"), "{:.2f} x",
         lambda x: x <= 1.10),
        ("", "Curator at least 1.4 x ours", runs.ratios("free", "curator", "zklock", "cycle_us"), "{:.2f} x", lambda x: x >= 1.4),
        ("acquire + release, lingering lock", "at most 1 us", runs.values("free", "linger", "cycle_us"), "{:.2f} us", lambda x: x <= 1),
        ("", "no request", runs.values("free", "linger", "requests_each"), "{:.2f}", lambda x: x < 0.005),
        ("", "Curator at least 300 x ours", runs.ratios("free", "curator", "linger", "cycle_us"), "{:,.0f} x", lambda x: x >= 300),
        ("another session acquires a lock that lingers unused", "call to grant at most 1.5 x a hand-over to a waiter",
         runs.ratios("yield", "linger", "zklock", "wait_us", to="relay"), "{:.2f} x", lambda x: x <= 1.5),
        ("", "at most 1.5 x acquire of a free lock + hand-over", against_sum(runs, ("yield", "linger"), ("free", "zklock"), ("relay", "zklock")),
         "{:.2f} x", lambda x: x <= 1.5),
        ("two sessions of four threads, lingering lock", "luckiest session's grants at most 1.1 x the unluckiest's",
         runs.values("two", "linger", "luck"), "{:.2f} x", lambda x: x <= 1.1),
        ("8 sessions, one lock: grants a second", "at least 1.6 x Curator's", runs.ratios("eight", "zklock", "curator", "grants_s"), "{:.2f} x",
         lambda x: x >= 1.6),
        ("8 threads of one session, one lock: grants a second", "at least 5 x Curator's", runs.ratios("threads", "zklock", "curator", "grants_s"),
         "{:.2f} x", lambda x: x >= 5),
        ("", "lingering lock: at least 100 x Curator's", runs.ratios("threads", "linger", "curator", "grants_s"), "{:,.0f} x", lambda x: x >= 100),
        ("8 processes on libzklock_st, one lock", "grants a second: at least 1.15 x libzklock's", runs.ratios("processes", "st", "zklock", "grants_s"),
         "{:.2f} x", lambda x: x >= 1.15),
        ("", "at least 1.15 x the bare recipe on one thread", runs.ratios("processes", "st", "raw1", "grants_s"), "{:.2f} x", lambda x: x >= 1.15),
        ("", "processor per grant: at most 0.7 x libzklock's", runs.ratios("processes", "st", "zklock", "client_us"), "{:.2f} x", lambda x: x <= 0.7),
        ("", "free lock: at most 1.02 x the bare recipe on one thread", runs.ratios("free", "st", "raw1", "cycle_us"), "{:.2f} x", lambda x: x <= 1.02),
        ("", "one thread in a process with a session", runs.values("processes", "st", "process_threads"), "{:.0f}", lambda x: x == 1),
        ("release call to the next holder running, another session", "at most 1.1 x (raw delete-to-event + one read)",
         against_sum(runs, ("relay", "zklock"), ("event", "raw"), ("read", "raw")), "{:.2f} x", lambda x: x <= 1.1)]


def other_goals(bench):
    runs, size = bench.runs, bench.size
    waiters = f"waiters{size.waiters[-1]}"
    return [
        (f"{size.waiters[-1]:,} waiters on one lock", "one client woken per grant",
         [events / len(between) for events, between in zip(runs.values(waiters, "zklock", "events"), runs.values(waiters, "zklock", "hand_overs"))],
         "{:.2f} events sent per hand-over", lambda x: abs(x - 1) < 0.03),
        (f"{size.locks:,} locks held by one process", "at most 1.5 KiB each", runs.values("held", "zklock", "heap_bytes_each"), "{:,.0f} bytes of heap",
         lambda x: x <= 1536),
        ("", "no thread more", runs.values("held", "zklock", "threads_added"), "{:+.0f}", lambda x: x == 0),
        ("", "one heartbeat per session", runs.ratios("held", "zklock", "zklock", "requests", to="held1"), "{:.2f} x the requests of one lock held",
         lambda x: x < 1.2),
        (f"{size.locks // 2:,} acquires pending on one thread", "no thread more", runs.values("pending", "zklock", "threads_added"), "{:+.0f}",
         lambda x: x == 0),
        ("`zklock run` on a free lock, the whole process", "at most 0.33 x `etcdctl lock`", runs.ratios("command", "zklock", "etcd", "whole_ms"), "{:.2f} x",
         lambda x: round(x, 2) <= 0.33),
        ("", "at most 1.15 x a raw client that opens, creates, lists, forks and closes", runs.ratios("command", "zklock", "raw", "whole_ms"), "{:.2f} x",
         lambda x: round(x, 2) <= 1.15),
        ("", "at most 2.5 x `flock` on a local file", runs.ratios("command", "zklock", "flock", "whole_ms"), "{:.2f} x", lambda x: x <= 2.5),
        (f"`zklock ls` of {size.listed:,} in a queue", "under 100 ms, 9 of 10 times", [quantile(runs.values("ls", "zklock", "whole_ms"), 0.9)],
         "{:.0f} ms", lambda x: x < 100),
        ("a long wait, each waiter", "no write", [waiting(bench, "writes")], "{:.1f} a minute", lambda x: x < 0.5),
        ("", "at most 1.5 x the packets of the client's own pings",
         [waiting(bench, "requests") / (requests / 8 / (size.wait_ms / 60000)) for requests in runs.values("idle", "raw", "requests") if requests], "{:.2f} x",
         lambda x: x <= 1.5)]


def goal_table(bench):
    """Goals are (work, goal, figures of the rounds, how they are written, whether their median reaches it)."""
    rows = []
    for work, goal, values, form, reached in lock_goals(bench) + other_goals(bench):
        known = [value for value in values if not math.isnan(value)]
        rows.append([work, goal, spread(known, form), "-" if not known else "yes" if reached(statistics.median(known)) else "**no**"])
    return [["work", "goal", "measured", "reached"], *rows]
