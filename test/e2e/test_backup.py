"""`drover backup` and `drover restore`, with load, and with everything that can die in between."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import threading

import pytest

from cli import Client
from conftest import BINARY, DEADLINE_S, Server, call, drover, errors, wait_until
from task_support import Tasks, new_group

TASK_LEN = 4000
MANY = 6000  # 24 MB: more than sockets buffer


@pytest.fixture
def run(tmp_path):
    """A client of a server: a function of the server's port, or of another one."""
    home = tmp_path / "home"
    home.mkdir()
    return lambda port: Client(f"http://127.0.0.1:{port}", home)


@pytest.fixture
def serve_on(tmp_path):
    """Starts servers on any directory."""
    servers = []

    def start_one(directory, *arguments):
        servers.append(Server("--data", directory, *arguments))
        return servers[-1].start()

    yield start_one
    for server in servers:
        server.kill()


def fill(port, group, count=MANY):
    """That many tasks; their ids."""
    client, ids = Tasks(port), []
    while len(ids) < count:
        ids += client.add(group, *[f"{n} " + "x" * TASK_LEN for n in range(200)])
    client.close()
    return ids


class Load:
    """Adds tasks one after the other, and knows which ones were answered."""

    def __init__(self, port, group):
        self.port, self.group, self.ids, self.stop = port, group, [], False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        client = Tasks(self.port)
        try:
            while not self.stop:
                self.ids += client.add(self.group, "load")
        except OSError:
            pass  # the server was killed
        finally:
            client.close()

    def more(self, count=20):
        """Waits until that many more are answered."""
        had = len(self.ids)
        wait_until(lambda: len(self.ids) >= had + count, "tasks go on")

    def end(self):
        self.stop = True
        self.thread.join()
        return self.ids


class Valve:
    """Passes a connection on to a server, and of its answer only so many bytes until it is opened."""

    def __init__(self, port, limit):
        self.port, self.limit = port, limit
        self.opened, self.passed = threading.Event(), 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.own_port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        client = self.listener.accept()[0]
        self.server = socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S)
        head = client.recv(65536).replace(b":%d" % self.own_port, b":%d" % self.port)
        with client, self.server as server:
            server.sendall(head)
            try:
                while more := server.recv(65536):
                    client.sendall(more)
                    self.passed += len(more)
                    if self.passed > self.limit:
                        assert self.opened.wait(DEADLINE_S)
            except OSError:
                pass  # one of them is dead

    def wait(self):
        wait_until(lambda: self.passed > self.limit, "the answer has begun")

    def close(self):
        self.opened.set()
        with contextlib.suppress(OSError):  # the connection is closed already
            self.server.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()


@pytest.fixture
def valve():
    valves = []

    def make(port, limit=1 << 20):
        valves.append(Valve(port, limit))
        return valves[-1]

    yield make
    for one in valves:
        one.close()


def ids_of(port, group):
    client = Tasks(port)
    found = {task["id"] for task in client.group(group)}
    client.close()
    return found


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def backup(run, server, file, *more):
    done = run(server.port).run("backup", file, *more)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout.startswith(f"{file}: ")
    return file


def restore(file, directory):
    done = drover("restore", file, "--data", directory)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout.startswith("restored ")
    return done.stdout


def test_with_load(start, run, serve_on, tmp_path):
    """Tasks go on during a backup; what was answered before it is in it, and the rest whole or not at all."""
    server, group = start("--snapshot-every", "1000"), new_group()
    fill(server.port, "old", 1000)
    load = Load(server.port, group)
    load.more()
    for number in range(3):
        before = set(load.ids)
        file = backup(run, server, tmp_path / f"backup-{number}")
        load.more()
        said = restore(file, tmp_path / f"restored-{number}")
        copy = serve_on(tmp_path / f"restored-{number}")
        found = ids_of(copy.port, group)
        assert before <= found <= set(load.ids) | {max(load.ids) + 1}
        assert len(ids_of(copy.port, "old")) == 1000
        assert f"of them {1000 + len(found)} tasks, into {tmp_path / f'restored-{number}'}" in said
        assert copy.stop() == 0
    load.end()
    assert names(tmp_path / "home") == []
    assert server.stop() == 0, server.said


def test_new_ids_follow_the_old_ones(start, run, serve_on, tmp_path):
    server = start()
    last = fill(server.port, "g", 400)[-1]
    restore(backup(run, server, tmp_path / "b"), tmp_path / "r")
    copy = serve_on(tmp_path / "r")
    assert Tasks(copy.port).add("g", "new")[0] > last


