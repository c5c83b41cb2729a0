"""What the end-to-end tests share: the real binary, run in a directory and on a port of its own.

Tests do not sleep: they read what a server says, or wait_until() something holds, with a deadline.
"""

import http.client
import itertools
import json
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/zookeeper"))

import zk  # noqa: E402
from wait import DEADLINE_S, wait_until  # noqa: E402, F401: for the tests

BINARY = os.environ.get("DROVER", str(ROOT / "build-asan/drover"))
KEEPER_ONLY = ["--http", "none"]  # the last arguments of a server that leaves its tree alone
ANY_PORTS = ["--http", "127.0.0.1:0", "--zk", "127.0.0.1:0", "--socket", "none"]
EVERY_ROLE = ["--loopback-roles", "all"]  # most tests are not about rights
NUMBERS = itertools.count(1)
# Nothing of this machine: neither its configuration file nor its variables.
for name in [name for name in os.environ if name.startswith("DROVER_SERVE_")]:
    del os.environ[name]
os.environ["DROVER_SERVE_CONFIG"] = "none"
KEPT_S = 30  # the server closes connections that are idle for a minute


def drover(*arguments, **more):
    """Runs a command to its end."""
    return subprocess.run([BINARY, *map(str, arguments)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=DEADLINE_S, **more)


LOG_LINE = re.compile(r"(?:drover: |\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d (debug|info|warning|error) )"
                      r"(.*)")


def sentences(said):
    """The lines of a log without their times and levels, or of a command without its name."""
    matches = [LOG_LINE.fullmatch(line) for line in said.splitlines()]
    assert all(matches), said
    return [match[2] for match in matches]


class Connection:
    """A socket to the server that sends bytes as they are and reads answers one by one."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        self.bytes = b""

    def send(self, data):
        """A server that refuses may close before it has read everything; its answer decides."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def read_more(self):
        """Reads once. False at the end."""
        try:
            more = self.socket.recv(65536)
        except ConnectionResetError:
            more = b""
        self.bytes += more
        return bool(more)

    def read_to_end(self):
        while self.read_more():
            pass
        return self.bytes

    def read_to_end_of_head(self):
        """Reads up to the end of a head, or of the stream."""
        while b"\r\n\r\n" not in self.bytes and self.read_more():
            pass
        return self.bytes

    def answer(self, to_head=False):
        """The next answer: status, headers in lower case, body."""
        while b"\r\n\r\n" not in self.bytes:
            assert self.read_more(), f"closed in the middle of a head: {self.bytes!r}"
        head, self.bytes = self.bytes.split(b"\r\n\r\n", 1)
        status_line, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        if "chunked" in headers.get("transfer-encoding", "") and not to_head:
            body = b"".join(iter(self.chunk, b""))
        else:
            body = self.take(0 if to_head else int(headers["content-length"]))
        return int(status_line.split()[1]), headers, body

    def take(self, length):
        """So many bytes of a body."""
        while len(self.bytes) < length:
            assert self.read_more(), f"closed in the middle of a body: {self.bytes!r}"
        taken, self.bytes = self.bytes[:length], self.bytes[length:]
        return taken

    def chunk(self):
        """The next chunk; empty at the end."""
        while b"\r\n" not in self.bytes:
            assert self.read_more(), f"closed in the middle of a body: {self.bytes!r}"
        size, self.bytes = self.bytes.split(b"\r\n", 1)
        return self.take(int(size, 16) + 2)[:-2]

    def is_closed(self):
        """Whether the server closes, without having said anything more."""
        return self.read_to_end() == b""

    def close(self):
        self.socket.close()


class Http:
    """A client that speaks JSON over one connection, or another one if that was idle for long. headers: of the
    last answer."""

    def __init__(self, port, timeout=DEADLINE_S, **headers):
        self.port = port
        self.always = {"Content-Type": "application/json"} | headers
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        self.used = 0

    def send(self, method, path, body=None, headers=None):
        """Status and parsed body. A body of bytes is sent as it is."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if time.monotonic() - self.used > KEPT_S:
            self.connection.close()  # the request opens it again
        self.connection.request(method, path, body, headers or self.always)
        answer = self.connection.getresponse()
        self.headers, text = answer.headers, answer.read()
        self.used = time.monotonic()
        return answer.status, json.loads(text) if text else None

    def close(self):
        self.connection.close()


def call(port, method, path, body=None, **more):
    """One request on a connection of its own: status and parsed body."""
    client = Http(port, **more)
    try:
        return client.send(method, path, body)
    finally:
        client.close()


class Server:
    """A running `drover serve`."""

    prefix: list[str] = []  # of its command line

    def __init__(self, *arguments, **more):
        rights = [] if {"--token-file", "--loopback-roles"} & set(arguments) else EVERY_ROLE
        command = [*self.prefix, BINARY, "serve", *ANY_PORTS, *rights, *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        **more)
        self.keeper_only = list(arguments[-2:]) == KEEPER_ONLY
        self.said = ""
        self.connections = []

    def wait_for(self, pattern):
        """Reads what the server says until it matches; returns the match."""
        deadline = time.monotonic() + DEADLINE_S
        pipe = self.process.stderr.fileno()
        while not (found := re.search(pattern, self.said)):
            left = deadline - time.monotonic()
            assert left > 0 and select.select([pipe], [], [], left)[0], f"not said: {self.said}"
            more = os.read(pipe, 65536).decode()
            assert more, f"ended before it said {pattern!r}: {self.said}"
            self.said += more
        return found

    def start(self):
        if not self.keeper_only:
            self.port = int(self.wait_for(r"listening on http://127\.0\.0\.1:(\d+)\n")[1])
        self.zk_port = int(self.wait_for(r"listening on zk://127\.0\.0\.1:(\d+)\n")[1])
        return self

    def connect(self):
        connection = Connection(self.port)
        self.connections.append(connection)
        return connection

    def request(self, text, to_head=False):
        """One request on a connection of its own. HOST in the text becomes ours."""
        connection = self.connect()
        connection.send(self.fill(text))
        return connection.answer(to_head)

    def fill(self, text):
        return text.replace("HOST", f"127.0.0.1:{self.port}").encode("latin-1")

    def signal(self, number):
        os.kill(self.process.pid, number)

    def wait(self):
        """Waits for the end; returns the exit status."""
        rest = self.process.communicate(timeout=DEADLINE_S)[1]
        self.said += rest.decode()
        return self.process.returncode

    def stop(self):
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self):
        for connection in self.connections:
            connection.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()


class OnEnsemble(Server):
    """`drover serve --keeper URL`, which has no ZooKeeper port of its own."""

    def __init__(self, url, *arguments, **more):
        super().__init__("--zk", "none", "--keeper", url, *arguments, **more)
        self.url = url

    def start(self):
        self.port = int(self.wait_for(r"listening on http://127\.0\.0\.1:(\d+)\n")[1])
        return self

    def leads(self):
        self.wait_for("this server leads")
        return self


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes seconds; `make check` leaves it out")


@pytest.fixture
def start(tmp_path):
    """Starts servers, and ends whatever is left of them. The data directory is tmp_path/data."""
    servers = []

    def start_one(*arguments):
        server = Server("--data", tmp_path / "data", *arguments)
        servers.append(server)
        return server.start()

    yield start_one
    for server in servers:
        server.kill()


@pytest.fixture
def server(start):
    """One server, which has to end cleanly: the sanitizers speak at the end."""
    one = start()
    yield one
    assert one.stop() == 0, one.said


def errors(body):
    """The list in the body of an error, given as text or parsed, which must be a valid one."""
    parsed = body if isinstance(body, dict) else json.loads(body)
    assert list(parsed) in (["errors", "code"], ["errors", "code", "field"]), parsed
    assert parsed["errors"] and re.fullmatch("[A-Z_]+", parsed["code"]), parsed
    assert all(isinstance(line, str) and line for line in parsed["errors"])
    return parsed["errors"]


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory):
    """A real ZooKeeper, alone."""
    with zk.Ensemble(tmp_path_factory.mktemp("zookeeper")) as one:
        yield one


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory):
    """Three of them."""
    with zk.Ensemble(tmp_path_factory.mktemp("zookeeper"), nodes=3) as three:
        yield three


@pytest.fixture
def serve(ensemble):
    """Starts servers on a chroot of their own, which give up one another soon."""
    servers, chroot = [], f"/serve-{next(NUMBERS)}"

    def start_one(*arguments, timeout_ms=4000):
        servers.append(OnEnsemble(ensemble.url(chroot), "--zk-timeout-ms", timeout_ms, *arguments))
        return servers[-1].start()

    yield start_one
    for server in servers:
        server.kill()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 160 MiB, in memory."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "none", place],
                             capture_output=True)
    if mounted.returncode:
        pytest.skip("a file system cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill_disk(path):
    """A file that takes all the room there is."""
    with open(path, "wb", buffering=0) as file:
        try:
            while file.write(b"\0" * (1 << 20)):
                pass
        except OSError:
            pass
