"""The HTTP server: health, connections, limits, and every ambiguous request refused."""

import json
import re
import resource
import time

import pytest

from conftest import DEADLINE_S, Server, errors, wait_until

GET = "GET /healthz HTTP/1.1\r\nHost: HOST\r\n\r\n"


def test_healthz(server):
    status, headers, body = server.request(GET)
    assert status == 200
    assert headers["content-type"] == "application/json"
    assert json.loads(body) == {"status": "ok"} and body.endswith(b"}\n")
    assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", headers["date"])


def test_a_query_that_the_route_does_not_have_is_refused(server):
    status, _, body = server.request(GET.replace("healthz", "healthz?verbose=1"))
    assert status == 400 and json.loads(body)["field"] == "verbose"


def test_head_is_get_without_the_body(server):
    connection = server.connect()
    connection.send(server.fill(GET.replace("GET", "HEAD") + GET))
    status, headers, _ = connection.answer(to_head=True)
    assert (status, headers["content-length"]) == (200, "16")
    assert connection.answer()[2] == b'{"status":"ok"}\n'


def test_keep_alive(server):
    connection = server.connect()
    for _ in range(100):
        connection.send(server.fill(GET))
        status, headers, _ = connection.answer()
        assert status == 200 and "connection" not in headers


def test_pipelining(server):
    """Answers come in the order of the requests, whatever is asked."""
    connection = server.connect()
    connection.send(server.fill((GET + GET.replace("healthz", "nope")) * 500))
    for _ in range(500):
        assert connection.answer()[0] == 200
        assert connection.answer()[0] == 404


def test_a_request_byte_by_byte(server):
    connection = server.connect()
    for byte in server.fill(GET + GET):
        connection.send(bytes([byte]))
    assert connection.answer()[0] == 200
    assert connection.answer()[0] == 200


def test_empty_lines_between_requests_are_skipped(server):
    connection = server.connect()
    connection.send(server.fill("\r\n" + GET + "\r\n\r\n" + GET))
    assert [connection.answer()[0] for _ in range(2)] == [200, 200]


