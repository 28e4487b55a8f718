#!/usr/bin/env python3
"""judge.py [--slack MS] [--grants N] [--losses N] HISTORY...: what histories (history.h) prove against the library.

One rule for all recipes: a grant takes so much of what a path has, and at no time may more be taken than there is (history.h, acquire).
Two grants that cannot be together are in the order of their tokens.

One line that sums up, on stdout; each violation on stderr. --grants, --losses: fewer than that are a failure, too: then
nothing was tried. Exit: 0 clean, 1 violations, 2 no history."""
import argparse
import bisect
import collections
import sys
from types import SimpleNamespace

KINDS = {
    "double-hold": "grants of one path that have no room beside each other overlap: [grant, min(release, lost, lease end)]",
    "token-order": "a grant's token is not above those of all it had to wait for",
    "stale-accepted": "the resource took a write with a token below one it had taken",
    "unsupported": "a wait ended with ZKL_EUNSUPPORTED: a server refused what no fault explains",
    "late-end": "a wait, or a close, went on after its deadline",
    "never-ended": "an acquire without a completion, also by the end of its session's close",
    "ended-twice": "a completion without an acquire, or of what was freed",
    "told-late": "a holder was told LOST long after it could see that it was lost",
    "not-told": "a holder lost, released, and was not told LOST in between",
    "released-lost": "a release said that the lease had covered a hold that was seen to be lost",
    "orphan": "a znode stands in a queue after everything, or its session's close, is over",
    "stale-committed": "a guarded transaction was carried out after one of a later grant",
    "commit-belied": "what was answered to one is not what the ledger says",
    "crash-untold": "the first grant after a holder was killed says nothing of it",
    "unheard": "a holder that was asked to give way did not hear it, and held for long",
    "unowned": "a piece has no owner though nothing was broken for long",
    "wrong-list": "then, somebody was told last of others than those who are members",
    "nobody-looked": "a path was used, and nobody looked for orphans at its end",
    "garbled": "what cannot have happened: the recorder is wrong, judge nothing",
}
OPS = set("""acquire cancel done held lost told downgrade release released starved late free freed close closed remains unclean recovers
    asked heard removed commit committed joined left listed owner_by list_by stopped continued killed breach write queue fault""".split())
WORDS_MAX = 10  # of one kind that are told in full
EVERYBODY = ""  # owner of the spans in which the lease is not judged
MS = 1000000
REST_BROKEN = 1000 * MS  # a process that stands still for so long may lose what it has


class NoHistory(Exception):
    pass


# --- reading ----------------------------------------------------------------------------------------------------------------


def parse(line):
    at, client, session, op, path, result, token, lease = line.split(" ")
    int(session, 16)
    event = SimpleNamespace(at=int(at), client=client, process=client.split(".")[0], op=op, path=path, result=result,
                            token=int(token), lease=int(lease), good=result in ("ZKL_OK", "accepted"), takes=1, of=1)
    if op in ("acquire", "downgrade") and result != "-":
        event.takes, event.of = map(int, result.split("/"))
    if op not in OPS or client == "-" or not 1 <= event.takes <= event.of:
        raise ValueError
    return event


def read(name, text):
    """The events of one file. A last line without its end is not read: whoever is killed is killed within a line."""
    events = []
    for number, line in enumerate(text.split("\n")[:-1], 1):
        if line and not line.startswith("#"):
            try:
                events.append(parse(line))
            except ValueError:
                raise NoHistory(f"{name}:{number}: no event: {line}") from None
    return events


# --- spans of time: when a process was kept from running, when an assumption did not hold -------------------------------------


class Spans:
    def __init__(self, events):
        stopped, found = {}, collections.defaultdict(list)
        for e in events:
            if e.op == "late":
                found[e.process].append((e.at - e.lease, e.at))
            elif e.op == "breach":
                found[EVERYBODY].append((e.at, e.lease))
            elif e.op == "stopped":
                stopped.setdefault(e.process, e.at)
            elif e.op in ("continued", "killed") and e.process in stopped:
                found[e.process].append((stopped.pop(e.process), e.at))
        self.of = {owner: self.settle(sorted(spans)) for owner, spans in found.items()}

    @staticmethod
    def settle(spans):
        """One of those that touch."""
        settled = []
        for start, end in spans:
            if settled and start <= settled[-1][1]:
                start, last = settled.pop()
                end = max(end, last)
            settled.append((start, end))
        return settled

    def cover(self, owner, start, end):
        """How much of [start, end) the owner's spans cover."""
        spans = self.of.get(owner, [])
        near = spans[max(bisect.bisect(spans, (start,)) - 1, 0):bisect.bisect(spans, (end,))]
        return sum(max(min(end, last) - max(start, first), 0) for first, last in near)


