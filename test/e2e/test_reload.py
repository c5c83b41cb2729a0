"""SIGHUP: what a running server takes over from its file, what waits for a start, and what is refused."""

import base64
import hashlib
import re
import signal
import socket

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl

from conftest import ROOT, Server, call, wait_until
from dag_support import shell
from test_config import shown

TOKENS = "first-token-of-the-test", "second-token-of-the-test"


class Reloading(Server):
    """A server with a configuration file of its own."""

    def __init__(self, directory, text):
        self.file = directory / "drover.conf"
        self.write(text)
        super().__init__("--data", directory / "data", "--config", self.file)

    def write(self, text):
        self.file.write_text(text)
        self.file.chmod(0o600)

    def reload(self, text=None, says="reload: "):
        """Sends SIGHUP and returns what the server said of it, without what it said before."""
        if text is not None:
            self.write(text)
        self.said = ""
        self.signal(signal.SIGHUP)
        self.wait_for(says + r".*\n")
        return self.said

    def word(self, word):
        """The answer to a four-letter word."""
        with socket.create_connection(("127.0.0.1", self.zk_port), timeout=30) as connection:
            connection.sendall(word.encode())
            answer = b""
            while more := connection.recv(65536):
                answer += more
        return answer.decode()


@pytest.fixture
def reloading(tmp_path):
    """Starts one, which has to end cleanly."""
    servers = []

    def start_one(text=""):
        servers.append(Reloading(tmp_path, text))
        return servers[-1].start()

    yield start_one
    for server in servers:
        if server.process.poll() is None:
            assert server.stop() == 0, server.said
        server.kill()


def test_what_takes_effect_at_once(reloading):
    server = reloading()
    assert "is not executed" in server.word("wchc")
    assert "maxSessionTimeout=3600000" in server.word("conf")
    said = server.reload("zk-words *\nzk-max-session-timeout 30m\nsnapshot-every 7\n")
    assert "reload: zk-words, zk-max-session-timeout, snapshot-every\n" in said
    assert "is not executed" not in server.word("wchc")
    assert "maxSessionTimeout=1800000" in server.word("conf")
    said = server.reload("")
    assert "reload: zk-words, zk-max-session-timeout, snapshot-every\n" in said
    assert "is not executed" in server.word("wchc")
    assert "maxSessionTimeout=3600000" in server.word("conf")
    assert "reload: no option has changed\n" in server.reload()


def test_jobs(reloading):
    server = reloading("jobs 0\n")
    assert call(server.port, "POST", "/v1/nodes", [shell("true")])[0] < 300
    assert call(server.port, "GET", "/v1/scheduler")[1]["jobs"] == 0
    assert "reload: jobs\n" in server.reload("jobs 2\n")
    wait_until(lambda: call(server.port, "GET", "/v1/nodes?state=finished")[1], "the node has run")


def test_connections(reloading):
    server = reloading()
    said = server.reload("connections 1\n")
    assert "reload: connections\n" in said
    first = server.connect()
    first.send(server.fill("GET /healthz HTTP/1.1\r\nHost: HOST\r\n\r\n"))
    assert first.answer()[0] == 200
    assert server.request("GET /healthz HTTP/1.1\r\nHost: HOST\r\n\r\n")[0] == 503


def test_names_of_the_host(reloading):
    server = reloading("http-host one.example\n")
    ask = "GET /healthz HTTP/1.1\r\nHost: {}.example\r\n\r\n"
    assert server.request(ask.format("one"))[0] == 200
    assert server.request(ask.format("two"))[0] == 421
    server.reload("http-host two.example\nhttp-host three.example\n")
    assert [server.request(ask.format(name))[0] for name in ("one", "two", "three")] == [421, 200, 200]


def test_a_token_is_replaced(reloading, tmp_path):
    """Its file has new content; no option has changed."""
    token = tmp_path / "token"
    token.write_text(TOKENS[0])
    token.chmod(0o600)
    server = reloading(f"token-file {token}\n")

    def status(with_token):
        return call(server.port, "GET", "/groups", Authorization=f"Bearer {with_token}")[0]

    assert (status(TOKENS[0]), status(TOKENS[1])) == (200, 401)
    token.write_text(TOKENS[1])
    assert "no option has changed" in server.reload()
    assert (status(TOKENS[0]), status(TOKENS[1])) == (401, 200)
    token.write_text("short")
    said = server.reload("zk-words *\n" + f"token-file {token}\n", says="reload: nothing was changed: ")
    assert "does not begin with a token" in said
    assert status(TOKENS[1]) == 200 and "is not executed" in server.word("wchc")


