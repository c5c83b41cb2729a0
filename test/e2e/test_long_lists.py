"""Long lists come in slices, at the pace of the client: other requests have their turn, a slow reader costs little
memory, and what changes meanwhile leaves everything else exactly once."""

import json
import os
import socket
from urllib.parse import quote

import pytest

from conftest import Connection, Http, Server, drover, wait_until
from task_support import Tasks
from test_limits import metric

pytestmark = pytest.mark.slow

NODES = 900000 if os.environ.get("DROVER_SOAK") else 25000
MIB = 1024 * 1024


class SlowReader(Connection):
    """Asks for a list and reads nothing but the first bytes of the answer."""

    def __init__(self, server, path):
        super().__init__(server.port)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB // 4)
        self.send(server.fill(f"GET {path} HTTP/1.1\r\nHost: HOST\r\n\r\n"))
        self.read_to_end_of_head()
        assert b"\r\nTransfer-Encoding: chunked\r\n" in self.bytes

    def read_rest(self):
        """The parsed body."""
        return json.loads(self.answer()[2])


def settle(http):
    """The server has made what the sockets take: what it holds no longer changes."""
    seen = []
    wait_until(lambda: seen.append(metric(http, "drover_http_memory_bytes")) or seen[-3:] == [seen[-1]] * 3
               and len(seen) > 20)
    return seen[-1]


@pytest.fixture
def tasks(start):
    """A server, a client, and tasks that are 15 MiB to list."""
    server = start("--journal", "none")
    me = Tasks(server.port)
    return server, me, [task for _ in range(20) for task in me.add("g", *["x" * 1000] * 700)]


def test_tasks_that_change_meanwhile(tasks):
    server, me, ids = tasks
    reader = SlowReader(server, "/group/g?owned=1")
    me.update(deletes=ids[-10:])
    claimed = me.claim("g", limit=100)
    added = me.add("g", *"abc")
    got = [task["id"] for task in reader.read_rest()]
    assert len(set(got)) == len(got) and set(got) < set(ids)
    changed = set(ids) - {task["id"] for task in me.group("g", "?owned=1")}
    assert len(changed) == 110 and set(ids) - changed <= set(got)
    assert not set(got) & {*ids[-10:], *added, *(task["id"] for task in claimed)}
    assert {task["id"] for task in me.group("g")} == set(ids) - changed | set(added)
    assert server.stop() == 0, server.said


def test_slow_readers_cost_little(tasks):
    """Ten of them: a slice each, and the ids of what is to come."""
    server, me, ids = tasks
    readers = [SlowReader(server, path) for path in ("/group/g", f"/tasks/{','.join(map(str, ids[:2500]))}") * 5]
    assert settle(me) < 10 * (128 * 1024 + 8 * len(ids)) + MIB
    me.add("other", "x")
    for reader in readers:
        assert [task["id"] for task in reader.read_rest()] in (ids, ids[:2500])
    assert settle(me) < MIB
    left = SlowReader(server, "/group/g")
    left.close()
    assert settle(me) < MIB
    assert server.stop() == 0, server.said


def test_a_limit_and_what_is_missing(tasks):
    server, me, ids = tasks
    assert [task["id"] for task in me.group("g", "?limit=2000")] == ids[:2000]
    assert me.headers["Drover-More"] == "true" and me.headers["Transfer-Encoding"] == "chunked"
    assert len(me.group("g", f"?limit={len(ids)}")) == len(ids) and "Drover-More" not in me.headers
    got = me.get(f"/tasks/{','.join(str(i) for i in range(ids[-1] - 500, ids[-1] + 501))}")
    assert [task and task["id"] for task in got] == [*range(ids[-1] - 500, ids[-1] + 1)] + [None] * 500
    assert me.group("g", "?limit=3") == me.get(f"/tasks/{ids[0]},{ids[1]},{ids[2]}")
    assert me.headers["Content-Length"]
    me.update(deletes=ids[:700])
    assert [task["id"] for task in me.group("g", "?owned=1")].sort() == ids[700:].sort()
    assert server.stop() == 0, server.said


def pages(http, path, what, limit, by="after"):
    """All of a list with `next`, and how long its pages were."""
    found, sizes, after = [], [], ""
    while after is not None:
        status, page = http.send("GET", f"{path}?limit={limit}{after and f'&{by}={quote(str(after))}'}")
        assert status == 200, page
        found += page[what]
        sizes.append(int(http.headers["Content-Length"]))
        after = page.get("next")
    return found, sizes


