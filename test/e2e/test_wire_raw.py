"""The ZooKeeper port under what no client library would send: malformed packets, floods, silence.

What a sane client sees is compared with a real ZooKeeper in test_wire_differential.py.
"""

import os
import re
import resource
import socket
import threading
import time

import pytest

from conftest import KEEPER_ONLY, Server, wait_until
from wire_client import *  # noqa: F403: the vocabulary of the tests
from wire_support import drover  # noqa: F401: fixtures

SOAK = bool(os.environ.get("DROVER_SOAK"))
PACKET_MAX = 1024 * 1024 - 1
MIB = 1024 * 1024


@pytest.fixture
def port(drover):  # noqa: F811
    return drover.zk_port


@pytest.fixture
def client(port):
    with Client(port) as c:
        yield c
        if not c.closed:
            c.end()


@pytest.fixture
def root(client, request):
    path = "/" + re.sub(r"\W", "-", request.node.name)
    client.must(create(path))
    return path


@pytest.fixture
def lean(tmp_path):
    """A server whose memory can be measured: freed memory is not kept aside to find errors."""
    options = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1:malloc_context_size=0"
    server = Server("--data", tmp_path / "data", *KEEPER_ONLY, env=os.environ | {"ASAN_OPTIONS": options})
    try:
        yield server.start()
        assert server.stop() == 0, server.said
    finally:
        server.kill()


def resident_bytes(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1]) * 1024


# Malformed packets.

HELLO = i32(0) + i64(0) + i32(10000) + i64(0) + text(bytes(16)) + flag(False)
BODY = get_data("/").body
ACL_CUT = text("/x") + text("") + i32(1) + i32(ALL) + text("world")

BAD_HELLOS = {
    "nothing in it": frame(b""),
    "negative length": i32(-1) + HELLO,
    "lowest length": i32(-2**31) + HELLO,
    "too long": i32(PACKET_MAX + 1) + HELLO,
    "cut off": frame(HELLO[:20]),
    "cut off in the password": frame(HELLO[:-5]),
    "password without end": frame(HELLO[:24] + i32(2**31 - 1)),
    "negative password": frame(HELLO[:24] + i32(-5)),
    "another protocol": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "unknown word": b"what",
}

BAD_REQUESTS = {
    "negative length": i32(-1),
    "lowest length": i32(-2**31),
    "too long": i32(PACKET_MAX + 1),
    "nothing in it": frame(b""),
    "no type": frame(i32(1)),
    "no token": frame(i32(1) + i32(SASL)),
    "null token": frame(i32(1) + i32(SASL) + text(None)),
    "no credential": frame(i32(-4) + i32(AUTH) + i32(0) + text("digest")),
}

CUT_REQUESTS = {
    "no body": frame(i32(1) + i32(GET_DATA)),
    "cut off in the path": frame(i32(1) + i32(GET_DATA) + BODY[:4]),
    "no watch flag": frame(i32(1) + i32(GET_DATA) + BODY[:-1]),
    "negative path": frame(i32(1) + i32(GET_DATA) + i32(-2) + flag(False)),
    "path without end": frame(i32(1) + i32(GET_DATA) + i32(2**31 - 1) + flag(False)),
    "list cut off": frame(i32(1) + i32(CREATE) + ACL_CUT),
    "list without end": frame(i32(1) + i32(CREATE) + text("/x") + text("") + i32(2**31 - 1)),
    "no flags": frame(i32(1) + i32(CREATE) + text("/x") + text("") + acls(OPEN)),
    "transaction without end": frame(i32(1) + i32(MULTI) + i32(CREATE) + flag(False) + i32(-1) +
                                     create("/x").body),
    "transaction cut off": frame(i32(1) + i32(MULTI) + multi(create("/x")).body[:-1]),
    "bundle without end": frame(i32(1) + i32(MULTI_READ) + i32(GET_DATA) + flag(False) + i32(-1) +
                                BODY),
    "watches cut off": frame(i32(1) + i32(SET_WATCHES) + set_watches(0, ["/"]).body[:-1]),
    "watches without end": frame(i32(1) + i32(SET_WATCHES2) + i64(0) + i32(2**31 - 1)),
}


