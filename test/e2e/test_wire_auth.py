"""Who gets in at the ZooKeeper port: the superuser, the switches of digest authentication, SASL.

As in test_wire_differential.py, with a real ZooKeeper and a drover for each configuration.
"""

import concurrent.futures
import functools
import pathlib
import subprocess

import pytest

import zk
from conftest import KEEPER_ONLY, Server, drover, sentences
from wire_client import *  # noqa: F403: the vocabulary of the scenarios
from wire_record import differences, run
from wire_support import serve

SUPER = {  # of super:secret
    "SHA1": "super:lK75jTNcA+U9vtVEw5vB51mj/w4=",
    "SHA-256": "super:WTA5ucCHTdJq645xIMibj8HviTPeB5mMuJ4/+v1dIEw=",
    "SHA-512": "super:YCUumaodxrQ8ju8rJ0IaMlm8XX/1KyZEsjkowYsnA9bsE7LNCzc8Manpy55Ds+mDeMOYNh9+komaD5MR"
               "pOIkHg==",
}
PROVIDER = "DigestAuthenticationProvider."
USER, OTHER, ROOT = auth("user:password"), auth("other:password"), auth("super:secret")
MINE = [(ALL, "auth", "")]

# Configurations: of ZooKeeper, of drover, and what a client says first.
SETUPS = {
    "super": ({PROVIDER + "superDigest": SUPER["SHA1"]}, ["--zk-super", "SHA1"], []),
    "skip": ({"skipACL": "yes", PROVIDER + "digestAlg": "SHA3-256"},
             ["--zk-skip-acl", "--zk-digest", "SHA3-256"], []),
    "none": ({PROVIDER + "enabled": "false"}, ["--zk-digest", "none"], []),
    "required": ({"enforce.auth.enabled": "true", "enforce.auth.schemes": "digest",
                  PROVIDER + "digestAlg": "SHA-512", PROVIDER + "superDigest": SUPER["SHA-512"]},
                 ["--zk-require-auth", "--zk-digest", "SHA-512", "--zk-super", "SHA-512"], [USER]),
}
SCENARIOS = []


def scenario(*setups):
    def add(function):
        SCENARIOS.extend((setup, function) for setup in setups)
        return function
    return add


def super_file(directory, algorithm):
    path = directory / "super"
    path.write_text(SUPER[algorithm] + "\n")
    path.chmod(0o600)
    return path


@functools.cache
def attempts(path):
    """One request of each kind that access lists apply to, and some that they do not."""
    return [get_data(path), get_children(path), get_children2(path), exists(path), get_acl(path),
            set_data(path, b"new"), create(path + "/child"), create2(path + "/child2"),
            multi(create(path + "/third"), set_data(path, b"in multi"), check(path, -1)),
            multi_read(get_data(path), get_children(path)), all_children_number(path),
            delete(path + "/child"), set_acl(path, [(1, "ip", "127.0.0.1")]), get_acl(path),
            set_acl(path, OPEN), set_data(path, b"last"), sync(path)]


