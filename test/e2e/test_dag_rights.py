"""Commands: as whom they run, which ones may, within which limits, and what they never get."""

import os
import pathlib
import pwd
import re
import shutil
import subprocess
import tempfile

import pytest

from batch_api import Api
from conftest import BINARY, DEADLINE_S, Server, drover, wait_until
from dag_support import Dag, node, refused, shell

root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run commands as others")
USER, OTHER = "nobody", "games"
MIB = 1024 * 1024


@pytest.fixture
def open_dir():
    """A directory that every user can reach, unlike pytest's."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="drover-rights-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def agent():
    """Starts agents of a server, and ends whatever is left of them."""
    started = []

    def start_one(server, *arguments):
        one = subprocess.Popen([BINARY, "agent", "--server", f"http://127.0.0.1:{server.port}",
                                *map(str, arguments)],
                               stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        started.append(one)
        return one

    yield start_one
    for one in started:
        one.kill()
        one.communicate()


def output(dag, one):
    """What the command of a new node prints. It must succeed."""
    [id] = dag.add(one)
    [state] = dag.wait(id)
    told = dag.node(id)
    assert state == "finished", told
    return told["data"]["stdout"]


def reason(dag, one):
    """Why the command of a new node failed."""
    [id] = dag.add(one)
    assert dag.wait(id) == ["failed"], dag.node(id)
    return dag.node(id)["metadata"]["reason"]


def status(text):
    """/proc/self/status as a dictionary."""
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


STATUS = node("command", command="cat", args=["/proc/self/status"])


def is_plain_user(text, name):
    """Whether a status is that of this user, without any right."""
    user = pwd.getpwnam(name)
    found = status(text)
    groups = sorted(os.getgrouplist(name, user.pw_gid))
    assert found["Uid"].split() == [str(user.pw_uid)] * 4
    assert found["Gid"].split() == [str(user.pw_gid)] * 4
    assert list(map(int, found["Groups"].split())) == groups
    assert {found[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Amb")} == {"0" * 16}
    assert found["NoNewPrivs"] == "1"
    return True


# Users.

@root
def test_commands_run_as_the_user(start, agent, tmp_path):
    server = start("--run-as", USER)
    dag = Dag(server.port)
    assert "as root" not in server.said
    assert is_plain_user(output(dag, STATUS), USER)
    said = output(dag, shell("echo $HOME $USER $LOGNAME $SHELL; pwd; id -un"))
    user = pwd.getpwnam(USER)
    assert said.splitlines() == [f"{user.pw_dir} {USER} {USER} {user.pw_shell}",
                                 user.pw_dir if os.path.isdir(user.pw_dir) else "/", USER]
    assert output(dag, shell("echo $HOME", env={"HOME": "/mine"})) == "/mine\n"
    poll, yes, no = dag.add(node("condition", command="test $(id -un) = nobody", interval=10),
                            node("if", ref="i", command="test $(id -un) = nobody"),
                            shell("true", "i", branch="else"))
    assert dag.wait(poll, yes, no) == ["finished", "finished", "skipped"]
    told = reason(dag, shell("true", cwd=str(tmp_path)))
    assert told == f"cannot start in {tmp_path} as {USER}: Permission denied"
    agent(server, "--group", "far", "--run-as", OTHER)
    assert is_plain_user(output(dag, STATUS | {"metadata": {"type": "command", "group": "far"}}),
                         OTHER)
    assert server.stop() == 0, server.said


@root
def test_what_runs_as_another_user_can_be_killed(start):
    dag = Dag(start("--run-as", USER).port)
    [id] = dag.add(shell("(setsid sleep 300 &); echo $$; sleep 300"))
    pid = int(wait_until(lambda: dag.data(id, "stdout")["data"]))
    server_side = pathlib.Path(f"/proc/{pid}/status")
    assert is_plain_user(server_side.read_text(), USER)
    dag.kill(id)
    assert dag.wait(id) == ["killed"]
    assert not server_side.exists() or "Z (zombie)" in server_side.read_text()


@root
def test_a_command_ends_with_its_server(start):
    """Although the kernel forgets PDEATHSIG when the user changes."""
    server = start("--run-as", USER)
    dag = Dag(server.port)
    [id] = dag.add(shell("echo $$; exec sleep 300"))
    pid = int(wait_until(lambda: dag.data(id, "stdout")["data"]))
    server.kill()
    stat = pathlib.Path(f"/proc/{pid}/stat")
    wait_until(lambda: not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] == "Z")


@root
def test_a_group_of_its_own(start):
    dag = Dag(start("--run-as", f"{USER}:{OTHER}").port)
    assert output(dag, shell("id -un; id -gn")).split() == [USER, OTHER]


@root
def test_root_is_told(start, agent):
    server = start()
    warning = "commands run as root; --run-as USER runs them as another user\n"
    assert server.said.count(warning) == 1
    dag = Dag(server.port)
    assert status(output(dag, STATUS))["NoNewPrivs"] == "1"
    one = agent(server, "--group", "far")
    assert one.stderr.readline().endswith(f" warning agent: {warning}")
    assert server.stop() == 0


@root
def test_nodes_name_a_user(start, agent, open_dir):
    server = start("--run-as", USER, "--allow-user", OTHER, "--allow-user", "daemon")
    dag = Dag(server.port)
    who = node("command", command="id", args=["-un"])
    for name in (USER, OTHER, "daemon"):
        assert output(dag, who | {"data": who["data"] | {"user": name}}) == f"{name}\n"
    assert output(dag, who) == f"{USER}\n"
    told = refused(400, dag.add, who, node("command", command="id", user="root"))
    assert told == "nodes[1]: no command may run as user 'root' here: --allow-user permits it"
    before = dag.call("GET", "/v1/nodes")
    for wrong in ("bin", "", 7, "no-such", f"{OTHER}:root", "0"):
        refused(400, dag.add, shell("true"), node("command", command="id", user=wrong))
    assert dag.call("GET", "/v1/nodes") == before  # nothing was added
    [waits, id] = dag.add(shell("read -r < /dev/zero; sleep 300", ref="a"),
                          node("command", "a", when="always", command="id", args=["-un"]))
    assert "'root'" in refused(400, dag.put, f"/v1/nodes/{id}/data/user", {"value": "root"})
    dag.put(f"/v1/nodes/{id}/data/user", {"value": OTHER})
    dag.kill(waits)
    assert dag.wait(id) == ["finished"] and dag.node(id)["data"]["stdout"] == f"{OTHER}\n"
    ran = drover("exec", "--server", f"http://127.0.0.1:{dag.port}", "--cwd", "/", "--user",
                 OTHER, "--", "id", "-un")
    assert ran.stdout == f"{OTHER}\n", ran.stderr
    (open_dir / "graph.yaml").write_text("nodes:\n  a: {command: test $(id -un) = games, user: games}\n"
                                         "  b: {command: test $(id -un) = daemon, user: daemon}\n")
    ran = drover("run", "--server", f"http://127.0.0.1:{dag.port}", open_dir / "graph.yaml")
    assert ran.returncode == 0, ran.stderr
    assert server.stop() == 0, server.said


@root
def test_an_agent_decides_for_its_machine(start, agent):
    """Users that only exist elsewhere can be named, if the server runs no commands itself."""
    server = start("--jobs", 0, "--allow-user", OTHER, "--allow-user", "only-elsewhere")
    dag = Dag(server.port)
    agent(server, "--allow-user", OTHER, "--allow-command", "/usr/bin/[i-z]*")
    assert output(dag, node("command", command="id", args=["-un"], user=OTHER)) == f"{OTHER}\n"
    assert "may run as user 'only-elsewhere'" in reason(
        dag, node("command", command="id", user="only-elsewhere"))
    assert "no --allow-command permits /usr/bin/bash" in reason(dag, shell("id"))
    assert "with --allow-command, PATH cannot be set" in reason(
        dag, node("command", command="id", env={"PATH": "/tmp"}))


@root
def test_a_setuid_program_gains_nothing(start, open_dir):
    program = open_dir / "id"
    shutil.copy("/usr/bin/id", program)
    program.chmod(0o4755)
    server = start("--run-as", USER)
    assert output(Dag(server.port), shell(f"{program} -un")) == f"{USER}\n"
    assert server.stop() == 0
    dag = Dag(start("--run-as", USER, "--allow-new-privileges").port)
    assert status(output(dag, STATUS))["NoNewPrivs"] == "0"
    mounted_nosuid = os.statvfs(program).f_flag & os.ST_NOSUID
    assert mounted_nosuid or output(dag, shell(f"{program} -un")) == "root\n"


def start_fails(*arguments, command=(), **more):
    with tempfile.TemporaryDirectory() as data:
        os.chmod(data, 0o777)
        ran = subprocess.run([*command, BINARY, "serve", "--data", data + "/data", "--http",
                              "127.0.0.1:0", "--zk", "none", *arguments],
                             capture_output=True, text=True, timeout=DEADLINE_S, **more)
    assert ran.returncode == 1, ran
    return ran.stderr


@root
def test_a_start_that_is_refused():
    assert start_fails("--run-as", "no-such").endswith("error --run-as: there is no user 'no-such'\n")
    assert start_fails("--run-as", f"{USER}:no-such").endswith("error --run-as: there is no group 'no-such'\n")
    assert start_fails("--allow-user", "no-such").endswith("error --allow-user: there is no user 'no-such'\n")
    ran = drover("agent", "--run-as", "no-such")
    assert ran.returncode == 1 and "there is no user 'no-such'" in ran.stderr
    without = ("setpriv", "--bounding-set", "-setuid", "--")
    told = start_fails("--run-as", USER, command=without)
    assert told.endswith("--run-as: this process may not change its user: start it as root, or with "
                         "CAP_SETUID, CAP_SETGID and CAP_KILL\n")
    assert "--allow-user: this process may not" in start_fails("--allow-user", USER, command=without)
    told = start_fails("--run-as", USER, command=("setpriv", "--reuid", "games", "--clear-groups", "--"))
    assert "--run-as: this process may not change its user" in told


def test_who_is_not_root_needs_no_option(open_dir):
    """The server of a plain user runs commands as this user, and says nothing about root."""
    binary = open_dir / "drover"
    shutil.copy(BINARY, binary)
    binary.chmod(0o755)
    more = {"user": OTHER, "group": OTHER, "extra_groups": []} if os.geteuid() == 0 else {}
    if more:
        shutil.chown(open_dir, OTHER, OTHER)
    server = Server("--data", open_dir / "data", executable=binary, **more)
    try:
        server.start()
        dag = Dag(server.port)
        found = status(output(dag, STATUS))
        assert found["NoNewPrivs"] == "1" and found["CapEff"] == "0" * 16
        assert "as root" not in server.said
        name = pwd.getpwuid(int(found["Uid"].split()[0])).pw_name
        assert f"no command may run as user '{name}'" in refused(
            400, dag.add, node("command", command="id", user=name))
        assert server.stop() == 0, server.said
    finally:
        server.kill()


# Executables.

def test_only_some_commands_may_run(start):
    server = start("--allow-command", "/usr/bin/[e-i]*", "--allow-command", "/opt/*/run")
    dag = Dag(server.port)
    assert output(dag, node("command", command="id", args=["-u"])) == f"{os.geteuid()}\n"
    assert output(dag, node("command", command="/usr/bin/echo", args=["x"])) == "x\n"
    assert output(dag, node("command", command="echo", env={"LANGUAGE": "C"})) == "\n"
    wrong = {
        "cat": "no --allow-command permits /usr/bin/cat",
        "/bin/id": "no --allow-command permits /bin/id",
        "no-such": "there is no command 'no-such' here",
        "./id": "neither a name nor an absolute path",
        "usr/bin/id": "neither a name nor an absolute path",
        "/usr/bin/../bin/id": "neither a name nor an absolute path",
        "/usr/bin//id": "neither a name nor an absolute path",
        "/opt/a/b/run": "no --allow-command permits /opt/a/b/run",
        "/usr/bin/e/run": "no --allow-command permits",
    }
    for command, told in wrong.items():
        assert told in refused(400, dag.add, node("command", command=command)), command
    assert "no --allow-command permits /usr/bin/bash" in refused(400, dag.add, shell("id"))
    for type in ("condition", "if"):
        assert "permits /usr/bin/bash" in refused(400, dag.add, node(type, command="id"))
        refused(400, dag.add, node(type, command="cat", args=["x"]))
    dag.add(node("if", command="id", args=["x"]))
    for name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "PATH", "BASH_ENV", "PYTHONPATH"):
        told = refused(400, dag.add, node("command", command="id", env={name: "/no/where"}))
        assert told == f"nodes[0]: env: with --allow-command, {name} cannot be set by a node"
    [waits, id] = dag.add(node("condition", ref="a", command="expr", args=["0"]),
                          node("command", "a", command="id"))
    assert "permits /usr/bin/cat" in refused(400, dag.put, f"/v1/nodes/{id}/data/command",
                                             {"value": "cat"})
    refused(400, dag.put, f"/v1/nodes/{id}/data/env", {"value": {"LD_PRELOAD": "x"}})
    dag.put(f"/v1/nodes/{id}/data/command", {"value": "env"})
    dag.kill(waits)
    assert server.stop() == 0, server.said


def test_what_was_stored_under_another_policy_is_checked_again(start):
    """Added to a server without rules, run by one that has some."""
    server = start("--jobs", 0)
    dag = Dag(server.port)
    before = dag.add(shell("id"), node("command", command="id"),
                     node("command", command="id", env={"LD_PRELOAD": "x"}),
                     node("command", command="sh", args=["-c", "ulimit -n"],
                          limits={"files": 300}))
    assert server.stop() == 0
    server = start("--allow-command", "/usr/bin/[i-s]*", "--limit-files", 200)
    dag = Dag(server.port)
    assert dag.wait(*before) == ["failed", "finished", "failed", "finished"]
    told = dag.node(before[0])
    assert told["metadata"]["reason"] == "no --allow-command permits /usr/bin/bash"
    assert told["data"]["result"] == 126
    assert "LD_PRELOAD" in dag.node(before[2])["metadata"]["reason"]
    assert dag.node(before[3])["data"]["stdout"] == "200\n"
    assert server.stop() == 0


# Limits.

def test_limits_on_files_and_cpu_time(start):
    server = start()
    dag = Dag(server.port)
    assert output(dag, shell("ulimit -n; ulimit -Hn", limits={"files": 50})) == "50\n50\n"
    told = reason(dag, shell("while :; do :; done", limits={"cpu": 1000}))
    assert told == "used more than its limit of CPU time: 1s"
    assert output(dag, shell("echo x", limits={"cpu": 60000})) == "x\n"
    for wrong in ({"cpu": 0}, {"cpu": -1}, {"cpu": "1s"}, {"memory": 1.5}, {"disk": 1}, [], 7):
        told = refused(400, dag.add, shell("true"), shell("true", limits=wrong))
        assert told.startswith("nodes[1]: limits must be an object of cpu (ms), memory (bytes)"), told
    assert server.stop() == 0


def test_cpu_time_of_all_processes_together(start):
    """No single process uses much, so only the cgroup can tell."""
    server = start()
    if not re.search(r"^0::/", pathlib.Path("/proc/self/cgroup").read_text(), re.M) or \
            not cgroups_can_be_made():
        pytest.skip("no cgroups (version 2) can be created here")
    dag = Dag(server.port)
    burn = "while :; do sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; done"
    assert reason(dag, shell(burn, limits={"cpu": 1500})) == \
        "used more than its limit of CPU time: 1.5s"
    assert server.stop() == 0


def own_cgroup():
    """The directory of our cgroup (version 2), or None."""
    line = next((line for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()
                 if line.startswith("0::")), None)
    mounts = [line.split() for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
              if " - cgroup2 " in line]
    return pathlib.Path(mounts[0][4] + line[3:]) if line and mounts else None


def cgroups_can_be_made():
    directory = own_cgroup()
    try:
        probe = directory / f"drover-test-{os.getpid()}"
        probe.mkdir()
        probe.rmdir()
        return True
    except (OSError, TypeError):
        return False


def test_a_limit_on_memory(start):
    """By the cgroup, which ends the run and is named, or else by what each process can have."""
    server = start("--limit-memory", "2G")
    dag = Dag(server.port)
    ask = "import sys; x = bytearray(int(sys.argv[1])); print(len(x))"

    def allocate(size, limit):
        return node("command", command="/usr/bin/python3", args=["-c", ask, str(size)],
                    limits={"memory": limit})

    assert output(dag, allocate(MIB, 200 * MIB)) == f"{MIB}\n"
    told = reason(dag, allocate(400 * MIB, 200 * MIB))
    assert told in ("used more than its limit of memory: 200 MiB", "exit status 1"), told
    if told == "exit status 1":
        assert "MemoryError" in dag.node(dag.call("GET", "/v1/nodes")[-1]["id"])["data"]["stderr"]
    assert refused(400, dag.add, allocate(1, 3072 * MIB)) == \
        "nodes[0]: limits.memory is 3 GiB, more than the maximum of this server, 2 GiB"
    assert output(dag, allocate(MIB, 2048 * MIB)) == f"{MIB}\n"
    assert server.stop() == 0


FORKS = ("import os, time\n"
         "children = 0\n"
         "try:\n"
         "    while children < 50:\n"
         "        if not os.fork():\n"
         "            time.sleep(60)\n"
         "            os._exit(0)\n"
         "        children += 1\n"
         "except BlockingIOError:\n"
         "    pass\n"
         "print(children)\n")


@root
def test_a_limit_on_processes(start):
    """Of the run's cgroup, or else of its user, which cannot be root."""
    server = start("--allow-user", "games")
    dag = Dag(server.port)
    many = node("command", command="/usr/bin/python3", args=["-c", FORKS], user="games",
                timeout=30000, limits={"processes": 20})
    [id] = dag.add(many)
    text = wait_until(lambda: dag.data(id, "stdout")["data"])
    assert 1 <= int(text) < 20
    dag.kill(id)
    dag.wait(id)
    [id] = dag.add(shell("true", limits={"processes": 20}))
    [state] = dag.wait(id)
    assert state == "finished" or dag.node(id)["metadata"]["reason"] == (
        "cannot start: without a cgroup the number of root's processes cannot be limited; "
        "run it as another user")
    assert server.stop() == 0


