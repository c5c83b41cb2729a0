"""The DAG's commands, as people use them."""

import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from cli import Client
from conftest import DEADLINE_S, ROOT, wait_until
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
    assert "FAILED: b (2): exit status 3\n$ sh -c 'echo two >&2; exit 3'\ntwo\n" in done.stderr
    assert "a finished" in done.stderr and "c skipped" in done.stderr
    assert "d finished" in done.stderr
    summary = r"graph-1: 2 finished, 1 failed: b \(2\), 1 skipped in \d.*\n"
    assert re.search(summary, done.stderr), done
    names = {one["name"]: one["state"] for one in dag.get("/v1/nodes")}
    assert names == {"graph/a": "finished", "graph/b": "failed", "graph/c": "skipped",
                     "graph/d": "finished"}
    done = client.run("run", "--quiet", tmp_path / "graph.yaml")
    assert done.returncode == 1 and done.stderr.startswith("FAILED: b (6)"), done
    assert done.stderr.count("\n") == 4 and "graph-2: 2 finished, 1 failed: b (6)" in done.stderr


def test_only_the_end_of_the_output_of_a_failure_is_shown(client, tmp_path):
    path = write(tmp_path, "nodes: {a: {command: seq 100; exit 1}, b: {command: seq 20 >&2; exit 1}}")
    said = client.run("run", "--keep-going", path).stderr
    assert "exit 1\n...\n81\n82\n" in said and "\n80\n" not in said
    assert "exit 1\n1\n2\n" in said


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
    assert done.returncode == 0 and "j-1: 2 finished in" in done.stderr


@pytest.mark.parametrize("text,says", [
    ("", "not an object"), ("nodes: []", "nodes"), ("nodes: {}", "there are no nodes"),
    ("nodes: {a: {after: b}}", "there is no node 'b'"),
    ("nodes: {a: {after: b}, b: {after: a}}", "cycle: a → b → a"),
    ("nodes: {a: {what: 1}}", "what"), ("nodes: {a: 1}", "must be an object"),
    ("nodes: {a: {type: x}}", "no type 'x'"), ("b: *x", "undefined alias"), ("[", "graph.yaml:2"),
    ("nodes: {a: {command: x, timeout: soon}}", "timeout"),
])
def test_run_refuses(client, tmp_path, text, says):
    done = client.run("run", write(tmp_path, text))
    assert done.returncode == 2 and says in done.stderr, done


def test_directory_and_environment(server, tmp_path, monkeypatch):
    monkeypatch.setenv("B", "ours")
    monkeypatch.setenv("HIDDEN", "secret")
    client = Client(f"http://127.0.0.1:{server.port}", tmp_path)
    (tmp_path / "in/deep").mkdir(parents=True)
    path = write(tmp_path / "in", """
env: {A: file, B: file, C: file}
nodes:
  a: {command: "pwd; echo $A $B $C $HIDDEN"}
  b: {command: [sh, -c, "pwd; echo $A $B $C"], cwd: deep, env: {A: own}, after: a}
""")
    assert client.run("run", "--env", "B", "--env", "C=given", "--env", "NOT_SET", path).returncode == 0
    assert client.ok("log", "graph/a") == f"{tmp_path}/in\nfile ours given\n"
    assert client.ok("log", "graph/b") == f"{tmp_path}/in/deep\nown ours given\n"
    assert client.run("run", "--cwd", "/", "-", input="nodes: {a: {command: pwd}}").returncode == 0
    assert client.ok("log", "graph/a") == "/\n"
    done = client.run("run", "-", input="nodes: {a: {command: pwd, cwd: nowhere}}")
    assert done.returncode == 1 and "FAILED: a (4): cannot start: there is no directory" in done.stderr, done
    assert client.run("run", "--cwd", "/nowhere", path).returncode == 1
    assert client.run("run", "--env", "=x", path).returncode == 2


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
         "data": {"command": "exit 5"}}]'
      curl -sf -H Content-Type:application/json "$DROVER_URL/v1/nodes" -d '[
        {"metadata": {"type": "shell command", "name": "other"}, "data": {"command": "exit 6"}}]'
