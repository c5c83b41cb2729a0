"""One tree for Drover and the library of the document's authors: its states, fields and locks. The client here
does what that library does, call by call and without transactions. Also what its users have: removing and
counting what has ended, and the tokens of access items."""

import json
import re
import threading
import time
import urllib.request

import pytest

from batch_api import Api
from conftest import OnEnsemble, Server, drover, wait_until

kazoo = pytest.importorskip("kazoo.client")
NodeExistsError = pytest.importorskip("kazoo.exceptions").NodeExistsError


class Library:
    """The calls of the library, as far as they matter here."""

    def __init__(self, hosts):
        self.zk = kazoo.KazooClient(hosts=hosts, timeout=30)
        self.zk.start()

    def close(self):
        self.zk.stop()
        self.zk.close()

    def get(self, path):
        return json.loads(self.zk.get(path)[0])

    def lock(self, kind, name, ephemeral=True):
        try:
            self.zk.create(f"/locks/{kind}/{re.sub(':?/', '_', name)}", b"", ephemeral=ephemeral)
            return True
        except NodeExistsError:
            return False

    def unlock(self, kind, name):
        self.zk.delete(f"/locks/{kind}/{re.sub(':?/', '_', name)}")

    def move_job(self, job, old, new, priority="05"):
        """The status with all its members, then the entry in the lists of the states."""
        status = self.get(f"/jobs/{job}/status")
        if new not in ("Failed", "Deleted"):
            status["last_successful_status"] = status["status"]
        status.update(status=new, last_modified="2024-01-31T23:59:59Z", message="")
        self.zk.set(f"/jobs/{job}/status", json.dumps(status).encode())
        self.zk.delete(f"/jobs/states/{old.lower()}/{priority}-{job}")
        self.zk.ensure_path(f"/jobs/states/{new.lower()}")
        self.zk.create(f"/jobs/states/{new.lower()}/{priority}-{job}")


@pytest.fixture(params=["embedded", pytest.param("zookeeper", marks=pytest.mark.slow)])
def shared(request, tmp_path):
    """Starts servers with options, each with a client beside it; all of one test share a tree."""
    opened, root = [], f"/shared-{request.node.name.split('[')[0]}"

    def start(*options):
        if request.param == "embedded":
            if opened:
                opened[-1][1].close()
                assert opened[-1][0].stop() == 0, opened[-1][0].said
            server = Server("--data", tmp_path / "data", *options).start()
            hosts = f"127.0.0.1:{server.zk_port}"
        else:
            one = request.getfixturevalue("zookeeper")
            server = OnEnsemble(one.url(root), *options).start()
            hosts = one.hosts + root
        api = Api(server.port)
        wait_until(lambda: api.send("GET", "/v1/batches")[0] == 200, "the keeper")
        opened.append((server, Library(hosts)))
        return api, opened[-1][1]

    yield start
    opened[-1][1].close()
    try:
        assert opened[-1][0].stop() == 0, opened[-1][0].said
    finally:
        for server, _ in opened:
            server.kill()


def counts(api, path="jobs"):
    return {state: count for state, count in api("GET", f"/v1/{path}/counts")["counts"].items() if count}


def test_a_state_that_only_the_library_knows(shared):
    api, library = shared()
    batch = api.batch()
    job, other = api.job(batch, 5), api.job(batch, 5)
    for _ in range(4):
        api.move(job)
    library.move_job(job, "Processing", "Storing")
    found = api("GET", f"/v1/jobs/{job}")["job"]
    assert found["state"] == "Storing" and found["status"]["message"] == ""
    for query in ("", f"?batch={batch}"):
        listed = {one["id"]: one["state"] for one in api("GET", f"/v1/jobs{query}")["jobs"]}
        assert listed == {job: "Storing", other: "Pending"}
    assert [one["id"] for one in api("GET", "/v1/jobs?state=storing")["jobs"]] == [job]
    assert "Flying" in api.refuse(400, "GET", "/v1/jobs?state=Flying")
    assert counts(api) == {"Pending": 1, "Storing": 1}
    assert "Storing" in api.refuse(409, "PUT", f"/v1/jobs/{job}/state", {"state": "next"})
    assert "Storing" in api.refuse(409, "POST", f"/v1/jobs/{job}/requeue", {})
    assert api("POST", "/v1/batches/fsck", {})["findings"] == []
    library.move_job(job, "Storing", "Recording")
    assert api.move(job) == "Notify"
    assert api.move(job) == "Completed"
    assert counts(api) == {"Pending": 1, "Completed": 1}


