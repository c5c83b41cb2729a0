"""Another client of the keeper deletes everything that it can: the server goes on."""

import itertools
import time

import pytest
from kazoo.exceptions import (BadArgumentsError, KazooException, NoAuthError, NoNodeError,
                              NotEmptyError)

from batch_api import Api
from conftest import DEADLINE_S, call, wait_until
from dag_support import Dag, Refused, shell
from task_support import Tasks
from world_support import World, place_of

NUMBERS = itertools.count()
HEALED_S = 1
ATTEMPTS = 5


@pytest.fixture(params=["embedded", "ensemble"])
def site(request, tmp_path_factory):
    yield from place_of(request, tmp_path_factory, f"/ground-{next(NUMBERS)}")


def clear(kazoo, path="/"):
    """Deletes whatever can be deleted; returns what cannot, and why."""
    left = {}
    try:
        names = kazoo.get_children(path)
    except NoNodeError:
        return left
    for name in names:
        below = path.rstrip("/") + "/" + name
        left |= clear(kazoo, below)
        try:
            kazoo.delete(below)
        except NoNodeError:
            pass
        except (BadArgumentsError, NotEmptyError) as error:
            left[below] = type(error)
    return left


def is_ready(site):
    return call(site.port, "GET", "/readyz")[0] == 200


def soon(site, use, failed):
    """Uses a module that may be missing something, until it works. failed: the times of what did not."""
    def works():
        began = time.monotonic()
        try:
            return use(site) or True
        except (AssertionError, TypeError, Refused):
            failed.append(began)
            return None
    return wait_until(works, use.__name__, 2 * DEADLINE_S)


def heals(damage, check):
    """After the damage everything works again, and nothing fails later than HEALED_S. Only then is a machine
    that was busy given another attempt."""
    late = []
    while len(late) < ATTEMPTS:
        damage()
        damaged, failed = time.monotonic(), []
        check(failed)
        late.append(max(failed, default=damaged) - damaged)
        if late[-1] <= HEALED_S:
            return
    pytest.fail(f"failed later than {HEALED_S} s: {late}")


def use_tasks(site):
    tasks, group = Tasks(site.port), f"g-{next(NUMBERS)}"
    tasks.add(group, "data")
    [claimed] = tasks.claim(group)
    assert claimed["data"] == "data"
    tasks.update(deletes=[claimed["id"]])
    return claimed["id"]


def use_dag(site):
    dag = Dag(site.port)
    [node] = dag.add(shell("echo hello"))
    assert dag.wait(node, timeout=DEADLINE_S * 1000) == ["finished"]
    return node


def use_queue(site):
    api = Api(site.port)
    queue = api("POST", "/v1/queues")["queue"]
    api("POST", f"/v1/queues/{queue}/messages", {"data": "hello"})
    assert [m["data"] for m in api("GET", f"/v1/queues/{queue}/messages")["messages"]] == ["hello"]


def use_world(site):
    world, session = World(site, "earth"), site.session()
    world.queue("a")
    node = world.claim(session)
    assert node and world.complete(node, session)


def use_batch(site):
    """An attempt that failed may have left others, so any batch and any job will do."""
    api = Api(site.port)
    session = api.session()
    api.batch(user="me")
    batch = api("POST", "/v1/batches/acquire", {"session": session})["batch"]
    api.job(batch["id"])
    job = api("POST", "/v1/jobs/acquire", {"session": session, "wait": 5000, "state": "Pending"})
    assert job["job"]
    api("DELETE", f"/v1/sessions/{session}")


USES = {"tasks": use_tasks, "dag": use_dag, "queue": use_queue, "world": use_world,
        "batch": use_batch}


@pytest.mark.slow
def test_a_client_deletes_everything(site):
    first = {name: soon(site, use, []) for name, use in USES.items()}
    tasks = Tasks(site.port)
    [kept] = tasks.add("kept", "acknowledged")
    left = {}

    def all_work(failed):
        for name, use in USES.items():
            second = soon(site, use, failed)
            assert name not in ("tasks", "dag") or second > first[name], "an id was given twice"
        wait_until(lambda: is_ready(site), "readiness")

    for _ in range(2):
        heals(lambda: left.update(clear(site.kazoo)), all_work)
    if site.kind == "embedded":
        assert left["/drover/tasks"] == left["/drover/dag/head"] == BadArgumentsError
        assert [t["id"] for t in tasks.group("kept")] == [kept]
    site.server.wait_for("another client has deleted [/a-z_]+: making it again")


@pytest.mark.parametrize("site", ["embedded"], indirect=True)
@pytest.mark.parametrize("path", ["/drover/tasks", "/drover/tasks/new", "/drover/requests",
                                  "/drover/dag", "/drover/dag/head"])
def test_clients_of_the_port_change_nothing_that_the_server_owns(path, site):
    use_tasks(site)
    for change in [lambda: site.kazoo.create(path, b""), lambda: site.kazoo.set(path, b"x"),
                   lambda: site.kazoo.create(path + "/below", b"")]:
        with pytest.raises(NoAuthError):
            change()
    with pytest.raises(BadArgumentsError):
        site.kazoo.delete(path)
    t = site.kazoo.transaction()
    t.create("/beside")
    t.delete(path)
    assert [type(r) for r in t.commit()][1] is BadArgumentsError
    assert not site.kazoo.exists("/beside")
    site.kazoo.create("/drover/tasks-of-mine")
    site.kazoo.delete("/drover/tasks-of-mine")
    use_tasks(site)


@pytest.mark.slow
@pytest.mark.parametrize("site", ["ensemble"], indirect=True)
@pytest.mark.parametrize("path", ["/drover/tasks", "/drover/leader", "/drover/epoch", "/drover/dag",
                                  "/drover/requests", "/drover/tasks/0"])
def test_one_node_is_deleted_on_an_ensemble(path, site):
    used = [use_tasks(site)]
    use_dag(site)

    def damage():
        clear(site.kazoo, path)
        try:
            site.kazoo.delete(path)
        except KazooException:
            pass

    def check(failed):
        used.append(soon(site, use_tasks, failed))
        assert used[-1] > used[-2]
        if path == "/drover/dag":
            wait_until(lambda: call(site.port, "GET", "/v1/nodes") == (200, []), "an empty DAG")
        soon(site, use_dag, failed)
        wait_until(lambda: is_ready(site), "readiness")

    heals(damage, check)
