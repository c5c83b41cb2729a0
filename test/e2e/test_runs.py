"""Runs: nodes that were added together under a name."""

import random
import time

import pytest
from kazoo.client import KazooClient

from conftest import KEEPER_ONLY, wait_until
from dag_support import Dag, node, refused, shell


@pytest.fixture
def dag(server):
    return Dag(server.port)


def add_run(dag, *nodes, name="build", **more):
    made = dag.call("POST", "/v1/runs", {"name": name, "nodes": list(nodes), **more})
    return made["run"], [one["id"] for one in made["nodes"]]


def runs(dag, **query):
    return [one["id"] for one in dag.get("/v1/runs", **query)["runs"]]


def run(dag, id):
    return dag.get(f"/v1/runs/{id}")


def states(dag, id):
    return {one["name"]: one["state"] for one in dag.get("/v1/nodes", run=id)}


def test_a_run_has_an_id_and_the_state_of_its_nodes(dag):
    id, [a, b] = add_run(dag, shell("true", ref="a", name="a"), shell("exit 3", "a", name="b"))
    assert id == "build-1"
    assert dag.wait(id) == ["failed"]
    shown = run(dag, id)
    assert (shown["name"], shown["state"], shown["nodes"]) == ("build", "failed", 2)
    assert shown["states"]["finished"] == shown["states"]["failed"] == 1
    assert shown["ended"] >= shown["added"]
    assert dag.node(a)["metadata"]["run"] == id
    assert dag.node("build-1%2Fb")["metadata"]["id"] == b
    assert dag.node("build%2Fb")["metadata"]["id"] == b
    assert add_run(dag, shell("true"))[0] == "build-2"
    assert dag.wait("build") == dag.wait("build-2") == ["finished"]
    [plain] = dag.add(shell("true"))
    assert "run" not in dag.node(plain)["metadata"]


def test_listing_runs(dag):
    ids = [add_run(dag, shell("true"), name=f"n{i % 2}")[0] for i in range(5)]
    dag.wait(*ids)
    assert runs(dag) == ids[::-1]
    assert runs(dag, name="n0") == ["n0-5", "n0-3", "n0-1"]
    assert runs(dag, state="failed,killed") == [] and runs(dag, state="finished") == ids[::-1]
    page = dag.get("/v1/runs", limit=2)
    assert [one["id"] for one in page["runs"]] == ids[:2:-1]
    assert runs(dag, limit=2, before=page["next"]) == ids[2:0:-1]
    page = dag.get("/v1/runs", limit=2, name="n0")
    assert runs(dag, before=page["next"], name="n0") == ["n0-1"]
    assert "next" not in dag.get("/v1/runs", limit=5)
    middle = run(dag, ids[2])["added"]
    assert ids[2] in runs(dag, since=middle) and runs(dag, until=middle)[-1] == ids[0]
    assert runs(dag, since=middle + 10**9) == []
    assert "state" in refused(400, dag.get, "/v1/runs", state="skipped")
    assert "before" in refused(400, dag.get, "/v1/runs", before="x")


@pytest.mark.parametrize("name", ["", "a/b", "a,b", "x" * 129, "a\x01"])
def test_bad_names(dag, name):
    refused(400, add_run, dag, shell("true"), name=name)
    assert runs(dag) == []


def test_bad_requests(dag):
    assert "at least one" in refused(400, add_run, dag)
    assert "cycle" in refused(400, add_run, dag, shell("true", "b", ref="a"),
                              shell("true", "a", ref="b"))
    for path in ("/v1/runs/none", "/v1/nodes/none", "/v1/nodes/none%2Fx", "/v1/nodes?run=none",
                 "/v1/scheduler/wait?id=none"):
        assert "there is no" in refused(404, dag.get, path)
    id, _ = add_run(dag, shell("true", name="a"))
    assert "there is no node" in refused(404, dag.get, f"/v1/nodes/{id}%2Fb")
    assert "is a run" in refused(404, dag.get, f"/v1/nodes/{id}")


def test_a_failure_stops_a_run_that_does_not_keep_going(dag):
    graph = [shell("exit 1", name="bad"), shell("sleep 0.3", ref="w", name="wait"),
             shell("true", "w", name="far"), shell("true", "w", name="always", when="always")]
    id, _ = add_run(dag, *graph)
    assert dag.wait(id) == ["failed"]
    assert states(dag, id) == {"bad": "failed", "wait": "finished", "far": "killed",
                               "always": "finished"}
    id, _ = add_run(dag, *graph, keep_going=True)
    assert dag.wait(id) == ["failed"] and states(dag, id)["far"] == "finished"


