"""What comes from outside does not reach a terminal as it is: control characters and marks that change the direction
of text are escaped by every command. Elsewhere than on a terminal, bytes stay bytes."""

import fcntl
import http.server
import json
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from urllib.parse import quote

import pytest

from batch_api import Api
from conftest import BINARY, DEADLINE_S, drover, wait_until
from dag_support import Dag, shell

pytestmark = pytest.mark.slow

MARK = "pwned"
CONTROLS = [*range(0x01, 0x20), 0x7f, *range(0x80, 0xa0), 0x61c, 0x200e, 0x200f, *range(0x2028, 0x202f),
            *range(0x2066, 0x206a)]
EVIL = "a\x1b]0;" + MARK + "\x07\x1b[2J\rb\u009b2J" + "".join(map(chr, CONTROLS)) + "c"
NAME = "".join(letter for letter in EVIL if letter != "\n")  # where a name has one line
MARKS = MARK + "".join(map(chr, filter(lambda code: code >= 0xa0, CONTROLS)))  # where control characters are refused
OWN = re.compile(r"\x1b\[(?:0|1|2|31|32|33|34)m|(?:\x1b\[\d+A)?\r\x1b\[[JK]|\x1b\[H\x1b\[J|\r\n")


def on_terminal(*words, status=None, **environment):
    """What a command shows on a terminal, standard output and errors together."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 20000, 0, 0))  # nothing is cut
    done = subprocess.Popen([BINARY, *map(str, words)], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                            env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **environment})
    os.close(theirs)
    late = threading.Timer(DEADLINE_S, done.kill)
    late.start()
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # its end is closed
        pass
    finally:
        os.close(ours)
        ended = done.wait()
        late.cancel()
    assert ended >= 0, (words, shown)
    assert status is None or done.returncode == status, (words, done.returncode, shown)
    return shown.decode("utf-8", "surrogateescape")


def piped(*words):
    """The bytes of its standard output."""
    return subprocess.run([BINARY, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=DEADLINE_S).stdout


def check(shown, words, mark=MARK):
    """Nothing but our own sequences, and lines."""
    rest = OWN.sub("\n", shown)
    found = {f"U+{ord(letter):04X}" for letter in rest
             if ord(letter) in CONTROLS and letter not in "\n\t" or 0xd800 <= ord(letter) < 0xe000}
    assert not found, (words, found, shown)
    assert mark in shown, (words, shown)


@pytest.fixture
def api(start, monkeypatch):
    server = start()
    monkeypatch.setenv("DROVER_URL", f"http://127.0.0.1:{server.port}")
    api = Api(server.port)
    api.zk_port = server.zk_port
    return api


def both(*words, mark=MARK, **more):
    check(on_terminal(*words, **more), words, mark)
    check(on_terminal(*words, "--json", **more), (*words, "--json"), mark)


def test_tasks(api):
    [task] = api("POST", "/update", {"clientid": 1, "adds": [{"group": NAME, "data": EVIL}]})["tasks"]
    api("PUT", f"/v1/groups/{quote(NAME, safe='')}", {"dead": NAME + "2"})
    for words in (("ls",), ("ls", "--wide"), ("groups",), ("groups", "--names"), ("group", "show", NAME),
                  ("task", task["id"]), ("find", "--text", MARK), ("purge", NAME, "--dry-run")):
        both(*words)
    check(on_terminal("task", "--data", task["id"]), "task --data")
    assert piped("task", "--data", task["id"]) == EVIL.encode()
    assert json.loads(drover("task", task["id"], "--json").stdout)[0]["data"] == EVIL
    check(on_terminal("work", NAME, "--until-empty", "--attempts", "1", "--verbose", "--", "false"), "work", "dead")
    api("POST", "/update", {"clientid": 1, "adds": [{"group": NAME, "data": EVIL}]})
    check(on_terminal("claim", NAME), "claim")


def test_dead_tasks_results_and_schedules(api):
    add = {"group": NAME, "data": EVIL, "key": EVIL}
    [task] = api("POST", "/update", {"clientid": 1, "adds": [add]})["tasks"]
    [dead] = api("POST", "/update", {"clientid": 1, "fails": [{"id": task["id"], "dead": True, "error": EVIL}]})["tasks"]
    for words in (("dead", "ls"), ("dead", "show", dead["id"]), ("result", dead["id"]), ("dead", "rm", "--all", "--dry-run")):
        both(*words)
    api("PUT", f"/v1/groups/{quote(NAME, safe='')}", {"keep_done": 3600000})
    api("POST", "/update", {"clientid": 1, "adds": [{"group": NAME}]})
    [done] = api("POST", "/v1/tasks/bulk", {"action": "priority", "priority": 1, "filter": {"group": NAME}})["examples"]
    api("POST", "/update", {"clientid": 1, "finishes": [{"id": f"first:{done['first']}", "result": EVIL}]})
    both("result", f"first:{done['first']}")
    assert piped("result", f"first:{done['first']}") == EVIL.encode()
    api("PUT", f"/v1/schedules/{quote(NAME, safe='')}", {"every": 3600000, "task": {"group": NAME, "data": EVIL}})
    both("cron", "ls")
    both("cron", "show", NAME)


def test_graphs(api, tmp_path):
    dag = Dag(api.port)
    (tmp_path / "evil").write_bytes(EVIL.encode() + b"\xff\xfe")
    [id] = dag.add(shell(f"cat {tmp_path}/evil; cat {tmp_path}/evil >&2; exit 3", name=MARKS))
    dag.wait(id)
    [waits] = dag.add(shell("true", id, name=MARKS, group=MARKS))
    for words in (("nodes",), ("show", id), ("show", waits)):
        both(*words)
    for words in (("log", id), ("log", id, "--stream", "stderr")):  # exec passes on the bytes, as the command's own
        check(on_terminal(*words), words)
    assert piped("log", id, "--stream", "stdout").startswith(EVIL.encode())
    both("wait", id, mark="failed")
    [runs] = dag.add(shell("sleep 60", name=MARKS))
    wait_until(lambda: dag.state(runs) == "running", "the node")
    check(on_terminal("top", "--once"), "top")
    both("kill", runs, mark=runs)
    graph = {"name": MARKS, "nodes": {
        MARKS: {"command": ["cat", f"{tmp_path}/evil"]},
        "then": {"after": MARKS, "command": f"cat {tmp_path}/evil; exit 1"}}}
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    for words in ((), ("--dry-run",), ("--dot",), ("--mermaid",)):
        check(on_terminal("run", *words, tmp_path / "graph.json"), ("run", *words))


def test_queues_and_worlds(api):
    queue = api("POST", "/v1/queues", {})["queue"]
    api("POST", f"/v1/queues/{queue}/messages", {"data": EVIL})
    both("queue", "read", queue)
    assert json.loads(drover("queue", "read", queue, "--json").stdout)["messages"][0]["data"] == EVIL
    both("queue", "ls", mark=queue)
    both("queue", "post", queue, NAME, mark="")
    api("POST", "/v1/worlds", {"world": "v"})
    status, _ = api.send("POST", "/v1/worlds/v/tasks", {"task": {"name": MARK, "type": "t", "data": {"x": NAME}}})
    assert status == 200
    both("world", "ls", "v")
    both("world", "tree", "v")
    check(on_terminal("world", "claim", "v", "--type", "t"), "world claim")
    check(on_terminal("world", "fail", "v", f"{MARK}_t", "--session", "none", "--error", NAME), "world fail", "")


def test_batches(api):
    batch = api("POST", "/v1/batches", {"submission": {"profile_name": NAME, "batchID": MARK}})["batch"]
    job = api("POST", f"/v1/batches/{batch}/jobs",
              {"configuration": {"profile_name": NAME, "more": [NAME]}, "metadata": {NAME: NAME}})["job"]
    api("POST", f"/v1/jobs/{job}/hold", {"message": EVIL})
    access = api("POST", "/v1/access/small", {"token": {"token": NAME}})["access"]
    api("PUT", "/v1/locks/collections/c", {"who": NAME})
    for words in (("batch", "ls"), ("batch", "find", MARK), ("job", "ls"), ("job", "show", job), ("access", "ls", "small"),
                  ("access", "show", "small", access), ("lock", "ls"), ("lock", "show", "collections", "c")):
        both(*words)
    both("batch", "show", batch)
    check(on_terminal("access", "acquire", "small"), "access acquire", access)
    check(on_terminal("lock", "take", "collections", "c"), "lock take")
    both("batch", "counts", mark="Pending")


def test_states_of_others(api, start):
    """From the tree, which any client can write: a state that no server checked."""
    kazoo = pytest.importorskip("kazoo.client")
    batch = api.batch()
    job = api.job(batch, 5)
    client = kazoo.KazooClient(hosts=f"127.0.0.1:{api.zk_port}", timeout=30)
    client.start()
    state = MARK + "\u202e\u2066"
    client.set(f"/jobs/{job}/status", json.dumps({"status": state, "message": NAME}).encode())
    client.create(f"/jobs/states/{state.lower()}")
    client.create(f"/jobs/states/{state.lower()}/05-{job}")
    client.delete(f"/jobs/states/pending/05-{job}")
    client.stop()
    client.close()
    for words in (("job", "ls"), ("job", "counts"), ("job", "show", job)):
        both(*words)
    check(on_terminal("batch", "show", batch), "batch show")
    both("batch", "fsck", mark="")


class Hostile(http.server.BaseHTTPRequestHandler):
    """Says the same to every request: an error, or a reply."""

    def do_GET(self):
        data = self.server.body.encode()
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def hostile(monkeypatch):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("DROVER_URL", f"http://127.0.0.1:{server.server_port}")
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_errors_of_a_server(hostile):
    hostile.status, hostile.body = 404, json.dumps({"errors": [EVIL]})
    for words in (("ls",), ("show", "1"), ("batch", "ls"), ("queue", "read", "q"), ("world", "ls", "v"), ("log", "1"),
                  ("token", "ls"), ("whoami",)):
        check(on_terminal(*words), words, "")
    check(on_terminal("ls"), "ls")
    assert drover("ls").stderr.count("\n") == 1


def test_replies_of_a_server(hostile):
    hostile.status = 200
    hostile.body = json.dumps({"token": EVIL, "id": EVIL, "session": NAME, "name": EVIL, "roles": [EVIL], "state": EVIL,
                               "batch": {"id": EVIL, "state": EVIL}, "lock": {EVIL: EVIL, "who": [EVIL]}, "next": 1},
                              ensure_ascii=False)
    for words in (("token", "create", "--role", "read"), ("whoami",), ("batch", "acquire"), ("batch", "state", "b", "next"),
                  ("lock", "take", "storage", "x"), ("world", "claim", "v", "--type", "t"), ("doctor",),
                  ("doctor", "--json")):
        check(on_terminal(*words), words, "")
    for body in ("[" + json.dumps({"id": EVIL, "state": EVIL}) + "]", EVIL, EVIL.replace("\r", "")):
        hostile.body = body
        for words in (("wait", "1"), ("nodes", "--json"), ("ls", "--json"), ("task", "1", "--json")):
            check(on_terminal(*words), words, "")


def test_arguments():
    """They may come from the names of files."""
    for words in ((EVIL,), ("batch", EVIL), ("ls", f"--{NAME}"), ("show", EVIL), ("run", NAME), ("ls", f"--limi{NAME}")):
        check(on_terminal(*words), words, "")


def test_the_log_of_a_server(start, tmp_path):
    """Lines of the log are lines, whatever is in them."""
    words = ("serve", "--journal", "none", "--http", "127.0.0.1:0", "--zk", "none", "--token-file", tmp_path / NAME.replace("/", ""))
    check(on_terminal(*words, status=1), words, "")
    done = drover(*words)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
