#!/usr/bin/env python3
"""The DAG beside ninja and make, in turns: the same graphs of `true`, two at a time.

  bench/dag.py DROVER [--nodes N] [--rounds N]

Shapes: independent nodes, a chain of a tenth as many, and layers with full edges between them. Times
are medians of the rounds, in seconds from the request (the start of ninja or make) to the end of the
last node; the ratio is that to the better of ninja and make. Then what else is promised: a large graph
in one request, a question for what runs among it, and a neighbour of a command that prints 1 GB.
"""

import argparse
import http.client
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

JOBS = 2


def shapes(nodes):
    """Name to a list of lists of parents, by index."""
    side = max(2, round(nodes ** 0.5))
    layers = [[(layer - 1) * side + k for k in range(side)] if layer else []
              for layer in range(side) for _ in range(side)]
    return {f"{nodes} independent": [[] for _ in range(nodes)],
            f"chain of {nodes // 10}": [[i - 1] if i else [] for i in range(nodes // 10)],
            f"{side} layers of {side}": layers}


class Server:
    """A server of its own, in an empty directory."""

    def __init__(self, drover, directory, journal):
        self.token = pathlib.Path(directory) / "admin.token"
        self.process = subprocess.Popen(
            [drover, "serve", "--data", directory, "--journal", journal, "--http", "127.0.0.1:0",
             "--zk", "none", "--jobs", str(JOBS)], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"listening on http://127\.0\.0\.1:(\d+)", line):
                self.http = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=600)
                return
        sys.exit("the server did not start")

    def call(self, method, path, body=None):
        headers = {"Content-Type": "application/json"}
        if self.token.exists():  # 0.1 had none
            headers["Authorization"] = f"Bearer {self.token.read_text().strip()}"
        self.http.request(method, path, body, headers)
        answer = self.http.getresponse()
        text = answer.read()
        assert answer.status == 200, text[:500]
        return json.loads(text)

    def add(self, nodes):
        return [one["id"] for one in self.call("POST", "/v1/nodes", json.dumps(nodes))]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def run_drover(drover, journal):
    def run(graph):
        nodes = [{"ref": f"n{i}", "metadata": {"type": "command", "parents": [f"n{p}" for p in parents]},
                  "data": {"command": "true"}} for i, parents in enumerate(graph)]
        nodes.append({"metadata": {"type": "group", "when": "always",
                                   "parents": [f"n{i}" for i in range(len(graph))]}})
        body = json.dumps(nodes)
        with tempfile.TemporaryDirectory() as directory, Server(drover, directory, journal) as server:
            begun = time.monotonic()
            ids = server.call("POST", "/v1/nodes", body)
            [end] = server.call("GET", f"/v1/scheduler/wait?id={ids[-1]['id']}")
            took = time.monotonic() - begun
            assert end["state"] == "finished"
            states = server.call("GET", "/v1/scheduler")["states"]
            assert states["finished"] == len(graph) + 1, states
        return took
    return run


def run_ninja(graph):
    with tempfile.TemporaryDirectory() as directory:
        text = "rule t\n  command = true\n"
        for i, parents in enumerate(graph):
            text += f"build n{i}: t" + "".join(f" n{p}" for p in parents) + "\n"
        pathlib.Path(directory, "build.ninja").write_text(text)
        begun = time.monotonic()
        subprocess.run(["ninja", f"-j{JOBS}"], cwd=directory, check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - begun


def run_make(graph):
    with tempfile.TemporaryDirectory() as directory:
        text = "all:" + "".join(f" n{i}" for i in range(len(graph))) + "\n"
        for i, parents in enumerate(graph):
            text += f"n{i}:" + "".join(f" n{p}" for p in parents) + "\n\t@/bin/true\n"
        pathlib.Path(directory, "Makefile").write_text(text)
        begun = time.monotonic()
        subprocess.run(["make", "-s", f"-j{JOBS}"], cwd=directory, check=True,
                       stdout=subprocess.DEVNULL)
        return time.monotonic() - begun


def measure(drover, nodes, rounds):
    runners = {"ninja": run_ninja, "make": run_make,
               "opportunistic": run_drover(drover, "opportunistic"),
               "strict": run_drover(drover, "strict")}
    rows = [["shape", *runners, "ratio", "strict ratio"]]
    for name, graph in shapes(nodes).items():
        times = {runner: [] for runner in runners}
        for _ in range(rounds):
            for runner, run in runners.items():
                times[runner].append(run(graph))
        median = {runner: statistics.median(taken) for runner, taken in times.items()}
        best = min(median["ninja"], median["make"])
        rows.append([name, *(f"{median[runner]:.2f} s" for runner in runners),
                     f"{median['opportunistic'] / best:.2f}", f"{median['strict'] / best:.2f}"])
    return rows


def resident_kb(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


def promises(drover):
    rows = [["what", "seen", "promised"]]
    with tempfile.TemporaryDirectory() as directory, \
            Server(drover, directory, "opportunistic") as server:
        [hold] = server.add([{"metadata": {"type": "condition"},
                              "data": {"command": "false", "interval": 3600000}}])
        body = json.dumps([{"ref": f"n{i}", "metadata": {
            "type": "command", "parents": [f"n{p}" for p in (i - 3, i - 2, i - 1) if p >= 0] or [hold]},
            "data": {"command": "true"}} for i in range(100000)])
        begun = time.monotonic()
        server.call("POST", "/v1/nodes", body)
        rows.append(["100,000 nodes in one request", f"{time.monotonic() - begun:.2f} s", "2 s"])
        asked = []
        for _ in range(21):
            begun = time.monotonic()
            assert len(server.call("GET", "/v1/nodes?state=running")) == 1
            asked.append(time.monotonic() - begun)
        rows.append(["what runs among them, median of 21",
                     f"{statistics.median(asked) * 1000:.2f} ms", "5 ms"])
        server.call("PUT", f"/v1/scheduler/kill?id={hold}")
    with tempfile.TemporaryDirectory() as directory, \
            Server(drover, directory, "opportunistic") as server:
        def neighbours():
            begun = time.monotonic()
            ids = server.add([{"metadata": {"type": "command"}, "data": {"command": "true"}}
                              for _ in range(200)])
            server.call("GET", "/v1/scheduler/wait?id=" + ",".join(ids))
            return time.monotonic() - begun
        alone = neighbours()
        before = resident_kb(server.process.pid)
        [loud] = server.add([{"metadata": {"type": "shell command"},
                              "data": {"command": "head -c 1000000000 /dev/zero"}}])
        beside = neighbours()
        server.call("GET", f"/v1/scheduler/wait?id={loud}")
        grown = resident_kb(server.process.pid) - before
        rows.append(["200 nodes beside one that prints 1 GB", f"{beside:.2f} s (alone {alone:.2f} s)",
                     "one of two jobs is taken"])
        rows.append(["memory after 1 GB of output", f"{grown / 1024:+.1f} MiB", "bounded"])
    return rows


def table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |"
             for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("drover")
    parser.add_argument("--nodes", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=3)
    o = parser.parse_args()
    text = "`bench/dag.py`, two jobs at a time, outputs captured; at most 1.15 times the better peer\n"
    text += "is promised, in strict mode 1.5 times.\n\n"
    text += table(measure(o.drover, o.nodes, o.rounds)) + "\n" + table(promises(o.drover))
    print(text)


if __name__ == "__main__":
    main()
