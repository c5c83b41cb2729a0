"""Random transactions with everything mixed, against the model: on both keepers, while servers are killed, and while
the leader is. DROVER_SEED repeats a run, DROVER_SOAK is for long ones."""

import http.client
import json
import os
import random
import select
import time

import pytest

from conftest import DEADLINE_S, Http, OnEnsemble, Server, call, wait_until
from task_policy_model import Player
from test_schedules import SECOND, Schedules, came_once, task

LONG = bool(os.environ.get("DROVER_SOAK"))
UNCERTAIN = (OSError, http.client.HTTPException)


@pytest.fixture
def seed():
    chosen = int(os.environ.get("DROVER_SEED") or random.getrandbits(32))
    print(f"DROVER_SEED={chosen}")
    return chosen


def play_for(player, seconds):
    end = time.monotonic() + (120 if LONG else seconds)
    while time.monotonic() < end:
        player.play(10)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["embedded", "zookeeper"])
def test_random_transactions(kind, request, tmp_path, seed):
    if kind == "embedded":
        one = Server("--data", tmp_path / "data").start()
    else:
        one = OnEnsemble(request.getfixturevalue("zookeeper").url(f"/model-{seed}")).start().leads()
    http = Http(one.port)
    play_for(Player(http.send, seed), 3)
    http.close()
    status = one.stop()
    one.kill()
    assert status == 0, one.said


class Servers:
    """Servers of which some are killed, and a client that repeats a request until it has an answer: with its
    requestid, so that it happens once."""

    def __init__(self, start, seed, share=0.02):
        self.start, self.random, self.share = start, random.Random(seed), share
        self.one, self.kills = start(), 0
        self.http = Http(self.one.port)

    def replace(self):
        self.one.kill()
        self.one = self.start()
        self.kills += 1
        self.http.close()
        self.http = Http(self.one.port)

    def send(self, method, path, body=None):
        deadline = time.monotonic() + 2 * DEADLINE_S
        kill = body is not None and "requestid" in body and self.random.random() < self.share
        while time.monotonic() < deadline:
            try:
                if kill:
                    self.send_and_kill(method, path, body)
                status, answer = self.http.send(method, path, body)
                if status not in (307, 503):
                    return status, answer
                time.sleep(0.01)  # nobody leads yet
            except UNCERTAIN:
                self.replace()
            kill = False
        raise AssertionError(f"{method} {path}: no answer")

    def send_and_kill(self, method, path, body):
        """When the server dies, the request may have arrived, may be done, or may be answered."""
        late = http.client.HTTPConnection("127.0.0.1", self.one.port, timeout=DEADLINE_S)
        late.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        select.select([late.sock], [], [], self.random.choice([0, 0.0005, 0.002]))
        self.one.process.kill()
        late.close()
        self.replace()


@pytest.mark.slow
def test_random_transactions_while_the_server_is_killed(tmp_path, seed):
    """No slot is leaked, no key is held by nobody, each dead task has its reason; and the ticks of a schedule beside
    all that are neither lost nor doubled."""
    servers = Servers(lambda: Server("--data", tmp_path / "data").start(), seed)
    schedules = Schedules(servers.one.port)
    first = schedules.put("ticks", **SECOND, missed="all", **task("ticks"))["next"]
    player = Player(servers.send, seed)
    play_for(player, 5)
    schedules = Schedules(servers.one.port)
    assert came_once(schedules, "ticks", first) >= 3
    assert servers.kills > 3, player.steps
    status = servers.one.stop()
    servers.one.kill()
    assert status == 0, servers.one.said


@pytest.mark.slow
def test_random_transactions_while_the_leader_is_killed(serve, seed):
    waiting = [serve("--loopback-roles", "all").leads(), serve("--loopback-roles", "all")]

    def next_leader():
        one = waiting.pop(0)
        wait_until(lambda: call(one.port, "GET", "/v1/tasks")[0] == 200, "it leads", 2 * DEADLINE_S)
        return one

    servers = Servers(next_leader, seed, 0)
    player = Player(servers.send, seed)
    play_for(player, 2)
    servers.share = 1  # the next transaction finds the leader dead, or kills it in the middle
    while not servers.kills:
        player.play()
    servers.share = 0
    play_for(player, 2)
