"""Who may do what: every route with every role, users on the Unix socket, tokens and their ends, commands."""

import json
import os
import pathlib
import pwd
import stat
import subprocess
import tempfile

import pytest

from conftest import BINARY, DEADLINE_S, Http, Server, call, drover, errors, wait_until
from queue_support import ENVIRONMENT
from test_openapi import OPERATIONS, fill, operation
from wire_client import (NO_AUTH, NODE_EXISTS, OK, Client, add_watch, auth, create, delete, exists, get_children,
                         get_children2, get_data, multi, set_data)

ROLES = ["read", "work", "submit", "run", "admin"]
OTHER_USER = "news"  # some other user

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


def admin_token(server_data):
    return (server_data / "admin.token").read_text().strip()


def bearer(token):
    return {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}


def ask(server, token, method, path, body=None):
    """Status and parsed body of a request with a token; None: without one."""
    client = Http(server.port)
    try:
        return client.send(method, path, body, bearer(token) if token else None)
    finally:
        client.close()


def on_socket(path, method, target, body=None, user=None):
    """Status and body of a request over a Unix socket, by curl, which may run as another user."""
    command = ["curl", "-sS", "--unix-socket", path, "-X", method, "-w", "\n%{http_code}",
               f"http://localhost{target}"]
    if body is not None:
        command += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, user=user,
                          cwd="/", extra_groups=[] if user else None)
    if done.returncode:
        return None, done.stderr
    text, _, status = done.stdout.rpartition("\n")
    return int(status), json.loads(text) if text else None


@pytest.fixture
def guarded(tmp_path):
    """A server with the default rights. Its socket is tmp_path/s, its data tmp_path/data."""
    server = Server("--data", tmp_path / "data", "--socket", tmp_path / "s", "--loopback-roles",
                    "read,work,submit").start()
    yield server
    assert server.stop() == 0, server.said
    server.kill()


@pytest.fixture
def shared():
    """A directory that every user can enter, unlike tmp_path."""
    with tempfile.TemporaryDirectory(prefix="drover-") as directory:
        os.chmod(directory, 0o755)
        yield pathlib.Path(directory)


# Routes and roles.

def make_token(server, admin, **what):
    status, made = ask(server, admin, "POST", "/v1/tokens", what)
    assert status == 200, made
    return made


def tree(server, token):
    """All nodes that somebody with a token sees, with the transactions that made them what they are."""
    with Client(server.zk_port) as c:
        assert c.call(auth(f"admin:{token}")).error == OK
        found, left = {}, ["/"]
        while left:
            path = left.pop()
            names, stat = c.call(get_children2(path)).body
            found[path] = (stat.mzxid, stat.pzxid)
            left += [f"{path.rstrip('/')}/{name}" for name in names]
        c.end()
    return found


LATE = ("/locks", "/access", "/batch", "/jobs", "/drover/access", "/drover/batch", "/drover/legacy")


def without_start(nodes):
    """Without the lists that modules make when they have started, beside the requests."""
    return {path: stat for path, stat in nodes.items()
            if not path.startswith(LATE) and path not in ("/", "/drover")}


def test_every_route_with_every_role(guarded, tmp_path):
    """Refused with 403 without the role, and nothing changes; else the request itself is looked at."""
    admin = admin_token(tmp_path / "data")
    tokens = {role: make_token(guarded, admin, roles=[role])["token"] for role in ROLES}
    before, refused, allowed = without_start(tree(guarded, admin)), 0, []
    for method, path in OPERATIONS:
        needed = operation(method, path)["x-roles"]
        for role in ROLES:
            if not needed or role in needed or role == "admin":
                allowed.append((method, path, role))
                continue
            status, body = ask(guarded, tokens[role], method, fill(path), None if method == "GET" else {})
            assert status == 403 and "needs the role" in errors(body)[0], (method, path, role, body)
            refused += 1
    assert without_start(tree(guarded, admin)) == before
    assert refused > len(OPERATIONS)
    for method, path, role in allowed:
        if path in ("/v1/events", "/metrics", "/v1/backup"):  # an endless stream, and no JSON
            continue
        status, body = ask(guarded, tokens[role], method, fill(path, id="0"), None if method == "GET" else {})
        assert status not in (401, 403), (method, path, role, body)


