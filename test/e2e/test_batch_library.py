"""Beside the library of the batch document's authors, on one tree: what either does the other sees, and what
one leaves half done the other finishes. On both keepers."""

import json
import re
import threading
import time

import pytest

from batch_api import Api
from batch_library import ENDS, FINAL, LISTS, STEPS, Library, exists_or_none
from conftest import OnEnsemble, drover, wait_until

pytestmark = pytest.mark.slow

NOTICED_S = 1  # on an idle machine
SOON_S = 12  # on a busy one; what no watch tells is found by a sweep, after up to 30 s


@pytest.fixture(params=["embedded", "zookeeper"])
def beside(request, start):
    """Starts a server; its api, and the library on the same tree. The server has to end cleanly."""
    kazoo = pytest.importorskip("kazoo.client")
    made = []

    def begin(*arguments):
        if request.param == "embedded":
            server = start(*arguments)
            hosts = f"127.0.0.1:{server.zk_port}"
        else:
            root = "/" + re.sub(r"\W", "-", request.node.name)
            one = request.getfixturevalue("zookeeper")
            server = OnEnsemble(one.url(root), *arguments).start()
            hosts = one.hosts + root
        client = kazoo.KazooClient(hosts=hosts, timeout=30)
        made.append((server, client))
        api = Api(server.port)
        wait_until(lambda: api.send("GET", "/v1/batches")[0] == 200, "the keeper")
        client.start()
        return api, Library(client)

    yield begin
    for server, client in made:
        client.stop()
        client.close()
        try:
            assert server.stop() == 0, server.said
        finally:
            server.kill()


def findings(api, **more):
    return api("POST", "/v1/batches/fsck", {"age": 0, **more})["findings"]


def tree(library, path="/"):
    """All nodes of the document, with their data and version."""
    if path == "/":
        return [line for name in ("batches", "batch-uuids", "jobs", "locks", "access")
                for line in tree(library, f"/{name}")]
    data, stat = library.client.get(path)
    return [(path, data, stat.version)] + [line for child in library.children(path)
                                           for line in tree(library, f"{path}/{child}")]


def foreign_batch(library, jobs=1, **submission):
    """A batch of the library, which it has taken and given jobs, as when its worker is done."""
    bid = library.run(library.create_batch(**submission))
    assert library.run(library.acquire_batch(only=bid)) == bid
    jids = [library.run(library.create_job(bid, profile_name="p")) for _ in range(jobs)]
    library.unlock(f"/batches/{bid}")
    return bid, jids


def test_a_healthy_tree_of_the_library_is_healthy_and_stays_as_it_is(beside):
    """At every stage of the life of its batches and access items, fsck finds and changes nothing."""
    api, library = beside()

    def is_healthy(stage):
        assert findings(api) == [], stage
        before = tree(library)
        assert findings(api, repair=True) == [], stage
        assert tree(library) == before, stage

    bid = library.run(library.create_batch(batchID="u"))
    is_healthy("created")
    assert library.run(library.acquire_batch()) == bid
    is_healthy("taken")
    jids = [library.run(library.create_job(bid)) for _ in range(2)]
    is_healthy("with jobs")
    library.unlock(f"/batches/{bid}")
    library.run(library.move_job(jids[0], "Estimating"))
    is_healthy("at work")
    library.run(library.move_job(jids[0], "Failed"))
    is_healthy("one failed")
    jump(library, jids[1], "Completed")
    api.wait_state("batches", bid, ["Reporting"])
    is_healthy("to be reported")
    assert library.run(library.report_batch()) == bid
    is_healthy("reported")
    library.run(library.create_access("small", token="t"))
    is_healthy("an access item")
    library.run(library.acquire_access("small"))
    is_healthy("an access item at work")
    done = drover("batch", "fsck", "--server", f"http://127.0.0.1:{api.port}")
    assert done.returncode == 0, done.stdout


