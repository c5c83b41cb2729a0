#!/usr/bin/python3
"""A real ZooKeeper for tests: one server or an ensemble, on free ports of 127.0.0.1.

Everything (configuration, data, logs, pids) is in one directory, so a test gives its own and
several run side by side. From Python:

    with Ensemble(directory, nodes=3) as zk:
        zk.url("/chroot"), zk.leader().kill(), zk.nodes[0].start(), ...

From the shell, where the servers outlive the command that starts them:

    zk.py start DIR [--nodes N]      prints the URL when all servers answer
    zk.py stop DIR                   ends them all
    zk.py status DIR                 a line a server: number, port, pid, mode
    zk.py kill|term|restart|freeze|thaw DIR NUMBER
    zk.py run DIR|- [--nodes N] -- COMMAND ...   with DROVER_TEST_ZK set to the URL; then stops
                                     them; "-" is a temporary directory

Processes are only ever ended by the pid that was written down when they were started.
"""

import argparse
import fcntl
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from wait import wait_until

# Those of Netty are for TLS; Debian's zookeeper.jar names only some of them.
JARS = ":".join(f"/usr/share/java/{name}.jar" for name in (
    "zookeeper", "slf4j-simple", "netty-codec", "netty-resolver", "netty-transport-native-unix-common"))
READY_S = 120
STOP_S = 60
FIRST_PORT, LAST_PORT = 15000, 30000

# On a busy machine a server may not run for seconds: followers then keep their leader, and clients
# may have sessions that outlast it. sync_limit, in ticks, is for tests that freeze a server.
#
# A follower of 3.8 that takes over what the old leader had not committed may acknowledge a proposal
# before it acknowledges the new leader (ZOOKEEPER-4685). That leader then waits for initLimit and is
# elected again. About one election in twenty under load, so this is how long ensembles stand still.
CONFIG = """\
tickTime={tick_ms}
initLimit=16
syncLimit={sync_limit}
maxSessionTimeout=60000
dataDir={dir}/data
dataLogDir={dir}/log
clientPort={port}
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
"""


def need_jvm():
    """`make check` runs without one: whatever needs it is skipped."""
    if os.environ.get("DROVER_CHECK"):
        raise unittest.SkipTest("needs a JVM")


def free_ports(count):
    """Free ports outside of the range from which the system chooses when asked for any port.

    Servers bind them a while later, and again after each restart. So they lie below the ports that
    the system hands out, and tests that run side by side take turns: a file has the next one.
    """
    ports = []
    with open(pathlib.Path(tempfile.gettempdir()) / f"drover-ports-{os.getuid()}", "a+") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        turn.seek(0)
        port = int(turn.read() or FIRST_PORT)
        while len(ports) < count:
            port = port + 1 if port < LAST_PORT else FIRST_PORT
            with socket.socket() as s:
                try:
                    s.bind(("127.0.0.1", port))
                    ports.append(port)
                except OSError:
                    pass
        turn.truncate(0)
        turn.write(str(port))
    return ports


def four_letters(port, word, timeout_s=10):
    """The answer to a four-letter word, "" when there is none."""
    answer = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as s:
            s.sendall(word.encode())
            while chunk := s.recv(65536):
                answer += chunk
    except OSError:
        pass
    return answer.decode(errors="replace")


class Node:
    """One server: a directory, a client port and, while it runs, a process."""

    def __init__(self, directory, number, port, properties=None):
        self.properties = properties or {}
        self.dir = pathlib.Path(directory)
        self.number = number
        self.port = port

    def configure(self, tick_ms, sync_limit, peers, sync, settings):
        for sub in ("data", "log"):
            (self.dir / sub).mkdir(parents=True, exist_ok=True)
        text = CONFIG.format(tick_ms=tick_ms, sync_limit=sync_limit, dir=self.dir, port=self.port)
        if not sync:
            text += "forceSync=no\n"
        text += "".join(f"{name}={value}\n" for name, value in settings.items())
        if peers:
            text += "".join(f"server.{n}=127.0.0.1:{a}:{b}\n" for n, a, b in peers)
            (self.dir / "data" / "myid").write_text(f"{self.number}\n")
        (self.dir / "zoo.cfg").write_text(text)

    @property
    def pid(self):
        try:
            return int((self.dir / "pid").read_text())
        except (FileNotFoundError, ValueError):
            return None

    def start(self):
        assert not self.running(), f"server {self.number} runs already"
        command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                   "-Djava.net.preferIPv4Stack=true", "-Dzookeeper.extendedTypesEnabled=true",
                   "-Dznode.container.checkIntervalMs=100", "-Dzookeeper.enforceQuota=true",
                   *(f"-D{name}={value}" for name, value in self.properties.items()),
                   "-cp", os.environ.get("ZOOKEEPER_JARS", JARS),
                   "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self.dir / "zoo.cfg")]
        with open(self.dir / "out", "ab") as out:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                       cwd=self.dir, start_new_session=True)
        self.process = process
        (self.dir / "pid").write_text(str(process.pid))

    process = None

    def running(self):
        if self.process is not None:
            return self.process.poll() is None
        if self.pid is None:
            return False
        try:
            state = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
            command = pathlib.Path(f"/proc/{self.pid}/cmdline").read_text()
        except OSError:
            return False
        return state != "Z" and str(self.dir / "zoo.cfg") in command

    def send(self, number):
        if self.running():
            os.kill(self.pid, number)

    def end(self, number):
        """Sends the signal and returns when the process is gone."""
        self.send(number)
        wait_until(lambda: not self.running(), f"the end of server {self.number}", STOP_S)
        (self.dir / "pid").unlink(missing_ok=True)

    def kill(self):
        self.end(signal.SIGKILL)

    def term(self):
        self.end(signal.SIGTERM)

    def restart(self):
        self.kill()
        self.start()
        self.wait()

    def freeze(self):
        self.send(signal.SIGSTOP)

    def thaw(self):
        self.send(signal.SIGCONT)

    def mode(self, timeout_s=10):
        """standalone, leader, follower; None when it does not serve."""
        for line in four_letters(self.port, "srvr", timeout_s).splitlines():
            if line.startswith("Mode: "):
                return line[len("Mode: "):]
        return None

    def wait(self):
        """ruok says imok too early: a server is ready when it knows its mode. A word that comes while it
        starts may never be answered."""
        def said():
            return f"ZooKeeper {self.number}, {self.dir}/out: {(self.dir / 'out').read_text()[-2000:]}"

        def ready():
            assert self.running(), f"has ended: {said()}"
            return self.mode(1) is not None

        wait_until(ready, said, READY_S, 0.02)


