"""The settings of groups, and finding, changing and waiting for tasks, on both keepers."""

import json
import re
import threading
import time
import urllib.parse

import pytest

from conftest import Http, Server, errors, wait_until
from task_support import Tasks, me, new_group, other, server  # noqa: F401
from test_task_policy import data_of


@pytest.fixture
def group():
    return new_group("settings") + "-"  # none is a prefix of another one


def path_of(group):
    return f"/v1/groups/{urllib.parse.quote(group, safe='')}"


def put(me, group, **settings):
    status, body = me.send("PUT", path_of(group), settings)
    assert status == 200, body
    return body["settings"]


def show(me, group):
    return me.get(path_of(group))


def find(me, **query):
    found, after = [], {}
    while True:
        page = me.get("/v1/tasks?" + urllib.parse.urlencode({**query, **after}))
        found += page["tasks"]
        if not page["next"]:
            return found
        after = {"after": page["next"]}


def bulk(me, action, filter, **more):
    total = {"matched": 0, "changed": 0}
    while True:
        status, body = me.send("POST", "/v1/tasks/bulk", {"action": action, "filter": filter, **more})
        assert status == 200, body
        for name in total:
            total[name] += body[name]
        if not body["next"]:
            return total["matched"], total["changed"]
        more["after"] = body["next"]


# Settings.

def test_the_defaults_are_those_of_the_document(me, group):
    one = show(me, group)
    assert one["pattern"] is None
    assert one["settings"] == {
        "order": "random", "fair": False, "paused": False, "expired": "remove", "attempts": 5,
        "claims": 0, "backoff": {"first": 1000, "factor": 2, "max": 3600000, "jitter": 0.1},
        "limit": 0, "limit_per_share": 0, "rate": {"count": 0, "per": 0, "burst": 0},
        "keep_done": 0, "keep_dead": 0, "remember_keys": 0, "max_tasks": 0, "dead": ""}


def test_what_is_not_given_stays(me, group):
    put(me, group, limit=5, attempts=2)
    settings = put(me, group, backoff={"first": 10, "max": 50})
    assert (settings["limit"], settings["attempts"]) == (5, 2)
    assert settings["backoff"] == {"first": 10, "factor": 2, "max": 50, "jitter": 0.1}
    assert me.send("DELETE", path_of(group))[0] == 200
    assert show(me, group)["pattern"] is None
    assert me.send("DELETE", path_of(group))[0] == 404


def test_the_longest_pattern_counts(me, group):
    put(me, f"{group}/*", limit=1)
    put(me, f"{group}/a*", limit=2)
    put(me, f"{group}/a/exact", limit=3)
    assert [show(me, group + name)["settings"]["limit"] for name in ("", "/b", "/a", "/a/x", "/a/exact")] \
        == [0, 1, 2, 2, 3]
    assert show(me, f"{group}/a/x")["pattern"] == f"{group}/a*"


def test_the_first_change_begins_with_what_is_in_force(me, group):
    """To pause a group does not take away what it has from a prefix."""
    put(me, f"{group}*", limit=7, dead="graves")
    assert put(me, group, paused=True)["limit"] == 7
    assert put(me, f"{group}/a*", order="fifo")["dead"] == "graves"
    assert show(me, group)["pattern"] == group


def test_null_is_the_default(me, group):
    put(me, group, limit=5, attempts=2, order="fifo", dead="graves", paused=True,
        rate={"count": 10, "per": 1000}, backoff={"first": 5, "factor": 3})
    settings = put(me, group, limit=None, order=None, dead=None, paused=None, rate=None,
                   backoff={"factor": None})
    default = show(me, group + "/other")["settings"]
    assert settings == default | {"attempts": 2, "backoff": default["backoff"] | {"first": 5}}


@pytest.mark.parametrize("settings, field, words", [
    ({"limit": -1}, "limit", "from 0 to"),
    ({"limit": "5"}, "limit", "a whole number, not a string"),
    ({"order": "lifo"}, "order", "one of random, fifo"),
    ({"backoff": {"factor": 0.5}}, "backoff.factor", "from 1 to 1000"),
    ({"backoff": {"first": 100, "max": 10}}, "backoff", "not be less than first"),
    ({"backoff": 5}, "backoff", "an object"),
    ({"rate": {"count": 5}}, "rate", "needs per"),
    ({"rate": {"count": -5, "per": 10}}, "rate.count", "from 0 to"),
    ({"rate": {"size": 5}}, "rate.size", "rate.size is an unknown member"),
    ({"paused": 1}, "paused", "true or false"),
    ({"colour": "red"}, "colour", "colour is an unknown member"),
    ({"dead": "x" * 1025}, "dead", "at most 1024 bytes"),
])
def test_each_wrong_setting_is_named(me, group, settings, field, words):
    status, body = me.send("PUT", path_of(group), settings)
    assert status == 400 and body["field"] == field, body
    assert words in errors(body)[0]
    assert show(me, group)["pattern"] is None


