"""Queues and the workers that share them, on the embedded keeper and on a real ZooKeeper."""

import json
import os
import pathlib
import signal
import subprocess
import threading

import pytest

from conftest import BINARY, drover, errors, wait_until
from queue_support import NAMESPACE, QUICK, Room
from world_support import Stream, figure, place_of

pytestmark = pytest.mark.slow

NOBODY = "0" * 32

# Handles a message, but one that says "wait" only when the file $GO is there.
PATIENT = """
read -r line; echo "begin $line" >> "$LOG.begun"
if [ "$line" = wait ]; then while [ ! -e "$GO" ]; do sleep 0.02; done; fi
echo "$PPID $DROVER_QUEUE $DROVER_MESSAGE $DROVER_FENCE $line" >> "$LOG"
"""


@pytest.fixture(scope="module", params=["embedded", "ensemble"])
def place(request, tmp_path_factory):
    yield from place_of(request, tmp_path_factory, "/queues")


@pytest.fixture
def room(place, tmp_path):
    one = Room(place, tmp_path)
    yield one
    one.end()


def tree(room, path=NAMESPACE):
    """Path -> (data, whether it is ephemeral) of every node below."""
    found = {}
    for child in room.kazoo.get_children(path):
        below = f"{path}/{child}"
        data, stat = room.kazoo.get(below)
        found[below] = (data.decode(), bool(stat.ephemeralOwner))
        found.update(tree(room, below))
    return found


def test_the_tree_is_the_documents(room):
    first, second = room.create(2)
    queues = {f"{NAMESPACE}/queues": ("", False), f"{NAMESPACE}/workers": ("", False)}
    queues |= {f"{NAMESPACE}/queues/{q}": ('{"last": ""}', False) for q in (first, second)}
    assert tree(room) == queues

    worker = room.work()
    room.wait_balanced(1, [first, second])
    assert worker.name == "worker-0000000000"
    owners = {f"{NAMESPACE}/queues/{q}/owner": (f'{{"worker": "{worker.name}"}}', True)
              for q in (first, second)}
    workers = {f"{NAMESPACE}/workers/{worker.name}": (f'{{"queues": ["{first}", "{second}"]}}', True)}
    assert tree(room) == queues | owners | workers

    ids = room.post(first, "a", "b")
    wait_until(lambda: room.last(first) == str(ids[1]), "last")
    queues[f"{NAMESPACE}/queues/{first}"] = (f'{{"last": "{ids[1]}"}}', False)
    assert tree(room) == queues | owners | workers

    assert worker.stop() == 0, worker.said
    assert tree(room) == queues
    again = room.work()
    again.wait_for("joined as worker-0000000001")  # numbers are never reused


def test_messages_are_handled_in_order_and_last_follows(room):
    queues = room.create(3)
    room.work("--jobs", 2)
    ids = {queue: room.post(queue, *(f"{n} of {queue}" for n in range(12))) for queue in queues}
    for queue in queues:
        wait_until(lambda: room.last(queue) == str(ids[queue][-1]), "the last message")
        assert [one.id for one in room.handled(queue)] == ids[queue]
        assert [one.data for one in room.handled(queue)] == [f"{n} of {queue}" for n in range(12)]
        assert [m["id"] for m in room.read(queue)] == ids[queue]  # they stay until the retention removes them


def test_a_number_with_an_l_is_understood_and_last_set_by_hand_is_followed(room):
    queue = room.create()
    ids = room.post(queue, "a", "b", "c")
    room.kazoo.set(f"{NAMESPACE}/queues/{queue}", f'{{"last": "{ids[0]}L"}}'.encode())
    room.work()
    wait_until(lambda: room.last(queue) == str(ids[2]), "the end")
    assert [one.id for one in room.handled(queue)] == ids[1:]
    room.kazoo.set(f"{NAMESPACE}/queues/{queue}", b'{"last": ""}')
    more = room.post(queue, "d")
    wait_until(lambda: room.last(queue) == str(more[0]), "the end again")
    handled = [one.id for one in room.handled(queue)]
    assert handled[-3:] == [ids[1], ids[2], more[0]] or handled[-4:] == ids + more


