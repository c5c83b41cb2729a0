"""The task store of several servers on an ensemble of three: one leads, and another takes over."""

import json
import os
import signal
import time

from kazoo.client import KazooClient

from cli import Client
from conftest import DEADLINE_S, wait_until
from task_support import Tasks
from test_task_durable import Crowd, check_history
from world_support import figure

TIMEOUT_MS = 4000
SOAK = bool(os.environ.get("DROVER_SOAK"))


def wait_for_redirect(server, leader):
    me = Tasks(server.port)
    wait_until(lambda: me.send("GET", "/groups")[0] == 307, "a redirect")
    assert me.headers["Location"] == f"http://127.0.0.1:{leader.port}/groups"


def test_the_others_redirect_with_path_and_query(serve):
    leader = serve().leads()
    follower = serve()
    wait_for_redirect(follower, leader)
    me = Tasks(follower.port)
    body = {"clientid": 1, "adds": [{"group": "g"}]}
    for method, path, sent in (("POST", "/update", body), ("POST", "/claim", body | {"x": 1}),
                               ("GET", "/group/a%2Fb?owned=yes&limit=3", None),
                               ("GET", "/task/1", None), ("GET", "/tasks/1,2", None)):
        status, _ = me.send(method, path, sent)
        if path == "/claim":
            assert status == 400  # every server refuses an invalid request
            continue
        assert status == 307
        assert me.headers["Location"] == f"http://127.0.0.1:{leader.port}{path}"
    assert Tasks(leader.port).get("/groups") == []


def test_another_takes_over_in_time_and_nothing_is_lost(serve):
    leader = serve().leads()
    follower = serve()
    wait_for_redirect(follower, leader)
    me = Tasks(leader.port)
    ids = me.add("g", *"abcdefghij")
    claimed = me.claim("g", requestid="r")
    me.update(deletes=[me.add("g", "the last id")[0]])
    last = figure(leader.port, "drover_task_last_id")
    assert last > claimed[0]["id"]
    leader.signal(signal.SIGKILL)
    start = time.monotonic()
    follower.leads()
    took = time.monotonic() - start
    assert took < TIMEOUT_MS / 1000 + 10, took
    assert figure(follower.port, "drover_task_last_id") == last
    me = Tasks(follower.port, me.clientid)
    assert len(me.group("g", "?owned=1")) == len(ids)
    assert me.claim("g", requestid="r") == claimed
    assert me.add("g", "new")[0] > claimed[0]["id"]
    assert me.update(deletes=[claimed[0]["id"]]) == []


def test_a_leader_that_ends_hands_over_at_once(serve):
    """Its session is ended, and not left to its timeout."""
    leader = serve(timeout_ms=60000).leads()
    follower = serve(timeout_ms=60000)
    wait_for_redirect(follower, leader)
    assert leader.stop() == 0, leader.said
    start = time.monotonic()
    follower.leads()
    assert time.monotonic() - start < 30


def test_an_old_leader_changes_nothing(serve):
    old = serve().leads()
    new = serve()
    wait_for_redirect(new, old)
    Tasks(old.port).add("g", "before")
    waiting = old.connect()
    old.signal(signal.SIGSTOP)
    body = json.dumps({"clientid": 1, "adds": [{"group": "g", "data": "too late"}]})
    waiting.send(old.fill("POST /update HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"
                          f"Content-Length: {len(body)}\r\n\r\n{body}"))
    new.leads()
    me = Tasks(new.port)
    me.add("g", "after")
    old.signal(signal.SIGCONT)
    status = waiting.answer()[0]
    assert status in (307, 503), status
    assert sorted(task["data"] for task in me.group("g")) == ["after", "before"]
    wait_for_redirect(old, new)


def test_who_takes_the_epoch_fences_off_the_leader(serve, ensemble):
    """Before it changes anything else, and although the leader's session is still valid."""
    server = serve().leads()
    me = Tasks(server.port)
    me.add("g", "before")
    judge = KazooClient(hosts=ensemble.hosts)
    judge.start(timeout=DEADLINE_S)
    chroot = server.url.split("/", 3)[3]
    judge.set(f"/{chroot}/drover/epoch", b"http://127.0.0.1:1")
    judge.stop()
    judge.close()
    assert me.send("POST", "/update", {"clientid": 1, "adds": [{"group": "g", "data": "fenced"}]})[0] in (307, 503)
    after = {"clientid": 1, "adds": [{"group": "g", "data": "after"}]}
    wait_until(lambda: me.send("POST", "/update", after)[0] == 200, "an update")
    assert sorted(task["data"] for task in me.group("g")) == ["after", "before"]


def test_histories_while_servers_of_both_kinds_die(serve, ensemble):
    servers = [serve().leads(), serve()]
    crowd = Crowd(servers[0].port, 6)
    for round_number in range(6 if SOAK else 2):
        crowd.work(60)
        if round_number % 2 == 0:
            leader = ensemble.leader()
            leader.kill()
            wait_until(ensemble.leader, "another leader of the ensemble")
            leader.start()
            leader.wait()
        else:
            servers[0].signal(signal.SIGKILL)
            servers[0].wait()
            servers[0] = servers[1].leads()
            servers[1] = serve()
            crowd.port = servers[0].port
    me = Tasks(servers[0].port)
    wait_until(lambda: me.send("GET", "/groups")[0] == 200, "a leader")
    crowd.work(60)
    crowd.end()
    added, claimed = check_history(crowd, me.group("g", "?owned=1"))
    assert me.group("wrong", "?owned=1") == []
    assert added > 5 and claimed > 2


def test_a_worker_goes_on_with_the_next_leader(serve, tmp_path):
    """The leader dies while commands run. The worker knows both servers; each task is done once."""
    leader = serve().leads()
    follower = serve()
    wait_for_redirect(follower, leader)
    me = Client(f"http://127.0.0.1:{follower.port},http://127.0.0.1:{leader.port}", tmp_path)
    me.ok("add", "g", *"abcdefgh")
    go, out = tmp_path / "go", tmp_path / "out"
    worker = me.popen("work", "g", "--jobs", 2, "--until-empty", "--", "sh", "-c",
                      f"echo; while ! test -e {go}; do sleep 0.02; done; cat >> {out}")
    assert [worker.stdout.readline() for _ in range(2)] == ["\n", "\n"]
    leader.kill()
    go.touch()
    assert worker.communicate(timeout=DEADLINE_S * 3)[1].endswith(
        "drover: 8 done, 0 retried, 0 dead, 0 lost\n")
    assert sorted(out.read_text()) == list("abcdefgh")
    assert me.ok("groups") == ""
