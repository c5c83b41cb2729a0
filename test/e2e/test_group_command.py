"""drover groups, group, pause, resume, find, dead, purge, move: many tasks, and how they are given out."""

import re

import pytest

from cli import Client, between, on_terminal
from conftest import call, wait_until
from test_task_command import refused

pytestmark = pytest.mark.slow


@pytest.fixture
def me(server, tmp_path):
    return Client(f"http://127.0.0.1:{server.port}", tmp_path)


def shown(me, group):
    """The settings as group show prints them."""
    return dict(re.findall(r"^([a-z_.]+)=(.*)$", me.ok("group", "show", group), re.MULTILINE))


def use(me, *words):
    """What a wrong use says."""
    done = me.run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


# Groups and their settings.

def test_groups_with_counts(me):
    assert me.ok("groups") == me.ok("groups", "--names") == ""
    assert me.json("groups") == {"groups": [], "next": None}
    me.ok("group", "set", "b", "keep_done=1h")
    me.ok("add", "b", "1", "2", "3", "4", "5")
    me.ok("add", "b", "--delay", "1h")
    me.ok("add", "a/\x1bz")
    me.ok("done", 1)
    me.ok("fail", 2, "--retry-in", "1h")
    me.ok("fail", 3, "--dead")
    me.ok("claim", "b")
    head, *rows = [line.split() for line in me.ok("groups").splitlines()]
    assert head == ["GROUP", "AVAILABLE", "DELAYED", "RETRYING", "CLAIMED", "DEAD", "DONE"]
    assert rows == [[r"a/\x1bz", "1", "0", "0", "0", "0", "0"], ["b", "1", "1", "1", "1", "0", "1"],
                    ["b/dead", "0", "0", "0", "0", "1", "0"]]
    head, _, b, _ = [line.split() for line in me.ok("groups", "--wide").splitlines()]
    assert head[-3:] == ["OLDEST", "IN/MIN", "OUT/MIN"] and b[-2:] == ["6", "1"]
    assert me.ok("groups", "--names").split() == [r"a/\x1bz", "b", "b/dead"]
    done = me.run("groups", "--names", "--limit", 1, "--after", "a/\x1bz")
    assert done.stdout == "b\n" and "there are more" in done.stderr
    assert me.json("groups", "--limit", 1)["next"] == "a/\x1bz"


SETTINGS = {
    "order": ["fifo", "random"], "attempts": ["7", "0"], "backoff.first": ["1s500ms", "250ms", "2d"],
    "backoff.factor": ["1.5"], "backoff.max": ["3d"], "backoff.jitter": ["0.25"], "claims": ["3"],
    "dead": ["graves", "a b/c"], "keep_dead": ["7d"], "expired": ["dead"], "limit": ["5"],
    "limit_per_share": ["2"], "fair": ["true"], "rate": ["10/s", "100/m", "5/2m30s", "7/1d12h", "none"],
    "rate.burst": ["12"], "paused": ["true", "false"], "keep_done": ["1h30m", "0"], "remember_keys": ["30s"],
    "max_tasks": ["1000"],
}


def test_settings_are_shown_as_they_are_set(me):
    before = shown(me, "g")
    assert list(before) and set(before) == set(SETTINGS), "every setting can be set here"
    assert "all by default" in me.ok("group", "show", "g")
    me.ok("group", "set", "g", "backoff.max=30d")
    for name, values in SETTINGS.items():
        for value in values:
            assert me.ok("group", "set", "g", f"{name}={value}") == ""
            assert shown(me, "g")[name] == value
    assert "settings of g:" in me.ok("group", "show", "g")
    pairs = [f"{name}={value}" for name, value in shown(me, "g").items() if name != "rate.burst" and value]
    me.ok("group", "set", "other", *pairs)
    assert shown(me, "other") | {"rate.burst": ""} == shown(me, "g") | {"rate.burst": ""}
    me.ok("group", "unset", "g", *SETTINGS)
    assert shown(me, "g") == before
    me.ok("group", "unset", "g")
    refused(me.run("group", "unset", "g"), "there are no settings of this name")


def test_the_server_knows_no_other_setting(me):
    settings = me.json("group", "show", "g")["settings"]
    flat = {f"{name}.{member}" if isinstance(value, dict) else name
            for name, value in settings.items() for member in (value if isinstance(value, dict) else [None])}
    assert flat - {"rate.count", "rate.per"} == set(SETTINGS) - {"rate"}


