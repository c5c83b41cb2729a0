"""The keeper over ZooKeeper when connections, servers and the client itself fail.

A proxy cuts connections between exactly the request and the reply that matter; kazoo, on a
connection of its own past the proxy, is the judge of what really happened. What is asked for
everywhere: what was acknowledged is there, UNKNOWN is said where it is true, no sequential node is
made twice or forgotten, a watch misses nothing, and the client goes on by itself.
"""

import time

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from driver import Driver
from proxy import CHANGES, CHILDREN2, CREATE2, EXISTS, GET, MULTI, SET, SYNC, Proxy
from wait import wait_until
from zk import Ensemble, four_letters

TIMEOUT_MS = 4000


@pytest.fixture
def ensemble(tmp_path):
    with Ensemble(tmp_path / "zk", nodes=3) as zk:
        yield zk


@pytest.fixture
def impatient(tmp_path):
    """Three that give up one of them soon."""
    with Ensemble(tmp_path / "zk", nodes=3, sync_limit=10) as zk:
        yield zk


@pytest.fixture
def proxy(zookeeper):
    with Proxy(zookeeper.nodes[0].port) as p:
        yield p


@pytest.fixture
def judge(zookeeper):
    client = KazooClient(hosts=zookeeper.hosts)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def driver():
    with Driver() as d:
        yield d


@pytest.fixture
def root(request, judge):
    """A chroot of the test's own."""
    path = "/" + request.node.name.replace("[", "-").replace("]", "")
    judge.create(path)
    return path


@pytest.fixture
def keeper(proxy, root, driver):
    """The driver, connected through the proxy, below the test's root; its tags node is made."""
    return connected(driver, proxy, root, TIMEOUT_MS)


@pytest.fixture
def patient(proxy, root, driver):
    """The same, for tests that do much while it has no connection."""
    return connected(driver, proxy, root, 30000)


def connected(driver, proxy, root, timeout_ms):
    driver.must("connect", f"zk://127.0.0.1:{proxy.port}{root}", timeout_ms)
    driver.must("create", "/q", "-", "-")
    driver.must("create", "/q/warm-", "-", "s")
    return driver


def data_of(judge, path):
    """Names of the children by their data; fails when two have the same."""
    found = {}
    for name in judge.get_children(path):
        data = judge.get(f"{path}/{name}")[0].decode()
        assert data not in found or not data, f"{data} is in {found[data]} and in {name}"
        found[data] = name
    found.pop("", None)
    return found


# What cannot be sent.

@pytest.mark.parametrize("flags", ["-", "s"])
def test_what_is_too_big_is_said_before_it_is_sent(zookeeper, judge, root, driver, flags):
    """With the chroot before each path, and with the tag. ZooKeeper would cut the connection."""
    chroot = f"{root}/{'c' * 3000}"
    driver.must("connect", f"zk://{zookeeper.hosts}{chroot}", TIMEOUT_MS)
    driver.must("create", "/warm-", "-", "s")
    session = driver.must("session")
    most = 1024 * 1024 - 1 - 64 - 64 - len("/big-")
    for more, said in (1, "TOO_BIG"), (0, "TOO_BIG"), (-2900, "TOO_BIG"), (-6400, "OK"):
        assert driver.ask("create", "/big-", "x" * (most + more), flags).split()[0] == said
    assert [name[:5] for name in judge.get_children(chroot) if name.startswith("big-")] == \
        ["big-0" if flags == "s" else "big-"]
    assert driver.must("session") == session


# One request, lost at one place.

def test_a_create_whose_reply_is_lost_is_unknown_and_there(keeper, proxy, judge, root):
    proxy.swallow(CREATE2)
    assert keeper.ask("create", "/a", "x", "-") == "UNKNOWN"
    assert judge.get(f"{root}/a")[0] == b"x"
    assert keeper.must("get", "/a") == "x"


