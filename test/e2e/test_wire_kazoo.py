"""Debian's kazoo, unchanged, on the ZooKeeper port: every call, every error, every recipe.

Each recipe is used by several clients at once, the way it is meant to be used.
"""

import contextlib
import functools
import itertools
import queue
import threading
import time

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (AuthFailedError, BadArgumentsError, BadVersionError, CancelledError,
                              InvalidACLError, LockTimeout, NoAuthError,
                              NoChildrenForEphemeralsError, NodeExistsError, NoNodeError,
                              NotEmptyError, RolledBackError, RuntimeInconsistency)
from kazoo.protocol.states import EventType
from kazoo.recipe.cache import TreeCache, TreeEvent
from kazoo.recipe.partitioner import SetPartitioner
from kazoo.security import (ACL, Id, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_acl,
                            make_digest_acl, make_digest_acl_credential)

from conftest import wait_until
from wire_client import Client
from wire_support import Proxy, drover  # noqa: F401: a fixture

WAIT_S = 60
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kazoo.*")


@pytest.fixture
def hosts(drover, request):  # noqa: F811
    """The server and a chroot of the test's own."""
    root = "/" + request.node.name.replace("[", "-").replace("]", "")
    with started(f"127.0.0.1:{drover.zk_port}") as one:
        one.create(root)
    return f"127.0.0.1:{drover.zk_port}{root}"


@contextlib.contextmanager
def started(hosts, **more):  # noqa: F811
    client = KazooClient(hosts=hosts, **more)
    client.start(timeout=WAIT_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


@pytest.fixture
def connect(hosts):
    """Makes clients and ends them."""
    with contextlib.ExitStack() as stack:
        yield lambda **more: stack.enter_context(started(hosts, **more))


@pytest.fixture
def client(connect):
    return connect()


def run_all(*functions):
    """Each in a thread of its own; the results in their order."""
    results, troubles = [None] * len(functions), []

    def run(i, function):
        try:
            results[i] = function()
        except BaseException as trouble:  # noqa: B902: it is raised again below
            troubles.append(trouble)

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive(), "does not come to an end"
    if troubles:
        raise troubles[0]
    return results


class Inside:
    """How many are in a place at once, and the most there ever were."""

    def __init__(self):
        self.lock, self.now, self.most, self.entered = threading.Lock(), 0, 0, 0

    def __enter__(self):
        with self.lock:
            self.now += 1
            self.entered += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_):
        with self.lock:
            self.now -= 1


def end_session(client, port):
    """As a server does to a client that it has not heard of for too long."""
    session, password = client.client_id
    with Client(port, session=session, password=password) as usurper:
        usurper.end()


# Calls.

def test_create_get_set_delete(client):
    assert client.create("/a", b"1") == "/a"
    path, stat = client.create("/b", b"22", include_data=True)
    assert (path, stat.data_length, stat.version) == ("/b", 2, 0)
    assert client.create("/deep/er/still", b"", makepath=True) == "/deep/er/still"
    data, stat = client.get("/a")
    assert (data, stat.version, stat.numChildren, stat.ephemeralOwner) == (b"1", 0, 0, 0)
    assert stat.czxid == stat.mzxid and abs(stat.created - time.time()) < 60
    assert client.set("/a", b"333", version=0).version == 1
    assert client.get("/a")[0] == b"333"
    assert client.exists("/a").dataLength == 3 and client.exists("/none") is None
    assert sorted(client.get_children("/")) == ["a", "b", "deep"]
    children, stat = client.get_children("/", include_data=True)
    assert len(children) == stat.numChildren == 3
    client.delete("/a", version=1)
    client.delete("/deep", recursive=True)
    assert client.get_children("/") == ["b"]
    assert client.sync("/") == "/"
    client.ensure_path("/x/y/z")
    assert client.get("/x/y/z")[0] == b""