def test_another_rate_has_its_own_burst(me):
    me.ok("group", "set", "g", "rate=10/s")
    assert shown(me, "g")["rate.burst"] == "2"
    me.ok("group", "set", "g", "rate=1000/s")
    assert shown(me, "g")["rate.burst"] == "101"
    me.ok("group", "set", "g", "rate.burst=5", "rate=100/s")
    assert (shown(me, "g")["rate"], shown(me, "g")["rate.burst"]) == ("100/s", "5")
    me.ok("group", "set", "g", "backoff=7s", "limit=default")
    assert shown(me, "g")["backoff.first"] == "7s"


@pytest.mark.parametrize("pair, words", [
    ("limit=x", "limit must be a number, not 'x'"), ("limit=", "limit must be a number, not ''"),
    ("limit=1 2", "limit must be a number"), ("paused=maybe", "paused must be true or false"),
    ("keep_done=5", "keep_done must be a time such as"), ("rate=5", "rate must be a rate such as 10/s"),
    ("rate=0/s", "rate must be a rate"), ("rate=1/0s", "rate must be a rate"), ("rate=/s", "rate must be"),
    ("rate=5/" + "1" * 40 + "s", "rate must be"), ("limt=5", "unknown setting 'limt': did you mean 'limit'?"),
    ("colour=red", "unknown setting 'colour'"), ("limit", "'limit' is not NAME=VALUE"),
    ("limit=-1", "limit must be from 0 to"), ("order=lifo", "order must be one of random, fifo"),
    ("limit=1.5", "limit must be a whole number"),
])
def test_wrong_settings(me, pair, words):
    assert words in use(me, "group", "set", "g", "fair=true", pair)
    assert "all by default" in me.ok("group", "show", "g"), "nothing was changed"


def test_wrong_groups(me):
    assert 'a "*" stands at the end only' in use(me, "group", "set", "a*b", "limit=1")
    assert "missing argument: GROUP NAME=VALUE..." in use(me, "group", "set", "g")
    assert "'limit=5' is not the name of a setting" in use(me, "group", "unset", "g", "limit=5")
    assert "unknown command 'mail'" in use(me, "group", "mail")


def test_pause_and_resume(me):
    me.ok("add", "mail/in", "x")
    me.ok("group", "set", "mail*", "limit=3")
    assert me.ok("pause", "mail/in", "other*") == ""
    assert me.run("claim", "mail/in").returncode == 3
    assert (shown(me, "mail/in")["limit"], shown(me, "otherwise")["paused"]) == ("3", "true")
    assert me.json("resume", "mail/in")["settings"]["paused"] is False
    assert len(me.json("claim", "mail/in")["tasks"]) == 1


def test_who_has_what_is_claimed(me):
    me.ok("add", "g", "x")
    me.ok("claim", "g")
    owner = str(me.json("ls")[0]["ownerid"])
    assert owner not in me.ok("group", "show", "g") and owner in me.ok("group", "show", "g", "--wide")


# Finding.

def test_find(me):
    me.ok("add", "a", "needle one", "--key", "k")
    me.ok("add", "b", "needle two", "hay")
    dead = me.ok("fail", 3, "--dead", "--error", "no route to host").strip()

    def ids(*words):
        return sorted(task["id"] for task in me.json("find", *words)["tasks"])
    assert ids() == [1, 2, int(dead)]
    assert ids("--text", "needle") == [1, 2] and ids("b", "--text", "needle") == [2]
    assert ids("--key", "k") == [1] and ids("--error", "route") == ids("--state", "dead") == [int(dead)]
    assert ids("--state", "dead,available", "--text", "e") == [1, 2] and ids("nothing") == []
    assert me.ok("find", "nothing") == ""
    assert me.ok("find", "--key", "k").splitlines()[0].split() == ["ID", "GROUP", "STATE", "SINCE/UNTIL", "DATA"]
    assert "OWNER" in me.ok("find", "--key", "k", "--wide")
    assert "state must be one of available, delayed" in use(me, "find", "--state", "bogus")
    done = me.run("find", "--limit", 1)
    assert len(done.stdout.splitlines()) == 2
    after = re.fullmatch(r"drover: there are more: use --limit, or --after '(\d+)'\n", done.stderr)[1]
    assert len(ids("--after", after)) == 2


