#!/usr/bin/python3
"""bench/policy - what priorities, keys, limits, order, retries, rates and schedules cost.

    policy.py LOAD DROVER [--seconds S] [--rounds N] [--quick] [--only PART]

Peers run beside ours in the same rounds, as in task.py: beanstalkd and Redis for tasks in order, and a
queue in PostgreSQL, a table and FOR UPDATE SKIP LOCKED, driven by pgbench, for tasks that fail once and
are then finished.
"""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import pwd
import re
import subprocess
import sys
import tempfile
import time

import task
import zk
from task import MILLION, middle, ratio

POSTGRES = """
CREATE TABLE tasks (id bigserial PRIMARY KEY, data text, due timestamptz NOT NULL DEFAULT now(),
                    owner int, attempts int NOT NULL DEFAULT 0, error text);
CREATE INDEX tasks_due ON tasks (due, id);
"""
# As drover-retry of task_load.c: add, claim, fail, claim, finish; each a transaction of its own.
CLAIM = """
UPDATE tasks SET owner = :client_id, due = now() + interval '60 s'
  WHERE id = (SELECT id FROM tasks WHERE due <= now() ORDER BY due, id FOR UPDATE SKIP LOCKED LIMIT 1)
  RETURNING id \\aset
"""
RETRY_CYCLE = f"""
\\set id 0
INSERT INTO tasks (data) VALUES (repeat('x', 64));
{CLAIM}
UPDATE tasks SET owner = NULL, due = now(), attempts = attempts + 1, error = 'no' WHERE id = :id;
{CLAIM}
DELETE FROM tasks WHERE id = :id;
"""


