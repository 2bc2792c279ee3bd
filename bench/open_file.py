"""One file that a program has open for all of its steps, which are records in it: the program of `parallel_output`.

Two seconds lie between steps, and between the last one and the end. Knarr encodes meanwhile what is there, so little is
left to do when the file is closed. *Until durable* is all of the run less the pauses.
"""

from __future__ import annotations

from dataclasses import asdict

from parallel_output import MODES, median, prepared, run
from scale_tables import Table

OPEN = ",open"
WAYS = ("pnetcdf", "knarr", "knarr zarr", "netcdf4", "knarr4", "deflate")


def measure(repeats: int) -> list[dict]:
    """Every way in turn, on the disk."""
    with prepared() as (folder, program, values):
        return [asdict(run(program, mode, folder, values, OPEN)) for _ in range(repeats) for mode in WAYS]


def table(results: list[dict]) -> Table:
    heads = ["way", ">blocked, s", ">until durable, s", ">CPU s", ">MB a step"]
    rows = []
    for mode in WAYS:
        fields = ("blocked_s", "until_durable_s", "cpu_s", "output_bytes")
        blocked, durable, cpu, size = (median(results, mode + OPEN, "disk", field) for field in fields)
        rows.append([MODES[mode], f"{blocked:.3f}", f"{durable:.1f}", f"{cpu:.1f}", f"{size / 1e6:.1f}"])
    return Table(heads, rows)