def test_either_takes_what_the_other_created(beside):
    api, library = beside()
    session = api.session()
    ours, theirs = api.batch(profile_name="p"), library.run(library.create_batch(profile_name="p"))
    assert library.pending() == [ours, theirs]
    assert library.run(library.acquire_batch()) == ours
    taken = api("POST", "/v1/batches/acquire", {"session": session, "wait": 20000})
    assert taken["batch"]["id"] == theirs
    assert library.pending() == [] and library.run(library.acquire_batch()) is None
    jid = library.run(library.create_job(ours))
    assert api("POST", f"/v1/batches/{theirs}/jobs", {"configuration": {}})["job"]
    jump(library, jid, "Notify")
    assert api.move(jid) == "Completed"
    assert library.client.exists(f"/batches/{ours}/states/batch-completed/{jid}")
    library.unlock(f"/batches/{ours}")
    api.wait_state("batches", ours, ["Reporting"])


def test_what_is_not_pending_is_not_taken(beside):
    """Held, moved by hand, with jobs; what is released, or given back, is pending again."""
    api, library = beside()
    held, moved, filled, given_back = (api.batch() for _ in range(4))
    api("POST", f"/v1/batches/{held}/hold", {})
    api("PUT", f"/v1/batches/{moved}/state", {"state": "Processing"})
    api.job(filled)
    session = api.session()
    taken = [api("POST", "/v1/batches/acquire", {"session": session}) for _ in range(2)]
    assert [one["batch"]["id"] for one in taken] == [filled, given_back]
    assert library.pending() == []
    api("DELETE", f"/v1/locks/batches/{given_back}?force=1")
    api("POST", f"/v1/batches/{held}/release", {})
    assert library.pending() == [held, given_back]
    assert library.run(library.acquire_batch()) == held


def test_jobs_in_a_batch_that_has_no_lists(beside, monkeypatch):
    """Nothing fails because a list is missing: adding jobs, working on them, failing and reporting them."""
    api, library = beside()
    monkeypatch.setenv("DROVER_URL", f"http://127.0.0.1:{api.port}")
    bid = library.run(library.create_batch())
    assert api("GET", f"/v1/batches/{bid}")["batch"]["states"] == dict.fromkeys(LISTS, 0)
    assert api("GET", f"/v1/jobs?batch={bid}")["jobs"] == []
    bad = api("POST", f"/v1/batches/{bid}/jobs", {"configuration": {}})["job"]
    theirs, [good] = foreign_batch(library)
    assert api.move(bad, "fail") == "Failed"
    for state in STEPS[:-1]:
        done = drover("job", "work", "--state", state, "--until-empty", "--", "true")
        assert done.returncode == 0, done.stderr
    assert api.state_of("jobs", good) == "Completed"
    for batch in (bid, theirs):
        api.wait_state("batches", batch, ["Reporting"])
        api("PUT", f"/v1/batches/{batch}/state", {"state": "next"})
    assert [api.state_of("batches", batch) for batch in (bid, theirs)] == ["Failed", "Completed"]
    assert findings(api) == []
    api("DELETE", f"/v1/batches/{theirs}")
    assert not library.client.exists(f"/batches/{theirs}")


def test_the_end_of_a_batch_that_the_library_ends(beside, tmp_path):
    """It is noticed within a second and reported once, though each move takes the job out of its list."""
    api, library = beside("--on-batch-done", f"echo $DROVER_REPORT >> {tmp_path}/keys")
    events = Events(api.port)
    bids, took = [], []
    for _ in range(4):
        bid, jids = foreign_batch(library, 2)
        jump(library, jids[0], "Completed")
        jump(library, jids[1], "Notify")
        jump(library, jids[1], "Completed")
        ended = time.monotonic()
        api.wait_state("batches", bid, ["Completed"])
        bids.append(bid)
        took.append(time.monotonic() - ended)
    assert min(took) < NOTICED_S and max(took) < SOON_S, took
    wait_until(lambda: len(events.of("batch-done")) >= len(bids), "the events")
    assert [event["batch"] for event in events.of("batch-done")] == bids
    assert [key.split("-")[0] for key in (tmp_path / "keys").read_text().split()] == bids
    # A job that failed is retried by the library: one more report.
    bid, [jid] = foreign_batch(library)
    jump(library, jid, "Failed")
    api.wait_state("batches", bid, ["Failed"])
    jump(library, jid, "Notify")
    jump(library, jid, "Completed")
    api.wait_state("batches", bid, ["Completed"])
    keys = (tmp_path / "keys").read_text().split()
    assert len(keys) == len(set(keys)) == len(bids) + 2
    events.close()