@root
def test_limits_for_all_nodes(start, agent):
    server = start("--limit-files", 100, "--limit-cpu", "1h", "--run-as", USER)
    dag = Dag(server.port)
    assert output(dag, shell("ulimit -n")) == "100\n"
    assert output(dag, shell("ulimit -n", limits={"files": 60})) == "60\n"
    assert "limits.files is 101, more than the maximum of this server, 100" in refused(
        400, dag.add, shell("true", limits={"files": 101}))
    assert "limits.cpu is 1h1m" in refused(400, dag.add, shell("true", limits={"cpu": 3660000}))
    agent(server, "--group", "far", "--limit-files", 80, "--run-as", USER)
    assert output(dag, shell("ulimit -n", group="far")) == "80\n"
    assert output(dag, shell("ulimit -n", group="far", limits={"files": 90})) == "80\n"
    assert output(dag, shell("ulimit -n", group="far", limits={"files": 70})) == "70\n"
    [id] = dag.add(shell("while :; do :; done", group="far", limits={"cpu": 1000}))
    assert dag.wait(id) == ["failed"]
    assert dag.node(id)["metadata"]["reason"] == "used more than its limit of CPU time: 1s"
    url = f"http://127.0.0.1:{dag.port}"
    ran = drover("exec", "--server", url, "--cwd", "/", "--limit-files", "55", "--", "sh", "-c",
                 "ulimit -n")
    assert ran.stdout == "55\n", ran.stderr
    assert server.stop() == 0


