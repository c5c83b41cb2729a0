"""What a task may carry beyond its five fields, and what the settings of its group do, on both keepers."""

import base64
import time

import pytest

from conftest import Server, errors, wait_until
from task_support import Tasks, me, new_group, other, server  # noqa: F401

PLAIN = {"id", "group", "data", "timespec", "ownerid"}


@pytest.fixture
def group():
    return new_group("policy")


def data_of(tasks):
    return [task["data"] for task in tasks]


def test_a_plain_task_has_five_members(me, group):
    me.add(group, "x")
    assert set(me.group(group)[0]) == PLAIN
    claimed = me.claim(group)[0]
    assert set(claimed) == PLAIN
    assert set(me.get(f"/task/{claimed['id']}")) == PLAIN


def test_the_smallest_priority_goes_first(me, group):
    for priority in (5, -3, 0, 5, 2):
        me.add(group, str(priority), priority=priority)
    me.add(group, "plain")
    order = [int(d) if d != "plain" else 0 for d in data_of(me.claim(group, limit=10))]
    assert order == [-3, 0, 0, 2, 5, 5]


def test_priorities_come_and_go(me, group):
    """What is left of a priority that has become empty is not in the way of the next."""
    for priority in (1, 2, 1, -3, 7):
        [added] = me.update(adds=[{"group": group, "data": "x", "priority": priority}])
        [got] = me.claim(group)
        assert (got["first"], got["claims"]) == (added["id"], 1)


def test_priority_counts_across_groups(me, group):
    me.add(group + "a", "late", priority=1)
    me.add(group + "b", "early", priority=-1)
    status, body = me.send("POST", "/claim", {"clientid": me.clientid, "duration": 1000,
                                              "groups": [group + "a", group + "b"], "limit": 2})
    assert status == 200 and data_of(body["tasks"]) == ["early", "late"]


def test_a_key_is_unique_while_its_task_lives(me, group):
    [first] = me.add(group, "one", key="k")
    reasons = me.refused(adds=[{"group": group, "key": "k"}])
    assert reasons == [f"adds[0]: task {first} has this key"]
    me.add(group + "/other", "in another group", key="k")
    assert me.refused(adds=[{"group": group, "key": "n"}, {"group": group, "key": "n"}]) \
        == ["adds[1] has the key of adds[0]"]
    # A transaction that ends the task frees its key for an add of the same transaction.
    [second] = me.update(deletes=[first], adds=[{"group": group, "data": "two", "key": "k"}])
    assert second["key"] == "k" and second["created"] > 0
    me.update(finishes=[{"id": second["id"]}])
    me.add(group, "three", key="k")


def test_keep_answers_the_task_that_has_the_key(me, other, group):
    [first] = me.update(adds=[{"group": group, "data": "one", "key": "k", "priority": 4}])
    [kept] = other.update(adds=[{"group": group, "data": "two", "key": "k", "on_key": "keep"}])
    assert kept == first
    assert len(me.group(group)) == 1


def test_replace_gives_new_data_unless_it_is_claimed(me, other, group):
    [first] = me.add(group, "one", key="k")
    [replaced] = other.update(adds=[{"group": group, "data": "two", "key": "k", "on_key": "replace"}])
    assert (replaced["data"], replaced["first"]) == ("two", first)
    [claimed] = me.claim(group)
    assert claimed["data"] == "two"
    reasons = other.refused(adds=[{"group": group, "data": "three", "key": "k", "on_key": "replace"}])
    assert reasons == [f"adds[0]: task {claimed['id']} has this key and is claimed"]


def test_a_failed_task_waits_and_tells_why(me, group):
    me.add(group, "x")
    [task] = me.claim(group)
    [failed] = me.update(fails=[{"id": task["id"], "error": "no route to host", "retry_in": 60000}])
    assert (failed["attempts"], failed["error"]) == (1, "no route to host")
    assert 50000 < failed["timespec"] - time.time() * 1000 < 70000
    assert me.claim(group) == []
    [again] = me.update(releases=[failed["id"]])
    assert again["attempts"] == 1
    [task] = me.claim(group)
    assert (task["attempts"], task["claims"], task["data"]) == (1, 1, "x")


def test_after_the_last_attempt_a_task_is_dead(me, group):
    [first] = me.add(group, "x", key="k")
    for attempt in range(1, 6):
        [task] = me.claim(group)
        [task] = me.update(fails=[{"id": task["id"], "error": f"attempt {attempt}", "retry_in": 0}])
    assert (task["group"], task["origin"], task["attempts"]) == (f"{group}/dead", group, 5)
    assert (task["error"], task["first"]) == ("attempt 5", first)
    assert me.group(group, "?owned=1") == []
    assert [t["id"] for t in me.group(f"{group}/dead")] == [task["id"]]
    me.add(group, "y", key="k")  # the dead hold no key


