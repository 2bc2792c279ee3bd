"""How long output blocks an MPI program, when it is on the disk, and what it costs: with `knarr run` and without.

Four ranks on one node write four variables of 64 MiB a step. The values are real fields, repeated with mirrored edges
to the size that is wanted: the table says how well deflate compresses them. Steps lie seconds apart, in which the ranks
sleep: this measures the calls, not what is done beside the program. *Until durable* is the time from the start until
all is published and on the disk, less the pauses. *Read back* is the time in which one process then reads all values of
the last step from the disk, after the system was told to forget what it has cached (as root; else it is left out).

Debian's PnetCDF has no burst buffer: its sources are built with one, in target/suites. It is in memory, as `knarr run`
hands values over in memory.

`measure_calls` writes each block in one call or in sixteen, with the other ranks or without, as IOR does with the size
of a transfer.
"""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import burst_buffer
from measure import run_measured
from real_variables import real_variables
from scale_tables import Table

ROOT = Path(__file__).resolve().parent.parent
KNARR = ROOT / "target" / "release" / "knarr"
SOURCES = [Path(__file__).with_name("io") / name for name in ("steps.c", "layers.c", "records.c", "block.c")]
DEPTH, SIDE, VARIABLES = 64, 512, 4
STEP_BYTES = VARIABLES * DEPTH * SIDE * SIDE * 4
STEPS, PAUSE_S = 4, 2.0
MODES = {
    "memory": "memory copy",
    "posix": "POSIX, a file of each rank",
    "mpiio": "MPI-IO",
    "pnetcdf": "PnetCDF",
    "buffer": "PnetCDF, burst buffer in memory",
    "knarr": "PnetCDF under knarr run",
    "knarr zarr": "PnetCDF under knarr run, Zarr",
    "hdf5": "parallel HDF5",
    "knarr hdf5": "parallel HDF5 under knarr run",
    "netcdf4": "parallel netCDF-4",
    "knarr4": "parallel netCDF-4 under knarr run",
    "deflate": "parallel netCDF-4, shuffle and deflate 1",
    "gather": "gather, then netCDF-4 with deflate 1",
    "zarr": "zarr-python, chunks of each rank",
    "zarrs": "zarr-python with the codecs of zarrs",
}
READERS = {
    "nc": "import netCDF4; f = netCDF4.Dataset(sys.argv[1]); [v[:] for v in f.variables.values()]",
    "zarr": "import zarr; [v[:] for _, v in zarr.open_group(sys.argv[1], mode='r').arrays()]",
    "raw": "import numpy; [numpy.fromfile(path, 'f4') for path in sys.argv[1:]]",
}
"""Programs that read all values of a step."""
TIMED = "import sys, time\nbegin = time.monotonic()\n{}\nprint(time.monotonic() - begin)"
FORGET = Path("/proc/sys/vm/drop_caches")
UNDER_KNARR = {"knarr": "pnetcdf", "knarr zarr": "pnetcdf", "knarr hdf5": "hdf5", "knarr4": "netcdf4"}
RULE = '[[file]]\npattern = "*.nc"\n'
KEYS = {"knarr zarr": 'output = "zarr"\n'}
CALLS = ("mpiio", "pnetcdf", "knarr", "hdf5", "knarr hdf5", "netcdf4", "knarr4")
"""Ways whose calls can be of other sizes, and independent."""
PLACES = ("memory", "disk")
VARIANTS = {
    ",calls=1": "one call",
    ",calls=16": "16 calls",
    ",independent": "independent",
    ",independent,calls=16": "16 independent",
}
FIELDS = ("A1B_north_america.air_temperature", "ocean_atlas_subset.TEMP", "monthly_navy_winds.UWND", "vinth2p.T")


@dataclass
class Result:
    """Of one way to write: seconds of each step but the first, and what is there afterwards."""

    mode: str
    place: str
    blocked_s: list[float]
    total_s: float
    until_durable_s: float
    cpu_s: float
    output_bytes: int
    read_back_s: float | None
    """Of the last step, from the disk."""


def write_values(path: Path) -> None:
    """Raw floats of `VARIABLES` variables."""
    by_name = {variable.name: variable.values for variable in real_variables()}
    with open(path, "wb") as file:
        for name in FIELDS:
            values = np.asarray(by_name[name], "f4").squeeze()
            values = values.reshape(-1, *values.shape[-2:])
            for axis, wanted in enumerate((DEPTH, SIDE, SIDE)):
                while values.shape[axis] < wanted:
                    values = np.concatenate([values, np.flip(values, axis)], axis)
                values = np.take(values, range(wanted), axis)
            file.write(np.ascontiguousarray(values).tobytes())


def build(folder: Path) -> Path:
    program = folder / "steps"
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "netcdf-mpi"], check=True, capture_output=True, text=True
    ).stdout.split()
    # Debian's description of the package leaves its headers out.
    flags += [f"-I{path}" for path in Path("/usr/lib").glob("*/netcdf/mpi/include")]
    flags += [f"-L{path}" for path in Path("/usr/lib").glob("*/hdf5/openmpi")] + ["-I/usr/include/hdf5/openmpi"]
    subprocess.run(["mpicc.openmpi", "-O2", "-o", program, *SOURCES, *flags, "-lpnetcdf", "-lhdf5"], check=True)
    return program


