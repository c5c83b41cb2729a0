"""drover cron: schedules as a person makes and reads them. What they do: test_schedules.py."""

import re

import pytest

from cli import Client
from conftest import ROOT
from test_task_command import refused

pytestmark = pytest.mark.slow

MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


@pytest.fixture
def me(server, tmp_path):
    return Client(f"http://127.0.0.1:{server.port}", tmp_path, TZ="UTC")


def test_a_schedule_from_add_to_rm(me):
    assert me.ok("cron", "ls") == "" and me.json("cron", "ls") == {"schedules": [], "next": None}
    assert re.fullmatch(MOMENT + "\n", me.ok("cron", "add", "nightly", "30 4 * * mon-fri", "report", "daily", "--timezone",
                                             "Europe/Berlin", "--priority", "-2", "--key", "k"))
    assert me.ok("cron", "add", "often", "1m30s", "tick", "--missed", "skip", "--overlap", "skip", "--paused") == "paused\n"
    head, nightly, often = me.ok("cron", "ls").splitlines()
    assert head.split() == ["NAME", "WHEN", "ADDS", "NEXT", "LAST", "RUNS", "ERROR"]
    assert re.fullmatch(rf"nightly  30 4 \* \* mon-fri  report  {MOMENT}  never     0  -", nightly)
    assert re.fullmatch(r"often    every 1m30s       tick    paused +never     0  -", often)
    schedule = me.json("cron", "show", "nightly")
    assert schedule["task"] == {"group": "report", "data": "daily", "priority": -2, "key": "k"}
    assert (schedule["timezone"], schedule["missed"]) == ("Europe/Berlin", "one")
    assert me.json("cron", "show", "often")["every"] == 90000
    show = me.ok("cron", "show", "often")
    assert "every: 1m30s\n" in show and "missed: skip\noverlap: skip\npaused: true\n" in show and "last: never\n" in show
    times = me.ok("cron", "next", "nightly").splitlines()
    assert len(times) == 5 and times == sorted(times) and all(time.endswith((" 02:30:00", " 03:30:00")) for time in times)
    assert me.ok("cron", "run", "nightly") == "1\n" and me.tasks() == [("report", "daily")]
    assert me.ok("cron", "pause", "nightly") == "" and me.json("cron", "show", "nightly")["paused"]
    assert me.ok("cron", "resume", "nightly").strip() == times[0]
    assert me.ok("cron", "add", "nightly", "@daily", "other").endswith(" 00:00:00\n"), "it is replaced"
    assert me.json("cron", "show", "nightly")["task"] == {"group": "other", "data": ""}
    assert me.ok("cron", "rm", "nightly", "often") == "" and me.ok("cron", "ls") == ""


def test_a_list_in_pages(me):
    for name in "abc":
        me.ok("cron", "add", name, "1h", "g")
    done = me.run("cron", "ls", "--limit", 2)
    assert len(done.stdout.splitlines()) == 3 and done.stderr == "drover: there are more: use --limit, or --after 'b'\n"
    assert [s["name"] for s in me.json("cron", "ls", "--after", "b")["schedules"]] == ["c"]


def test_a_graph(me, tmp_path):
    me.ok("cron", "add", "build", "@hourly", "--graph", ROOT / "examples/dag/build.yaml")
    assert "(a graph)" in me.ok("cron", "ls")
    assert [node["metadata"]["name"] for node in me.json("cron", "show", "build")["graph"]][0].startswith("build/")
    assert int(me.ok("cron", "run", "build")) > 0
    (tmp_path / "bad.yaml").write_text("nodes: [")
    done = me.run("cron", "add", "x", "@hourly", "--graph", tmp_path / "bad.yaml")
    assert done.returncode == 2 and "bad.yaml:2: " in done.stderr
    assert me.run("cron", "add", "x", "@hourly", "--graph", tmp_path / "none").returncode == 2


@pytest.mark.parametrize("words, said", [
    (["61 * * * *", "g"], "drover: minute: 61 is not 0 to 59"), (["soon", "g"], "'soon' is neither cron, such as"),
    (["@never", "g"], "@never"), (["@daily"], "give either GROUP or --graph"),
    (["@daily", "g", "--graph", "x"], "give either GROUP or --graph"), (["10ms", "g"], "every must be from 1000"),
    (["@daily", "g", "--timezone", "Mars/X"], "there is no time zone Mars/X"), ([], "missing argument: NAME WHEN"),
    (["@daily", "g", "--missed", "some"], "--missed: 'some' is none of one|skip|all"),
    (["1h", "g", "--timezone", "UTC"], "timezone"),
])
def test_wrong_schedules(me, words, said):
    done = me.run("cron", "add", "x", *words)
    assert (done.returncode, done.stdout) == (2, "") and said in done.stderr
    assert me.ok("cron", "ls") == ""


def test_schedules_that_do_not_exist(me):
    me.ok("cron", "add", "here", "1h", "g")
    for verb in "show", "next", "run", "pause", "resume", "rm":
        refused(me.run("cron", verb, "none"), "there is no such schedule")
    done = me.run("cron", "rm", "none", "here")
    assert done.returncode == 1 and me.ok("cron", "ls") == "", "the others are removed"
