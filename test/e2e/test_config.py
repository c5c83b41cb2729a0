"""Options from a file and from the environment, and `drover config`, which says where they come from."""

import json
import os
import re

import pytest

from conftest import ANY_PORTS, ROOT, Server, drover


def config(*arguments, **variables):
    return drover("config", *arguments, env=os.environ | variables)


def shown(*arguments, **variables):
    """Name -> what `drover config --json` says of the option."""
    done = config("--json", *arguments, **variables)
    assert (done.returncode, done.stderr) == (0, ""), done
    return {each["name"]: each for each in json.loads(done.stdout)["options"]}


@pytest.fixture
def file(tmp_path):
    """Writes a configuration file that only we may change."""
    def write(text, name="drover.conf"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(0o644)
        return path
    return write


def test_each_source_overrules_the_one_below(file):
    path = file("# a comment\n\n  http 127.0.0.1:1  # of this line\n\tjournal\topportunistic\r\n"
                "zk-hello-timeout 3s\nconnections 7\nhttp-host a#b\n")
    got = shown("--config", path, "--http", "127.0.0.1:3", DROVER_SERVE_HTTP="127.0.0.1:2",
                DROVER_SERVE_ZK_HELLO_TIMEOUT="4s")
    assert got["http"] == {"name": "http", "value": ["127.0.0.1:3"], "from": "command line",
                           "reloads": False}
    assert got["zk-hello-timeout"] | {"reloads": 0} == {
        "name": "zk-hello-timeout", "value": "4s", "from": "environment",
        "variable": "DROVER_SERVE_ZK_HELLO_TIMEOUT", "reloads": 0}
    assert got["journal"] == {"name": "journal", "value": "opportunistic", "from": "file",
                              "file": str(path), "line": 4, "reloads": False}
    assert got["zk"]["value"] == ["127.0.0.1:8049"] and got["zk"]["from"] == "default"
    assert got["http-host"]["value"] == ["a#b"]
    assert got["token-file"]["value"] is None


def test_the_server_uses_them(file, tmp_path):
    path = file(f"data {tmp_path}/data\nhttp 127.0.0.1:0\njournal opportunistic\njobs 0\n")
    server = Server("--config", path, env=os.environ | {"DROVER_SERVE_ZK": "127.0.0.1:0"})
    try:
        server.start()
        assert f"data directory {tmp_path}/data\n" in server.said
        assert "journal opportunistic\n" in server.said
        assert server.stop() == 0
    finally:
        server.kill()


def test_flags(file):
    path = file("zk-skip-acl\nzk-require-auth yes\nzk-enforce-quota no\n")
    got = shown("--config", path)
    assert [got[name]["value"] for name in ("zk-skip-acl", "zk-require-auth", "zk-enforce-quota")] == [
        True, True, False]
    got = shown("--config", path, DROVER_SERVE_ZK_SKIP_ACL="no")
    assert got["zk-skip-acl"] == {"name": "zk-skip-acl", "value": False, "from": "environment",
                                  "variable": "DROVER_SERVE_ZK_SKIP_ACL",
                                  "reloads": got["zk-skip-acl"]["reloads"]}
    got = shown("--config", path, "--zk-skip-acl=no", "--zk-require-auth")
    assert not got["zk-skip-acl"]["value"] and got["zk-skip-acl"]["from"] == "command line"
    assert got["zk-require-auth"]["value"]


def test_a_list_comes_from_one_source(file):
    path = file("http-host one\nhttp-host two\n")
    assert shown("--config", path)["http-host"]["value"] == ["one", "two"]
    both = {"DROVER_SERVE_HTTP_HOST": "three\nfour"}
    assert shown("--config", path, **both)["http-host"]["value"] == ["three", "four"]
    assert shown("--config", path, "--http-host", "five", **both)["http-host"]["value"] == ["five"]


def test_an_empty_variable_counts_as_not_set():
    assert shown(DROVER_SERVE_HTTP="", DROVER_SERVE_NONSENSE="")["http"]["from"] == "default"


WRONG_LINES = [
    ("htpt 127.0.0.1:0", "there is no option 'htpt' (did you mean 'http'?)"),
    ("--http 127.0.0.1:0", "there is no option '--http' (did you mean 'http'?)"),
    ("frobnicate", "there is no option 'frobnicate'"),
    ("help", "there is no option 'help' (did you mean 'http'?)"),
    ("json", "there is no option 'json'"),
    ("config /other", "there is no option 'config'"),
    ("journal lax", "journal: 'lax' is none of strict|opportunistic|none"),
    ("journal strict none", "journal: 'strict none' is none of strict|opportunistic|none"),
    ("journal", "journal needs a value: strict|opportunistic|none"),
    ("journal # strict", "journal needs a value: strict|opportunistic|none"),
    ("zk-skip-acl maybe", "zk-skip-acl: 'maybe' is neither yes nor no"),
    ("connections 0", "connections: '0' is not a number from 1 to 1000000"),
    ("data a\x07b", "a control character"),
    ("data a\0b", "a control character"),
    ("x" * 5000, f"there is no option '{'x' * 63}'"),
]


@pytest.mark.parametrize("command", ["serve", "config"])
@pytest.mark.parametrize("line, what", WRONG_LINES, ids=[line[:20] for line, _ in WRONG_LINES])
def test_a_wrong_line(file, tmp_path, command, line, what):
    path = file(f"# first\n\n{line}\n")
    done = drover(command, *ANY_PORTS, "--config", path, "--data", tmp_path / "data")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"drover {command}: {path}:3: {what}\n"
    assert list(tmp_path.iterdir()) == [path], "nothing may change"


def test_a_wrong_value_that_is_overruled(file):
    path = file("journal lax\n")
    done = config("--config", path, "--journal", "strict")
    assert (done.returncode, done.stderr) == (
        2, f"drover config: {path}:1: journal: 'lax' is none of strict|opportunistic|none\n")


def test_a_name_that_stands_there_twice(file):
    path = file("jobs 1\nhttp-host a\nhttp-host b\njobs 1\n")
    done = config("--config", path)
    assert (done.returncode, done.stderr) == (
        2, f"drover config: {path}:4: jobs stands in line 1 already\n")


@pytest.mark.parametrize("variable, value, what", [
    ("DROVER_SERVE_JOURNAL", "lax", "'lax' is none of strict|opportunistic|none"),
    ("DROVER_SERVE_ZK_SKIP_ACL", "1", "'1' is neither yes nor no"),
    ("DROVER_SERVE_HTPT", "x", "there is no option 'htpt' (did you mean 'http'?)"),
    ("DROVER_SERVE_http", "127.0.0.1:1", "write DROVER_SERVE_HTTP"),
    ("DROVER_SERVE_JSON", "yes", "there is no option 'json'"),
])
def test_a_wrong_variable(variable, value, what):
    done = config(**{variable: value})
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"drover config: ${variable}: {what}\n")


