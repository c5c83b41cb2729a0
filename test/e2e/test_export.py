"""`drover export` and `drover import`: between an embedded keeper and an ensemble, both ways, with every module."""

import base64
import json
import signal
import subprocess
import threading

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.security import make_acl, make_digest_acl

from batch_api import Api
from conftest import (BINARY, DEADLINE_S, KEEPER_ONLY, NUMBERS, OnEnsemble, Server, call, drover,
                      wait_until)
from dag_support import Dag
from task_support import Tasks

PURGED = 3  # batches that are made and removed again


@pytest.fixture
def up(tmp_path, request):
    """Starts a server on a directory or on a URL."""
    servers = []

    def start_one(where, *arguments):
        if str(where).startswith("zk://"):
            servers.append(OnEnsemble(where, "--zk-timeout-ms", 4000, *arguments).start().leads())
        else:
            servers.append(Server("--data", where, *arguments).start())
        wait_until(lambda: call(servers[-1].port, "GET", "/readyz")[0] == 200, "it is ready")
        return servers[-1]

    yield start_one
    for server in servers:
        server.kill()


def export(to, *arguments):
    with open(to, "wb") as out:
        done = subprocess.run([BINARY, "export", *map(str, arguments)], stdout=out,
                              stderr=subprocess.PIPE, timeout=DEADLINE_S)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr
    return to


def import_to(file, where):
    option = "--keeper" if str(where).startswith("zk://") else "--data"
    return drover("import", file, option, where)


def imported(file, where):
    done = import_to(file, where)
    warning = done.stderr.startswith("drover: warning: transactions of the ensemble have lower numbers")
    assert done.returncode == 0 and (warning or not done.stderr), done
    return done.stdout


def lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def nodes(file):
    return {line["path"]: line for line in lines(file) if "path" in line}


def post(port, path, body):
    status, answer = call(port, "POST", path, body)
    assert status == 200, (path, answer)
    return answer


def command(text):
    return {"metadata": {"type": "command"}, "data": {"command": text}}


def live(port):
    """Something in each module: what waits, what is claimed, what has ended, what is gone."""
    tasks, dag, api = Tasks(port, 77), Dag(port), Api(port)
    tasks.add("mail", *[f"mail {n}" for n in range(30)])
    tasks.claim("mail", duration=3600 * 1000)
    tasks.update(deletes=tasks.add("short", "x", "y"))
    ran = dag.add(command("echo out"), command("exit 3"))
    dag.wait(*ran)
    post(port, "/v1/worlds", {"world": "build"})
    for name in ("one", "two", "three", "four"):
        post(port, "/v1/worlds/build/tasks", {"task": {"name": name, "type": "t", "data": [name]}})
    session = api.session()
    held = post(port, "/v1/worlds/build/claim", {"session": session, "types": ["t"]})
    post(port, "/v1/worlds/build/fail", {"session": session, "node": held["node"], "error": "once"})
    held = post(port, "/v1/worlds/build/claim", {"session": session, "types": ["t"]})
    post(port, "/v1/worlds/build/complete", {"session": session, "node": held["node"]})
    post(port, "/v1/queues", {"queue": "q"})
    for n in range(5):
        post(port, "/v1/queues/q/messages", {"messages": [f"message {n}"]})
    for n in range(3):
        api.jobs(api.batch(name=f"batch {n}"), 4, priority=lambda i: 10 + i)
    for n in range(PURGED):
        gone = api.batch(name="gone")
        api("POST", f"/v1/batches/{gone}/hold", {})
        api("PUT", f"/v1/batches/{gone}/state", {"state": "Deleted"})
        api("DELETE", f"/v1/batches/{gone}")


def timeless(answer):
    """Without the times of nodes, which an ensemble sets itself."""
    if isinstance(answer, dict):
        return {name: timeless(value) for name, value in answer.items() if name not in ("time", "queued", "since")}
    return [timeless(one) for one in answer] if isinstance(answer, (list, tuple)) else answer


