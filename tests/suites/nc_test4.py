#!/usr/bin/env python3
"""Runs the parallel tests of netCDF-C plain and under `knarr run`, and compares answers and files.

    .venv/bin/python tests/suites/nc_test4.py
    .venv/bin/python tests/suites/nc_test4.py --only tst_parallel5

The programs are those of Debian's source package (nc_test4, nc_test, h5_test, nc_perf), linked with Debian's parallel
netCDF (libnetcdf-mpi-dev, for Open MPI) of the same version.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from fetching import PLACE, source
from others import Case, options, table

# How often netCDF's scripts run a program, and with how many ranks.
PROGRAMS = {
    "nc_test4/tst_mode": [1],
    "nc_test4/tst_mpi_parallel": [4],
    "nc_test4/tst_parallel": [4],
    "nc_test4/tst_parallel3": [4, 16],
    "nc_test4/tst_parallel4": [1, 2, 4, 8],
    "nc_test4/tst_parallel5": [4],
    "nc_test4/tst_parallel6": [4],
    "nc_test4/tst_nc4perf": [4],
    "nc_test4/tst_simplerw_coll_r": [1, 2, 4],
    "nc_test4/tst_parallel_zlib": [4],
    "nc_test4/tst_parallel_compress": [1, 4],
    "nc_test4/tst_quantize_par": [4],
    "nc_test/tst_parallel2": [4],
    "h5_test/tst_h_par": [4],
    "h5_test/tst_h_par_compress": [4],
}
# What configure would say of Debian's libraries.
CONFIGURED = """
#include <stdint.h>
#define TEMP_LARGE "."
#define CHUNK_CACHE_SIZE 16777216U
#define CHUNK_CACHE_NELEMS 4133
#define CHUNK_CACHE_PREEMPTION 0.75
#define HAVE_UNISTD_H 1
#define HAVE_SYS_TIME_H 1
#define HAVE_STDINT_H 1
#define HAVE_H5Z_SZIP 1
#define HDF5_PARALLEL 1
#define USE_PARALLEL 1
#define USE_PARALLEL4 1
#define USE_NETCDF4 1
#define USE_HDF5 1
"""


def built(sources: Path) -> Path:
    """A directory with the programs."""
    folder = PLACE / "nc_test4-openmpi"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.h").write_text(CONFIGURED)
    netcdf = next(Path("/usr/lib").glob("*/netcdf/mpi"))
    hdf5 = next(Path("/usr/lib").glob("*/hdf5/openmpi"))
    places = [folder, netcdf / "include", "/usr/include/hdf5/openmpi", sources / "include", sources / "h5_test"]
    libraries = [word for place in (netcdf, hdf5) for word in (f"-L{place}", f"-Wl,-rpath,{place}")]
    for name in PROGRAMS:
        program = folder / Path(name).name
        if not program.exists():
            flags = ["-O1", "-w", "-DHAVE_CONFIG_H", *(f"-I{place}" for place in places)]
            files = [sources / f"{name}.c", "-o", program]
            subprocess.run(["mpicc.openmpi", *flags, *files, *libraries, "-lnetcdf", "-lhdf5", "-lm"], check=True)
    return folder


def cases(folder: Path) -> Iterator[Case]:
    for name, counts in PROGRAMS.items():
        program = Path(name).name
        for count in counts:
            yield Case(f"{program}/{count}", [[folder / program]], count)


def main() -> int:
    chosen = options(__doc__).parse_args()
    return table("nc_test4", chosen, list(cases(built(source("netcdf")))), ("netcdf4", "classic", "zarr"))


if __name__ == "__main__":
    sys.exit(main())
