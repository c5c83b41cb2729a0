"""Under a service manager: what it is told (sd_notify), the watchdog, and sockets that it passes on."""

import contextlib
import fcntl
import http.client
import os
import pathlib
import re
import signal
import socket
import ssl
import time

import pytest
from batch_api import Api
from certificates import Authority
from conftest import DEADLINE_S, OnEnsemble, Server, call, wait_until
from test_task_durable import compile_library, preloaded

ABOVE_ALL = 50  # descriptors that do not collide with those that are passed


class Manager:
    """What systemd does for a service: listens to it, and passes sockets on."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address.replace("@", "\0"))
        self.socket.settimeout(DEADLINE_S)
        self.environment = {"NOTIFY_SOCKET": address}
        self.said = []

    def hear(self):
        """The next message: its lines."""
        message = self.socket.recv(65536).decode()
        assert message.endswith("\n")
        self.said.append(message.splitlines())
        return self.said[-1]

    def wait_for(self, line):
        """Returns the message that has the line."""
        message = self.hear()
        while not any(re.fullmatch(line, said) for said in message):
            message = self.hear()
        return message

    def silence(self, line, seconds):
        """Whether no message has the line for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            with contextlib.suppress(TimeoutError):
                if line in self.hear():
                    return False
        self.socket.settimeout(DEADLINE_S)
        return True


@pytest.fixture(params=["path", "abstract"])
def any_manager(request, tmp_path):
    name = tmp_path / "notify"
    manager = Manager(str(name) if request.param == "path" else f"@{name}")
    yield manager
    manager.socket.close()


@pytest.fixture
def manager(tmp_path):
    one = Manager(str(tmp_path / "notify"))
    yield one
    one.socket.close()


@pytest.fixture
def under(tmp_path):
    """Starts servers under a manager, which have to end cleanly."""
    servers = []

    def start_one(manager, *arguments, env=None, **more):
        environment = (env or os.environ) | manager.environment | {k: str(v) for k, v in more.items()}
        servers.append(Server("--data", tmp_path / "data", *arguments, env=environment))
        return servers[-1]

    yield start_one
    for server in servers:
        if server.process.poll() is None:
            assert server.stop() == 0, server.said
        server.kill()


# Notification.

def test_ready_and_stopping(any_manager, under, tmp_path):
    server = under(any_manager)
    message = any_manager.wait_for("READY=1")
    server.start()
    assert f"STATUS=serving http://127.0.0.1:{server.port}" in message
    assert call(server.port, "GET", "/readyz")[0] == 200
    assert server.stop() == 0
    assert any_manager.wait_for("STOPPING=1") == ["STOPPING=1", "STATUS=stopping"]
    under(any_manager)
    message = any_manager.wait_for(f"STATUS=reading {tmp_path}/data/journal-.*")
    assert message[0] == "EXTEND_TIMEOUT_USEC=300000000"
    any_manager.wait_for("READY=1")


def test_ready_without_http(manager, under):
    server = under(manager, "--http", "none")
    message = manager.wait_for("READY=1")
    server.start()
    assert f"STATUS=serving zk://127.0.0.1:{server.zk_port}" in message


def test_a_failed_start_says_why(manager, under, tmp_path):
    """On one line: a name in it cannot add another one."""
    (tmp_path / "a\nMAINPID=1").write_text("")
    server = under(manager, "--data", tmp_path / "a\nMAINPID=1/data")
    assert server.wait() == 1
    message = manager.wait_for("STOPPING=1")
    assert len(message) == 2 and "a\\nMAINPID=1" in message[1]


def test_reload(manager, under, tmp_path):
    config = tmp_path / "drover.conf"
    config.write_text("waits 10\n")
    server = under(manager, "--config", config)
    manager.wait_for("READY=1")
    server.start()
    for text, end in (("waits 11\n", ""), ("wait 12\n", "; the last reload failed: see the log")):
        config.write_text(text)
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        server.signal(signal.SIGHUP)
        message = manager.hear()
        [at] = [int(line[15:]) for line in message if line.startswith("MONOTONIC_USEC=")]
        assert "RELOADING=1" in message
        assert before <= at <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        assert manager.hear() == ["READY=1", f"STATUS=serving http://127.0.0.1:{server.port}{end}"]


