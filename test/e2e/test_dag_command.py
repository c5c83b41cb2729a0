"""The DAG's commands, as people use them."""

import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import time

import pytest

from cli import Client
from conftest import DEADLINE_S, ROOT
from dag_support import Dag, shell

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples/dag"


@pytest.fixture
def dag(server):
    return Dag(server.port)


@pytest.fixture
def client(server, tmp_path):
    return Client(f"http://127.0.0.1:{server.port}", tmp_path)


def write(tmp_path, text, name="graph.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return path


GRAPH = """
nodes:
  a: {command: echo one}
  b: {command: [sh, -c, "echo two >&2; exit 3"], after: a}
  c: {command: echo three, after: [a, b]}
  d: {command: echo cleaning, when: always, after: c}
"""


def test_run_tells_what_fails(client, dag, tmp_path):
    done = client.run("run", write(tmp_path, GRAPH))
    assert done.returncode == 1 and done.stdout == ""
    assert "FAILED: b: exit status 3\ntwo\n" in done.stderr
    assert "a finished" in done.stderr and "c skipped" in done.stderr
    assert "d finished" in done.stderr
    names = {one["name"]: one["state"] for one in dag.get("/v1/nodes")}
    assert names == {"graph/a": "finished", "graph/b": "failed", "graph/c": "skipped",
                     "graph/d": "finished", "graph": "finished"}


def test_run_resumes(client, tmp_path):
    flag = tmp_path / "flag"
    path = write(tmp_path, f"nodes: {{a: {{command: echo}}, b: {{command: test -e {flag}, after: a}},"
                           "c: {command: echo, after: b}}")
    assert client.run("run", path).returncode == 1
    assert client.ok("run", "--resume", "--dry-run", path) == f"b: test -e {flag}\nc: echo\n"
    flag.touch()
    done = client.run("run", "--resume", path)
    assert done.returncode == 0 and "[2/2] c finished" in done.stderr
    done = client.run("run", "--resume", path)
    assert done.returncode == 0 and "Nothing left to do" in done.stderr


def test_run_stops_or_keeps_going(client, dag, tmp_path):
    path = write(tmp_path, "nodes: {bad: {command: exit 1}, wait: {command: sleep 0.4},"
                           "far: {command: echo, after: wait}}")
    assert client.run("run", path).returncode == 1
    state = lambda: {one["name"]: one["state"] for one in dag.get("/v1/nodes")}["graph/far"]
    assert state() == "killed"
    assert client.run("run", "--keep-going", path).returncode == 1
    assert state() == "finished"


def test_run_from_json_and_standard_input(client):
    graph = {"name": "j", "nodes": {"x": {"command": ["true"]}, "y": {"after": "x"}}}
    done = client.run("run", "-", input=json.dumps(graph))
    assert done.returncode == 0 and "j: 2 nodes" in done.stderr


@pytest.mark.parametrize("text,says", [
    ("", "not an object"), ("nodes: []", "nodes"), ("nodes: {}", "there are no nodes"),
    ("nodes: {a: {after: b}}", "there is no node 'b'"),
    ("nodes: {a: {after: b}, b: {after: a}}", "cycle: a → b → a"),
    ("nodes: {a: {what: 1}}", "what"), ("nodes: {a: 1}", "must be an object"),
    ("nodes: {a: {type: x}}", "no type 'x'"), ("a: &x 1\nb: *x", "aliases"), ("{", "line"),
    ("nodes: {a: {command: x, timeout: soon}}", "timeout"),
])
def test_run_refuses(client, tmp_path, text, says):
    done = client.run("run", write(tmp_path, text))
    assert done.returncode == 2 and says in done.stderr, done


def test_run_of_what_is_not_there(client, tmp_path):
    assert client.run("run", tmp_path / "missing").returncode == 2
    assert client.run("run").returncode == 2


def test_pictures(client, tmp_path):
    dot = client.ok("run", "--dot", EXAMPLES / "if.yaml")
    assert dot.startswith('digraph "if" {') and 'n0 -> n2 [label="else"];' in dot
    assert "n0 --> |then| n1" in client.ok("run", "--mermaid", EXAMPLES / "if.yaml")


@pytest.mark.parametrize("name", ["build", "if", "grow"])
def test_examples(client, dag, name):
    done = client.run("run", EXAMPLES / f"{name}.yaml")
    assert done.returncode == 0, done
    if name == "grow":
        nodes = [one["id"] for one in dag.get("/v1/nodes") if one["name"].startswith("grow/")]
        assert len(nodes) == 4 and dag.wait(*nodes) == ["finished"] * 4


def test_run_waits_for_what_its_commands_add(client, dag, tmp_path):
    graph = tmp_path / "g.yaml"
    graph.write_text('''name: g
nodes:
  find:
    command: |
      curl -sf -H Content-Type:application/json "$DROVER_URL/v1/nodes" -d '[
        {"ref": "a", "metadata": {"type": "shell command", "parent": "'$DROVER_NODE'", "name": "a"},
         "data": {"command": "sleep 0.5"}},
        {"metadata": {"type": "shell command", "parent": "a", "name": "b"},
         "data": {"command": "exit 5"}},
        {"metadata": {"type": "shell command", "name": "other"}, "data": {"command": "exit 6"}}]'
''')
    done = client.run("run", graph)
    assert done.returncode == 1 and "FAILED: b: exit status 5" in done.stderr, done
    assert "other" not in done.stderr


def test_example_of_a_condition(client, dag):
    flag = pathlib.Path("/tmp/drover-go")
    process = client.popen("run", EXAMPLES / "condition.yaml")
    flag.touch()
    assert process.wait(DEADLINE_S) == 0
    process.communicate()


def read_until(fd, pattern):
    got, deadline = "", time.monotonic() + DEADLINE_S
    while not re.search(pattern, got):
        assert time.monotonic() < deadline, got
        got += os.read(fd, 65536).decode()
    return got


def test_run_on_a_terminal_and_interrupted(client, dag, tmp_path):
    path = write(tmp_path, "nodes: {slow: {command: sleep 60}, then: {command: echo, after: slow}}")
    ours, theirs = pty.openpty()
    process = client.popen("run", path, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    assert "\r" in read_until(ours, r"\[0/2\] 1 running.* slow")
    process.send_signal(signal.SIGINT)
    read_until(ours, "interrupt again to kill it")
    assert [one["state"] for one in dag.get("/v1/nodes")][0] == "running"
    process.send_signal(signal.SIGINT)
    read_until(ours, "KILLED: slow")
    assert process.wait(DEADLINE_S) == 130
    os.close(ours)


def test_exec(client):
    done = client.run("exec", "--", "bash", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout) == (7, "out\n") and done.stderr.startswith("err\n")
    assert client.ok("exec", "--", "pwd") == os.getcwd() + "\n"
    assert client.ok("exec", "--cwd", "/", "--", "pwd") == "/\n"
    assert client.run("exec", "--timeout", "50ms", "--", "sleep", "60").returncode != 0
    assert client.run("exec", "--", "no-such-command").returncode == 127
    assert client.run("exec").returncode == 2


def test_exec_interrupted(client, dag):
    process = client.popen("exec", "--", "bash", "-c", "echo begun; sleep 60", stderr=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=DEADLINE_S)[1]
    assert process.returncode == 130 and "signal 2" in said
    assert dag.wait(1) == ["failed"]


def test_nodes_show_log_wait_kill_retry_top(client, dag, tmp_path):
    flag = tmp_path / "flag"
    a, b, c = dag.add(shell("echo hello", ref="a", name="first"),
                      shell(f"echo begun; until test -e {flag}; do sleep 0.02; done; echo over",
                            ref="b"), shell("true", "b"))
    dag.wait(a)
    assert "first" in client.ok("nodes") and "finished" in client.ok("nodes", "--state", "finished")
    assert json.loads(client.ok("nodes", "--json", "--type", "group")) == []
    assert client.run("nodes", "--state", "x").returncode == 2
    assert "hello" in client.ok("show", a)
    assert f"waits for node {b}" in client.ok("show", c)
    assert json.loads(client.ok("show", "--json", a))["metadata"]["name"] == "first"
    assert client.run("show", "99").returncode == 1
    assert client.run("show", "x").returncode == 2
    assert client.ok("log", a) == "hello\n"
    assert client.run("wait", "--timeout", "1ms", b).returncode == 1
    follower = client.popen("log", "-f", b)
    assert follower.stdout.readline() == "begun\n"
    assert client.ok("log", b) == "begun\n"
    assert "running 1" in client.ok("top", "--once")
    flag.touch()
    assert follower.communicate(timeout=DEADLINE_S)[0] == "over\n"
    assert client.ok("wait", a, b, c) == f"{a} finished\n{b} finished\n{c} finished\n"
    [d] = dag.add(shell("sleep 60"))
    client.ok("kill", d)
    assert client.run("wait", d).returncode == client.run("wait", "--json", d).returncode == 1
    assert client.run("retry", a).returncode == 1
    client.ok("retry", d)
    client.ok("kill", d)
    assert client.run("kill", "nothing").returncode == 2
    assert client.run("kill", "99").returncode == 1
