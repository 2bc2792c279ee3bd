#!/usr/bin/env python3
"""Runs PnetCDF's own test programs plain and under `knarr run`, and compares answers and files.

    .venv/bin/python tests/suites/pnetcdf.py                                   # Open MPI, netcdf4 and classic
    .venv/bin/python tests/suites/pnetcdf.py --mpi mpich --only testcases/vectors

Debian's source package of PnetCDF is built in target/suites, with shared libraries, for the MPI that is asked for
(autoconf, automake, libtool and m4 have to be there); --build names a tree that was built before. On one core the
build takes five minutes, and the tests 20 for each output.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from fetching import PLACE, source
from others import OUT, Case, options, table

DIRECTORIES = {
    *("testcases", "nonblocking", "nc_test", "C", "header", "cdf_format", "fandc"),
    *("nf_test", "nf90_test", "F90", "burst_buffer"),
}
# They write or read many gigabytes.
LEFT_OUT = {"last_large_var", "large_var_cdf5", "dim_cdf12", "high_dim_var", "bigrecords"}
PARTS = r"### +\d+ +FAILURES TESTING +(\w+)"
SERIAL = {"nc_test", "nf_test", "nf90_test", "tst_io", "tst_misc"}
"""Programs that refuse to run with several ranks, or that PnetCDF runs with one only. One rank of `tst_misc` makes a
file of all ranks while the others wait elsewhere."""
COMPILERS = {"MPICC": "mpicc", "MPIF77": "mpif77", "MPIF90": "mpif90"}


def built(mpi: str) -> Path:
    """A tree of PnetCDF that is built for an MPI, with its test programs."""
    unpacked, folder = source("pnetcdf"), PLACE / f"pnetcdf-{mpi}"
    if not (folder / "is-built").exists():
        folder.mkdir(exist_ok=True)
        if not (unpacked / "configure").exists():
            go_on(unpacked)
            subprocess.run(["autoreconf", "-i"], cwd=unpacked, check=True)
        fortran = "-g -O2 -fallow-argument-mismatch"
        compilers = [f"{variable}=/usr/bin/{name}.{mpi}" for variable, name in COMPILERS.items()]
        configure = [unpacked / "configure", "--enable-shared", "--disable-static", "--disable-cxx", *compilers]
        subprocess.run([*configure, f"FFLAGS={fortran}", f"FCFLAGS={fortran}", "CFLAGS=-g -O2"], cwd=folder, check=True)
        subprocess.run(["make", "tests"], cwd=folder, check=True)
        (folder / "is-built").touch()
    return folder


def go_on(unpacked: Path) -> None:
    """The largest programs stop at the first function whose test fails. These are to test all of them."""
    stops = {
        "nc_test/nc_test.c": (r"(nfails,func_name\);\s*\\\n\s*)goto fn_exit;", r"\1nfails = 0;"),
        "nf_test/nf_test.F": (r"(Stop \.\.\. ###'\n).*\n +stop 2\n", r"\1"),
        "nf90_test/nf90_test.F90": (r"(Stop \.\.\. ###'\n).*\n +stop 2\n", r"\1"),
    }
    for name, (pattern, kept) in stops.items():
        path = unpacked / "test" / name
        text, count = re.subn(pattern, kept, path.read_text())
        if count != 1:
            raise SystemExit(f"{path} does not stop where it did")
        path.write_text(text)


def cases(build: Path, sources: Path) -> Iterator[Case]:
    """Executables of the test directories; libtool's are scripts."""
    for directory in sorted(DIRECTORIES):
        for path in sorted((build / "test" / directory).iterdir()):
            is_program = path.is_file() and os.access(path, os.X_OK) and not path.suffix
            if is_program and path.name not in LEFT_OUT:
                yield from cases_of(path, sources / "test" / directory)


def cases_of(program: Path, data: Path) -> Iterator[Case]:
    """How PnetCDF's own scripts run a program."""
    name, folder = f"{program.parent.name}/{program.name}", program.parent
    file = f"{OUT}/{program.name}.nc"
    ranks = 1 if program.name in SERIAL else 4
    match program.name:
        case "nc_test" | "nf_test" | "nf90_test":
            for version in ("", "-2", "-5"):
                command = [program, *version.split(), "-d", OUT]
                # They try to open a file that is none of netCDF: themselves, or a source.
                other = folder / "test_get.F90" if program.name == "nf90_test" else program
                yield Case(f"{name}{version}", [command], ranks, files=[other], parts=PARTS)
        case "pres_temp_4D_wr":
            yield Case(name, [[program, file], [folder / "pres_temp_4D_rd", file]], ranks)
        case "pres_temp_4D_rd":
            return
        case "test_inq_format" | "tst_corrupt":
            yield Case(name, [[program, data]], ranks)
        case "tst_open_cdf5":
            yield Case(name, [[program, data / "bad_begin.nc5"]], ranks)
        case "tst_io":
            yield Case(name, [[program, OUT]], ranks)
        case _:
            yield Case(name, [[program, file]], ranks)


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--build", type=Path, help="a tree that is built already")
    chosen = parser.parse_args()
    build = chosen.build.resolve() if chosen.build else built(chosen.mpi)
    sources = build if (build / "configure").exists() else source("pnetcdf")
    return table("pnetcdf", chosen, list(cases(build, sources)), ("netcdf4", "classic"))


if __name__ == "__main__":
    sys.exit(main())
