"""Sessions while the server is stopped: SIGSTOP, as a laptop that is closed. Nobody can be heard meanwhile, so
nobody is missed, however long it takes."""

import signal
import time

import pytest

import wire_client as wire
from batch_api import Api
from conftest import wait_until

pytestmark = pytest.mark.slow

TIMEOUT_MS = 2000


def stand_still(server, until):
    server.signal(signal.SIGSTOP)
    try:
        wait_until(lambda: time.monotonic() >= until, "the end of the pause")
    finally:
        server.signal(signal.SIGCONT)


@pytest.mark.parametrize("late_s", [0.2, 3])
def test_a_full_timeout_after_the_server_was_stopped(start, late_s):
    """It was stopped until shortly after the sessions would have ended, or until long after. Then nobody uses them:
    they last for their timeout, and end."""
    server = start()
    api = Api(server.port)
    sessions = [api.session(TIMEOUT_MS) for _ in range(5)]
    client, watcher = wire.Client(server.zk_port, timeout_ms=TIMEOUT_MS), wire.Client(server.zk_port)
    assert client.timeout_ms == TIMEOUT_MS
    client.must(wire.create("/e", flags=wire.EPHEMERAL))
    stand_still(server, time.monotonic() + TIMEOUT_MS / 1000 + late_s)
    began = time.monotonic()

    def silent(session):
        """None: it has ended."""
        status, answer = api.send("GET", f"/v1/sessions/{session}")
        return answer["silent"] if status == 200 else None

    def port_is_alive():
        return watcher.call(wire.exists("/e")).error == wire.OK

    for session in sessions:  # the server may not have looked at its clock yet
        wait_until(lambda: (silent(session) or 0) < TIMEOUT_MS, "a look at the clock")
    alive = [silent(session) is not None for session in sessions], port_is_alive()
    if time.monotonic() - began < TIMEOUT_MS / 1000:  # else this test was stopped as well
        assert alive == ([True] * len(sessions), True)
    wait_until(lambda: not port_is_alive() and not any(silent(one) is not None for one in sessions), "their end")
    assert time.monotonic() - began > 0.9 * TIMEOUT_MS / 1000
    client.close()
    watcher.end()
