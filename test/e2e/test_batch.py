"""Batches and jobs over HTTP: the life of a batch, invalid input, locks, waiting, events, the hook, a
pipeline of the site, and what survives a kill."""

import http.server
import json
import re
import threading

import pytest

from batch_api import Api
from conftest import Server, drover

STEPS = ["Pending", "Estimating", "Provisioning", "Downloading", "Processing", "Recording", "Notify"]


@pytest.fixture
def api(server):
    return Api(server.port)


@pytest.fixture(scope="module")
def one_for_all(tmp_path_factory):
    """For many small tests that change nothing, or that each look at their own items only."""
    server = Server("--data", tmp_path_factory.mktemp("shared") / "data").start()
    yield Api(server.port)
    try:
        assert server.stop() == 0, server.said
    finally:
        server.kill()


def test_the_life_of_a_batch(api):
    session = api.session()
    batch = api.batch(batchID="u-1", profile_name="p")
    first, second = api.job(batch, 60, profile_name="p"), api.job(batch, 40, profile_name="q")
    assert [job["id"] for job in api("GET", "/v1/jobs?state=Pending")["jobs"]] == [second, first]
    assert [job["id"] for job in api("GET", "/v1/jobs?profile=p")["jobs"]] == [first]
    assert [len(api("GET", f"/v1/jobs?limit={limit}")["jobs"]) for limit in (0, 1, 2)] == [2, 1, 2]
    assert api("GET", "/v1/batches?uuid=u-1")["batches"][0]["id"] == batch
    taken = []
    for state in STEPS:
        for wanted in (second, first):
            answer = api("POST", "/v1/jobs/acquire", {"session": session, "state": state})
            assert answer["job"]["id"] == wanted and answer["job"]["state"] == state
            taken.append(answer["token"])
        assert api("POST", "/v1/jobs/acquire", {"session": session, "state": state}) == {"job": None}
        for job, token in ((second, taken[-2]), (first, taken[-1])):
            api.move(job, token=token, session=session)
    assert taken == sorted(set(taken))
    assert api("GET", f"/v1/batches/{batch}")["batch"]["states"] == {
        "batch-processing": 0, "batch-failed": 0, "batch-completed": 2, "batch-deleted": 0}
    acquired = api("POST", "/v1/batches/acquire", {"session": session, "for": "reporting"})
    assert acquired["batch"]["id"] == batch and acquired["batch"]["state"] == "Reporting"
    again = api("POST", "/v1/batches/acquire", {"session": session, "for": "reporting"})
    assert again == {"batch": None}
    api("PUT", f"/v1/batches/{batch}/state",
        {"session": session, "token": acquired["token"], "state": "next"})
    assert api.state_of("batches", batch) == "Completed"
    assert api("POST", "/v1/batches/fsck", {})["findings"] == []
    api("DELETE", f"/v1/batches/{batch}")
    api.refuse(404, "GET", f"/v1/batches/{batch}")
    api.refuse(404, "GET", f"/v1/jobs/{first}")
    assert api("GET", "/v1/jobs")["jobs"] == []


