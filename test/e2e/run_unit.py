"""Starts a service as its unit says, as far as that works without systemd: run_unit.py drover NOTIFY_SOCKET

The user, the directories, the environment, the socket of NAME.socket and the command. Replaces itself by it.
"""

import grp
import os
import pathlib
import pwd
import re
import shlex
import socket
import sys

UNITS = pathlib.Path("/lib/systemd/system")


def settings(name):
    """The last value of each setting; an empty one is none."""
    return dict(re.findall(r"^(\w+)=(.+)$", (UNITS / name).read_text(), re.M))


def listen(unit):
    """The socket, as descriptor 3."""
    path = unit["ListenStream"]
    one = socket.socket(socket.AF_UNIX)
    one.bind(path)
    os.chown(path, 0, grp.getgrnam(unit["SocketGroup"]).gr_gid)
    os.chmod(path, int(unit["SocketMode"], 8))
    one.listen()
    os.dup2(one.detach(), 3)
    os.set_inheritable(3, True)  # which dup2 does only if it was another
    return {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": unit["FileDescriptorName"]}


def main(name, notify_socket):
    unit = settings(f"{name}.service")
    assert unit["Type"] == "notify"
    user = pwd.getpwnam(unit["User"])
    environment = dict([unit["Environment"].split("=", 1)]) | {"NOTIFY_SOCKET": notify_socket}
    for kind, parent in (("State", "/var/lib"), ("Logs", "/var/log")):
        path = pathlib.Path(parent, unit[f"{kind}Directory"])
        path.mkdir(exist_ok=True)
        path.chmod(int(unit[f"{kind}DirectoryMode"], 8))
        os.chown(path, user.pw_uid, user.pw_gid)
    environment |= listen(settings(f"{name}.socket"))
    os.initgroups(user.pw_name, user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    os.umask(int(unit["UMask"], 8))
    os.chdir("/")
    command = shlex.split(unit["ExecStart"])
    os.execve(command[0], command, environment)


if __name__ == "__main__":
    main(*sys.argv[1:])
