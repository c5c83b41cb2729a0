"""The DAG over HTTP: every route with every answer, and what nodes do."""

import http.client
import json
import os
import re
import resource
import socket
import threading

import pytest

from conftest import ANY_PORTS, DEADLINE_S, drover, wait_until
from dag_support import Dag, node, refused, shell


@pytest.fixture
def dag(server):
    return Dag(server.port)


# What nodes do.

def test_document_example(dag):
    [a] = dag.add({"metadata": {"type": "command", "parent": "root"},
                   "data": {"command": "echo", "args": ["hello", "world"]}})
    assert dag.wait(a) == ["finished"]
    one = dag.node(a)
    assert one["data"]["result"] == 0
    assert one["data"]["stdout"] == "hello world\n" == one["data"]["mixedout"]
    assert one["data"]["stderr"] == ""
    assert one["metadata"]["parent"] == "root" and one["metadata"]["parents"] == []
    [b] = dag.add({"metadata": {"type": "shell command", "parent": a},
                   "data": {"command": "echo $DROVER_NODE $DROVER_PARENT; echo e >&2; exit 3"}})
    assert dag.wait(b) == ["failed"]
    one = dag.node(b)
    assert one["data"]["stdout"] == f"{b} {a}\n" and one["data"]["stderr"] == "e\n"
    assert one["data"]["result"] == 3 and one["metadata"]["reason"] == "exit status 3"


def test_rules_of_when(dag):
    ids = dag.add(shell("true", ref="good"), shell("false", ref="bad"),
                  shell("true", "good", "bad"), shell("true", "good", "bad", when="failure"),
                  shell("true", "good", "bad", when="always"), shell("true", "good", when="failure"),
                  node("group", "good", ref="g"), shell("true", "g"), node("group", "bad"))
    assert dag.wait(*ids) == ["finished", "failed", "skipped", "finished", "finished", "skipped",
                              "finished", "finished", "skipped"]


@pytest.mark.parametrize("command,then,other", [("true", "finished", "skipped"),
                                                ("exit 7", "skipped", "finished")])
def test_if_takes_one_branch(dag, command, then, other):
    ids = dag.add(node("if", ref="i", command=command), shell("true", "i", branch="then"),
                  shell("true", "i", branch="else"), shell("true", "i"))
    assert dag.wait(*ids) == ["finished", then, other, "finished"]


def test_condition_holds_back_until_it_succeeds(dag, tmp_path):
    flag = tmp_path / "flag"
    c, after = dag.add(node("condition", ref="c", command=f"test -e {flag}", interval=20),
                       shell("true", "c"))
    wait_until(lambda: dag.state(c) == "running")
    assert dag.state(after) == "incipient"
    assert "waits" in dag.node(after)["why"]
    flag.touch()
    assert dag.wait(c, after) == ["finished", "finished"]
    [late] = dag.add(node("condition", command="false", interval=10, timeout=60))
    assert dag.wait(late) == ["failed"]
    assert "time" in dag.node(late)["metadata"]["reason"]


def test_retry_of_the_node_itself(dag, tmp_path):
    flag = tmp_path / "n"
    [a] = dag.add(shell(f"echo x >> {flag}; test $(wc -l < {flag}) = 3",
                        retry={"count": 5, "delay": 10}))
    assert dag.wait(a) == ["finished"]
    assert dag.node(a)["metadata"]["attempts"] == 3
    [b] = dag.add(shell("exit 4", retry={"count": 2, "delay": 5}))
    assert dag.wait(b) == ["failed"]
    assert dag.node(b)["metadata"]["attempts"] == 3


def test_retry_by_hand_brings_back_what_was_skipped(dag, tmp_path):
    flag = tmp_path / "flag"
    a, b = dag.add(shell(f"test -e {flag}", ref="a"), shell("true", "a"))
    assert dag.wait(a, b) == ["failed", "skipped"]
    refused(409, dag.put, "/v1/scheduler/retry", id=b)
    flag.touch()
    dag.put("/v1/scheduler/retry", id=a)
    assert dag.wait(a, b) == ["finished", "finished"]
    refused(409, dag.put, "/v1/scheduler/retry", id=a)