def test_every_error(client):
    client.create("/a")
    client.create("/a/b")
    client.create("/e", ephemeral=True)
    for error, call in [
            (NoNodeError, lambda: client.get("/none")),
            (NoNodeError, lambda: client.set("/none", b"")),
            (NoNodeError, lambda: client.delete("/none")),
            (NoNodeError, lambda: client.get_children("/none")),
            (NoNodeError, lambda: client.get_acls("/none")),
            (NoNodeError, lambda: client.set_acls("/none", OPEN_ACL_UNSAFE)),
            (NoNodeError, lambda: client.create("/none/x")),
            (NodeExistsError, lambda: client.create("/a")),
            (NotEmptyError, lambda: client.delete("/a")),
            (BadVersionError, lambda: client.set("/a", b"", version=1)),
            (BadVersionError, lambda: client.delete("/a/b", version=1)),
            (BadVersionError, lambda: client.set_acls("/a", OPEN_ACL_UNSAFE, version=1)),
            (NoChildrenForEphemeralsError, lambda: client.create("/e/x")),
            (InvalidACLError, lambda: client.create("/x", acl=[ACL(31, Id("auth", ""))])),
            (InvalidACLError, lambda: client.set_acls("/a", [ACL(31, Id("none", "x"))])),
            (BadArgumentsError, lambda: client.create("/\x01"))]:
        with pytest.raises(error):
            call()
    assert client.get_children("/a") == ["b"]


def test_names_of_every_alphabet(client):
    for name in ["\u00e9\u00e8", "\u4e2d\u6587", "with space", "...", "-", "%2F"]:
        client.create("/" + name, name.encode())
        assert client.get("/" + name)[0] == name.encode()
    assert len(client.get_children("/")) == 6


def test_a_thousand_calls_at_once(client):
    """Answers come in the order of the calls."""
    client.create("/n", b"-1")
    order, calls = [], []
    for i in range(500):
        for call in [client.set_async("/n", b"%d" % i), client.get_async("/n")]:
            call.rawlink(lambda done, number=len(calls): order.append(number))
            calls.append(call)
    values = [call.get(timeout=WAIT_S) for call in calls]
    assert [value[0] for value in values[1::2]] == [b"%d" % i for i in range(500)]
    assert [value.version for value in values[::2]] == list(range(1, 501))
    wait_until(lambda: len(order) == len(calls))
    assert order == sorted(order)


def test_what_the_server_says_of_itself(client):
    assert client.server_version() >= (3, 4)
    assert client.command(b"ruok") == "imok"
    assert "Mode: standalone" in client.command(b"srvr")
    assert client.client_state == "CONNECTED"


def test_sequence_and_ephemeral(connect):
    a, b = connect(), connect()
    a.create("/q")
    assert [c.create("/q/n-", sequence=True) for c in (a, b, a)] == [
        f"/q/n-{i:010}" for i in range(3)]
    a.delete("/q/n-0000000002")
    assert b.create("/q/n-", sequence=True, ephemeral=True) == "/q/n-0000000003"
    assert a.exists("/q/n-0000000003").ephemeralOwner == b.client_id[0]
    b.stop()
    assert sorted(a.get_children("/q")) == ["n-0000000000", "n-0000000001"]


# Transactions.

def test_a_transaction_happens_whole(client):
    client.create("/old")
    t = client.transaction()
    t.create("/new", b"1")
    t.create("/new/seq-", sequence=True, ephemeral=True)
    t.set_data("/old", b"2", version=0)
    t.check("/old", version=1)
    t.delete("/new/seq-0000000000")
    results = t.commit()
    assert results[:2] == ["/new", "/new/seq-0000000000"] and results[3:] == [True, True]
    assert results[2].version == 1
    assert client.get("/old")[0] == b"2" and client.get_children("/new") == []
    assert client.exists("/new").czxid == client.exists("/old").mzxid


def test_a_transaction_that_fails_leaves_nothing(client):
    with client.transaction() as t:
        t.create("/a")
    t = client.transaction()
    t.create("/b")
    t.set_data("/a", b"x")
    t.check("/a", version=5)
    t.delete("/a")
    results = t.commit()
    assert [type(r) for r in results] == [RolledBackError, RolledBackError, BadVersionError,
                                          RuntimeInconsistency]
    assert client.get_children("/") == ["a"] and client.get("/a")[0] == b""


# Access.

@pytest.fixture
def owner(connect):
    return connect(auth_data=[("digest", "owner:secret")])