def test_two_who_change_the_settings_lose_nothing(server, me, group):
    """On an ensemble both may be in one commit, when another one is under way."""
    put(me, group, limit=0)
    names = ["limit", "max_tasks", "attempts", "claims"]
    clients = [Tasks(server.port) for _ in names]
    for i in range(1, 30):
        changes = [threading.Thread(target=put, args=(one, group), kwargs={name: i})
                   for one, name in zip(clients, names)]
        for change in changes:
            change.start()
        for change in changes:
            change.join()
        settings = show(me, group)["settings"]
        assert [settings[name] for name in names] == [i] * len(names)


def test_a_dead_group_outlives_other_changes(me, group):
    """Its name was read after it had been freed."""
    put(me, group, dead="graves")
    for limit in range(3):
        assert put(me, group, limit=limit)["dead"] == "graves"


def test_settings_change_while_a_task_that_expires_is_claimed(me, group):
    """It ended the server, or took the expiry of another task away."""
    for name, later in ("a", 600_000), ("b", 600_000):
        me.add(group + name, name, expires=-later)
    soon = me.update(adds=[{"group": group + "c", "data": "c", "expires": -50}])[0]["id"]
    claimed = me.claim(group + "a")[0]["id"]
    put(me, f"{group}*", limit=5)
    wait_until(lambda: me.send("GET", f"/v1/tasks/{soon}")[0] == 404, "c expires")
    assert me.update(releases=[claimed])[0]["group"] == group + "a"


def test_dead_tasks_cannot_go_to_their_own_group(me, group):
    assert me.send("PUT", path_of(group), {"dead": group})[0] == 400
    assert me.send("PUT", path_of(f"{group}*"), {"dead": f"{group}/dead"})[0] == 400
    assert me.send("PUT", path_of("a*b"), {"limit": 1})[0] == 400


def test_first_in_first_out(me, group):
    names = [f"{i:03}" for i in range(50)]
    put(me, group, order="fifo")
    me.add(group, *names)
    assert data_of(me.claim(group, limit=20)) + data_of(me.claim(group, limit=30)) == names
    # Changing the order sorts what is there.
    put(me, group, order="random")
    me.add(group, *names)
    put(me, group, order="fifo")
    assert data_of(me.claim(group, limit=50)) == names


def test_a_paused_group_gives_nothing_out(me, other, group):
    put(me, group, paused=True)
    me.add(group, "x")
    assert me.claim(group) == []
    got = []
    waiting = threading.Thread(target=lambda: got.extend(other.claim(group, wait=60000)))
    waiting.start()
    put(me, group, paused=False)
    waiting.join(60)
    assert data_of(got) == ["x"]


def test_a_limit_counts_what_is_claimed(me, other, group):
    put(me, group, limit=2)
    me.add(group, "a", "b", "c")
    two = me.claim(group, limit=10)
    assert len(two) == 2 and other.claim(group) == []
    assert sorted((h["id"], h["ownerid"]) for h in show(me, group)["claimed"]) \
        == sorted((t["id"], me.clientid) for t in two)
    got = []
    waiting = threading.Thread(target=lambda: got.extend(other.claim(group, wait=60000)))
    waiting.start()
    me.update(finishes=[{"id": two[0]["id"]}])
    waiting.join(60)
    assert len(got) == 1 and me.claim(group) == []


def test_a_lease_that_ends_gives_its_place_back(me, other, group):
    put(me, group, limit=1)
    me.add(group, "a")
    me.claim(group, duration=1)
    [again] = other.claim(group, wait=60000)
    assert again["data"] == "a"


def test_a_limit_for_each_share(me, group):
    put(me, group, limit_per_share=1)
    for share in "xxxyy":
        me.add(group, share, share=share)
    me.add(group, "none")
    assert sorted(data_of(me.claim(group, limit=10))) == ["none", "x", "y"]
    assert me.claim(group) == []


