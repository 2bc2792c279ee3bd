"""What is known to be wrong when a call fails, as long as nobody has mended it.

The loops leave out what a defect covers. Each has a test of its own, which is expected to fail: when it does not any
more, its row goes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from injecting import Fault
from lives import LIVES, Life
from lives_trial import Lived, Lives


@dataclass(frozen=True)
class Defect:
    """Calls that may not fail as these do."""

    name: str
    """A letter of the report that describes it, or a word."""
    what: str
    victim: str
    """The process, without its number."""
    calls: str
    """Pattern of calls' names, as a whole."""
    about: str
    """Pattern of what they are about."""
    shown_by: tuple[str, str, str, int, str]
    """A life, a call and what it is about, how many such calls come before it, and how it fails. If it is wrong without
    a fault, all but the life are empty."""
    actions: str = ".*"
    """Pattern of how they fail, as a whole."""
    lives: str = ".*"
    """Pattern of the lives in which they do, as a whole."""

    def covers(self, life: Life, fault: Fault) -> bool:
        """True if the loops leave a fault out because of it."""
        call = fault.call
        is_victim = fault.victim.name.split()[0] == self.victim and re.fullmatch(self.lives, life.name)
        is_call = self.calls and re.fullmatch(self.calls, call.name) and re.search(self.about, call.about)
        return bool(is_victim and is_call and re.fullmatch(self.actions, fault.action))

    def shown(self, lives: Lives) -> Lived:
        """The life that shows it."""
        name, call, about, before, action = self.shown_by
        life = next(life for life in LIVES if life.name == name)
        victim = f"{self.victim} 0" if self.victim == "rank" else self.victim
        if not call:
            return lives.live(life)
        calls = [one for one in lives.calls(life, victim) if one.name == call and re.search(about, one.about)]
        # What hangs does so in less time, too.
        return lives.live(replace(life, longest_s=10), Fault(life.victim(victim), calls[before], action))


RECORDS = "(handed-over|set-aside|open)[.]json"
SPOOL = "^(/dev/shm|TOP/[.]knarr)/knarr-spool-#-#"
PUT = "/(values|log)[.]#|/header[.]n|/header[.]#|handed-over[.]json|[.]knarr/knarr-spool"

