"""Queues that were given a name, and a `last` beyond the newest message: on both keepers."""

import json
import subprocess

import pytest

from conftest import call, drover, errors, wait_until
from queue_support import NAMESPACE, Room
from world_support import Stream, figure, place_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["embedded", "ensemble"])
def place(request, tmp_path_factory):
    yield from place_of(request, tmp_path_factory, "/names")


@pytest.fixture
def room(place, tmp_path):
    one = Room(place, tmp_path)
    yield one
    for queue in one.call("GET", "/v1/queues")[1]["queues"]:
        one.call("DELETE", f"/v1/queues/{queue['queue']}")
    one.end()


def test_a_queue_with_a_name(room):
    name = "mail.out-2"
    assert room.call("POST", "/v1/queues", {"queue": name}) == (200, {"queue": name})
    assert room.kazoo.get(f"{NAMESPACE}/queues/{name}")[0] == b'{"last": ""}'
    other = room.create()
    ids = room.post(name, "a", "b")
    assert [t["data"] for t in call(room.place.port, "GET", f"/group/{name}")[1]] == ["a", "b"]
    assert room.read(other) == []
    worker = room.work()
    wait_until(lambda: room.last(name) == str(ids[1]), "both")
    assert [(one.queue, one.data) for one in room.handled()] == [(name, "a"), (name, "b")]
    assert room.call("GET", f"/v1/queues/{name}") == (
        200, {"queue": name, "last": str(ids[1]), "worker": worker.name, "waiting": 0})
    wait_until(lambda: room.shares() == {worker.name: sorted([name, other])}, "both queues")
    status, body = room.call("POST", "/v1/queues", {"queue": name})
    assert status == 409 and "already" in errors(body)[0]
    assert room.call("DELETE", f"/v1/queues/{name}") == (200, {})
    assert call(room.place.port, "GET", f"/group/{name}?owned=1") == (200, [])
    assert room.call("POST", "/v1/queues", {"queue": name})[0] == 200


def test_messages_of_a_named_queue_are_announced(room):
    """Also of one that another program has created; but not what is added to a group that is no queue."""
    before = figure(room.place.port, "drover_queue_messages_total")
    room.kazoo.create(f"{NAMESPACE}/queues/news", b'{"last": ""}', makepath=True)
    tasks = {"clientid": 1, "adds": [{"group": group} for group in ("new", "news", "newsx", "news")]}
    with Stream(room.place.port, "/v1/events?kind=message") as events:
        status, body = call(room.place.port, "POST", "/update", tasks)
        assert status == 200, body
        assert events.next() == ("message", {"queue": "news", "id": body["tasks"][3]["id"], "count": 2,
                                             "state": "posted"})
        room.post("news", "more")
        assert events.next()[1]["count"] == 1
    assert figure(room.place.port, "drover_queue_messages_total") == before + 3
    worker = room.work("--poll", "1h", "--queues", "news")
    wait_until(lambda: len(room.handled("news")) == 3, "all of them")
    [later] = room.post("news", "later")
    wait_until(lambda: room.last("news") == str(later), "the one that was announced")
    assert worker.name in room.owners().values()


def test_a_name_that_a_group_of_tasks_has_is_refused(room):
    """Its tasks would become messages, and retention would delete them."""
    add = {"clientid": 1, "adds": [{"group": "tasks"}]}
    [task] = call(room.place.port, "POST", "/update", add)[1]["tasks"]
    status, body = room.call("POST", "/v1/queues", {"queue": "tasks"})
    assert status == 409 and "group of tasks" in errors(body)[0]
    assert not room.kazoo.exists(f"{NAMESPACE}/queues/tasks")
    call(room.place.port, "POST", "/update", {"clientid": 1, "deletes": [task["id"]]})
    assert room.call("POST", "/v1/queues", {"queue": "tasks"})[0] == 200


def test_names_on_the_command_line(room):
    def run(*words):
        return drover("queue", *words, "--server", room.url)
    done = run("create", "mail")
    assert (done.returncode, done.stdout) == (0, "mail\n")
    done = run("create", "mail")
    assert done.returncode == 1 and "already" in done.stderr
    assert run("create", "a/b").returncode == 2
    [number] = run("post", "mail", "hello").stdout.split()
    assert json.loads(run("read", "mail", "--json", "--limit", "0").stdout)["messages"][0]["data"] == "hello"
    room.work("--queues", "mail")
    wait_until(lambda: room.last("mail") == number, "the message")
    assert run("ls").stdout.splitlines()[1].split()[:2] == ["mail", number]
    assert run("rm", "mail").returncode == 0


def beyond(room, queue, last):
    room.kazoo.set(f"{NAMESPACE}/queues/{queue}", json.dumps({"last": str(last)}).encode())


def test_a_last_beyond_the_newest_message_is_told(room):
    queue, good = room.create(2)
    [newest] = room.post(queue, "a")
    beyond(room, queue, newest)
    assert "warning" not in room.call("GET", f"/v1/queues/{queue}")[1]
    beyond(room, queue, newest + 1000000)
    for body in (room.call("GET", f"/v1/queues/{queue}")[1],
                 [q for q in room.call("GET", "/v1/queues")[1]["queues"] if q["queue"] == queue][0],
                 room.call("POST", f"/v1/queues/{queue}/messages", {"data": "skipped"})[1],
                 room.call("POST", f"/v1/queues/{queue}/messages", {"messages": ["skipped"]})[1]):
        assert f"last is {newest + 1000000}, beyond the newest message" in body["warning"], body
    assert "warning" not in room.call("POST", f"/v1/queues/{good}/messages", {"data": "b"})[1]
    assert "warning" not in room.call("GET", f"/v1/queues/{good}")[1]

    done = drover("queue", "post", queue, "x", "--server", room.url)
    assert done.returncode == 0 and done.stdout.strip().isdigit()
    assert f"queue {queue}: last is" in done.stderr
    for more in ([], ["--json"]):
        done = drover("queue", "ls", *more, "--server", room.url)
        assert done.returncode == 0 and done.stderr.count("beyond the newest") == 1, done.stderr
        assert queue in done.stderr and good not in done.stderr
    [after] = room.post(queue, "z")
    beyond(room, queue, after)
    assert "warning" not in room.call("GET", f"/v1/queues/{queue}")[1]


def test_limit_0_is_no_limit(room):
    queues = room.create(3)
    assert [q["queue"] for q in room.call("GET", "/v1/queues?limit=0")[1]["queues"]] == queues
    room.post(queues[0], *["x"] * 150)
    assert len(room.read(queues[0])) == 100
    assert len(room.read(queues[0], "?limit=0")) == 150


def test_the_first_thing_typed(room):
    """curl without a content type creates nothing, and says what to add."""
    done = subprocess.run(["curl", "-s", "-d", '{"queue": "x"}', f"{room.url}/v1/queues"],
                          capture_output=True, text=True, check=True)
    assert "-H 'Content-Type: application/json'" in errors(done.stdout)[0]
    assert room.call("GET", "/v1/queues/x")[0] == 404