def test_kill_and_retry_a_run(dag, tmp_path):
    flag = tmp_path / "flag"
    id, [a, b, c] = add_run(dag, shell("sleep 60", name="a", ref="a"), shell("true", "a", name="b"),
                            shell(f"test -e {flag}", name="c"))
    dag.wait(c)
    assert dag.kill(id)[0]["id"] == id
    assert dag.wait(id) == ["failed"]
    flag.touch()
    dag.put(f"/v1/nodes/{c}/data/note", {"value": "x"})
    answer = dag.put("/v1/scheduler/retry", id=id)
    assert answer == [{"id": id, "state": "running"}]
    dag.wait(c)
    assert dag.state(c) == "finished"
    assert dag.kill(f"{id}/a") == [{"id": a, "state": "running"}]
    assert dag.wait(id) == ["killed"]
    assert dag.state(b) == "skipped"
    other, _ = add_run(dag, shell("true"))
    dag.wait(other)
    assert "no node of it" in refused(409, dag.put, "/v1/scheduler/retry", id=other)


def test_nodes_below_a_run_join_it(dag):
    id, [a] = add_run(dag, shell("true", name="a"))
    b, c = dag.add(shell("exit 2", a, ref="b", name="b"), shell("true", "b"))
    assert dag.node(b)["metadata"]["run"] == dag.node(c)["metadata"]["run"] == id
    assert dag.wait(id) == ["failed"] and run(dag, id)["nodes"] == 3
    [d] = dag.add(shell("true"))
    other, [e] = add_run(dag, shell("true"))
    [f] = dag.add(shell("true", a, e))
    assert "run" not in dag.node(d)["metadata"] and "run" not in dag.node(f)["metadata"]


def test_removing_a_run(dag):
    id, ids = add_run(dag, shell("sleep 60", name="a", ref="a"), shell("echo " + "x" * 20000, "a"))
    assert "has not ended" in refused(409, dag.call, "DELETE", f"/v1/runs/{id}")
    dag.kill(id)
    dag.wait(id)
    hold, [wait] = add_run(dag, shell("sleep 60", name="wait"))
    other, [b, c] = add_run(dag, shell("true", ids[0], when="always", ref="b"),
                            shell("true", ids[0], wait, when="always"), name="other")
    dag.wait(b)
    said = refused(409, dag.call, "DELETE", f"/v1/runs/{id}")
    assert f"node {c} waits for node {ids[0]}" in said
    dag.kill(hold)
    dag.wait(other)
    assert dag.call("DELETE", f"/v1/runs/{id}") == {"run": id}
    assert runs(dag) == [other, hold] and len(dag.get("/v1/nodes")) == 3
    refused(404, dag.get, f"/v1/runs/{id}")
    assert add_run(dag, shell("true"))[0] == "build-4"


def test_prune(dag):
    ids = [add_run(dag, shell("true"))[0] for _ in range(5)]
    live, _ = add_run(dag, shell("sleep 60"))
    dag.wait(*ids)
    assert "keep" in refused(400, dag.call, "POST", "/v1/runs/prune", {})
    assert dag.call("POST", "/v1/runs/prune", {"older": 10**9}) == {"removed": 0}
    assert dag.call("POST", "/v1/runs/prune", {"keep": 2}) == {"removed": 3}
    assert runs(dag) == [live, ids[4], ids[3]]
    assert dag.call("POST", "/v1/runs/prune", {"keep": 0}) == {"removed": 2}
    assert runs(dag) == [live]
    dag.kill(live)


def test_the_server_keeps_the_newest(start):
    server = start("--keep-runs", 2)
    dag = Dag(server.port)
    ids = [add_run(dag, shell("true"))[0] for _ in range(5)]
    wait_until(lambda: runs(dag) == ids[:2:-1], "two runs")
    server.stop()
    server = start("--keep-runs", "1ms")
    wait_until(lambda: runs(Dag(server.port)) == [], "no runs")
    assert add_run(Dag(server.port), shell("true"))[0] == "build-6"
    assert server.stop() == 0, server.said


def stored(server):
    """The paths of chunks, records and slots in the keeper."""
    client = KazooClient(f"127.0.0.1:{server.zk_port}")
    client.start()
    try:
        return [f"{kind}/{bucket}/{name}" for kind in ("specs", "nodes", "slots")
                for bucket in client.get_children(f"/drover/dag/{kind}")
                for name in client.get_children(f"/drover/dag/{kind}/{bucket}")]
    finally:
        client.stop()
        client.close()


def test_after_a_crash(start):
    server = start()
    dag = Dag(server.port)
    id, [a, b, c] = add_run(dag, shell("exit 1", ref="a", name="a"), shell("true", "a", name="b"),
                            shell("sleep 60", name="c"), keep_going=True)
    dag.wait(a, b)
    [d] = dag.add(shell("true", a, when="always"))
    dag.wait(d)
    wait_until(lambda: dag.state(c) == "running", "a running node")
    before = run(dag, id)
    server.kill()
    dag = Dag((server := start()).port)
    assert dag.wait(id) == ["failed"]
    after = run(dag, id)
    assert dag.state(c) == "failed" and after["nodes"] == 4 and after["state"] == "failed"
    assert (after["added"], after["keep_going"]) == (before["added"], True)
    assert dag.node(d)["metadata"]["run"] == id
    assert dag.call("DELETE", f"/v1/runs/{id}") and stored(server) == []
    server.kill()
    dag = Dag((server := start()).port)
    assert runs(dag) == [] and add_run(dag, shell("true"))[0] == "build-2"
    assert server.stop() == 0, server.said