DEFECTS = [
    Defect(
        "A1",
        "a put or a close that fails discards all values of the file, and the exit code is 0",
        "rank",
        "fallocate|pwrite|write|rename|openat|statx|symlink|ftruncate|fchmod|mmap|read|pread|fsync|access|unlink",
        PUT,
        ("pnetcdf", "fallocate", "/values", 0, "EINTR"),
    ),
    Defect(
        "A1 without room",
        "the same of a put that finds no room",
        "rank",
        "",
        "",
        ("pnetcdf, fits nowhere", "", "", 0, ""),
    ),
    Defect(
        "B2",
        "ranks that do not find the same wait for each other for ever",
        "rank",
        "openat|read|newfstatat|statx|mmap|getdents64|access|pread",
        f"libknarr_mpi|{SPOOL}$|{SPOOL}/launcher$",
        ("pnetcdf, two ranks", "read", "libknarr_mpi", 0, "EIO"),
    ),
    Defect(
        "shown",
        "the program waits for ever if it cannot be told what became of a file that it opens",
        "launcher",
        ".*",
        "/outcome[.]json",
        ("pnetcdf, read again", "rename", "/outcome[.]json", 0, "ENOSPC"),
    ),
    Defect(
        "superseded",
        "values of which a later file of the same name was made stay for ever",
        "worker",
        "openat|read|pread|statx|fstatfs|statfs|mmap|getdents64|newfstatat|clone3",
        ".*",
        ("pnetcdf, created twice", "pread", "/header[.]nc", 0, "EIO"),
    ),
    Defect(
        "older values are read",
        "a file that could not be made is opened with what was there before it",
        "worker",
        ".*",
        "TOP/work",
        ("pnetcdf, changed again", "fdatasync", "TOP/work/", 1, "ENOSPC"),
        lives=".*again",
    ),
    Defect(
        "drained twice",
        "a second attempt to move values to a disk removes what the first one has moved",
        "launcher",
        "unlinkat|openat|rmdir|getdents64|newfstatat|statx|unlink",
        f"{SPOOL}/#-#",
        ("pnetcdf, stopped", "unlinkat", "^/dev/shm/.*/values", 0, "ENOMEM"),
        lives=".*stopped",
    ),
    Defect(
        "killed in create",
        "a spool in which nothing was put stays for ever",
        "rank",
        ".*",
        f"{SPOOL}/(free|#-#)",
        ("pnetcdf", "openat", "/values", 0, "kill"),
        "kill|.*[+]",
    ),
    Defect(
        "spool half made",
        "a spool that was not begun as a whole stays for ever",
        "launcher",
        "openat|flock|rename|mkdir|getdents64|unlinkat|statx|newfstatat|write",
        f"{SPOOL}$|{SPOOL}/(launcher|free)|TOP/[.]knarr(/in-use|/learned.*)?$|TOP/tmp/knarr-run-#-#(/gate|/launcher.*)?$",
        ("pnetcdf", "mkdir", "/free", 0, "ENOSPC"),
    ),
    Defect(
        "spool not read",
        "a spool, or a record in it, that cannot be read counts as empty",
        "launcher",
        "openat|read|getdents64|statx|newfstatat",
        f"{SPOOL}/#-#|{SPOOL}$|{RECORDS}|/dev/shm$",
        ("pnetcdf", "openat", "handed-over", 0, "EMFILE+"),
    ),
    Defect(
        "signals",
        "the thread for signals panics, and the run never ends",
        "launcher",
        "recvfrom",
        "socket",
        ("pnetcdf", "recvfrom", "socket", 3, "ENOMEM"),
    ),
    Defect(
        "ended",
        "the launcher does not hear that the program has ended",
        "launcher",
        "sendto",
        "socket",
        ("pnetcdf", "sendto", "launcher.sock", 0, "ENOBUFS"),
    ),
    Defect(
        "answer",
        "a worker that cannot answer goes on",
        "worker",
        "sendto|recvfrom",
        "socket",
        ("pnetcdf", "sendto", "socket", 2, "ENOBUFS"),
    ),
    Defect(
        "in place",
        "a file in its place whose directory was not synced cannot be recovered",
        "worker",
        "openat|fsync",
        "TOP/work$",
        ("pnetcdf", "fsync", "TOP/work$", 0, "EIO"),
    ),
    Defect(
        "threads",
        "a thread that cannot be begun is a panic",
        "launcher",
        "clone3?",
        "new thread",
        ("pnetcdf", "clone3", "new thread", 2, "EAGAIN"),
    ),
    Defect(
        "threads of workers",
        "a thread that cannot be begun is a panic",
        "worker",
        "clone3?",
        "new thread",
        ("pnetcdf", "clone3", "new thread", 2, "EAGAIN"),
    ),
    Defect(
        "spilled values stay",
        "what lies on a disk is not removed when that fails once",
        "launcher",
        "unlink|readlink|readlinkat|openat|getdents64",
        f"[.]knarr/knarr-spool|{SPOOL}/#-#",
        ("pnetcdf, spilled", "unlink", "[.]knarr/knarr-spool", 0, "EBUSY"),
    ),
    Defect(
        "plan",
        "a launcher that is killed leaves the plan under its other name",
        "launcher",
        ".*",
        "knarr[.]json",
        ("pnetcdf", "fsync", "knarr[.]json", 0, "kill"),
        "kill",
    ),
]


def known(life: Life, fault: Fault) -> bool:
    return any(defect.covers(life, fault) for defect in DEFECTS)
