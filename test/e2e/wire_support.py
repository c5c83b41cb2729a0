"""Servers for the tests of the ZooKeeper port: one for a whole module."""

import pytest

from conftest import KEEPER_ONLY, Server
from proxy import Proxy  # noqa: F401


def serve(tmp_path_factory, *arguments):
    """For fixtures: a server, which has to end cleanly. The sanitizers speak at the end."""
    server = Server("--data", tmp_path_factory.mktemp("drover") / "data", *arguments, *KEEPER_ONLY)
    try:
        yield server.start()
        assert server.stop() == 0, server.said
    finally:
        server.kill()


@pytest.fixture(scope="module")
def drover(tmp_path_factory):
    """A server for all tests of a module."""
    yield from serve(tmp_path_factory)
