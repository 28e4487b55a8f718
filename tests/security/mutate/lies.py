"""lies.py - a liar: what a hostile server may make of a reply. It knows jute, ZooKeeper's encoding, and which fields the reply to each request
has, so that most lies are well-formed.

Nothing above libzookeeper_mt can repair these, known of 3.8.0. ZooKeeper's servers send none of them. A liar that tells one has an `excuse`:

 - a well-formed reply that nobody waits for ends the process by an assertion (zookeeper_process);
 - so does a reply to a transaction with more parts than the transaction, or without an end (deserialize_multi);
 - a reply to credentials makes a client that sent none read at address 8 (auth_completion_func);
 - of a complete frame that is too short for its header, its event, or the data, name or list of its reply, the library reads beyond the end, or
   frees or passes on memory that it never filled;
 - a list whose count needs more memory than there is makes it write to address 0;
 - after a welcome that says read-only it looks for another server. When it finds one, it reports every request under way as successful and reads
   replies that never came (zookeeper_interest, cleanup with ZOK): a crash, or a lost write that is taken for done;
 - after a welcome with a session timeout of 0 or less it connects again and again without a pause, until the session is closed;
   zkl_session_open fails by its deadline."""
import collections
import struct

# What a frame of the server's answers; requests by their numbers on the wire.
CREATE, DELETE, EXISTS, GET, SET, CHILDREN, SYNC, CHILDREN2, MULTI, CREATE2, CONTAINER = 1, 2, 3, 4, 5, 8, 9, 12, 14, 15, 19
WELCOME, EVENT, OTHER = 1000, 1001, 1002  # the reply to the request for a session; a watch fired; a reply without a body

# Forms: I, L, B are numbers of four, eight and one byte, T a text with its length in front. Bodies: a name, data, a list of children.
STAT = "LLLLIIILIIL"
BODIES = {CREATE: "n", SYNC: "n", CREATE2: "n" + STAT, CONTAINER: "n" + STAT, GET: "d" + STAT, SET: STAT, EXISTS: STAT, CHILDREN: "c",
          CHILDREN2: "c" + STAT}
SIZES = {"I": 4, "L": 8, "B": 1}
CHANGES = ("number", "error", "name", "list", "data", "xid", "welcome", "event", "multi")  # of one field: another value
LIES = CHANGES + ("drop", "repeat", "reorder", "delay", "cut", "short")
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1

Field = collections.namedtuple("Field", "form lie start end")


def number(value, size=4):
    return (value % 2**(8 * size)).to_bytes(size, "big")


def with_length(text):
    return number(len(text)) + text


def text_at(data, at):
    length = struct.unpack_from(">i", data, at)[0] if len(data) >= at + 4 else -1
    return data[at + 4:at + 4 + length] if length > 0 else b""


class Fields:
    def __init__(self, frame, kind):
        self.frame, self.at, self.all, self.list = frame, 0, [], None
        try:
            self.find(kind)
        except struct.error:
            pass  # shorter than it says

    def add(self, form, lie):
        length = max(0, struct.unpack_from(">i", self.frame, self.at)[0]) + 4 if form == "T" else SIZES[form]
        end = self.at + length
        if end > len(self.frame):
            raise struct.error
        self.all.append(Field(form, lie, self.at, end))
        self.at = end
        return self.value(self.all[-1]) if form != "T" else None

    def value(self, field):
        return int.from_bytes(self.frame[field.start:field.end], "big", signed=True)

    def find(self, kind):
        if kind == WELCOME:
            for form in "IILTB":  # version, timeout, session, its password, read only
                self.add(form, "welcome")
            return
        self.add("I", "xid")
        self.add("L", "number")
        error = self.add("I", "error")
        if kind == EVENT:
            for form in "IIT":  # what happened, state of the session, path
                self.add(form, "event")
        elif kind == MULTI:
            self.find_parts()
        elif error == 0:
            self.find_body(kind)

    def find_body(self, kind):
        for form in BODIES.get(kind, ""):
            if form == "c":
                start = self.at
                for _ in range(self.add("I", "list")):
                    self.add("T", "name")
                self.list = (start, self.at)
            else:
                self.add("T" if form in "nd" else form, {"n": "name", "d": "data"}.get(form, "number"))

    def find_parts(self):
        done = False
        while not done:
            kind, done = self.add("I", "multi"), self.add("B", "multi")
            self.add("I", "error")
            if kind == -1 and not done:
                self.add("I", "error")
            elif not done:
                self.find_body(kind)


# --- values ---------------------------------------------------------------------------------------------------------------