def test_find_reads_all_pages(me):
    me.ok("add", "g", "-", input="".join(f"line {n}\n" for n in range(2500)))
    assert len(me.json("find", "g", "--limit", 0)["tasks"]) == 2500
    assert len(me.json("ls", "--limit", 0)) == 2500
    assert len(me.json("find", "--text", "9", "--limit", 0)["tasks"]) == sum("9" in str(n) for n in range(2500))


# Many at once.

def bury(me, group, *data, error="boom"):
    """Dead tasks of a group: their ids."""
    ids = me.ok("add", group, *data).split()
    return me.ok("fail", *ids, "--dead", "--error", error).split()


def test_the_dead(me):
    assert me.ok("dead", "ls") == "" and me.json("dead", "ls") == {"tasks": [], "next": None}
    first, second = bury(me, "a", "x", "y")
    me.ok("group", "set", "b", "dead=graves")
    third, = bury(me, "b", "z", error="no route\x1b")
    head, *rows = me.ok("dead", "ls").splitlines()
    assert head.split() == ["ID", "GROUP", "DIED", "FAILED", "ERROR", "DATA"] and len(rows) == 3
    assert [task["group"] for task in me.json("dead", "ls", "b")["tasks"]] == ["graves"]
    assert len(me.json("dead", "ls", "--error", "boom")["tasks"]) == 2
    show = me.ok("dead", "show", third)
    assert "origin: b\n" in show and r"error: no route\x1b" in show and "ownerid" not in show
    assert [task["id"] for task in me.json("dead", "show", first, second)] == [int(first), int(second)]
    me.ok("add", "c", "alive")
    refused(me.run("dead", "show", "first:7"), "task first:7 is not dead: it is available")
    assert me.ok("dead", "retry", "--group", "b") == "1 task retried\n", "it goes where it died, whatever the group"
    assert me.ok("dead", "retry", "--text", "y") == "1 task retried\n"
    assert sorted(me.tasks("a", "b")) == [("a", "y"), ("b", "z")]
    assert me.ok("dead", "rm", "--all") == "1 task deleted\n" and me.ok("dead", "ls") == ""
    assert me.ok("dead", "rm", "--all") == me.ok("dead", "rm", "--group", "none") == "0 tasks deleted\n"


def test_the_dead_by_their_ids(me):
    first, second, third = bury(me, "a", "x", "y", "z")
    me.ok("add", "a", "alive")
    assert me.json("dead", "retry", first)["changed"] == 1
    done = me.run("dead", "rm", second, "first:7", 99)
    assert (done.returncode, done.stdout) == (1, "1 task deleted\n"), "what can be done is done"
    assert done.stderr.splitlines() == ["drover: task first:7 is not dead: it is available", "drover: there is no task 99"]
    done = me.run("dead", "retry", third, second, "--dry-run")
    assert done.returncode == 1 and done.stdout.endswith("1 task would be retried\n")
    assert [task["id"] for task in me.json("dead", "ls")["tasks"]] == [int(third)]
    for words in ["retry"], ["rm"], ["rm", "x"], ["rm", "--all", "5"], ["rm", "--all", "--text", "x"]:
        assert f"drover dead {words[0]}: " in use(me, "dead", *words)


def test_purge_and_move(me):
    me.ok("add", "a", "-", input="".join(f"{n}\n" for n in range(2500)))
    me.ok("add", "b", "other", "--key", "k")
    me.ok("add", "a", "mine", "--key", "k")
    me.ok("claim", "b")
    sevens = sum("7" in str(n) for n in range(2500))
    assert me.ok("purge", "a", "--text", "7", "--dry-run").splitlines()[-1] == f"{sevens} tasks would be deleted"
    assert me.json("purge", "a", "--text", "7")["changed"] == sevens
    done = me.run("move", "a", "b")
    assert (done.returncode, done.stdout) == (1, f"{2500 - sevens} tasks moved\n")
    assert done.stderr == "drover: 1 could not be moved: their keys are taken there\n"
    assert me.ok("purge", "b", "--key", "k") == "0 tasks deleted\n", "it is claimed"
    assert me.ok("purge", "b", "--key", "k", "--state", "claimed") == "1 task deleted\n"
    assert me.ok("purge", "--all") == f"{2501 - sevens} tasks deleted\n" and me.ok("ls") == ""
    assert me.ok("purge", "a") == "0 tasks deleted\n"
    assert "which tasks?" in use(me, "purge") and "--all goes without" in use(me, "purge", "--all", "--text", "x")
    assert "state must be one of" in use(me, "purge", "a", "--state", "x")
    me.environment["DROVER_CLIENT_ID"] = "5"
    me.ok("add", "a")
    me.ok("move", "a", "c")
    assert me.json("ls", "c")[0]["ownerid"] == 5