def stays_open(api, library):
    """Whether a batch is not reported while one of its jobs has ended and the other is in no list, in the middle
    of a move. Then both end."""
    bid, (done, moving) = foreign_batch(library, 2)

    def the_watcher_has_looked():
        probe, [last] = foreign_batch(library)
        jump(library, last, "Completed")
        api.wait_state("batches", probe, ["Reporting"])

    the_watcher_has_looked()
    jump(library, done, "Completed")
    steps = library.move_job(moving, "Estimating")
    entry = f"/batches/{bid}/states/batch-processing/{moving}"
    while library.client.exists(entry):
        next(steps)
    for _ in range(2):
        the_watcher_has_looked()
    stayed = api.state_of("batches", bid) == "Processing"
    for _ in steps:
        pass
    assert library.client.exists(entry)
    assert not stayed or api.state_of("batches", bid) == "Processing"
    jump(library, moving, "Completed")
    api.wait_state("batches", bid, ["Reporting"])
    return stayed


def test_a_job_between_two_lists_is_not_the_end_of_its_batch(beside):
    """The server misses a job that it has counted. On a busy machine it may not have come to that: it rests
    longer after a look that took long. Then there is another attempt."""
    api, library = beside()
    assert any(stays_open(api, library) for _ in range(4))


def test_a_batch_whose_taker_still_adds_jobs_is_not_reported(beside):
    """It is Processing and locked. Once it is unlocked, its end is noticed within a second."""
    api, library = beside()
    bid = library.run(library.create_batch())
    assert library.run(library.acquire_batch(only=bid)) == bid
    jump(library, library.run(library.create_job(bid)), "Failed")
    probe, [last] = foreign_batch(library)
    jump(library, last, "Completed")
    api.wait_state("batches", probe, ["Reporting"])
    assert api.state_of("batches", bid) == "Processing" and findings(api) == []
    jump(library, library.run(library.create_job(bid)), "Completed")
    library.unlock(f"/batches/{bid}")
    unlocked = time.monotonic()
    api.wait_state("batches", bid, ["Reporting"])
    assert time.monotonic() - unlocked < SOON_S


def test_a_batch_that_is_filled_while_ours_ends_its_jobs(beside, tmp_path):
    """It is not reported before its holder has unlocked it, then once, and within a second; so is a batch that
    the library has filled before."""
    api, library = beside("--on-batch-done", f"echo $DROVER_REPORT >> {tmp_path}/keys")
    bid = library.run(library.create_batch())
    assert library.run(library.acquire_batch(only=bid)) == bid
    for _ in range(3):
        api.drive(library.run(library.create_job(bid)))
        probe, [last] = foreign_batch(library)
        api.drive(last)
        ended = time.monotonic()
        api.wait_state("batches", probe, ["Completed"])
        took = time.monotonic() - ended
        assert api.state_of("batches", bid) == "Processing"
    library.unlock(f"/batches/{bid}")
    unlocked = time.monotonic()
    api.wait_state("batches", bid, ["Completed"])
    assert max(took, time.monotonic() - unlocked) < SOON_S
    keys = [key.split("-")[0] for key in (tmp_path / "keys").read_text().split()]
    assert len(keys) == len(set(keys)) == 4
    assert findings(api) == []


