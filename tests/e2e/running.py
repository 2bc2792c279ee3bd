"""Runs programs under `knarr run`."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pytest

from values import smooth_field

TIME_LIMIT_S = 120
MPIRUN = ["mpirun", "--oversubscribe", "-n"]
ALL = '[[file]]\npattern = "*"\n'
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
        np.save(self.folder / "field.npy", FIELD)

    def start(
        self, *command: object, config: str = ALL, options: tuple = (), env: dict | None = None, **how: object
    ) -> subprocess.Popen[str]:
        (self.top / "knarr.toml").write_text(config)
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
        out, err = process.communicate(timeout=TIME_LIMIT_S)
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
