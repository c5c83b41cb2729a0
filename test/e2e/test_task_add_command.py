"""drover add: what a task may carry, and where its data comes from."""

import base64
import datetime
import time

import pytest

from cli import Client
from test_task_command import refused

pytestmark = pytest.mark.slow


@pytest.fixture
def me(server, tmp_path):
    return Client(f"http://127.0.0.1:{server.port}", tmp_path, TZ="Europe/Berlin")


def task_of(me, id):
    return me.json("task", id)[0]


def test_priority_key_and_share(me):
    me.ok("add", "g", "late", "--priority", 7)
    me.ok("add", "g", "early", "--priority", "-3", "--key", "k", "--share", "ann")
    task = task_of(me, 2)
    assert (task["priority"], task["key"], task["share"]) == (-3, "k", "ann")
    assert me.json("claim", "g")["tasks"][0]["data"] == "early"
    assert set(me.json("ls", "g", "--state", "available")[0]) == {
        "id", "group", "data", "timespec", "ownerid", "priority", "created", "first", "state"}


def test_a_key_that_is_taken(me):
    me.ok("add", "g", "x", "--key", "k")
    refused(me.run("add", "g", "y", "--key", "k"), "adds[0]: task 1 has this key")
    assert me.ok("add", "g", "y", "--key", "k", "--on-key", "keep") == "1\n"
    assert me.ok("add", "g", "z", "--key", "k", "--on-key", "replace") == "2\n"
    assert me.tasks() == [("g", "z")]


@pytest.mark.parametrize("when, shown", [
    ("2030-01-02 03:04", "2030-01-02T03:04:00+01:00"), ("2030-07-02 03:04:05", "2030-07-02T03:04:05+02:00"),
    ("2030-07-02", "2030-07-02T00:00:00+02:00"), ("2030-07-02T03:04", "2030-07-02T03:04:00+02:00"),
    ("2030-07-02T03:04:05Z", "2030-07-02T03:04:05+00:00"), ("2030-07-02T03:04-05:00", "2030-07-02T03:04:00-05:00"),
])
def test_moments(me, when, shown):
    wanted = datetime.datetime.fromisoformat(shown).timestamp() * 1000
    task = task_of(me, me.ok("add", "g", "--at", when, "--expires", when).strip())
    assert (task["timespec"], task["expires"], task["state"]) == (wanted, wanted, "delayed")


def test_a_time_of_day_is_the_next_one(me):
    for clock in "00:00", "12:30:15", "23:59":
        task = task_of(me, me.ok("add", "g", "--at", clock).strip())
        assert 0 < task["timespec"] - time.time() * 1000 <= 25 * 3600 * 1000
        shown = datetime.datetime.fromtimestamp(task["timespec"] / 1000, datetime.timezone.utc)
        assert shown.strftime(":%M:%S") == {"00:00": ":00:00", "12:30:15": ":30:15", "23:59": ":59:00"}[clock]


def test_times_from_now(me):
    for words in ["--delay", "2h"], ["--at", "2h"], ["--expires", "2h"]:
        task = task_of(me, me.ok("add", "g", *words).strip())
        moment = task["expires" if words[0] == "--expires" else "timespec"]
        assert abs(moment - time.time() * 1000 - 7200_000) < 60_000, words


def test_data_from_a_file(me, tmp_path):
    file = tmp_path / "file"
    file.write_text("one\ntwo\n\nlast")
    me.ok("add", "whole", "--file", file)
    assert me.ok("add", "lines", "--file", file, "--each-line") == "2\n3\n4\n5\n"
    me.ok("add", "stdin", "--file", "-", input="a\nb\n")
    assert me.tasks() == [("lines", ""), ("lines", "last"), ("lines", "one"), ("lines", "two"),
                          ("stdin", "a\nb\n"), ("whole", "one\ntwo\n\nlast")]
    assert me.ok("add", "lines", "-", "--each-line", input="x\ny\n") == "7\n8\n"
    for more in [], ["--each-line"]:
        refused(me.run("add", "g", "--file", tmp_path / "none", *more), f"{tmp_path}/none: No such file or directory")
    file.write_bytes(b"x" * (1024 * 1024 + 1))
    refused(me.run("add", "g", "--file", file), f"{file} is longer than 1 MiB")


def test_data_that_is_no_text(me, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"\xff\0\x1b\n")
    refused(me.run("add", "g", "--file", file), "the data of task 1 is not UTF-8 text: use --data64")
    me.ok("add", "g", "--file", file, "--data64")
    assert base64.b64decode(task_of(me, 1)["data64"]) == b"\xff\0\x1b\n"
    assert me.ok("ls").split()[-1] == r"\xff\x00\x1b\n"
    with me.popen("task", 1, "--data", text=False) as process:
        assert process.stdout.read() == b"\xff\0\x1b\n"
    new = me.json("claim", "g")["tasks"][0]["id"]
    new = int(me.ok("renew", new))
    assert base64.b64decode(task_of(me, new)["data64"]) == b"\xff\0\x1b\n", "a renewal keeps it"


def test_json(me):
    tasks = me.json("add", "g", "x", "y", "--priority", 1)["tasks"]
    assert [(task["id"], task["data"], task["priority"]) for task in tasks] == [(1, "x", 1), (2, "y", 1)]