CALLS = {
    "read": [lambda c, p: c.get(p), lambda c, p: c.get_children(p)],
    "write": [lambda c, p: c.set(p, b"")],
    "create": [lambda c, p: c.create(p + "/new"), lambda c, p: c.delete(p + "/new")],
    "delete": [lambda c, p: c.delete(p + "/child"), lambda c, p: c.create(p + "/child")],
    "admin": [lambda c, p: c.set_acls(p, c.get_acls(p)[0])],
}


@pytest.mark.parametrize("allowed", CALLS)
def test_what_a_permission_allows_and_what_it_does_not(connect, owner, allowed):
    """Everybody may do one thing. Undoing it needs another permission, so that the owner does."""
    stranger = connect()
    everybody = make_acl("world", "anyone", **{allowed: True})
    owner.create("/n", b"x", acl=[make_acl("auth", "", all=True), everybody])
    owner.create("/n/child")
    for name, (call, *undo) in CALLS.items():
        if name == allowed:
            call(stranger, "/n")
            for back in undo:
                back(owner, "/n")
        else:
            with pytest.raises(NoAuthError):
                call(stranger, "/n")
        if name == "admin":
            owner.set_acls("/n", owner.get_acls("/n")[0])
    owner.delete("/n", recursive=True)


def test_who_may_do_what_is_known_by_digest(connect, owner):
    credential = make_digest_acl_credential("owner", "secret")
    owner.create("/auth", acl=[make_acl("auth", "", all=True)])
    owner.create("/digest", acl=[make_digest_acl("owner", "secret", all=True)])
    assert owner.get_acls("/auth")[0] == owner.get_acls("/digest")[0] == [
        ACL(31, Id("digest", credential))]
    stranger = connect()
    for path in "/auth", "/digest":
        for call in [stranger.get, stranger.get_acls, stranger.get_children]:
            with pytest.raises(NoAuthError):
                call(path)
    assert stranger.exists("/auth")
    stranger.add_auth("digest", "owner:wrong")
    with pytest.raises(NoAuthError):
        stranger.get("/auth")
    stranger.add_auth("digest", "owner:secret")
    assert stranger.get("/auth")[0] == b""


def test_who_may_do_what_is_known_by_address(client):
    client.create("/here", acl=[make_acl("ip", "127.0.0.1", all=True)])
    client.create("/near", acl=[make_acl("ip", "127.0.0.0/8", all=True)])
    client.create("/far", acl=[make_acl("ip", "10.0.0.0/8", all=True)])
    client.get("/here")
    client.get("/near")
    with pytest.raises(NoAuthError):
        client.get("/far")


def test_access_lists_have_versions(client):
    client.create("/n")
    assert client.get_acls("/n")[0] == OPEN_ACL_UNSAFE
    assert client.set_acls("/n", OPEN_ACL_UNSAFE + READ_ACL_UNSAFE, version=0).aversion == 1
    acls, stat = client.get_acls("/n")
    assert (acls, stat.aversion, stat.version) == (OPEN_ACL_UNSAFE + READ_ACL_UNSAFE, 1, 0)
    with pytest.raises(BadVersionError):
        client.set_acls("/n", OPEN_ACL_UNSAFE, version=0)


def test_a_client_is_known_again_after_a_reconnection(drover, connect, owner):  # noqa: F811
    owner.create("/n", acl=[make_acl("auth", "", all=True)])
    with Proxy(drover.zk_port) as proxy:
        with started(f"127.0.0.1:{proxy.port}{owner.chroot}",
                     auth_data=[("digest", "owner:secret")]) as c:
            c.get("/n")
            proxy.cut()
            assert c.retry(c.get, "/n")[0] == b""


def test_a_scheme_that_is_none_fails(connect):
    with pytest.raises(AuthFailedError):
        connect().add_auth("nonsense", "x:y")


# Watches.

