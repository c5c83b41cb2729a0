"""A file system that is really full: what the server says, what it still does, how it gets out."""

import os
import signal

import pytest

from conftest import Server, call, drover, errors, fill_disk, wait_until
from task_support import Tasks, new_group
from test_service import Manager

pytestmark = pytest.mark.slow

BIG = "x" * 90000


def ready(server):
    status, body = call(server.port, "GET", "/readyz")
    return status, " ".join(errors(body)) if status != 200 else ""


def metric(server, name):
    text = server.request("GET /metrics HTTP/1.1\r\nHost: HOST\r\n\r\n")[2].decode()
    return [float(line.split()[1]) for line in text.splitlines() if line.startswith(name + " ")]


def until_full(tasks, group):
    """Adds until it is refused; the ids that were given."""
    given = []
    while True:
        status, body = tasks.send("POST", "/update", {
            "clientid": tasks.clientid, "adds": [{"group": group, "data": BIG}]})
        if status != 200:
            assert status == 507 and body["code"] == "DISK_FULL", (status, body)
            return given
        given.append(body["tasks"][0]["id"])


def listed(tasks, group):
    return sorted(task["id"] for task in tasks.group(group, "?limit=1000"))


def whole_reserve(place):
    return len(list(place.glob("reserve-*"))) == 4


def start_on(place, *arguments):
    """A server that has its reserve."""
    server = Server("--data", place / "data", *arguments).start()
    wait_until(lambda: whole_reserve(place / "data"), "a reserve")
    return server


def test_a_full_server_says_so_deletes_and_recovers(small_disk, tmp_path):
    """The file that fills the disk stays: the room comes from what is deleted."""
    server = start_on(small_disk)
    try:
        fill_disk(small_disk / "filler")
        group = new_group()
        tasks = Tasks(server.port)
        assert ready(server) == (200, "")
        ids = until_full(tasks, group)
        status, why = ready(server)
        assert status == 503 and "room on the disk" in why
        assert metric(server, "drover_ready") == [0]
        server.wait_for("the disk is full: cannot make .*; changes that add are refused")
        told = drover("doctor", "--server", f"http://127.0.0.1:{server.port}")
        assert told.returncode and "room on the disk" in told.stdout
        [mine] = tasks.claim(group)
        tasks.update(deletes=[mine["id"]])  # a claim and a finish go on
        left = listed(tasks, group)
        assert len(left) == len(ids) - 1
        manager = Manager(str(tmp_path / "notify"))
        for _ in range(6):  # more often than there are pieces
            server.signal(signal.SIGKILL)
            server.wait()
            server.kill()
            fill_disk(small_disk / "more")
            server = Server("--data", small_disk / "data", env=os.environ | manager.environment).start()
            assert any("room on the disk" in line for line in manager.wait_for("READY=1"))
            tasks = Tasks(server.port)
            assert ready(server)[0] == 503
            assert listed(tasks, group) == left
            assert tasks.send("POST", "/update", {"clientid": tasks.clientid, "adds": [
                {"group": group, "data": ""}]})[0] == 507
            tasks.update(deletes=[left.pop(), left.pop()])
            os.unlink(small_disk / "more")
        while left:
            tasks.update(deletes=[left.pop()])
        wait_until(lambda: ready(server) == (200, ""), "room")
        server.wait_for("there is room in .* again")
        assert whole_reserve(small_disk / "data")
        assert tasks.add(group, BIG)
        assert server.stop() == 0, server.said
    finally:
        server.kill()


def test_the_older_snapshot_makes_room_for_a_new_one(small_disk):
    """What is left after the deletions is larger than the reserve."""
    data, group = small_disk / "data", new_group()
    server = start_on(small_disk, "--snapshot-every", 50)
    try:
        tasks = Tasks(server.port)
        ids = [tasks.add(group, BIG * 5)[0] for _ in range(40)]
        while len(list(data.glob("snapshot-*"))) < 2 or metric(server, "drover_snapshots_total")[0] < 3:
            tasks.update(deletes=tasks.add(group, ""))
        fill_disk(small_disk / "filler")
        ids += until_full(tasks, group)
        for one in ids[:-150]:
            tasks.update(deletes=[one])
        wait_until(lambda: ready(server) == (200, ""), "room")
        assert whole_reserve(data)
        server.signal(signal.SIGKILL)
        server.wait()
        server.kill()
        server = Server("--data", data).start()
        assert listed(Tasks(server.port), group) == ids[-150:]
    finally:
        server.kill()
