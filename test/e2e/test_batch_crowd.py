"""Many at once: consumers that are killed, holds and releases while they run, foreign clients that work
step by step, and an ensemble that loses its leader."""

import os
import random
import subprocess
import threading
import time

import pytest

import zk as zookeeper
from batch_api import Api
from conftest import BINARY, DEADLINE_S, Server

SOAK = bool(os.environ.get("DROVER_SOAK"))
STEPS = ["Pending", "Estimating", "Provisioning", "Downloading", "Processing", "Recording", "Notify"]


class Consumer(threading.Thread):
    """Works from the last state to the first; at times it dies: its session ends, its lock goes."""

    def __init__(self, port, seed, stop):
        super().__init__()
        self.port, self.random, self.stop, self.moves, self.failure = port, random.Random(seed), stop, [], None

    def run(self):
        try:
            self.work(Api(self.port))
        except Exception as failure:  # told to the test
            self.failure = failure

    def work(self, api):
        session = api.session(2000)
        while not self.stop.is_set():
            for state in reversed(STEPS):
                answer = api("POST", "/v1/jobs/acquire", {"session": session, "state": state})
                if not answer["job"]:
                    continue
                if self.random.random() < 0.05:  # dies with the job in hand
                    api("DELETE", f"/v1/sessions/{session}")
                    session = api.session(2000)
                    continue
                job = answer["job"]["id"]
                wanted = "fail" if state == "Processing" and self.random.random() < 0.05 else "next"
                api("PUT", f"/v1/jobs/{job}/state",
                    {"state": wanted, "token": answer["token"], "session": session})
                self.moves.append((job, state))
                break
            else:
                time.sleep(0.02)


def finish(api, batches, seconds=120):
    """Waits until every batch is at an end or failed; failed jobs are tried again."""
    end = time.monotonic() + seconds
    while True:
        states = {b["id"]: b["state"] for b in api("GET", "/v1/batches")["batches"]}
        if all(states[batch] == "Completed" for batch in batches):
            return
        assert time.monotonic() < end, states
        for job in api("GET", "/v1/jobs?state=Failed")["jobs"]:
            if states[job["batch"]] == "Failed":
                api.try_call("POST", f"/v1/jobs/{job['id']}/requeue", {})
        time.sleep(0.05)