def other_number(dice, value, size):
    edges = (0, 1, -1, INT_MAX, ~INT_MAX, LONG_MAX, ~LONG_MAX, value + 1, value - 1, -value)
    roll = dice.randrange(4)
    return dice.getrandbits(64) >> dice.randrange(63) if roll == 0 else value << dice.randrange(8 * size) if roll == 1 else dice.choice(edges)


def other_error(dice, error):
    """Codes of the server, of the client library's own, and no codes at all. Never 0 in its four bytes: that would want a body."""
    other = error
    while other % 2**32 in (error % 2**32, 0):
        roll = dice.randrange(8)
        other = -dice.randint(100, 128) if roll < 4 else -dice.randint(1, 13) if roll < 7 else other_number(dice, error, 4)
    return other


FOREIGN = [b"", b"/", b"locks", b"leases", b"ready", b"lock-0000000000", b"x-lock--000000005", b"__lock__0000000000", b"\x1b[2J\xe2\x80\xae\xff\xfe"]
FOREIGN += [b"_c_00000000-0000-4000-8000-000000000000" + tag + b"0000000000" for tag in (b"-lock-", b"__READ__", b"-latch-", b"-lease-")]


def other_name(dice, name):
    roll = dice.randrange(6)
    if roll == 0:
        return dice.choice(FOREIGN)
    if roll == 1:
        return b"A" * dice.choice((1, 70, 300, 5000, 70000)) + name
    if roll == 2:
        return name[:dice.randrange(len(name))] if name else b""
    if roll == 3:  # another number
        return name[:-10] + bytes(ord("0") + dice.choice((0, dice.randrange(10))) for _ in name[-10:])
    if roll == 4 and name:  # a byte of it
        at = dice.randrange(len(name))
        return name[:at] + dice.randbytes(1) + name[at + 1:]
    return name + b"/"


def other_data(dice, data):
    roll = dice.randrange(4)
    if roll == 0:
        return (b"\xff\xfe\0\x1b[2J0123456789" + data[:1000]) * 100
    if roll == 1:
        return data[:dice.randrange(len(data))] if data else b""
    return dice.choice((b"", b"0", b"-1", b"999999999999999999", b"__REVOKE__", b"3", b"2", b"text"))


def other_list(dice, names):
    """Children left out, repeated under other numbers, made up, in another order."""
    roll, one = dice.randrange(6), dice.randrange(len(names)) if names else 0
    some = names[one] if names else b""
    if roll == 0:
        names = []
    elif roll == 1:
        names = names[:one] + names[one + 1:]
    elif roll == 2:
        names = names[one:one + 1]
    elif roll in (3, 4):
        names = names + [other_name(dice, some) for _ in range(dice.randint(1, 3 if roll == 3 else 400))]
    elif names:
        names[0], names[one] = names[one], names[0]
    return number(len(names)) + b"".join(map(with_length, names))


# --- the liar -------------------------------------------------------------------------------------------------------------


