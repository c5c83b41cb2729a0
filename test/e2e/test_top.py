"""drover top under a real terminal (tmux)."""

import pytest

from conftest import call, wait_until
from dag_support import Dag, shell
from tmux import Terminal

EVIL = "mark\u202eed"


@pytest.fixture
def dag(server):
    return Dag(server.port)


@pytest.fixture
def top(server, tmp_path):
    def start(**more):
        settings = {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color"} | more
        return Terminal(tmp_path, "top", "--every", "100ms", "--server", f"http://127.0.0.1:{server.port}", **settings)
    return start


def submit(dag, *nodes):
    return [one["id"] for one in dag.call("POST", "/v1/runs", {"name": "build", "nodes": list(nodes)})["nodes"]]


def test_lists_logs_kill_and_retry(server, dag, top):
    call(server.port, "POST", "/update", {"clientid": 1, "adds": [{"group": "mail", "data": "x"}]})
    slow, bad = submit(dag, shell("echo line one; echo 'a\033[31mb'; sleep 600", name="build/slow"),
                       shell("exit 3", name="build/bad"))
    dag.wait(bad)
    with top() as screen:
        screen.wait("ok  ", "[1 running]", "> ", "build/slow")
        screen.press("Enter")
        assert "a\\x1b[31mb" in screen.wait("log of", "line one")
        screen.press("Escape")
        screen.wait("NAME")
        screen.press("3")
        screen.wait("[3 failed]", "build/bad", "exit status 3")
        screen.press("r")
        screen.wait(f"retry {bad}: done")
        screen.press("4")
        screen.wait("[4 tasks]", "mail")
        for tab in ("[5 queues]", "[6 batches]", "[7 jobs]", "[1 running]"):
            screen.press("Tab")
            screen.wait(tab)
        screen.press("2")
        screen.wait("> build-1")
        screen.press("Enter")
        screen.wait("run build-1", "> ", "build/slow")
        screen.press("Down")
        wait_until(lambda: any("> " in line and "build/bad" in line for line in screen.shown().splitlines()), "the mark")
        screen.press("Up", "x")
        screen.wait(f"kill {slow}? y or n")
        screen.press("n")
        screen.wait("q quit")
        assert dag.node(slow)["metadata"]["state"] == "running"
        screen.press("x", "y")
        screen.wait(f"kill {slow}: done")
        assert dag.wait(slow) == ["killed"]
        screen.press("q")
        assert "running" not in screen.wait("status 0")  # the screen is as before


@pytest.mark.parametrize("columns", [24, 40, 80, 200])
def test_every_width_and_a_resize(dag, top, columns):
    [id] = submit(dag, shell("sleep 600", name="build/" + "long" * 30))
    with top(columns=columns, rows=12) as screen:
        shown = screen.wait("> ", id, "build/")
        assert "[1 running]" in shown and shown.count("build/") == 1  # no line is broken
        assert ("…" in shown) == (columns < 200)
        screen.resize(columns + 13, 20)
        wait_until(lambda: len(screen.shown().splitlines()) == 20 and "up/down" in screen.shown().splitlines()[-1],
                   "the last line at its new place")
        screen.press("q")
        screen.wait("status 0")
    dag.call("PUT", f"/v1/scheduler/kill?id={id}")


@pytest.mark.parametrize("more", [{"NO_COLOR": "1"}, {"LC_ALL": "C"}, {}])
def test_colour_and_utf8(dag, top, more):
    [id] = submit(dag, shell("sleep 600", name=f"build/é{EVIL}"))
    with top(columns=100, **more) as screen:
        plain = screen.wait("build/")
        assert "\u202e" not in plain and ("é" in plain) == ("LC_ALL" not in more)
        assert ("\033[" in screen.shown("-e")) == ("NO_COLOR" not in more)
        screen.press("C-c")
        screen.wait("status 0")
    dag.call("PUT", f"/v1/scheduler/kill?id={id}")


def test_a_dumb_terminal_gets_the_lists_once(dag, top):
    with top(TERM="dumb") as screen:
        assert "\033" not in screen.wait("running", "batches", "jobs", "status 0")


def test_a_server_that_is_away(start, tmp_path):
    server = start("--data", tmp_path / "data")
    with Terminal(tmp_path, "top", "--every", "100ms", "--server", f"http://127.0.0.1:{server.port}",
                  TERM="xterm") as screen:
        screen.wait("ok  ")
        server.kill()
        screen.wait("cannot reach")
        screen.press("q")
        screen.wait("status 0")
