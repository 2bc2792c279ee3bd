"""What suites that kill processes share."""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
KNARR = Path(os.environ.get("KNARR_BIN", REPOSITORY / "target" / "release" / "knarr")).resolve()
SHARED_MEMORY = Path("/dev/shm")
PATIENCE_S = 60
"""No run takes so long. One that does hangs."""
FUTEX = 202
"""Number of the system call on x86-64."""
ENVIRONMENT = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class WrongError(Exception):
    """Something was lost, or hangs, or is not what was written."""


def children(process: int) -> list[int]:
    """All processes below one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = entry.read_text()
        except OSError:
            continue
        if int(text.rsplit(")", 1)[1].split()[1]) == process:
            found += [int(entry.parent.name), *children(int(entry.parent.name))]
    return found


def command_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def ranks_left(program: Path) -> list[int]:
    found = [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if entry.is_dir()]
    return [process for process in found if command_of(process).startswith(str(program))]


def until(holds, what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            raise WrongError(f"hangs: {what}")
        time.sleep(0.01)


def victim_of(launcher: int, kind: str, program: Path) -> int | None:
    """A process of this kind that the launcher has just now, if there is one."""
    if kind == "launcher":
        return launcher
    begin = {"rank": str(program), "mpirun": "mpirun", "aggregator": "knarr worker"}[kind]
    found = [process for process in children(launcher) if command_of(process).startswith(begin)]
    return random.choice(found) if found else None


def kill(launcher: subprocess.Popen, kind: str, program: Path) -> bool:
    """Kills a process of this kind as soon as there is one. False if none came."""
    process = victim_of(launcher.pid, kind, program)
    while process is None and launcher.poll() is None:
        process = victim_of(launcher.pid, kind, program)
    try:
        if process is not None:
            os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return process is not None


def has_ended(launcher: subprocess.Popen, program: Path) -> bool:
    """True if the launcher ended. PMIx 4.2 may wait for ever in its own finalization when a rank was killed early: the
    launcher waits for such an mpirun, as a shell would, and it is ended here."""
    if launcher.poll() is None and not ranks_left(program):
        mpirun = victim_of(launcher.pid, "mpirun", program)
        with contextlib.suppress(OSError):  # It may end at any moment.
            if mpirun and waits(mpirun) and age_of(mpirun) > PATIENCE_S / 3:
                os.kill(mpirun, signal.SIGKILL)
    return launcher.poll() is not None


def waits(process: int) -> bool:
    """True if a process waits for a lock."""
    return Path(f"/proc/{process}/syscall").read_text().startswith(f"{FUTEX} ")


def age_of(process: int) -> float:
    """Seconds since a process began."""
    ticks = int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def built(source: Path, folder: Path) -> Path:
    """A program with PnetCDF."""
    program = folder / source.stem
    subprocess.run(["mpicc", "-O1", "-w", source, "-o", program, "-lpnetcdf", "-lm"], check=True)
    return program


def spools(launcher: int) -> list[Path]:
    return sorted(SHARED_MEMORY.glob(f"knarr-spool-{launcher}-*"))


def repeat(text: str, kinds: Sequence[str], prepare: Callable[[Path], Callable[[Path, str], str]]) -> int:
    """Asks how often, and kills so often a process of each kind. Returns 1 if anything was wrong.

    `prepare` makes what all runs share in a directory and returns what does one: given a new directory and what to
    kill, it returns what was found, or raises `WrongError`.
    """
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--victim", choices=kinds, action="append")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="knarr-kills-") as directory:
        once = prepare(Path(directory))
        for kind in arguments.victim or kinds:
            found = collections.Counter()
            for number in range(arguments.times):
                folder = Path(directory) / f"{kind}-{number}"
                folder.mkdir()
                try:
                    found[once(folder, kind)] += 1
                except WrongError as error:
                    wrong += 1
                    found["WRONG"] += 1
                    print(f"{kind}, kill {number}: {error}", flush=True)
                if sys.stderr.isatty():
                    print(f"\r{kind}: {number + 1} of {arguments.times}", end="", file=sys.stderr, flush=True)
                shutil.rmtree(folder)
            print(f"{kind:16} " + ", ".join(f"{what} {count}" for what, count in sorted(found.items())), flush=True)
    return min(wrong, 1)
