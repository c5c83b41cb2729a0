"""The command line: version, help, and every wrong use answered with one line and status 2."""

import functools
import os
import re
import subprocess

import pytest

from conftest import BINARY, ROOT, drover


def version():
    header = (ROOT / "include/drover/core.h").read_text()
    return re.search(r'#define DROVER_VERSION "(.*)"', header)[1]


@pytest.mark.parametrize("words", [["--version"], ["version"]])
def test_version(words):
    done = drover(*words)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"drover {version()}\n", "")


def test_the_versions_of_header_and_build_agree():
    assert f"version: '{version()}'" in (ROOT / "meson.build").read_text()


def listed():
    """All commands, those of groups too: "serve", "world init". Completion knows them, in one call."""
    script = drover("completion", "bash").stdout
    names = re.findall(r"'([a-z -]+)'", re.search(r'case "\$try" in\n(.*)\) command', script)[1])
    return [name for name in names if not any(other.startswith(name + " ") for other in names)]


COMMANDS = listed()


@functools.cache
def help_of(name):
    return drover(*name.split(), "--help")


@pytest.mark.parametrize("words", [["help"], ["--help"], ["-h"]])
def test_help_lists_the_commands(words):
    done = drover(*words)
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("serve", "fsck", "add", "work", "help", "version"):
        assert re.search(rf"^  {name} ", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command(name):
    by_help, by_option = drover("help", *name.split()), help_of(name)
    assert (by_help.returncode, by_help.stderr) == (0, "")
    assert by_help.stdout.startswith(f"Usage: drover {name}")
    assert by_help.stdout == by_option.stdout


def sections(page):
    """Heading in lower case -> text, of the headings of both depths."""
    parts = re.split(r"^#+ (.*)\n", page, flags=re.MULTILINE)
    return {head.lower(): text for head, text in zip(parts[1::2], parts[2::2])}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_man_page_names_every_option(name):
    """In the section of the command, or in the OPTIONS that its page gives for all of them."""
    options = re.findall(r"^  (--[a-z0-9-]+)", help_of(name).stdout, re.MULTILINE)
    pages = [sections(path.read_text()) for path in (ROOT / "doc").glob("*.scd")]
    page = next((page for page in pages if name in page), None)
    if page is None:
        assert name in ("help", "version", "completion"), "no man page has a section for it"
        return
    text = page[name] + page.get("options", "")
    if name == "config":  # takes the options of serve
        text += page["serve"]
    for option in options:
        assert re.search(rf"^\*{option}\*", text, re.MULTILINE), f"{option} is missing"


def test_every_man_page_is_installed():
    build = (ROOT / "src/meson.build").read_text()
    for path in (ROOT / "doc").glob("*.scd"):
        assert f"'{path.stem}'" in build, f"{path.name} is not in src/meson.build"


def test_completion_for_bash():
    """The script is sourced by a real bash and asked."""
    script = """
        PATH={0}:$PATH; source <(drover completion bash)
        try() {{ COMP_WORDS=(drover "$@"); COMP_CWORD=$#; _drover; echo "${{COMPREPLY[*]}}"; }}
        try ser; try serve --journal ''; try serve --snap; try help ver; try completion b
        try work group -- drove; try ''
    """.format(ROOT / "build-asan" if "/" not in BINARY else BINARY.rsplit("/", 1)[0])
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert done.stderr == ""
    assert lines[:5] == ["serve", "strict opportunistic none", "--snapshot-every", "version",
                         "bash"]
    assert "drover" in lines[5].split()
    assert lines[6].split() == list(dict.fromkeys(name.split()[0] for name in COMMANDS))


def test_completion_for_zsh_names_everything():
    done = drover("completion", "zsh")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("#compdef drover\n")
    for name in COMMANDS:
        assert f"'{name}'" in done.stdout


def test_the_groups_list_what_completion_knows():
    """Every first word of help is a command or a group, and each group lists its own."""
    def words(*of):
        return re.findall(r"^  ([a-z-]+) ", drover("help", *of).stdout, re.MULTILINE)
    assert words() == list(dict.fromkeys(name.split()[0] for name in COMMANDS))
    for group in dict.fromkeys(name.split()[0] for name in COMMANDS if " " in name):
        assert words(group) == [name.split()[1] for name in COMMANDS if name.split()[0] == group
                                and " " in name]


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
LOOPBACK = "an address other than loopback needs TLS: --https; or --insecure-network"
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
     f"drover serve: --zk: {LOOPBACK.replace('https', 'zk-tls')} {SEE}"),
]


@pytest.mark.parametrize("words, line", WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_wrong_use(words, line, tmp_path):
    more = ["--data", tmp_path / "data"] if words[0] == "serve" and "--data" not in words else []
    done = drover(words[0], *more, *words[1:], cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line + "\n")
    assert list(tmp_path.iterdir()) == [], "nothing may change"


def test_an_agent_refuses_a_url_that_is_none():
    """It used to end with SIGABRT."""
    done = drover("agent", "--server", "ftp://host")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("drover: 'ftp://host' is not the URL of a server")


def test_make_install_goes_below_the_prefix():
    """The one that is named, or /usr/local; not the one that was named last time."""
    for arguments, prefix in ([], "/usr/local"), (["PREFIX=/opt/drover"], "/opt/drover"):
        done = subprocess.run(["make", "-n", "install", *arguments], cwd=ROOT, capture_output=True,
                              text=True, timeout=60)
        assert f"--prefix={prefix} " in done.stdout


def test_what_is_installed(tmp_path):
    build = ROOT / os.environ.get("DROVER_BUILD", "build-asan")
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"], check=True,
                   env=os.environ | {"DESTDIR": str(tmp_path)}, timeout=60)
    installed = {path.name for path in tmp_path.rglob("*")}
    assert installed >= {"drover", "drover.h", "libdrover.so", "drover.pc", "drover.1", "drover-task.1",
                         "drover.bash", "_drover"}
    version_line = subprocess.run([next(tmp_path.rglob("bin/drover")), "--version"],
                                  capture_output=True, text=True, timeout=60).stdout
    assert version_line == f"drover {version()}\n"
