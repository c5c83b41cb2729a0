"""Debian's zkCli.sh on the ZooKeeper port, and the same commands on a real ZooKeeper: what it prints
must be the same.

Starting a JVM takes time, so all commands go to one zkCli per server. It does not show the commands that
it reads from a pipe; `printwatches` between them, which prints a line of its own, tells where the output
of one ends.
"""

import concurrent.futures
import itertools
import os
import re
import select
import subprocess
import time

import pytest

from wire_client import DEADLINE_S, Client, create, delete, set_data
from wire_support import Proxy, drover  # noqa: F401: fixtures
from zk import need_jvm

ZKCLI = "/usr/share/zookeeper/bin/zkCli.sh"
ENVIRONMENT = os.environ | {"CLIENT_JVMFLAGS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
MARK = "printwatches is on"

# What is asked of both. A node made without data has none in ZooKeeper and empty data here, so all have some.
SAME = {
    "create": ["create /a data", "create /a data", "create /none/x", "create /a/b ''"],
    "sequential and ephemeral": [
        "create -s /a/s- x", "create -s /a/s- x", "create -e /a/e y", "create -e -s /a/es- z",
        "create -e /a/e/child", "ls /a"],
    "get": ["get /a", "get -s /a", "get /none", "get -s /a/e"],
    "ls": ["ls /a", "ls -s /a", "ls -R /a", "ls -R /", "ls /none"],
    "stat": ["stat /a", "stat /none", "stat /a/e"],
    "set": ["set /a more", "set -v 1 /a even", "set -v 1 /a late", "set -s /a most", "get -s /a"],
    "delete": ["delete /a", "create /d", "delete -v 7 /d", "delete -v 0 /d", "delete /d"],
    "access": [
        "getAcl /a", "getAcl -s /a", "addauth digest me:secret", "whoami",
        "create /acl data auth:me:secret:cdrwa", "getAcl /acl", "setAcl /a auth:me:secret:cdrwa",
        "getAcl -s /a", "setAcl -v 5 /a world:anyone:r", "setAcl /a world:anyone:cdrwa",
        "setAcl -R /a world:anyone:cdrwa", "create /readable data world:anyone:r",
        "set /readable more", "get /readable", "create /mine x ip:127.0.0.1:cdrwa", "get /mine",
        "create /theirs x ip:10.0.0.1:cdrwa", "get /theirs", "getAcl /theirs"],
    "watches": [
        "addWatch -m PERSISTENT /a", "create /a/w1", "set /a x", "delete /a/w1", "removewatches /a",
        "addWatch -m PERSISTENT_RECURSIVE /a", "create /a/w2", "create /a/w2/deep", "set /a/w2 x",
        "delete /a/w2/deep", "delete /a/w2", "removewatches /a", "set /a y", "get -w /a",
        "set /a z", "set /a zz", "ls -w /a", "create /a/w3", "stat -w /a/w3", "delete /a/w3",
        "removewatches /a"],
    "counts": ["getEphemerals", "getEphemerals /a", "getEphemerals /none", "getAllChildrenNumber /a",
               "getAllChildrenNumber /", "getAllChildrenNumber /none"],
    "sync": ["sync /", "sync /a"],
    "configuration": ["config", "config -s", "reconfig -add server.1=x"],
    "deleteall": ["create /tree", "create /tree/a", "create /tree/a/b", "create /tree/c",
                  "deleteall /tree", "ls /", "deleteall /none"],
    "containers and times to live": [
        "create -c /container data", "create -t 3600000 /mortal data",
        "create -s -t 3600000 /mortal- data", "stat /container", "stat /mortal", "create -t 0 /no data",
        "create -c -t 5 /no data", "create -e -t 5 /no data", "ls /"],
    "quotas": [
        "create /quota data", "create /quota/x data", "setquota -n 3 /quota", "listquota /quota",
        "create /quota/y data", "listquota /quota", "setquota -N 3 -B 20 /quota", "listquota /quota",
        "create /quota/z data", "set /quota/y 123456789012345", "setquota -b 5 /quota/x",
        "listquota /none", "setquota -n 3 /none", "delquota -N /quota", "listquota /quota",
        "create /quota/z data", "delquota /quota", "listquota /quota", "ls -R /zookeeper/quota"],
    "nonsense": ["get", "create a", "create /a/../b", "set /a", "ls //", "what"],
}



class Cli:
    """A running zkCli.sh."""

    def __init__(self, port):
        need_jvm()
        self.process = subprocess.Popen([ZKCLI, "-server", f"127.0.0.1:{port}"], env=ENVIRONMENT,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        self.said = ""

    def run(self, commands):
        """All commands, to the end; the output of each, in their order."""
        script = "".join(f"{command}\nprintwatches\n" for command in ["version", *commands])
        said = self.process.communicate(script + "quit\n", timeout=3 * DEADLINE_S)[0]
        assert self.process.returncode == 0, said
        parts = said.split(MARK + "\n")
        assert len(parts) == len(commands) + 2, said
        return parts[1:-1]

    def tell(self, *commands):
        self.process.stdin.write("".join(f"{command}\n" for command in commands))
        self.process.stdin.flush()

    def wait_for(self, pattern):
        deadline = time.monotonic() + DEADLINE_S
        while not re.search(pattern, self.said):
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.process.stdout], [], [], left)[0], self.said
            more = os.read(self.process.stdout.fileno(), 65536).decode()
            assert more, f"ended: {self.said}"
            self.said += more

    def kill(self):
        self.process.kill()
        self.process.communicate()


