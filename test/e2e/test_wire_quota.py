"""Quotas: the same requests to a real ZooKeeper and to drover, both of which enforce limits."""

import functools

import pytest

from conftest import KEEPER_ONLY, wait_until
from wire_client import *  # noqa: F403: the vocabulary of the scenarios
from wire_record import differences, run
from wire_support import serve  # noqa: F401: a fixture

SCENARIOS = []
QUOTA = "/zookeeper/quota"


def scenario(function):
    SCENARIOS.append(function)
    return function


def place(path, name):
    return f"{QUOTA}{path}/zookeeper_{name}"


def make_parents(client, path):
    """Without a record: some are there from another quota."""
    parts = (QUOTA + path).split("/")
    for end in range(4, len(parts) + 1):
        client.call(create("/".join(parts[:end])))


def limit(actor, path, limits, stats=b""):
    make_parents(actor.client, path)
    actor(create(place(path, "limits"), limits))
    actor(create(place(path, "stats"), stats))


def counts(actor, path):
    actor(get_data(place(path, "stats")))


@scenario
def what_is_counted(w):
    a, r = w.connect(), w.root
    a(create(r + "/before", b"12345"))
    limit(a, r, b"count=1000,bytes=100000")
    counts(a, r)
    for request in [create(r + "/a", b"123"), create2(r + "/b", None), create(r + "/a/x", b"1" * 500),
                    create(r + "/seq-", b"12", flags=SEQUENTIAL), create_container(r + "/c", b"1"),
                    create_ttl(r + "/t", 1000000, b"1234"), set_data(r + "/a", b"1"),
                    set_data(r + "/a", None), set_data(r + "/b", b"12345678"), set_data(r, b"root"),
                    set_data(r + "/a", b"1", 77), delete(r + "/a"), create(r + "/a", b"no"),
                    create(r + "/none/x", b"no"), delete(r + "/a/x"), delete(r + "/a"),
                    set_acl(r + "/b", OPEN), create(r + "x", b"beside it"),
                    multi(create(r + "/m", b"123"), set_data(r + "/m", b"1"), create(r + "/m/n", b"22"),
                          delete(r + "/m/n"), check(r + "/m", 1)),
                    multi(create(r + "/no", b"123"), delete(r + "/b"), check(r, 77)),
                    multi(delete(r + "/m"), create(r + "/m", b"again"))]:
        a(request)
        counts(a, r)
    a(exists(place(r, "stats")))
    a(all_children_number(r))


