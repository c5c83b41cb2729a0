"""The commands of the task store: what a person types, what a script reads."""

import json
import os
import re
import subprocess

import pytest

from cli import Client, between, on_terminal
from conftest import BINARY, drover, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def me(server, tmp_path):
    return Client(f"http://127.0.0.1:{server.port}", tmp_path)


def refused(done, *lines, status=1):
    assert (done.returncode, done.stdout) == (status, ""), done
    assert done.stderr.splitlines() == [f"drover: {line}" for line in lines]


def test_a_task_from_add_to_done(me):
    assert me.ok("add", "map", "one", "two") == "1\n2\n"
    assert me.ok("groups", "--names") == "map\n"
    (task,) = me.json("claim", "map")["tasks"]
    assert task["id"] == 3 and task["data"] in ("one", "two")
    assert me.ok("done", 3) == "", "another process of the same user may finish it"
    assert len(me.json("ls", "map")) == 1
    assert me.json("claim", "map")["tasks"][0]["id"] == 4
    assert me.ok("done", 4) == ""
    assert me.ok("groups") == ""


def test_tables_are_for_people(me):
    me.ok("add", "map", "größer\n\x1b[31mred")
    head, row = me.ok("ls").splitlines()
    assert head.split() == ["ID", "GROUP", "STATE", "SINCE/UNTIL", "DATA"]
    assert re.fullmatch(r" 1  map    available  [-\d]+ [:\d]+  größer\\n\\x1b\[31mred", row)
    assert me.ok("claim", "map", "--for", "1h").split()[:4] == ["ID", "GROUP", "SINCE/UNTIL", "DATA"]
    assert " claimed " in me.ok("ls", "map")
    head, row = me.ok("ls", "--wide").splitlines()
    assert "OWNER" in head and str(me.json("ls")[0]["ownerid"]) in row
    assert me.ok("ls", "other") == ""


def test_nothing_to_claim_is_status_3(me):
    done = me.run("claim", "map")
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "drover: nothing to claim\n")
    done = me.run("claim", "map", "--wait", "30ms", "--json")
    assert (done.returncode, done.stdout, done.stderr) == (3, '{"tasks":[]}\n', "")


def test_a_claim_waits_for_a_task(me):
    waiting = me.popen("claim", "map", "other", "--wait", "20s", "--json")
    me.ok("add", "other", "x")
    out, err = waiting.communicate(timeout=20)
    assert (waiting.returncode, err) == (0, "") and '"data":"x"' in out


def test_limits_and_many_groups(me):
    me.ok("add", "a", "1", "2", "3")
    me.ok("add", "b", "4")
    assert len(me.json("claim", "a", "b", "--limit", 3)["tasks"]) == 3
    assert len(me.json("ls", "--available")) == 1
    assert len(me.json("ls", "a")) == 3
    assert len(me.json("ls", "--state", "claimed")) == 3
    done = me.run("ls", "--limit", 2)
    assert len(done.stdout.splitlines()) == 3
    assert done.stderr == "drover: there are more than 2: use --limit\n"
    everything = me.json("ls", "--limit", 0)
    assert len(everything) > 2 and everything == me.json("ls")
    assert me.run("ls", "--available", "--state", "dead").returncode == 2


def test_other_clients_cannot_touch_what_is_ours(me):
    me.ok("add", "map", "x")
    task = me.json("claim", "map")["tasks"][0]["id"]
    done = me.run("done", task, 77, "--client-id", 5)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 2, "every reason is named"
    assert me.run("renew", task, "--client-id", 5).returncode == 1
    assert me.ok("done", task) == ""


def test_the_client_id_is_kept_or_named(me, server, tmp_path):
    me.ok("add", "map", "x")
    kept = (tmp_path / ".local/state/drover-client-id").read_text()
    assert me.json("ls")[0]["ownerid"] == int(kept) > 2**32
    me.environment["DROVER_CLIENT_ID"] = "12"
    me.ok("add", "named")
    assert me.json("ls", "named")[0]["ownerid"] == 12
    me.ok("add", "option", "--client-id", 13)
    assert me.json("ls", "option")[0]["ownerid"] == 13
    me.environment["DROVER_CLIENT_ID"] = "x"
    assert me.run("add", "g").returncode == 2
    del me.environment["DROVER_CLIENT_ID"]
    (tmp_path / ".local/state/drover-client-id").write_text("x\n")
    done = me.run("add", "g")
    assert done.returncode == 1 and "not a number; give one with --client-id" in done.stderr