def test_fair_claims_go_round_the_shares(me, group):
    put(me, group, fair=True, order="fifo")
    for share in "aaaaaabbc":
        me.add(group, share, share=share)
    assert sorted(data_of(me.claim(group, limit=3))) == ["a", "b", "c"]
    assert sorted(data_of(me.claim(group, limit=2))) == ["a", "b"]
    assert data_of(me.claim(group, limit=9)) == ["a"] * 4


def test_a_rate_holds(me, group):
    put(me, group, rate={"count": 2, "per": 3600000, "burst": 3})
    me.add(group, *"abcde")
    assert len(me.claim(group, limit=10)) == 3
    assert me.claim(group) == []


def test_a_waiting_claim_gets_the_next_token(me, group):
    put(me, group, rate={"count": 20, "per": 1000, "burst": 1})
    me.add(group, *"abc")
    start = time.monotonic()
    for _ in range(3):
        assert len(me.claim(group, limit=10, wait=60000)) == 1
    assert time.monotonic() - start >= 0.09


def test_a_full_group_refuses_adds(me, group):
    put(me, group, max_tasks=2)
    me.add(group, "a")
    status, body = me.send("POST", "/update", {"clientid": 1, "adds": [{"group": group}] * 2})
    assert status == 429 and body["code"] == "GROUP_FULL", body
    assert len(me.group(group)) == 1
    me.add(group, "b")


def test_what_adds_no_task_is_not_refused_by_a_full_group(me, group):
    put(me, group, max_tasks=1)
    [task] = me.add(group, "a", key="k")
    assert me.add(group, "b", key="k", on_key="keep") == [task]
    [task] = me.add(group, "b", key="k", on_key="replace")
    [task] = me.update(finishes=[{"id": task}], adds=[{"group": group, "data": "c"}])
    status, body = me.send("POST", "/update", {"clientid": 1, "deletes": [task["id"]],
                                               "adds": [{"group": group, "data": "d"}] * 2})
    assert status == 429 and body["code"] == "GROUP_FULL"
    assert data_of(me.group(group)) == ["c"]


def test_another_rate_has_another_burst(me, group):
    assert put(me, group, rate={"count": 10, "per": 1000})["rate"]["burst"] == 2
    assert put(me, group, rate={"count": 1000})["rate"] == {"count": 1000, "per": 1000, "burst": 101}
    assert put(me, group, limit=1)["rate"]["burst"] == 101


def test_a_claimed_task_that_expires_outlives_new_settings(me, group):
    [first] = me.add(group, "x", expires=-3600000)
    me.claim(group)
    put(me, group, order="fifo")
    put(me, group, fair=True)
    assert show(me, group)["claimed"][0]["first"] == first
    me.update(finishes=[{"id": f"first:{first}"}])


def test_a_dead_task_that_is_retried_is_not_removed_with_the_dead(me, group):
    put(me, group, keep_dead=500, attempts=1)
    first, _ = me.add(group, "again", "stays dead")
    me.update(fails=[{"id": task["id"], "error": "e"} for task in me.group(group)])
    bulk(me, "retry", {"group": f"{group}/dead", "text": "again"})
    wait_until(lambda: me.group(f"{group}/dead") == [], "the dead are removed")
    assert "expires" not in me.get(f"/v1/tasks/first:{first}")


def test_groups_have_an_age_and_rates(me, group):
    me.add(group, "x", "y", timespec=int(time.time() * 1000) - 5000)
    [task] = me.claim(group)
    me.update(fails=[{"id": task["id"], "error": "e", "dead": True}])
    wanted = {"added": 2, "claimed": 1, "finished": 0, "failed": 0, "dead": 1}
    for shown in (show(me, group), next(g for g in me.get("/v1/groups")["groups"] if g["group"] == group)):
        assert 5000 <= shown["oldest"] < 60000
        if shown.get("per_minute"):  # a server with a hundred other groups has no room
            assert shown["per_minute"] == wanted


def test_a_task_that_kills_its_workers_dies(me, group):
    put(me, group, claims=2)
    me.add(group, "poison")
    for _ in range(2):
        assert data_of(me.claim(group, duration=1, wait=60000)) == ["poison"]
    wait_until(lambda: me.claim(group, duration=1) == [] and me.group(f"{group}/dead"))
    [dead] = me.group(f"{group}/dead")
    assert (dead["error"], dead["claims"]) == ("claimed 2 times without an answer", 2)


