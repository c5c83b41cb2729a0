"""Finding tasks and acting on many: by id, by where they died, and what became of those that are gone."""

import pytest

from conftest import errors
from task_support import Tasks, new_group
from test_task_groups import bulk, find, path_of, put


@pytest.fixture
def me(server):
    one = Tasks(server.port)
    yield one
    one.close()


@pytest.fixture
def group():
    return new_group("find")


def bury(me, group, *data):
    ids = me.add(group, *data)
    return [task["id"] for task in me.update(fails=[{"id": id, "dead": True, "error": "boom"} for id in ids])]


def test_by_where_they_died(me, group):
    """Two groups share one for their dead, and one had another before."""
    old = bury(me, group + "a", "old")
    put(me, group + "a", dead="graves")
    put(me, group + "b", dead="graves")
    new, other = bury(me, group + "a", "new"), bury(me, group + "b", "other")
    assert sorted(task["id"] for task in find(me, origin=group + "a")) == old + new
    assert bulk(me, "retry", {"origin": group + "a"}) == (2, 2)
    assert sorted(task["data"] for task in me.group(group + "a")) == ["new", "old"]
    assert [task["id"] for task in find(me, state="dead")] == other
    assert find(me, origin=group + "a") == []


def test_by_id(me, group):
    first, second, third = me.add(group, "a", "b", "c")
    me.claim(group)  # one of them has another id now
    alive = sorted(task["id"] for task in me.group(group))
    filter = {"ids": [first, second, f"first:{third}", 99999]}
    assert bulk(me, "delete", filter, dry_run=True)[0] == 2, "what is claimed is left alone"
    assert bulk(me, "delete", {"ids": alive[:1], "state": ["dead"]}) == (0, 0), "all of the filter counts"
    assert bulk(me, "delete", {"ids": [alive[1], alive[0]]}) == (2, 2)
    assert me.group(group) == [] and bulk(me, "delete", {"ids": []}) == (0, 0)
    status, body = me.send("POST", "/v1/tasks/bulk", {"action": "delete", "filter": {"ids": ["x"]}})
    assert status == 400 and "ids" in errors(body)[0]


def test_more_ids_than_one_request_changes(me, group):
    ids = me.add(group, *map(str, range(2500)))
    assert bulk(me, "delete", {"ids": ids}) == (2500, 2500) and me.group(group) == []


@pytest.mark.parametrize("action, more", [
    ("priority", {"priority": 3}), ("release", {}), ("retry", {}), ("move", {"group": "other"}), ("delete", {})])
def test_acting_on_a_group_ends(me, group, action, more):
    """Changed tasks have new ids, which come behind the others: it went on for ever."""
    ids = me.add(group, *map(str, range(12)))
    me.update(fails=[{"id": id, "retry_in": 3600000} for id in ids])
    filter = {"group": group}
    assert bulk(me, action, filter, limit=5, **more) == (12, 12)
    assert bulk(me, action, filter, limit=5, **more) == (0, 0), "it makes no difference any more"
    assert bulk(me, "move", {"group": "other"}, group="other") == (0, 0)


def test_what_is_done_is_found_once(me, group):
    put(me, group, keep_done=3600000)
    first, second = me.add(group, "a", "b")
    assert len(find(me, group=group)) == 2, "and the order of the ids is known"
    me.update(finishes=[{"id": first}])
    assert [(task["id"], task["state"]) for task in find(me, group=group)] == [(second, "available"), (first, "done")]


def test_what_became_of_a_task(me, group):
    [id] = me.add(group, "x")
    [task] = me.claim(group)
    for path in f"/v1/tasks/{id}", f"/v1/tasks/{id}/wait?timeout=0":
        status, body = me.send("GET", path)
        assert (status, body["code"]) == (404, "NO_TASK")
        assert errors(body) == [f"there is no task {id}: it is {task['id']} now, claimed by client {me.clientid}"]
    assert me.get(f"/v1/tasks/first:{id}")["id"] == task["id"]
    me.update(deletes=[task["id"]])
    for name in id, task["id"], f"first:{id}":
        if name != id:
            assert errors(me.send("GET", f"/v1/tasks/{name}")[1]) == [f"there is no task {name}: it has ended"]
    assert errors(me.send("GET", "/v1/tasks/99999")[1]) == ["there is no task 99999"]
    assert errors(me.send("GET", "/v1/tasks/first:99999")[1]) == ["there is no task first:99999"]


def test_messages_are_not_the_users(me, group):
    assert me.send("POST", "/v1/queues", {"queue": group})[0] < 300
    status, body = me.send("POST", f"/v1/queues/{group}/messages", {"data": "hello"})
    assert status < 300, body
    [message] = find(me, group=group, internal=1)
    assert find(me, group=group) == [] and bulk(me, "delete", {"group": group}) == (0, 0)
    assert bulk(me, "delete", {"ids": [message["id"]]}) == (0, 0)
    for member in {"finishes": [{"id": message["id"]}]}, {"fails": [{"id": message["id"]}]}, {"releases": [message["id"]]}:
        assert me.refused(**member) == [f"{next(iter(member))}: task {message['id']} is a message of a queue"]
    claim = {"clientid": me.clientid, "group": group, "duration": 60000}
    status, body = me.send("POST", "/claim", claim | {"tasks_only": True})
    assert (status, errors(body)) == (409, [f"group {group} has messages of a queue or tasks of nodes"])
    status, body = me.send("POST", "/claim", claim)
    assert status == 200 and body["tasks"][0]["data"] == "hello", "as it always was"
    assert me.update(finishes=[{"id": body["tasks"][0]["id"]}]) == [], "what was claimed can be finished"
    assert me.send("GET", path_of(group))[0] == 200
