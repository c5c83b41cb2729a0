"""A client of ZooKeeper's protocol that hides nothing, for what no real client would do.

A connection is a socket, a session and the answers as they come: `call` sends one request and reads up
to its answer; what watches told before it stays in `events`. Requests are made by the functions of the
same name, answers are decoded by the kind of the request:

    with Client(port) as c:
        answer = c.call(create("/a", b"data"))
        answer.error, answer.body, c.take_events()
"""

import collections
import itertools
import socket
import struct

DEADLINE_S = 60

(CREATE, DELETE, EXISTS, GET_DATA, SET_DATA, GET_ACL, SET_ACL, GET_CHILDREN, SYNC, PING) = (
    1, 2, 3, 4, 5, 6, 7, 8, 9, 11)
(GET_CHILDREN2, CHECK, MULTI, CREATE2, RECONFIG, CHECK_WATCHES, REMOVE_WATCHES) = (
    12, 13, 14, 15, 16, 17, 18)
(CREATE_CONTAINER, CREATE_TTL, MULTI_READ, AUTH, SET_WATCHES, SASL, GET_EPHEMERALS) = (
    19, 21, 22, 100, 101, 102, 103)
(ALL_CHILDREN_NUMBER, SET_WATCHES2, ADD_WATCH, WHO_AM_I, CLOSE) = (104, 105, 106, 107, -11)

(OK, SYSTEM_ERROR, INCONSISTENT, MARSHALLING_ERROR, UNIMPLEMENTED, BAD_ARGUMENTS) = (0, -1, -2, -5, -6, -8)
(NO_NODE, NO_AUTH, BAD_VERSION, NO_CHILDREN_FOR_EPHEMERALS) = (-101, -102, -103, -108)
(NODE_EXISTS, NOT_EMPTY, INVALID_ACL, AUTH_FAILED, NO_WATCHER) = (-110, -111, -114, -115, -121)
AUTH_REQUIRED = -124

EPHEMERAL, SEQUENTIAL, CONTAINER, TTL = 1, 2, 4, 5
ALL = 31
OPEN = [(ALL, "world", "anyone")]
EVENTS = {1: "created", 2: "deleted", 3: "changed", 4: "children"}
CHILDREN_WATCH, DATA_WATCH, ANY_WATCH = 1, 2, 3
PERSISTENT, RECURSIVE = 0, 1

XIDS = {PING: -2, AUTH: -4, SET_WATCHES: -8, SET_WATCHES2: -8}
XID_EVENT = -1

Request = collections.namedtuple("Request", "type body")
Answer = collections.namedtuple("Answer", "xid zxid error body")
Stat = collections.namedtuple("Stat", "czxid mzxid ctime mtime version cversion aversion owner "
                              "data_len children pzxid")


# Encoding.

def i32(value):
    return struct.pack(">i", value)


def i64(value):
    return struct.pack(">q", value)


def flag(value):
    return b"\1" if value else b"\0"


def text(value):
    """Text, bytes, or None, which is a length of -1."""
    if value is None:
        return i32(-1)
    data = value.encode() if isinstance(value, str) else value
    return i32(len(data)) + data


def texts(values):
    return i32(len(values)) + b"".join(map(text, values))


def acls(entries):
    return i32(len(entries)) + b"".join(i32(p) + text(s) + text(i) for p, s, i in entries)


def frame(payload):
    return i32(len(payload)) + payload


# Requests.

def create(path, data=b"", acl=OPEN, flags=0, kind=CREATE):
    return Request(kind, text(path) + text(data) + acls(acl) + i32(flags))


def create2(path, data=b"", acl=OPEN, flags=0):
    return create(path, data, acl, flags, CREATE2)


def create_container(path, data=b"", flags=CONTAINER):
    return create(path, data, flags=flags, kind=CREATE_CONTAINER)


def create_ttl(path, ttl_ms, data=b"", flags=TTL):
    return Request(CREATE_TTL, create(path, data, flags=flags).body + i64(ttl_ms))


def delete(path, version=-1):
    return Request(DELETE, text(path) + i32(version))


def exists(path, watch=False):
    return Request(EXISTS, text(path) + flag(watch))


def get_data(path, watch=False):
    return Request(GET_DATA, text(path) + flag(watch))


def set_data(path, data, version=-1):
    return Request(SET_DATA, text(path) + text(data) + i32(version))


def get_acl(path):
    return Request(GET_ACL, text(path))


