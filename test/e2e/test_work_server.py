"""What `drover work` asks of the server: attempts that go with a failure, claims that are for tasks only, and
tasks that workers of version 0.1 left in GROUP/retry/N."""

import pytest

from conftest import OnEnsemble, Server
from task_support import Tasks, new_group


@pytest.fixture(scope="module", params=["embedded", "zookeeper"])
def server(request, tmp_path_factory):
    if request.param == "embedded":
        one = Server("--data", tmp_path_factory.mktemp("work") / "data").start()
    else:
        one = OnEnsemble(request.getfixturevalue("zookeeper").url("/worker")).start().leads()
    yield one
    status = one.stop()
    one.kill()
    assert status == 0, one.said


@pytest.fixture
def me(server):
    one = Tasks(server.port)
    yield one
    one.close()


def fail(me, group, **members):
    [task] = me.claim(group)
    [failed] = me.update(fails=[{"id": task["id"], "retry_in": 0, **members}])
    return failed


def test_a_worker_may_try_more_often_than_the_group_says(me):
    group = new_group("work")
    me.add(group, "x")
    for attempt in range(1, 8):
        failed = fail(me, group, attempts=8)
        assert (failed["group"], failed["attempts"]) == (group, attempt)
    assert fail(me, group, attempts=8)["group"] == group + "/dead"


def test_a_worker_may_try_less_often_than_the_group_says(me):
    group = new_group("work")
    me.add(group, "x")
    assert fail(me, group)["group"] == group
    dead = fail(me, group, attempts=1)
    assert (dead["group"], dead["origin"], dead["attempts"]) == (group + "/dead", group, 2)


@pytest.mark.parametrize("wrong", [0, -1, "2", 1.5, True])
def test_a_wrong_number_of_attempts_is_named(me, wrong):
    status, body = me.send("POST", "/update", {"clientid": 1, "fails": [{"id": 1, "attempts": wrong}]})
    assert status == 400 and body["field"].endswith("attempts"), body


def move(me, source, target):
    status, body = me.send("POST", "/v1/tasks/bulk", {"filter": {"group": source}, "action": "move",
                                                      "group": target})
    assert (status, body["matched"], body["changed"], body["next"]) == (200, 1, 1, None), body
    [task] = me.get(f"/v1/tasks?group={target}")["tasks"]
    return task


def test_a_task_of_version_0_1_keeps_its_attempts_and_its_time(me):
    group = new_group("work")
    [task] = me.update(adds=[{"group": group + "/retry/3", "data": "x", "timespec": -60000}])
    moved = move(me, group + "/retry/3", group)
    assert {name: moved.get(name) for name in ("first", "data", "timespec", "attempts", "state")} == {
        "first": task["id"], "data": "x", "timespec": task["timespec"], "attempts": 3, "state": "retrying"}


@pytest.mark.parametrize("tail", ["/retry/", "/retry/0", "/retry/03", "/retry/1000", "/retry/3a", "/retry/-1",
                                  "/retry/3/retry/3", "/retries/3", "x/retry/3", "/dead"])
def test_other_groups_have_no_attempts_in_their_names(me, tail):
    group = new_group("work")
    me.add(group + tail, "x")
    moved = move(me, group + tail, group)
    assert "attempts" not in moved and moved["state"] == "available"


def test_a_move_to_another_group_counts_no_attempts(me):
    group = new_group("work")
    me.add(group + "/retry/3", "x")
    assert "attempts" not in move(me, group + "/retry/3", group + "-other")


def test_a_claim_for_tasks_takes_no_messages(me):
    status, queue = me.send("POST", "/v1/queues", {})
    assert status == 200
    name = queue["queue"]
    assert me.send("POST", f"/v1/queues/{name}/messages", {"data": "m"})[0] == 200
    me.add("tasks", "t")
    ask = {"duration": 60000, "groups": [name], "tasks_only": True, "wait": 20000}
    assert me.refused("/claim", **ask) == [f"group {name} has messages of a queue or tasks of nodes"]
    assert [task["data"] for task in me.claim("tasks", tasks_only=True)] == ["t"]
    status, body = me.send("GET", f"/v1/queues/{name}/messages?after=0")
    assert status == 200 and len(body["messages"]) == 1, "it is still there"
    assert [task["data"] for task in me.claim(name)] == ["m"], "who asks for it gets it"


def test_a_claim_for_tasks_takes_no_nodes(me, server):
    """An agent waits for the group, so the node is offered; a worker that asks for tasks does not get it."""
    group = new_group("nodes")
    node = {"metadata": {"type": "command", "group": group}, "data": {"command": "true", "args": []}}
    assert me.send("POST", "/v1/nodes", [node])[0] == 200
    assert me.claim(group, tasks_only=True, wait=50) == [], "it was not offered"
    [task] = me.claim(group, duration=1, wait=20000)
    assert task["group"] == group


def test_a_dead_group_outlives_the_next_change_of_settings(me):
    """The answer had text of the settings before, which were freed."""
    group = new_group("work")
    for settings in ({"dead": "there"}, {"limit": 3}, {"limit": 4}):
        status, body = me.send("PUT", f"/v1/groups/{group}", settings)
        assert status == 200 and body["settings"]["dead"] == "there"
    assert me.get(f"/v1/groups/{group}")["settings"]["dead"] == "there"