def test_standard_output_and_input(server, run, tmp_path):
    fill(server.port, "g", 200)
    client = run(server.port)
    process = client.popen("backup", "-", text=False)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0 and err.startswith(b"standard output: "), err
    checked = subprocess.run([BINARY, "restore", "--check", "-"], input=out, capture_output=True,
                             timeout=DEADLINE_S)
    assert checked.returncode == 0 and checked.stdout.startswith(b"standard input: "), checked
    done = subprocess.run([BINARY, "restore", "-", "--data", tmp_path / "r"], input=out,
                          capture_output=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done
    assert b"of them 200 tasks" in done.stdout


def test_an_existing_file_stays_without_force(server, run, tmp_path):
    file = tmp_path / "b"
    file.write_text("precious")
    done = run(server.port).run("backup", file)
    assert done.returncode == 2 and "b exists: --force replaces it" in done.stderr
    assert file.read_text() == "precious"
    backup(run, server, file, "--force")
    assert file.read_bytes().startswith(b"DROVERBK")
    assert file.stat().st_mode & 0o777 == 0o600
    assert names(tmp_path) == ["b", "data", "home"]
    (tmp_path / "link").symlink_to(file)
    for other in (tmp_path, "/dev/null", tmp_path / "link"):
        done = run(server.port).run("backup", other, "--force")
        assert done.returncode == 2 and "is not a regular file" in done.stderr


def test_a_directory_that_is_missing(server, run, tmp_path):
    done = run(server.port).run("backup", tmp_path / "missing/b")
    assert done.returncode == 1 and "No such file or directory" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_client_leaves_nothing(server, run, valve, tmp_path, number):
    fill(server.port, "g")
    slow = valve(server.port)
    process = run(slow.own_port).popen("backup", tmp_path / "b")
    slow.wait()
    assert any(name.startswith("b.part-") for name in names(tmp_path))
    process.send_signal(number)
    slow.opened.set()
    assert process.communicate(timeout=DEADLINE_S)[1] == ""
    assert process.returncode == 1
    assert names(tmp_path) == ["data", "home"]
    next_backup(run, server, tmp_path)


def next_backup(run, server, tmp_path):
    """It works as soon as the server has noticed that the client has left."""
    wait_until(lambda: run(server.port).run("backup", tmp_path / "again").returncode == 0,
               "the next backup works")


def test_a_killed_client(server, run, valve, tmp_path):
    """Its file is not there; what is left has another name. The server goes on, and serves the next one."""
    fill(server.port, "g")
    slow = valve(server.port)
    process = run(slow.own_port).popen("backup", tmp_path / "b")
    slow.wait()
    process.kill()
    process.communicate()
    slow.opened.set()
    assert not (tmp_path / "b").exists()
    next_backup(run, server, tmp_path)


def test_a_client_that_does_not_read(server, run, valve, tmp_path):
    """Tasks go on, another backup is refused meanwhile, and snapshots still remove old files."""
    fill(server.port, "g")
    slow = valve(server.port)
    process = run(slow.own_port).popen("backup", tmp_path / "b")
    slow.wait()
    done = run(server.port).run("backup", tmp_path / "second")
    assert done.returncode == 1 and "another backup is under way" in done.stderr
    load = Load(server.port, "more")
    load.more(50)
    load.end()
    slow.opened.set()
    out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, err) == (0, ""), (out, err)
    restore(tmp_path / "b", tmp_path / "r")


def test_a_killed_server(start, run, valve, tmp_path):
    server = start()
    fill(server.port, "g")
    slow = valve(server.port)
    process = run(slow.own_port).popen("backup", tmp_path / "b")
    slow.wait()
    server.process.kill()
    slow.opened.set()
    err = process.communicate(timeout=DEADLINE_S)[1]
    assert process.returncode == 1 and "broke before the answer" in err or "cut off" in err, err
    assert names(tmp_path) == ["data", "home"]
    again = start()  # the directory is as after any crash
    assert len(ids_of(again.port, "g")) == MANY
    assert again.stop() == 0


def test_a_server_that_stops(start, run, valve, tmp_path):
    server = start()
    fill(server.port, "g")
    slow = valve(server.port)
    process = run(slow.own_port).popen("backup", tmp_path / "b")
    slow.wait()
    assert server.stop() == 0, server.said
    slow.opened.set()
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1
    assert names(tmp_path) == ["data", "home"]


@pytest.fixture
def saved(server, run, tmp_path):
    fill(server.port, "g", 400)
    return backup(run, server, tmp_path / "b")