def test_a_foreign_worker_gets_its_share(room):
    queues = room.create(9)
    ours = [room.work(), room.work()]
    before = room.wait_balanced(2, queues)
    path = room.kazoo.create(f"{NAMESPACE}/workers/worker-", b'{"queues": []}', ephemeral=True,
                             sequence=True)
    foreign = path.rpartition("/")[2]

    def yielded():
        owners = room.owners()
        return len(owners) == 6 and owners
    owners = wait_until(yielded, "the foreign worker's share")
    assert sorted(len(share) for share in room.shares().values()) == [0, 3, 3]
    for queue, owner in owners.items():  # a queue that did not move has the same owner
        assert queue in before[owner]

    free = sorted(set(queues) - set(owners))
    for queue in free:
        room.kazoo.create(f"{NAMESPACE}/queues/{queue}/owner",
                          json.dumps({"worker": foreign}).encode(), ephemeral=True)
    room.kazoo.set(path, json.dumps({"queues": free}).encode())
    third = room.work()
    # Its share is two: one that our worker releases, and one that it keeps.
    wait_until(lambda: list(room.owners().values()).count(third.name) == 1, "what ours give up")
    assert [room.owners()[queue] for queue in free] == [foreign] * 3

    for queue in free:
        room.kazoo.delete(f"{NAMESPACE}/queues/{queue}/owner")
    room.kazoo.delete(path)
    room.wait_balanced(3, queues)
    assert all(worker.process.poll() is None for worker in ours)


def test_rubbish_is_skipped_with_one_line(room):
    good, bad = room.create(2)
    room.kazoo.set(f"{NAMESPACE}/queues/{bad}", b"\x00\xffnonsense")
    for node in ("workers/rubbish", "queues/_rubbish", "workers/worker-0000999999"):
        room.kazoo.create(f"{NAMESPACE}/{node}", b"[rubbish", ephemeral=True)
    worker = room.work("--settle", "0s")
    other = room.work("--settle", "0s")
    # A worker with invalid data still has a share: two queues, three workers.
    wait_until(lambda: worker.name and other.name, "they joined")
    room.kazoo.delete(f"{NAMESPACE}/workers/worker-0000999999")
    ids = room.post(good, "a")
    wait_until(lambda: room.last(good) == str(ids[0]), "the good one")
    wait_until(lambda: any(f"skipped {NAMESPACE}/queues/{bad}" in w.said for w in (worker, other)),
               "the line about the bad one")
    for one in (worker, other):
        for node in ("workers/rubbish", "queues/_rubbish"):
            assert one.said.count(f"skipped {NAMESPACE}/{node}: ") == 1, one.said
        assert one.said.count(f"skipped {NAMESPACE}/queues/{bad}") <= 1
    assert room.kazoo.get(f"{NAMESPACE}/queues/{bad}")[0] == b"\x00\xffnonsense"
    assert room.call("GET", f"/v1/queues/{bad}")[0] == 500
    assert [q["queue"] for q in room.call("GET", "/v1/queues")[1]["queues"]] == [good]


def test_the_message_in_hand_is_finished_before_a_queue_is_given_up(room, tmp_path):
    queues = room.create(2)
    first = room.work(command=PATIENT, GO=str(tmp_path / "go"))
    room.wait_balanced(1, queues)
    # Two workers have one queue each: the last in the list goes to the new one.
    ids = room.post(queues[1], "wait", "next")
    wait_until((tmp_path / "handled.begun").exists, "the message in hand")
    second = room.work(command=PATIENT, GO=str(tmp_path / "go"))
    second.wait_for("joined as")
    wait_until(lambda: len(room.shares()) == 2, "two workers")
    room.post(queues[0], "other")  # the first worker is busy; the queue waits for it
    assert room.owners()[queues[1]] == first.name
    (tmp_path / "go").touch()
    shares = room.wait_balanced(2, queues)
    assert shares[second.name] == [queues[1]]
    wait_until(lambda: room.last(queues[1]) == str(ids[1]), "the next message")
    assert "wait" in [one.data for one in room.handled() if one.worker == first.process.pid]
    assert [one.data for one in room.handled(queues[1])] == ["wait", "next"]