def set_acl(path, acl, version=-1):
    return Request(SET_ACL, text(path) + acls(acl) + i32(version))


def get_children(path, watch=False, kind=GET_CHILDREN):
    return Request(kind, text(path) + flag(watch))


def get_children2(path, watch=False):
    return get_children(path, watch, GET_CHILDREN2)


def sync(path):
    return Request(SYNC, text(path))


def ping():
    return Request(PING, b"")


def check(path, version):
    return Request(CHECK, text(path) + i32(version))


def bundle(kind, requests):
    parts = [i32(r.type) + flag(False) + i32(-1) + r.body for r in requests]
    return Request(kind, b"".join(parts) + i32(-1) + flag(True) + i32(-1))


def multi(*requests):
    return bundle(MULTI, requests)


def multi_read(*requests):
    return bundle(MULTI_READ, requests)


def auth(credential, scheme="digest"):
    return Request(AUTH, i32(0) + text(scheme) + text(credential))


def set_watches(zxid, data=(), exist=(), children=(), persistent=None, recursive=None):
    body = i64(zxid) + texts(data) + texts(exist) + texts(children)
    if persistent is None and recursive is None:
        return Request(SET_WATCHES, body)
    return Request(SET_WATCHES2, body + texts(persistent or ()) + texts(recursive or ()))


def add_watch(path, mode):
    return Request(ADD_WATCH, text(path) + i32(mode))


def check_watches(path, kind):
    return Request(CHECK_WATCHES, text(path) + i32(kind))


def remove_watches(path, kind):
    return Request(REMOVE_WATCHES, text(path) + i32(kind))


def reconfig(joining="", leaving="", members="", version=-1):
    return Request(RECONFIG, text(joining) + text(leaving) + text(members) + i64(version))


def sasl(token):
    return Request(SASL, text(token))


def who_am_i():
    return Request(WHO_AM_I, b"")


def get_ephemerals(prefix):
    return Request(GET_EPHEMERALS, text(prefix))


def all_children_number(path):
    return Request(ALL_CHILDREN_NUMBER, text(path))


def close_session():
    return Request(CLOSE, b"")


# Decoding.

class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, length):
        part = self.data[self.at:self.at + length]
        assert len(part) == length, f"cut off at {self.at}: {self.data!r}"
        self.at += length
        return part

    def i32(self):
        return struct.unpack(">i", self.take(4))[0]

    def i64(self):
        return struct.unpack(">q", self.take(8))[0]

    def flag(self):
        return self.take(1) != b"\0"

    def bytes(self):
        length = self.i32()
        return None if length == -1 else self.take(length)

    def text(self):
        data = self.bytes()
        return None if data is None else data.decode(errors="surrogateescape")

    def list(self, item):
        return [item() for _ in range(self.i32())]

    def stat(self):
        return Stat(*struct.unpack(">qqqqiiiqiiq", self.take(68)))

    def acl(self):
        return self.i32(), self.text(), self.text()

    def results(self):
        """Of a bundle: pairs of a kind and what it says; an error is a kind of its own."""
        found = []
        while True:
            kind, done, error = self.i32(), self.flag(), self.i32()
            if done:
                assert (kind, error) == (-1, -1), (kind, error)
                return found
            if kind == -1:
                assert self.i32() == error
                found.append(("error", error))
            else:
                assert error == 0, (kind, error)
                found.append((kind, BODIES[kind](self)))


BODIES = {
    CREATE: lambda r: r.text(),
    CREATE2: lambda r: (r.text(), r.stat()),
    CREATE_CONTAINER: lambda r: (r.text(), r.stat()),
    CREATE_TTL: lambda r: (r.text(), r.stat()),
    EXISTS: lambda r: r.stat(),
    GET_DATA: lambda r: (r.bytes(), r.stat()),
    SET_DATA: lambda r: r.stat(),
    GET_ACL: lambda r: (r.list(r.acl), r.stat()),
    SET_ACL: lambda r: r.stat(),
    GET_CHILDREN: lambda r: sorted(r.list(r.text)),
    GET_CHILDREN2: lambda r: (sorted(r.list(r.text)), r.stat()),
    SYNC: lambda r: r.text(),
    MULTI: lambda r: r.results(),
    MULTI_READ: lambda r: r.results(),
    GET_EPHEMERALS: lambda r: sorted(r.list(r.text)),
    ALL_CHILDREN_NUMBER: lambda r: r.i32(),
    ADD_WATCH: lambda r: r.i32(),
    SASL: lambda r: r.bytes(),
    WHO_AM_I: lambda r: sorted(r.list(lambda: (r.text(), r.text()))),
    DELETE: lambda r: None,
    CHECK: lambda r: None,
}


