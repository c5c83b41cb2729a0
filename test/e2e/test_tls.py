"""HTTP with TLS: protocols, certificates of both sides, their renewal, and what clients see."""

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess

import pytest
from certificates import Authority
from conftest import Connection, DEADLINE_S, call, drover, errors


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """Nobody here trusts it."""
    return Authority(tmp_path_factory.mktemp("foreign"), "foreign")


@pytest.fixture
def serve_tls(start, authority):
    def start_one(*more, pair=None):
        cert, key = pair or authority.issue("localhost", "drover.example")
        server = start("--https", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, *more)
        server.tls_port = int(server.wait_for(r"listening on https://127\.0\.0\.1:(\d+)\n")[1])
        return server

    return start_one


@pytest.fixture
def secure(serve_tls):
    one = serve_tls()
    yield one
    assert one.stop() == 0, one.said


def trusting(authority, pair=None, **versions):
    context = ssl.create_default_context(cafile=authority.path)
    for name, version in versions.items():
        setattr(context, name, version)
    if pair:
        context.load_cert_chain(*pair)
    return context


class Secure(Connection):
    """The same with TLS."""

    def __init__(self, port, context, name="127.0.0.1", session=None):
        super().__init__(port)
        self.socket = context.wrap_socket(self.socket, server_hostname=name, session=session)


def get(port, path="/healthz", more=""):
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{more}\r\n".encode()


def post(port, path, body):
    return (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def ask(server, path, context, **headers):
    """One request: status and parsed body."""
    client = http.client.HTTPSConnection("127.0.0.1", server.tls_port, context=context,
                                         timeout=DEADLINE_S)
    try:
        client.request("GET", path, headers=headers)
        answer = client.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        client.close()


def s_client(server, *arguments, text=""):
    return subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.tls_port}",
                           *map(str, arguments)],
                          input=text, capture_output=True, text=True, timeout=DEADLINE_S)


# Protocols.

