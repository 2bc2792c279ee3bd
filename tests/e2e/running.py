"""Runs programs under `knarr run`."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import h5py
import numpy as np
import pytest

from values import smooth_field

# A file whose encoding began while its program ran is encoded at the lowest priority to the end.
TIME_LIMIT_S = 600
SHARED_MEMORY = Path("/dev/shm")
BEFORE = set(SHARED_MEMORY.glob("knarr-spool-*"))
"""What other runs have left there is theirs."""
Found = TypeVar("Found")
MPIRUN = ["mpirun", "--oversubscribe", "-n"]
ALL = '[[file]]\npattern = "*"\n'
# Programs write plain files, which are packed when they are closed.
CLOSE = ALL + 'when = "close"\n'
FIELD = smooth_field((8, 128, 256), seed=1)
# The text of a program that writes one file.
H5PY = """
with h5py.File("a.h5", "w") as file:
    file["T"] = FIELD
    file["T"].attrs["units"] = "K"
"""


@dataclass
class Ran:
    """What a run gave."""

    code: int
    out: str
    err: str
    result: dict

    def file(self, name: str) -> dict:
        """The entry of the one file with this name."""
        found = [file for file in self.result["files"] if Path(file["output"]).name == name]
        assert len(found) == 1, self.result
        return found[0]


class Runner:
    """`runner(*command)` runs it under Knarr in the folder `runner.folder`, where `field.npy` holds FIELD."""

    def __init__(self, program: Path, environment: dict[str, str], folder: Path):
        self.program = program
        self.environment = environment
        self.top = folder
        self.folder = folder / "work"
        self.folder.mkdir()
        self.scratch = folder / ".knarr"
        self.config = ALL
        np.save(self.folder / "field.npy", FIELD)

    def start(
        self, *command: object, config: str | None = None, options: tuple = (), env: dict | None = None, **how: object
    ) -> subprocess.Popen[str]:
        (self.top / "knarr.toml").write_text(self.config if config is None else config)
        arguments = ["run", "-c", self.top / "knarr.toml", "--json", self.top / "result.json", *options, "--"]
        return subprocess.Popen(
            [self.program, *map(str, arguments + list(command))],
            text=True,
            env={**self.environment, "TMPDIR": str(self.top), **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            **how,
        )

    def finish(self, process: subprocess.Popen[str]) -> Ran:
        try:
            out, err = process.communicate(timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        assert "panicked" not in err, err
        assert not list(self.top.glob("knarr-run-*")), "the directory of the run stays behind"
        left = list(self.top.rglob(".*.knarr-*"))
        assert not left, "unfinished files stay behind"
        result = self.top / "result.json"
        return Ran(process.returncode, out, err, json.loads(result.read_text()) if result.exists() else {})

    def __call__(self, *command: object, ok: bool = True, **how: object) -> Ran:
        ran = self.finish(self.start(*command, **how))
        assert not ok or ran.code == 0, f"exit {ran.code}\n{ran.out}\n{ran.err}"
        return ran


def script(text: str) -> list[str]:
    """A Python program; FIELD is the field, and modules that it names are imported."""
    lines = ["import numpy as np, os, sys, time", "FIELD = np.load('field.npy')"]
    lines += [f"import {module}" for module in ("h5py", "netCDF4", "h5netcdf") if f"{module}." in text]
    return [sys.executable, "-c", "\n".join(lines) + "\n" + textwrap.dedent(text)]


def is_packed(path: Path, name: str = "T") -> bool:
    """True if the variable has filters."""
    with h5py.File(path) as file:
        return file[name].chunks is not None and file[name].id.get_create_plist().get_nfilters() > 0


def filters(path: Path, name: str = "T") -> list[int]:
    """Numbers of the filters of a dataset."""
    with h5py.File(path) as file:
        pipeline = file[name].id.get_create_plist()
        return [pipeline.get_filter(number)[0] for number in range(pipeline.get_nfilters())]


def is_abandoned(spool: Path) -> bool:
    """True if no launcher delivers from a spool."""
    try:
        with (spool / "launcher").open() as held:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, FileNotFoundError):
        return False
    return True


def c_program(folder: Path, source: str, parallel: bool = False) -> Path:
    """Builds a C program against Debian's HDF5, serial or parallel."""
    compiler, kind = ("mpicc", "openmpi") if parallel else ("cc", "serial")
    headers = Path("/usr/include/hdf5") / kind
    if not headers.is_dir() or shutil.which(compiler) is None:
        package = "libhdf5-openmpi-dev" if parallel else "libhdf5-dev"
        pytest.skip(f"needs {compiler} and HDF5's headers: run 'make setup' as root, or install {package}")
    includes = "#include <hdf5.h>\n#include <stdio.h>\n" + ("#include <mpi.h>\n" if parallel else "")
    (folder / "program.c").write_text(includes + source)
    libraries = next(Path("/usr/lib").glob(f"*/hdf5/{kind}"))
    options = ["-O1", f"-I{headers}", f"-L{libraries}", f"-Wl,-rpath,{libraries}"]
    command = [compiler, folder / "program.c", "-o", folder / "program", *options, "-lhdf5"]
    subprocess.run(command, check=True)
    return folder / "program"


