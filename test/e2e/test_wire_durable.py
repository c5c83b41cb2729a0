"""An answer leaves when the journal is durable up to what it saw, and so does what a watch tells.

The server's fdatasync is held by a small library that is preloaded into it (hold_sync.c), so that a test
can let one sync after the other happen and see which answers each of them sets free.
"""

import re
import select

import pytest

from conftest import KEEPER_ONLY, Server, wait_until
from test_task_durable import compile_library, preloaded
from wire_client import *  # noqa: F403: the vocabulary of the tests

pytestmark = pytest.mark.slow

QUIET_S = 0.2  # in which an answer that was free to leave would have come


class Hold:
    """The directory through which the test controls the library."""

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir()

    def begin(self):
        (self.directory / "hold").touch()

    def entered(self):
        path = self.directory / "entered"
        return path.stat().st_size if path.exists() else 0

    def wait_entered(self, count):
        """Waits until that many syncs have begun."""
        wait_until(lambda: self.entered() >= count)
        assert self.entered() == count

    def allow(self):
        """One more."""
        with open(self.directory / "allowed", "ab") as allowed:
            allowed.write(b"x")

    def end(self):
        (self.directory / "hold").unlink(missing_ok=True)


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return compile_library(tmp_path_factory.mktemp("hold"), "hold_sync")


@pytest.fixture
def hold(tmp_path):
    return Hold(tmp_path / "hold")


@pytest.fixture
def port(tmp_path, hold, library):
    environment = preloaded(library, DROVER_TEST_HOLD=str(hold.directory))
    server = Server("--data", tmp_path / "data", *KEEPER_ONLY, env=environment)
    try:
        yield server.start().zk_port
        hold.end()
        assert server.stop() == 0, server.said
    finally:
        hold.end()
        server.kill()


def is_quiet(*clients):
    """Whether none of them gets an answer or an event."""
    assert not any(c.buffer for c in clients)
    return not select.select([c.socket for c in clients], [], [], QUIET_S)[0]


def test_each_sync_sets_free_what_it_covers(port, hold):
    with Client(port) as writer, Client(port) as reader, Client(port) as watcher:
        writer.must(create("/n", b"0"))
        writer.must(create("/old", b"old"))
        watcher.must(get_data("/n", watch=True))
        hold.begin()

        writer.submit(set_data("/n", b"1"))
        hold.wait_entered(1)
        writer.submit(set_data("/n", b"2"))
        writer.submit(get_data("/old"))
        assert reader.must(get_data("/old"))[0] == b"old"
        reader.submit(get_data("/n"))
        reader.submit(get_data("/old"))
        assert is_quiet(writer, reader, watcher)

        hold.allow()
        assert writer.answer().body.version == 1
        assert watcher.wait_event() == ("changed", "/n")
        hold.wait_entered(2)
        assert is_quiet(writer, reader, watcher)

        hold.allow()
        assert writer.answer().body.version == 2 and writer.answer().body[0] == b"old"
        assert reader.answer().body[0] == b"2" and reader.answer().body[0] == b"old"
        hold.end()