def test_openssl_and_curl(secure, authority):
    request = get(secure.tls_port, more="Connection: close\r\n").decode()
    said = s_client(secure, "-CAfile", authority.path, "-alpn", "http/1.1", "-ign_eof",
                    text=request).stdout
    assert "Verify return code: 0 (ok)" in said and "TLSv1.3" in said
    assert "ALPN protocol: http/1.1" in said and '{"status":"ok"}' in said
    done = subprocess.run(["curl", "-sS", "--cacert", authority.path,
                           f"https://127.0.0.1:{secure.tls_port}/healthz"],
                          capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.stdout.strip() == '{"status":"ok"}', done.stderr


def test_tls_1_2_is_spoken_and_1_1_is_not(secure, authority):
    old = trusting(authority, maximum_version=ssl.TLSVersion.TLSv1_2)
    with Secure(secure.tls_port, old).socket as spoken:
        assert spoken.version() == "TLSv1.2"
    said = s_client(secure, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0")
    assert said.returncode == 1
    assert re.search("alert protocol version|no protocols available|unsupported protocol",
                     said.stderr), said.stderr


def test_no_other_protocol_is_chosen(secure):
    said = s_client(secure, "-alpn", "h2")
    assert said.returncode == 1 and "no application protocol" in said.stderr


def test_tls_1_2_cannot_be_renegotiated(secure, authority):
    said = s_client(secure, "-tls1_2", "-CAfile", authority.path, text="R\n")
    assert "RENEGOTIATING" in said.stdout + said.stderr
    assert "no renegotiation" in said.stderr


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sessions_are_resumed(secure, authority, version):
    context = trusting(authority, minimum_version=version, maximum_version=version)
    first = Secure(secure.tls_port, context)
    first.send(get(secure.tls_port))
    assert first.answer()[0] == 200
    session = first.socket.session
    first.close()
    second = Secure(secure.tls_port, context, session=session)
    second.send(get(secure.tls_port))
    assert second.answer()[0] == 200 and second.socket.session_reused
    second.close()


def test_plain_http_is_told_so(secure):
    plain = Connection(secure.tls_port)
    plain.send(get(secure.tls_port))
    status, _, body = plain.answer()
    assert status == 400 and errors(body) == ["this address speaks TLS: use https://"]
    assert plain.is_closed()
    plain.close()


@pytest.mark.parametrize("bytes_", [b"\x16\x03\x01\x00\x05hello", b"\0" * 100, b"\x80" * 64])
def test_what_is_not_tls_ends(secure, bytes_):
    wrong = Connection(secure.tls_port)
    wrong.send(bytes_)
    assert len(wrong.read_to_end()) < 64  # an alert at most
    wrong.close()
    assert call(secure.port, "GET", "/healthz")[0] == 200
    page = Connection(secure.port)
    page.send(get(secure.port, "/metrics", "Connection: close\r\n"))
    assert b"drover_http_tls_failures_total 1\n" in page.read_to_end()
    page.close()


def test_a_handshake_has_a_limit_in_time_and_length(serve_tls):
    server = serve_tls("--http-timeout-ms", 300)
    silent = Connection(server.tls_port)
    assert silent.is_closed()
    half = Connection(server.tls_port)
    half.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    assert half.is_closed()
    # A ClientHello that never ends: records of an unfinished message of 16 MiB.
    long = Connection(server.tls_port)
    record = b"\x16\x03\x03\x40\x00" + b"\x01\xff\xff\xff" + b"\0" * (0x4000 - 4)
    for _ in range(100):
        long.send(record)
    assert len(long.read_to_end()) < 64
    for one in silent, half, long:
        one.close()
    assert server.stop() == 0


# What HTTP does is the same.

def test_pipelining_and_a_large_answer(secure, authority):
    context = trusting(authority)
    client = Secure(secure.tls_port, context)
    adds = [{"group": "g", "data": "x" * 100_000} for _ in range(5)]
    body = json.dumps({"clientid": 1, "adds": adds}).encode()
    for _ in range(6):
        client.send(post(secure.tls_port, "/update", body))
        assert client.answer()[0] == 200
    client.send(get(secure.tls_port, "/group/g") * 5 + get(secure.tls_port) * 200)
    for _ in range(5):
        status, _, answer = client.answer()
        assert status == 200 and len(json.loads(answer)) == 30 and len(answer) > 3_000_000
    for _ in range(200):
        assert client.answer()[0] == 200
    client.close()


def test_a_byte_at_a_time(secure, authority):
    """Records that arrive in pieces, and heads in many records."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trusting(authority).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    wire = Connection(secure.tls_port)

    def step(do):
        while True:
            try:
                return do()
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    wire.socket.send(bytes([byte]))
                incoming.write(wire.socket.recv(65536))

    step(tls.do_handshake)
    for byte in get(secure.tls_port):
        tls.write(bytes([byte]))
    assert step(lambda: tls.read(65536)).startswith(b"HTTP/1.1 200")
    wire.close()


def test_a_stream(secure, authority):
    client = Secure(secure.tls_port, trusting(authority))
    client.send(get(secure.tls_port, "/v1/events"))
    assert b" 200 " in client.read_to_end_of_head()
    nodes = [{"metadata": {"type": "group"}, "data": {}}]
    assert call(secure.port, "POST", "/v1/nodes", nodes)[0] in (200, 201)
    while b"data:" not in client.bytes:
        assert client.read_more()
    client.close()


def test_the_end_is_said_by_both_sides(secure, authority):
    """An answer that ends without TLS's own end could have been cut by anybody."""
    client = Secure(secure.tls_port, trusting(authority))
    client.socket.suppress_ragged_eofs = False
    client.send(get(secure.tls_port, more="Connection: close\r\n"))
    assert client.read_to_end().endswith(b'{"status":"ok"}\n')
    client.close()
    client = Secure(secure.tls_port, trusting(authority))
    client.socket.suppress_ragged_eofs = False
    client.send(get(secure.tls_port))
    client.answer()
    client.socket.unwrap().close()  # ssl.SSLError without the server's end


def test_the_first_request_and_the_end_together(secure, authority):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trusting(authority).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    wire = Connection(secure.tls_port)
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            wire.send(outgoing.read())
            incoming.write(wire.socket.recv(65536))
    tls.write(get(secure.tls_port))
    with pytest.raises(ssl.SSLWantReadError):
        tls.unwrap()
    wire.send(outgoing.read())
    incoming.write(wire.read_to_end())
    assert tls.read(65536).startswith(b"HTTP/1.1 200")
    wire.close()


def test_a_waiting_client_that_leaves_gets_no_task(secure, authority):
    client = Secure(secure.tls_port, trusting(authority))
    body = json.dumps({"clientid": 7, "group": "wait", "duration": 60000, "wait": 60000}).encode()
    client.send(post(secure.tls_port, "/claim", body))
    client.socket.shutdown(socket.SHUT_WR)
    client.read_to_end()
    client.close()


def test_names_of_the_server(secure, authority):
    """Those in the certificate, without naming them again; no others."""
    for host, status in {f"drover.example:{secure.tls_port}": 200,
                         f"localhost:{secure.tls_port}": 200, "drover.example": 421,
                         f"evil.example:{secure.tls_port}": 421}.items():
        client = Secure(secure.tls_port, trusting(authority), name="drover.example")
        client.send(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert client.answer()[0] == status, host
        client.close()


# Certificates of the server.

def test_wrong_certificates_are_refused_by_clients(serve_tls, authority, foreign):
    server = serve_tls()
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        Secure(server.tls_port, trusting(foreign))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        Secure(server.tls_port, trusting(authority), name="other.example")
    server.stop()
    expired = serve_tls(pair=authority.issue("expired", days=-1))
    with pytest.raises(ssl.SSLCertVerificationError, match="has expired"):
        Secure(expired.tls_port, trusting(authority))
    assert "has expired on " in expired.said


@pytest.mark.parametrize("how", ["change", "signal"])
def test_a_new_certificate_is_used(serve_tls, authority, how):
    pair = authority.issue("first", "one.example", file="own")
    server = serve_tls(pair=pair)
    old = Secure(server.tls_port, trusting(authority), name="one.example")
    authority.issue("second", "two.example", file="own")
    if how == "signal":
        server.signal(signal.SIGHUP)
    server.wait_for("certificate .*own.crt loaded again\n")
    Secure(server.tls_port, trusting(authority), name="two.example").close()
    old.send(get(server.tls_port))
    assert old.answer()[0] == 200, "connections go on"
    old.close()
    assert server.stop() == 0


def test_a_broken_certificate_keeps_the_old_one(serve_tls, authority):
    cert, key = authority.issue("first", "one.example", file="own")
    server = serve_tls(pair=(cert, key))
    for break_it, said in [
            (lambda: cert.write_text("no certificate"), "cannot use the certificate .*own.crt: "),
            (lambda: cert.write_bytes(authority.path.read_bytes()), "own.key: key values mismatch"),
            (cert.unlink, "cannot read .*own.crt: ")]:
        break_it()
        server.wait_for(f"the old certificate stays in use: .*{said}")
        server.said = ""
        Secure(server.tls_port, trusting(authority), name="one.example").close()
    authority.issue("second", "two.example", file="own")
    server.wait_for("own.crt loaded again")
    Secure(server.tls_port, trusting(authority), name="two.example").close()
    assert server.stop() == 0


def test_a_start_with_files_that_do_not_fit(tmp_path, authority):
    cert, key = authority.issue("a")
    other = authority.issue("b")[1]
    locked = tmp_path / "locked.key"
    subprocess.run(["openssl", "pkcs8", "-topk8", "-in", key, "-out", locked, "-passout", "pass:x"],
                   check=True, timeout=DEADLINE_S)
    for files, said in [((cert, other), "key values mismatch"), ((key, key), "no start line"),
                        ((tmp_path / "none", key), "cannot read"),
                        ((cert, locked), "has a password")]:
        done = drover("serve", "--data", tmp_path / "data", "--https", "127.0.0.1:0",
                      "--tls-cert", files[0], "--tls-key", files[1])
        assert done.returncode == 1 and said in done.stderr, done.stderr
    assert not (tmp_path / "data").exists()


def test_a_key_that_others_can_read_is_reported(serve_tls, authority):
    cert, key = authority.issue("open")
    key.chmod(0o644)
    server = serve_tls(pair=(cert, key))
    assert f"every user of this machine can read {key}: chmod o-r" in server.said


# Certificates of clients.

@pytest.fixture
def mutual(serve_tls, authority):
    one = serve_tls("--tls-ca", authority.path, "--loopback-roles", "read",
                    "--tls-role", "ben=admin", "--tls-role", "mail-*=work",
                    "--tls-role", "spiffe://example/w=submit,work", "--tls-role", "a@b.example=run")
    yield one
    assert one.stop() == 0, one.said


def who(server, context):
    """What a request that needs a token's rights is refused with; None: it is allowed."""
    status, body = ask(server, "/v1/tokens", context)
    return None if status == 200 else errors(body)[0]


def test_names_become_roles(mutual, authority):
    def denied(cn, *others):
        return who(mutual, trusting(authority, authority.issue(cn, *others)))

    assert denied("ben") is None
    assert denied("x", "ben") is None, "an alternative name"
    assert denied("bena").endswith("without a token you have read: use the Unix socket of the "
                                   "server, or Authorization: Bearer TOKEN")
    assert "certificate mail-7 has work" in denied("mail-7")
    assert "certificate spiffe://example/w has work, submit" in denied("y", "spiffe://example/w")
    assert "has run" in denied("z", "a@b.example")
    assert "has work, run" in denied("mail-7", "a@b.example")
    assert "without a token you have read" in who(mutual, trusting(authority))


def test_a_resumed_session_keeps_its_certificate(mutual, authority):
    context = trusting(authority, authority.issue("ben"))
    first = Secure(mutual.tls_port, context)
    first.send(get(mutual.tls_port, "/v1/tokens"))
    assert first.answer()[0] == 200
    second = Secure(mutual.tls_port, context, session=first.socket.session)
    second.send(get(mutual.tls_port, "/v1/tokens"))
    assert second.answer()[0] == 200 and second.socket.session_reused
    first.close()
    second.close()


def test_a_token_counts_instead(mutual, authority, tmp_path):
    context = trusting(authority, authority.issue("mail-7"))
    token = (tmp_path / "data/admin.token").read_text().strip()
    assert ask(mutual, "/v1/tokens", context, Authorization=f"Bearer {token}")[0] == 200
    assert ask(mutual, "/v1/tokens", context, Authorization="Bearer wrong-wrong-wrong")[0] == 401


@pytest.mark.parametrize("verify", ["optional", "required"])
def test_certificates_that_are_not_accepted(serve_tls, authority, foreign, verify):
    server = serve_tls("--tls-ca", authority.path, "--tls-verify", verify)
    for pair, reason in [(foreign.issue("ben"), "unknown ca|decrypt error"),
                         (authority.issue("ben", days=-1, file="late"), "certificate expired")]:
        with pytest.raises((ssl.SSLError, ConnectionResetError)) as refused:
            ask(server, "/healthz", trusting(authority, pair))
        assert re.search(reason, str(refused.value)) or refused.type is ConnectionResetError
    if verify == "optional":
        assert ask(server, "/healthz", trusting(authority))[0] == 200
    else:
        with pytest.raises(ssl.SSLError, match="certificate required"):
            ask(server, "/healthz", trusting(authority))
    assert ask(server, "/healthz", trusting(authority, authority.issue("ben")))[0] == 200
    assert server.stop() == 0


# What may be listened on.

def test_other_addresses_need_tls_or_a_word(start, authority, tmp_path):
    cert, key = authority.issue("localhost")
    server = start("--https", "0.0.0.0:0", "--tls-cert", cert, "--tls-key", key)
    port = int(server.wait_for(r"listening on https://0\.0\.0\.0:(\d+)\n")[1])
    client = Secure(port, trusting(authority))
    client.send(get(port))
    assert client.answer()[0] == 200
    client.close()
    server.stop()
    insecure = start("--http", "0.0.0.0:0", "--insecure-network")
    insecure.wait_for(r"listening on http://0\.0\.0\.0:(\d+)\n")
    assert insecure.stop() == 0


# Commands.

@pytest.fixture
def command(mutual, authority):
    def run(*arguments, host="127.0.0.1", environment=None):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("DROVER")}
        return drover(*arguments, "--server", f"https://{host}:{mutual.tls_port}",
                      env=clean | {k: str(v) for k, v in (environment or {}).items()})

    return run


def test_commands_with_certificates(command, authority):
    cert, key = authority.issue("ben")
    done = command("token", "ls", "--ca", authority.path, "--cert", cert, "--key", key)
    assert done.returncode == 0, done.stderr
    done = command("token", "ls", environment={"DROVER_CA": authority.path, "DROVER_CERT": cert,
                                               "DROVER_KEY": key})
    assert done.returncode == 0, done.stderr
    done = command("token", "ls", "--ca", authority.path)
    assert done.returncode == 1 and "this needs the role admin" in done.stderr
    cert.write_bytes(cert.read_bytes() + key.read_bytes())
    done = command("token", "ls", "--ca", authority.path, "--cert", cert)
    assert done.returncode == 0, done.stderr


def test_commands_refuse_wrong_servers(command, authority, foreign, tmp_path):
    for arguments, host, said in [
            ([], "127.0.0.1", "not accepted: SSL certificate problem: unable to get local issuer"),
            (["--ca", foreign.path], "127.0.0.1", "unable to get local issuer"),
            (["--ca", authority.path], "localhost", "not accepted: SSL: no alternative certificate"),
            (["--ca", tmp_path / "none"], "127.0.0.1", "cannot use the authorities of --ca"),
            (["--ca", authority.path, "--cert", tmp_path / "none"], "127.0.0.1",
             "cannot use the certificate of --cert")]:
        done = command("groups", *arguments, host=host)
        assert done.returncode == 1 and said in done.stderr, (arguments, done.stderr)


def test_commands_refuse_an_expired_server(serve_tls, authority):
    server = serve_tls(pair=authority.issue("expired", days=-1))
    done = drover("groups", "--ca", authority.path, "--server", f"https://127.0.0.1:{server.tls_port}")
    assert done.returncode == 1 and "certificate has expired" in done.stderr


def test_a_worker_over_tls(mutual, authority):
    """It uses several connections, of the library and of the command."""
    cert, key = authority.issue("ben")
    files = ["--ca", authority.path, "--cert", cert, "--server", f"https://127.0.0.1:{mutual.tls_port}"]
    done = drover("add", "mail", "hello", *files, "--key", "of the task", env={**os.environ, "DROVER_KEY": key})
    assert done.returncode == 0, done.stderr
    done = drover("work", "mail", "--until-empty", *files, "--key", key, "--", "cat")
    assert done.returncode == 0 and "hello" in done.stdout, done.stderr
