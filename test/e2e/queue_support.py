"""Servers, workers and what kazoo sees of them, for the tests of queues."""

import collections
import contextlib
import json
import os
import pathlib
import re
import subprocess
import time

from kazoo.exceptions import NoNodeError

from conftest import BINARY, DEADLINE_S, wait_until
from world_support import call

NAMESPACE = "/mozilla-qdo"

# libzookeeper_mt leaks a little when a session is closed at a bad moment; its own, not ours.
SUPPRESSIONS = pathlib.Path(__file__).with_name("lsan.supp")
ENVIRONMENT = os.environ | {"LSAN_OPTIONS": f"suppressions={SUPPRESSIONS}:print_suppressions=0"}

# What a command writes to its log for each message: worker's pid, queue, id, fence, data.
HANDLE = 'read -r line; echo "$PPID $DROVER_QUEUE $DROVER_MESSAGE $DROVER_FENCE $line" >> "$LOG"'

QUICK = ("--timeout", "3s")

Handled = collections.namedtuple("Handled", "worker queue id fence data")


class Worker:
    """A running `drover queue work`."""

    def __init__(self, url, log, *options, command=HANDLE, binary=BINARY, **variables):
        words = [binary, "queue", "work", "--server", url, *map(str, options), "--", "sh", "-c",
                 command]
        self.said_to = pathlib.Path(f"{log}.{time.monotonic_ns()}.said")
        self.process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=open(self.said_to, "wb"),
            env=ENVIRONMENT | {"LOG": str(log)} | variables)

    @property
    def said(self):
        return self.said_to.read_text()

    @property
    def name(self):
        """As of its last session."""
        names = re.findall(r"joined as (worker-\d+)", self.said)
        return names[-1] if names else None

    def wait_for(self, pattern):
        try:
            return wait_until(lambda: re.search(pattern, self.said), repr(pattern))
        except AssertionError as error:
            raise AssertionError(f"{error} in what was said: {self.said}") from error

    def signal(self, number):
        os.kill(self.process.pid, number)

    def wait(self):
        return self.process.wait(DEADLINE_S)

    def stop(self):
        self.process.terminate()
        return self.wait()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Room:
    """A server's queues and workers, over HTTP and in the tree."""

    def __init__(self, place, directory):
        self.place = place
        self.kazoo = place.kazoo
        self.url = f"http://127.0.0.1:{place.port}"
        self.log = directory / "handled"
        self.workers = []

    def call(self, method, path, body=None):
        return call(self.place.port, method, path, body)

    def create(self, count=None):
        if count is None:
            status, body = self.call("POST", "/v1/queues", {})
            assert status == 200, body
            return body["queue"]
        return sorted(self.create() for _ in range(count))

    def post(self, queue, *messages):
        status, body = self.call("POST", f"/v1/queues/{queue}/messages",
                                 {"messages": list(messages)})
        assert status == 200, body
        return body["ids"]

    def read(self, queue, query=""):
        status, body = self.call("GET", f"/v1/queues/{queue}/messages{query}")
        assert status == 200, body
        return body["messages"]

    def work(self, *options, **more):
        """Those that will be killed or stopped get QUICK: their sessions end soon."""
        quiet = () if "--settle" in options else ("--settle", "100ms")
        self.workers.append(Worker(self.url, self.log, *quiet, *options, **more))
        return self.workers[-1]

    def handled(self, queue=None):
        try:
            lines = self.log.read_text().splitlines()
        except FileNotFoundError:
            return []
        found = [Handled(int(w), q, int(i), int(f), data) for w, q, i, f, data in
                 (line.split(" ", 4) for line in lines)]
        return [one for one in found if queue in (None, one.queue)]

    def data(self, path):
        return json.loads(self.kazoo.get(NAMESPACE + path)[0])

    def last(self, queue):
        return self.data(f"/queues/{queue}")["last"]

    def owners(self):
        """Queue -> worker, of those that have one."""
        found = {}
        for queue in self.kazoo.get_children(NAMESPACE + "/queues"):
            with contextlib.suppress(NoNodeError):
                found[queue] = self.data(f"/queues/{queue}/owner")["worker"]
        return found

    def shares(self):
        """Worker -> its queues, by what the workers say."""
        found = {}
        for name in sorted(self.kazoo.get_children(NAMESPACE + "/workers")):
            with contextlib.suppress(NoNodeError):
                found[name] = self.data(f"/workers/{name}")["queues"]
        return found

    def balanced(self, workers, queues):
        """The shares, once that many workers have all of the queues in equal parts."""
        try:
            shares, owners = self.shares(), self.owners()
        except Exception:  # one left while we looked
            return None
        sizes = [len(share) for share in shares.values()]
        if len(sizes) != workers or sorted(sum(shares.values(), [])) != sorted(queues):
            return None
        if owners != {queue: name for name, share in shares.items() for queue in share}:
            return None
        return shares if max(sizes) - min(sizes) <= 1 else None

    def wait_balanced(self, workers, queues, seconds=DEADLINE_S):
        return wait_until(lambda: self.balanced(workers, queues), f"{workers} in balance", seconds)

    def end(self):
        for worker in self.workers:
            worker.kill()
        if self.kazoo.exists(NAMESPACE):
            self.kazoo.delete(NAMESPACE, recursive=True)
