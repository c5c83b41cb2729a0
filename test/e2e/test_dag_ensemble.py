"""The DAG of several servers on an ensemble: the leader is killed while a graph runs."""

import collections
import signal

from cli import Client
from conftest import DEADLINE_S, wait_until
from dag_support import Dag, Refused, node, shell


def ready(server):
    """The server's DAG, when it leads."""
    dag = Dag(server.port)

    def leads():
        try:
            return dag.get("/v1/scheduler")
        except Refused as e:
            assert e.status in (503, 307)

    wait_until(leads, "a leader")
    return dag


def test_a_graph_on_an_ensemble(serve):
    # No server ends here: a session that outlasts a busy machine, so that no outcome is unknown.
    dag = ready(serve(timeout_ms=30000).leads())
    ids = dag.add(node("if", ref="i", command="true"), shell("echo a", "i", branch="then"),
                  shell("echo b", "i", branch="else"), node("group", "i", ref="g"),
                  shell("head -c 600000 /dev/zero | tr '\\0' z", "g"))
    assert dag.wait(*ids) == ["finished", "finished", "skipped", "finished", "finished"]
    assert dag.data(ids[4], "stdout")["data"] == "z" * 262144
    dag.put(f"/v1/nodes/{ids[1]}/data/note", {"value": 1})
    assert dag.call("DELETE", f"/v1/nodes/{ids[4]}") == [{"id": ids[4]}]


def follow(tmp_path, *servers):
    """A run that ends when there is a flag, and a client that shows it."""
    graph = tmp_path / "graph.yaml"
    graph.write_text("nodes: {a: {command: 'until test -e flag; do sleep 0.05; done', retry: 9}}")
    return Client(",".join(f"http://127.0.0.1:{one.port}" for one in servers), tmp_path).popen("run", graph)


def test_the_leader_is_killed_while_a_graph_runs(serve, tmp_path):
    log = tmp_path / "ran"
    log.touch()
    leader = serve("--jobs", 2).leads()
    dag = ready(leader)
    other = serve("--jobs", 2)
    again = {"retry": {"count": 9, "delay": 5}}
    nodes = [shell(f"echo {i} >> {log}; sleep 0.05", *([f"n{i - 1}"] if i % 10 else []), ref=f"n{i}",
                   **(again if i < 20 else {})) for i in range(40)]
    ids = dag.add(*nodes)
    wait_until(lambda: log.read_text().count("\n") >= 8, "eight commands")
    follower = follow(tmp_path, leader, other)
    wait_until(lambda: dag.get("/v1/runs")["runs"], "a run")
    leader.signal(signal.SIGKILL)
    dag = ready(other)
    (tmp_path / "flag").touch()
    assert follower.wait(DEADLINE_S) == 0
    states = dag.wait(*ids)
    ran = collections.Counter(map(int, log.read_text().split()))
    assert states[:20] == ["finished"] * 20
    for i in range(20, 40):
        after_failure = i % 10 and states[i - 1] != "finished"
        assert (states[i] == "skipped") == bool(after_failure), (i, states)
        assert ran[i] == (states[i] == "finished") or (states[i] == "failed" and ran[i] <= 1), i


def test_the_ensembles_leader_is_killed_while_a_graph_runs(serve, ensemble, tmp_path):
    """The session outlasts the election, so nothing has to run twice and nothing fails."""
    log = tmp_path / "ran"
    log.touch()
    dag = ready(serve("--jobs", 2, timeout_ms=30000).leads())
    ids = dag.add(*[shell(f"echo {i} >> {log}; sleep 0.02", *([f"n{i - 1}"] if i % 10 else []),
                          ref=f"n{i}") for i in range(60)])
    wait_until(lambda: log.read_text().count("\n") >= 8, "eight commands")
    gone = ensemble.leader()
    gone.kill()
    try:
        assert dag.wait(*ids) == ["finished"] * 60
    finally:
        gone.start()
        gone.wait()
    assert sorted(map(int, log.read_text().split())) == list(range(60))