# Secrets.

SECRETS = {"DROVER_ZK_AUTH": "/etc/secret", "DROVER_TOKEN": "not-for-commands", "OTHER_SECRET": "hidden"}


def descriptors_that_stay_open(pid):
    """Descriptors above 2 that execve would not close."""
    stay = []
    for one in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            flags = re.search(r"^flags:\s+(\d+)", one.read_text(), re.M)[1]
        except FileNotFoundError:
            continue  # closed meanwhile
        if int(one.name) > 2 and not int(flags, 8) & os.O_CLOEXEC:
            stay.append((one.name, os.readlink(f"/proc/{pid}/fd/{one.name}")))
    return stay


def test_commands_get_no_descriptor_and_no_secret(start, tmp_path, open_dir, monkeypatch):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "super").write_text("super:" + 27 * "A" + "=")
    hook = f"cat > /dev/null; env > {open_dir}/made; ls -l /proc/self/fd >> {open_dir}/made; " \
           f"grep -E 'NoNew|Uid' /proc/self/status >> {open_dir}/made; mv {open_dir}/made {open_dir}/hook"
    open_dir.chmod(0o777)
    more = ["--run-as", USER] if os.geteuid() == 0 else []
    server = start("--zk-super", tmp_path / "super", "--log-dir", tmp_path / "logs",
                   "--on-batch-done", hook, *more)
    waiting = [server.connect() for _ in range(20)]
    for one in waiting:
        one.send(server.fill("GET /v1/events HTTP/1.1\r\nHost: HOST\r\n\r\n"))
    dag = Dag(server.port)
    ids = dag.add(*[shell("ls -l /proc/self/fd; sleep 0.2") for _ in range(8)])
    assert dag.wait(*ids) == ["finished"] * 8
    for id in ids:
        lines = dag.node(id)["data"]["stdout"].splitlines()[1:]
        assert len(lines) == 4 and "/dev/null" in lines[0] and "/fd" in lines[3], lines
        assert all("pipe:" in line for line in lines[1:3]), lines
    said = output(dag, shell("env"))
    assert not [value for value in SECRETS.values() if f"={value}\n" in said], said
    assert "DROVER_ZK_AUTH" not in said and "OTHER_SECRET" not in said
    assert descriptors_that_stay_open(server.process.pid) == []
    api = Api(server.port)
    batch = api.batch()
    api.drive(api.job(batch))
    api.wait_state("batches", batch, ["Completed"])
    said = (open_dir / "hook").read_text()
    assert "DROVER_ZK_AUTH" not in said and "DROVER_TOKEN" not in said
    assert f"DROVER_BATCH={batch}\n" in said
    assert len(re.findall(r" \d+ -> ", said)) == 4, said
    assert "NoNewPrivs:\t1\n" in said
    if more:
        assert "Uid:\t65534\t65534\t65534\t65534\n" in said and f"USER={USER}\n" in said
    assert descriptors_that_stay_open(server.process.pid) == []
    assert server.stop() == 0, server.said


