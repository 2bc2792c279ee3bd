"""How soon `knarr run` is done with several files: many small ones at the end of a program, and a small one that a
program waits for while a large one is packed.

Figures are seconds: the median of several rounds. `--knarr` names another build to compare with.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
KNARR = REPOSITORY / "target" / "release" / "knarr"
ROUNDS = 3
SMALL_FILES = 200
CONFIG = '[[file]]\npattern = "large*"\ngoal = "ratio"\n[[file]]\npattern = "*"\n'

# Writes many small files and ends.
MANY = """
import h5py, numpy as np, sys, time
field = np.cumsum(np.random.default_rng(1).normal(size=(64, 256)), axis=1).astype("f4")
for number in range(int(sys.argv[1])):
    with h5py.File(f"small_{number:04}.h5", "w") as file:
        file["T"] = field + number
open("ended", "w").write(str(time.time()))
"""

# Writes a large file that is packed when it is closed.
LARGE = """
import h5py, numpy as np
field = np.cumsum(np.random.default_rng(1).normal(size=(64, 1024, 1024)), axis=2).astype("f4")
with h5py.File("large.h5", "w") as file:
    file["T"] = field
"""

# Hands over a small file.
SMALL = """
#include <mpi.h>
#include <pnetcdf.h>
#include <stdlib.h>
int main(int count, char **arguments) {
    int file, dimension, variable;
    float *values = malloc(sizeof(float) << 18);
    MPI_Offset start = 0, length = 1 << 18;
    MPI_Init(&count, &arguments);
    for (int n = 0; n < 1 << 18; n++) values[n] = n * 0.25f;
    ncmpi_create(MPI_COMM_WORLD, "small.nc", NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file);
    ncmpi_def_dim(file, "x", length, &dimension);
    ncmpi_def_var(file, "T", NC_FLOAT, 1, &dimension, &variable);
    ncmpi_enddef(file);
    ncmpi_put_vara_float_all(file, variable, &start, &length, values);
    ncmpi_close(file);
    MPI_Finalize();
    return 0;
}
"""

# Whoever reads a name that is pending waits.
WAITS = """
import pathlib, subprocess, sys, time
subprocess.run([sys.executable, "large.py"], check=True)
time.sleep(0.3)
subprocess.run(["./small"], check=True)
begin = time.time()
subprocess.run(["cat", "small.nc"], check=True, stdout=subprocess.DEVNULL)
pathlib.Path("waited").write_text(str(time.time() - begin))
"""


def under_knarr(knarr: Path, folder: Path, *command: str) -> float:
    """Runs a command. Returns when all its files were done."""
    (folder / "knarr.toml").write_text(CONFIG)
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    inner = [str(knarr), "run", "-c", "knarr.toml", "--json", "result.json", "--", *command]
    subprocess.run(inner, cwd=folder, env=environment, check=True, capture_output=True)
    return time.time()


def small_files(knarr: Path, folder: Path) -> float:
    """Seconds from the end of a program until its small files are packed."""
    done = under_knarr(knarr, folder, sys.executable, "-c", MANY, str(SMALL_FILES))
    files = json.loads((folder / "result.json").read_text())["files"]
    assert len(files) == SMALL_FILES, files[:2]
    return done - float((folder / "ended").read_text())


def awaited(knarr: Path, folder: Path) -> float:
    """Seconds that a program waits for a small file while a large one is packed."""
    (folder / "large.py").write_text(LARGE)
    (folder / "small.c").write_text(SMALL)
    subprocess.run(["mpicc", "-O2", "small.c", "-o", "small", "-lpnetcdf"], cwd=folder, check=True)
    under_knarr(knarr, folder, sys.executable, "-c", WAITS)
    return float((folder / "waited").read_text())


CASES = {f"{SMALL_FILES} small files at the end": small_files, "waits while a large file is packed": awaited}


def measure(knarr: Path = KNARR, rounds: int = ROUNDS) -> list[dict]:
    """A row for each case."""
    rows = []
    for what, case in CASES.items():
        seconds = []
        for _ in range(rounds):
            folder = Path(tempfile.mkdtemp(prefix="knarr-several-"))
            try:
                seconds.append(case(knarr, folder))
            finally:
                shutil.rmtree(folder)
        rows.append({"what": what, "seconds": statistics.median(seconds), "all": seconds})
    return rows


def table(rows: list[dict]) -> str:
    return "\n".join(
        ["| case | seconds |", "|---|---|", *(f"| {row['what']} | {row['seconds']:.2f} |" for row in rows)]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--knarr", type=Path, default=KNARR)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    print(table(measure(given.knarr.resolve(), given.rounds)))
