"""The same requests to a real ZooKeeper and to drover: the answers must be the same.

A scenario is a function that makes connections and requests; everything that comes back is written
down (wire_record.py) and compared. Where the two differ, ZooKeeper is right.
"""

import functools

import pytest

from wire_client import *  # noqa: F403: the vocabulary of the scenarios
from wire_record import differences, run
from wire_support import serve  # noqa: F401: a fixture

SCENARIOS = []


def scenario(function):
    SCENARIOS.append(function)
    return function


ABSENT = "/absent"
DIGEST = "user:" + "Dmpwm9d8EYxVA3eBNZOS8wQKrG0="  # of user:password


@scenario
def create_and_its_errors(w):
    a, r = w.connect(), w.root
    a(create(r + "/a", b"data"))
    a(create(r + "/a", b"data"))
    a(create2(r + "/b", b""))
    a(create2(r + "/b", b""))
    a(create(r + "/x/y", b""))
    a(create2(r + "/a/b", b"1"))
    a(get_data(r + "/a"))
    a(get_data(r))
    a(get_children2(r))
    a(create("/", b""))
    a(create2(r + "/big", bytes(1000 * 1000)))
    a(get_data(r + "/big"))


@scenario
def the_first_of_several_errors(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    a(auth("user:password"))
    a(create(r + "/mine", acl=[(ALL, "auth", "")]))
    a(create(r + "/e", flags=EPHEMERAL))
    for request in [create(r + "/.", acl=[]), create(r + "/n", acl=[], flags=7),
                    create(r + "/./x", acl=[]), create(r + "/.", flags=7), create(ABSENT + "/n", acl=[]),
                    create(r, acl=[]), create(r + "/mine/n", acl=[]), create(r + "/mine"),
                    create(r + "/e", flags=EPHEMERAL), create(r + "/mine/n", flags=EPHEMERAL),
                    set_acl(r + "/.", []), set_acl(ABSENT, []), set_acl(r + "/mine", [], 7),
                    set_acl(r + "/mine", OPEN, 7), set_data(r + "/mine", b"", 7),
                    delete(r + "/mine", 7), delete(r, 7), delete(r + "/mine/n", 7),
                    check(r + "/mine", 7)]:
        b(request)
        b(multi(create(r + "/n"), request))


@scenario
def paths_that_are_none(w):
    a, r = w.connect(), w.root
    for bad in ["x", r + "/", r + "//x", r + "/./x", r + "/../x", r + "/.", r + "/..", "//",
                r + "/\x01", r + "/\x7f", r + "/\u009f", r + "/\ud7ff", r + "/\ue000",
                r + "/\ufff0", r + "/\ufffd", r + "/a\0b", r + "/ "]:
        bad = bad.encode(errors="surrogatepass")
        for request in [create(bad), create2(bad, flags=SEQUENTIAL), set_data(bad, b""),
                        delete(bad), set_acl(bad, OPEN), exists(bad), get_data(bad),
                        get_children(bad), get_children2(bad), get_acl(bad), sync(bad),
                        multi(check(bad, 0)), multi(create(bad, flags=EPHEMERAL), delete(bad)),
                        multi_read(get_data(bad), get_children(bad)), all_children_number(bad)]:
            w.note(bad, request.type)
            a(request)


@scenario
def paths_that_are_some(w):
    a, r = w.connect(), w.root
    for good in ["/...", "/a.", "/.a", "/ ", "/a b", "/\u00e9", "/\u4e2d\u6587", "/\ud7ff", "/\uf900",
                 "/\uffef", "/%s", "/-1"]:
        a(create(r + good, b"x"))
        a(get_data(r + good))
    a(get_children(r))


@scenario
def no_data_and_empty_data(w):
    a, r = w.connect(), w.root
    for path, before, after in [("/none", None, b""), ("/empty", b"", None), ("/some", b"x", None)]:
        a(create2(r + path, before))
        a(get_data(r + path))
        a(set_data(r + path, after))
        a(get_data(r + path))
    a(multi(create(r + "/two", None), set_data(r + "/none", None), set_data(r + "/some", b"")))
    a(multi_read(get_data(r + "/two"), get_data(r + "/none"), get_data(r + "/some")))


@scenario
def sequences(w):
    a, r = w.connect(), w.root
    a(create(r + "/q"))
    for _ in range(3):
        a(create2(r + "/q/n-", flags=SEQUENTIAL))
    a(delete(r + "/q/n-0000000001"))
    a(create2(r + "/q/n-", flags=SEQUENTIAL))
    a(create(r + "/q/plain"))
    a(create2(r + "/q/", flags=SEQUENTIAL | EPHEMERAL))
    a(create2(r + "/q/other", flags=SEQUENTIAL))
    a(multi(create(r + "/q/m-", flags=SEQUENTIAL), create(r + "/q/m-", flags=SEQUENTIAL)))
    a(multi(create(r + "/q/f-", flags=SEQUENTIAL), check(r + ABSENT, 0)))
    a(create2(r + "/q/n-", flags=SEQUENTIAL))
    a(get_children2(r + "/q"))


@scenario
def ephemeral_nodes(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    a(create2(r + "/e", b"x", flags=EPHEMERAL))
    a(create(r + "/e/child"))
    b(create(r + "/e/child", flags=EPHEMERAL))
    b(exists(r + "/e"))
    b(set_data(r + "/e", b"yy"))
    b(create2(r + "/mine", flags=EPHEMERAL))
    a(get_ephemerals(r))
    a(get_ephemerals("/"))
    a(get_ephemerals(""))
    a(get_ephemerals(None))
    a(get_ephemerals(r + "/none"))
    a(get_ephemerals(r[:-1]))
    b(exists(r + "/e", watch=True))
    b(get_children(r, watch=True))
    a(close_session())
    b.look()
    b(get_children2(r))
    b(delete(r + "/mine"))
    b(get_ephemerals(r))


@scenario
def set_and_delete_and_versions(w):
    a, r = w.connect(), w.root
    a(create(r + "/n", b"0"))
    a(set_data(r + "/n", b"1", 0))
    a(set_data(r + "/n", b"2", 0))
    a(set_data(r + "/n", b"22", 1))
    a(set_data(r + "/n", b"333"))
    a(set_data(r + "/n", b"4", -2))
    a(set_data(r + ABSENT, b""))
    a(check(r + "/n", 9))
    a(check(r + ABSENT, 0))
    a(create(r + "/n/c"))
    a(delete(r + "/n"))
    a(delete(r + "/n/c", 1))
    a(delete(r + "/n", 2))
    a(delete(r + "/n/c", 0))
    a(exists(r + "/n"))
    a(delete(r + "/n", 2))
    a(delete(r + "/n", 3))
    a(delete(r + "/n"))
    a(exists(r + "/n"))
    for special in ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"]:
        a(delete(special))
    a(get_children(r))


@scenario
def the_root(w):
    a = w.connect()
    a(get_data("/zookeeper"))
    a(get_children2("/zookeeper"))
    a(get_acl("/zookeeper"))
    a(get_acl("/zookeeper/quota"))
    a(get_acl("/zookeeper/config"))
    a(get_data("/zookeeper/quota"))
    a(set_data("/zookeeper/config", b"mine"))
    a(set_acl("/zookeeper/config", OPEN))
    a(create("/zookeeper/config/x"))
    a(get_acl("/"))


@scenario
def reads(w):
    a, r = w.connect(), w.root
    a(create(r + "/n", b"12345"))
    for name in "cab":
        a(create(r + "/n/" + name, name.encode()))
    for path in [r + "/n", r + "/n/a", r + ABSENT]:
        for request in [exists, get_data, get_children, get_children2, get_acl, sync,
                        all_children_number]:
            a(request(path))
    a(sync("/"))
    a(create(r + "/n/a/deep"))
    a(create(r + "/nn"))
    a(all_children_number(r + "/n"))
    a(all_children_number(r))


@scenario
def transactions(w):
    a, r = w.connect(), w.root
    a(multi())
    a(multi(create(r + "/a", b"1"), create2(r + "/a/b", b"22"), set_data(r + "/a", b"x", 0),
            check(r + "/a", 1), delete(r + "/a/b", 0)))
    a(get_data(r + "/a"))
    a(multi(check(r + "/a", 0)))
    a(multi(check(r + "/a", 1)))
    a(multi(create(r + "/c"), create(r + "/c"), create(r + "/d")))
    a(multi(create(r + "/c"), set_data(r + "/a", b"y", 7), delete(r + ABSENT)))
    a(multi(delete(r + "/a"), create(r + "/a", b"again", flags=EPHEMERAL)))
    a(multi(create(r + "/a/child"), check(r + "/a", 0)))
    a(multi(delete(r + ABSENT)))
    a(multi(delete(r)))
    a(multi(set_data(r + "/a", b"z"), set_data(r + "/a", b"zz"), set_data(r + "/a", b"zzz", 2)))
    a(multi(create(r + "/bad", acl=[]), create(r + "/d")))
    a(multi(create(r + "/d"), create(r + "/bad", acl=[(ALL, "nobody", "x")])))
    a(get_children2(r))
    a(get_data(r + "/a"))


@scenario
def transactions_that_are_none(w):
    a, r = w.connect(), w.root
    a(create(r + "/a"))
    for wrong in [set_acl(r + "/a", OPEN), get_data(r + "/a"), exists(r + "/a"), ping(),
                  multi(create(r + "/b")), sync(r)]:
        a(multi(wrong))
        a(multi(create(r + "/b"), wrong))
    a(multi_read(exists(r + "/a")))
    a(multi_read(get_data(r + "/a"), exists(r + "/a")))
    a(multi_read(get_children2(r + "/a")))
    a(get_children2(r))


@scenario
def requests_that_are_none(w):
    for kind in [99, 0, 108, 1000, -2]:
        a = w.connect("a")
        a(Request(kind, b""))
        a.note(a.client.is_closed())  # ZooKeeper may still answer a request that comes at once
    a = w.connect("b")
    a(Request(RECONFIG, text("") + text("") + text("") + i64(-1)))
    a(Request(GET_DATA, get_data(w.root).body + b"and more"))
    a(exists(w.root))


@scenario
def reads_in_a_bundle(w):
    a, r = w.connect(), w.root
    a(create(r + "/a", b"1"))
    a(create(r + "/a/b", b"1"))
    a(create(r + "/secret", b"1", [(ALL, "digest", DIGEST)]))
    a(multi_read())
    a(multi_read(get_data(r + "/a"), get_children(r + "/a"), get_data(r + ABSENT),
                 get_children(r + ABSENT), get_data(r + "/secret"), get_children(r + "/secret"),
                 get_data(r + "/a/b")))
    a(multi_read(get_data(r + "/a", watch=True), get_children(r + "/a", watch=True)))
    a(set_data(r + "/a", b"2"))
    a(create(r + "/a/c", b"2"))
    a.look()


@scenario
def access_lists(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    a(create(r + "/auth", acl=[(ALL, "auth", "")]))
    a(auth("user:password"))
    a(create(r + "/auth", acl=[(ALL, "auth", "")]))
    a(get_acl(r + "/auth"))
    a(create(r + "/auth2", acl=[(1, "auth", "ignored"), (ALL, "auth", "")]))
    a(get_acl(r + "/auth2"))
    a(auth("other:x"))
    a(auth("user:password"))
    a(create(r + "/both", acl=[(ALL, "auth", "")]))
    for acl in [[], [(ALL, "world", "everyone")], [(ALL, "digest", "user")],
                [(ALL, "digest", "user:")], [(ALL, "digest", ":hash")], [(ALL, "digest", "a:b:c")],
                [(ALL, "digest", "a:b:")], [(ALL, "digest", "")], [(ALL, "digest", ":")],
                [(ALL, "ip", "127.0.0.1")], [(ALL, "ip", "127.0.0.1/33")],
                [(ALL, "ip", "127.0.0.1/-1")], [(ALL, "ip", "127.0.0.1/")],
                [(ALL, "ip", "127.0.0.1/ 8")], [(ALL, "ip", "127.0.0")],
                [(ALL, "ip", "127.0.0.256")], [(ALL, "ip", "localhost")], [(ALL, "ip", "127.0.0.1/0")],
                [(ALL, "ip", "127.0.0.1/8/8")], [(ALL, "ip", "")],
                [(ALL, "sasl", "x")], [(ALL, "", "")], [(ALL, "super", "")], [(ALL, "WORLD", "anyone")],
                [(0, "world", "anyone")], [(1, "world", "anyone"), (1, "world", "anyone")],
                [(32, "world", "anyone")], [(-1, "world", "anyone")],
                [(1, "world", "anyone"), (2, "world", "anyone"), (1, "world", "anyone")],
                [(ALL, "world", "anyone"), (ALL, "nonsense", "x")]]:
        w.note(acl)
        a(create(r + "/list-", acl=acl, flags=SEQUENTIAL | EPHEMERAL))
        a(create(r + "/for-set", flags=EPHEMERAL))
        a(set_acl(r + "/for-set", acl))
        a(get_acl(r + "/for-set"))
        a(delete(r + "/for-set"))
    for path in ["/auth", "/both"]:
        b(get_acl(r + path))
        b(get_data(r + path))


@scenario
def what_access_lists_forbid(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    a(auth("user:password"))
    for name, world in [("r", 1), ("w", 2), ("c", 4), ("d", 8), ("a", 16), ("none", 0),
                        ("all", 31)]:
        path = r + "/" + name
        a(create(path, b"x", [(ALL, "auth", ""), (world, "world", "anyone")]))
        a(create(path + "/child", b"x"))
        w.note(name)
        b(get_data(path))
        b(get_children(path))
        b(get_children2(path))
        b(exists(path))
        b(exists(path, watch=True))
        b(get_acl(path))
        b(all_children_number(path))
        b(set_data(path, b"y"))
        b(set_data(path, b"y", 99))
        b(create(path + "/new"))
        b(create2(path + "/new2"))
        b(delete(path + "/child"))
        b(delete(path + "/child", 99))
        b(delete(path + "/missing"))
        b(check(path, 99))
        b(multi(check(path, 0)))
        b(multi(check(path, 1)))
        b(multi(create(path + "/in-multi")))
        b(multi_read(get_data(path), get_children(path)))
        b(set_acl(path, [(ALL, "auth", "")]))
        b(set_acl(path, [(ALL, "auth", "")], 99))
        b(set_acl(path, [(world, "world", "anyone"), (ALL, "digest", DIGEST)], 99))
        b(set_acl(path, [(world, "world", "anyone"), (ALL, "digest", DIGEST)], 0))
        b(get_acl(path))
        a(get_acl(path))
    b(get_children(r + "/r", watch=True))
    b(get_data(r + "/w", watch=True))
    b(get_children(r + "/w", watch=True))
    a(set_data(r + "/w", b"seen?"))
    a(create(r + "/w/seen"))
    b.look()
    b(auth("user:password"))
    b(get_data(r + "/none"))
    b(get_acl(r + "/none"))


@scenario
def acl_versions(w):
    a, r = w.connect(), w.root
    a(create(r + "/n"))
    a(set_acl(r + "/n", OPEN, 1))
    a(set_acl(r + "/n", OPEN, 0))
    a(set_acl(r + "/n", [(1, "world", "anyone"), (16, "world", "anyone")], 1))
    a(get_acl(r + "/n"))
    a(set_acl(r + "/n", OPEN, 1))
    a(set_acl(r + "/n", OPEN))
    a(set_acl(r + ABSENT, OPEN))
    a(exists(r + "/n"))


@scenario
def addresses(w):
    a, r = w.connect(), w.root
    for number, network in enumerate(["127.0.0.1", "127.0.0.0/8", "127.0.0.2", "10.0.0.0/8",
                                      "128.0.0.0/1", "0.0.0.0/0", "127.0.0.3/30", "127.0.0.4/30"]):
        a(create(f"{r}/{number}", b"x", [(ALL, "ip", network)]))
        a(get_data(f"{r}/{number}"))
        a(create(f"{r}/{number}/c"))


@scenario
def who_is_who(w):
    a = w.connect()
    a(who_am_i())
    a(auth("user:password"))
    a(who_am_i())
    a(auth("user:password"))
    a(auth("user:other"))
    a(auth("ann:b:c"))
    a(who_am_i())


@scenario
def credentials(w):
    for credential, scheme in [("", "digest"), ("nocolon", "digest"), (":", "digest"),
                               ("a:", "digest"), ("x", "ip"), ("", "ip"),
                               ("anyone", "world"), ("a:b", "nonsense"), ("a:b", ""),
                               ("a:b", "auth"), ("a:b", "sasl"),
                               ("a:b", None)]:
        a = w.connect(f"{scheme}-{credential}")
        a(auth(credential, scheme))
        a(who_am_i())
        a(create(w.root + "/n-", acl=[(ALL, "auth", "")], flags=SEQUENTIAL))
        a(create(w.root + "/gone", acl=[(ALL, "auth", "")], flags=EPHEMERAL))
        a(get_acl(w.root + "/gone"))
        a(close_session())


@scenario
def watches_fire_once(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    a(create(r + "/n"))
    for watch in [get_data, exists, get_children, get_children2]:
        w.note(watch.__name__)
        b(watch(r + "/n", watch=True))
        a(set_data(r + "/n", b"1"))
        b.look()
        a(set_data(r + "/n", b"2"))
        b.look()
        a(create(r + "/n/c"))
        b.look()
        a(set_data(r + "/n/c", b"3"))
        b.look()
        a(delete(r + "/n/c"))
        b.look()
        a(set_acl(r + "/n", OPEN))
        b.look()
        a(delete(r + "/n"))
        b.look()
        a(create(r + "/n"))
        b.look()


@scenario
def a_watch_on_nothing(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    b(exists(r + "/n", watch=True))
    b(get_data(r + "/n2", watch=True))
    b(get_children(r + "/n2", watch=True))
    a(create(r + "/n"))
    a(create(r + "/n2"))
    b.look()
    b(exists(r + "/m", watch=True))
    a(multi(create(r + "/m"), delete(r + "/m")))
    b.look()


@scenario
def a_deletion_is_told_once(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    a(create(r + "/n"))
    b(get_data(r + "/n", watch=True))
    b(exists(r + "/n", watch=True))
    b(get_children(r + "/n", watch=True))
    b(get_children(r, watch=True))
    a(delete(r + "/n"))
    b.look()
    a(create(r + "/n"))
    b.look()


@scenario
def told_before_the_answer(w):
    """On the connection that makes the change, too."""
    a, r = w.connect(), w.root
    a(exists(r + "/n", watch=True))
    a(get_children(r, watch=True))
    a(create(r + "/n"))
    a(get_data(r + "/n", watch=True))
    a(set_data(r + "/n", b"1"))
    a(get_data(r + "/n", watch=True))
    a(get_children(r + "/n", watch=True))
    a(get_children(r, watch=True))
    a(multi(set_data(r + "/n", b"2"), create(r + "/n/c"), delete(r + "/n/c"), delete(r + "/n")))


@scenario
def watches_on_the_same_by_two(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    a(create(r + "/n"))
    for c in a, b:
        c(get_data(r + "/n", watch=True))
        c(get_children(r + "/n", watch=True))
    a(create(r + "/n/c"))
    a(set_data(r + "/n", b""))
    b.look()


@scenario
def watches_of_a_failed_transaction(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    a(create(r + "/n"))
    b(get_data(r + "/n", watch=True))
    b(get_children(r, watch=True))
    a(multi(set_data(r + "/n", b""), create(r + "/m"), delete(r + ABSENT)))
    b.look()


@scenario
def persistent_watches(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    b(add_watch(r + "/n", PERSISTENT))
    for _ in range(2):
        a(create(r + "/n"))
        a(set_data(r + "/n", b"1"))
        a(set_data(r + "/n", b"2"))
        a(create(r + "/n/c"))
        a(set_data(r + "/n/c", b"3"))
        a(delete(r + "/n/c"))
        a(set_acl(r + "/n", OPEN))
        a(delete(r + "/n"))
        b.look()
    a(multi(create(r + "/n"), set_data(r + "/n", b""), set_data(r + "/n", b""), delete(r + "/n")))
    b.look()


@scenario
def recursive_watches(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    b(add_watch(r + "/n", RECURSIVE))
    for _ in range(2):
        a(create(r + "/n"))
        a(set_data(r + "/n", b"1"))
        a(create(r + "/n/c"))
        a(create(r + "/n/c/d"))
        a(create(r + "/nn"))
        a(set_data(r + "/n/c/d", b"3"))
        a(delete(r + "/n/c/d"))
        a(delete(r + "/n/c"))
        a(delete(r + "/nn"))
        a(delete(r + "/n"))
        b.look()


@scenario
def watches_above_each_other(w):
    """However many of its watches a change fires, a connection gets one event."""
    a, b, r = w.connect("a"), w.connect("b"), w.root
    b(add_watch(r, RECURSIVE))
    b(add_watch(r + "/n", RECURSIVE))
    b(add_watch(r + "/n/p", PERSISTENT))
    a(create(r + "/n"))
    a(create(r + "/n/c"))
    b(get_data(r + "/n/c", watch=True))
    b(get_children(r + "/n/c", watch=True))
    a(set_data(r + "/n/c", b""))
    b.look()
    a(create(r + "/n/c/d"))
    b.look()
    a(delete(r + "/n/c/d"))
    b(get_data(r + "/n/c", watch=True))
    b(get_children(r + "/n/c", watch=True))
    a(delete(r + "/n/c"))
    b.look()
    a(create(r + "/n/p"))
    a(create(r + "/n/p/q"))
    a(set_data(r + "/n/p", b""))
    a(multi(set_data(r + "/n/p", b"1"), set_data(r + "/n/p", b"2")))
    b.look()


@scenario
def a_watch_on_the_root(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    b(add_watch("/", RECURSIVE))
    a(create(r + "/n"))
    a(delete(r + "/n"))
    b.look()
    b(remove_watches("/", ANY_WATCH))
    b(add_watch("/", PERSISTENT))
    a(create(r + "/n"))
    a(create("/beside-" + r[1:]))
    a(delete("/beside-" + r[1:]))
    b.look()


@scenario
def watches_of_what_may_not_be_read(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    secret = [(ALL, "digest", DIGEST)]
    a(auth("user:password"))
    b(add_watch(r, RECURSIVE))
    b(add_watch(r + "/p", PERSISTENT))
    a(create(r + "/n", acl=secret))
    a(set_data(r + "/n", b"1"))
    a(create(r + "/n/open"))
    a(set_data(r + "/n/open", b"1"))
    a(delete(r + "/n/open"))
    a(delete(r + "/n"))
    a(create(r + "/p", acl=secret))
    a(create(r + "/p/c"))
    a(set_data(r + "/p", b"1"))
    a(delete(r + "/p/c"))
    a(delete(r + "/p"))
    b.look()
    a(create(r + "/late"))
    b.look()
    a(set_acl(r + "/late", secret))
    a(set_data(r + "/late", b"1"))
    a(delete(r + "/late"))
    b.look()


@scenario
def a_watch_that_may_not_read_any_more(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    a(auth("user:password"))
    a(create(r + "/n"))
    b(get_data(r + "/n", watch=True))
    b(get_children(r + "/n", watch=True))
    a(set_acl(r + "/n", [(ALL, "digest", DIGEST)]))
    a(set_data(r + "/n", b"1"))
    a(create(r + "/n/c"))
    b.look()
    a(set_acl(r + "/n", OPEN))
    a(set_data(r + "/n", b"2"))
    a(delete(r + "/n/c"))
    b.look()
    b(exists(r + "/e", watch=True))
    a(create(r + "/e", acl=[(ALL, "digest", DIGEST)], flags=EPHEMERAL))
    b.look()
    b(exists(r + "/e", watch=True))
    a(close_session())
    b.look()


@scenario
def removing_watches(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    a(create(r + "/n"))
    b(remove_watches(r + "/n", ANY_WATCH))
    b(remove_watches(r + ABSENT, DATA_WATCH))
    b(check_watches(r + "/n", ANY_WATCH))
    b(get_data(r + "/n", watch=True))
    b(remove_watches(r + "/n", CHILDREN_WATCH))
    b(check_watches(r + "/n", DATA_WATCH))
    b(check_watches(r + "/n", ANY_WATCH))
    b(remove_watches(r + "/n", DATA_WATCH))
    b(remove_watches(r + "/n", DATA_WATCH))
    a(set_data(r + "/n", b"1"))
    b.look()
    b(get_data(r + "/n", watch=True))
    b(get_children(r + "/n", watch=True))
    b(remove_watches(r + "/n", DATA_WATCH))
    a(set_data(r + "/n", b"1"))
    a(create(r + "/n/c"))
    b.look()
    b(get_data(r + "/n", watch=True))
    b(get_children(r + "/n", watch=True))
    b(remove_watches(r + "/n", CHILDREN_WATCH))
    a(create(r + "/n/d"))
    a(set_data(r + "/n", b"1"))
    b.look()
    b(get_data(r + "/n", watch=True))
    b(get_children(r + "/n", watch=True))
    b(remove_watches(r + "/n", ANY_WATCH))
    a(create(r + "/n/e"))
    a(set_data(r + "/n", b"1"))
    b.look()
    b(exists(r + ABSENT, watch=True))
    b(remove_watches(r + ABSENT, DATA_WATCH))
    for mode in PERSISTENT, RECURSIVE:
        b(add_watch(r + "/n", mode))
        b(check_watches(r + "/n", ANY_WATCH))
        b(remove_watches(r + "/n", ANY_WATCH))
        a(set_data(r + "/n", b"1"))
        a(create(r + "/n/f"))
        a(delete(r + "/n/f"))
        b.look()


@scenario
def watch_kinds_that_are_none(w):
    a, r = w.connect(), w.root
    a(add_watch(r, 2))
    a(add_watch(r, -1))
    a(remove_watches(r, 0))
    a(check_watches(r, -1))
    a(check_watches(r, 9))
    a(exists(r))


@scenario
def watches_from_an_earlier_connection(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    names = ["same", "changed", "child", "gone", "again"]
    for name in names:
        a(create(f"{r}/{name}"))
    zxid = b(exists(r)).zxid
    a(set_data(r + "/changed", b"1"))
    a(create(r + "/child/c"))
    a(delete(r + "/gone"))
    a(delete(r + "/again"))
    a(create(r + "/again"))
    a(create(r + "/new"))
    paths = [f"{r}/{name}" for name in names + ["new", "never"]]
    for data, exist, children in [(paths, [], []), ([], paths, []), ([], [], paths)]:
        c = w.connect("c")
        c(set_watches(zxid, data, exist, children))
        c.look()
        for path in paths[:4]:
            a(create(path + "/later", flags=EPHEMERAL))
            a(delete(path + "/later"))
        a(set_data(r + "/same", b"2"))
        a(create(r + "/never"))
        a(delete(r + "/never"))
        c.look()
        now = c(exists(r)).zxid
        c(set_watches(now, data, exist, children))
        c.look()
        a(set_data(r + "/same", b"2"))
        a(create(r + "/never"))
        a(delete(r + "/never"))
        c.look()


@scenario
def watches_on_what_was_seen(w):
    """A client knows the transaction that it has seen last: only later ones are news."""
    a, b, r = w.connect("a"), w.connect("b"), w.root
    a(create(r + "/n"))
    changed = a(set_data(r + "/n", b"1")).zxid
    child = a(create(r + "/n/c")).zxid
    for since in changed - 1, changed, child - 1, child:
        b(set_watches(since, data=[r + "/n"]))
        b.look()
        b(set_watches(since, children=[r + "/n"]))
        b.look()


@scenario
def all_watches_from_an_earlier_connection(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    zxid = b(exists(r)).zxid
    a(create(r + "/n"))
    a(create(r + "/m"))
    b(set_watches(zxid, [r + "/n", r + "/gone"], [r + "/n", r + "/later"], [r + "/n", r + "/gone"],
                  [r + "/n", r + "/p"], [r + "/m"]))
    b.look()
    a(set_data(r + "/n", b"1"))
    a(create(r + "/n/c"))
    a(create(r + "/later"))
    a(create(r + "/p"))
    a(create(r + "/m/x"))
    a(set_data(r + "/m/x", b""))
    a(delete(r + "/m/x"))
    b.look()
    b(set_watches(zxid, [], [], [], [], []))
    b(set_watches(zxid))


@scenario
def sessions_that_are_none(w):
    a = w.connect("a")
    session, password = a.client.session, a.client.password
    wrong = bytes(byte ^ 1 for byte in password)
    for name, more in [("wrong", {"password": wrong}), ("short", {"password": password[:8]}),
                       ("long", {"password": password + b"\0"}), ("empty", {"password": b""}),
                       ("unknown", {"session": session + 77})]:
        other = w.connect(name, **({"session": session, "password": password} | more))
        other.note(other.client.session, other.client.timeout_ms, other.client.password,
                   other.client.is_closed())


@scenario
def the_largest_packet(w):
    a, r = w.connect("a"), w.root
    room = 1024 * 1024 - 1 - 8 - len(set_data(r, b"").body)
    a(set_data(r, b"x" * room))
    a(exists(r))
    a(set_data(r, b"x" * (room + 1)))
    w.connect("b")(exists(r))


@scenario
def a_session_goes_on(w):
    a, b = w.connect("a"), w.connect("b")
    a(create2(w.root + "/mine", flags=EPHEMERAL))
    again = w.connect("again", session=a.client.session, password=a.client.password,
                      seen=a.client.zxid)
    again.note(again.client.session == a.client.session, again.client.password == a.client.password)
    a.note(a.client.is_closed())
    again(get_ephemerals("/"))
    again(create2(w.root + "/mine2", flags=EPHEMERAL))
    again(who_am_i())
    a.client.close()
    b(get_children2(w.root))
    again(close_session())
    b(get_children2(w.root))


@scenario
def timeouts(w):
    a = w.connect("a", timeout_ms=7000)
    a.note(a.client.timeout_ms)
    low = w.connect("low", timeout_ms=-5)
    low.note(low.client.timeout_ms)
    again = w.connect("again", timeout_ms=4000, session=a.client.session,
                      password=a.client.password)
    again.note(again.client.timeout_ms)


@scenario
def a_closed_session_is_closed(w):
    a, b = w.connect("a"), w.connect("b")
    a(create(w.root + "/e", flags=EPHEMERAL))
    a(close_session())
    a.note(a.client.is_closed())
    again = w.connect("again", session=a.client.session, password=a.client.password)
    again.note(again.client.session, again.client.is_closed())
    b(get_children2(w.root))


@scenario
def what_its_own_end_tells_a_session(w):
    a, r = w.connect("a"), w.root
    a(create(r + "/e", flags=EPHEMERAL))
    a(exists(r + "/e", watch=True))
    a(get_children(r, watch=True))
    a(add_watch(r, PERSISTENT))
    a(close_session())
    a.note(a.client.is_closed())


@scenario
def flags_that_are_none(w):
    a = w.connect()
    for flags in [7, 8, -1, 1 << 20]:
        a(create(w.root + "/n", flags=flags))
        a(create2(w.root + "/n", flags=flags))
        a(multi(create(w.root + "/n", flags=flags)))
    a(get_children(w.root))


@scenario
def containers(w):
    a, r = w.connect(), w.root
    a(create_container(r + "/c", b"x"))
    a(create_container(r + "/c"))
    a(create_container(ABSENT + "/c"))
    a(get_data(r + "/c"))
    a(create2(r + "/c/child", flags=EPHEMERAL))
    a(exists(r + "/c"))
    a(multi(create_container(r + "/m"), create(r + "/m/child"), create(r + "/m/x"), delete(r + "/m/x")))
    a(multi(create_container(r + "/n"), check(r + ABSENT, 0)))
    for flags in [0, 2, 4]:
        a(create_container(r + f"/flags{flags}-", flags=flags))
    a(create(r + "/mode", flags=CONTAINER))
    a(create2(r + "/mode2", flags=CONTAINER))
    a(multi(create(r + "/mode3", flags=CONTAINER)))
    a(get_ephemerals(r))
    a(get_children2(r))
    a(create_container(r + "/bad/"))


@scenario
def events_and_access_lists_of_one_transaction(w):
    """An event is told by the list that the node had at that operation."""
    a, b, r = w.connect("a"), w.connect("b"), w.root
    closed = [(2, "world", "anyone")]
    for before, after in ((OPEN, closed), (closed, OPEN)):
        a(create(r + "/n", b"x", acl=before))
        b(exists(r + "/n", watch=True))
        a(multi(delete(r + "/n"), create(r + "/n", b"y", acl=after)))
        a(multi(delete(r + "/n"), create(r + "/n", acl=before), delete(r + "/n")))


@scenario
def times_to_live(w):
    a, r = w.connect(), w.root
    a(create_ttl(r + "/t", 3600 * 1000, b"x"))
    a(create_ttl(r + "/t", 3600 * 1000))
    a(get_data(r + "/t"))
    a(create(r + "/t/child"))
    a(create_ttl(r + "/s-", 3600 * 1000, flags=TTL + 1))
    a(multi(create_ttl(r + "/m", 3600 * 1000), delete(r + "/t/child")))
    for ttl_ms in [0, -1, 1 << 40, (1 << 40) - 1, 1 << 62]:
        a(create_ttl(r + "/wrong", ttl_ms))
        a(multi(create_ttl(r + "/wrong2", ttl_ms)))
    for flags in [0, 1, 2, 3, 4]:
        a(create_ttl(r + "/plain", 1000, flags=flags))
    for flags in [TTL, TTL + 1]:
        a(create(r + "/mode", flags=flags))
        a(create2(r + "/mode", flags=flags))
        a(multi(create(r + "/mode", flags=flags)))
        a(create_container(r + "/mode", flags=flags))
    a(get_children2(r))


@scenario
def ends_of_containers_and_times_to_live(w):
    """Both servers look every 100 ms. What is deleted is told."""
    a, b, r = w.connect("a"), w.connect("b"), w.root
    for path in ["/c", "/never", "/full"]:
        a(create_container(r + path))
    a(create(r + "/full/child"))
    a(create_ttl(r + "/t", 1))
    b(exists(r + "/t", watch=True))
    b.wait()
    b(exists(r + "/t"))
    b(exists(r + "/c", watch=True))
    a(create(r + "/c/child"))
    a(delete(r + "/c/child"))
    b.wait()
    b(get_children(r))


@pytest.fixture(scope="module", params=["strict", "opportunistic", "none"])
def drover(request, tmp_path_factory):
    yield from serve(tmp_path_factory, "--journal", request.param, "--zk-reap", "100ms")


@pytest.fixture(scope="module")
def expected(zookeeper):  # noqa: F811
    """What ZooKeeper says to a scenario, which it is asked only once."""
    return functools.cache(lambda function: run(zookeeper.nodes[0].port, function))


@pytest.mark.parametrize("function", SCENARIOS, ids=lambda f: f.__name__)
def test_the_same_as_zookeeper(function, drover, expected):
    found = differences(expected(function), run(drover.zk_port, function))
    assert not found, "\n".join(found)
