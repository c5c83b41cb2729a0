"""The recipes of Apache Curator on the ZooKeeper port and on a real ZooKeeper: the same program prints
the same lines."""

import concurrent.futures
import pathlib
import subprocess

import pytest

from wire_support import serve
from zk import need_jvm

pytestmark = pytest.mark.slow

JAVA = pathlib.Path("/usr/share/java")
JARS = [str(JAVA / f"{name}.jar") for name in (
    "curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava",
    "jackson-databind", "jackson-core", "jackson-annotations", "slf4j-api", "slf4j-nop")]
SOURCE = pathlib.Path(__file__).parent.parent / "curator" / "Recipes.java"


@pytest.fixture(scope="module")
def drover(tmp_path_factory):
    yield from serve(tmp_path_factory, "--zk-reap", "100ms")


@pytest.fixture(scope="module")
def recipes(tmp_path_factory):
    """Runs the program against a port; returns its exit status and its lines."""
    need_jvm()
    classes = tmp_path_factory.mktemp("classes")
    subprocess.run(["javac", "-nowarn", "-cp", ":".join(JARS), "-d", classes, SOURCE], check=True)

    def run(port):
        done = subprocess.run(
            ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp",
             ":".join([str(classes), *JARS]), "Recipes", f"127.0.0.1:{port}"],
            capture_output=True, text=True, timeout=900)
        return done.returncode, done.stdout.splitlines()
    return run


def test_curator(drover, zookeeper, recipes):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        ours, theirs = pool.map(recipes, [drover.zk_port, zookeeper.nodes[0].port])
    assert theirs[0] == 0, theirs[1]
    assert ours == theirs
