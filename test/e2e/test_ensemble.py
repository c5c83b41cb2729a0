"""`drover serve --keeper zk://`: on a real ZooKeeper."""

import os
import re
import signal

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

import zk
from conftest import DEADLINE_S, OnEnsemble, drover, sentences, wait_until


READY = "GET /readyz HTTP/1.1\r\nHost: HOST\r\n\r\n"


@pytest.fixture
def serve(zookeeper):
    servers = []

    def start(chroot, *arguments, **more):
        servers.append(OnEnsemble(zookeeper.url(chroot), *arguments, **more))
        return servers[-1].start()

    yield start
    for server in servers:
        server.kill()


@pytest.fixture
def client(zookeeper):
    one = KazooClient(hosts=zookeeper.hosts)
    one.start(timeout=DEADLINE_S)
    yield one
    one.stop()
    one.close()


def test_starts_answers_and_ends(serve, client):
    server = serve("/team/one")
    assert client.exists("/team/one")
    assert server.request("GET /healthz HTTP/1.1\r\nHost: HOST\r\n\r\n")[0] == 200
    assert "warning anybody who reaches the ensemble may change" in server.said
    assert server.stop() == 0, server.said


def test_logs_on_from_a_file(serve, client, tmp_path):
    (tmp_path / "auth").write_text("drover:secret\n")
    (tmp_path / "auth").chmod(0o600)
    server = serve("/team/two", "--zk-auth", tmp_path / "auth")
    assert "consider --zk-auth" not in server.said
    with pytest.raises(NoAuthError):
        client.get("/team/two")
    client.add_auth("digest", "drover:secret")
    acl = client.get_acls("/team/two")[0]
    assert [(a.id.scheme, a.id.id.split(":")[0]) for a in acl] == [("digest", "drover")]
    assert server.stop() == 0


def test_logs_on_from_the_environment(serve, client):
    server = serve("/team/three", env={"DROVER_ZK_AUTH": "drover:secret"})
    with pytest.raises(NoAuthError):
        client.get("/team/three")
    assert server.stop() == 0


@pytest.mark.parametrize("words, status, line", [
    (["--keeper", "127.0.0.1:2181"], 2, "--keeper: 127.0.0.1:2181: not of the form zk://"),
    (["--keeper", "zk://"], 2, "a host is missing"),
    (["--keeper", "zk://host:0/x"], 2, "'host:0' is not host:port"),
    (["--keeper", "zk://host/a//b"], 2, "'/a//b' is not a path"),
    (["--keeper", "zk://user:password@host"], 2, "credentials do not go there"),
    (["--keeper", "zk://127.0.0.1:2181", "--zk-auth", "user:password"], 1, "cannot read user:password"),
    (["--keeper", "zk://127.0.0.1:2181", "--zk-auth", "/dev/null"], 1,
     "/dev/null does not hold user:password"),
    (["--keeper", "zk://127.0.0.1:2181", "--zk-auth", "/proc/self/comm"], 1,
     "/proc/self/comm does not hold user:password"),
    (["--keeper", "zk://127.0.0.1:2181", "--data", "x"], 2,
     "--data is for the embedded keeper and does not go with --keeper"),
    (["--keeper", "zk://127.0.0.1:2181", "--journal", "none"], 2,
     "--journal is for the embedded keeper"),
    (["--keeper", "zk://127.0.0.1:2181", "--zk", "127.0.0.1:0"], 2, "--zk is for the embedded keeper"),
    (["--keeper", "zk://127.0.0.1:2181", "--zk-super", "x"], 2, "--zk-super is for the embedded"),
    (["--keeper", "zk://127.0.0.1:2181", "--zk-digest", "none"], 2, "--zk-digest is for the embedded"),
    (["--keeper", "zk://127.0.0.1:2181", "--zk-hello-timeout=1s"], 2, "does not go with --keeper"),
    (["--zk-auth", "x"], 2, "--zk-auth goes with --keeper"),
    (["--keeper", "zk://127.0.0.1:2181", "--zk-auth", "/nowhere/at/all"], 1, "cannot read"),
])
def test_wrong_use(words, status, line):
    done = drover("serve", "--http", "127.0.0.1:0", *words)
    assert done.returncode == status
    assert line in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_variable_that_holds_no_password():
    done = drover("serve", "--http", "127.0.0.1:0", "--keeper", "zk://127.0.0.1:1",
                  env=os.environ | {"DROVER_ZK_AUTH": "drover:"})
    assert done.returncode == 1
    assert sentences(done.stderr) == ["DROVER_ZK_AUTH does not hold user:password"]


def test_a_session_that_ends_is_replaced(serve, zookeeper, client):
    """The server is stopped for longer than its session timeout."""
    server = serve("/team/four")
    before = sessions(zookeeper)
    server.signal(signal.SIGSTOP)
    try:
        wait_until(lambda: sessions(zookeeper) < before)
    finally:
        server.signal(signal.SIGCONT)
    server.wait_for("warning the session on .* is over")
    server.wait_for("a new session on ")
    wait_until(lambda: server.request(READY)[0] == 200)
    assert server.stop() == 0, server.said


def test_ready_while_the_ensemble_is_there(serve, zookeeper):
    """Also if its session is still alive, which it cannot know."""
    server = serve("/team/five")
    wait_until(lambda: server.request(READY)[0] == 200)
    zookeeper.nodes[0].kill()
    try:
        wait_until(lambda: server.request(READY)[0] == 503)
        assert server.request(READY.replace("readyz", "healthz"))[0] == 200
    finally:
        zookeeper.restart()
    wait_until(lambda: server.request(READY)[0] == 200)
    assert server.stop() == 0, server.said


def sessions(zookeeper):
    text = zk.four_letters(zookeeper.nodes[0].port, "mntr")
    return int(re.search(r"zk_global_sessions\s+(\d+)", text)[1])
