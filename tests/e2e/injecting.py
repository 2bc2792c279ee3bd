"""Commands in which one system call fails: `faults/fault.c`, and what the manual pages say that calls fail with."""

from __future__ import annotations

import errno
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).with_name("faults")

WRITES = ("ENOSPC", "EIO", "EDQUOT", "EINTR", "EFBIG", "short", "torn")
READS = ("EIO", "EINTR", "short")
NAMES = ("EIO", "ENOSPC", "ENOMEM", "EDQUOT", "EROFS")
LOOKS = ("EIO", "ENOMEM", "EACCES")
SYNCS = ("EIO", "ENOSPC", "EDQUOT")
SPAWNS = ("EAGAIN", "ENOMEM")
SENDS = ("EPIPE", "ECONNRESET", "EAGAIN", "EINTR", "ENOBUFS", "short")
RECEIVES = ("ECONNRESET", "EINTR", "EAGAIN", "ENOMEM", "short")
ACTIONS = {
    "open": ("ENOSPC", "EMFILE", "ENFILE", "EIO", "ENOMEM", "EDQUOT", "EINTR", "EACCES"),
    "write": WRITES,
    "read": READS,
    "fsync": (*SYNCS, "EINTR"),
    "fallocate": ("ENOSPC", "EIO", "EINTR", "ENOMEM", "EDQUOT", "EOPNOTSUPP", "EFBIG"),
    "ftruncate": ("ENOSPC", "EIO", "EINTR", "EFBIG"),
    "rename": NAMES,
    "link": NAMES,
    "symlink": NAMES,
    "unlink": ("EIO", "ENOMEM", "EROFS", "EBUSY"),
    "mkdir": (*NAMES, "EMLINK"),
    "stat": LOOKS,
    "access": LOOKS,
    "readlink": LOOKS,
    "statfs": ("EIO", "EINTR", "ENOMEM"),
    "getdents": ("EIO", "ENOMEM"),
    "flock": ("EINTR", "ENOLCK", "EWOULDBLOCK"),
    "mmap": ("ENOMEM", "EAGAIN", "ENODEV"),
    "copy": WRITES[:3],
    "socket": ("EMFILE", "ENFILE", "ENOBUFS", "EACCES"),
    "bind": ("ENOMEM", "EACCES", "EADDRINUSE"),
    "listen": ("EADDRINUSE",),
    "connect": ("ECONNREFUSED", "ETIMEDOUT", "EINTR", "EADDRNOTAVAIL", "ENETUNREACH"),
    "accept": ("EMFILE", "ENFILE", "ECONNABORTED", "EINTR", "ENOMEM", "ENOBUFS"),
    "send": SENDS,
    "recv": RECEIVES,
    "pipe": ("EMFILE", "ENFILE"),
    "memfd": ("EMFILE", "ENOMEM"),
    "dup": ("EMFILE",),
    "chmod": ("EIO", "EPERM", "ENOMEM"),
    "chown": ("EIO", "EPERM", "EDQUOT"),
    "utimens": ("EIO", "EACCES"),
    "spawn": SPAWNS,
    "exec": ("ENOMEM", "EIO", "EACCES", "E2BIG"),
    "futex": ("EINTR", "EAGAIN"),
}
"""How calls of a kind fail, without "kill", which all have."""

KINDS = {
    **dict.fromkeys(("open", "openat", "creat"), "open"),
    **dict.fromkeys(("write", "pwrite", "writev", "pwritev"), "write"),
    **dict.fromkeys(("read", "pread", "readv", "preadv"), "read"),
    **dict.fromkeys(("fsync", "fdatasync", "syncfs", "sync_file_range"), "fsync"),
    **dict.fromkeys(("rename", "renameat", "renameat2"), "rename"),
    **dict.fromkeys(("link", "linkat"), "link"),
    **dict.fromkeys(("symlink", "symlinkat"), "symlink"),
    **dict.fromkeys(("unlink", "unlinkat", "rmdir"), "unlink"),
    **dict.fromkeys(("mkdir", "mkdirat"), "mkdir"),
    **dict.fromkeys(("stat", "lstat", "statx", "newfstatat"), "stat"),
    **dict.fromkeys(("access", "faccessat", "faccessat2"), "access"),
    **dict.fromkeys(("readlink", "readlinkat"), "readlink"),
    **dict.fromkeys(("statfs", "fstatfs"), "statfs"),
    **dict.fromkeys(("ftruncate", "truncate"), "ftruncate"),
    **dict.fromkeys(("sendfile", "copy_file_range"), "copy"),
    **dict.fromkeys(("socket", "socketpair"), "socket"),
    **dict.fromkeys(("accept", "accept4"), "accept"),
    **dict.fromkeys(("sendto", "sendmsg"), "send"),
    **dict.fromkeys(("recvfrom", "recvmsg"), "recv"),
    **dict.fromkeys(("pipe", "pipe2"), "pipe"),
    **dict.fromkeys(("chmod", "fchmod", "fchmodat"), "chmod"),
    **dict.fromkeys(("fchown", "fchownat"), "chown"),
    **dict.fromkeys(("fork", "vfork", "clone", "clone3"), "spawn"),
    "fallocate": "fallocate",
    "getdents64": "getdents",
    "flock": "flock",
    "mmap": "mmap",
    "bind": "bind",
    "listen": "listen",
    "connect": "connect",
    "memfd_create": "memfd",
    "dup": "dup",
    "utimensat": "utimens",
    "execve": "exec",
    "futex": "futex",
}
"""What kind a system call is of."""