def test_only_healthz_needs_no_role():
    assert [path for method, path in OPERATIONS if not operation(method, path)["x-roles"]] == ["/healthz"]


NODE = [{"metadata": {"type": "command"}, "data": {"command": "true"}}]


def test_without_a_token_no_command_is_run(guarded):
    status, body = call(guarded.port, "POST", "/v1/nodes", NODE)
    assert status == 401 and "needs the role run" in errors(body)[0]
    assert call(guarded.port, "POST", "/v1/tokens", {"roles": ["run"]})[0] == 401
    assert call(guarded.port, "PUT", "/v1/scheduler/kill?id=1")[0] == 401
    assert call(guarded.port, "GET", "/v1/nodes") == (200, [])
    assert call(guarded.port, "POST", "/update", {"clientid": 1, "adds": [{"group": "g", "data": "x"}]})[0] == 200
    assert call(guarded.port, "POST", "/claim", {"clientid": 1, "group": "g", "duration": 1000})[0] == 200
    assert call(guarded.port, "GET", "/v1/identity")[1]["roles"] == ["read", "work", "submit"]


def test_an_update_needs_the_roles_of_what_it_does(guarded, tmp_path):
    admin = admin_token(tmp_path / "data")
    work, submit = (make_token(guarded, admin, roles=[role])["token"] for role in ("work", "submit"))
    add = {"clientid": 1, "adds": [{"group": "g", "data": "x"}]}
    status, body = ask(guarded, work, "POST", "/update", add)
    assert status == 403 and "submit" in errors(body)[0]
    status, body = ask(guarded, submit, "POST", "/update", add)
    assert status == 200
    change = {"clientid": 1, "deletes": [body["tasks"][0]["id"]]}
    assert ask(guarded, submit, "POST", "/update", change)[0] == 403
    assert ask(guarded, submit, "POST", "/update", change | add)[0] == 403
    assert ask(guarded, work, "POST", "/update", change | {"updates": []})[0] == 200


# Tokens.

def test_the_task_of_a_node_needs_the_role_of_nodes(guarded, tmp_path):
    """To claim or to move it would hold up its node."""
    admin = admin_token(tmp_path / "data")
    agent = make_token(guarded, admin, name="agent", roles=["work", "run"])["token"]
    node = {"metadata": {"type": "shell command", "group": "far"}, "data": {"command": "true"}}
    assert ask(guarded, admin, "POST", "/v1/nodes", [node])[0] == 200
    claim = {"clientid": 7, "groups": ["mail", "far"], "duration": 60000, "wait": 60000}
    refused = [ask(guarded, None, "POST", "/claim", claim)]
    task, = ask(guarded, admin, "GET", "/group/far")[1]
    delay = {"clientid": 7, "updates": [{"id": task["id"], "timespec": 4102444800000}]}
    refused.append(ask(guarded, None, "POST", "/update", delay))
    assert [status for status, _ in refused] == [403, 403], refused
    assert all("needs the role run" in errors(answer)[0] for _, answer in refused), refused
    assert ask(guarded, admin, "GET", "/group/far")[1] == [task]
    assert ask(guarded, agent, "POST", "/claim", claim)[1]["tasks"][0]["data"] == task["data"]