def test_a_dead_task_keeps_its_reason(me, group):
    """Also if those who look at it die."""
    put(me, f"{group}*", claims=1)
    me.update(fails=[{"id": me.add(group, "x")[0], "error": "the reason", "dead": True}])
    for claims in (1, 2, 3):
        [task] = me.claim(f"{group}/dead", duration=0)
        assert (task["error"], task["claims"]) == ("the reason", claims)


def test_an_answer_counts_for_a_worker_that_lives(me, group):
    put(me, group, claims=2)
    me.add(group, "fine")
    for _ in range(5):
        [task] = me.claim(group)
        me.update(releases=[task["id"]])


def test_attempts_and_the_dead_group_are_settings(me, group):
    put(me, group, attempts=1, dead=f"{group}-graves", keep_dead=200)
    me.add(group, "x")
    [task] = me.claim(group)
    [dead] = me.update(fails=[{"id": task["id"], "error": "e"}])
    assert (dead["group"], dead["expires"] - dead["ended"]) == (f"{group}-graves", 200)
    wait_until(lambda: me.group(f"{group}-graves") == [])


def test_expired_tasks_may_die(me, group):
    put(me, group, expired="dead")
    me.add(group, "x", expires=-1)
    wait_until(lambda: me.group(f"{group}/dead"))
    assert me.group(f"{group}/dead")[0]["error"] == "expired"


def test_a_backoff_grows(me, group):
    put(me, group, attempts=0, backoff={"first": 1000, "factor": 3, "max": 20000, "jitter": 0})
    me.add(group, "x")
    delays = []
    [task] = me.claim(group)
    for _ in range(4):
        before = int(time.time() * 1000)
        [task] = me.update(fails=[{"id": task["id"]}])
        delays.append(task["timespec"] - before)
        [task] = me.update(releases=[task["id"]])
    assert all(abs(got - wanted) < 900 for got, wanted in zip(delays, (1000, 3000, 9000, 20000))), delays


# Results.

def test_a_result_is_kept_as_long_as_the_group_says(me, group):
    put(me, group, keep_done=3600000)
    [first] = me.add(group, "x")
    [task] = me.claim(group)
    me.update(finishes=[{"id": task["id"], "result": "42"}])
    done = me.get(f"/v1/tasks/first:{first}")
    assert (done["state"], done["result"], done["data"]) == ("done", "42", "x")
    assert me.get(f"/v1/tasks/{task['id']}/wait?timeout=0")["result"] == "42"
    assert me.group(group, "?owned=1") == []
    assert me.refused(deletes=[task["id"]])
    put(me, group, keep_done=1)
    [task] = me.add(group, "y")
    me.update(finishes=[{"id": task}])
    wait_until(lambda: me.send("GET", f"/v1/tasks/first:{task}")[0] == 404)


def waiting_requests(me):
    """How many requests wait, by /metrics."""
    me.connection.request("GET", "/metrics")
    page = me.connection.getresponse().read().decode()
    return int(float(re.search(r"^drover_http_waiting\S* (\S+)$", page, re.MULTILINE)[1]))


def test_waiting_for_a_result_that_is_not_kept(me, other, group):
    [first] = me.add(group, "x")
    assert me.get(f"/v1/tasks/{first}/wait?timeout=0")["state"] == "available"
    got = []
    waiting = threading.Thread(target=lambda: got.append(other.get(f"/v1/tasks/{first}/wait")))
    waiting.start()
    wait_until(lambda: waiting_requests(me) > 0)
    [task] = me.claim(group)
    me.update(finishes=[{"id": task["id"], "result": "done well"}])
    waiting.join(60)
    assert got and got[0]["state"] == "done" and got[0]["result"] == "done well", got


def test_waiting_for_a_task_that_dies(me, other, group):
    [first] = me.add(group, "x")
    got = []
    waiting = threading.Thread(target=lambda: got.append(other.get(f"/v1/tasks/first:{first}/wait")))
    waiting.start()
    [task] = me.claim(group)
    me.update(fails=[{"id": task["id"], "error": "broken", "dead": True}])
    waiting.join(60)
    assert (got[0]["state"], got[0]["error"]) == ("dead", "broken")


