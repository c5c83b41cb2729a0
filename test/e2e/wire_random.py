#!/usr/bin/python3
"""Sends the same random requests to a real ZooKeeper and to drover, and compares every answer.

    wire_random.py [--seconds N] [--seed N] [--steps N]     fresh sequences until the time is over
    wire_random.py --replay FILE                            one sequence, as this program printed it

A sequence has a seed of its own: seed, seed + 1, and so on. Requests of every kind, watches, sessions that
are resumed, moved, closed or expire, malformed packets and no packets at all go to both servers; answers,
events in their order, closed connections and, at the end, the whole tree must be the same. At the first
difference the sequence is made as short as possible and printed.

Differences that are intended, and how the steps avoid them:

    Two kinds of watches on one path are independent, as in ZooKeeper 3.9. In 3.8 the later one replaces the
    earlier one, which is a bug there: a path has one kind of watch for each connection.

    A wrong password for a session does not close the connection of its owner, or anybody could close it:
    it is tried only for sessions without a connection.

    The events of several ephemeral nodes that end with their session come in another order: ZooKeeper's is
    that of a hash table. So is the order of the identities that "auth" stands for in an access list.

    checkWatches finds the watches of its own connection. ZooKeeper 3.8 finds those of others as well: it is
    sent for nodes that no other connection watches.

    A createTTL of a plain node with the TTL -1 makes a plain node. It stops ZooKeeper, so it is not sent.

    A check that succeeds outside of a transaction is answered. ZooKeeper fails to encode its answer, and
    never answers: only checks that fail are sent outside.

    setWatches keeps no watch on a path with a NUL, which no node can have; ZooKeeper keeps and counts it.

    The request createSession (-10), which a server sends to itself, is unknown: it is not sent.

    Failed requests have no transaction of their own: the zxid of an answer is compared only for changes.

The program starts both servers, or uses those that run on --zookeeper PORT and --drover PORT.
"""

import argparse
import ast
import contextlib
import itertools
import random
import sys
import tempfile
import threading
import time

from conftest import KEEPER_ONLY, Server
import zk
from wire_random_play import Comparison, Side
from wire_random_steps import MASKED, Steps

SHORTEN_S = 120
NUMBERS = itertools.count(1)


class Servers:
    """The two servers, by their ports: ZooKeeper first."""

    def __init__(self, *ports):
        self.ports = ports
        self.steps = self.sequences = 0

    def play(self, steps):
        """Plays a sequence to both at once; returns the first difference or None."""
        number = next(NUMBERS)
        sides = [Side(port, number) for port in self.ports]
        errors = []

        def run(side):
            try:
                side.play(steps)
            except Exception as error:  # noqa: BLE001: reported below
                errors.append(error)

        threads = [threading.Thread(target=run, args=[side]) for side in sides]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        for side in sides:
            side.close()
        self.steps += len(steps)
        self.sequences += 1
        return Comparison().first_difference(*[side.log for side in sides])


def shorten(servers, steps):
    """Drops steps as long as a difference stays: halves first, single ones last."""
    deadline = time.monotonic() + SHORTEN_S
    size = len(steps) // 2
    while size and time.monotonic() < deadline:
        at, before = 0, len(steps)
        while at < len(steps) and time.monotonic() < deadline:
            fewer = steps[:at] + steps[at + size:]
            if fewer and (found := servers.play(fewer)):
                steps = fewer[:found[0] + 1]
            else:
                at += size
        if len(steps) == before or size > 1:
            size //= 2
    return [shorten_step(servers, steps, at, deadline) for at in range(len(steps))]


def shorten_step(servers, steps, at, deadline):
    """Drops requests of a burst or a transaction."""
    actor, verb, *arguments = steps[at]
    if verb != "burst" and not (verb == "call" and arguments[0][0] in ("multi", "multi_read")):
        return steps[at]
    fixed = 1 if verb == "call" else 0  # the name of the request
    while time.monotonic() < deadline:
        whole = arguments[0]
        parts = [whole[:n] + whole[n + 1:] for n in range(fixed, len(whole)) if type(whole[n]) is tuple]
        for part in parts:
            steps[at] = (actor, verb, part)
            if servers.play(steps):
                arguments = [part]
                break
        else:
            break
    steps[at] = (actor, verb, arguments[0])
    return steps[at]


def describe(steps, found):
    at, (expected, got) = found
    step = steps[at] if at < len(steps) else "the tree at the end"
    return f"step {at}: {step}\n  zookeeper: {expected}\n  drover:    {got}"


def report(servers, steps, found, say):
    say(describe(steps, found))
    steps = steps[:found[0] + 1]
    if not servers.play(steps):
        say("not again, when the same steps were played once more")
        return
    steps = shorten(servers, steps)
    if found := servers.play(steps):
        say("the shortest sequence of steps, for --replay:\n")
        say("\n".join(map(repr, steps)) + "\n\n" + describe(steps, found))


def compare(servers, seed, seconds, length, say):
    """Plays random sequences. False: there was a difference."""
    start = time.monotonic()
    for number in itertools.count(seed):
        steps = Steps(number).sequence(length)
        if found := servers.play(steps):
            say(f"a difference: --seed {number} --steps {length}")
            report(servers, steps, found, say)
            return False
        if time.monotonic() - start >= seconds:
            break
    say(f"{servers.sequences} sequences, {servers.steps} steps, seeds {seed} to {number}")
    return True


def replay(servers, path, say):
    with open(path, encoding="utf-8") as file:
        steps = [ast.literal_eval(line) for line in file if line.startswith("(")]
    found = servers.play(steps)
    say(describe(steps, found) if found else "no difference")
    return not found


@contextlib.contextmanager
def start_servers():
    """Both look for containers to remove every 100 ms."""
    with tempfile.TemporaryDirectory(prefix="drover-random-") as directory, zk.Ensemble(directory) as ensemble:
        server = Server("--data", directory + "/data", "--zk-reap", "100ms", "--zk-enforce-quota", *KEEPER_ONLY)
        try:
            server.start()
            yield Servers(ensemble.nodes[0].port, server.zk_port)
            assert server.stop() == 0, server.said
        finally:
            server.kill()


def main():
    parser = argparse.ArgumentParser(description="Compares drover with a real ZooKeeper.")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(10 ** 9))
    parser.add_argument("--steps", type=int, default=150, help="of a sequence")
    parser.add_argument("--replay", metavar="FILE", help="the steps of one sequence, one on a line")
    parser.add_argument("--zookeeper", type=int, metavar="PORT")
    parser.add_argument("--drover", type=int, metavar="PORT")
    options = parser.parse_args()
    running = options.zookeeper and options.drover
    for name, reason in MASKED.items():
        print(f"left out: {name}: {reason}")
    with (contextlib.nullcontext(Servers(options.zookeeper, options.drover)) if running
          else start_servers()) as servers:
        if options.replay:
            same = replay(servers, options.replay, print)
        else:
            print(f"seed {options.seed}", flush=True)
            same = compare(servers, options.seed, options.seconds, options.steps, print)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
