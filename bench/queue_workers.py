#!/usr/bin/python3
"""bench/queue_workers - workers that share queues, real processes on a real ensemble.

    queue_workers.py DROVER [--workers 20] [--queues 200] [--killed 5] [--nodes 3]

Starts a ZooKeeper ensemble, `drover serve` on it and the workers; then kills some with -9 and measures
until every queue is served again (at most session timeout + quiet time + 1 s), and starts as many anew
and measures until all is balanced, and how many queues moved (no more than must). In the end, messages a
second through all workers, with the command `true` for each. Works in a temporary directory and ends what
it started. The exit status is 1 when a figure is not what it should be.
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from kazoo.client import KazooClient

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "test" / "zookeeper"))
import zk  # noqa: E402
from wait import wait_until  # noqa: E402

NAMESPACE = "/mozilla-qdo"
TIMEOUT_MS, QUIET_MS = 4000, 3000
PATIENCE_S = 120


def until(condition, step_s=0.02):
    """Seconds until it holds, and what it was."""
    start = time.monotonic()
    found = wait_until(condition, seconds=PATIENCE_S, pause_s=step_s)
    return time.monotonic() - start, found


class Server:
    def __init__(self, binary, keeper, directory):
        self.log = directory / "server"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [binary, "serve", "--keeper", keeper, "--http", "127.0.0.1:0"], stderr=log)
        self.port = int(until(lambda: re.search(r"http://127\.0\.0\.1:(\d+)",
                                                self.log.read_text()))[1][1])
        self.url = f"http://127.0.0.1:{self.port}"
        until(lambda: self.call("GET", "/readyz")[0] == 200)

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = json.loads(answer.read() or b"null")
        connection.close()
        return answer.status, text


class Workers:
    """The workers, and the tree as they left it."""

    def __init__(self, binary, server, keeper, kazoo, directory):
        self.binary, self.server, self.keeper = binary, server, keeper
        self.kazoo, self.directory = kazoo, directory
        self.processes = []

    def start(self, count):
        for _ in range(count):
            log = open(self.directory / f"worker{len(self.processes)}", "wb")
            self.processes.append(subprocess.Popen(
                [self.binary, "queue", "work", "--server", self.server.url, "--keeper", self.keeper,
                 "--timeout", f"{TIMEOUT_MS}ms", "--settle", f"{QUIET_MS}ms",
                 "--jobs", "2", "--", "true"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log))

    def kill(self, count):
        for process in self.processes[:count]:
            process.kill()
        for process in self.processes[:count]:
            process.wait()
        del self.processes[:count]

    def shares(self):
        """Worker -> its queues, by what the workers say, in one look."""
        names = self.kazoo.get_children(NAMESPACE + "/workers")
        answers = [(name, self.kazoo.get_async(f"{NAMESPACE}/workers/{name}")) for name in names]
        try:
            return {name: json.loads(answer.get()[0])["queues"] for name, answer in answers}
        except Exception:  # one left meanwhile
            return {}

    def balanced(self, workers, queues):
        shares = self.shares()
        sizes = [len(share) for share in shares.values()]
        if len(sizes) == workers and sum(sizes) == queues and max(sizes) - min(sizes) <= 1:
            return shares
        return None

    def end(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


def moved(before, after):
    """Queues of workers that are still there, which others have now."""
    return sum(queue not in after[name] for name, share in before.items() if name in after
               for queue in share)


def must_move(before, workers, queues):
    sizes = sorted((len(share) for share in before.values()), reverse=True)
    shares = [queues // workers + (i < queues % workers) for i in range(len(sizes))]
    return sum(max(0, size - share) for size, share in zip(sizes, shares))


def report(what, figure, limit, unit, fits):
    print(f"{what:<44} {figure:>10} {unit:<4} {limit:<24} {'ok' if fits else 'MISSED'}", flush=True)
    return fits


def measure(o, server, crew):
    names = [server.call("POST", "/v1/queues", {})[1]["queue"] for _ in range(o.queues)]
    crew.start(o.workers)
    seconds, _ = until(lambda: crew.balanced(o.workers, o.queues))
    print(f"{o.workers} workers, {o.queues} queues, timeout {TIMEOUT_MS} ms, quiet {QUIET_MS} ms")
    print(f"{'first balance, with the start of processes':<44} {seconds:>10.2f} s")

    before = crew.balanced(o.workers, o.queues)
    crew.kill(o.killed)
    seconds, after = until(lambda: crew.balanced(o.workers - o.killed, o.queues))
    limit = (TIMEOUT_MS + QUIET_MS) / 1000 + 1
    fine = report(f"{o.killed} killed: served again after", f"{seconds:.2f}", f"at most {limit:.1f} s",
                  "s", seconds <= limit)
    fine &= report("  queues of survivors that moved", moved(before, after), "0", "",
                   moved(before, after) == 0)

    crew.start(o.killed)
    seconds, final = until(lambda: crew.balanced(o.workers, o.queues))
    least = must_move(after, o.workers, o.queues)
    print(f"{f'{o.killed} started: balanced again after':<44} {seconds:>10.2f} s")
    fine &= report("  queues that moved", moved(after, final), f"at most {least}", "",
                   moved(after, final) <= least)

    for name in names:
        server.call("POST", f"/v1/queues/{name}/messages", {"messages": ["x"] * o.messages})
    start = time.monotonic()
    until(lambda: all(queue["last"] for queue in server.call("GET", "/v1/queues")[1]["queues"]) and
          not any(server.call("GET", f"/v1/queues/{name}")[1]["waiting"] for name in names), 0.1)
    rate = o.queues * o.messages / (time.monotonic() - start)
    print(f"{'messages through the command true':<44} {rate:>10.0f} /s")
    return fine


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("drover")
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--queues", type=int, default=200)
    parser.add_argument("--killed", type=int, default=5)
    parser.add_argument("--messages", type=int, default=20, help="in each queue")
    parser.add_argument("--nodes", type=int, default=3)
    o = parser.parse_args()
    binary = os.path.abspath(o.drover)

    with tempfile.TemporaryDirectory(prefix="drover-queue-") as temporary:
        directory = pathlib.Path(temporary)
        with zk.Ensemble(directory / "zk", o.nodes, sync=True) as ensemble:
            server = Server(binary, ensemble.url("/bench"), directory)
            kazoo = KazooClient(hosts=ensemble.hosts + "/bench")
            kazoo.start()
            crew = Workers(binary, server, ensemble.url("/bench"), kazoo, directory)
            try:
                fine = measure(o, server, crew)
            finally:
                crew.end()
                server.process.terminate()
                server.process.wait()
                kazoo.stop()
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
