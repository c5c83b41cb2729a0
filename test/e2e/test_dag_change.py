"""Parts of a node that can be changed before it has started."""

import pytest

from cli import Client
from conftest import wait_until
from dag_support import Dag, node, refused, shell


@pytest.fixture
def dag(start):
    """No commands run unless an agent takes them."""
    server = start("--jobs", 0)
    yield Dag(server.port)
    assert server.stop() == 0, server.said


def patch(dag, id, **body):
    return dag.call("PATCH", f"/v1/nodes/{id}", body)


def test_words(dag):
    a, b = dag.add(shell("true"), shell("true", name="b"))
    made = patch(dag, b, parents=[a], when="always", priority=7, group="gpu", name="new")
    assert made == dag.node(b)["metadata"]
    assert [made[key] for key in ("parents", "when", "priority", "group", "name")] == [
        [a], "always", 7, "gpu", "new"]
    assert patch(dag, b, name="")["when"] == "always" and "name" not in dag.node(b)["metadata"]
    assert patch(dag, b)["parents"] == [a]
    assert patch(dag, b, parents=[])["parents"] == [] and patch(dag, b, parents=["root"])["parent"] == "root"
    assert patch(dag, b, parents=[a, a])["parents"] == [a]


def test_what_is_refused(dag):
    a, b, c = dag.add(shell("true", ref="a"), shell("true", "a", ref="b"), shell("true", "b"))
    assert f"cycle: node {a} waits for itself" in refused(400, patch, dag, a, parents=[a])
    assert f"cycle: node {c} is below node {a}" in refused(400, patch, dag, a, parents=[c])
    assert "there is no parent '99'" in refused(400, patch, dag, a, parents=["99"])
    for bad in ({"when": "never"}, {"priority": 2**40}, {"group": ""}, {"group": "a\x01"},
                {"name": "x" * 300}, {"state": "finished"}, {"parents": 7}, {"type": "group"}):
        refused(400, patch, dag, a, **bad)
    refused(404, patch, dag, 99, priority=1)
    [test] = dag.add(node("if", command="true"))
    [then] = dag.add(shell("true", test, branch="then"))
    assert "branch" in refused(400, patch, dag, then, parents=[a])
    dag.kill(a)
    for id, state in ((a, "killed"), (b, "skipped")):
        assert f"node {id} is {state}" in refused(409, patch, dag, id, priority=1)


def test_nodes_follow(dag):
    """New parents that have ended decide the node, and those below it."""
    good, bad, hold = dag.add(node("group"), shell("true"), shell("true"))
    dag.kill(bad)
    a, b = dag.add(shell("true", hold, ref="a"), node("group", "a"))
    assert dag.node(a)["why"].startswith(f"waits for node {hold}")
    patch(dag, a, parents=[good])
    assert dag.node(a)["why"].startswith("ready")
    patch(dag, a, parents=[hold])
    assert dag.node(a)["why"].startswith(f"waits for node {hold}")
    patch(dag, a, parents=[bad])
    assert dag.wait(a, b) == ["skipped", "skipped"]
    c, d = dag.add(shell("true", hold, ref="c"), node("group", "c", when="always"))
    patch(dag, c, parents=[bad, hold], when="failure")
    dag.kill(hold)
    assert dag.wait(c, d) == ["skipped", "finished"]


def test_an_offer_is_withdrawn(dag):
    """A node that agents could have claimed is found in its new group only."""
    a, b = dag.add(shell("true"), shell("true", priority=1))
    claim = {"clientid": 7, "groups": ["drover/run"], "duration": 60000}
    assert dag.call("POST", "/claim", claim)["tasks"] == []  # it is offered because of this
    wait_until(lambda: dag.get("/group/drover%2Frun"), "an offer")
    patch(dag, a, group="gpu")
    [(_, run)] = dag.claim()
    assert run["node"] == b
    [(_, run)] = dag.claim(groups=["gpu"], clientid=8)
    assert run["node"] == a
    assert "is running" in refused(409, patch, dag, a, group="drover/run")


def test_order_by_a_changed_priority(dag):
    a, b, c = dag.add(shell("true"), shell("true"), shell("true"))
    patch(dag, c, priority=5)
    patch(dag, b, priority=-5)
    assert [dag.claim()[0][1]["node"] for _ in range(3)] == [b, a, c]


def test_after_a_crash(start):
    server = start("--jobs", 0)
    dag = Dag(server.port)
    a, b, c = dag.add(shell("true"), shell("true", name="b"), shell("true"))
    made = patch(dag, a, parents=[c], when="always", priority=2, group="gpu", name="é\"x")
    patch(dag, b, name="")
    server.kill()
    dag = Dag((server := start("--jobs", 0)).port)
    assert dag.node(a)["metadata"] == made and "name" not in dag.node(b)["metadata"]
    patch(dag, c, parents=[b])
    assert "cycle" in refused(400, patch, dag, b, parents=[a])
    server.kill()
    dag = Dag((server := start("--jobs", 1)).port)
    assert dag.wait(b, c) == ["finished", "finished"] and dag.state(a) == "incipient"
    [(_, run)] = dag.claim(groups=["gpu"])
    assert run["node"] == a
    dag.call("POST", "/v1/agent/done", {"clientid": 7, "node": a, "attempt": 1, "status": 0})
    server.kill()
    dag = Dag((server := start("--jobs", 0)).port)
    assert dag.state(a) == "finished" and dag.node(a)["metadata"]["parents"] == [c]
    assert server.stop() == 0, server.said


def test_edit(dag, tmp_path):
    client = Client(f"http://127.0.0.1:{dag.port}", tmp_path)
    a, b = dag.add(shell("true"), shell("true"))
    assert "renamed" in client.ok("edit", b, "--parent", a, "--name", "renamed", "--priority", "-2")
    assert dag.node(b)["metadata"]["priority"] == -2
    client.ok("edit", b, "--parent", "root", "--when", "always", "--json")
    assert dag.node(b)["metadata"]["parent"] == "root"
    assert client.run("edit", b, "--parent", b).returncode == 2
    assert client.run("edit", "99", "--name", "x").returncode == 1