def test_a_create_that_is_lost_is_unknown_and_not_there(keeper, proxy, judge, root):
    proxy.lose(CREATE2)
    assert keeper.ask("create", "/a", "x", "-") == "UNKNOWN"
    assert keeper.ask("get", "/a") == "NO_NODE"
    assert not judge.exists(f"{root}/a")


@pytest.mark.parametrize("fault", ["swallow", "lose"])
def test_a_set_is_never_sent_again(keeper, proxy, judge, root, fault):
    getattr(proxy, fault)(SET)
    assert keeper.ask("set", "/q", "x", "-1") == "UNKNOWN"
    keeper.must("sync", "/")
    assert judge.get(f"{root}/q")[1].version == (1 if fault == "swallow" else 0)


@pytest.mark.parametrize("fault", ["swallow", "lose"])
def test_a_transaction_is_never_sent_again(keeper, proxy, judge, root, fault):
    getattr(proxy, fault)(MULTI)
    got = keeper.ask("multi", "create", "/a", "x", "-", "set", "/q", "y", "-1")
    assert got == "UNKNOWN UNKNOWN:-:0 UNKNOWN:-:0"
    keeper.must("sync", "/")
    happened = fault == "swallow"
    assert bool(judge.exists(f"{root}/a")) == happened
    assert judge.get(f"{root}/q")[1].version == int(happened)


@pytest.mark.parametrize("opcode, command", [
    (GET, ["get", "/q"]), (CHILDREN2, ["children", "/q"]), (SYNC, ["sync", "/q"])])
@pytest.mark.parametrize("fault", ["swallow", "lose"])
def test_a_read_is_sent_again(keeper, proxy, opcode, command, fault):
    getattr(proxy, fault)(opcode, times=3)
    keeper.must(*command)
    assert proxy.count == 3


# Sequential creates: found again, or made once more.

@pytest.mark.parametrize("flags", ["s", "es"])
@pytest.mark.parametrize("fault", ["swallow", "lose"])
def test_a_sequential_create_survives(keeper, proxy, judge, root, flags, fault):
    getattr(proxy, fault)(MULTI)
    assert keeper.must("create", "/q/n-", "mine", flags) == "/q/n-0000000001"
    assert proxy.count == 1
    assert data_of(judge, f"{root}/q") == {"mine": "n-0000000001"}


def test_a_sequential_create_survives_many_faults(keeper, proxy, judge, root):
    """Also while it is being looked for."""
    for opcode in (SYNC, GET, CHILDREN2, EXISTS):
        proxy.swallow(opcode)
        proxy.lose(opcode)
    proxy.lose(MULTI, times=3)
    proxy.swallow(MULTI)
    assert keeper.must("create", "/q/n-", "mine", "s") == "/q/n-0000000001"
    assert proxy.count == 12
    assert data_of(judge, f"{root}/q") == {"mine": "n-0000000001"}


def test_the_first_sequential_create_of_a_session_survives(proxy, judge, root, driver):
    """Here the tag's node is made by the transaction itself."""
    driver.must("connect", f"zk://127.0.0.1:{proxy.port}{root}", TIMEOUT_MS)
    driver.must("create", "/q", "-", "-")
    proxy.swallow(MULTI)
    assert driver.must("create", "/q/n-", "mine", "s") == "/q/n-0000000000"
    assert data_of(judge, f"{root}/q") == {"mine": "n-0000000000"}


def test_a_request_that_arrives_late_does_not_happen(keeper, proxy, judge, root):
    """The connection breaks, the client connects anew, and only then does the server get it."""
    proxy.late(MULTI, 0.5)
    assert keeper.must("create", "/q/n-", "mine", "s") == "/q/n-0000000001"
    proxy.wait_late(1)
    assert data_of(judge, f"{root}/q") == {"mine": "n-0000000001"}


