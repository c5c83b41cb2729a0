"""Workers and handlers that do what the queue and world documents say, by kazoo and without Drover's code,
beside Drover's own, while both are killed at random: on the embedded keeper and on a real ZooKeeper."""

import collections
import os
import pathlib
import random
import subprocess
import sys
import time

import pytest

from conftest import BINARY, wait_until
from foreign_log import ALONE, Log
from queue_support import ENVIRONMENT, NAMESPACE, Room
from world_support import LISTS, World, call, place_of

pytestmark = pytest.mark.slow

SOAK = bool(os.environ.get("DROVER_SOAK"))
CROWD_S = 60 if SOAK else 5
KILL_EVERY_S = 0.7
END_S = 120
TIMEOUT_S = 3
HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module", params=["embedded", "ensemble"])
def place(request, tmp_path_factory):
    yield from place_of(request, tmp_path_factory, "/foreign")


@pytest.fixture
def chance():
    seed = random.randrange(1 << 30)
    print("seed", seed)
    return random.Random(seed)


class Crowd:
    """Processes, each of which is started again when it has ended."""

    def __init__(self, chance, log, commands):
        self.chance, self.log = chance, log
        self.environment = ENVIRONMENT | {"LOG": str(log.path)}
        self.commands = commands
        self.processes = [None] * len(commands)
        self.killed = 0
        self.revive()

    def revive(self):
        for n, process in enumerate(self.processes):
            if process is None or process.poll() is not None:
                with open(f"{self.log.path}.said.{n}", "ab") as said:
                    self.processes[n] = subprocess.Popen(self.commands[n], stdin=subprocess.DEVNULL,
                                                         stdout=said, stderr=said, env=self.environment)

    def kinds(self):
        """Of those that have handled something."""
        return {words[0] for words in self.log.lines()}

    def run(self, seconds, step):
        """Kills one every now and then; step() is called many times a second. Then goes on without kills until
        both kinds have been quick enough to handle something."""
        began = time.monotonic()
        end, kill_at = began + seconds, began + KILL_EVERY_S
        while time.monotonic() < end or (len(self.kinds()) < 2 and time.monotonic() < end + END_S):
            step()
            self.revive()
            if kill_at < time.monotonic() < end:
                kill_at += self.chance.uniform(0, 2 * KILL_EVERY_S)
                self.kill(self.chance.choice(self.processes))
                self.killed += 1
            time.sleep(0.02)  # the pace of the test, not a condition

    def wait_until(self, condition, what):
        def alive_and_done():
            self.revive()
            return condition()
        wait_until(alive_and_done, what, END_S, 0.1)

    def kill(self, process):
        process.kill()
        process.wait()

    def end(self):
        for process in self.processes:
            self.kill(process)

    def said(self):
        return {path.name: path.read_text()[-2000:] for path in self.log.path.parent.glob("*.said.*")}


def check_alone(log, crowd):
    """Nothing was handled by two at a time, and both kinds have handled something."""
    assert not log.twice.exists(), log.twice.read_text()
    counts = collections.Counter(words[0] for words in log.lines())
    print(counts, "killed", crowd.killed)
    assert set(counts) == {"ours", "foreign"}, crowd.said()


def ours(*words, command):
    return [BINARY, *words, "--timeout", f"{TIMEOUT_S}s", "--", "sh", "-c", command]


def foreign(program, *words):
    return [sys.executable, HERE / program, *map(str, words), str(TIMEOUT_S)]


# Queues.

MESSAGE = 'set -- "$DROVER_QUEUE"' + ALONE + """
read -r line
echo "ours $DROVER_QUEUE $DROVER_MESSAGE $line" >> "$LOG"
"""


def check_order(log, queue, ids):
    """In order, each at least once. Who is killed before `last` is written leaves one message to do again."""
    handled = [ids.index(int(words[2])) for words in log.lines() if words[1] == queue]
    assert handled[:1] == [0][:len(ids)] and set(handled) == set(range(len(ids))), (queue, handled)
    for before, after in zip(handled, handled[1:]):
        assert after in (before, before + 1), (queue, handled)


def test_queue_workers(place, tmp_path, chance):
    room, log = Room(place, tmp_path), Log(tmp_path / "log")
    queues = room.create(4)
    for name in ("mail", "a.b-c_D"):
        assert room.call("POST", "/v1/queues", {"queue": name}) == (200, {"queue": name})
        queues.append(name)
    ids = {queue: [] for queue in queues}
    work = ours("queue", "work", "--server", room.url, "--settle", "200ms", command=MESSAGE)
    alien = foreign("foreign_worker.py", place.hosts, place.port, NAMESPACE, log.path)
    crowd = Crowd(chance, log, [work, alien, work, alien])

    def post():
        queue = chance.choice(queues)
        ids[queue] += room.post(queue, *(f"message-{n}" for n in range(chance.randint(1, 2))))

    try:
        crowd.run(CROWD_S, post)
        crowd.wait_until(lambda: all(room.last(q) == str(ids[q][-1]) for q in queues if ids[q]),
                         lambda: f"the last message of all: {crowd.said()}")
        check_alone(log, crowd)
        for queue in queues:
            check_order(log, queue, ids[queue])
    finally:
        crowd.end()
        room.end()


# Worlds.

TASK = 'set -- "$DROVER_NODE"' + ALONE + """
echo "ours begin $DROVER_NODE" >> "$LOG"
echo "ours end $DROVER_NODE" >> "$LOG"
"""


def check_chains(log, nodes):
    """Each was handled, and none before the one above it had been."""
    ended = set()
    for _, what, node in log.lines():
        if what == "end":
            ended.add(node)
        elif "|" in node:
            assert node.rpartition("|")[0] in ended, node
    assert ended == set(nodes)


def test_world_handlers(place, tmp_path, chance):
    world, log = World(place, "crowd"), Log(tmp_path / "log")
    url = f"http://127.0.0.1:{place.port}"
    work = ours("world", "work", "crowd", "--server", url, "--type", "t", command=TASK)
    alien = foreign("foreign_handler.py", place.hosts, "t", log.path)
    crowd = Crowd(chance, log, [work, alien, work, alien, alien])
    nodes = []

    def queue():
        """A chain of tasks below a task."""
        node = f"n{len(nodes)}_t"
        world.queue(node[:-2])
        for n in range(chance.randint(0, 2)):
            name = f"{node[:-2].rpartition('|')[2]}.{n}"
            world.queue(name, parent=(node.rpartition("|")[2][:-2].replace(".", r"\."), "t"))
            nodes.append(node)
            node = f"{node}|{name}_t"
        nodes.append(node)

    def is_done():
        pending, working, completed = (set(place.kazoo.get_children(path)) for path in LISTS)
        return not pending and not working and completed == set(nodes)

    try:
        crowd.run(CROWD_S, queue)
        crowd.wait_until(is_done, lambda: f"{world.listed('pending')} {crowd.said()}")
        check_alone(log, crowd)
        check_chains(log, nodes)
        status, answer = world.get("tasks?state=completed&limit=0")
        assert status == 200 and sorted(task["node"] for task in answer["tasks"]) == sorted(nodes)
    finally:
        crowd.end()
        place.sweep("crowd")
        assert call(place.port, "GET", "/readyz")[0] == 200
