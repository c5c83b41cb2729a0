"""Graph files: what drover run reads, what it says about errors, and the JSON Schema for editors. No server is
needed."""

import json
import time

import jsonschema
import pytest
import yaml

from cli import Client
from conftest import ROOT

SCHEMA = json.loads((ROOT / "doc/graph.schema.json").read_text())


@pytest.fixture
def client(tmp_path):
    return Client("http://127.0.0.1:1", tmp_path)


def check(client, tmp_path, text, name="g.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return client.run("run", "--dry-run", path)


def fits(text):
    return not list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(yaml.safe_load(text)))


GOOD = [
    "nodes: {a: {command: x}}",
    "nodes: {a: }",
    "name: n\nnodes: {a: {command: [x, y], after: [], timeout: 30s, retry: 3}}",
    "nodes: {a: {command: x, timeout: 60000, retry: {count: 1, delay: 1s, max_delay: 1m30s}}}",
    "timeout: 5m\nenv: {A: b}\ncwd: /\ngroup: g\npriority: -4\nretry: 2\nuser: me\nx-all: [1]\n"
    "limits: {memory: 64M, cpu: 2s, files: 9}\n"
    "nodes: {a: {command: x, when: always}, b: {type: group, after: a}}",
    "nodes: {a: {type: if, command: x}, b: {command: y, after: a, branch: else, data: {k: [1]}}}",
    "nodes: {a: {type: condition, command: x, args: [y], interval: 100ms, priority: 7}}",
]
BAD = [
    ("nodes: {}", "g.yaml:1: there are no nodes"),
    ("name: [x]\nnodes: {a: }", "g.yaml:1: name must be a text"),
    ("nodes: {a: 1}", "node 'a': it must be an object"),
    ("nodes: []", "nodes must be an object"),
    ("nodes:\n  a: {command: x, what: 1}", "g.yaml:2: node 'a': there is no key 'what'"),
    ("what: 1\nnodes: {a: }", "g.yaml:1: there is no key 'what'"),
    ("nodes: {a: {type: x}}", "there is no type 'x'"),
    ("nodes: {a: {command: x, timeout: soon}}", "node 'a': timeout: 'soon' is not a duration"),
    ("nodes: {a: {command: x, timeout: [1]}}", "timeout must be a time"),
    ("nodes: {a: {command: x, retry: {delay: 1s}}}", "retry must be"),
    ("nodes: {a: {command: x, retry: {count: 1, often: 2}}}", "retry has no 'often'"),
    ("nodes: {a: {command: x, limits: {memory: lots}}}", "memory"),
    ("nodes: {a: {command: x, limits: 5}}", "limits must be an object"),
    ("nodes: {a: {command: x, when: never}}", "when must be success, failure or always"),
    ("nodes: {a: {command: x, branch: up}}", "branch must be then or else"),
    ("nodes: {a: {command: x, priority: high}}", "priority must be a number"),
    ("nodes: {a: {command: x, group: []}}", "group must be a name"),
    ("nodes: {a: {command: x, env: [A]}}", "env must be an object"),
    ("nodes: {a: {command: x, env: {A: [b]}}}", "env must be"),
    ("nodes: {a: {command: x, cwd: {}}}", "cwd must be a directory"),
    ("nodes: {a: {command: []}}", "node 'a': command must be"),
    ("nodes: {a: {command: x, after: {b: c}}}", "after must be a name or a list of names"),
    ("nodes: {a: {command: x, data: 7}}", "data must be an object"),
]
ONLY_HERE = [  # what a schema cannot say
    ("", "not an object"),
    ("{", "g.yaml:"),
    ("nodes: {a: {after: b}}", "g.yaml:1: node 'a': after: there is no node 'b'"),
    ("nodes:\n  a: {after: b}\n  b: {after: c}\n  c: {after: a}", "g.yaml:2: cycle: a → b → c → a"),
    ("nodes: {a: {after: a}}", "cycle: a → a"),
    ("nodes: {a: {command: x},\n a: {command: y}}", "g.yaml:2: the key 'a' is there twice"),
    ("---\nnodes: {a: }\n---\nnodes: {b: }", "g.yaml:3: more than one document"),
    ("nodes: {[a]: {command: x}}", "a key must be a text"),
    ("nodes: &n {a: *n}", "nested too deeply"),
    ("nodes: {a: *b}", "undefined alias"),
    ("nodes: {a: {<<: x}}", "<< takes a mapping"),
    ("nodes: {a: {command: x, type: shell command, args: [y]}}", "a shell command has no args"),
]