@pytest.mark.parametrize("name", BAD_HELLOS)
def test_a_bad_hello_ends_its_connection_only(port, client, name):
    with Client(port, hello=False) as bad:
        bad.send(BAD_HELLOS[name])
        assert bad.is_closed() and bad.buffer == b""
    client.must(exists("/"))


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_a_bad_request_ends_its_connection_only(port, client, root, name):
    path = root + "/mine"
    with Client(port) as bad:
        bad.must(create(path, flags=EPHEMERAL))
        bad.send(BAD_REQUESTS[name])
        assert bad.is_closed() and bad.buffer == b""
        client.must(exists(path))
        with Client(port, session=bad.session, password=bad.password) as again:
            assert again.session == bad.session
            again.must(delete(path))
            again.end()
    assert client.call(exists("/x")).error == NO_NODE


@pytest.mark.parametrize("name", CUT_REQUESTS)
def test_a_truncated_request_is_an_error_and_does_nothing(client, root, name):
    client.send(CUT_REQUESTS[name])
    r = Reader(client.packet())
    assert (r.i32(), r.i64() >= 0, r.i32(), r.data[r.at:]) == (1, True, MARSHALLING_ERROR, b"")
    assert client.call(exists("/x")).error == NO_NODE
    client.must(create(root + "/news"))
    assert client.take_events() == []


def test_what_came_before_a_bad_request_counts(port, client, root):
    with Client(port) as bad:
        bad.send(bad.encode(create(root + "/a")) + BAD_REQUESTS["negative length"])
        assert bad.is_closed()
    client.must(exists(root + "/a"))


def test_an_unknown_request_is_answered_and_is_the_last(port, client, root):
    with Client(port) as bad:
        bad.send(bad.encode(Request(99, b"")) + bad.encode(create(root + "/a")))
        assert bad.answer().error == UNIMPLEMENTED
        assert bad.is_closed() and bad.buffer == b""
    assert client.call(exists(root + "/a")).error == NO_NODE


def test_sasl_has_no_token_for_the_client_and_the_connection_goes_on(client):
    assert client.must(sasl(b"token")) is None
    client.must(exists("/"))


def test_packets_may_come_in_any_pieces(port):
    with Client(port, hello=False) as c:
        for byte in frame(HELLO):
            c.send(bytes([byte]))
        r = Reader(c.packet())
        assert r.i32() == 0 and r.i32() == 10000 and r.i64() != 0
        data = c.encode(exists("/")) + c.encode(get_children("/"))
        for at in range(0, len(data), 3):
            c.send(data[at:at + 3])
        assert c.answer().error == c.answer().error == OK
        c.end()


def test_the_largest_packet(port, client, root):
    room = PACKET_MAX - 8 - len(set_data(root, b"").body)
    stat = client.must(set_data(root, b"x" * room))
    assert stat.data_len == room and client.must(get_data(root))[0] == b"x" * room
    with Client(port) as bad:
        bad.submit(set_data(root, b"x" * (room + 1)))
        assert bad.is_closed()
    assert client.must(exists(root)).version == 1


# Hello.

def test_a_client_from_before_read_only_servers(port):
    """It does not say the last byte, and must not be told it: 4 + 4 + 8 + 4 + 16 bytes."""
    with Client(port, says_read_only=False) as c:
        assert c.session and len(c.password) == 16
        c.must(exists("/"))
        with Client(port, says_read_only=False, session=c.session, password=c.password) as again:
            assert again.session == c.session
            again.end()


def test_requests_may_follow_the_hello_at_once(port):
    with Client(port, hello=False) as c:
        c.send(frame(HELLO) + c.encode(exists("/")))
        c.packet()
        assert c.answer().error == OK
        c.end()


@pytest.mark.parametrize("server", ["drover", "zookeeper"])
def test_a_client_that_saw_the_future_is_turned_away(drover, zookeeper, server):  # noqa: F811
    """It was connected to another store, or this one has lost something."""
    port = drover.zk_port if server == "drover" else zookeeper.nodes[0].port
    with Client(port) as c:
        c.must(exists("/"))
        for future in c.zxid + 10 ** 9, 2 ** 63 - 1:
            with Client(port, hello=False) as ahead:
                with pytest.raises(Closed):
                    ahead.hello(seen=future)
                assert ahead.buffer == b""
        for past in c.zxid, 1, 0, -1:
            with Client(port, seen=past) as behind:
                behind.end()
        c.end()