class Client:
    """One connection to a server."""

    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)

    def send(self, method, path, body=None):
        text = None if body is None else json.dumps(body)
        self.connection.request(method, path, text, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        found = json.loads(answer.read())
        assert answer.status == 200, found
        return found


class Policy(task.Bench):
    # Servers.

    def drover(self, journal, data=None):
        """With the rights to change settings of groups."""
        [port] = zk.free_ports(1)
        command = [self.o.drover, "serve", "--http", f"127.0.0.1:{port}", "--zk", "none", "--socket", "none",
                   "--loopback-roles", "all", "--journal", journal, "--data",
                   str(data or self.directory() / "data")]
        return task.Process(command, port)

    def bin_of_postgres(self):
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))
        if not found:
            raise SystemExit("PostgreSQL is missing: tools/deps bench")
        return found[-1]

    @contextlib.contextmanager
    def postgres(self, *settings):
        """As a user other than root, as it insists."""
        where, programs = self.directory(), self.bin_of_postgres()
        user = {} if os.getuid() else {"user": "postgres"}
        if user:
            who = pwd.getpwnam("postgres")
            os.chown(where, who.pw_uid, who.pw_gid)
            for above in where.parents[:1]:
                os.chmod(above, 0o755)
        subprocess.run([programs / "initdb", "-D", where / "data", "-A", "trust", "-U", "bench"], check=True,
                       stdout=subprocess.DEVNULL, cwd=where, **user)
        [port] = zk.free_ports(1)
        command = [programs / "postgres", "-D", where / "data", "-p", str(port), "-k", where, "-h", "127.0.0.1"]
        for setting in settings:
            command += ["-c", setting]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=where,
                                   **user)
        try:
            ready = [programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port), "-d", "postgres"]
            task.wait_until(lambda: not subprocess.run(ready).returncode, "PostgreSQL")
            subprocess.run([programs / "psql", "-q", "-h", "127.0.0.1", "-p", str(port), "-U", "bench", "postgres"],
                           input=POSTGRES, text=True, check=True)
            (where / "cycle.sql").write_text(RETRY_CYCLE)
            yield lambda connections: self.pgbench(programs, where, port, connections)
        finally:
            process.terminate()
            process.wait(60)

    def pgbench(self, programs, where, port, connections):
        """Cycles a second; prepared statements, which is its fastest way."""
        done = subprocess.run([programs / "pgbench", "-n", "-M", "prepared", "-f", where / "cycle.sql", "-c",
                               str(connections), "-j", "1", "-T", str(max(1, round(self.o.seconds))), "-h",
                               "127.0.0.1", "-p", str(port), "-U", "bench", "postgres"],
                              capture_output=True, text=True, check=True)
        return float(re.search(r"tps = ([\d.]+)", done.stdout)[1])

    # What is measured.

    def cost(self):
        """Beside plain tasks, on the same server."""
        self.say("\n### With priority, key and limits\n")
        for journal in ("strict", "opportunistic"):
            with self.drover(journal) as ours:
                Client(ours).send("PUT", "/v1/groups/policy", {"limit": MILLION, "attempts": 3})
                for connections in (16, 64):
                    rounds = [(self.load("drover-policy", ours, connections),
                               self.load("drover", ours, connections)) for _ in range(self.o.rounds)]
                    with_policy, plain = middle(rounds)
                    is_now = ratio(rounds, 0, 1)
                    self.verdict(f"{journal}, {connections} connections: 0.8 of plain", is_now >= 0.8,
                                 f"{with_policy:,.0f} against {plain:,.0f}, {is_now:.2f}")

    def fill_mixed(self, server, count):
        """Five priorities; a fifth is delayed, a fifth is claimed."""
        client = Client(server)
        client.send("PUT", "/v1/groups/policy", {"limit": 10 * MILLION})
        for start in range(0, count, 5000):
            client.send("POST", "/update", {"clientid": 1, "adds": [
                {"group": "policy", "data": "x" * 64, "priority": i % 5, "timespec": -3600000 if i % 25 < 5 else 0}
                for i in range(start, start + 5000)]})
        for _ in range(count // 5 // 1000):
            client.send("POST", "/claim", {"clientid": 1, "group": "policy", "duration": 3600000, "limit": 1000})

    def mixed(self):
        count = MILLION // 10 if self.o.quick else MILLION
        self.say(f"\n### {count:,} tasks of five priorities, a fifth delayed, a fifth claimed\n")
        with self.drover("opportunistic") as many, self.drover("opportunistic") as few:
            self.fill_mixed(many, count)
            self.fill_mixed(few, 5000)
            memory = many.resident_mb()
            rounds = [(self.load("drover-policy", many, 16), self.load("drover-policy", few, 16))
                      for _ in range(self.o.rounds)]
        rate, of_few = middle(rounds)
        is_now = ratio(rounds, 0, 1)
        self.verdict("claims at 0.8 of the rate with few", is_now >= 0.8,
                     f"{rate:,.0f} against {of_few:,.0f}, {is_now:.2f}; {memory:.0f} MB")

    def fifo(self):
        self.say("\n### In order, beside beanstalkd and Redis lists\n")
        for journal, beanstalkd_ms, redis_sync in (("strict", 0, "always"), ("opportunistic", 50, "everysec")):
            with self.drover(journal) as ours, self.beanstalkd(beanstalkd_ms) as b, self.redis(redis_sync) as r:
                Client(ours).send("PUT", "/v1/groups/fifo", {"order": "fifo"})
                for connections in (16, 64):
                    rounds = [(self.load("drover-fifo", ours, connections), self.load("drover", ours, connections),
                               self.load("beanstalkd", b, connections), self.load("redis", r, connections))
                              for _ in range(self.o.rounds)]
                    fifo, plain, bean, red = middle(rounds)
                    of_bean, of_redis = ratio(rounds, 0, 2), ratio(rounds, 0, 3)
                    self.verdict(f"{journal}, {connections} connections: ahead of both", min(of_bean, of_redis) > 1,
                                 f"{fifo:,.0f}, plain {plain:,.0f}; {of_bean:.2f} of beanstalkd's {bean:,.0f}, "
                                 f"{of_redis:.2f} of Redis' {red:,.0f}")

    def retry(self):
        self.say("\n### Fail once, then finish, beside PostgreSQL (FOR UPDATE SKIP LOCKED)\n")
        for journal, commit in (("strict", "on"), ("opportunistic", "off")):
            with self.drover(journal) as ours, self.postgres(f"synchronous_commit={commit}",
                                                             "shared_buffers=512MB") as pgbench:
                # Any lane may get a task that another has failed, so one may fail often.
                Client(ours).send("PUT", "/v1/groups/bench", {"attempts": 0})
                for connections in (16, 64):
                    rounds = [(self.load("drover-retry", ours, connections), pgbench(connections))
                              for _ in range(self.o.rounds)]
                    rate, theirs = middle(rounds)
                    is_now = ratio(rounds, 0, 1)
                    self.verdict(f"{journal} (synchronous_commit {commit}), {connections} connections: 5 times",
                                 is_now >= 5, f"{rate:,.0f} against {theirs:,.0f}, {is_now:.1f}")

    def rate(self):
        self.say("\n### A rate of 1,000 a second\n")
        with self.drover("opportunistic") as ours:
            client = Client(ours)
            client.send("PUT", "/v1/groups/slow", {"rate": {"count": 1000, "per": 1000}})
            for _ in range(3):
                client.send("POST", "/update", {"clientid": 1, "adds": [{"group": "slow"}] * 5000})
            claim = {"clientid": 1, "group": "slow", "duration": 600000, "limit": 100, "wait": 1000}
            client.send("POST", "/claim", {**claim, "limit": 1000})  # the bucket is empty from here on
            got, start = 0, time.monotonic()
            while time.monotonic() < start + 10:
                got += len(client.send("POST", "/claim", claim)["tasks"])
            rate = got / (time.monotonic() - start)
        self.verdict("it holds within 2 % over 10 s", 980 <= rate <= 1020, f"{rate:,.1f} a second")

    def cpu_s(self, process):
        words = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def schedules(self):
        count, due = (10000, 1000) if self.o.quick else (100000, 10000)
        self.say(f"\n### {count:,} schedules\n")
        with self.drover("opportunistic") as ours:
            client = Client(ours)
            for i in range(count - due):
                client.send("PUT", f"/v1/schedules/idle-{i}", {"cron": "0 0 1 1 *", "task": {"group": "idle"}})
            before, start = self.cpu_s(ours.process), time.monotonic()
            time.sleep(10)
            share = (self.cpu_s(ours.process) - before) / (time.monotonic() - start)
            self.verdict("under 1 % of a core when nothing is due", share < 0.01, f"{100 * share:.2f} %")
            when = time.time() + max(20, due / 300)
            at = time.gmtime(when)
            cron = f"{at.tm_sec} {at.tm_min} {at.tm_hour} {at.tm_mday} {at.tm_mon} *"
            for i in range(due):
                client.send("PUT", f"/v1/schedules/due-{i}", {"cron": cron, "task": {"group": "due"}})
            assert time.time() < when, "made too slowly"
            time.sleep(max(0, int(when) - time.time() - 0.1))
            task.wait_until(lambda: self.depth(client) >= due, "all ticks", pause_s=0.02)
            took = time.time() - int(when)
        self.verdict(f"{due:,} due in the same second fire within 1 s", took < 1, f"{took:.2f} s")

    def depth(self, client):
        counts = client.send("GET", "/v1/groups/due")["counts"]
        return counts["available"]

    def all(self):
        self.peer_versions()
        for one in (self.cost, self.mixed, self.fifo, self.retry, self.rate, self.schedules):
            one()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("load")
    parser.add_argument("drover")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="fewer of everything, to try it")
    parser.add_argument("--only", help="one part: cost, mixed, fifo, retry, rate, schedules")
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.rounds = 0.6, 1
    with tempfile.TemporaryDirectory(prefix="drover-bench-") as work:
        options.work = work
        bench = Policy(options)
        getattr(bench, options.only)() if options.only else bench.all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
