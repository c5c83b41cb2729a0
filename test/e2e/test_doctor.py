"""drover doctor: a healthy machine and server, and each finding provoked."""

import email.utils
import json
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from cli import between
from conftest import BINARY, DEADLINE_S, Server, drover
from test_rights import OTHER_USER, as_root
from test_task_durable import compile_library, preloaded


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return compile_library(tmp_path_factory.mktemp("doctor"), "sick_machine")


@pytest.fixture
def doctor(library, tmp_path):
    """Asks the doctor; (exit status, level of each check, messages of each)."""
    root = tmp_path / "root"

    def ask(*words, sick="", files=None, **more):
        healthy = {"/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   8000000 kB\n",
                   "/proc/sys/vm/overcommit_memory": "0\n", "/proc/self/cgroup": "0::/\n"}
        for path, text in (healthy | (files or {})).items():
            file = root / path[1:]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        environment = preloaded(library, DROVER_TEST_SICK=sick, DROVER_TEST_ROOT=str(root), HOME=str(tmp_path),
                                XDG_STATE_HOME=str(tmp_path / "none"), XDG_RUNTIME_DIR=str(tmp_path / "none"))
        done = subprocess.run([BINARY, "doctor", "--json", *map(str, words)], capture_output=True, text=True,
                              timeout=DEADLINE_S * 2, env=environment, stdin=subprocess.DEVNULL, **more)
        found = json.loads(done.stdout)["findings"]
        levels = {finding["check"]: finding["level"] for finding in found}
        said = {finding["check"]: finding["message"] for finding in found}
        assert all(finding["advice"] or finding["level"] == "ok" for finding in found
                   if finding["check"] not in ("version", "server clock")), found
        worst = any(finding["level"] != "ok" for finding in found)
        assert done.returncode == (1 if worst else 0), done
        return levels, said
    return ask


@pytest.fixture
def server(tmp_path):
    server = Server("--data", tmp_path / "data", "--socket", tmp_path / "s", "--loopback-roles", "read").start()
    yield server
    assert server.stop() == 0, server.said
    server.kill()


def wrong(levels):
    return {check: level for check, level in levels.items() if level != "ok"}


# cgroups need the rights of root, or of a unit; and a server of root is told so.
USUAL = {"cgroup", "process"}


def test_nothing_is_wrong(doctor, server, tmp_path):
    levels, said = doctor("--data", tmp_path / "data", "--server", f"unix:{tmp_path / 's'}",
                          "--keeper", f"zk://127.0.0.1:{server.zk_port}/x")
    assert not set(wrong(levels)) - USUAL, said
    assert set(levels) >= {"server", "version", "server clock", "rights", "data", "admin token", "process",
                           "file system", "space", "disk", "clock", "files", "memory", "cgroup", "keeper"}
    assert str(server.process.pid) in said["process"] and "standalone" in said["keeper"]
    assert re.search(r"takes \d+\.\d ms, at worst \d+\.\d ms \(50 of them\)", said["disk"])
    assert not [path for path in (tmp_path / "data").iterdir() if "doctor" in path.name]


def test_the_list_for_people(server, tmp_path):
    done = drover("doctor", "--server", f"unix:{tmp_path / 's'}", "--data", tmp_path / "nowhere")
    assert done.returncode == 1 and done.stderr == ""
    assert re.search(r"^ok       server: unix:\S+ is ready$", done.stdout, re.MULTILINE)
    assert re.search(r"^error    data: \S+nowhere: No such file or directory\n         name the directory",
                     done.stdout, re.MULTILINE)


@as_root
def test_a_server_of_root(doctor, server, tmp_path):
    levels, said = doctor("--data", tmp_path / "data", "--server", f"unix:{tmp_path / 's'}")
    assert levels["process"] == "warning" and "runs as root" in said["process"]


# The machine.

