"""kazoo's own tests pass on the ZooKeeper port as they do on ZooKeeper: tools/suites, at length only."""

import os
import subprocess

import pytest

from conftest import BINARY, ROOT

pytestmark = [pytest.mark.slow,
              pytest.mark.skipif("DROVER_SOAK" not in os.environ, reason="takes minutes")]


def test_kazoo(tmp_path):
    done = subprocess.run([ROOT / "tools/suites", "--only", "kazoo", "--work", tmp_path,
                           "--drover", BINARY], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