def picture(port):
    """What the API shows of all that."""
    dag, api = Dag(port), Api(port)
    return {
        "mail": sorted(tuple(t.items()) for t in Tasks(port).group("mail", "?owned=yes")),
        "groups": Tasks(port).get("/groups"),
        "nodes": dag.get("/v1/nodes"),
        "output": dag.data(1, "stdout"),
        "tree": call(port, "GET", "/v1/worlds/build/tree"),
        "world": timeless(call(port, "GET", "/v1/worlds/build/tasks")),
        "queues": call(port, "GET", "/v1/queues"),
        "messages": call(port, "GET", "/v1/queues/q/messages"),
        "batches": api("GET", "/v1/batches"),
        "jobs": api("GET", "/v1/jobs"),
        "findings": api("POST", "/v1/batches/fsck", {}),
    }


def works_on(port, before):
    """Everything goes on: nothing is done twice, and no id is given twice."""
    tasks, dag, api = Tasks(port), Dag(port), Api(port)
    assert tasks.add("mail", "new")[0] > max(dict(task)["id"] for task in before["mail"])
    [node] = dag.add(command("true"))
    assert max(node["id"] for node in before["nodes"]) < node and dag.wait(node) == ["finished"]
    session = api.session()
    order = [post(port, "/v1/worlds/build/claim", {"session": session, "types": ["t"]})["node"]
             for _ in range(4)]
    assert order == ["three_t", "four_t", "one_t", None]  # one failed, two is done
    batch = api.batch(name="new")
    assert int(batch[3:]) == max(int(b["id"][3:]) for b in before["batches"]["batches"]) + PURGED + 1
    [job] = api.jobs(batch, 1)
    assert int(job[3:]) == max(int(j["id"][3:]) for j in before["jobs"]["jobs"]) + 1
    first = api("POST", "/v1/jobs/acquire", {"session": session, "state": "Pending"})
    assert first["job"]["id"] == min(before["jobs"]["jobs"], key=lambda j: (j["priority"], j["id"]))["id"]
    post(port, "/v1/queues/q/messages", {"messages": ["new"]})
    api("DELETE", f"/v1/sessions/{session}")


@pytest.fixture
def source(tmp_path, up):
    """A directory with all of that, and what it looked like."""
    server = up(tmp_path / "old")
    live(server.port)
    before = picture(server.port)
    assert server.stop() == 0
    return tmp_path / "old", before


def order_of(file):
    """The nodes in the order of creation, as far as that matters, and all of them."""
    together = {}
    for path, node in nodes(file).items():
        if not path.startswith("/drover"):
            together.setdefault(node["czxid"], set()).add(path)
    return [together[zxid] for zxid in sorted(together)], sorted(nodes(file))


def chroot(ensemble):
    return ensemble.url(f"/export-{next(NUMBERS)}")


def test_from_directory_to_directory(source, up, tmp_path):
    old, before = source
    file = export(tmp_path / "e", "--data", old)
    assert imported(file, tmp_path / "new") == f"imported {len(nodes(file))} nodes into {tmp_path / 'new'}\n"
    again = export(tmp_path / "e2", "--data", tmp_path / "new")
    assert lines(file)[1:-1] == lines(again)[1:-1]  # to the last number
    server = up(tmp_path / "new")
    assert picture(server.port) == before
    works_on(server.port, before)
    assert server.stop() == 0


def test_to_an_ensemble_and_back(source, up, zookeeper, tmp_path):
    old, before = source
    url = chroot(zookeeper)
    file = export(tmp_path / "e", "--data", old)
    imported(file, url)
    there = export(tmp_path / "there", "--keeper", url)
    assert order_of(there) == order_of(file)
    server = up(url)
    assert picture(server.port) == before
    works_on(server.port, before)
    after = picture(server.port)
    assert server.stop() == 0
    back = export(tmp_path / "back", "--keeper", url)
    assert lines(back)[0]["from"] == "ensemble"
    imported(back, tmp_path / "new")
    server = up(tmp_path / "new")
    assert picture(server.port) == after
    assert Tasks(server.port).add("mail", "newer")[0] > max(dict(task)["id"] for task in after["mail"])
    assert server.stop() == 0


def test_of_a_running_server(up, tmp_path, monkeypatch):
    """Nothing is left of the temporary files."""
    server = up(tmp_path / "old")
    live(server.port)
    before = picture(server.port)
    space = tmp_path / "space"
    space.mkdir()
    monkeypatch.setenv("TMPDIR", str(space))
    file = export(tmp_path / "e", "--server", f"http://127.0.0.1:{server.port}")
    assert list(space.iterdir()) == []
    imported(file, tmp_path / "new")
    copy = up(tmp_path / "new", "--jobs", "0")
    assert picture(copy.port) == before
    server.stop()


