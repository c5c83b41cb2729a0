"""HTTP: which requests are allowed, what answers reveal about the server, and what it logs."""

import json
import re
import socket

import pytest

from conftest import Server, drover, errors

TOKEN = "correct-horse-battery-staple"


def get(target, **headers):
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"GET {target} HTTP/1.1\r\nHost: HOST\r\n{lines}\r\n"


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return path


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """One server for all that only ask."""
    directory = tmp_path_factory.mktemp("guarded")
    (directory / "token").write_text(TOKEN + "\nthe rest is not looked at\n")
    server = Server("--data", directory / "data", "--token-file", directory / "token").start()
    yield server
    assert server.stop() == 0, server.said
    assert TOKEN not in server.said
    server.kill()


def test_a_token_opens(guarded):
    assert guarded.request(get("/readyz", Authorization=f"Bearer {TOKEN}"))[0] == 200
    assert guarded.request(get("/readyz", Authorization=f"bearer {TOKEN}"))[0] == 200


WRONG = ["", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Bearer x{TOKEN}", TOKEN,
         f"Basic {TOKEN}", f"Bearer {TOKEN.upper()}", f"Bearer {TOKEN}{TOKEN}", "Bearer " + "a" * 9000]


@pytest.mark.parametrize("value", WRONG, ids=range(len(WRONG)))
@pytest.mark.parametrize("target", ["/readyz", "/metrics", "/v1", "/v1/events", "/no/such/path"])
def test_nothing_else_does(guarded, target, value):
    status, headers, body = guarded.request(get(target, Authorization=value))
    assert (status, headers["www-authenticate"]) == (401, "Bearer") and errors(body)


def test_health_is_open(guarded):
    assert guarded.request(get("/healthz"))[0] == 200


@pytest.mark.parametrize("content", ["", "\n", "short\n", "x" * 1025 + "\n", "with a space in it\n",
                                     "\tcontrol-characters\n"])
def test_a_bad_token_file_stops_the_start(tmp_path, content):
    path = tmp_path / "token"
    path.write_text(content)
    done = drover("serve", "--data", tmp_path / "data", "--token-file", path)
    assert done.returncode == 1 and "does not begin with a token" in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_missing_token_file_stops_the_start(tmp_path):
    done = drover("serve", "--data", tmp_path / "data", "--token-file", tmp_path / "none")
    assert done.returncode == 1 and "cannot read" in done.stderr


def any_address(tmp_path, *more):
    """A server on every address. The last --http counts."""
    server = Server("--data", tmp_path / "data", "--http", "0.0.0.0:0", "--insecure-network", *more)
    server.port = int(server.wait_for(r"listening on http://0\.0\.0\.0:(\d+)\n")[1])
    return server


def test_every_address_with_a_token(tmp_path, token_file):
    """The Host is the address that the client came to, or a name that was given."""
    server = any_address(tmp_path, "--token-file", token_file, "--http-host", "drover.example",
                         "--http-host", "other.example:444")
    hosts = {f"127.0.0.1:{server.port}": 200, f"localhost:{server.port}": 200,
             "drover.example": 200, f"DROVER.example:{server.port}": 200, "other.example:444": 200,
             "other.example": 421, "drover.example:1": 421, "evil.example": 421,
             f"10.1.2.3:{server.port}": 421}
    try:
        for host, expected in hosts.items():
            text = get("/readyz", Authorization=f"Bearer {TOKEN}").replace("HOST", host)
            assert server.request(text)[0] == expected, host
        assert server.stop() == 0
    finally:
        server.kill()


def test_a_page_from_elsewhere_changes_nothing(server):
    """Requests that a form or a script can send without a preflight are refused; preflights too."""
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]:
        status, headers, body = server.request(
            f"POST /v1/sessions HTTP/1.1\r\nHost: HOST\r\nOrigin: http://evil.example\r\n"
            f"Content-Type: {kind}\r\nContent-Length: 2\r\n\r\n{{}}")
        assert status == 415 and errors(body)
    status, headers, _ = server.request(
        "OPTIONS /v1/sessions HTTP/1.1\r\nHost: HOST\r\nOrigin: http://evil.example\r\n"
        "Access-Control-Request-Method: PUT\r\n\r\n")
    assert status == 405
    assert not [name for name in headers if name.startswith("access-control")]


def test_readyz(server):
    assert server.request(get("/readyz"))[0] == 200


def test_v1_lists_the_api(server):
    status, _, body = server.request(get("/v1"))
    rows = json.loads(body)
    assert status == 200
    assert {"method": "GET", "path": "/healthz", "summary": "Tell whether the server runs"} in rows
    assert all(row["summary"] for row in rows)
    assert len({(row["method"], row["path"]) for row in rows}) == len(rows)


SAMPLE = re.compile(r'([a-z_]+)(\{(?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*\})? (\S+)')


def samples(server):
    """The page, checked line by line: name with labels -> value."""
    status, headers, body = server.request(get("/metrics"))
    assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
    types, found, seen = {}, {}, []
    for line in body.decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, "a family stands twice"
            types[name] = kind
            seen.append(name)
        elif not line.startswith("# HELP "):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            family = re.sub("_(bucket|sum|count)$", "", name)
            assert name == seen[-1] or (family == seen[-1] and types[family] == "histogram")
            assert name + (labels or "") not in found
            found[name + (labels or "")] = float(value)
    return found


def test_metrics_count_requests(server):
    for _ in range(3):
        server.request(get("/healthz"))
    server.request(get("/nope"))
    page = samples(server)
    assert page['drover_http_requests_total{method="GET",route="/healthz",code="2xx"}'] == 3
    assert page['drover_http_requests_total{method="",route="",code="4xx"}'] == 1
    assert page['drover_http_request_seconds_count{method="GET",route="/healthz"}'] == 3
    buckets = [value for name, value in page.items()
               if name.startswith('drover_http_request_seconds_bucket{method="GET",route="/healthz"')]
    assert buckets == sorted(buckets) and buckets[-1] == 3
    assert page["drover_http_connections"] >= 1
    assert page["drover_ready"] == 1


def test_metrics_tell_of_the_journal(server):
    before = samples(server)
    server.request("POST /v1/sessions HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"
                   "Content-Length: 2\r\n\r\n{}")
    after = samples(server)
    for name in ["drover_journal_records_total", "drover_journal_bytes_total",
                 "drover_journal_syncs_total", "drover_keeper_zxid", "drover_keeper_sessions"]:
        assert after[name] > before[name], name
    assert after["drover_keeper_durable_zxid"] >= before["drover_keeper_durable_zxid"]


def test_events_say_what_they_are(server):
    connection = server.connect()
    connection.send(server.fill(get("/v1/events")))
    head = connection.read_to_end_of_head().decode().lower()
    assert head.startswith("http/1.1 200 ") and "content-type: text/event-stream\r\n" in head


def test_log_json(tmp_path):
    server = Server("--data", tmp_path / "data", "--log", "json", "--loopback-roles", "read",
                    "--jobs", 0)
    server.wait_for("listening on zk")
    assert server.stop() == 0
    lines = [json.loads(line) for line in server.said.splitlines()]
    server.kill()
    assert {line["level"] for line in lines} == {"info"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    assert any(line["message"].startswith("listening on http://") for line in lines)


def test_a_port_that_is_taken_is_said_in_json(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = drover("serve", "--data", tmp_path / "data", "--log", "json", "--http",
                      f"127.0.0.1:{taken.getsockname()[1]}")
    line = json.loads(done.stderr)
    assert done.returncode == 1
    assert line["level"] == "error" and line["message"].startswith("cannot listen on")
