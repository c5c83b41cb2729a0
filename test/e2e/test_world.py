"""Worlds over HTTP, on the embedded keeper and on an ensemble, and what kazoo sees of them."""

import itertools
import json
import os
import re
import signal
import subprocess
import threading

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

from conftest import BINARY, DEADLINE_S, OnEnsemble, drover, errors, wait_until
from world_support import Place, Stream, World, call, figure, place_of

NUMBERS = itertools.count()


@pytest.fixture(scope="module", params=["embedded", "ensemble"])
def place(request, tmp_path_factory):
    yield from place_of(request, tmp_path_factory, "/worlds")


@pytest.fixture
def world(place):
    one = World(place, f"my{next(NUMBERS)}")
    yield one
    place.sweep(one.name)


@pytest.fixture
def session(place):
    return place.session()


def parsed(nodes):
    return {path: json.loads(data) for path, data in nodes.items()}


def test_init_makes_the_four_directories(place, world):
    names = {"zoott_p", "zoott_w", "zoott_c", f"zoott_{world.name}"}
    assert names <= set(place.kazoo.get_children("/"))
    for name in names:
        data, stat = place.kazoo.get("/" + name)
        assert (data, stat.ephemeralOwner) == (b"", 0)
    World(place, world.name)  # safe to repeat
    assert world.name in call(place.port, "GET", "/v1/worlds")[1]["worlds"]


def test_the_documents_example(place, world, session):
    """Node by node, from queueing to completion."""
    root = f"/zoott_{world.name}"
    names = ["requestFile", "downloadFile", "processFile"]
    data = [{"url": "x"}, [1, "zwei"], None]
    nodes = ["|".join(f"{name}_alpha" for name in names[:i + 1]) for i in range(3)]
    paths = [f"{root}/" + node.replace("|", "/") for node in nodes]
    for i, name in enumerate(names):
        parent = (names[i - 1], "alpha") if i else None
        assert world.queue(name, "alpha", data[i], parent) == [paths[i]]
    records = {node: world.record(node, name, "alpha") for node, name in zip(nodes, names)}
    tree = dict(zip(paths, data))
    pending = {f"/zoott_p/{node}": record for node, record in records.items()}
    assert parsed(place.nodes(root)) == tree
    assert parsed(place.nodes("/zoott_p")) == pending
    assert place.nodes("/zoott_w", "/zoott_c") == {}

    for i, node in enumerate(nodes):
        status, answer = world.post("claim", types=["alpha", "beta"], session=session)
        task = {key: value for key, value in records[node].items()} | {"data": data[i]}
        assert (status, answer) == (200, {"node": node, "task": task})
        assert world.claim(session, "alpha") is None  # its descendants wait
        assert list(place.nodes("/zoott_w")) == [f"/zoott_w/{node}"]
        assert place.kazoo.exists(f"/zoott_w/{node}").ephemeralOwner != 0
        assert parsed(place.nodes("/zoott_p")) == pending  # also while it is worked on
        assert world.complete(node, session) == "completed"
        del pending[f"/zoott_p/{node}"]
        assert parsed(place.nodes("/zoott_p")) == pending
        assert place.nodes("/zoott_w") == {}
        assert place.kazoo.exists(f"/zoott_c/{node}").ephemeralOwner == 0
    assert parsed(place.nodes("/zoott_c")) == {f"/zoott_c/{n}": r for n, r in records.items()}
    assert parsed(place.nodes(root)) == tree


def test_oldest_first_of_the_types_asked_for(world, session):
    for name, type in [("z", "t"), ("y", "u"), ("x", "t"), ("w", "v")]:
        world.queue(name, type)
    assert world.claim(session, "none") is None
    assert world.claim(session, "v", "t") == "z_t"
    assert world.claim(session, "v", "t") == "x_t"
    assert world.claim(session, "v", "t") == "w_v"
    assert world.claim(session, "v", "t") is None
    assert world.claim(session, "u") == "y_u"


def test_name_and_type_are_the_key(place, world):
    """Name and type identify a task below its parent."""
    world.queue("a", "t", 1)
    world.queue("a", "u", 2)
    world.queue("a", "t", 3, ("a", "u"))
    world.queue("a", "t", 4)
    root = f"/zoott_{world.name}"
    assert parsed(place.nodes(root)) == {f"{root}/a_t": 4, f"{root}/a_u": 2, f"{root}/a_u/a_t": 3}
    assert sorted(place.nodes("/zoott_p")) == ["/zoott_p/a_t", "/zoott_p/a_u", "/zoott_p/a_u|a_t"]


