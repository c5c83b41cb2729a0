"""The audit log, and what is said and counted of refused requests."""

import json
import os
import resource
import signal
import stat

import pytest

from conftest import Http, Server, call, drover, errors, wait_until
from test_rights import NODE, admin_token, ask, make_token, on_socket
from wire_client import (NO_AUTH, OK, Client, add_watch, auth, check, create, delete, exists, get_acl, get_children,
                         get_data, multi, multi_read, set_data, set_watches)


def lines(path, **having):
    """The lines of an audit log that have these members."""
    every = [json.loads(line) for line in path.read_text().split("\n")[:-1]]
    return [line for line in every if having.items() <= line.items()]


@pytest.fixture
def log(tmp_path):
    return tmp_path / "audit.log"


@pytest.fixture
def audited(tmp_path, log):
    server = Server("--data", tmp_path / "data", "--socket", tmp_path / "s", "--loopback-roles",
                    "read,work,submit", "--audit", log).start()
    yield server
    assert server.process.poll() == 0 or server.stop() == 0, server.said
    server.kill()


def failures(server, token, reason):
    client = Http(server.port)
    client.connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
    page = client.connection.getresponse().read().decode()
    client.close()
    name = f'drover_auth_failures_total{{reason="{reason}"}} '
    return int(next(line for line in page.splitlines() if line.startswith(name))[len(name):])


# Changes.

def test_a_token_from_birth_to_end(audited, log, tmp_path):
    admin = admin_token(tmp_path / "data")
    made = make_token(audited, admin, name="mail", roles=["read"], groups=["g*"], lifetime=10**9)
    assert ask(audited, admin, "DELETE", f"/v1/tokens/{made['id']}")[0] == 200
    assert ask(audited, admin, "DELETE", f"/v1/tokens/{made['id']}")[0] == 404
    begun, ended = lines(log, action="createToken")
    assert begun["stage"] == "begin" and begun["token"] == made["id"] and begun["name"] == "mail"
    assert (begun["roles"], begun["groups"], begun["lifetime"]) == (["read"], ["g*"], 10**9)
    assert begun["who"] == "the admin token" and begun["from"].startswith("127.0.0.1:")
    assert begun["target"] == "/v1/tokens" and begun["time"].endswith("Z")
    assert (ended["stage"], ended["outcome"], ended["request"]) == ("end", 200, begun["request"])
    revoked = lines(log, action="revokeToken")
    assert [line.get("outcome") for line in revoked] == [None, 200, None, 404]
    assert {line["target"] for line in revoked} == {f"/v1/tokens/{made['id']}"}
    text = log.read_text()
    assert made["token"] not in text and admin not in text
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_every_command_is_named(audited, log, tmp_path):
    path = tmp_path / "s"
    shell = {"metadata": {"type": "shell command"},
             "data": {"command": "echo \"two\nlines\" \u2028", "env": {"PASSWORD": "secret"}}}
    long = {"metadata": {"type": "shell command"}, "data": {"command": ":" + "\u00e9" * 3000}}
    status, added = on_socket(path, "POST", "/v1/nodes", NODE + [shell, long])
    assert status == 200, added
    *begun, ended = lines(log, action="addNodes")
    assert [str(line["node"]) for line in begun] == [node["id"] for node in added]
    assert begun[0]["command"] == "true" and begun[0]["type"] == "command"
    assert begun[1]["command"] == shell["data"]["command"]
    assert begun[2]["command"] == ":" + "\u00e9" * 511 and begun[2]["command_len"] == 6001
    assert begun[0]["who"] == f"user {os.geteuid()}"
    assert begun[0]["from"].startswith(f"unix uid {os.geteuid()} pid ")
    assert ended["outcome"] == 200 and {line["request"] for line in begun} == {ended["request"]}
    assert "secret" not in log.read_text()


def test_a_large_graph_has_a_line_for_each_command(audited, log, tmp_path):
    nodes = [{"metadata": {"type": "condition"}, "data": {"command": "false", "args": [str(i)]}}
             for i in range(1000)]
    assert ask(audited, admin_token(tmp_path / "data"), "POST", "/v1/nodes", nodes)[0] == 200
    begun = lines(log, action="addNodes", stage="begin")
    assert [json.loads(line["args"]) for line in begun] == [[str(i)] for i in range(1000)]