def until(
    holds: Callable[[], Found],
    what: str = "it never came",
    within: float = TIME_LIMIT_S,
    of: subprocess.Popen[str] | None = None,
) -> Found:
    """Waits until something is there or holds, and returns it; fails with `what` after `within` seconds, or when the
    process that it is to come from has ended.
    """
    end = time.monotonic() + within
    while not (found := holds()):
        assert time.monotonic() < end and (of is None or of.poll() is None), what
        time.sleep(0.005)
    return found


def with_signal(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def moving(folder: Path) -> tuple[int, Path] | None:
    """The process that moves a file of route `stage` to this folder now, and that file."""
    for process in filter(str.isdigit, os.listdir("/proc")):
        # It may end meanwhile.
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[1:2] != [b"worker"]:
                continue
            for opened in os.listdir(f"/proc/{process}/fd"):
                path = Path(os.readlink(f"/proc/{process}/fd/{opened}"))
                if path.parent == folder and ".knarr-" in path.name:
                    return int(process), folder / path.name[1:].partition(".knarr-")[0]
    return None


@contextlib.contextmanager
def nothing_moves(folder: Path) -> Iterator[Path]:
    """Holds the next file that moves to this folder before it has its name there, and all that come after it."""

    def held() -> tuple[int, Path] | None:
        found = moving(folder)
        if found:
            with_signal(found[0], signal.SIGSTOP)
            if moving(folder) != found:
                # It has its name by now.
                with_signal(found[0], signal.SIGCONT)
                return None
        return found

    mover, first = until(held, "nothing moves")
    try:
        yield first
    finally:
        with_signal(mover, signal.SIGCONT)


def wait_for_the_end_of(program: Path) -> None:
    ended = ["pgrep", "-f", f"^{program}"]
    until(lambda: subprocess.run(ended, check=False, capture_output=True).returncode != 0, "the program goes on")


def spools() -> list[Path]:
    """Those that tests have left. Runs that go on beside the tests keep theirs."""
    return sorted(filter(is_abandoned, set(SHARED_MEMORY.glob("knarr-spool-*")) - BEFORE))


@pytest.fixture(autouse=True)
def no_spools_stay() -> Iterator[None]:
    yield
    for spool in spools():
        shutil.rmtree(spool)


def forget(top: Path) -> None:
    """Removes what launchers that were killed have left of their runs."""
    for rest in top.glob("knarr-run-*"):
        shutil.rmtree(rest)


def outlives_its_launcher(run: Runner, knarr: Callable, command: list[object], program: Path, sign: str) -> None:
    """The launcher is killed when `sign` is in its spool. What the program still writes is not taken."""
    launcher = run.start(*command)
    until(lambda: list(SHARED_MEMORY.glob(f"knarr-spool-{launcher.pid}-*/*/{sign}")), "nothing is handed over")
    time.sleep(0.5)
    launcher.kill()
    launcher.wait()
    (spool,) = spools()
    assert "still writes the file" in knarr("run", "--recover", spool, ok=False).stderr
    (run.folder / "go").touch()
    wait_for_the_end_of(program)
    knarr("run", "--recover", spool)
    forget(run.top)


def is_killed_at_any_moment(run: Runner, knarr: Callable, command: list[object], program: Path, plain: Path) -> None:
    """The launcher is: the file is absent or whole, and afterwards it is there."""
    hist, made, left = run.folder / f"hist{plain.suffix}", 0, 0
    for delay in (0.05, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 2, 5, 10, 20):
        if delay > 1 and made + left:
            break
        hist.unlink(missing_ok=True)
        launcher = run.start(*command)
        time.sleep(delay)
        launcher.kill()
        # Its program may go on, and has the same output.
        launcher.communicate(timeout=TIME_LIMIT_S)
        wait_for_the_end_of(program)
        if hist.exists():
            made += 1
            knarr("verify", plain, hist)
        for spool in spools():
            left += 1
            if knarr("run", "--recover", spool, ok=False).returncode == 0:
                knarr("verify", plain, hist)
        for spool in spools():
            # Of a file that was only begun nothing can be made.
            shutil.rmtree(spool)
        shutil.rmtree(run.scratch, ignore_errors=True)
        forget(run.top)
    assert made + left > 0


def group_ends(group: int) -> None:
    """Waits until the program, whose launcher is gone, has ended: it is not stopped by that."""
    end = time.monotonic() + TIME_LIMIT_S
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    raise AssertionError("the program does not end")