def test_every_ancestor_blocks(world, session):
    """A pending grandparent blocks too, although the parent is completed."""
    for name, parent in [("a", None), ("b", ("a", "t")), ("c", ("b", "t"))]:
        world.queue(name, parent=parent)
    world.complete(world.claim(session), session)
    world.complete(world.claim(session), session)
    world.queue("a")
    assert world.claim(session) == "a_t"
    assert world.claim(session) is None
    world.complete("a_t", session)
    assert world.claim(session) == "a_t|b_t|c_t"


def test_each_change_is_one_transaction(place, world, session):
    """All nodes that it changes have the same zxid."""
    def stat(path):
        return place.kazoo.exists(path)

    def changed():
        return {stat(path).pzxid for path in ("/zoott_p", "/zoott_w", "/zoott_c")}

    root = f"/zoott_{world.name}"
    world.queue("a")
    world.queue("b")
    paths = world.queue("c", "u", parent=(".", "t"))
    nodes = ["/zoott_p/" + path[len(root) + 1:].replace("/", "|") for path in paths]
    assert len(paths) == 2 and len({stat(path).czxid for path in paths + nodes}) == 1
    assert world.claim(session) == "a_t"
    assert stat("/zoott_p/a_t").mzxid == stat("/zoott_w/a_t").czxid
    world.complete("a_t", session)
    assert changed() == {stat("/zoott_c/a_t").czxid}
    assert world.claim(session) == "b_t"
    assert world.end("fail", "b_t", session)[0] == 200
    assert stat("/zoott_w").pzxid == stat("/zoott_p").pzxid == stat("/zoott_p/b_t").czxid
    world.queue("a")
    assert stat("/zoott_c").pzxid == stat("/zoott_p/a_t").czxid == stat(f"{root}/a_t").mzxid


def test_below_all_that_match(place, world):
    for name, type in [("a1", "t"), ("a2", "s"), ("a3", "t"), ("ba1", "t")]:
        world.queue(name, type)
    below = world.queue("c", "u", 1, ("a[12]", "[st]"), child_name="{parent}.{child}")
    root = f"/zoott_{world.name}"
    assert below == [f"{root}/a1_t/a1.c_u", f"{root}/a2_s/a2.c_u"]
    assert parsed(place.nodes("/zoott_p"))["/zoott_p/a1_t|a1.c_u"] == \
        world.record("a1_t|a1.c_u", "a1.c", "u")
    before = place.nodes("/zoott_p", root)
    for parent in [("nobody", "t"), ("a", "t"), ("a1", "tt"), ("A1", "t")]:
        status, answer = world.post("tasks", task={"name": "d", "type": "u"},
                                    parent={"name": parent[0], "type": parent[1]})
        assert status == 404 and "no task matches" in answer["errors"][0]
    assert place.nodes("/zoott_p", root) == before


def test_matches_are_found_before_the_first_is_created(world):
    world.queue("a")
    world.queue("b")
    for _ in range(2):  # the second time also below what the first created
        count = len(world.queue("n", "t", None, (".*", "t")))
    assert count == 4


