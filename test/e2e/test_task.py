"""The task store over HTTP: what the document says, sentence by sentence, on both keepers."""

import json
import os
import re
import subprocess
import threading
import time

import pytest

import task_model
from conftest import Connection, OnEnsemble, errors, wait_until
from task_support import Tasks, me, new_group, other, server  # noqa: F401

SOAK = bool(os.environ.get("DROVER_SOAK"))


@pytest.fixture
def group():
    return new_group()


def figures(me, pattern):
    """What /metrics says, by name and labels."""
    me.connection.request("GET", "/metrics")
    page = me.connection.getresponse().read().decode()
    return {name: float(value) for name, value in re.findall(r"^(\S+) (\S+)$", page, re.MULTILINE)
            if pattern in name}


# "No currently-owned task can be updated or deleted by any other process."

def test_an_owned_task_is_changed_by_its_owner_only(me, other, group):
    me.add(group, "x")
    [task] = me.claim(group)
    for change in ({"deletes": [task["id"]]}, {"updates": [{"id": task["id"]}]}):
        [reason] = other.refused(**change)
        assert str(task["id"]) in reason and str(me.clientid) in reason
    assert me.update(deletes=[task["id"]]) == []


def test_a_task_whose_time_has_come_is_changed_by_anybody(me, other, group):
    [first] = me.add(group, "x", timespec=1)
    assert other.update(deletes=[first]) == []


# "No operation succeeds if any of the depended-upon tasks are missing."

def test_depends_must_be_there_for_anything_to_happen(me, group):
    [here] = me.add(group, "x")
    gone = me.update(updates=[{"id": here}])[0]["id"]
    reasons = me.refused(adds=[{"group": group}], depends=[here, gone])
    assert len(reasons) == 1 and str(here) in reasons[0]
    assert len(me.refused("/claim", group=group, duration=1, depends=[here])) == 1
    assert len(me.group(group)) == 1
    assert me.claim(group, depends=[gone])[0]["data"] == ""


def test_depends_alone_is_a_check_and_changes_nothing(me, other, group):
    [here] = me.add(group, "x")
    assert other.update(depends=[here]) == []
    assert other.refused(depends=[here, 10 ** 15]) != []
    assert [t["id"] for t in me.group(group)] == [here]


# "Every Task is immutable. An update atomically deletes the old Task and creates a new one"

def test_an_update_ends_the_id_and_gives_a_new_one(me, group):
    [old] = me.add(group, "before")
    [new] = me.update(updates=[{"id": old, "data": "after"}])
    assert new["id"] > old and new["data"] == "after" and new["group"] == group
    assert me.get(f"/tasks/{old},{new['id']}") == [None, new]


def test_a_claim_ends_the_id_and_gives_a_new_one(me, group):
    [old] = me.add(group, "x")
    before = time.time() * 1000
    [task] = me.claim(group, 60000)
    assert task["id"] > old and task["ownerid"] == me.clientid and task["data"] == "x"
    assert before + 59000 < task["timespec"] < time.time() * 1000 + 61000
    assert me.get(f"/tasks/{old}") == [None]


# "the old task is gone and therefore cannot be claimed by any other process, and the new task has a future
# available time and an assigned owner, also rendering it unclaimable by another process"
# "the old process will not be able to claim the same task"

def test_what_is_claimed_cannot_be_claimed(me, other, group):
    [old] = me.add(group, "x")
    [task] = me.claim(group)
    assert other.claim(group) == [] and me.claim(group) == []
    for stale in ({"deletes": [old]}, {"updates": [{"id": old}]}, {"depends": [old]}):
        assert str(old) in me.refused(**stale)[0]
    assert me.get(f"/tasks/{task['id']}") == [task]


# "the existence of a task ID is a guarantee that it is exactly the task that you think it is"

def test_an_id_is_the_same_task_as_long_as_it_is_there(me, other, group):
    [task] = me.update(adds=[{"group": group, "data": "x"}])
    other.update(adds=[{"group": group, "data": "y"}], depends=[task["id"]])
    other.refused(updates=[{"id": task["id"], "data": "z"}], depends=[10 ** 15])
    assert me.get(f"/task/{task['id']}") == task


# "Eventually, however, the ownership will expire on that task, and another will be able to claim it."
# "only the second will be able to commit the work"

def test_an_abandoned_task_is_claimed_by_another_and_the_first_cannot_commit(me, other, group):
    me.add(group, "x")
    [mine] = me.claim(group, 1)
    [theirs] = other.claim(group, 60000, wait=5000)
    assert theirs["id"] != mine["id"]
    assert len(me.refused(deletes=[mine["id"]])) == 1
    assert other.update(deletes=[theirs["id"]]) == []