# --- the judge --------------------------------------------------------------------------------------------------------------


def new_client():
    """pending: it waits, for path. unclean: the pending grant says so. lost: the grant that it released last was. leaving: it is freed or
    closed, so what it is granted now is not held. starved: ns of the pending wait, or since the loss."""
    return SimpleNamespace(process=None, pending=False, lost=False, unclean=False, path=None, takes=0, deadline=0, starved=0, hold=None,
                           leaving=False, left_by=0)


def new_path():
    """of: how much there is; 0: nobody asked yet. crashed: the holder before was killed, and nobody has released since. clearing: the token of
    who was told, and called release. rest: since when nothing is broken; 0: nobody said so, or it was looked at. rest_op: what then has to
    be so."""
    return SimpleNamespace(used=False, looked=False, of=0, recovers=False, crashed=False, clearing=0, last_grant=0, left=0,
                           accepted=0, rest=0, rest_op=None)


def new_member():
    return SimpleNamespace(joined=False, path=None, list="-")


class Judge:
    def __init__(self, events, slack_ns, words=sys.stderr):
        self.events, self.slack, self.words = events, slack_ns, words
        self.found, self.count = collections.Counter(), collections.Counter()
        self.worst_end = self.worst_told = self.rest_by = 0
        self.clients = collections.defaultdict(new_client)
        self.paths = collections.defaultdict(new_path)
        self.members = collections.defaultdict(new_member)
        self.holds = []
        self.spans = Spans(events)
        for event in events:
            self.check_rest(event.at)
            self.see(event)
        self.see_the_end()
        self.end_removed()
        self.judge_overlaps()
        self.judge_tokens()
        self.judge_commits()
        self.judge_requests()

    def accuse(self, kind, text):
        self.found[kind] += 1
        if self.found[kind] <= WORDS_MAX and self.words:
            print(f"{kind}: {text}", file=self.words)

    def lateness(self, client, due, at):
        """Without what the library is not blamed for: the process was stopped, or late as a whole, or the very thread that was to do it got
        no processor: that is taken to have been at the end, and counts once where both were so."""
        ready = at - client.starved
        return 0 if ready <= due else ready - due - self.spans.cover(client.process, due, ready)

    def check_end(self, client, what, due, e):
        """Of a wait, or a close, that had to be over."""
        over = self.lateness(client, due, e.at) if due else 0
        self.worst_end = max(self.worst_end, over)
        if over > self.slack:
            self.accuse("late-end", f"{e.client} {what} until {e.at}, {over // MS} ms too long")

    def see(self, e):
        client = self.clients[e.client]
        client.process = e.process
        method = getattr(self, "see_" + e.op, None)
        if method:
            method(client, e)

    # --- waits and grants

    def see_acquire(self, client, e):
        if client.pending:
            self.accuse("never-ended", f"{e.client} asked again at {e.at}, its acquire before that had no end")
        if client.hold:
            self.accuse("garbled", f"{e.client} asks at {e.at} while it holds")
            return
        client.pending, client.unclean, client.starved = True, False, 0
        client.path, client.takes, client.deadline = e.path, e.takes, e.lease
        path = self.paths[e.path]
        if path.of not in (0, e.of):
            self.accuse("garbled", f"{e.client} asks at {e.at} for {e.takes} of {e.of}, others for parts of {path.of}")
        path.of, path.used = e.of, True
        self.count["waits"] += 1

    def see_cancel(self, client, e):
        if client.pending and (client.deadline == 0 or e.at < client.deadline):
            client.deadline = e.at

    def see_starved(self, client, e):
        client.starved += e.lease

    def see_done(self, client, e):
        if not client.pending:
            self.accuse("ended-twice", f"{e.client} at {e.at}: a completion, and nothing was pending")
            return
        client.pending = False
        if e.result == "ZKL_EUNSUPPORTED":
            self.accuse("unsupported", f"{e.client} waited for {client.path} until {e.at}: the contender's stderr has the reason")
        self.check_end(client, f"waited for {client.path}", client.deadline, e)
        if e.good and not client.leaving:
            self.grant(client, self.paths[client.path], e)

    def grant(self, client, path, e):
        client.hold = SimpleNamespace(path=client.path, client=e.client, takes=client.takes, token=e.token, start=e.at, seen=e.at, end=e.lease,
                                      lost=False, told=False, lost_at=0, downgraded=False)
        self.holds.append(client.hold)
        self.count["grants"] += 1
        self.count["shared"] += client.takes < path.of
        self.count["unclean"] += client.unclean
        path.last_grant = max(path.last_grant, e.token)
        if path.crashed and not client.unclean:
            self.accuse("crash-untold", f"{e.client} was granted {client.path} at {e.at}, the first one after a crash")

    def see_held(self, client, e):
        hold = self.hold_of(client, e)
        if hold and not hold.lost:
            hold.end, hold.seen = max(hold.end, e.lease), e.at

    def see_lost(self, client, e):
        hold = self.hold_of(client, e)
        if hold and not hold.lost:
            hold.lost, hold.lost_at, client.starved = True, e.at, 0
            hold.end = min(hold.end, e.at)
            self.count["losses"] += 1

    def see_told(self, client, e):
        """Lost: by the lease's end, since the holder looks at that only. It may come when all is over."""
        hold = client.hold
        over = self.lateness(client, hold.lost_at, e.at) if hold and hold.lost and not hold.told else 0
        if hold:
            hold.told = True
        self.worst_told = max(self.worst_told, over)
        if over > self.slack:
            self.accuse("told-late", f"{e.client} saw that it had lost {hold.path} at {hold.lost_at}, and was told {over // MS} ms later")

    def hold_of(self, client, e):
        if not client.hold:
            self.accuse("garbled", f"{e.client} at {e.at} speaks of a grant that it has not")
        return client.hold

    def see_downgrade(self, client, e):
        """It may take effect at any time from the call on: others may come in immediately."""
        whole = self.hold_of(client, e)
        if not whole:
            return
        client.hold = SimpleNamespace(**{**vars(whole), "takes": e.takes, "start": e.at, "downgraded": True})
        self.holds.append(client.hold)
        whole.end = min(whole.end, e.at)

    def see_release(self, client, e):
        hold = self.hold_of(client, e)
        if not hold:
            return
        if hold.lost and not hold.told:
            self.accuse("not-told", f"{e.client} lost {hold.path}, token {hold.token}, and was never told")
        path = self.paths[hold.path]
        # From the call on the next one may be granted, who need not be told of a crash: until it has returned that it was none.
        if path.crashed and path.last_grant == hold.token and not hold.lost:
            path.crashed, path.clearing = False, hold.token
        hold.end = min(hold.end, e.at)
        client.hold, client.lost = None, hold.lost

    def see_released(self, client, e):
        if e.good and client.lost:
            self.accuse("released-lost", f"{e.client} had lost {e.path}, and its release at {e.at} says it had not")
        path = self.paths[e.path]
        if e.good:
            path.crashed = False
        elif path.clearing == path.last_grant == e.token:
            path.crashed = True

    # --- what is freed or closed with all it has and waits for

    def see_free(self, client, e):
        """From the call on it holds nothing; what it waits for may still be granted, for nobody."""
        if client.hold:
            client.hold.end = min(client.hold.end, e.at)
            self.paths[client.hold.path].crashed = False  # it may have been released well
        client.hold, client.leaving, client.left_by = None, True, e.lease
        client.starved = client.starved if client.pending else 0  # the wait, which has to end as well, began before

    see_close = see_free

    def see_freed(self, client, _):
        client.pending = client.leaving = False

    def see_closed(self, client, e):
        self.count["closes"] += 1
        if client.pending:
            self.accuse("never-ended", f"{e.client} waits for {client.path}, and its session was closed at {e.at}")
        self.check_end(client, "closed its session", client.left_by, e)
        client.pending = client.leaving = False

    def see_remains(self, _, e):
        if e.token > 0:
            self.accuse("orphan", f"{e.token} of {e.client} at {e.path}, and the servers had confirmed its session's end")

    # --- crashes: a holder that had been stopped for long and lost is killed when others have held since: they were told

    def crash(self, path, token):
        path.crashed = path.crashed or (path.recovers and path.last_grant == token)

    def see_killed(self, _, e):
        self.count["killed"] += 1
        for client in self.clients.values():
            if client.process == e.process:
                if client.hold:
                    self.crash(self.paths[client.hold.path], client.hold.token)
                    client.hold.end = min(client.hold.end, e.at)
                client.hold, client.pending, client.leaving = None, False, False
        self.members[e.process] = new_member()

    def see_removed(self, _, e):
        if e.good:
            self.crash(self.paths[e.path], e.token)

    def see_recovers(self, _, e):
        self.paths[e.path].recovers = True

    def see_unclean(self, client, _):
        client.unclean = True

    # --- who is in a group, who was told of whom, what has to be so when nothing is broken any more

    def see_joined(self, _, e):
        self.members[e.process].joined = e.op == "joined"
        self.paths[e.path].used = True

    see_left = see_joined

    def see_listed(self, _, e):
        self.members[e.process].path, self.members[e.process].list = e.path, e.result
        self.count["listed"] += 1

    def see_owner_by(self, _, e):
        self.paths[e.path].rest, self.paths[e.path].rest_op = e.at, e.op
        self.rest_by = e.lease

    see_list_by = see_owner_by

    def check_rest(self, now):
        due = self.rest_by
        if due and now > due:
            self.rest_by = 0
            for name, path in self.paths.items():
                if path.rest:
                    if not any(self.spans.cover(owner, path.rest, due) > REST_BROKEN for owner in self.spans.of if owner != EVERYBODY):
                        (self.check_lists if path.rest_op == "list_by" else self.check_owner)(name, path)
                    path.rest = 0

    def check_owner(self, name, path):
        """Seen to hold since nothing is broken."""
        holds = [client.hold for client in self.clients.values() if client.hold]
        if not any(hold.path == name and hold.end >= path.rest for hold in holds):
            self.accuse("unowned", f"{name}, long after the last fault at {path.rest}")

    def check_lists(self, name, _):
        """Who joins watches, too: a member that was told of nobody has no list."""
        right = "+".join(sorted(process for process, member in self.members.items() if member.joined))
        for process, member in self.members.items():
            told = member.list if member.path == name else "-"
            if (member.joined or member.path == name) and told != right:
                self.accuse("wrong-list", f"{process} was told of {told} at {name}, where {right} are")

    # --- the resource, transactions, the end

    def see_write(self, _, e):
        path = self.paths[e.path]
        self.count["writes"] += 1
        self.count["refused"] += not e.good
        if e.good and e.token < path.accepted:
            self.accuse("stale-accepted", f"{e.path} took a write with token {e.token} at {e.at}, after {path.accepted}")
        path.accepted = max(path.accepted, e.token) if e.good else path.accepted

    def see_commit(self, _, e):
        if e.good and e.token < self.paths[e.path].last_grant:
            self.accuse("stale-committed", f"{e.path}: {e.client} began one under {e.token} at {e.at}, which was done; "
                        f"{self.paths[e.path].last_grant} had been granted")

    def see_queue(self, _, e):
        self.paths[e.path].looked, self.paths[e.path].left = True, e.token

    def see_the_end(self):
        for name, client in self.clients.items():
            if client.pending:
                self.accuse("never-ended", f"{name} still waits for {client.path}")
        for name, path in self.paths.items():
            if path.looked and path.left > 0:
                self.accuse("orphan", f"{path.left} at {name}")
            elif path.used and not path.looked:
                self.accuse("nobody-looked", f"at {name}")
            if path.rest:
                self.accuse("nobody-looked", f"at {name} when it should have come to rest")

    # --- which grants overlap, which tokens are out of order

    def end_removed(self):
        removed = {(e.path, e.token): e.at for e in reversed(self.events) if e.op == "removed"}
        for hold in self.holds:
            hold.end = min(hold.end, removed.get((hold.path, hold.token), hold.end))

    def judge_overlaps(self):
        """A grant that was over before its holder could look (it was stopped in between) is known too late to have a place in this order."""
        name = None
        for hold in sorted(self.holds, key=lambda hold: (hold.path, hold.start, hold.token)):
            if hold.end > hold.start:
                if hold.path != name:
                    name, active, highest = hold.path, [], {}  # highest: by its token, of all that take as much as it does
                active = [other for other in active if other.end > hold.start]
                if active and sum(other.takes for other in active) + hold.takes > self.paths[name].of:
                    self.accuse_double(max(active, key=lambda other: other.end), hold)
                active.append(hold)
                self.check_token(hold, highest)

    def accuse_double(self, first, second):
        if self.spans.cover(EVERYBODY, second.start, second.start + 1) > 0:
            self.count["excused"] += 1
            return
        self.accuse("double-hold", f"{second.path}: {second.client}, token {second.token}, was granted at {second.start}, while {first.client}, "
                    f"token {first.token}, held until {first.end}, {(first.end - second.start) // 1000} us longer")

    def check_token(self, hold, highest):
        """Those before it that had to go first have lower tokens. Others may have asked later and be known earlier."""
        for other in highest.values():
            its_own = hold.downgraded and (hold.client, hold.token) == (other.client, other.token)
            if other.takes + hold.takes > self.paths[hold.path].of and hold.token <= other.token and not its_own:
                self.accuse("token-order", f"{hold.path}: {hold.client} was granted {hold.token} after {other.client} was granted {other.token}")
        if hold.takes not in highest or hold.token > highest[hold.takes].token:
            highest[hold.takes] = hold

    def judge_tokens(self):
        holds = sorted(self.holds, key=lambda hold: (hold.path, hold.token))
        for a, b in zip(holds, holds[1:]):
            rest = a.client == b.client and (a.downgraded or b.downgraded)
            if (a.path, a.token) == (b.path, b.token) and not rest:
                self.accuse("token-order", f"{a.path}: {a.client} and {b.client} were both granted {a.token}")

    def judge_commits(self):
        """Grants of one path have rising tokens: so have their transactions. Done is done, not done is not; no answer is either."""
        highest, ledger = collections.Counter(), set()
        for e in sorted((e for e in self.events if e.op == "committed"), key=lambda e: e.result):
            if e.token < highest[e.path]:
                self.accuse("stale-committed", f"{e.path}: one of grant {e.token} after one of grant {highest[e.path]}")
            highest[e.path] = max(highest[e.path], e.token)
            ledger.add((e.path, e.token, e.lease))
            self.count["commits"] += 1
        for e in self.events:
            there = (e.path, e.token, e.lease) in ledger
            if e.op == "commit" and (e.result in ("ZKL_ELOST", "ZKL_ENOTHELD") if there else e.good):
                self.accuse("commit-belied", f"{e.path}: {e.client} was told {e.result} at {e.at} of {e.lease} of grant {e.token}, "
                            f"which was {'' if there else 'not '}carried out")

    def judge_requests(self):
        heard, seen = {}, {}
        for e in self.events:
            if e.op == "heard":
                heard[e.path, e.token] = e.at
                self.count["heard"] += 1
        for hold in self.holds:
            start, until = seen.get((hold.path, hold.token), (hold.start, 0))
            seen[hold.path, hold.token] = min(start, hold.start), max(until, hold.seen)
        for e in self.events:
            start, until = seen.get((e.path, e.token), (0, -1))
            if e.op == "asked" and e.good and until - max(start - e.at, 0) >= e.lease and heard.get((e.path, e.token), -1) < e.at:
                self.accuse("unheard", f"{e.path}: the holder under {e.token} was asked at {e.at} to give way, and held until {until}")

    def summary(self):
        n = self.count
        text = (f"{len(self.events)} events, {n['waits']} waits, {n['grants']} grants ({n['shared']} beside others), {n['losses']} lost, {n['killed']} killed, {n['closes']} closed in the middle; "
                f"{n['unclean']} told of a crash, {n['heard']} requests heard; {n['commits']} guarded transactions; {n['listed']} lists of "
                f"members; {n['writes']} writes, {n['refused']} stopped by their token; longest wait after a deadline {self.worst_end / MS:.1f} ms, "
                f"for word of a loss {self.worst_told / MS:.1f} ms; {sum(self.found.values())} violations")
        text += "".join(f", {self.found[kind]} {kind}" for kind in KINDS if self.found[kind])
        return text + (f" (and {n['excused']} overlaps while an assumption of the lease was broken on purpose)" if n["excused"] else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slack", type=int, default=300, metavar="MS")
    for least in ("grants", "losses"):
        parser.add_argument("--" + least, type=int, default=0, metavar="N")
    parser.add_argument("histories", nargs="+", metavar="HISTORY")
    options = parser.parse_args()
    events = []
    try:
        for name in options.histories:
            with open(name, encoding="utf-8") as file:
                events += read(name, file.read())
    except (OSError, NoHistory) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    judge = Judge(sorted(events, key=lambda event: event.at), options.slack * MS)
    print(judge.summary())
    clean = not judge.found
    for least in ("grants", "losses"):
        if judge.count[least] < getattr(options, least):
            print(f"only {judge.count[least]} {least} of at least {getattr(options, least)}", file=sys.stderr)
            clean = False
    sys.exit(not clean)


if __name__ == "__main__":
    main()
