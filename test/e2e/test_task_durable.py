"""What the task store keeps: over restarts, under kill -9, while the disk is slow, when clocks jump."""

import http.client
import json
import os
import pathlib
import random
import select
import shutil
import signal
import subprocess
import threading
import time

import pytest

from conftest import DEADLINE_S, Connection, Server, drover, wait_until
from task_support import Tasks
from test_long_lists import SlowReader
from test_schedules import Schedules, task
from world_support import figure

pytestmark = pytest.mark.slow

SOAK = bool(os.environ.get("DROVER_SOAK"))


def compile_library(directory, name):
    path = directory / f"{name}.so"
    subprocess.run(["cc", "-Wall", "-Werror", "-shared", "-fPIC", "-o", path,
                    pathlib.Path(__file__).with_name(f"{name}.c")], check=True)
    return path


def preloaded(library, **variables):
    sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    return os.environ | {"LD_PRELOAD": str(library), "ASAN_OPTIONS": sanitizer, **variables}


# Restarts.

@pytest.mark.parametrize("journal", ["strict", "opportunistic"])
def test_tasks_and_ids_over_a_restart(start, journal):
    first = start("--journal", journal)
    me = Tasks(first.port)
    ids = me.add("kept", *"abcdef")
    [claimed] = me.claim("kept")
    gone = me.update(deletes=ids[:0], adds=[{"group": "gone"}])[0]["id"]
    me.update(deletes=[gone])
    assert first.stop() == 0
    me = Tasks(start("--journal", journal).port, me.clientid)
    assert len(me.group("kept")) == 5 and len(me.group("kept", "?owned=1")) == 6
    assert me.get(f"/task/{claimed['id']}") == claimed
    assert me.get("/groups") == ["kept"]
    assert me.add("kept", "new")[0] > gone
    assert me.update(deletes=[claimed["id"]]) == []


def test_the_last_id_after_kill_9(start):
    """The task that had it may be gone."""
    server = start()
    me = Tasks(server.port)
    assert figure(server.port, "drover_task_last_id") == 0
    [*_, last] = me.add("g", *"abc")
    for claims in (False, True, True):
        if claims:
            last = me.claim("g")[0]["id"]
        me.update(deletes=[last])
        assert figure(server.port, "drover_task_last_id") == last
        server.kill()
        server = start()
        me = Tasks(server.port, me.clientid)
        assert figure(server.port, "drover_task_last_id") == last


def test_ids_are_not_given_again_after_snapshots_and_an_emptied_store(start):
    last = 0
    for _ in range(3):
        server = start("--snapshot-every", 1)
        me = Tasks(server.port)
        ids = me.add("g", "a", "b")
        assert ids[0] > last
        last = me.claim("g")[0]["id"]
        me.update(deletes=[task["id"] for task in me.group("g", "?owned=1")])
        server.signal(signal.SIGKILL)
        server.wait()


# "If a task store dies between sending out the task and flushing the update to disk, a worker will have
# confirmation that it, e.g., owns a task, but the task store will have no record of that task"

def test_what_was_answered_and_lost_is_refused_and_its_id_is_not_given_again(start, tmp_path):
    """Opportunistic: a copy of the disk at one moment is what a power failure would leave."""
    first = start("--journal", "opportunistic")
    Tasks(first.port).add("g", "a")
    assert first.stop() == 0
    second = start("--journal", "opportunistic")
    shutil.copytree(tmp_path / "data", tmp_path / "then",
                    ignore=shutil.ignore_patterns("*.tmp"))  # one may be renamed meanwhile
    me = Tasks(second.port)
    lost = me.add("g", *["x"] * 3000)
    owned = me.claim("g")[0]["id"]
    second.signal(signal.SIGKILL)
    second.wait()
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "then").rename(tmp_path / "data")
    for journal in "opportunistic", "strict":
        again = start("--journal", journal)
        me = Tasks(again.port, me.clientid)
        assert str(owned) in me.refused(deletes=[owned])[0]
        assert me.get(f"/tasks/{lost[0]},{lost[-1]}") == [None, None]
        assert me.add("g", "new")[0] > owned > max(lost)
        assert again.stop() == 0


def test_a_second_process_is_refused(start, tmp_path):
    start()
    second = drover("serve", "--http", "127.0.0.1:0", "--zk", "none", "--data", tmp_path / "data")
    assert second.returncode == 1 and str(tmp_path / "data") in second.stderr