def test_a_wrong_password_does_not_disturb_the_session(port, client, root):
    """ZooKeeper would end the connection that has the session."""
    client.must(create(root + "/e", flags=EPHEMERAL))
    with Client(port, session=client.session, password=b"not the password") as wrong:
        assert (wrong.session, wrong.timeout_ms, wrong.password) == (0, 0, bytes(16))
        assert wrong.is_closed()
    assert client.must(get_ephemerals("/")) == [root + "/e"]


def test_sessions_have_names_and_passwords_of_their_own(port):
    with Client(port) as a, Client(port) as b:
        assert a.session != b.session and a.password != b.password
        a.end()
        b.end()


# Order.

def test_a_thousand_requests_in_one_write(client, root):
    requests = [create(root + "/n", b"0")]
    for i in range(1, 1000):
        requests.append(set_data(root + "/n", b"%d" % i) if i % 2 else get_data(root + "/n"))
    client.send(b"".join(client.encode(request) for request in requests))
    answers = [client.answer() for _ in requests]
    assert [a.xid for a in answers] == list(range(answers[0].xid, answers[0].xid + 1000))
    assert all(a.error == OK for a in answers)
    for i in range(2, 1000, 2):
        assert answers[i].body[0] == b"%d" % (i - 1) and answers[i].body[1].version == i // 2


def test_an_event_comes_before_the_answer_that_shows_the_change(port, client, root):
    """A reader that always sets a watch gets an event between any two different values it reads."""
    path, last = root + "/n", b"300"
    client.must(create(path, b"0"))

    def change():
        with Client(port) as writer:
            for i in range(1, int(last) + 1):
                writer.must(set_data(path, b"%d" % i))
            writer.end()

    writing = threading.Thread(target=change)
    seen, changes = client.must(get_data(path, watch=True))[0], 0
    writing.start()
    while seen != last:
        told = len(client.events)
        value = client.must(get_data(path, watch=True))[0]
        if value != seen:
            assert client.events, f"{value} after {seen}, and nothing was told"
            changes += 1
        assert len(client.events) <= 1 and told == 0
        seen, client.events = value, []
    writing.join()
    assert changes > 1


# Sessions in time.

@pytest.mark.slow
def test_silence_ends_a_session_and_pings_keep_it(port, client, root):
    with Client(port, timeout_ms=3000) as silent, Client(port, timeout_ms=3000) as talking:
        assert silent.timeout_ms == talking.timeout_ms == 3000
        talking.must(create(root + "/talking", flags=EPHEMERAL))
        started = time.monotonic()
        silent.must(create(root + "/silent", flags=EPHEMERAL))
        client.must(exists(root + "/silent", watch=True))
        events = wait_until(lambda: (talking.call(ping()), client.take_events())[1], "an event")
        assert time.monotonic() - started > 2.9 and events == [("deleted", root + "/silent")]
        assert client.must(get_children(root)) == ["talking"]
        assert silent.is_closed()
        with Client(port, session=silent.session, password=silent.password) as late:
            assert late.session == 0 and late.is_closed()
        talking.end()


@pytest.mark.slow
def test_a_session_outlives_its_connection(port, client, root):
    """With the timeout that it gets then. A session that is left shows that the first has passed."""
    first = Client(port, timeout_ms=3000)
    first.must(create(root + "/e", flags=EPHEMERAL))
    first.close()
    with Client(port, timeout_ms=30000, session=first.session, password=first.password) as second:
        assert (second.session, second.timeout_ms) == (first.session, 30000)
        with Client(port, timeout_ms=3000) as clock:
            clock.must(create(root + "/clock", flags=EPHEMERAL))
        client.must(exists(root + "/clock", watch=True))
        assert client.wait_event() == ("deleted", root + "/clock")
        assert second.must(get_ephemerals("/")) == [root + "/e"]
        second.end()
    assert client.must(get_children(root)) == []


def test_a_session_may_be_given_less_time(start):
    """Whoever waits for the next session to end has to hear of it."""
    server = start(*KEEPER_ONLY)
    with Client(server.zk_port) as other:
        first = Client(server.zk_port)
        first.must(create("/e", flags=EPHEMERAL))
        first.close()
        Client(server.zk_port, timeout_ms=1000, session=first.session, password=first.password).close()
        other.must(exists("/e", watch=True))
        assert other.wait_event() == ("deleted", "/e")
        other.end()
    assert server.stop() == 0, server.said


