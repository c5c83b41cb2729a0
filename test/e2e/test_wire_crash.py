"""kill -9 of `drover serve` under kazoo clients that hold sessions, locks and ephemeral nodes.

It is started again on the same port and directory. Sessions go on, with their nodes; what was acknowledged
is there; no lock is held twice; and what the dead have held is free after their timeout.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, NoNodeError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from conftest import KEEPER_ONLY, Server, wait_until
from wire_client import (EPHEMERAL, Client, create, create_container, create_ttl, delete, get_children,
                         get_ephemerals)
from zk import free_ports

WAIT_S = 60
ROUNDS = 20 if os.environ.get("DROVER_SOAK") else 4
LOST = (ConnectionLoss, ConnectionClosedError, SessionExpiredError, KazooTimeoutError)
pytestmark = [pytest.mark.slow,
              pytest.mark.filterwarnings("ignore::DeprecationWarning:kazoo.*")]


class Phoenix:
    """A server that can be killed and restarted on the same ports and directory."""

    def __init__(self, directory, *arguments):
        [self.port] = free_ports(1)
        self.arguments = ["--data", directory, "--zk", f"127.0.0.1:{self.port}", *arguments,
                          *KEEPER_ONLY]
        self.server = None
        self.start()

    def start(self):
        self.server = Server(*self.arguments).start()

    def kill(self):
        self.server.kill()

    def restart(self, cleanly=False):
        if cleanly:
            assert self.server.stop() == 0, self.server.said
        self.kill()
        self.start()


@pytest.fixture
def rise(tmp_path):
    servers = []

    def start(*arguments):
        servers.append(Phoenix(tmp_path / "data", *arguments))
        return servers[-1]

    yield start
    for phoenix in servers:
        if phoenix.server.process.poll() is None:
            assert phoenix.server.stop() == 0, phoenix.server.said
        phoenix.kill()


@pytest.fixture
def connect():
    """Makes clients that try again quickly, and ends them."""
    with contextlib.ExitStack() as stack:
        def one(phoenix, **more):
            retry = KazooRetry(max_tries=-1, delay=0.02, max_delay=0.1, ignore_expire=False)
            client = KazooClient(f"127.0.0.1:{phoenix.port}", connection_retry=retry, **more)
            client.start(timeout=WAIT_S)
            stack.callback(client.close)
            stack.callback(client.stop)
            return client
        yield one


def persist(client, call, *arguments):
    """Until there is a connection again; for what may be done twice."""
    return KazooRetry(max_tries=-1, delay=0.02, max_delay=0.1, deadline=WAIT_S)(call, *arguments)


# Sessions.

@pytest.mark.parametrize("cleanly", [False, True], ids=["kill", "term"])
def test_sessions_and_ephemeral_nodes_survive(rise, connect, cleanly):
    phoenix = rise()
    clients = [connect(phoenix) for _ in range(3)]
    states = [[] for _ in clients]
    for i, client in enumerate(clients):
        client.add_listener(states[i].append)
        client.create(f"/e{i}", b"%d" % i, ephemeral=True)
    sessions = [client.client_id for client in clients]
    for _ in range(ROUNDS):
        phoenix.restart(cleanly)
        for i, client in enumerate(clients):
            assert persist(client, client.exists, f"/e{i}").ephemeralOwner == sessions[i][0]
    assert [client.client_id for client in clients] == sessions
    assert not any(KazooState.LOST in seen for seen in states)
    clients[0].stop()
    assert sorted(clients[1].get_children("/")) == ["e1", "e2", "zookeeper"]


@pytest.mark.parametrize("snapshot", [False, True], ids=["journal", "snapshot"])
def test_containers_and_times_to_live_survive(rise, snapshot):
    """They are still what they were, and their ends too are durable."""
    phoenix = rise("--zk-reap", "50ms", *(["--snapshot-every", "1"] if snapshot else []))
    with Client(phoenix.port) as c:
        c.must(create_container("/used"))
        c.must(create("/used/child"))
        c.must(create_container("/never"))
        c.must(create_ttl("/long", 3600 * 1000))
        c.must(create_ttl("/short", 1000))
        c.must(create("/plain"))
        c.end()
    phoenix.kill()
    phoenix.start()
    with Client(phoenix.port) as c:
        c.must(delete("/used/child"))
        wait_until(lambda: sorted(c.must(get_children("/"))) == ["long", "never", "plain", "zookeeper"],
                   "the end of what may go")
        c.end()
    phoenix.kill()
    phoenix.start()
    with Client(phoenix.port) as c:
        assert sorted(c.must(get_children("/"))) == ["long", "never", "plain", "zookeeper"]
        c.end()


@pytest.mark.parametrize("away_s", [0, 6.2])
def test_a_session_has_its_whole_timeout_again(rise, away_s):
    """However long the server was away: it could not have heard from anybody. A session with a short
    timeout shows that the server looks for those that have ended."""
    phoenix = rise()
    with Client(phoenix.port, timeout_ms=6000) as c, Client(phoenix.port, timeout_ms=1000) as short:
        c.must(create("/e", flags=EPHEMERAL))
        short.must(create("/short", flags=EPHEMERAL))
    phoenix.kill()
    time.sleep(away_s)  # longer than the timeout
    phoenix.start()
    with Client(phoenix.port, timeout_ms=6000) as other:
        wait_until(lambda: "/short" not in other.must(get_children("/")), "the end of the short one")
        other.end()
    with Client(phoenix.port, timeout_ms=6000, session=c.session, password=c.password,
                seen=c.zxid) as again:
        assert again.session == c.session and again.must(get_ephemerals("/")) == ["/e"]
        again.end()


def test_watches_survive(rise, connect):
    phoenix = rise()
    watcher, other = connect(phoenix), connect(phoenix)
    seen = []
    other.create("/n", b"0")
    watcher.DataWatch("/n", lambda data, stat: seen.append(data))
    for i in range(1, ROUNDS + 1):
        phoenix.restart()
        persist(other, other.set, "/n", b"%d" % i)
        wait_until(lambda value=b"%d" % i: seen[-1] == value)


@pytest.mark.parametrize("journal", ["opportunistic", "none"])
def test_clients_of_a_server_that_forgets_go_on(rise, connect, journal):
    """The session may be gone; the client must not be stuck."""
    phoenix = rise("--journal", journal)
    client = connect(phoenix)
    client.create("/before", ephemeral=True)
    for i in range(50):
        client.create(f"/n{i}")
    phoenix.restart()
    persist(client, client.create, "/after")
    assert client.exists("/after")
    if journal == "none":
        assert client.exists("/before") is None and client.exists("/n0") is None


# What was acknowledged.

class Writer:
    """Makes changes as fast as the answers come, and records the answers."""

    def __init__(self, client, name):
        self.client, self.name, self.stop = client, name, threading.Event()
        self.value, self.tried = 0, 0
        self.made, self.unknown, self.deleted = set(), set(), set()
        client.create(f"/{name}", b"0")
        client.create(f"/{name}-nodes")
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        number = 0
        while not self.stop.is_set():
            number += 1
            node = f"/{self.name}-nodes/{number}"
            try:
                self.tried = number
                self.client.set(f"/{self.name}", b"%d" % number)
                self.value = number
                self.unknown.add(node)
                self.client.create(node)
                self.made.add(node)
                if number % 3 == 0:
                    self.made.discard(node)
                    self.client.delete(node)
                    self.deleted.add(node)
                self.unknown.discard(node)
            except LOST:
                wait_until(lambda: self.client.connected or self.stop.is_set())
            except NoNodeError:
                raise AssertionError(f"{node} was there") from None

    def end(self):
        self.stop.set()
        self.thread.join(WAIT_S)
        assert not self.thread.is_alive()

    def check(self, judge):
        value = int(judge.get(f"/{self.name}")[0])
        assert self.value <= value <= self.tried
        there = {f"/{self.name}-nodes/{n}" for n in judge.get_children(f"/{self.name}-nodes")}
        assert self.made - self.unknown <= there
        assert not (there & self.deleted)
        assert there - self.made <= self.unknown
        return len(self.made)


def test_what_was_acknowledged_is_there(rise, connect):
    phoenix = rise("--snapshot-every", 300)
    writers = [Writer(connect(phoenix), f"w{i}") for i in range(3)]
    for _ in range(ROUNDS):
        done = sum(writer.value for writer in writers)
        wait_until(lambda done=done: sum(writer.value for writer in writers) > done + 100)
        phoenix.restart()
    for writer in writers:
        writer.end()
    judge = connect(phoenix)
    counts = [writer.check(judge) for writer in writers]
    assert all(count > 10 for count in counts)
    phoenix.restart()
    for writer in writers:
        writer.check(connect(phoenix))


# Locks.

def test_no_lock_is_held_twice(rise, connect):
    """Who holds the lock writes down from when to when, and with which number. Nobody is in while
    somebody else is, and the numbers rise."""
    phoenix = rise()
    clients = [connect(phoenix, timeout=WAIT_S) for _ in range(3)]
    stop, guard, held, inside = threading.Event(), threading.Lock(), [], []
    troubles = []

    def hold(client, name):
        lock = client.Lock("/lock", name)
        while not stop.is_set():
            try:
                if not lock.acquire(timeout=WAIT_S):
                    continue
            except LOST:
                continue
            fence = int(lock.node[-10:])
            with guard:
                inside.append(name)
                if len(inside) > 1 or (held and fence <= held[-1]):
                    troubles.append((list(inside), fence, held[-3:]))
                held.append(fence)
            time.sleep(random.uniform(0, 0.02))
            with guard:
                inside.remove(name)
            try:
                persist(client, lock.release)
            except LOST as trouble:
                troubles.append(repr(trouble))

    threads = [threading.Thread(target=hold, args=(c, f"c{i}")) for i, c in enumerate(clients)]
    for thread in threads:
        thread.start()
    for _ in range(ROUNDS):
        count = len(held)
        wait_until(lambda count=count: len(held) > count + 5)
        phoenix.restart()
    count = len(held)
    wait_until(lambda: len(held) > count + 5)
    stop.set()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()
    assert not troubles and len(held) > 5 * ROUNDS
    assert persist(clients[0], clients[0].get_children, "/lock") == []


HOLDER = """
import sys, time
from kazoo.client import KazooClient
client = KazooClient(sys.argv[1], timeout=2)
client.start()
client.Lock("/lock", "dead").acquire()
print(client.client_id[0], flush=True)
time.sleep(600)
"""


def test_the_lock_of_the_dead_is_free_after_its_timeout(rise, connect):
    phoenix = rise()
    alive = connect(phoenix)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, f"127.0.0.1:{phoenix.port}"],
                              stdout=subprocess.PIPE, text=True)
    try:
        session = int(holder.stdout.readline())
        lock = alive.Lock("/lock", "alive")
        assert lock.contenders() == ["dead"] and not lock.acquire(blocking=False)
        holder.send_signal(signal.SIGKILL)
        phoenix.restart()
        restarted = time.monotonic()
    finally:
        holder.kill()
        holder.communicate()
    waiting = threading.Thread(target=lambda: persist(alive, lock.acquire))
    waiting.start()
    wait_until(lambda: len(persist(alive, alive.get_children, "/lock")) == 2)
    assert not lock.is_acquired
    waiting.join(WAIT_S)
    took_s = time.monotonic() - restarted
    assert lock.is_acquired and lock.contenders() == ["alive"]
    assert 1.9 < took_s < 30, took_s
    assert alive.get_children("/lock") == [lock.node]
    assert session != alive.client_id[0]
