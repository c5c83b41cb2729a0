"""The command line: version, help, and every wrong use answered with one line and status 2."""

import re
import subprocess

import pytest

from conftest import BINARY, ROOT, drover


def version():
    header = (ROOT / "include/drover.h").read_text()
    return re.search(r'#define DROVER_VERSION "(.*)"', header)[1]


@pytest.mark.parametrize("words", [["--version"], ["version"]])
def test_version(words):
    done = drover(*words)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"drover {version()}\n", "")


def test_the_versions_of_header_and_build_agree():
    assert f"version: '{version()}'" in (ROOT / "meson.build").read_text()


@pytest.mark.parametrize("words", [["help"], ["--help"], ["-h"]])
def test_help_lists_the_commands(words):
    done = drover(*words)
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("serve", "fsck", "help", "version"):
        assert re.search(rf"^  {name} ", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("name", ["serve", "fsck", "help", "version"])
def test_help_of_each_command(name):
    by_help, by_option = drover("help", name), drover(name, "--help")
    assert (by_help.returncode, by_help.stderr) == (0, "")
    assert by_help.stdout.startswith(f"Usage: drover {name}")
    assert by_help.stdout == by_option.stdout


@pytest.mark.parametrize("name, some", [
    ("serve", {"--data", "--journal", "--http", "--zk", "--snapshot-every"}),
    ("fsck", {"--dump", "--salvage"}),
])
def test_the_man_page_names_every_option(name, some):
    text = drover(name, "--help").stdout
    page = (ROOT / "doc/drover.1.scd").read_text()
    section = re.search(rf"^# {name.upper()}\n(.*?)(?=^# )", page, re.MULTILINE | re.DOTALL)[1]
    options = re.findall(r"^  (--[a-z-]+)", text, re.MULTILINE)
    assert some <= set(options)
    for option in options:
        assert re.search(rf"^\*{option}\*", section, re.MULTILINE), f"{option} is missing"


def test_no_command():
    done = drover()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: drover COMMAND")


def test_an_answer_that_cannot_be_written_is_a_failure():
    with open("/dev/full", "w") as full:
        done = subprocess.run([BINARY, "--version"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "drover: cannot write to standard output: No space left on device\n"


SEE = "(see 'drover serve --help')"
ADDRESS = "is neither an address and a port, such as 127.0.0.1:8048, nor none"
LOOPBACK = ("only loopback addresses are served: any other needs a token, which this version does "
            "not have")
WRONG = [
    (["srve"], "drover: unknown command 'srve' (did you mean 'serve'?)"),
    (["hlp"], "drover: unknown command 'hlp' (did you mean 'help'?)"),
    (["frobnicate"], "drover: unknown command 'frobnicate' (see 'drover help')"),
    (["help", "frobnicate"], "drover: unknown command 'frobnicate' (see 'drover help')"),
    (["--frob"], "drover: unknown option '--frob' (see 'drover help')"),
    (["serve", "--x"], f"drover serve: unknown option '--x' {SEE}"),
    (["serve", "-p", "1"], f"drover serve: unknown option '-p' {SEE}"),
    (["serve", "extra"], f"drover serve: unexpected argument 'extra' {SEE}"),
    (["serve", "--data"], f"drover serve: option '--data' needs a value: DIR {SEE}"),
    (["serve", "--data", ""], f"drover serve: --data: must not be empty {SEE}"),
    (["serve", "--journal", "lax"],
     f"drover serve: --journal: 'lax' is none of strict|opportunistic|none {SEE}"),
    (["serve", "--snapshot-every", "0"],
     f"drover serve: --snapshot-every: '0' is not a number from 1 to 9223372036854775807 {SEE}"),
    (["serve", "--snapshot-every", "many"],
     f"drover serve: --snapshot-every: 'many' is not a number from 1 to 9223372036854775807 {SEE}"),
    (["serve", "--http-timeout-ms", "1s"],
     f"drover serve: --http-timeout-ms: '1s' is not a number from 1 to 3600000 {SEE}"),
    (["serve", "--http", "8048"], f"drover serve: --http: '8048' {ADDRESS} {SEE}"),
    (["serve", "--http", "127.0.0.1:65536"],
     f"drover serve: --http: '127.0.0.1:65536' {ADDRESS} {SEE}"),
    (["serve", "--http", "example.org:80"],
     f"drover serve: --http: 'example.org:80' {ADDRESS} {SEE}"),
    (["serve", "--http", "0.0.0.0:8048"], f"drover serve: --http: {LOOPBACK} {SEE}"),
    (["serve", "--http", "[::]:8048"], f"drover serve: --http: {LOOPBACK} {SEE}"),
    (["serve", "--zk", "here"], f"drover serve: --zk: 'here' {ADDRESS} {SEE}"),
    (["serve", "--zk", "0.0.0.0:8049"],
     f"drover serve: --zk: only loopback addresses are served {SEE}"),
]


@pytest.mark.parametrize("words, line", WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_wrong_use(words, line, tmp_path):
    more = ["--data", tmp_path / "data"] if words[0] == "serve" and "--data" not in words else []
    done = drover(words[0], *more, *words[1:], cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line + "\n")
    assert list(tmp_path.iterdir()) == [], "nothing may change"