@pytest.mark.parametrize("home", [None, "/proc/nowhere"])
def test_no_command_needs_a_home(me, home):
    """The commands of one session are one client, those of another session another one."""
    me.environment.pop("HOME")
    if home:
        me.environment["HOME"] = home

    def session(*scripts):
        for script in scripts:
            done = subprocess.run(["setsid", "-w", "sh", "-c", f"d={BINARY}; {script}"], env=me.environment,
                                  capture_output=True, text=True, timeout=60)
            yield done.returncode, done.stderr
    kept, = session("$d add g x >/dev/null && $d claim g --for 1h >/dev/null && $d done 2 && $d ls && $d groups")
    assert kept == (0, "")
    added, refused = session("$d add g y --delay 1h", "$d done first:3")
    assert added == (0, "") and refused[0] == 1 and "is owned by client" in refused[1]


def test_many_at_once_take_one_client_id(me, tmp_path):
    processes = [me.popen("add", "g", n) for n in range(8)]
    assert [process.communicate(timeout=20)[1] for process in processes] == [""] * 8
    assert len({task["ownerid"] for task in me.json("ls")}) == 1
    assert [path.name for path in (tmp_path / ".local/state").iterdir()] == ["drover-client-id"]


def test_add_reads_lines(me):
    lines = [f"line {n}" for n in range(1200)] + ["", "last without an end"]
    ids = me.ok("add", "g", "-", input="\n".join(lines)).split()
    assert len(ids) == len(set(ids)) == 1202
    tasks = sorted(me.json("ls", "g", "--limit", 0), key=lambda task: task["id"])
    assert [task["data"] for task in tasks] == lines


def test_add_takes_all_of_it_as_one(me):
    text = "a\nb\n\ttab \\ \u2028 \U0001f40e\n"
    me.ok("add", "g", "-", "--whole", input=text)
    assert me.tasks("g") == [("g", text)]
    assert me.ok("task", 1, "--data") == text


def test_add_without_data_and_later(me):
    me.ok("add", "g", "--delay", "1h")
    assert me.tasks("g") == [("g", "")]
    assert me.run("claim", "g").returncode == 3


def test_what_is_not_utf8_is_refused(me, server):
    done = subprocess.run([BINARY, "add", "g", b"\xff"], env=me.environment, capture_output=True)
    assert done.returncode == 1
    assert done.stderr == b"drover: the data of task 1 is not UTF-8 text: use --data64\n"
    assert me.ok("groups") == ""
    me.ok("add", "\ufffd", "not meant")
    done = subprocess.run([BINARY, "claim", b"\xff"], env=me.environment, capture_output=True)
    assert done.returncode == 2 and b"GROUP must be UTF-8 text" in done.stderr


def test_renew_keeps_the_data(me):
    me.ok("add", "g", "precious")
    task = me.json("claim", "g", "--for", "5s")["tasks"][0]["id"]
    new = int(me.ok("renew", task, "--for", "1h"))
    assert new > task and me.tasks("g") == [("g", "precious")]
    done = me.run("renew", task)
    assert done.returncode == 1
    assert done.stderr.startswith(f"drover: updates: there is no task {task}: it is {new} now, ")
    new = int(me.ok("renew", "first:1"))
    me.ok("done", new)


def test_task_says_what_is_missing(me):
    me.ok("add", "g", "x")
    done = me.run("task", 1, 5)
    assert done.returncode == 1 and done.stderr == "drover: there is no task 5\n"
    assert "data: x\n" in done.stdout and "state: available\n" in done.stdout and "ownerid" not in done.stdout
    assert "ownerid: " in me.ok("task", 1, "--wide")
    done = me.run("task", "first:1", 5, "--json")
    assert [task and task["id"] for task in json.loads(done.stdout)] == [1, None]
    me.ok("done", 1)
    refused(me.run("task", 1), "there is no task 1: it has ended")
    refused(me.run("task", "first:1"), "there is no task first:1: it has ended")


