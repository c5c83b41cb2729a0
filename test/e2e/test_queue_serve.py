"""Queues and their server: retention, restarts, the library, several servers."""

import os
import subprocess
import sys

import pytest

from cli import EXAMPLES
import zk
from conftest import BINARY, DEADLINE_S, ROOT, OnEnsemble, Server, drover, wait_until
from queue_support import ENVIRONMENT, NAMESPACE, Room, Worker
from world_support import Place, call

pytestmark = pytest.mark.slow

class AtPorts(Server):
    """On the ports of an earlier server."""

    def __init__(self, http, zk_port, *arguments):
        super().__init__("--http", f"127.0.0.1:{http}", "--zk", f"127.0.0.1:{zk_port}", *arguments)


@pytest.fixture
def room_of(tmp_path):
    rooms = []

    def make(server, hosts=None, chroot=""):
        rooms.append(Room(Place(server, hosts or f"127.0.0.1:{server.zk_port}", chroot), tmp_path))
        return rooms[-1]

    yield make
    for room in rooms:
        for worker in room.workers:
            worker.kill()
        room.place.close()


def test_messages_that_are_too_old_are_removed(start, room_of):
    room = room_of(start("--queue-retention", "1500ms", "--queue-error-retention", "1h"))
    queue, other = room.create(2)
    room.post("qdo_error", "kept")
    old = room.post(queue, "old", "old")
    assert [m["id"] for m in room.read(queue)] == old
    wait_until(lambda: room.read(queue) == [], "the sweeper")
    assert [m["data"] for m in room.read("qdo_error")] == ["kept"]
    new = room.post(queue, "new")
    assert [m["id"] for m in room.read(queue)] == new and new[0] > old[1]
    assert room.read(other) == []


def test_another_namespace(start, room_of):
    room = room_of(start("--queue-namespace", "/our/queues"))
    queue = room.create()
    assert room.kazoo.get(f"/our/queues/queues/{queue}")[0] == b'{"last": ""}'
    ids = room.post(queue, "a")
    worker = Worker(room.url, room.log, "--settle", "0s")  # the server names its namespace
    room.workers.append(worker)
    wait_until(lambda: room.kazoo.get(f"/our/queues/queues/{queue}")[0] ==
               f'{{"last": "{ids[0]}"}}'.encode(), "last")
    # The same through the chroot of the keeper's URL.
    chroot = Worker(room.url, room.log, "--namespace", "/", "--keeper",
                    f"zk://127.0.0.1:{room.place.server.zk_port}/our/queues")
    room.workers.append(chroot)
    wait_until(lambda: len(room.kazoo.get_children("/our/queues/workers")) == 2, "both")
    assert not room.kazoo.exists(NAMESPACE)
    done = drover("serve", "--queue-namespace", "nonsense")
    assert done.returncode == 2 and "--queue-namespace" in done.stderr


def test_workers_outlive_a_server_that_was_killed(start, room_of, tmp_path):
    first = start()
    room = room_of(first)
    queues = room.create(4)
    worker, other = room.work(), room.work()
    shares = room.wait_balanced(2, queues)
    ids = room.post(queues[0], "before")
    wait_until(lambda: room.last(queues[0]) == str(ids[0]), "the first message")
    room.place.close()
    first.kill()
    second = AtPorts(first.port, first.zk_port, "--data", tmp_path / "data").start()
    try:
        again = room_of(second)
        ids += again.post(queues[0], "after")
        wait_until(lambda: again.last(queues[0]) == str(ids[1]), "the second message")
        assert again.wait_balanced(2, queues) == shares  # the sessions continued: nothing moved
        assert [one.data for one in again.handled(queues[0])] == ["before", "after"]
        for one in (worker, other):
            assert one.said.count("joined as") == 1
            assert one.stop() == 0, one.said
    finally:
        second.kill()


def test_the_library(start):
    server = start()
    done = subprocess.run([EXAMPLES / "queue", f"http://127.0.0.1:{server.port}", "a", "bad b", "c"],
                          capture_output=True, text=True, timeout=DEADLINE_S, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    lines = [line.split(" ", 1) for line in done.stdout.splitlines()]
    assert [data for _, data in lines] == ["a", "bad b", "c"]
    assert [int(i) for i, _ in lines] == sorted(int(i) for i, _ in lines)
    assert "failed (it is bad)" in done.stderr
    assert call(server.port, "GET", "/v1/queues")[1] == {"queues": []}
    assert call(server.port, "GET", "/groups")[1] == []  # no message is left


def test_several_servers_on_one_ensemble(tmp_path, room_of):
    """The leader has the messages; the other servers redirect clients to it."""
    with zk.Ensemble(tmp_path / "zk") as ensemble:
        servers = [OnEnsemble(ensemble.url("/two")).start() for _ in range(2)]
        try:
            rooms = [room_of(server, ensemble.hosts, "/two") for server in servers]
            for room in rooms:
                wait_until(lambda: room.call("GET", "/v1/queues/qdo_error/messages")[0] in (200, 307),
                           "a leader")
            leads = [r.call("GET", "/v1/queues/qdo_error/messages")[0] == 200 for r in rooms]
            assert sorted(leads) == [False, True]
            follower = rooms[leads.index(False)]
            queue = follower.create()
            done = drover("queue", "post", queue, "a", "--server", follower.url)
            assert done.returncode == 0, done.stderr
            worker = follower.work()  # which is redirected to the leader, too
            wait_until(lambda: follower.last(queue) == done.stdout.strip(), "the message")
            worker.kill()
        finally:
            for server in servers:
                server.kill()


soak = pytest.mark.skipif(not os.environ.get("DROVER_SOAK"), reason="takes a minute")


@soak
def test_an_ensemble_that_loses_its_leader(tmp_path, room_of):
    """Twice, with messages coming in all the time: all are handled, in order."""
    with zk.Ensemble(tmp_path / "zk", nodes=3) as ensemble:
        server = OnEnsemble(ensemble.url("/three"), "--zk-timeout-ms", 4000).start()
        try:
            wait_until(lambda: call(server.port, "GET", "/readyz")[0] == 200, "a leader")
            room = room_of(server, ensemble.hosts, "/three")
            queues = room.create(6)
            for _ in range(3):
                room.work("--timeout", "4s", "--settle", "500ms")
            room.wait_balanced(3, queues)
            posted = {queue: [] for queue in queues}
            for turn in range(2):
                leader = ensemble.leader()
                leader.kill()
                for n in range(10):
                    for queue in queues:
                        done = []

                        def post():
                            status, body = room.call("POST", f"/v1/queues/{queue}/messages",
                                                     {"data": f"{turn} {n}"})
                            if status == 200:
                                done.append(body["id"])
                            return status == 200
                        wait_until(post, "a post", 60)
                        posted[queue] += done
                leader.start()
                leader.wait()
            wait_until(lambda: all(room.last(q) == str(posted[q][-1]) for q in queues), "all", 60)
            for queue in queues:
                ids = [one.id for one in room.handled(queue)]
                # At least once: the message in progress may be handled again.
                assert set(posted[queue]) <= set(ids)
                firsts = list(dict.fromkeys(ids))
                assert firsts == sorted(firsts)
            room.wait_balanced(3, queues, 60)
        finally:
            server.kill()


@soak
def test_twenty_workers_and_two_hundred_queues():
    binary = ROOT / "build/src/drover" if (ROOT / "build/src/drover").exists() else BINARY
    done = subprocess.run([sys.executable, ROOT / "bench/queue_workers.py", binary],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
