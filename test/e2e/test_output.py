"""What commands print: every byte, by ranges, while they run, after a crash, beyond a limit."""

import http.client
import json
import pathlib
import signal
import subprocess

import pytest

from cli import Client
from conftest import BINARY, DEADLINE_S, fill_disk, wait_until
from dag_support import Dag, Refused, node, shell

pytestmark = pytest.mark.slow

BYTES = bytes(range(256)) * 40  # more than the record of a node has


@pytest.fixture
def client(server, tmp_path):
    return Client(f"http://127.0.0.1:{server.port}", tmp_path)


@pytest.fixture
def dag(server):
    return Dag(server.port)


def fetch(port, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    try:
        connection.request(method, path, None, {k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def output(dag, id, query="", **headers):
    return fetch(dag.port, f"/v1/nodes/{id}/output{query}", **headers)


def run_bytes(client, *words, input=b""):
    process = client.popen(*words, stdin=subprocess.PIPE, text=False)
    out, err = process.communicate(input, timeout=3 * DEADLINE_S)
    return process.returncode, out, err


def test_bytes_stay_bytes(dag, client, tmp_path):
    (tmp_path / "bytes").write_bytes(BYTES)
    [a] = dag.add(shell(f"cat {tmp_path}/bytes; cat {tmp_path}/bytes >&2"))
    assert dag.wait(a) == ["finished"]
    for stream, whole in (("stdout", BYTES), ("stderr", BYTES), ("mixed", BYTES + BYTES)):
        status, headers, body = output(dag, a, f"?stream={stream}")
        assert (status, headers["Content-Type"]) == (200, "application/octet-stream")
        assert headers["Drover-Output-Length"] == str(len(whole))
        assert sorted(body) == sorted(whole) and (stream == "mixed" or body == whole)
    for asked, first, last in (("0-0", 0, 1), ("100-199", 100, 200), ("10200-", 10200, 10240),
                               ("-50", 10190, 10240), ("10230-99999", 10230, 10240)):
        status, headers, body = output(dag, a, "?stream=stdout", Range=f"bytes={asked}")
        assert (status, body) == (206, BYTES[first:last]), asked
        assert headers["Content-Range"] == f"bytes {first}-{last - 1}/10240"
    for asked in ("10240-", "99999-"):
        status, headers, body = output(dag, a, "?stream=stdout", Range=f"bytes={asked}")
        assert (status, headers["Content-Range"]) == (416, "bytes */10240"), body
    for asked in ("5-3", "x", "-", "1-2,5-6", "99999999999999999999999-"):
        assert output(dag, a, "?stream=stdout", Range=f"bytes={asked}")[0] == 200, asked
    assert output(dag, a, "?stream=stdout&from=10&to=20")[2] == BYTES[10:20]
    assert output(dag, a, "?stream=stdout&from=-7")[2] == BYTES[-7:]
    assert output(dag, a, "?stream=stdout&from=99999")[2] == b""
    assert fetch(dag.port, f"/v1/nodes/{a}/output", method="HEAD")[2] == b""
    assert output(dag, 99)[0] == 404 and output(dag, a, "?stream=x")[0] == 400
    page = dag.data(a, "stdout", limit=300)
    assert page["replaced"] is True and page["data"].startswith("\0\1\2")
    assert dag.data(a, "stdout", last=4)["replaced"] is True
    assert run_bytes(client, "log", "--stream", "stdout", a)[:2] == (0, BYTES)


def test_a_limit_keeps_both_ends(start, tmp_path):
    dag = Dag(start("--output-limit", "1MiB").port)
    client = Client(f"http://127.0.0.1:{dag.port}", tmp_path)
    [a] = dag.add(shell("echo first; head -c 5000000 /dev/zero; echo last"))
    assert dag.wait(a) == ["finished"]
    status, headers, body = output(dag, a)
    missing = int(headers["Drover-Output-Missing"])
    assert len(body) + missing == 5000011 and 1 << 19 < len(body) < 1 << 21
    assert body.startswith(b"first\n\0") and body.endswith(b"\0last\n")
    assert output(dag, a, Range="bytes=0-5")[0] == 200  # a range might be what was not kept
    text, query = "", {}
    while "start" not in query or query["start"]:
        page = dag.data(a, "stdout", **query)
        text += page["data"]
        query = {"start": page.get("pagination", {}).get("next", ""),
                 "pid": page.get("pagination", {}).get("pid", "")}
    assert f"[drover: {missing} bytes were not kept here]" in text and text.endswith("last\n")
    done = run_bytes(client, "log", a)
    assert (done[0], done[1]) == (0, body) and f"{missing} bytes were not kept" in done[2].decode()
    assert run_bytes(client, "log", "-n", "1", a)[1].endswith(b"\0last\n")


def test_following_what_never_ends(dag, client):
    [a] = dag.add(shell("i=0; while :; do echo line $((i++)); done", name="endless"))
    follower = client.popen("log", "-f", "endless")
    lines = [follower.stdout.readline() for _ in range(20000)]
    assert lines == [f"line {i}\n" for i in range(20000)]
    status, headers, body = output(dag, a, "?from=0&to=14")
    assert body == b"line 0\nline 1\n" and int(headers["Drover-Output-Length"]) > 100000
    assert dag.data(a, "stdout", limit=7)["data"] == "line 0\n"
    assert dag.data(a, "stdout", last=100)["data"].count("line") > 5
    follower.kill()
    follower.communicate()
    late = client.popen("log", "-f", "-n", "2", a)
    assert late.stdout.readline().startswith("line ")
    dag.kill(a)
    assert late.stdout.read().endswith("\n") and late.wait(DEADLINE_S) == 0
    late.stderr.close()


def test_log_by_lines(dag, client):
    [a] = dag.add(shell("echo one; sleep 0.3; echo two >&2; echo three"))
    dag.wait(a)
    assert client.ok("log", "-n", "2", a) == "two\nthree\n"
    assert client.ok("log", "-n", "0", a) == "" and client.ok("log", "-n", "9", a).count("\n") == 3
    assert client.ok("log", "--grep", "^t.o$", a) == "two\n"
    assert client.ok("log", "--stream", "stderr", a) == "two\n"
    first, second, third = client.ok("log", "--timestamps", a).splitlines()
    assert first.endswith("Z one") or first.endswith(" one")
    assert first.split()[0] < second.split()[0] <= third.split()[0]
    assert client.run("log", "--grep", "[", a).returncode == 2
    assert client.run("log", "nobody").returncode == 2 and client.run("log", "99").returncode == 1


def test_a_crash_loses_nothing_that_is_a_second_old(start, tmp_path):
    server = start()
    dag = Dag(server.port)
    a, b = dag.add(shell("head -c 300000 /dev/zero | tr '\\0' x; sleep 77"),
                   shell("echo little; sleep 77"))
    wait_until(lambda: int(output(dag, a)[1]["Drover-Output-Length"]) == 300000, "output")
    wait_until(lambda: len(list((tmp_path / "data/output").rglob("*.out"))) == 2,
               "both have a file")
    server.kill()
    for file in (tmp_path / "data/output").rglob("*.out"):
        with open(file, "ab") as torn:
            torn.write(b"\1torn")
    server = start()
    dag = Dag(server.port)
    assert dag.wait(a, b) == ["failed", "failed"]
    assert output(dag, a)[2] == b"x" * 300000
    assert dag.node(b)["data"]["stdout"] == "little\n" and output(dag, b)[2] == b"little\n"
    wait_until(lambda: [one.suffix for one in
                        (tmp_path / "data/output").rglob("*-*")] == [".zst"], "sealed")
    assert output(dag, a)[2] == b"x" * 300000
    [file] = (tmp_path / "data/output").rglob("*.zst")
    bytes = bytearray(file.read_bytes())
    bytes[50] ^= 1
    file.write_bytes(bytes)
    assert output(dag, a)[0] == 500
    with pytest.raises(Refused) as refused:
        dag.data(a, "stdout")
    assert refused.value.status == 500 and "damaged" in refused.value.errors[0]
    file.unlink()
    assert output(dag, a)[0] == 410
    assert dag.data(a, "stdout")["note"] == "the output was removed"
    assert dag.wait(a) == ["failed"]


def removed(dag, id):
    try:
        return dag.call("DELETE", f"/v1/nodes/{id}")
    except Refused:  # it is being changed, for a moment
        return None


def test_nodes_that_are_removed_take_their_output_along(dag, client, tmp_path):
    [a] = dag.add(shell("head -c 100000 /dev/zero"))
    dag.wait(a)
    files = lambda: list((tmp_path / "data/output").rglob("*-*"))
    assert files()
    wait_until(lambda: removed(dag, a), "it can be removed")
    wait_until(lambda: not files(), "removed")
    done = run_bytes(client, "exec", "--rm", "--", "head", "-c", "100000", "/dev/zero")
    assert done[:2] == (0, b"\0" * 100000)
    wait_until(lambda: not files(), "removed")
    assert dag.get("/v1/nodes") == []


def test_a_full_disk_does_not_stop_a_command(start, small_disk, tmp_path):
    dag = Dag(start("--output-dir", small_disk).port)
    flag = tmp_path / "flag"
    [a] = dag.add(shell(f"head -c 300000 /dev/zero; until test -e {flag}; do sleep 0.02; done; "
                        "head -c 2000000 /dev/zero; echo last"))
    wait_until(lambda: int(output(dag, a)[1]["Drover-Output-Length"]) == 300000, "output")
    fill_disk(small_disk / "filler")
    flag.touch()
    assert dag.wait(a) == ["finished"]
    (small_disk / "filler").unlink()
    status, headers, body = output(dag, a)
    assert status == 200 and len(body) + int(headers["Drover-Output-Missing"]) == 2300005
    assert body[:300000] == b"\0" * 300000


def test_exec_is_the_command(dag, client, tmp_path):
    assert run_bytes(client, "exec", "--", "cat", input=BYTES * 300) == (0, BYTES * 300, b"")
    code, out, err = run_bytes(client, "exec", "--", "bash", "-c", "printf 'a\\0b'; printf c >&2; exit 7")
    assert (code, out) == (7, b"a\0b") and err.startswith(b"c")
    assert run_bytes(client, "exec", "--timeout", "200ms", "--", "sleep", "60")[0] == 124
    assert run_bytes(client, "exec", "--", "bash", "-c", "kill -KILL $$")[0] == 137
    assert run_bytes(client, "exec", "--", "/no/such")[0] == 127
    assert run_bytes(client, "exec", "-n", "--", "wc", "-c", input=b"not read")[1] == b"0\n"
    assert run_bytes(client, "exec", "--", "head", "-c", "3", input=BYTES * 300)[1] == BYTES[:3]
    process = client.popen("exec", "--", "bash", "-c", "yes", stdout=subprocess.PIPE)
    assert process.stdout.readline() == "y\n"
    process.stdout.close()
    assert process.wait(DEADLINE_S) == 141
    process.stderr.close()


@pytest.mark.parametrize("where", ["here", "agent"])
def test_exec_passes_on_signals(dag, client, tmp_path, where):
    group, agent = [], None
    if where == "agent":
        agent = subprocess.Popen([BINARY, "agent", "--server", f"http://127.0.0.1:{dag.port}",
                                  "--group", "far"], stderr=subprocess.DEVNULL,
                                 stdin=subprocess.DEVNULL)
        group = ["--group", "far", "--wait-for-agent", "30s"]
        assert run_bytes(client, "exec", *group, "--", "cat", input=BYTES * 100) == \
            (0, BYTES * 100, b"")
        assert run_bytes(client, "exec", *group, "--", "bash", "-c", "exit 9")[0] == 9
    process = client.popen("exec", *group, "--", "bash", "-c",
                           "trap 'echo usr1' USR1; trap 'echo term; exit 5' TERM; echo ready; "
                           "while :; do read -t 0.05 < <(:); sleep 0.05; done")
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "usr1\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=DEADLINE_S)[0] == "term\n" and process.returncode == 5
    if agent:
        agent.terminate()
        assert agent.wait(DEADLINE_S) == 0


def test_nothing_is_lost_that_exec_has_not_read(start, tmp_path):
    """The limit is a tenth of it. A command waits for the reader, as in a pipe."""
    for arguments in (("--output-limit", "1MiB"), ("--journal", "none")):
        dag = Dag(start(*arguments).port)
        client = Client(f"http://127.0.0.1:{dag.port}", tmp_path)
        process = client.popen("exec", "--", "seq", "1", "2000000", text=False)
        assert process.stdout.read(9) == b"1\n2\n3\n4\n5"
        count = sum(1 for _ in process.stdout)
        assert (count, process.wait(DEADLINE_S)) == (1999996, 0)
        process.stderr.close()
        [a] = dag.add(shell("echo first; seq 1 1000000"))
        dag.wait(a)
        body = output(dag, a)[2]
        assert body.startswith(b"first\n1\n") and body.endswith(b"\n1000000\n")


def test_input_is_checked(dag):
    [a, b] = dag.add(node("command", command="cat", attach=True), shell("sleep 60"))
    post = lambda id, query, **more: fetch_body(dag.port, f"/v1/nodes/{id}/stdin{query}", **more)
    assert post(a, "?at=5")[0] == 409 and post(b, "")[0] == 409 and post(99, "")[0] == 404
    assert post(a, "", type="text/plain")[0] == 415
    assert post(a, "", body=b"one ") == (200, {"next": 4})
    assert post(a, "", body=b"one ") == (200, {"next": 4})  # again
    assert post(a, "?at=2&end=1", body=b"e two") == (200, {"next": 7})
    assert dag.wait(a) == ["finished"] and dag.node(a)["data"]["stdout"] == "one two"
    assert post(a, "?at=7")[0] == 409
    dag.kill(b)


def fetch_body(port, path, body=b"", type="application/octet-stream"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    try:
        connection.request("POST", path, body, {"Content-Type": type})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_the_oldest_outputs_go(start):
    server = start("--output-total", "300KiB")
    dag = Dag(server.port)
    ids = dag.add(*(shell("head -c 100000 /dev/urandom") for _ in range(6)))
    dag.wait(*ids)
    wait_until(lambda: output(dag, ids[0])[0] != 200 or not output(dag, ids[0])[2], "removed")
    assert dag.data(ids[0], "stdout") == {"key": "stdout", "data": "",
                                          "note": "the output was removed"}
    assert len(output(dag, ids[-1])[2]) == 100000