@pytest.mark.parametrize("text", GOOD)
def test_good(client, tmp_path, text):
    done = check(client, tmp_path, text)
    assert done.returncode == 0, done
    assert fits(text)


@pytest.mark.parametrize("text,says", BAD)
def test_bad(client, tmp_path, text, says):
    done = check(client, tmp_path, text)
    assert done.returncode == 2 and says in done.stderr, done
    assert not fits(text)


@pytest.mark.parametrize("text,says", ONLY_HERE)
def test_bad_beyond_the_schema(client, tmp_path, text, says):
    done = check(client, tmp_path, text)
    assert done.returncode == 2 and says in done.stderr, done


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("**/*.yaml")), ids=lambda p: p.name)
def test_the_examples_fit_the_schema(client, path):
    assert fits(path.read_text())
    assert client.run("run", "--dry-run", path).returncode == 0


def test_all_errors_at_once(client, tmp_path):
    done = check(client, tmp_path, """timeout: 1m
nodes:
  a: {command: x, tmeout: 1}
  b:
    command: x
    timeout: later
    after: [a, nobody]
  c: {command: x, when: no}
""")
    assert done.stderr.replace(str(tmp_path) + "/", "").splitlines() == [
        "drover: g.yaml:3: node 'a': there is no key 'tmeout'",
        "drover: g.yaml:6: node 'b': timeout: 'later' is not a duration such as 500ms, 30s, 1m30s, 2h or 7d",
        "drover: g.yaml:8: node 'c': when must be success, failure or always",
        "drover: g.yaml:7: node 'b': after: there is no node 'nobody'"]
    many = "nodes: {" + ", ".join(f"n{i}: {{x: 1}}" for i in range(70)) + "}"
    lines = check(client, tmp_path, many).stderr.splitlines()
    assert len(lines) == 51 and "20 more errors" in lines[-1]


def test_lines_of_json(client, tmp_path):
    text = '{"nodes": {\n "a": {"command": "x"},\n "b": {"command": "x",\n  "timeout": true}}}'
    assert "g.json:4: node 'b': timeout" in check(client, tmp_path, text, "g.json").stderr


def test_anchors(client, tmp_path):
    done = check(client, tmp_path, """
x-base: &base {command: echo base, timeout: 1s}
x-more: &more {command: echo more, priority: 1}
nodes:
  a: *base
  b: {<<: *base, command: echo own}
  c: {<<: [*more, *base], after: &list [a, b]}
  d: {command: echo d, after: *list}
""")
    assert (done.returncode, done.stdout) == (
        0, "a: echo base\nb: echo own\nc: echo more\nd: echo d\n"), done


def test_aliases_are_bounded(client, tmp_path):
    """A billion laughs in a few lines."""
    lines = ["x-a0: &a0 [" + "laugh, " * 9 + "laugh]"]
    lines += [f"x-a{i}: &a{i} [" + f"*a{i - 1}, " * 9 + f"*a{i - 1}]" for i in range(1, 10)]
    before = time.monotonic()
    done = check(client, tmp_path, "\n".join(lines) + "\nnodes: {a: }\n")
    assert done.returncode == 2 and "aliases repeat more than" in done.stderr, done
    assert time.monotonic() - before < 30