def test_a_token_from_birth_to_end(guarded, tmp_path):
    admin = admin_token(tmp_path / "data")
    made = make_token(guarded, admin, name="mail", roles=["read"])
    [listed] = ask(guarded, admin, "GET", "/v1/tokens")[1]["tokens"]
    assert (listed["id"], listed["name"], listed["roles"]) == (made["id"], "mail", ["read"])
    assert made["token"] not in json.dumps(listed) and len(made["token"]) == 64
    assert ask(guarded, made["token"], "GET", "/groups")[0] == 200
    assert ask(guarded, made["token"], "POST", "/v1/tokens", {"roles": ["admin"]})[0] == 403
    kept = Http(guarded.port)  # revoking ends what an open connection may do
    assert kept.send("GET", "/groups", headers=bearer(made["token"]))[0] == 200
    assert ask(guarded, admin, "DELETE", f"/v1/tokens/{made['id']}") == (200, {})
    assert kept.send("GET", "/groups", headers=bearer(made["token"]))[0] == 401
    kept.close()
    assert ask(guarded, admin, "DELETE", f"/v1/tokens/{made['id']}")[0] == 404
    for file in (tmp_path / "data").rglob("*"):
        if file.is_file() and file.name != "admin.token" and file.suffix != ".tmp":  # one that is still being made
            assert made["token"].encode() not in file.read_bytes(), file


def test_a_token_expires(guarded, tmp_path):
    admin = admin_token(tmp_path / "data")
    brief = make_token(guarded, admin, roles=["read"], lifetime=300)["token"]
    wait_until(lambda: ask(guarded, brief, "GET", "/groups")[0] == 401, "the end of the token")


def test_tokens_survive_a_crash(tmp_path, start):
    server = start("--loopback-roles", "none")
    admin = admin_token(tmp_path / "data")
    made = make_token(server, admin, roles=["read"])
    server.kill()
    again = start("--loopback-roles", "none")
    assert admin_token(tmp_path / "data") == admin
    assert ask(again, made["token"], "GET", "/groups")[0] == 200
    assert ask(again, None, "GET", "/groups")[0] == 401
    assert again.stop() == 0, again.said


@pytest.mark.parametrize("wrong", [{"roles": ["boss"]}, {"roles": []}, {}, {"roles": ["none"]},
                                   {"roles": ["read"], "lifetime": -1}, {"roles": ["read"], "x": 1}])
def test_what_is_no_token(guarded, tmp_path, wrong):
    admin = admin_token(tmp_path / "data")
    status, body = ask(guarded, admin, "POST", "/v1/tokens", wrong)
    assert status == 400 and errors(body)
    assert ask(guarded, admin, "GET", "/v1/tokens")[1] == {"tokens": []}


def test_the_admin_token_is_for_its_owner(tmp_path, start):
    """One that others could read is not kept."""
    file = tmp_path / "data/admin.token"
    server = start()
    first = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert server.stop() == 0
    file.chmod(0o644)
    again = start()
    assert file.read_text() != first and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert ask(again, first.strip(), "GET", "/groups")[0] == 401
    assert again.stop() == 0 and "others could read" in again.said


# The Unix socket.

def test_the_socket_is_for_its_owner(guarded, tmp_path):
    path = tmp_path / "s"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and path.is_socket()
    assert on_socket(path, "GET", "/v1/identity")[1]["roles"] == ROLES
    assert on_socket(path, "POST", "/v1/nodes", NODE)[0] == 200


@as_root
def test_another_user_has_no_more_than_on_loopback(shared):
    server = Server("--journal", "none", "--socket", shared / "s", "--socket-mode", "666",
                    "--loopback-roles", "read,submit").start()
    try:
        status, body = on_socket(shared / "s", "GET", "/v1/identity", user=OTHER_USER)
        assert status == 200 and body["roles"] == ["read", "submit"]
        assert body["name"] == f"user {pwd.getpwnam(OTHER_USER).pw_uid}"
        status, body = on_socket(shared / "s", "POST", "/v1/nodes", NODE, user=OTHER_USER)
        assert status == 403 and "needs the role run" in errors(body)[0]
        assert on_socket(shared / "s", "POST", "/v1/nodes", NODE)[0] == 200
        assert server.stop() == 0, server.said
    finally:
        server.kill()


