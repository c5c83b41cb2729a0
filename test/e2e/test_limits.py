"""What clients may take of the server: connections, descriptors, sessions, waiting requests. Whoever is one too
many is refused, with 503 and Retry-After or by the end of the connection; nobody else notices."""

import re
import resource
import socket

import pytest

from conftest import Connection, Http, Server, call, errors, wait_until
from wire_client import *  # noqa: F403

pytestmark = pytest.mark.slow

FILES = 160


@pytest.fixture
def few_files(tmp_path):
    """A server that may open FILES descriptors, and that snapshots often."""
    server = Server("--data", tmp_path / "data", "--snapshot-every", 100, "--jobs", 1,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)))
    yield server.start()
    server.kill()


def metric(http, name):
    """The sum of a metric's samples."""
    http.connection.request("GET", "/metrics")
    page = http.connection.getresponse().read().decode()
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", page, re.M))


def knock(port, count):
    """So many connections at once, of which the server may close some."""
    return [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(count)]


def is_let_in(port):
    try:
        return four_letters(port, "ruok") == "imok"
    except (ConnectionResetError, BrokenPipeError):
        return False


def run_command(http):
    """A command of the DAG needs pipes and more."""
    [node] = http.send("POST", "/v1/nodes", [{"metadata": {"type": "command"}, "data": {"command": "true"}}])[1]
    state = http.send("GET", f"/v1/scheduler/wait?id={node['id']}&timeout=60000")[1][0]["state"]
    assert state == "finished", http.send("GET", f"/v1/nodes/{node['id']}")


def test_clients_cannot_take_all_descriptors(few_files):
    """Journal, snapshots and commands work while both ports have more clients than descriptors."""
    server = few_files
    http = Http(server.port)
    assert http.send("GET", "/healthz")[0] == 200  # and is connected
    with Client(server.zk_port) as zookeeper:
        taken = knock(server.port, FILES) + knock(server.zk_port, FILES)
        taken += knock(server.zk_port, FILES) + knock(server.port, FILES)
        before = metric(http, "drover_snapshots_total")
        zookeeper.must(create("/large"))
        for _ in range(300):  # segments have 16 MiB
            zookeeper.must(set_data("/large", b"x" * 300000))
            assert http.send("POST", "/update", {"clientid": 1, "adds": []})[0] == 200
        wait_until(lambda: metric(http, "drover_snapshots_total") >= before + 2)
        run_command(http)
        assert metric(http, "drover_http_connections_refused_total") > 0
        assert metric(http, "drover_zookeeper_connections_refused_total") > 0
        for one in taken:
            one.close()
        wait_until(lambda: is_let_in(server.zk_port))
        wait_until(lambda: call(server.port, "GET", "/healthz")[0] == 200)
        zookeeper.end()
    http.close()
    assert server.stop() == 0, server.said
    assert len(re.findall("connections? refused", server.said)) < 10


def is_refused(connection, text=None):
    """The next answer is 503, says when to come again, and why."""
    status, headers, body = connection.answer()
    assert (status, headers["retry-after"]) == (503, "1"), body
    assert text is None or text in errors(body)[0]
    assert b'"code":"TOO_MANY"' in body
    return True


def from_address(server, address):
    connection = Connection.__new__(Connection)
    connection.socket = socket.create_connection(("127.0.0.1", server.port), timeout=60, source_address=(address, 0))
    connection.bytes = b""
    server.connections.append(connection)
    return connection


def ask(connection, server, path, body=None):
    text = "" if body is None else f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    method = "GET" if body is None else "POST"
    connection.send(server.fill(f"{method} {path} HTTP/1.1\r\nHost: HOST\r\n{text}\r\n{body or ''}"))
    return connection


def test_http_connections_from_one_address(start):
    server = start("--connections-per-address", 3)
    held = [ask(from_address(server, "127.0.0.2"), server, "/healthz") for _ in range(3)]
    assert all(one.answer()[0] == 200 for one in held)
    for _ in range(5):
        assert is_refused(ask(from_address(server, "127.0.0.2"), server, "/healthz"), "too many connections")
    assert ask(from_address(server, "127.0.0.3"), server, "/healthz").answer()[0] == 200
    held[0].close()
    wait_until(lambda: ask(from_address(server, "127.0.0.2"), server, "/healthz").answer()[0] == 200)
    assert call(server.port, "GET", "/healthz")[0] == 200
    assert server.stop() == 0, server.said
    assert "from one address" in server.said