def test_dead_at_once(me, group):
    me.add(group, "x")
    [task] = me.claim(group)
    [dead] = me.update(fails=[{"id": task["id"], "error": "bad address", "dead": True}])
    assert dead["group"] == f"{group}/dead" and dead["attempts"] == 1


def test_an_error_is_cut_at_4_kib(me, group):
    me.add(group, "x")
    [task] = me.claim(group)
    [failed] = me.update(fails=[{"id": task["id"], "error": "a" + "é" * 5000}])
    assert failed["error"] == "a" + "é" * 2047


def test_first_names_a_task_for_its_life(me, group):
    [first] = me.add(group, "x")
    [task] = me.claim(group)
    assert me.get(f"/task/first:{first}")["id"] == task["id"]
    assert me.get(f"/tasks/{first},first:{first}") == [None, me.get(f"/task/{task['id']}")]
    me.update(updates=[{"id": f"first:{first}", "data": "y", "timespec": -60000}])
    me.update(finishes=[{"id": f"first:{first}"}])
    assert me.send("GET", f"/task/first:{first}")[0] == 404


def test_an_id_that_is_gone_says_what_became_of_it(me, other, group):
    [first] = me.add(group, "x")
    [task] = other.claim(group)
    assert me.refused(deletes=[first]) == \
        [f"deletes: there is no task {first}: it is {task['id']} now, claimed by client {other.clientid}"]
    other.update(deletes=[task["id"]])
    assert me.refused(deletes=[task["id"]]) == [f"deletes: there is no task {task['id']}: it has ended"]


def test_every_route_that_takes_an_id_takes_the_first_one(me, group):
    [first] = me.add(group, "x", key=group)
    [task] = me.claim(group)
    by_first = f"first:{first}"
    for path in (f"/task/{by_first}", f"/tasks/{by_first}", f"/v1/tasks/{by_first}",
                 f"/v1/tasks/{by_first}/wait?timeout=1"):
        answer = me.get(path)
        assert (answer[0] if isinstance(answer, list) else answer)["id"] == task["id"], path
    assert me.update(depends=[by_first]) == []
    [renewed] = me.update(updates=[{"id": by_first, "data": "y", "timespec": -60000}])
    [failed] = me.update(fails=[{"id": by_first, "error": "e", "retry_in": 60000}])
    [released] = me.update(releases=[by_first])
    assert task["id"] < renewed["id"] < failed["id"] < released["id"]
    assert me.claim(new_group(), depends=[by_first], finishes=[{"id": by_first}]) == []
    [reason] = me.refused(deletes=[by_first])
    assert reason == f"deletes: there is no task {by_first}: it has ended"
    [other] = me.add(group, "z")
    me.update(deletes=[f"first:{other}"])
    assert me.send("GET", "/task/first:x")[0] == me.send("GET", "/task/first:-1")[0] == 400


def test_what_became_of_a_task_is_told(me, group):
    """But by the document's own route, whose answers stay as they are."""
    [first] = me.add(group, "x")
    [task] = me.claim(group)
    for path in (f"/v1/tasks/{first}", f"/v1/tasks/{first}/wait"):
        status, body = me.send("GET", path)
        assert status == 404 and body["code"] == "NO_TASK"
        assert errors(body) == [f"there is no task {first}: it is {task['id']} now, claimed by client {me.clientid}"]
    me.update(deletes=[task["id"]])
    for gone in (first, task["id"]):
        assert errors(me.send("GET", f"/v1/tasks/{gone}")[1]) == [f"there is no task {gone}: it has ended"]
    assert errors(me.send("GET", f"/v1/tasks/{10**15}")[1]) == [f"there is no task {10**15}"]
    assert errors(me.send("GET", f"/task/{first}")[1]) == ["no such task"]


def test_replace_gives_new_time_to_a_task_that_waits(me, other, group):
    """One that is delayed or waits for its next attempt is nobody's."""
    [delayed] = me.add(group, "later", key="d", timespec=-3600000)
    [failed] = me.update(fails=[{"id": me.add(group, "again", key="r")[0], "error": "e", "retry_in": 3600000}])
    replaced = other.update(adds=[{"group": group, "data": "now", "key": key, "on_key": "replace"} for key in "dr"])
    assert [task["first"] for task in replaced] == [delayed, failed["first"]]
    assert data_of(other.claim(group, limit=5)) == ["now"] * 2
    assert all("attempts" not in task and "error" not in task for task in replaced)


def test_bytes_that_are_not_text(me, group):
    data = bytes(range(256))
    [added] = me.update(adds=[{"group": group, "data64": base64.b64encode(data).decode()}])
    assert "data" not in added
    [task] = me.claim(group)
    assert base64.b64decode(task["data64"]) == data
    [changed] = me.update(updates=[{"id": task["id"], "data": "text"}])
    assert changed["data"] == "text" and "data64" not in changed