def test_a_watch_tells_once(connect):
    a, b = connect(), connect()
    told = queue.Queue()
    a.create("/n")
    b.get("/n", watch=told.put)
    b.get_children("/n", watch=told.put)
    b.exists("/later", watch=told.put)
    a.set("/n", b"1")
    a.set("/n", b"2")
    a.create("/n/c")
    a.create("/n/d")
    a.create("/later")
    events = [told.get(timeout=WAIT_S) for _ in range(3)]
    assert [(e.type, e.path) for e in events] == [
        (EventType.CHANGED, "/n"), (EventType.CHILD, "/n"), (EventType.CREATED, "/later")]
    b.sync("/")
    assert told.empty()


def test_a_data_watch_sees_the_last_value(connect):
    a, b = connect(), connect()
    seen = []

    @b.DataWatch("/n")
    def watch(data, stat, event):
        seen.append((data, event and event.type))

    assert seen == [(None, None)]
    a.create("/n", b"0")
    wait_until(lambda: seen[-1] == (b"0", EventType.CREATED))
    for i in range(1, 50):
        a.set("/n", b"%d" % i)
    wait_until(lambda: seen[-1][0] == b"49")
    values = [int(data) for data, _ in seen[1:]]
    assert values == sorted(set(values))
    a.delete("/n")
    wait_until(lambda: seen[-1] == (None, EventType.DELETED))


def test_a_children_watch_sees_the_last_children(connect):
    a, b = connect(), connect()
    seen = []
    a.create("/p")

    @b.ChildrenWatch("/p")
    def watch(children):
        seen.append(sorted(children))

    names = [f"{i:02}" for i in range(20)]
    for name in names:
        a.create("/p/" + name)
    wait_until(lambda: seen[-1] == names)
    for name in names:
        a.delete("/p/" + name)
    wait_until(lambda: seen[-1] == [])
    assert [len(s) for s in seen[:seen.index(names)]] == sorted(
        {len(s) for s in seen[:seen.index(names)]})


def test_watches_outlive_a_connection(drover, client):  # noqa: F811
    """A client sees the changes made while it was disconnected. (kazoo reads again by itself.)"""
    seen = {}
    for path in "/data", "/gone", "/children":
        client.create(path)
    with Proxy(drover.zk_port) as proxy:
        with started(f"127.0.0.1:{proxy.port}{client.chroot}") as away:
            for path in "/data", "/gone", "/new":
                away.DataWatch(path, functools.partial(remember, seen, path))
            away.ChildrenWatch("/children", functools.partial(remember, seen, "/children"))
            assert seen == {"/data": b"", "/gone": b"", "/new": None, "/children": []}
            session = away.client_id
            proxy.refuse = True
            proxy.cut()
            client.set("/data", b"1")
            client.delete("/gone")
            client.create("/children/c")
            client.create("/new")
            proxy.refuse = False
            wait_until(lambda: seen == {"/data": b"1", "/gone": None, "/new": b"",
                                        "/children": ["c"]})
            client.set("/data", b"2")
            client.create("/children/d")
            wait_until(lambda: seen["/data"] == b"2" and len(seen["/children"]) == 2)
            assert away.client_id == session


def remember(seen, path, value, *_):
    seen[path] = value


# Sessions.

def test_a_session_outlives_a_connection(drover, client):  # noqa: F811
    states = []
    with Proxy(drover.zk_port) as proxy:
        with started(f"127.0.0.1:{proxy.port}{client.chroot}") as c:
            c.add_listener(states.append)
            c.create("/e", ephemeral=True)
            session = c.client_id
            for _ in range(3):
                proxy.cut()
                assert c.retry(c.exists, "/e").ephemeralOwner == session[0]
            assert c.client_id == session
            wait_until(lambda: states[-1] == KazooState.CONNECTED)
    assert KazooState.LOST not in states[:-1]
    assert client.exists("/e") is None


def test_a_session_goes_on_in_another_client(hosts, connect):
    client = connect()
    client.create("/e", ephemeral=True)
    session = client.client_id
    with started(hosts, client_id=session) as heir:
        assert heir.client_id == session
        assert heir.exists("/e").ephemeralOwner == session[0]


def test_a_session_that_expires_is_lost(drover, connect):  # noqa: F811
    client, other = connect(), connect()
    states = queue.Queue()
    client.add_listener(states.put)
    client.create("/e", ephemeral=True)
    session = client.client_id
    end_session(client, drover.zk_port)
    while states.get(timeout=WAIT_S) != KazooState.LOST:
        pass
    while states.get(timeout=WAIT_S) != KazooState.CONNECTED:
        pass
    assert client.client_id[0] != session[0]
    assert other.exists("/e") is None
    client.create("/e", ephemeral=True)


