#!/usr/bin/env python3
"""Runs LAMMPS, Meep, ADIOS2, SQLite and the tools of a shell plain and under `knarr run`, and compares.

    .venv/bin/python tests/suites/codes.py --stage                            # all, everything waits in tiers
    .venv/bin/python tests/suites/codes.py --stage --only lammps sqlite/modes

What each writes, reads again, and goes on from lies in `codes`. All programs of a case are in one run of Knarr, so that
they read what is not in its place yet. Files of HDF5 have to hold the same, all others to be the same, byte for byte;
and what the programs say has to be, where it does not tell times.

    apt-get install --no-install-recommends lammps python3-meep-mpi-default sqlite3

ADIOS2 comes from PyPI, into `target/suites`; it has no HDF5 there. Debian's LAMMPS has neither HDF5 nor netCDF.
Programs that are not there are named, and left out.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from fetching import PLACE
from others import Case, options, table

CODES = Path(__file__).with_name("codes")
DEBIAN_PYTHON = "/usr/bin/python3"
ADIOS2 = "adios2==2.12.1.1001"
TOOLS = PLACE / ADIOS2
ENGINES = ("BP3", "BP4", "BP5")
TIMED = ("profiling.json", "md.idx")
"""Files of ADIOS2 that tell times."""
JOURNALS = ("persist.db-journal",)
"""A number in them is chosen by chance."""
DATABASES = ("modes", "writers", "readers")
FOUND = ["ls", "-R"]
SAYS_STEPS = r"^ +\d+ +-?\d.*$"
SAYS_ALL = r"^(?!file |Values |Files ).+$"


def is_there(*command: str) -> bool:
    """True if a program can be started. Says so if not."""
    try:
        done = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        done = False
    if not done:
        print(f"left out: there is no {' '.join(command)}", flush=True)
    return done


def adios2() -> dict[str, str]:
    """Where Python finds ADIOS2, which is installed if it was not."""
    if not TOOLS.exists():
        fetch = ["-m", "pip", "install", "-q", "--no-deps", "--target", TOOLS, ADIOS2]
        subprocess.run([sys.executable, *fetch], check=True)
    return {"PYTHONPATH": str(TOOLS)}


def cases() -> Iterator[Case]:
    serial = {"OMP_NUM_THREADS": "1"}
    if is_there("lmp", "-help"):
        commands = [["lmp", "-log", "none", "-in", CODES / name] for name in ("melt.in", "again.in")]
        yield Case("lammps", commands, 2, serial, after=FOUND, alike=SAYS_STEPS, is_exact=True)
    if is_there(DEBIAN_PYTHON, "-c", "import meep"):
        command = [DEBIAN_PYTHON, "-W", "ignore", CODES / "ring.py"]
        yield Case("meep", [command], 2, serial, after=FOUND, alike=r"^(?:field|flux) .*$", is_exact=True)
    environment = adios2()
    for engine in ENGINES:
        command = [sys.executable, CODES / "steps.py", engine]
        yield Case(
            *(f"adios2/{engine}", [command], 0, environment), apart=TIMED, after=FOUND, alike=SAYS_ALL, is_exact=True
        )
    if is_there("sqlite3", "-version"):
        for what in DATABASES:
            command = [sys.executable, CODES / "databases.py", what]
            # Databases of several writers have their rows in the order in which they came.
            yield Case(
                *(f"sqlite/{what}", [command], 0), apart=JOURNALS, after=FOUND, alike=SAYS_ALL, is_exact=what == "modes"
            )
    if shutil.which("perl") and shutil.which("xz"):
        command = ["sh", CODES / "tools.sh"]
        yield Case("tools", [command], 0, after=FOUND, alike=SAYS_ALL, is_exact=True)


def main() -> int:
    chosen = options(__doc__).parse_args()
    return table("codes", chosen, list(cases()), ("netcdf4",))


if __name__ == "__main__":
    sys.exit(main())
