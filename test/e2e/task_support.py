"""What the tests of the task store share: a client, and fixtures, which modules import by name."""

import random
import urllib.parse

import pytest

from conftest import NUMBERS, Http, OnEnsemble, Server, errors


class Tasks(Http):
    """A client: one connection, one client id."""

    def __init__(self, port, clientid=None):
        super().__init__(port)
        self.clientid = random.getrandbits(50) if clientid is None else clientid

    def get(self, path):
        status, body = self.send("GET", path)
        assert status == 200, (status, body)
        return body

    def update(self, **members):
        """The tasks that it gave."""
        status, body = self.send("POST", "/update", {"clientid": self.clientid, **members})
        assert status == 200 and list(body) == ["tasks"], (status, body)
        return body["tasks"]

    def claim(self, group, duration=60000, **members):
        status, body = self.send("POST", "/claim", {"clientid": self.clientid, "group": group,
                                                    "duration": duration, **members})
        assert status == 200 and list(body) == ["tasks"], (status, body)
        return body["tasks"]

    def refused(self, path="/update", **members):
        """The reasons."""
        status, body = self.send("POST", path, {"clientid": self.clientid, **members})
        assert status == 409 and body["code"] == "REFUSED", (status, body)
        return errors(body)

    def add(self, group, *data, **more):
        """One task for each data; their ids."""
        given = self.update(adds=[{"group": group, "data": d, **more} for d in data])
        return [task["id"] for task in given]

    def group(self, name, query=""):
        return self.get(f"/group/{urllib.parse.quote(name, safe='')}{query}")


def new_group(name="group"):
    return f"{name}-{next(NUMBERS)}"


@pytest.fixture(scope="module", params=["embedded", "zookeeper"])
def server(request, tmp_path_factory):
    """One for all tests of a module on a keeper; it has to end cleanly."""
    name = request.module.__name__
    if request.param == "embedded":
        one = Server("--data", tmp_path_factory.mktemp(name) / "data").start()
    else:
        one = OnEnsemble(request.getfixturevalue("zookeeper").url(f"/{name}")).start().leads()
    yield one
    status = one.stop()
    one.kill()
    assert status == 0, one.said


@pytest.fixture
def me(server):
    one = Tasks(server.port)
    yield one
    one.close()


@pytest.fixture
def other(server):
    one = Tasks(server.port)
    yield one
    one.close()
