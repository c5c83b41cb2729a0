"""drover work, and the client library under it: what happens when commands fail, workers die, servers
go away and answers get lost."""

import collections
import contextlib
import json
import os
import pathlib
import pty
import random
import re
import signal
import subprocess
import threading
import urllib.parse
import urllib.request

import pytest

from cli import EXAMPLES, Client, between
from conftest import DEADLINE_S, wait_until
from task_support import Tasks

pytestmark = pytest.mark.slow

SOAK = "DROVER_SOAK" in os.environ


@pytest.fixture
def me(server, tmp_path):
    return Client(f"http://127.0.0.1:{server.port}", tmp_path)


def shell(script):
    return ["--", "sh", "-c", script]


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def test_each_task_is_done_once(me, tmp_path):
    me.ok("add", "g", "-", input="".join(f"{n}\n" for n in range(60)))
    out = tmp_path / "out"
    done = me.run("work", "g", "--jobs", 4, "--until-empty",
                  *shell(f'read n; echo "$n" >> {out}'))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "drover: 60 done, 0 retried, 0 dead, 0 lost\n"
    assert sorted(map(int, lines(out))) == list(range(60))
    assert me.ok("groups") == ""


def test_the_command_sees_the_task(me):
    me.ok("add", "a b", "two\nlines")
    done = me.run("work", "a b", "--until-empty", "--verbose", *shell(
        'echo "$DROVER_TASK_GROUP:$DROVER_TASK_ID:$DROVER_TASK_ATTEMPT"; cat'))
    assert done.stdout == "a b:2:1\ntwo\nlines"
    assert done.stderr.splitlines()[0] == "drover: task 2: done"


def test_failures_wait_and_die_with_their_data(me):
    me.ok("add", "g", "precious")
    words = ["work", "g", "--until-empty", "--attempts", 3, "--backoff", "20ms"]
    done = me.run(*words, *shell('echo "$DROVER_TASK_GROUP $DROVER_TASK_ATTEMPT $(cat)"; exit 7'))
    assert done.returncode == 1, "a dead task is a failure"
    assert done.stdout == "".join(f"g {n} precious\n" for n in (1, 2, 3))
    said = [re.sub(r"task \d+", "task N", line) for line in done.stderr.splitlines()]
    assert said == [
        "drover: task N: exit status 7 in attempt 1 of 3, retrying in 20ms",
        "drover: task N: exit status 7 in attempt 2 of 3, retrying in 40ms",
        "drover: task N: exit status 7 in attempt 3 of 3, moved to g/dead",
        "drover: 0 done, 2 retried, 1 dead, 0 lost",
    ]
    assert me.tasks() == [("g/dead", "precious")]


def test_attempts_outlive_the_worker(me):
    """Each worker makes one attempt and ends; the next one continues the count."""
    me.ok("add", "g", "x")
    seen = []
    for _ in range(3):
        worker = me.popen("work", "g", "--attempts", 3, "--backoff", "1ms", "--for", "2s",
                          *shell("echo $DROVER_TASK_ATTEMPT; exit 1"))
        seen.append(worker.stdout.readline().strip())
        worker.stderr.readline()
        worker.kill()
        worker.communicate()
    assert seen == ["1", "2", "3"]
    assert me.tasks() == [("g/dead", "x")]


def test_what_version_0_1_left_is_taken_over(me):
    """A task that had failed 7 times waited in g/retry/7; groups that only look alike stay."""
    me.ok("add", "g/retry/7", "old")
    others = ["g/retry/07", "g/retry/x", "g/retry/1000", "g/dead", "gg/retry/7", "g/retry/7/retry/1"]
    for other in others:
        me.ok("add", other, "mine")
    done = me.run("work", "g", "--until-empty", "--attempts", 2, *shell("exit $DROVER_TASK_ATTEMPT"))
    assert done.stderr.splitlines()[0] == "drover: moved the tasks of g/retry/7 to g: 1"
    assert "exit status 8 in attempt 8 of 2, moved to g/dead" in done.stderr
    assert me.tasks() == sorted([("g/dead", "old"), *((other, "mine") for other in others)])


def test_a_claimed_task_of_version_0_1_is_left_to_its_worker(me):
    me.ok("add", "g/retry/1", "x")
    task = me.json("claim", "g/retry/1")["tasks"][0]["id"]
    assert me.run("work", "g", "--until-empty", *shell("exit 1")).returncode == 0
    me.ok("done", task)


def find(me, **query):
    asked = urllib.parse.urlencode(query)
    with urllib.request.urlopen(f"{me.environment['DROVER_URL']}/v1/tasks?{asked}") as answer:
        return json.load(answer)["tasks"]


