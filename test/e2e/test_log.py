"""The log of a server: its form on a terminal, in a file, in systemd's journal and as JSON; its levels."""

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import time

from conftest import ANY_PORTS, BINARY, DEADLINE_S, Server, call, drover, sentences, wait_until

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"


def json_lines(server):
    return [json.loads(line) for line in server.said.splitlines()]


def test_a_pipe_has_time_and_level(tmp_path):
    server = Server("--data", tmp_path / "data", env=os.environ | {"TZ": "UTC-5:30"}).start()
    try:
        assert server.stop() == 0
        for line in server.said.splitlines():
            assert re.match(rf"{TIME} (info|warning) \S", line) and "+05:30 " in line, line
        assert "stopping: received SIGTERM" in sentences(server.said)
    finally:
        server.kill()


def test_a_terminal_has_the_time_of_day(tmp_path):
    ours, theirs = pty.openpty()
    process = subprocess.Popen([BINARY, "serve", *ANY_PORTS, "--data", tmp_path / "data"],
                               stdin=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    said, deadline = "", time.monotonic() + DEADLINE_S
    try:
        while "listening on zk" not in said:
            assert select.select([ours], [], [], deadline - time.monotonic())[0], said
            said += os.read(ours, 65536).decode()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE_S)
        os.close(ours)
    assert all(re.match(r"\d\d:\d\d:\d\d (info|warning) \S", line) for line in said.splitlines()), said


def journal(tmp_path, stream):
    """What a server writes to a socket that is its standard error, if JOURNAL_STREAM is stream(that)."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen([BINARY, "serve", *ANY_PORTS, "--data", tmp_path / "data"],
                               stdin=subprocess.DEVNULL, stderr=theirs,
                               env=os.environ | {"JOURNAL_STREAM": stream(os.fstat(theirs.fileno()))})
    theirs.close()
    said, asked = b"", False
    ours.settimeout(DEADLINE_S)
    while more := ours.recv(65536):
        said += more
        if b"listening on zk" in said and not asked:
            process.send_signal(signal.SIGTERM)
            asked = True
    ours.close()
    assert process.wait(DEADLINE_S) == 0
    return said.decode().splitlines()


def test_the_journal_has_priorities_and_no_time(tmp_path):
    lines = journal(tmp_path, lambda st: f"{st.st_dev}:{st.st_ino}")
    assert lines[0].startswith("<6>version ") and "<6>stopping: received SIGTERM" in lines
    assert all(re.match(r"<[3467]>\w", line) for line in lines)


def test_a_stream_that_is_not_the_journal(tmp_path):
    """The variable was inherited, and standard error leads elsewhere."""
    lines = journal(tmp_path, lambda st: f"{st.st_dev}:{st.st_ino + 1}")
    assert all(re.match(TIME, line) for line in lines)


def test_json_has_fields(tmp_path):
    server = Server("--data", tmp_path / "data", "--log", "json", "--config", "none")
    try:
        server.port = int(server.wait_for(r'"url":"http://127\.0\.0\.1:(\d+)"')[1])
        server.zk_port = int(server.wait_for(r'"url":"zk://127\.0\.0\.1:(\d+)"')[1])
        server.signal(signal.SIGHUP)
        server.wait_for('"event":"reloaded"')
        assert server.stop() == 0
        events = {line["event"]: line for line in json_lines(server) if "event" in line}
        assert events["start"]["pid"] == server.process.pid
        assert events["data"]["path"] == str(tmp_path / "data")
        assert events["journal"]["mode"] == "strict"
        assert events["recovered"]["records"] == 0 and events["recovered"]["nodes"] >= 1
        assert events["listening"]["url"] == f"zk://127.0.0.1:{server.zk_port}"
        assert events["reloaded"]["changed"] == "" and events["reloaded"]["at_next_start"] == ""
        assert events["stopping"]["signal"] == "SIGTERM"
        assert all({"time", "level", "message"} <= set(line) for line in json_lines(server))
    finally:
        server.kill()


def test_a_start_that_fails_has_the_error_as_a_field(tmp_path):
    (tmp_path / "data").write_text("")
    done = drover("serve", *ANY_PORTS, "--data", tmp_path / "data", "--log", "json")
    line = json.loads(done.stderr)
    assert (done.returncode, line["event"], line["level"], line["error"]) == (
        1, "start-failed", "error", "BAD_ARGUMENT")


def test_levels(tmp_path):
    server = Server("--data", tmp_path / "data", "--log-level", "debug").start()
    try:
        assert call(server.port, "GET", "/groups")[0] == 200
        server.wait_for(r" debug GET /groups: 200 in \d+ us\n")
        assert server.stop() == 0
    finally:
        server.kill()


def test_a_level_leaves_out_what_is_below(tmp_path):
    quiet = Server("--data", tmp_path / "data", "--log-level", "error", "--socket", tmp_path / "socket")
    try:
        wait_until(lambda: (tmp_path / "socket").exists(), "the socket is there")
        with socket.socket(socket.AF_UNIX) as client:
            wait_until(lambda: client.connect_ex(str(tmp_path / "socket")) == 0, "it listens")
            client.settimeout(DEADLINE_S)
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(15) == b"HTTP/1.1 200 OK"
        assert quiet.stop() == 0
        assert quiet.said == ""
    finally:
        quiet.kill()


def test_reload_changes_format_and_level(tmp_path):
    file = tmp_path / "drover.conf"
    file.write_text("")
    file.chmod(0o600)
    server = Server("--data", tmp_path / "data", "--config", file).start()
    try:
        file.write_text("log json\nlog-level debug\n")
        server.said = ""
        server.signal(signal.SIGHUP)
        server.wait_for(r'"event":"reloaded"')
        assert '"changed":"log, log-level"' in server.said
        assert call(server.port, "GET", "/groups")[0] == 200
        server.wait_for(r'"event":"request","method":"GET","path":"/groups","status":200,"us":\d+}\n')
        assert server.stop() == 0
    finally:
        server.kill()