def test_a_lost_one_is_found_among_others_that_look_alike(patient, proxy, judge, root):
    """Others make nodes with the same prefix and data before and after ours."""
    for _ in range(30):
        judge.create(f"{root}/q/n-", b"mine", sequence=True)
    proxy.swallow(MULTI)
    proxy.refuse = True
    patient.send("create", "/q/n-", "mine", "s")
    wait_until(lambda: proxy.count, "a fault")
    for _ in range(300):
        judge.create(f"{root}/q/n-", b"mine", sequence=True)
    proxy.refuse = False
    assert patient.reply() == "OK /q/n-0000000031"
    assert len(judge.get_children(f"{root}/q")) == 332


@pytest.mark.parametrize("fault", ["swallow", "lose"])
def test_several_in_one_transaction_survive(keeper, proxy, judge, root, fault):
    getattr(proxy, fault)(MULTI)
    got = keeper.must("multi", "create", "/q/n-", "1", "s", "create", "/q/m-", "2", "s",
                      "create", "/q/n-", "3", "es", "create", "/q/plain", "4", "-")
    assert {r.split(":")[0] for r in got.split()} == {"OK"}
    paths = [r.split(":")[1] for r in got.split()]
    assert paths == ["/q/n-0000000001", "/q/m-0000000002", "/q/n-0000000003", "/q/plain"]
    zxids = {r.split(":")[2] for r in got.split()}
    assert zxids == {str(judge.exists(f"{root}/q/plain").czxid)}


def test_one_that_was_deleted_meanwhile_is_unknown(patient, proxy, judge, root):
    proxy.swallow(MULTI)
    proxy.refuse = True
    patient.send("create", "/q/n-", "mine", "s")
    wait_until(lambda: proxy.count, "a fault")
    judge.delete(f"{root}/q/n-0000000001")
    proxy.refuse = False
    assert patient.reply() == "UNKNOWN"
    assert data_of(judge, f"{root}/q") == {}


def test_tags_that_somebody_deletes_are_made_again(keeper, judge, root):
    judge.delete(f"{root}/.drover-tags", recursive=True)
    assert keeper.must("create", "/q/n-", "mine", "s") == "/q/n-0000000001"
    assert judge.exists(f"{root}/.drover-tags")


@pytest.mark.parametrize("fault", ["swallow", "lose"])
def test_a_lost_transaction_leaves_its_tag_in_order(proxy, judge, root, driver, fault):
    """Creations without a set carry a tag, to learn their number, and are not looked for."""
    driver.must("connect", f"zk://127.0.0.1:{proxy.port}{root}", TIMEOUT_MS)
    for i in range(3):
        getattr(proxy, fault)(MULTI)
        got = driver.ask("multi", "create", f"/a{i}", "x", "-", "create", f"/b{i}", "x", "-")
        assert got == "UNKNOWN UNKNOWN:-:0 UNKNOWN:-:0"
        got = driver.must("multi", "create", f"/c{i}", "x", "-", "create", f"/d{i}", "x", "-")
        zxid = judge.exists(f"{root}/c{i}").czxid
        assert got == f"OK:/c{i}:{zxid} OK:/d{i}:{zxid}"
        assert bool(judge.exists(f"{root}/a{i}")) == (fault == "swallow")


@pytest.mark.parametrize("fault", ["swallow", "lose"])
def test_lost_commits_leave_their_tags_in_order(keeper, proxy, judge, root, fault):
    """As many tags as are on their way; most of them are lost while they are being made."""
    getattr(proxy, fault)(MULTI)
    keeper.must("commits", "/q/a", "-", 20, 20, 0, "+/q/A")
    assert "UNKNOWN" in {line.split()[1] for line in keeper.told}
    del keeper.told[:]
    keeper.must("sync", "/")  # waits for a connection, which commits do not
    keeper.must("commits", "/q/b", "-", 20, 20, 0, "+/q/B")
    assert [line.split()[1:] for line in keeper.told] == [["OK", f"/q/b{i}"] for i in range(20)]
    assert len([n for n in judge.get_children(f"{root}/q") if n[0] in "bB"]) == 40