@scenario("super", "required")
def a_superuser_passes_every_list(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    a(USER)
    for name, acl in [("mine", MINE), ("none", [(0, "world", "anyone")]),
                      ("far", [(ALL, "ip", "10.0.0.1")]), ("read", [(1, "world", "anyone")])]:
        a(create(f"{r}/{name}", acl=acl))
    b(OTHER)
    for known in OTHER, auth("super:wrong"), auth("super"), auth(SUPER["SHA1"]), ROOT, ROOT, OTHER:
        b(known)
        b(who_am_i())
        b(get_data(r + "/mine"))
        b(get_acl(r + "/read"))
    for name in "mine", "none", "far", "read":
        for request in attempts(f"{r}/{name}"):
            b(request)


@scenario("super", "required")
def a_superuser_is_one_by_digest_only(w):
    """No access list can name it, and "auth" is the digest."""
    a, r = w.connect("a"), w.root
    a(ROOT)
    a(create(r + "/auth", acl=MINE))
    a(get_acl(r + "/auth"))
    a(create(r + "/super", acl=[(ALL, "super", "")]))
    a(create(r + "/super", acl=[(ALL, "super", "super")]))
    a(set_acl(r + "/auth", [(ALL, "super", "")]))
    a(get_acl("/zookeeper/config"))
    a(set_acl("/zookeeper/config", [(1, "world", "anyone")]))
    a(delete("/zookeeper"))
    b = w.connect("b")
    b(auth("", "super"))
    b(exists(r))


@scenario("super", "required")
def a_superuser_is_one_on_its_connection(w):
    a, r = w.connect("a"), w.root
    a(USER)
    a(create(r + "/none", acl=[(0, "world", "anyone")]))
    a(ROOT)
    a(get_data(r + "/none", watch=True))
    a(set_data(r + "/none", b"x"))
    again = w.connect("again", session=a.client.session, password=a.client.password)
    again(USER)
    again(who_am_i())
    again(get_data(r + "/none"))
    again(ROOT)
    again(get_data(r + "/none"))


@scenario("skip")
def lists_that_do_not_count_are_kept(w):
    a, b, r = w.connect("a"), w.connect("b"), w.root
    a(USER)
    a(who_am_i())
    a(create(r + "/mine", acl=MINE))
    a(create(r + "/none", acl=[(0, "world", "anyone")]))
    b(get_acl(r + "/mine"))
    for name in "mine", "none":
        for request in attempts(f"{r}/{name}"):
            b(request)
    for acl in [], MINE, [(ALL, "digest", "x")], [(ALL, "ip", "x")], [(ALL, "nothing", "x")]:
        b(create(r + "/bad", acl=acl))
        b(set_acl(r + "/mine", acl))


@scenario("none")
def without_digests(w):
    a, r = w.connect("a"), w.root
    a(who_am_i())
    for acl in [MINE, [(ALL, "digest", SUPER["SHA1"])], [(ALL, "digest", "x")], OPEN,
                [(ALL, "ip", "127.0.0.1")], OPEN + [(1, "digest", SUPER["SHA1"])]]:
        a(create(r + "/n", acl=acl))
        a(create2(r + "/n", acl=acl))
        a(multi(create(r + "/n", acl=acl)))
        a(set_acl(r, acl))
        a(delete(r + "/n"))
    a(auth("", "ip"))
    a(exists(r))
    a(USER)
    a(exists(r))


@scenario("required")
def nothing_without_authentication(w):
    """The answer says so and is the last. The session stays, as long as it is there."""
    r = w.root
    for number, request in enumerate([
            exists(r), ping(), get_data("/nowhere"), create(r + "/n"), multi(create(r + "/n")),
            set_watches(0, [r]), who_am_i(), close_session(), Request(99, b""), auth("x", "nothing")]):
        a = w.connect(f"a{number}")
        a(request)
        a(exists(r))
    for number, first in enumerate([auth("", "ip"), sasl(b"")]):
        b = w.connect(f"b{number}")
        b(first)
        b(exists(r))
        b(exists(r))
    c = w.connect("again", session=b.client.session, password=b.client.password)
    c(USER)
    c(exists(r))
    c(close_session())


@scenario("super", "skip", "none")
def sasl_without_sasl(w):
    a, r = w.connect("a"), w.root
    for token in b"", b"token", bytes(1000):
        a(sasl(token))
        a(exists(r))
    a(who_am_i())


@pytest.fixture(scope="module", params=SETUPS)
def pair(request, tmp_path_factory):
    """The name of a configuration, the ports of both servers, and what a client says first."""
    settings, options, first = SETUPS[request.param]
    directory = tmp_path_factory.mktemp("super")
    options = [super_file(directory, o) if before == "--zk-super" else o
               for before, o in zip([None, *options], options)]
    with zk.Ensemble(tmp_path_factory.mktemp("zookeeper"), settings=settings) as zookeeper:
        for server in serve(tmp_path_factory, *options):
            yield request.param, zookeeper.nodes[0].port, server.zk_port, first


@pytest.mark.slow
def test_the_same_as_zookeeper(pair):
    setup, theirs, ours, first = pair
    found = []
    for name, function in SCENARIOS:
        if name == setup:
            expected, got = run(theirs, function, first), run(ours, function, first)
            found += [f"{function.__name__}: {line}" for line in differences(expected, got)]
    assert not found, "\n".join(found)


# Byte by byte, and from Java.

PACKETS = {
    "no token": (SASL, text(b"")),
    "token": (SASL, text(b"token")),
    "more than a token": (SASL, text(b"token") + b"more"),
    "null": (SASL, text(None)),
    "cut off": (SASL, i32(5) + b"tok"),
    "nothing": (SASL, b""),
    "digest": (AUTH, USER.body),
    "unknown scheme": (AUTH, auth("", "nothing").body),
}


def answer_and_next(port, kind, body):
    """The bytes of the answer to a packet, and the xid of what follows a ping."""
    with Client(port) as c:
        c.send(frame(i32(7) + i32(kind) + body) + frame(i32(-2) + i32(PING)))
        found = []
        try:
            found.append(c.packet())
            found.append(c.packet()[:4])
        except Closed:
            found.append("closed")
        return found


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKETS)
def test_the_same_to_the_byte(drover_and_zookeeper, name):
    ours, theirs = (answer_and_next(port, *PACKETS[name]) for port in drover_and_zookeeper)
    assert ours == theirs
    if name == "token":
        assert ours == [i32(7) + i64(0) + i32(0) + i32(-1), i32(-2)]