@as_root
def test_another_user_is_not_let_in(shared):
    server = Server("--journal", "none", "--socket", shared / "s").start()
    try:
        status, why = on_socket(shared / "s", "GET", "/v1/identity", user=OTHER_USER)
        assert status is None and "(7)" in why
        assert server.stop() == 0, server.said
    finally:
        server.kill()


def test_the_socket_of_a_killed_server_is_replaced(tmp_path):
    arguments = ["--journal", "none", "--socket", tmp_path / "s"]
    killed, again = Server(*arguments).start(), None
    try:
        second = drover("serve", "--http", "127.0.0.1:0", "--zk", "none", *arguments)
        assert second.returncode == 1 and "another server listens on" in second.stderr
        killed.kill()
        assert (tmp_path / "s").is_socket()
        again = Server(*arguments).start()
        assert on_socket(tmp_path / "s", "GET", "/healthz")[0] == 200
        assert again.stop() == 0, again.said
        assert not (tmp_path / "s").exists()
    finally:
        killed.kill()
        if again:
            again.kill()


@pytest.mark.parametrize("options, why", [
    (["--socket", "FILE"], "is not a socket"),
    (["--socket", "DIR/no/such"], "No such file"),
    (["--socket", "DIR/" + "x" * 200], "too long for a socket"),
    (["--socket", "DIR/s", "--socket-group", "no-such-group"], "there is no group"),
])
def test_sockets_that_cannot_be(tmp_path, options, why):
    (tmp_path / "file").write_text("kept")
    options = [o.replace("FILE", str(tmp_path / "file")).replace("DIR", str(tmp_path)) for o in options]
    done = drover("serve", "--journal", "none", "--http", "127.0.0.1:0", "--zk", "none", *options)
    assert done.returncode == 1 and why in done.stderr
    assert (tmp_path / "file").read_text() == "kept"


def test_only_the_socket(tmp_path):
    """Without any port, everything works over the socket."""
    server = Server("--data", tmp_path / "data", "--socket", tmp_path / "s", "--zk", "none", "--http", "none")
    try:
        server.wait_for("listening on unix:")
        there = {"env": os.environ | {"DROVER_URL": f"unix:{tmp_path / 's'}"}}
        assert drover("add", "g", "x", **there).returncode == 0
        done = drover("exec", "--", "sh", "-c", "echo here", **there)
        assert (done.returncode, done.stdout) == (0, "here\n"), done.stderr
        assert server.stop() == 0, server.said
    finally:
        server.kill()


@as_root
def test_any_user_as_the_readme_has_it(shared):
    """A server and commands of another user, who names neither: they meet at the socket."""
    home = shared / "home"
    home.mkdir()
    os.chown(home, pwd.getpwnam(OTHER_USER).pw_uid, -1)
    environment = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home), "PATH": os.environ["PATH"]}
    binary = shared / "drover"
    binary.write_bytes(pathlib.Path(BINARY).read_bytes())
    binary.chmod(0o755)

    def run(*arguments):
        return subprocess.run([binary, *arguments], user=OTHER_USER, extra_groups=[], cwd="/", env=environment,
                              capture_output=True, text=True, timeout=DEADLINE_S)

    server = subprocess.Popen([binary, "serve", "--http", "127.0.0.1:0", "--zk", "none"], user=OTHER_USER,
                              extra_groups=[], cwd="/", env=environment, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: (home / "drover.sock").exists(), "the socket")
        wait_until(lambda: run("groups").returncode == 0, "the server")
        assert run("add", "g", "x").returncode == 0
        done = run("exec", "--", "id", "-un")
        assert (done.returncode, done.stdout) == (0, OTHER_USER + "\n"), done.stderr
        assert (home / ".local/state/drover/admin.token").stat().st_mode & 0o77 == 0
    finally:
        server.terminate()
        server.communicate(timeout=DEADLINE_S)
    assert server.returncode == 0