@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646])
def test_a_file_that_others_may_write(file, mode):
    path = file("journal strict\n")
    path.chmod(mode)
    done = config("--config", path)
    assert (done.returncode, done.stderr) == (
        2, f"drover config: others may write {path} and could have programs run: chmod go-w\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to give a file away")
def test_a_file_of_another_user(file):
    path = file("journal strict\n")
    os.chown(path, 12345, 12345)
    done = config("--config", path)
    assert (done.returncode, done.stderr) == (
        2, f"drover config: {path} belongs to another user, who could have programs run: chown it\n")


def test_a_file_that_is_none(tmp_path, file):
    done = config("--config", tmp_path / "missing")
    assert (done.returncode, done.stderr) == (
        2, f"drover config: cannot read {tmp_path}/missing: No such file or directory\n")
    done = config("--config", tmp_path)
    assert (done.returncode, done.stderr) == (2, f"drover config: {tmp_path} is not a file\n")
    os.mkfifo(tmp_path / "pipe")
    done = config("--config", tmp_path / "pipe")
    assert (done.returncode, done.stderr) == (2, f"drover config: {tmp_path}/pipe is not a file\n")
    done = config("--config", file(b"#" * (256 * 1024 + 1)))
    assert done.returncode == 2 and "is longer than 262144 bytes" in done.stderr


def test_the_variable_names_the_file_and_none_is_no_file(file):
    path = file("journal opportunistic\n")
    assert shown(DROVER_SERVE_CONFIG=str(path))["journal"]["file"] == str(path)
    assert shown("--config", "none", DROVER_SERVE_CONFIG=str(path))["journal"]["from"] == "default"


@pytest.mark.parametrize("arguments, variables, what", [
    (["--keeper", "zk://127.0.0.1:1"], {"DROVER_SERVE_DATA": "/x"},
     "$DROVER_SERVE_DATA is for the embedded keeper and does not go with --keeper"),
    ([], {"DROVER_SERVE_ZK_TIMEOUT_MS": "4000"}, "$DROVER_SERVE_ZK_TIMEOUT_MS goes with --keeper"),
    (["--zk-auth", "/x"], {}, "--zk-auth goes with --keeper"),
    (["--zk-min-session-timeout", "2h"], {},
     "--zk-min-session-timeout, 2h, is more than --zk-max-session-timeout, 1h"),
])
def test_options_that_do_not_go_together(arguments, variables, what):
    done = config(*arguments, **variables)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"drover config: {what} (see 'drover config --help')\n"


def test_the_line_of_an_option_that_does_not_go_with_another(file):
    path = file("\nsnapshot-every 5\n")
    done = config("--config", path, "--keeper", "zk://127.0.0.1:1")
    assert done.returncode == 2 and f"{path}:2: snapshot-every is for the embedded keeper" in done.stderr


