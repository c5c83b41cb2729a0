"""Random sequences of steps for wire_random.py: what a client, or no sane client, may send.

A step is a tuple of plain Python values: who does it, what, and the arguments. So a sequence can be
printed and read back. wire_random_play.py says what each step does.

All paths are below ROOT, which stands for another name in each run. Below KEPT are the nodes that a
server removes by itself. The paths are few, so that the requests meet.
"""

import random
import zlib

import wire_client as wire
from wire_client import ALL, EPHEMERAL, OPEN, PERSISTENT, RECURSIVE, TTL

ROOT = "/t00000"
KEPT = ROOT + "/k"
ACTORS = "abc"
PACKET_MAX = 1024 * 1024 - 1

# Kinds of requests that are left out because the answers are known to differ, with the reason.
MASKED = {}

PATHS = [ROOT + path for path in [
    "", "/a", "/a", "/a", "/b", "/b", "/a/x", "/a/x", "/a/y", "/a/x/1", "/b/x", "/b/xx", "/a/\u00e9",
    "/own-a", "/own-b", "/own-c", "/\u4e2d", "/a/s-0000000000", "/a/0000000001", "/a/x/s-0000000002",
    "/absent/x", "/ "]]
KEPT_PATHS = [KEPT, KEPT + "/c", KEPT + "/c", KEPT + "/d", KEPT + "/c/1", KEPT + "/c/2", KEPT + "/c/1/1",
              KEPT + "/t", KEPT + "/t/1"]
SPECIAL = ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", "/zookeeper/absent",
           "/zookeeper" + ROOT]
QUOTAS = ["/zookeeper/quota" + ROOT + path + node for path in ["", "/a"]
          for node in ["", "/zookeeper_limits", "/zookeeper_stats"]]
LIMITS = [b"count=3,bytes=20", b"count=1,bytes=-1,byteHardLimit=5,countHardLimit=2", b"count=-1,bytes=-1", b"x"]
BAD = ["", "x", "a/b", "//", ROOT + "/", ROOT + "//a", ROOT + "/a/", ROOT + "/.", ROOT + "/../a",
       ROOT + "/./a", ROOT + "/a\0b", ROOT + "/\x01", ROOT + "/\x7f", ROOT + "/\ue000",
       ROOT + "/\ufffd", ROOT + "/...", ROOT + "/absent/", "/absent/../x", None]
NAMES = ["s-", "", "x", "1", "a-"]

CREDENTIALS = ["u:p", "v:p"]
DIGESTS = ["u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=", "v:RylFHZNG40p+EX2Hf0QUdmqEStY="]
ACLS = [
    [(1, "world", "anyone")], [(ALL, "auth", "")], [(ALL, "auth", ""), (1, "world", "anyone")],
    [(ALL, "digest", DIGESTS[0])], [(ALL, "digest", DIGESTS[0]), (1, "digest", DIGESTS[1])],
    [(16, "digest", DIGESTS[1]), (15, "world", "anyone")], [(2, "world", "anyone")],
    [(4, "world", "anyone"), (8, "world", "anyone"), (4, "world", "anyone")],
    [(ALL, "ip", "127.0.0.1")], [(ALL, "ip", "127.0.0.0/8")], [(ALL, "ip", "10.0.0.0/8")],
    [(0, "world", "anyone")], [(-1, "world", "anyone")], [(1 << 20, "world", "anyone")],
]
BAD_ACLS = [[], [(ALL, "nobody", "x")], [(ALL, "world", "x")], [(ALL, "digest", "u")],
            [(ALL, "ip", "1.2.3")], [(ALL, "ip", "127.0.0.1/99")], [(ALL, "", "")],
            [(ALL, "sasl", "u")], [(ALL, "auth", "x"), (ALL, "world", "anyone"), (ALL, "nobody", "")]]

