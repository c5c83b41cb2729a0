"""The memory for requests and answers under way. What would be too much gets 503 and Retry-After; small requests
are answered all the time."""

import json
import os
import re
import socket

import pytest

from conftest import Connection, Http, Server, drover, errors, wait_until
from test_limits import metric

pytestmark = pytest.mark.slow

MIB = 1024 * 1024
# Freed memory goes back at once, so that what is resident is what is in use.
PLAIN_HEAP = os.environ | {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"}


@pytest.fixture
def start_with():
    servers = []

    def start(*arguments):
        servers.append(Server("--journal", "none", *arguments, env=PLAIN_HEAP).start())
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


def resident(server):
    status = open(f"/proc/{server.process.pid}/status").read()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


def post(server, length, path="/v1/nodes"):
    """A request whose body is still to be sent."""
    connection = Connection(server.port)
    size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    connection.send(server.fill(f"POST {path} HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"
                                f"{size}\r\n\r\n"))
    return connection


def hold(server, http, length):
    """A request that has sent so much of a body that never ends."""
    before = metric(http, "drover_http_memory_bytes")
    connection = post(server, length + 1)
    connection.send(b" " * length)
    wait_until(lambda: metric(http, "drover_http_memory_bytes") >= before + length)
    return connection


def has_answer(connection):
    connection.socket.setblocking(False)
    try:
        return connection.socket.recv(12, socket.MSG_PEEK)
    except BlockingIOError:
        return b""
    except ConnectionResetError:
        return b"reset"
    finally:
        connection.socket.settimeout(60)


def is_busy(connection):
    status, headers, body = connection.answer()
    assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close"), body
    assert json.loads(body)["code"] == "TOO_MANY" and "memory" in errors(body)[0]
    return connection.is_closed()


def work(http):
    """What must go on: a task is added, claimed and deleted."""
    assert http.send("GET", "/healthz")[0] == 200
    [task] = http.send("POST", "/update", {"clientid": 1, "adds": [{"group": "g", "data": "x"}]})[1]["tasks"]
    claim = {"clientid": 1, "group": "g", "duration": 60000}
    [task] = http.send("POST", "/claim", claim)[1]["tasks"]
    assert http.send("POST", "/update", {"clientid": 1, "deletes": [task["id"]]})[0] == 200


def test_large_bodies(start_with):
    """Five connections send 80 MiB each, a piece at a time, where there is memory for one of them."""
    server = start_with("--memory", "128M")
    http = Http(server.port)
    work(http)
    before = resident(server)
    body = b"[" + b" " * (80 * MIB - 2) + b"]"
    clients = [post(server, None if i == 4 else len(body)) for i in range(5)]
    refused, piece = [], 4 * MIB

    def put(client, data):
        client.send(b"%x\r\n" % len(data) + data + b"\r\n" if client is clients[4] else data)

    for at in range(0, len(body) - piece, piece):  # all but the last piece
        for client in clients:
            if client in refused:
                continue
            put(client, body[at:at + piece])
            work(http)
            if has_answer(client):
                refused.append(client)
        assert metric(http, "drover_http_memory_bytes") <= 84 * MIB
        assert resident(server) < before + 128 * MIB + 64 * MIB
    assert len(refused) == 4
    assert all(is_busy(client) for client in refused if has_answer(client) != b"reset")
    assert metric(http, 'drover_http_requests_refused_total{limit="memory"}') == 4
    early = post(server, 80 * MIB)  # is told at once
    assert is_busy(early)
    [last] = [client for client in clients if client not in refused]
    put(last, body[-piece:])
    if last is clients[4]:
        last.send(b"0\r\n\r\n")
    assert last.answer()[::2] == (200, b"[]\n")
    assert metric(http, "drover_http_memory_bytes") < MIB
    wait_until(lambda: resident(server) < before + 48 * MIB)
    last.close()
    assert server.stop() == 0, server.said
    assert server.said.count("bodies and answers use up the memory") == 1


def test_what_can_never_fit(start_with):
    """Coming again would not help."""
    server = start_with("--memory", "64M")
    client = post(server, 100 * MIB)
    status, headers, body = client.answer()
    assert status == 413 and "retry-after" not in headers, body
    numbers = b"[" + b"1," * MIB + b"1]"
    client = post(server, len(numbers))
    client.send(numbers)
    status, headers, body = client.answer()
    assert status == 413 and "memory" in errors(body)[0]
    assert server.stop() == 0, server.said


def test_the_values_of_a_body(start_with):
    """They take thirty times as much as their text."""
    server = start_with("--memory", "64M")
    http = Http(server.port)
    numbers = b"[" + b"1," * (MIB // 2) + b"1]"  # 32 MiB of values
    held = hold(server, http, 16 * MIB)
    status, answer = http.send("POST", "/v1/nodes", numbers)
    assert (status, answer["code"], http.headers["Retry-After"]) == (503, "TOO_MANY", "1")
    work(http)
    held.close()
    wait_until(lambda: metric(http, "drover_http_memory_bytes") < MIB)
    assert http.send("POST", "/v1/nodes", numbers)[0] == 400  # read: they are no nodes
    assert metric(http, "drover_http_memory_bytes") < MIB
    assert server.stop() == 0, server.said


def ask_and_not_read(server, path):
    connection = Connection(server.port)
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.send(server.fill(f"GET {path} HTTP/1.1\r\nHost: HOST\r\n\r\n"))
    wait_until(lambda: has_answer(connection))
    return connection


def test_answers_that_nobody_reads(start_with):
    """Reads with a long answer are refused then, changes are not."""
    server = start_with("--memory", "32M")
    http = Http(server.port)
    [node] = http.send("POST", "/v1/nodes", [{"metadata": {"type": "command", "parent": "root"}, "data": {"command": "true"}}])[1]
    value = f"/v1/nodes/{node['id']}/data/big?limit=1048576"
    for part in range(3):  # each byte becomes six
        page = http.send("PUT", value.split("?")[0] + (f"?start={page['next']}&pid={page['pid']}" if part else ""),
                         {"value": "\x01" * 340000})[1]["pagination"]
    readers = []
    while not readers or has_answer(readers[-1])[9:] == b"200":
        readers.append(ask_and_not_read(server, value))
        work(http)
        assert len(readers) < 20
    status, headers, _ = readers[-1].answer()
    assert (status, headers["retry-after"]) == (503, "1") and len(readers) > 2
    assert metric(http, "drover_http_memory_bytes") < 24 * MIB
    change = {"clientid": 1, "adds": [{"group": "g", "data": "x" * 500000}]}
    assert http.send("POST", "/update", change)[0] == 200
    for connection in readers:
        connection.close()
    wait_until(lambda: metric(http, "drover_http_memory_bytes") < MIB)
    assert http.send("GET", value)[0] == 200
    assert server.stop() == 0, server.said


def test_long_bodies_keep_their_place(start_with):
    """Another thread reads them, and what comes after them on the same connection waits for that."""
    server = start_with()
    http = Http(server.port)
    for i in range(5):
        body = json.dumps({"clientid": 1, "adds": [{"group": f"g{i}", "data": "x" * 100}] * 2000})
        both = Connection(server.port)
        both.send(server.fill("POST /update HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"
                              f"Content-Length: {len(body)}\r\n\r\n{body}"
                              f"GET /group/g{i}?limit=1 HTTP/1.1\r\nHost: HOST\r\n\r\n"))
        assert len(json.loads(both.answer()[2])["tasks"]) == 2000
        status, headers, body = both.answer()
        assert (status, headers["drover-more"], len(json.loads(body))) == (200, "true", 1)
        both.close()
    numbers = b"[" + b"1," * (MIB // 4) + b"1]"
    for _ in range(20):  # gone before they are read
        left = post(server, len(numbers))
        left.send(numbers)
        left.close()
    wait_until(lambda: metric(http, "drover_http_memory_bytes") < MIB)
    work(http)
    assert http.send("POST", "/v1/nodes", numbers)[0] == 400
    assert server.stop() == 0, server.said


def test_the_smallest_memory():
    done = drover("serve", "--memory", "1M")
    assert done.returncode == 2 and "at least 32 MiB" in done.stderr