@pytest.mark.skipif("DROVER_CHECK" in os.environ, reason="starts a JVM")
def test_ready_on_an_ensemble(manager, zookeeper):
    """Not before it leads, or knows who does."""
    server = OnEnsemble(zookeeper.url("/notify"), env=os.environ | manager.environment)
    try:
        server.start()
        manager.wait_for("READY=1")
        assert call(server.port, "GET", "/readyz")[0] == 200
    finally:
        server.kill()


def test_a_manager_that_is_gone(manager, under):
    manager.socket.close()
    server = under(manager)
    server.wait_for("warning cannot notify the service manager: ")
    server.start()
    assert server.stop() == 0
    assert server.said.count("cannot notify") == 1


@pytest.mark.parametrize("address", ["notify", "", "/" + 120 * "x", "@"])
def test_an_address_that_is_none(tmp_path, under, manager, address):
    manager.environment = {"NOTIFY_SOCKET": address}
    server = under(manager)
    server.wait_for("is no address of a Unix socket: nobody is notified")
    server.start()


# The watchdog.

def test_watchdog(manager, under):
    server = under(manager, WATCHDOG_USEC=100000)
    manager.wait_for("READY=1")
    server.start()
    for _ in range(3):
        assert manager.hear() == ["WATCHDOG=1"]
    server.signal(signal.SIGSTOP)
    while manager.silence("WATCHDOG=1", 0.5) is False:
        pass
    server.signal(signal.SIGCONT)
    manager.wait_for("WATCHDOG=1")


@pytest.mark.parametrize("more", [{"WATCHDOG_PID": 1}, {"WATCHDOG_USEC": "x"}, {"WATCHDOG_USEC": 0}])
def test_a_watchdog_of_another_process(manager, under, more):
    under(manager, **{"WATCHDOG_USEC": 10000} | more)
    manager.wait_for("READY=1")
    assert manager.silence("WATCHDOG=1", 0.3)


def test_a_watchdog_without_a_journal(manager, under):
    server = under(manager, "--journal", "none", WATCHDOG_USEC=50000)
    manager.wait_for("READY=1")
    server.start()
    for _ in range(3):
        assert call(server.port, "POST", "/update", {"clientid": 1, "adds": [{"group": "g"}]})[0] == 200
        manager.wait_for("WATCHDOG=1")


def test_the_watchdog_hears_nothing_while_the_journal_hangs(manager, under, tmp_path):
    """The loop turns, but a disk that does not answer is no server either."""
    hold = tmp_path / "hold"
    hold.mkdir()
    library = compile_library(tmp_path, "hold_sync")
    server = under(manager, WATCHDOG_USEC=100000, env=preloaded(library, DROVER_TEST_HOLD=str(hold)))
    manager.wait_for("READY=1")
    server.start()
    manager.wait_for("WATCHDOG=1")
    (hold / "hold").touch()
    try:
        body = '{"clientid":1,"adds":[{"group":"g"}]}'
        writer = server.connect()
        # Two at once: a single change may be written by the loop itself, which would not turn then.
        writer.send(2 * server.fill("POST /update HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"
                                    f"Content-Length: {len(body)}\r\n\r\n{body}"))
        wait_until((hold / "entered").exists, "a sync")
        wait_until(lambda: manager.silence("WATCHDOG=1", 0.5), "it is silent")
        assert call(server.port, "GET", "/healthz")[0] == 200
    finally:
        (hold / "hold").unlink()
    assert [writer.answer()[0] for _ in range(2)] == [200, 200]
    manager.wait_for("WATCHDOG=1")


# Sockets that were opened before.

