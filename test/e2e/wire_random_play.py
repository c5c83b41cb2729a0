"""Plays a sequence of steps (wire_random_steps.py) to a server, and compares what two servers said.

The steps:

    (actor, "hello", options)      connects; resumes the session, or opens one if there is none
    (actor, "call", request)       sends a request and reads up to its answer
    (actor, "burst", requests)     sends several in one write
    (actor, "packet", xid, type, body)   sends a packet as it is, and reads up to the answer
    (actor, "bytes", data)         sends something after which the server closes the connection
    (actor, "expire")              loses the connection, and waits for the end of the session
    ("-", "probe", options)        a hello on a connection of its own, which is closed again
    ("-", "socket", data)          the same with something that is no hello
    ("-", "word", word)            a four-letter word

After each step every connection is looked at: a ping shows which events it got and whether it was
closed. Whatever a server does later by itself (it removes containers and nodes whose time is over) is
waited for, so that it belongs to the step that caused it.
"""

import itertools
import re
import time

import wire_client as wire
from wait import wait_until
from wire_client import Client, Closed, Reader, Stat
from wire_random_steps import ACTORS, CREDENTIALS, KEPT, ROOT, build

SILENCE_S = 30
LONG = 7  # that many notes are not shown
SHORT_TTL_MS = 1000
WORDS = {"ruok": "", "isro": "", "wchs": "Total", "srvr": "Mode|Node count", "stat": "Mode|Node count",
         "mntr": "zk_(znode|ephemerals|watch)_count|zk_server_state"}
CREATES = (wire.CREATE, wire.CREATE2, wire.CREATE_CONTAINER, wire.CREATE_TTL)
CHANGES = (*CREATES, wire.DELETE, wire.SET_DATA, wire.SET_ACL)
PASSWORDS = {"right": lambda p: p, "wrong": lambda p: bytes(b ^ 1 for b in p), "short": lambda p: p[:8],
             "long": lambda p: p + b"\0", "empty": lambda p: b"", "null": lambda p: None}


class Zxid(int):
    """Stands for a transaction: another number on each server."""

    def __repr__(self):
        return f"zxid {int(self):#x}"


class OwnZxid(Zxid):
    """Of a change, in the header of its answer."""