@pytest.mark.parametrize("beside", ["embedded"], indirect=True)
def test_the_end_of_a_batch_beside_many_that_failed(beside):
    """They do not use up the watches."""
    api, library = beside()
    for first in range(0, 2100, 100):
        many = library.client.transaction()
        for number in range(first, first + 100):
            path = f"/batches/bid{number:010}"
            for node, data in (("", b""), ("/submission", b"{}"), ("/states", b""),
                               ("/status", b'{"status": "Failed"}')):
                many.create(path + node, data)
        assert not any(isinstance(result, Exception) for result in many.commit())
    wait_until(lambda: len(api("GET", "/v1/batches?state=Failed&limit=0")["batches"]) == 2100, "all batches")
    bid, [jid] = foreign_batch(library)
    for _ in range(3):  # the batch is not looked at by chance any more
        probe, [last] = foreign_batch(library)
        jump(library, last, "Completed")
        api.wait_state("batches", probe, ["Reporting"])
    jump(library, jid, "Completed")
    ended = time.monotonic()
    api.wait_state("batches", bid, ["Reporting"])
    assert time.monotonic() - ended < SOON_S


def test_a_batch_that_the_library_moved_is_listed_at_once(beside):
    api, library = beside()
    session = api.session()
    bids = [api.batch(), library.run(library.create_batch())]

    def listed():
        return {state: [batch["id"] for batch in api("GET", f"/v1/batches?state={state}")["batches"]]
                for state in ("Pending", "Held", "Processing", "Reporting", "Failed", "Completed")
                if api("GET", f"/v1/batches?state={state}")["batches"]}

    assert listed() == {"Pending": bids}
    for state in ("Held", "Processing", "Reporting", "Failed", "Reporting", "Completed"):
        for bid in bids:
            library.create_if_needed(f"/batches/{bid}/states")
            library.set_status(f"/batches/{bid}", state)
            assert bid in listed()[state]
        assert listed() == {state: bids}
        if state == "Reporting":
            taken = api("POST", "/v1/batches/acquire",
                        {"session": session, "for": "reporting", "wait": 20000})
            assert taken["batch"]["id"] in bids
            api("DELETE", f"/v1/locks/batches/{taken['batch']['id']}?force=1")
    assert findings(api) == []


def test_a_batch_whose_taker_died_is_pending_again(beside):
    """Ours: by the server. Theirs, after it was Processing: by fsck, which leaves young ones alone."""
    api, library = beside()
    session = api.session()
    bid = api.batch()
    assert api("POST", "/v1/batches/acquire", {"session": session})["batch"]["id"] == bid
    assert library.pending() == []
    api("DELETE", f"/v1/sessions/{session}")
    assert api.state_of("batches", bid) == "Pending"
    assert api("POST", "/v1/batches/acquire", {"session": api.session(), "wait": 20000})["batch"]
    api("DELETE", f"/v1/locks/batches/{bid}?force=1")
    assert library.run(library.acquire_batch()) == bid
    library.die()
    assert api("POST", "/v1/batches/fsck", {"repair": True})["findings"] == []
    [found] = findings(api, repair=True)
    assert found["repaired"] and "worker died" in found["problem"]
    assert api.state_of("batches", bid) == "Pending" and library.pending() == [bid]
    assert findings(api) == []