def test_tags_of_somebody_else_are_left_alone(proxy, judge, root, driver):
    url = f"zk://127.0.0.1:{proxy.port}{root}"
    driver.must("connect", url, TIMEOUT_MS, "drover:secret")
    driver.must("create", "/n-", "1", "s")
    with Driver() as other:
        other.must("connect", url, TIMEOUT_MS)
        assert other.must("create", "/n-", "2", "s") == "/n-0000000002"
        other.must("commits", "/n-", "s", 2, 2, 0)
        assert [line.split()[1] for line in other.told] == ["OK", "OK"]
        proxy.swallow(CREATE2)
        assert other.ask("create", "/n-", "3", "s") == "UNKNOWN"


def test_where_tags_are_forbidden_a_lost_sequential_create_is_unknown(proxy, judge, root, driver):
    from kazoo.security import make_acl
    judge.create(f"{root}/locked")
    judge.create(f"{root}/locked/q")
    judge.set_acls(f"{root}/locked", [make_acl("world", "anyone", read=True)])
    driver.must("connect", f"zk://127.0.0.1:{proxy.port}{root}/locked", TIMEOUT_MS)
    assert driver.must("create", "/q/n-", "1", "s") == "/q/n-0000000000"
    proxy.swallow(CREATE2)
    assert driver.ask("create", "/q/n-", "2", "s") == "UNKNOWN"
    assert driver.must("create", "/q/n-", "3", "s") == "/q/n-0000000002"


# Commits.

@pytest.mark.parametrize("fault", ["swallow", "lose"])
def test_commits_in_doubt_are_told_truthfully_and_in_order(keeper, proxy, judge, root, fault):
    getattr(proxy, fault)(MULTI, times=1)
    keeper.must("commits", "/q/n-", "s", 200, 50, 0)
    check_told(keeper, judge, f"{root}/q", in_order=True)


def check_told(driver, judge, path, in_order=False, unknown_may_exist=True):
    """Compares every reported line with the tree. Returns the count of each kind."""
    found = data_of(judge, path)
    counts = {}
    if in_order:
        numbers = [int(line.split()[0].split("-")[1]) for line in driver.told]
        assert numbers == list(range(len(numbers)))
    for line in driver.told:
        data, error, where = line.split()
        counts[error] = counts.get(error, 0) + 1
        if error == "OK":
            assert data in found, f"{data} was acknowledged as {where} and is not there"
            assert where.endswith("/" + found.pop(data))
        elif error == "UNKNOWN" and unknown_may_exist:
            found.pop(data, None)
    assert not found, f"nobody was told about {found}"
    return counts


# Storms of faults, the same for the same seed as far as threads allow.