def test_what_is_done_to_nodes(audited, log, tmp_path):
    """A node that waits: its command may still be replaced."""
    admin = admin_token(tmp_path / "data")
    _, [first] = ask(audited, admin, "POST", "/v1/nodes", [
        {"metadata": {"type": "condition"}, "data": {"command": "false", "interval": 3600000}}])
    _, [waiting] = ask(audited, admin, "POST", "/v1/nodes", [
        {"metadata": {"type": "command", "parent": first["id"]}, "data": {"command": "true"}}])
    number = int(waiting["id"])
    for key, value in (("command", "/bin/evil"), ("env", {"A": "secret"}), ("note", "no command")):
        status, body = ask(audited, admin, "PUT", f"/v1/nodes/{number}/data/{key}", {"value": value})
        assert status == 200, body
    assert ask(audited, admin, "PUT", f"/v1/scheduler/retry?id={number}")[0] == 409
    assert ask(audited, admin, "PUT", f"/v1/scheduler/kill?id={number}")[0] == 200
    assert ask(audited, admin, "PUT", f"/v1/scheduler/retry?id={number}")[0] == 200
    assert ask(audited, admin, "PUT", f"/v1/scheduler/kill?id={number}")[0] == 200
    assert ask(audited, admin, "DELETE", f"/v1/nodes/{number}")[0] == 200
    done = [(line["action"], line.get("nodes"), line.get("value")) for line in lines(log, stage="begin")][2:]
    assert done == [("putValue", None, "/bin/evil"), ("putValue", None, None), ("killNodes", [number], None),
                    ("retryNodes", [number], None), ("killNodes", [number], None),
                    ("deleteNode", [number], None)], done
    assert all(line["outcome"] == 200 for line in lines(log, stage="end"))
    assert "secret" not in log.read_text()


def test_what_is_done_to_schedules_of_commands(audited, log, tmp_path):
    """Its nodes have no ids yet; each time that they are added has a line of its own. Tasks are no commands."""
    admin, path = admin_token(tmp_path / "data"), "/v1/schedules/nightly"
    task = {"cron": "@daily", "task": {"group": "g"}}
    for method, to, body in (("PUT", "", {"cron": "@daily", "graph": NODE}), ("POST", "/run", {}), ("POST", "/pause", {}),
                             ("POST", "/resume", {}), ("PUT", "", task), ("POST", "/run", {}), ("DELETE", "", None)):
        assert ask(audited, admin, method, path + to, body)[0] == 200
    begun = [(line["action"], line["target"], line.get("command"), "node" in line) for line in lines(log, stage="begin")]
    assert begun == [("setSchedule", path, "true", False), ("runSchedule", path + "/run", None, False),
                     ("pauseSchedule", path + "/pause", None, False), ("resumeSchedule", path + "/resume", None, False),
                     ("setSchedule", path, None, False)]
    assert [line["outcome"] for line in lines(log, stage="end")] == [200] * len(begun)
    [tick] = lines(log, who="schedule")
    assert (tick["action"], tick["target"], tick["nodes"]) == ("tick", "nightly", 1)


def test_settings_of_groups_are_named(audited, log, tmp_path):
    admin = admin_token(tmp_path / "data")
    assert ask(audited, admin, "PUT", "/v1/groups/mail*", {"attempts": 3})[0] == 200
    assert ask(audited, admin, "PUT", "/v1/groups/mail*", {"attempts": "x"})[0] == 400
    assert ask(audited, admin, "DELETE", "/v1/groups/mail*")[0] == 200
    done = [(line["action"], line["target"], line.get("outcome")) for line in lines(log, who="the admin token")]
    assert done == [(action, "/v1/groups/mail*", outcome) for action, status in
                    (("setGroup", 200), ("setGroup", 400), ("unsetGroup", 200)) for outcome in (None, status)]


def test_keeper_commands_are_named(audited, log, tmp_path):
    admin = admin_token(tmp_path / "data")
    assert ask(audited, admin, "POST", "/v1/keeper/commands/srst", {})[0] == 200
    assert ask(audited, admin, "GET", "/v1/keeper/commands/ruok")[0] == 200
    assert [line.get("outcome") for line in lines(log, action="runKeeperCommand")] == [None, 200]
    assert not lines(log, action="getKeeperCommand")


def test_a_backup_is_named(audited, log, tmp_path):
    """It has everything, the key of commands included."""
    done = drover("backup", tmp_path / "b", "--server", f"unix:{tmp_path / 's'}")
    assert done.returncode == 0, done.stderr
    assert [line.get("outcome") for line in lines(log, action="getBackup")] == [None, 200]


