"""HTTP under many connections, and under clients that leave in the middle of things."""

import multiprocessing
import os
import random
import re
import resource
import select
import socket
import struct

import pytest

from conftest import DEADLINE_S, Connection, errors, wait_until

pytestmark = pytest.mark.slow

SOAK = bool(os.environ.get("DROVER_SOAK"))
GET = "GET /healthz HTTP/1.1\r\nHost: HOST\r\n\r\n"
POST = "POST /v1/sessions HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"


def test_beyond_the_cap_everyone_is_told(start):
    """No connection is reset: each one more gets an answer that says why, and then its end."""
    server = start("--connections", 50)
    held = [server.connect() for _ in range(50)]
    for connection in held:
        connection.send(server.fill(GET))
        assert connection.answer()[0] == 200
    more = [server.connect() for _ in range(300)]
    for connection in more:
        connection.send(server.fill(GET))
    for connection in more:
        status, headers, body = connection.answer()
        assert (status, headers["connection"], headers["retry-after"]) == (503, "close", "1")
        assert errors(body) == ["too many connections"]
        assert connection.is_closed()
    for connection in held:  # and those that were there are not disturbed
        connection.send(server.fill(GET))
        assert connection.answer()[0] == 200
    for connection in held:
        connection.close()
    wait_until(lambda: server.request(GET)[0] == 200)
    assert server.stop() == 0
    assert len(re.findall(r"refused \d+ HTTP connections", server.said)) == 1


def resident_kb(server):
    with open(f"/proc/{server.process.pid}/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() // 1024


@pytest.mark.parametrize("path", ["/update", "/v1/sessions"])
def test_values_have_a_limit(server, path):
    """However short they are, each takes memory: two million of them are not let in."""
    before, body = resident_kb(server), "[" + "1," * 2000000 + "1]"
    status, _, said = server.request(f"POST {path} HTTP/1.1\r\nHost: HOST\r\n"
                                     "Content-Type: application/json\r\n"
                                     f"Content-Length: {len(body)}\r\n\r\n{body}")
    assert status == 413 and "too many values" in errors(said)[0]
    assert resident_kb(server) - before < 100 * 1024
    assert server.request(GET)[0] == 200


def is_sanitized(server):
    with open(f"/proc/{server.process.pid}/maps") as maps:
        return "libasan" in maps.read() or "libtsan" in maps.read()


def open_connections(server):
    """As the server counts them, without the one that asks."""
    connection = server.connect()
    connection.send(server.fill(GET.replace("healthz", "metrics")))
    page = connection.answer()[2].decode()
    connection.close()
    return int(re.search(r"^drover_http_connections (\d+)$", page, re.M)[1]) - 1


def flood(server, count):
    """So many connections at once, each with a request answered and another one begun."""
    connections = [server.connect() for _ in range(count)]
    request = server.fill(GET.replace("\r\n\r\n", f"\r\nX: {'a' * 2000}\r\n\r\n"))
    for connection in connections:
        connection.send(request + request[:1000])
    statuses = [connection.answer()[0] for connection in connections]
    full = resident_kb(server)
    for connection in connections:
        connection.close()
    wait_until(lambda: open_connections(server) == 0)
    return statuses, full


def test_memory_comes_back(start, monkeypatch):
    """A sanitizer keeps freed memory: under one, the test only checks that memory does not grow."""
    monkeypatch.setenv("ASAN_OPTIONS", "quarantine_size_mb=0:thread_local_quarantine_size_kb=0")
    server = start()
    before, count = resident_kb(server), 10000 if SOAK else 1500
    statuses, full = flood(server, count)
    assert set(statuses) == {200}
    once = resident_kb(server)
    for _ in range(3):
        flood(server, count)
    after = resident_kb(server)
    assert after < once * 1.1
    if not is_sanitized(server):
        assert after < before + (full - before) / 3
    assert server.stop() == 0


def hold(port, count, request, opened, results):
    """Runs in its own process, with its own limit on files: connects, sends, prints the answers."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    connections = []
    for _ in range(count):
        connections.append(Connection(port))
        connections[-1].send(request)
    opened.wait(DEADLINE_S * 10)
    results.put([connection.answer()[0] for connection in connections])


@pytest.mark.skipif(not SOAK, reason="takes 20,000 connections")
def test_20000_connections(start):
    server = start("--http-timeout-ms", 600000)
    opened, results = multiprocessing.Barrier(4), multiprocessing.Queue()
    holders = [multiprocessing.Process(
        target=hold, args=(server.port, 5000, server.fill(GET), opened, results)) for _ in range(4)]
    for holder in holders:
        holder.start()
    statuses = sum((results.get(timeout=DEADLINE_S * 10) for _ in holders), [])
    for holder in holders:
        holder.join()
    assert len(statuses) == 20000 and set(statuses) == {200, 503}
    assert statuses.count(200) == 16384
    wait_until(lambda: open_connections(server) == 0)
    assert server.stop() == 0


def timer_of(connection):
    """The timer of the server's side of a connection: 02 is keepalive."""
    ours, theirs = connection.socket.getsockname(), connection.socket.getpeername()
    with open("/proc/net/tcp") as table:
        for line in table.readlines()[1:]:
            _, local, remote, _, _, timer, *_ = line.split()
            if (int(local.split(":")[1], 16), int(remote.split(":")[1], 16)) == (theirs[1], ours[1]):
                return timer.split(":")[0]


def test_half_open_connections_are_found(server):
    """A client that has vanished sends no end; the kernel asks it whether it is there."""
    connection = server.connect()
    connection.send(server.fill(GET.replace("healthz", "v1/events")))
    connection.read_to_end_of_head()
    wait_until(lambda: timer_of(connection) == "02")


BEGINNINGS = [
    "G", "GET /healthz HTTP/1.1\r\nHost:", GET, GET * 20, GET * 3 + "GET /v1/ev",
    GET.replace("healthz", "v1/events"), POST + "Content-Length: 100\r\n\r\n{",
    POST + "Transfer-Encoding: chunked\r\n\r\n5\r\nab", POST + "Content-Length: 2\r\n\r\n{}",
    (POST + "Content-Length: 2\r\n\r\n{}") * 5, "\0\0\0\0", GET.replace("healthz", "metrics") * 10,
]


def test_clients_that_leave_are_survived(server):
    """At any point, with an end or with a reset."""
    chance = random.Random(7)
    for _ in range(600):
        connection = server.connect()
        connection.send(server.fill(chance.choice(BEGINNINGS)))
        if chance.random() < 0.3:
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                         struct.pack("ii", 1, 0))
        if chance.random() < 0.3:
            select.select([connection.socket], [], [], 0.005)
        connection.close()
    wait_until(lambda: open_connections(server) == 0)