class Activated(Server):
    """A server that gets sockets: a list of names and sockets."""

    def __init__(self, *arguments, sockets, pid="$$", **variables):
        fds = [fcntl.fcntl(s.fileno(), fcntl.F_DUPFD, ABOVE_ALL) for _, s in sockets]
        moves = " ".join(f"{3 + i}<&{fd} {fd}<&-" for i, fd in enumerate(fds))
        self.prefix = ["bash", "-c", f'LISTEN_PID={pid} exec "$@" {moves}', "-"]
        listen = {"LISTEN_FDS": str(len(sockets)), "LISTEN_FDNAMES": ":".join(n for n, _ in sockets)}
        super().__init__(*arguments, env=os.environ | listen | variables, pass_fds=fds)
        for fd in fds:
            os.close(fd)


def listening(address="127.0.0.1", family=socket.AF_INET):
    one = socket.socket(family)
    one.bind((address, 0) if family != socket.AF_UNIX else str(address))
    one.listen()
    return one


def port_of(one):
    return one.getsockname()[1]


@contextlib.contextmanager
def activated(*arguments, sockets, **more):
    server = Activated(*arguments, sockets=sockets, **more)
    try:
        yield server
        if server.process.poll() is None:
            assert server.stop() == 0, server.said
    finally:
        server.kill()