ALONE = """
serve() { "$DROVER" serve --config none --zk none "$@" 2>log & wait_for; }
wait_for() { until curl -s http://127.0.0.1:8048/healthz >&2; do sleep 0.05; done; }
end() { kill $!; wait $!; }
serve; "$DROVER" whoami; "$DROVER" exec -- id -un; end
serve --data other; "$DROVER" whoami; "$DROVER" exec -- id -un; end
unset XDG_RUNTIME_DIR
serve; "$DROVER" whoami; "$DROVER" exec -- id -un; end
serve --data other; "$DROVER" whoami; ! "$DROVER" exec true; end
"""


@as_root
def test_neither_socket_nor_port_nor_token_is_named(shared):
    """The default port, in a network of its own: the socket says who the user is, without it the token does. The token
    of another server of this user spoils nothing."""
    (shared / "drover").write_bytes(pathlib.Path(BINARY).read_bytes())
    (shared / "drover").chmod(0o755)
    (shared / "home").mkdir()
    user = pwd.getpwnam(OTHER_USER).pw_uid
    os.chown(shared / "home", user, -1)
    home = str(shared / "home")
    inside = f'ip link set lo up; exec setpriv --reuid={user} --clear-groups sh -ec "$0"'
    done = subprocess.run(["unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-ec", inside, ALONE], cwd=home, capture_output=True, text=True, timeout=DEADLINE_S,
                          env={"DROVER": str(shared / "drover"), "HOME": home, "XDG_RUNTIME_DIR": home,
                               "PATH": os.environ["PATH"]})
    everything = "roles: read work submit run admin"
    assert done.stdout.splitlines() == [f"user {user}", everything, OTHER_USER] * 2 + [
        "the admin token", everything, OTHER_USER, "loopback", "roles: read work submit"], done
    assert done.returncode == 0 and "needs the role run" in done.stderr, done


# Commands.

SCRIPT = """
ask() { curl -s -H "Authorization: Bearer $DROVER_TOKEN" -H 'Content-Type: application/json' "$@"; echo; }
ask $DROVER_URL/v1/identity
ask $DROVER_URL/v1/nodes -d '[{"metadata":{"type":"command"},"data":{"command":"true"}}]'
ask $DROVER_URL/v1/nodes -d "[{\\"metadata\\":{\\"type\\":\\"command\\",\\"parent\\":\\"$DROVER_NODE\\"},\\"data\\":{\\"command\\":\\"true\\"}}]"
ask -X PUT $DROVER_URL/v1/nodes/$DROVER_NODE/data/note -d '{"value":"mine"}'
ask -X PUT "$DROVER_URL/v1/nodes/$OTHER/data/note" -d '{"value":"not mine"}'
ask -X PUT "$DROVER_URL/v1/scheduler/kill?id=$OTHER" -d ''
ask "$DROVER_URL/v1/agent/kills?clientid=1"
ask $DROVER_URL/v1/tokens -d '{"roles":["admin"]}'
ask -X PUT $DROVER_URL/v1/schedules/later -d '{"every":1000,"graph":[{"metadata":{"type":"command"},"data":{"command":"true"}}]}'
ask -X POST $DROVER_URL/v1/schedules/nightly/run -d '{}'
ask $DROVER_URL/claim -d '{"clientid":7,"groups":["far"],"duration":60000,"wait":60000}'
echo $DROVER_TOKEN
"""


