"""TLS to the ensemble: zks://, on the ZooKeeper port of another server, and on a real ZooKeeper."""

import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import threading

import pytest

import zk
from certificates import Authority
from conftest import DEADLINE_S, OnEnsemble, Server, call, drover, wait_until
from driver import Driver


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


class Ensemble(Server):
    """A server whose port with TLS stands for an ensemble."""

    def __init__(self, directory, pair, *arguments, port=0):
        super().__init__("--data", directory, "--zk", "none", "--zk-tls", f"127.0.0.1:{port}",
                         "--tls-cert", pair[0], "--tls-key", pair[1], *arguments)

    def start(self):
        self.zk_port = int(self.wait_for(r"listening on zks://127\.0\.0\.1:(\d+)\n")[1])
        return self

    def url(self, chroot="/x", host="127.0.0.1"):
        return f"zks://{host}:{self.zk_port}{chroot}"


@pytest.fixture
def serve():
    """Starts a server of a class, and ends it at last."""
    servers = []

    def start_one(kind, *arguments, **more):
        servers.append(kind(*arguments, **more))
        return servers[-1].start()

    yield start_one
    for server in servers:
        server.kill()


@pytest.fixture
def ensemble(serve, authority, tmp_path):
    return serve(Ensemble, tmp_path / "data", authority.issue("localhost", "localhost"))


def add(server, data):
    return call(server.port, "POST", "/update", {"clientid": 1, "adds": [{"group": "g", "data": data}]})


def test_end_to_end(serve, ensemble, authority, tmp_path):
    """Small and large changes, waiting claims, the end of a session, export and import, the doctor."""
    ca = ["--zk-ca", authority.path]
    long_session = ["--zk-timeout-ms", 300_000]
    server = serve(OnEnsemble, ensemble.url(host="localhost"), *ca, *long_session).leads()
    assert add(server, "x" * 900_000)[0] == 200
    status, tasks = call(server.port, "GET", "/group/g")
    assert status == 200 and tasks[0]["data"] == "x" * 900_000
    claimed = []
    waiting = threading.Thread(target=lambda: claimed.append(call(
        server.port, "POST", "/claim", {"clientid": 2, "group": "later", "duration": 1000, "wait": 60000})))
    waiting.start()
    assert call(server.port, "POST", "/update",
                {"clientid": 1, "adds": [{"group": "later", "data": "1"}]})[0] == 200
    waiting.join(DEADLINE_S)
    assert claimed and claimed[0][0] == 200
    assert server.stop() == 0, server.said
    # The session has ended with the server: otherwise the next one would wait for minutes.
    server = serve(OnEnsemble, ensemble.url(), *ca, *long_session).leads()
    assert server.stop() == 0, server.said

    exported = drover("export", "--keeper", ensemble.url(), *ca)
    assert exported.returncode == 0 and '"end"' in exported.stdout, exported.stderr
    (tmp_path / "file").write_text(exported.stdout)
    done = drover("import", tmp_path / "file", "--keeper", ensemble.url("/y"), *ca)
    assert done.returncode == 0, done.stderr

    done = drover("doctor", "--json", "--keeper", ensemble.url(), *ca)
    keeper = [f for f in json.loads(done.stdout)["findings"] if f["check"] == "keeper"]
    assert [f["level"] for f in keeper] == ["ok"] and "standalone" in keeper[0]["message"]
    done = drover("doctor", "--json", "--keeper", ensemble.url(), "--zk-ca", authority.issue("own")[0])
    keeper = [f for f in json.loads(done.stdout)["findings"] if f["check"] == "keeper"]
    assert keeper[0]["level"] == "error" and "issuer certificate" in keeper[0]["message"]
    assert ensemble.stop() == 0, ensemble.said


def test_workers_of_queues(serve, ensemble, authority):
    """The server names the ensemble, and the worker connects to it itself."""
    server = serve(OnEnsemble, ensemble.url(), "--zk-ca", authority.path).leads()
    url = f"http://127.0.0.1:{server.port}"
    assert call(server.port, "GET", "/v1/keeper")[1]["keeper"] == ensemble.url()
    queue = drover("queue", "create", "--server", url).stdout.strip()
    assert drover("queue", "post", queue, "hello", "--server", url).returncode == 0
    work = ["queue", "work", "--server", url, "--settle", "0s", "--until-empty"]
    done = drover(*work, "--zk-ca", authority.path, "--", "cat")
    assert done.returncode == 0 and "hello" in done.stdout, done.stderr
    done = drover(*work, "--", "cat")
    assert done.returncode == 1 and "certificate is not accepted" in done.stderr


