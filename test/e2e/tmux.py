"""A terminal for tests: one tmux server of its own for each."""

import shlex
import subprocess

from conftest import BINARY, wait_until


class Terminal:
    def __init__(self, directory, *words, columns=80, rows=24, **environment):
        """Runs drover with these words; afterwards the shell prints its exit status. Ctrl-C reaches the shell too."""
        self.socket = str(directory / "tmux")
        env = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
        command = f"trap : INT; env {env} {shlex.join([BINARY, *map(str, words)])}; echo status $?; exec sleep 600"
        self.tmux("-f", "/dev/null", "-u", "new-session", "-d", "-x", columns, "-y", rows, "sh", "-c", command)

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", self.socket, *map(str, words)], check=True, capture_output=True,
                              text=True, timeout=30).stdout

    def shown(self, *options):
        return self.tmux("capture-pane", "-p", *options)

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", columns, "-y", rows)

    def wait(self, *words):
        wait_until(lambda: all(word in self.shown() for word in words), f"{words} on the screen")
        return self.shown()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tmux("kill-server")