def test_two_at_once_for_one_task(place, world):
    """Forty tasks, ten handlers: each task is claimed once."""
    sessions = [place.session() for _ in range(10)]
    for number in range(40):
        world.queue(f"n{number}")
    got = []

    def handle(session):
        while node := world.claim(session):
            got.append(node)
            assert world.complete(node, session) == "completed"

    threads = [threading.Thread(target=handle, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(f"n{number}_t" for number in range(40))
    assert len(place.nodes("/zoott_c")) == 40
    assert place.nodes("/zoott_p", "/zoott_w") == {}


def test_a_session_that_ends_gives_back(place, world):
    first, second = place.session(), place.session()
    world.queue("a")
    assert world.claim(first) == "a_t"
    assert world.claim(second) is None
    assert call(place.port, "DELETE", f"/v1/sessions/{first}")[0] == 200
    assert world.claim(second) == "a_t"
    status, answer = world.end("complete", "a_t", first)
    assert status == 410 and "no such session" in answer["errors"][0]
    assert world.complete("a_t", second) == "completed"


@pytest.mark.slow
def test_a_session_that_is_silent_gives_back(place, world):
    first, second = place.session(3000), place.session()
    world.queue("a")
    assert world.claim(first) == "a_t"
    assert world.claim(second, wait=30000) == "a_t"
    assert call(place.port, "PUT", f"/v1/sessions/{first}")[0] == 410


@pytest.mark.slow
def test_a_handler_that_is_killed(place, world, tmp_path):
    """`drover world work` dies while its command runs; another worker gets the task."""
    world.queue("a", data={"n": 1})
    started = tmp_path / "started"
    os.mkfifo(started)
    command = [BINARY, "world", "work", world.name, "--type", "t", "--timeout", "3s", "--",
               "sh", "-c", f"cat > {started}; exec sleep 300"]
    with subprocess.Popen(command, env=os.environ | {"DROVER_URL": f"http://127.0.0.1:{place.port}"},
                          start_new_session=True) as handler:
        assert json.loads(started.read_text()) == {"n": 1}
        assert place.kazoo.exists("/zoott_w/a_t")
        os.kill(handler.pid, signal.SIGKILL)
    session = place.session()
    assert world.claim(session, wait=30000) == "a_t"
    assert world.complete("a_t", session) == "completed"


def test_waiting(place, world, session):
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(world.claim(session, wait=30000)))
    waiting.start()
    while not waiting.is_alive():
        pass
    world.queue("late")
    waiting.join()
    assert answers == ["late_t"]
    assert world.claim(session, wait=50) is None


@pytest.mark.slow
def test_a_session_lives_while_it_waits(place, world):
    short = place.session(3000)
    assert world.claim(short, wait=4000) is None
    assert call(place.port, "PUT", f"/v1/sessions/{short}")[0] == 200


def test_queued_again_while_worked_on(place, world, session):
    world.queue("a", data=1)
    assert world.claim(session) == "a_t"
    world.queue("a", data=2)
    assert world.claim(session) is None
    assert world.complete("a_t", session) == "pending"
    assert place.nodes("/zoott_c") == {}
    status, answer = world.post("claim", types=["t"], session=session)
    assert (answer["node"], answer["task"]["data"]) == ("a_t", 2)
    assert world.complete("a_t", session) == "completed"
    assert world.claim(session) is None


def test_queued_again_after_it_was_completed(place, world, session):
    world.queue("a", data=1)
    world.complete(world.claim(session), session)
    world.queue("b", data=1, parent=("a", "t"))
    world.queue("a", data=2)
    assert place.nodes("/zoott_c") == {}
    assert world.claim(session) == "a_t"
    assert world.claim(session) is None  # b waits for it again
    world.complete("a_t", session)
    assert world.claim(session) == "a_t|b_t"


def test_release_and_fail(place, world, session):
    world.queue("a")
    world.queue("b")
    assert world.claim(session) == "a_t"
    assert world.end("release", "a_t", session) == (200, {"node": "a_t", "state": "pending"})
    assert world.claim(session) == "a_t"
    assert world.end("fail", "a_t", session, error="no disk")[0] == 200
    assert world.claim(session) == "b_t"  # the failed task is behind it
    assert world.claim(session) == "a_t"
    assert world.end("fail", "a_t", session, error="no disk again")[0] == 200
    record = world.record("a_t", "a", "t") | {"failures": 2, "error": "no disk again"}
    assert parsed(place.nodes("/zoott_p"))["/zoott_p/a_t"] == record
    for how in ("complete", "release", "fail"):
        status, answer = world.end(how, "a_t", session)
        assert status == 404 and "nobody works on" in answer["errors"][0]


def test_only_the_claimant_ends_a_claim(place, world, session):
    other = place.session()
    world.queue("a")
    assert world.claim(session) == "a_t"
    before = place.nodes("/zoott_p", "/zoott_w", "/zoott_c")
    for how in ("complete", "release", "fail"):
        status, answer = world.end(how, "a_t", other)
        assert status == 409 and "another session" in answer["errors"][0]
    assert place.nodes("/zoott_p", "/zoott_w", "/zoott_c") == before
    assert world.complete("a_t", session) == "completed"


def test_worlds_share_the_lists(place, world, session):
    other = World(place, f"my{next(NUMBERS)}")
    world.queue("a")
    status, answer = other.post("tasks", task={"name": "a", "type": "t"})
    assert status == 409 and "another world" in answer["errors"][0]
    assert other.claim(session) is None
    assert other.listed("pending") == [] and world.listed("pending") == ["a_t"]
    assert place.nodes(f"/zoott_{other.name}") == {}


def test_looking(place, world, session):
    world.queue("a", data={"x": 1})
    world.queue("b", parent=("a", "t"))
    world.queue("c")
    assert world.claim(session) == "a_t"
    assert world.listed("pending") == ["a_t", "a_t|b_t", "c_t"]
    assert world.listed("working") == ["a_t"]
    assert [task["state"] for task in world.get("tasks?state=pending")[1]["tasks"]] == \
        ["working", "pending", "pending"]
    assert world.get("tasks?state=pending&limit=0") == world.get("tasks?state=pending")
    first = world.get("tasks?state=pending&limit=2")[1]
    assert first["next"] == "a_t|b_t"
    rest = world.get("tasks?state=pending&limit=2&after=a_t%7Cb_t")[1]
    assert ([task["node"] for task in rest["tasks"]], rest["next"]) == (["c_t"], None)
    world.complete("a_t", session)
    assert world.listed("completed") == ["a_t"]
    status, task = world.get("tasks/a_t")
    assert (status, task["state"], task["data"]) == (200, "completed", {"x": 1})
    for path in ("a_t/b_t", "a_t%7Cb_t", "a_t%2Fb_t"):
        status, task = world.get("tasks/" + path)
        assert (status, task["node"], task["name"], task["state"]) == \
            (200, "a_t|b_t", "b", "pending")
    tree = {"root": f"/zoott_{world.name}", "tasks": [
        {"node": "a_t", "state": "completed", "tasks": [
            {"node": "a_t|b_t", "state": "pending", "tasks": []}]},
        {"node": "c_t", "state": "pending", "tasks": []}]}
    assert world.get("tree") == (200, tree)


def test_events(place, world, session):
    """State changes are published as events, and counted."""
    completed = 'drover_world_tasks_total{state="completed"}'
    before = figure(place.port, completed)
    with Stream(place.port, "/v1/events?kind=world&type=my_t") as events:
        def told(node, state, **more):
            assert events.next() == ("world", {"world": world.name, "node": node, "type": "my_t",
                                               "state": state} | more)
        world.queue("a", "my_t")
        told("a_my_t", "pending")
        world.queue("other", "u")
        world.queue("b", "my_t", parent=("a", "my_t"))
        told("a_my_t|b_my_t", "pending")
        for how, state, more in [("release", "pending", {}), ("fail", "pending", {"error": "oh"}),
                                 ("complete", "completed", {})]:
            assert world.claim(session, "my_t") == "a_my_t"
            told("a_my_t", "working")
            assert world.end(how, "a_my_t", session, **more)[0] == 200
            told("a_my_t", state, **more)
        assert world.claim(session, "my_t") == "a_my_t|b_my_t"
        told("a_my_t|b_my_t", "working")
        world.queue("b", "my_t", 2, parent=("a", "my_t"))
        told("a_my_t|b_my_t", "pending")  # queued again
        assert world.complete("a_my_t|b_my_t", session) == "pending"
        told("a_my_t|b_my_t", "pending")
    assert figure(place.port, completed) == before + 1


def test_failed_for_good(place, world, session):
    """Kept from everybody, a handler that knows only the document included, until it is retried."""
    status, answer = world.post("tasks", task={"name": "a", "type": "t", "attempts": 2})
    assert status == 200
    world.queue("b", parent=("a", "t"))
    for state in ("pending", "failed"):
        assert world.claim(session) == "a_t"
        status, answer = world.end("fail", "a_t", session, error="no disk")
        assert (status, answer) == (200, {"node": "a_t", "state": state})
    assert world.claim(session) is None
    assert world.end("complete", "a_t", session)[0] == 404
    assert world.listed("failed") == ["a_t"] and world.listed("working") == []
    task = world.get("tasks/a_t")[1]
    assert (task["state"], task["failures"], task["tries"], task["error"]) == ("failed", 2, 2, "no disk")
    assert [t["state"] for t in world.get("tree")[1]["tasks"]] == ["failed"]
    with pytest.raises(NodeExistsError):
        place.kazoo.create("/zoott_w/a_t", b"", ephemeral=True)
    assert place.kazoo.exists("/zoott_p/a_t")  # which blocks the task below it
    assert world.post("retry", node="a_t") == (200, {"node": "a_t", "state": "pending"})
    status, answer = world.post("retry", node="a_t")
    assert status == 409 and "has not failed" in answer["errors"][0]
    assert world.claim(session) == "a_t"
    world.complete("a_t", session)
    assert world.claim(session) == "a_t|b_t"


def test_failed_and_queued_by_another_client(place, world, session):
    """It sets the pending node, as the document says, and leaves our lock."""
    world.queue("a")
    assert world.claim(session) == "a_t"
    assert world.end("fail", "a_t", session, final=True)[1]["state"] == "failed"
    place.kazoo.set("/zoott_p/a_t", json.dumps(world.record("a_t", "a", "t")).encode())
    assert world.claim(session, wait=30000) == "a_t"
    assert world.complete("a_t", session) == "completed"
    assert place.nodes("/zoott_w") == {}


def test_removing(place, world, session):
    world.queue("a")
    world.queue("b", parent=("a", "t"))
    url = f"/v1/worlds/{world.name}/tasks/"
    for node, status, words in [("a_t", 409, "has tasks below"), ("c_t", 404, "no task"),
                                ("a", 400, "is not a node")]:
        got, answer = call(place.port, "DELETE", url + node)
        assert got == status and words in answer["errors"][0]
    assert call(place.port, "DELETE", url + "a_t%7Cb_t") == (200, {})
    assert world.claim(session) == "a_t"
    got, answer = call(place.port, "DELETE", url + "a_t")
    assert got == 409 and "being worked on" in answer["errors"][0]
    world.complete("a_t", session)
    done = drover("world", "rm", world.name, "a_t", "--server", f"http://127.0.0.1:{place.port}")
    assert done.returncode == 0, done.stderr
    assert place.nodes("/zoott_p", "/zoott_w", "/zoott_c", f"/zoott_{world.name}") == {}


@pytest.mark.slow
def test_retention(start):
    """Old completed tasks are removed, also from the tree; pending tasks and parents stay."""
    server = start("--world-retention", "1s")
    place = Place(server, f"127.0.0.1:{server.zk_port}")
    world = World(place, "kept")
    session = place.session()
    for name, parent in [("a", None), ("b", ("a", "t")), ("c", None), ("d", ("c", "t"))]:
        world.queue(name, parent=parent)
    for node in ("a_t", "a_t|b_t", "c_t"):
        assert world.claim(session) in ("a_t", "a_t|b_t", "c_t"), node
        for one in world.listed("working"):
            world.complete(one, session)
    wait_until(lambda: not place.kazoo.exists("/zoott_kept/a_t"), "the removal of a_t")
    assert set(place.nodes("/zoott_kept")) == {"/zoott_kept/c_t", "/zoott_kept/c_t/d_t"}
    assert list(place.nodes("/zoott_c")) == ["/zoott_c/c_t"]
    assert list(place.nodes("/zoott_p")) == ["/zoott_p/c_t|d_t"]
    place.close()


TASK = {"name": "n", "type": "t"}


@pytest.mark.parametrize("what, body, status, words", [
    ("tasks", {}, 400, "task is missing"),
    ("tasks", {"task": 1}, 400, "task must be an object"),
    ("tasks", {"task": {"name": "n"}}, 400, "type is missing"),
    ("tasks", {"task": {"name": "", "type": "t"}}, 400, "name is empty"),
    ("tasks", {"task": {"name": "a b", "type": "t"}}, 400, "' '"),
    ("tasks", {"task": {"name": "a/b", "type": "t"}}, 400, "'/'"),
    ("tasks", {"task": {"name": "a\\b", "type": "t"}}, 400, "'\\'"),
    ("tasks", {"task": {"name": "a|b", "type": "t"}}, 400, "'|'"),
    ("tasks", {"task": {"name": "a\tb", "type": "t"}}, 400, "control character"),
    ("tasks", {"task": {"name": "a\0b", "type": "t"}}, 400, "control character"),
    ("tasks", {"task": {"name": "n", "type": "\U0001f600"}}, 400, "cannot have"),
    ("tasks", {"task": {"name": "n" * 300, "type": "t"}}, 400, "longer than"),
    ("tasks", {"task": TASK | {"more": 1}}, 400, "more"),
    ("tasks", {"task": TASK, "parent": {"name": "(", "type": "t"}}, 400, "regular expression"),
    ("tasks", {"task": TASK, "parent": {"name": "a"}}, 400, "type is missing"),
    ("tasks", {"task": TASK, "parent": {"name": "(a+)+[bc]", "type": "t"}}, 400, "too expensive"),
    ("tasks", {"task": TASK, "child_name": "x"}, 400, "goes with parent"),
    ("tasks", {"task": TASK, "parent": {"name": "a+", "type": "t"}, "child_name": "{parent}/x"},
     400, "'/'"),
    ("tasks", b'{"task": {"name": "n", "type": "t", "data": nope}}', 400, "not JSON"),
    ("tasks", [], 400, "must be an object"),
    ("claim", {"session": "x"}, 400, "types is missing"),
    ("claim", {"types": [], "session": "x"}, 400, "types"),
    ("claim", {"types": [1], "session": "x"}, 400, "must be a string"),
    ("claim", {"types": ["t"]}, 400, "session is missing"),
    ("claim", {"types": ["t"], "session": "0" * 48}, 410, "no such session"),
    ("claim", {"types": ["t"], "session": "x", "wait": -1}, 400, "wait must be"),
    ("complete", {"node": "n_t"}, 400, "session is missing"),
    ("complete", {"node": 1, "session": "x"}, 400, "node must be"),
    ("complete", {"node": "n_t", "session": "x", "error": ""}, 400, "error"),
    ("nothing", {}, 404, ""),
])
def test_bad_input(place, world, what, body, status, words):
    world.queue("a" * 40)
    before = place.nodes("/zoott_p", "/zoott_w", "/zoott_c", f"/zoott_{world.name}")
    got, answer = call(place.port, "POST", f"/v1/worlds/{world.name}/{what}", body)
    assert got == status, answer
    assert any(words in line for line in errors(json.dumps(answer))), answer
    assert place.nodes("/zoott_p", "/zoott_w", "/zoott_c", f"/zoott_{world.name}") == before


@pytest.mark.parametrize("method, path, body, status", [
    ("POST", "/v1/worlds", {"world": "a/b"}, 400),
    ("POST", "/v1/worlds", {"world": "p"}, 400),
    ("POST", "/v1/worlds", {"world": ""}, 400),
    ("POST", "/v1/worlds", {"world": 1}, 400),
    ("POST", "/v1/worlds", {}, 400),
    ("POST", "/v1/worlds/nowhere/tasks", {"task": TASK}, 404),
    ("GET", "/v1/worlds/nowhere/tasks", None, 404),
    ("GET", "/v1/worlds/nowhere/tree", None, 404),
    ("GET", "/v1/worlds/a%2Fb/tree", None, 400),
    ("POST", "/v1/sessions", {"timeout": 10}, 400),
    ("POST", "/v1/sessions", {"timeout": "10"}, 400),
    ("PUT", "/v1/sessions/x", None, 410),
    ("GET", "/v1/sessions/x", None, 410),
    ("DELETE", "/v1/sessions/" + "f" * 48, None, 410),
])
def test_bad_requests(place, method, path, body, status):
    before = set(place.kazoo.get_children("/"))
    got, answer = call(place.port, method, path, body)
    assert got == status, answer
    assert errors(json.dumps(answer))
    assert set(place.kazoo.get_children("/")) == before


def test_bad_questions(world, session):
    world.queue("a")
    assert world.get("tasks?state=all")[0] == 400
    assert world.get("tasks?limit=-1")[0] == 400
    assert world.get("tasks?limit=x")[0] == 400
    assert world.get("tasks/a")[0] == 400
    assert world.get("tasks/b_t")[0] == 404
    assert world.end("complete", "no_such", session)[0] == 404
    assert world.end("complete", "||", session)[0] == 400


def test_rubbish_of_others(place, world, session):
    for number, data in enumerate([b"", b"hello", b"\xff\0", b"[1]", b'{"name": "rubbish"}']):
        place.kazoo.create(f"/zoott_p/{world.name}rubbish{number}_t", data)
    place.kazoo.create("/zoott_w/rubbish", b"{")
    place.kazoo.create(f"/zoott_c/{world.name}rubbish", b"{")
    world.queue("good")
    assert world.claim(session) == "good_t"
    assert world.claim(session) is None
    for state in ("pending", "working", "completed"):
        assert [node for node in world.listed(state) if node != "good_t"] == []
    place.server.wait_for(rf"{world.name}rubbish4_t is skipped")
    for number in range(5):
        assert len(re.findall(rf"{world.name}rubbish{number}_t is skipped", place.server.said)) == 1
    place.server.wait_for(rf"/zoott_c/{world.name}rubbish is skipped")
    assert world.listed("completed") == []
    assert len(re.findall(rf"/zoott_c/{world.name}rubbish is skipped", place.server.said)) == 1


def test_a_foreign_handler_beside_ours(place, world, session):
    """kazoo does what the document says, step by step."""
    world.queue("a")
    world.queue("b")
    foreign = KazooClient(hosts=place.hosts)
    foreign.start(timeout=DEADLINE_S)
    foreign.create("/zoott_w/a_t", b"", ephemeral=True)
    assert world.claim(session) == "b_t"
    assert world.claim(session) is None
    assert world.end("complete", "a_t", session)[0] == 409
    foreign.stop()
    foreign.close()
    assert world.claim(session, wait=30000) == "a_t"  # its session ended, so the task is free
    place.kazoo.create(f"/zoott_{world.name}/x_t", b"7")  # a task that kazoo queues
    place.kazoo.create("/zoott_p/x_t", json.dumps(world.record("x_t", "x", "t")).encode())
    status, answer = world.post("claim", types=["t"], session=session)
    assert (answer["node"], answer["task"]["data"]) == ("x_t", 7)
    assert world.queue("below", parent=("x", "t")) == [f"/zoott_{world.name}/x_t/below_t"]
    world.complete("x_t", session)
    # It completes one in the document's order, which unblocks the task below.
    world.queue("last", parent=("below", "t"))
    place.kazoo.create("/zoott_w/x_t|below_t", b"", ephemeral=True)
    assert world.claim(session) is None
    place.kazoo.create("/zoott_c/x_t|below_t", place.kazoo.get("/zoott_p/x_t|below_t")[0])
    place.kazoo.delete("/zoott_p/x_t|below_t")
    place.kazoo.delete("/zoott_w/x_t|below_t")
    assert world.listed("completed") == ["x_t", "x_t|below_t"]
    assert world.claim(session, wait=15000) == "x_t|below_t|last_t"


def test_each_foreign_task_wakes_a_waiting_claim(place, world):
    """The watches are set again after each change, whichever claim got the task."""
    nodes = []
    waiting = [threading.Thread(target=lambda one=place.session(): nodes.append(
        world.claim(one, wait=60000))) for _ in range(3)]
    for thread in waiting:
        thread.start()
    for number in range(3):
        name = f"{world.name}f{number}"
        place.kazoo.create(f"/zoott_{world.name}/{name}_t", b"1")
        place.kazoo.create(f"/zoott_p/{name}_t",
                           json.dumps(world.record(f"{name}_t", name, "t")).encode())
        wait_until(lambda: len(nodes) == number + 1)
    for thread in waiting:
        thread.join()
    assert nodes == [f"{world.name}f{number}_t" for number in range(3)]


def test_a_task_wakes_a_claim_of_its_type(place, world):
    nodes = {}
    waiting = {kind: threading.Thread(target=lambda kind=kind, one=place.session(): nodes.update(
        {kind: world.claim(one, kind, wait=60000)})) for kind in ("x", "y")}
    for thread in waiting.values():
        thread.start()
    world.queue("a", "y")
    wait_until(lambda: nodes == {"y": "a_y"})
    world.queue("a", "x")
    wait_until(lambda: nodes == {"y": "a_y", "x": "a_x"})
    for thread in waiting.values():
        thread.join()


def test_on_the_command_line(place, world):
    env = os.environ | {"DROVER_URL": f"http://127.0.0.1:{place.port}"}

    def run(*words, status=0):
        done = drover("world", *words, env=env)
        assert done.returncode == status, done.stderr
        return done.stdout

    name = world.name
    assert run("init", name) == ""
    assert run("queue", name, "a", "t", '{"x": 1}') == "a_t\n"
    assert run("queue", name, "b", "t", "--parent", "a", "--child-name", "{parent}.{child}") == \
        "a_t|a.b_t\n"
    assert run("tree", name) == "a_t  pending\n  a.b_t  pending\n"
    claimed = json.loads(run("claim", name, "--type", "t", "--json"))
    assert (claimed["node"], claimed["task"]["data"]) == ("a_t", {"x": 1})
    run("claim", name, "--type", "t", status=3)
    run("fail", name, "a_t", "--session", claimed["session"], "--error", "oh")
    assert json.loads(run("ls", name, "--json"))["tasks"][0]["error"] == "oh"
    run("complete", name, "a_t", "--session", claimed["session"], status=1)
    run("complete", name, "a_t", status=2)
    out = run("work", name, "--type", "t", "--until-empty", "--", "sh", "-c",
              'cat; echo " $DROVER_NODE $DROVER_NAME $DROVER_TYPE"')
    assert out == '{"x": 1} a_t a t\nnull a_t|a.b_t a.b t\n'
    assert run("ls", name, "--state", "completed").split()[5:] != []
    assert run("tree", name) == "a_t  completed\n  a.b_t  completed\n"
    run("queue", name, "bad name", "t", status=2)
    run("work", name, "--type", "t", "--until-empty", "--", "false")
    call(place.port, "DELETE", f"/v1/sessions/{claimed['session']}")


def test_a_command_that_fails(place, world):
    env = os.environ | {"DROVER_URL": f"http://127.0.0.1:{place.port}"}
    world.queue("a")
    with subprocess.Popen([BINARY, "world", "work", world.name, "--type", "t", "--", "false"],
                          env=env) as handler:
        wait_until(lambda: world.get("tasks/a_t")[1].get("failures", 0) >= 2, "two failures")
        handler.send_signal(signal.SIGTERM)
        assert handler.wait(DEADLINE_S) == 0
    assert world.get("tasks/a_t")[1]["error"] == "exit status 1"
    assert place.nodes("/zoott_w") == {}


def test_failures_in_a_row_are_later_and_later(place, world, tmp_path):
    """Also with --until-empty, where a task that always fails must not be retried without a pause."""
    env = os.environ | {"DROVER_URL": f"http://127.0.0.1:{place.port}"}
    world.queue("a")
    times = tmp_path / "times"
    command = f"date +%s%N >> {times}; [ $(wc -l < {times}) -ge 4 ]"
    done = drover("world", "work", world.name, "--type", "t", "--until-empty",
                  "--backoff", "100ms", "--", "sh", "-c", command, env=env)
    assert done.returncode == 0, done.stderr
    tries = [int(line) for line in times.read_text().split()]
    assert len(tries) == 4
    assert tries[3] - tries[0] >= (100 + 200 + 400) * 1000000
    assert world.listed("completed") == ["a_t"]


def test_a_command_that_cannot_be_started_is_no_fault_of_the_task(place, world):
    env = os.environ | {"DROVER_URL": f"http://127.0.0.1:{place.port}"}
    world.queue("a")
    done = drover("world", "work", world.name, "--type", "t", "--", "/no/such/command", env=env)
    assert done.returncode == 1 and done.stderr.count("/no/such/command") == 1
    assert world.get("tasks/a_t")[1].get("failures", 0) == 0
    assert place.nodes("/zoott_w") == {}


def test_sessions_outlive_a_restart(start, tmp_path):
    """On the embedded keeper, after a clean stop and after kill -9."""
    server = start()
    for how in (signal.SIGTERM, signal.SIGKILL):
        place = Place(server, f"127.0.0.1:{server.zk_port}")
        world = World(place, "restarted")
        session = place.session(20000)
        world.queue("a")
        assert world.claim(session) == "a_t"
        place.close()
        server.signal(how)
        server.process.wait(DEADLINE_S)
        server = start()
        place = Place(server, f"127.0.0.1:{server.zk_port}")
        world.place = place
        assert list(place.nodes("/zoott_w")) == ["/zoott_w/a_t"]
        assert world.complete("a_t", session) == "completed"
        assert call(place.port, "DELETE", f"/v1/sessions/{session}")[0] == 200
        place.close()
    assert server.stop() == 0, server.said


def test_two_servers_are_one_service(place, world):
    """A task queued through one server can be claimed, and found as a parent, through the other."""
    if place.kind != "ensemble":
        pytest.skip("an embedded keeper has one server")
    other_server = OnEnsemble(place.ensemble.url("/worlds")).start()
    other = Place(other_server, place.ensemble.hosts, "/worlds")
    mirror = World(other, world.name)
    session = other.session()
    try:
        for number in range(5):
            world.queue(f"a{number}")
            mirror.queue("child", parent=(f"a{number}", "t"))
            assert mirror.claim(session) == f"a{number}_t"
            assert world.claim(place.session()) is None
            mirror.complete(f"a{number}_t", session)
            assert mirror.claim(session) == f"a{number}_t|child_t"
            mirror.complete(f"a{number}_t|child_t", session)
    finally:
        other.close()
        assert other_server.stop() == 0, other_server.said
        other_server.kill()


@pytest.mark.skipif(not os.environ.get("DROVER_SOAK"), reason="takes as long as a session timeout")
def test_sessions_go_with_the_servers_own(place, world):
    """The server is stopped until its session expires; then it continues with a new session."""
    if place.kind != "ensemble":
        pytest.skip("the embedded keeper has no session to lose")
    session = place.session()
    world.queue("a")
    assert world.claim(session) == "a_t"
    place.server.signal(signal.SIGSTOP)
    try:
        wait_until(lambda: not place.kazoo.exists("/zoott_w/a_t"), "the end of the session")
    finally:
        place.server.signal(signal.SIGCONT)
    place.server.wait_for("a new session on ")
    assert call(place.port, "PUT", f"/v1/sessions/{session}")[0] == 410
    again = place.session()
    assert world.claim(again) == "a_t"
    assert world.complete("a_t", again) == "completed"