def test_the_pipeline_storing(shared):
    api, library = shared("--pipeline", "storing")
    session, batch = api.session(), api.batch()
    job = api.job(batch, 5)
    for state in ("Estimating", "Provisioning", "Downloading", "Processing", "Storing"):
        assert api.move(job) == state
    library.zk.create(f"/jobs/{job}/store", b'{"manifest_url": "m"}')
    taken = api("POST", "/v1/jobs/acquire", {"session": session, "state": "Storing"})
    assert taken["job"]["id"] == job and taken["job"]["store"] == {"manifest_url": "m"}
    changed = api("PUT", f"/v1/jobs/{job}/store", {"value": {"mode": "add"}, "token": taken["token"]})
    assert changed["job"]["store"] == {"mode": "add"} == library.get(f"/jobs/{job}/store")
    assert api.move(job, token=taken["token"]) == "Recording"
    assert library.get(f"/jobs/{job}/status")["last_successful_status"] == "Storing"
    api.move(job, "fail")
    assert api.move(job, "Storing") == "Storing"


def test_every_field_stays(shared):
    """Also when the job is acquired and moved by a token, which uses what the server remembers."""
    api, library = shared()
    session, batch = api.session(), api.batch()
    job = api.job(batch)
    assert library.get(f"/jobs/{job}/identifiers") == {"local_id": []}
    assert library.zk.get_children("/jobs/states/pending") == [f"50-{job}"]
    spec = {"configuration": {}, "identifiers": {"primary_id": None}}
    plain = api("POST", f"/v1/batches/{batch}/jobs", spec)["job"]
    assert library.zk.get(f"/jobs/{plain}/priority")[0] == b"5"
    assert library.get(f"/jobs/{plain}/identifiers") == {}
    api("PUT", f"/v1/jobs/{plain}/identifiers", {"primary_id": None, "local_id": ["x"]})
    assert library.get(f"/jobs/{plain}/identifiers") == {"local_id": ["x"]}
    written = {"status": "Pending", "last_modified": "then", "message": "from afar", "retry_count": 2,
               "last_successful_status": None, "site": {"disk": [1, 2.5]}}
    library.zk.set(f"/jobs/{job}/status", json.dumps(written).encode())
    for state in ("Pending", "Estimating"):
        taken = api("POST", "/v1/jobs/acquire", {"session": session, "state": state, "wait": 20000})
        if taken["job"]["id"] != job:
            api.move(plain, "fail", token=taken["token"])
            taken = api("POST", "/v1/jobs/acquire", {"session": session, "state": state, "wait": 20000})
        api.move(job, token=taken["token"])
        found = library.get(f"/jobs/{job}/status")
        assert set(found) == set(written) | {"last_modification_date"}
        assert {key: found[key] for key in ("message", "retry_count", "site")} == {
            key: written[key] for key in ("message", "retry_count", "site")}
        assert found["last_modified"] == found["last_modification_date"] != "then"
    api.move(job, message="")
    assert library.get(f"/jobs/{job}/status")["message"] == ""
    library.zk.set(f"/batches/{batch}/status", json.dumps(
        {"status": "Processing", "last_modified": "then", "message": "m", "site": 1}).encode())
    api.move(job, "fail")
    found = library.get(f"/batches/{batch}/status")
    assert (found["status"], found["message"], found["site"]) == ("Reporting", "m", 1)


@pytest.mark.parametrize("kind", ["storage", "inventory", "localid"])
def test_one_lock_for_both(shared, kind):
    api, library = shared()
    session, ark, path = api.session(), "ark:/13030/x", f"/v1/locks/{kind}/ark:%2F13030%2Fx"
    assert library.lock(kind, ark)
    assert "locked" in api.refuse(409, "PUT", path, {"session": session})
    shown = api("GET", path)["lock"]
    assert (shown["node"], shown["ephemeral"]) == ("ark_13030_x", True)
    library.unlock(kind, ark)
    token = api("PUT", path, {"session": session, "who": "w"})["token"]
    assert not library.lock(kind, ark)
    assert "'ark:/13030/x'" in api.refuse(409, "PUT", f"/v1/locks/{kind}/ark_13030%2Fx", {"session": session})
    assert "ark:/13030/x" in api.refuse(404, "GET", f"/v1/locks/{kind}/ark_13030_x")
    api("DELETE", f"{path}?token={token}")
    assert library.lock(kind, ark, ephemeral=False)
    api.refuse(409, "PUT", path, {"session": session})
    api("DELETE", f"{path}?force=1")
    assert library.lock(kind, ark)