def refused(url, *arguments):
    """What `drover export` says about an ensemble that it cannot use."""
    done = drover("export", "--keeper", url, *arguments)
    assert done.returncode == 1 and not done.stdout and len(done.stderr.splitlines()) == 1, done
    return done.stderr


def test_a_server_that_is_not_trusted(serve, ensemble, authority, tmp_path):
    """At once, not after the ten seconds that a server may take to answer."""
    ca = ["--zk-ca", authority.path]
    where = f"127.0.0.1:{ensemble.zk_port}: the server's certificate is not accepted: "
    assert where + "unable to get local issuer certificate" in refused(ensemble.url())
    foreign = Authority(tmp_path, "foreign")
    assert "issuer certificate" in refused(ensemble.url(), "--zk-ca", foreign.path)
    late = serve(Ensemble, tmp_path / "late", authority.issue("late", days=-1))
    assert "certificate has expired" in refused(late.url(), *ca)
    other = serve(Ensemble, tmp_path / "other", authority.issue("other", "other.example", addresses=()))
    assert "IP address mismatch" in refused(other.url(), *ca)
    assert "hostname mismatch" in refused(other.url(host="localhost"), *ca)
    done = drover("serve", "--http", "127.0.0.1:0", "--socket", "none", "--keeper", late.url(), *ca)
    assert done.returncode == 1 and "certificate has expired" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_certificates_of_clients(serve, authority, tmp_path):
    ensemble = serve(Ensemble, tmp_path / "data", authority.issue("localhost"),
                     "--tls-ca", authority.path, "--tls-verify", "required")
    ca = ["--zk-ca", authority.path]
    assert "TLS: " in refused(ensemble.url(), *ca) and "alert" in refused(ensemble.url(), *ca)
    cert, key = authority.issue("client")
    together = tmp_path / "both.pem"
    together.write_bytes(cert.read_bytes() + key.read_bytes())
    for pair in ["--zk-cert", cert, "--zk-key", key], ["--zk-cert", together]:
        done = drover("export", "--keeper", ensemble.url(), *ca, *pair)
        assert done.returncode == 0, done.stderr
    late = authority.issue("late", days=-1)
    assert "alert" in refused(ensemble.url(), *ca, "--zk-cert", late[0], "--zk-key", late[1])


@pytest.fixture
def driver():
    with Driver() as one:
        yield one


def test_what_is_not_tls(start, driver):
    server = start()
    url = f"zks://127.0.0.1:{server.zk_port}"
    said = driver.ask("connect", url, 10000, "-", 1500)
    assert any(text in said for text in ("during the TLS handshake", "TLS: ", "Connection reset by peer")), said


def test_no_server_listens(authority):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        done = drover("doctor", "--keeper", f"zks://127.0.0.1:{taken.getsockname()[1]}",
                      "--zk-ca", authority.path)
        assert "does not answer" in done.stdout


@pytest.mark.parametrize("command", ["serve", "export", "import", "doctor"])
def test_wrong_use(command, tmp_path, authority):
    words = {"serve": ["serve", "--http", "127.0.0.1:0", "--socket", "none"], "export": ["export"],
             "import": ["import", "file"], "doctor": ["doctor"]}[command]

    def says(text, *arguments):
        done = drover(*words, *arguments)
        assert done.returncode and text in done.stderr + done.stdout, done

    says("certificates and authorities go with zks://", "--keeper", "zk://h", "--zk-ca", "x")
    says("a key needs its certificate", "--keeper", "zks://h", "--zk-key", "x")
    says("a host is missing", "--keeper", "zks://")
    says("credentials do not go there", "--keeper", "zks://me:secret@host")
    if command != "import":
        says("--zk-cert goes with --keeper", "--zk-cert", "x")
    if command != "import":
        missing = ["--keeper", "zks://127.0.0.1:1", "--zk-ca"]
        says("cannot read", *missing, tmp_path / "missing")
        says("cannot use the certificate authorities", *missing, authority.issue("some")[1])


# The relay.

def ports_of(pid):
    """The TCP ports on which a process listens."""
    inodes = set()
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(os.readlink(link))
        except FileNotFoundError:
            pass
    rows = [line.split() for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].split(":")[1], 16) for row in rows
            if row[3] == "0A" and f"socket:[{row[9]}]" in inodes}


CONNECT = struct.pack(">iiqiqi16s", 44, 0, 0, 10000, 0, 16, b"\0" * 16)