@pytest.mark.parametrize("sick, check, level, says", [
    ("slow disk", "disk", "warning", "a sync takes"),
    ("broken disk", "disk", "error", "Input/output error"),
    ("nfs", "file system", "warning", "NFS"),
    ("tmpfs", "file system", "warning", "restart of the machine loses"),
    ("little space", "space", "warning", "(3 %)"),
    ("full disk", "space", "error", "3.9 MiB free"),
    ("few inodes", "inodes", "warning", "10 left"),
    ("free clock", "clock", "warning", "not synchronised"),
])
def test_an_ailment(doctor, server, tmp_path, sick, check, level, says):
    levels, said = doctor("--data", tmp_path / "data", "--server", f"unix:{tmp_path / 's'}", sick=sick)
    assert {c: w for c, w in wrong(levels).items() if c not in USUAL} == {check: level}, said
    assert says in said[check]


@pytest.mark.parametrize("path, text, check", [
    ("/proc/meminfo", "MemAvailable: 1000 kB\n", "memory"),
    ("/proc/sys/vm/overcommit_memory", "2\n", "overcommit"),
    ("/proc/self/cgroup", "0::/no/such/cgroup\n", "cgroup"),
    ("/proc/self/cgroup", "4:memory:/x\n", "cgroup"),
])
def test_what_the_kernel_says(doctor, tmp_path, path, text, check):
    assert doctor(files={path: text})[0][check] == "warning"


def test_few_files(doctor):
    levels, said = doctor(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))
    assert levels["files"] == "warning" and "256" in said["files"]


# The data directory.

def test_a_directory_that_others_can_enter(doctor, server, tmp_path):
    (tmp_path / "data").chmod(0o755)
    (tmp_path / "data/admin.token").chmod(0o640)
    levels, said = doctor("--data", tmp_path / "data")
    assert levels["data"] == "warning" and "mode 0755" in said["data"]
    assert levels["admin token"] == "error"


@as_root
def test_a_directory_of_somebody_else(tmp_path):
    with tempfile.TemporaryDirectory(prefix="drover-") as directory:
        os.chmod(directory, 0o755)
        done = subprocess.run([BINARY, "doctor", "--json", "--data", directory], user=OTHER_USER, extra_groups=[],
                              cwd="/", env={"HOME": "/", "PATH": os.environ["PATH"]}, capture_output=True,
                              text=True, timeout=DEADLINE_S)
        if done.returncode == 126 or not done.stdout:
            pytest.skip("the other user cannot run the binary where it is")
        [data] = [f for f in json.loads(done.stdout)["findings"] if f["check"] == "data"]
        assert data["level"] == "warning" and "belongs to user 0" in data["message"]


def test_a_directory_without_server(doctor, tmp_path):
    (tmp_path / "empty").mkdir(mode=0o700)
    (tmp_path / "empty/lock").write_text("999999999\n")
    levels, said = doctor("--data", tmp_path / "empty")
    assert levels["process"] == "ok" and "no server" in said["process"]
    assert doctor("--data", tmp_path / "missing")[0]["data"] == "error"
    assert doctor()[0]["data"] == "ok"  # the default one need not be there


# The server.

def test_no_server(doctor):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # not listening
        levels, said = doctor("--server", f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert levels["server"] == "error" and "cannot reach" in said["server"]


def test_open_rights(doctor, tmp_path):
    server = Server("--journal", "none", "--loopback-roles", "all").start()
    try:
        levels, said = doctor("--server", f"http://127.0.0.1:{server.port}")
        assert levels["rights"] == "warning" and "every user" in said["rights"]
        assert levels["port"] == "ok"
        assert server.stop() == 0
    finally:
        server.kill()


def test_no_rights(doctor, server, monkeypatch):
    levels, said = doctor("--server", f"http://127.0.0.1:{server.port}")
    assert levels["rights"] == "ok" and said["rights"] == "you are loopback and have read"
    monkeypatch.setenv("DROVER_TOKEN", "0123456789abcdef")
    levels, said = doctor("--server", f"http://127.0.0.1:{server.port}")
    assert levels["rights"] == "warning" and "401" in said["rights"]


def test_an_exposed_token(doctor, server, tmp_path):
    file = tmp_path / "token"
    file.write_text((tmp_path / "data/admin.token").read_text())
    file.chmod(0o644)
    server_words = ["--server", f"http://127.0.0.1:{server.port}", "--token-file", file]
    assert doctor(*server_words)[0]["token file"] == "error"
    file.chmod(0o600)
    levels, said = doctor(*server_words)
    assert levels["token file"] == "ok" and said["rights"].startswith("you are the admin token")


def pretend(version="0.1.0", late_s=0, ready=200):
    """What a server answers that is of another version, has another clock, or is not ready."""
    answers = {"/healthz": (200, {"status": "ok"}), "/readyz": (ready, {"errors": ["waiting for the keeper"]}),
               "/v1/openapi.json": (200, {"info": {"version": version}}),
               "/v1/identity": (200, {"name": "x", "roles": ["read"]})}

    def misbehave(handler, _body):
        status, body = answers[handler.path]
        text = json.dumps(body).encode()
        handler.send_response_only(status)
        handler.send_header("Date", email.utils.formatdate(time.time() - late_s, usegmt=True))
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)
    return between(misbehave)