def test_changes_of_what_the_server_trusts(audited, log, tmp_path):
    """Through the ZooKeeper port: an administrator's, and those of others, which are refused."""
    with Client(audited.zk_port) as c:
        assert c.call(create("/drover/mine")).error == NO_AUTH
        assert c.call(create("/elsewhere")).error == OK
        assert c.call(auth(f"x:{admin_token(tmp_path / 'data')}")).error == OK
        assert c.call(create("/drover/mine")).error == OK
        assert c.call(multi(set_data("/drover/mine", b"secret"), delete("/drover/mine"))).error == OK
    found = [(line["action"], line["target"], line["who"], line.get("outcome"))
             for line in lines(log) if line["action"].startswith("keeper.")]
    assert found == [("keeper.create", "/drover/mine", "loopback", 403)] + [
        (f"keeper.{verb}", "/drover/mine", "the admin token", None) for verb in ("create", "set", "delete")]
    assert "secret" not in log.read_text()


def test_refused_reads_of_what_the_server_trusts(audited, log, tmp_path):
    """Through the ZooKeeper port: a line for each request, however many nodes it names."""
    top = "/drover"
    refused = [get_data(top), get_children(top), exists(top, True), get_acl(top), add_watch(top, 0),
               multi_read(get_data(top), get_children(top)), set_watches(0, [top] * 9),
               multi(check(top, 0), check(top, 0))]
    with Client(audited.zk_port) as c:
        for number, request in enumerate(refused, 1):
            c.call(request)
            assert len(lines(log, outcome=403)) == number, request
        assert c.call(get_data("/")).error == OK
        assert c.call(auth(f"x:{admin_token(tmp_path / 'data')}")).error == OK
        assert c.call(get_data(top)).error == OK
    found = [(line["action"], line["target"], line["who"]) for line in lines(log, outcome=403)]
    assert found == [("keeper.read", top, "loopback")] * 7 + [("keeper.check", top, "loopback")]


def test_refused_requests_elsewhere(tmp_path, log):
    """Nobody has a role: the rest of the tree is refused, too."""
    server = Server("--data", tmp_path / "data", "--loopback-roles", "none", "--audit", log).start()
    try:
        with Client(server.zk_port) as c:
            assert [c.call(q).error for q in (get_data("/"), create("/a"))] == [NO_AUTH, NO_AUTH]
        found = [(line["action"], line["target"], line["who"]) for line in lines(log, outcome=403)]
        assert found == [("keeper.read", "/", "nobody"), ("keeper.create", "/a", "nobody")]
        assert server.stop() == 0, server.said
    finally:
        server.kill()


def test_start_and_stop(tmp_path, log):
    for _ in range(2):
        server = Server("--data", tmp_path / "data", "--loopback-roles", "read", "--audit", log).start()
        assert server.stop() == 0, server.said
        server.kill()
    start, stop, again, last = lines(log)
    assert [line["action"] for line in (start, stop, again, last)] == ["start", "stop"] * 2
    assert start["loopback_roles"] == "read" and start["version"] in drover("version").stdout
    assert start["uid"] == os.geteuid() and any(url.startswith("http://") for url in start["listening"])


# Refused requests.

def test_refused_requests_are_kept_counted_and_said(audited, log, tmp_path):
    admin = admin_token(tmp_path / "data")
    token = make_token(audited, admin, roles=["read", "submit"], groups=["mine"])["token"]
    wrong = "0123456789abcdef" * 4
    for _ in range(3):
        assert ask(audited, wrong, "GET", "/groups")[0] == 401
    assert call(audited.port, "POST", "/v1/nodes", NODE)[0] == 401
    assert ask(audited, token, "POST", "/v1/nodes", NODE)[0] == 403
    assert ask(audited, token, "POST", "/update", {"clientid": 1, "adds": [{"group": "yours"}]})[0] == 403
    assert ask(audited, token, "GET", "/v1/locks")[0] == 403
    found = [(line["action"], line["outcome"], line["reason"], line["who"][:6])
             for line in lines(log) if "reason" in line]
    assert found == [("listGroups", 401, "token", "unknow")] * 3 + [
        ("addNodes", 401, "role", "loopba"), ("addNodes", 403, "role", "token "),
        ("updateTasks", 403, "limit", "token "), ("listAllLocks", 403, "limit", "token ")], found
    assert wrong not in log.read_text() and not lines(log, action="addNodes", stage="begin")
    assert [failures(audited, admin, reason) for reason in ("token", "role", "limit")] == [3, 2, 2]
    assert audited.stop() == 0
    said = [line for line in audited.said.splitlines() if "warning refused" in line]
    assert len(said) == 2, said
    assert "refused 127.0.0.1: the token is missing or wrong (listGroups)" in said[0]
    assert "2 times because the token" in said[1] and "2 times because the role" in said[1]
    assert wrong not in audited.said and token not in audited.said


