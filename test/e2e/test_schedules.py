"""Schedules: what they add and when, over crashes and failover, on both keepers."""

import os
import signal
import time

import pytest

from conftest import NUMBERS, Http, OnEnsemble, Server, errors, wait_until
from test_rights import NODE, admin_token, ask, make_token

SECOND = {"every": 1000}
YEARLY = {"cron": "@yearly"}


class Schedules(Http):
    """A client."""

    def put(self, name, **spec):
        status, made = self.send("PUT", f"/v1/schedules/{name}", spec)
        assert status == 200, made
        return made

    def get(self, name):
        status, found = self.send("GET", f"/v1/schedules/{name}")
        assert status == 200, found
        return found

    def post(self, name, verb):
        status, answer = self.send("POST", f"/v1/schedules/{name}/{verb}", {})
        assert status == 200, answer
        return answer

    def delete(self, name):
        assert self.send("DELETE", f"/v1/schedules/{name}") == (200, {"name": name})

    def tasks(self, group):
        return self.send("GET", f"/group/{group}?owned=1")[1]

    def until_runs(self, name, count):
        return wait_until(lambda: (s := self.get(name))["runs"] >= count and s, f"{count} runs")


@pytest.fixture(scope="module", params=["embedded", "zookeeper"])
def server(request, tmp_path_factory):
    rights = "--loopback-roles", "all"
    if request.param == "embedded":
        one = Server("--data", tmp_path_factory.mktemp("schedules") / "data", *rights).start()
    else:
        one = OnEnsemble(request.getfixturevalue("zookeeper").url("/schedules"), *rights).start().leads()
    yield one
    status = one.stop()
    one.kill()
    assert status == 0, one.said


@pytest.fixture
def me(server):
    one = Schedules(server.port)
    wait_until(lambda: one.send("GET", "/v1/schedules")[0] == 200, "the schedules")
    yield one
    one.close()


@pytest.fixture
def name():
    return f"s{next(NUMBERS)}"


def task(name, **more):
    return {"task": {"group": name, **more}}


# What it adds.

def test_a_task_every_second(me, name):
    made = me.put(name, **SECOND, **task(name, data="x", priority=3))
    assert made["times"] == [made["next"] + 1000 * n for n in range(5)] and made["last"] is None
    s = me.until_runs(name, 2)
    me.delete(name)
    found = me.tasks(name)
    assert len(found) >= 2 and {t["data"] for t in found} == {"x"} and {t["priority"] for t in found} == {3}
    assert s["last"] >= made["next"] and (s["last"] - made["next"]) % 1000 == 0
    assert me.send("GET", f"/v1/schedules/{name}")[0] == 404


def test_a_graph_now(me, name):
    command = {"metadata": {"type": "shell command"}, "data": {"command": "true"}}
    after = {"metadata": {"type": "shell command", "parents": ["a"]}, "data": {"command": "true"}}
    made = me.put(name, **YEARLY, graph=[command | {"ref": "a"}, after])
    assert made["next"] == made["times"][0] and made["graph"][1] == after
    ran = me.post(name, "run")
    assert ran["last_nodes"] == 2 and ran["next"] == made["next"] and ran["last"] is None
    last = ran["last_node"] + 1
    wait_until(lambda: me.send("GET", f"/v1/nodes/{last}")[1]["metadata"]["state"] == "finished", "the nodes")
    assert me.post(name, "run")["last_node"] > last
    listed = next(s for s in me.send("GET", "/v1/schedules?limit=1000")[1]["schedules"] if s["name"] == name)
    assert "graph" not in listed and listed["runs"] == 2
    me.delete(name)


def test_while_a_task_has_the_key_no_other_is_added(me, name):
    me.put(name, **YEARLY, **task(name, key="k"))
    first = me.post(name, "run")["last_task"]
    assert me.post(name, "run")["last_task"] == first
    [only] = me.tasks(name)
    assert me.send("POST", "/update", {"clientid": 1, "deletes": [only["id"]]})[0] == 200
    assert me.post(name, "run")["last_task"] != first
    me.delete(name)


def test_what_has_not_ended_holds_back_the_next(me, name):
    me.put(name, **SECOND, overlap="skip", **task(name))
    one = me.until_runs(name, 1)
    later = wait_until(lambda: (s := me.get(name))["last"] > one["last"] + 1000 and s, "two more times")
    assert later["runs"] == 1 and len(me.tasks(name)) == 1
    [only] = me.tasks(name)
    assert me.send("POST", "/update", {"clientid": 1, "finishes": [{"id": only["id"]}]})[0] == 200
    me.until_runs(name, 2)
    me.delete(name)


