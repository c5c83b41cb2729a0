#!/usr/bin/python3
"""bench/task - the task store side by side with its peers, beanstalkd and Redis.

    task.py LOAD EMBED ZOOKEEPER_CLIENT DROVER [--seconds S] [--rounds N] [--quick]

A cycle is: a task of 64 bytes added, claimed, deleted. All servers are started here, in a temporary
directory, and ended; the same client program (task_load.c) speaks to each. Peers and ours run in turn,
ROUNDS times; the middle of the rates is shown, and the middle of the ratios within a round decides: what else
the machine does then is the same for both. Prints a table, and whether each figure is what it should be.
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test" / "zookeeper"))
import zk  # noqa: E402
from wait import wait_until  # noqa: E402

MILLION = 1000000


def middle(rounds):
    """Of each column."""
    return [statistics.median(column) for column in zip(*rounds)]


def ratio(rounds, a, b):
    """The middle of what column a is of column b in its round."""
    return statistics.median(row[a] / row[b] for row in rounds)


class Process:
    """A server, ended by its pid at the end of a block."""

    def __init__(self, command, port):
        self.port = port
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

        def listens():
            assert self.process.poll() is None, f"has ended: {command}"
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return True
            except OSError:
                return False

        wait_until(listens, f"the start of {command}")

    def resident_mb(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)


class Bench:
    def __init__(self, options):
        self.o = options
        self.rows = []
        self.number = 0

    def directory(self):
        self.number += 1
        path = pathlib.Path(self.o.work) / str(self.number)
        path.mkdir()
        return path

    # Servers.

    def drover(self, journal, data=None):
        [port] = zk.free_ports(1)
        command = [self.o.drover, "serve", "--http", f"127.0.0.1:{port}", "--zk", "none"]
        command += ["--journal", journal] + (
            [] if journal == "none" else ["--data", str(data or self.directory() / "data")])
        return Process(command, port)

    def on_ensemble(self, url):
        [port] = zk.free_ports(1)
        one = Process([self.o.drover, "serve", "--http", f"127.0.0.1:{port}", "--keeper", url], port)
        wait_until(lambda: self.post(one.port, "/update", {"clientid": 1})[0] == 200, "a leader")
        return one

    def beanstalkd(self, sync_ms):
        [port] = zk.free_ports(1)
        return Process(["beanstalkd", "-l", "127.0.0.1", "-p", str(port), "-b",
                        str(self.directory()), "-f", str(sync_ms)], port)

    def redis(self, sync):
        [port] = zk.free_ports(1)
        return Process(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir",
                        str(self.directory()), "--appendonly", "yes", "--appendfsync", sync,
                        "--save", ""], port)

    # Measuring.

    def load(self, protocol, server, connections, lanes=1, seconds=None):
        done = subprocess.run([self.o.load, protocol, str(server.port), str(connections), str(lanes),
                               str(seconds or self.o.seconds)], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        return float(done.stdout)

    def post(self, port, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text)

    def say(self, line=""):
        print(line, flush=True)

    def verdict(self, what, is_so, figure):
        self.say(f"- {'yes' if is_so else '**NO**'}: {what} ({figure})")

    # What is measured.

    def peers(self, title, journal, beanstalkd_ms, redis_sync, wanted):
        """All in turn, round by round; the middle of the rounds."""
        self.say(f"\n### {title}\n")
        self.say("| connections | lanes | drover | delete in the claim | beanstalkd | Redis | drover / "
                 "beanstalkd | drover / Redis |")
        self.say("|---|---|---|---|---|---|---|---|")
        with self.drover(journal) as ours, self.beanstalkd(beanstalkd_ms) as b, \
                self.redis(redis_sync) as r:
            for connections, lanes in ((1, 1), (16, 1), (64, 1), (16, 16)):
                rounds = [(self.load("drover", ours, connections, lanes),
                           self.load("drover-two", ours, connections, lanes),
                           self.load("beanstalkd", b, connections, lanes),
                           self.load("redis", r, connections, lanes))
                          for _ in range(self.o.rounds)]
                three, two, bean, red = middle(rounds)
                self.say(f"| {connections} | {lanes} | {three:,.0f} | {two:,.0f} | {bean:,.0f} | "
                         f"{red:,.0f} | {ratio(rounds, 0, 2):.2f} | {ratio(rounds, 0, 3):.2f} |")
                if lanes == 1:
                    wanted(connections, rounds)
        for line in self.rows:
            self.say(line)
        self.rows = []

    def note(self, what, is_so, figure):
        self.rows.append(f"- {'yes' if is_so else '**NO**'}: {what} ({figure})")

    def strict(self):
        def wanted(connections, rounds):
            for name, column, least in (("Redis", 3, 1.2), ("beanstalkd", 2, 5))[:connections]:
                is_now = ratio(rounds, 0, column)
                plural = "s" if connections > 1 else ""
                self.note(f"{connections} connection{plural}: {least} times {name}",
                          is_now >= least, f"{is_now:.2f}")
        self.peers("Strict: beanstalkd -f 0, Redis appendfsync always", "strict", 0, "always", wanted)

    def opportunistic(self):
        def wanted(connections, rounds):
            if connections == 1:
                return
            three, two = (min(ratio(rounds, column, 2), ratio(rounds, column, 3))
                          for column in (0, 1))
            self.note(f"{connections} connections: not behind either", three >= 1,
                      f"{three:.2f} of the better")
            self.note(f"{connections} connections, delete in the claim: ahead of both", two > 1,
                      f"{two:.2f} of the better")
        self.peers("Opportunistic: beanstalkd -f 50, Redis everysec", "opportunistic", 50, "everysec",
                   wanted)

    def many(self):
        self.say("\n### A hundred tasks in a request, deletes in the claim\n")
        for journal, least in (("opportunistic", 150000), ("strict", 100000)):
            with self.drover(journal) as ours:
                rate = statistics.median(self.load("drover-many", ours, 16)
                                         for _ in range(self.o.rounds))
            self.verdict(f"{journal}: {least:,} cycles a second", rate >= least, f"{rate:,.0f}")

    def embedded(self):
        self.say("\n### In process\n")
        for mode, threads in (("memory", 1), ("opportunistic", 1), ("opportunistic", 4),
                              ("strict", 64)):
            rates = []
            for _ in range(self.o.rounds):
                done = subprocess.run([self.o.embed, mode, str(self.directory() / "d"), str(threads),
                                       str(self.o.seconds)], capture_output=True, text=True,
                                      check=True)
                rates.append(float(done.stdout))
            rate = statistics.median(rates)
            if mode == "opportunistic":
                self.verdict(f"{mode}, {threads} threads: 150,000 cycles a second", rate >= 150000,
                             f"{rate:,.0f}")
            else:
                self.say(f"- {mode}, {threads} threads: {rate:,.0f} cycles a second")

    def fill(self, port, count):
        adds = [{"group": "bench", "data": "x" * 64}] * 5000
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = json.dumps({"clientid": 1, "adds": adds})
        for _ in range(count // len(adds)):
            connection.request("POST", "/update", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise SystemExit(answer.read())
            answer.read()
        connection.close()

    def keep(self, count):
        """Claims among so many beside claims among few, then a restart: rounds, MB, seconds."""
        data = self.directory() / "data"
        with self.drover("opportunistic", data) as ours, self.drover("opportunistic") as other:
            self.fill(ours.port, count)
            self.fill(other.port, 5000)
            memory = ours.resident_mb()
            rounds = [(self.load("drover", ours, 16), self.load("drover", other, 16))
                      for _ in range(self.o.rounds)]
        start = time.monotonic()
        with self.drover("opportunistic", data) as ours:
            self.post(ours.port, "/update", {"clientid": 1})
            return rounds, memory, time.monotonic() - start

    def large(self):
        count = MILLION // 10 if self.o.quick else MILLION
        self.say(f"\n### {count:,} tasks in one group\n")
        rounds, memory, took = self.keep(count)
        many, few = middle(rounds)
        is_now = ratio(rounds, 0, 1)
        self.verdict("claims at 0.8 of the rate with few", is_now >= 0.8,
                     f"{many:,.0f} against {few:,.0f}, {is_now:.2f}")
        self.verdict("at most 300 MB", memory <= 300 * count / MILLION + 20, f"{memory:.0f} MB")
        self.verdict("a restart in less than 3 s", took < 3, f"{took:.2f} s")
        if self.o.quick:
            return
        rounds, memory, took = self.keep(10 * count)
        many, few = middle(rounds)
        self.say(f"- {10 * count:,} tasks work: {many:,.0f} cycles a second against {few:,.0f} with few, "
                 f"{ratio(rounds, 0, 1):.2f}; {memory:,.0f} MB, a restart in {took:.1f} s")

    def waiting(self):
        count = 1000 if self.o.quick else 10000
        self.say(f"\n### {count:,} waiting claims on one group\n")
        body = json.dumps({"clientid": 1, "group": "w", "duration": 60000, "wait": 600000})
        with self.drover("opportunistic") as ours:
            request = (f"POST /claim HTTP/1.1\r\nHost: 127.0.0.1:{ours.port}\r\n"
                       "Content-Type: application/json\r\n"
                       f"Content-Length: {len(body)}\r\n\r\n{body}").encode()
            sockets = []
            for _ in range(count):
                sockets.append(socket.create_connection(("127.0.0.1", ours.port)))
                sockets[-1].sendall(request)
            wait_until(lambda: self.waiting_claims(ours.port) >= count, "claims that wait",
                       pause_s=0.05)
            times = []
            for first in sockets[:5]:
                adder = http.client.HTTPConnection("127.0.0.1", ours.port)
                adder.connect()
                start = time.monotonic()
                adder.request("POST", "/update", json.dumps({"clientid": 1, "adds": [{"group": "w"}]}),
                              {"Content-Type": "application/json"})
                first.recv(65536)
                times.append(time.monotonic() - start)
                adder.close()
            left = self.waiting_claims(ours.port)
            for one in sockets:
                one.close()
        took = statistics.median(times) * 1000
        self.verdict("one add wakes one of them, in less than 5 ms", took < 5 and left == count - 5,
                     f"{took:.2f} ms, {left:,} still wait after 5 adds")

    def waiting_claims(self, port):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return int(re.search(r"^drover_task_waiting_claims (\d+)", text, re.M)[1])

    def ensemble(self):
        self.say("\n### Three ZooKeeper nodes, 64 connections\n")
        with zk.Ensemble(self.directory(), nodes=3, sync=True) as three, \
                self.on_ensemble(three.url("/bench")) as ours:
            rounds = []
            for _ in range(self.o.rounds):
                done = subprocess.run([self.o.client, three.hosts.split(",")[0], "multi", "64",
                                       str(max(1, int(self.o.seconds)))],
                                      capture_output=True, text=True, check=True)
                rounds.append((float(done.stdout.split()[0]) / 3,
                               self.load("drover", ours, 64)))
        bare, cycles = middle(rounds)
        is_now = ratio(rounds, 1, 0)
        self.verdict("twice the cycles that a bare multi per change reaches", is_now >= 2,
                     f"{cycles:,.0f} against {bare:,.0f}, {is_now:.1f}")

    def peer_versions(self):
        versions = [subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[0]
                    for command in (["beanstalkd", "-v"], ["redis-server", "--version"])]
        self.say(f"{versions[0]}; {versions[1].split(' sha')[0]}; cycles a second, {self.o.rounds} rounds "
                 f"of {self.o.seconds:g} s, the middle.")

    def all(self):
        self.peer_versions()
        for one in (self.strict, self.opportunistic, self.many, self.embedded, self.large, self.waiting,
                    self.ensemble):
            one()


def main():
    parser = argparse.ArgumentParser(description="The task store beside beanstalkd and Redis.")
    parser.add_argument("load")
    parser.add_argument("embed")
    parser.add_argument("client")
    parser.add_argument("drover")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="fewer of everything, to try it")
    parser.add_argument("--only", help="one part: strict, opportunistic, many, ...")
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 30000), hard))
    if options.quick:
        options.seconds, options.rounds = 0.6, 1
    with tempfile.TemporaryDirectory(prefix="drover-bench-") as work:
        options.work = work
        bench = Bench(options)
        getattr(bench, options.only)() if options.only else bench.all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