@pytest.mark.parametrize("flags", ["s", "es"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_storm_of_sequential_creates(keeper, proxy, judge, root, flags, seed):
    proxy.chaos(seed, 0.02)
    keeper.must("storm", "/q/n-", flags, 60, 4)
    proxy.calm()
    assert proxy.count > 5
    assert check_told(keeper, judge, f"{root}/q", unknown_may_exist=False) == {"OK": 240}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_storm_of_commits(keeper, proxy, judge, root, seed):
    """Sequential commits that get UNKNOWN did not happen: nothing is left over."""
    proxy.chaos(seed, 0.02)
    keeper.must("commits", "/q/n-", "s", 400, 20, 200, "/q")
    proxy.calm()
    assert proxy.count > 1
    counts = check_told(keeper, judge, f"{root}/q", in_order=True, unknown_may_exist=False)
    assert counts["OK"] > 20


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_storm_of_sets(keeper, proxy, judge, root, seed):
    proxy.chaos(seed, 0.03)
    keeper.must("sets", "/q", 200)
    proxy.calm()
    keeper.must("sync", "/")
    told = [line.split() for line in keeper.told]
    versions = [int(version) for _, error, version in told if error == "OK"]
    unknown = sum(error == "UNKNOWN" for _, error, _ in told)
    assert versions == sorted(set(versions)) and len(versions) + unknown == 200
    assert len(versions) <= judge.get(f"{root}/q")[1].version <= 200
    assert unknown > 1


# Watches.

@pytest.mark.parametrize("kind, change, event", [
    ("data", lambda z, p: z.set(p, b"new"), "CHANGED"),
    ("exists", lambda z, p: z.delete(p), "DELETED"),
    ("children", lambda z, p: z.create(p + "/child"), "CHILDREN"),
])
def test_a_change_while_disconnected_is_told(patient, proxy, judge, root, kind, change, event):
    patient.must("create", "/w", "-", "-")
    patient.must("watch", kind, "/w")
    proxy.refuse = True
    proxy.cut()
    change(judge, f"{root}/w")
    proxy.refuse = False
    patient.wait_event(f"RECONNECTED {kind} /w")
    patient.wait_event(f"{event} {kind} /w")


def test_a_watch_stays_through_many_connections(keeper, proxy, judge, root):
    keeper.must("create", "/w", "-", "-")
    keeper.must("watch", "data", "/w")
    for i in range(10):
        judge.set(f"{root}/w", str(i).encode())
        keeper.wait_event("CHANGED data /w")
        proxy.cut()
        keeper.wait_event("RECONNECTED data /w")


@pytest.mark.parametrize("fault", ["swallow", "lose"])
def test_a_watch_whose_arming_is_lost_is_armed_again(keeper, proxy, judge, root, fault):
    keeper.must("create", "/w", "-", "-")
    getattr(proxy, fault)(EXISTS)
    keeper.must("watch", "data", "/w")
    getattr(proxy, fault)(EXISTS)
    judge.set(f"{root}/w", b"1")
    keeper.wait_event("CHANGED data /w")
    judge.set(f"{root}/w", b"2")
    keeper.wait_event("CHANGED data /w")


def test_a_creation_before_it_can_be_watched_for_is_told(keeper, proxy, judge, root):
    """The watched node is deleted and created again before the client notices."""
    keeper.must("create", "/w", "-", "-")
    keeper.must("watch", "children", "/w")
    proxy.pause(EXISTS, 0.5)
    judge.delete(f"{root}/w")
    keeper.wait_event("DELETED children /w")
    wait_until(lambda: proxy.count, "a fault")
    judge.create(f"{root}/w")
    keeper.wait_event("CREATED children /w")
    judge.create(f"{root}/w/c")
    keeper.wait_event("CHILDREN children /w")


def test_watches_in_a_storm_miss_nothing(keeper, proxy, judge, root):
    """After each change, whatever happens to the connection, there is an event that follows it."""
    keeper.must("create", "/w", "-", "-")
    keeper.must("watch", "children", "/w")
    keeper.must("watch", "data", "/w")
    proxy.chaos(5, 0.05)
    for i in range(60):
        del keeper.events[:]
        judge.create(f"{root}/w/{i}")
        wait_any(keeper, "children")
        del keeper.events[:]
        judge.set(f"{root}/w", str(i).encode())
        wait_any(keeper, "data")
    assert proxy.count > 3


def test_watches_that_are_taken_back_are_forgotten_by_the_server(keeper, zookeeper):
    def watched():
        lines = four_letters(zookeeper.nodes[0].port, "mntr").splitlines()
        return int(dict(line.split(None, 1) for line in lines)["zk_watch_count"])
    assert watched() == 0
    for i in range(50):
        for kind in ("data", "exists", "children"):
            keeper.must("watch", kind, f"/q/{i % 10}")
        keeper.must("watch", "children", "/q")
        assert watched() == 2
        keeper.must("unwatch")
    keeper.must("sync", "/")
    assert watched() == 0


def wait_any(driver, kind):
    wait_until(lambda: any(event.split()[1] == kind for event in list(driver.events)),
               lambda: f"an event of {kind} among {driver.events}")


# Sessions.

def test_a_hanging_connection_is_given_up(keeper, proxy):
    """The server is silent: after two thirds of the timeout the client looks for another."""
    proxy.hold = True
    start = time.monotonic()
    keeper.send("set", "/q", "x", "-1")
    assert keeper.reply() == "UNKNOWN"
    assert time.monotonic() - start < 4 * TIMEOUT_MS / 1000
    proxy.hold = False
    keeper.must("get", "/q")


def test_without_any_server_calls_end(keeper, proxy):
    proxy.refuse = True
    proxy.cut()
    start = time.monotonic()
    assert keeper.ask("get", "/q") == "UNKNOWN"
    assert keeper.ask("create", "/q/n-", "x", "s") == "UNKNOWN"
    assert time.monotonic() - start < 8 * TIMEOUT_MS / 1000
    keeper.send("commits", "/q/c-", "-", 3, 3, 0)
    assert keeper.reply() == "OK"
    assert [line.split()[1] for line in keeper.told] == ["UNKNOWN"] * 3


def test_a_stopped_client_finds_its_session_expired(keeper, judge, root):
    keeper.must("create", "/q/e", "mine", "e")
    keeper.must("watch", "data", "/q/e")
    keeper.freeze()
    wait_until(lambda: not judge.exists(f"{root}/q/e"), "the end of the session")
    keeper.thaw()
    keeper.wait_event("EXPIRED data /q/e")
    assert keeper.ask("get", "/q") == "SESSION_EXPIRED"
    assert keeper.ask("create", "/q/n-", "x", "s") == "SESSION_EXPIRED"
    assert keeper.ask("commits", "/q/n-", "s", 1, 1, 0) == "SESSION_EXPIRED"
    assert keeper.ask("watch", "data", "/q") == "SESSION_EXPIRED"
    assert not [e for e in keeper.events if "EXPIRED" in e]
    keeper.must("close")


def test_a_stopped_client_with_commits_on_their_way(keeper, proxy, zookeeper, judge, root):
    """Each gets one answer, UNKNOWN or SESSION_EXPIRED, and acknowledged changes are there."""
    session = "0x" + keeper.must("session").split()[0]
    proxy.hold = True
    keeper.send("commits", "/q/n-", "s", 50, 50, 0)
    proxy.wait_held(CHANGES)
    keeper.freeze()
    wait_until(lambda: session not in four_letters(zookeeper.nodes[0].port, "dump"),
               "the end of the session")
    proxy.hold = False
    keeper.thaw()
    assert keeper.reply() == "OK"
    counts = check_told(keeper, judge, f"{root}/q", in_order=True)
    assert sum(counts.values()) == 50


def test_closing_ends_the_session_and_abandoning_does_not(proxy, judge, root, driver):
    url = f"zk://127.0.0.1:{proxy.port}{root}"
    driver.must("connect", url, TIMEOUT_MS)
    driver.must("create", "/e", "mine", "e")
    driver.must("abandon")
    assert judge.exists(f"{root}/e")
    driver.must("resume", url, TIMEOUT_MS)
    assert driver.must("get", "/e") == "mine"
    driver.must("close")
    assert not judge.exists(f"{root}/e")
    assert driver.ask("resume", url, TIMEOUT_MS).startswith("SESSION_EXPIRED ")


@pytest.mark.parametrize("how", ["close", "abandon"])
def test_ending_without_a_server(keeper, proxy, judge, root, how):
    """Takes seconds at most, and answers the requests under way."""
    proxy.hold = True
    keeper.send("commits", "/q/n-", "-", 1, 2, 0)
    proxy.wait_held(CHANGES)
    keeper.send(how)
    keeper.process.stdin.close()
    start = time.monotonic()
    proxy.refuse = True
    proxy.cut()
    keeper.process.wait(60)
    assert time.monotonic() - start < 30
    assert [line.split()[1] for line in keeper.told] == ["UNKNOWN"]


# Servers.

def test_a_restarted_server(driver, tmp_path):
    with Ensemble(tmp_path / "zk") as zk:
        driver.must("connect", zk.url("/a"), TIMEOUT_MS)
        driver.must("create", "/e", "mine", "e")
        driver.must("watch", "data", "/e")
        zk.nodes[0].restart()
        assert driver.must("get", "/e") == "mine"
        driver.wait_event("RECONNECTED data /e")
        driver.must("set", "/e", "new", "0")
        driver.wait_event("CHANGED data /e")


def test_the_leader_of_three_is_killed(driver, ensemble):
    driver.must("connect", ensemble.url("/a"), TIMEOUT_MS)
    driver.must("create", "/e", "mine", "e")
    driver.must("create", "/q", "-", "-")
    driver.send("storm", "/q/n-", "s", 300, 2)
    wait_until(lambda: len(driver.told) >= 50, "50 outcomes")
    ensemble.leader().kill()
    assert driver.reply() == "OK"
    judge = KazooClient(hosts=ensemble.hosts)
    judge.start(timeout=60)
    judge.sync("/a")
    try:
        assert check_told(driver, judge, "/a/q", unknown_may_exist=False) == {"OK": 600}
        assert driver.must("get", "/e") == "mine"
    finally:
        judge.stop()


def node_of(ensemble, driver):
    """The server that the driver is connected to."""
    session = "sid=0x" + driver.must("session").split()[0]
    for node in ensemble.nodes:
        if session in four_letters(node.port, "cons"):
            return node
    return None


def test_a_server_that_freezes_with_our_requests(driver, impatient):
    """It gets on with them when it thaws: long after they were made once more through another."""
    driver.must("connect", impatient.url("/a"), TIMEOUT_MS)
    driver.must("create", "/q", "-", "-")
    driver.must("create", "/q/warm-", "-", "s")
    node = node_of(impatient, driver)
    node.freeze()
    try:
        driver.send("storm", "/q/n-", "s", 20, 4)
        assert driver.reply() == "OK"
    finally:
        node.thaw()
    judge = KazooClient(hosts=f"127.0.0.1:{node.port}")
    try:
        judge.start(timeout=60)  # it has rejoined the ensemble and caught up
        judge.sync("/a")
        assert check_told(driver, judge, "/a/q", unknown_may_exist=False) == {"OK": 80}
    finally:
        judge.stop()


def test_a_request_that_arrives_late_at_another_server_does_not_happen(driver, ensemble):
    proxies = [Proxy(node.port) for node in ensemble.nodes]
    judge = KazooClient(hosts=ensemble.hosts)
    judge.start(timeout=60)
    with proxies[0], proxies[1], proxies[2]:
        hosts = ",".join(f"127.0.0.1:{p.port}" for p in proxies)
        driver.must("connect", f"zk://{hosts}/a", TIMEOUT_MS)
        driver.must("create", "/q", "-", "-")
        driver.must("create", "/q/warm-", "-", "s")
        for p in proxies:
            p.late(MULTI, 0.5)
        driver.must("create", "/q/n-", "mine", "s")
        late = [p for p in proxies if p.count]
        assert late
        for p in late:
            p.wait_late(p.count)
        judge.sync("/a")
        assert list(data_of(judge, "/a/q")) == ["mine"]
        driver.must("close")
    judge.stop()


def test_each_of_three_is_killed_in_turn(driver, ensemble):
    driver.must("connect", ensemble.url("/a"), TIMEOUT_MS)
    driver.must("create", "/e", "mine", "e")
    driver.must("watch", "data", "/e")
    for i, node in enumerate(ensemble.nodes):
        node.kill()
        for _ in range(100):
            got = driver.ask("set", "/e", str(i), "-1")
            if got.startswith("OK"):
                break
            assert got == "UNKNOWN"
        driver.wait_event("CHANGED data /e")
        node.start()
        node.wait()
    assert driver.must("get", "/e") == "2"


def test_the_whole_ensemble_is_restarted(driver, ensemble):
    driver.must("connect", ensemble.url("/a"), 10000)
    driver.must("create", "/e", "mine", "e")
    driver.must("create", "/p-", "kept", "s")
    ensemble.restart()
    assert driver.must("get", "/e") == "mine"
    assert driver.must("get", "/p-0000000002") == "kept"
    driver.must("create", "/p-", "more", "s")


# Access.

def test_nodes_are_the_creators_own(driver, zookeeper, judge):
    url = zookeeper.url("/auth/inner")
    driver.must("connect", url, TIMEOUT_MS, "drover:secret")
    assert driver.must("writable") == "no"
    driver.must("create", "/a", "x", "-")
    driver.must("create", "/q-", "x", "s")
    driver.must("multi", "create", "/b", "x", "-", "create", "/c", "x", "e")
    driver.must("close")
    for path in ("/auth", "/auth/inner", "/auth/inner/a"):
        with pytest.raises(NoAuthError):
            judge.get(path)
    with Driver() as other:
        other.must("connect", url, TIMEOUT_MS)
        assert other.ask("get", "/a") == "NO_AUTH"
        assert other.ask("create", "/d", "x", "-") == "NO_AUTH"
        assert other.ask("watch", "children", "/a") == "NO_AUTH"
        assert other.ask("multi", "create", "/d", "x", "-",
                         "set", "/a", "y", "-1").startswith("NO_AUTH NO_AUTH:")
    driver.must("connect", url, TIMEOUT_MS, "drover:secret")
    assert driver.must("get", "/a") == "x"


def test_authentication_holds_over_reconnections(proxy, zookeeper, driver):
    driver.must("connect", f"zk://127.0.0.1:{proxy.port}/auth2", TIMEOUT_MS, "drover:secret")
    for i in range(5):
        driver.must("create", f"/{i}", "x", "-")
        proxy.cut()
        assert driver.must("get", f"/{i}") == "x"


def test_the_world_is_seen_to_be_able_to_write(driver, zookeeper):
    driver.must("connect", zookeeper.url("/open"), TIMEOUT_MS)
    assert driver.must("writable") == "yes"


@pytest.mark.parametrize("url, says", [
    ("http://localhost:2181", "not of the form"),
    ("zk://", "host is missing"),
    ("zk:///a", "host is missing"),
    ("zk://a:1,,b:2", "host is missing"),
    ("zk://localhost:0", "is not host:port"),
    ("zk://localhost:65536", "is not host:port"),
    ("zk://localhost:x", "is not host:port"),
    ("zk://localhost:", "is not host:port"),
    ("zk://[::1", "without its ]"),
    ("zk://[::1]x", "is not host:port"),
    ("zk://localhost:2181//a", "is not a path"),
    ("zk://localhost:2181/a/", "is not a path"),
    ("zk://user:password@localhost:2181", "credentials do not go there"),
])
def test_bad_urls(driver, url, says):
    got = driver.ask("connect", url, TIMEOUT_MS)
    assert got.startswith("BAD_ARGUMENT ") and says in got
    assert "password" not in got


def test_no_server_there(driver):
    got = driver.ask("connect", "zk://127.0.0.1:1", TIMEOUT_MS, "-", 300)
    assert got == "IO zk://127.0.0.1:1: no server answered within 300 ms"


def test_no_such_host(driver):
    got = driver.ask("connect", "zk://no-such-host.invalid:2181", TIMEOUT_MS, "-", 300)
    assert got.startswith("IO zk://no-such-host.invalid:2181: cannot resolve any of the hosts")
