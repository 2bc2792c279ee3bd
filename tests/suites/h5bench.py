#!/usr/bin/env python3
"""Runs the write and read patterns of h5bench plain and under `knarr run`, and compares what is read and the files.

    git clone https://github.com/hpc-io/h5bench
    .venv/bin/python tests/suites/h5bench.py --sources h5bench --stage

The programs are built from their sources with one `mpicc` line each, and run unchanged, with the parameters of the
samples that come with h5bench; only long dimensions are divided by 64, and nothing is computed between steps. All
programs of a sample share one run of Knarr: what one has written, the next one reads, changes, or adds to. In the end
h5py reads every value in the same run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from fetching import PLACE
from others import Case, options, table

FILES = {
    "write": "h5bench_write",
    "write_normal_dist": "h5bench_write_normal_dist",
    "write-unlimited": "h5bench_write_unlimited",
    "overwrite": "h5bench_overwrite",
    "append": "h5bench_append",
    "read": "h5bench_read",
}
"""Source of each kind of benchmark."""
OPERATIONS = {"overwrite": "OVERWRITE", "append": "APPEND"}
"""Key of their configurations; all others know what they do."""
BEFORE = {"overwrite": "write"}
"""What has to have written the file, where a sample does not say it."""
LONG, PART, RANKS = 1 << 19, 64, 2
ALIKE = r"^(?:dims|Total (?:particles|read|write)|Number of|Failed|sum).*"
READS_ALL = """
import h5py, zlib
crc = 0
def add(name, node):
    global crc
    if isinstance(node, h5py.Dataset):
        crc = zlib.crc32(node[...].tobytes(), zlib.crc32(name.encode(), crc))
with h5py.File("test.h5") as file:
    file.visititems(add)
print("sum", crc)
"""
# It does not look for modules in the directory of the file: to list that would wait until the file is in its place.
SUM = (sys.executable, "-P", "-c", READS_ALL)
SEED = """
#include <stdlib.h>
/* The programs seed their values with the time, and two runs are to write the same ones: another rank others. */
void srand(unsigned seed)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    srandom(1 + atoi(rank ? rank : getenv("PMI_RANK")));
}
"""


def built(mpi: str, sources: Path) -> Path:
    """A directory with the programs."""
    folder = PLACE / f"h5bench-{mpi}"
    folder.mkdir(parents=True, exist_ok=True)
    libraries = next(Path("/usr/lib").glob(f"*/hdf5/{mpi}"))
    (folder / "seed.c").write_text(SEED)
    for name in FILES.values():
        files = [sources / "h5bench_patterns" / f"{name}.c", sources / "commons" / "h5bench_util.c", "seed.c"]
        flags = ["-O1", "-w", f"-I/usr/include/hdf5/{mpi}", f"-I{sources / 'commons'}"]
        linked = [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lhdf5", "-lm"]
        if not (folder / name).exists():
            subprocess.run([f"mpicc.{mpi}", *flags, *files, "-o", name, *linked], check=True, cwd=folder)
    return folder


def configuration(kind: str, keys: dict[str, str]) -> str:
    """What h5bench's own script would write for a program."""
    shorter = {key: str(int(value) // PART) for key, value in keys.items() if value.isdigit() and int(value) >= LONG}
    own = {"EMULATED_COMPUTE_TIME_PER_TIMESTEP": "0 s"}
    if kind in OPERATIONS:
        own["IO_OPERATION"] = OPERATIONS[kind]
    lines = {key: value for key, value in (keys | shorter | own).items() if key != "MODE"}
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def cases(folder: Path, sources: Path) -> Iterator[Case]:
    for sample in sorted((sources / "samples").glob("sync-*.json")):
        named = json.loads(sample.read_text())["benchmarks"]
        benchmarks = [(each["benchmark"], each["configuration"]) for each in named]
        first, parameters = benchmarks[0]
        if first in BEFORE:
            benchmarks.insert(0, (BEFORE[first], parameters))
        if not all(kind in FILES for kind, _ in benchmarks):
            continue
        commands = []
        for number, (kind, keys) in enumerate(benchmarks):
            file = folder / f"{sample.stem}-{number}.cfg"
            file.write_text(configuration(kind, keys))
            commands.append([folder / FILES[kind], file, "test.h5"])
        yield Case(sample.stem, commands, RANKS, after=SUM, alike=ALIKE)


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--sources", type=Path, required=True, help="h5bench, as it is on GitHub")
    chosen = parser.parse_args()
    sources = chosen.sources.resolve()
    return table("h5bench", chosen, list(cases(built(chosen.mpi, sources), sources)), ("netcdf4",))


if __name__ == "__main__":
    sys.exit(main())
