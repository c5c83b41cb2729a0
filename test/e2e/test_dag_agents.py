"""Agents on other machines: they claim, renew, send and commit over HTTP; one dies, one is slow."""

import pathlib
import signal
import subprocess

import pytest

from conftest import BINARY, DEADLINE_S, wait_until
from dag_support import Dag, node, refused, shell


def alive(pid):
    """Not ended; one that nobody has waited for has."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def dag(start):
    return Dag(start("--jobs", 0).port)


@pytest.fixture
def agent(dag):
    started = []

    def start_one(*arguments, lease="30s", **more):
        one = subprocess.Popen([BINARY, "agent", "--server", f"http://127.0.0.1:{dag.port}",
                                "--lease", lease, *map(str, arguments)],
                               stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, **more)
        started.append(one)
        return one

    yield start_one
    for one in started:
        if one.poll() is None:
            one.kill()
        one.wait()


def test_an_agent_runs_nodes_and_sends_what_they_print(dag, agent):
    one = agent("--jobs", 2, "--group", "far")
    ids = dag.add(node("command", ref="a", command="echo", args=["x"], group="far"),
                  shell("echo $DROVER_NODE $DROVER_PARENT; head -c 200000 /dev/zero | tr '\\0' y;"
                        "exit 5", "a", group="far"),
                  node("command", command="no-such", group="far"), shell("true"))
    assert dag.wait(*ids[:3]) == ["finished", "failed", "failed"]
    assert dag.node(ids[0])["data"]["stdout"] == "x\n" == dag.node(ids[0])["data"]["mixedout"]
    assert dag.node(ids[0])["data"]["stderr"] == ""
    assert dag.data(ids[1], "stdout")["data"].startswith(f"{ids[1]} {ids[0]}\nyyy")
    assert dag.node(ids[1])["data"]["result"] == 5
    assert dag.node(ids[2])["data"]["result"] == 127
    assert dag.state(ids[3]) == "incipient"  # not of its group
    assert "agent of group drover/run" in dag.node(ids[3])["why"]
    [slow] = dag.add(shell("echo begun; sleep 60", group="far"))
    wait_until(lambda: dag.data(slow, "stdout")["data"] == "begun\n")
    dag.kill(slow)
    assert dag.wait(slow) == ["killed"]
    [more] = dag.add(shell("sleep 60", group="far"))
    wait_until(lambda: dag.state(more) == "running")
    one.send_signal(signal.SIGTERM)
    assert one.wait(DEADLINE_S) == 0
    assert dag.wait(more) == ["failed"]
    assert dag.node(more)["metadata"]["reason"] == "the agent was stopped"


def test_one_is_killed(dag, agent, tmp_path):
    one = agent("--jobs", 4, lease="3s")
    flag = tmp_path / "flag"
    a, b = dag.add(shell("echo $$; exec sleep 300"),
                   shell(f"test -e {flag} || exec sleep 300", retry={"count": 1, "delay": 1}))
    wait_until(lambda: dag.state(a) == dag.state(b) == "running")
    pid = int(wait_until(lambda: dag.data(a, "stdout")["data"]))
    flag.touch()
    one.kill()
    agent("--jobs", 1)
    assert dag.wait(a, b) == ["failed", "finished"]
    assert dag.node(a)["metadata"]["reason"] == "lost its agent"
    assert dag.node(b)["metadata"]["attempts"] == 2
    wait_until(lambda: not alive(pid))  # the command went with its agent


def logs(directory):
    return {one.name: one.read_text() for one in directory.iterdir() if one.suffix == ".log"}


def test_one_is_killed_and_one_stopped_for_longer_than_its_claim(dag, agent, tmp_path):
    """Each in a directory of its own. What the stopped one did meanwhile is too late, and is not taken."""
    places = [tmp_path / name for name in ("killed", "stopped", "third")]
    for place in places:
        place.mkdir()
    flag = tmp_path / "flag"
    run = lambda place, **more: agent("--jobs", 2, "--log-dir", place, cwd=place, **more)
    killed, stopped = run(places[0], lease="3s"), run(places[1], lease="3s")
    again = shell(f"echo in $PWD; test -e {flag} || {{ touch began-$DROVER_NODE; sleep 0.5; }}; echo end",
                  retry={"count": 1, "delay": 1})
    ids = dag.add(again, again, again, shell(again["data"]["command"]))
    wait_until(lambda: sum(len(list(place.glob("began-*"))) for place in places) == 4)
    stopped.send_signal(signal.SIGSTOP)
    killed.kill()
    flag.touch()
    run(places[2])
    assert dag.wait(*ids) == ["finished"] * 3 + ["failed"]
    before = [dag.node(one) for one in ids]
    assert [one["metadata"]["attempts"] for one in before] == [2, 2, 2, 1]
    assert before[3]["metadata"]["reason"] == "lost its agent"
    assert [one["data"]["stdout"] for one in before[:3]] == [f"in {places[2]}\nend\n"] * 3
    first = set(logs(places[0])) | set(logs(places[1]))
    assert first == {f"{one}-1.log" for one in ids} and len(logs(places[1])) == 2
    assert set(logs(places[2])) == {f"{one}-2.log" for one in ids[:3]}

    stopped.send_signal(signal.SIGCONT)  # it wants to commit what it did, and must not
    wait_until(lambda: all(text.endswith("end\n") for text in logs(places[1]).values()))
    [more] = dag.add(shell("true", priority=-1))  # ends after what it has left to say
    dag.wait(more)
    stopped.send_signal(signal.SIGTERM)
    assert stopped.wait(DEADLINE_S) == 0
    assert [dag.node(one) for one in ids] == before


def test_the_server_is_restarted_under_an_agent(start, tmp_path):
    server = start("--jobs", 0)
    dag, port = Dag(server.port), server.port
    one = subprocess.Popen([BINARY, "agent", "--server", f"http://127.0.0.1:{port}", "--jobs", "2",
                            "--lease", "30s"], stderr=subprocess.DEVNULL)
    try:
        go = tmp_path / "go"
        [a] = dag.add(shell(f"while ! test -e {go}; do sleep 0.02; done; echo done"))
        wait_until(lambda: dag.state(a) == "running")
        server.kill()
        server = start("--jobs", 0, "--http", f"127.0.0.1:{port}")
        dag = Dag(port)
        assert dag.state(a) == "running"
        go.touch()
        assert dag.wait(a) == ["finished"]
        assert dag.node(a)["data"]["stdout"] == "done\n"
        assert dag.node(a)["metadata"]["attempts"] == 1
    finally:
        one.kill()
        one.wait()


# The routes that agents use.

def claim(dag, **more):
    return dag.call("POST", "/v1/agent/claim", {"clientid": 7, **more})["runs"]


def test_routes_of_agents(dag):
    post = lambda path, body: dag.call("POST", "/v1/agent/" + path, body)
    assert claim(dag) == []
    for body in ({}, {"clientid": "x"}, {"clientid": -1}, {"clientid": 7, "limit": 0},
                 {"clientid": 7, "duration": 1}, {"clientid": 7, "groups": "x"}, []):
        refused(400, post, "claim", body)
    a, b = dag.add(shell("x", priority=1), shell("y"))
    first, second = claim(dag, limit=5)
    assert [first["node"], second["node"]] == [a, b]
    assert first["argv"] == ["bash", "-c", "x"]
    assert dag.state(a) == "running"
    mine = {"node": a, "task": first["task"]}
    renew = lambda **more: post("renew", {"clientid": 7, "runs": [mine], **more})["runs"][0]["state"]
    assert renew() == "yours"
    assert renew(clientid=8) == "lost"
    refused(400, post, "renew", {"clientid": 7, "runs": [{"node": 5}]})
    dag.kill(a)
    assert renew(wait=10000) == "kill"
    refused(409, post, "done", {**mine, "clientid": 8, "how": "killed"})
    refused(409, post, "done", {**mine, "clientid": 7, "task": 1, "how": "killed"})
    refused(404, post, "done", {"clientid": 7, "node": "99", "task": 1})
    refused(400, post, "done", {**mine, "clientid": 7, "how": "well"})
    refused(409, dag.put, f"/v1/nodes/{a}/data/stdout", {"value": "x"}, task=1, clientid=7)
    dag.put(f"/v1/nodes/{a}/data/stdout", {"value": "said"}, task=first["task"], clientid=7)
    post("done", {**mine, "clientid": 7, "how": "killed", "status": 15})
    assert dag.state(a) == "killed" and dag.node(a)["data"]["stdout"] == "said"
    refused(409, post, "done", {**mine, "clientid": 7, "how": "killed"})
    post("done", {"clientid": 7, "node": b, "task": second["task"], "status": 0, "stdout": "out"})
    assert dag.state(b) == "finished" and dag.node(b)["data"]["stdout"] == "out"


def test_what_may_start_is_a_task_in_the_store(dag):
    a, b = dag.add(shell("true", ref="a", group="mine"), shell("true", "a", group="mine"))
    tasks = wait_until(lambda: dag.get("/group/mine", owned=1))
    assert len(tasks) == 1 and f'"node":{a}' in tasks[0]["data"]
    [run] = claim(dag, group="mine")
    assert run["node"] == a
    dag.call("POST", "/v1/agent/done", {"clientid": 7, "node": a, "task": run["task"], "status": 1})
    assert dag.wait(a, b) == ["failed", "skipped"]
    assert dag.get("/group/mine", owned=1) == []