def refused(file, directory, *words):
    """A restore that is refused leaves nothing."""
    before = names(directory.parent)
    done = drover("restore", file, "--data", directory)
    assert done.returncode == 1 and done.stdout == "", done
    for word in words:
        assert word in done.stderr, done.stderr
    assert names(directory.parent) == before


def test_damaged_backups(saved, tmp_path):
    content = saved.read_bytes()
    bad = tmp_path / "bad"
    for at in (0, 9, 40, 70, 100, len(content) // 2, len(content) - 40, len(content) - 1):
        bad.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1:])
        refused(bad, tmp_path / "r", "bad: ")
        assert drover("restore", "--check", bad).returncode == 1
    for length in (0, 10, 64, 5000, len(content) - 1):
        bad.write_bytes(content[:length])
        refused(bad, tmp_path / "r", f"the backup is cut off after {length} bytes")
    bad.write_bytes(content + b"\0")
    refused(bad, tmp_path / "r", "something stands behind the end")
    refused(BINARY, tmp_path / "r", "this is not a backup of drover")
    assert drover("restore", "--check", saved).stdout.startswith(f"{saved}: ")


def test_where_it_is_restored(saved, tmp_path):
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "letter").write_text("")
    refused(saved, taken, "is not empty")
    refused(saved, tmp_path / "data", "is not empty")
    refused(saved, tmp_path / "b", "is not a directory")
    done = drover("restore", saved, "--data", tmp_path / "missing/r")
    assert done.returncode == 1 and "No such file or directory" in done.stderr
    empty = tmp_path / "empty"
    empty.mkdir(mode=0o750)
    restore(saved, f"{empty}/")
    assert empty.stat().st_mode & 0o777 == 0o750
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in empty.iterdir())
    assert drover("fsck", empty).returncode == 0
    done = drover("restore", saved)
    assert done.returncode == 2 and "--data is missing" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
def test_the_owner_of_the_directory_gets_the_files(saved, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    os.chown(empty, 12345, 23456)
    restore(saved, empty)
    for path in (empty, *empty.iterdir()):
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_restore_that_dies(saved, tmp_path, number):
    """It is fed half of the backup. The directory is not there; the next restore removes what is left."""
    content, where = saved.read_bytes(), tmp_path / "r"
    process = subprocess.Popen([BINARY, "restore", "-", "--data", where], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(content[:len(content) // 2])
    process.stdin.flush()
    left = tmp_path / "r.restoring"
    wait_until(lambda: left.exists() and names(left), "files were written")
    second = drover("restore", saved, "--data", where)
    assert second.returncode == 1 and "another process is making" in second.stderr
    process.send_signal(number)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode != 0
    assert not where.exists()
    assert left.exists() == (number == signal.SIGKILL)
    restore(saved, where)
    assert not left.exists()
    assert drover("fsck", where).returncode == 0


def test_a_directory_that_is_filled_meanwhile_stays(saved, tmp_path):
    content, where = saved.read_bytes(), tmp_path / "r"
    process = subprocess.Popen([BINARY, "restore", "-", "--data", where], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(content[:-1])
    process.stdin.flush()
    left = tmp_path / "r.restoring"
    wait_until(lambda: left.exists() and names(left), "files were written")
    where.mkdir()
    (where / "letter").write_text("precious")
    process.communicate(content[-1:], timeout=DEADLINE_S)
    assert process.returncode == 1
    assert names(where) == ["letter"] and not left.exists()


def test_a_server_without_a_directory_has_no_backup(tmp_path, run):
    server = Server("--journal", "none").start()
    try:
        status, body = call(server.port, "GET", "/v1/backup")
        assert status == 409 and "no data directory" in errors(body)[0]
        done = run(server.port).run("backup", tmp_path / "b")
        assert done.returncode == 1 and "no data directory" in done.stderr
        assert names(tmp_path) == ["home"]
    finally:
        server.kill()


def test_a_head_takes_no_snapshot(server):
    status, headers, _ = server.request("HEAD /v1/backup HTTP/1.1\r\nHost: HOST\r\n\r\n", True)
    assert status == 200 and headers["content-length"] == "0"
    assert not [name for name in names(pathlib.Path(server.process.args[-1]))
                if name.startswith("snapshot")]


def test_curl_can_fetch_one(server, tmp_path):
    fill(server.port, "g", 200)
    url = f"http://127.0.0.1:{server.port}/v1/backup"
    subprocess.run(["curl", "-sf", "-o", tmp_path / "b", url], check=True, timeout=DEADLINE_S)
    assert "of them 200 tasks" in restore(tmp_path / "b", tmp_path / "r")