@pytest.mark.parametrize("by", ["library", "ours"])
def test_an_access_item_in_processing_without_a_lock(beside, by):
    """Its worker has died: the next acquire gets it, also one that waits."""
    api, library = beside()
    qid = library.run(library.create_access("small", token="t"))
    first = api.session()
    if by == "library":
        steps = library.acquire_access("small")
        next(steps)  # it has locked the item, which ours sees as Pending
        assert api("POST", "/v1/access/small/acquire", {"session": first}) == {"access": None}
        assert library.run(steps) == qid
    else:
        taken = api("POST", "/v1/access/small/acquire", {"session": first, "wait": 20000})
        api("PUT", f"/v1/access/small/{qid}/state",
            {"state": "next", "session": first, "token": taken["token"]})
    assert api.state_of("access/small", qid) == "Processing"
    session, got = api.session(), []
    assert api("POST", "/v1/access/small/acquire", {"session": session}) == {"access": None}
    waiter = threading.Thread(target=lambda: got.append(Api(api.port)(
        "POST", "/v1/access/small/acquire", {"session": session, "wait": 20000})))
    waiter.start()
    library.die() if by == "library" else api("DELETE", f"/v1/sessions/{first}")
    waiter.join()
    assert got[0]["access"]["id"] == qid and got[0]["access"]["state"] == "Processing"
    assert findings(api) == []


def batch_without_status(library):
    library.run(library.create_batch(profile_name="p"), stop=2)


def batch_of_0_1(library):
    bid = library.run(library.create_batch())
    for name in LISTS:
        library.client.ensure_path(f"/batches/{bid}/states/{name}")


def batch_in_processing(library):
    library.run(library.acquire_batch(only=library.run(library.create_batch())))
    library.die()


def job_without_entries(library):
    library.run(library.create_job(library.kept_open), stop=7)


def job_in_another_list(library):
    jid = library.run(library.create_job(library.kept_open))
    library.client.delete(library.entry(jid))
    library.client.create(f"/jobs/states/notify/05-{jid}")


def access_without_status(library):
    library.run(library.create_access("small"), stop=2)


@pytest.mark.parametrize("kind, make, problem, state", [
    ("batches", batch_without_status, "before it had a status", None),
    ("batches", batch_of_0_1, "has 'states'", None),
    ("batches", batch_in_processing, "its worker died", None),
    ("jobs", job_without_entries, "in no list of a state", "Pending"),
    ("jobs", job_in_another_list, "in the list of another state", "Pending"),
    ("access/small", access_without_status, "before it had a status", None),
])
def test_what_fsck_repaired_can_be_taken_by_either(beside, kind, make, problem, state):
    """Two of each: the library takes one and ours the other. Before, the library takes neither."""
    api, library = beside()
    acquire = {"batches": library.acquire_batch, "access/small": lambda: library.acquire_access("small"),
               "jobs": lambda: library.acquire_job(state)}[kind]
    if kind == "jobs":
        library.kept_open, [other] = foreign_batch(library)
        jump(library, other, "Estimating")
    for _ in range(2):
        make(library)
    found = findings(api)
    assert len(found) == 2 and all(problem in one["problem"] for one in found), found
    assert all(one["repaired"] for one in findings(api, repair=True))
    assert findings(api) == []
    session = api.session()
    ours = api("POST", f"/v1/{kind}/acquire", {"session": session, "wait": 20000,
                                               **({"state": state} if state else {})})
    theirs = library.run(acquire())
    assert {next(iter(ours.values()))["id"], theirs} == {one["id"].split("/")[-1] for one in found}
    assert library.run(acquire()) is None