# "new tasks always have a larger ID number than old tasks"

def test_ids_rise(me, other, group):
    seen = []
    for _ in range(3):
        seen += me.add(group, "a", "b")
        seen.append(other.claim(group)[0]["id"])
        seen.append(other.update(updates=[{"id": seen[-1]}])[0]["id"])
    assert seen == sorted(set(seen))


# "one can claim a new, random task from a particular group"

def test_a_claim_is_random(me, group):
    firsts = set()
    for _ in range(12):
        me.add(group, *"abcdefgh")
        firsts.add(me.claim(group)[0]["data"])
        left = me.group(group, "?owned=1")
        me.update(deletes=[task["id"] for task in left])
    assert len(firsts) > 1


def test_nothing_to_claim_is_an_empty_list(me, group):
    assert me.claim(group) == []
    me.add(group, "x", timespec=-60000)
    assert me.claim(group) == []


# "Groups spring into existence when tasks are created within them, and disappear when they are empty."
# "/groups: GET a list of non-empty groups"

def test_groups_come_and_go_with_their_tasks(me, group):
    assert group not in me.get("/groups")
    [task] = me.add(group, "x", timespec=-60000)
    assert group in me.get("/groups")
    me.update(deletes=[task])
    assert group not in me.get("/groups")


# "/task/<ID>"

def test_a_task_by_its_id(me, group):
    [task] = me.update(adds=[{"group": group, "data": "/path/to/file:1024:2048"}])
    assert me.get(f"/task/{task['id']}") == task
    assert list(task) == ["id", "group", "data", "timespec", "ownerid"]
    assert me.send("GET", f"/task/{task['id'] + 10 ** 12}")[0] == 404
    for bad in ("abc", "-1", "1.5", "%31%2e"):
        assert me.send("GET", f"/task/{bad}")[0] == 400, bad
    assert me.send("GET", "/task/99999999999999999999")[0] == 404


# "/tasks/<ID>[,<ID>,...]": "nonexistent tasks return null"

def test_tasks_by_their_ids(me, group):
    a, b = me.update(adds=[{"group": group}, {"group": group}])
    assert me.get(f"/tasks/{b['id']},{10 ** 15},{a['id']},{b['id']}") == [b, None, a, b]
    for bad in ("1,", ",1", "1,,2", "1,x"):
        assert me.send("GET", f"/tasks/{bad}")[0] == 400, bad


# "/group/<Group>": "The default is no limit and only unowned tasks."

def test_the_tasks_of_a_group(me, group):
    me.add(group, "a", "b", "c")
    [owned] = me.claim(group)
    free = {task["id"] for task in me.group(group)}
    assert len(free) == 2 and owned["id"] not in free
    for yes in ("1", "yes", "true", "TRUE", "Yes"):
        assert {t["id"] for t in me.group(group, f"?owned={yes}")} == free | {owned["id"]}
    for no in ("0", "no", "false", "No"):
        assert {t["id"] for t in me.group(group, f"?owned={no}")} == free
    assert len(me.group(group, "?limit=2&owned=true")) == 2
    assert len(me.group(group, "?limit=0&owned=true")) == 3  # no limit
    assert me.group(new_group()) == []
    for bad in ("owned=2", "owned=", "limit=x", "limit=-1"):
        assert me.send("GET", f"/group/{group}?{bad}")[0] == 400, bad


@pytest.mark.parametrize("name", ["a/b", "with space", "%41", "ünïcode", "q?x=1", "#", "🐑", "."])
def test_any_name_of_a_group(me, name):
    name = new_group(name)
    me.add(name, "x")
    assert [task["group"] for task in me.group(name)] == [name]
    assert name in me.get("/groups")


# "/update"

def test_the_documents_update(me, group):
    ids = me.add(group, *"abcdef")
    tasks = me.update(adds=[{"group": group, "data": "one", "id": 4}, {"group": group}],
                      updates=[{"id": ids[0], "data": "some data", "timespec": -60000}],
                      deletes=ids[1:4], depends=ids[4:])
    assert [task["data"] for task in tasks] == ["one", "", "some data"]
    assert tasks[0]["id"] != 4 and all(task["ownerid"] == me.clientid for task in tasks)
    left = {task["id"] for task in me.group(group, "?owned=1")}
    assert left == {task["id"] for task in tasks} | set(ids[4:])