def decode(kind, r):
    body = BODIES[kind](r) if kind in BODIES else None
    assert r.at == len(r.data), f"{len(r.data) - r.at} bytes too many: {r.data!r}"
    return body


class Closed(Exception):
    """The server has ended the connection."""


class Client:
    """A connection. Without `hello` it is only a socket."""

    def __init__(self, port, timeout_ms=60000, session=0, password=bytes(16), seen=0, hello=True,
                 says_read_only=True):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.xids = itertools.count(1)
        self.kinds = {}
        self.events = []
        self.zxid = 0
        self.closed = False
        if hello:
            self.hello(timeout_ms, session, password, seen, says_read_only)

    def hello(self, timeout_ms=60000, session=0, password=bytes(16), seen=0, says_read_only=True):
        self.send(frame(i32(0) + i64(seen) + i32(timeout_ms) + i64(session) + text(password) +
                        (flag(False) if says_read_only else b"")))
        r = Reader(self.packet())
        self.version, self.timeout_ms, self.session = r.i32(), r.i32(), r.i64()
        self.password = r.bytes()
        if says_read_only:
            assert r.flag() is False
        assert r.at == len(r.data), r.data

    # Bytes and packets.

    def send(self, data):
        """A server that has closed says so when it is read from."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def read(self, length):
        while len(self.buffer) < length:
            try:
                more = self.socket.recv(1 << 20)
            except ConnectionResetError:
                more = b""
            if not more:
                self.closed = True
                raise Closed(self.buffer)
            self.buffer += more
        data, self.buffer = self.buffer[:length], self.buffer[length:]
        return data

    def packet(self):
        return self.read(struct.unpack(">i", self.read(4))[0])

    def is_closed(self):
        """Reads until the server closes; whatever it still says is dropped."""
        try:
            while True:
                self.packet()
        except Closed:
            return True

    # Requests and answers.

    def encode(self, request):
        """The bytes of a request, whose answer is expected from now on."""
        xid = XIDS.get(request.type) or next(self.xids)
        self.kinds.setdefault(xid, collections.deque()).append(request.type)
        return frame(i32(xid) + i32(request.type) + request.body)

    def submit(self, request):
        self.send(self.encode(request))

    def next(self):
        """The next packet: an Answer, or None for an event, which is kept."""
        r = Reader(self.packet())
        xid, zxid, error = r.i32(), r.i64(), r.i32()
        if xid == XID_EVENT:
            kind, state = r.i32(), r.i32()
            assert (zxid, error, state) == (-1, 0, 3), (zxid, error, state)
            self.events.append((EVENTS[kind], r.text()))
            assert r.at == len(r.data), r.data
            return None
        kind = self.kinds[xid].popleft()
        if not self.kinds[xid]:
            del self.kinds[xid]
        if zxid > 0:  # of some refusals it says nothing
            assert zxid >= self.zxid, f"time went back from {self.zxid} to {zxid}"
            self.zxid = zxid
        body = None if error and r.at == len(r.data) else decode(kind, r)
        assert r.at == len(r.data), f"an error with a body: {r.data!r}"
        return Answer(xid, zxid, error, body)

    def answer(self):
        while (found := self.next()) is None:
            pass
        return found

    def call(self, request):
        assert not self.kinds or self.closed, f"answers are outstanding: {self.kinds}"
        self.submit(request)
        return self.answer()

    def must(self, request):
        answer = self.call(request)
        assert answer.error == OK, answer
        return answer.body

    def take_events(self):
        """What was told so far; a ping makes sure that nothing is still on its way."""
        self.call(ping())
        events, self.events = self.events, []
        return events

    def wait_event(self):
        """The next event, however long it takes."""
        while not self.events:
            assert self.next() is None
        return self.events.pop(0)

    # The end.

    def end(self):
        """Ends the session, and the connection with it."""
        answer = self.call(close_session())
        assert answer.error == OK and self.is_closed()
        self.close()

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def four_letters(port, word):
    """What the server says to a word before it closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as s:
        s.sendall(word.encode())
        answer = b""
        while more := s.recv(65536):
            answer += more
    return answer.decode()