def test_a_request_id_is_known_after_kill_9(start):
    server = start()
    me = Tasks(server.port)
    first = me.update(adds=[{"group": "g", "data": "x"}], requestid="one")
    claimed = me.claim("g", requestid="two")
    server.signal(signal.SIGKILL)
    server.wait()
    me = Tasks(start().port, me.clientid)
    assert me.update(adds=[{"group": "g", "data": "x"}], requestid="one") == first
    assert me.claim("g", requestid="two") == claimed
    assert len(me.group("g", "?owned=1")) == 1


# "no task requests are fulfilled until after the task update is flushed to disk", nor shown.

def ask(connection, server, path):
    connection.send(server.fill(f"GET {path} HTTP/1.1\r\nHost: HOST\r\n\r\n"))


def is_silent(connection):
    return not select.select([connection.socket], [], [], 0.3)[0]


def test_nothing_is_answered_or_shown_before_it_is_on_disk(tmp_path):
    hold = tmp_path / "hold"
    hold.mkdir()
    library = compile_library(tmp_path, "hold_sync")
    server = Server("--data", tmp_path / "data", env=preloaded(library, DROVER_TEST_HOLD=str(hold)))
    try:
        server.start()
        me, reader = Tasks(server.port), Connection(server.port)
        [known] = me.add("known", "x")
        (hold / "hold").touch()
        body = json.dumps({"clientid": 1, "adds": [{"group": "fresh"}]})
        writer = server.connect()
        writer.send(server.fill("POST /update HTTP/1.1\r\nHost: HOST\r\n"
                                "Content-Type: application/json\r\n"
                                f"Content-Length: {len(body)}\r\n\r\n{body}"))
        wait_until((hold / "entered").exists, "a sync")
        ask(reader, server, "/groups")
        while not is_silent(reader):  # the sync that is held was another's: the writer has yet to come
            assert json.loads(reader.answer()[2]) == ["known"]
            ask(reader, server, "/groups")
        ask(reader, server, "/group/fresh")
        ask(reader, server, f"/tasks/{known},{known + 1}")
        for connection in (reader, writer):
            assert is_silent(connection)
        (hold / "hold").unlink()
        assert writer.answer()[0] == 200
        assert json.loads(reader.answer()[2]) == ["fresh", "known"]
        reader.close()
    finally:
        (hold / "hold").unlink(missing_ok=True)
        server.kill()


def test_a_list_does_not_go_on_with_what_is_not_on_disk(tmp_path):
    """A slice that would lack a task whose deletion is not on disk waits."""
    hold = tmp_path / "hold"
    hold.mkdir()
    library = compile_library(tmp_path, "hold_sync")
    server = Server("--data", tmp_path / "data", env=preloaded(library, DROVER_TEST_HOLD=str(hold)))
    try:
        server.start()
        me = Tasks(server.port)
        ids = [task for _ in range(20) for task in me.add("g", *["x" * 1000] * 700)]
        reader = SlowReader(server, "/group/g")
        (hold / "hold").touch()
        body = json.dumps({"clientid": 1, "deletes": ids[-1:]})
        writer, probe = server.connect(), server.connect()
        writer.send(server.fill("POST /update HTTP/1.1\r\nHost: HOST\r\n"
                                "Content-Type: application/json\r\n"
                                f"Content-Length: {len(body)}\r\n\r\n{body}"))
        wait_until((hold / "entered").exists, "a sync")
        ask(probe, server, "/groups")
        while not is_silent(probe):  # the writer has yet to come
            probe.answer()
            ask(probe, server, "/groups")
        while not is_silent(reader):
            reader.read_more()
        assert not reader.bytes.endswith(b"\r\n0\r\n\r\n")
        (hold / "hold").unlink()
        assert [task["id"] for task in reader.read_rest()] == ids[:-1]
        reader.close()
    finally:
        (hold / "hold").unlink(missing_ok=True)
        server.kill()


def test_changes_that_share_a_sync_are_answered_and_kept(tmp_path):
    """Many at a time let the journal hold changes back. None is left behind, however few come next."""
    hold = tmp_path / "hold"
    hold.mkdir()
    library = compile_library(tmp_path, "hold_sync")
    server = Server("--data", tmp_path / "data", env=preloaded(library, DROVER_TEST_HOLD=str(hold)))
    body = json.dumps({"clientid": 1, "adds": [{"group": "shared"}]})
    try:
        server.start()
        request = server.fill("POST /update HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"
                              f"Content-Length: {len(body)}\r\n\r\n{body}")
        crowd = [server.connect() for _ in range(40)]
        (hold / "hold").touch()
        for connections in (crowd, crowd, crowd[:1], crowd[:20], crowd[:1]):
            for one in connections:
                one.send(request)
            if (hold / "hold").exists():
                wait_until(lambda: (hold / "entered").exists(), "a sync")
                assert is_silent(crowd[-1])
                (hold / "hold").unlink()
            for one in connections:
                assert one.answer()[0] == 200
        for one in crowd:
            one.close()
        server.kill()
        again = Server("--data", tmp_path / "data")
        again.start()
        assert len(Tasks(again.port).group("shared")) == 40 + 40 + 1 + 20 + 1
        assert again.stop() == 0
    finally:
        (hold / "hold").unlink(missing_ok=True)
        server.kill()


