"""`drover serve` as a process: its output, how it ends, and when it refuses to start."""

import contextlib
import os
import pathlib
import re
import signal
import socket
import struct
import tempfile

import pytest

from conftest import ANY_PORTS, OnEnsemble, Server, call, drover, sentences, wait_until
from test_command import version

ENDS = [signal.SIGTERM, signal.SIGINT]


def listing(directory):
    """Every name below a directory with what it holds, to see that nothing changed.

    The lock is not data: each process that looks into the directory holds it meanwhile.
    """
    return {str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
            for path in sorted(directory.rglob("*")) if path.name != "lock"}


def crc32c(data):
    remainder = 0xffffffff
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82f63b78 if remainder & 1 else 0)
    return remainder ^ 0xffffffff


def test_says_what_runs(start, tmp_path):
    server = start("--loopback-roles", "read")
    assert sentences(server.said) == [
        f"version {version()}",
        f"data directory {tmp_path / 'data'}",
        "journal strict",
        server.wait_for(r"recovered \d+ nodes, 0 journal records")[0],
        *(["commands run as root; --run-as USER runs them as another user"] if os.geteuid() == 0 else []),
        f"listening on http://127.0.0.1:{server.port}",
        f"listening on zk://127.0.0.1:{server.zk_port}",
    ]


@pytest.mark.parametrize("roles", ["all", "read,run", "admin"])
def test_says_that_commands_are_open_to_all(start, roles):
    assert "every user of this machine can have commands run" in start("--loopback-roles", roles).said


@pytest.mark.parametrize("journal", ["strict", "opportunistic"])
def test_journal_modes(start, tmp_path, journal):
    server = start("--journal", journal)
    assert f"journal {journal}\n" in server.said
    assert server.stop() == 0
    assert (tmp_path / "data").is_dir()


def test_without_journal_nothing_is_written(start, tmp_path):
    server = start("--journal", "none")
    assert "all data is lost when this process ends" in server.said
    assert server.stop() == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", ENDS)
def test_ends_cleanly(start, number):
    server = start()
    server.signal(number)
    assert server.wait() == 0
    assert "stopping: received SIG" in server.said


@pytest.mark.parametrize("number", ENDS)
def test_ends_cleanly_with_connections_open(start, number):
    server = start()
    idle, half = server.connect(), server.connect()
    half.send(b"GET /heal")
    used = server.connect()
    used.send(server.fill("GET /healthz HTTP/1.1\r\nHost: HOST\r\n\r\n"))
    assert used.answer()[0] == 200
    server.signal(number)
    assert server.wait() == 0
    assert idle.is_closed() and half.is_closed() and used.is_closed()


def test_serves_without_ports(tmp_path):
    server = Server("--data", tmp_path / "data", "--http", "none", "--zk", "none")
    try:
        server.wait_for(r"recovered .*\n")
        assert server.stop() == 0
        assert "listening" not in server.said
    finally:
        server.kill()


def test_starts_again_on_what_it_left(start):
    assert start().stop() == 0
    server = start()
    assert server.request("GET /healthz HTTP/1.1\r\nHost: HOST\r\n\r\n")[0] == 200
    assert server.stop() == 0


