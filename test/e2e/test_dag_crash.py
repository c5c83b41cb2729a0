"""The DAG after kill -9: every node ran as its rule says, none twice that did not ask for it."""

import collections
import os
import random

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from conftest import wait_until
from dag_support import Dag, Refused, node, shell

pytestmark = pytest.mark.slow

SOAK = bool(os.environ.get("DROVER_SOAK"))
NODES = 2000 if SOAK else 150


def seed():
    value = int(os.environ.get("DROVER_SEED", random.randrange(1 << 30)))
    print(f"DROVER_SEED={value}")
    return random.Random(value)


def graph(rng, count, log):
    """Layers of shell commands that write down that they ran. Some ask to be tried again."""
    made = []
    for i in range(count):
        parents = [f"n{rng.randrange(i)}" for _ in range(rng.randrange(3))] if i else []
        more = {"retry": {"count": 50, "delay": 5}} if i % 3 == 0 else {}
        made.append(shell(f"echo {i} $DROVER_NODE >> {log}; sleep 0.0{rng.randrange(4)}",
                          *dict.fromkeys(parents), ref=f"n{i}", when=rng.choice(
                              ["success", "success", "always"]), **more))
    return made


def test_killed_again_and_again(start, tmp_path):
    rng = seed()
    log = tmp_path / "ran"
    log.touch()
    server = start("--jobs", 4)
    made = graph(rng, NODES, log)
    ids = Dag(server.port).add(*made)
    crashes = 0
    while True:
        try:
            states = Dag(server.port).wait(*ids, timeout=rng.randrange(20, 200))
        except (OSError, Refused):
            states = ["running"]
        if all(state in ("finished", "failed", "skipped") for state in states):
            break
        if crashes < (40 if SOAK else 6):
            server.kill()
            crashes += 1
            server = start("--jobs", 4)
    nodes = {one["id"]: one for one in Dag(server.port).get("/v1/nodes")}
    assert list(nodes) == ids
    ran = collections.Counter(int(line.split()[0]) for line in log.read_text().splitlines())
    state = {i: nodes[id]["state"] for i, id in enumerate(ids)}
    for i, one in enumerate(made):
        parents = [int(p[1:]) for p in one["metadata"].get("parents", [])]
        may = one["metadata"]["when"] == "always" or all(state[p] == "finished" for p in parents)
        assert (state[i] == "skipped") == (not may), (i, state[i])
        if state[i] == "skipped":
            assert ran[i] == 0
        elif "retry" in one["data"]:
            assert state[i] == "finished" and ran[i] >= 1
        elif state[i] == "finished":
            assert ran[i] == 1, i
        else:
            assert ran[i] <= 1, i
            assert nodes[ids[i]]["reason"] == "the server stopped while it ran"
    assert any(one["state"] == "finished" for one in nodes.values())
    assert server.stop() == 0, server.said


def test_what_ran_is_gone_when_the_server_comes_back(start):
    server = start("--jobs", 4)
    dag = Dag(server.port)
    a, b, c, d = dag.add(shell("(setsid sleep 71 &); sleep 72", ref="a"), shell("true", "a"),
                         node("condition", command="false", interval=20),
                         shell("sleep 0.5", retry={"count": 1, "delay": 1}))
    wait_until(lambda: "sleep 71" in os.popen("ps -eo args").read().splitlines(), "the command")
    wait_until(lambda: dag.state(d) == dag.state(c) == "running", "running nodes")
    server.kill()
    server = start("--jobs", 4)
    dag = Dag(server.port)
    assert dag.wait(a, b, d) == ["failed", "skipped", "finished"]
    assert dag.node(a)["metadata"]["reason"] == "the server stopped while it ran"
    assert dag.node(d)["metadata"]["attempts"] == 2
    assert dag.state(c) == "running"
    dag.kill(c)
    left = os.popen("ps -eo args").read().splitlines()
    assert "sleep 71" not in left and "sleep 72" not in left
    assert server.stop() == 0, server.said


def kept(server, path):
    """What the keeper has there, or nothing."""
    client = KazooClient(f"127.0.0.1:{server.zk_port}")
    client.start()
    try:
        return client.get(path)[0].decode()
    except NoNodeError:
        return ""
    finally:
        client.stop()
        client.close()


def test_what_was_printed_before_a_crash_is_kept(start):
    server = start()
    dag = Dag(server.port)
    [a] = dag.add(shell("echo begun; echo bad >&2; sleep 78"))
    wait_until(lambda: '"output":{"run"' in kept(server, f"/drover/dag/nodes/0/{a}"),
               "output on disk")
    server.kill()
    server = start()
    dag = Dag(server.port)
    assert dag.wait(a) == ["failed"]
    data = dag.node(a)["data"]
    assert (data["stdout"], data["stderr"], len(data["mixedout"])) == ("begun\n", "bad\n", 10)
    dag.put("/v1/scheduler/retry", id=a)
    wait_until(lambda: dag.data(a, "stdout")["data"] == "begun\n" and dag.state(a) == "running",
               "the second run")
    dag.kill(a)
    assert dag.wait(a) == ["killed"]
    assert dag.data(a, "stdout")["data"] == "begun\n"  # once: of the second run
    assert server.stop() == 0, server.said


