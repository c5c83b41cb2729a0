"""A server that finds a node it cannot read: it says which one, in one line, and ends with status 1.

Each kind of node that any module has stored is damaged in turn.
"""

import base64
import json
import os
import re
import shutil
import subprocess

import pytest
from kazoo.client import KazooClient

from conftest import (ANY_PORTS, BINARY, DEADLINE_S, NUMBERS, OnEnsemble, Server, call, drover, sentences,
                      wait_until)
from dag_support import Dag
from task_support import Tasks
from test_export import command, export, lines, live

DAMAGES = {
    "empty": lambda data: b"",
    "cut": lambda data: data[:len(data) // 2],
    "longer": lambda data: data + b"\0",
    "zeros": lambda data: bytes(len(data)),
    "ones": lambda data: b"\xff" * len(data),
    "list": lambda data: b"[]",
    "object": lambda data: b"{}",
}


def content(line):
    return base64.b64decode(line["base64"]) if "base64" in line else line.get("data", "").encode()


def kinds(file):
    """One node of each kind: the paths without their numbers and ids are the same."""
    found = {}
    for line in lines(file):
        if content(line):
            found[re.sub(r"[0-9a-f]{16,}|\d+", "N", line["path"])] = line["path"]
    return sorted(found.values())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An export with something in each module."""
    where = tmp_path_factory.mktemp("whole")
    server = Server("--data", where / "data").start()
    try:
        wait_until(lambda: call(server.port, "GET", "/readyz")[0] == 200, "it is ready")
        live(server.port)
        Tasks(server.port).update(requestid="r", adds=[{"group": "g", "data": "d"}])
        call(server.port, "POST", "/v1/tokens", {"roles": ["work"]})
        Dag(server.port).add(command("sleep 1000"))
        assert call(server.port, "PUT", "/v1/groups/g*", {"attempts": 3})[0] == 200
        for name, what in (("task", {"task": {"group": "g"}}), ("graph", {"graph": [command("true")]})):
            assert call(server.port, "PUT", f"/v1/schedules/{name}", {"cron": "@yearly"} | what)[0] == 200
        assert server.stop() == 0
    finally:
        server.kill()
    return export(where / "export", "--data", where / "data")


def damaged(whole, path, damage, to):
    """The export with one node changed."""
    with open(to, "w") as out:
        for line in lines(whole):
            if line.get("path") == path:
                line["base64"] = base64.b64encode(damage(content(line))).decode()
                line.pop("data", None)
            line.pop("crc32c", None)
            out.write(json.dumps(line) + "\n")
    return to


def outcome(data, *arguments):
    """Starts a server and, if it starts, stops it: its status, and the lines of it that are errors."""
    process = subprocess.Popen([BINARY, "serve", *ANY_PORTS, "--data", str(data), *arguments],
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = []
    try:
        for line in process.stderr:
            said.append(line)
            if "listening on zk://" in line:
                process.terminate()
        status = process.wait(DEADLINE_S)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    sentences("".join(said))  # no line is anybody else's
    return status, [line for line in said if " error " in line or line.startswith("drover: ")]


def check_refused(whole, tmp_path, path, damage, strict=True):
    data = tmp_path / "data"
    shutil.rmtree(data, ignore_errors=True)
    done = drover("import", damaged(whole, path, damage, tmp_path / "changed"), "--data", data)
    assert done.returncode == 0, done.stderr
    status, errors = outcome(data)
    if status or strict:
        assert status == 1 and len(errors) == 1 and f" {path}: " in errors[0], (status, errors)


def test_a_damaged_node_is_named(whole, tmp_path):
    """What the server trusts at its start: a node of each kind."""
    for path in [path for path in kinds(whole) if re.match("/drover/(tasks|requests|dag|secret|groups|schedules)", path)]:
        check_refused(whole, tmp_path, path, DAMAGES["empty"])


@pytest.mark.slow
def test_any_damage_of_any_node(whole, tmp_path):
    """The same, and what is only used later: then the server starts. It never crashes."""
    paths = kinds(whole)
    assert len(paths) > 20
    for path in paths if os.environ.get("DROVER_SOAK") else paths[::4]:
        for damage in DAMAGES.values():
            check_refused(whole, tmp_path, path, damage, strict=False)


FOREIGN = [
    ("/drover/dag/specs/0/x", "[]"),
    ("/drover/dag/nodes/0/01", "{}"),
    ("/drover/dag/specs/0/2", '[{"id":2,"type":"command"}]'),  # another chunk has it
    ("/drover/dag/specs/0/2", '[{"id":3,"type":"command","parents":["1"]}]'),
]


@pytest.mark.parametrize("path, text", FOREIGN)
def test_a_node_that_drover_did_not_make(whole, tmp_path, path, text):
    """Names and numbers that contradict others: no other node is read in its place."""
    changed = lines(whole)
    [parent] = [line for line in changed if line.get("path") == os.path.dirname(path)]
    end = changed.pop()
    changed += [parent | {"path": path, "data": text}, {"end": end["end"] + 1}]
    (tmp_path / "changed").write_text("".join(json.dumps(line) + "\n" for line in changed))
    done = drover("import", tmp_path / "changed", "--data", tmp_path / "data")
    assert done.returncode == 0, done.stderr
    status, errors = outcome(tmp_path / "data")
    assert status == 1 and len(errors) == 1 and f" {path}: " in errors[0], (status, errors)


def test_a_module_that_fails_after_others(whole, tmp_path):
    """It unwinds what was opened, here with the tasks and the DAG: they are there at the next start."""
    assert drover("import", whole, "--data", tmp_path / "data").returncode == 0
    for data in (tmp_path / "data", tmp_path / "new"):
        status, errors = outcome(data, "--pipeline", tmp_path / "none")
        assert status == 1 and len(errors) == 1 and f"{tmp_path / 'none'}" in errors[0]
        assert outcome(data) == (0, [])


@pytest.fixture
def chroot(zookeeper):
    """The URL of a chroot of its own with a task and a node of the DAG in it, and a client of it."""
    url = zookeeper.url(f"/damaged-{next(NUMBERS)}")
    server = OnEnsemble(url, "--zk-timeout-ms", 4000).start().leads()
    client = KazooClient(url.removeprefix("zk://"))
    try:
        add = {"clientid": 1, "requestid": "r", "adds": [{"group": "g", "data": "d"}]}
        wait_until(lambda: call(server.port, "POST", "/update", add)[0] == 200, "it leads, on a busy machine too")
        wait_until(lambda: call(server.port, "GET", "/readyz")[0] == 200, "it is ready")
        dag = Dag(server.port)
        dag.wait(*dag.add(command("true")))
        assert server.stop() == 0
        client.start()
        yield url, client
    finally:
        server.kill()
        client.stop()
        client.close()


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/drover/tasks", "/drover/tasks/0/1", "/drover/requests/0", "/drover/dag/head",
                                  "/drover/dag/specs/0/1", "/drover/dag/nodes/0/1", "/drover/secret"])
def test_a_damaged_node_on_an_ensemble(chroot, path):
    """The leader says which one and tries again now and then; it goes on when the node is repaired."""
    url, client = chroot
    good, _ = client.get(path)
    client.set(path, b"?")
    server = OnEnsemble(url, "--zk-timeout-ms", 4000).start()
    try:
        server.wait_for(f" cannot read [a-z ]*{path}: ")
        assert call(server.port, "GET", "/healthz")[0] == 200
        elections = client.get("/drover/epoch")[1].version
        client.set(path, good)
        server.leads()
        wait_until(lambda: call(server.port, "GET", "/readyz")[0] == 200, "it is ready")
        assert client.get("/drover/epoch")[1].version - elections < 4
        assert Tasks(server.port).group("g")[0]["data"] == "d"
        assert server.stop() == 0, server.said
    finally:
        server.kill()