@pytest.fixture(scope="module")
def drover_and_zookeeper(tmp_path_factory, zookeeper):
    for server in serve(tmp_path_factory):
        yield server.zk_port, zookeeper.nodes[0].port


JAVA = pathlib.Path("/usr/share/java")
JARS = [str(JAVA / f"{name}.jar") for name in ("zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-nop")]
SOURCE = pathlib.Path(__file__).parent.parent / "sasl" / "Login.java"
JAAS = """Client {
    org.apache.zookeeper.server.auth.DigestLoginModule required username="bob" password="secret";
};
"""


@pytest.mark.slow
def test_a_java_client_with_sasl_reports_that_it_failed(drover_and_zookeeper, tmp_path):
    """It would reconnect for ever if the answer were an error or the end of the connection."""
    (tmp_path / "jaas").write_text(JAAS)
    subprocess.run(["javac", "-nowarn", "-cp", ":".join(JARS), "-d", tmp_path, SOURCE], check=True)

    def login(port):
        done = subprocess.run(
            ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
             f"-Djava.security.auth.login.config={tmp_path}/jaas", "-cp", ":".join([str(tmp_path), *JARS]),
             "Login", f"127.0.0.1:{port}"], capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout.splitlines(), done.stderr

    with concurrent.futures.ThreadPoolExecutor() as pool:
        ours, theirs = pool.map(login, drover_and_zookeeper)
    assert "None AuthFailed" in theirs[1], theirs
    assert ours == theirs


# The file of the superuser.

@pytest.mark.parametrize("content", [
    "", "\n", "super:secret\n", SUPER["SHA-256"] + "\n", SUPER["SHA1"].replace("super", "") + "\n",
    SUPER["SHA1"][:-1] + "\n", SUPER["SHA1"].replace("/", "*") + "\n", "x" * 2000 + SUPER["SHA1"] + "\n",
    SUPER["SHA1"] + " \n", "\n" + SUPER["SHA1"] + "\n"])
def test_a_file_that_holds_no_superuser_stops_the_start(tmp_path, content):
    path = tmp_path / "super"
    path.write_text(content)
    done = drover("serve", "--data", tmp_path / "data", "--zk-super", path, *KEEPER_ONLY)
    assert done.returncode == 1 and sentences(done.stderr) == [
        f"{path} does not hold user:DIGEST, where DIGEST is the base64 of the SHA1 of "
        "user:password, 28 characters"]
    assert not (tmp_path / "data").exists()


def test_a_missing_file_of_the_superuser_stops_the_start(tmp_path):
    done = drover("serve", "--data", tmp_path / "data", "--zk-super", tmp_path / "none", *KEEPER_ONLY)
    assert done.returncode == 1 and f"cannot read {tmp_path}/none: No such file" in done.stderr


@pytest.mark.parametrize("mode, warned", [(0o600, False), (0o640, False), (0o644, True)])
def test_who_can_read_the_file_of_the_superuser(tmp_path, mode, warned):
    path = super_file(tmp_path, "SHA1")
    path.chmod(mode)
    server = Server("--data", tmp_path / "data", "--zk-super", path, *KEEPER_ONLY).start()
    try:
        line = f"warning every user of this machine can read {path}: chmod o-r"
        assert (line in server.said) == warned
        with Client(server.zk_port) as c:
            c.must(create("/none", acl=[(0, "world", "anyone")]))
            assert c.call(get_data("/none")).error == NO_AUTH
            c.must(ROOT)
            c.must(get_data("/none"))
            c.end()
        assert server.stop() == 0, server.said
    finally:
        server.kill()


@pytest.mark.parametrize("words, line", [
    (["--zk-super", "x", "--zk-digest", "none"], "--zk-super does not go with --zk-digest none"),
    (["--zk-digest", "none", "--zk-require-auth"], "--zk-require-auth does not go with --zk-digest none"),
    (["--zk-digest", "MD5"], "--zk-digest: 'MD5' is none of SHA1|SHA-256|SHA-512|SHA3-256|none"),
    (["--zk-super", ""], "--zk-super: must not be empty"),
])
def test_switches_that_contradict_each_other(words, line):
    done = drover("serve", *words)
    assert done.returncode == 2 and line in done.stderr and len(done.stderr.splitlines()) == 1
