"""A data directory that drover 0.1 wrote: it opens, shows what 0.1 showed, and can be worked with.

test/data/make_0_1 made the directory and describes the file of answers. An answer may have members
that 0.1 did not know; those that it had must be there, with the same values.
"""

import base64
import json
import pathlib
import signal
import tarfile

import pytest
from kazoo.client import KazooClient

from batch_api import Api
from cli import Client
from conftest import DEADLINE_S, drover, wait_until
from dag_support import Dag
from queue_support import ENVIRONMENT
from test_serve import listing

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
WANTED = json.loads((DATA / "drover-0.1.json").read_text())
USE = WANTED["use"]
SESSION = USE["session"]
ANY = "<any>"
LOST = [node["id"] for one in WANTED["answers"] if one["path"] == "/v1/nodes"
        for node in one["answer"] if node.get("reason") == ANY]
DAG_GROUPS = {"far", "near"}
DAG_ROUTES = ("/v1/nodes", "/v1/scheduler")
CLIENT = 1643  # to whom the claimed tasks belong
STAT = ("czxid", "mzxid", "ctime", "mtime", "version", "cversion", "aversion", "ephemeralOwner",
        "dataLength", "numChildren", "pzxid")


@pytest.fixture
def data(tmp_path):
    directory = tmp_path / "data"
    directory.mkdir(mode=0o700)
    with tarfile.open(DATA / "drover-0.1.tar.xz") as archive:
        archive.extractall(directory)
    return directory


@pytest.fixture
def open_it(data, start):
    """Starts a server on the directory, and waits until it has ended what ran in 0.1 itself."""
    def one():
        server = start(*WANTED["options"])
        assert Dag(server.port).wait(*LOST) == ["failed"]
        return server
    return one


def compare(wanted, found, where):
    """What is missing or different, one line each. Members that are new are no difference."""
    if wanted == ANY:
        return
    if type(wanted) is not type(found):
        yield f"{where}: {wanted!r} became {found!r}"
    elif isinstance(wanted, dict):
        for name, value in wanted.items():
            if name in found:
                yield from compare(value, found[name], f"{where}.{name}")
            else:
                yield f"{where}.{name} is missing"
    elif isinstance(wanted, list):
        if len(wanted) != len(found):
            yield f"{where}: {len(wanted)} elements became {len(found)}: {wanted} {found}"
        for i, (one, other) in enumerate(zip(wanted, found)):
            yield from compare(one, other, f"{where}[{i}]")
    elif wanted != found:
        yield f"{where}: {wanted!r} became {found!r}"


def in_order(path, answer):
    """The tasks of a group come in any order. Which tasks the DAG has for its nodes is its own. What
    fsck finds is told by use_pending_batches()."""
    if path == "/v1/batches/fsck":
        return {**answer, "findings": ANY}
    if path.startswith("/group/") and isinstance(answer, list):
        return sorted(answer, key=lambda task: task["id"])
    if path == "/groups":
        return [group for group in answer if group not in DAG_GROUPS]
    return answer


def differences(server, requests):
    """The nodes are asked for first: the run of an agent that is not heard of ends later."""
    api, found = Api(server.port), []
    for one in sorted(requests, key=lambda one: not one["path"].startswith(DAG_ROUTES)):
        path = one["path"]
        status, answer = api.send(one["method"], path, one.get("body"))
        found += compare(one["status"], status, f"{path}: status")
        found += compare(in_order(path, one["answer"]), in_order(path, answer), path)
    return found


def connect(server):
    client = KazooClient(hosts=f"127.0.0.1:{server.zk_port}")
    client.start(timeout=DEADLINE_S)
    client.add_auth("digest", ":".join(WANTED["digest"]))
    return client


# How many nodes this version creates below nodes of 0.1 when it opens the data: /locks/localid.
ADDED = {"/locks": 1}


