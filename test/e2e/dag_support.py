"""What the tests of the DAG share: requests as Python values, and graphs in a line."""

import http.client
import json
import urllib.parse

from conftest import DEADLINE_S, call


class Refused(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status} {body}")
        self.status = status
        self.errors = body.get("errors", []) if isinstance(body, dict) else []


class Dag:
    """The API of one server."""

    def __init__(self, port, token=None):
        self.port = port
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def call(self, method, path, body=None, timeout=DEADLINE_S):
        status, answer = call(self.port, method, path, body, timeout=timeout, **self.headers)
        if status >= 300:
            raise Refused(status, answer)
        return answer

    def get(self, path, **query):
        return self.call("GET", path + ("?" + urllib.parse.urlencode(query) if query else ""))

    def put(self, path, body=None, **query):
        return self.call("PUT", path + ("?" + urllib.parse.urlencode(query) if query else ""), body)

    def add(self, *nodes):
        return [one["id"] for one in self.call("POST", "/v1/nodes", list(nodes))]

    def node(self, id):
        return self.get(f"/v1/nodes/{id}")

    def state(self, id):
        return self.node(id)["metadata"]["state"]

    def data(self, id, key, **query):
        return self.get(f"/v1/nodes/{id}/data/{key}", **query)

    def wait(self, *ids, **query):
        return [one["state"] for one in
                self.get("/v1/scheduler/wait", id=",".join(map(str, ids)), **query)]

    def metric(self, name):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        try:
            connection.request("GET", "/metrics", None, self.headers)
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        return next(int(float(line.split()[-1])) for line in text.splitlines()
                    if line.split()[0] == name)

    def claim(self, wait=10000, clientid=7, **more):
        """As an agent: claims tasks in the task store and starts their nodes."""
        tasks = self.call("POST", "/claim", {"clientid": clientid, "groups": ["drover/run"],
                                             "wait": wait, "duration": 60000, **more})["tasks"]
        return [(task, self.call("POST", f"/v1/nodes/{json.loads(task['data'])['node']}/start",
                                 {"clientid": clientid, "task": task["id"]})) for task in tasks]

    def kill(self, *ids):
        return self.put("/v1/scheduler/kill", id=",".join(map(str, ids)))


def shell(command, *parents, ref=None, **more):
    """A node of type shell command. What is no metadata is data."""
    return node("shell command", *parents, ref=ref, command=command, **more)


def node(type, *parents, ref=None, **more):
    metadata = {"type": type}
    if parents:
        metadata["parents"] = list(parents)
    for name in ("when", "branch", "priority", "group", "name"):
        if name in more:
            metadata[name] = more.pop(name)
    made = {"metadata": metadata, "data": more}
    if ref:
        made["ref"] = ref
    return made


def refused(status, call, *arguments, **more):
    """The call is refused with this status; returns the first error."""
    try:
        answer = call(*arguments, **more)
    except Refused as e:
        assert e.status == status, e
        assert e.errors, e
        return e.errors[0]
    raise AssertionError(f"not refused: {answer}")
