"""`drover fsck`: its findings, its output, and what it saves of a damaged directory."""

import pathlib
import re
import signal
import subprocess

import pytest
from kazoo.client import KazooClient

from conftest import ANY_PORTS, BINARY, DEADLINE_S, KEEPER_ONLY, drover
from test_serve import listing

NODES = 20


@pytest.fixture
def data(start, tmp_path):
    """A directory with NODES sets after one another, each on disk before the next is made."""
    server = start(*KEEPER_ONLY)
    client = KazooClient(hosts=f"127.0.0.1:{server.zk_port}")
    client.start(timeout=DEADLINE_S)
    client.create("/fsck", b"")
    for i in range(NODES):
        client.create(f"/fsck/n{i:02}", b"what was kept, number %d" % i)
    client.stop()
    client.close()
    assert server.stop() == 0
    return tmp_path / "data"


def segment(data):
    return data / "journal-0000000001"


def spoil(data, text):
    """Changes one byte of the record that holds the text; returns the offset."""
    path = segment(data)
    content = bytearray(path.read_bytes())
    at = content.index(text)
    content[at] ^= 1
    path.write_bytes(content)
    return at


def salvage(data, answer, *more):
    return subprocess.run([BINARY, "fsck", "--salvage", *more, str(data)], input=answer,
                          capture_output=True, text=True, timeout=DEADLINE_S)


def test_says_what_is_there(data):
    before = listing(data)
    done = drover("fsck", data)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"tree: {NODES + 5} nodes, 0 ephemeral, 0 sessions" in done.stdout
    assert "journal-0000000001  transactions 1 to " in done.stdout
    assert listing(data) == before


def test_dumps_the_records(data):
    lines = drover("fsck", "--dump", data).stdout
    for i in range(NODES):
        assert f'    create "/fsck/n{i:02}", ' in lines
        assert f'"what was kept, number {i}"' in lines
    assert "session open" in lines and "session close" in lines


def test_an_empty_directory_is_whole(tmp_path):
    done = drover("fsck", tmp_path)
    assert done.returncode == 0
    assert "empty" in done.stdout


@pytest.mark.parametrize("what, line", [("missing", "cannot read the data directory"),
                                        ("file", "cannot read the data directory"),
                                        ("foreign", "holds other files (letter)")])
def test_what_is_no_data_directory(tmp_path, what, line):
    directory = tmp_path / what
    if what == "file":
        directory.write_text("")
    if what == "foreign":
        directory.mkdir()
        (directory / "letter").write_text("dear")
    done = drover("fsck", directory)
    assert done.returncode == 1
    assert line in done.stderr and len(done.stderr.splitlines()) == 1


def test_not_while_a_server_has_it(start, tmp_path):
    server = start(*KEEPER_ONLY)
    done = drover("fsck", tmp_path / "data")
    assert done.returncode == 1
    assert f"in use by process {server.process.pid}\n" in done.stderr


def test_damage_is_named(data):
    spoil(data, b"number 7")
    before = listing(data)
    done = drover("fsck", data)
    assert done.returncode == 1
    assert f"{segment(data)} is damaged at offset " in done.stderr
    assert listing(data) == before


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "maybe\n"])
def test_salvage_asks_first(data, answer):
    spoil(data, b"number 7")
    before = listing(data)
    done = salvage(data, answer)
    assert done.returncode == 1
    assert "Keep everything up to transaction 9" in done.stderr  # a session, the parent, seven nodes
    assert listing(data) == before


@pytest.mark.parametrize("answer, more", [("y\n", []), ("", ["--yes"])])
def test_salvage_keeps_what_comes_before(data, start, answer, more):
    whole = segment(data).read_bytes()
    spoil(data, b"number 7")
    spoiled = segment(data).read_bytes()
    done = salvage(data, answer, *more)
    assert done.returncode == 0, done.stderr
    aside = [path for path in data.iterdir() if path.name.startswith("salvaged-")]
    assert segment(data).read_bytes() + b"".join(p.read_bytes() for p in aside) == spoiled
    assert whole.startswith(segment(data).read_bytes())
    assert drover("fsck", data).returncode == 0

    server = start(*KEEPER_ONLY)
    client = KazooClient(hosts=f"127.0.0.1:{server.zk_port}")
    client.start(timeout=DEADLINE_S)
    assert sorted(client.get_children("/fsck")) == [f"n{i:02}" for i in range(7)]
    client.stop()
    client.close()