def test_another_version(doctor):
    with pretend(version="9.8.7") as url:
        levels, said = doctor("--server", url)
    assert levels["version"] == "warning" and "the server is 9.8.7" in said["version"]


@pytest.mark.parametrize("late_s, says", [(3600, "behind"), (-3600, "ahead")])
def test_another_clock(doctor, late_s, says):
    with pretend(late_s=late_s) as url:
        levels, said = doctor("--server", url)
    assert levels["server clock"] == "warning" and says in said["server clock"], said


def test_not_ready(doctor):
    with pretend(ready=503) as url:
        levels, said = doctor("--server", url)
    assert levels["server"] == "error" and "waiting for the keeper" in said["server"]


@as_root
def test_a_port_of_somebody_else(doctor):
    script = ("import socket\ns = socket.create_server(('127.0.0.1', 0))\n"
              "print(s.getsockname()[1], flush=True)\nwhile True: s.accept()[0].close()")
    other = subprocess.Popen([sys.executable, "-c", script], user=OTHER_USER, extra_groups=[], cwd="/",
                             stdout=subprocess.PIPE, text=True)
    try:
        levels, said = doctor("--server", f"http://127.0.0.1:{int(other.stdout.readline())}")
        assert levels["port"] == "warning" and OTHER_USER in said["port"] and levels["server"] == "error"
    finally:
        other.kill()
        other.communicate(timeout=DEADLINE_S)


# The ensemble.

class FourLetters:
    """Answers each connection with a text."""

    def __init__(self, text):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port, self.text = self.socket.getsockname()[1], text.encode()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            client.recv(4)
            client.sendall(self.text)
            client.close()

    def __enter__(self):
        return f"127.0.0.1:{self.port}"

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(DEADLINE_S)


def srvr(version, mode):
    return f"Zookeeper version: {version}-abc, built on 2022\nLatency min/avg/max: 0/0/0\nMode: {mode}\nNode count: 5\n"


def test_an_ensemble(doctor):
    with FourLetters(srvr("3.8.0", "leader")) as a, FourLetters(srvr("3.8.0", "follower")) as b:
        levels, said = doctor("--keeper", f"zk://{a},{b}/drover")
        assert "keeper" in levels and "keeper" not in wrong(levels) and "ensemble" not in levels
        assert said["keeper"] == f"{b} is follower, version 3.8.0"
    with FourLetters(srvr("3.8.0", "follower")) as a, FourLetters(srvr("3.7.1", "follower")) as b:
        found = drover("doctor", "--keeper", f"zk://{a},{b}").stdout
        assert "no server leads" in found and "versions differ" in found
    with FourLetters("srvr is not executed because it is not in the whitelist.\n") as a:
        levels, said = doctor("--keeper", f"zk://{a}")
        assert levels["keeper"] == "warning" and "but not srvr" in said["keeper"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        levels, said = doctor("--keeper", f"zk://127.0.0.1:{taken.getsockname()[1]}")
        assert levels["keeper"] == "error" and "does not answer" in said["keeper"]
    assert doctor("--keeper", "http://x")[0]["keeper"] == "error"