def test_defaults_that_depend_on_other_options(tmp_path):
    home = {"XDG_RUNTIME_DIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    mine = {name: each["value"] for name, each in shown(**home).items()}
    assert mine["loopback-roles"] == "read,work,submit" and mine["socket"].endswith("/drover.sock")
    assert shown("--token-file", "/x")["loopback-roles"]["value"] == "none"
    assert shown("--http", "none", **home)["socket"]["value"] == "none"


def test_only_what_applies_is_shown(file):
    on_ensemble = shown("--keeper", "zk://127.0.0.1:1/x")
    assert "data" not in on_ensemble and "zk" not in on_ensemble
    assert on_ensemble["zk-timeout-ms"]["value"] == "10000"
    in_memory = shown("--journal", "none")
    assert "data" not in in_memory and "snapshot-every" not in in_memory and "zk" in in_memory
    assert "zk-timeout-ms" not in in_memory
    path = file("zk none\njournal strict\nzk-skip-acl no\n")  # says nothing that an ensemble is not
    assert "data" not in shown("--config", path, "--keeper", "zk://127.0.0.1:1")


def test_no_secret_is_printed(file):
    path = file("on-batch-done https://ann:Geheim@example.org/done?x\n")
    arguments = ["--config", path, "--keeper", "zk://127.0.0.1:1"]
    for done in (config(*arguments, DROVER_ZK_AUTH="ann:Geheim"),
                 config("--json", *arguments, DROVER_ZK_AUTH="ann:Geheim")):
        assert done.returncode == 0 and "Geheim" not in done.stdout
        assert "https://***@example.org/done?x" in done.stdout
    got = shown(*arguments, DROVER_ZK_AUTH="ann:Geheim")["zk-auth"]
    assert got == {"name": "zk-auth", "value": None, "from": "environment", "variable": "DROVER_ZK_AUTH",
                   "reloads": False}
    lines = config(*arguments, DROVER_ZK_AUTH="ann:Geheim").stdout
    assert re.search(r"^#zk-auth +\*\*\* +# \$DROVER_ZK_AUTH$", lines, re.M)


def values(of):
    return {name: each["value"] for name, each in of.items()}


def test_the_output_is_a_file_that_says_the_same(file):
    arguments = ["--http-host", "a", "--http-host", "b", "--zk-skip-acl", "--data", "/a b\\c",
                 "--on-batch-done", "mail -s done ann", "--jobs", "3"]
    copy = file(config(*arguments).stdout)
    assert values(shown("--config", copy)) == values(shown(*arguments))
    assert all(each["from"] == "file" or each["value"] in (None, [])
               for each in shown("--config", copy).values())


def test_what_a_file_cannot_have_is_a_comment(file):
    done = config("--on-batch-done", "echo a #b", "--log-dir", "a\nb\x1b[1m")
    assert re.search(r"^#on-batch-done +echo a #b +# command line$", done.stdout, re.M)
    assert "\x1b" not in done.stdout and r"a\nb\x1b[1m" in done.stdout
    assert config("--config", file(done.stdout)).returncode == 0


def helped():
    """Name -> (argument, default) of every option in the help of serve."""
    text = drover("serve", "--help").stdout
    parts = re.split(r"^  --([a-z-]+)(?: (\S.*))?\n", text, flags=re.M)
    return {name: (argument, " ".join(about.split()))
            for name, argument, about in zip(parts[1::3], parts[2::3], parts[3::3])}


PROSE = {"data", "zk-words", "jobs", "zk-auth", "zk-ca", "zk-key", "pipeline", "socket", "loopback-roles",
         "connections-per-address", "zk-connections-per-address", "memory"}  # the default depends, or is no value


def defaults():
    """Name -> its default, or what stands for none."""
    got = shown("--keeper", "zk://127.0.0.1:1") | shown()
    assert all(each["from"] == "default" for each in got.values())
    return {name: value[0] if isinstance(value, list) and value else value
            for name, value in values(got).items()}


def test_help_and_config_name_the_same_defaults():
    options = helped()
    assert set(defaults()) == set(options) - {"config", "help"}
    for name, value in defaults().items():
        if name in PROSE:
            assert "Default: " in options[name][1], name
        elif value in (None, False, []):
            assert "Default: " not in options[name][1], name
        else:
            assert f" Default: {value}." in options[name][1], name


def test_the_man_page_names_the_same_defaults():
    page = (ROOT / "doc/drover.1.scd").read_text().replace("\n\t", " ")
    for name, value in defaults().items():
        entry = re.search(rf"^\*--{name}\*.*", page, re.M)[0]
        if name not in PROSE and value not in (None, False, []):
            assert re.search(rf"Default: {re.escape(value)}[.,]|\*{re.escape(value)}\* \(default\)", entry), name


def test_a_file_may_say_what_may_not_be_combined_with_an_option(file, tmp_path):
    """--data in the file and --journal none as an option: allowed, as on the command line."""
    path = file(f"data {tmp_path}/data\n")
    assert config("--config", path, "--journal", "none").returncode == 0