# "forward and back an hour: no lease given twice"

@pytest.mark.parametrize("jump", [3600, -3600])
def test_a_lease_outlives_a_jump_of_the_clock(tmp_path, jump):
    shift = tmp_path / "shift"
    shift.write_text("0")
    library = compile_library(tmp_path, "wall_shift")
    server = Server("--data", tmp_path / "data",
                    env=preloaded(library, DROVER_TEST_SHIFT=str(shift)))
    try:
        server.start()
        me, other = Tasks(server.port), Tasks(server.port)
        me.add("g", "x")
        [mine] = me.claim("g", 60000)
        me.add("short", "x")
        me.claim("short", 200)
        shift.write_text(str(jump))
        assert other.claim("g") == []
        assert len(other.refused(deletes=[mine["id"]])) == 1
        assert len(other.claim("short", wait=10000)) == 1  # due times are still valid
        [renewed] = me.update(updates=[{"id": mine["id"], "timespec": -60000}])
        assert abs(renewed["timespec"] - mine["timespec"]) < 30000
        assert server.stop() == 0, server.said
    finally:
        server.kill()


@pytest.mark.parametrize("jump", [3600, -3600])
def test_what_waits_outlives_a_jump_of_the_clock(tmp_path, jump):
    """Slots, attempts to come, expiries, rates and remembered keys; and a schedule loses no time and has none twice."""
    shift = tmp_path / "shift"
    shift.write_text("0")
    server = Server("--data", tmp_path / "data", env=preloaded(compile_library(tmp_path, "wall_shift"),
                                                               DROVER_TEST_SHIFT=str(shift)))
    try:
        server.start()
        me, schedules = Tasks(server.port), Schedules(server.port)
        for group, settings in (("slots", {"limit": 1}), ("keys", {"remember_keys": 600000, "keep_done": 600000}),
                                ("rate", {"rate": {"count": 1, "per": 600000, "burst": 1}})):
            assert me.send("PUT", f"/v1/groups/{group}", settings)[0] == 200
            me.add(group, "a", key="k")
            me.add(group, "b")
        me.claim("slots")
        [rated] = me.claim("rate")
        me.update(finishes=[{"id": task["id"], "result": "r"} for task in me.claim("keys", limit=2)])
        [failed] = me.update(fails=[{"id": me.add("retry", "x")[0], "error": "e", "retry_in": 600000}])
        [expiring] = me.add("expiring", "x", expires=-600000)
        first = schedules.put("ticks", every=60000, missed="one", **task("ticks"))["next"]
        shift.write_text(str(jump))
        wait_until(lambda: schedules.get("ticks")["runs"] == (jump > 0), "the clock is looked at")
        counts = {group["group"]: group for group in me.get("/v1/groups")["groups"]}
        assert [counts["slots"][state] for state in ("claimed", "available")] == [1, 1]
        assert me.claim("slots") == me.claim("rate") == me.claim("retry") == []
        assert me.get(f"/v1/tasks/{failed['id']}")["state"] == "retrying"
        assert me.get(f"/v1/tasks/{expiring}")["state"] == "available"
        assert counts["keys"]["done"] == 2 and "which has ended" in me.refused(adds=[{"group": "keys", "key": "k"}])[0]
        ticks = schedules.get("ticks")
        assert ticks["runs"] == len(schedules.tasks("ticks")) and (ticks["next"] - first) % 60000 == 0
        assert ticks["next"] > first if jump > 0 else ticks["next"] == first
        assert me.update(releases=[rated["id"]]) and server.stop() == 0, server.said
    finally:
        server.kill()


# Histories under kill -9.