def plain(output):
    """Without what cannot be the same twice: transactions, sessions, times, the order of sets; and
    without events, which come from another thread, as do complaints about the missing logger."""
    lines = []
    for line in output.splitlines():
        line = re.sub(r"Zxid = 0x\w+", "Zxid = ...", line)
        line = re.sub(r"ephemeralOwner = 0x(?!0$)\w+", "ephemeralOwner = ...", line)
        line = re.sub(r"time = .*", "time = ...", line)
        if re.fullmatch(r"\[.*\]", line):
            line = str(sorted(line[1:-1].split(", ")))
        if line and not line.startswith(("WATCHER::", "WatchedEvent", "SLF4J")):
            lines.append(line)
    return sorted(lines) if lines[:1] == ["Auth scheme: User"] else lines


def events(outputs):
    """Events of nodes, in order. (The event of the connection may come at any place.)"""
    return re.findall(r"WatchedEvent .* path:/.*", "".join(outputs))


@pytest.fixture(scope="module")
def said(drover, zookeeper):  # noqa: F811
    """What zkCli said on both servers: ours and theirs, each by group."""
    commands = [command for group in SAME.values() for command in group]
    clis = [Cli(drover.zk_port), Cli(zookeeper.nodes[0].port)]
    try:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            outputs = list(pool.map(lambda cli: iter(cli.run(commands)), clis))
    finally:
        for cli in clis:
            cli.kill()
    return [{name: [next(output) for _ in group] for name, group in SAME.items()}
            for output in outputs]


@pytest.mark.parametrize("group", SAME)
def test_the_same_as_on_zookeeper(said, group):
    ours, theirs = said
    for command, our, their in zip(SAME[group], ours[group], theirs[group]):
        assert plain(our) == plain(their), command


def test_the_same_events_in_the_same_order(said):
    ours, theirs = (events(itertools.chain(*groups.values())) for groups in said)
    assert ours == theirs and len(ours) > 10


def test_watches_outlive_a_connection(drover):  # noqa: F811
    """The Java client sets its watches again when it reconnects, and gets the events it missed."""
    with Proxy(drover.zk_port) as proxy, Client(drover.zk_port) as other:
        for path in "/out", "/out/data", "/out/gone", "/out/children", "/out/tree", "/out/same":
            other.must(create(path))
        cli = Cli(proxy.port)
        try:
            cli.wait_for("type:None")
            cli.tell("get -w /out/data", "get -w /out/gone", "ls -w /out/children", "get -w /out/same",
                     "addWatch /out/tree", "printwatches")
            cli.wait_for(MARK)
            proxy.refuse = True
            proxy.cut()
            cli.wait_for("state:Disconnected")
            other.must(set_data("/out/data", b"1"))
            other.must(delete("/out/gone"))
            other.must(create("/out/children/c"))
            proxy.refuse = False
            cli.wait_for("type:NodeDataChanged path:/out/data")
            cli.wait_for("type:NodeDeleted path:/out/gone")
            cli.wait_for("type:NodeChildrenChanged path:/out/children")
            assert "/out/same" not in cli.said
            other.must(set_data("/out/same", b"1"))
            other.must(create("/out/tree/c"))
            cli.wait_for("type:NodeDataChanged path:/out/same")
            cli.wait_for("type:NodeCreated path:/out/tree/c")
            cli.tell("quit")
            cli.process.wait(DEADLINE_S)
            assert "Expired" not in cli.said
        finally:
            cli.kill()
        other.end()
