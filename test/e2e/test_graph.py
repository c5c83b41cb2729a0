"""drover graph: pictures of runs and of nodes. What is drawn is held by test/unit/test_graph_draw.c."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

from cli import Client
from dag_support import Dag, shell

ESCAPE = "owned\u202e"  # the server accepts no control characters


@pytest.fixture
def dag(server):
    return Dag(server.port)


@pytest.fixture
def client(server, tmp_path):
    return Client(f"http://127.0.0.1:{server.port}", tmp_path, LC_ALL="C")


def submit(dag, *nodes):
    made = dag.call("POST", "/v1/runs", {"name": "build", "nodes": list(nodes), "keep_going": True})
    dag.wait(made["run"])
    return [one["id"] for one in made["nodes"]]


def marks(text):
    """The lines of nodes, without the times."""
    return [line.split("    ")[0] for line in text.splitlines()]


def test_a_run(dag, client, tmp_path):
    submit(dag, shell("true", ref="a", name="build/a"), shell("exit 1", "a", ref="b", name="build/b"),
           shell("true", "a", ref="c", name="build/c"), shell("true", "b", "c", ref="d", name="build/d"))
    assert marks(client.ok("graph", "build")) == ["* a", "|-.", "| X b", "* | c", "|-'", "- d"]
    assert marks(client.ok("graph", "build-1", "--limit", 1)) == ["* a", "3 more nodes (--limit)"]
    assert marks(client.ok("graph", "build/b")) == ["* a", "X b", "- d"]
    utf8 = Client(client.environment["DROVER_URL"], tmp_path, LC_ALL="C.UTF-8")
    assert marks(utf8.ok("graph", "build"))[:3] == ["● a", "├─╮", "│ ✗ b"]
    assert marks(utf8.ok("graph", "build", "--ascii"))[:2] == ["* a", "|-."]


def test_nodes_without_a_run(dag, client):
    ids = dag.add(shell("true", ref="a"), shell("true", "a", ref="b"), shell("true", ref="x"))
    dag.wait(*ids)
    assert marks(client.ok("graph", ids[1])) == [f"* {ids[0]}", f"* {ids[1]}"]
    assert marks(client.ok("graph", ids[0], ids[2])) == [f"* {id}" for id in ids]


@pytest.mark.parametrize("option, words", [("--dot", 'digraph "build" {'), ("--mermaid", "flowchart TD"),
                                           ("--svg", "<svg "), ("--ascii", "* ")])
def test_names_are_escaped(dag, client, option, words):
    submit(dag, shell("true", name=f"build/{ESCAPE}<&\"'"))
    text = client.ok("graph", "build", option)
    assert text.startswith(words) and "owned" in text
    assert "\u202e" not in text
    if option == "--svg":
        ElementTree.fromstring(text)


@pytest.mark.parametrize("words, status, said", [
    (["none"], 1, "no run"), (["999"], 1, "no node"), (["build", "1"], 2, "one run"),
    (["build", "--dot", "--svg"], 2, "exclude each other"), (["build", "--limit", "x"], 2, "limit"), ([], 2, "RUN")])
def test_wrong_input(dag, client, words, status, said):
    submit(dag, shell("true", name="build/a"))
    done = client.run("graph", *words)
    assert done.returncode == status and said in done.stderr and not done.stdout, done


GRAPH = """
name: build
nodes:
  a: {command: sleep 0.2}
  b: {command: "true"}
  c: {command: sleep 0.1, after: [a, b]}
"""


def test_profile(client, tmp_path):
    graph, trace = tmp_path / "g.yaml", tmp_path / "trace.json"
    graph.write_text(GRAPH)
    done = client.run("run", graph, "--quiet", "--profile", trace)
    assert done.returncode == 0, done.stderr
    events = {e["name"]: e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"}
    assert set(events) == {"a", "b", "c"}
    assert events["a"]["dur"] >= 200000 and events["c"]["ts"] >= events["a"]["ts"] + events["a"]["dur"]
    said = done.stderr.splitlines()
    at = next(i for i, line in enumerate(said) if line.startswith("Critical path: "))
    assert "in 2 of 3 nodes" in said[at]
    assert [line.split()[1] for line in said[at + 1:at + 3]] == ["a", "c"]


def test_profile_that_cannot_be_written(client, tmp_path):
    """Known before anything runs, or when the disk is full."""
    graph = tmp_path / "g.yaml"
    graph.write_text(GRAPH)
    done = client.run("run", graph, "--profile", tmp_path / "none/trace")
    assert done.returncode == 1 and "none/trace: No such file" in done.stderr
    assert client.ok("runs") == ""
    done = client.run("run", graph, "--quiet", "--profile", "/dev/full")
    assert done.returncode == 1 and "/dev/full: No space left" in done.stderr
    done = client.run("run", graph, "--detach", "--profile", tmp_path / "t")
    assert done.returncode == 2 and "exclude each other" in done.stderr