@pytest.mark.skipif(not SOAK, reason="waits for ten seconds")
def test_who_does_not_say_hello_is_not_waited_for(port):
    with Client(port, hello=False) as mute:
        started = time.monotonic()
        assert mute.is_closed()
        assert 9 < time.monotonic() - started < 15


@pytest.mark.skipif(not SOAK, reason="waits for ten seconds")
def test_who_does_not_take_its_last_answers_is_not_waited_for(lean):
    port = lean.zk_port
    with Client(port) as other, socket.socket() as deaf:
        other.must(create("/big", b"x" * (MIB - 1000)))
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", port))
        requests = [get_data("/big")] * 4 + [close_session()]
        deaf.sendall(frame(HELLO) + b"".join(frame(i32(1) + i32(r.type) + r.body) for r in requests))
        name = "%s:%d[" % deaf.getsockname()
        wait_until(lambda: "Sessions (1)" in four_letters(port, "dump"))
        assert name in four_letters(port, "cons")
        started = time.monotonic()
        wait_until(lambda: other.must(exists("/")) and name not in four_letters(port, "cons"))
        assert time.monotonic() - started > 8
        other.end()


# Limits.

def test_a_client_that_does_not_read_is_not_read_from(lean):
    """Answers of a megabyte each are asked for; nothing like that may gather in the server."""
    count = 150
    with Client(lean.zk_port) as slow, Client(lean.zk_port) as other:
        other.must(create("/big", b"x" * (MIB - 100)))
        before = resident_bytes(lean)
        slow.send(b"".join(slow.encode(get_data("/big")) for _ in range(count)))
        for _ in range(5):
            other.must(set_data("/big", b"x" * (MIB - 100)))
        grown = resident_bytes(lean) - before
        assert grown < 50 * MIB, f"{grown} bytes"
        for i in range(count):
            assert slow.answer().xid == i + 1
        slow.must(exists("/"))
        slow.end()
        other.end()


