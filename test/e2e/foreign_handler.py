#!/usr/bin/python3
"""A handler of the world document, by kazoo and without Drover's code.

    foreign_handler.py HOSTS TYPE LOG TIMEOUT-S

It picks a pending task of its type, checks for pending ancestors by reading each node of the chain, locks
by creating the working node, reads the data, and completes in three calls: create in zoott_c, delete the
pending node, delete the working node. It ends when it may have lost its session.
"""

import json
import os
import random
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from foreign_log import Log

IDLE_S, BETWEEN_S = 0.1, 0.01  # the second widens the gaps between the three calls


class Handler:
    def __init__(self, hosts, kind, log, timeout_s):
        self.kind, self.log = kind, log
        self.kazoo = KazooClient(hosts=hosts, timeout=timeout_s)
        self.kazoo.add_listener(lambda state: state == "CONNECTED" or os._exit(1))
        self.kazoo.start(timeout=30)
        self.changed = threading.Event()

    def read(self, path):
        try:
            return self.kazoo.get(path)[0]
        except NoNodeError:
            return None

    def is_blocked(self, node):
        parts = node.split("|")
        return any(self.read("/zoott_p/" + "|".join(parts[:n])) is not None for n in range(1, len(parts)))

    def lock(self, node):
        try:
            self.kazoo.create(f"/zoott_w/{node}", b"", ephemeral=True)
            return True
        except NodeExistsError:
            return False

    def handle(self, node, pending):
        self.kazoo.get(json.loads(pending)["path"])
        with self.log.alone(node):
            self.log.write("foreign", "begin", node)
            self.log.write("foreign", "end", node)
        try:
            self.kazoo.create(f"/zoott_c/{node}", pending)
        except NodeExistsError:
            pass  # of a handler that died between the calls
        for directory in ("/zoott_p", "/zoott_w"):
            time.sleep(random.uniform(0, BETWEEN_S))
            try:
                self.kazoo.delete(f"{directory}/{node}")
            except NoNodeError:
                pass

    def try_all(self):
        """Whether one was handled."""
        for node in self.kazoo.get_children("/zoott_p", watch=lambda _: self.changed.set()):
            pending = self.read(f"/zoott_p/{node}")
            if pending is None or json.loads(pending)["type"] != self.kind or self.is_blocked(node):
                continue
            if self.lock(node):
                self.handle(node, pending)
                return True
        return False

    def run(self):
        while True:
            if not self.try_all():
                self.changed.wait(IDLE_S)
                self.changed.clear()


if __name__ == "__main__":
    HOSTS, TYPE, PATH, TIMEOUT = sys.argv[1:]
    Handler(HOSTS, TYPE, Log(PATH), float(TIMEOUT)).run()