def test_every_kind_of_socket(tmp_path):
    """The server uses what it gets, and binds nothing in its place. A client may connect before."""
    path = tmp_path / "s"
    cert, key = Authority(tmp_path).issue("localhost")
    names = ["socket", "http", "zk", "https", "zk-tls", "http"]
    sockets = [(name, listening(path, socket.AF_UNIX) if name == "socket" else listening()) for name in names]
    ports = [port_of(s) for _, s in sockets[1:]]
    early = http.client.HTTPConnection("127.0.0.1", ports[0], timeout=DEADLINE_S)
    early.request("GET", "/healthz")
    with activated("--data", tmp_path / "data", "--tls-cert", cert, "--tls-key", key, "--socket",
                   tmp_path / "other", "--zk", "none", sockets=sockets) as server:
        server.wait_for(r"listening on zks://.*\n")
        said = re.findall(r"listening on (\w+:.*)\n", server.said)
        assert said == [f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[4]}",
                        f"https://127.0.0.1:{ports[2]}", f"unix:{path}", f"zk://127.0.0.1:{ports[1]}",
                        f"zks://127.0.0.1:{ports[3]}"]
        assert early.getresponse().status == 200
        assert call(ports[4], "GET", "/readyz")[0] == 200
        for port in (ports[2], ports[3]):  # TLS, and a client that does not speak it is refused
            trust = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
            with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as plain, \
                    trust.wrap_socket(plain, server_hostname="127.0.0.1"):
                pass
        with socket.create_connection(("127.0.0.1", ports[1]), timeout=DEADLINE_S) as words:
            words.sendall(b"ruok")
            assert words.recv(16) == b"imok"
        with socket.socket(socket.AF_UNIX) as local:
            local.connect(str(path))
            local.sendall(b"GET /v1/tokens HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 200 " in local.recv(65536)
        assert not (tmp_path / "other").exists()
    early.close()
    assert path.exists()  # it is the manager's


def test_commands_inherit_nothing(tmp_path, manager):
    """A command that gets the server's environment is told of neither sockets nor managers."""
    out = tmp_path / "env"
    more = manager.environment | {"WATCHDOG_USEC": "1000000", "OTHER": "kept"}
    with activated("--data", tmp_path / "data", "--on-batch-done", f"env > {out}.tmp; mv {out}.tmp {out}",
                   sockets=[("http", listening())], **more) as server:
        api = Api(server.start().port)
        fd = pathlib.Path(f"/proc/{server.process.pid}/fdinfo/3").read_text()
        assert int(re.search(r"flags:\s*(\d+)", fd)[1], 8) & os.O_CLOEXEC
        api.drive(api.job(api.batch()))
        wait_until(out.exists, "the command has run")
        assert "OTHER=kept" in out.read_text()
        assert not re.search("LISTEN_|NOTIFY_|WATCHDOG_", out.read_text())


def test_sockets_of_another_process(tmp_path):
    one = listening()
    with activated("--data", tmp_path / "data", sockets=[("http", one)], pid="1") as server:
        assert server.start().port != port_of(one)


def not_listening():
    one = socket.socket()
    one.bind(("127.0.0.1", 0))
    return one


WRONG = {
    "no name": ("", listening, [], "descriptor 3 was passed as ''"),
    "another name": ("drover.socket", listening, [], "as 'drover.socket': the name (FileDescriptorName=) must be "
                     "http, https, zk, zk-tls or socket"),
    "datagrams": ("http", lambda: socket.socket(type=socket.SOCK_DGRAM), [],
                  "descriptor 3 was passed as http, but is no listening TCP socket"),
    "not listening": ("zk", not_listening, [], "passed as zk, but is no listening TCP socket"),
    "TCP for Unix": ("socket", listening, [], "passed as socket, but is no listening Unix socket"),
    "a file": ("http", lambda: open("/dev/null"), [], "is no listening TCP socket"),
    "every address": ("http", lambda: listening("0.0.0.0"), [], "--http: an address other than loopback needs TLS"),
    "zk on every address": ("zk", lambda: listening("0.0.0.0"), [], "--zk: an address other than loopback needs TLS"),
    "https without a certificate": ("https", listening, [], "--https needs --tls-cert and --tls-key"),
    "zk beside an ensemble": ("zk", listening, ["--zk", "none", "--keeper", "zk://127.0.0.1:1/x"],
                              "a socket was passed as zk, which does not go with --keeper"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_sockets(tmp_path, case):
    name, make, arguments, what = WRONG[case]
    data = [] if "--keeper" in arguments else ["--data", tmp_path / "data"]
    with make() as one, activated(*data, *arguments, sockets=[(name, one)]) as server:
        assert server.wait() == 2
        assert what in server.said
        assert not (tmp_path / "data").exists()


def test_a_unix_socket_for_http(tmp_path):
    with listening(tmp_path / "s", socket.AF_UNIX) as one, \
            activated("--data", tmp_path / "data", sockets=[("http", one)]) as server:
        assert server.wait() == 2
        assert "passed as http, but is no listening TCP socket" in server.said


@pytest.mark.parametrize("number", ["x", "-1", "99"])
def test_a_wrong_number_of_sockets(tmp_path, number):
    with activated("--data", tmp_path / "data", sockets=[("http", listening())], LISTEN_FDS=number) as server:
        assert server.wait() == 2
        assert f"$LISTEN_FDS: '{number}' is not a number up to" in server.said


def test_reload_keeps_the_sockets(tmp_path):
    """The options are read again without them, and must not be found wrong for that."""
    cert, key = Authority(tmp_path).issue("localhost")
    config = tmp_path / "drover.conf"
    config.write_text("waits 10\n")
    with activated("--data", tmp_path / "data", "--config", config, "--tls-cert", cert, "--tls-key", key,
                   sockets=[("https", listening())]) as server:
        server.start()
        config.write_text("waits 11\n")
        server.signal(signal.SIGHUP)
        assert server.wait_for("reload: (.*)\n")[1] == "waits"


def test_as_many_addresses_as_there_can_be(tmp_path):
    """Eight of each kind, and the Unix socket."""
    cert, key = Authority(tmp_path).issue("localhost")
    addresses = [f"--{kind}=127.0.0.1:0" for kind in ("http", "https") for _ in range(8)]
    with activated("--data", tmp_path / "data", "--tls-cert", cert, "--tls-key", key, "--http", "none",
                   "--socket", tmp_path / "s", *addresses, sockets=[]) as server:
        server.wait_for("listening on zk:")
        assert len(re.findall("listening on (?:https?|unix):", server.said)) == 17
