"""A server with worlds, on the embedded keeper and on an ensemble, and the tree as kazoo sees it."""

import http.client
import json
import time

from kazoo.client import KazooClient

from conftest import DEADLINE_S, OnEnsemble, Server, call, wait_until

LISTS = ("/zoott_p", "/zoott_w", "/zoott_c")


def figure(port, name):
    """One of /metrics; 0 when it is not there."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    connection.request("GET", "/metrics")
    for line in connection.getresponse().read().decode().splitlines():
        if line.startswith(name + " "):
            return float(line.split()[-1])
    return 0


class Stream:
    """What /v1/events tells, one by one: its kind and its data."""

    def __init__(self, port, path):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
        self.connection.request("GET", path)
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def next(self):
        kind = None
        deadline = time.monotonic() + DEADLINE_S
        while True:
            assert time.monotonic() < deadline, "no event, only signs of life"
            name, _, value = self.answer.readline().decode().rstrip("\n").partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                return kind, json.loads(value)


class Place:
    """A server, and a kazoo client that sees its tree."""

    def __init__(self, server, hosts, chroot=""):
        self.server = server
        self.port = server.port
        self.hosts = hosts + chroot
        self.kazoo = KazooClient(hosts=self.hosts)
        self.kazoo.start(timeout=DEADLINE_S)

    def close(self):
        self.kazoo.stop()
        self.kazoo.close()

    def session(self, timeout=10000):
        status, answer = call(self.port, "POST", "/v1/sessions", {"timeout": timeout})
        assert status == 200, answer
        assert answer["timeout"] == timeout
        return answer["session"]

    def sweep(self, *worlds):
        """Takes away what a test has left."""
        for directory in LISTS + tuple(f"/zoott_{world}" for world in worlds):
            if self.kazoo.exists(directory):
                for child in self.kazoo.get_children(directory):
                    self.kazoo.delete(f"{directory}/{child}", recursive=True)

    def nodes(self, *directories):
        """Path -> data, of everything below."""
        found = {}
        for directory in directories:
            for child in self.kazoo.get_children(directory):
                path = f"{directory}/{child}"
                found[path] = self.kazoo.get(path)[0]
                found.update(self.nodes(path))
        return found


def place_of(request, tmp_path_factory, chroot):
    """For fixtures with the parameters embedded and ensemble: a Place on that keeper."""
    if request.param == "embedded":
        server = Server("--data", tmp_path_factory.mktemp("data") / "d").start()
        one = Place(server, f"127.0.0.1:{server.zk_port}")
    else:
        ensemble = request.getfixturevalue("zookeeper")
        server = OnEnsemble(ensemble.url(chroot)).start()
        one = Place(server, ensemble.hosts, chroot)
        one.ensemble = ensemble
    one.kind = request.param
    wait_until(lambda: call(one.port, "GET", "/readyz")[0] == 200, "a server that is ready")
    yield one
    one.close()
    try:
        assert server.stop() == 0, server.said
    finally:
        server.kill()


class World:
    def __init__(self, place, name):
        self.place, self.name = place, name
        assert call(place.port, "POST", "/v1/worlds", {"world": name}) == (200, {"world": name})

    def post(self, what, **body):
        return call(self.place.port, "POST", f"/v1/worlds/{self.name}/{what}", body)

    def get(self, what):
        return call(self.place.port, "GET", f"/v1/worlds/{self.name}/{what}")

    def queue(self, name, type="t", data=None, parent=None, **more):
        if parent:
            more["parent"] = dict(zip(("name", "type"), parent))
        status, answer = self.post("tasks", task={"name": name, "type": type, "data": data}, **more)
        assert status == 200, answer
        return answer["paths"]

    def claim(self, session, *types, wait=0):
        status, answer = self.post("claim", types=types or ["t"], session=session, wait=wait)
        assert status == 200, answer
        assert (answer["node"] is None) == ("task" not in answer)
        return answer["node"]

    def end(self, how, node, session, **more):
        return self.post(how, node=node, session=session, **more)

    def complete(self, node, session):
        status, answer = self.end("complete", node, session)
        assert status == 200, answer
        return answer["state"]

    def listed(self, state):
        status, answer = self.get(f"tasks?state={state}")
        assert status == 200, answer
        return [task["node"] for task in answer["tasks"]]

    def record(self, node, name, type):
        """What the pending node of a task holds."""
        path = f"/zoott_{self.name}/" + node.replace("|", "/")
        parent = path.rpartition("/")[0] if "|" in node else None
        return {"name": name, "type": type, "path": path, "parent": parent}
