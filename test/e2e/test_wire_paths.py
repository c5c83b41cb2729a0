"""Malformed paths and access lists: a table of requests, sent to ZooKeeper and to drover.

Each request has its own nodes: a request that ZooKeeper fails to understand in the middle of a
transaction leaves traces of the operations before it.
"""

import functools
import itertools

import pytest

from wire_client import *  # noqa: F403: the vocabulary of the requests
from wire_record import differences, run
from wire_support import serve  # noqa: F401: a fixture

# Below the root of the scenario, unless it is absolute by itself.
PATHS = {
    "null": None, "empty": b"", "relative": b"x", "two slashes": b"//",
    "slash at the end": "{}/", "slash at the end of none": "{}/none/", "slash twice": "{}//x",
    "dot": "{}/.", "dot dot": "{}/..", "dot inside": "{}/./x", "dot dot inside": "{}/../x",
    "control": "{}/\x01", "newline": "{}/\n", "delete": "{}/\x7f", "C1": "{}/\u009f",
    "nul": "{}/a\0b", "nul at the end": "{}/a\0", "nul in the parent": "{}/a\0b/c",
    "private": "{}/\ue000", "specials": "{}/\ufff0",
    "bad below none": "{}/none/.", "control below none": "{}/none/\x01",
    "slash at the start twice": "/{}/x",
}

REQUESTS = {
    "create": create,
    "create2": create2,
    "sequential": lambda p: create2(p, flags=SEQUENTIAL),
    "ephemeral": lambda p: create(p, flags=EPHEMERAL),
    "container": create_container,
    "ttl": lambda p: create_ttl(p, 100000),
    "create without list": lambda p: create(p, acl=[]),
    "create with a bad flag": lambda p: create(p, flags=77),
    "set": lambda p: set_data(p, b"x"),
    "set at a version": lambda p: set_data(p, b"x", 77),
    "delete": delete,
    "delete at a version": lambda p: delete(p, 77),
    "set acl": lambda p: set_acl(p, OPEN),
    "set no acl": lambda p: set_acl(p, []),
    "check": lambda p: check(p, 77),
    "exists": exists,
    "exists and watch": lambda p: exists(p, watch=True),
    "get": get_data,
    "get and watch": lambda p: get_data(p, watch=True),
    "children": get_children,
    "children and watch": lambda p: get_children(p, watch=True),
    "children2": get_children2,
    "get acl": get_acl,
    "sync": sync,
    "count": all_children_number,
    "ephemerals": get_ephemerals,
    "add watch": lambda p: add_watch(p, PERSISTENT),
    "add recursive watch": lambda p: add_watch(p, RECURSIVE),
    "check watches": lambda p: check_watches(p, DATA_WATCH),
    "remove watches": lambda p: remove_watches(p, ANY_WATCH),
    "set watches": lambda p: set_watches(0, data=[p], exist=[p], children=[p]),
    "multi read": lambda p: multi_read(get_data(p), get_children(p)),
}
IN_MULTI = ("create", "create2", "sequential", "ephemeral", "container", "ttl", "create without list",
            "create with a bad flag", "set", "set at a version", "delete", "delete at a version",
            "check")

ACLS = {
    "auth": [(ALL, "auth", "")],
    "auth twice": [(ALL, "auth", ""), (ALL, "auth", "")],
    "auth twice, other permissions": [(1, "auth", ""), (2, "auth", "")],
    "auth twice, other ids": [(ALL, "auth", "a"), (ALL, "auth", "b")],
    "auth and what it stands for": [(ALL, "auth", ""), (ALL, "digest", "{digest}")],
    "what it stands for and auth": [(ALL, "digest", "{digest}"), (ALL, "auth", "")],
    "auth and world": [(ALL, "auth", ""), (ALL, "world", "anyone"), (ALL, "auth", "")],
    "null id": [(ALL, "auth", None)],
    "null scheme": [(ALL, None, "x")],
    "null scheme and id": [(ALL, None, None)],
    "world and null": [(ALL, "world", None)],
    "digest and null": [(ALL, "digest", None)],
    "ip and null": [(ALL, "ip", None)],
    "unknown and null": [(ALL, "unknown", None)],
    "super": [(ALL, "super", "super:x")],
    "x509": [(ALL, "x509", "CN=x")],
    "null list": None,
    "negative list": -2,
}
DIGEST = "user:Dmpwm9d8EYxVA3eBNZOS8wQKrG0="  # of user:password
CREDENTIALS = {"nobody": [], "one": ["user:password"], "the same twice": ["user:password"] * 2}


def path_of(template, root):
    if template is None or isinstance(template, bytes):
        return template
    return template.format(root).encode(errors="surrogatepass")


def ask(w, actor, request, path):
    """An empty path is that of the root, where other tests have been."""
    if path != b"":
        return actor(request)
    answer = actor.client.call(request)
    return w.note(answer.error)


def one_path(w, template):
    for name in REQUESTS:
        for wrap in (None, "alone", "after") if name in IN_MULTI else (None,):
            a = w.connect(f"{name} {wrap}")
            root = f"{w.root}/{name} {wrap}".replace(" ", "-")
            a(create(root))
            path = path_of(template, root)
            request = REQUESTS[name](path)
            w.note(name, wrap)
            ask(w, a, {None: request, "alone": multi(request),
                       "after": multi(create(root + "/before"), request, create(root + "/behind"))
                       }[wrap], path)
            a(ping())
            a.client.close()


def bad_acls(entries):
    if entries is None or isinstance(entries, int):
        return i32(-1 if entries is None else entries)
    return acls([(p, s, i.replace("{digest}", DIGEST) if i else i) for p, s, i in entries])


def one_acl(w, entries, credentials):
    raw = bad_acls(entries)
    for number, wrap in enumerate(("create", "create2", "set", "multi")):
        a, path = w.connect(wrap), f"{w.root}/{wrap}"
        for credential in credentials:
            a(auth(credential))
        if wrap == "set":
            a(create(path))
            a(Request(SET_ACL, text(path) + raw + i32(-1)))
        else:
            kind = CREATE2 if wrap == "create2" else CREATE
            request = Request(kind, text(path) + text(b"") + raw + i32(0))
            a(multi(create(f"{path}-before"), request) if wrap == "multi" else request)
        a(get_acl(path))
        a(create(f"{w.root}/last-{number}"))


@pytest.fixture(scope="module")
def drover(tmp_path_factory):
    yield from serve(tmp_path_factory, "--journal", "none")


@pytest.fixture(scope="module")
def both(drover, zookeeper):  # noqa: F811
    numbers = itertools.count()

    def compare(function, **args):
        part = functools.partial(function, **args)
        part.__name__ = f"paths-{next(numbers)}"
        return differences(run(zookeeper.nodes[0].port, part), run(drover.zk_port, part))

    return compare


@pytest.mark.parametrize("kind", PATHS)
def test_a_malformed_path(kind, both):
    found = both(one_path, template=PATHS[kind])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("kind, who", itertools.product(ACLS, CREDENTIALS))
def test_a_malformed_access_list(kind, who, both):
    found = both(one_acl, entries=ACLS[kind], credentials=CREDENTIALS[who])
    assert not found, "\n".join(found)
