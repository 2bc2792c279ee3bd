#!/usr/bin/env python3
"""Runs PISM, an ice sheet model, plain and under `knarr run`, and compares the files that it writes.

    .venv/bin/python tests/suites/pism.py SOURCE

SOURCE is a checkout of PISM 2.2 (github.com/pism/pism), which is built in target/suites with PnetCDF and parallel
netCDF-4. Needs libpetsc-real-dev, libgsl-dev, libfftw3-dev, libudunits2-dev, libpnetcdf-dev and libnetcdf-mpi-dev. On
one core the build takes half an hour.

Four ranks run experiment A of EISMINT II and write snapshots, spatial time series and the final state, once with each
of the two libraries. The files of a run that goes on from such a state are compared, too: they are those of a program
that reads what Knarr made.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from fetching import PLACE
from others import Case, options, table

FORMATS = ("pnetcdf", "netcdf4_parallel")
GRID = ("-Mx", "61", "-My", "61", "-Mz", "31")
OUTPUT = (
    *("-extra_file", "ex.nc", "-extra_times", "100", "-extra_vars", "thk,temp,velsurf_mag,usurf,tempsurf,mask"),
    *("-save_file", "snap.nc", "-save_times", "250,500", "-save_size", "medium"),
)


# Times of the clock; and variables that have attributes only, so that PnetCDF's file holds what was there.
APART = ("timestamp", "pism_config", "run_stats")


def built(source: Path) -> Path:
    """The program."""
    folder = PLACE / "pism"
    program = folder / "pism"
    if not (folder / "is-built").exists():
        (folder / "pkgconfig").mkdir(parents=True, exist_ok=True)
        # PISM asks for netcdf, and gets Debian's parallel one.
        (parallel,) = Path("/usr/lib").glob("*/pkgconfig/netcdf-mpi.pc")
        text = parallel.read_text().replace("Cflags: ", "Cflags: -I${prefix}/include ")
        (folder / "pkgconfig" / "netcdf.pc").write_text(text)
        environment = {**os.environ, "PKG_CONFIG_PATH": str(folder / "pkgconfig"), "CC": "mpicc.openmpi"}
        environment["CXX"] = "mpicxx.openmpi"
        flags = ["-DPism_USE_PNETCDF=ON", "-DPism_USE_PARALLEL_NETCDF4=ON", "-DPism_PEDANTIC_WARNINGS=OFF"]
        flags += ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O1", "-DPism_ENABLE_DOCUMENTATION=OFF"]
        subprocess.run(["cmake", "-S", source, "-B", folder, *flags], env=environment, check=True)
        subprocess.run(["make", "-C", folder, "pism", "pism_config"], check=True)
        (folder / "is-built").touch()
    return program


def cases(program: Path) -> Iterator[Case]:
    for name in FORMATS:
        how = ["-config", program.with_name("pism_config.nc"), "-o_format", name, "-verbose", "1"]
        first = [program, "-eisII", "A", *GRID, "-y", "500", *OUTPUT, "-o", "state.nc", *how]
        second = [program, "-i", "state.nc", "-eisII", "A", "-y", "100", "-o", "later.nc", "-o_size", "medium", *how]
        yield Case(name, [first, second], apart=APART)


def main() -> int:
    parser: argparse.ArgumentParser = options(__doc__)
    parser.add_argument("source", type=Path)
    chosen = parser.parse_args()
    return table("pism", chosen, list(cases(built(chosen.source.resolve()))), ("netcdf4", "classic"))


if __name__ == "__main__":
    sys.exit(main())