def test_a_locked_queue_stops_batches(shared):
    api, library = shared()
    session, batch = api.session(), api.batch()
    assert library.lock("queue", "ingest", ephemeral=False)
    assert api("POST", "/v1/batches/acquire", {"session": session}) == {"batch": None}
    got, own = [], Api(api.port)
    waiter = threading.Thread(target=lambda: got.append(
        own("POST", "/v1/batches/acquire", {"session": session, "wait": 20000})))
    waiter.start()
    time.sleep(0.5)  # it may wait by now; if not, the test is easier to pass
    library.unlock("queue", "ingest")
    began = time.monotonic()
    waiter.join()
    assert got[0]["batch"]["id"] == batch and time.monotonic() - began < 10


def finished(api, *jobs):
    batch = api.batch(batchID=f"u-{time.monotonic_ns()}")
    for job in api.jobs(batch, *jobs or (1,)):
        api.drive(job)
    api("PUT", f"/v1/batches/{batch}/state", {"state": "next"})
    return batch


def test_purge_and_counts(shared):
    api, library = shared()
    open_batch, done = api.batch(), [finished(api, 3) for _ in range(3)]
    running, ended = api.jobs(open_batch, 2)
    api.drive(ended)
    item = api("POST", "/v1/access/small", {"token": "t"})["access"]
    for _ in range(2):
        api("PUT", f"/v1/access/small/{item}/state", {"state": "next"})
    assert counts(api, "batches") == {"Pending": 1, "Completed": 3}
    assert counts(api) == {"Pending": 1, "Completed": 10}
    assert counts(api, "access/small") == {"Completed": 1}
    assert api("GET", "/v1/access/large/counts")["total"] == 0
    nothing = {"removed": 0, "locked": 0, "more": False}
    assert api("POST", "/v1/batches/purge", {"age": 60000}) == {**nothing, "jobs": 0}
    assert api("POST", "/v1/batches/purge", {"state": "Deleted"}) == {**nothing, "jobs": 0}
    assert "Pending" in api.refuse(400, "POST", "/v1/batches/purge", {"state": "Pending"})
    library.zk.create(f"/batches/{done[0]}/lock", b"", ephemeral=True)
    assert api("POST", "/v1/batches/purge", {"limit": 1}) == {"removed": 1, "jobs": 3, "locked": 1, "more": True}
    library.zk.delete(f"/batches/{done[0]}/lock")
    assert api("POST", "/v1/jobs/purge", {}) == {**nothing, "removed": 6}
    assert api("POST", "/v1/batches/purge", {}) == {**nothing, "removed": 2, "jobs": 0}
    assert api("POST", "/v1/access/small/purge", {}) == {**nothing, "removed": 1}
    assert {one["id"] for one in api("GET", "/v1/jobs")["jobs"]} == {running, ended}
    assert library.zk.get_children("/batch-uuids") == []
    assert api("POST", "/v1/batches/fsck", {})["findings"] == []


def test_the_metric(shared):
    api, library = shared()
    job = api.job(api.batch(), 5)
    library.move_job(job, "Pending", "Storing")

    def page():
        return set(re.findall(r'drover_batch_jobs\{state="(\w*)"\} ([1-9]\d*)\n',
                              urllib.request.urlopen(f"http://127.0.0.1:{api.port}/metrics").read().decode()))

    wait_until(lambda: page() == {("", "1")}, "the metric")  # a state that is not in the pipeline; one page later
    library.move_job(job, "Storing", "Recording")
    wait_until(lambda: page() == {("Recording", "1")}, "the metric")


