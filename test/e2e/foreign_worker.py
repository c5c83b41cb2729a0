#!/usr/bin/python3
"""A worker of the queue document, by kazoo and without Drover's code.

    foreign_worker.py HOSTS SERVER-PORT NAMESPACE LOG TIMEOUT-S

It registers an ephemeral sequential node, watches both lists, takes queues that nobody owns by creating
their node `owner`, handles their messages in order and writes `last` together with a check of that node.
Messages are tasks of the group with the queue's name, read over HTTP. It ends when it may have lost its
session.
"""

import http.client
import json
import os
import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError

from foreign_log import Log

QUIET_S, IDLE_S = 0.2, 0.05


class Worker:
    def __init__(self, hosts, port, namespace, log, timeout_s):
        self.port, self.ns, self.log = port, namespace, log
        self.kazoo = KazooClient(hosts=hosts, timeout=timeout_s)
        self.kazoo.add_listener(lambda state: state == "CONNECTED" or os._exit(1))
        self.kazoo.start(timeout=30)
        self.changed = threading.Event()
        self.owned = {}  # queue -> [last, version of its node, messages that were read]
        self.path = self.kazoo.create(f"{self.ns}/workers/worker-", b'{"queues": []}', ephemeral=True,
                                      sequence=True)
        self.name = self.path.rpartition("/")[2]

    def tell(self):
        """What it handles now."""
        self.kazoo.set(self.path, json.dumps({"queues": sorted(self.owned)}).encode())

    def on_change(self, _event):
        self.changed.set()

    def look(self):
        """Reads the lists once they are quiet, sets the watches again, and takes its share."""
        while self.changed.wait(QUIET_S):
            self.changed.clear()
        workers = self.kazoo.get_children(f"{self.ns}/workers", watch=self.on_change)
        queues = sorted(self.kazoo.get_children(f"{self.ns}/queues", watch=self.on_change))
        share = -(-len(queues) // len(workers))
        for queue in sorted(self.owned)[share:]:
            self.release(queue)
        for queue in queues:
            if len(self.owned) < share and queue not in self.owned:
                self.take(queue)

    def take(self, queue):
        path = f"{self.ns}/queues/{queue}"
        try:
            self.kazoo.create(f"{path}/owner", json.dumps({"worker": self.name}).encode(), ephemeral=True)
        except (NodeExistsError, NoNodeError):
            return
        while True:  # from here on the version of the node tells earlier owners that they are not
            data, stat = self.kazoo.get(path)
            try:
                stat = self.kazoo.set(path, data, version=stat.version)
                break
            except BadVersionError:
                pass
        self.owned[queue] = [int(json.loads(data)["last"].rstrip("L") or 0), stat.version, []]
        self.tell()

    def release(self, queue):
        del self.owned[queue]
        self.kazoo.delete(f"{self.ns}/queues/{queue}/owner")
        self.tell()

    def read(self, queue, last):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", f"/group/{queue}?owned=yes")
        tasks = json.loads(connection.getresponse().read())
        connection.close()
        return sorted((task["id"], task["data"]) for task in tasks if task["id"] > last)

    def handle_one(self, queue):
        """False: there is no message."""
        last, version, messages = self.owned[queue]
        messages = messages or self.read(queue, last)
        if not messages:
            return False
        (number, data), *rest = messages
        path = f"{self.ns}/queues/{queue}"
        with self.log.alone(queue):
            self.log.write("foreign", queue, number, data)
        change = self.kazoo.transaction()
        change.check(f"{path}/owner", 0)
        change.set_data(path, json.dumps({"last": str(number)}).encode(), version)
        results = change.commit()
        if isinstance(results[1], Exception):
            raise KazooException(f"{queue} was lost: {results}")
        self.owned[queue] = [number, results[1].version, rest]
        return True

    def run(self):
        self.changed.set()
        while True:
            if self.changed.is_set() or not self.owned:
                self.look()
            busy = [self.handle_one(queue) for queue in list(self.owned)]
            if not any(busy):
                self.changed.wait(IDLE_S)
                self.look_for_free()

    def look_for_free(self):
        """A queue that another worker releases changes neither list."""
        self.look()


if __name__ == "__main__":
    HOSTS, PORT, NAMESPACE, PATH, TIMEOUT = sys.argv[1:]
    Worker(HOSTS, int(PORT), NAMESPACE, Log(PATH), float(TIMEOUT)).run()
