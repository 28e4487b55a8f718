"""page.py MEASUREMENTS.JSON: all tables that bench.py wrote, as a page with what they mean."""
import json
import sys

from figures import markdown

TEXT = """# Measurements: all tables

{run}

[measurements.md](measurements.md) says what the figures mean. In each round every system does every job, in odd rounds in the
opposite order. *Grants a second* are counted for 10 s after a second for warming up, in every third round, and the *slowest second* is one of these.
There is one statistic: the median over the rounds, with the lower and the upper quartile in parentheses. Ratios are taken within a
round. *p99* is the 99th percentile of all hand-overs of all rounds.

The servers have tickTime 2000, sessions 10 s. *Data in memory* is `/dev/shm`: no fsync is in the figure, so the client's part is as large as possible. On
one machine clients and servers compete for its cores: compare ratios.{missing}

## In short
zklock's figure as a multiple of the other's: medians of the ratios within a round, on one server with its data in memory, unless a line says
otherwise. Others are compared with zklock in its usual form: libzklock, and nothing that lingers.

{readme}

## Goals
A goal is reached if the median reaches it.

{goals}
*The raw client* is libzookeeper_mt called directly with name resolution switched off: create and list sent together, a get with a watch on the predecessor and a list when
that is deleted, then delete. It is a floor, not a lock: the first fault ends it. Delete-to-event ends in the client library's callback. The read includes waking the
requesting thread.

## A free lock
One session acquires and releases a lock for which nobody else contends. *zklock, lingering* has the option `linger_ms`: its session keeps the lock
after a release, as long as nobody else queues. *zklock, libzklock_st* has no thread of its own. *etcd* is the queue of its own lock service (`/v3/lock`),
in JSON over one connection for each contender: Debian 12 packages no client library of etcd for C. Debian 12 has no Consul server, so Consul is not measured.

![Acquire and release of a free lock](img/free.svg)

{free}
## Eight sessions, one lock
Each acquires, releases and acquires again, without a pause: the worst case for throughput. *Hand-over* is from the release call of one to the
return of another's acquire that was waiting. *Luckiest : unluckiest* are grants of one contender in a round. kazoo's sessions are processes, the others' threads.
etcd's waiters watch from an earlier revision on, and its server serves such watches every 100 ms (`syncWatchersLoop`).

![Grants a second](img/grants.svg)

{eight}
*Processor per grant* is the processor time, user and system, of a driver in C with all its contenders. Other work on the machine disturbs it less than any elapsed time.

Polled locks look fast here for a bad reason: the last holder tries first, and is granted the lock again. Compare luckiest and unluckiest, and the hand-overs of [eight sessions that work](#eight-sessions-that-work).

## Eight processes, one lock
A session to a process, as most services have it. The two libraries of zklock, and the bare recipe on one thread: the same recipe on libzookeeper_st, where
the waiter reads the socket itself and sends immediately.

{processes}
## Eight threads of one session
With and without `linger_ms` the threads begin together on a free lock.

{threads}
## Two sessions of four threads
*Luckiest : unluckiest* are grants of a session here, from when both sessions have held the lock.

{two}
## Eight sessions that work
Each section lasts 50 ms, so somebody always waits. Requests are counted by the server, heartbeats and pings included.

{busy}
## The command
From the start of the process to its end, client library and connection included, in turn as everything else, 40 times after 10 that do not
count. Lock and LOCK are free; etcd, as ZooKeeper, has its data in memory.

{command}
## Many waiters
All queue before the first release; 100 hand-overs at that length, each to another session. A listing recipe reads the whole queue
at each grant, and the bytes of that list grow with it. A release wakes the next waiter only.

![Hand-over by length of the queue](img/waiters.svg)

{waiters}
## A long wait
60 s stand for an hour: what is sent is periodic, with the session timeout (10 s) and nothing else.

{wait}
"""

with open(sys.argv[1], encoding="utf-8") as file:
    figures = json.load(file)
print(TEXT.format(**{name: markdown(value) if isinstance(value, list) else value for name, value in figures.items()}), end="")
