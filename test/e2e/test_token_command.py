"""drover token and drover whoami: a token from its making to its end, and what is refused."""

import json
import os

import pytest

from cli import Client
from conftest import Server


@pytest.fixture
def server(tmp_path):
    server = Server("--data", tmp_path / "data", "--socket", tmp_path / "s", "--loopback-roles", "read").start()
    yield server
    assert server.stop() == 0, server.said
    server.kill()


@pytest.fixture
def admin(server, tmp_path):
    """The user of the server, on its socket."""
    return Client(f"unix:{tmp_path / 's'}", tmp_path)


def holder(server, tmp_path, token):
    return Client(f"http://127.0.0.1:{server.port}", tmp_path, DROVER_TOKEN=token)


def test_a_token_is_made_used_and_revoked(server, admin, tmp_path):
    made = admin.run("token", "create", "--role", "work,submit", "--role", "read", "--group", "mail/*",
                     "--world", "w", "--queue", "q-*", "--expires", "30d", "--name", "mailer")
    token, ident = made.stdout.strip(), made.stderr.split()[-1]
    assert made.returncode == 0 and len(token) == 64 and token not in made.stderr, made
    [listed] = admin.json("token", "ls")["tokens"]
    assert listed["id"] == ident and listed["name"] == "mailer"
    assert listed["roles"] == ["read", "work", "submit"]
    assert (listed["groups"], listed["worlds"], listed["queues"]) == (["mail/*"], ["w"], ["q-*"])
    assert listed["expires"] - listed["created"] == 30 * 24 * 3600 * 1000
    table = admin.ok("token", "ls")
    assert ident in table and "mail/*" in table and token not in table
    mailer = holder(server, tmp_path, token)
    assert mailer.ok("whoami").splitlines() == [
        f"token {ident} (mailer)", "roles: read work submit", "groups: mail/*", "worlds: w", "queues: q-*"]
    mailer.ok("add", "mail/in", "x")
    done = mailer.run("add", "other", "x")
    assert done.returncode == 1 and "may not use 'other'" in done.stderr
    done = mailer.run("token", "ls")
    assert done.returncode == 1 and "needs the role admin" in done.stderr
    assert admin.ok("token", "revoke", ident) == ""
    done = mailer.run("whoami")
    assert done.returncode == 1 and "revoked" in done.stderr
    assert admin.json("token", "ls") == {"tokens": []}


def test_a_token_as_json(admin):
    made = admin.json("token", "create", "--role", "run")
    assert set(made) == {"id", "token"} and len(made["token"]) == 64
    [listed] = admin.json("token", "ls")["tokens"]
    assert listed["id"] == made["id"] and listed["expires"] == 0 and listed["groups"] == []


def test_several_are_revoked_at_once(admin):
    ids = [admin.json("token", "create", "--role", "read")["id"] for _ in range(3)]
    done = admin.run("token", "revoke", ids[0], "000000000000", ids[1])
    assert done.returncode == 1 and "there is no token 000000000000" in done.stderr
    assert [t["id"] for t in admin.json("token", "ls")["tokens"]] == [ids[2]]


def test_who_am_i(server, admin, tmp_path):
    assert admin.ok("whoami").splitlines() == [f"user {os.geteuid()}", "roles: read work submit run admin"]
    reader = Client(f"http://127.0.0.1:{server.port}", tmp_path)
    assert reader.json("whoami") == {"name": "loopback", "roles": ["read"]}
    only_groups = admin.json("token", "create", "--role", "read", "--group", "g")["token"]
    who = holder(server, tmp_path, only_groups)
    assert who.json("whoami")["worlds"] == [] and "worlds: none" in who.ok("whoami")


@pytest.mark.parametrize("words, why", [
    (["create"], "missing option: --role"),
    (["create", "--role", "boss"], "'boss' is no role"),
    (["create", "--role", "read", "--expires", "soon"], "soon"),
    (["create", "--role", "read", "--name", "x" * 65], "name"),
    (["create", "--role", "read", "--world", "x" * 1026], "worlds"),
    (["revoke"], "missing argument: ID"),
])
def test_wrong_use(admin, words, why):
    done = admin.run("token", *words)
    assert (done.returncode, done.stdout) == (2, "") and why in done.stderr, done
    assert json.loads(admin.ok("token", "ls", "--json")) == {"tokens": []}