QUOTA = "/zookeeper/quota/old"
CHANGES = {
    "create": (create("/new"), exists("/new")),
    "delete": (delete("/old"), exists("/old")),
    "a child": (create("/old/child"), get_children("/old")),
    "transaction": (multi(create("/new"), delete("/old")), get_children("/")),
    "access": (set_acl("/old", [(1, "world", "anyone")]), get_acl("/old")),
    "what access shows": (set_acl("/old", [(1, "world", "anyone")]), get_data("/old")),
    "what access forbids": (set_acl("/old", [(2, "world", "anyone")]), get_data("/old")),
    "count": (create("/old/child"), all_children_number("/")),
    "bundle": (set_data("/old", b"1"), multi_read(get_data("/old"))),
    "sync": (set_data("/other", b"1"), sync("/")),
    "quota": (create("/old/child"), get_data(QUOTA + "/zookeeper_stats")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_who_sees_a_change_waits_for_it(port, hold, name):
    change, look = CHANGES[name]
    with Client(port) as writer, Client(port) as reader:
        writer.must(create("/old", b"old"))
        writer.must(create("/other", b""))
        for path in QUOTA, QUOTA + "/zookeeper_limits", QUOTA + "/zookeeper_stats":
            writer.must(create(path, b""))
        hold.begin()
        writer.submit(change)
        hold.wait_entered(1)
        reader.submit(look)
        assert is_quiet(writer, reader)
        hold.allow()
        assert writer.answer().error == OK
        reader.answer()
        hold.end()


def test_a_session_is_durable_before_its_client_knows_it(port, hold):
    with Client(port) as first, Client(port, hello=False) as second:
        hold.begin()
        second.send(frame(i32(0) + i64(0) + i32(10000) + i64(0) + text(bytes(16)) + flag(False)))
        hold.wait_entered(1)
        assert is_quiet(second)
        hold.allow()
        assert len(second.packet()) == 37
        first.submit(close_session())
        hold.wait_entered(2)
        assert is_quiet(first)
        hold.allow()
        assert first.answer().error == OK and first.is_closed()
        hold.end()


def test_a_change_that_failed_waits_for_what_it_saw(port, hold):
    """"It exists" tells of the creation, which could still be lost."""
    with Client(port) as writer, Client(port) as other:
        hold.begin()
        writer.submit(create("/n"))
        hold.wait_entered(1)
        other.submit(create("/n"))
        other.submit(multi(check("/n", 7)))
        assert is_quiet(writer, other)
        hold.allow()
        assert writer.answer().error == OK and other.answer().error == NODE_EXISTS
        assert other.answer().body == [("error", BAD_VERSION)]
        hold.end()


def test_who_is_far_ahead_of_the_disk_is_not_read_from(port, hold):
    """4,096 answers may wait for it; the requests behind them stay with the client until there is room."""
    def received():
        return int(re.search(r"zk_packets_received\s+(\d+)", four_letters(port, "mntr"))[1])

    with Client(port) as writer:
        writer.must(create("/n", b"0"))
        before = received()
        hold.begin()
        writer.send(b"".join(writer.encode(set_data("/n", b"%d" % n)) for n in range(6000)))
        wait_until(lambda: received() - before >= 4096)
        assert is_quiet(writer)
        assert received() - before < 4200
        hold.end()
        assert [writer.answer().body.version for _ in range(6000)] == list(range(1, 6001))


def test_latencies_include_the_wait_for_the_disk(port, hold):
    """Those of a change, from its arrival to its answer; those of a read that did not wait do not."""
    def values():
        return dict(line.split("\t") for line in four_letters(port, "mntr").splitlines())

    with Client(port) as writer, Client(port) as reader, Client(port) as gone:
        writer.must(create("/l"))
        four_letters(port, "srst")
        four_letters(port, "crst")
        hold.begin()
        writer.submit(set_data("/l", b"1"))
        writer.submit(set_data("/l", b"2"))
        gone.submit(set_data("/l", b"3"))
        hold.wait_entered(1)
        wait_until(lambda: values()["zk_outstanding_requests"] == "3")
        gone.close()
        wait_until(lambda: values()["zk_outstanding_requests"] == "2")
        reader.call(ping())
        assert values()["zk_cnt_updatelatency"] == "0"
        assert f"(queued=2,recved=2,sent=2,sid=0x{writer.session:x},lop=SETD" in four_letters(port, "cons")
        assert is_quiet(writer)
        hold.end()
        hold.allow()
        hold.allow()
        writer.answer()
        writer.answer()
        after = values()
        assert after["zk_outstanding_requests"] == "0"
        held_ms = int(QUIET_S * 1000)
        assert int(after["zk_min_updatelatency"]) >= held_ms and int(after["zk_max_fsynctime"]) >= held_ms
        assert after["zk_cnt_updatelatency"] == "2" and after["zk_max_latency"] == after["zk_max_updatelatency"]
        assert float(after["zk_avg_updatelatency"]) >= held_ms > int(after["zk_min_readlatency"])
        [line] = [each for each in four_letters(port, "cons").splitlines() if f"sid=0x{writer.session:x}," in each]
        latencies = [int(each) for each in re.findall(r"(?:llat|minlat|avglat|maxlat)=(\d+)", line)]
        assert len(latencies) == 4 and min(latencies) >= held_ms
        [other] = [each for each in four_letters(port, "cons").splitlines() if f"sid=0x{reader.session:x}," in each]
        assert "lop=PING" in other and int(re.search(r"maxlat=(\d+)", other)[1]) < held_ms