def test_what_a_command_may_do(guarded, tmp_path):
    """Below its node and in it, nothing else; and only while it runs."""
    admin = admin_token(tmp_path / "data")
    _, [other, _] = ask(guarded, admin, "POST", "/v1/nodes",
                        [{"metadata": {"type": "condition"}, "data": {"command": "false"}},
                         {"metadata": {"type": "command", "group": "far"}, "data": {"command": "true"}}])
    assert ask(guarded, admin, "PUT", "/v1/schedules/nightly", {"cron": "@daily", "graph": NODE})[0] == 200
    node = {"metadata": {"type": "shell command"},
            "data": {"command": SCRIPT, "env": {"OTHER": other["id"]}}}
    status, added = ask(guarded, admin, "POST", "/v1/nodes", [node])
    assert status == 200, added
    mine = added[0]["id"]
    ask(guarded, admin, "GET", f"/v1/scheduler/wait?id={mine}&timeout=60000")
    out = ask(guarded, admin, "GET", f"/v1/nodes/{mine}/data/stdout")[1]["data"]
    *lines, token = out.splitlines()
    who, root, below, own, others, kill, agent, rights, *schedules, claim = [json.loads(line) for line in lines if line]
    assert who["roles"] == ["read", "work", "submit", "run"] and mine in who["name"]
    assert "only below its own" in errors(root)[0]
    assert len(below) == 1 and "pagination" in own
    assert "change only its node" in errors(others)[0] and "change only its node" in errors(kill)[0]
    assert "agent" in errors(agent)[0] and "needs the role admin" in errors(rights)[0]
    assert ["have commands run only below its node" in errors(answer)[0] for answer in schedules] == [True, True]
    assert [s["runs"] for s in ask(guarded, admin, "GET", "/v1/schedules")[1]["schedules"]] == [0]
    assert "only below its node" in errors(claim)[0]
    assert token.startswith(f"node-{mine}-1-")
    assert ask(guarded, token, "GET", "/groups")[0] == 401
    assert ask(guarded, token[:-1] + ("0" if token[-1] != "0" else "1"), "GET", "/groups")[0] == 401
    assert ask(guarded, admin, "GET", f"/v1/nodes/{mine}")[1]["data"]["note"] == "mine"


# Limits.

def test_a_token_with_limits_reaches_nothing_else(guarded, tmp_path):
    admin = admin_token(tmp_path / "data")
    add = {"clientid": 1, "adds": [{"group": group, "data": "x"} for group in ("mail/in", "mail", "other")]}
    tasks = {t["group"]: t["id"] for t in ask(guarded, admin, "POST", "/update", add)[1]["tasks"]}
    for kind, name in (("worlds", "world"), ("queues", "queue")):
        for each in ("mine-1", "yours"):
            assert ask(guarded, admin, "POST", f"/v1/{kind}", {name: each})[0] == 200
    token = make_token(guarded, admin, roles=["read", "work", "submit"], groups=["mail/*", "exact"],
                       worlds=["mine-*"], queues=["mine-1"])["token"]

    def mine(method, path, body=None):
        return ask(guarded, token, method, path, body)

    assert mine("GET", "/groups") == (200, ["mail/in"])
    assert mine("GET", f"/task/{tasks['mail/in']}")[0] == 200
    assert mine("GET", f"/task/{tasks['other']}")[0] == mine("GET", f"/task/{tasks['mail']}")[0] == 404
    assert [t and t["group"] for t in mine("GET", f"/tasks/{tasks['other']},{tasks['mail/in']}")[1]] == \
        [None, "mail/in"]
    assert mine("GET", "/group/mail%2Fin")[0] == 200 and mine("GET", "/group/other")[0] == 403
    for group, status in (("mail/out", 200), ("exact", 200), ("exactly", 403), ("other", 403), ("mail", 403)):
        assert mine("POST", "/update", {"clientid": 2, "adds": [{"group": group}]})[0] == status, group
        assert mine("POST", "/claim", {"clientid": 2, "group": group, "duration": 1})[0] == status, group
    for change in ({"deletes": [tasks["other"]]}, {"updates": [{"id": tasks["other"], "data": "y"}]},
                   {"depends": [tasks["other"]]}):
        status, body = mine("POST", "/update", {"clientid": 2} | change)
        assert status == 409 and errors(body)[0].endswith(f"there is no task {tasks['other']}"), "nor what became of it"
    assert errors(mine("GET", f"/v1/tasks/{tasks['other']}")[1]) == [f"there is no task {tasks['other']}"]
    status, body = mine("POST", "/claim", {"clientid": 2, "group": "mail/in", "duration": 1,
                                           "deletes": [tasks["other"]]})
    assert status == 409, body
    assert mine("POST", "/claim", {"clientid": 2, "groups": ["mail/in", "other"], "duration": 1})[0] == 403
    assert mine("POST", "/update", {"clientid": 2, "deletes": [tasks["mail/in"]]})[0] == 200
    assert mine("GET", "/v1/worlds") == (200, {"worlds": ["mine-1"]})
    assert mine("GET", "/v1/worlds/mine-1/tree")[0] == 200 and mine("GET", "/v1/worlds/yours/tree")[0] == 403
    assert mine("POST", "/v1/worlds", {"world": "mine-2"})[0] == 200
    assert mine("POST", "/v1/worlds", {"world": "theirs"})[0] == 403
    assert [q["queue"] for q in mine("GET", "/v1/queues")[1]["queues"]] == ["mine-1"]
    assert mine("POST", "/v1/queues/mine-1/messages", {"data": "m"})[0] == 200
    assert mine("POST", "/v1/queues/yours/messages", {"data": "m"})[0] == 403
    assert mine("POST", "/v1/queues", {})[0] == 403
    for path in ("/v1/nodes", "/v1/batches", "/v1/jobs", "/v1/locks", "/metrics", "/v1/events", "/v1/workers"):
        assert mine("GET", path)[0] == 403, path
    assert ask(guarded, admin, "GET", f"/task/{tasks['other']}")[0] == 200


