"""Tests run two at a time where each of the two processes can have shared memory and a network of its own.

What `knarr run` keeps in /dev/shm outlives it when it is killed, and later runs tell of it: tests look for that, so
they must not see what tests beside them left. Tests of several nodes make networks with addresses of their own.
Namespaces for each process keep both apart. That takes the rights of root.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
PROBE = ["unshare", "--mount", "--net", "ip", "link", "set", "lo", "up"]
COMMANDS = [
    ["mount", "--make-rprivate", "/"],
    ["mount", "-t", "tmpfs", "tests", "/dev/shm"],
    # What it says of network devices is of the network in which it is mounted.
    ["mount", "-t", "sysfs", "tests", "/sys"],
    ["ip", "link", "set", "lo", "up"],
]


def may_be_own() -> bool:
    try:
        return subprocess.run(PROBE, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def become_own() -> None:
    """From here on, this thread and what it starts have an empty /dev/shm, and a network that leads nowhere."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS | CLONE_NEWNET) != 0:
        sys.exit(f"namespaces of its own: {os.strerror(ctypes.get_errno())}")
    for command in COMMANDS:
        subprocess.run(command, check=True)
