"""The DAG at its limits: thousands of waiting requests, a full disk, a server with a token."""

import os
import pathlib
import resource
import subprocess
import time

import pytest

from conftest import BINARY, DEADLINE_S, Server, fill_disk
from dag_support import Dag, Refused, node, shell

pytestmark = pytest.mark.slow

WAITERS = 3000


@pytest.fixture
def many_files():
    """Enough descriptors for both ends of as many connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * WAITERS:
        pytest.skip(f"only {hard} open files are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def threads(server):
    return int(pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
               .split("Threads:")[1].split()[0])


def test_thousands_wait_without_a_thread_each(many_files, start):
    server = start()
    dag = Dag(server.port)
    [a] = dag.add(shell("sleep 76"))
    before = threads(server)
    paths = [f"/v1/scheduler/wait?id={a}", f"/v1/nodes?new={a}&metadata=state"]
    waiting = [server.connect() for _ in range(WAITERS)]
    for i, one in enumerate(waiting):
        one.send(server.fill(f"GET {paths[i % 2]} HTTP/1.1\r\nHost: HOST\r\n\r\n"))
    begun = time.monotonic()
    assert dag.state(a) == "running"  # others are answered meanwhile
    assert time.monotonic() - begun < 30
    assert threads(server) == before
    begun = time.monotonic()
    [b] = dag.add(node("group"))
    for one in waiting[1::2]:
        status, _, body = one.answer()
        assert status == 200 and f'"{b}"' in body.decode()
    dag.kill(a)
    for one in waiting[::2]:
        status, _, body = one.answer()
        assert status == 200 and b"killed" in body
    assert time.monotonic() - begun < 60
    assert server.stop() == 0, server.said


# A full disk.

def test_a_graph_survives_a_full_disk(small_disk, tmp_path):
    """Commands go on, each runs once, and the graph ends when there is room again. What they print meanwhile may be
    lost, and is counted: test_output.py."""
    log = tmp_path / "ran"
    server = Server("--data", small_disk / "data", "--jobs", 2).start()
    try:
        dag = Dag(server.port)
        _, *ids = dag.add(shell(f"until test -e {tmp_path}/filled; do sleep 0.05; done", ref="gate"),
                          *[shell(f"echo {i} >> {log}; head -c 400000 /dev/zero | tr '\\0' y", "gate")
                            for i in range(40)])
        fill_disk(small_disk / "filler")
        (tmp_path / "filled").touch()
        deadline = time.monotonic() + DEADLINE_S
        with pytest.raises(Refused) as full:
            while time.monotonic() < deadline:
                dag.call("POST", "/update", {"clientid": 1, "adds": [
                    {"group": "g", "data": "x" * 99999}]})
        assert full.value.status == 507
        os.unlink(small_disk / "filler")
        assert dag.wait(*ids) == ["finished"] * 40
        assert sorted(map(int, log.read_text().split())) == list(range(40))
        assert server.stop() == 0, server.said
        server = Server("--data", small_disk / "data").start()
        assert Dag(server.port).wait(*ids) == ["finished"] * 40
    finally:
        server.kill()


# A token.

def test_commands_are_given_the_token(tmp_path):
    """A command changes its parent and adds below itself, as the document's note asks."""
    token = "a-token-of-at-least-thirty-two-characters"
    (tmp_path / "token").write_text(token + "\n")
    server = Server("--data", tmp_path / "data", "--token-file", tmp_path / "token").start()
    agent = subprocess.Popen([BINARY, "agent", "--server", f"http://127.0.0.1:{server.port}",
                              "--group", "far", "--token-file", tmp_path / "token"],
                             stderr=subprocess.DEVNULL)
    try:
        dag = Dag(server.port, token)
        with pytest.raises(Refused) as e:
            Dag(server.port).get("/v1/nodes")
        assert e.value.status == 401
        change = ("test \"$DROVER_TOKEN\" && curl -sf -X PUT -H 'Content-Type: application/json' "
                  "-H \"Authorization: Bearer $DROVER_TOKEN\" -d '{\"value\":\"changed\"}' "
                  "$DROVER_URL/v1/nodes/$DROVER_PARENT/data/note && "
                  "echo $DROVER_NODE from below")
        for group in ("drover/run", "far"):
            parent, child = dag.add(node("group", ref="p"), shell(change, "p", group=group))
            assert dag.wait(child) == ["finished"], dag.node(child)
            assert dag.data(parent, "note")["data"] == "changed"
            assert f"{child} from below" in dag.data(child, "stdout")["data"]
        assert token not in str(dag.get("/v1/nodes")) and token not in str(dag.node(child))
        agent.terminate()
        assert agent.wait(DEADLINE_S) == 0
        assert server.stop() == 0, server.said
    finally:
        agent.kill()
        agent.wait()
        server.kill()