LASTING = {
    "open": ("ENOSPC", "EMFILE", "EROFS"),
    "write": ("ENOSPC", "EIO"),
    "fsync": ("EIO",),
    "fallocate": ("ENOSPC", "ENOMEM"),
    "ftruncate": ("ENOSPC",),
    "rename": ("ENOSPC",),
    "mkdir": ("ENOSPC",),
    "mmap": ("ENOMEM",),
    "spawn": ("EAGAIN",),
    "socket": ("EMFILE",),
    "accept": ("EMFILE",),
}
"""A full disk stays full: with a "+" such an error comes back at every later call of its name, too."""


@dataclass(frozen=True)
class Victim:
    """The process whose calls count."""

    name: str
    exe: str
    arg: str = ""
    env: str = ""
    is_marked: bool = False
    places: tuple[str, ...] = ()
    """Calls count that are about places with one of these texts; all without them."""

    def rules(self) -> list[str]:
        rules = [f"exe={self.exe}", *(f"below={place}" for place in self.places)]
        rules += [f"{key}={value}" for key, value in (("arg", self.arg), ("env", self.env)) if value]
        return rules + ["marked=1"] * self.is_marked


@dataclass(frozen=True)
class Call:
    """A call of a victim as it was counted: the number is among calls of the same name."""

    name: str
    place: str
    number: int

    @property
    def kind(self) -> str:
        return KINDS[self.name]

    @property
    def about(self) -> str:
        """The place without what differs from run to run."""
        within = re.sub(r"\S*/knarr-life-\d+-\d+", "TOP", self.place)
        return re.sub(r"[0-9a-f]*\d[0-9a-f]*", "#", within)

    def actions(self) -> list[str]:
        """All ways to fail."""
        return [*ACTIONS[self.kind], *(f"{action}+" for action in LASTING.get(self.kind, ())), "kill"]


@dataclass(frozen=True)
class Fault:
    """A call of a victim that fails: with an error, which a "+" makes last; "short", which is done in part; "torn", the
    same, and the next one finds no room; "kill"."""

    victim: Victim
    call: Call
    action: str

    def rules(self) -> list[str]:
        is_lasting, name = self.action.endswith("+"), self.action.rstrip("+")
        code = {"short": 0, "kill": -1, "torn": -2}.get(name)
        how = getattr(errno, name) if code is None else code
        rules = [f"calls={self.call.name}", f"number={self.call.number}", f"do={how}"]
        return [*self.victim.rules(), *rules, *(["last=0"] if is_lasting else [])]

    def __str__(self) -> str:
        return f"{self.victim.name}: {self.call.name} {self.call.number} {self.action} ({self.call.about})"


class Injector:
    """Built once in a folder."""

    def __init__(self, folder: Path):
        self.program = folder / "fault"
        subprocess.run(["cc", "-O1", "-Wall", SOURCES / "fault.c", "-o", self.program], check=True)

    def command(self, log: Path, rules: Sequence[str], command: Sequence[object]) -> list[str]:
        """A command, with these rules."""
        return [str(word) for word in (self.program, log, *rules, "--", *command)]

    def why_not(self, folder: Path) -> str:
        """Why calls cannot be caught here; nothing if they can."""
        command = self.command(folder / "probe", ["calls=all"], ["true"])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


def injector(folder: Path) -> Injector | str:
    """Builds it, or says why that cannot be."""
    if shutil.which("cc") is None:
        return "needs a C compiler: run 'make setup' as root, or install gcc"
    made = Injector(folder)
    why = made.why_not(folder)
    return f"calls cannot be caught here: {why}" if why else made


def logged(log: Path) -> tuple[list[Call], list[Call]]:
    """The calls that were counted, and those of them that failed."""
    counts: dict[str, int] = {}
    calls, failed = [], []
    for line in lines(log):
        name, _, place = line.removeprefix("!").partition(" ")
        counts[name] = counts.get(name, 0) + 1
        call = Call(name, place, counts[name])
        calls.append(call)
        if line.startswith("!"):
            failed.append(call)
    return calls, failed


def lines(log: Path) -> Iterator[str]:
    for line in log.read_text(errors="replace").splitlines() if log.exists() else []:
        if line and not line.startswith("?"):
            yield line