ATTACK = """
import os, signal
last = open('/proc/sys/kernel/ns_last_pid')
print('begun', flush=True)
while True:
    last.seek(0)
    pid = int(last.read())
    for i in range(900):
        try:
            if pid + i % 3 != os.getpid():
                os.kill(pid + i % 3, signal.SIGSTOP)
        except OSError:
            pass
"""


@root
@pytest.mark.slow
def test_a_command_cannot_stop_the_server(open_dir):
    """It stops every new process of its user as soon as it can, also those that the server is about to start.
    That delays starts, and no more. In a pid namespace of its own: others may use the same user."""
    alone = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*alone, "true"], capture_output=True).returncode:
        pytest.skip("no pid namespace can be created here")
    wrapper = open_dir / "drover"
    wrapper.write_text(f'#!/bin/sh\nexec {" ".join(alone)} {BINARY} "$@"\n')
    wrapper.chmod(0o755)
    server = Server("--data", open_dir / "data", "--run-as", USER, "--jobs", 4, executable=wrapper)
    try:
        dag = Dag(server.start().port)
        [attacker] = dag.add(node("command", command="/usr/bin/python3", args=["-c", ATTACK]))
        wait_until(lambda: dag.data(attacker, "stdout")["data"])
        for _ in range(5):
            ids = dag.add(*[node("command", command="true") for _ in range(20)])
            wait_until(lambda: dag.state(ids[0]) != "incipient")
            dag.kill(*ids)  # some are stopped
        dag.kill(attacker)
        assert set(dag.wait(attacker, *ids)) <= {"killed", "finished", "failed"}
        assert output(dag, node("command", command="echo", args=["x"])) == "x\n"
    finally:
        server.kill()