class Side:
    """A server, and what it says to a sequence: log has an entry for each step."""

    def __init__(self, port, number):
        self.port, self.root = port, f"/t{number:05}"
        self.links, self.sessions, self.owners, self.zxids = {}, {}, {0: None}, {}
        self.times, self.log = {}, []
        self.removable = {}  # by path: whether the server removes it "unused" or when "empty", or not at all
        self.observer = Client(port)
        self.start = self.observer.zxid
        for credential in CREDENTIALS:
            self.observer.must(wire.auth(credential))

    def play(self, steps):
        for step in steps:
            self.entry = []
            actor, verb, *arguments = self.to_root(step)
            if actor not in ACTORS or actor in self.links or verb == "hello":
                getattr(self, "do_" + verb)(actor, *arguments)
            else:
                self.note(actor, "is not connected")
            ends = verb in ("expire", "hello") or "close_session" in repr(step) or KEPT in repr(step)
            if ends:
                self.wait_for_removals()
            self.look()
            self.log.append(sort_events(self.entry) if ends else self.entry)
        self.entry = []
        self.walk(self.root)
        self.log.append(self.entry)

    def note(self, *what):
        self.entry.append(self.from_root(what))

    # The name of the root: all have the same length.

    def to_root(self, value, old=ROOT, new=None):
        new = new or self.root
        if isinstance(value, str):
            return value.replace(old, new)
        if isinstance(value, bytes):
            return value.replace(old.encode(), new.encode())
        if type(value) in (list, tuple):
            return type(value)(self.to_root(part, old, new) for part in value)
        return value

    def from_root(self, value):
        return self.to_root(value, self.root, ROOT)

    # Connections.

    def connect(self, options, session, password, seen):
        """A connection that has said hello; and the answer to it, None: it was closed."""
        link = Client(self.port, hello=False)
        link.socket.settimeout(SILENCE_S)
        read_only = options["read_only"]
        link.send(wire.frame(wire.i32(options["version"]) + wire.i64(seen) + wire.i32(options["timeout"]) +
                             wire.i64(session) + wire.text(password) +
                             (b"" if read_only is None else wire.flag(read_only))))
        try:
            r = Reader(link.packet())
        except (Closed, TimeoutError) as end:
            return link, type(end).__name__
        answer = [r.i32(), r.i32(), r.i64(), r.bytes(), r.data[r.at:]]
        return link, answer

    def do_hello(self, name, options):
        session, password = self.sessions.get(name, (0, bytes(16)))
        seen = self.zxids.get(name, 0)
        seen = {"now": seen, "future": seen + 10 ** 9}.get(options["seen"], options["seen"])
        old = self.links.pop(name, None)
        keep = old and session and options.get("keep")
        if old and not keep:
            self.drop(old)
        given = PASSWORDS[options.get("password", "right")](password)
        link, answer = self.connect(options, session, given, seen)
        if keep:
            self.note(name, "old", self.rest(old))
        if isinstance(answer, str):
            self.note(name, "hello", answer)
            link.close()
            return
        self.welcome(name, link, answer, session, given == password)

    def drop(self, link):
        """Closes a connection, and waits until the server knows. Else ZooKeeper, when it hears of it after
        the session has another connection, forgets which one that is, and does not close it later on."""
        name = "%s:%d[" % link.socket.getsockname()
        link.close()
        wait_until(lambda: name not in wire.four_letters(self.port, "cons"), "the end of a connection", SILENCE_S)

    def welcome(self, name, link, answer, session, right):
        version, timeout_ms, got, password, more = answer
        same = got == session and password == self.sessions.get(name, (0, None))[1]
        self.note(name, "hello", version, timeout_ms, bool(got), len(password), same, more)
        if not got:
            self.note(name, password, self.rest(link))
            if right:
                self.sessions.pop(name, None)
            return
        if not session:
            self.owners[got] = f"{name}{len(self.owners)}"
        self.sessions[name] = got, password
        self.links[name] = link

    def do_probe(self, name, options):
        password = PASSWORDS[options["password"]](bytes(range(16)))
        seen = 1 << 62 if options["seen"] == "future" else options["seen"]
        link, answer = self.connect(options, options["session"], password, seen)
        if isinstance(answer, str):
            self.note(name, "hello", answer)
        else:
            version, timeout_ms, got, password, more = answer
            self.note(name, "hello", version, timeout_ms, bool(got), len(password), more)
            if got:
                link.call(wire.close_session())
        link.close()

    def do_socket(self, name, data):
        """The beginning of the answer, or the end of the connection."""
        with Client(self.port, hello=False) as link:
            link.socket.settimeout(SILENCE_S)
            link.send(data)
            try:
                r = Reader(link.packet())
                self.note(name, r.i32(), r.i32(), bool(r.i64()), len(r.bytes()), r.data[r.at:])
                link.call(wire.close_session())
            except (Closed, TimeoutError) as end:
                self.note(name, type(end).__name__)

    def do_word(self, name, word):
        """Of the longer answers the lines that say the same of both servers."""
        answer = wire.four_letters(self.port, word)
        self.note(name, sorted(line for line in answer.splitlines() if re.match(WORDS[word], line)))

    def do_bytes(self, name, data):
        link = self.links.pop(name)
        link.send(data)
        self.note(name, self.rest(link))

    def do_expire(self, name):
        """An ephemeral node in a place where it can be made shows the end of the session."""
        options = {"version": 0, "seen": "now", "timeout": 1000, "read_only": False}
        self.do_hello(name, options)
        if name not in self.links:
            return
        marker = f"/expires-{self.root[1:]}-{name}"
        self.links[name].call(wire.create(marker, flags=wire.EPHEMERAL))
        self.links.pop(name).close()
        self.sessions.pop(name)
        wait_until(lambda: self.observer.call(wire.exists(marker)).error, "the end of a session", SILENCE_S)

    def rest(self, link):
        """What comes until the server closes."""
        found = []
        try:
            while True:
                found.append(link.packet())
        except (Closed, TimeoutError) as end:
            found.append(type(end).__name__)
        link.close()
        return found

    # Requests and answers.

    def do_call(self, name, request):
        packet = build(request, {"now": self.zxids.get(name, 0), "start": self.start})
        xid = wire.XIDS.get(packet.type) or next(self.links[name].xids)
        self.do_packet(name, xid, packet.type, packet.body)

    def do_packet(self, name, xid, kind, body):
        link = self.links[name]
        link.send(wire.frame(wire.i32(xid) + wire.i32(kind) + body))
        error = self.read_to_answer(name, link, kind, body)
        if kind == wire.CLOSE and error == wire.OK:
            self.sessions.pop(name, None)
        elif error not in (wire.UNIMPLEMENTED, wire.AUTH_FAILED):
            return
        self.note(name, self.rest(self.links.pop(name)))

    def do_burst(self, name, requests):
        packets, link = [build(request) for request in requests], self.links[name]
        link.send(b"".join(wire.frame(wire.i32(7) + wire.i32(p.type) + p.body) for p in packets))
        for packet in packets:
            if self.read_to_answer(name, link, packet.type, packet.body) is None:
                break

    def look(self):
        links = list(self.links.items())
        for _, link in links:
            link.send(wire.frame(wire.i32(-2) + wire.i32(wire.PING)))
        for name, link in links:
            self.read_to_answer(name, link, wire.PING)

    def read_to_answer(self, name, link, kind, request=b""):
        """Records the packets up to an answer to the request. Its error; None: the connection is closed."""
        try:
            while self.read_event(name, r := Reader(link.packet())):
                pass
        except (Closed, TimeoutError) as end:
            self.note(name, type(end).__name__)
            link.close()
            self.links.pop(name, None)
            return None
        r.at = 0
        xid, zxid, error = r.i32(), r.i64(), r.i32()
        if zxid > 0:
            if zxid < self.zxids.get(name, 0):
                self.note(name, "time goes back")
            self.zxids[name] = zxid
        body = self.body(kind, r, error)
        if not error and (kind in CREATES or kind == wire.MULTI):
            self.keep_removable(kind, Reader(request), body)
        if kind != wire.PING or xid != -2 or error or body:
            self.note(name, "answer", xid, self.header_zxid(kind, zxid, error), error, body)
        return error

    def read_event(self, name, r):
        if (r.i32(), r.i64()) != (-1, -1):
            return False
        self.note(name, "event", r.i32(), wire.EVENTS[r.i32()], r.i32(), r.text())
        return True

    def header_zxid(self, kind, zxid, error):
        """Of a change it is the change's own, else the last one: servers count their failures or not."""
        return OwnZxid(zxid) if kind in CHANGES and not error else (zxid > 0) - (zxid < 0)

    def body(self, kind, r, error):
        """As it is if it cannot be decoded, which is then the same for both or a difference."""
        start = r.at
        try:
            found = wire.BODIES[kind](r) if not error and kind in wire.BODIES else None
            if kind == wire.GET_ACL and found:
                found = sort_digests(found[0]), found[1]
            if r.at == len(r.data):
                return self.plain(found)
        except (AssertionError, KeyError, ValueError):
            pass
        return "undecoded", r.data[start:]

    def plain(self, body):
        """Sessions by their names, transactions as such; times are checked here."""
        if isinstance(body, Stat):
            for zxid, at in (body.czxid, body.ctime), (body.mzxid, body.mtime):
                if zxid > 0 and (self.times.setdefault(zxid, at) != at or abs(at / 1000 - time.time()) > 7200):
                    self.note("one transaction at two times", zxid, at)
            owner = self.owners.get(body.owner, body.owner)
            return ("stat", Zxid(body.czxid), Zxid(body.mzxid), *body[4:7], owner, *body[8:10],
                    Zxid(body.pzxid))
        if isinstance(body, (list, tuple)):
            return [self.plain(part) for part in body]
        return body

    # What is seen from outside.

    def wait_for_removals(self):
        kept = self.to_root(KEPT)
        wait_until(lambda: not self.is_due(kept), f"removals below {kept}", SILENCE_S)

    def keep_removable(self, kind, r, result):
        """Writes down what was created, since a stat does not show it."""
        if kind == wire.MULTI:
            for kind, part in result:
                operation, _, _ = r.i32(), r.flag(), r.i32()
                if kind != "error":
                    self.keep_removable_one(operation, r, part, True)
        else:
            self.keep_removable_one(kind, r, result, False)

    def keep_removable_one(self, kind, r, result, in_multi):
        r.text()
        if kind not in CREATES:
            r.at += {wire.DELETE: 4, wire.CHECK: 4}.get(kind, 0)
            if kind == wire.SET_DATA:
                r.bytes(), r.i32()
            return
        _, _, flags = r.bytes(), r.list(r.acl), r.i32()
        ttl_ms = r.i64() if kind == wire.CREATE_TTL else 0
        path = result if isinstance(result, str) else result[0]
        self.removable[path] = (
            "unused" if flags in (wire.TTL, wire.TTL + 1) and 0 < ttl_ms < SHORT_TTL_MS else
            "empty" if (flags == wire.CONTAINER if in_multi else kind == wire.CREATE_CONTAINER) else None)

    def is_due(self, path):
        """Whether the server is about to remove a node, here or below."""
        answer = self.observer.call(wire.get_children2(path))
        if answer.error:
            return False
        names, stat = answer.body
        if any([self.is_due(f"{path}/{name}") for name in names]):
            return True
        why = self.removable.get(path)
        return not names and (why == "unused" or why == "empty" and stat.cversion > 0)

    def walk(self, path):
        """Records everything from here on."""
        data, acl, children = [self.observer.call(request(path))
                               for request in (wire.get_data, wire.get_acl, wire.get_children2)]
        if not acl.error:
            acl = acl._replace(body=(sort_digests(acl.body[0]), acl.body[1]))
        self.note(path, *[(answer.error, self.plain(answer.body)) for answer in (data, acl, children)])
        for name in [] if children.error else children.body[0]:
            self.walk(f"{path}/{name}")

    def close(self):
        """Ends the sessions, and deletes what it may."""
        for link in self.links.values():
            link.close()
        for session, password in self.sessions.values():
            with Client(self.port, session=session, password=password) as link:
                if link.session:
                    link.call(wire.close_session())
        self.remove(self.root)
        self.remove("/zookeeper/quota" + self.root)
        self.wait_for_removals()
        self.observer.end()

    def remove(self, path):
        answer = self.observer.call(wire.get_children(path))
        for name in [] if answer.error else answer.body:
            self.remove(f"{path}/{name}")
        self.observer.call(wire.delete(path))