def test_many_groups(start):
    """They are gathered in steps, and are in the order of their names nevertheless."""
    server = start("--journal", "none")
    me = Tasks(server.port)
    names = [f"group {n * 7919 % 30000:05} {'x' * (n % 60)}" for n in range(30000)]
    for at in range(0, len(names), 5000):
        me.update(adds=[{"group": name, "data": ""} for name in names[at:at + 5000]])
    assert me.get("/groups") == sorted(names) and me.headers["Transfer-Encoding"] == "chunked"
    for limit in (7000, 10000):
        found, sizes = pages(me, "/v1/groups", "groups", limit)
        assert [one["group"] for one in found] == sorted(names) and len(sizes) == -(-len(names) // limit)
        assert all(one["available"] == 1 for one in found)
    reader = SlowReader(server, "/groups")
    for path in ("/groups", "/v1/groups"):  # clients that leave before the answer begins
        for _ in range(20):
            gone = Connection(server.port)
            gone.send(server.fill(f"GET {path} HTTP/1.1\r\nHost: HOST\r\n\r\n"))
            gone.close()
    me.update(adds=[{"group": "another", "data": ""}])
    assert reader.read_rest() == sorted(names)
    assert settle(me) < MIB
    assert server.stop() == 0, server.said


def test_pages_of_large_items(start):
    """A page ends when it is about a megabyte long, however many items are allowed."""
    server = start("--journal", "none")
    me = Tasks(server.port)
    ids = [me.add("g", "x" * 300000)[0] for _ in range(20)]
    found, sizes = pages(me, "/v1/tasks", "tasks", 1000)
    assert [task["id"] for task in found] == ids and len(sizes) == 20 and max(sizes) < MIB
    small = me.add("g", *"abc")
    found, sizes = pages(me, "/v1/tasks", "tasks", 1000)
    assert [task["id"] for task in found] == ids + small and len(sizes) == 20  # with the last large one
    moved, after = 0, {}
    while after is not None:
        status, answer = me.send("POST", "/v1/tasks/bulk", {"filter": {"group": "g"}, "action": "move", "group": "h"} | after)
        assert status == 200 and answer["matched"] == answer["changed"], answer
        moved, after = moved + answer["changed"], answer["next"] and {"after": answer["next"]}
    assert moved == len(ids + small) == len(me.group("h")) and me.group("g") == []
    status, answer = me.send("GET", "/v1/tasks?text=nothing")
    assert status == 200 and answer["tasks"] == [] and answer["next"]
    names = [f"s{n:02}" for n in range(20)]
    for name in names:
        spec = {"cron": "@yearly", "task": {"group": "g", "data": "x" * 200000}}
        assert me.send("PUT", f"/v1/schedules/{name}", spec)[0] == 200
    found, sizes = pages(me, "/v1/schedules", "schedules", 1000)
    assert [one["name"] for one in found] == names and max(sizes) < MIB
    batches = [me.send("POST", "/v1/batches", {"submission": {"name": "x" * 300000}})[1]["batch"] for _ in range(9)]
    jobs = [me.send("POST", f"/v1/batches/{batches[0]}/jobs", {"configuration": {"x": "x" * 300000}})[1]["job"]
            for _ in range(9)]
    items = [me.send("POST", "/v1/access/small", {"x": "x" * 300000})[1]["access"] for _ in range(9)]
    for path, what, by, ids in (("/v1/batches", "batches", "after", batches), ("/v1/jobs", "jobs", "start", jobs),
                                ("/v1/access/small", "access", "after", items)):
        found, sizes = pages(me, path, what, 1000, by)
        assert [one["id"] for one in found] == ids and len(sizes) == 3 and max(sizes) < 2 * MIB, path
    done = drover("access", "ls", "small", "--json", "--server", f"http://127.0.0.1:{server.port}")
    assert [one["id"] for one in json.loads(done.stdout)["access"]] == items, done.stderr
    assert server.stop() == 0, server.said


@pytest.fixture(scope="module")
def nodes():
    """A server with many nodes that wait for an agent that never comes; their ids."""
    server = Server("--journal", "none").start()
    http = Http(server.port, timeout=600)
    new = {"metadata": {"type": "command", "group": "nobody" * 40, "name": "n" * 250}, "data": {"command": "true"}}
    ids = [int(node["id"]) for at in range(0, NODES, 50000)
           for node in http.send("POST", "/v1/nodes", [new] * min(50000, NODES - at))[1]]
    yield server, http, ids
    assert server.stop() == 0, server.said


def listed(answer):
    return [int(node["id"]) for node in answer]


def test_nodes_that_change_meanwhile(nodes):
    """In the order of their ids, so new ones are there and deleted ones may be."""
    server, http, ids = nodes
    reader = SlowReader(server, "/v1/nodes")
    assert settle(http) < MIB
    gone = {ids.pop(0), ids.pop(), ids.pop()}
    for node in gone:
        assert http.send("DELETE", f"/v1/nodes/{node}")[0] == 200
    added = http.send("POST", "/v1/nodes", [{"metadata": {"type": "command", "group": "nobody"},
                                             "data": {"command": "true"}}])[1]
    ids.append(int(added[0]["id"]))
    got = listed(reader.read_rest())
    assert got == sorted(set(got)) and set(ids) <= set(got) <= set(ids) | {min(gone)}
    assert listed(http.send("GET", "/v1/nodes?metadata=id")[1]) == ids
    reader.close()


def test_pages_and_filters_of_many_nodes(nodes):
    """What is not wanted is passed over in steps, too."""
    server, http, ids = nodes
    limit = 20000
    page = http.send("GET", f"/v1/nodes?limit={limit}&metadata=state")[1]
    assert listed(page["nodes"]) == ids[:limit] and page["pagination"]["next"] == str(ids[limit])
    rest = "&".join(f"{name}={page['pagination'][key]}" for name, key in (("start", "next"), ("pid", "pid")))
    page = http.send("GET", f"/v1/nodes?limit=100000&metadata=state&{rest}")[1]
    assert listed(page["nodes"]) == ids[limit:limit + 100000]
    assert http.send("GET", "/v1/nodes?state=failed") == (200, [])
    assert http.headers["Content-Length"] == "3"
    assert http.send("GET", "/v1/nodes?state=failed&new=0&timeout=1") == (200, [])
    assert http.send("GET", f"/v1/nodes?state=failed&limit={limit}") == (200, {"nodes": []})
    reader = Connection(server.port)
    reader.send(server.fill("GET /v1/nodes?state=killed&new=0 HTTP/1.1\r\nHost: HOST\r\n\r\n"))
    wait_until(lambda: metric(http, "drover_http_waiting_requests") == 1)
    assert http.send("PUT", f"/v1/scheduler/kill?id={ids[-1]}")[0] == 200
    http.send("POST", "/v1/nodes", [{"metadata": {"type": "command", "group": "nobody"}, "data": {"command": "true"}}])
    assert listed(json.loads(reader.answer()[2])) == [ids[-1]]
    reader.close()