# Recipes.

def test_lock(connect):
    """A counter that is read and written without any care is right when a lock guards it."""
    clients, rounds = [connect() for _ in range(4)], 10
    clients[0].create("/counter", b"0")
    inside = Inside()

    def count(client, name):
        lock = client.Lock("/lock", name)
        for _ in range(rounds):
            with lock, inside:
                value = int(client.get("/counter")[0])
                client.set("/counter", b"%d" % (value + 1))

    run_all(*(lambda c=c, i=i: count(c, f"client-{i}") for i, c in enumerate(clients)))
    assert int(clients[0].get("/counter")[0]) == len(clients) * rounds
    assert inside.most == 1
    assert clients[0].Lock("/lock").contenders() == []


def test_lock_that_is_not_given(connect):
    a, b = connect(), connect()
    held, wanted = a.Lock("/lock", "a"), b.Lock("/lock", "b")
    assert held.acquire()
    assert not wanted.acquire(blocking=False)
    with pytest.raises(LockTimeout):
        wanted.acquire(timeout=0.2)
    waiting = threading.Thread(target=lambda: pytest.raises(CancelledError, wanted.acquire))
    waiting.start()
    wait_until(lambda: held.contenders() == ["a", "b"])
    wanted.cancel()
    waiting.join(WAIT_S)
    assert not waiting.is_alive() and held.contenders() == ["a"]
    held.release()
    assert wanted.acquire(timeout=WAIT_S)
    wanted.release()


def test_lock_of_a_session_that_expired(drover, connect):  # noqa: F811
    a, b = connect(), connect()
    assert a.Lock("/lock", "a").acquire()
    taken = threading.Thread(target=lambda: b.Lock("/lock", "b").acquire())
    taken.start()
    wait_until(lambda: b.Lock("/lock").contenders() == ["a", "b"])
    end_session(a, drover.zk_port)
    taken.join(WAIT_S)
    assert not taken.is_alive() and b.Lock("/lock").contenders() == ["b"]


def test_read_and_write_lock(connect):
    """Readers are in together, a writer alone. One after the other: kazoo's readers also wait for
    writers that came after them, which ends in a deadlock, on ZooKeeper as well."""
    clients = [connect() for _ in range(3)]
    first, second = (c.ReadLock("/lock") for c in clients[:2])
    writer = clients[2].WriteLock("/lock")
    for _ in range(3):
        assert first.acquire(timeout=WAIT_S) and second.acquire(timeout=WAIT_S)
        assert not writer.acquire(blocking=False)
        waiting = threading.Thread(target=writer.acquire)
        waiting.start()
        wait_until(lambda: len(clients[0].get_children("/lock")) == 3)
        first.release()
        assert not writer.is_acquired
        second.release()
        waiting.join(WAIT_S)
        assert writer.is_acquired
        assert not first.acquire(blocking=False) and not second.acquire(blocking=False)
        waiting = threading.Thread(target=first.acquire)
        waiting.start()
        wait_until(lambda: len(clients[0].get_children("/lock")) == 2)
        assert not first.is_acquired
        writer.release()
        waiting.join(WAIT_S)
        assert first.is_acquired and second.acquire(timeout=WAIT_S)
        first.release()
        second.release()


def test_semaphore(connect):
    clients = [connect() for _ in range(4)]
    inside, full = Inside(), threading.Barrier(2, timeout=WAIT_S)

    def work(client, name):
        semaphore = client.Semaphore("/semaphore", name, max_leases=2)
        for _ in range(3):
            with semaphore, inside:
                full.wait()  # passes only when two are in at once

    run_all(*(lambda c=c, i=i: work(c, f"client-{i}") for i, c in enumerate(clients)))
    assert (inside.most, inside.entered) == (2, 12)
    assert clients[0].Semaphore("/semaphore", max_leases=2).lease_holders() == []