''')
    done = client.run("run", graph)
    assert done.returncode == 1 and "FAILED: b (3): exit status 5" in done.stderr, done
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
        if select.select([fd], [], [], 1)[0]:
            got += os.read(fd, 65536).decode()
    return got


SLOW = "nodes: {slow: {command: sleep 60}, then: {command: echo, after: slow}}"


class Terminal:
    """A command of drover on a terminal."""

    def __init__(self, client, *arguments):
        self.ours, theirs = pty.openpty()
        self.process = client.popen(*arguments, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)

    def until(self, pattern):
        return read_until(self.ours, pattern)

    def type(self, keys):
        os.write(self.ours, keys)

    def end(self):
        status = self.process.wait(DEADLINE_S)
        os.close(self.ours)
        return status


@pytest.mark.parametrize("keys", [b"k", b"gk", "again"])
def test_run_on_a_terminal_and_interrupted(client, dag, tmp_path, keys):
    terminal = Terminal(client, "run", write(tmp_path, SLOW))
    assert "\r" in terminal.until(r"(?s)\[0/2\] \S+ 1 running.* slow")
    terminal.process.send_signal(signal.SIGINT)
    terminal.until(r"Detach \(d\), kill it \(k\), or go on \(g\)\?")
    assert [one["state"] for one in dag.get("/v1/nodes")][0] == "running"
    if keys == "again":
        terminal.process.send_signal(signal.SIGINT)
    elif keys == b"gk":
        terminal.type(b"xg")
        terminal.until(r"\[0/2\] \S+ 1 running")
        terminal.process.send_signal(signal.SIGINT)
        terminal.until("Detach")
        terminal.type(b"k")
    else:
        terminal.type(keys)
    terminal.until(r"killing graph-1(.|\n)*KILLED: slow \(1\)(.|\n)*2 killed: slow \(1\), then \(2\)")
    assert terminal.end() == 130


def test_run_detached_and_attached_again(client, dag, tmp_path):
    path = write(tmp_path, SLOW)
    terminal = Terminal(client, "run", path)
    terminal.until(r"1 running")
    terminal.process.send_signal(signal.SIGINT)
    terminal.until("Detach")
    terminal.type(b"d")
    terminal.until("graph-1 goes on. `drover attach graph-1` shows it again")
    assert terminal.end() == 0 and dag.state(1) == "running"
    terminal = Terminal(client, "attach", "graph")
    terminal.until(r"(?s)\[0/2\] \S+ 1 running.* slow")
    client.ok("kill", "graph-1/slow")
    terminal.until("graph-1: 1 killed: slow")
    assert terminal.end() == 1
    assert client.ok("run", "--detach", path) == "graph-2\n"
    client.ok("kill", "graph-2")
    assert client.run("attach", "graph-2").returncode == 1
    assert client.run("attach", "nothing").returncode == 1


def test_run_receives_term(client, dag, tmp_path):
    path = write(tmp_path, SLOW)
    process = client.popen("run", "--quiet", path, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: dag.get("/v1/nodes", state="running"), "a running node")
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=DEADLINE_S)[1]
    assert process.returncode == 143 and "Terminated: killing graph-1" in said, said
    assert dag.state(1) == "killed"
    process = client.popen("run", "--on-term", "detach", path, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: dag.get("/v1/nodes", state="running"), "a running node")
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=DEADLINE_S)[1]
    assert process.returncode == 0 and "graph-2 goes on" in said and dag.state(3) == "running"
    client.ok("kill", "graph-2")


def read_line(process, text):
    """Reads up to a line on stderr that has this."""
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f"not there: {text}")


def test_run_interrupted_without_a_terminal(client, dag, tmp_path):
    process = client.popen("run", write(tmp_path, SLOW), stderr=subprocess.PIPE, text=True)
    wait_until(lambda: dag.get("/v1/nodes", state="running"), "a running node")
    process.send_signal(signal.SIGINT)
    read_line(process, "interrupt again to kill it")
    assert dag.state(1) == "running"
    process.send_signal(signal.SIGINT)
    assert "killing graph-1" in process.communicate(timeout=DEADLINE_S)[1]
    assert process.returncode == 130


def test_run_waits_for_a_server_that_restarts(start, tmp_path):
    server = start("--jobs", 2)
    flag = tmp_path / "flag"
    client = Client(f"http://127.0.0.1:{server.port}", tmp_path)
    path = write(tmp_path, f"nodes: {{a: {{command: 'until test -e {flag}; do sleep 0.02; done',"
                           "retry: 1}, b: {command: echo, after: a}}")
    process = client.popen("run", path, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: Dag(server.port).get("/v1/nodes", state="running"), "a running node")
    server.kill()
    read_line(process, "waiting for the server")
    again = start("--jobs", 2, "--http", f"127.0.0.1:{server.port}")
    read_line(process, "answers again")
    flag.touch()
    said = process.communicate(timeout=DEADLINE_S)[1]
    assert process.returncode == 0 and "graph-1: 2 finished" in said, said
    assert again.stop() == 0, again.said


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
    assert client.run("show", "x").returncode == 1
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
    assert client.run("kill", "nothing").returncode == 1
    assert client.run("kill", "99").returncode == 1