class Worker(threading.Thread):
    """Adds, claims and deletes on any server, and records the answers."""

    def __init__(self, crowd, number):
        super().__init__(daemon=True)
        self.crowd, self.number = crowd, number
        self.random = random.Random(number)
        self.client = None
        self.added, self.claims, self.deleted, self.unsure = {}, [], set(), set()
        self.stale = 0
        self.count = 0

    def call(self, path, body, sent=None):
        """The answer; None if the outcome is unknown. sent: when it was first sent, if earlier."""
        try:
            if self.client is None or self.client.port != self.crowd.port:
                self.client = Tasks(self.crowd.port, self.number)
                self.client.connection.timeout = 5
            sent = next(self.crowd.ticks) if sent is None else sent
            status, answer = self.client.send("POST", path, {"clientid": self.number, **body})
            if status in (307, 503):  # on an ensemble: another server leads, or none does
                time.sleep(0.01)
                return None
            self.crowd.answers += 1
            if status == 200:
                for task in answer["tasks"]:
                    self.crowd.saw(sent, task["id"])
            return status, answer
        except (OSError, http.client.HTTPException, ValueError):
            self.client = None
            time.sleep(0.002)
            return None

    def add(self):
        """Sent again, under its id, until somebody answers: it happens once."""
        self.count += 1
        key = f"{self.number}-{self.count}"
        sent = next(self.crowd.ticks)
        while not self.crowd.over:
            answer = self.call("/update", {"adds": [{"group": "g", "data": key}], "requestid": key},
                               sent)
            if answer:
                assert answer[0] == 200, answer
                self.added[key] = answer[1]["tasks"][0]["id"]
                return
        self.unsure.add(key)

    def claim(self):
        answer = self.call("/claim", {"group": "g", "duration": 3600000})
        if not answer:
            return
        assert answer[0] == 200, answer
        for task in answer[1]["tasks"]:
            self.claims.append(task["data"])
            self.finish(task)

    def finish(self, task):
        """Commits with the id that it has, and never with one that it had before."""
        old = self.added.get(task["data"])
        if old:
            answer = self.call("/update", {"adds": [{"group": "wrong"}], "deletes": [old]})
            assert answer is None or answer[0] == 409, answer
            self.stale += 1
        answer = self.call("/update", {"deletes": [task["id"]]})
        if answer is None:
            self.unsure.add(task["data"])
        else:
            assert answer[0] == 200, answer
            self.deleted.add(task["data"])

    def run(self):
        try:
            while not self.crowd.over:
                self.random.choice([self.add, self.claim])()
        except Exception as error:  # pylint: disable=broad-except
            self.crowd.errors.append(error)


class Crowd:
    """The workers, and what holds between their answers: ids rise."""

    def __init__(self, port, count):
        self.port, self.over, self.errors, self.answers = port, False, [], 0
        self.ticks = iter(range(10 ** 9))
        self.lock, self.seen = threading.Lock(), [(0, 0)]
        self.workers = [Worker(self, n + 1) for n in range(count)]
        for worker in self.workers:
            worker.start()

    def saw(self, sent, task_id):
        """Whatever was told before this was sent has a smaller id."""
        with self.lock:
            earlier = max((i for told, i in self.seen[-50:] if told < sent), default=0)
            if earlier >= task_id:
                self.errors.append(AssertionError(f"id {task_id} after {earlier}"))
            self.seen.append((next(self.ticks), max(task_id, self.seen[-1][1])))

    def work(self, answers):
        """Lets them work until they have that many more answers."""
        wanted = self.answers + answers
        wait_until(lambda: self.answers >= wanted or self.errors, "answers for the crowd")

    def end(self):
        self.over = True
        for worker in self.workers:
            worker.join(DEADLINE_S)
            assert not worker.is_alive()


def check_history(crowd, left):
    added = {k: i for w in crowd.workers for k, i in w.added.items()}
    claims = [k for w in crowd.workers for k in w.claims]
    deleted = {k for w in crowd.workers for k in w.deleted}
    unsure = {k for w in crowd.workers for k in w.unsure}
    there = [task["data"] for task in left]
    assert not crowd.errors, crowd.errors[0]
    assert len(claims) == len(set(claims)), "a task was given to two"
    assert len(there) == len(set(there)), "a task is there twice"
    assert not deleted & set(there), "a deleted task came back"
    assert set(added) - deleted - unsure <= set(there), "a task was lost"
    assert set(there) <= set(added) | unsure, "a task out of nowhere"
    return len(added), len(claims)


@pytest.mark.parametrize("answers", [5000 if SOAK else 300])
def test_claims_are_linearizable_under_kill_9(start, answers):
    server = start()
    crowd = Crowd(server.port, 6)
    for _ in range(20 if SOAK else 4):
        crowd.work(answers)
        server.signal(signal.SIGKILL)
        server.wait()
        server = start()
        crowd.port = server.port
    crowd.work(answers)
    crowd.end()
    me = Tasks(server.port)
    added, claimed = check_history(crowd, me.group("g", "?owned=1"))
    assert me.group("wrong", "?owned=1") == []
    assert added > 20 and claimed > 5 and sum(w.stale for w in crowd.workers) > 0
    assert server.stop() == 0