@pytest.mark.parametrize("method, path, body, status, says", [
    ("POST", "/v1/batches", {}, 400, "submission"),
    ("POST", "/v1/batches", {"submission": 1}, 400, "submission"),
    ("POST", "/v1/batches", {"submission": {"batchID": "a/b"}}, 400, "'/'"),
    ("POST", "/v1/batches", {"submission": {"batchID": "x" * 500}}, 400, "longer"),
    ("POST", "/v1/batches", {"submission": {"erc_what": "x" * 1100000}}, 413, "big"),
    ("GET", "/v1/batches?state=Flying", None, 400, "Flying"),
    ("GET", "/v1/batches?after=x", None, 400, "after"),
    ("GET", "/v1/batches/bid1", None, 404, "bid1"),
    ("GET", "/v1/batches/..%2Fjobs", None, 404, "no batch"),
    ("POST", "/v1/batches/acquire", {"session": "x"}, 410, "session"),
    ("POST", "/v1/batches/acquire", {}, 400, "session"),
    ("POST", "/v1/batches/acquire", {"session": "S", "for": "lunch"}, 400, "pending"),
    ("POST", "/v1/batches/BATCH/jobs", {}, 400, "configuration"),
    ("POST", "/v1/batches/BATCH/jobs", {"configuration": {}, "priority": 100}, 400, "0 to 99"),
    ("POST", "/v1/batches/BATCH/jobs", {"configuration": {}, "priority": -1}, 400, "0 to 99"),
    ("POST", "/v1/batches/BATCH/jobs", {"configuration": {}, "colour": 1}, 400, "colour"),
    ("POST", "/v1/batches/BATCH/jobs", {"jobs": []}, 400, "jobs"),
    ("POST", "/v1/batches/BATCH/jobs", {"configuration": {"x": "y" * 1100000}}, 413, "smaller"),
    ("POST", "/v1/batches/bid0000009999/jobs", {"configuration": {}}, 404, "bid0000009999"),
    ("PUT", "/v1/batches/BATCH/state", {"state": "Completed"}, 409, "Held or Processing"),
    ("PUT", "/v1/batches/BATCH/state", {}, 400, "state"),
    ("POST", "/v1/batches/BATCH/release", {}, 409, "not Held"),
    ("DELETE", "/v1/batches/BATCH", None, 409, "Pending"),
    ("POST", "/v1/jobs/acquire", {"session": "S", "state": "Nowhere"}, 400, "Nowhere"),
    ("POST", "/v1/jobs/acquire", {"session": "S", "state": "Completed"}, 400, "cannot be acquired"),
    ("POST", "/v1/jobs/acquire", {"session": "S"}, 400, "state"),
    ("GET", "/v1/jobs?state=no", None, 400, "no"),
    ("GET", "/v1/jobs?limit=x", None, 400, "limit"),
    ("GET", "/v1/jobs?batch=bid0000009999", None, 404, "bid"),
    ("PUT", "/v1/jobs/JOB/state", {"state": "Notify"}, 409, "Held, Estimating or Failed"),
    ("PUT", "/v1/jobs/JOB/state", {"state": "Nowhere"}, 400, "Nowhere"),
    ("PUT", "/v1/jobs/JOB/state", {"state": "next", "priority": 100}, 400, "0 to 99"),
    ("PUT", "/v1/jobs/JOB/state", {"state": "next", "priority": -1}, 400, "0 to 99"),
    ("PUT", "/v1/jobs/JOB/state", {"state": "next", "priority": "x"}, 400, "priority"),
    ("PUT", "/v1/jobs/JOB/state", {"state": "next", "token": 1}, 409, "no longer valid"),
    ("PUT", "/v1/jobs/JOB/state", {"state": "next", "session": "none"}, 410, "session"),
    ("PUT", "/v1/jobs/jid9999999999/state", {"state": "next"}, 404, "jid9999999999"),
    ("PUT", "/v1/jobs/JOB/priority", {"priority": 100}, 400, "0 to 99"),
    ("PUT", "/v1/jobs/JOB/priority", {"priority": "high"}, 400, "whole number"),
    ("PUT", "/v1/jobs/JOB/space_needed", {"space_needed": -1}, 400, "negative"),
    ("PUT", "/v1/jobs/JOB/identifiers", [1], 400, "object"),
    ("PUT", "/v1/jobs/JOB/bid", {"value": "x"}, 404, "no such path"),
    ("POST", "/v1/jobs/JOB/dance", {}, 404, "no such path"),
    ("POST", "/v1/jobs/JOB/release", {}, 409, "not Held"),
    ("POST", "/v1/jobs/JOB/requeue", {}, 409, "failed"),
    ("DELETE", "/v1/jobs/JOB", None, 409, "Pending"),
    ("PUT", "/v1/locks/queue/egress", {}, 400, "egress"),
    ("PUT", "/v1/locks/collections/a%2Fb", {}, 400, "'/'"),
    ("PUT", "/v1/locks/storage/ark", {}, 400, "session"),
    ("PUT", "/v1/locks/doors/front", {}, 404, "doors"),
    ("DELETE", "/v1/locks/queue/ingest", None, 404, "not locked"),
    ("POST", "/v1/access/medium", {}, 400, "small, large"),
    ("POST", "/v1/access/small", [], 400, "object"),
    ("PUT", "/v1/access/small/qid0000009999/state", {"state": "next"}, 404, "qid"),
    ("PUT", "/v1/access/small/ITEM/state", {"state": "Nowhere"}, 400, "Pending, Processing"),
    ("PUT", "/v1/access/small/ITEM/state", {"state": "Completed"}, 409, "can become Processing"),
    ("PUT", "/v1/access/small/ITEM/state", {"state": "next", "token": 1}, 409, "no longer valid"),
    ("POST", "/v1/access/small", {"token": "x" * 1100000}, 413, "big"),
    ("GET", "/v1/access/small?state=no", None, 400, "no state 'no'"),
    ("DELETE", "/v1/access/small/ITEM", None, 409, "Pending"),
    ("PUT", "/v1/batches/BATCH/state", {"state": "next", "token": 1}, 409, "no longer valid"),
    ("PUT", "/v1/batches/BATCH/state", {"state": "Flying"}, 400, "no state 'Flying'"),
    ("PUT", "/v1/jobs/JOB/metadata", {"x": "y" * 1100000}, 413, "big"),
    ("PUT", "/v1/locks/storage/" + "x" * 300, {"session": "S"}, 400, "longer"),
    ("POST", "/v1/jobs/release", {}, 400, "profile"),
    ("POST", "/v1/legacy", {"path": "/nothing"}, 404, "/nothing"),
    ("GET", "/v1/legacy?path=relative", None, 400, "path"),
])
def test_wrong_input_is_refused_and_changes_nothing(one_for_all, method, path, body, status, says):
    api = one_for_all
    batch = api.batch()
    job = api.job(batch)
    item = api("POST", "/v1/access/small", {})["access"]
    text = json.dumps(body).replace('"S"', json.dumps(api.session()))

    def look():
        paths = f"/v1/jobs/{job}", "/v1/batches", "/v1/locks", "/v1/access/small"
        return [api("GET", path) for path in paths]

    before = look()
    path = path.replace("BATCH", batch).replace("JOB", job).replace("ITEM", item)
    assert says in api.refuse(status, method, path, json.loads(text))
    assert look() == before