def test_consumers_that_die_while_jobs_are_held_and_released(tmp_path):
    """Every job ends once, every report is told once, nothing is left half done; and the server is
    killed in the middle."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    hook = f"echo $DROVER_REPORT >> {tmp_path}/keys"
    arguments = ("--data", tmp_path / "data", "--on-batch-done", hook)
    server = Server(*arguments).start()
    try:
        api = Api(server.port)
        batches = [api.batch() for _ in range(20 if SOAK else 4)]
        jobs = [job for batch in batches for job in api.jobs(batch, 5, lambda n: n * 10)]
        for kill in (True, False):
            stop = threading.Event()
            consumers = [Consumer(server.port, seed + i, stop) for i in range(8)]
            for consumer in consumers:
                consumer.start()
            chance = random.Random(seed)
            for _ in range(20):
                job = chance.choice(jobs)
                if api.try_call("POST", f"/v1/jobs/{job}/hold", {})[0] == 200:
                    api("POST", f"/v1/jobs/{job}/release", {})
            if not kill:
                finish(api, batches)
            stop.set()
            if kill:
                server.kill()
                server = Server(*arguments).start()
                api = Api(server.port)
            for consumer in consumers:
                consumer.join()
                assert kill or not consumer.failure, consumer.failure
        assert api("POST", "/v1/batches/fsck", {})["findings"] == []
        assert {job["state"] for job in api("GET", "/v1/jobs")["jobs"]} == {"Completed"}
        keys = (tmp_path / "keys").read_text().split()
        assert {key.split("-")[0] for key in keys} == set(batches)
        # A hook may be called again for a report whose server died; no key but that one comes twice.
        assert len(keys) - len(set(keys)) <= 1
        assert server.stop() == 0, server.said
    finally:
        server.kill()


def test_workers_that_are_killed(start, tmp_path):
    """The real consumer, kill -9 with a job in hand: another does it when the session is over."""
    server = start()
    api = Api(server.port)
    batch = api.batch()
    job = api.job(batch)
    environment = {**os.environ, "DROVER_URL": f"http://127.0.0.1:{server.port}"}
    command = [BINARY, "job", "work", "--state", "Pending", "--until-empty"]
    first = subprocess.Popen([*command, "--timeout", "2s", "--", "sh", "-c",
                              f"echo in > {tmp_path}/in; exec sleep 300"],
                             env=environment, start_new_session=True)
    try:
        end = time.monotonic() + DEADLINE_S
        while not (tmp_path / "in").exists():
            assert time.monotonic() < end
            time.sleep(0.02)
        first.kill()
        while api.state_of("jobs", job) == "Pending":
            assert time.monotonic() < end
            subprocess.run([*command, "--", "true"], env=environment, check=True, timeout=DEADLINE_S)
            time.sleep(0.1)
    finally:
        first.kill()
        first.wait()
    assert api.state_of("jobs", job) == "Estimating"
    assert server.stop() == 0


def test_priorities_are_honoured(start):
    server = start()
    api = Api(server.port)
    session, batch = api.session(), api.batch()
    chance = random.Random(7)
    priorities = [chance.randrange(100) for _ in range(50)]
    jobs = api.jobs(batch, 50, lambda n: priorities[n])
    wanted = [job for _, job in sorted(zip(priorities, jobs))]
    api("PUT", f"/v1/jobs/{wanted[-1]}/priority", {"priority": 0})
    zero = [job for priority, job in sorted(zip(priorities, jobs)) if priority == 0]
    wanted = sorted(zero + [wanted[-1]]) + [job for job in wanted[:-1] if job not in zero]
    got = [api("POST", "/v1/jobs/acquire", {"session": session, "state": "Pending"})["job"]["id"]
           for _ in jobs]
    assert got == wanted
    assert server.stop() == 0


def foreign(port, hosts=None):
    kazoo = pytest.importorskip("kazoo.client")
    client = kazoo.KazooClient(hosts=hosts or f"127.0.0.1:{port}")
    client.start()
    return client


def foreign_steps(client, job, batch, old, new, priority="50", stop_after=9):
    """What the document describes, step by step, without a transaction; it may die after any."""
    listed = {"completed": "batch-completed", "failed": "batch-failed"}.get(new)
    status = f'{{"status": "{new.capitalize()}", "last_successful_status": "{old.capitalize()}"}}'
    steps = [lambda: client.set(f"/jobs/{job}/status", status.encode()),
             lambda: client.delete(f"/jobs/states/{old}/{priority}-{job}"),
             lambda: client.create(f"/jobs/states/{new}/{priority}-{job}")]
    if listed:
        steps += [lambda: client.delete(f"/batches/{batch}/states/batch-processing/{job}"),
                  lambda: client.create(f"/batches/{batch}/states/{listed}/{job}")]
    for step in steps[:stop_after]:
        step()
    return len(steps)


def test_what_a_foreign_client_left_half_done_is_named_and_repaired(start):
    server = start()
    api = Api(server.port)
    client = foreign(server.zk_port)
    session = api.session()
    try:
        for old, new, count in (("pending", "estimating", 3), ("notify", "completed", 5)):
            for steps in range(1, count + 1):
                batch = api.batch()
                job = api.job(batch)
                while api.state_of("jobs", job).lower() != old:
                    api.move(job)
                assert foreign_steps(client, job, batch, old, new, stop_after=steps) == count
                # Ours goes on beside it and touches nothing that is half done.
                api("POST", "/v1/jobs/acquire", {"session": session, "state": new.capitalize()}
                    ) if new == "estimating" and steps < count else None
                found = api("POST", "/v1/batches/fsck", {})["findings"]
                whole = steps == count
                if not whole:
                    assert job in {finding["id"] for finding in found}
                repaired = api("POST", "/v1/batches/fsck", {"repair": True})["findings"]
                assert all(finding["repaired"] for finding in repaired), repaired
                assert api("POST", "/v1/batches/fsck", {})["findings"] == []
                assert api.state_of("jobs", job).lower() == new
        # A foreigner ends the last job of a batch: the batch is reported all the same.
        batch = api.batch()
        job = api.job(batch)
        for _ in range(6):
            api.move(job)
        api("PUT", f"/v1/batches/{batch}/state", {"state": "Processing"})
        foreign_steps(client, job, batch, "notify", "completed")
        found = api("POST", "/v1/batches/fsck", {"repair": True})["findings"]
        assert [finding["id"] for finding in found] == [batch]
        assert api.state_of("batches", batch) == "Reporting"
    finally:
        client.stop()
        client.close()
    assert server.stop() == 0


def test_rubbish_in_foreign_nodes(start):
    server = start()
    api = Api(server.port)
    session, batch = api.session(), api.batch()
    bad, good = api.jobs(batch, 2)
    client = foreign(server.zk_port)
    try:
        client.create("/jobs/states/pending/rubbish", b"")
        client.create("/jobs/states/pending/00-jid9999999999", b"")
        client.create("/jobs/junk", b"\xff")
        client.create("/batches/junk", b"")
        for rubbish in (b"", b"{", b"[]", b'{"status": 7}', b'{"status": "Nowhere"}', b"\xff\xfe"):
            client.set(f"/jobs/{bad}/status", rubbish)
            assert "jid" in api.refuse(500, "GET", f"/v1/jobs/{bad}")
            assert "status" in api.refuse(500, "PUT", f"/v1/jobs/{bad}/state", {"state": "next"})
            named = {f["id"] for f in api("POST", "/v1/batches/fsck", {})["findings"]}
            assert {bad, "jid9999999999", "/jobs/junk", "/batches/junk"} <= named
        taken = api("POST", "/v1/jobs/acquire", {"session": session, "state": "Pending"})
        assert taken["job"]["id"] == good
        client.set(f"/batches/{batch}/status", b"rubbish")
        assert "bid" in api.refuse(500, "GET", f"/v1/batches/{batch}")
        assert api("GET", "/v1/batches")["batches"] == []
    finally:
        client.stop()
        client.close()
    assert server.stop() == 0


def test_a_foreign_batch_is_found(start):
    server = start()
    api = Api(server.port)
    session = api.session()
    client = foreign(server.zk_port)
    try:
        assert api("POST", "/v1/batches/acquire", {"session": session}) == {"batch": None}
        path = client.create("/batches/bid", b"", sequence=True)
        for name in ("batch-processing", "batch-failed", "batch-completed", "batch-deleted"):
            client.create(f"{path}/states/{name}", b"", makepath=True)
        client.create(f"{path}/submission", b"{}")
        client.create(f"{path}/status", b'{"status": "Pending"}')
        # Seen before it had a status, it is looked at again with the next sweep, every 30 s.
        deadline, taken = time.monotonic() + 90, None
        while not taken:
            assert time.monotonic() < deadline
            taken = api("POST", "/v1/batches/acquire", {"session": session, "wait": 1000})["batch"]
        assert taken["id"] == path.rsplit("/", 1)[1]
        assert api.batch() > taken["id"]
    finally:
        client.stop()
        client.close()
    assert server.stop() == 0


def test_an_ensemble_that_loses_its_leader(tmp_path):
    """Two servers on three ZooKeepers, consumers on both; the leader is killed in the middle."""
    with zookeeper.Ensemble(tmp_path / "zk", nodes=3) as ensemble:
        servers = []
        try:
            for _ in range(2):
                servers.append(Server("--zk", "none", "--keeper", ensemble.url(), "--on-batch-done",
                                      f"echo $DROVER_REPORT >> {tmp_path}/keys"))
            for server in servers:
                server.port = int(server.wait_for(r"listening on http://127\.0\.0\.1:(\d+)\n")[1])
            api = Api(servers[0].port)
            end = time.monotonic() + DEADLINE_S
            while api.try_call("GET", "/v1/batches")[0] != 200:
                assert time.monotonic() < end
                time.sleep(0.1)
            batches = [api.batch() for _ in range(3)]
            jobs = [job for batch in batches for job in api.jobs(batch, 4)]
            killed = threading.Event()
            consumers = [threading.Thread(target=steady, args=(server.port, killed, batches, tmp_path))
                         for server in servers for _ in range(2)]
            for consumer in consumers:
                consumer.start()
            ensemble.leader().kill()
            killed.set()
            for consumer in consumers:
                consumer.join()
            end = time.monotonic() + DEADLINE_S
            while True:
                status, answer = api.try_call("GET", "/v1/batches")
                if status == 200 and {b["state"] for b in answer["batches"]} == {"Completed"}:
                    break
                assert time.monotonic() < end, answer
                time.sleep(0.1)
            assert {job["state"] for job in api("GET", "/v1/jobs")["jobs"]} == {"Completed"}
            assert len(api("GET", "/v1/jobs")["jobs"]) == len(jobs)
            assert api("POST", "/v1/batches/fsck", {})["findings"] == []
            assert {key.split("-")[0] for key in (tmp_path / "keys").read_text().split()} == set(batches)
        finally:
            for server in servers:
                server.kill()


def steady(port, killed, batches, tmp_path):
    """A consumer that goes on whatever the server answers, until all jobs are done."""
    api, session, end = Api(port), None, time.monotonic() + 120
    while time.monotonic() < end:
        if not session:
            status, answer = api.try_call("POST", "/v1/sessions", {"timeout": 10000})
            session = answer["session"] if status == 200 else None
            if not session:
                time.sleep(0.2)
                continue
        worked = False
        for state in reversed(STEPS):
            status, answer = api.try_call("POST", "/v1/jobs/acquire",
                                          {"session": session, "state": state})
            if status != 200:
                session = None if status == 410 else session
                time.sleep(0.1)
                break
            if not answer["job"]:
                continue
            worked = True
            status, _ = api.try_call("PUT", f"/v1/jobs/{answer['job']['id']}/state",
                                     {"state": "next", "token": answer["token"], "session": session})
            break
        if not worked and killed.is_set():
            status, answer = api.try_call("GET", "/v1/jobs")
            if status == 200 and {job["state"] for job in answer["jobs"]} == {"Completed"}:
                return
            time.sleep(0.05)
