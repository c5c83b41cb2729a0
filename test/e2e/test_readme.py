"""The README is true: runs its commands and compares their output."""

import os
import re
import subprocess

import pytest

from cli import Client
from conftest import BINARY, ROOT

pytestmark = pytest.mark.slow


def examples():
    """Commands and their output, block by block, of the blocks that are about a running server."""
    text = (ROOT / "README.md").read_text().split("\n## Tasks\n", 1)[1]
    for block in re.findall(r"^```\n(\$ .*?)^```", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, output = re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*)\n(.*)", part, re.DOTALL).groups()
            if "# ends with Ctrl-C" not in command:
                yield command, output


def plain(text):
    """Without what differs from run to run: numbers, and the widths that hang on them."""
    return [" ".join(re.sub(r"(\d+(\.\d+)?(ms|[smhd])?)+", "N", line).split()) for line in text.splitlines()]


def test_what_the_readme_shows(server, tmp_path):
    me = Client(f"http://127.0.0.1:{server.port}", tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/drover").symlink_to(os.path.abspath(BINARY))
    me.environment["PATH"] = f"{tmp_path}/bin:" + me.environment["PATH"]
    shell = subprocess.Popen(["bash"], cwd=ROOT, env=me.environment, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    count = 0
    for command, output in examples():
        command = command.replace("127.0.0.1:8048", f"127.0.0.1:{server.port}")
        # exec passes its standard input on, which would be the commands that follow
        shell.stdin.write(f"{{ {command}\n}} </dev/null\necho; echo END\n")
        shell.stdin.flush()
        said = ""
        while not said.endswith("\nEND\n"):
            line = shell.stdout.readline()
            assert line, said
            said += line
        assert plain(said.removesuffix("END\n").strip("\n")) == plain(output), command
        count += 1
    shell.stdin.close()
    assert shell.wait() == 0 and count >= 12