def test_starts_again_after_a_kill(start):
    first = start()
    first.signal(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    assert start().stop() == 0


def test_a_missing_data_directory_is_made(start, tmp_path):
    assert not (tmp_path / "data").exists()
    start()
    assert (tmp_path / "data").is_dir()


def nobody():
    """Lets the process that is about to start run as the user nobody, if we are root."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


@pytest.mark.parametrize("variable, below", [("XDG_STATE_HOME", ""), ("HOME", ".local/state")])
def test_default_data_directory(variable, below):
    """The default data directory. Missing parents are created."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        os.chmod(directory, 0o777)
        environment = {k: v for k, v in os.environ.items() if k not in ("XDG_STATE_HOME", "HOME")}
        environment[variable] = directory + "/new"
        server = Server(env=environment, preexec_fn=nobody)
        try:
            server.start()
            data = pathlib.Path(directory, "new", below, "drover")
            assert f"data directory {data}\n" in server.said
            assert data.is_dir()
            assert server.stop() == 0
        finally:
            server.kill()


class Refused:
    """A start that must fail with status 1, one line, and nothing changed."""

    def __init__(self, tmp_path):
        self.tmp_path = tmp_path

    def __call__(self, data, *arguments):
        before = listing(self.tmp_path)
        done = drover("serve", *ANY_PORTS, "--data", data, *arguments)
        assert done.returncode == 1 and done.stdout == ""
        lines = sentences(done.stderr)
        assert len(lines) == 1, done.stderr
        assert listing(self.tmp_path) == before, "nothing may change"
        return lines[0]


@pytest.fixture
def refused(tmp_path):
    return Refused(tmp_path)


def test_data_directory_is_a_file(refused, tmp_path):
    (tmp_path / "data").write_text("mine")
    assert str(tmp_path / "data") in refused(tmp_path / "data")


def test_data_directory_below_nothing(refused, tmp_path):
    assert str(tmp_path / "no/where") in refused(tmp_path / "no/where")


def test_data_directory_not_writable(refused):
    """Even root cannot write there."""
    assert "/proc/drover" in refused("/proc/drover")


def test_data_directory_in_use(start, tmp_path):
    first = start()
    done = drover("serve", *ANY_PORTS, "--data", tmp_path / "data")
    assert (done.returncode, done.stdout) == (1, "")
    assert len(sentences(done.stderr)) == 1
    assert str(tmp_path / "data") in done.stderr
    assert re.search(rf"\b{first.process.pid}\b", done.stderr), done.stderr
    assert first.request("GET /healthz HTTP/1.1\r\nHost: HOST\r\n\r\n")[0] == 200
    assert first.stop() == 0
    assert start().stop() == 0


@pytest.mark.parametrize("command", [["serve", *ANY_PORTS, "--data"], ["fsck"], ["fsck", "--salvage", "--yes"]])
def test_data_directory_in_use_without_the_lock_file(start, tmp_path, command):
    """The directory itself is locked: removing a file in it lets nobody in."""
    first = start()
    (tmp_path / "data/lock").unlink()
    done = drover(*command, tmp_path / "data")
    assert (done.returncode, done.stdout) == (1, "")
    assert sentences(done.stderr) == [f"the data directory {tmp_path / 'data'} is in use by another process"]
    assert not (tmp_path / "data/lock").exists()
    assert first.request("GET /healthz HTTP/1.1\r\nHost: HOST\r\n\r\n")[0] == 200
    assert first.stop() == 0
    assert start().stop() == 0


def leave_data(start):
    """A data directory that a server has used. Gives back its first journal segment."""
    server = start()
    data = pathlib.Path(server.wait_for(r"data directory (.*)\n")[1])
    assert server.stop() == 0
    return sorted(data.glob("journal-*"))[0]


def test_data_directory_damaged(start, refused):
    segment = leave_data(start)
    content = bytearray(segment.read_bytes())
    content[24] ^= 1
    segment.write_bytes(content)
    line = refused(segment.parent)
    assert str(segment.parent) in line and "damaged" in line, line


def test_data_directory_of_a_newer_version(start, refused):
    """The header says version 2, and its sum is right."""
    segment = leave_data(start)
    content = segment.read_bytes()
    header = content[:8] + struct.pack("<II", 2, 0) + content[16:64]
    header = header[:12] + struct.pack("<I", crc32c(header)) + header[16:]
    segment.write_bytes(header + content[64:])
    line = refused(segment.parent)
    assert str(segment) in line and "newer version" in line, line


@pytest.mark.parametrize("option", ["--http", "--zk"])
def test_port_in_use(tmp_path, option):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = drover("serve", *ANY_PORTS, "--data", tmp_path / "data", option,
                      f"127.0.0.1:{port}")
    assert (done.returncode, done.stdout) == (1, "")
    assert sentences(done.stderr) == [f"cannot listen on 127.0.0.1:{port}: address already in use"]
    assert list(tmp_path.iterdir()) == [], "nothing may change"


def catches(server, number):
    """Whether the process has a handler for the signal."""
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) >> (number - 1) & 1


def test_a_second_signal_ends_at_once(start):
    """Nobody reads its log, so the first signal holds it up for ever; the second does not wait."""
    server = start()
    log = os.open(f"/proc/{server.process.pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(log, b"\n")
    os.close(log)
    server.signal(signal.SIGTERM)
    wait_until(lambda: not catches(server, signal.SIGTERM), "the first signal")
    server.signal(signal.SIGTERM)
    assert server.wait() == -signal.SIGTERM


def test_a_server_does_not_load_the_library_of_the_clients(server):
    """libcurl and the thirty libraries that it brings take more memory than thirty thousand nodes."""
    maps = pathlib.Path(f"/proc/{server.process.pid}/maps").read_text()
    assert "libc.so" in maps
    assert "libcurl" not in maps and "libcrypto" not in maps


def test_a_server_on_the_port_of_another_needs_a_chroot(start):
    """The first one has its tasks in memory: nobody else may change them."""
    first = start()
    add = {"clientid": 1, "adds": [{"group": "g", "data": "a"}]}
    assert call(first.port, "POST", "/update", add)[0] == 200
    second = OnEnsemble(f"zk://127.0.0.1:{first.zk_port}").start()
    third = OnEnsemble(f"zk://127.0.0.1:{first.zk_port}/other").start()
    try:
        second.wait_for("cannot lead: /drover/tasks belongs to a server with an embedded keeper")
        assert call(second.port, "POST", "/update", add)[0] == 503
        third.leads()
        assert call(third.port, "GET", "/groups") == (200, [])
        assert len(call(first.port, "GET", "/group/g")[1]) == 1
    finally:
        second.kill()
        third.kill()