# What foreign clients store.

TTL_MS = 3600 * 1000
OPEN = [make_acl("world", "anyone", all=True)]
GUARDED = [make_acl("world", "anyone", read=True), make_digest_acl("ann", "secret", all=True)]
FOREIGN = {"/zk/text": "grün".encode(), "/zk/bytes": bytes(range(256)), "/zk/empty": b"",
           "/zk/half": b"\xed\xa0\x80", "/zk/name \u00fc \"x\"": b"{}"}


class Foreign:
    def __init__(self, hosts):
        self.zk = KazooClient(hosts=hosts)

    def __enter__(self):
        self.zk.start(timeout=DEADLINE_S)
        return self.zk

    def __exit__(self, *_):
        self.zk.stop()
        self.zk.close()


def fill(zk, extended=True):
    zk.create("/zk", b"top")
    for path, data in FOREIGN.items():
        zk.create(path, data)
    for _ in range(3):
        zk.set("/zk/text", FOREIGN["/zk/text"])
    zk.create("/zk/ephemeral", b"", ephemeral=True)
    zk.create("/zk/sequence")
    for n in range(700):
        path = zk.create("/zk/sequence/n-", b"", sequence=True)
        if n % 100:
            zk.delete(path)
    zk.create("/zk/used")
    zk.delete(zk.create("/zk/used/n-", b"", sequence=True))
    zk.create("/zk/guarded", b"g")
    zk.create("/zk/guarded/below", b"b")
    zk.set_acls("/zk/guarded", GUARDED)
    zk.create("/zk/large", b"x" * (1024 * 1024 - 200))


def check_filled(zk):
    zk.add_auth("digest", "ann:secret")
    for path, data in FOREIGN.items():
        assert zk.get(path)[0] == data, path
    assert not zk.exists("/zk/ephemeral")
    assert zk.get("/zk/text")[1].version >= 1 and zk.get("/zk/empty")[1].version == 0
    assert len(zk.get_children("/zk/sequence")) == 7
    assert zk.create("/zk/sequence/n-", b"", sequence=True) == "/zk/sequence/n-0000000700"
    assert zk.create("/zk/used/n-", b"", sequence=True) == "/zk/used/n-0000000001"
    assert sorted(zk.get_acls("/zk/guarded")[0]) == sorted(GUARDED)
    assert zk.get_acls("/zk/guarded/below")[0] == OPEN
    assert zk.get("/zk/guarded/below")[0] == b"b"
    assert len(zk.get("/zk/large")[0]) == 1024 * 1024 - 200


@pytest.fixture
def keeper(tmp_path):
    """Starts an embedded keeper on a directory, without modules: a function that gives its hosts."""
    servers = []

    def start_one(directory):
        servers.append(Server("--data", directory, *KEEPER_ONLY).start())
        return f"127.0.0.1:{servers[-1].zk_port}", servers[-1]

    yield start_one
    for server in servers:
        server.kill()


def test_foreign_nodes(keeper, zookeeper, tmp_path):
    """From directory to directory, to an ensemble, and back."""
    hosts, server = keeper(tmp_path / "a")
    with Foreign(hosts) as zk:
        fill(zk)
    assert server.stop() == 0
    file = export(tmp_path / "e", "--data", tmp_path / "a")
    assert base64.b64decode(nodes(file)["/zk/bytes"]["base64"]) == FOREIGN["/zk/bytes"]
    assert nodes(file)["/zk/text"]["data"] == "grün" and "/zk/ephemeral" not in nodes(file)
    url = chroot(zookeeper)
    imported(file, tmp_path / "b")
    imported(file, url)
    done = drover("export", "--keeper", url)
    assert done.returncode == 1 and "the access list of /zk/guarded is hidden" in done.stderr
    (tmp_path / "auth").write_text("ann:secret\n")
    back = export(tmp_path / "back", "--keeper", url, "--zk-auth", tmp_path / "auth")
    imported(back, tmp_path / "c")
    for directory in ("b", "c"):
        hosts, server = keeper(tmp_path / directory)
        with Foreign(hosts) as zk:
            check_filled(zk)
        server.stop()
    with Foreign(url.removeprefix("zk://")) as zk:
        check_filled(zk)


