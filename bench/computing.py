"""What output costs a program that computes on all cores meanwhile, and when the files are there.

Two ranks on two cores sweep a stencil over their block between steps, and write four variables of 64 MiB after each, or
nothing. *Computing* is the time of the sweeps, *blocked* that from create to close, both on the slowest rank. *Until
durable* is all of it: until the program has ended, Knarr has published every file, and all bytes are on the disk. Each
step is a file, or a record of one file that is open until the end.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from measure import run_measured
from parallel_output import KNARR, STEP_BYTES, prepared

STEPS, SWEEPS = 5, 30
WAYS = {
    "nothing": "nothing",
    "knarr nothing": "nothing",
    "pnetcdf": "pnetcdf",
    "knarr": "pnetcdf",
    "knarr fast": "pnetcdf",
    "netcdf4": "netcdf4",
    "knarr4": "netcdf4",
    "deflate": "deflate",
    "pnetcdf open": "pnetcdf,open",
    "knarr open": "pnetcdf,open",
    "knarr fast open": "pnetcdf,open",
    "netcdf4 open": "netcdf4,open",
    "knarr4 open": "netcdf4,open",
    "deflate open": "deflate,open",
}
RULE = '[[file]]\npattern = "*.nc"\n'
# What costs least: readers need a filter of hdf5plugin.
FAST = 'goal = "speed"\nportable = "standard"\n'
KEYS = {"knarr fast": FAST, "knarr fast open": FAST}


@dataclass
class Result:
    """Of one run: seconds of each step, and of all of it."""

    way: str
    place: str
    computing_s: list[float]
    blocked_s: list[float]
    until_durable_s: float
    cpu_s: float
    output_bytes: int


def run(program: Path, way: str, place: Path, values: Path) -> Result:
    with tempfile.TemporaryDirectory(dir=place) as name:
        out = Path(name)
        said = out / "said"
        ranks = ["mpirun", "--oversubscribe", "-n", "2", program, WAYS[way], out / "s", STEPS, 0, values, SWEEPS]
        command = ["sh", "-c", '"$@" > "$0"', said]
        if way.startswith("knarr"):
            (out / "knarr.toml").write_text(RULE + KEYS.get(way, ""))
            command += [KNARR, "run", "-q", "-c", out / "knarr.toml", "--"]
        subprocess.run(["sync"], check=True)
        begin = time.monotonic()
        environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        measured = run_measured([str(word) for word in [*command, *ranks]], environment)
        files = sorted(out.glob("*.nc"))
        for path in files:
            with path.open("rb") as file:
                os.fsync(file)
        total = time.monotonic() - begin
        if measured.exit_code != 0:
            raise SystemExit(f"{way} in {place}: exit code {measured.exit_code}")
        steps = [tuple(map(float, line.split()[:2])) for line in said.read_text().splitlines()]
        blocked, computing = ([step[column] for step in steps] for column in (0, 1))
        size = sum(path.stat().st_size for path in files)
        return Result(way, place.parts[1], computing, blocked, total, measured.cpu_s, size)


def measure(repeats: int) -> list[dict]:
    """Every way in turn, `repeats` times, in memory and on the disk."""
    results = []
    with prepared() as (folder, program, values):
        for _ in range(repeats):
            for place in (Path("/dev/shm"), folder):
                results += [asdict(run(program, way, place, values)) for way in WAYS]
    return results


def table(results: list[dict]) -> str:
    lines = [
        "| place | way | computing, s a step | of nothing | blocked, s a step | until durable, s | CPU s | MB a step |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for place, said in (("dev", "memory"), ("tmp", "disk")):

        def of(way: str, field: str, place: str = place) -> list[float]:
            found = [one[field] for one in results if (one["way"], one["place"]) == (way, place)]
            return [number for value in found for number in (value if isinstance(value, list) else [value])]

        alone = statistics.median(of("nothing", "computing_s"))
        for way in WAYS:
            computing, blocked, total, cpu, size = (
                statistics.median(of(way, field))
                for field in ("computing_s", "blocked_s", "until_durable_s", "cpu_s", "output_bytes")
            )
            lines.append(
                f"| {said} | {way} | {computing:.3f} | {computing / alone:.3f} | {blocked:.3f} | {total:.2f} "
                f"| {cpu:.2f} | {size / STEPS / 1e6:.1f} |"
            )
    lines.append(f"\n{STEP_BYTES / 1e6:.1f} MB of values a step, {STEPS} steps a run.")
    return "\n".join(lines)