class Ensemble:
    """All servers of a directory. nodes=1 is a standalone server.

    They do not wait for the disk: what was written survives kill -9 all the same, and three logs on
    a disk that other tests keep busy stop for seconds, and clients lose their connections. Whoever
    measures wants sync=True. settings: further lines of zoo.cfg, the last of a name counts;
    properties: of the JVM.
    """

    def __init__(self, directory, nodes=1, tick_ms=500, sync=False, sync_limit=60,
                 settings=None, properties=None):
        self.dir = pathlib.Path(directory).resolve()
        self.dir.mkdir(parents=True, exist_ok=True)
        ports = free_ports(3 * nodes)
        self.nodes = [Node(self.dir / str(n + 1), n + 1, ports[n], properties)
                      for n in range(nodes)]
        peers = [(n + 1, ports[nodes + 2 * n], ports[nodes + 2 * n + 1]) for n in range(nodes)]
        for node in self.nodes:
            node.configure(tick_ms, sync_limit, peers if nodes > 1 else None, sync, settings or {})
        (self.dir / "ports").write_text(json.dumps(ports[:nodes]))

    @classmethod
    def load(cls, directory):
        """What an earlier command started."""
        self = cls.__new__(cls)
        self.dir = pathlib.Path(directory).resolve()
        ports = json.loads((self.dir / "ports").read_text())
        self.nodes = [Node(self.dir / str(n + 1), n + 1, p) for n, p in enumerate(ports)]
        return self

    def start(self):
        need_jvm()
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.wait()
        return self

    def stop(self):
        for node in self.nodes:
            node.kill()

    def restart(self):
        """The whole ensemble at once, as a power failure would."""
        self.stop()
        self.start()

    def leader(self):
        for node in self.nodes:
            if node.mode() in ("leader", "standalone"):
                return node
        return None

    @property
    def hosts(self):
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def url(self, chroot=""):
        return f"zk://{self.hosts}{chroot}"

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_):
        self.stop()


def main():
    parser = argparse.ArgumentParser(description="A ZooKeeper for tests.")
    parser.add_argument("verb", choices=["start", "stop", "status", "run", "kill", "term",
                                         "restart", "freeze", "thaw"])
    parser.add_argument("dir")
    parser.add_argument("number", nargs="?", type=int)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--tick", type=int, default=500, help="milliseconds")
    parser.add_argument("--sync", action="store_true", help="wait for the disk")
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args, command = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1:]

    if args.verb == "run":
        try:
            need_jvm()
        except unittest.SkipTest as reason:
            print(f"1..0 # SKIP {reason}")
            return 0
        with tempfile.TemporaryDirectory(prefix="drover-zk-") as temporary:
            where = temporary if args.dir == "-" else args.dir
            with Ensemble(where, args.nodes, args.tick, args.sync) as zk:
                return subprocess.run(command, env=os.environ | {"DROVER_TEST_ZK": zk.url()},
                                      check=False).returncode
    if args.verb == "start":
        print(Ensemble(args.dir, args.nodes, args.tick, args.sync).start().url())
        return 0
    zk = Ensemble.load(args.dir)
    if args.verb == "stop":
        zk.stop()
    elif args.verb == "status":
        for node in zk.nodes:
            print(node.number, node.port, node.pid, node.mode())
    else:
        getattr(zk.nodes[args.number - 1], args.verb)()
    return 0


if __name__ == "__main__":
    sys.exit(main())
