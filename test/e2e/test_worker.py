"""The worker behind `work`, `world work`, `queue work` and `job work`: the same options, the same report,
the same exit status; and --json of commands that find nothing."""

import json

import pytest

from cli import Client
from queue_support import ENVIRONMENT

QUICK = ("--until-empty", "--attempts", "2", "--backoff", "20ms")


@pytest.fixture
def me(server, tmp_path):
    return Client(f"http://127.0.0.1:{server.port}", tmp_path,
                  LSAN_OPTIONS=ENVIRONMENT["LSAN_OPTIONS"])


def task(me):
    me.ok("add", "g", "x")
    return ["work", "g"]


def world(me):
    me.ok("world", "init", "small")
    me.ok("world", "queue", "small", "a", "t", '"x"')
    return ["world", "work", "small", "--type", "t"]


def queue(me):
    me.ok("queue", "post", me.ok("queue", "create").strip(), "x")
    return ["queue", "work", "--settle", "0s"]


def job(me):
    batch = me.ok("batch", "create", "{}").strip()
    me.ok("job", "create", batch, '{"configuration": {}}')
    return ["job", "work", "--state", "Pending"]


SOURCES = pytest.mark.parametrize("source", [task, world, queue, job])


@SOURCES
def test_done(me, source):
    done = me.run(*source(me), *QUICK, "--", "sh", "-c", "cat > /dev/null")
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1] == "drover: 1 done, 0 retried, 0 dead, 0 lost"
    assert "in attempt" not in done.stderr


@SOURCES
def test_dead(me, source):
    """Two attempts, then it is dead: both are reported, and the exit status tells."""
    done = me.run(*source(me), *QUICK, "--", "sh", "-c", "exit 7")
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if "in attempt" in line]
    assert len(lines) == 2
    assert lines[0].endswith("exit status 7 in attempt 1 of 2, retrying in 20ms")
    assert "exit status 7 in attempt 2 of 2, " in lines[1]
    assert done.stderr.splitlines()[-1] == "drover: 0 done, 1 retried, 1 dead, 0 lost"


@SOURCES
def test_retried_and_then_done(me, source, tmp_path):
    done = me.run(*source(me), *QUICK, "--", "sh", "-c", f"mkdir {tmp_path}/first && exit 1; true")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "drover: 1 done, 1 retried, 0 dead, 0 lost"


@SOURCES
def test_quiet_and_verbose(me, source):
    words = source(me)
    assert me.run(*words, *QUICK, "--quiet", "--", "sh", "-c", "true").stderr == ""
    source(me)
    assert ": done\n" in me.run(*words, *QUICK, "--verbose", "--", "sh", "-c", "true").stderr


def test_a_dead_task_of_a_world_is_not_tried_again(me):
    words = world(me)
    me.run(*words, *QUICK, "--", "false")
    again = me.run(*words, *QUICK, "--", "false")
    assert again.returncode == 0
    assert again.stderr == "drover: 0 done, 0 retried, 0 dead, 0 lost\n"
    assert "failed" in me.ok("world", "ls", "small", "--state", "failed")
    me.ok("world", "retry", "small", "a_t")
    done = me.run(*words, *QUICK, "--", "true")
    assert done.stderr == "drover: 1 done, 0 retried, 0 dead, 0 lost\n"


def test_a_task_of_a_world_has_a_limit_of_its_own(me):
    words = world(me)
    me.ok("world", "queue", "small", "once", "t", "--attempts", 1)
    done = me.run(*words, *QUICK, "--", "sh", "-c", "[ $DROVER_NAME != once ]")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "drover: task once_t: exit status 1 in attempt 1 of 1, it has failed",
        "drover: 1 done, 0 retried, 1 dead, 0 lost"]
    assert "once_t  failed" in me.ok("world", "tree", "small")


def test_what_a_running_task_unblocks_is_done_too(me):
    """The second job finds nothing at first, because b waits for a: still, both are done."""
    words = world(me)
    me.ok("world", "queue", "small", "b", "t", "--parent", "a")
    done = me.run(*words, *QUICK, "--jobs", 2, "--", "sh", "-c", "sleep 0.3")
    assert done.stderr == "drover: 2 done, 0 retried, 0 dead, 0 lost\n"


@pytest.mark.parametrize("words, shape, status", [
    (["groups"], {"groups": [], "next": None}, 0), (["ls"], [], 0), (["nodes"], [], 0), (["claim", "g"], {"tasks": []}, 3),
    (["world", "ls"], {"worlds": []}, 0), (["queue", "ls"], {"queues": []}, 0),
    (["workers"], {"workers": []}, 0), (["batch", "ls"], {"batches": []}, 0),
    (["job", "ls"], {"jobs": []}, 0), (["lock", "ls"], {"locks": []}, 0),
    (["access", "ls", "small"], {"access": []}, 0),
    (["job", "acquire", "--state", "Pending"], {"session": None, "job": None}, 3),
    (["batch", "acquire"], {"session": None, "batch": None}, 3),
    (["access", "acquire", "small"], {"session": None, "access": None}, 3),
], ids=lambda value: " ".join(value) if isinstance(value, list) else None)
def test_json_of_nothing(me, words, shape, status):
    done = me.run(*words, "--json")
    assert (json.loads(done.stdout), done.returncode) == (shape, status)
    assert me.run(*words).stdout == "", "a table without rows has no heads"