def settings(me, group, **members):
    urllib.request.urlopen(urllib.request.Request(
        f"{me.environment['DROVER_URL']}/v1/groups/{group}", json.dumps(members).encode(),
        {"Content-Type": "application/json"}, method="PUT")).close()


def test_the_settings_of_the_group_decide(me):
    settings(me, "g", attempts=2, backoff={"first": 30, "factor": 2, "max": 1000, "jitter": 0}, dead="hell")
    me.ok("add", "g", "x")
    done = me.run("work", "g", "--until-empty", *shell("exit 3"))
    said = [re.sub(r"task \d+|in \d+ms", "N", line) for line in done.stderr.splitlines()]
    assert said == ["drover: N: exit status 3 in attempt 1, retrying N",
                    "drover: N: exit status 3 in attempt 2, moved to hell",
                    "drover: 0 done, 1 retried, 1 dead, 0 lost"]
    assert done.returncode == 1


def test_a_worker_may_try_more_often_than_the_settings_say(me):
    me.ok("add", "g", "x")
    done = me.run("work", "g", "--until-empty", "--attempts", 7, "--backoff", "1ms", *shell("exit 3"))
    assert done.stderr.splitlines()[-1] == "drover: 0 done, 6 retried, 1 dead, 0 lost"


def test_the_end_of_the_error_output_is_the_error(me):
    """It is printed as it is; what is kept has at most 4 KiB, and is text."""
    text = "ä" * 5000 + "\\377 last words\\n\\n"
    me.ok("add", "g", "x")
    worker = me.popen("work", "g", "--until-empty", "--attempts", 1, "--quiet",
                      *shell(f"printf '{text}' >&2; exit 1"), text=False)
    said = worker.communicate(timeout=DEADLINE_S)[1]
    assert said.startswith("ä".encode() * 5000 + b"\xff last words\n\ndrover: task ")
    [task] = find(me, group="g/dead")
    assert task["error"].startswith("exit status 1: ä") and task["error"].endswith("ä\ufffd last words")
    assert 4090 <= len(task["error"].encode()) <= 4096


def test_without_error_output_the_status_is_the_error(me):
    me.ok("add", "g", "x")
    me.run("work", "g", "--until-empty", "--attempts", 1, *shell("kill -9 $$"))
    assert find(me, group="g/dead")[0]["error"] == "killed by signal 9"


def test_the_output_is_the_result_if_asked(me):
    settings(me, "g", keep_done=3600000)
    me.ok("add", "g", "x")
    done = me.run("work", "g", "--until-empty", "--result", *shell('echo "$(cat) is done"'))
    assert (done.returncode, done.stdout) == (0, "")
    me.ok("add", "g", "y")
    assert me.run("work", "g", "--until-empty", *shell("cat")).stdout == "y"
    assert {task["data"]: task.get("result") for task in find(me, group="g", state="done")} == {
        "x": "x is done\n", "y": None}


@pytest.mark.parametrize("script, why", [
    ("head -c 262145 /dev/zero | tr '\\0' x", "the result is longer than 256 KiB"),
    ("printf '\\377'", "the result is not UTF-8 text")])
def test_a_result_that_cannot_be_kept_is_a_failure(me, script, why):
    me.ok("add", "g", "x")
    done = me.run("work", "g", "--until-empty", "--result", "--attempts", 1, *shell(script))
    assert done.returncode == 1 and f"{why} in attempt 1 of 1, moved to g/dead" in done.stderr
    assert find(me, group="g/dead")[0]["error"] == why


