"""Tests run two at a time where each of the two processes can have shared memory of its own.

What `knarr run` keeps in /dev/shm outlives it when it is killed, and later runs tell of it: tests look for that, so
they must not see what tests beside them left. A mount namespace for each process keeps them apart. It takes the right
to mount.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

CLONE_NEWNS = 0x00020000
PATH = "/dev/shm"
PROBE = ["unshare", "--mount", "mount", "-t", "tmpfs", "tests", PATH]


def may_be_own() -> bool:
    try:
        return subprocess.run(PROBE, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def become_own() -> None:
    """From here on, this thread and what it starts have an empty /dev/shm."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
        sys.exit(f"a mount namespace of its own: {os.strerror(ctypes.get_errno())}")
    for mount in (["mount", "--make-rprivate", "/"], ["mount", "-t", "tmpfs", "tests", PATH]):
        subprocess.run(mount, check=True)