def test_retention(shared):
    api, _ = shared("--batch-retention", "1s")
    batch, other = finished(api), api.batch()
    item = api("POST", "/v1/access/large", {"token": "t"})["access"]
    for _ in range(2):
        api("PUT", f"/v1/access/large/{item}/state", {"state": "next"})
    gone = lambda path: api.send("GET", path)[0] == 404  # noqa: E731
    wait_until(lambda: gone(f"/v1/batches/{batch}") and gone(f"/v1/access/large/{item}"), "retention")
    assert [one["id"] for one in api("GET", "/v1/batches")["batches"]] == [other]
    assert api("GET", "/v1/jobs")["jobs"] == []


def test_the_token_of_an_access_item(shared):
    api, library = shared()
    session = api.session()
    token = {"token": "t", "delivery-node": 7, "status": 202, "url": ""}
    item = api("POST", "/v1/access/small", token)["access"]
    path = f"/v1/access/small/{item}/token"
    for body in ({"status": 200, "url": "u"}, {"token": {"status": 200, "url": "u"}}, {"value": {"url": "u"}}):
        assert api("PUT", path, body)["access"]["token"] == {**token, "status": 200, "url": "u"}
    assert library.get(f"/access/small/{item}/token") == {**token, "status": 200, "url": "u"}
    assert api("PUT", path, {"token": "s", "url": None})["access"]["token"] == {
        "token": "s", "delivery-node": 7, "status": 200}
    taken = api("POST", "/v1/access/small/acquire", {"session": session})
    change = {"anticipated-availability-time": "soon"}
    api.refuse(409, "PUT", path, {"value": change, "token": taken["token"] + 1})
    assert "soon" in str(api("PUT", path, {"value": change, "token": taken["token"], "session": session}))
    api.refuse(404, "PUT", f"/v1/access/large/{item}/token", change)
    before = library.get(f"/access/small/{item}/token")
    for body in ([1], {"value": [1]}, {"value": "x", "session": session}, {"url": "x", "session": session},
                 {"url": "x", "token": taken["token"]}):
        api.refuse(400, "PUT", path, body)
    assert library.get(f"/access/small/{item}/token") == before
    job = api.job(api.batch(), 5)
    api.refuse(400, "PUT", f"/v1/jobs/{job}/metadata", {"a": 1, "session": session})


def test_the_commands(shared):
    api, library = shared()
    url = ("--server", f"http://127.0.0.1:{api.port}")

    def run(*words, status=0):
        done = drover(*words, *url)
        assert done.returncode == status, done
        return done.stdout

    batch = finished(api, 2)
    api.batch()
    assert re.findall(r"(\d+)  (\w+)", run("batch", "counts"))[:1] == [("1", "Pending")]
    assert "2  Completed\n" in run("job", "counts") and "2  total\n" in run("job", "counts")
    assert run("batch", "purge", "--age", "1h") == "removed 0 batches and 0 jobs\n"
    assert json.loads(run("job", "purge", "--json", "--state", "Deleted"))["removed"] == 0
    assert run("batch", "purge") == "removed 1 batch and 2 jobs\n"
    api.refuse(404, "GET", f"/v1/batches/{batch}")
    item = run("access", "create", "small", '{"token": "t"}').strip()
    run("access", "set", "small", item, '{"url": "u"}')
    assert api("GET", f"/v1/access/small/{item}")["access"]["token"] == {"token": "t", "url": "u"}
    run("access", "set", "small", item, "[]", status=2)
    assert "1  Pending\n" in run("access", "counts", "small")
    assert run("access", "purge", "small") == "removed 0 access items\n"
    run("access", "purge", "medium", status=2)
    assert run("job", "purge") == "removed 0 jobs\n"
    assert "me_1" in run("lock", "take", "localid", "me/1", "--timeout", "5s")
    batch = api.batch()
    job = api.job(batch, 5)
    for message in ("why", ""):
        run("job", "hold", job, "--message", message)
        assert api("GET", f"/v1/jobs/{job}")["job"]["status"]["message"] == message
        run("job", "release", job)
    assert library.lock("storage", "ark:/13030/y")
    done = drover("lock", "take", "storage", "ark:/13030/y", "--timeout", "5s", *url)
    assert done.stderr == "drover: storage/ark_13030_y is locked\n"
    library.move_job(api.job(batch, 5), "Pending", "Packing")
    assert re.search(r"Packing .* 1\n", run("batch", "show", batch))
    assert "Packing" in run("job", "ls") and "1  Packing\n" in run("job", "counts")