def test_update_sends_json(me, tmp_path):
    file = tmp_path / "update.json"
    file.write_text('{"adds": [{"group": "g", "data": "\\u0000\\ud800"}]}')
    assert me.json("update", file)["tasks"][0]["id"] == 1
    assert me.ok("update", input='{"deletes": [1]}') == ""
    refused(me.run("update", input='{"deletes": [1, 2]}'), "deletes: there is no task 1: it has ended",
            "deletes: there is no task 2")
    assert me.run("update", input='{"adds": 1}').returncode == 2
    for text, why in ("nonsense", "not JSON: an unexpected character at byte 0"), ("[]", "not a JSON object"):
        done = me.run("update", input=text)
        assert (done.returncode, done.stderr) == (2, f"drover: the transaction is {why}\n")
    done = me.run("update", tmp_path / "none")
    assert (done.returncode, done.stderr) == (1, f"drover: {tmp_path}/none: No such file or directory\n")
    os.truncate(file, 65 << 20)
    done = me.run("update", file)
    assert (done.returncode, done.stderr) == (1, f"drover: {file}: too large\n")


def test_any_group_name(me):
    name = "a/b c?d=é%2F\n"
    me.ok("add", name, "x")
    assert me.tasks(name) == [(name, "x")]
    assert me.json("group", "show", name)["counts"]["available"] == 1


@pytest.mark.parametrize("words", [
    ["claim"], ["done"], ["done", "x"], ["done", "-1"], ["claim", "g", "--for", "5"],
    ["claim", "g", "--for", "0s"], ["claim", "g", "--wait", "-1s"], ["add"], ["add", ""],
    ["add", "g", "--whole"], ["add", "g", "-", "x"], ["work", "g"], ["work", "--", "true"],
    ["work", "g", "--", ""][:3], ["task", "0"], ["ls", "--limit", "-1"], ["fail", "first:"],
    ["fail", "1", "--dead", "--retry-in", "1s"], ["release"], ["result", "1", "2"], ["result", "x"],
    ["done", "1", "--result", "x", "--result-file", "y"], ["add", "g", "--priority", "1000001"],
    ["add", "g", "--at", "2026-02-30"], ["add", "g", "--at", "25:00"], ["add", "g", "--expires", "soon"],
    ["add", "g", "--at", "10:00", "--delay", "1s"], ["add", "g", "--on-key", "keep"],
    ["add", "g", "--key", "k", "--on-key", "drop"], ["add", "g", "--file", "/x", "data"],
    ["add", "g", "--each-line"], ["wait", "5", "task:5"], ["wait", "task:"], ["wait", "first:x"],
    ["purge"], ["purge", "g", "--all"], ["move", "g"], ["find", "a", "b"], ["pause"],
])
def test_wrong_use_is_status_2(words, tmp_path):
    done = Client("http://127.0.0.1:1", tmp_path).run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(rf"drover {words[0]}: .* \(see 'drover {words[0]} --help'\)\n", done.stderr)


# Servers.

def test_no_server(tmp_path):
    refused(Client("http://127.0.0.1:1", tmp_path).run("groups"),
            "cannot reach http://127.0.0.1:1: connection refused; is drover serve running?")
    refused(Client("nonsense://x", tmp_path).run("groups"),
            "'nonsense://x' is not the URL of a server, such as http://127.0.0.1:8048")
    refused(Client("", tmp_path).run("groups", "--server", "127.0.0.1:1"),
            "cannot reach http://127.0.0.1:1: connection refused; is drover serve running?")


def test_a_server_that_is_another(tmp_path):
    def page(handler, body):
        handler.answer(200, b"<html>")
    with between(page) as url:
        refused(Client(url, tmp_path).run("groups"),
                f"{url} did not reply with JSON; is it drover serve?")


def test_a_server_that_hangs_up(tmp_path):
    with between(lambda handler, body: handler.hang_up()) as url:
        done = Client(url, tmp_path).run("groups")
        assert done.returncode == 1 and "broke before the answer" in done.stderr


def test_an_answer_that_is_lost_is_asked_for_again(me, server, tmp_path):
    """The server has done it; the client hears of it the second time, and it has been done once."""
    seen = set()

    def lossy(handler, body):
        got = handler.forward(server.port, body)
        if body not in seen:
            seen.add(body)
            handler.hang_up()
        else:
            handler.answer(*got)
    with between(lossy) as url:
        other = Client(url, tmp_path)
        assert other.ok("add", "g", "x") == "1\n"
        assert other.json("claim", "g")["tasks"][0]["id"] == 2
        adds = '"adds": [{"group": "h"}]'
        for given in ('"clientid": 5, ', '"requestid": "r", ', '"clientid": 5, "requestid": "s", '):
            other.ok("update", input="{" + given + adds + "}")
    assert me.tasks() == [("g", "x"), ("h", ""), ("h", ""), ("h", "")]


