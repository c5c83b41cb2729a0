#!/usr/bin/python3
"""Two builds of drover side by side: is the new one slower anywhere?

  bench/compare.py OLD NEW [--rounds N] [--seconds S] [--only WORD]

OLD and NEW are build directories with everything built (ninja -C DIR all). Each rate is measured with
both in turn, ROUNDS times. The ratio is the median of new / old within a round, so that the pace of the
machine counts for both: above 1 the new build is faster. The range is that of the rounds.
"""

import argparse
import pathlib
import re
import statistics
import subprocess
import tempfile

import dag
import task

DAG_NODES = 2000


def rate_of(pattern, *command):
    """The number that the pattern finds in what the command prints."""
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(pattern, text)
    assert found, f"{command} printed no such figure: {text}"
    return float(found[1])


def task_rate(build, o, journal, connections):
    with tempfile.TemporaryDirectory() as work:
        bench = task.Bench(argparse.Namespace(drover=build / "src/drover", load=o.load, work=work,
                                              seconds=o.seconds))
        with bench.drover(journal) as server:
            return bench.load("drover", server, connections)


def dag_rate(build, journal, shape):
    graph = list(dag.shapes(DAG_NODES).values())[shape]
    return len(graph) / dag.run_drover(build / "src/drover", journal)(graph)


def figures(o):
    """Name to a function from a build directory to a rate."""
    for journal in ("strict", "opportunistic"):
        for connections in (1, 16, 64):
            yield (f"task cycles, {journal}, {connections} connections",
                   lambda b, j=journal, c=connections: task_rate(b, o, j, c))
    for journal in ("strict", "opportunistic"):
        for shape, name in enumerate(("independent", "chain", "layers")):
            yield f"dag nodes, {journal}, {name}", lambda b, j=journal, s=shape: dag_rate(b, j, s)
    for name in ("none", "opportunistic"):  # 0.1 called these measurements by their own names
        yield (f"keeper sets, {name}", lambda b, n=name: rate_of(
            rf"one thread, .*{n} *\| *(\d+)", b / "bench/bench_keeper", "memory", n))
    for threads in (1, 64):
        yield (f"keeper sets, strict, {threads} threads", lambda b, t=threads: rate_of(
            rf"strict, {t} threads *\| *(\d+)", b / "bench/bench_keeper", "strict"))
    for name in ("in hand", "by state"):
        yield (f"batch transitions in memory, {name}", lambda b, n=name: rate_of(
            rf"\| {n} *\| *(\d+)", b / "bench/bench_batch", "--memory", "--batches", "100"))
    yield "batch transitions, by state", lambda b: rate_of(
        r"\| by state *\| *(\d+)", b / "bench/bench_batch", "--batches", "300")
    yield "world claims", lambda b: rate_of(
        r"world (\d+)/s", b / "bench/bench_world", "--tasks", "10000", "--backlog", "10000",
        "--rounds", "1")
    yield "world claims over HTTP", lambda b: rate_of(
        r"complete (\d+)/s", b / "bench/bench_world_http", b / "src/drover", "--tasks", "5000",
        "--backlog", "5000")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--only", default="", help="figures whose name contains this")
    o = parser.parse_args()
    o.load = o.new / "bench/task_load"
    print(f"| {'a second':44} | {'old':>9} | {'new':>9} | ratio | range        |")
    print(f"|{'-' * 46}|{'-' * 10}:|{'-' * 10}:|------:|--------------|")
    for name, rate in figures(o):
        if o.only not in name:
            continue
        rounds = [(rate(o.old), rate(o.new)) for _ in range(o.rounds)]
        old, new = (statistics.median(column) for column in zip(*rounds))
        ratios = sorted(b / a for a, b in rounds)
        print(f"| {name:44} | {old:9.0f} | {new:9.0f} | {statistics.median(ratios):5.2f} "
              f"| {ratios[0]:.2f} to {ratios[-1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