def test_containers_and_times_to_live(tmp_path, zookeeper):
    """Made by hand, because few clients can."""
    head = {"drover": "export", "version": 1, "from": "embedded", "zxid": 9, "time": 5}
    made = [{"path": "/c", "czxid": 1, "ctime": 1, "container": True},
            {"path": "/t", "data": "x", "czxid": 2, "ctime": 1, "ttl": TTL_MS}, {"end": 2}]
    file = tmp_path / "e"
    file.write_text("".join(json.dumps(line) + "\n" for line in [head, *made]))
    imported(file, tmp_path / "a")
    again = nodes(export(tmp_path / "e2", "--data", tmp_path / "a"))
    assert again["/c"]["container"] is True and again["/t"]["ttl"] == TTL_MS
    url = chroot(zookeeper)
    done = import_to(file, url)
    if done.returncode:  # a ZooKeeper without extendedTypesEnabled says so, and no server starts there
        assert "which this ensemble does not support" in done.stderr
    else:
        with Foreign(url.removeprefix("zk://")) as zk:
            assert zk.get("/t")[0] == b"x" and zk.exists("/c")


def test_the_order_of_changes_is_kept(keeper, zookeeper, tmp_path):
    """Also of what changed together: pzxid and mzxid compare as before, or are as good as equal."""
    hosts, server = keeper(tmp_path / "a")
    with Foreign(hosts) as zk:
        for name in ("together", "later", "before"):
            zk.create(f"/{name}/list/entry", b"", makepath=True)
            zk.create(f"/{name}/status", b"old")
        for name in ("together", "later", "before"):
            change = zk.transaction()
            if name == "later":
                zk.set("/later/status", b"new")
            change.delete(f"/{name}/list/entry")
            if name == "together":
                change.set_data("/together/status", b"new")
            change.commit()
        zk.set("/before/status", b"new")
    server.stop()
    url = chroot(zookeeper)
    imported(export(tmp_path / "e", "--data", tmp_path / "a"), url)
    with Foreign(url.removeprefix("zk://")) as zk:
        later = {name: zk.exists(f"/{name}/list").pzxid > zk.exists(f"/{name}/status").mzxid
                 for name in ("together", "later", "before")}
    assert later == {"together": False, "later": True, "before": False}


# An import that dies, and what is refused.

