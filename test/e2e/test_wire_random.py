"""The random comparison with a real ZooKeeper (wire_random.py): ten seconds, an hour in `make soak`."""

import os
import random

import pytest

from wire_random import compare, start_servers

SECONDS = 3600 if os.environ.get("DROVER_SOAK") else 10


@pytest.mark.slow
def test_random_requests_are_answered_as_zookeeper_does():
    said = []
    with start_servers() as servers:
        same = compare(servers, random.randrange(10 ** 9), SECONDS, 150, said.append)
    assert same, "\n".join(said)
