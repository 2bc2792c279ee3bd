"""How long output blocks an MPI program: PnetCDF with and without `knarr run`, parallel netCDF-4, gather and deflate.

Four ranks on one node write four variables of 64 MiB a step. The values are real fields, repeated with mirrored edges
to the size that is wanted: the table says how well deflate compresses them. Steps lie seconds apart, in which the ranks
sleep: this measures the calls, not what is done beside the program.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from real_variables import real_variables

ROOT = Path(__file__).resolve().parent.parent
KNARR = ROOT / "target" / "release" / "knarr"
SOURCE = Path(__file__).with_name("io") / "steps.c"
DEPTH, SIDE, VARIABLES = 64, 512, 4
STEP_BYTES = VARIABLES * DEPTH * SIDE * SIDE * 4
STEPS, PAUSE_S = 4, 2.0
MODES = ("memory", "pnetcdf", "knarr", "netcdf4", "knarr4", "deflate", "gather")
UNDER_KNARR = {"knarr": "pnetcdf", "knarr4": "netcdf4"}
FIELDS = ("A1B_north_america.air_temperature", "ocean_atlas_subset.TEMP", "monthly_navy_winds.UWND", "vinth2p.T")


@dataclass
class Result:
    """Of one way to write: seconds of each step but the first, and what is there afterwards."""

    mode: str
    place: str
    blocked_s: list[float]
    total_s: float
    output_bytes: int

    @property
    def median_s(self) -> float:
        return statistics.median(self.blocked_s)


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
    subprocess.run(["mpicc.openmpi", "-O2", "-o", program, SOURCE, *flags, "-lpnetcdf"], check=True)
    return program


def run(program: Path, mode: str, place: Path, values: Path) -> Result:
    with tempfile.TemporaryDirectory(dir=place) as name:
        out = Path(name)
        way = UNDER_KNARR.get(mode, mode)
        command = ["mpirun", "--oversubscribe", "-n", "4", program, way, out / "s", STEPS, PAUSE_S, values]
        if mode in UNDER_KNARR:
            (out / "knarr.toml").write_text('[[file]]\npattern = "*.nc"\n')
            command = [KNARR, "run", "-q", "-c", out / "knarr.toml", "--", *command]
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        begin = time.monotonic()
        done = subprocess.run(
            list(map(str, command)), check=True, capture_output=True, text=True, env=environment, cwd=out
        )
        total = time.monotonic() - begin
        # The first step finds memory that nobody has used.
        blocked = [float(line.split()[0]) for line in done.stdout.splitlines()][1:]
        size = sum(path.stat().st_size for path in out.glob("*.nc"))
        return Result(mode, str(place), blocked, total, size // STEPS)


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
    results = []
    with prepared() as (folder, program, values):
        for _ in range(repeats):
            for place in (Path("/dev/shm"), folder):
                results += [asdict(run(program, mode, place, values)) for mode in MODES]
                for result in results:
                    result["place"] = "memory" if result["place"].startswith("/dev/shm") else result["place"]
                    result["place"] = "disk" if result["place"].startswith("/tmp") else result["place"]
    return results


def table(results: list[dict]) -> str:
    lines = [
        "| place | way | blocked, median s | least to most | of a copy | MB a step |",
        "|---|---|---:|---|---:|---:|",
    ]
    for place in ("memory", "disk"):
        chosen = {
            mode: [s for one in results if (one["mode"], one["place"]) == (mode, place) for s in one["blocked_s"]]
            for mode in MODES
        }
        copy = statistics.median(chosen["memory"])
        for mode in MODES:
            sizes = [one["output_bytes"] for one in results if (one["mode"], one["place"]) == (mode, place)]
            median = statistics.median(chosen[mode])
            spread = f"{min(chosen[mode]):.3f} to {max(chosen[mode]):.3f}"
            size = "-" if mode == "memory" else f"{statistics.median(sizes) / 1e6:.1f}"
            lines.append(f"| {place} | {mode} | {median:.3f} | {spread} | {median / copy:.1f} | {size} |")
    lines.append(f"\n{STEP_BYTES / 1e6:.1f} MB of values a step, {STEPS - 1} steps a run.")
    return "\n".join(lines)