def start_import(file, url):
    return subprocess.Popen([BINARY, "import", str(file), "--keeper", url],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def progress(url):
    """How many steps of an import are done; None: no import is under way."""
    with Foreign(url.removeprefix("zk://")) as zk:
        if not zk.exists("/drover/importing"):
            return None
        return json.loads(zk.get("/drover/importing")[0])["done"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_import_that_dies_goes_on(source, up, zookeeper, tmp_path, number):
    old, before = source
    url = chroot(zookeeper)
    file = export(tmp_path / "e", "--data", old)
    deaths = 0
    with Foreign(url.removeprefix("zk://")) as zk:
        zk.ensure_path("/")
        for limit in (1, 20, 60, 100, 150):
            process = start_import(file, url)

            def there():
                if process.poll() is not None:
                    return True
                try:
                    return json.loads(zk.get("/drover/importing")[0])["done"] >= limit
                except NoNodeError:
                    return False

            wait_until(there, "the import has come so far", pause_s=0)
            process.send_signal(number)
            process.communicate(timeout=DEADLINE_S)
            deaths += process.returncode != 0
            if process.returncode == 0:
                break
            refused = subprocess.run([BINARY, "serve", "--keeper", url, "--http", "127.0.0.1:0"],
                                     capture_output=True, text=True, timeout=DEADLINE_S)
            assert refused.returncode == 1 and "is not complete: repeat drover import" in refused.stderr
    assert deaths
    if zk_state := progress(url):
        assert zk_state > 0
        imported(file, url)
    assert progress(url) is None
    there = export(tmp_path / "there", "--keeper", url)
    assert order_of(there) == order_of(file)
    server = up(url)
    assert picture(server.port) == before
    works_on(server.port, before)
    assert server.stop() == 0


def test_another_file_does_not_go_on(zookeeper, tmp_path, keeper):
    url = chroot(zookeeper)
    with Foreign(url.removeprefix("zk://")) as zk:
        zk.ensure_path("/")
        zk.create("/drover")
        zk.create("/drover/importing", b'{"file":"another","done":3,"of":9}')
    _, server = keeper(tmp_path / "a")
    server.stop()
    file = export(tmp_path / "e", "--data", tmp_path / "a")
    done = import_to(file, url)
    assert done.returncode == 1 and "an import of another file is not complete" in done.stderr
    done = drover("export", "--keeper", url)
    assert done.returncode == 1 and "is not complete" in done.stderr


def test_a_tree_that_is_not_empty(source, up, zookeeper, tmp_path):
    old, _ = source
    file = export(tmp_path / "e", "--data", old)
    url = chroot(zookeeper)
    with Foreign(url.removeprefix("zk://")) as zk:
        zk.ensure_path("/batches")
    done = import_to(file, url)
    assert done.returncode == 1 and "/batches is there already" in done.stderr
    with Foreign(url.removeprefix("zk://")) as zk:
        assert zk.get_children("/") == ["batches"]
        zk.delete("/batches")
        zk.create("/unrelated")
    imported(file, url)
    assert "/unrelated" in nodes(export(tmp_path / "e2", "--keeper", url))
    used = tmp_path / "used"
    used.mkdir()
    (used / "letter").write_text("")
    done = import_to(file, used)
    assert done.returncode == 1 and "is not empty" in done.stderr


def test_a_tree_that_changes_is_not_exported(zookeeper):
    """A client that writes all the time: the export fails, says so, and does not end the file."""
    url, stop = chroot(zookeeper), threading.Event()

    def write(zk):
        while not stop.is_set():
            zk.set("/a/z", b"y")

    with Foreign(url.removeprefix("zk://")) as zk:
        zk.ensure_path("/a/z")
        for n in range(500):
            zk.create(f"/a/{n}", b"x")
        writer = threading.Thread(target=write, args=[zk])
        writer.start()
        try:
            done = drover("export", "--keeper", url)
        finally:
            stop.set()
            writer.join()
    assert done.returncode == 1 and "/a/z was changed during the export" in done.stderr
    assert '"end"' not in done.stdout


def test_files_that_are_not_whole(keeper, tmp_path):
    hosts, server = keeper(tmp_path / "a")
    with Foreign(hosts) as zk:
        zk.create("/a", b"x")
    server.stop()
    file = export(tmp_path / "e", "--data", tmp_path / "a")
    text = file.read_text()
    rows = text.splitlines(keepends=True)
    for wrong, said in (("".join(rows[:-1]), "it has no end"),
                        (text[:-1], "the line is not complete"),
                        (text + "\n", "something stands behind the end"),
                        ("".join(rows[1:]), "begins an export"),
                        (rows[0] + text, "begins an export"),
                        (text.replace('"ctime":0', '"ctime":1', 1), "does not match its sum"),
                        (rows[0] + rows[1] + rows[-1], "but its end says"),
                        (rows[0] + rows[2] * 2 + '{"end":2}\n', "is there twice"),
                        (rows[0] + rows[2].replace("/a", "/b/a") + '{"end":1}\n', "is missing"),
                        (text.replace('"version":1', '"version":2', 1), "newer version"),
                        (text.replace("/", "", 1), "not a path"),
                        ("", "is empty"), ("{}\n", "not a path"), ("x\n", "line 1")):
        (tmp_path / "bad").write_text(wrong)
        done = import_to(tmp_path / "bad", tmp_path / "b")
        assert done.returncode == 1 and said in done.stderr, (said, done.stderr)
        assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("arguments, said", [
    (("export", "--data", "a", "--keeper", "zk://h"), "exclude each other"),
    (("export", "--zk-auth", "f"), "--zk-auth goes with --keeper"),
    (("export", "--keeper", "http://h"), "--keeper:"),
    (("export", "--data", "a", "--server", "h"), "--server does not go with"),
    (("import", "f"), "give either --data or --keeper"),
    (("import", "f", "--data", "a", "--keeper", "zk://h"), "give either --data or --keeper"),
    (("import",), "FILE"),
])
def test_wrong_use(arguments, said):
    done = drover(*arguments)
    assert done.returncode == 2 and said in done.stderr, done.stderr


def test_a_directory_in_use_is_not_exported(up, tmp_path):
    server = up(tmp_path / "a")
    done = drover("export", "--data", tmp_path / "a")
    assert done.returncode == 1 and f"in use by process {server.process.pid}" in done.stderr
    assert done.stdout == ""