NUMBER_LAST = [wire.CREATE, wire.CREATE2, wire.DELETE, wire.SET_DATA, wire.SET_ACL]
NO_TYPES = [0, 10, 20, 23, 24, 99, 108, 1000, -1, -2, -3, -12, 1 << 30, -1 << 31]
DATA_AT = {"create": 1, "create2": 1, "create_container": 1, "create_ttl": 2, "set_data": 1}
HELLO = {"version": 0, "seen": "now", "timeout": 60000, "read_only": False}


def watch_kind(actor, path):
    """The one kind of watch that a connection may have on a path: 0 one-shot, 1 persistent, 2 recursive.

    ZooKeeper 3.8 lets one kind replace the other; later versions, and drover, keep both. None on another's
    own node: checkWatches is sent for one's own only.
    """
    if path and path.startswith(ROOT + "/own-") and path[len(ROOT + "/own-")] != actor:
        return None
    return zlib.crc32(repr((actor, path)).encode()) % 4 % 3


def build(request, zxids=None):
    """The packet of a request. Data may be given as its length; zxids: the values of those with names."""
    name, *arguments = request
    if name in ("multi", "multi_read"):
        arguments = [build(part) for part in arguments]
    elif name == "set_watches":
        arguments[0] = (zxids or {}).get(arguments[0], 0) if isinstance(arguments[0], str) else arguments[0]
    elif name in DATA_AT and isinstance(arguments[DATA_AT[name]], int):
        arguments[DATA_AT[name]] = b"x" * arguments[DATA_AT[name]]
    return getattr(wire, name)(*arguments)


