"""Packages from the npm registry, in fixed versions, installed into a directory of the test."""

import subprocess

import pytest

INSTALL_S = 120
UNREACHABLE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "EHOSTUNREACH",
               "ENETUNREACH", "ERR_SOCKET_TIMEOUT", "E429", "E500", "E502", "E503", "E504")


def install(directory, *packages):
    """Returns the node_modules. npm keeps its cache and its log in the directory, too.

    A registry that cannot be reached is no failure of ours."""
    try:
        done = subprocess.run(
            ["npm", "install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts",
             "--prefix", directory, "--cache", directory / "cache", *packages], cwd=directory,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_S)
    except subprocess.TimeoutExpired:
        pytest.skip("the npm registry does not answer")
    if any(f"code {code}" in done.stderr for code in UNREACHABLE):
        pytest.skip(f"the npm registry cannot be reached: {done.stderr}")
    assert done.returncode == 0, done.stderr
    return directory / "node_modules"
