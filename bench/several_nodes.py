"""What it costs to make one file of what ranks on several nodes have written, beside a file of each rank.

Four ranks write steps of four variables with PnetCDF under `knarr run`, on one node and on four: **emulated nodes**,
each with a launcher, a spool and a port of its own, on one machine, whose processors they share; values go by TCP on
the loopback. *Until durable* is the time from the start until all is published and on the disk, less that of the same
program when it writes nothing. A rate is that of the values in it. *Sent* is what went from node to node.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from measure import run_measured
from parallel_output import KNARR, STEP_BYTES, prepared

STEPS = 4
# Chunks within the block of a rank, so that the files have the same ones.
RULE = '[[file]]\npattern = "*.nc"\n' + "".join(
    f'variables.{axis}.chunks = "{length}"\n' for axis, length in (("z", 16), ("y", 128), ("x", 128))
)
WAYS = {
    "nothing": ("nothing", 4),
    "one file, one node": ("pnetcdf", 1),
    "one file, four nodes": ("pnetcdf", 4),
    "four files, four nodes": ("apart", 4),
}
"""What the program does, and on how many nodes."""
EACH = ["sh", "-c", 'KNARR_NODE=node$((OMPI_COMM_WORLD_RANK % $0)) exec "$@"']


@dataclass
class Result:
    """Of one run."""

    way: str
    until_durable_s: float
    cpu_s: float
    files: int
    output_bytes: int
    sent_bytes: int


def run(program: Path, way: str, place: Path, values: Path) -> Result:
    mode, nodes = WAYS[way]
    with tempfile.TemporaryDirectory(dir=place) as name:
        out = Path(name)
        (out / "knarr.toml").write_text(RULE)
        launcher = [KNARR, "run", "-q", "-c", out / "knarr.toml", "--json", out / "result.json", "--"]
        command = ["mpirun", "--oversubscribe", "-n", "4", *EACH, nodes, *launcher]
        command += [program, mode, out / "s", STEPS, 0, values]
        subprocess.run(["sync"], check=True)
        begin = time.monotonic()
        environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        measured = run_measured([str(word) for word in command], environment)
        files = sorted(out.glob("*.nc"))
        for path in files:
            with path.open("rb") as file:
                os.fsync(file)
        total = time.monotonic() - begin
        if measured.exit_code != 0:
            raise SystemExit(f"{way}: exit code {measured.exit_code}")
        expected = {"nothing": 0, "pnetcdf": STEPS, "apart": 4 * STEPS}[mode]
        if len(files) != expected:
            raise SystemExit(f"{way}: {len(files)} files, {expected} expected")
        told = [json.loads(path.read_text())["sent_to_nodes"] for path in out.glob("result*.json")]
        sent = sum(sum(by_carrier.values()) for by_carrier in told)
        return Result(way, total, measured.cpu_s, len(files), sum(path.stat().st_size for path in files), sent)


def measure(repeats: int) -> list[dict]:
    """Every way in turn, `repeats` times, on the disk."""
    with prepared() as (folder, program, values):
        return [asdict(run(program, way, folder, values)) for _ in range(repeats) for way in WAYS]


def table(results: list[dict]) -> str:
    def median(way: str, field: str) -> float:
        return statistics.median(one[field] for one in results if one["way"] == way)

    lines = [
        "| emulated nodes | until durable, s | MB/s | CPU s | MB a step | MB sent |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    nothing, cpu = median("nothing", "until_durable_s"), median("nothing", "cpu_s")
    for way in list(WAYS)[1:]:
        seconds = median(way, "until_durable_s") - nothing
        lines.append(
            f"| {way} | {seconds:.2f} | {STEPS * STEP_BYTES / seconds / 1e6:.0f} "
            f"| {median(way, 'cpu_s') - cpu:.2f} | {median(way, 'output_bytes') / STEPS / 1e6:.1f} "
            f"| {median(way, 'sent_bytes') / 1e6:.1f} |"
        )
    lines.append(f"\n{STEP_BYTES / 1e6:.1f} MB of values a step, {STEPS} steps a run.")
    return "\n".join(lines)
