#!/usr/bin/env python3
"""Couples the example programs of netCDF-C and HDF5: one of a pair writes a file, the other one reads it, unchanged.

    .venv/bin/python tests/suites/transfer_examples.py

Each pair runs plain, one after the other, and then side by side under `knarr run` with route `transfer`. The reader has
to say the same, and there must be no file. Sources are those of Debian's packages. Examples that write classic files
are compiled to write netCDF-4, because Knarr does not see classic files of netCDF-C. Exit code 1 if anything differs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fetching import REPOSITORY, source

KNARR = Path(os.environ.get("KNARR_BIN", REPOSITORY / "target" / "release" / "knarr")).resolve()
TIME_LIMIT_S = 60
RULE = """
[[file]]
pattern = "*"
route = "transfer"
from = "model"
to = ["analysis"]
timeout = "20s"
"""


@dataclass(frozen=True)
class Pair:
    """Two programs in a folder of a source package."""

    package: str
    folder: str
    writes: str
    reads: str


PAIRS = [
    *(
        Pair("netcdf", "examples/C", f"{name}_wr.c", f"{name}_rd.c")
        for name in ("simple_xy", "sfc_pres_temp", "pres_temp_4D", "simple_nc4", "simple_xy_nc4")
    ),
    Pair("hdf5", "examples", "h5_write.c", "h5_read.c"),
    Pair("hdf5", "examples", "h5_extend_write.c", "h5_chunk_read.c"),
]


def words(*command: str) -> list[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def built(pair: Pair, folder: Path) -> tuple[Path, Path]:
    """The program that writes, and the one that reads."""
    libraries = next(Path("/usr/lib").glob("*/hdf5/serial"))
    flags = ["-I/usr/include/hdf5/serial", f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lhdf5"]
    programs = []
    # Some ask the configuration of the package what the library can.
    (folder / "config.h").touch()
    for name in (pair.writes, pair.reads):
        text = (source(pair.package) / pair.folder / name).read_text()
        if "NC_NETCDF4" not in text:
            text = re.sub(r"\bNC_CLOBBER\b", "NC_CLOBBER | NC_NETCDF4", text)
        (folder / name).write_text(text)
        program = folder / name.removesuffix(".c")
        subprocess.run(
            ["cc", "-w", "-I.", folder / name, "-o", program, *words("nc-config", "--libs"), *flags],
            check=True,
            cwd=folder,
        )
        programs.append(program)
    return programs[0], programs[1]


def run_plain(programs: tuple[Path, Path], folder: Path) -> str:
    """What the reader says."""
    folder.mkdir()
    done = [subprocess.run([program], cwd=folder, check=True, capture_output=True, text=True) for program in programs]
    return done[1].stdout


def run_coupled(programs: tuple[Path, Path], folder: Path) -> str:
    """The same. Raises an error if a program fails, or if there is a file."""
    (folder / "work").mkdir(parents=True)
    (folder / "knarr.toml").write_text(RULE)
    started = [
        subprocess.Popen(
            [KNARR, "run", "-q", "-c", folder / "knarr.toml", "--as", name, "--", program],
            cwd=folder / "work",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, program in zip(("model", "analysis"), programs, strict=True)
    ]
    said = []
    for process in started:
        out, err = process.communicate(timeout=TIME_LIMIT_S)
        if process.returncode:
            raise ValueError(f"{process.args[-1]}: exit {process.returncode}: {err}")
        said.append(out)
    if left := list((folder / "work").iterdir()):
        raise ValueError(f"there is a file: {left}")
    return said[1]


def main() -> int:
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="knarr-examples-") as place:
        for number, pair in enumerate(PAIRS):
            folder = Path(place) / str(number)
            folder.mkdir()
            programs = built(pair, folder)
            expected = run_plain(programs, folder / "plain")
            try:
                found = run_coupled(programs, folder / "coupled")
                state = "the same" if found == expected else f"another answer:\n{found}"
            except (ValueError, subprocess.TimeoutExpired) as error:
                state = str(error)
            wrong += state != "the same"
            print(f"{pair.package}: {pair.writes}, {pair.reads}: {state}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
