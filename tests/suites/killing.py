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
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import namespaces

REPOSITORY = Path(__file__).resolve().parents[2]
KNARR = Path(os.environ.get("KNARR_BIN", REPOSITORY / "target" / "release" / "knarr")).resolve()
SHARED_MEMORY = Path("/dev/shm")
PATIENCE_S = 60
"""No run takes so long. One that does hangs."""
FUTEX = 202
"""Number of the system call on x86-64."""
ENVIRONMENT = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
ON_ONE_MACHINE = ENVIRONMENT | {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader"}
"""To look for networks takes most of the time of so short a run."""
TWO = "two"
"""Two processes at once, of different kinds."""


class WrongError(Exception):
    """Something was lost, or hangs, or is not what was written."""


def children(process: int) -> list[int]:
    """All processes below one."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = Path(f"/proc/{name}/stat").read_text()
        except OSError:
            continue
        if int(text.rsplit(")", 1)[1].split()[1]) == process:
            found += [int(name), *children(int(name))]
    return found


def command_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def ranks_left(program: Path) -> list[int]:
    found = [int(name) for name in os.listdir("/proc") if name.isdigit()]
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


def chosen(kind: str, kinds: Sequence[str]) -> list[str]:
    """The kinds of processes to kill."""
    return random.sample([one for one in kinds if one != TWO], 2) if kind == TWO else [kind]


def kill(victims: Callable[[], Sequence[int | None]], goes_on: Callable[[], bool]) -> bool:
    """Kills these processes as soon as they are all there, or those of them that are there in the end. False if none
    was."""
    while None in (processes := victims()) and goes_on():
        pass
    hits = 0
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            if process is not None:
                os.kill(process, signal.SIGKILL)
                hits += 1
    return hits > 0


def has_ended(launcher: subprocess.Popen, program: Path) -> bool:
    """True if the launcher ended. PMIx 4.2 may wait for ever in its own finalization when a rank was killed early: the
    launcher waits for such an mpirun, as a shell would, and it is ended here."""
    if launcher.poll() is None and victim_of(launcher.pid, "rank", program) is None:
        mpirun = victim_of(launcher.pid, "mpirun", program)
        with contextlib.suppress(OSError):  # It may end at any moment.
            if mpirun and waits(mpirun) and age_of(mpirun) > PATIENCE_S / 6:
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


Once = Callable[[Path, str], str]
"""Does one kill: given a new directory and what to kill, it returns what was found, or raises `WrongError`."""


class Worker:
    """What one of the processes that kill has of its own."""

    folder: Path
    once: Once


def begin(prepare: Callable[[Path], Once], top: Path, is_own: bool) -> None:
    """In such a process: it has its own shared memory and network, so that no two see what the other one left."""
    if is_own:
        namespaces.become_own()
    Worker.folder = Path(tempfile.mkdtemp(prefix="", dir=top))
    # Two mpirun that start at once may fail to make the same directory.
    ON_ONE_MACHINE["TMPDIR"] = str(Worker.folder)
    Worker.once = prepare(Worker.folder)


def try_once(kind: str, number: int, seed: int) -> tuple[str, str]:
    """What was found, and what was wrong. Each kill has choices of its own, however many there are."""
    random.seed(f"{seed} {kind} {number}")
    folder = Worker.folder / str(number)
    folder.mkdir()
    try:
        return Worker.once(folder, kind), ""
    except WrongError as error:
        return "WRONG", f"{kind}, kill {number}: {error}"
    finally:
        shutil.rmtree(folder)


def repeat(text: str, kinds: Sequence[str], prepare: Callable[[Path], Once]) -> int:
    """Asks how often, and kills so often a process of each kind. Returns 1 if anything was wrong.

    `prepare` makes what all runs of a process share in a directory and returns what does one.
    """
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first kill, to go on or to repeat one")
    parser.add_argument("--victim", choices=kinds, action="append", metavar="VICTIM", help=", ".join(kinds))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="kills at the same time; only root can do more than one")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    is_own = namespaces.may_be_own()
    jobs = arguments.jobs if is_own else 1
    numbers = range(arguments.first, arguments.first + arguments.times)
    wrong = 0
    with (
        tempfile.TemporaryDirectory(prefix="knarr-kills-") as directory,
        ProcessPoolExecutor(jobs, initializer=begin, initargs=(prepare, Path(directory), is_own)) as pool,
    ):
        begun = {
            kind: [pool.submit(try_once, kind, number, arguments.seed) for number in numbers]
            for kind in arguments.victim or kinds
        }
        for kind, futures in begun.items():
            found = collections.Counter()
            for future in futures:
                what, error = future.result()
                found[what] += 1
                if error:
                    wrong += 1
                    print(error, flush=True)
            print(f"{kind:36} " + ", ".join(f"{what} {count}" for what, count in sorted(found.items())), flush=True)
    return min(wrong, 1)