def test_connection_close(server):
    connection = server.connect()
    connection.send(server.fill(GET.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n") + GET))
    status, headers, _ = connection.answer()
    assert (status, headers["connection"]) == (200, "close")
    assert connection.is_closed()


@pytest.mark.parametrize("more, kept", [("", False), ("Connection: keep-alive\r\n", True)])
def test_http_1_0(server, more, kept):
    connection = server.connect()
    connection.send(f"GET /healthz HTTP/1.0\r\n{more}\r\n".encode())
    status, headers, _ = connection.answer()
    assert (status, headers["connection"]) == (200, "keep-alive" if kept else "close")
    if kept:
        connection.send(server.fill(GET))
        assert connection.answer()[0] == 200
    else:
        assert connection.is_closed()


def test_a_client_that_shuts_its_side_gets_its_answers(server):
    connection = server.connect()
    connection.send(server.fill(GET * 3))
    connection.socket.shutdown(1)
    assert [connection.answer()[0] for _ in range(3)] == [200] * 3
    assert connection.is_closed()


@pytest.mark.parametrize("target", ["/", "/health", "/healthz/", "//healthz", "/healthz%20",
                                    "/../healthz", "/HEALTHZ"])
def test_404(server, target):
    status, _, body = server.request(GET.replace("/healthz", target))
    assert status == 404 and errors(body) == ["no such path"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_405(server, method):
    connection = server.connect()
    connection.send(server.fill(GET.replace("GET", method)))
    status, headers, body = connection.answer()
    assert (status, headers["allow"]) == (405, "GET, HEAD") and errors(body)
    connection.send(server.fill(GET))
    assert connection.answer()[0] == 200


# What stands for the body must not be taken for the next request.
BODIES = [
    f"Content-Length: {len(GET)}\r\n\r\n{GET}",
    f"Transfer-Encoding: chunked\r\n\r\n{len(GET):x}\r\n{GET}\r\n0\r\n\r\n",
    "Content-Length: 0\r\n\r\n",
]


@pytest.mark.parametrize("body", BODIES, ids=["length", "chunked", "empty"])
def test_a_body_is_read_past(server, body):
    # HOST stays as it is in the body, so that its length is known.
    head = server.fill("GET /healthz HTTP/1.1\r\nHost: HOST\r\n")
    connection = server.connect()
    connection.send(head + body.encode() + server.fill(GET.replace("healthz", "nope")))
    assert connection.answer()[0] == 200
    assert connection.answer()[0] == 404


def test_a_body_that_nobody_reads_ends_the_connection(server):
    connection = server.connect()
    head = server.fill("POST /nope HTTP/1.1\r\nHost: HOST\r\n")
    connection.send(head + BODIES[0].encode())
    status, headers, _ = connection.answer()
    assert (status, headers["connection"]) == (404, "close")
    assert connection.is_closed()


def test_expect_continue(server):
    connection = server.connect()
    connection.send(server.fill("GET /healthz HTTP/1.1\r\nHost: HOST\r\nContent-Length: 2\r\n"
                                "Expect: 100-continue\r\n\r\n"))
    while not connection.bytes.endswith(b"\r\n\r\n"):
        assert connection.read_more()
    assert connection.bytes == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.bytes = b""
    connection.send(b"{}")
    assert connection.answer()[0] == 200


HEAD = "GET /healthz HTTP/1.1\r\nHost: HOST\r\n"
SMUGGLED = {
    "two lengths": HEAD + "Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
    "two equal lengths": HEAD + "Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
    "a list of lengths": HEAD + "Content-Length: 0, 0\r\n\r\n",
    "length and chunked": HEAD + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and length": HEAD + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "signed length": HEAD + "Content-Length: +5\r\n\r\nabcde",
    "negative length": HEAD + "Content-Length: -5\r\n\r\n",
    "hexadecimal length": HEAD + "Content-Length: 0x5\r\n\r\nabcde",
    "space before the colon": HEAD + "Content-Length : 0\r\n\r\n",
    "unknown coding": HEAD + "Transfer-Encoding: identity\r\n\r\n",
    "coding in disguise": HEAD + "Transfer-Encoding: xchunked\r\n\r\n",
    "two codings": HEAD + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    "coding in HTTP/1.0": HEAD.replace("1.1", "1.0") + "Transfer-Encoding: chunked\r\n\r\n",
    "two hosts": HEAD + "Host: HOST\r\n\r\n",
    "no host": "GET /healthz HTTP/1.1\r\n\r\n",
    "folded header": HEAD + "X: a\r\n b\r\n\r\n",
    "lone LF ends a line": HEAD + "X: a\nY: b\r\n\r\n",
    "lone LF ends the head": HEAD.replace("\r\n", "\n") + "\n",
    "lone CR in a value": HEAD + "X: a\rb\r\n\r\n",
    "NUL in a value": HEAD + "X: a\0b\r\n\r\n",
    "name with a space": HEAD + "Content Length: 5\r\n\r\n",
    "no colon": HEAD + "Content-Length\r\n\r\n",
    "two spaces": HEAD.replace("GET ", "GET  ") + "\r\n",
    "absolute target": HEAD.replace("/healthz", "http://HOST/healthz") + "\r\n",
    "byte in the target": HEAD.replace("healthz", "healthz\xe9") + "\r\n",
    "no version": HEAD.replace(" HTTP/1.1", "") + "\r\n",
    "method in lower case": HEAD.replace("GET", "get") + "\r\n",
    "TLS": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "chunk with an extension": HEAD + "Transfer-Encoding: chunked\r\n\r\n1;a=b\r\nx\r\n0\r\n\r\n",
    "chunk ended by lone LF": HEAD + "Transfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n",
    "chunk longer than said": HEAD + "Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n",
    "chunk with a signed size": HEAD + "Transfer-Encoding: chunked\r\n\r\n+1\r\nx\r\n0\r\n\r\n",
    "trailer": HEAD + "Transfer-Encoding: chunked\r\n\r\n0\r\nHost: evil\r\n\r\n",
}


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    """One server for the whole table: it has to survive all of it."""
    server = Server("--data", tmp_path_factory.mktemp("http") / "data").start()
    yield server
    assert server.stop() == 0, server.said
    server.kill()


@pytest.mark.parametrize("text", SMUGGLED.values(), ids=SMUGGLED.keys())
def test_ambiguous_requests_are_refused(lasting, text):
    """With 400 and the end of the connection, so that what follows is never a request."""
    connection = lasting.connect()
    connection.send(lasting.fill(text + GET))
    status, headers, body = connection.answer()
    assert (status, headers["connection"]) == (400, "close"), (status, body)
    assert errors(body)
    assert connection.is_closed()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost",
                                  "127.0.0.1:1", "localhost.:{port}", "127.0.0.1.evil:{port}",
                                  "0.0.0.0:{port}", "[::1]:1", ":{port}"])
def test_a_host_that_is_not_ours(lasting, host):
    text = GET.replace("HOST", host.format(port=lasting.port))
    status, headers, body = lasting.request(text)
    assert (status, headers["connection"]) == (421, "close") and errors(body)


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LocalHost:{port}",
                                  "[::1]:{port}"])