def test_a_person_is_asked(me):
    me.ok("add", "a", "x\x1b[31m", "2", "3", "4")
    me.environment |= {"TERM": "xterm", "NO_COLOR": "1"}
    said = on_terminal(me, "purge", "a", typed="n\n", status=1)
    assert r"x\x1b[31m" in said and "... and 1 more\ndelete 4 tasks? [y/N] " in said
    assert said.endswith("drover: nothing was changed\n") and len(me.tasks()) == 4
    assert on_terminal(me, "purge", "none", typed="").endswith("0 tasks deleted\n")
    assert on_terminal(me, "move", "a", "b", "--yes", typed="").endswith("4 tasks moved\n")
    assert on_terminal(me, "purge", "b", "--text", "2", typed="y\n").endswith("1 task deleted\n")
    on_terminal(me, "purge", "b", typed="\x04", status=1)
    assert len(me.tasks()) == 3, "the end of the input is no consent"
    dead, = bury(me, "a", "x")
    assert "retried" in on_terminal(me, "dead", "retry", dead, typed=""), "an id says enough"


def test_an_error_in_the_middle_says_how_many(me, server, tmp_path):
    me.ok("add", "a", "-", input="x\n" * 2500)
    seen = []

    def flaky(handler, body):
        seen.append(body)
        if len(seen) == 2:
            handler.answer(503, b'{"errors":["not now"]}')
        else:
            handler.answer(*handler.forward(server.port, body))
    with between(flaky) as url:
        done = Client(url, tmp_path).run("purge", "a")
    assert (done.returncode, done.stdout) == (1, "")
    first, second = done.stderr.splitlines()
    left = len(me.json("ls", "--limit", 0))
    assert (first, second) == ("drover: not now", f"drover: {2500 - left} tasks deleted before the error")
    assert 0 < left < 2500


# Other modules.

def test_messages_and_nodes_are_kept_apart(me, server):
    me.ok("queue", "create", "mq")
    message = me.ok("queue", "post", "mq", "hello").strip()
    me.ok("add", "mine", "x")
    assert me.tasks() == [("mine", "x")] and me.ok("groups", "--names") == "mine\n"
    assert me.ok("find", "mq") == me.ok("ls", "mq") == ""
    assert ("mq", "hello") in [(t["group"], t["data"]) for t in me.json("ls", "--internal")]
    assert len(me.json("find", "mq", "--internal")["tasks"]) == 1
    assert me.ok("groups", "--names", "--internal").split() == ["mine", "mq"]
    assert me.ok("purge", "mq") == "0 tasks deleted\n" and me.ok("move", "mq", "mine") == "0 tasks moved\n"
    for verb, member in ("done", "finishes"), ("fail", "fails"), ("release", "releases"):
        refused(me.run(verb, message), f"{member}: task {message} is a message of a queue")
    refused(me.run("claim", "mq"), "group mq has messages of a queue or tasks of nodes")
    assert me.ok("purge", "--all") == "1 task deleted\n"
    assert call(server.port, "GET", "/groups")[1] == ["mq"], "the document's API is as it was"
    assert len(call(server.port, "GET", "/group/mq")[1]) == 1
    task, = me.json("claim", "mq", "--internal")["tasks"]
    assert task["data"] == "hello"


def test_a_node_that_runs_is_no_task_of_the_user(me):
    running = me.popen("exec", "--", "sleep", "600")
    task, = wait_until(lambda: me.json("ls", "--internal"), "the node's task")
    group = task["group"]
    assert me.ok("ls") == me.ok("groups") == me.ok("find", group) == ""
    refused(me.run("claim", group), "nothing to claim", status=3)
    assert me.ok("purge", group, "--state", "claimed") == me.ok("purge", "--all") == "0 tasks deleted\n"
    me.ok("kill", me.json("nodes")[0]["id"])
    running.communicate(timeout=60)
