"""The limits of the ZooKeeper port that the operator sets, on drover and on a real ZooKeeper."""

import re
import socket
import time

import pytest

import zk
from conftest import KEEPER_ONLY, Server, drover, wait_until
from wire_client import *  # noqa: F403
from wire_support import serve

PACKET_MAX, CONNECTIONS, MIN_MS, MAX_MS = 2000, 3, 2000, 5000
LARGEST = 4 * 1024 * 1024


@pytest.fixture(scope="module", params=["drover", pytest.param("zookeeper", marks=pytest.mark.slow)])
def port(request, tmp_path_factory):
    if request.param == "drover":
        for server in serve(tmp_path_factory, "--zk-max-buffer", PACKET_MAX,
                            "--zk-connections-per-address", CONNECTIONS,
                            "--zk-min-session-timeout", f"{MIN_MS}ms",
                            "--zk-max-session-timeout", f"{MAX_MS}ms", "--zk-hello-timeout", "700ms"):
            yield server.zk_port
        return
    settings = {"maxClientCnxns": CONNECTIONS, "minSessionTimeout": MIN_MS, "maxSessionTimeout": MAX_MS,
                "nio.sessionlessCnxnTimeout": 700}
    with zk.Ensemble(tmp_path_factory.mktemp("zookeeper"), settings=settings,
                     properties={"jute.maxbuffer": PACKET_MAX}) as zookeeper:
        yield zookeeper.nodes[0].port


def from_address(port, address="127.0.0.1"):
    """A connection from another address of this machine, without hello."""
    return socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(address, 0))


def say(port, word, address="127.0.0.1"):
    """The answer to a word. The server has given the connection's place away when the answer ends."""
    answer = b""
    with from_address(port, address) as s:
        s.sendall(word)
        while more := s.recv(65536):
            answer += more
    return answer


def is_let_in(port, address="127.0.0.1"):
    """A server that refuses may close before it is connected to, before it is sent to, or later."""
    try:
        return say(port, b"ruok", address) == b"imok"
    except (ConnectionResetError, BrokenPipeError):
        return False


def wait_for_connections(port, count):
    """Until so many are counted, beside the one that asks: a connection may wait for its turn."""
    wait_until(lambda: say(port, b"cons", "127.0.0.9").count(b"/127.0.0.1:") == count, f"{count} connections")


def test_sessions_get_a_timeout_within_the_limits(port):
    for asked, granted in [(-1, MIN_MS), (0, MIN_MS), (MIN_MS - 1, MIN_MS), (MIN_MS, MIN_MS),
                           (3210, 3210), (MAX_MS, MAX_MS), (MAX_MS + 1, MAX_MS), (2**31 - 1, MAX_MS)]:
        with Client(port, timeout_ms=asked) as c:
            assert c.timeout_ms == granted
            with Client(port, timeout_ms=asked, session=c.session, password=c.password) as again:
                assert (again.session, again.timeout_ms) == (c.session, granted)
                again.end()


def test_a_session_ends_after_the_timeout_that_it_got(port):
    """Asked for the longest, it has five seconds at most."""
    with Client(port, timeout_ms=1) as silent, Client(port) as other:
        started = time.monotonic()
        silent.must(create("/silent", flags=EPHEMERAL))
        other.must(exists("/silent", watch=True))
        assert wait_until(other.take_events) == [("deleted", "/silent")]
        assert time.monotonic() - started > MIN_MS / 1000 - 0.1
        other.end()


def test_the_longest_request(port):
    with Client(port) as c:
        c.must(create("/long"))
        room = PACKET_MAX - 8 - len(set_data("/long", b"").body)
        c.must(set_data("/long", b"x" * room))
        with Client(port) as bad:
            bad.submit(set_data("/long", b"x" * (room + 1)))
            assert bad.is_closed()
        with Client(port, hello=False) as bad:
            bad.send(i32(PACKET_MAX + 1))
            assert bad.is_closed()
        assert c.must(exists("/long")).version == 1
        c.must(delete("/long"))
        c.end()


def test_connections_from_one_address(port):
    """Those of another one have their own count; a place that becomes free can be taken."""
    wait_for_connections(port, 0)
    with Client(port) as c:
        sockets = [from_address(port) for _ in range(CONNECTIONS - 1)]
        wait_for_connections(port, CONNECTIONS)
        c.must(exists("/"))
        for _ in range(5):
            assert not is_let_in(port)
        assert is_let_in(port, "127.0.0.2")
        with from_address(port, "127.0.0.3"), from_address(port, "127.0.0.4"):
            assert is_let_in(port, "127.0.0.3")
        sockets.pop().close()
        wait_until(lambda: is_let_in(port))
        c.end()
        for s in sockets:
            s.close()


def test_who_does_not_say_hello_in_time(port):
    """ZooKeeper looks every 700 ms, so it may take twice as long there."""
    wait_for_connections(port, 0)
    started = time.monotonic()
    with Client(port) as c, Client(port, hello=False) as mute:
        assert mute.is_closed()
        assert 0.6 < time.monotonic() - started < 9  # ten seconds if it is not set
        c.must(exists("/"))
        c.end()