# The ZooKeeper port.

def looks(client, path="/drover"):
    """The errors of every way to look at a node."""
    return {client.call(request).error for request in (
        get_data(path), get_children(path), exists(path), exists(path, watch=True), add_watch(path, 0),
        add_watch(path, 1))}


def test_what_the_server_trusts_is_closed_to_the_port(guarded, tmp_path):
    """The attack of a user who reaches the port: a command for the next restart, ids, tasks."""
    call(guarded.port, "POST", "/update", {"clientid": 1, "adds": [{"group": "g", "data": "secret"}]})
    admin = admin_token(tmp_path / "data")
    before = without_start(tree(guarded, admin))
    with Client(guarded.zk_port) as c:
        for path in ("/drover", "/drover/tasks", "/drover/dag/head", "/drover/secret", "/drover/tokens/x"):
            assert looks(c, path) == {NO_AUTH}, path
            for change in (create(path + "/x", b"{}"), set_data(path, b"{}"), delete(path),
                           multi(create("/mine"), create(path + "/x"))):
                answer = c.call(change)
                assert answer.error == NO_AUTH or ("error", NO_AUTH) in answer.body, path
        assert without_start(tree(guarded, admin)) == before
        for path in ("/mine", "/drover-x", "/zoott_x", "/batches/x", "/jobs/x", "/mozilla-qdo-x"):
            wait_until(lambda: c.call(create(path)).error in (OK, NODE_EXISTS), f"a node at {path}")
        c.end()


def test_no_event_tells_of_what_is_trusted(guarded):
    with Client(guarded.zk_port) as c:
        assert c.call(add_watch("/", 1)).error == OK
        call(guarded.port, "POST", "/update", {"clientid": 1, "adds": [{"group": "g", "data": "x"}]})
        assert c.call(create("/mine")).error == OK
        told = {path for _, path in c.take_events()}
        assert "/mine" in told and not [path for path in told if path.startswith("/drover")]
        c.end()


