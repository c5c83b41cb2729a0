"""Many consumers at once: some are killed, jobs are held and released meanwhile, foreign clients work in
steps, and an ensemble loses its leader."""

import bisect
import os
import random
import re
import socket
import subprocess
import threading
import time

import pytest

import zk
from batch_api import Api
from conftest import BINARY, DEADLINE_S, Server, drover, wait_until

pytestmark = pytest.mark.slow

SOAK = bool(os.environ.get("DROVER_SOAK"))
STEPS = ["Pending", "Estimating", "Provisioning", "Downloading", "Processing", "Recording", "Notify"]


class Consumers:
    """Processes of `drover job work`, one for each state and one more; each runs a command that takes some
    time, fails sometimes, and prints its job."""

    def __init__(self, port, log, seed):
        self.log, self.random = log, random.Random(seed)
        self.environment = {**os.environ, "DROVER_URL": f"http://127.0.0.1:{port}", "LOG": str(log)}
        self.processes, self.kills = {}, 0  # kills: of those that begin jobs
        for n, state in enumerate([*STEPS, "Estimating"]):
            self.start(n, state)

    def start(self, n, state):
        script = 'echo $DROVER_STATE $DROVER_JOB >> "$LOG"; sleep 0.01; test $(($$ % 25)) != 7'
        command = [BINARY, "job", "work", "--state", state, "--timeout", "3s", "--", "sh", "-c", script]
        self.processes[n] = state, subprocess.Popen(command, env=self.environment,
                                                    stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill_one(self):
        n = self.random.randrange(len(self.processes))
        state, process = self.processes[n]
        self.kills += state == "Pending"
        process.kill()
        process.wait()
        self.start(n, state)

    def end(self):
        for _, process in self.processes.values():
            process.kill()
            process.wait()


class Ends(threading.Thread):
    """Reads the events and records every job that ends."""

    def __init__(self, server, ended):
        super().__init__()
        self.ended = ended
        self.connection = server.connect()
        self.connection.send(server.fill(
            "GET /v1/events?kind=job&state=Completed HTTP/1.1\r\nHost: HOST\r\n\r\n"))
        self.connection.read_to_end_of_head()
        self.start()

    def run(self):
        self.connection.socket.settimeout(None)
        try:
            while self.connection.read_more():
                pass
        except (OSError, ValueError):
            pass  # the server was killed, or the test is over
        self.ended += re.findall(rb'"job":"(jid\d+)"', self.connection.bytes)

    def stop(self):
        try:
            self.connection.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.join()


def finish(api, batches, seconds=120):
    """Waits until every batch is in a final state or Failed; requeues failed jobs."""
    def all_completed():
        states = {b["id"]: b["state"] for b in api("GET", "/v1/batches")["batches"]}
        if all(states[batch] == "Completed" for batch in batches):
            return True
        for job in api("GET", "/v1/jobs?state=Failed")["jobs"]:
            if states[job["batch"]] == "Failed":
                api.send("POST", f"/v1/jobs/{job['id']}/requeue", {})
        return False

    wait_until(all_completed, lambda: f"all completed: {api('GET', '/v1/batches')}", seconds, 0.05)


def check_order(log, priorities, held, kills):
    """Jobs start by priority, except those that were held, and one for each killed consumer: they start
    later, and a killed consumer may not have printed its job yet."""
    taken = [line.split()[1] for line in log.read_text().splitlines() if line.startswith("Pending ")]
    steady = [(priorities[job], job) for job in taken if taken.count(job) == 1 and job not in held]
    assert steady
    in_order = []  # longest increasing subsequence: the lowest last item for each length
    for key in steady:
        at = bisect.bisect(in_order, key)
        in_order[at:at + 1] = [key]
    assert len(steady) - len(in_order) <= kills, steady


def test_consumers_that_are_killed_while_jobs_are_held_and_released(tmp_path):
    """Eight processes, kill -9 at random, also of the server: every job ends once, every report is sent,
    nothing is left half done, and jobs start by priority."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    log, ended = tmp_path / "log", []
    arguments = ["--data", tmp_path / "data", "--on-batch-done", f"echo $DROVER_REPORT >> {tmp_path}/keys"]
    server = Server(*arguments).start()
    listener = consumers = None
    try:
        arguments += ["--http", f"127.0.0.1:{server.port}"]  # the consumers reconnect to this address
        api = Api(server.port)
        batches = [api.batch() for _ in range(20 if SOAK else 4)]
        jobs = [job for batch in batches for job in api.jobs(batch, 6, lambda n: n * 10)]
        priorities = {job: api("GET", f"/v1/jobs/{job}")["job"]["priority"] for job in jobs}
        held = set()
        listener = Ends(server, ended)
        consumers = Consumers(server.port, log, seed)
        for turn in range(60 if SOAK else 12):
            if turn == 6:
                server.kill()
                listener.join()
                server = Server(*arguments).start()
                api, listener = Api(server.port), Ends(server, ended)
            consumers.kill_one()
            job = chance.choice(jobs[::2])  # the others show the order
            if api.send("POST", f"/v1/jobs/{job}/hold", {})[0] == 200:
                held.add(job)
                api("POST", f"/v1/jobs/{job}/release", {})
        finish(api, batches)
        consumers.end()
        listener.stop()
        assert api("POST", "/v1/batches/fsck", {})["findings"] == []
        assert {job["state"] for job in api("GET", "/v1/jobs")["jobs"]} == {"Completed"}
        assert len(ended) == len(set(ended)), "a job ended twice"
        check_order(log, priorities, held, consumers.kills + 1)
        keys = (tmp_path / "keys").read_text().split()
        assert {key.split("-")[0] for key in keys} == set(batches)
        # The hook may run again for a report whose server died; no other key occurs twice.
        assert len(keys) - len(set(keys)) <= 1
        assert server.stop() == 0, server.said
    finally:
        if consumers:
            consumers.end()
        server.kill()
        if listener:
            listener.stop()


def test_workers_that_are_killed(start, tmp_path):
    """kill -9 of a consumer that has locked a job: another one gets the job when the session has ended."""
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
        wait_until((tmp_path / "in").exists, "the command")
        first.kill()

        def taken_over():
            subprocess.run([*command, "--", "true"], env=environment, check=True, timeout=DEADLINE_S)
            return api.state_of("jobs", job) != "Pending"

        wait_until(taken_over, "the end of the session")
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


def foreign(hosts):
    kazoo = pytest.importorskip("kazoo.client")
    patient = {"max_tries": -1, "max_delay": 1}
    client = kazoo.KazooClient(hosts=hosts, timeout=30, command_retry=patient, connection_retry=patient)
    client.start()
    return client


@pytest.fixture(params=["embedded", "zookeeper"])
def beside(request, start):
    """A server and a foreign client on one tree: that of the server, or of a real ZooKeeper."""
    if request.param == "embedded":
        server = start()
        client = foreign(f"127.0.0.1:{server.zk_port}")
    else:
        root = f"/{request.node.name.split('[')[0]}"
        one = request.getfixturevalue("zookeeper")
        server = Server("--zk", "none", "--keeper", one.url(root))
        server.port = int(server.wait_for(r"listening on http://127\.0\.0\.1:(\d+)\n")[1])
        client = foreign(one.hosts + root)
    api = Api(server.port)
    wait_for_keeper(api)
    yield api, client
    client.stop()
    client.close()
    try:
        assert server.stop() == 0, server.said
    finally:
        server.kill()


def wait_for_keeper(api):
    wait_until(lambda: api.send("GET", "/v1/batches")[0] == 200, "the keeper")


def foreign_steps(client, job, batch, old, new, priority="50", stop_after=9):
    """The steps of the specification, without a transaction; it can die after each of them."""
    listed = {"completed": "batch-completed", "failed": "batch-failed"}.get(new)
    status = f'{{"status": "{new.capitalize()}", "last_successful_status": "{old.capitalize()}"}}'
    steps = [lambda: client.set(f"/jobs/{job}/status", status.encode()),
             lambda: client.delete(f"/jobs/states/{old}/{priority}-{job}"),
             lambda: client.create(f"/jobs/states/{new}/{priority}-{job}")]
    if listed:
        steps += [lambda: client.delete(f"/batches/{batch}/states/batch-processing/{job}"),
                  lambda: client.ensure_path(f"/batches/{batch}/states/{listed}/{job}")]
    for step in steps[:stop_after]:
        step()
    return len(steps)


def test_what_a_foreign_client_left_half_done_is_named_and_repaired(beside):
    api, client = beside
    session = api.session()
    for old, new, count in (("pending", "estimating", 3), ("notify", "completed", 5)):
        for steps in range(1, count + 1):
            batch = api.batch()
            job = api.job(batch)
            while api.state_of("jobs", job).lower() != old:
                api.move(job)
            assert foreign_steps(client, job, batch, old, new, stop_after=steps) == count
            # Drover keeps working beside it and does not touch half-created items.
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
    # A foreign client ends the last job of a batch: the batch is reported.
    batch = api.batch()
    job = api.job(batch)
    for _ in range(6):
        api.move(job)
    api("PUT", f"/v1/batches/{batch}/state", {"state": "Processing"})
    foreign_steps(client, job, batch, "notify", "completed")
    found = api("POST", "/v1/batches/fsck", {"repair": True})["findings"]
    assert {finding["id"] for finding in found} <= {batch}  # the server may have noticed by itself
    api.wait_state("batches", batch, ["Reporting"])


def test_rubbish_in_foreign_nodes(beside):
    api, client = beside
    session, batch = api.session(), api.batch()
    bad, good = api.jobs(batch, 2)
    client.create("/jobs/states/pending/rubbish", b"")
    client.create("/jobs/states/pending/00-jid9999999999", b"")
    client.create("/jobs/junk", b"\xff")
    client.create("/batches/junk", b"")
    for rubbish in (b"", b"{", b"[]", b'{"status": 7}', b'{"status": "no/where"}', b"\xff\xfe"):
        client.set(f"/jobs/{bad}/status", rubbish)
        assert "jid" in api.refuse(500, "GET", f"/v1/jobs/{bad}")
        assert "status" in api.refuse(500, "PUT", f"/v1/jobs/{bad}/state", {"state": "next"})
        named = {f["id"] for f in api("POST", "/v1/batches/fsck", {})["findings"]}
        assert {bad, "jid9999999999", "/jobs/junk", "/batches/junk"} <= named
    for words in ([], ["--json"]):
        found = drover("batch", "fsck", "--server", f"http://127.0.0.1:{api.connection.port}", *words)
        assert found.returncode == 1 and "/jobs/junk" in found.stdout, found
    taken = api("POST", "/v1/jobs/acquire", {"session": session, "state": "Pending"})
    assert taken["job"]["id"] == good
    client.set(f"/batches/{batch}/status", b"rubbish")
    assert "bid" in api.refuse(500, "GET", f"/v1/batches/{batch}")
    assert api("GET", "/v1/batches")["batches"] == []


def test_a_foreign_batch_is_found(beside):
    api, client = beside
    session = api.session()
    assert api("POST", "/v1/batches/acquire", {"session": session}) == {"batch": None}
    path = client.create("/batches/bid", b"", sequence=True)
    for name in ("batch-processing", "batch-failed", "batch-completed", "batch-deleted"):
        client.create(f"{path}/states/{name}", b"", makepath=True)
    client.create(f"{path}/submission", b"{}")
    # Seen before it has a status, it is found once it has one, also by a waiting request.
    assert api("POST", "/v1/batches/acquire", {"session": session}) == {"batch": None}
    client.create(f"{path}/status", b'{"status": "Pending"}')
    taken = api("POST", "/v1/batches/acquire", {"session": session, "wait": 60000})["batch"]
    assert taken["id"] == path.rsplit("/", 1)[1]
    assert api.batch() > taken["id"]


def foreign_worker(client, batch, count, done):
    """A foreign client that creates jobs in a batch of ours and moves them to the end in the steps of the
    specification; what fails is tried again, as such clients do, or left as it is."""
    kazoo_errors = pytest.importorskip("kazoo.exceptions")
    handler_errors = pytest.importorskip("kazoo.handlers.threading")
    dirs = [state.lower() for state in STEPS] + ["completed"]
    try:
        for _ in range(count):
            job = client.retry(client.create, "/jobs/jid", b"", sequence=True).rsplit("/", 1)[1]
            for node, data in (("bid", batch.encode()), ("configuration", b"{}"), ("priority", b"50"),
                               ("status", b'{"status": "Pending"}')):
                client.retry(client.ensure_path, f"/jobs/{job}/{node}")
                client.retry(client.set, f"/jobs/{job}/{node}", data)
            client.retry(client.ensure_path, f"/jobs/states/pending/50-{job}")
            client.retry(client.ensure_path, f"/batches/{batch}/states/batch-processing/{job}")
            try:
                client.create(f"/jobs/{job}/lock", b"", ephemeral=True)
                for old, new in zip(dirs, dirs[1:]):
                    foreign_steps(client, job, batch, old, new)
                client.delete(f"/jobs/{job}/lock")
            except (kazoo_errors.KazooException, handler_errors.KazooTimeoutError):
                pass  # Drover was faster, or the connection broke
            done.append(job)
    finally:
        client.stop()
        client.close()


def test_an_ensemble_that_loses_its_leader(tmp_path):
    """Two servers on three ZooKeepers, consumers on both, and a foreign client; the leader is killed
    meanwhile."""
    with zk.Ensemble(tmp_path / "zk", nodes=3) as ensemble:
        servers = []
        try:
            for _ in range(2):
                servers.append(Server("--zk", "none", "--keeper", ensemble.url(), "--on-batch-done",
                                      f"echo $DROVER_REPORT >> {tmp_path}/keys"))
            for server in servers:
                server.port = int(server.wait_for(r"listening on http://127\.0\.0\.1:(\d+)\n")[1])
            api = Api(servers[0].port)
            wait_for_keeper(api)
            batches = [api.batch() for _ in range(3)]
            jobs = [job for batch in batches for job in api.jobs(batch, 4)]
            theirs, kept_open = [], api.batch()
            api("PUT", f"/v1/batches/{kept_open}/state", {"state": "Processing"})
            killed = threading.Event()
            consumers = [threading.Thread(target=steady, args=(server.port, killed, jobs))
                         for server in servers for _ in range(2)]
            consumers.append(threading.Thread(target=foreign_worker,
                                              args=(foreign(ensemble.hosts), kept_open, 4, theirs)))
            for consumer in consumers:
                consumer.start()
            ensemble.leader().kill()
            killed.set()
            for consumer in consumers:
                consumer.join()
            wait_for_states(api, {batch: "Completed" for batch in batches})
            assert {state for job, state in job_states(api).items() if job in jobs} == {"Completed"}
            keys = (tmp_path / "keys").read_text().split()
            assert set(batches) <= {key.split("-")[0] for key in keys}
            # What the foreign client left half done is reported and repaired, and can be moved again.
            api("POST", "/v1/batches/fsck", {"repair": True})
            known = {*batches, kept_open, *jobs, *theirs}
            assert findings(api, known) == []
            assert len(theirs) == 4
            for job, state in job_states(api).items():
                if state != "Completed" and job in known:
                    finish_job(api, job)
            wait_for_states(api, {kept_open: "Completed"})
            assert findings(api, known) == []
        finally:
            for server in servers:
                server.kill()


def findings(api, known):
    """Of fsck, about these. A foreign create whose answer was lost with the connection has also left
    a job of which nobody knows and which never gets a status: fsck names it and leaves it alone."""
    return [one for one in api("POST", "/v1/batches/fsck", {})["findings"] if one["id"] in known]


def job_states(api):
    return {job["id"]: job["state"] for job in api("GET", "/v1/jobs")["jobs"]}


def finish_job(api, job):
    """Moves a job that a consumer may have moved meanwhile."""
    def completed():
        api.send("PUT", f"/v1/jobs/{job}/state", {"state": "next"})
        return api.state_of("jobs", job) == "Completed"

    wait_until(completed, f"the end of {job}", pause_s=0)


def wait_for_states(api, wanted, seconds=60):
    def there():
        status, answer = api.send("GET", "/v1/batches")
        found = {b["id"]: b["state"] for b in answer["batches"]} if status == 200 else {}
        return wanted.items() <= found.items()

    wait_until(there, lambda: f"{wanted} in {api.send('GET', '/v1/batches')}", seconds, 0.1)


def steady(port, killed, jobs):
    """A consumer that continues after any answer of the server, until all those jobs are done."""
    api, session, end = Api(port), None, time.monotonic() + 120
    while time.monotonic() < end:
        if not session:
            status, answer = api.send("POST", "/v1/sessions", {"timeout": 10000})
            session = answer["session"] if status == 200 else None
            if not session:
                time.sleep(0.2)
                continue
        worked = False
        for state in reversed(STEPS):
            status, answer = api.send("POST", "/v1/jobs/acquire",
                                      {"session": session, "state": state})
            if status != 200:  # the job may be locked nevertheless: close the session
                api.send("DELETE", f"/v1/sessions/{session}")
                session = None
                time.sleep(0.1)
                break
            if not answer["job"]:
                continue
            worked = True
            status, _ = api.send("PUT", f"/v1/jobs/{answer['job']['id']}/state",
                                     {"state": "next", "token": answer["token"], "session": session})
            if status >= 500:
                api.send("DELETE", f"/v1/sessions/{session}")
                session = None
            break
        if not worked and killed.is_set():
            status, answer = api.send("GET", "/v1/jobs")
            if status == 200 and {job["state"] for job in answer["jobs"] if job["id"] in jobs} == {"Completed"}:
                return
            time.sleep(0.05)