def test_timespec_now_from_now_and_the_moment_itself(me, group):
    before = int(time.time() * 1000) - 50
    a, b, c, d = me.update(adds=[{"group": group}, {"group": group, "timespec": 0},
                                 {"group": group, "timespec": -60000},
                                 {"group": group, "timespec": 60000}])
    after = int(time.time() * 1000) + 50
    assert before <= a["timespec"] <= after and before <= b["timespec"] <= after
    assert before + 60000 <= c["timespec"] <= after + 60000
    assert d["timespec"] == 60000


def test_an_update_without_fields_empties_the_task(me, group):
    [task] = me.update(adds=[{"group": group, "data": "x", "timespec": -60000}])
    [new] = me.update(updates=[{"id": task["id"]}])
    assert new["data"] == "" and new["timespec"] <= time.time() * 1000 + 50


# "The group is never changed."

def test_an_update_does_not_change_the_group(me, group):
    [task] = me.update(adds=[{"group": group, "data": "x"}])
    [new] = me.update(updates=[task | {"group": group + "-elsewhere", "ownerid": 5}])
    assert new["group"] == group and new["ownerid"] == me.clientid
    assert me.group(group + "-elsewhere") == []


# "You can renew ownership of a task by specifying a future timespec."

def test_ownership_is_renewed(me, other, group):
    me.add(group, "x")
    [task] = me.claim(group, 60000)
    [renewed] = me.update(updates=[{"id": task["id"], "data": "x", "timespec": -120000}])
    assert renewed["timespec"] > task["timespec"] + 50000
    assert other.claim(group) == []


def test_all_or_nothing_and_every_reason(me, other, group):
    [free] = me.add(group, "x")
    me.add(group + "-2", "y")
    [owned] = me.claim(group + "-2")
    reasons = other.refused(adds=[{"group": group}], updates=[{"id": free}, {"id": 10 ** 15}],
                            deletes=[owned["id"], free], depends=[10 ** 15 + 1])
    assert len(reasons) == 4
    for number in (10 ** 15, owned["id"], free, 10 ** 15 + 1):
        assert any(str(number) in reason for reason in reasons), reasons
    assert [task["id"] for task in me.group(group)] == [free]


# What SPEC adds to the claim.

def test_claim_many_from_several_groups_with_deletes(me, group):
    groups = [new_group(), new_group()]
    for name in groups:
        me.add(name, "a", "b")
    [done] = me.add(group, "x")
    status, body = me.send("POST", "/claim", {"clientid": me.clientid, "groups": groups,
                                              "duration": 1000, "limit": 3, "deletes": [done]})
    assert status == 200 and len({task["id"] for task in body["tasks"]}) == 3
    assert me.get(f"/tasks/{done}") == [None]
    status, body = me.send("POST", "/claim", {"clientid": me.clientid, "groups": groups,
                                              "duration": 1000, "limit": 3, "deletes": [done]})
    assert status == 409 and str(done) in body["errors"][0]


def test_a_claim_waits_for_a_task(me, other, group):
    start = time.monotonic()
    assert me.claim(group, wait=100) == []
    assert time.monotonic() - start > 0.09
    got = []
    waiter = threading.Thread(target=lambda: got.extend(me.claim(group, wait=15000)))
    waiter.start()
    other.add(group, "for the one that waits")
    waiter.join()
    assert [task["data"] for task in got] == ["for the one that waits"]


def test_one_add_wakes_one(server, me, group):
    waiters = [Connection(server.port) for _ in range(20)]
    body = json.dumps({"clientid": 5, "group": group, "duration": 60000, "wait": 15000})
    for waiter in waiters:
        waiter.send(server.fill("POST /claim HTTP/1.1\r\nHost: HOST\r\n"
                                "Content-Type: application/json\r\n"
                                f"Content-Length: {len(body)}\r\n\r\n{body}"))
    me.get("/groups")
    data = [f"number {n}" for n in range(20)]
    for text in data:
        me.add(group, text)
    answers = [json.loads(waiter.answer()[2])["tasks"] for waiter in waiters]
    assert sorted(task["data"] for [task] in answers) == sorted(data)
    for waiter in waiters:
        waiter.close()


def test_a_waiter_that_left_takes_nothing(server, me, other, group):
    def waiting():
        return figures(other, "drover_task_waiting_claims")["drover_task_waiting_claims"]

    waiter = Connection(server.port)
    body = json.dumps({"clientid": 5, "group": group, "duration": 60000, "wait": 120000})
    waiter.send(server.fill("POST /claim HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"
                            f"Content-Length: {len(body)}\r\n\r\n{body}"))
    wait_until(lambda: waiting() == 1)
    waiter.close()
    wait_until(lambda: waiting() == 0)
    other.add(group, "x")
    assert [task["data"] for task in me.claim(group)] == ["x"]