def test_timeout_env_cwd(dag, tmp_path):
    a, b = dag.add(shell("sleep 60", timeout=50),
                   shell('echo "$A"; pwd', env={"A": "x y"}, cwd=str(tmp_path)))
    assert dag.wait(a, b) == ["failed", "finished"]
    assert "time" in dag.node(a)["metadata"]["reason"]
    assert dag.node(b)["data"]["stdout"] == f"x y\n{tmp_path}\n"


def test_the_environment_is_clean(start, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "1")
    dag = Dag(start().port)
    [a] = dag.add(shell("env"))
    dag.wait(a)
    out = dag.node(a)["data"]["stdout"]
    assert "SECRET_OF_THE_SERVER" not in out and "PATH=" in out and "DROVER_URL=http://" in out


def test_commands_have_the_limit_of_files_that_the_server_was_given(start):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        dag = Dag(start().port)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    [a] = dag.add(shell("ulimit -Sn"))
    dag.wait(a)
    assert dag.data(a, "stdout")["data"] == f"{min(soft, 512)}\n"


def test_what_cannot_start(dag, tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("x")
    ids = dag.add(node("command", command="no-such-command"), node("command", command=str(plain)),
                  node("command", command="true", cwd="/no/such"))
    assert dag.wait(*ids) == ["failed"] * 3
    assert [dag.node(i)["data"]["result"] for i in ids] == [127, 126, 127]
    assert "cannot start" in dag.node(ids[0])["metadata"]["reason"]


def test_bytes_that_are_not_utf8(dag):
    [a] = dag.add(shell(r"printf 'a\xff\xfeb'"))
    dag.wait(a)
    assert dag.node(a)["data"]["stdout"] == "a\ufffd\ufffdb"


def test_the_smaller_priority_goes_first(start):
    """As of tasks and of jobs."""
    dag = Dag(start("--jobs", 1).port)
    [hold] = dag.add(shell("sleep 0.3"))
    ids = dag.add(*[shell("true", priority=p) for p in (0, -5, 1, -5)])
    dag.wait(*ids)
    started = {i: dag.node(i)["metadata"]["started"] for i in ids}
    ended = {i: dag.node(i)["metadata"]["ended"] for i in ids}
    order = sorted(ids, key=lambda i: (started[i], ended[i]))
    assert order == [ids[1], ids[3], ids[0], ids[2]]


def test_a_command_adds_below_itself(dag):
    add = ('curl -s -H Content-Type:application/json $DROVER_URL/v1/nodes -d '
           '\'[{"metadata":{"type":"shell command","parent":"\'$DROVER_NODE\'"},'
           '"data":{"command":"echo child"}}]\'')
    [a] = dag.add(shell(add))
    assert dag.wait(a) == ["finished"]
    b = json.loads(dag.node(a)["data"]["stdout"])[0]["id"]
    assert dag.wait(b) == ["finished"]
    assert dag.node(b)["metadata"]["parent"] == a


# Killing.

def test_kill(dag):
    a, b, c = dag.add(shell("(setsid sleep 61 &); sleep 62", ref="a"), shell("true", "a"),
                      shell("sleep 63"))
    wait_until(lambda: dag.state(a) == "running")
    refused(404, dag.kill, a, 999)
    assert dag.kill(b) == [{"id": b, "state": "killed"}]
    dag.kill(a, c)
    assert dag.wait(a, b, c) == ["killed"] * 3
    for line in os.popen("ps -eo args").read().splitlines():
        assert line not in ("sleep 61", "sleep 62", "sleep 63")
    assert dag.kill(a) == [{"id": a, "state": "killed"}]
    refused(400, dag.put, "/v1/scheduler/kill")
    refused(404, dag.put, "/v1/scheduler/kill", id="x")


@pytest.mark.slow
def test_kill_one_that_ignores_term_and_one_that_waits_to_be_tried_again(dag):
    a, b = dag.add(shell("exit 1", retry={"count": 5, "delay": 60000}),
                   shell("trap '' TERM; echo on; sleep 1; sleep 60; sleep 60"))
    wait_until(lambda: "next attempt" in dag.node(a).get("why", ""))
    assert dag.state(a) == "running"
    dag.kill(a)
    assert dag.wait(a) == ["killed"]
    wait_until(lambda: dag.data(b, "stdout")["data"] == "on\n")
    dag.kill(b)
    assert dag.wait(b) == ["killed"]


# Adding.

BAD = [
    ({}, "list"),
    ([1], "nodes[0]"),
    ([{}], "metadata is missing"),
    ([{"metadata": {}}], "type is missing"),
    ([{"metadata": {"type": "no"}}], "no type 'no'"),
    ([{"metadata": {"type": 7}}], "type"),
    ([{"metadata": {"type": "group"}, "more": 1}], "more"),
    ([{"metadata": {"type": "group", "state": "running"}}], "state"),
    ([node("group"), node("group", "77")], "nodes[1]: there is no parent '77'"),
    ([node("group", "x")], "no parent 'x'"),
    ([node("group", ref="a"), node("group", ref="a")], "twice"),
    ([node("group", ref="12")], "mistaken"),
    ([node("group", "b", ref="a"), node("group", "a", ref="b")], "cycle: a → b → a"),
    ([node("group", "a", ref="a")], "cycle: a → a"),
    ([{"metadata": {"type": "group", "parent": "root", "parents": []}}], "both"),
    ([{"metadata": {"type": "group", "parents": "root"}}], "parents"),
    ([{"metadata": {"type": "group", "parents": [None]}}], "a parent is"),
    ([node("group", when="sometimes")], "when"),
    ([node("group", branch="maybe")], "branch"),
    ([node("group", branch="then")], "parent of type if"),
    ([node("group", priority="high")], "priority"),
    ([node("group", group="")], "group"),
    ([node("command")], "command is missing"),
    ([node("command", command="")], "command is empty"),
    ([node("command", command=3)], "nodes[0]: command must be a string"),
    ([node("command", command=["ls"])], "command"),
    ([node("command", command="ls", args="x")], "args"),
    ([node("command", command="ls", args=["a\0b"])], "NUL"),
    ([node("command", command="ls", env={"A=B": "x"})], "env"),
    ([node("command", command="ls", timeout=-1)], "timeout"),
    ([node("command", command="ls", retry={"times": 3})], "retry"),
    ([node("command", command="ls", stdout="x")], "stdout"),
    ([node("shell command", command="ls", args=["x"])], "args"),
]


def test_bad_graphs_add_nothing(dag):
    for body, says in BAD:
        assert says in refused(400, dag.call, "POST", "/v1/nodes", body), body
    assert dag.get("/v1/nodes") == []
    assert dag.add() == []
    assert dag.add(node("group")) == ["1"]


def test_too_many_nodes(dag):
    body = b"[" + b",".join([b"0"] * 1000001) + b"]"
    connection = http.client.HTTPConnection("127.0.0.1", dag.port, timeout=60)
    connection.request("POST", "/v1/nodes", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 400 and b"1000000 nodes" in answer.read()
    connection.close()


# Listing.

def test_listing_and_pages(dag):
    ids = dag.add(*[node("group") for _ in range(5)], shell("true"))
    dag.wait(*ids)
    assert [one["id"] for one in dag.get("/v1/nodes")] == ids
    assert dag.get("/v1/nodes", type="group", metadata="type,parent")[0] == {
        "id": "1", "type": "group", "parent": "root"}
    assert len(dag.get("/v1/nodes", type="shell command", state="finished")) == 1
    assert dag.get("/v1/nodes", state="running,failed") == []
    page = dag.get("/v1/nodes", limit=4, type="group")
    assert [one["id"] for one in page["nodes"]] == ids[:4]
    next, pid = page["pagination"]["next"], page["pagination"]["pid"]
    rest = dag.get("/v1/nodes", limit=4, type="group", start=next, pid=pid)
    assert [one["id"] for one in rest["nodes"]] == ids[4:5] and "pagination" not in rest
    refused(400, dag.get, "/v1/nodes", limit=4, start=next)
    refused(410, dag.get, "/v1/nodes", limit=4, start=next, pid="x")
    refused(410, dag.get, "/v1/nodes", limit=4, start=next, pid=pid)  # other filters
    dag.call("DELETE", f"/v1/nodes/{ids[0]}")
    refused(410, dag.get, "/v1/nodes", limit=4, type="group", start=next, pid=pid)
    for query in ({"state": "x"}, {"type": "x"}, {"metadata": "x"}, {"limit": 0}, {"limit": "x"},
                  {"new": "x"}, {"start": "x", "pid": "x"}):
        refused(400, dag.get, "/v1/nodes", **query)


def test_new_waits_for_newer_nodes(dag):
    [a] = dag.add(node("group"))
    assert dag.get("/v1/nodes", new=0)[0]["id"] == a
    assert dag.get("/v1/nodes", new=a, timeout=1) == []
    got = []
    waiters = [threading.Thread(target=lambda: got.append(dag.get("/v1/nodes", new=a)))
               for _ in range(20)]
    for one in waiters:
        one.start()
    [b] = dag.add(node("group"))
    for one in waiters:
        one.join()
    assert [[n["id"] for n in one] for one in got] == [[b]] * 20


def test_one_node(dag):
    refused(404, dag.get, "/v1/nodes/7")
    refused(404, dag.get, "/v1/nodes/x")
    refused(404, dag.get, "/v1/nodes/7/data")
    refused(405, dag.call, "PUT", "/v1/nodes/7", {})
    a, b = dag.add(shell("sleep 60", ref="a", name="slow"), shell("true", "a"))
    assert dag.node(a)["metadata"]["name"] == "slow"
    wait_until(lambda: dag.state(a) == "running")
    assert dag.node(b)["why"] == f"waits for node {a}, which is running"
    dag.kill(a)


# Removing.

def test_delete(dag, start):
    a, b, c = dag.add(node("group", ref="a"), shell("sleep 60", "a", ref="b"), shell("true", "b"))
    wait_until(lambda: dag.state(b) == "running")
    refused(409, dag.call, "DELETE", f"/v1/nodes/{b}")
    refused(409, dag.call, "DELETE", f"/v1/nodes/{a}?chain=true")
    refused(400, dag.call, "DELETE", f"/v1/nodes/{a}?chain=maybe")
    refused(404, dag.call, "DELETE", "/v1/nodes/99")
    dag.kill(b)
    assert dag.wait(b, c) == ["killed", "skipped"]
    assert dag.call("DELETE", f"/v1/nodes/{b}") == [{"id": b}]
    assert dag.state(c) == "skipped"
    refused(404, dag.get, f"/v1/nodes/{b}")
    assert dag.call("DELETE", f"/v1/nodes/{a}?chain=true") == [{"id": a}]
    x, y, z = dag.add(node("condition", ref="x", command="false", interval=60000),
                      shell("true", "x", ref="y"), shell("true", "y"))
    refused(409, dag.call, "DELETE", f"/v1/nodes/{y}")
    assert dag.call("DELETE", f"/v1/nodes/{y}?chain=true") == [{"id": y}, {"id": z}]
    assert dag.add(node("group")) == [str(int(z) + 1)]
    dag.kill(x)


def test_whoever_waits_for_a_node_that_is_deleted_is_told(server, dag):
    a, b = dag.add(node("condition", ref="a", command="false", interval=60000), shell("true", "a"))
    connection = server.connect()
    connection.send(server.fill(f"GET /v1/scheduler/wait?id={b} HTTP/1.1\r\nHost: HOST\r\n\r\n"
                                f"DELETE /v1/nodes/{b} HTTP/1.1\r\nHost: HOST\r\n\r\n"))
    assert json.loads(connection.answer()[2]) == [{"id": b, "state": "deleted"}]
    assert json.loads(connection.answer()[2]) == [{"id": b}]
    dag.kill(a)


# Data.

def test_data_keys_and_values(dag):
    a, b = dag.add(node("condition", ref="a", command="false", interval=60000),
                   node("command", "a", command="echo", args=["x"], note="mine", list=[1, 2]))
    assert dag.get(f"/v1/nodes/{b}/data") == {"keys": ["args", "command", "list", "note"]}
    assert dag.data(b, "args") == {"key": "args", "data": ["x"]}
    assert dag.data(b, "note") == {"key": "note", "data": "mine"}
    refused(404, dag.data, b, "nothing")
    dag.put(f"/v1/nodes/{b}/data/args", {"value": ["changed"]})
    dag.put(f"/v1/nodes/{b}/data/note", {"value": {"deep": True}})
    assert dag.data(b, "note")["data"] == {"deep": True}
    refused(400, dag.put, f"/v1/nodes/{b}/data/args", {"value": "no list"})
    refused(400, dag.put, f"/v1/nodes/{b}/data/args", {})
    refused(400, dag.put, f"/v1/nodes/{b}/data/args", {"value": [], "more": 1})
    refused(409, dag.put, f"/v1/nodes/{b}/data/stdout", {"value": "forged"})
    refused(409, dag.put, f"/v1/nodes/{a}/data/command", {"value": "true"})
    page = dag.get(f"/v1/nodes/{b}/data", limit=3)
    assert page["keys"] == ["args", "command", "list"]
    assert dag.get(f"/v1/nodes/{b}/data", limit=3, start=page["pagination"]["next"],
                   pid=page["pagination"]["pid"]) == {"keys": ["note"]}
    refused(410, dag.get, f"/v1/nodes/{b}/data", start=3, pid="x")
    dag.kill(a)
    assert dag.wait(b) == ["skipped"]
    [c] = dag.add(node("command", command="echo", args=["x"]))
    dag.wait(c)
    refused(409, dag.put, f"/v1/nodes/{c}/data/args", {"value": []})
    dag.put(f"/v1/nodes/{c}/data/note", {"value": "late"})
    assert dag.data(c, "note")["data"] == "late"


def test_a_large_value_goes_in_and_out_in_pieces(dag):
    [a] = dag.add(node("group"))
    path = f"/v1/nodes/{a}/data/big"
    pieces = [("é%07d" % i) * 30000 for i in range(4)]
    at = dag.put(path, {"value": pieces[0]}, start="")["pagination"]
    refused(409, dag.put, path, {"value": "x"}, start="")
    refused(400, dag.put, path, {"value": "x"}, start=at["next"])
    refused(400, dag.put, path, {"value": 5}, start=at["next"], pid=at["pid"])
    for piece in pieces[1:]:
        at = dag.put(path, {"value": piece}, start=at["next"], pid=at["pid"])["pagination"]
    refused(410, dag.put, path, {"value": "x"}, start=at["next"], pid="999")
    text, query = "", {}
    while True:
        page = dag.data(a, "big", **query)
        text += page["data"]
        if "pagination" not in page:
            break
        query = {"start": page["pagination"]["next"], "pid": page["pagination"]["pid"]}
    assert text == "".join(pieces)
    dag.put(path, {"value": "small again"})
    refused(410, dag.data, a, "big", **query)
    assert dag.data(a, "big")["data"] == "small again"


def test_a_piece_is_replaced_and_its_neighbours_stay(dag):
    [a] = dag.add(node("group"))
    path = f"/v1/nodes/{a}/data/text"
    made = dag.put(path, {"value": "xxxx"}, start="")
    made = dag.put(path, {"value": "aaa"}, start=made["start"], pid=made["pagination"]["pid"])
    assert made["start"] == "0" and "start" not in dag.put(f"/v1/nodes/{a}/data/other", {"value": "x"})
    at = made["pagination"]
    for piece in ("bb", "z" * 100000, "cccc"):
        made = dag.put(path, {"value": piece}, start=at["next"], pid=at["pid"])
        assert made["start"] == at["next"]
        at = made["pagination"]
    for start, piece in (("0", "AAA"), ("3", "BB"), ("100005", "CC")):
        dag.put(path, {"value": piece}, start=start, pid=at["pid"])
    assert dag.data(a, "text")["data"] == "AAABB" + "z" * 100000 + "CC"
    dag.put(path, {"value": ""}, start="3", pid=at["pid"])
    assert dag.data(a, "text")["data"] == "AAA" + "z" * 100000 + "CC"
    for start, piece, says in (("1", "x", "where a piece begins"), ("0", "x" * 262145, "262144")):
        assert says in refused(400, dag.put, path, {"value": piece}, start=start, pid=at["pid"])


def test_output_is_read_while_it_runs(dag, tmp_path):
    flag = tmp_path / "flag"
    [a] = dag.add(shell(f"echo one; until test -e {flag}; do sleep 0.01; done; echo two"))
    page = wait_until(lambda: (p := dag.data(a, "stdout")) and p["data"] and p)
    assert page["data"] == "one\n"
    query = {"start": page["pagination"]["next"], "pid": page["pagination"]["pid"], "wait": 10000}
    got = []
    reader = threading.Thread(target=lambda: got.append(dag.data(a, "stdout", **query)))
    reader.start()
    flag.touch()
    reader.join()
    assert got[0]["data"] == "two\n"
    dag.wait(a)
    assert dag.data(a, "stdout", **query)["data"] == "two\n"


def test_output_beyond_the_cap(dag):
    [a] = dag.add(shell("head -c 3000000 /dev/zero | tr '\\0' x; echo end"))
    dag.wait(a)
    text, query = "", {}
    while True:
        page = dag.data(a, "stdout", **query)
        text += page["data"]
        if "pagination" not in page:
            break
        query = {"start": page["pagination"]["next"], "pid": page["pagination"]["pid"]}
    assert text.startswith("x" * 1048576 + "\n[drover: cut here") and len(text) < 1048700


def test_log_dir_keeps_everything(start, tmp_path):
    logs = tmp_path / "logs"  # it is made
    dag = Dag(start("--log-dir", logs).port)
    [a] = dag.add(shell("head -c 3000000 /dev/zero"))
    dag.wait(a)
    assert (logs / f"{a}-1.log").stat().st_size == 3000000


@pytest.mark.parametrize("words", [("serve", "--journal", "none", *ANY_PORTS),
                                   ("agent", "--server", "http://127.0.0.1:1")], ids=lambda w: w[0])
def test_log_dir_that_cannot_be(words, tmp_path):
    (tmp_path / "file").write_text("")
    for place in ("file", "no/where"):
        ended = drover(*words, "--log-dir", tmp_path / place)
        assert ended.returncode == 1 and str(tmp_path / place) in ended.stderr


@pytest.mark.parametrize("words", [("serve", "--journal", "none", *ANY_PORTS),
                                   ("agent", "--server", "http://127.0.0.1:1")], ids=lambda w: w[0])
def test_log_dir_that_others_can_change(words, tmp_path):
    """Without the sticky bit, whoever can write to the directory can replace the logs."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs").chmod(0o777)
    ended = drover(*words, "--log-dir", tmp_path / "logs")
    assert ended.returncode == 1
    assert f"{tmp_path}/logs: every user can write to it and it has no sticky bit" in ended.stderr
    if os.geteuid() == 0:
        (tmp_path / "logs").chmod(0o700)
        os.chown(tmp_path / "logs", 1, 1)
        assert "it belongs to another user" in drover(*words, "--log-dir", tmp_path / "logs").stderr


@pytest.mark.parametrize("way, why", [
    ("symlink", "it is a symbolic link"), ("dangling", "it is a symbolic link"), ("hardlink", "it has another name, too"),
    ("fifo", "No such device or address"), ("directory", "Is a directory"), ("foreign", "(it belongs to another user|Permission denied)")])
def test_a_log_file_that_another_user_has_put_there(start, tmp_path, way, why):
    """It is left alone, and the command runs without a log. The directory is one as /tmp is."""
    logs, other = tmp_path / "logs", tmp_path / "other"
    logs.mkdir()
    logs.chmod(0o1777)
    other.write_text("precious")
    server = start("--log-dir", logs)
    dag = Dag(server.port)
    [first] = dag.add(shell("echo one"))
    dag.wait(first)
    assert (logs / f"{first}-1.log").read_text() == "one\n"
    traps = [logs / f"{int(first) + n}-1.log" for n in range(1, 20)]
    for trap in traps:
        if way == "symlink":
            trap.symlink_to(other)
        elif way == "dangling":
            trap.symlink_to(tmp_path / "nowhere")
        elif way == "hardlink":
            trap.hardlink_to(other)
        elif way == "fifo":
            os.mkfifo(trap)
        elif way == "directory":
            trap.mkdir()
        elif os.geteuid() != 0:
            pytest.skip("only root can give files away")
        else:
            trap.write_text("precious")
            os.chown(trap, 1, 1)
    [second] = dag.add(shell("echo two"))
    dag.wait(second)
    assert dag.data(second, "stdout")["data"] == "two\n" and dag.state(second) == "finished"
    server.wait_for(re.escape(f"refused the log file {logs}/{second}-1.log: ") + why + "; its run has no log")
    assert other.read_text() == "precious" and not (tmp_path / "nowhere").exists()
    assert way != "foreign" or {trap.read_text() for trap in traps} == {"precious"}


def test_a_log_file_of_an_earlier_run_is_replaced(start, tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    for number in range(20):
        (logs / f"{number}-1.log").write_text("long ago")
    dag = Dag(start("--log-dir", logs).port)
    [node] = dag.add(shell("echo new"))
    dag.wait(node)
    assert (logs / f"{node}-1.log").read_text() == "new\n"


# Waiting and events.

def test_what_is_printed_wakes_who_follows_it(dag, tmp_path):
    """Long before the end of the wait, and of the command."""
    flag = tmp_path / "flag"
    [a] = dag.add(shell(f"echo one; until test -e {flag}; do sleep 0.01; done; echo two; sleep 79"))
    first = wait_until(lambda: (page := dag.data(a, "mixedout"))["data"] and page)
    got = []
    reader = threading.Thread(target=lambda: got.append(dag.data(
        a, "mixedout", start=first["pagination"]["next"], pid=first["pagination"]["pid"], wait=600000)))
    reader.start()
    flag.touch()
    reader.join(DEADLINE_S)
    assert got[0]["data"] == "two\n" and dag.state(a) == "running"
    dag.kill(a)
    assert dag.wait(a) == ["killed"]


def test_wait(dag):
    [a] = dag.add(shell("sleep 60"))
    assert dag.wait(a, timeout=1) in (["incipient"], ["running"])
    refused(404, dag.wait, 99)
    refused(400, dag.wait)
    refused(400, dag.wait, a, timeout="x")
    got = []
    waiters = [threading.Thread(target=lambda: got.append(dag.wait(a))) for _ in range(20)]
    for one in waiters:
        one.start()
    gone = socket.create_connection(("127.0.0.1", dag.port))
    gone.sendall(f"GET /v1/scheduler/wait?id={a} HTTP/1.1\r\nHost: 127.0.0.1:{dag.port}\r\n\r\n"
                 .encode())
    gone.close()
    dag.kill(a)
    for one in waiters:
        one.join()
    assert got == [["killed"]] * 20


def test_events(dag):
    stream = socket.create_connection(("127.0.0.1", dag.port), timeout=DEADLINE_S)
    stream.sendall(f"GET /v1/events?kind=node&state=finished HTTP/1.1\r\nHost: 127.0.0.1:{dag.port}"
                   "\r\n\r\n".encode())
    got = stream.recv(65536)
    [a, b] = dag.add(shell("true"), shell("false"))
    dag.wait(a, b)
    while b"data:" not in got:
        got += stream.recv(65536)
    line = next(one for one in got.decode().splitlines() if one.startswith("data:"))
    assert json.loads(line[5:])["id"] == a and json.loads(line[5:])["state"] == "finished"
    stream.close()


@pytest.mark.parametrize("query", ["state=finishd", "type=shell", "id=seven", "state=failed,done"])
def test_events_that_there_are_not(dag, query):
    assert "a node cannot have" in refused(400, dag.call, "GET", f"/v1/events?kind=node&{query}")