def cut(data, text):
    """Truncates the journal in the middle of the record that holds the text."""
    path = segment(data)
    content = path.read_bytes()
    path.write_bytes(content[:content.index(text)])


def recovered(server):
    """Nodes and journal records, as the start says."""
    return tuple(map(int, re.search(r"recovered (\d+) nodes, (\d+) journal records", server.said).groups()))


def test_a_start_says_what_there_was(data, start):
    """The root, /zookeeper and two below it, /fsck, and what is below that; with the two ends of a session."""
    server = start(*KEEPER_ONLY)
    assert recovered(server) == (NODES + 5, NODES + 3)


@pytest.mark.parametrize("how", ["cut", "emptied", "removed"])
def test_a_journal_that_lost_its_end_is_refused(data, how):
    """Even though the server was stopped, and what is left would do."""
    if how == "cut":
        cut(data, b"number 7")
    elif how == "emptied":
        segment(data).write_bytes(b"")
    else:
        segment(data).unlink()
    before = listing(data)
    for command in (["serve", *ANY_PORTS, "--data"], ["fsck"]):
        done = drover(*command, data)
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
        assert str(segment(data)) in done.stderr and "drover fsck --salvage" in done.stderr
        assert listing(data) == before
    if how == "cut":
        assert f"(transaction {NODES + 3}); restore a backup" in done.stderr


def test_a_journal_that_lost_its_end_is_salvaged(data, start):
    cut(data, b"number 7")
    done = salvage(data, "y\n")
    assert done.returncode == 0, done.stderr
    assert "Keep everything up to transaction 9" in done.stderr
    assert "mark  transactions up to 9 were on disk" in drover("fsck", data).stdout
    server = start(*KEEPER_ONLY)
    assert recovered(server) == (5 + 7, 9)
    assert server.stop() == 0


def test_a_killed_server_loses_nothing_to_the_mark(data, start):
    """And what was cut off behind its back is noticed."""
    server = start(*KEEPER_ONLY)
    server.signal(signal.SIGKILL)
    server.wait()
    server = start(*KEEPER_ONLY)
    assert recovered(server)[0] == NODES + 5
    server.signal(signal.SIGKILL)
    server.wait()
    last = sorted(data.glob("journal-*"))[-1]
    last.write_bytes(last.read_bytes()[:-1])
    done = drover("serve", *ANY_PORTS, "--data", data)
    assert done.returncode == 1
    assert f"{last} has 16777215 bytes, but it was made with 16777216; " in done.stderr


def test_a_damaged_mark_is_made_anew(data):
    (data / "mark").write_bytes(b"what")
    assert f"{data}/mark is damaged" in drover("fsck", data).stderr
    assert salvage(data, "y\n").returncode == 0
    assert drover("fsck", data).returncode == 0


def test_nothing_to_salvage(data):
    before = listing(data)
    assert salvage(data, "y\n").returncode == 0
    assert listing(data) == before


def test_a_segment_without_a_header_is_put_aside(data):
    path = segment(data)
    path.write_bytes(b"\0" * 64 + path.read_bytes()[64:])
    assert "offset 0" in drover("fsck", data).stderr
    assert salvage(data, "y\n").returncode in (0, 1)
    assert not path.exists() and (data / "salvaged-journal-0000000001").exists()


def test_the_man_page_explains_salvage():
    page = (pathlib.Path(__file__).resolve().parents[2] / "doc/drover.1.scd").read_text()
    assert "--salvage" in page and "salvaged-" in page
