"""Agents on other machines: they claim, renew, send and commit over HTTP; one dies, one is slow."""

import pathlib
import signal
import subprocess
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_futures

import pytest

from cli import Client
from conftest import BINARY, DEADLINE_S, wait_until
from dag_support import Dag, node, refused, shell

pytestmark = pytest.mark.slow


def alive(pid):
    """Whether the process runs; a zombie does not."""
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

    stopped.send_signal(signal.SIGCONT)  # it tries to commit its run, and must be refused
    wait_until(lambda: all(text.endswith("end\n") for text in logs(places[1]).values()))
    [more] = dag.add(shell("true", priority=1))  # ends after the agent's last reports
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


# The protocol of agents: claims and renewals go to the task store.

def done(dag, run, **more):
    return dag.call("POST", "/v1/agent/done", {"clientid": 7, "node": run["node"],
                                               "attempt": run["attempt"], **more})


def renew(dag, task, duration=60000, clientid=7):
    [task] = dag.call("POST", "/update", {"clientid": clientid, "updates": [
        {"id": task["id"], "data": task["data"], "timespec": -duration}]})["tasks"]
    return task


def kills(dag, after=0, wait=0, clientid=7):
    return dag.get("/v1/agent/kills", clientid=clientid, after=after, wait=wait)


def test_an_agent_is_a_client_of_the_task_store(dag):
    a, b = dag.add(shell("x", priority=1), shell("y"))
    [(task, run)] = dag.claim()  # the smaller priority first
    assert run["node"] == b and run["argv"] == ["bash", "-c", "y"] and run["attempt"] == 1
    assert dag.state(b) == "running" and dag.state(a) == "incipient"
    start = lambda **more: dag.call("POST", f"/v1/nodes/{b}/start",
                                    {"clientid": 7, "task": task["id"], **more})
    assert start() == run  # the answer was lost: the same again
    refused(409, start, clientid=8)
    refused(409, start, task=task["id"] + 1)
    refused(400, start, task="x")
    refused(404, dag.call, "POST", "/v1/nodes/99/start", {"clientid": 7, "task": 1})
    task = renew(dag, task)
    refused(409, renew, dag, task, clientid=8)
    refused(409, dag.call, "POST", "/update", {"clientid": 7, "deletes": [task["id"]]})
    refused(409, dag.put, f"/v1/nodes/{b}/data/stdout", {"value": "x"}, attempt=2, clientid=7)
    dag.put(f"/v1/nodes/{b}/data/stdout", {"value": "said"}, attempt=1, clientid=7)
    assert kills(dag)["nodes"] == []
    dag.kill(b)
    answer = kills(dag, wait=10000)
    assert answer["nodes"] == [b] and kills(dag, after=answer["next"])["nodes"] == []
    assert kills(dag, clientid=8)["nodes"] == []
    refused(409, done, dag, run, clientid=8)
    refused(409, done, dag, {**run, "attempt": 2})
    refused(404, done, dag, {**run, "node": "99"})
    refused(400, done, dag, run, how="well")
    done(dag, run, how="killed", status=15)
    assert dag.state(b) == "killed" and dag.node(b)["data"]["stdout"] == "said"
    refused(409, done, dag, run)
    refused(409, renew, dag, task)
    [(task, run)] = dag.claim()
    done(dag, run, status=0, stdout="out")
    assert dag.state(a) == "finished" and dag.node(a)["data"]["stdout"] == "out"


def test_a_claim_that_does_not_wait_finds_a_node_the_next_time(dag):
    [a] = dag.add(shell("x"))
    [(_, run)] = wait_until(lambda: dag.claim(wait=0))
    assert run["node"] == a
    done(dag, run)
    assert dag.wait(a) == ["finished"]


def test_one_offer_wakes_one_agent_and_a_node_costs_three_transactions(dag):
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(dag.claim, wait=60000, clientid=10 + i) for i in range(8)]
        wait_until(lambda: dag.metric("drover_task_waiting_claims") == 8)
        for _ in range(8):
            before = dag.metric("drover_task_commits_total")
            dag.add(shell("x"))
            ready, waiting = wait_for_futures(waiting, timeout=DEADLINE_S,
                                              return_when=FIRST_COMPLETED)
            [(task, run)] = ready.pop().result()
            assert not ready
            done(dag, run, clientid=task["ownerid"], stdout="out")
            assert dag.wait(run["node"]) == ["finished"]
            assert dag.metric("drover_task_commits_total") - before == 1 + 3  # and the graph


def test_a_claim_that_is_not_started_does_not_count(dag):
    """The agent dies between the claim and the start: the node is offered again."""
    [a] = dag.add(shell("x"))
    [lost] = dag.call("POST", "/claim", {"clientid": 8, "groups": ["drover/run"], "wait": 10000,
                                         "duration": 200})["tasks"]
    [(_, run)] = dag.claim(wait=60000)
    assert run["node"] == a and run["attempt"] == 1
    refused(409, dag.call, "POST", f"/v1/nodes/{a}/start", {"clientid": 8, "task": lost["id"]})
    done(dag, run)
    assert dag.node(a)["metadata"]["attempts"] == 1


def test_a_lease_that_ends_fails_the_node_and_nobody_else_gets_it(dag):
    [a] = dag.add(shell("x"))
    [(task, run)] = dag.claim(duration=300)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(dag.claim, wait=2000, clientid=8)  # waits while the lease ends
        assert dag.wait(a) == ["failed"]
        assert other.result() == []
    assert dag.node(a)["metadata"]["reason"] == "lost its agent"
    refused(409, done, dag, run)
    refused(409, renew, dag, task)