def test_a_client_that_is_not_read_from_can_go_on(port, client, root):
    """Stopped again and again, it still gets every answer."""
    client.must(create(root + "/half", b"x" * (MIB // 2)))
    with Client(port) as slow:
        requests = [get_data(root + "/half") if i % 2 else exists("/") for i in range(200)]
        slow.send(b"".join(slow.encode(request) for request in requests))
        for i in range(200):
            assert slow.answer().xid == i + 1
        slow.end()


def test_a_client_that_does_not_read_its_events_is_ended(lean):
    path = "/" + "long" * 250
    with Client(lean.zk_port, timeout_ms=60000) as deaf, Client(lean.zk_port) as other:
        other.must(create(path))
        deaf.must(add_watch("/", RECURSIVE))
        before = resident_bytes(lean)
        for _ in range(100):
            other.send(b"".join(other.encode(set_data(path, b"")) for _ in range(500)))
            assert all(other.answer().error == OK for _ in range(500))
            if not re.search(r"sid=0x%x," % deaf.session, four_letters(lean.zk_port, "cons")):
                break
        else:
            pytest.fail("is still connected")
        assert resident_bytes(lean) - before < 100 * MIB
        assert deaf.is_closed()
        with Client(lean.zk_port, session=deaf.session, password=deaf.password) as again:
            assert again.session == deaf.session
            again.end()
        other.end()


@pytest.mark.slow
def test_connections_have_a_cap(lean):
    cap = int(re.search(r"maxClientCnxns=(\d+)", four_letters(lean.zk_port, "conf"))[1])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sockets = []
    try:
        with Client(lean.zk_port) as c:
            sockets = [socket.create_connection(("127.0.0.1", lean.zk_port)) for _ in range(cap - 1)]
            c.must(exists("/"))
            with Client(lean.zk_port, hello=False) as beyond:
                started = time.monotonic()
                assert beyond.is_closed() and time.monotonic() - started < 8
            c.must(exists("/"))
            for s in sockets[:10]:
                s.close()
            wait_until(lambda: c.must(exists("/")) and "Node count" in try_word(lean.zk_port, "srvr"))
            c.end()
    finally:
        for s in sockets:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def try_word(port, word):
    try:
        return four_letters(port, word)
    except ConnectionResetError:
        return ""


@pytest.mark.slow
def test_watches_have_a_cap(lean):
    """One too many is refused, and not silently missing."""
    cap = 100000
    with Client(lean.zk_port, timeout_ms=60000) as c:
        for first in range(0, cap, 10000):
            c.send(b"".join(c.encode(exists(f"/{i}", True)) for i in range(first, first + 10000)))
            assert all(c.answer().error == NO_NODE for _ in range(10000))
        assert c.call(exists("/0", watch=True)).error == NO_NODE
        assert c.call(exists("/more", watch=True)).error == SYSTEM_ERROR
        assert c.call(get_data("/", watch=True)).error == SYSTEM_ERROR
        assert c.call(get_children("/", watch=True)).error == SYSTEM_ERROR
        assert c.call(add_watch("/", RECURSIVE)).error == SYSTEM_ERROR
        assert c.call(set_watches(0, exist=["/more"])).error == SYSTEM_ERROR
        c.must(create("/0"))
        assert c.events == [("created", "/0")]
        assert c.call(exists("/more", watch=True)).error == NO_NODE
        c.end()


# What grows while it is decoded.

def test_lists_do_not_outgrow_their_limit(tmp_path, start):
    """"auth" becomes everything that a client is known as: fourteen times four kilobytes here."""
    server = start(*KEEPER_ONLY)
    with Client(server.zk_port) as c:
        for i in range(14):
            c.must(auth(f"{i:04000}:x"))
        c.must(create("/few", acl=[(ALL, "auth", "")]))
        assert len(c.must(get_acl("/few"))[0]) == 14
        twice = [(ALL, "auth", ""), (1, "auth", "")]
        assert c.call(create("/many", acl=twice)).error == INVALID_ACL
        assert c.call(set_acl("/few", twice)).error == INVALID_ACL
        bundle_ = [create(f"/m{i}", acl=[(ALL, "auth", "")]) for i in range(1000)]
        assert c.call(multi(*bundle_)).error == SYSTEM_ERROR
        assert sorted(set(c.must(get_children("/")))) == ["few", "zookeeper"]
        assert c.call(auth("x" * 5000 + ":x")).error == AUTH_FAILED
        assert c.is_closed()
    server.kill()
    again = start(*KEEPER_ONLY)
    with Client(again.zk_port) as c:
        assert c.call(get_data("/few")).error == NO_AUTH
        c.end()
    assert again.stop() == 0, again.said


def test_a_connection_is_known_in_so_many_ways(port):
    with Client(port) as c:
        for i in range(15):
            c.must(auth(f"user{i}:x"))
        c.must(auth("user3:x"))
        assert len(c.must(who_am_i())) == 16
        assert c.call(auth("one:more")).error == AUTH_FAILED
        assert c.is_closed()


def test_a_transaction_of_many_small_operations(client, root):
    count = 10000
    results = client.must(multi(*[create(root + "/n-", flags=SEQUENTIAL) for _ in range(count)]))
    assert [path for _, path in results] == [f"{root}/n-{i:010}" for i in range(count)]
    assert client.must(all_children_number(root)) == count
    names = client.must(get_children(root))
    client.must(multi(*[delete(f"{root}/{name}") for name in names]))
    assert client.must(exists(root)).cversion == 2 * count
    assert len(client.must(multi(*[check(root, 0)] * count))) == count


def test_what_a_bundle_of_reads_answers_has_a_limit(client, root):
    """A megabyte of requests could ask for tens of gigabytes."""
    data = b"x" * (MIB - 1000)
    client.must(set_data(root, data))
    assert [body[0] for _, body in client.must(multi_read(*[get_data(root)] * 16))] == [data] * 16
    answer = client.call(multi_read(*[get_data(root)] * 100))
    assert (answer.error, answer.body) == (SYSTEM_ERROR, None)
    client.must(set_data(root, b""))
    assert len(client.must(multi_read(*[get_data(root)] * 10000))) == 10000


def test_a_word_is_none_after_hello(port, client):
    with Client(port) as c:
        c.send(b"ruok")
        assert c.is_closed()
    client.must(exists("/"))
