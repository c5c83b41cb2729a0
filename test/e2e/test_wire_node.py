"""The npm client node-zookeeper-client on the ZooKeeper port.

The client comes from the npm registry, in one fixed version, into the temporary directory of the test
session. A script in JavaScript (wire_node.js) uses it and prints what comes back; the same script runs on
a real ZooKeeper, and both must print the same.
"""

import json
import os
import pathlib
import subprocess

import pytest

import npm
from wire_client import DEADLINE_S, Client, create, delete, set_data
from wire_support import Proxy, drover  # noqa: F401: fixtures

PACKAGE = "node-zookeeper-client@1.1.3"
SCRIPT = pathlib.Path(__file__).with_name("wire_node.js")


@pytest.fixture(scope="session")
def modules(tmp_path_factory):
    return npm.install(tmp_path_factory.mktemp("npm"), PACKAGE)


@pytest.fixture
def node(modules):
    """Starts the script, and ends whatever is left of it."""
    started = []

    def start(what, port, chroot):
        started.append(subprocess.Popen(
            ["node", SCRIPT, what, f"127.0.0.1:{port}{chroot}"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env=os.environ | {"NODE_PATH": str(modules)}))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def chroot(port, path):
    with Client(port) as c:
        c.must(create(path))
        c.end()
    return path


def test_every_call_as_on_zookeeper(node, drover, zookeeper):  # noqa: F811
    processes = [node("calls", port, chroot(port, "/node"))
                 for port in (drover.zk_port, zookeeper.nodes[0].port)]
    ours, theirs = ([json.loads(line) for line in p.communicate(timeout=DEADLINE_S)[0].splitlines()]
                    for p in processes)
    assert [p.returncode for p in processes] == [0, 0]
    theirs[0][1][2] = ours[0][1][2]  # ZooKeeper allows no session of thirty seconds here
    for our, their in zip(ours, theirs):
        assert our == their
    assert len(ours) == len(theirs) >= 40
    assert ["in order", True] in ours


def test_watches_outlive_a_connection(node, drover):  # noqa: F811
    root = chroot(drover.zk_port, "/node-watches")
    with Proxy(drover.zk_port) as proxy, Client(drover.zk_port) as other:
        for name in "data", "gone", "children", "same":
            other.must(create(f"{root}/{name}"))
        process = node("watches", proxy.port, root)
        said = map(json.loads, process.stdout)
        assert next(said)[0][0] == "create" and next(said) == ["ready", None]
        proxy.refuse = True
        proxy.cut()
        assert next(said) == ["state", "DISCONNECTED"]
        other.must(set_data(root + "/data", b"1"))
        other.must(delete(root + "/gone"))
        other.must(create(root + "/children/c"))
        other.must(create(root + "/new"))
        proxy.refuse = False
        assert next(said) == ["state", "SYNC_CONNECTED"]
        assert sorted(next(said)[1] for _ in range(4)) == [
            ["NODE_CHILDREN_CHANGED", "/children"], ["NODE_CREATED", "/new"],
            ["NODE_DATA_CHANGED", "/data"], ["NODE_DELETED", "/gone"]]
        other.must(set_data(root + "/same", b"1"))
        assert next(said) == ["event", ["NODE_DATA_CHANGED", "/same"]]
        process.stdin.write("\n")
        process.stdin.flush()
        assert next(said) == ["same session", True]
        what, (stat,) = next(said)
        assert what == ["exists", "/mine"] and stat["ephemeral"]
        assert process.wait(DEADLINE_S) == 0
        other.end()