@pytest.mark.slow
def test_a_worker_killed_with_a_message_in_hand(room, tmp_path):
    queue = room.create()
    first = room.work(*QUICK, command=PATIENT, GO=str(tmp_path / "go"))
    ids = room.post(queue, "before", "wait", "after")
    wait_until(lambda: (tmp_path / "handled.begun").exists() and
               "wait" in (tmp_path / "handled.begun").read_text(), "the message in hand")
    assert room.last(queue) == str(ids[0])
    first.kill()
    os.killpg(int(pid_of_waiting(tmp_path / "go")), signal.SIGKILL)
    (tmp_path / "go").touch()
    second = room.work(command=PATIENT, GO=str(tmp_path / "go"))
    wait_until(lambda: room.last(queue) == str(ids[2]), "the end")
    assert [(one.worker, one.data) for one in room.handled(queue)] == [
        (first.process.pid, "before"), (second.process.pid, "wait"), (second.process.pid, "after")]
    fences = [one.fence for one in room.handled(queue)]
    assert fences[0] < fences[1] == fences[2]


def pid_of_waiting(go):
    """The process group of the command that was left behind."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"GO={go}\0" in (entry / "environ").read_text() \
                    and (entry / "cmdline").read_text().startswith("sh\0"):
                return os.getpgid(int(entry.name))
        except OSError:
            continue
    raise AssertionError("it is gone")


@pytest.mark.slow
def test_a_worker_that_stood_still_comes_back_as_another(room):
    queues = room.create(4)
    first = room.work(*QUICK)
    room.wait_balanced(1, queues)
    old = first.name
    first.signal(signal.SIGSTOP)
    try:
        second = room.work()
        wait_until(lambda: second.name and set(room.owners().values()) == {second.name}, "all taken")
        ids = room.post(queues[0], "a")
        wait_until(lambda: room.last(queues[0]) == str(ids[0]), "handled by the second")
    finally:
        first.signal(signal.SIGCONT)
    first.wait_for("has ended")
    shares = room.wait_balanced(2, queues)
    assert old not in shares and first.name in shares
    ids = room.post(queues[0], "b")
    wait_until(lambda: room.last(queues[0]) == str(ids[0]), "one more")


@pytest.mark.slow
def test_no_more_queues_move_than_must(room):
    queues = room.create(12)
    workers = [room.work(*QUICK) for _ in range(4)]
    before = room.wait_balanced(4, queues)
    gone = workers[1]
    gone.kill()
    after = room.wait_balanced(3, queues)
    for worker in (workers[0], workers[2], workers[3]):
        assert set(before[worker.name]) < set(after[worker.name])
    room.work()
    final = room.wait_balanced(4, queues)
    moved = [q for name, share in after.items() for q in share if q not in final[name]]
    assert len(moved) == 3


def test_a_worker_for_some_queues_only(room):
    queues = room.create(3)
    worker = room.work("--queues", queues[1])
    wait_until(lambda: room.owners() == {queues[1]: worker.name}, "its queue")
    assert room.data(f"/workers/{worker.name}") == {"queues": [queues[1]], "only": [queues[1]]}
    other = room.work()
    owners = wait_until(lambda: len(room.owners()) == 3 and room.owners(), "all")
    assert owners[queues[0]] == owners[queues[2]] == other.name


def test_skip_sets_a_message_aside(room):
    queue = room.create()
    seen = len(room.read("qdo_error", "?limit=1000"))
    ids = room.post(queue, "good", "bad\nmessage \u20ac", "good")
    room.work("--on-failure", "skip", command='read -r line; [ "$line" = good ] || exit 7')
    wait_until(lambda: room.last(queue) == str(ids[2]), "the end")
    aside = room.read("qdo_error", "?limit=1000")[seen:]
    assert len(aside) == 1
    told = json.loads(aside[0]["data"])
    assert told.pop("time") > 0
    assert told == {"queue": queue, "id": ids[1], "data": "bad\nmessage \u20ac",
                    "error": "exit status 7"}


def test_retry_tries_again_in_order(room, tmp_path):
    queue = room.create()
    ids = room.post(queue, "a", "b")
    fails_once = f'[ -e "$TRIED" ] || {{ touch "$TRIED"; exit 1; }}; {PATIENT}'
    worker = room.work(command=fails_once, TRIED=str(tmp_path / "tried"), GO="")
    wait_until(lambda: room.last(queue) == str(ids[1]), "the end")
    assert [one.data for one in room.handled(queue)] == ["a", "b"]
    assert f"message {ids[0]} of {queue}: exit status 1 in attempt 1 of " in worker.said


def test_retry_gives_up_in_the_end(room):
    queue = room.create()
    ids = room.post(queue, "a", "b")
    worker = room.work("--attempts", 2, command="read -r line; [ $line = b ]")
    wait_until(lambda: room.last(queue) == str(ids[1]), "the end")
    assert worker.said.count("exit status 1 in attempt") == 2 and "moved to qdo_error" in worker.said


def test_stop_stops_the_worker(room):
    queue = room.create()
    ids = room.post(queue, "good", "bad")
    worker = room.work("--on-failure", "stop", command='read -r line; [ "$line" = good ]')
    assert worker.wait() == 1, worker.said
    assert room.last(queue) == str(ids[0])
    assert room.owners() == {} and room.shares() == {}


def test_a_command_that_cannot_be_started_is_no_fault_of_the_message(room):
    queue = room.create()
    room.post(queue, "a")
    words = ["queue", "work", "--server", room.url, "--settle", "0s", "--on-failure", "skip", "--",
             "/no/such/command"]
    done = drover(*words, env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0"})
    assert done.returncode == 1 and "/no/such/command" in done.stderr
    assert room.last(queue) == "" and room.owners() == {}


def test_a_queue_that_is_removed_under_its_owner(room):
    queues = room.create(2)
    worker = room.work()
    room.wait_balanced(1, queues)
    room.post(queues[0], "a")
    assert room.call("DELETE", f"/v1/queues/{queues[0]}") == (200, {})
    assert room.call("GET", f"/v1/queues/{queues[0]}")[0] == 404
    assert room.call("GET", f"/v1/queues/{queues[0]}/messages")[0] == 404
    ids = room.post(queues[1], "b")
    wait_until(lambda: room.last(queues[1]) == str(ids[0]), "the other goes on")
    room.wait_balanced(1, queues[1:])
    assert worker.process.poll() is None


def test_what_http_shows(room):
    queues = room.create(3)
    ids = room.post(queues[0], *"abcde")
    one = room.call("POST", f"/v1/queues/{queues[1]}/messages", {"data": "\0\u20ac"})
    assert one == (200, {"id": ids[-1] + 1})
    assert [m["data"] for m in room.read(queues[1])] == ["\0\u20ac"]
    assert [m["data"] for m in room.read(queues[0], f"?after={ids[1]}&limit=2")] == ["c", "d"]
    assert [m["data"] for m in room.read(queues[0], "?after=&limit=2")] == ["a", "b"]  # as its last is
    assert room.read(queues[2]) == []
    listed = room.call("GET", "/v1/queues")[1]
    assert listed == {"queues": [{"queue": q, "last": "", "worker": None} for q in queues]}
    page = room.call("GET", "/v1/queues?limit=2")[1]
    assert ([q["queue"] for q in page["queues"]], page["next"]) == (queues[:2], queues[1])
    rest = room.call("GET", f"/v1/queues?limit=2&after={page['next']}")[1]
    assert [q["queue"] for q in rest["queues"]] == queues[2:] and "next" not in rest
    assert room.call("GET", f"/v1/queues/{queues[0]}")[1] == {
        "queue": queues[0], "last": "", "worker": None, "waiting": 5}
    assert room.call("GET", "/v1/workers") == (200, {"workers": []})
    keeper = room.call("GET", "/v1/keeper")[1]
    assert keeper["namespace"] == NAMESPACE and keeper["keeper"].startswith("zk://127.0.0.1:")


@pytest.mark.parametrize("way", ["queue", "task"])
def test_a_read_waits_for_a_message(room, way):
    queue = room.create()
    found = []
    reader = threading.Thread(target=lambda: found.extend(room.read(queue, "?wait=20000")))
    reader.start()
    if way == "queue":
        room.post(queue, "a")
    else:  # any task of the group is a message
        task = {"group": queue, "data": "a"}
        assert room.call("POST", "/update", {"clientid": 1, "adds": [task]})[0] == 200
    reader.join(15)
    assert [m["data"] for m in found] == ["a"]
    assert room.read(queue, f"?after={found[0]['id']}&wait=50") == []


@pytest.mark.parametrize("way", ["queue", "task"])
def test_a_worker_hears_of_a_message(room, way):
    """Polling would find the message only after an hour."""
    queues = room.create(3)
    room.work("--poll", "1h")
    room.wait_balanced(1, queues)
    for queue in queues + queues:
        if way == "queue":
            last = room.post(queue, "a")[0]
        else:
            task = {"group": queue, "data": "a"}
            last = room.call("POST", "/update", {"clientid": 1, "adds": [task]})[1]["tasks"][0]["id"]
        wait_until(lambda: room.last(queue) == str(last), "the message")


def settle(room):
    """Waits until the server knows the existing messages: a new leader reports any queue."""
    told = room.call("GET", "/v1/posted")[1]
    while not told["queues"]:
        room.post("qdo_error", "anything")
        told = room.call("GET", f"/v1/posted?after={told['posted']}&wait=5000")[1]
    while told["queues"]:  # and until it has reported everything
        told = room.call("GET", f"/v1/posted?after={told['posted']}&wait=500")[1]


def test_what_was_posted(room):
    settle(room)
    queue, other = room.create(2)
    posted = room.call("GET", "/v1/posted")[1]
    assert posted["queues"] is None  # without a number, any queue may have messages
    room.post(queue, "a", "b")
    first = room.call("GET", f"/v1/posted?after={posted['posted']}&wait=20000")[1]
    assert set(first["queues"]) == {queue} and first["posted"] > posted["posted"]
    assert room.call("GET", f"/v1/posted?after={first['posted']}&wait=20") == \
        (200, {"posted": first["posted"], "queues": []})
    room.post(other, "c")
    room.post("qdo_error", "d")
    found, number = set(), first["posted"]
    while found != {other, "qdo_error"}:
        more = room.call("GET", f"/v1/posted?after={number}&wait=20000")[1]
        found, number = found | set(more["queues"]), more["posted"]
    both = room.call("GET", f"/v1/posted?after={posted['posted']}")[1]  # again, from there
    assert set(both["queues"]) == {queue, other, "qdo_error"}
    for wrong in ("after=x", "after=-1", "wait=99999999"):
        assert room.call("GET", f"/v1/posted?{wrong}")[0] == 400
    ahead = room.call("GET", f"/v1/posted?after={number + 1000}")[1]  # a number of another server
    assert ahead == {"posted": number, "queues": None}


def test_events(room):
    settle(room)
    before = figure(room.place.port, "drover_queue_messages_total")
    with Stream(room.place.port, "/v1/events?kind=queue,message") as events:
        queue = room.create()
        assert events.next() == ("queue", {"queue": queue, "state": "created"})
        ids = room.post(queue, "a", "b")
        told = events.next()
        assert told == ("message", {"queue": queue, "id": ids[1], "count": 2, "state": "posted"})
        room.call("DELETE", f"/v1/queues/{queue}")
        assert events.next() == ("queue", {"queue": queue, "state": "deleted"})
    assert figure(room.place.port, "drover_queue_messages_total") == before + 2


@pytest.mark.parametrize("method, path, body, status, line", [
    ("POST", "/v1/queues", {"name": "x"}, 400, "name"),
    ("POST", "/v1/queues", [], 400, "object"),
    ("GET", "/v1/queues?limit=x", None, 400, "limit"),
    ("POST", "/v1/queues", {"queue": ""}, 400, "queue"),
    ("POST", "/v1/queues", {"queue": "a/b"}, 400, "letters, digits"),
    ("POST", "/v1/queues", {"queue": "x" * 65}, 400, "at most 64"),
    ("POST", "/v1/queues", {"queue": "qdo_error"}, 400, "were skipped"),
    ("GET", "/v1/queues/short", None, 404, "no such queue"),
    ("GET", "/v1/queues/.short", None, 400, "letters, digits"),
    ("GET", "/v1/queues/..%2F..%2F", None, 400, "letters, digits"),
    ("GET", "/v1/queues/" + NOBODY, None, 404, "no such queue"),
    ("DELETE", "/v1/queues/" + NOBODY, None, 404, "no such queue"),
    ("DELETE", "/v1/queues/qdo_error", None, 400, "were skipped"),
    ("GET", f"/v1/queues/{NOBODY}/messages", None, 404, "no such queue"),
    ("POST", f"/v1/queues/{NOBODY}/messages", {"data": "a"}, 404, "no such queue"),
    ("POST", "/v1/queues/qdo_error/messages", {"data": 7}, 400, "data"),
    ("POST", "/v1/queues/qdo_error/messages", {}, 400, "give data"),
    ("POST", "/v1/queues/qdo_error/messages", {"messages": []}, 400, "1 to 1000"),
    ("POST", "/v1/queues/qdo_error/messages", {"messages": ["a", 7]}, 400, "a string"),
    ("POST", "/v1/queues/qdo_error/messages", {"messages": ["a"], "data": "a"}, 400, "give data"),
    ("POST", "/v1/queues/qdo_error/messages", {"data": "a", "more": 1}, 400, "more"),
    ("POST", "/v1/queues/qdo_error/messages", b"{", 400, ""),
    ("GET", "/v1/queues/qdo_error/messages?limit=-1", None, 400, "limit"),
    ("GET", "/v1/queues/qdo_error/messages?limit=1001", None, 400, "limit"),
    ("GET", "/v1/queues/qdo_error/messages?after=-1", None, 400, "after"),
    ("GET", "/v1/queues/qdo_error/messages?wait=999999", None, 400, "wait"),
    ("PUT", "/v1/queues", {}, 405, ""),
])
def test_bad_input(room, method, path, body, status, line):
    room.create()
    before = tree(room)
    got, answer = room.call(method, path, body)
    assert got == status, answer
    assert line in errors(answer)[0]
    assert tree(room) == before


def test_the_command_line(room):
    def run(*words, **more):
        return drover("queue", *words, "--server", room.url, **more)
    queue = run("create").stdout.strip()
    assert len(queue) == 32
    ids = run("post", queue, "a", "b").stdout.split()
    assert [int(i) for i in ids] == [m["id"] for m in room.read(queue)]
    shown = run("read", queue, "--after", ids[0]).stdout.splitlines()
    assert shown[0].split() == ["ID", "POSTED", "DATA"] and shown[1].split()[-1] == "b"
    assert json.loads(run("read", queue, "--json").stdout)["messages"][0]["data"] == "a"
    worker = room.work()
    wait_until(lambda: room.last(queue) == ids[1], "both")
    assert run("ls").stdout.splitlines()[1].split() == [queue, ids[1], worker.name]
    workers = drover("workers", "--server", room.url).stdout.splitlines()
    assert workers[1].split() == [worker.name, "1", queue]
    assert run("rm", queue).returncode == 0
    assert run("ls").stdout == ""
    assert run("rm", queue).returncode == 1
    assert run("read", "nonsense").returncode == 1
    assert run("read", "a/b").returncode == 2


def test_lines_are_messages(room):
    queue = room.create()
    done = subprocess.run([BINARY, "queue", "post", queue, "--server", room.url], input="x\n\nz",
                          capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and len(done.stdout.split()) == 3
    assert [m["data"] for m in room.read(queue)] == ["x", "", "z"]


@pytest.mark.parametrize("words, line", [
    (["post", "QUEUE", b"a\xff"], "a message is not UTF-8 text"),
    (["create", b"\xff"], "an argument is not UTF-8 text"),
])
def test_bytes_that_are_not_utf8(room, words, line):
    queue = room.create()
    words = [queue if word == "QUEUE" else word for word in words]
    done = subprocess.run([BINARY, "queue", *words, "--server", room.url], capture_output=True, timeout=20)
    assert done.returncode in (1, 2) and line in done.stderr.decode()
    assert room.read(queue) == []


@pytest.mark.parametrize("words, status, line", [
    (["work"], 2, "COMMAND"),
    (["work", "--settle", "-1s", "--", "true"], 2, "--settle"),
    (["work", "--on-failure", "pray", "--", "true"], 2, "none of retry|skip|stop"),
    (["work", "--server", "http://127.0.0.1:1", "--", "true"], 1, "127.0.0.1:1"),
    (["work", "--keeper", "nonsense", "--", "true"], 2, "zk://"),
    (["work", "--keeper", "zk://127.0.0.1:1", "--namespace", "x", "--", "true"], 2, "namespace"),
    (["work", "--settle", "3", "--", "true"], 2, "--settle"),
    (["post"], 2, "QUEUE"),
    (["pst"], 2, "post"),
])
def test_wrong_use(words, status, line):
    done = drover("queue", *words, env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0"})
    assert done.returncode == status, done.stderr
    assert line in done.stderr
