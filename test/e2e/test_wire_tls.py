"""The ZooKeeper port with TLS, and certificates of clients in access lists."""

import ssl
import subprocess

import kazoo.exceptions
import pytest
from certificates import Authority
from conftest import Connection, DEADLINE_S, wait_until
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import make_acl


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def serve_tls(start, authority):
    def start_one(*more):
        cert, key = authority.issue("localhost")
        server = start("--zk-tls", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key,
                       "--tls-ca", authority.path, *more)
        server.tls_port = int(server.wait_for(r"listening on zks://127\.0\.0\.1:(\d+)\n")[1])
        return server

    return start_one


@pytest.fixture
def connect(authority):
    clients = []

    def connect_one(port, pair=None, timeout=DEADLINE_S, ca=None):
        cert, key = map(str, pair) if pair else (None, None)
        client = KazooClient(f"127.0.0.1:{port}", use_ssl=True, ca=str(ca or authority.path),
                             certfile=cert, keyfile=key)
        clients.append(client)
        client.start(timeout=timeout)
        return client

    yield connect_one
    for client in clients:
        client.stop()
        client.close()


def test_kazoo(serve_tls, connect):
    server = serve_tls()
    client, seen = connect(server.tls_port), []
    client.create("/a", b"x" * 900_000)
    assert client.get("/a", watch=seen.append)[0] == b"x" * 900_000
    client.create("/a/b", ephemeral=True)
    client.set("/a", b"y")
    wait_until(lambda: seen)
    other = connect(server.tls_port)
    wait_until(lambda: other.get_children("/a") == ["b"])
    client.stop()
    wait_until(lambda: other.get_children("/a") == [])
    plain = KazooClient(f"127.0.0.1:{server.zk_port}")
    plain.start(timeout=DEADLINE_S)
    assert plain.get("/a")[0] == b"y"
    plain.stop()
    plain.close()
    other.stop()
    assert server.stop() == 0


def test_words(serve_tls, authority):
    server = serve_tls()
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.tls_port}",
                           "-CAfile", authority.path, "-quiet", "-ign_eof"], input="ruok",
                          capture_output=True, text=True, timeout=DEADLINE_S)
    assert "imok" in done.stdout, done.stderr


def test_access_lists_by_certificate(serve_tls, connect, authority):
    """As ZooKeeper's provider x509: the subject, in the form of RFC 2253."""
    server = serve_tls()
    ben = connect(server.tls_port, authority.issue("ben", organisation="Example, Inc"))
    eve = connect(server.tls_port, authority.issue("eve", organisation="Example, Inc"))
    subject = r"CN=ben,O=Example\, Inc"
    ben.create("/own", b"1", acl=[make_acl("x509", subject, all=True)])
    ben.create("/auth", b"2", acl=[make_acl("auth", "", all=True)])
    assert ben.get_acls("/auth")[0][0].id.id == subject
    for path in "/own", "/auth":
        assert ben.get(path)[0]
        for other in eve, connect(server.tls_port):
            with pytest.raises(kazoo.exceptions.NoAuthError):
                other.get(path)
    with pytest.raises(kazoo.exceptions.InvalidACLError):
        ben.create("/bad", acl=[make_acl("x509", "no subject", all=True)])


def test_roles_by_certificate(serve_tls, connect, authority):
    """Only an administrator reads what the server trusts."""
    server = serve_tls("--tls-role", "root=admin", "--loopback-roles", "read,work,submit")
    assert "tasks" in connect(server.tls_port, authority.issue("root")).get_children("/drover")
    with pytest.raises(kazoo.exceptions.NoAuthError):
        connect(server.tls_port, authority.issue("other")).get_children("/drover")


def test_a_certificate_is_required(serve_tls, connect, authority, tmp_path):
    server = serve_tls("--tls-verify", "required")
    assert connect(server.tls_port, authority.issue("ben")).exists("/")
    foreign = Authority(tmp_path, "foreign")
    for pair in None, foreign.issue("ben"), authority.issue("ben", days=-1, file="late"):
        with pytest.raises(KazooTimeoutError):
            connect(server.tls_port, pair, timeout=3)
    assert server.stop() == 0


@pytest.mark.parametrize("bytes_", [b"\0\0\0\x2c" + b"\0" * 44, b"ruok", b"GET / HTTP/1.0\r\n\r\n"])
def test_what_is_not_tls_ends(serve_tls, bytes_):
    server = serve_tls()
    plain = Connection(server.tls_port)
    plain.send(bytes_)
    assert len(plain.read_to_end()) < 64
    plain.close()
    assert server.stop() == 0


def test_a_handshake_in_pieces_has_the_time_of_the_hello(serve_tls):
    server = serve_tls("--zk-hello-timeout", "300ms")
    silent = Connection(server.tls_port)
    assert silent.is_closed()
    silent.close()


def test_wrong_server(serve_tls, authority, tmp_path):
    server = serve_tls()
    foreign = ssl.create_default_context(cafile=Authority(tmp_path, "foreign").path)
    one = Connection(server.tls_port)
    with pytest.raises(ssl.SSLCertVerificationError):
        foreign.wrap_socket(one.socket, server_hostname="127.0.0.1")
    one.close()