def test_a_value_that_grows_in_drops_has_few_slots(start):
    server = start("--jobs", 0)
    dag = Dag(server.port)
    [a] = dag.add(shell("x"))
    [(_, run)] = dag.claim()
    mine, text = {"attempt": run["attempt"], "clientid": 7}, ""
    where = {}
    for i in range(60):
        drop = f"{i:03} \u00e9" * 100
        where = dag.put(f"/v1/nodes/{a}/data/stdout", {"value": drop}, **mine, **where)["pagination"]
        where = {"start": where["next"], "pid": where["pid"]}
        text += drop
        if i % 20 == 7:
            page = dag.data(a, "stdout")
            assert page["data"] == text and page["pagination"]["next"] == where["start"]
    client = KazooClient(f"127.0.0.1:{server.zk_port}")
    client.start()
    assert len(client.get_children("/drover/dag/slots/0")) == len(text.encode()) // 8192 == 4
    client.stop()
    dag.call("POST", "/v1/agent/done", {"node": a, "status": 0, **mine})
    assert server.stop() == 0, server.said
    server = start("--jobs", 0)
    dag = Dag(server.port)
    page, got = dag.data(a, "stdout", limit=5000), ""
    while True:
        got += page["data"]
        if "pagination" not in page:
            break
        page = dag.data(a, "stdout", limit=5000, start=page["pagination"]["next"],
                        pid=page["pagination"]["pid"])
    assert got == text
    assert server.stop() == 0, server.said


def test_a_clean_end_ends_what_runs(start):
    server = start()
    dag = Dag(server.port)
    [a] = dag.add(shell("sleep 73"))
    while dag.state(a) != "running":
        pass
    assert server.stop() == 0, server.said
    assert "sleep 73" not in os.popen("ps -eo args").read().splitlines()
    assert Dag(start().port).wait(a) == ["failed"]


def test_a_clean_end_in_the_middle_of_much(start):
    server = start("--jobs", 8)
    Dag(server.port).add(*[shell("true") for _ in range(300)])
    assert server.stop() == 0, server.said


@pytest.mark.parametrize("journal", ["strict", "opportunistic"])
def test_everything_is_found_again(start, journal):
    server = start("--journal", journal)
    dag = Dag(server.port)
    ids = dag.add(*[shell(f"echo {i}; exit {i % 2}", name=f"n{i}", priority=i) for i in range(8)],
                  node("if", ref="i", command="false"), shell("true", "i", branch="then"),
                  shell("true", "i", branch="else"), node("group", "i", ref="g"), shell("true", "g"),
                  shell("sleep 0.3; false", ref="f"), shell("true", "f", ref="s"), node("group", "s"),
                  node("group", "s", when="always"),
                  shell("head -c 20000 /dev/zero | tr '\\0' y"))
    dag.wait(*ids)
    dag.put(f"/v1/nodes/{ids[0]}/data/note", {"value": {"x": [1, "\u00e9\0"]}})
    dag.put(f"/v1/nodes/{ids[0]}/data/big", {"value": "z" * 300000})
    dag.call("DELETE", f"/v1/nodes/{ids[1]}")
    before = [dag.node(i) for i in ids[:1] + ids[2:]]
    big = dag.data(ids[-1], "stdout")
    assert server.stop() == 0, server.said
    server = start("--journal", journal)
    dag = Dag(server.port)
    after = [dag.node(i) for i in ids[:1] + ids[2:]]
    for one, same in zip(before, after):
        if one["metadata"]["type"] == "group" or one["metadata"]["state"] == "skipped":
            # It is not kept: the parents' ends say it, to the millisecond or two.
            assert abs(one["metadata"].pop("ended") - same["metadata"].pop("ended")) < 100
    assert after == before
    assert dag.data(ids[-1], "stdout") == big
    assert dag.data(ids[0], "big")["data"] == ("z" * 300000)[:262144]
    assert dag.add(node("group")) == [str(int(ids[-1]) + 1)]
    assert server.stop() == 0, server.said


def test_what_was_claimed_ahead_and_not_started_runs_later(start, tmp_path):
    """Short commands are claimed before there is room for them. The two long ones alone were running."""
    log = tmp_path / "ran"
    log.touch()
    server = start("--jobs", 2)
    dag = Dag(server.port)
    [hold] = dag.add(node("condition", command="test", args=["-e", str(tmp_path / "go")], interval=5))
    short = lambda i: shell(f"echo {i} >> {log}", str(hold))
    ids = dag.add(*[short(i) for i in range(20)], *[shell("sleep 74", str(hold)) for _ in range(2)],
                  *[short(i) for i in range(20, 40)])
    (tmp_path / "go").touch()
    assert dag.wait(*ids[:20]) == ["finished"] * 20
    wait_until(lambda: [dag.state(id) for id in ids[20:22]] == ["running"] * 2, "running nodes")
    server.kill()
    dag = Dag(start("--jobs", 2).port)
    assert dag.wait(*ids) == ["finished"] * 20 + ["failed"] * 2 + ["finished"] * 20
    assert sorted(map(int, log.read_text().split())) == list(range(40))
    assert {dag.node(id)["metadata"]["attempts"] for id in ids} == {1}


def test_what_was_claimed_ahead_is_given_back(start):
    server = start("--jobs", 1)
    dag = Dag(server.port)
    ids = dag.add(*[shell("true") for _ in range(10)], shell("sleep 75"),
                  *[shell("true") for _ in range(5)])
    dag.wait(*ids[:10])
    dag.kill(ids[-1])  # whether it waits for the agent or in it
    assert dag.wait(ids[-1]) == ["killed"]
    assert dag.node(ids[-2])["metadata"]["state"] == "incipient"
    assert "waits for an agent" in dag.node(ids[-2])["why"]
    taken = []

    def four_taken():
        taken.extend(run for _, run in dag.claim(limit=9, wait=1000))
        return len(taken) >= 4

    wait_until(four_taken, lambda: f"four runs, not {taken}")
    assert sorted((run["node"] for run in taken), key=int) == ids[11:15]
    assert {run["attempt"] for run in taken} == {1}
    dag.kill(ids[10])
    assert server.stop() == 0, server.said