def test_what_is_not_json(server):
    for path in ("/v1/batches", "/v1/jobs/acquire", "/v1/access/small"):
        head = f"POST {path} HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"
        assert server.request(head + "Content-Length: 1\r\n\r\n{")[0] == 400


def test_waiting_for_a_job(server, api):
    session, batch = api.session(), api.batch()
    got = []

    def wait():
        own = Api(server.port)
        got.append(own("POST", "/v1/jobs/acquire",
                       {"session": session, "state": "Pending", "wait": 6000}))

    waiter = threading.Thread(target=wait)
    waiter.start()
    job = api.job(batch)
    waiter.join()
    assert got[0]["job"]["id"] == job


@pytest.mark.parametrize("hold, release", [
    (("PUT", "/v1/locks/queue/ingest", {}), ("DELETE", "/v1/locks/queue/ingest")),
    (("PUT", "/v1/locks/collections/c", {}), ("DELETE", "/v1/locks/collections/c")),
    (("POST", "/v1/batches/BATCH/hold", {}), ("POST", "/v1/batches/BATCH/release", {})),
])
def test_waiting_for_a_job_that_is_held(server, api, hold, release):
    """Every waiting request gets one of the jobs when the hold ends."""
    batch, got = api.batch(), []
    jobs = {api.job(batch, profile_name="c") for _ in range(4)}
    api(hold[0], hold[1].replace("BATCH", batch), *hold[2:])

    def wait():
        own = Api(server.port)
        got.append(own("POST", "/v1/jobs/acquire",
                       {"session": own.session(2000), "state": "Pending", "wait": 20000}))

    waiters = [threading.Thread(target=wait) for _ in jobs]
    for waiter in waiters:
        waiter.start()
    api(release[0], release[1].replace("BATCH", batch), *release[2:])
    for waiter in waiters:
        waiter.join()
    assert {answer["job"]["id"] for answer in got} == jobs


