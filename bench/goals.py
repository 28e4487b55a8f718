"""What was meant to be reached, and whether it was."""
import math

from figures import quantile

TMPFS_ZKLOCK = ("tmpfs", "zklock")


def over(a, b):
    return a / b if b else math.nan


def per_hand_over(runs, job, what, system="zklock"):
    return over(*(sum(runs.values(job, "tmpfs", system, name)) for name in (what, "hand_over_count")))


def waiting(bench, what):
    """Per waiter and minute: eight waiters and a holder, less the holder alone, whose heartbeats are one more or less."""
    many, one = (bench.runs.median(job, *TMPFS_ZKLOCK, what) for job in ("wait9", "wait1"))
    return max(many - one, 0) / 8 / (bench.size.wait_ms / 60000)


def idle(bench, system):
    """Packets of a session with nothing to do, per minute."""
    return bench.runs.median("idle", "tmpfs", system, "requests") / 8 / (bench.size.wait_ms / 60000)


def typical_hand_over(runs, job):
    return quantile(runs.pooled(job, *TMPFS_ZKLOCK), 0.5)


def goals(bench):
    """Rows of (work, goal, figure, how it is written, whether it is reached)."""
    runs, size = bench.runs, bench.size
    few, many = f"waiters{size.waiters[0]}", f"waiters{size.waiters[-1]}"
    event = runs.median("event", "tmpfs", "raw", "wait_us")
    read = runs.median("read", "tmpfs", "raw", "wait_us")
    ours = runs.median("relay", *TMPFS_ZKLOCK, "wait_us")
    def grants(job, system="zklock"):
        return over(runs.upper(job, "tmpfs", system, "grants_s"), runs.upper(job, "tmpfs", "curator", "grants_s"))

    def threads(job):
        return runs.median(job, *TMPFS_ZKLOCK, "threads") - runs.median(job, *TMPFS_ZKLOCK, "threads_before")

    def held(what):
        return runs.median("held", *TMPFS_ZKLOCK, what)
    return [
        ("acquire + release, free lock", "at most 1.10 x the raw round trips",
         runs.ratio("free", "tmpfs", "zklock", "raw", "cycle_us"), "{:.2f} x", lambda x: x <= 1.10),
        ("", "Curator at least 1.4 x ours", runs.ratio("free", "tmpfs", "curator", "zklock", "cycle_us"), "{:.2f} x",
         lambda x: x >= 1.4),
        ("8 sessions, one lock: grants a second", "listing: at least 1.6 x Curator's", grants("eight", "listing"), "{:.2f} x",
         lambda x: x >= 1.6),
        ("", "announced release: at least 2.5 x Curator's", grants("eight"), "{:.2f} x", lambda x: x >= 2.5),
        ("8 threads of one session, one lock: grants a second", "at least 5 x Curator's", grants("threads"), "{:.2f} x",
         lambda x: x >= 5),
        ("release call to the next holder running, another session", "listing: at most 1.1 x (raw delete-to-event + one read)",
         over(runs.median("relay", "tmpfs", "listing", "wait_us"), event + read), "{:.2f} x", lambda x: x <= 1.1),
        ("", "announced release: at most 1.25 x raw delete-to-event", over(ours, event), "{:.2f} x", lambda x: x <= 1.25),
        (f"{size.waiters[-1]:,} waiters on one lock", "listing: one client woken per grant", per_hand_over(runs, many, "events", "listing"),
         "{:.2f} events sent per hand-over", lambda x: abs(x - 1) < 0.03),
        ("", "announced release: that one, and the releaser's own event", per_hand_over(runs, many, "events"),
         "{:.2f} events sent per hand-over", lambda x: x < 2.03),
        ("", f"announced release: hand-over at most 2 x that with {size.waiters[0]} waiters",
         over(typical_hand_over(runs, many), typical_hand_over(runs, few)), "{:.2f} x", lambda x: x <= 2),
        (f"{size.held:,} locks held by one process", "at most 1.5 KiB each", held("heap_bytes_each"), "{:,.0f} bytes of heap",
         lambda x: x <= 1536),
        ("", "no thread more", threads("held"), "{:+.0f}", lambda x: x == 0),
        ("", "one heartbeat per session", over(held("requests"), runs.median("held1", *TMPFS_ZKLOCK, "requests")),
         "{:.2f} x the requests of one lock held", lambda x: x < 1.2),
        (f"{size.pending:,} acquires pending on one thread", "no thread more", threads("pending"), "{:+.0f}", lambda x: x == 0),
        ("`zklock run` on a free lock, the whole process", "at most the time of `etcdctl lock`",
         runs.ratio("command", *TMPFS_ZKLOCK, "etcd", "whole_ms"), "{:.2f} x", lambda x: x <= 1),
        (f"`zklock ls` of {size.listed:,} in a queue", "under 100 ms, 9 of 10 times",
         quantile(runs.values("ls", *TMPFS_ZKLOCK, "whole_ms"), 0.9), "{:.0f} ms", lambda x: x < 100),
        ("a long wait, each waiter", "no write", waiting(bench, "writes"), "{:.1f} a minute", lambda x: x < 0.5),
        ("", "at most 1.5 x the packets of the client's own pings", over(waiting(bench, "requests"), idle(bench, "raw")), "{:.2f} x",
         lambda x: x <= 1.5),
    ]