LARGE = 5000  # several transactions


@pytest.mark.slow
def test_a_crash_while_a_run_is_removed(start, tmp_path):
    """All or nothing: a node that was skipped because of its parent never runs."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng, ran = random.Random(seed), tmp_path / "ran"
    nodes = [one for i in range(LARGE)
             for one in (shell("true", "slow", ref=f"k{i}"), shell(f"echo >> {ran}", f"k{i}"))]
    server = start("--jobs", 1)
    for left in range(1, -1, -1):
        dag = Dag(server.port)
        id, ids = add_run(dag, *nodes, shell("sleep 60", ref="slow"))
        dag.kill(id)
        assert dag.wait(id) == ["killed"]
        assert run(dag, id)["states"]["skipped"] == LARGE
        server.connect().send(f"DELETE /v1/runs/{id} HTTP/1.1\r\n"
                              f"Host: 127.0.0.1:{server.port}\r\n\r\n".encode())
        if left:
            time.sleep(rng.random() * 0.08)
        else:
            wait_until(lambda: not runs(dag), "the end of the run")
        server.kill()
        server = start("--jobs", 1)
        dag = Dag(server.port)
        if runs(dag):
            assert run(dag, id)["states"]["skipped"] == LARGE
            assert run(dag, id)["states"]["killed"] == LARGE + 1
            dag.call("DELETE", f"/v1/runs/{id}")
        assert stored(server) == []
    assert not ran.exists()
    assert server.stop() == 0, server.said


def test_a_removal_that_was_begun_is_finished(start):
    """As a crash leaves it: the chunks have the mark, the records are there."""
    server = start()
    dag = Dag(server.port)
    [other] = dag.add(shell("true"))
    id, ids = add_run(dag, shell("exit 1", ref="a"), shell("echo " + 20000 * "x"))
    dag.wait(other, id)
    server.kill()
    change_tree(start, lambda client: client.set(f"/drover/dag/specs/0/{ids[0]}", b'{"removed":2}'))
    server = start()
    dag = Dag(server.port)
    assert runs(dag) == [] and [one["id"] for one in dag.get("/v1/nodes")] == [other]
    wait_until(lambda: stored(server) == ["specs/0/1", "nodes/0/1"], "nothing else stored")
    assert server.stop() == 0, server.said


def test_the_mark_comes_before_what_it_stands_for(start):
    """A record is deleted by the transaction that marks the chunks, or by a later one."""
    server = start()
    dag = Dag(server.port)
    id, ids = add_run(dag, shell("exit 1"))
    dag.wait(id)
    client = KazooClient(f"127.0.0.1:{server.zk_port}")
    client.start()
    seen = []
    for kind in ("specs", "nodes"):
        client.get(f"/drover/dag/{kind}/0/{ids[0]}", watch=lambda e: seen.append((e.type, e.path)))
    dag.call("DELETE", f"/v1/runs/{id}")
    wait_until(lambda: len(seen) == 2, "two events")
    client.stop()
    client.close()
    assert seen == [("CHANGED", f"/drover/dag/specs/0/{ids[0]}"),
                    ("DELETED", f"/drover/dag/nodes/0/{ids[0]}")]
    assert server.stop() == 0, server.said


def change_tree(start, change):
    """Changes the tree in the keeper, where no DAG guards it."""
    server = start(*KEEPER_ONLY)
    client = KazooClient(f"127.0.0.1:{server.zk_port}")
    client.start()
    change(client)
    client.stop()
    client.close()
    server.kill()


def test_a_stop_that_was_begun_is_finished(start, tmp_path):
    """As a crash leaves it: the end that stops the run is stored, a node is not killed yet."""
    ran = tmp_path / "ran"
    server = start("--jobs", 1)
    dag = Dag(server.port)
    id, [bad, far] = add_run(dag, shell("exit 1", priority=-1), shell(f"echo >> {ran}"))
    assert dag.wait(id) == ["failed"] and dag.state(far) == "killed"
    server.kill()
    change_tree(start, lambda client: client.delete(f"/drover/dag/nodes/0/{far}"))
    server = start("--jobs", 1)
    dag = Dag(server.port)
    assert dag.wait(id) == ["failed"] and dag.state(far) == "killed" and not ran.exists()
    dag.put("/v1/scheduler/retry", id=bad)  # no longer stopped by it
    dag.wait(bad)
    server.kill()
    change_tree(start, lambda client: client.delete(f"/drover/dag/nodes/0/{bad}"))
    server = start("--jobs", 0)
    assert Dag(server.port).state(bad) == "incipient"
    assert server.stop() == 0, server.said