@scenario
def sessions_that_end(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    limit(a, r, b"count=1000,bytes=100000")
    b(create(r + "/e", b"1234", flags=EPHEMERAL))
    b(multi(create(r + "/e-", b"12", flags=EPHEMERAL | SEQUENTIAL), create(r + "/stays", b"1")))
    counts(a, r)
    b(close_session())
    counts(a, r)


@scenario
def containers_that_go(w):
    a, r = w.connect(), w.root
    limit(a, r, b"count=1000,bytes=100000")
    a(create_container(r + "/c", b"123"))
    a(create(r + "/c/x", b"12"))
    counts(a, r)
    a(delete(r + "/c/x"))
    wait_until(lambda: a.client.call(exists(r + "/c")).error, "the end of the container")
    counts(a, r)


@scenario
def hard_limits(w):
    a, r = w.connect(), w.root
    a(create(r + "/n", b"12345"))
    limit(a, r, b"count=-1,bytes=-1=;byteHardLimit=20;countHardLimit=4")
    for request in [create(r + "/a", b"1"), create(r + "/b", b"1"), create(r + "/c", b"1"),
                    create2(r + "/c"), create_container(r + "/c"), create_ttl(r + "/c", 1000),
                    create(r + "/c", flags=EPHEMERAL), create(r + "/c-", flags=SEQUENTIAL),
                    create(r + "/a"), create(r + "/none/x"), create(r + "/c", acl=[]), delete(r + "/b"),
                    set_data(r + "/a", b"1" * 14), set_data(r + "/a", b"1" * 15),
                    set_data(r + "/a", b"1" * 16, 77), set_data(r + "/a", b"1" * 16),
                    set_data(r + "/a", b"1" * 15), set_data(r + "/none", b"1" * 50),
                    create(r + "/b", b"1"), create(r + "/b"), create(r + "/c", b"1"),
                    multi(delete(r + "/b"), create(r + "/c")), multi(create(r + "/d"), check(r, 0)),
                    multi(check(r, 0), set_data(r + "/a", b"1" * 30)), set_data(r, b"1"),
                    multi(delete(r + "/a"), delete(r + "/b")),
                    multi(create(r + "/1"), create(r + "/2"), create(r + "/3"), create(r + "/4")),
                    multi(set_data(r + "/1", b"1" * 10), set_data(r + "/2", b"1" * 10)),
                    set_data(r + "/2", b"1" * 9), set_data(r + "/2", b"1" * 11), delete(r + "/3")]:
        a(request)
        counts(a, r)


@scenario
def soft_limits_stop_nothing(w):
    a, r = w.connect(), w.root
    limit(a, r, b"count=1,bytes=3")
    for name in "abc":
        a(create(f"{r}/{name}", b"12"))
        counts(a, r)


@scenario
def a_hard_limit_of_nothing(w):
    a, r = w.connect(), w.root
    limit(a, r, b"countHardLimit=0;byteHardLimit=0")
    a(create(r + "/a"))
    a(set_data(r, b""))
    a(set_data(r, b"1"))
    a(delete(r))
    counts(a, r)


@scenario
def limits_that_change(w):
    a, r = w.connect(), w.root
    limit(a, r, b"count=-1,bytes=-1=;countHardLimit=1")
    a(create(r + "/a"))
    a(set_data(place(r, "limits"), b"count=-1,bytes=-1=;countHardLimit=2"))
    a(create(r + "/a"))
    a(create(r + "/b"))
    a(delete(place(r, "limits")))
    a(create(r + "/b"))
    counts(a, r)
    a(create(place(r, "limits"), b"countHardLimit=3"))
    a(create(r + "/c"))
    a(create(r + "/d"))
    counts(a, r)
    a(delete(place(r, "stats")))
    a(create(r + "/e"))
    a(create(place(r, "stats"), b"whatever"))
    counts(a, r)
    a(create(r + "/f"))
    a(set_data(place(r, "stats"), b"count=1,bytes=7"))
    a(create(r + "/f"))
    counts(a, r)


@scenario
def limits_that_are_none(w):
    a, r = w.connect(), w.root
    for number, limits in enumerate([b"", b"count=", b"count=x", b"garbage", b"count=1;;bytes=1",
                                     b"countHardLimit=1,other=5", b"countHardLimit=+1", b"=",
                                     b"countHardLimit=0x1", b"countHardLimit= 1"]):
        path = f"{r}/{number}"
        w.note(limits)
        a(create(path))
        limit(a, path, limits)
        a(create(path + "/a", b"12"))
        a(multi(create(path + "/b", b"12"), create(path + "/c", b"12")))
        a(set_data(path, b"12"))
        counts(a, path)


@scenario
def quotas_inside_one_another(w):
    a, r = w.connect(), w.root
    a(create(r + "/in", b"1"))
    a(create(r + "/in/deep", b"1"))
    limit(a, r, b"countHardLimit=6")
    limit(a, r + "/in", b"countHardLimit=4")
    for request in [create(r + "/in/a", b"1"), create(r + "/in/b", b"1"), create(r + "/in/c"),
                    create(r + "/x", b"1"), create(r + "/y"), create(r + "/z"), create(r + "/zz"),
                    set_data(r + "/in/deep", b"123"), delete(r + "/in/a"),
                    delete(place(r + "/in", "limits")), create(r + "/in/c"), create(r + "/in/d")]:
        a(request)
        counts(a, r)
        counts(a, r + "/in")


@scenario
def a_quota_on_nothing(w):
    a, r = w.connect(), w.root
    limit(a, r + "/later", b"countHardLimit=2")
    counts(a, r + "/later")
    a(create(r + "/later", b"1"))
    a(create(r + "/later/a", b"1"))
    a(create(r + "/later/b", b"1"))
    counts(a, r + "/later")
    a(delete(r + "/later/a"))
    a(delete(r + "/later"))
    counts(a, r + "/later")


@scenario
def all_in_one_transaction(w):
    a, r = w.connect(), w.root
    a(multi(create(r + "/a", b"12"), create(QUOTA + r), create(place(r, "limits"), b"countHardLimit=3"),
            create(place(r, "stats")), create(r + "/b", b"123"), create(r + "/c")))
    counts(a, r)
    a(create(r + "/d"))
    a(multi(delete(place(r, "limits")), delete(place(r, "stats")), delete(QUOTA + r)))
    a(create(r + "/d"))


@scenario
def watches_see_no_counts(w):
    a, r = w.connect(), w.root
    limit(a, r, b"countHardLimit=3")
    a(get_data(place(r, "stats"), watch=True))
    a(create(r + "/a"))
    a.look()
    a(exists(place(r, "stats")))


@pytest.fixture(scope="module", params=["strict", "none"])
def drover(request, tmp_path_factory):
    yield from serve(tmp_path_factory, "--journal", request.param, "--zk-reap", "100ms",
                     "--zk-enforce-quota")


@pytest.fixture(scope="module")
def expected(zookeeper):  # noqa: F811
    return functools.cache(lambda function: run(zookeeper.nodes[0].port, function))


@pytest.mark.parametrize("function", SCENARIOS, ids=lambda f: f.__name__)
def test_the_same_as_zookeeper(function, drover, expected):
    found = differences(expected(function), run(drover.zk_port, function))
    assert not found, "\n".join(found)


SMALL = [create("/a"), create(QUOTA + "/a"),
         create(place("/a", "limits"), b"count=1,bytes=-1=;countHardLimit=2"),
         create(place("/a", "stats")), create("/a/b"), create("/a/c")]


@pytest.mark.parametrize("option, errors, stats", [
    ([], [0] * 6, b"count=3,bytes=0"),
    (["--zk-enforce-quota"], [0] * 5 + [-125], b"count=2,bytes=0")])
def test_limits_are_enforced_only_if_that_is_asked_for(option, errors, stats, start):
    server = start(*option, *KEEPER_ONLY)
    with Client(server.zk_port) as c:
        assert [c.call(request).error for request in SMALL] == errors
        assert c.must(get_data(place("/a", "stats")))[0] == stats
    assert server.stop() == 0
    said = "Quota exceeded: /a [current count=3, hardCountLimit=2]" in server.said
    assert said == bool(option), server.said


def check_counts(c):
    nodes = ["/a"] + ["/a/" + name for name in c.must(get_children("/a"))]
    size = sum(len(c.must(get_data(path))[0]) for path in nodes)
    assert c.must(get_data(place("/a", "stats")))[0] == f"count={len(nodes)},bytes={size}".encode()
    return len(nodes)


def test_counts_are_right_after_a_crash_and_a_snapshot(start):
    options = ["--snapshot-every", "40", "--zk-enforce-quota", *KEEPER_ONLY]
    server = start(*options)
    with Client(server.zk_port) as c:
        session, password = c.session, c.password
        for request in [create("/a", b"12345"), create(QUOTA + "/a"),
                        create(place("/a", "limits"), b"countHardLimit=60"),
                        create(place("/a", "stats"))]:
            c.must(request)
        for n in range(50):
            c.must(create(f"/a/{n}", b"x" * n, flags=n % 2 and EPHEMERAL))
        for n in range(50):
            c.must(set_data(f"/a/{n}", b"y" * 2 * n))
    for _ in range(2):
        server.kill()
        server = start(*options)
        with Client(server.zk_port) as c:
            free = 60 - check_counts(c)
            for n in range(free):
                c.must(create(f"/a/more-{n}"))
            assert c.call(create("/a/too-many")).error == -125
            for n in range(free):
                c.must(delete(f"/a/more-{n}"))
    with Client(server.zk_port, session=session, password=password) as c:
        c.end()
    with Client(server.zk_port) as c:  # the ephemeral nodes have gone with their session
        assert check_counts(c) == 26