def test_the_leader_is_followed(me, server, tmp_path):
    asked = []

    def follower(handler, body):
        asked.append((handler.command, body))
        handler.answer(307, b"", Location=f"http://127.0.0.1:{server.port}{handler.path}")
    with between(follower) as url:
        other = Client(url, tmp_path)
        assert len(other.ok("add", "g", "-", input="x\n" * 1200).split()) == 1200
        assert len(asked) == 1, "once it is known, the leader is asked at once"
        assert asked[0][0] == "POST" and b'"adds"' in asked[0][1]
        assert other.ok("groups", "--names") == "g\n"


def test_any_of_several_servers_will_do(me, server, tmp_path):
    other = Client(f"http://127.0.0.1:1,127.0.0.1:{server.port}", tmp_path)
    assert len(other.ok("add", "g", "-", input="x\n" * 1200).split()) == 1200
    none = Client("http://127.0.0.1:1,http://127.0.0.1:2/", tmp_path).run("groups")
    refused(none, "cannot reach http://127.0.0.1:2: connection refused; is drover serve running?")
    assert Client("http://127.0.0.1:1,", tmp_path).run("groups").returncode == 1


def test_a_leader_that_has_gone_is_forgotten(me, server, tmp_path):
    """The named server sent us to a leader, which dies; then the named one leads itself."""
    gone = []

    def follower(handler, body):
        if not gone:
            gone.append(handler.path)
            handler.answer(307, b"", Location=f"http://127.0.0.1:1{handler.path}")
        else:
            handler.answer(*handler.forward(server.port, body))
    with between(follower) as url:
        assert Client(url, tmp_path).ok("add", "g") == "1\n"
    assert gone == ["/update"]


def test_a_leader_that_is_dead_and_not_yet_known_to_be(tmp_path):
    def follower(handler, body):
        handler.answer(307, b"", Location=f"http://127.0.0.1:1{handler.path}")
    with between(follower) as url:
        refused(Client(url, tmp_path).run("groups"), "cannot reach http://127.0.0.1:1: it leads, and "
                "does not answer; is drover serve running?")


def test_redirects_end(tmp_path):
    def loop(handler, body):
        handler.answer(307, b'{"errors":["elsewhere"]}',
                       Location=f"http://{handler.headers['Host']}/")
    with between(loop) as url:
        refused(Client(url, tmp_path).run("groups"), "elsewhere")


@pytest.mark.parametrize("how", ["file", "environment", "none"])
def test_the_token_is_sent(tmp_path, how):
    seen = []

    def note(handler, body):
        seen.append(handler.headers.get("Authorization"))
        handler.answer(200, b"[]")
    (tmp_path / "token").write_text("s3cret\n")
    with between(note) as url:
        me = Client(url, tmp_path)
        if how == "environment":
            me.environment["DROVER_TOKEN"] = "s3cret"
        me.ok("groups", *(["--token-file", tmp_path / "token"] if how == "file" else []))
    assert seen == [None if how == "none" else "Bearer s3cret"]


def test_a_token_that_is_none(tmp_path):
    (tmp_path / "token").write_text("two words\n")
    me = Client("http://127.0.0.1:1", tmp_path)
    assert "is not a token" in me.run("groups", "--token-file", tmp_path / "token").stderr
    assert me.run("groups", "--token-file", tmp_path / "none").returncode == 1
    me.environment["DROVER_TOKEN"] = "a\nb"
    refused(me.run("groups"), "$DROVER_TOKEN is not a token")


# Terminals.

def test_a_terminal_is_not_overrun(me):
    me.ok("add", "g", "long " * 100)
    me.environment |= {"TERM": "xterm", "NO_COLOR": "1"}
    head, row = on_terminal(me, "ls", columns=60).splitlines()
    assert len(row) == 60 and row.endswith("…") and "\x1b" not in head + row
    assert max(map(len, me.ok("ls").splitlines())) > 500, "a file takes all of it"


def test_colours_are_for_terminals(me):
    me.ok("add", "g", "x")
    me.environment["TERM"] = "xterm"
    assert "\x1b[32mavailable\x1b[0m" in on_terminal(me, "ls", columns=80)
    assert "\x1b" not in me.ok("ls")
    me.environment["TERM"] = "dumb"
    assert "\x1b" not in on_terminal(me, "ls", columns=80)