def test_a_host_that_is_ours(lasting, host):
    assert lasting.request(GET.replace("HOST", host.format(port=lasting.port)))[0] == 200


def test_other_versions(lasting):
    status, _, body = lasting.request(GET.replace("HTTP/1.1", "HTTP/2.0"))
    assert status == 505 and errors(body)


def test_a_head_may_have_16_kib(lasting):
    text = lasting.fill(GET)
    room = 16 * 1024 - len(text) - len("X: \r\n")
    padded = GET.replace("\r\n\r\n", f"\r\nX: {'a' * room}\r\n\r\n")
    assert lasting.request(padded)[0] == 200
    status, _, body = lasting.request(padded.replace("X: ", "X: a"))
    assert status == 431 and errors(body)


def test_a_head_may_have_64_fields(lasting):
    padded = GET.replace("\r\n\r\n", "\r\n" + "X: y\r\n" * 63 + "\r\n")
    assert lasting.request(padded)[0] == 200
    status, _, body = lasting.request(padded.replace("X: y\r\n", "X: y\r\nX: y\r\n", 1))
    assert status == 431 and errors(body)


@pytest.mark.parametrize("more", ["Content-Length: 4194305\r\n\r\n",
                                  "Transfer-Encoding: chunked\r\n\r\n400001\r\n"])
def test_a_body_has_a_limit(lasting, more):
    status, headers, body = lasting.request(HEAD + more)
    assert (status, headers["connection"]) == (413, "close") and errors(body)


def test_a_refusal_is_not_cut_short(lasting):
    """To close on a client that is still sending would reset the connection under the answer."""
    connection = lasting.connect()
    connection.socket.sendall(lasting.fill(HEAD + "Content-Length: 9999999\r\n\r\n"))
    for _ in range(100):
        connection.socket.sendall(b"x" * 10000)
    while more := connection.socket.recv(65536):
        connection.bytes += more
    assert connection.answer()[0] == 413


def test_a_body_at_the_limit(lasting):
    connection = lasting.connect()
    connection.send(lasting.fill(HEAD + "Content-Length: 4194304\r\n\r\n") + b"x" * 4194304)
    assert connection.answer()[0] == 200