def test_a_graph_that_runs_holds_back_the_next(me, name):
    sleep = {"metadata": {"type": "shell command"}, "data": {"command": "sleep 60"}}
    me.put(name, **SECOND, overlap="skip", graph=[sleep])
    one = me.until_runs(name, 1)
    later = wait_until(lambda: (s := me.get(name))["last"] > one["last"] + 1000 and s, "two more times")
    assert later["runs"] == 1
    assert me.send("PUT", f"/v1/scheduler/kill?id={one['last_node']}")[0] == 200
    two = me.until_runs(name, 2)
    me.delete(name)
    assert me.send("PUT", f"/v1/scheduler/kill?id={two['last_node']}")[0] == 200


def test_a_full_group_is_tried_again(me, name):
    assert me.send("PUT", f"/v1/groups/{name}", {"max_tasks": 1})[0] == 200
    me.put(name, **SECOND, **task(name))
    wait_until(lambda: "error" in me.get(name), "the refusal")
    assert "may have 1" in me.get(name)["error"] and me.get(name)["runs"] == 1
    [only] = me.tasks(name)
    assert me.send("POST", "/update", {"clientid": 1, "deletes": [only["id"]]})[0] == 200
    me.until_runs(name, 2)
    me.delete(name)


# Changes.

def test_pause_and_resume(me, name):
    me.put(name, **SECOND, paused=True, **task(name))
    assert me.get(name)["next"] is None and me.get(name)["paused"]
    assert me.put(name, **SECOND, **task(name, data="new"))["paused"]
    assert me.post(name, "resume")["next"] is not None
    me.until_runs(name, 1)
    paused = me.post(name, "pause")
    assert paused["paused"] and len(me.tasks(name)) == paused["runs"]
    me.delete(name)


def test_the_same_times_stay(me, name):
    """To put it again, as every deployment does, moves nothing."""
    first = me.put(name, every=3600000, **task(name))
    again = me.put(name, every=3600000, **task(name, data="other"))
    assert again["times"] == first["times"] and again["task"]["data"] == "other"
    assert me.put(name, every=7200000, **task(name))["next"] > first["next"]
    me.delete(name)


def test_lists_have_pages(me, name):
    names = [f"{name}-{letter}" for letter in "abc"]
    for one in names:
        me.put(one, **YEARLY, **task(name))
    found, after = [], f"{name}-"
    while after:
        page = me.send("GET", f"/v1/schedules?limit=2&after={after}")[1]
        found += [s["name"] for s in page["schedules"]]
        after = page["next"]
    assert found[:3] == names
    for one in names:
        me.delete(one)


@pytest.mark.parametrize("spec, field", [
    ({"task": {"group": "g"}}, "cron"),
    ({"every": 1000, "cron": "@daily", "task": {"group": "g"}}, "cron"),
    ({"every": 999, "task": {"group": "g"}}, "every"),
    ({"every": "1s", "task": {"group": "g"}}, "every"),
    ({"every": 1000, "timezone": "UTC", "task": {"group": "g"}}, "timezone"),
    ({"cron": "61 * * * *", "task": {"group": "g"}}, "cron"),
    ({"cron": "* * 30 2 *", "task": {"group": "g"}}, "cron"),
    ({"cron": "@daily", "timezone": "Mars/Olympus", "task": {"group": "g"}}, "timezone"),
    ({"cron": "@daily", "timezone": "../../etc/passwd", "task": {"group": "g"}}, "timezone"),
    ({"cron": "@daily"}, "task"),
    ({"cron": "@daily", "task": {"group": "g"}, "graph": [NODE]}, "task"),
    ({"cron": "@daily", "task": {}}, "group"),
    ({"cron": "@daily", "task": {"group": "g", "when": 1}}, "when"),
    ({"cron": "@daily", "graph": []}, "graph"),
    ({"cron": "@daily", "graph": [{"metadata": {"type": "dance"}}]}, "graph"),
    ({"cron": "@daily", "task": {"group": "g"}, "missed": "some"}, "missed"),
    ({"cron": "@daily", "task": {"group": "g"}, "overlap": 1}, "overlap"),
    ({"cron": "@daily", "task": {"group": "g"}, "colour": 1}, "colour"),
])
def test_what_is_no_schedule(me, name, spec, field):
    status, body = me.send("PUT", f"/v1/schedules/{name}", spec)
    assert status == 400 and (body["field"] == field or field in errors(body)[0]), body
    assert me.send("GET", f"/v1/schedules/{name}")[0] == 404