class Liar:
    """one_in: so many frames. brutal: also tells what the client library does not survive. excuse: told one of these. decisive: told one about
    who is in the queue, or about the session: two may hold."""

    def __init__(self, dice, quiet, log):
        self.quiet, self.log = quiet, log
        self.one_in = dice.choice((2, 3, 5, 8, 15, 40))
        self.brutal = dice.randrange(16) == 0
        # Few kinds at a time, so that one does not hide what another would find.
        self.kinds = LIES if dice.randrange(6) == 0 else [dice.choice(LIES) for _ in range(dice.randint(1, 4))]
        self.excuse, self.decisive, self.told = None, False, collections.Counter()

    def tells(self, dice):
        return not self.quiet and dice.randrange(self.one_in) == 0

    def garble(self, text, dice):
        """The reply to a four-letter command: now and then with other bytes, or cut."""
        if text and self.tells(dice):
            self.told["data"] += 1
            text = bytearray(text)
            for _ in range(8):
                text[dice.randrange(len(text))] = dice.randrange(256)
            text = bytes(text[:dice.randrange(len(text) + 1)] if dice.randrange(3) == 0 else text)
        return text

    def say(self, dice, frame, kind, others_wait, path):
        """What becomes of a frame: "pass" or a lie of LIES; and the bytes to send, with their length in front."""
        if not self.tells(dice):
            return "pass", with_length(frame)
        lie = dice.choice(self.kinds)
        harmless = others_wait or kind == EVENT  # for the client waits for another reply
        said, fate = with_length(frame), "pass"
        if lie in ("drop", "delay", "cut") or (lie == "reorder" and harmless):
            fate = lie
        elif lie == "repeat" and (harmless or self.brutal):
            fate = lie
            self.excuse = self.excuse if harmless else "a reply that nobody waits for"
        elif lie == "short" and self.brutal and kind != WELCOME and frame:
            self.excuse = "a frame shorter than its kind"
            said = with_length(frame[:dice.randrange(len(frame))])
        elif lie == "event" and kind not in (EVENT, WELCOME) and path:
            said = with_length(self.invent_event(dice, path)) + said
        elif lie in CHANGES and (lie != "multi" or self.brutal):
            said = self.change(dice, frame, kind, others_wait, lie) or said
        if fate != "pass" or said != with_length(frame):
            self.told[lie] += 1
            print(f"lie: reply to {kind}: {lie}: {said[:64].hex(' ')}", file=self.log, flush=True)
        return fate, said

    def invent_event(self, dice, path):
        kind = -1 if dice.randrange(5) == 0 else dice.choice((1, 2, 3, 3, 4, 4, 2, 0, 99))  # -1: of the session
        state = dice.choice((3, 3, 3, 0, 1, 5, -112, -113, 999))
        path = other_name(dice, path) if dice.randrange(4) == 0 else path
        self.decisive = True
        return number(-1) + number(-1, 8) + number(0) + number(kind) + number(state) + with_length(path)

    def change(self, dice, frame, kind, others_wait, lie):
        """The frame with one field changed, or its list. None: it has none of that kind."""
        fields = Fields(frame, kind)
        of_kind = [field for field in fields.all if field.lie == lie]
        if lie == "list" and fields.list and dice.randrange(3) > 0:
            start, end = fields.list
            names = [frame[field.start + 4:field.end] for field in fields.all if field.form == "T" and start <= field.start < end]
            other = other_list(dice, names)
        elif of_kind:
            field = dice.choice(of_kind)
            start, end = field.start, field.end
            other = self.other_value(dice, fields, field, others_wait)
        else:
            return None
        # What decides who holds: what is in the queue, and whether the session lives.
        self.decisive = self.decisive or (lie != "xid" and kind not in (OTHER, SYNC, DELETE))
        if lie == "multi":
            self.excuse = "a transaction's reply with other parts than it had"
        return with_length(frame[:start] + other + frame[end:])

    def other_value(self, dice, fields, field, others_wait):
        value, size = fields.value(field), field.end - field.start
        if field.form == "T":
            return self.other_text(dice, fields, field)
        if field.form == "B":
            self.excuse = "a welcome that says read-only" if field.lie == "welcome" else self.excuse
            return number(0 if value else dice.randint(1, 255), 1)
        if field.lie == "list":
            return number(self.other_count(dice, value))
        if field.lie == "error":
            return number(other_error(dice, value))
        return number(self.other_xid(dice, value, others_wait) if field.lie == "xid" else other_number(dice, value, size), size)

    def other_count(self, dice, count):
        """One that is not that of what follows."""
        if self.brutal and dice.randrange(4) == 0:
            self.excuse = "a count for which there is no memory"
            return INT_MAX
        return dice.choice((count - 1, count + 1, count + 3, count + 1000, 1000000, -1, ~INT_MAX, 0))

    def other_xid(self, dice, xid, others_wait):
        """-1 says that the frame is a watch event: the client library frees the path that such a frame should have. -4 says that it is the reply
        to credentials: the library reads those, sent or not."""
        other = -1
        if self.brutal and dice.randrange(3) == 0:
            self.excuse = "a reply that nobody waits for, an event without a path, or one to credentials"
            return dice.choice((-1, -4, 12345))
        while other in (-1, -4):
            other = other_number(dice, xid, 4) if others_wait or xid >= 0 else dice.choice((-2, -8))
            other = (other + 2**31) % 2**32 - 2**31
        return other

    def other_text(self, dice, fields, field):
        text = fields.frame[field.start + 4:field.end]
        in_list = fields.list and fields.list[0] <= field.start < fields.list[1]
        if field.lie == "welcome":  # of a fixed length for the client library
            return number(len(text)) + dice.randbytes(len(text))
        if field.lie == "data":
            return number(-1) if dice.randrange(6) == 0 else with_length(other_data(dice, text))
        if dice.randrange(8) == 0 and (in_list or self.brutal):
            self.excuse = self.excuse if in_list else "a name without a length"
            return number(dice.choice((-1, len(text) + 1000000))) + text
        return with_length(other_name(dice, text))