def test_answers_that_are_not_read_stop_the_reading(lasting):
    """A client that only sends is held back; it gets every answer when it reads at last."""
    connection = lasting.connect()
    request = lasting.fill(GET)
    connection.socket.setblocking(False)
    sent = 0
    try:
        while sent < 1 << 26:
            sent += connection.socket.send((request * 1000)[sent % len(request):])
        pytest.fail("64 MB of requests were taken without an answer being read")
    except BlockingIOError:
        pass
    connection.socket.settimeout(DEADLINE_S)
    for _ in range(sent // len(request)):
        assert connection.answer()[0] == 200


SLOW = {
    "nothing of the head but its start": "GET /hea",
    "a head without its end": HEAD,
    "a body without its end": HEAD + "Content-Length: 5\r\n\r\nab",
    "a chunk without its end": HEAD + "Transfer-Encoding: chunked\r\n\r\n5\r\nab",
}


@pytest.mark.parametrize("text", SLOW.values(), ids=SLOW.keys())
def test_a_slow_client_is_cut_off(start, text):
    server = start("--http-timeout-ms", 100)
    connection = server.connect()
    connection.send(server.fill(text))
    status, headers, body = connection.answer()
    assert (status, headers["connection"]) == (408, "close") and errors(body)
    assert connection.is_closed()
    assert server.stop() == 0


def test_trickling_does_not_help(start):
    """Bytes that come one by one do not prolong the time that a head has."""
    server = start("--http-timeout-ms", 300)
    connection = server.connect()
    began = time.monotonic()
    connection.send(server.fill(HEAD))
    connection.socket.settimeout(0.02)
    while b"\r\n\r\n" not in connection.bytes:
        assert time.monotonic() - began < DEADLINE_S
        connection.send(b"X: y\r\n")
        try:
            connection.read_more()
        except TimeoutError:
            pass
    assert connection.bytes.startswith(b"HTTP/1.1 408 ")


@pytest.mark.slow
def test_each_head_has_its_own_time(start):
    """A connection on which a head has always begun is not slow while each one ends in time."""
    server = start("--http-timeout-ms", 3000)
    connection = server.connect()
    request = server.fill(GET)
    began = time.monotonic()
    connection.send(request[:1])
    while time.monotonic() - began < 3.3:
        connection.send(request[1:] + request[:1])
        assert connection.answer()[0] == 200


def test_an_idle_connection_is_not_slow(start):
    """The time for a head starts with its first byte."""
    server = start("--http-timeout-ms", 50)
    idle, slow = server.connect(), server.connect()
    slow.send(b"G")
    assert slow.answer()[0] == 408  # so much time has passed
    idle.send(server.fill(GET))
    assert idle.answer()[0] == 200


def test_many_connections_at_once(server):
    connections = [server.connect() for _ in range(200)]
    for connection in connections:
        connection.send(server.fill(GET))
    assert all(connection.answer()[0] == 200 for connection in connections)


def few_files():
    """Of 200 descriptors a quarter is kept back, and some for commands and for refusals."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))


def test_connections_beyond_the_maximum_are_told(tmp_path):
    server = Server("--data", tmp_path / "data", preexec_fn=few_files)
    try:
        server.start()
        held = [server.connect()]
        held[0].send(server.fill(GET))
        while held[-1].answer()[0] == 200:
            assert len(held) < 150
            held.append(server.connect())
            held[-1].send(server.fill(GET))
        assert len(held) > 50
        for _ in range(3):
            status, headers, body = server.request(GET)
            assert (status, headers["connection"]) == (503, "close")
            assert errors(body) == ["too many connections"]
        for connection in held:
            connection.close()
        wait_until(lambda: server.request(GET)[0] != 503, "the server to see them close")
        assert server.stop() == 0
    finally:
        server.kill()


def test_a_flood_of_connections_is_survived(tmp_path):
    """Far more than there are descriptors; the server answers again when they are gone."""
    server = Server("--data", tmp_path / "data", preexec_fn=few_files)
    try:
        server.start()
        held = [server.connect() for _ in range(400)]
        for connection in held:
            connection.close()

        def answered():
            connection = server.connect()
            connection.send(server.fill(GET))
            head = connection.read_to_end_of_head()
            connection.close()
            return head.startswith(b"HTTP/1.1 200 ")

        wait_until(answered, "an answer")
        assert server.stop() == 0
    finally:
        server.kill()