def test_a_waiting_acquire_sees_what_foreign_clients_do(server, api):
    """A lock that ends with its session, a queue that is unlocked, a job and a batch that are created."""
    kazoo = pytest.importorskip("kazoo.client")
    clients = [kazoo.KazooClient(hosts=f"127.0.0.1:{server.zk_port}") for _ in range(2)]
    for client in clients:
        client.start()
    holder, zk = clients
    batch = api.batch()
    job = api.job(batch)
    holder.create(f"/jobs/{job}/lock", b"", ephemeral=True)

    def waits_for(change, path="jobs", **more):
        own, got = Api(server.port), []
        session = own.session()
        waiter = threading.Thread(target=lambda: got.append(
            own("POST", f"/v1/{path}/acquire", {"session": session, "wait": 30000, **more})))
        waiter.start()
        change()
        waiter.join()
        return next(iter(got[0].values()))["id"]

    def create_job():
        path = zk.create("/jobs/jid", b"", sequence=True)
        made.append(path.rsplit("/", 1)[1])
        for name, data in (("bid", batch.encode()), ("configuration", b"{}"), ("priority", b"50"),
                           ("status", b'{"status": "Pending"}')):
            zk.create(f"{path}/{name}", data)
        zk.create(f"/batches/{batch}/states/batch-processing/{made[-1]}")
        zk.create(f"/jobs/states/pending/50-{made[-1]}")

    def create_batch():
        path = zk.create("/batches/bid", b"", sequence=True)
        made.append(path.rsplit("/", 1)[1])
        for name in ("batch-processing", "batch-failed", "batch-completed", "batch-deleted"):
            zk.create(f"{path}/states/{name}", b"", makepath=True)
        zk.create(f"{path}/status", b'{"status": "Pending"}')

    made = []
    assert waits_for(holder.stop, state="Pending") == job
    assert waits_for(create_job, state="Pending") == made[-1]
    zk.create("/locks/queue/ingest", b"")
    job = api.job(batch)
    assert waits_for(lambda: zk.delete("/locks/queue/ingest"), state="Pending") == job
    api("PUT", f"/v1/batches/{batch}/state", {"state": "Processing"})
    assert waits_for(create_batch, "batches") == made[-1]
    for client in clients:
        client.stop()
        client.close()


def test_a_lock_goes_with_its_session(api):
    session, batch = api.session(), api.batch()
    job = api.job(batch)
    token = api("POST", "/v1/jobs/acquire", {"session": session, "state": "Pending"})["token"]
    api("PUT", "/v1/locks/storage/ark:%2F1%2F2", {"session": session, "who": "w"})
    assert "locked" in api.refuse(409, "PUT", f"/v1/jobs/{job}/state", {"state": "next"})
    assert "locked" in api.refuse(409, "POST", f"/v1/jobs/{job}/hold", {})
    other = api.session()
    assert "by w" in api.refuse(409, "PUT", "/v1/locks/storage/ark:%2F1%2F2", {"session": other})
    assert "'ark:/1/2'" in api.refuse(409, "PUT", "/v1/locks/storage/ark_1%2F2", {"session": other})
    api("DELETE", f"/v1/sessions/{session}")
    api.refuse(409, "PUT", f"/v1/jobs/{job}/state", {"state": "next", "token": token})
    api("PUT", "/v1/locks/storage/ark:%2F1%2F2", {"session": other})
    taken = api("POST", "/v1/jobs/acquire", {"session": other, "state": "Pending", "wait": 5000})
    assert taken["job"]["id"] == job and taken["token"] > token
    assert "break it" in api.refuse(400, "DELETE", f"/v1/locks/jobs/{job}")
    api("DELETE", f"/v1/locks/jobs/{job}?force=1")
    api.refuse(409, "PUT", f"/v1/jobs/{job}/state", {"state": "next", "token": taken["token"]})
    assert api.move(job) == "Estimating"