def test_all_connections_of_the_zookeeper_port(start):
    """One too many is closed, also from another address; and let in when there is room again."""
    server = start("--zk-connections", 5)
    with Client(server.zk_port) as c:
        others = knock(server.zk_port, 4)
        wait_until(lambda: metric(Http(server.port), "drover_zookeeper_connections") == 5)
        assert not is_let_in(server.zk_port)
        with socket.create_connection(("127.0.0.1", server.zk_port), timeout=60,
                                      source_address=("127.0.0.2", 0)) as other:
            assert other.recv(1) == b""
        c.must(exists("/"))
        others.pop().close()
        wait_until(lambda: is_let_in(server.zk_port))
        c.end()
    assert metric(Http(server.port), "drover_zookeeper_connections_refused_total") >= 2
    assert server.stop() == 0, server.said
    assert server.said.count("ZooKeeper connections: there are too many") == 1


def test_sessions_of_both_ports(start):
    """The server has a few of its own. Sessions that are there stay, and can be resumed."""
    server = start("--sessions", 20)
    http = Http(server.port)
    ids, clients = [], []
    while (answer := http.send("POST", "/v1/sessions", {"timeout": 3600000}))[0] == 200:
        ids.append(answer[1]["session"])
        clients.append(Client(server.zk_port))
        assert len(ids) < 20
    assert answer[0] == 503 and http.headers["Retry-After"] == "1"
    assert answer[1]["code"] == "TOO_MANY"
    with Client(server.zk_port, hello=False) as more:
        more.send(frame(i32(0) + i64(0) + i32(60000) + i64(0) + text(bytes(16)) + flag(False)))
        assert more.is_closed()
    last = clients[-1]
    with Client(server.zk_port, session=last.session, password=last.password) as again:
        assert again.session == last.session
    assert http.send("PUT", f"/v1/sessions/{ids[0]}")[0] == 200
    assert http.send("DELETE", f"/v1/sessions/{ids[0]}")[0] == 200
    with Client(server.zk_port) as c:
        c.end()
    assert metric(http, "drover_zookeeper_sessions_refused_total") == 1
    for client in clients:
        client.close()
    assert server.stop() == 0, server.said
    assert server.said.count("too many sessions") == 1


WAITS = {  # what waits, and what ends the wait
    "park": ("/v1/nodes?new=0", None),
    "claim": ("/claim", '{"clientid": 1, "group": "none", "duration": 1, "wait": 600000}'),
    "stream": ("/v1/events", None),
}


@pytest.mark.parametrize("kind", WAITS)
def test_requests_that_wait(start, kind):
    """Of whatever kind they are. Those that do not wait are answered, and a place becomes free."""
    server = start("--waits", 6)
    http = Http(server.port)
    held = [ask(server.connect(), server, *WAITS[each]) for each in list(WAITS) * 2]
    wait_until(lambda: metric(http, "drover_http_waiting_requests") == 6)
    for _ in range(3):
        assert is_refused(ask(server.connect(), server, *WAITS[kind]), "wait")
    assert http.send("POST", "/claim", {"clientid": 1, "group": "none", "duration": 1})[0] == 200
    assert http.send("GET", "/v1/nodes")[0] == 200
    held.pop().close()
    wait_until(lambda: metric(http, "drover_http_waiting_requests") == 5)
    more = ask(server.connect(), server, *WAITS[kind])
    wait_until(lambda: metric(http, "drover_http_waiting_requests") == 6)
    more.close()
    assert metric(http, "drover_http_requests_refused_total") == 3
    assert server.stop() == 0, server.said
    assert server.said.count("refused") == 1


def test_a_worker_route_that_waits(start):
    """The place is taken when the request comes back from its thread, and its session waits no more."""
    server = start("--waits", 1)
    http = Http(server.port)
    session = http.send("POST", "/v1/sessions", {})[1]["session"]
    assert http.send("POST", "/v1/worlds", {"world": "build"})[0] == 200
    claim = "/v1/worlds/build/claim", f'{{"session": "{session}", "types": ["t"], "wait": 600000}}'
    first = ask(server.connect(), server, *claim)
    wait_until(lambda: metric(http, "drover_http_waiting_requests") == 1)
    assert is_refused(ask(server.connect(), server, *claim))
    first.close()
    wait_until(lambda: metric(http, "drover_http_waiting_requests") == 0)
    assert http.send("DELETE", f"/v1/sessions/{session}")[0] == 200
    assert server.stop() == 0, server.said