class Steps:
    """made: the paths that probably exist, so that most requests find something."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.made = [ROOT]

    def sequence(self, length):
        steps = [(name, "hello", HELLO) for name in ACTORS]
        steps += [("a", "call", ("create", ROOT, b"", OPEN, 0)),
                  ("a", "call", ("create", KEPT, b"", OPEN, 0))]
        while len(steps) < length:
            steps += self.step()
        return steps

    # The choice of steps.

    def choose(self, weights):
        """Of a table from what to its weight."""
        names = [name for name in weights if name not in MASKED]
        return self.random.choices(names, [weights[name] for name in names])[0]

    def rare(self, one_in):
        return self.random.randrange(one_in) == 0

    def pick(self, *things):
        return self.random.choice(things)

    def step(self):
        actor = self.random.choice(ACTORS)
        return self.choose({
            self.call: 800, self.burst: 50, self.packet: 60, self.strange_xid: 6, self.hello: 30,
            self.bad_bytes: 8, self.close: 12, self.probe: 8, self.bad_hello: 8, self.word: 10,
            self.expire: 0.3, self.unknown: 6, self.largest: 3})(actor)

    def call(self, actor):
        return [(actor, "call", self.request(actor))]

    def burst(self, actor):
        """Requests in one write. None that ends something, or that the server may follow up by itself, and no
        change of an access list, which ZooKeeper may overlook in the requests right behind it."""
        requests = [self.request(actor, self.choose(CALM)) for _ in range(self.random.randint(2, 6))]
        return [(actor, "burst", [r for r in requests if KEPT not in repr(r)])]

    def hello(self, actor):
        options = dict(HELLO, version=self.pick(0, 0, 0, 1, -1), keep=self.pick(True, False),
                       seen=self.pick("now", "now", 0, -1), read_only=self.pick(False, False, True, None))
        if self.rare(6):
            options |= {"keep": False, "password": self.pick("wrong", "short", "long", "empty", "null")}
        elif self.rare(6):
            options |= {"keep": False, "seen": "future"}
        return [(actor, "hello", options)] + self.welcome_back(actor, options != HELLO)

    def welcome_back(self, actor, needed=True):
        return [(actor, "hello", HELLO)] if needed and not self.rare(10) else []

    def probe(self, _actor):
        options = dict(HELLO, timeout=self.pick(0, -1, 1, 999, 1000, 1001, 4000, 30000, 60000),
                       session=self.pick(0, 0, 0, 1, -1, 0x1234567890), version=self.pick(0, 7),
                       password=self.pick("right", "wrong", "short", "long", "empty", "null"),
                       read_only=self.pick(False, True, None), seen=self.pick(0, -1, "future"))
        return [("-", "probe", options)]

    def close(self, actor):
        return [(actor, "call", ("close_session",))] + self.welcome_back(actor)

    def expire(self, actor):
        return [(actor, "expire")] + self.welcome_back(actor)

    def word(self, _actor):
        return [("-", "word", self.pick("ruok", "isro", "wchs", "srvr", "stat", "mntr"))]

    # Packets that no client sends.

    def encoded(self, actor):
        return build(self.request(actor, self.choose(ENCODED)))

    def packet(self, actor):
        """A request that is truncated, padded, or changed somewhere."""
        request = self.encoded(actor)
        body = bytearray(request.body)
        how = self.random.randrange(5)
        if how < 2:
            del body[self.random.randrange(len(body) + 1):]
        elif how == 2:
            body += self.random.randbytes(self.random.randint(1, 9))
        elif how == 3 and len(body) >= 4:
            body[:4] = wire.i32(self.pick(-1, -2, -1 << 31, (1 << 31) - 1, len(body), 1 << 20, 0))
        elif how == 4 and request.type in NUMBER_LAST:
            body[-4:] = wire.i32(self.pick(-1, -2, (1 << 31) - 1, 1 << 20, 0))
        xid = wire.XIDS.get(request.type, self.random.randrange(1, 1 << 20))
        steps = [(actor, "packet", xid, request.type, bytes(body))]
        return steps + self.welcome_back(actor, request.type == wire.AUTH)

    def strange_xid(self, actor):
        request = self.encoded(actor)
        xid = self.pick(-1, -2, -4, -8, 0, -3, (1 << 31) - 1, -1 << 31)
        steps = [(actor, "packet", xid, request.type, request.body)]
        return steps + self.welcome_back(actor, request.type == wire.AUTH)

    def unknown(self, actor):
        kind = self.random.choice(NO_TYPES)
        return [(actor, "packet", 5, kind, self.pick(b"", self.encoded(actor).body))] + self.welcome_back(
            actor)

    def bad_bytes(self, actor):
        """Where the length is not one."""
        data = self.pick(wire.i32(-1), wire.i32(-1 << 31), wire.i32(PACKET_MAX + 1), b"ruok", b"GET /",
                         wire.i32((1 << 31) - 1) + b"x", wire.frame(b""), wire.frame(b"\0\0\0\1"),
                         wire.frame(b"\0\0\0\1\0\0\0"))
        return [(actor, "bytes", data)] + self.welcome_back(actor)

    def bad_hello(self, _actor):
        good = wire.i32(0) + wire.i64(0) + wire.i32(10000) + wire.i64(0) + wire.text(bytes(16))
        return [("-", "socket", self.pick(
            wire.frame(b""), wire.i32(-1), wire.i32(-1 << 31), wire.i32(PACKET_MAX + 1), b"GET / HTTP/1.0",
            b"what", wire.frame(good[:self.random.randrange(len(good))]),
            wire.frame(good[:24] + wire.i32(self.pick(-2, 1 << 20, (1 << 31) - 1))),
            wire.frame(good + b"\2"), wire.frame(good + b"\0and more")))]

    def largest(self, actor):
        """A packet of exactly the largest size, or one byte more."""
        path = self.random.choice(PATHS)
        room = PACKET_MAX - 8 - len(wire.set_data(path, b"").body)
        more = self.pick(0, 0, 1)
        return [(actor, "call", ("set_data", path, room + more, -1))] + self.welcome_back(actor, more)

    # Requests, as the name of a function of wire_client and its arguments.

    def request(self, actor, kind=None):
        return REQUESTS[kind or self.choose(CALLS)](self, actor)

    def path(self, special=True):
        if self.rare(30) and special:
            return self.random.choice(SPECIAL)
        if self.rare(25):
            return self.random.choice(BAD)
        if self.rare(12):
            return self.random.choice(KEPT_PATHS)
        return self.random.choice(PATHS if self.rare(4) else self.made)

    def new_path(self):
        """Of a node to be created, perhaps a sequential one."""
        if not self.rare(3):
            return self.random.choice(PATHS)
        path = self.path(special=self.rare(5))
        return path if path in SPECIAL or not path else f"{path}/{self.random.choice(NAMES)}"

    def old_path(self):
        """Of a node to be deleted."""
        path = self.path()
        if path in self.made[1:]:
            self.made.remove(path)
        return path

    def seen_path(self, actor):
        """Of a node to be watched: often the actor's own. Never null: ZooKeeper cannot close a connection that
        has such a watch."""
        path = f"{ROOT}/own-{actor}" if self.rare(6) else self.path()
        return ROOT if path is None else path

    def version(self):
        return self.choose({-1: 12, 0: 8, 1: 3, 2: 2, 3: 1, -2: 1, (1 << 31) - 1: 1})

    def data(self):
        return self.choose({b"": 4, b"x": 8, b"hello": 8, None: 4, 100: 2, 5000: 1})

    def acl(self, path):
        """What must be found again is open: the special nodes, and those that a server removes."""
        if not path or path in SPECIAL or path.startswith(KEPT) or not self.rare(3):
            return OPEN if not self.rare(40) else []
        return self.random.choice(BAD_ACLS if self.rare(5) else ACLS)

    def watched(self, actor, path):
        return watch_kind(actor, path) == 0 and self.rare(2)

    def flags(self, path):
        """Only below KEPT those that a server removes."""
        weights = {0: 50, 1: 14, 2: 12, 3: 10, 7: 1, -1: 1, 1 << 20: 1}
        if path and path.startswith(KEPT + "/"):
            weights |= {4: 20, 5: 2, 6: 2}
        return self.choose(weights)

    def create(self, kind):
        path = self.new_path()
        flags = self.flags(path)
        if flags in (0, EPHEMERAL) and path in PATHS and path.rpartition("/")[0] in self.made:
            self.made.append(path)
        return (kind, path, self.data(), self.acl(path), flags)

    def create_container(self, _actor):
        path = self.random.choice(KEPT_PATHS[1:])
        return ("create_container", path, self.data(), self.choose({4: 8, 0: 1, 2: 1, 1: 1, 9: 1}))

    def create_ttl(self, _actor):
        path = self.random.choice(KEPT_PATHS[1:])
        ttl_ms = self.choose({1: 3, 3600 * 1000: 3, 0: 1, -1: 1, (1 << 40) - 1: 1, 1 << 40: 1})
        flags = self.choose({TTL: 8, TTL + 1: 3} | ({0: 1, 1: 1, 9: 1} if ttl_ms >= 0 else {}))
        return ("create_ttl", path, ttl_ms, self.data(), flags)

    def read(self, kind, actor):
        path = self.seen_path(actor)
        return (kind, path, self.watched(actor, path))

    def multi(self, actor):
        kinds = {"create": 5, "create2": 3, "delete": 4, "set_data": 4, "check": 3, "create_container": 0.5,
                 "create_ttl": 0.3, "set_acl": 0.1, "get_data": 0.1, "close_session": 0.05}
        return ("multi", *[self.request(actor, self.choose(kinds))
                           for _ in range(self.choose({0: 1, 1: 6, 2: 8, 3: 8, 5: 3}))])

    def multi_read(self, actor):
        kinds = {"get_data": 5, "get_children": 5, "exists": 0.2, "get_children2": 0.1}
        return ("multi_read", *[self.request(actor, self.choose(kinds))
                                for _ in range(self.random.randint(0, 4))])

    def add_watch(self, actor):
        """A mode that is none at times; else the kind that this path may have."""
        path = self.seen_path(actor)
        mode = {1: PERSISTENT, 2: RECURSIVE}.get(watch_kind(actor, path), self.pick(2, -1, 7))
        return ("add_watch", path, mode)

    def some_watches(self, kind, path):
        return (kind, path, self.choose({1: 5, 2: 5, 3: 5, 0: 1, -1: 1, 4: 1, 5: 1, 6: 1}))

    def set_watches(self, actor):
        since = self.choose({"now": 4, "start": 2, 0: 1, -1: 1, 1 << 62: 1})
        paths = [[path for path in {self.seen_path(actor): 0 for _ in range(self.random.randint(0, 4))}
                  if watch_kind(actor, path) == kind and "\0" not in (path or "")] for kind in (0, 0, 0, 1, 2)]
        return ("set_watches", since, *paths[:3], *(paths[3:] if self.rare(2) else []))

    def quota(self, _actor):
        path, data = self.random.choice(QUOTAS), self.random.choice(LIMITS)
        return self.choose({("create", path, data, tuple(OPEN), 0): 8, ("set_data", path, data, -1): 2,
                            ("get_data", path, False): 6, ("delete", path, -1): 1})

    def auth(self, _actor):
        if not self.rare(6):
            return ("auth", self.random.choice(CREDENTIALS), "digest")
        return ("auth", self.pick("", ":", "u", "x", "a:b:c", "w:\u00e9", None),
                self.pick("ip", "digest", "digest", "world", "nobody", "auth", "", None))


REQUESTS = {
    "create": lambda s, actor: s.create("create"),
    "create2": lambda s, actor: s.create("create2"),
    "create_container": Steps.create_container,
    "create_ttl": Steps.create_ttl,
    "delete": lambda s, actor: ("delete", s.old_path(), s.version()),
    "set_data": lambda s, actor: ("set_data", s.path(), s.data(), s.version()),
    "exists": lambda s, actor: s.read("exists", actor),
    "get_data": lambda s, actor: s.read("get_data", actor),
    "get_children": lambda s, actor: s.read("get_children", actor),
    "get_children2": lambda s, actor: s.read("get_children2", actor),
    "get_acl": lambda s, actor: ("get_acl", s.path()),
    "set_acl": lambda s, actor: (lambda path: ("set_acl", path, s.acl(path), s.version()))(s.path()),
    "sync": lambda s, actor: ("sync", s.path()),
    "check": lambda s, actor: ("check", s.path(), s.version()),
    "failing_check": lambda s, actor: ("check", s.path(), (1 << 31) - 1),  # see wire_random.py
    "multi": Steps.multi,
    "multi_read": Steps.multi_read,
    "check_watches": lambda s, actor: s.some_watches("check_watches", f"{ROOT}/own-{actor}"),
    "remove_watches": lambda s, actor: s.some_watches("remove_watches", s.seen_path(actor)),
    "add_watch": Steps.add_watch,
    "set_watches": Steps.set_watches,
    "get_ephemerals": lambda s, actor: ("get_ephemerals", s.pick("/", "", None, s.path(), ROOT[:-1])),
    "all_children_number": lambda s, actor: ("all_children_number", s.path()),
    "who_am_i": lambda s, actor: ("who_am_i",),
    "auth": Steps.auth,
    "ping": lambda s, actor: ("ping",),
    "reconfig": lambda s, actor: ("reconfig", s.pick("", None, "server.1=x"), "", "", s.pick(-1, 0)),
    "close_session": lambda s, actor: ("close_session",),
    "quota": Steps.quota,
    "sasl": lambda s, actor: ("sasl", s.pick(b"", None, b"token")),
}

# The requests of a burst, of malformed packets, and of calls, with their weights.
CALM = {"create": 14, "create2": 9, "delete": 8, "set_data": 12, "exists": 6, "get_data": 6,
        "get_children": 4, "get_children2": 4, "get_acl": 3, "sync": 1, "failing_check": 1, "multi": 6,
        "multi_read": 3, "get_ephemerals": 2, "all_children_number": 2, "who_am_i": 1, "ping": 1}
ENCODED = {name: 1 for name in REQUESTS if name not in ("close_session", "ping", "who_am_i", "quota", "check")}
CALLS = CALM | {"set_acl": 3, "check_watches": 3, "remove_watches": 4, "add_watch": 6, "set_watches": 3, "auth": 3,
                "reconfig": 0.5, "sasl": 0.5, "quota": 6, "create_container": 3, "create_ttl": 1}