def test_access_queues(api):
    session = api.session()
    item = api("POST", "/v1/access/large", {"token": "t", "url": "u"})["access"]
    api("PUT", "/v1/locks/queue/accessLarge", {"who": "admin"})
    assert api("POST", "/v1/access/large/acquire", {"session": session}) == {"access": None}
    api("DELETE", "/v1/locks/queue/accessLarge")
    assert api("POST", "/v1/access/small/acquire", {"session": session}) == {"access": None}
    taken = api("POST", "/v1/access/large/acquire", {"session": session})
    assert taken["access"]["id"] == item and taken["access"]["token"] == {"token": "t", "url": "u"}
    path = f"/v1/access/large/{item}/state"
    assert "Processing" in api.refuse(409, "PUT", path, {"state": "Completed", "token": taken["token"]})
    api("PUT", path, {"state": "next", "token": taken["token"]})
    api("DELETE", f"/v1/sessions/{session}")  # the worker dies: another one continues
    other = api.session()
    again = api("POST", "/v1/access/large/acquire", {"session": other, "wait": 5000})
    assert again["access"]["id"] == item and again["access"]["state"] == "Processing"
    api.refuse(409, "PUT", path, {"state": "next", "token": taken["token"]})
    assert api("PUT", path, {"state": "fail", "token": again["token"]})["state"] == "Failed"
    assert api("PUT", path, {"state": "Deleted"})["state"] == "Deleted"
    api("DELETE", f"/v1/access/large/{item}")
    assert api("GET", "/v1/access/large")["access"] == []


def test_an_event_when_a_batch_is_done(server, api):
    connection = server.connect()
    connection.send(server.fill("GET /v1/events?kind=batch-done HTTP/1.1\r\nHost: HOST\r\n\r\n"))
    connection.read_to_end_of_head()
    batch = api.batch()
    api.drive(api.job(batch))
    while not (found := re.search(rb"data: (.*)\n", connection.bytes)):
        assert connection.read_more()
    data = json.loads(found[1])
    assert data["batch"] == batch and data["completed"] == 1 and data["failed_jobs"] == []
    assert connection.bytes.count(b"batch-done") == 1
    connection.close()


def test_the_hook_gets_each_report_once_it_works(start, tmp_path):
    """The hook fails at first; the report stays due and is sent again with the same key."""
    script = (f"cat >> {tmp_path}/got; echo $DROVER_REPORT >> {tmp_path}/keys; "
              f"test -e {tmp_path}/works")
    server = start("--on-batch-done", script)
    api = Api(server.port)
    batch = api.batch()
    bad, good = api.job(batch), api.job(batch)
    api.move(bad, "fail")
    api.drive(good)
    server.wait_for("the report of batch bid0000000000 failed: the command ended with status 1")
    assert api.state_of("batches", batch) == "Reporting"
    (tmp_path / "works").touch()
    api.wait_state("batches", batch, ["Failed"])
    assert api("GET", f"/v1/batches/{batch}")["batch"]["status-report"] == {"failed_jobs": [bad]}
    keys = (tmp_path / "keys").read_text().split()
    assert len(keys) > 1 and len(set(keys)) == 1
    api("POST", f"/v1/jobs/{bad}/requeue", {"state": "Notify"})
    api.move(bad)
    api.wait_state("batches", batch, ["Completed"])
    assert len(set((tmp_path / "keys").read_text().split())) == 2
    assert server.stop() == 0


