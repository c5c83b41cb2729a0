"""Writes down what a server says, without what cannot be the same twice.

A session is written down by the name of its connection, the transactions of a stat by their order,
times not at all. Everything else is kept as it came: errors, bodies, and the events before each answer.
"""

import itertools
import sys

from wait import wait_until
from wire_client import Client, Closed, Stat, create


class Actor:
    """A connection whose answers are written down."""

    def __init__(self, world, name, **more):
        self.world, self.name = world, name
        self.client = Client(world.port, **more)
        if self.client.session:
            world.names.setdefault(self.client.session, name)
        self.zxid = 0

    def __call__(self, request):
        """Makes the request; records the events before the answer, and the answer."""
        try:
            answer = self.client.call(request)
        except Closed:
            self.note("closed", self.take_events())
            return None
        self.note(answer.error, self.world.plain(answer.body), self.take_events())
        return answer

    def take_events(self):
        events, self.client.events = self.client.events, []
        return events

    def look(self):
        """Records the events up to now."""
        self.note("told", self.client.take_events())

    def wait(self):
        """Waits for an event, and records it."""
        self.note("told", wait_until(self.client.take_events, "an event"))

    def note(self, *what):
        self.world.note(self.name, *what)


class World:
    """A server and its answers."""

    def __init__(self, port, root, first=()):
        self.port, self.root = port, root
        self.log, self.names, self.actors = [], {0: None}, []
        with Client(port) as c:
            for request in first:
                c.must(request)
            c.must(create(root))
            c.end()

    def connect(self, name="a", **more):
        actor = Actor(self, name, **more)
        self.actors.append(actor)
        return actor

    def note(self, *what):
        """Recorded with the line of the scenario that caused it."""
        frame = sys._getframe(1)
        while frame.f_code.co_filename == __file__:
            frame = frame.f_back
        self.log.append((frame.f_lineno, *what))

    def plain(self, body):
        """A body without what cannot be the same twice."""
        if isinstance(body, Stat):
            order = sorted({body.czxid, body.mzxid, body.pzxid})
            return ("stat", *(order.index(z) for z in (body.czxid, body.mzxid, body.pzxid)),
                    body.mtime >= body.ctime, *body[4:7], self.names[body.owner], *body[8:10])
        if isinstance(body, (list, tuple)):
            return [self.plain(part) for part in body]
        return body

    def close(self):
        for actor in self.actors:
            actor.client.close()


def run(port, function, first=()):
    """first: requests that come before any other."""
    world = World(port, "/" + function.__name__, first)
    try:
        function(world)
    finally:
        world.close()
    return world.log


def differences(expected, got):
    """One text for each place where two logs differ."""
    pairs = itertools.zip_longest(expected, got)
    return [f"line {(e or g)[0]}: expected {(e or ())[1:]}, got {(g or ())[1:]}"
            for e, g in pairs if e != g]