def test_messages_are_not_tasks(me):
    queue = me.ok("queue", "create").strip()
    me.ok("queue", "post", queue, "m")
    done = me.run("work", queue, "--until-empty", *shell("cat"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0] == f"drover: group {queue} has messages of a queue or tasks of nodes"
    assert me.run("work", queue, "--until-empty", "--internal", *shell("cat")).stdout == "m"


def test_bytes_are_the_input(me):
    tasks = Tasks(int(me.environment["DROVER_URL"].rsplit(":", 1)[1]))
    tasks.update(adds=[{"group": "g", "data64": "/wD+"}])
    tasks.close()
    done = me.run("work", "g", "--until-empty", "--for", "1s", *shell("sleep 0.5; od -An -tx1"))
    assert done.stdout.split() == ["ff", "00", "fe"]


def screen(me, *words):
    """What a command writes to a terminal, and its status."""
    ours, its = pty.openpty()
    me.environment["TERM"] = "xterm"
    worker = me.popen(*words, stdout=its, stderr=its)
    os.close(its)
    seen = b""
    with contextlib.suppress(OSError): # the end of a terminal
        while more := os.read(ours, 65536):
            seen += more
    os.close(ours)
    return worker.wait(timeout=DEADLINE_S), seen.decode()


def test_a_terminal_shows_the_progress(me, tmp_path):
    """The line is rewritten, and lines of the command and of the worker stand above it."""
    go = tmp_path / "go"
    me.ok("add", "g", "1", "2", "3")
    opener = threading.Timer(1.5, go.touch)
    opener.start()
    status, seen = screen(me, "work", "g", "--until-empty", "--attempts", 1, *shell(
        f"read n; echo out $n; echo err $n >&2; while ! test -e {go}; do sleep 0.02; done; test $n != 2"))
    opener.join()
    assert status == 1
    assert re.search(r"0 done, 0 failed, 1 running, 0\.0/s\r\x1b\[K", seen), seen
    shown = re.sub(r"[^\n]*\r\x1b\[K", "", seen).replace("\r\n", "\n").splitlines()
    said = [re.sub(r"task \d+", "task N", line) for line in shown]
    assert sorted(said) == sorted([
        *(f"out {n}" for n in (1, 2, 3)), *(f"err {n}" for n in (1, 2, 3)),
        "drover: task N: exit status 1 in attempt 1 of 1, moved to g/dead",
        "drover: 2 done, 0 retried, 1 dead, 0 lost"]), seen


def test_a_terminal_that_is_to_be_quiet(me):
    me.ok("add", "g", "1")
    status, seen = screen(me, "work", "g", "--until-empty", "--quiet", *shell("sleep 1; printf half"))
    assert (status, seen) == (0, "half")


def test_ls_shows_what_waits_for_another_attempt(me):
    me.ok("add", "g/retry/1", "b")
    me.ok("add", "g", "a")
    me.ok("add", "gg", "c")
    assert me.tasks("g") == [("g", "a"), ("g/retry/1", "b")]


def test_a_command_that_does_not_exist_harms_nothing(me):
    me.ok("add", "g", "x")
    done = me.run("work", "g", "--", "no-such-command")
    assert done.returncode == 1
    assert "cannot start 'no-such-command': No such file or directory" in done.stderr
    assert me.json("claim", "g")["tasks"][0]["data"] == "x", "it was released at once"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_releases(me, tmp_path, number):
    me.ok("add", "g", "x")
    worker = me.popen("work", "g", *shell("echo $$; exec sleep 100"))
    pid = int(worker.stdout.readline())
    worker.send_signal(number)
    out, err = worker.communicate(timeout=DEADLINE_S)
    assert worker.returncode == 0
    assert re.fullmatch(r"drover: task \d+: released\ndrover: 0 done, 0 retried, 0 dead, 0 lost\n", err)
    assert not pathlib.Path(f"/proc/{pid}").exists(), "the command has ended too"
    assert me.tasks() == [("g", "x")] and me.json("claim", "g")["tasks"]


def test_a_signal_ends_the_wait_for_a_task(me):
    worker = me.popen("work", "g", *shell("true"))
    me.ok("add", "g", "x")
    wait_until(lambda: me.ok("groups") == "")
    worker.send_signal(signal.SIGTERM)
    assert worker.communicate(timeout=DEADLINE_S)[1] == "drover: 1 done, 0 retried, 0 dead, 0 lost\n"


def test_the_claim_is_renewed_while_the_command_runs(me, tmp_path):
    """The command takes several times as long as the claim; no other client gets the task."""
    me.ok("add", "g", "x")
    go = tmp_path / "go"
    worker = me.popen("work", "g", "--for", "2s", "--until-empty",
                      *shell(f"echo; while ! test -e {go}; do sleep 0.02; done"))
    worker.stdout.readline()
    first = me.json("ls", "g")[0]["id"]
    wait_until(lambda: me.json("ls", "g")[0]["id"] >= first + 4)
    assert me.run("claim", "g").returncode == 3
    go.touch()
    assert worker.communicate(timeout=DEADLINE_S)[1] == "drover: 1 done, 0 retried, 0 dead, 0 lost\n"


def test_a_lost_claim_ends_the_command(me, tmp_path):
    """A worker that was asleep for too long finds that another has its task."""
    me.ok("add", "g", "x")
    worker = me.popen("work", "g", "--for", "2s", *shell("echo $$; exec sleep 300"))
    pid = int(worker.stdout.readline())
    worker.send_signal(signal.SIGSTOP)
    task = me.json("claim", "g", "--wait", "30s", "--for", "1h")["tasks"][0]["id"]
    worker.send_signal(signal.SIGCONT)
    assert ": lost: the claim ended while the command ran" in worker.stderr.readline()
    assert not pathlib.Path(f"/proc/{pid}").exists()
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=DEADLINE_S)
    me.ok("done", task)