class WebHook(http.server.BaseHTTPRequestHandler):
    """Answers as configured, and records what was posted."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.got.append((self.headers["Idempotency-Key"], self.headers["Content-Type"], body))
        answer = self.server.answers.pop(0) if self.server.answers else 200
        if answer == "hang":
            self.server.hanging.set()
            self.server.go_on.wait(30)
            return
        self.send_response(answer)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def web_hook():
    hook = http.server.ThreadingHTTPServer(("127.0.0.1", 0), WebHook)
    hook.got, hook.answers = [], []
    hook.hanging, hook.go_on = threading.Event(), threading.Event()
    hook.url = f"http://127.0.0.1:{hook.server_port}/done?a=b"
    thread = threading.Thread(target=hook.serve_forever, args=(0.05,))
    thread.start()
    yield hook
    hook.go_on.set()
    hook.shutdown()
    thread.join()
    hook.server_close()


@pytest.mark.slow
def test_the_web_hook(start, web_hook):
    """It refuses at first, and the server is killed while it waits for the second answer: the report is
    posted again with the same key, and committed once."""
    web_hook.answers += [503, "hang"]
    server = start("--on-batch-done", web_hook.url)
    api = Api(server.port)
    batch = api.batch(profile_name="p")
    bad, good = api.job(batch), api.job(batch)
    api.move(bad, "fail")
    api.drive(good)
    server.wait_for("the report of batch bid0000000000 failed: the web hook answered 503")
    assert web_hook.hanging.wait(20)
    assert "status-report" not in api("GET", f"/v1/batches/{batch}")["batch"] \
        or not api("GET", f"/v1/batches/{batch}")["batch"]["status-report"]
    server.kill()
    web_hook.go_on.set()
    server = start("--on-batch-done", web_hook.url)
    api = Api(server.port)
    api.wait_state("batches", batch, ["Failed"])
    assert len(web_hook.got) == 3 and len({key for key, _, _ in web_hook.got}) == 1
    key, kind, report = web_hook.got[-1]
    assert kind == "application/json" and report == web_hook.got[0][2]
    assert report["batch"] == batch and report["state"] == "Reporting" and report["key"] == key
    assert report["failed_jobs"] == [bad] and report["completed"] == 1
    assert report["submission"] == {"profile_name": "p"}
    assert api("GET", f"/v1/batches/{batch}")["batch"]["status-report"] == {"failed_jobs": [bad]}
    api("POST", f"/v1/jobs/{bad}/requeue", {"state": "Notify"})
    api.move(bad)
    api.wait_state("batches", batch, ["Completed"])
    assert len(web_hook.got) == 4 and web_hook.got[3][0] != key
    assert web_hook.got[3][2]["state"] == "UpdateReporting" and web_hook.got[3][2]["failed_jobs"] == []
    assert server.stop() == 0, server.said


def test_a_web_hook_that_nobody_answers(start):
    server = start("--on-batch-done", "http://127.0.0.1:1/")
    api = Api(server.port)
    batch = api.batch()
    api.drive(api.job(batch))
    server.wait_for("the report of batch bid0000000000 failed: .*onnect")
    assert api.state_of("batches", batch) == "Reporting"
    assert server.stop() == 0, server.said


def test_a_pipeline_of_the_site(start, tmp_path):
    (tmp_path / "pipeline.json").write_text(json.dumps({"job": {"first": "New", "states": {
        "New": {"to": ["Scan"], "success": "Scan"},
        "Scan": {"to": ["Done", "Broken"], "success": "Done", "fail": "Broken"},
        "Broken": {"to": ["New"], "batch": "batch-failed"},
        "Done": {"batch": "batch-completed"}}}}))
    server = start("--pipeline", tmp_path / "pipeline.json")
    api = Api(server.port)
    batch = api.batch()
    job = api.job(batch)
    assert [api.move(job), api.move(job)] == ["Scan", "Done"]
    assert api.state_of("batches", batch) == "Reporting"
    assert "cannot be held" in api.refuse(400, "POST", f"/v1/jobs/{job}/hold", {})
    assert server.stop() == 0


def test_a_wrong_pipeline_is_refused_at_the_start(tmp_path):
    (tmp_path / "p").write_text('{"job": {"states": {"A": {"to": ["B"]}}}}')
    done = drover("serve", "--data", tmp_path / "data", "--http", "127.0.0.1:0", "--zk", "none",
                  "--pipeline", tmp_path / "p")
    assert done.returncode == 1 and "which is not a state" in done.stderr


def test_a_kill_loses_nothing(start):
    server = start()
    api = Api(server.port)
    session, batch = api.session(2000), api.batch(batchID="u")
    jobs = api.jobs(batch, 3)
    token = api("POST", "/v1/jobs/acquire", {"session": session, "state": "Pending"})["token"]
    api.drive(jobs[1])
    server.kill()
    server = start()
    api = Api(server.port)
    assert api("POST", "/v1/batches/fsck", {})["findings"] == []
    assert api.move(jobs[0], token=token, session=session) == "Estimating"  # the session survives
    assert [api.state_of("jobs", job) for job in jobs] == ["Estimating", "Completed", "Pending"]
    assert server.stop() == 0


@pytest.mark.slow
def test_the_command_line(server, monkeypatch, tmp_path):
    monkeypatch.setenv("DROVER_URL", f"http://127.0.0.1:{server.port}")

    def run(*words, status=0):
        done = drover(*words)
        assert done.returncode == status, done.stderr
        return done.stdout

    batch = run("batch", "create", '{"batchID": "u"}').strip()
    jobs = [run("job", "create", batch, json.dumps({"configuration": {}, "priority": p})).strip()
            for p in (30, 20, 10)]
    run("job", "hold", jobs[0])
    run("job", "work", "--state", "Pending", "--until-empty", "--",
        "sh", "-c", f"cat >> {tmp_path}/in; echo $DROVER_JOB >> {tmp_path}/order")
    assert (tmp_path / "order").read_text().split() == [jobs[2], jobs[1]]
    assert f'"id":"{jobs[2]}"' in (tmp_path / "in").read_text().replace(" ", "")
    run("job", "work", "--state", "Estimating", "--until-empty", "--", "false", status=1)
    assert run("job", "ls", "--state", "failed").count("exit status 1") == 2
    shown = run("batch", "show", batch)
    assert "66% of 3 jobs have ended, 2 failed" in shown and "Held" in shown
    jid, token, session = run("job", "acquire", "--state", "failed").split()
    run("job", "state", jid, "Deleted", "--token", token, "--session", session)
    run("job", "acquire", "--state", "Pending", status=3)
    run("job", "requeue", jobs[0], status=1)
    assert run("job", "set", jobs[0], "priority", "7") == ""
    assert "07" in run("job", "ls", "--state", "held")
    run("lock", "take", "collections", "c", "--who", "me")
    assert "me" in run("lock", "ls")
    run("lock", "release", "collections", "c")
    taken = run("lock", "take", "storage", "ark:/1/2", "--timeout", "30s")
    session = re.search(r"^session: (\w+)$", taken, re.M)[1]
    again = json.loads(run("lock", "take", "inventory", "ark:/1/2", "--json"))
    assert again["session"] != session
    run("lock", "take", "storage", "ark:/1/2", status=1)
    run("lock", "take", "inventory", "ark:/1/3", "--session", session)
    assert len(json.loads(run("lock", "ls", "--json"))["locks"]) == 3
    run("job", "acquire", status=2)
    run("access", "create", "small", "[]", status=2)
    assert run("access", "create", "small", '{"token": "t"}').strip() == "qid0000000000"
    assert run("batch", "find", "u").count(batch) == 1
    run("batch", "fsck")
    run("batch", "delete", batch, status=1)
    run("batch", "delete", "x", status=1)


def test_legacy_records(server, api, monkeypatch):
    kazoo = pytest.importorskip("kazoo.client")
    zk = kazoo.KazooClient(hosts=f"127.0.0.1:{server.zk_port}")
    zk.start()
    try:
        time_s = (1700000000).to_bytes(8, "big")
        zk.create("/ingest")
        zk.create("/ingest/mrtQ-02100000000003",
                  b"\0" + time_s + b"# a comment\nprofile=demo\\u00e9\nsubmitter : me\n")
        zk.create("/ingest/mrtQ-01000000000004",
                  b"\0" + (1700000000000).to_bytes(8, "big") + b'{"profile_name": "p"}')
        zk.create("/ingest/mrtQ-01000000000005", b"\x04" + time_s + b"<queue/>")
        zk.create("/ingest/mrtQ-01000000000006", b"short")
        zk.create("/ingest/other", b"")
        records = api("GET", "/v1/legacy?path=/ingest")["records"]
        assert [(r["name"][-2:], r["status"]) for r in records] == [
            ("04", "pending"), ("05", "completed"), ("06", "damaged"), ("03", "pending")]
        assert {r.get("time") for r in records if "time" in r} == {"2023-11-14T22:13:20Z"}
        assert records[3]["configuration"] == {"profile": "demo\u00e9", "submitter": "me"}
        jobs = api("POST", "/v1/legacy", {"path": "/ingest"})["jobs"]
        assert len(jobs) == 2 and api("POST", "/v1/legacy", {"path": "/ingest"})["jobs"] == []
        assert [api("GET", f"/v1/jobs/{job}")["job"]["priority"] for job in jobs] == [1, 2]
        assert len(api("POST", "/v1/legacy", {"path": "/ingest", "all": True,
                                              "delete": True})["jobs"]) == 1
        assert not zk.exists("/ingest/mrtQ-01000000000005")
    finally:
        zk.stop()
        zk.close()
