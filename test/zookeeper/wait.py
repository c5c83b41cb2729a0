"""Waiting for a condition, with a deadline. Tests and benchmarks wait with this and nothing else."""

import time

DEADLINE_S = 60  # by then something hangs


def wait_until(condition, what="the condition", seconds=DEADLINE_S, pause_s=0.01):
    """Calls the condition until its result is true, and returns that. what: a text, or a function that makes one."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, \
            f"not after {seconds} s: {what() if callable(what) else what}"
        time.sleep(pause_s)
    return found
