#!/usr/bin/python3
"""bench/zookeeper - the embedded keeper through its port, side by side with ZooKeeper 3.8.

    zookeeper.py CLIENT DROVER RATE

Starts a real ZooKeeper (standalone, syncing to disk) and `drover serve` (strict), runs the same client
program against both in turn, and prints the memory of both with the same nodes in them; requests a
second, the ratio, and what it should be; then keeper_commit() beside bare zoo_amulti() over a three-node
ensemble. Each figure is the middle of ROUNDS. Works in a temporary directory and ends what it started.
"""

import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "test" / "zookeeper"))
import zk  # noqa: E402

OPERATIONS = {"set": 3, "multi": 3, "get": 2, "create": 3}
MEMORY_NODES = 100000
WINDOWS = (1, 100, 1000)
ROUNDS = 3
SECONDS = "1"


def resident_mb(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0


class Drover:
    def __init__(self, binary, directory):
        self.process = subprocess.Popen(
            [binary, "serve", "--data", str(directory), "--http", "none", "--zk", "127.0.0.1:0"],
            stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"zk://(\S+)", line)
            if found:
                self.address = found.group(1)
                return
        raise SystemExit("drover did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)


def rate(client, address, operation, window):
    done = subprocess.run([client, address, operation, str(window), SECONDS],
                          capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(done.stdout)


def row(*cells):
    print("| {:<8} | {:>6} | {:>12} | {:>12} | {:>6} | {:>7} |".format(*cells), flush=True)


def head():
    row("request", "window", "drover/s", "ZooKeeper/s", "ratio", "wanted")
    print("|----------|-------:|-------------:|-------------:|-------:|--------:|")


def side_by_side(client, ours, theirs):
    for operation, wanted in OPERATIONS.items():
        for window in WINDOWS:
            rounds = [(rate(client, ours, operation, window), rate(client, theirs, operation, window))
                      for _ in range(ROUNDS)]
            a = statistics.median(r[0] for r in rounds)
            b = statistics.median(r[1] for r in rounds)
            ratio = statistics.median(r[0] / r[1] for r in rounds)
            row(operation, window, f"{a:.0f}", f"{b:.0f}", f"{ratio:.2f}",
                f">= {wanted}" if window > 1 else "")


def memory(client, drover, server, count):
    """Of both, after the same number of nodes was made in each. Comes first: every run below leaves
    nodes behind, and of those that create the faster server keeps more."""
    for address in (drover.address, server.hosts):
        subprocess.run([client, address, "fill", str(count)], check=True, timeout=120)
    ours, theirs = resident_mb(drover.process.pid), resident_mb(server.nodes[0].pid)
    return (f"memory with {count} nodes: drover {ours:.0f} MB, ZooKeeper {theirs:.0f} MB, "
            f"ratio {ours / theirs:.2f} (wanted <= 0.10)")


def main():
    client, binary, commit_rate = sys.argv[1:4]
    with tempfile.TemporaryDirectory(prefix="drover-bench-", dir=".") as name:
        directory = pathlib.Path(name).resolve()
        with zk.Ensemble(directory / "zookeeper", sync=True) as server, \
                Drover(binary, directory / "drover") as drover:
            print(memory(client, drover, server, MEMORY_NODES), "", sep="\n", flush=True)
            head()
            side_by_side(client, drover.address, server.hosts)
            print(flush=True)
        with zk.Ensemble(directory / "ensemble", 3, sync=True) as ensemble:
            print("keeper_commit() beside bare zoo_amulti(), three nodes (wanted >= 0.90):", flush=True)
            subprocess.run([commit_rate, "1", "5"], check=True,
                           env={"DROVER_TEST_ZK": ensemble.url()})


if __name__ == "__main__":
    main()