def test_keys_may_be_remembered(me, group):
    put(me, group, remember_keys=3600000)
    [first] = me.add(group, "x", key="k")
    me.update(finishes=[{"id": first}])
    [reason] = me.refused(adds=[{"group": group, "key": "k"}])
    assert reason.endswith("which has ended, has this key")
    put(me, group, remember_keys=1)
    [second] = me.add(group, "x", key="l")
    me.update(deletes=[second])
    wait_until(lambda: me.send("GET", f"/v1/tasks/first:{second}")[0] == 404)
    me.add(group, "y", key="l")


# Finding and changing many.

def test_tasks_are_found_by_what_they_are(me, group):
    me.add(group, "plain apple", "plain pear")
    me.add(group, "later", timespec=-600000)
    me.add(group, "keyed", key="k")
    [task] = me.update(adds=[{"group": group, "data": "bad", "priority": -5}])
    assert data_of(me.claim(group)) == ["bad"]
    me.update(fails=[{"id": f"first:{task['id']}", "error": "no such host", "retry_in": 600000}])
    assert data_of(me.claim(group, limit=1))
    states = {t["data"]: t["state"] for t in find(me, group=group)}
    assert sorted(states.values()) == ["available", "available", "claimed", "delayed", "retrying"]
    assert states["later"] == "delayed" and states["bad"] == "retrying"
    assert data_of(find(me, group=group, text="pear")) == ["plain pear"]
    assert data_of(find(me, group=group, key="k")) == ["keyed"]
    assert data_of(find(me, group=group, error="such host")) == ["bad"]
    assert sorted(data_of(find(me, group=group, state="delayed,retrying"))) == ["bad", "later"]
    assert len(find(me, group=group, limit=2)) == 5
    assert {t["data"] for t in find(me, limit=3) if t["group"] == group} == set(states)
    counts = show(me, group)["counts"]
    assert counts == {"available": 2, "delayed": 1, "retrying": 1, "claimed": 1, "dead": 0, "done": 0}
    listed = {g["group"]: g for g in me.get("/v1/groups?limit=10000")["groups"]}
    assert listed[group]["retrying"] == 1


@pytest.mark.parametrize("query", ["state=gone", "after=x", "limit=0", "colour=red"])
def test_a_wrong_query_is_refused(me, query):
    assert me.send("GET", f"/v1/tasks?{query}")[0] == 400


def test_the_dead_are_retried_in_bulk(me, group):
    me.add(group, *map(str, range(25)))
    tasks = me.claim(group, limit=25)
    me.update(fails=[{"id": t["id"], "error": "down" if int(t["data"]) % 2 else "bad", "dead": True}
                     for t in tasks])
    dead = {"group": f"{group}/dead", "error": "down"}
    status, body = me.send("POST", "/v1/tasks/bulk", {"action": "retry", "filter": dead, "dry_run": True})
    assert status == 200 and (body["matched"], body["changed"], len(body["examples"])) == (12, 0, 3)
    assert bulk(me, "retry", dead, limit=5) == (12, 12)
    assert sorted(int(t["data"]) for t in me.group(group)) == list(range(1, 25, 2))
    assert all("origin" not in t and "attempts" not in t for t in me.group(group))
    assert bulk(me, "delete", {"group": f"{group}/dead"}) == (13, 13)


def test_bulk_moves_releases_and_sets_priorities(me, other, group):
    me.add(group, "a", "b")
    assert bulk(me, "priority", {"group": group, "text": "b"}, priority=-1) == (1, 1)
    [b] = other.claim(group)
    assert b["data"] == "b"
    assert bulk(me, "move", {"group": group}, group=f"{group}-new") == (1, 1)  # not the claimed one
    assert data_of(me.group(f"{group}-new")) == ["a"]
    assert bulk(me, "release", {"group": group, "state": ["claimed"]}) == (1, 1)
    assert data_of(me.claim(group)) == ["b"]


def test_a_key_that_is_taken_is_skipped_in_bulk(me, group):
    me.add(group, "old", key="k")
    [task] = me.claim(group)
    me.update(fails=[{"id": task["id"], "dead": True}])
    me.add(group, "new", key="k")
    assert bulk(me, "retry", {"group": f"{group}/dead"}) == (1, 0)


def test_of_two_dead_tasks_with_a_key_one_lives_again(me, group):
    for data in ("x", "y"):
        me.update(fails=[{"id": me.add(group, data, key="k")[0], "error": "e", "dead": True}])
    assert bulk(me, "retry", {"group": f"{group}/dead"}) == (2, 1)
    assert data_of(me.group(group)) == ["x"] and data_of(me.group(f"{group}/dead")) == ["y"]
    assert bulk(me, "move", {"text": "x", "key": "k"}, group=f"{group}/dead") == (1, 1)


