#!/usr/bin/python3
"""bench/turns - how long a long request keeps others waiting.

    turns.py DROVER [--count N]

A server with N nodes, N tasks, 200,000 groups, and 100 tasks and 100 schedules with 900 kB of data, in memory. While one connection sends a long request, another sends GET /healthz
every half a millisecond. What counts is the CPU time that the server used while one of those waited, the most of a round,
because it does not depend on what else the machine does, as the time of the clock does. Each figure is the median of
seven rounds. CPU time is counted in ticks of 4 ms, and of all threads: another one than the loop reads the numbers.
"""

import argparse
import http.client
import json
import multiprocessing
import re
import socket
import statistics
import subprocess
import threading
import time

ROUNDS = 7
PAUSE_S = 0.0005
GRAPH = 100000  # nodes in a request
UPDATE = 7000   # tasks in a request
GROUPS = 200000
LARGE = "x" * 900000
NODE = {"metadata": {"type": "command", "group": "nobody"}, "data": {"command": "true"}}


class Server:
    def __init__(self, binary):
        self.process = subprocess.Popen(
            [binary, "serve", "--config", "none", "--journal", "none", "--http", "127.0.0.1:0", "--zk", "none",
             "--socket", "none", "--loopback-roles", "all"], stderr=subprocess.PIPE, text=True)
        self.port = int(next(filter(None, (re.search(r"http://127\.0\.0\.1:(\d+)", line)
                                           for line in self.process.stderr)))[1])
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def post(self, path, body, method="POST"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request(method, path, body, {"Content-Type": "application/json"})
        length = len(connection.getresponse().read())
        connection.close()
        return length

    def read(self, path):
        """As fast as possible: the length of the answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=600) as s:
            s.sendall(b"GET %s HTTP/1.0\r\n\r\n" % path.encode())
            length = 0
            while got := len(s.recv(1 << 20)):
                length += got
            return length


class Pings(multiprocessing.Process):
    """Until it is stopped. The most that one took, in seconds: by the clock, and of the server's CPU. A process of its
    own, because threads of Python wait for each other."""

    def __init__(self, server):
        super().__init__()
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=600)
        self.request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % server.port
        self.clock = ~server.process.pid << 3 | 2  # as clock_getcpuclockid() has it
        self.began, self.over = multiprocessing.Event(), multiprocessing.Event()
        self.worst, self.cpu = multiprocessing.Value("d", 0.0), multiprocessing.Value("d", 0.0)

    def run(self):
        while not self.over.is_set():
            began, cpu, got = time.perf_counter(), time.clock_gettime(self.clock), b""
            self.socket.sendall(self.request)
            while not got.endswith(b'"ok"}\n'):
                got += self.socket.recv(65536)
            self.cpu.value = max(self.cpu.value, time.clock_gettime(self.clock) - cpu)
            self.worst.value = max(self.worst.value, time.perf_counter() - began)
            self.began.set()
            time.sleep(PAUSE_S)


def measure(server, what, request):
    took, waited, used, length = [], [], [], 0
    for _ in range(ROUNDS):
        pings = Pings(server)
        pings.start()
        pings.began.wait()
        began = time.perf_counter()
        length = request() or 0
        took.append(time.perf_counter() - began)
        pings.over.set()
        pings.join()
        waited.append(pings.worst.value * 1000)
        used.append(pings.cpu.value * 1000)
    size = f"{length / 1e6:.1f} MB" if length else ""
    print(f"| {what} | {size} | {statistics.median(took):.2f} s | {statistics.median(used):.1f} ms "
          f"| {statistics.median(waited):.1f} ms |", flush=True)


def add(server, groups, data):
    server.post("/update", json.dumps({"clientid": 1, "adds": [{"group": group, "data": data} for group in groups]}))


def fill(server):
    for at in range(0, GROUPS, 5000):
        add(server, [f"group {n}" for n in range(at, at + 5000)], "")
    for n in range(100):
        add(server, ["large"], LARGE)
        spec = {"cron": "@yearly", "task": {"group": "g", "data": LARGE}}
        server.post(f"/v1/schedules/{n}", json.dumps(spec), "PUT")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("drover")
    parser.add_argument("--count", type=int, default=900000)
    options = parser.parse_args()
    server, count = Server(options.drover), options.count
    graph = json.dumps([NODE] * GRAPH)
    numbers = b"[" + b"1," * (2 << 20) + b"1]"
    try:
        for _ in range(max(count // GRAPH - ROUNDS, 0)):
            server.post("/v1/nodes", graph)
        for _ in range(count // UPDATE):
            add(server, ["g"] * UPDATE, "x" * 20)
        print("| request | answer | time | others wait, of CPU | by the clock |\n|---|---|---|---|---|")
        measure(server, "none, for a second", lambda: time.sleep(1))
        measure(server, f"add {GRAPH:,} nodes, {len(graph) >> 20} MiB", lambda: server.post("/v1/nodes", graph))
        measure(server, f"list {count:,} nodes", lambda: server.read("/v1/nodes"))
        measure(server, "the same, none wanted", lambda: server.read("/v1/nodes?state=failed&type=command"))
        measure(server, f"list {count // UPDATE * UPDATE:,} tasks", lambda: server.read("/group/g"))
        measure(server, "find tasks by text, none has it", lambda: server.read("/v1/tasks?text=nothing"))
        measure(server, "delete 1,000 tasks, bulk",
                lambda: server.post("/v1/tasks/bulk", '{"filter": {"group": "g"}, "action": "delete"}'))
        measure(server, f"show a group of {count // UPDATE * UPDATE:,}", lambda: server.read("/v1/groups/g"))
        measure(server, "4 MiB of numbers, which are refused", lambda: server.post("/v1/nodes", numbers))
        measure(server, "metrics", lambda: server.read("/metrics"))
        fill(server)
        measure(server, "list 200,000 groups", lambda: server.read("/groups"))
        measure(server, "the first 1,000 of them", lambda: server.read("/v1/groups"))
        measure(server, "metrics", lambda: server.read("/metrics"))
        measure(server, "find tasks of 900 kB", lambda: server.read("/v1/tasks?limit=1000&group=large"))
        measure(server, "the same by text", lambda: server.read("/v1/tasks?text=nothing&group=large"))
        measure(server, "list schedules of 900 kB", lambda: server.read("/v1/schedules?limit=1000"))
    finally:
        server.process.kill()


if __name__ == "__main__":
    main()