def test_a_node_that_is_killed_before_the_start_does_not_start(dag):
    [a] = dag.add(shell("x"))
    [task] = dag.call("POST", "/claim", {"clientid": 7, "groups": ["drover/run"], "wait": 10000,
                                         "duration": 60000})["tasks"]
    dag.kill(a)
    assert dag.state(a) == "killed"
    refused(409, dag.call, "POST", f"/v1/nodes/{a}/start", {"clientid": 7, "task": task["id"]})


def test_the_server_restarts_between_the_claim_and_the_start(start):
    server = start("--jobs", 0)
    dag = Dag(server.port)
    a, b = dag.add(shell("x"), shell("y", group="short"))
    [task] = dag.call("POST", "/claim", {"clientid": 7, "groups": ["drover/run"], "wait": 10000,
                                         "duration": 60000})["tasks"]
    server.kill()
    dag = Dag(start("--jobs", 0).port)
    assert dag.state(a) == "running" and dag.state(b) == "incipient"
    run = dag.call("POST", f"/v1/nodes/{a}/start", {"clientid": 7, "task": task["id"]})
    task = renew(dag, task)
    done(dag, run)
    assert dag.wait(a) == ["finished"]


def test_what_is_offered_is_a_task_in_the_store(dag):
    a, b = dag.add(shell("true", ref="a", group="mine"), shell("true", "a", group="mine"))
    assert dag.get("/group/mine", owned=1) == []  # no agent asks for it
    [(task, run)] = dag.claim(groups=["mine"])
    [only] = dag.get("/group/mine", owned=1)
    assert run["node"] == a and only["id"] == task["id"] and only["ownerid"] == 7
    done(dag, run, status=1)
    assert dag.wait(a, b) == ["failed", "skipped"]
    assert dag.get("/group/mine", owned=1) == []


def agents(dag, **query):
    return dag.get("/v1/agents", **query)["agents"]


ANNOUNCED = {"host": "m1", "groups": ["gpu", "far"], "jobs": 4, "lease": 60000}


def test_agents_announce_themselves(dag):
    assert agents(dag) == []
    dag.put("/v1/agents/7", ANNOUNCED | {"labels": {"os": "x"}})
    dag.put("/v1/agents/8", ANNOUNCED | {"groups": ["cpu"], "lease": 300})
    dag.put("/v1/agents/7", ANNOUNCED | {"labels": {"os": "x"}, "draining": True})  # it is known: not so
    [one] = agents(dag, group="far")
    assert (one["id"], one["host"], one["jobs"], one["running"], one["labels"], one["drain"]) == (
        "7", "m1", 4, [], {"os": "x"}, False)
    wait_until(lambda: [one["id"] for one in agents(dag)] == ["7"], "the end of a lease")
    assert dag.put("/v1/agents/6", ANNOUNCED | {"draining": True, "lease": 1}) == {"drain": True}
    wait_until(lambda: [one["id"] for one in agents(dag)] == ["7"], "the end of another")
    dag.add(shell("true", group="gpu"))
    [(_, run)] = dag.claim(groups=["gpu"])
    assert agents(dag)[0]["running"] == [run["node"]]
    for bad in ({"host": 5}, {"groups": []}, {"jobs": 0}, {"lease": 0}, {"labels": [1]}, {"x": 1}):
        refused(400, dag.put, "/v1/agents/7", ANNOUNCED | bad)
    refused(400, dag.put, "/v1/agents/0", ANNOUNCED)
    refused(404, dag.put, "/v1/agents/9/drain", {"drain": True})


def test_the_server_is_an_agent_too(start):
    dag = Dag(start("--jobs", 3).port)
    [one] = agents(dag, group="drover/run")
    assert (one["id"], one["jobs"]) == ("serve", 3) and agents(dag, group="gpu") == []


def test_an_agent_drains(dag, agent, tmp_path):
    """It takes nothing more, not even with the claim that was waiting, and takes nodes again."""
    client = Client(f"http://127.0.0.1:{dag.port}", tmp_path)
    agent("--group", "far", "--jobs", 2, "--label", "disk=fast", lease="1s")
    [one] = wait_until(lambda: agents(dag), "an agent")
    assert one["labels"] == {"disk": "fast"} and one["jobs"] == 2
    [a] = dag.add(shell("sleep 60", group="far"))
    wait_until(lambda: agents(dag)[0]["running"] == [a], "a running node")
    assert "disk" in client.ok("agents", "--group", "far")
    client.ok("drain", one["id"])
    [b] = dag.add(shell("true", group="far"))
    assert dag.wait(b, timeout=1500) == ["incipient"] and dag.state(a) == "running"
    client.ok("drain", "--undo", one["id"])
    assert dag.wait(b) == ["finished"]
    dag.kill(a)
    assert client.run("drain", "99").returncode == 1


def test_exec_in_a_group_without_agents(dag, agent, tmp_path):
    client = Client(f"http://127.0.0.1:{dag.port}", tmp_path)
    done = client.run("exec", "--group", "gpu", "--", "true")
    assert done.returncode == 1 and "no agent serves the group 'gpu'" in done.stderr
    assert dag.get("/v1/nodes") == []
    waiting = client.popen("exec", "--group", "gpu", "--wait-for-agent", "1m", "--", "echo", "here")
    agent("--group", "gpu", lease="3s")
    assert waiting.communicate(timeout=DEADLINE_S)[0] == "here\n" and waiting.returncode == 0
