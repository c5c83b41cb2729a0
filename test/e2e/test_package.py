"""The units of systemd, the configuration to begin with, and the Debian package: built, checked by lintian,
installed, started as its unit says, upgraded, removed and purged.

The package is installed in a copy of this machine: an overlay over its root directory, seen in namespaces of
mounts and of the network only, so that the default ports are free and nothing is left.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest
from conftest import BINARY, DEADLINE_S, ROOT, drover
from test_service import Manager

UNITS = ROOT / "contrib/systemd"
BUILD_S = 900  # on a busy machine
EXPOSURE_MAX = 20  # tenths, by systemd-analyze security


def run(*command, **more):
    """Runs a command that has to succeed; returns what it prints."""
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **{"timeout": DEADLINE_S} | more)
    assert done.returncode == 0, f"{command}: {done.stdout}"
    return done.stdout


# Units.

@pytest.mark.parametrize("drop_in", [False, True])
def test_the_units_are_valid(tmp_path, drop_in):
    (tmp_path / "drover.service.d").mkdir()
    names = ["drover.service", "drover.socket"]
    for name in [*names, "drover.service.d/commands.conf"][:3 if drop_in else 2]:
        text = (UNITS / pathlib.Path(name).name).read_text()
        (tmp_path / name).write_text(text.replace("/usr/bin/drover", "/bin/true"))
    said = run("systemd-analyze", "verify", "--man=no", *(tmp_path / name for name in names),
               env=os.environ | {"SYSTEMD_UNIT_PATH": f"{tmp_path}:"})
    assert said == ""  # a setting that it does not know is only mentioned


def test_the_service_is_confined():
    run("systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", UNITS / "drover.service")


@pytest.mark.parametrize("name", ["drover.service", "commands.conf"])
def test_the_command_of_the_unit(name, tmp_path):
    """Its options exist, and the server without the drop-in runs no commands."""
    command = re.search(r"^ExecStart=/usr/bin/drover serve(.*)$", (UNITS / name).read_text(), re.M)[1].split()
    shown = run(BINARY, "config", "--data", tmp_path, *command)
    assert bool(re.search(r"^jobs +0 ", shown, re.M)) == (name == "drover.service")


def test_the_template_has_every_option_with_its_default(tmp_path):
    """Where the default depends on the machine it has what the value is, as --help."""
    template = drover("config", "--template").stdout
    shown = drover("config", "--config", "none").stdout
    options = dict(re.findall(r"^#([\w-]+) ?(.*)$", template, re.M))
    assert set(re.findall(r"^#?([\w-]+) ", shown, re.M)) <= set(options)
    defaults = re.findall(r"^([\w-]+) +(\S.*?) +# default$", shown, re.M)
    usage = drover("serve", "--help").stdout
    for name, value in defaults:
        flag = (options[name], value) == ("", "no")
        assert flag or options[name] == value or f"--{name} {options[name]}\n" in usage, name
    assert sum(options[name] == value for name, value in defaults) > 20
    (tmp_path / "drover.conf").write_text(template)
    assert drover("config", "--config", tmp_path / "drover.conf").stdout == shown
    assert drover("config", "--template", env={"HOME": "/x"}).stdout == template


# The package.

class Machine:
    """A copy of this one, in which things can be installed. /mnt is `shared`."""

    SETUP = """
        mount -t tmpfs tmpfs "$1" && mkdir "$1/upper" "$1/work" "$1/root"
        mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
        for directory in proc sys dev; do mount --rbind "/$directory" "$1/root/$directory"; done
        mount -t tmpfs tmpfs "$1/root/run"
        mount --bind "$2" "$1/root/mnt"
        rm -f "$1/root/var/lib/man-db/auto-update" # the index of the pages would be made anew each time
        echo ready
        exec chroot "$1/root" sleep infinity
    """

    def __init__(self, directory, shared):
        directory.mkdir()
        shared.mkdir()
        shared.chmod(0o755)
        self.shared = shared
        self.started = []
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--net", "sh", "-ec", self.SETUP, "-", directory, shared],
            stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout.readline() == "ready\n"
        self.run("/usr/bin/python3", "-c", "import fcntl, socket, struct\n"
                 "fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh14x', b'lo', 1))")  # SIOCSIFFLAGS: up

    def command(self, *command):
        return ["nsenter", f"--target={self.holder.pid}", "--mount", "--net", "--root", "--wd", *command]

    def run(self, *command):
        return run(*self.command(*command), env={"PATH": os.environ["PATH"], "DEBIAN_FRONTEND": "noninteractive"})

    def exists(self, path):
        return subprocess.run(self.command("test", "-e", path), check=False).returncode == 0

    def start(self, *command):
        self.started.append(subprocess.Popen(self.command(*command), stderr=subprocess.PIPE, text=True))
        return self.started[-1]

    def close(self):
        for process in [*self.started, self.holder]:
            process.kill()
            process.wait()
        self.holder.stdout.close()


class Service:
    """The server of the package, started as its unit says."""

    def __init__(self, machine):
        self.machine = machine
        shutil.copy(pathlib.Path(__file__).with_name("run_unit.py"), machine.shared)
        (machine.shared / "notify").unlink(missing_ok=True)
        self.manager = Manager(str(machine.shared / "notify"))
        (machine.shared / "notify").chmod(0o777)
        machine.run("rm", "-f", "/run/drover.sock")
        self.process = machine.start("/usr/bin/python3", "/mnt/run_unit.py", "drover", "/mnt/notify")
        try:
            self.manager.wait_for("READY=1")
        except TimeoutError:
            self.process.kill()
            pytest.fail(self.process.communicate()[1])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        said = self.process.communicate(timeout=DEADLINE_S)[1]
        assert self.process.returncode == 0, said
        assert "STOPPING=1" in self.manager.wait_for("STOPPING=1")
        self.manager.socket.close()
        return said


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The directory of the packages. DROVER_PACKAGES: one that has them already."""
    if "DROVER_PACKAGES" in os.environ:
        return pathlib.Path(os.environ["DROVER_PACKAGES"])
    directory = tmp_path_factory.mktemp("packages")
    run(ROOT / "tools/deb", directory, timeout=BUILD_S,
        env=os.environ | {"DEB_BUILD_OPTIONS": "nocheck parallel=2 noautodbgsym"})
    return directory