def test_a_command_that_goes_too_far_is_refused_and_kept(audited, log, tmp_path):
    admin = admin_token(tmp_path / "data")
    script = """curl -s -H "Authorization: Bearer $DROVER_TOKEN" -H 'Content-Type: application/json' \
        $DROVER_URL/v1/nodes -d '[{"metadata":{"type":"command"},"data":{"command":"true"}}]'"""
    _, [node] = ask(audited, admin, "POST", "/v1/nodes",
                    [{"metadata": {"type": "shell command"}, "data": {"command": script}}])
    ask(audited, admin, "GET", f"/v1/scheduler/wait?id={node['id']}&timeout=60000")
    [refused] = [line for line in lines(log, outcome=403) if "reason" in line]
    assert refused["reason"] == "limit" and refused["who"] == f"the command of node {node['id']}"


# A log that cannot be written.

def test_a_server_does_not_start_without_its_audit_log():
    done = drover("serve", "--journal", "none", "--http", "127.0.0.1:0", "--zk", "none", "--socket", "none",
                  "--audit", "/dev/full")
    assert done.returncode == 1 and "cannot write the audit log /dev/full" in done.stderr


def test_changes_are_refused_while_the_log_cannot_be_written(tmp_path, log):
    """The limit on the size of files stops the log alone: the server has no other file."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

    server = Server("--journal", "none", "--audit", log, "--loopback-roles", "all", preexec_fn=limit).start()
    try:
        for _ in range(64):
            status, body = call(server.port, "POST", "/v1/nodes", NODE)
            if status != 200:
                break
        assert status == 503 and "audit log" in errors(body)[0], body
        server.wait_for("cannot write the audit log")
        nodes = len(call(server.port, "GET", "/v1/nodes")[1])
        assert call(server.port, "POST", "/v1/nodes", NODE)[0] == 503
        assert call(server.port, "POST", "/v1/tokens", {"roles": ["read"]})[0] == 503
        assert call(server.port, "GET", "/v1/tokens") == (200, {"tokens": []})
        assert len(call(server.port, "GET", "/v1/nodes")[1]) == nodes
        assert call(server.port, "POST", "/update", {"clientid": 1, "adds": [{"group": "g"}]})[0] == 200
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (10**6, resource.RLIM_INFINITY))
        assert call(server.port, "POST", "/v1/nodes", NODE)[0] == 200
        server.wait_for("can be written again")
        assert server.stop() == 0
        text = log.read_text().splitlines()
        broken = [line for line in text if not line.endswith("}")]
        assert len(broken) <= 1 and json.loads(text[-1])["action"] == "stop"
    finally:
        server.kill()


def test_a_log_that_was_moved_away(audited, log, tmp_path):
    """As logrotate does it: a new file after SIGHUP, and nothing is lost between the two."""
    log.rename(tmp_path / "old.log")
    assert on_socket(tmp_path / "s", "POST", "/v1/nodes", NODE)[0] == 200
    audited.signal(signal.SIGHUP)
    wait_until(log.exists, "the new file")
    wait_until(lambda: lines(log, action="reopen"), "the first line")
    assert on_socket(tmp_path / "s", "POST", "/v1/nodes", NODE)[0] == 200
    assert len(lines(tmp_path / "old.log", action="addNodes", stage="begin")) == 1
    assert len(lines(log, action="addNodes", stage="begin")) == 1


@pytest.mark.parametrize("kind, why", [("link", "symbolic links"), ("fifo", "audit log"), ("directory", "directory")])
def test_what_is_no_audit_log(tmp_path, log, kind, why):
    (tmp_path / "other").write_text("kept")
    {"link": lambda: log.symlink_to(tmp_path / "other"), "fifo": lambda: os.mkfifo(log),
     "directory": log.mkdir}[kind]()
    done = drover("serve", "--journal", "none", "--http", "127.0.0.1:0", "--zk", "none", "--socket", "none",
                  "--audit", log)
    assert done.returncode == 1 and why in done.stderr, done.stderr
    assert (tmp_path / "other").read_text() == "kept"


def test_a_client_that_leaves(audited, log, tmp_path):
    """The change is made all the same, and its end is kept."""
    admin = admin_token(tmp_path / "data")
    connection = audited.connect()
    body = json.dumps({"roles": ["read"]})
    connection.send(f"POST /v1/tokens HTTP/1.1\r\nHost: 127.0.0.1:{audited.port}\r\nContent-Type: application/json\r\n"
                    f"Authorization: Bearer {admin}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    connection.close()
    wait_until(lambda: lines(log, action="createToken", stage="end"), "the end")