def command_of(program: Path, mode: str, variant: str, out: Path, values: Path, pause: float) -> list[object]:
    way = {**UNDER_KNARR, "buffer": "pnetcdf"}.get(mode, mode) + variant
    program = [sys.executable, SOURCES[0].with_name("zarr_steps.py")] if mode in ("zarr", "zarrs") else [program]
    command = ["mpirun", "--oversubscribe", "-n", "4", *program, way, out / "s", STEPS, pause, values]
    if mode in UNDER_KNARR:
        (out / "knarr.toml").write_text(RULE + KEYS.get(mode, ""))
        command = [KNARR, "run", "-q", "-c", out / "knarr.toml", "--", *command]
    return command


def run(program: Path, mode: str, place: Path, values: Path, variant: str = "", pause: float = PAUSE_S) -> Result:
    with tempfile.TemporaryDirectory(dir=place) as name, tempfile.TemporaryDirectory(dir="/dev/shm") as buffer:
        out = Path(name)
        command = ["sh", "-c", '"$@" > "$0"', out / "said", *command_of(program, mode, variant, out, values, pause)]
        environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        environment |= burst_buffer.environment(Path(buffer)) if mode == "buffer" else {}
        subprocess.run(["sync"], check=True)
        begin = time.monotonic()
        measured = run_measured([str(word) for word in command], environment)
        if measured.exit_code != 0:
            raise SystemExit(f"{mode}{variant} in {place}: exit code {measured.exit_code}")
        files = [path for path in out.glob("s*") for path in (path.rglob("*") if path.is_dir() else [path])]
        files = [path for path in files if path.is_file()]
        for path in files:
            with path.open("rb") as file:
                os.fsync(file)
        durable = time.monotonic() - begin - STEPS * pause
        # The first step finds memory that nobody has used.
        blocked = [float(line.split()[0]) for line in (out / "said").read_text().splitlines()][1:]
        size = sum(path.stat().st_size for path in files if not path.name.endswith(".knarr.json"))
        shown = "memory" if place.parts[1] == "dev" else "disk"
        again = read_back(mode, out) if shown == "disk" else None
        return Result(mode + variant, shown, blocked, measured.wall_s, durable, measured.cpu_s, size // STEPS, again)


def read_back(mode: str, out: Path) -> float | None:
    """Seconds in which one process reads the last step from the disk."""
    paths = sorted(path for path in out.glob(f"s{STEPS - 1}.*") if not path.name.endswith(".knarr.json"))
    if not os.access(FORGET, os.W_OK) or not paths:
        return None
    kind = "raw" if mode in ("posix", "mpiio") else "zarr" if paths[0].is_dir() else "nc"
    FORGET.write_text("3")
    plugins = {"HDF5_PLUGIN_PATH": str(KNARR.parent / "hdf5-plugins")}
    command = [sys.executable, "-c", TIMED.format(READERS[kind]), *map(str, paths)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **plugins})
    return float(done.stdout)


@contextlib.contextmanager
def prepared() -> Iterator[tuple[Path, Path, Path]]:
    """A folder on the disk, the program, and its values."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, values = build(folder), folder / "values.raw"
        write_values(values)
        yield folder, program, values


def measure(repeats: int) -> list[dict]:
    """Every way in turn, `repeats` times, in memory and on the disk."""
    with prepared() as (folder, program, values):
        places = (Path("/dev/shm"), folder)
        return [asdict(run(program, mode, place, values)) for _ in range(repeats) for place in places for mode in MODES]


def measure_calls(repeats: int) -> list[dict]:
    """Calls of other sizes, and independent ones, in memory."""
    with prepared() as (_, program, values):
        ways = [(mode, variant) for variant in VARIANTS for mode in CALLS]
        return [
            asdict(run(program, mode, Path("/dev/shm"), values, variant, 0.5))
            for _ in range(repeats)
            for mode, variant in ways
        ]


def median(results: list[dict], mode: str, place: str, field: str) -> float:
    found = [one[field] for one in results if (one["mode"], one["place"]) == (mode, place)]
    if None in found or not found:
        return math.nan
    return statistics.median(number for one in found for number in (one if isinstance(one, list) else [one]))


def table(results: list[dict], place: str) -> Table:
    heads = ["way", ">blocked, s", ">of a copy", ">until durable, s", ">CPU s", ">MB a step", ">read back, s"]
    copy = median(results, "memory", place, "blocked_s")
    rows = []
    for mode, title in MODES.items():
        blocked, durable, cpu, size, again = (
            median(results, mode, place, field)
            for field in ("blocked_s", "until_durable_s", "cpu_s", "output_bytes", "read_back_s")
        )
        sizes = "" if mode == "memory" else f"{size / 1e6:.1f}"
        row = [title, f"{blocked:.3f}", f"{blocked / copy:.1f}", f"{durable:.1f}", f"{cpu:.1f}", sizes]
        rows.append([*row, "" if math.isnan(again) else f"{again:.2f}"])
    if all(not row[-1] for row in rows):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    return Table(heads, rows)


def table_of_calls(results: list[dict]) -> Table:
    def cells(mode: str) -> list[str]:
        return [f"{median(results, mode + variant, 'memory', 'blocked_s'):.3f}" for variant in VARIANTS]

    return Table(
        ["way", *(f">{title}" for title in VARIANTS.values())], [[MODES[mode], *cells(mode)] for mode in CALLS]
    )