def tree_differences(server):
    """What ZooKeeper's clients see; numChildren and pzxid show a node too many."""
    client, found = connect(server), []
    for path, wanted in WANTED["tree"].items():
        data, stat = client.get(path)
        added = ADDED.get(path)
        if added:
            stat = stat._replace(cversion=stat.cversion - added, numChildren=stat.numChildren - added,
                                 pzxid=wanted["stat"][STAT.index("pzxid")])
        acl = [[one.perms, one.id.scheme, one.id.id] for one in client.get_acls(path)[0]]
        found += compare(base64.b64decode(wanted["data"]), data, path)
        found += compare(wanted["acl"], acl, f"{path}: ACL")
        found += compare(dict(zip(STAT, wanted["stat"])), dict(zip(STAT, stat)), f"{path}: stat")
    client.stop()
    client.close()
    return found


def test_fsck_finds_it_whole(data):
    before = listing(data)
    done = drover("fsck", data)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{WANTED['nodes']} nodes" in done.stdout
    assert f"{WANTED['sessions']} sessions" in done.stdout
    assert listing(data) == before


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_it_shows_what_0_1_showed_and_again_after_a_restart(open_it, end):
    for _ in range(2):
        server = open_it()
        assert differences(server, WANTED["answers"]) == []
        assert tree_differences(server) == []
        server.signal(end)
        server.wait()


def test_the_older_snapshot_and_the_journal_hold_the_same(data, open_it):
    """A damaged snapshot costs time, nothing else."""
    newest = max(data.glob("snapshot-*"))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    server = open_it()
    assert differences(server, WANTED["answers"]) == []
    assert tree_differences(server) == []


def test_requests_are_still_remembered(open_it):
    """The same request under its requestid is not carried out again, and has the same answer."""
    server = open_it()
    assert len(WANTED["again"]) >= 4
    assert differences(server, WANTED["again"]) == []
    assert differences(server, WANTED["answers"]) == []


def use_tasks(api):
    """A task is claimed and finished; only its owner deletes an owned one; ids go on rising."""
    claim = {"clientid": 1, "group": "work", "duration": 60000}
    [task] = api("POST", "/claim", claim)["tasks"]
    assert task["data"] == "do it" and task["id"] > USE["available"]
    api("POST", "/update", {"clientid": 1, "deletes": [task["id"]]})
    mine, also_mine = USE["owned"]
    assert api.send("POST", "/update", {"clientid": 2, "deletes": [mine]})[0] == 409
    api("POST", "/update", {"clientid": CLIENT, "deletes": [mine]})
    return [(f"/task/{mine}", 404), (f"/task/{also_mine}", 200), (f"/task/{task['id']}", 404)]


def use_nodes(server, api, client):
    """The agent of then ends its node, whose child runs; a new agent runs the nodes that waited."""
    dag = Dag(server.port)
    run = USE["run"]
    api("POST", "/v1/agent/done", {
        "clientid": run["clientid"], "node": run["node"], "attempt": 1, "how": "exited",
        "status": 0, "reason": "", "stdout": "held\n", "stderr": "", "mixedout": "held\n"})
    below = str(int(run["node"]) + 1)
    agent = client.popen("agent", "--group", "far")
    try:
        states = dag.wait(run["node"], below, *USE["far"])
    finally:
        agent.terminate()
        agent.communicate(timeout=DEADLINE_S)
    assert states == ["finished"] * 6 + ["skipped"] + ["finished"] * 2  # the branch `else`
    assert dag.data(USE["far"][0], "stdout")["data"] == "from afar\n"
    assert dag.data(USE["far"][1], "stdout")["data"] == "at home\n"
    return [(f"/v1/nodes?state={state}&metadata=id", 200) for state in ("incipient", "running")]


def use_world(api):
    """The session stored by 0.1 completes its claimed task, and claims the next one."""
    here = {"session": SESSION, "node": USE["working"]}
    assert api("POST", "/v1/worlds/build/complete", here)["state"] == "completed"
    taken = api("POST", "/v1/worlds/build/claim", {"session": SESSION, "types": ["t", "u", "v"]})
    assert taken["node"] == "a1_t|a1-c_u|deep_v"
    assert taken["task"]["data"] == {"of": "deep", "n": [1, "\u0000"]}
    return [("/v1/worlds/build/tree", 200)]


