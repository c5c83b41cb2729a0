#!/usr/bin/python3
"""What it costs to keep what commands print: bench/output.py [--drover BINARY] [--quick]

Four figures, each beside its peer in the same run: many small outputs (GNU parallel), one large
output that is followed (cat | cat), the memory of the server, and the pace of other nodes.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Server:
    def __init__(self, binary, *more):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="drover-bench-"))
        self.log = open(self.place / "log", "w+")
        self.process = subprocess.Popen(
            [binary, "serve", "--data", self.place / "data", "--http", "127.0.0.1:0", "--zk", "none",
             "--socket", self.place / "socket", "--loopback-roles", "all", "--journal",
             "opportunistic", *more], stderr=self.log)
        while not (found := re.search(r"http://127.0.0.1:\d+", (self.place / "log").read_text())):
            time.sleep(0.02)
        self.url = found[0]

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method,
                                         data=json.dumps(body).encode() if body else None,
                                         headers={"Content-Type": "application/json"})
        return json.loads(urllib.request.urlopen(request).read())

    def add(self, *nodes):
        return [one["id"] for one in self.call("POST", "/v1/nodes", [
            {"metadata": {"type": "command"}, "data": {"command": words[0], "args": words[1:]}}
            for words in nodes])]

    def wait(self, ids):
        for at in range(0, len(ids), 500):
            self.call("GET", "/v1/scheduler/wait?id=" + ",".join(ids[at:at + 500]))

    def memory(self, name):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(name + r":\s+(\d+)", text)[1]) // 1024

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.place)


def timed(run):
    begin = time.monotonic()
    run()
    return time.monotonic() - begin


def shell(command, **environment):
    subprocess.run(["bash", "-c", command], check=True, stdout=subprocess.DEVNULL,
                   env=os.environ | environment)


def small_outputs(binary, count):
    server = Server(binary)
    command = ["head", "-c", "10240", "/dev/urandom"]
    ours = timed(lambda: server.wait(server.add(*[command] * count)))
    kept = sum(1 for _ in (server.place / "data/output").rglob("*-*"))
    server.stop()
    with tempfile.TemporaryDirectory() as results:
        theirs = timed(lambda: shell(f"seq {count} | parallel -j {os.cpu_count()} --results "
                                     f"{results} head -c 10240 /dev/urandom '#' > /dev/null"))
    print(f"{count} commands that print 10 KiB: drover {ours:.1f} s ({kept} files), "
          f"parallel --results {theirs:.1f} s: {ours / theirs:.2f}")


def large_output(binary, length):
    server = Server(binary)
    client = {"DROVER_URL": f"unix:{server.place}/socket"}
    before = server.memory("VmRSS")
    [a] = server.add(["head", "-c", str(length), "/dev/zero"])
    ours = timed(lambda: shell(f"test $({binary} log -f {a} | wc -c) = {length}", **client))
    print(f"memory of the server: {before} MiB before, {server.memory('VmHWM')} MiB at most")
    server.stop()
    theirs = timed(lambda: shell(f"head -c {length} /dev/zero | cat | cat | wc -c"))
    print(f"{length // 10**6} MB followed by log -f | wc -c: {ours:.1f} s, "
          f"head | cat | cat | wc -c {theirs:.1f} s: {theirs / ours:.2f} of its pace")


def pace(binary, count):
    """Others beside a command that prints, and beside one that prints to /dev/null."""
    times = {}
    for name, end in (("quiet", " > /dev/null"), ("printing", "")):
        server = Server(binary, "--jobs", "3")
        printer = server.add(["bash", "-c", "yes" + end])
        time.sleep(0.5)
        times[name] = timed(lambda: server.wait(server.add(*[["true"]] * count)))
        server.call("PUT", f"/v1/scheduler/kill?id={printer[0]}")
        server.stop()
    print(f"{count} commands beside one that prints without end: {times['printing']:.1f} s, beside "
          f"one that prints to /dev/null: {times['quiet']:.1f} s: "
          f"{times['quiet'] / times['printing']:.2f} of the pace")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--drover", default=str(ROOT / "build/src/drover"))
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    options = parser.parse_args()
    part = 10 if options.quick else 1
    small_outputs(options.drover, 10000 // part)
    large_output(options.drover, 3 * 10**9 // part)
    pace(options.drover, 5000 // part)


if __name__ == "__main__":
    main()