def test_election(connect):
    """Leaders follow each other in the order in which they stood for election."""
    clients = [connect() for _ in range(3)]
    elections = [c.Election("/election", f"client-{i}") for i, c in enumerate(clients)]
    leading, order, go_on = Inside(), [], [threading.Event() for _ in clients]

    def lead(i):
        with leading:
            order.append(i)
            assert go_on[i].wait(WAIT_S)

    threads = []
    for i, election in enumerate(elections):
        threads.append(threading.Thread(target=election.run, args=(lead, i)))
        threads[-1].start()
        wait_until(lambda i=i: len(elections[0].contenders()) == i + 1)
    for i, thread in enumerate(threads):
        wait_until(lambda i=i: order == list(range(i + 1)))
        assert elections[0].contenders() == [f"client-{n}" for n in range(i, 3)]
        go_on[i].set()
        thread.join(WAIT_S)
        assert not thread.is_alive()
    assert leading.most == 1


def test_queue(connect):
    """Two take what two put: each entry once, the urgent ones first."""
    clients = [connect() for _ in range(4)]
    late = clients[0].Queue("/queue")
    late.put(b"late", priority=200)
    late.put(b"urgent", priority=1)
    assert len(late) == 2
    assert late.get() == b"urgent" and late.get() == b"late" and late.get() is None

    def put(client, name):
        for i in range(20):
            client.Queue("/queue").put(b"%s-%02d" % (name, i))

    def take(client):
        found = []
        while len(taken) < 40:
            entry = client.Queue("/queue").get()
            if entry:
                found.append(entry)
                taken.append(entry)
        return found

    taken = []
    found = run_all(lambda: put(clients[0], b"a"), lambda: put(clients[1], b"b"),
                    lambda: take(clients[2]), lambda: take(clients[3]))[2:]
    assert sorted(taken) == sorted(b"%s-%02d" % (n, i) for n in (b"a", b"b") for i in range(20))
    for name in b"a-", b"b-":
        for each in found:
            mine = [entry for entry in each if entry.startswith(name)]
            assert mine == sorted(mine)


def test_locking_queue(drover, connect):  # noqa: F811
    """An item that a consumer took and did not finish returns when its session ends."""
    a, b, c = connect(), connect(), connect()
    work = a.LockingQueue("/queue")
    work.put_all([b"1", b"2", b"3"])
    first, second = b.LockingQueue("/queue"), c.LockingQueue("/queue")
    assert first.get(timeout=WAIT_S) == b"1"
    assert first.get(timeout=WAIT_S) == b"1" and first.holds_lock()
    assert second.get(timeout=WAIT_S) == b"2"
    assert second.consume()
    assert second.get(timeout=WAIT_S) == b"3"
    assert second.consume()
    assert second.get(timeout=0.1) is None
    end_session(b, drover.zk_port)
    assert second.get(timeout=WAIT_S) == b"1"
    assert second.release()
    assert second.get(timeout=WAIT_S) == b"1"
    assert second.consume() and len(work) == 0


def test_counter(connect):
    clients = [connect() for _ in range(4)]

    def count(client):
        counter = client.Counter("/counter")
        for _ in range(10):
            counter += 2
            counter -= 1

    run_all(*(lambda c=c: count(c) for c in clients))
    assert clients[0].Counter("/counter").value == 40
    floating = clients[0].Counter("/float", default=1.5)
    floating += 2.25
    assert clients[1].Counter("/float", default=1.5).value == 3.75


def test_barrier(connect):
    clients = [connect() for _ in range(3)]
    barrier = clients[0].Barrier("/barrier")
    barrier.create()
    assert not clients[1].Barrier("/barrier").wait(timeout=0.1)
    threads = [threading.Thread(target=c.Barrier("/barrier").wait) for c in clients[1:]]
    for thread in threads:
        thread.start()
    wait_until(lambda: clients[0].exists("/barrier"))
    assert all(thread.is_alive() for thread in threads)
    assert barrier.remove()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()
    assert clients[0].Barrier("/barrier").wait(timeout=0)


