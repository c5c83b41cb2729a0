"""The program zookeeper-driver from Python: a keeper over ZooKeeper in a process of its own, which a
test can stop, and whose connection it can break.

The program is DROVER_ZK_DRIVER, or in the build directory (DROVER_BUILD, else build-asan).
"""

import os
import pathlib
import queue
import signal
import subprocess
import threading

from wait import wait_until

REPLY_S = 120


def find_driver():
    if "DROVER_ZK_DRIVER" in os.environ:
        return os.environ["DROVER_ZK_DRIVER"]
    root = pathlib.Path(__file__).resolve().parents[2]
    found = root / os.environ.get("DROVER_BUILD", "build-asan") / "test/zookeeper/zookeeper-driver"
    assert found.exists(), f"{found} is not built"
    return str(found)


class Driver:
    """ask() sends a command and returns its reply; events and told gather what callbacks wrote."""

    def __init__(self):
        self.process = subprocess.Popen([find_driver()], text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.replies = queue.Queue()
        self.events, self.told = [], []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            kind, _, text = line.rstrip("\n").partition(" ")
            {"=": self.replies.put, "!": self.events.append, "~": self.told.append}[kind](text)
        self.replies.put(None)

    def send(self, *words):
        self.process.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.process.stdin.flush()

    def reply(self, timeout_s=REPLY_S):
        text = self.replies.get(timeout=timeout_s)
        assert text is not None, "the driver has ended: " + self.process.stderr.read()
        return text

    def ask(self, *words, timeout_s=REPLY_S):
        self.send(*words)
        return self.reply(timeout_s)

    def must(self, *words):
        """The text after OK."""
        name, _, text = self.ask(*words).partition(" ")
        assert name == "OK", f"{words}: {name} {text}"
        return text

    def wait_event(self, event, timeout_s=REPLY_S):
        """Waits for an event that starts with this text; forgets it and those before it."""
        def seen():
            return any(one.startswith(event) for one in list(self.events))

        wait_until(seen, lambda: f"{event} among {self.events}", timeout_s)
        while not self.events.pop(0).startswith(event):
            pass

    def freeze(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        """Ends the program, which must not have complained (sanitizers do, to stderr)."""
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(REPLY_S)
            except subprocess.TimeoutExpired:
                self.kill()
        complaints = self.process.stderr.read()
        if kind is None:
            assert not complaints, complaints