def test_an_expired_task_is_not_given_out(me, group):
    me.add(group, "old", expires=-1)
    wait_until(lambda: me.group(group, "?owned=1") == [])
    me.add(group, "past", expires=1)
    me.add(group, "good", expires=-600000)
    assert data_of(me.claim(group, limit=5)) == ["good"]


def test_one_id_stands_once(me, group):
    [a] = me.add(group, "x")
    assert me.refused(deletes=[a], fails=[{"id": a}], releases=[f"first:{a}"]) == \
        [f"fails: task {a} is named more than once", f"releases: task {a} is named more than once"]


def test_edits_of_a_claim_happen_with_it(me, group):
    firsts = me.add(group, "a", "b")
    [one] = me.claim(group)
    [two] = me.claim(group, finishes=[{"id": one["id"], "result": "done"}])
    assert me.send("GET", f"/task/{one['id']}")[0] == 404
    assert me.claim(group, fails=[{"id": two["id"], "retry_in": 60000}]) == []
    first = firsts[["a", "b"].index(two["data"])]
    assert me.get(f"/task/first:{first}")["attempts"] == 1


def test_a_claim_may_get_back_what_it_has_just_failed(me, group):
    """The next attempt knows of the failure."""
    me.add(group, "x")
    [task] = me.claim(group)
    for attempts in (1, 2, 3):
        [task] = me.claim(group, fails=[{"id": task["id"], "error": f"e{attempts}", "retry_in": 0}])
        assert (task["data"], task["attempts"], task["error"]) == ("x", attempts, f"e{attempts}")
    [task] = me.claim(group, releases=[task["id"]])
    assert task["attempts"] == 3 and me.get(f"/v1/tasks/{task['id']}")["state"] == "claimed"


def test_others_may_not_answer_for_the_owner(me, other, group):
    me.add(group, "x")
    [task] = me.claim(group)
    for members in ({"fails": [{"id": task["id"]}]}, {"finishes": [{"id": task["id"]}]},
                    {"releases": [task["id"]]}):
        [reason] = other.refused(**members)
        assert f"task {task['id']} is owned by client {me.clientid}" in reason


@pytest.mark.parametrize("add, field, words", [
    ({"priority": 1.5}, "adds[0].priority", "whole number"),
    ({"priority": 10**7}, "adds[0].priority", "from -1000000 to 1000000"),
    ({"key": ""}, "adds[0].key", "1 to 512 bytes"),
    ({"key": "k" * 513}, "adds[0].key", "1 to 512 bytes"),
    ({"share": "s" * 256}, "adds[0].share", "1 to 255 bytes"),
    ({"on_key": "steal", "key": "k"}, "adds[0].on_key", "one of refuse, keep, replace"),
    ({"on_key": "keep"}, "adds[0].on_key", "on_key needs a key"),
    ({"data": "x", "data64": "eA=="}, "adds[0].data64", "either data or data64"),
    ({"data64": "?"}, "adds[0].data64", "not base64"),
    ({"expires": "soon"}, "adds[0].expires", "whole number"),
])
def test_each_wrong_member_is_named(me, group, add, field, words):
    status, body = me.send("POST", "/update", {"clientid": 1, "adds": [{"group": group, **add}]})
    assert status == 400 and body["field"] == field, body
    assert words in errors(body)[0]
    assert me.group(group, "?owned=1") == []


@pytest.mark.parametrize("members, field", [
    ({"fails": [{"error": "x"}]}, "fails[0].id"),
    ({"fails": [{"id": 1, "retry_in": "1m"}]}, "fails[0].retry_in"),
    ({"finishes": [{"id": "second:4"}]}, "finishes[0].id"),
    ({"releases": ["first:"]}, "releases[0]"),
    ({"finishes": [{"id": 1, "result": {}}]}, "finishes[0].result"),
])
def test_wrong_edits_are_named(me, members, field):
    status, body = me.send("POST", "/update", {"clientid": 1, **members})
    assert status == 400 and body["field"] == field, body


def test_all_of_it_outlives_a_crash(tmp_path):
    one = Server("--data", tmp_path / "data").start()
    me = Tasks(one.port)
    me.add("g", "a", key="k", priority=3, share="s", expires=-3600000)
    me.add("g", "b")
    [task] = me.claim("g", limit=1)
    me.update(fails=[{"id": task["id"], "error": "e", "dead": True}])
    me.claim("g", limit=1)
    before = me.group("g", "?owned=1"), me.group("g/dead")
    one.kill()
    one = Server("--data", tmp_path / "data").start()
    me = Tasks(one.port, me.clientid)
    assert (me.group("g", "?owned=1"), me.group("g/dead")) == before
    assert me.refused(adds=[{"group": "g", "key": "k"}])
    assert one.stop() == 0