def test_completion_asks_for_groups(me, tmp_path):
    me.ok("add", "some-group")
    link = tmp_path / "bin"
    link.mkdir()
    (link / "drover").symlink_to(os.path.abspath(BINARY))
    script = f"""PATH={link}:$PATH; source <(drover completion bash)
        COMP_WORDS=(drover claim some); COMP_CWORD=2; _drover; echo "${{COMPREPLY[*]}}" """
    done = subprocess.run(["bash", "-c", script], env=me.environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("some-group\n", "")


# The end of a task.

def test_fail_release_and_done_with_a_result(me):
    me.ok("group", "set", "g", "keep_done=1h", "attempts=3", "backoff=1h")
    me.ok("add", "g", "x")
    claimed = me.json("claim", "g")["tasks"][0]["id"]
    released = int(me.ok("release", claimed))
    assert me.json("task", released)[0]["state"] == "available"
    refused(me.run("release", claimed), f"releases: there is no task {claimed}: it is {released} now, "
            f"changed by client {me.json('task', released)[0]['ownerid']}")
    failed = int(me.ok("fail", "first:1", "--error", "no route"))
    task, = me.json("task", failed)
    assert (task["state"], task["attempts"], task["error"]) == ("retrying", 1, "no route")
    failed = me.json("fail", failed, "--retry-in", "0s")["tasks"][0]["id"]
    assert me.json("task", failed)[0]["state"] == "available"
    me.ok("claim", "g")
    assert me.ok("done", "first:1", "--result", "it\nworked") == ""
    assert me.ok("result", "first:1") == "it\nworked"
    assert me.json("result", "first:1")["state"] == "done"
    assert me.ok("ls", "--state", "done").split()[-1] == "x"


def test_a_result_from_a_file(me, tmp_path):
    me.ok("group", "set", "g", "keep_done=1h")
    me.ok("add", "g", "a", "b", "c")
    (tmp_path / "result").write_text("from a file")
    me.ok("done", 1, "--result-file", tmp_path / "result")
    me.ok("done", 2, "--result-file", "-", input="from a pipe")
    assert [me.ok("result", id) for id in (1, 2)] == ["from a file", "from a pipe"]
    (tmp_path / "result").write_bytes(b"\xff")
    refused(me.run("done", 3, "--result-file", tmp_path / "result"), "the result is not UTF-8 text", status=2)
    (tmp_path / "result").write_bytes(b"a\0b")
    assert me.run("done", 3, "--result-file", tmp_path / "result").returncode == 2
    assert me.run("done", 3, "--result-file", tmp_path / "none").returncode == 1


def test_a_result_that_is_not_there(me):
    me.ok("add", "g", "x", "y")
    refused(me.run("result", 1), "task 1 has not ended: it is available", status=3)
    done = me.run("result", 1, "--wait", "10ms", "--json")
    assert (done.returncode, json.loads(done.stdout)["state"], done.stderr) == (3, "available", "")
    dead = me.ok("fail", 1, "--dead", "--error", "gone\x1b[31m").strip()
    refused(me.run("result", dead), f"task {dead} was given up: gone\\x1b[31m")
    assert me.run("result", dead, "--json").returncode == 1
    refused(me.run("result", 77), "there is no task 77")


def test_a_result_is_waited_for(me):
    """It is not kept: whoever waits gets it all the same."""
    me.ok("add", "g", "x")
    waiting = me.popen("result", 1, "--wait", "20s")
    wait_until(lambda: me.waiting() == 1, "it waits")
    me.ok("claim", "g")
    me.ok("done", "first:1", "--result", "here")
    assert waiting.communicate(timeout=20) == ("here", "") and waiting.returncode == 0


def test_wait_takes_tasks_too(me):
    me.ok("group", "set", "g", "keep_done=1h")
    me.ok("add", "g", "x", "y")
    me.ok("done", 1)
    assert me.ok("wait", "task:1") == "1 done\n"
    assert me.json("wait", "first:1")[0]["state"] == "done"
    done = me.run("wait", "task:1", "first:2", "--timeout", "20ms")
    assert (done.returncode, done.stdout, done.stderr) == (1, "1 done\nfirst:2 available\n", "")
    waiting = me.popen("wait", "first:2", "task:1")
    wait_until(lambda: me.waiting() == 1, "it waits")
    me.ok("done", 2)
    assert waiting.communicate(timeout=20) == ("first:2 done\n1 done\n", "") and waiting.returncode == 0
    refused(me.run("wait", "task:1", "task:77"), "there is no task 77")


def test_help_needs_no_server():
    assert drover("help", "work").returncode == 0
