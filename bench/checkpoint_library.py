"""What a checkpoint costs the program that makes it: put and commit against a copy of the same arrays in memory."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

STEPS = 12
SHAPE = (32, 1024, 1024)
ARRAYS = 2


def clocks() -> np.ndarray:
    """Seconds on the wall, and of processor time of this thread, which other programs do not disturb."""
    return np.array([time.perf_counter(), time.thread_time()])


def measure_library() -> list[dict]:
    """Seconds of each step for put and commit, and for copying the arrays, both into memory that was used before."""
    import knarr

    grid = np.linspace(0, 20, np.prod(SHAPE), dtype="f8").reshape(SHAPE)
    arrays = {f"field{number}": np.sin(grid + number) for number in range(ARRAYS)}
    copies = {name: array.copy() for name, array in arrays.items()}
    rows = []
    with tempfile.TemporaryDirectory(dir=".") as sets, knarr.Checkpoint(Path(sets), keep=1, goal="speed") as checkpoint:
        for step in range(STEPS):
            checkpoint.begin(step)  # waits for the step before, so that nothing is packed while time is taken
            begin = clocks()
            for name, array in arrays.items():
                np.copyto(copies[name], array)
            copied = clocks()
            for name, array in arrays.items():
                checkpoint.put(name, array)
            put = clocks()
            checkpoint.commit()
            committed = clocks()
            for clock, copy, handed, returned in zip(
                ("wall", "processor"), copied - begin, put - copied, committed - put, strict=True
            ):
                rows.append({"step": step, "clock": clock, "copy": copy, "put": handed, "commit": returned})
            for array in arrays.values():
                array += 1e-3  # the program goes on
    return rows


def table(rows: list[dict]) -> str:
    """Each step against its own copy; the first has to ask the system for memory."""
    raw = ARRAYS * np.prod(SHAPE) * 8
    lines = [
        f"{ARRAYS} arrays, {raw >> 20} MiB. Time as a multiple of a copy of the same arrays, taken beside it:",
        "",
        "| step | clock | put | put and commit |",
        "|---|---|---|---|",
    ]
    for row in rows:
        both = (row["put"] + row["commit"]) / row["copy"]
        lines.append(f"| {row['step']} | {row['clock']} | {row['put'] / row['copy']:.2f} | {both:.2f} |")
    lines.append("")
    for clock in ("wall", "processor"):
        later = [row for row in rows if row["step"] > 0 and row["clock"] == clock]
        ratios = sorted((row["put"] + row["commit"]) / row["copy"] for row in later)
        lines.append(f"Median of all steps but the first, {clock}: {ratios[len(ratios) // 2]:.2f}.")
    return "\n".join(lines)
