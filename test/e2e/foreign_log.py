"""The log that foreign and Drover's own workers write side by side, and the check that nothing is handled
twice at a time."""

import contextlib
import fcntl
import os
import pathlib
import random
import time

HANDLE_S = 0.01

# The same for a command of Drover's workers: sh -c ALONE with LOG set; $1 is what is handled, $2 its words.
ALONE = """
exec 9>>"$LOG.locks/$1"
flock -n 9 || echo "$1" >> "$LOG.twice"
"""


class Log:
    """Lines of words. Beside it: files to lock, and a list of what two have handled at a time."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.locks = pathlib.Path(f"{path}.locks")
        self.twice = pathlib.Path(f"{path}.twice")
        self.locks.mkdir(exist_ok=True)

    def write(self, *words):
        self.append(self.path, words)

    def append(self, path, words):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        os.write(descriptor, (" ".join(map(str, words)) + "\n").encode())
        os.close(descriptor)

    @contextlib.contextmanager
    def alone(self, what):
        with open(self.locks / what, "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.append(self.twice, [what])
            time.sleep(random.uniform(0, HANDLE_S))
            yield

    def lines(self):
        return [line.split(" ") for line in self.path.read_text().splitlines()] \
            if self.path.exists() else []