def test_a_graph_needs_the_role_of_nodes(tmp_path, start):
    server = start("--loopback-roles", "read,work,submit")
    admin = admin_token(tmp_path / "data")
    submit = make_token(server, admin, roles=["submit"])["token"]
    run = make_token(server, admin, roles=["submit", "run"])["token"]
    path, graph = "/v1/schedules/one", {"cron": "@daily", "graph": NODE if isinstance(NODE, list) else [NODE]}
    assert ask(server, submit, "PUT", path, graph)[0] == 403
    assert ask(server, run, "PUT", path, graph)[0] == 200
    for method, where, body in (("PUT", path, {"cron": "@daily", "task": {"group": "g"}}), ("DELETE", path, None),
                                ("POST", path + "/run", {}), ("POST", path + "/pause", {})):
        assert ask(server, submit, method, where, body)[0] == 403, (method, where)
    assert ask(server, admin, "GET", path)[1]["runs"] == 0
    assert ask(server, run, "DELETE", path)[0] == 200
    assert server.stop() == 0, server.said


# Over crashes.

def came_once(me, name, first):
    """No time was lost and none came twice: a task for each second from the first to the last."""
    me.post(name, "pause")
    s = me.get(name)
    assert s["runs"] == (s["last"] - first) // 1000 + 1 == len(me.tasks(name)), s
    return s["runs"]


@pytest.mark.slow
def test_over_crashes_no_time_is_lost(tmp_path):
    options = "--data", tmp_path / "data", "--loopback-roles", "all"
    one = Server(*options).start()
    me = Schedules(one.port)
    firsts = {f"s{i}": me.put(f"s{i}", **SECOND, missed="all", **task(f"s{i}"))["next"] for i in range(20)}
    for count in (2, 3, 5):
        me.until_runs("s19", count)
        one.kill()
        one = Server(*options).start()
        me = Schedules(one.port)
    me.until_runs("s19", 7)
    assert all(came_once(me, name, first) >= 5 for name, first in firsts.items())
    assert one.stop() == 0, one.said
    one.kill()


def test_after_a_stop_one_comes_for_all(tmp_path):
    options = "--data", tmp_path / "data", "--loopback-roles", "all"
    one = Server(*options).start()
    me = Schedules(one.port)
    me.put("one", **SECOND, **task("one"))
    me.put("all", **SECOND, missed="all", **task("all"))
    before = me.until_runs("one", 1)
    assert one.stop() == 0, one.said
    one.kill()
    wait_until(lambda: time.time() * 1000 > before["last"] + 4000, "times that nobody saw")
    one = Server(*options).start()
    me = Schedules(one.port)
    wait_until(lambda: me.get("all")["last"] > before["last"] + 4000, "what was missed")
    me.post("one", "pause"), me.post("all", "pause")
    assert me.get("one")["runs"] <= me.get("all")["runs"] - 2
    assert one.stop() == 0, one.said
    one.kill()


def test_a_zone_that_is_gone_stops_its_schedule_only(tmp_path, monkeypatch):
    one = Server("--data", tmp_path / "data", "--loopback-roles", "all").start()
    me = Schedules(one.port)
    me.put("berlin", cron="* * * * * *", timezone="Europe/Berlin", paused=True, **task("g"))
    me.put("utc", cron="* * * * * *", **task("g"))
    assert one.stop() == 0
    one.kill()
    monkeypatch.setenv("TZDIR", os.fspath(tmp_path))
    one = Server("--data", tmp_path / "data", "--loopback-roles", "all").start()
    me = Schedules(one.port)
    assert "Europe/Berlin" in me.get("berlin")["error"] and me.get("berlin")["times"] == []
    me.until_runs("utc", 1)
    assert one.stop() == 0, one.said
    one.kill()


@pytest.mark.slow
def test_the_leader_is_killed(serve):
    leader = serve("--loopback-roles", "all").leads()
    me = Schedules(leader.port)
    wait_until(lambda: me.send("GET", "/v1/schedules")[0] == 200, "the schedules")
    other = serve("--loopback-roles", "all")
    firsts = {f"s{i}": me.put(f"s{i}", **SECOND, missed="all", **task(f"s{i}"))["next"] for i in range(5)}
    command = {"metadata": {"type": "shell command"}, "data": {"command": "true"}}
    me.put("graph", **SECOND, missed="all", graph=[command])
    me.until_runs("s4", 2)
    leader.signal(signal.SIGKILL)
    me = Schedules(other.port)
    wait_until(lambda: me.send("GET", "/v1/schedules")[0] == 200, "another leader")
    now = time.time() * 1000
    wait_until(lambda: all(me.get(name)["last"] > now for name in (*firsts, "graph")), "the times meanwhile")
    assert all(came_once(me, name, first) >= 3 for name, first in firsts.items())
    me.post("graph", "pause")
    s = me.get("graph")
    assert len(me.send("GET", "/v1/nodes")[1]) == s["runs"]