def test_strangers_get_nothing(serve, ensemble, authority):
    """Another process that finds the port must not use our certificate, nor disturb."""
    server = serve(OnEnsemble, ensemble.url(), "--zk-ca", authority.path).leads()
    [port] = ports_of(server.process.pid) - {server.port}
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as stranger:
            try:
                stranger.sendall(CONNECT)
                assert stranger.recv(1) == b""
            except ConnectionError:
                pass
    assert add(server, "1")[0] == 200
    assert "TLS" not in server.said.replace("zks", "") and "session" not in server.said
    # The check itself is not what refuses everybody: the same bytes with TLS get a session.
    script = ("import socket,ssl,sys; c=ssl.create_default_context(cafile=sys.argv[2]);"
              "s=c.wrap_socket(socket.create_connection(('127.0.0.1',int(sys.argv[1]))),"
              "server_hostname='127.0.0.1'); s.sendall(bytes.fromhex(sys.argv[3])); print(len(s.recv(99)))")
    done = subprocess.run([sys.executable, "-c", script, str(ensemble.zk_port), authority.path, CONNECT.hex()],
                          capture_output=True, text=True, timeout=DEADLINE_S)
    assert int(done.stdout) >= 36, done.stderr


def test_renewed_certificates(serve, authority, tmp_path):
    """The ensemble comes back with a certificate of another authority: it is refused, once in the log, until
    the file has that authority too."""
    new = Authority(tmp_path, "new")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(authority.path.read_bytes())
    ensemble = serve(Ensemble, tmp_path / "data", authority.issue("localhost"))
    server = serve(OnEnsemble, ensemble.url(), "--zk-ca", trusted, "--zk-timeout-ms", 60000).leads()
    assert add(server, "1")[0] == 200
    assert ensemble.stop() == 0, ensemble.said
    back = serve(Ensemble, tmp_path / "data", new.issue("localhost"), port=ensemble.zk_port)
    server.wait_for("no TLS connection to .*certificate is not accepted")
    with open(trusted, "ab") as out:
        out.write(new.path.read_bytes())
    wait_until(lambda: add(server, "2")[0] == 200)
    assert server.said.count("is not accepted") == 1, server.said
    assert server.stop() == 0, server.said
    assert back.stop() == 0, back.said


def test_attempts_are_not_too_many(driver):
    """A server that breaks the handshake off is not asked again without a pause."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        count = []

        def refuse():
            while True:
                try:
                    client = listener.accept()[0]
                except OSError:
                    return
                with client:
                    client.recv(65536)  # the greeting: closing with bytes unread would be a reset
                count.append(1)

        thread = threading.Thread(target=refuse, daemon=True)
        thread.start()
        url = f"zks://127.0.0.1:{listener.getsockname()[1]}"
        said = driver.ask("connect", url, 10000, "-", 1500)
        assert "no server answered within 1500 ms" in said and "during the TLS handshake" in said
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(DEADLINE_S)
    assert 1 < len(count) < 50


# A real ZooKeeper.

@pytest.fixture(scope="module")
def real(tmp_path_factory, authority):
    """With Netty, which is what has TLS; it wants a certificate of each client."""
    directory = tmp_path_factory.mktemp("zookeeper")
    cert, key = authority.issue("zookeeper", "localhost")
    (directory / "store.pem").write_bytes(key.read_bytes() + cert.read_bytes())
    [port] = zk.free_ports(1)
    settings = {"serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "secureClientPort": port, "secureClientPortAddress": "127.0.0.1", "ssl.clientAuth": "need",
                "ssl.keyStore.location": directory / "store.pem", "ssl.keyStore.type": "PEM",
                "ssl.trustStore.location": authority.path, "ssl.trustStore.type": "PEM"}
    with zk.Ensemble(directory / "server", settings=settings) as one:
        one.tls_url = f"zks://localhost:{port}/drover"
        yield one


@pytest.mark.slow
def test_real_zookeeper(serve, real, authority):
    """It is killed and restarted meanwhile."""
    cert, key = authority.issue("client")
    files = ["--zk-ca", authority.path, "--zk-cert", cert, "--zk-key", key]
    server = serve(OnEnsemble, real.tls_url, *files, "--zk-timeout-ms", 20000).leads()
    assert add(server, "x" * 900_000)[0] == 200
    for _ in range(2):
        real.restart()
        wait_until(lambda: add(server, "more")[0] == 200)
    assert len(call(server.port, "GET", "/group/g")[1]) >= 3
    done = drover("doctor", "--json", "--keeper", real.tls_url, *files)
    assert any("standalone, version 3.8" in f["message"] for f in json.loads(done.stdout)["findings"])
    assert server.stop() == 0, server.said
    said = refused(real.tls_url, "--zk-ca", authority.path)
    assert "alert" in said or "without an answer" in said, said
    assert "issuer certificate" in refused(real.tls_url, "--zk-ca", cert, "--zk-cert", cert, "--zk-key", key)
