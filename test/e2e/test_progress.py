"""The progress of drover run on a real terminal (tmux)."""

import re

import pytest

from conftest import wait_until
from tmux import Terminal

GRAPH = """
name: work
nodes:
  quick: {command: "true"}
  slow:
    command: 'echo first; printf "bad \\033[2J\\007 line\\n"; while [ ! -e DIR/go ]; do sleep 0.05; done; sleep SECONDS'
    after: quick
  last: {command: "true", after: slow}
"""


@pytest.fixture
def run(server, tmp_path):
    def start(seconds=0, **more):
        (tmp_path / "g.yaml").write_text(GRAPH.replace("DIR", str(tmp_path)).replace("SECONDS", str(seconds)))
        settings = {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color"} | more
        return Terminal(tmp_path, "run", tmp_path / "g.yaml", "--server", f"http://127.0.0.1:{server.port}", **settings)
    return start


def test_the_nodes_that_run(run, tmp_path):
    """The bar, the node, how long it has run, its last line; all of it goes away."""
    with run() as screen:
        shown = screen.wait("[1/3] ███", "1 running", "slow", "bad \\x1b[2J\\x07 line")
        assert "first" not in shown
        wait_until(lambda: re.search(r"slow  [1-9]\d*s", screen.shown()), "a time that grows")
        (tmp_path / "go").touch()
        shown = screen.wait("status 0", "3 finished")
        assert "running" not in shown and "█" not in shown and "bad" not in shown


def test_what_is_left_by_an_earlier_run(run, tmp_path):
    (tmp_path / "go").touch()
    with run(seconds=1) as screen:
        screen.wait("status 0")
    with run(seconds=1) as screen:
        screen.wait("~1s left")
        screen.wait("status 0")


@pytest.mark.parametrize("columns", [24, 80, 200])
@pytest.mark.parametrize("more", [{}, {"LC_ALL": "C", "NO_COLOR": "1"}])
def test_widths(run, tmp_path, columns, more):
    """No line is broken, whatever the width; without UTF-8 the bar is ASCII."""
    with run(columns=columns, rows=10, **more) as screen:
        shown = screen.wait("[1/3] ", "slow")
        assert len([line for line in shown.splitlines() if line]) == 3  # run work-1, the bar, the node
        assert ("█" in shown) == (not more) and ("[1/3] #" in shown) == bool(more)
        assert ("\033[33m" in screen.shown("-e")) == (not more)
        (tmp_path / "go").touch()
        screen.wait("status 0")


def test_a_dumb_terminal_gets_lines(run, tmp_path):
    (tmp_path / "go").touch()
    with run(TERM="dumb") as screen:
        shown = screen.wait("[1/3] quick finished", "[2/3] slow finished", "[3/3] last finished", "status 0")
        assert "█" not in shown