def test_a_token_opens_the_port(guarded, tmp_path):
    admin = admin_token(tmp_path / "data")
    made = make_token(guarded, admin, roles=["admin"])
    reader = make_token(guarded, admin, roles=["read"])
    limited = make_token(guarded, admin, roles=["all"], groups=["g"])
    with Client(guarded.zk_port) as c:
        for token, error in ((reader["token"], NO_AUTH), (limited["token"], NO_AUTH), ("wrong", NO_AUTH),
                             (made["token"], OK)):
            assert c.call(auth(f"anybody:{token}")).error == OK
            assert c.call(get_data("/drover")).error == error
        ask(guarded, admin, "DELETE", f"/v1/tokens/{made['id']}")
        assert c.call(get_data("/drover")).error == NO_AUTH
        c.end()


def test_no_access_lists_still_means_no_trust(tmp_path):
    server = Server("--journal", "none", "--zk-skip-acl", "--loopback-roles", "read,work,submit").start()
    try:
        with Client(server.zk_port) as c:
            assert looks(c) == {NO_AUTH}
            c.end()
        assert server.stop() == 0, server.said
    finally:
        server.kill()


def test_with_authentication_the_port_asks_for_it(tmp_path, start):
    server = start("--loopback-roles", "none")
    with Client(server.zk_port) as c:
        assert c.call(create("/mine")).error == c.call(get_data("/")).error == NO_AUTH
        assert c.call(auth(f"me:{admin_token(tmp_path / 'data')}")).error == OK
        assert c.call(create("/mine")).error == c.call(get_data("/drover")).error == OK
        c.end()
    assert server.stop() == 0, server.said


def test_a_queue_worker_brings_its_token(tmp_path, start):
    server = start("--loopback-roles", "none")
    admin = admin_token(tmp_path / "data")
    there = {"env": ENVIRONMENT | {"DROVER_URL": f"http://127.0.0.1:{server.port}", "DROVER_TOKEN": admin}}
    assert drover("queue", "create", "q", **there).returncode == 0
    assert drover("queue", "post", "q", "hello", **there).returncode == 0
    done = drover("queue", "work", "--queues", "q", "--until-empty", "--", "cat", **there)
    assert done.returncode == 0 and "hello" in done.stdout, done
    assert server.stop() == 0, server.said


def test_a_queue_worker_of_the_socket_is_told_of_the_token(tmp_path, start):
    """The ZooKeeper port cannot know the user of a Unix socket."""
    server = start("--loopback-roles", "none", "--socket", tmp_path / "s")
    worker = subprocess.Popen([BINARY, "queue", "work", "--", "cat"], stderr=subprocess.PIPE, text=True,
                              env=ENVIRONMENT | {"DROVER_URL": f"unix:{tmp_path / 's'}"})
    try:
        assert "wants a token with the roles read and work" in worker.stderr.readline()
    finally:
        worker.terminate()
        worker.communicate(timeout=DEADLINE_S)
    assert server.stop() == 0, server.said


@pytest.mark.parametrize("roles, status", [("none", 403), ("read,work,submit", 200)])
def test_with_authentication_access_lists_count_inside(tmp_path, start, roles, status):
    """A lock whose node its maker has closed to all others."""
    server = start("--loopback-roles", roles)
    admin = admin_token(tmp_path / "data")
    wait_until(lambda: ask(server, admin, "GET", "/v1/locks")[0] == 200, "the lists of locks")
    with Client(server.zk_port) as c:
        assert c.call(auth(f"me:{admin}")).error == OK
        assert c.call(create("/locks/queue/ingest", acl=[(31, "auth", "")])).error == OK
        assert ask(server, admin, "GET", "/v1/locks/queue/ingest")[0] == status
        assert ask(server, admin, "POST", "/update", {"clientid": 1, "adds": [{"group": "g"}]})[0] == 200
        c.end()
    assert server.stop() == 0, server.said