@pytest.fixture
def machine(tmp_path):
    if os.getuid():
        pytest.skip("needs root")
    one = Machine(tmp_path / "machine", tmp_path / "shared")
    yield one
    one.close()


@pytest.mark.slow
def test_lintian_finds_nothing(packages):
    assert run("lintian", "--allow-root", "--fail-on=error,warning", *packages.glob("*.deb"), timeout=BUILD_S) == ""


@pytest.mark.slow
def test_the_program_is_hardened(packages):
    """As the product is."""
    run(ROOT / "tools/hardening", *(packages / "source").glob("obj-*"))


def next_version(package, directory):
    """The same package with a later version."""
    run("dpkg-deb", "-R", package, directory / "next")
    control = directory / "next/DEBIAN/control"
    control.write_text(re.sub("^(Version: .*)$", r"\1+next", control.read_text(), flags=re.M))
    run("dpkg-deb", "--root-owner-group", "-b", directory / "next", directory / "next.deb")
    shutil.rmtree(directory / "next")
    return "/mnt/next.deb"


@pytest.mark.slow
def test_the_life_of_a_package(packages, machine):
    [package] = packages.glob("drover_*.deb")
    shutil.copy(package, machine.shared / "drover.deb")
    machine.run("dpkg", "-i", "/mnt/drover.deb")
    assert machine.run("stat", "-c", "%U:%G %a", "/var/lib/drover") == "drover:drover 700\n"
    assert machine.run("getent", "passwd", "drover").split(":")[5:] == ["/var/lib/drover", "/usr/sbin/nologin\n"]
    assert "Type=notify" in machine.run("cat", "/lib/systemd/system/drover.service")

    service = Service(machine)
    assert "drover" in machine.run("ps", "-o", "user=", "-p", service.process.pid)
    machine.run("drover", "add", "mail", "one")  # root, by the Unix socket
    machine.run("drover", "token", "ls")
    machine.run("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups",
                "env", "HOME=/tmp", "drover", "add", "mail", "two")  # anybody, by the port
    said = service.stop()
    assert "data directory /var/lib/drover\n" in said and "listening on unix:/run/drover.sock\n" in said
    assert "warning" not in said

    machine.run("sh", "-c", "echo 'waits 77' >>/etc/drover/drover.conf")
    machine.run("dpkg", "-i", next_version(package, machine.shared))
    assert machine.run("dpkg-query", "-W", "-f", "${Version}", "drover").endswith("+next")
    service = Service(machine)
    assert machine.run("drover", "ls", "mail").count("\n") >= 2
    service.stop()

    machine.run("dpkg", "-r", "drover")
    assert not machine.exists("/usr/bin/drover")
    assert machine.exists("/var/lib/drover/admin.token")
    assert "waits 77" in machine.run("cat", "/etc/drover/drover.conf")
    machine.run("dpkg", "-i", "/mnt/drover.deb")  # as it was
    service = Service(machine)
    assert machine.run("drover", "ls", "mail").count("\n") >= 2
    service.stop()

    machine.run("dpkg", "-P", "drover")
    assert not [path for path in ("/var/lib/drover", "/var/log/drover", "/etc/drover") if machine.exists(path)]
    machine.run("getent", "passwd", "drover")  # files elsewhere may be its own


@pytest.mark.slow
def test_a_program_with_the_library(packages, machine):
    """libdrover-dev is enough to build one, and libdrover0 to run it."""
    for name in ("libdrover0", "libdrover-dev"):
        [package] = packages.glob(f"{name}_*.deb")
        shutil.copy(package, machine.shared)
    machine.run("sh", "-c", "dpkg -i /mnt/*.deb")
    (machine.shared / "x.c").write_text('#include <drover.h>\n#include <stdio.h>\n'
                                        'int main(void) { return puts(drover_err_name(0)) < 0; }\n')
    machine.run("sh", "-c", "cc -o /mnt/x /mnt/x.c $(pkg-config --cflags --libs drover) && /mnt/x")