def test_double_barrier(connect):
    """No client begins before all have entered, and none leaves before all are done.

    Nobody leaves before all have seen that they may begin, either: kazoo's first client to leave deletes
    the node `ready`, and one that has not looked for it yet would wait for it for ever.
    """
    clients = [connect() for _ in range(3)]
    came, done, begun = [], [], threading.Barrier(len(clients), timeout=WAIT_S)

    def work(client, number):
        barrier = client.DoubleBarrier("/barrier", num_clients=3, identifier=f"client-{number}")
        came.append(number)
        barrier.enter()
        seen = len(came)
        begun.wait()
        done.append(number)
        barrier.leave()
        return seen, len(done)

    assert run_all(*(lambda c=c, i=i: work(c, i) for i, c in enumerate(clients))) == [(3, 3)] * 3


@pytest.mark.parametrize("kind", ["Party", "ShallowParty"])
def test_party(drover, connect, kind):  # noqa: F811
    clients = [connect() for _ in range(3)]
    parties = [getattr(c, kind)("/party", f"guest-{i}") for i, c in enumerate(clients)]
    for party in parties:
        party.join()
    for party in parties:
        assert set(party) == {"guest-0", "guest-1", "guest-2"} and len(party) == 3
    parties[0].leave()
    assert set(parties[1]) == {"guest-1", "guest-2"}
    end_session(clients[2], drover.zk_port)
    wait_until(lambda: set(parties[1]) == {"guest-1"})


def test_set_partitioner(connect):
    """Every partition belongs to exactly one member; those of a member that leaves are reassigned."""
    clients, parts = [connect() for _ in range(3)], list(range(9))
    owned, leave = [None] * 3, threading.Event()
    deadline = time.monotonic() + WAIT_S

    def work(number):
        partitioner = SetPartitioner(clients[number], "/parts", set=parts, time_boundary=0.3,
                                     identifier=f"member-{number}")
        while not partitioner.failed:
            assert time.monotonic() < deadline
            if partitioner.acquired:
                owned[number] = list(partitioner)
                if number == 2 and leave.is_set():
                    owned[number] = []
                    partitioner.finish()
                    return
                if leave.is_set() and len(owned[number]) > 3:
                    partitioner.finish()
                    return
                if not leave.is_set() and all(o and len(o) == 3 for o in owned):
                    assert sorted(itertools.chain(*owned)) == parts
                    leave.set()
                time.sleep(0.01)
            elif partitioner.release:
                owned[number] = None
                partitioner.release_set()
            elif partitioner.allocating:
                partitioner.wait_for_acquire(timeout=0.1)
        raise AssertionError("the partitioner failed")

    run_all(*(lambda i=i: work(i) for i in range(3)))
    assert leave.is_set() and len(owned[0]) >= 4 and len(owned[1]) >= 4


def test_tree_cache(connect):
    a, b = connect(), connect()
    events = queue.Queue()
    a.create("/tree/x", b"1", makepath=True)
    cache = TreeCache(b, "/tree")
    cache.listen(lambda event: events.put((event.event_type, event.event_data and
                                           event.event_data.path)) and False)
    cache.start()
    try:
        while events.get(timeout=WAIT_S)[0] != TreeEvent.INITIALIZED:
            pass
        assert cache.get_data("/tree/x").data == b"1"
        assert cache.get_children("/tree") == {"x"}
        a.set("/tree/x", b"2")
        assert next_event(events) == (TreeEvent.NODE_UPDATED, "/tree/x")
        a.create("/tree/y", b"")
        assert next_event(events) == (TreeEvent.NODE_ADDED, "/tree/y")
        a.create("/tree/y/z", b"3")
        assert next_event(events) == (TreeEvent.NODE_ADDED, "/tree/y/z")
        a.delete("/tree/y/z")
        assert next_event(events) == (TreeEvent.NODE_REMOVED, "/tree/y/z")
        a.delete("/tree/y")
        assert next_event(events) == (TreeEvent.NODE_REMOVED, "/tree/y")
        assert cache.get_data("/tree/x").data == b"2" and cache.get_data("/tree/y") is None
    finally:
        cache.close()


def next_event(events):
    """The next event that is not about a node that only looks different because of its children."""
    while (event := events.get(timeout=WAIT_S)) == (TreeEvent.NODE_UPDATED, "/tree"):
        pass
    return event