def test_a_request_id_that_comes_twice_is_carried_out_once(me, group):
    first = me.update(adds=[{"group": group, "data": "x"}], requestid="once")
    assert me.update(adds=[{"group": group, "data": "x"}], requestid="once") == first
    assert len(me.group(group)) == 1
    claimed = me.claim(group, requestid="take")
    assert me.claim(group, requestid="take", wait=1) == claimed
    [reason] = me.refused(adds=[{"group": group, "data": "y"}], requestid="once")
    assert "requestid" in reason
    assert me.send("POST", "/update", {"clientid": me.clientid, "requestid": "x" * 65})[0] == 400


# "data is any JSON string and comes back byte for byte the same"

@pytest.mark.parametrize("text", [
    r'""', r'"\u0000"', r'"a\u0000b\u0001"', r'"\ud800"', r'"\udc00\ud800"', r'"\ud83d\udc11"',
    r'"\"\\\/\b\f\n\r\t"', '"é漢🐑"', r'"\u00e9"', '"' + "x" * 100000 + '"'])
def test_data_comes_back_as_it_went(me, group, text):
    body = f'{{"clientid": 1, "adds": [{{"group": "{group}", "data": {text}}}]}}'.encode()
    status, given = me.send("POST", "/update", body)
    assert status == 200
    wanted = json.loads(text)
    assert given["tasks"][0]["data"] == wanted
    assert me.get(f"/task/{given['tasks'][0]['id']}")["data"] == wanted
    assert me.claim(group)[0]["data"] == wanted


# "All communication with the HTTP service is done via JSON."

def test_every_answer_is_json(me, group):
    for method, path, body in (("GET", "/groups", None), ("GET", "/task/1", None), ("GET", "/tasks/1", None),
                               ("GET", f"/group/{group}", None), ("POST", "/update", b"{"),
                               ("POST", "/update", {"clientid": 1}), ("POST", "/claim", {"clientid": 1})):
        assert me.send(method, path, body)[1] is not None
        assert me.headers["Content-Type"].split(";")[0] == "application/json", path


# "hard guarantees on consistency ... through multiple parallel accessors"

def test_many_connections_against_a_model(server):
    seed = int(os.environ.get("DROVER_SEED", 11))
    crowd = task_model.Crowd(server.port, new_group("model"), seed, 8, 2000 if SOAK else 40)
    print("seed", seed)
    crowd.run()
    left = crowd.replay().tasks
    me = Tasks(server.port)
    there = [task for name in crowd.groups() for task in me.group(name, "?owned=1")]
    assert {task["id"]: task for task in there} == left and len(there) == len(left)
    assert len(crowd.done) > 40 and len(crowd.refused) > 15, (len(crowd.done), len(crowd.refused))
    me.close()


# What the server tells of itself.

def test_metrics_tell_of_tasks(me, group):
    before = figures(me, "drover_task_")
    me.add(group, "a", "b", "c")
    me.claim(group)
    me.claim(new_group())
    me.refused(deletes=[10 ** 15])
    after = figures(me, "drover_task_")
    grown = {name: after[name] - before.get(name, 0) for name in after}
    for name, count in (("updates_total", 2), ("claims_total", 2), ("claimed_total", 1),
                        ("refusals_total", 1), ('seconds_count{kind="update"}', 2),
                        ('seconds_count{kind="claim"}', 2), ('seconds_bucket{kind="claim",le="+Inf"}', 2)):
        assert grown["drover_task_" + name] == count, name
    assert figures(me, f'drover_tasks{{group="{group}"') == {
        f'drover_tasks{{group="{group}",state="available"}}': 2,
        f'drover_tasks{{group="{group}",state="owned"}}': 1}


# "Transactions that wait while a commit is under way go together into the next multi"

def test_what_waits_for_an_ensemble_goes_together(server, me, group):
    if not isinstance(server, OnEnsemble):
        pytest.skip("a commit to the embedded keeper does not wait")
    before = figures(me, "drover_task_")
    body = json.dumps({"clientid": 1, "adds": [{"group": group}]})
    request = server.fill("POST /update HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"
                          f"Content-Length: {len(body)}\r\n\r\n{body}")
    crowd = Connection(server.port)
    crowd.send(request * 200)
    assert all(crowd.answer()[0] == 200 for _ in range(200))
    crowd.close()
    after = figures(me, "drover_task_")
    assert len(me.group(group)) == 200
    assert after["drover_task_commits_total"] - before["drover_task_commits_total"] < 100


# What cannot be understood.