def sort_events(entry):
    """The events last, in any order: where a session ends, ZooKeeper's order is that of a hash table."""
    return [note for note in entry if "event" not in note] + sorted(
        (note for note in entry if "event" in note), key=repr)


def sort_digests(acl):
    """The order of the identities that "auth" stands for is that of a hash table, too."""
    groups = itertools.groupby(acl, lambda entry: (entry[0], entry[1] == "digest"))
    return [entry for (_, digest), group in groups for entry in (sorted(group) if digest else group)]


class Comparison:
    """Compares two logs. A transaction of one server corresponds to one of the other; those of requests come
    in the same order. A server removes several nodes in an order of its own."""

    def __init__(self):
        self.there, self.back, self.own = {}, {}, {}

    def same(self, a, b):
        if isinstance(a, Zxid) and isinstance(b, Zxid) and a > 0 and b > 0:
            if isinstance(a, OwnZxid):
                self.own[a] = b
            return self.there.setdefault(a, b) == b and self.back.setdefault(b, a) == a
        if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
            return len(a) == len(b) and all(self.same(x, y) for x, y in zip(a, b))
        return a == b

    def first_difference(self, expected, got):
        """The number of the first step that differs, and the two sides of it. None: there is none."""
        for at, (a, b) in enumerate(zip(expected, got)):
            if not self.same(a, b):
                pairs = itertools.zip_longest(a, b, fillvalue="nothing")
                pair = next((x, y) for x, y in pairs if not self.same(x, y))
                return at, (a, b) if len(a) != len(b) and len(a) < LONG else pair
        for (a, x), (b, y) in itertools.pairwise(sorted(self.own.items())):
            if x >= y:
                return len(expected) - 1, ((a, b), (x, y))
        return None