def use_queue(api, client):
    """A message is posted; a worker continues after the last handled one."""
    queue = USE["queue"]
    last = int(api("GET", f"/v1/queues/{queue}")["last"])
    posted = api("POST", f"/v1/queues/{queue}/messages", {"data": "five"})["id"]
    messages = api("GET", f"/v1/queues/{queue}/messages")["messages"]
    assert [one["data"] for one in messages if int(one["id"]) > last] == ["three", "four", "five"]
    worker = client.popen("queue", "work", "--queues", queue, "--", "cat")
    try:
        wait_until(lambda: api("GET", f"/v1/queues/{queue}")["last"] == str(posted),
                   "the last message")
    finally:
        worker.terminate()
        handled = worker.communicate(timeout=DEADLINE_S)[0]
    assert handled == "threefourfive"
    return [(f"/v1/queues/{queue}/messages", 200), (f"/v1/queues/{USE['empty']}", 200)]


def use_pending_batches(server, api):
    """A batch of 0.1 has lists from the beginning. Ours acquires it; for the library of the document's
    authors it is pending once fsck has removed those that are empty."""
    client, session = connect(server), api.session()
    batches = {batch["id"]: batch for batch in api("GET", "/v1/batches?state=Pending")["batches"]}
    [new] = [bid for bid, batch in batches.items() if not any(batch["states"].values())]
    [found] = api("POST", "/v1/batches/fsck", {})["findings"]
    assert found["id"] == new and "'states'" in found["problem"]
    api.send("DELETE", "/v1/locks/queue/ingest")  # it would stop batches as well as jobs
    taken = [api("POST", "/v1/batches/acquire", {"session": session}) for _ in batches]
    assert [one["batch"]["id"] for one in taken] == list(batches)
    assert client.exists(f"/batches/{new}/states/batch-failed")
    api("DELETE", f"/v1/sessions/{session}")
    [found] = api("POST", "/v1/batches/fsck", {"repair": True})["findings"]
    assert found["repaired"] and not client.exists(f"/batches/{new}/states")
    assert api("POST", "/v1/batches/fsck", {})["findings"] == []
    client.stop()
    client.close()


def use_batches(server, api):
    """A job moves by the token of then, another by hand; the session's locks go with it."""
    job, token = USE["job"]["id"], USE["job"]["token"]
    assert api.move(job, token=token, session=SESSION) == "Provisioning"
    assert api.move(USE["pending_job"]) == "Estimating"
    item, token = USE["access"]["id"], USE["access"]["token"]
    api("PUT", f"/v1/access/small/{item}/state",
        {"state": "next", "token": token, "session": SESSION})
    api("DELETE", f"/v1/sessions/{SESSION}")
    assert {lock["kind"] for lock in api("GET", "/v1/locks")["locks"]} == {"queue", "collections"}
    use_pending_batches(server, api)
    return [(f"/v1/jobs/{job}", 200), (f"/v1/jobs/{USE['pending_job']}", 200),
            (f"/v1/access/small/{item}", 200), ("/v1/worlds/build/tasks?state=working", 200),
            (f"/v1/sessions/{SESSION}", 410)]


def use_tree(server):
    """Sequence numbers go on; ACLs hold for those without the password."""
    client = connect(server)
    assert client.create("/raw/seq-", b"new", sequence=True) == "/raw/seq-0000000018"
    client.set("/raw/mine", b"changed")
    client.stop()
    client.close()


@pytest.mark.slow
def test_it_can_be_worked_with(open_it, tmp_path):
    server = open_it()
    api = Api(server.port)
    client = Client(f"http://127.0.0.1:{server.port}", tmp_path, **{
        "LSAN_OPTIONS": ENVIRONMENT["LSAN_OPTIONS"]})
    look = use_nodes(server, api, client) + use_tasks(api) + use_world(api)
    look += use_queue(api, client) + use_batches(server, api)
    use_tree(server)
    assert [api.send("GET", path)[0] for path, _ in look] == [status for _, status in look]
    now = [{"method": "GET", "path": path, "status": status, "answer": api.send("GET", path)[1]}
           for path, status in look]
    for end in (signal.SIGKILL, signal.SIGTERM):
        server.signal(end)
        server.wait()
        server = open_it()
        assert differences(server, now) == []
