"""What the tests of the commands share: a client's surroundings, and servers that misbehave."""

import contextlib
import fcntl
import http.client
import http.server
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import termios
import threading
import urllib.request

from conftest import BINARY, DEADLINE_S

EXAMPLES = pathlib.Path(BINARY).resolve().parents[1] / "examples"


class Client:
    """Runs commands as one user, whose home is a directory of the test's own, against one server."""

    def __init__(self, url, home, **environment):
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("DROVER_", "XDG_")) and name != "NO_COLOR"}
        self.environment |= {"HOME": str(home), "DROVER_URL": url} | environment

    def popen(self, *words, **more):
        return subprocess.Popen([BINARY, *map(str, words)], env=self.environment,
                                **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                                   "stderr": subprocess.PIPE, "text": True} | more)

    def run(self, *words, input=None):
        process = self.popen(*words, stdin=subprocess.PIPE)
        out, err = process.communicate(input, timeout=DEADLINE_S * 3)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def ok(self, *words, input=None):
        """The output of a command that has to succeed without a word on stderr."""
        done = self.run(*words, input=input)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def json(self, *words, input=None):
        return json.loads(self.ok(*words, "--json", input=input))

    def waiting(self):
        """How many requests wait at the server."""
        with urllib.request.urlopen(self.environment["DROVER_URL"] + "/metrics", timeout=DEADLINE_S) as answer:
            page = answer.read().decode()
        return int(float(re.search(r"^drover_http_waiting\S* (\S+)$", page, re.MULTILINE)[1]))

    def tasks(self, *groups):
        """Group and data of all tasks, sorted."""
        return sorted((task["group"], task["data"]) for task in self.json("ls", *groups))


def on_terminal(me, *words, columns=80, typed=None, status=0):
    """What a command prints on a terminal of that width; typed: its input is the terminal, too."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    more = {} if typed is None else {"stdin": child}
    process = me.popen(*words, stdout=child, stderr=child, **more)
    os.close(child)
    if typed:
        os.write(parent, typed.encode())
    said = b""
    while True:
        try:
            more = os.read(parent, 65536)
        except OSError:
            more = b""
        if not more:
            break
        said += more
    os.close(parent)
    assert process.wait(20) == status, said
    return said.decode().replace("\r\n", "\n")


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.misbehave(self, body)

    do_GET = do_POST = do_PUT = do_DELETE = do

    def answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def forward(self, port, body):
        """Status and body of what the real server says."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S * 3)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        got = answer.status, answer.read()
        connection.close()
        return got

    def hang_up(self):
        self.close_connection = True
        self.connection.close()


@contextlib.contextmanager
def between(misbehave):
    """A server that does with each request what misbehave(handler, body) does. Gives its URL."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None
    server.misbehave = misbehave
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