def test_a_superuser_is_replaced(reloading, tmp_path):
    """zk-super: the digest of the file counts from then on."""
    path = tmp_path / "super"

    def write(password):
        digest = base64.b64encode(hashlib.sha1(f"super:{password}".encode()).digest()).decode()
        path.write_text(f"super:{digest}\n")
        path.chmod(0o600)

    write("one")
    server = reloading(f"zk-super {path}\n")
    owner = KazooClient(f"127.0.0.1:{server.zk_port}", auth_data=[("digest", "ann:x")])
    owner.start()
    owner.create("/mine", b"x", acl=[make_digest_acl("ann", "x", all=True)])
    def may(password):
        client = KazooClient(f"127.0.0.1:{server.zk_port}",
                                   auth_data=[("digest", f"super:{password}")])
        client.start()
        try:
            return client.get("/mine")[0] == b"x"
        except NoAuthError:
            return False
        finally:
            client.stop()
            client.close()

    assert (may("one"), may("two")) == (True, False)
    write("two")
    server.reload()
    assert (may("one"), may("two")) == (False, True)
    owner.stop()
    owner.close()


def test_what_waits_for_the_next_start(reloading):
    server = reloading()
    said = server.reload("journal opportunistic\nzk-skip-acl\nzk-words ruok\n")
    assert "reload: zk-words\n" in said
    server.wait_for("reload: journal, zk-skip-acl changed: takes effect at the next start\n")
    assert call(server.port, "GET", "/healthz")[0] == 200
    server.reload()  # and it stays so until then
    server.wait_for("reload: journal, zk-skip-acl changed: takes effect at the next start\n")
    assert "reload: zk-words\n" in server.reload("")
    assert "no option has changed" in server.reload()
    assert "next start" not in server.said


@pytest.mark.parametrize("text, what", [
    ("zk-words *\nfrobnicate\n", ":2: there is no option 'frobnicate'"),
    ("zk-words *\njournal lax\n", ":2: journal: 'lax' is none of strict|opportunistic|none"),
    ("zk-words *\nzk-min-session-timeout 2h\n",
     "--zk-min-session-timeout, 2h, is more than --zk-max-session-timeout, 1h"),
    ("zk-words *\nkeeper zk://127.0.0.1:1/x\n", "--data is for the embedded keeper"),
    ("zk-words *\nzk-super /dev/null\n", "/dev/null does not hold user:DIGEST"),
])
def test_a_wrong_configuration_changes_nothing(reloading, text, what):
    server = reloading()
    said = server.reload(text, says="reload: nothing was changed: ")
    assert what in said, said
    assert "is not executed" in server.word("wchc")
    assert call(server.port, "GET", "/groups")[0] == 200
    assert "reload: zk-words\n" in server.reload("zk-words *\n")
    assert "is not executed" not in server.word("wchc")


def test_a_file_that_others_may_write_by_now(reloading):
    server = reloading("zk-words ruok\n")
    server.file.write_text("zk-words *\n")
    server.file.chmod(0o666)
    assert "others may write" in server.reload(says="reload: nothing was changed: ")
    assert "is not executed" in server.word("wchc")


def test_a_missing_file(reloading):
    server = reloading("zk-words *\n")
    server.file.unlink()
    assert "cannot read" in server.reload(says="reload: nothing was changed: ")
    assert "is not executed" not in server.word("wchc")


def test_retention(reloading):
    """Messages that are too old for the new retention go; the thread does not wait out the old interval."""
    server = reloading()
    queue = call(server.port, "POST", "/v1/queues", {})[1]["queue"]
    assert call(server.port, "POST", f"/v1/queues/{queue}/messages", {"messages": ["hello"]})[0] < 300

    def count():
        return len(call(server.port, "GET", f"/v1/queues/{queue}/messages")[1]["messages"])

    assert count() == 1
    assert "reload: queue-retention\n" in server.reload("queue-retention 1ms\n")
    wait_until(lambda: count() == 0, "the message is gone")


def test_config_says_what_reloads():
    reloads = {name for name, each in shown().items() if each["reloads"]}
    assert reloads >= {"zk-words", "connections", "http-host", "jobs", "queue-retention"}
    assert not reloads & {"data", "journal", "token-file", "loopback-roles", "http", "zk", "keeper", "zk-skip-acl", "pipeline"}


def test_the_man_page_lists_what_reloads():
    page = (ROOT / "doc/drover.conf.5.scd").read_text()
    section = page.split("# RELOADING")[1].split("# ERRORS")[0]
    reloads = {name for name, each in shown().items() if each["reloads"]}
    assert set(re.findall(r"\*([a-z][a-z-]+)\*", section)) == reloads


def test_the_audit_log_is_opened_again(reloading, tmp_path):
    """After it was moved away, as programs that rotate logs do."""
    log = tmp_path / "audit"
    server = reloading(f"audit {log}\n")
    assert '"action":"start"' in log.read_text()
    log.rename(tmp_path / "audit.1")
    server.reload()
    assert '"action":"reload"' in log.read_text()
    assert '"action":"reload"' not in (tmp_path / "audit.1").read_text()