@pytest.mark.parametrize("path, body", [
    ("/update", b""), ("/update", b"{"), ("/update", b"[]"), ("/update", b"null"),
    ("/update", b"{}"), ("/update", b'{"clientid": "1"}'), ("/update", b'{"clientid": 1.5}'),
    ("/update", b'{"clientid": 1, "adds": {}}'), ("/update", b'{"clientid": 1, "adds": [{}]}'),
    ("/update", b'{"clientid": 1, "adds": [{"group": ""}]}'),
    ("/update", b'{"clientid": 1, "adds": [{"group": 1}]}'),
    ("/update", b'{"clientid": 1, "adds": [{"group": "g", "data": 1}]}'),
    ("/update", b'{"clientid": 1, "adds": [{"group": "g", "timespec": "1"}]}'),
    ("/update", b'{"clientid": 1, "adds": [{"group": "g", "when": 1}]}'),
    ("/update", b'{"clientid": 1, "updates": [{"data": "x"}]}'),
    ("/update", b'{"clientid": 1, "deletes": ["1"]}'),
    ("/update", b'{"clientid": 1, "delete": [1]}'),
    ("/update", b'{"clientid": 1, "clientid": 2}'),
    ("/update", b'{"clientid": 99999999999999999999}'),
    ("/claim", b'{"clientid": 1, "duration": 1}'),
    ("/claim", b'{"group": "g", "duration": 1}'),
    ("/claim", b'{"clientid": 1, "group": "g"}'),
    ("/claim", b'{"clientid": 1, "group": "g", "duration": -1}'),
    ("/claim", b'{"clientid": 1, "group": "g", "groups": ["h"], "duration": 1}'),
    ("/claim", b'{"clientid": 1, "groups": [], "duration": 1}'),
    ("/claim", b'{"clientid": 1, "groups": [1], "duration": 1}'),
    ("/claim", b'{"clientid": 1, "group": "g", "duration": 1, "limit": 0}'),
    ("/claim", b'{"clientid": 1, "group": "g", "duration": 1, "wait": -1}'),
])
def test_a_bad_request_is_400_and_changes_nothing(me, path, body):
    before = me.get("/groups")
    status, answer = me.send("POST", path, body)
    assert status == 400 and errors(answer) and answer["code"] == "BAD_ARGUMENT"
    assert me.get("/groups") == before


def test_wrong_method_and_too_large(me, group):
    assert me.send("GET", "/update")[0] == 405
    assert me.send("POST", "/groups", {})[0] == 405
    assert me.send("POST", "/update", {"clientid": 1, "deletes": list(range(10001))})[0] == 413
    body = {"clientid": 1, "adds": [{"group": group, "data": "x" * 1100000}]}
    assert me.send("POST", "/update", body)[0] == 413
    assert me.group(group) == []
    me.add(group, "goes on")


def test_as_many_as_one_transaction_takes(me, group):
    ids = me.add(group, *["x"] * 4000) + me.add(group, *["x"] * 5900)
    many = {"clientid": me.clientid, "deletes": ids + [1]}
    assert me.send("POST", "/update", many)[0] == 413
    claimed = me.claim(group, limit=10000)
    assert len(claimed) > 1000
    left = me.group(group, "?owned=1")
    assert len(left) == 9900
    assert me.update(deletes=[task["id"] for task in left]) == []
    assert me.group(group, "?owned=1") == []


def test_a_request_needs_json(me, server):
    status, _, body = server.request("POST /update HTTP/1.1\r\nHost: HOST\r\n"
                                     "Content-Length: 14\r\n\r\n{\"clientid\":1}")
    assert status == 415 and errors(body)


@pytest.mark.parametrize("data", ['{"clientid": 1}', 'update={"clientid": 1}', "claim=x"])
def test_curl_without_a_content_type_is_told_what_to_add(server, data):
    """What people type first: curl then says that the body is a form."""
    url = f"http://127.0.0.1:{server.port}/update"
    done = subprocess.run(["curl", "-s", "-d", data, url], capture_output=True, text=True, check=True)
    [line] = errors(done.stdout)
    assert "\n" not in line
    [option] = re.findall("curl: add (.*)\\)", line)
    assert option == "-H 'Content-Type: application/json'"
    done = subprocess.run(f"curl -s {option} -d '{{\"clientid\": 1}}' {url}", shell=True,
                          capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"tasks": []}


@pytest.mark.parametrize("name", ["%FF", "a%C3", "%ED%A0%80%ED%B0%80"])
def test_a_group_that_is_not_utf8_is_refused(me, name):
    assert me.send("GET", f"/group/{name}") == (400, {"errors": ["name is not UTF-8 text"],
                                                      "code": "BAD_ARGUMENT", "field": "name"})