def test_a_worker_outlives_the_server(start, tmp_path):
    """The server is killed while a command runs, and started again: the task is done once."""
    first = start()
    me = Client(f"http://127.0.0.1:{first.port}", tmp_path)
    me.ok("add", "g", "x")
    go, out = tmp_path / "go", tmp_path / "out"
    worker = me.popen("work", "g", "--until-empty", "--for", "20s", *shell(
        f"echo; while ! test -e {go}; do sleep 0.02; done; echo done >> {out}"))
    worker.stdout.readline()
    first.kill()
    go.touch()
    wait_until(lambda: lines(out))
    second = start("--http", f"127.0.0.1:{first.port}")
    assert worker.communicate(timeout=DEADLINE_S * 2)[1].endswith(
        "drover: 1 done, 0 retried, 0 dead, 0 lost\n")
    assert worker.returncode == 0 and lines(out) == ["done"] and me.ok("groups") == ""
    assert second.stop() == 0


def test_a_worker_waits_for_a_server(start, tmp_path):
    first = start()
    me = Client(f"http://127.0.0.1:{first.port}", tmp_path)
    me.ok("add", "g", "x")
    assert first.stop() == 0
    worker = me.popen("work", "g", "--until-empty", *shell("cat"))
    assert "cannot reach" in worker.stderr.readline()
    start("--http", f"127.0.0.1:{first.port}")
    out, err = worker.communicate(timeout=DEADLINE_S)
    assert out == "x" and err == ("drover: the server is back\n"
                                  "drover: 1 done, 0 retried, 0 dead, 0 lost\n")


# The library under bad conditions, by the word count.

def words_of(seed, count):
    source = random.Random(seed)
    return "".join(source.choice(["The", "the", "cat", f"w{source.randrange(500)}", "x1"])
                   + source.choice([" ", "\n", ", ", ".--"]) for _ in range(count))


def expected(*texts):
    return collections.Counter(re.findall(r"[a-z0-9]+", " ".join(texts).lower()))


def counted(out):
    return {word: int(count) for word, count in (line.split() for line in out.splitlines())}


def map_reduce(me, *words):
    return subprocess.Popen(["timeout", "-s", "KILL", str(DEADLINE_S * 3), EXAMPLES / "mapreduce",
                             *map(str, words)], env=me.environment, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def children(pid):
    try:
        return list(map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except FileNotFoundError:
        return []


def grandchildren(pid):
    return [grandchild for child in children(pid) for grandchild in children(child)]


def test_map_reduce_with_workers_that_are_killed(me, tmp_path):
    texts = [words_of(seed, 300000 if SOAK else 100000) for seed in (1, 2)]
    files = [tmp_path / f"{n}.txt" for n in range(2)]
    for path, text in zip(files, texts):
        path.write_text(text)
    run = map_reduce(me, "--workers", 4, "--lease", 700, *files)
    killed, source, ended = 0, random.Random(3), threading.Event()
    reader = threading.Thread(target=lambda: (run.wait(), ended.set()))
    reader.start()
    while killed < (100 if SOAK else 12) and not ended.wait(0.03 + source.random() / 20):
        for pid in source.sample(workers := grandchildren(run.pid), min(1, len(workers))):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    out, err = run.communicate(timeout=DEADLINE_S * 3)
    reader.join()
    assert (run.returncode, err) == (0, "")
    assert killed >= 3, "it was over before anything happened"
    assert counted(out) == expected(*texts)
    assert me.ok("groups") == "", "everything has been tidied up"


def test_answers_that_are_lost_commit_nothing_twice(me, server, tmp_path):
    """Every third request reaches the server, but its answer does not reach the client."""
    text = words_of(5, 40000)
    (tmp_path / "text").write_text(text)
    seen, lost, lock = set(), collections.Counter(), threading.Lock()

    def lossy(handler, body):
        got = handler.forward(server.port, body)
        with lock: # the very first one is the update that adds the pieces
            lose = body not in seen and len(seen) % 3 == 0
            seen.add(body)
            lost[handler.path] += lose
        if lose:
            handler.hang_up()
        else:
            handler.answer(*got)
    with between(lossy) as url:
        run = map_reduce(Client(url, tmp_path), "--workers", 3, tmp_path / "text")
        out, err = run.communicate(timeout=DEADLINE_S * 3)
    assert (run.returncode, err) == (0, "")
    assert lost["/update"] > 3 and lost["/claim"] > 3
    assert counted(out) == expected(text)
    assert me.ok("groups") == ""


def test_a_server_that_is_not_ready_is_asked_again(me, server, tmp_path):
    asked = []

    def late(handler, body):
        asked.append(body)
        if len(asked) < 3:
            handler.answer(503, b'{"errors":["not yet"]}')
        else:
            handler.answer(*handler.forward(server.port, body))
    me.ok("add", "g", "x")
    with between(late) as url:
        done = Client(url, tmp_path).run("work", "g", "--until-empty", *shell("cat"))
    assert (done.returncode, done.stdout) == (0, "x")
    assert asked[0] == asked[1] == asked[2]