def test_an_empty_filter_needs_all(me):
    status, body = me.send("POST", "/v1/tasks/bulk", {"action": "delete", "dry_run": True})
    assert status == 400 and body["field"] == "filter"
    assert me.send("POST", "/v1/tasks/bulk", {"action": "delete", "all": True, "dry_run": True})[0] == 200
    assert me.send("POST", "/v1/tasks/bulk", {"action": "move", "all": True})[0] == 400


@pytest.mark.parametrize("body, field", [
    ({"action": "fly", "all": True}, "action"),
    ({"all": True}, "action"),
    ({"action": "priority", "all": True}, "priority"),
    ({"action": "delete", "all": True, "priority": 1}, "priority"),
    ({"action": "move", "all": True}, "group"),
    ({"action": "delete", "all": True, "group": "x"}, "group"),
    ({"action": "delete", "filter": {"state": ["gone"]}}, "filter.state"),
    ({"action": "delete", "filter": {"colour": "red"}}, "filter.colour"),
    ({"action": "delete", "all": True, "after": "5-x"}, "after"),
    ({"action": "delete", "all": True, "limit": 0}, "limit"),
])
def test_each_wrong_member_of_bulk_is_named(me, group, body, field):
    me.add(group, "x")
    status, answer = me.send("POST", "/v1/tasks/bulk", body)
    assert status == 400 and answer["field"] == field, answer
    assert len(me.group(group)) == 1


def test_bulk_ends_although_it_gives_new_ids(me, group):
    """Each task is changed once, also if a group has more than one transaction takes, in number or in bytes."""
    me.add(group, *"x" * 1500, timespec=-3600000)
    for action, more in (("priority", {"priority": 3}), ("retry", {}), ("priority", {"priority": 0})):
        assert bulk(me, action, {"group": group}, **more) == (1500, 1500), action
    assert bulk(me, "delete", {"group": group}, limit=1000) == (1500, 1500)
    me.add(group, *["y" * 100000] * 9)
    me.add(group, *["y" * 100000] * 9)
    assert bulk(me, "priority", {"group": group}, priority=1) == (18, 18)
    assert bulk(me, "delete", {"group": group}) == (18, 18)


# Events.

def test_events_of_tasks(me, server, group):
    listener = Http(server.port)
    listener.connection.request("GET", f"/v1/events?kind=task&group={group}")
    stream = listener.connection.getresponse()
    me.add(group, "x")
    [task] = me.claim(group)
    [failed] = me.update(fails=[{"id": task["id"], "error": "oops", "retry_in": 0}])
    [released] = me.update(releases=[failed["id"]])
    me.update(finishes=[{"id": released["id"]}])
    seen = []
    while len(seen) < 5:
        line = stream.readline().decode()
        assert line
        if line.startswith("data: "):
            seen.append(json.loads(line[6:]))
    assert [e["event"] for e in seen] == ["added", "claimed", "failed", "released", "finished"]
    assert {e["group"] for e in seen} == {group} and len({e["first"] for e in seen}) == 1
    assert seen[2]["error"] == "oops"
    listener.close()
    for query, field in (("kind=task&state=vanished", "state"), ("kind=pet", "kind"), ("kind=task,pet", "kind"),
                         ("kind=node&group=x", "group"), ("kind=task,node&state=vanished", "state"),
                         ("kind=task&id=x", "id")):
        status, body = me.send("GET", f"/v1/events?{query}")
        assert status == 400 and body["field"] == field, (query, body)


def test_settings_outlive_a_restart(tmp_path):
    one = Server("--data", tmp_path / "data").start()
    me = Tasks(one.port)
    put(me, "mail*", limit=1, order="fifo", dead="graves", backoff={"factor": 1.5})
    put(me, "gone", limit=1)
    assert me.send("DELETE", path_of("gone"))[0] == 200
    before = show(me, "mail/in")
    one.kill()
    one = Server("--data", tmp_path / "data").start()
    me = Tasks(one.port)
    assert show(me, "mail/in") == before and show(me, "gone")["pattern"] is None
    me.add("mail/in", "a", "b")
    assert len(me.claim("mail/in", limit=5)) == 1
    assert one.stop() == 0