class Events:
    """Reads the events of a server on a thread of its own."""

    def __init__(self, port):
        from conftest import Connection
        self.connection = Connection(port)
        self.connection.send(f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        self.connection.read_to_end_of_head()
        self.connection.socket.settimeout(None)
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        try:
            while self.connection.read_more():
                pass
        except OSError:
            pass

    def of(self, kind):
        return [json.loads(data) for data in re.findall(
            rb"event: " + kind.encode() + rb"\n(?:id: .*\n)?data: (.*)\n", self.connection.bytes)]

    def close(self):
        self.connection.socket.shutdown(2)
        self.thread.join()
        self.connection.close()


# Interrupted after each step.

class Case:
    """One operation of the library, on items of its own, stopped after so many steps."""

    def __init__(self, library, name, make, stop):
        self.name, self.library = f"{name}, stopped after {stop}", library
        self.bid, self.jids, steps = make(library)
        library.run(steps, stop)
        self.made = getattr(library, "made", None)
        self.stopped = library.steps == stop


def jump(library, jid, state):
    """Moves a job over several states: quick, and the tree is the same."""
    library.run(library.move_job(jid, state))


def creates_batch(library, uuids=iter(range(10000))):
    return None, [], library.create_batch(batchID=f"u-{next(uuids)}", profile_name="p")


def creates_batch_without_uuid(library):
    return None, [], library.create_batch(profile_name="p")


def acquires_batch(library):
    bid = library.run(library.create_batch())
    return bid, [], library.acquire_batch(only=bid)


def creates_first_job(library):
    bid = library.run(library.create_batch())
    library.run(library.acquire_batch(only=bid))
    return bid, [], library.create_job(bid)


def creates_second_job(library):
    bid, jids = foreign_batch(library)
    return bid, jids, library.create_job(bid)


def moves_job(library):
    bid, jids = foreign_batch(library)
    return bid, jids, library.move_job(jids[0], "Estimating")


def ends_job(library, state="Completed"):
    bid, jids = foreign_batch(library, 2)
    jump(library, jids[0], "Completed")
    jump(library, jids[1], "Notify")
    return bid, jids, library.move_job(jids[1], state)


def fails_job(library):
    return ends_job(library, "Failed")


def reports(library):
    bid, jids = foreign_batch(library)
    jump(library, jids[0], "Completed")
    return bid, jids, library.report_batch(only=bid)


def deletes_batch(library, uuids=iter(range(10000))):
    bid, jids = foreign_batch(library, 2, batchID=f"d-{next(uuids)}")
    for jid in jids:
        jump(library, jid, "Completed")
    library.run(library.report_batch(only=bid))
    assert library.status(f"/batches/{bid}") == "Completed"
    return bid, jids, library.delete_batch(bid)


def deletes_job(library):
    bid, (jid, other) = foreign_batch(library, 2)
    jump(library, jid, "Completed")
    return bid, [jid, other], library.delete_job(jid)


def creates_access(library):
    return None, [], library.create_access("large", token="t")


def deletes_access(library):
    qid = library.run(library.create_access("large", token="t"))
    library.set_status(f"/access/large/{qid}", "Completed")
    return None, [], library.delete_access("large", qid)


OPERATIONS = [creates_batch, creates_batch_without_uuid, acquires_batch, creates_first_job,
              creates_second_job, moves_job, ends_job, fails_job, reports, deletes_job, deletes_batch,
              creates_access, deletes_access]


def play(library, operations=OPERATIONS):
    """Every operation, stopped after each of its steps."""
    cases = []
    for make in operations:
        for stop in range(1, 100):
            case = Case(library, make.__name__, make, stop)
            if not case.stopped:
                break
            cases.append(case)
    return cases


def all_places(library):
    """Of each job, the entries that it has: in the lists of states, in those of batches."""
    found = {}
    for state in library.children("/jobs/states"):
        for entry in library.children(f"/jobs/states/{state}"):
            found.setdefault(entry[3:], ([], []))[0].append(f"/jobs/states/{state}/{entry}")
    for bid in library.children("/batches"):
        for name in library.children(f"/batches/{bid}/states"):
            for jid in library.children(f"/batches/{bid}/states/{name}"):
                found.setdefault(jid, ([], []))[1].append(f"/batches/{bid}/states/{name}/{jid}")
    return found


def check_job(library, places, jid, where):
    if library.client.exists(f"/jobs/{jid}"):
        assert places[jid] == ([library.entry(jid)], [library.batch_entry(jid)]), where
        library.read(f"/jobs/{jid}/configuration")
    else:
        assert jid not in places, where


def check_batch(library, bid, where):
    """Whoever comes can take it, or its jobs are at work, or it has ended."""
    path = f"/batches/{bid}"
    if not library.client.exists(path):
        return
    state, submission = library.status(path), library.read(f"{path}/submission")
    lists = {name: library.children(f"{path}/states/{name}") for name in LISTS}
    if state not in FINAL and (uuid := submission.get("batchID")):
        assert exists_or_none(library.client.get, f"/batch-uuids/{uuid}")[0].decode() == bid, where
    if state == "Pending":
        assert bid in library.pending() and not any(lists.values()), where
    elif state == "Processing":
        assert lists["batch-processing"], where
    else:
        assert state in ("Reporting", *ENDS) and not lists["batch-processing"], where


@pytest.mark.parametrize("moves", [False, True])
def test_every_operation_stopped_after_each_step(beside, moves):
    """Nothing is lost, nothing is there twice, and whatever is left can be taken or has ended. `moves`: ours
    acquires and moves what it can before it repairs."""
    api, library = beside()
    cases = play(library)
    assert len(cases) > 50
    for path in ("batches", "jobs", "access/small"):
        api("GET", f"/v1/{path}")
    if moves:
        session = api.session()
        for state in STEPS[:-1]:
            while job := api("POST", "/v1/jobs/acquire", {"session": session, "state": state})["job"]:
                assert job["state"] == state
        api("DELETE", f"/v1/sessions/{session}")
        for case in cases:
            for jid in case.jids:
                status, answer = api.send("PUT", f"/v1/jobs/{jid}/state", {"state": "next"})
                assert status in (200, 404, 409) or "fsck" in answer["errors"][0], answer
    repaired = findings(api, repair=True)
    assert all(one["repaired"] for one in repaired), repaired
    for case in cases:
        wait_until(lambda: is_settled(library, case.bid), case.name)
    assert findings(api) == []
    places = all_places(library)
    for case in cases:
        for one in {case.bid, case.made, *case.jids} - {None}:
            if one.startswith("jid"):
                check_job(library, places, one, case.name)
            elif one.startswith("bid"):
                check_batch(library, one, case.name)
            elif library.client.exists(f"/access/large/{one}"):
                wanted = "Pending" if case.name.startswith("creates") else "Completed"
                assert library.status(f"/access/large/{one}") == wanted, case.name
        check_outcome(library, case, moves)
    # What is pending is taken, each once, by one or the other.
    wanted, got, session = library.pending(), [], api.session()
    while taken := api("POST", "/v1/batches/acquire", {"session": session})["batch"]:
        got.append(taken["id"])
        if (bid := library.run(library.acquire_batch())) is not None:
            got.append(bid)
    assert sorted(got) == wanted and len(wanted) > 5


def is_settled(library, bid):
    path = f"/batches/{bid}"
    return bid is None or not library.client.exists(path) or library.status(path) != "Processing" \
        or library.children(f"{path}/states/batch-processing")


def check_outcome(library, case, moves):
    """What each operation may have led to."""
    name = case.name.split(",")[0]
    if name == "creates_second_job" and library.client.exists(f"/jobs/{case.made}"):
        assert library.status(f"/jobs/{case.made}") in ("Failed", "Pending"), case.name
    if name == "creates_first_job" and library.client.exists(f"/batches/{case.bid}"):
        jobs = library.client.exists(f"/jobs/{case.made}")
        assert (library.status(f"/batches/{case.bid}") == "Processing") == bool(jobs), case.name
    if name in ("moves_job", "ends_job", "fails_job", "reports", "creates_second_job"):
        assert all(library.client.exists(f"/jobs/{jid}") for jid in case.jids), case.name
        if not moves and name == "moves_job":
            assert library.status(f"/jobs/{case.jids[0]}") in ("Pending", "Estimating"), case.name
    if name == "deletes_job":
        gone, other = (not library.client.exists(f"/jobs/{jid}") for jid in case.jids)
        assert not other and (gone or library.status(f"/jobs/{case.jids[0]}") == "Completed"), case.name
    if name == "deletes_batch" and library.client.exists(f"/batches/{case.bid}"):
        assert library.status(f"/batches/{case.bid}") in FINAL, case.name