def test_many_addresses(start):
    server = start("--zk-connections-per-address", "10", *KEEPER_ONLY)
    addresses = [f"127.0.{a}.{b}" for a in range(1, 6) for b in range(1, 21)]
    for _ in range(2):
        sockets = [from_address(server.zk_port, address) for _ in range(10) for address in addresses]
        refused = [address for address in addresses if not is_let_in(server.zk_port, address)]
        assert refused == addresses
        assert is_let_in(server.zk_port)
        for s in sockets:
            s.close()
        wait_until(lambda: b"zk_num_alive_connections\t1\n" in say(server.zk_port, b"mntr"), "all to be closed")
        assert all(is_let_in(server.zk_port, address) for address in addresses)
    assert int(re.search(r"zk_connection_rejected\t(\d+)", four_letters(server.zk_port, "mntr"))[1]) >= 200
    assert server.stop() == 0, server.said


def test_large_requests_survive(start):
    """A record of the journal holds what the largest packet brings, and a snapshot does."""
    options = ["--zk-max-buffer", LARGEST, "--snapshot-every", "2", *KEEPER_ONLY]
    server = start(*options)
    room = LARGEST - 256
    with Client(server.zk_port) as c:
        for i in range(4):
            c.must(create(f"/{i}", b"%d" % i * room))
        assert c.call(create("/4", b"x" * (LARGEST - 100))).error == SYSTEM_ERROR
        assert c.must(multi(*[check("/0", 0)] * 80000)) == [("error", SYSTEM_ERROR)] * 80000
        acl = OPEN + [(1, "digest", f"{i:01000}:x") for i in range(60)]
        c.must(multi(*[create(f"/a{i}", acl=acl) for i in range(30)]))
        with Client(server.zk_port) as bad:
            bad.submit(set_data("/0", b"x" * LARGEST))
            assert bad.is_closed()
    server.kill()
    for _ in range(2):
        server = start(*options)
        with Client(server.zk_port) as c:
            for i in range(4):
                assert c.must(get_data(f"/{i}"))[0] == b"%d" % i * room
            assert len(c.must(get_acl("/a29"))[0]) == 61
            c.end()
        assert server.stop() == 0, server.said


@pytest.mark.parametrize("words, line", [
    (["--zk-min-session-timeout", "5s", "--zk-max-session-timeout", "4s"],
     "--zk-min-session-timeout, 5s, is more than --zk-max-session-timeout, 4s"),
    (["--zk-max-session-timeout", "500ms"],
     "--zk-min-session-timeout, 1s, is more than --zk-max-session-timeout, 500ms"),
    (["--zk-min-session-timeout", "2h"],
     "--zk-min-session-timeout, 2h, is more than --zk-max-session-timeout, 1h"),
    (["--zk-min-session-timeout", "0s"], "--zk-min-session-timeout: '0s' is too short: at least 1ms"),
    (["--zk-max-session-timeout", "25d"], "--zk-max-session-timeout: '25d' is too long: at most 24d"),
    (["--zk-hello-timeout", "0ms"], "--zk-hello-timeout: '0ms' is too short: at least 1ms"),
    (["--zk-max-buffer", "63"], "--zk-max-buffer: '63' is not a number from 64 to 4194304"),
    (["--zk-max-buffer", "4194305"], "--zk-max-buffer: '4194305' is not a number from 64 to 4194304"),
    (["--zk-connections-per-address", "0"], "'0' is not a number from 1 to 1000000"),
    (["--zk-connections", "1000001"], "'1000001' is not a number from 1 to 1000000"),
])
def test_limits_that_cannot_be(words, line):
    done = drover("serve", *words)
    assert done.returncode == 2 and line in done.stderr and len(done.stderr.splitlines()) == 1


# Options without a limit.

def test_several_addresses(tmp_path):
    server = Server("--journal", "none", "--zk", "[::1]:0", *KEEPER_ONLY).start()
    try:
        six = int(server.wait_for(r"listening on zk://\[::1\]:(\d+)\n")[1])
        with Client(server.zk_port) as four:
            four.call(create("/by-4"))
            with socket.create_connection(("::1", six), timeout=60) as s:
                s.sendall(b"stat")
                assert b"/::1:" in s.recv(65536)
        assert server.stop() == 0, server.said
    finally:
        server.kill()


@pytest.mark.parametrize("option, expected", [([], 0), (["--zk-no-ttl"], UNIMPLEMENTED)])
def test_times_to_live_can_be_refused(tmp_path_factory, option, expected):
    for server in serve(tmp_path_factory, *option):
        with Client(server.zk_port) as c:
            assert c.call(create_ttl("/t", 1000)).error == expected
            assert c.call(create_container("/c")).error == c.call(create("/plain")).error == 0
            c.end()
