"""What the HDF5 filter adds to the chains it chooses, in processor time of one core, per goal over real variables."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "target" / "release" / "examples" / "filter"
PLUGINS = ROOT / "target" / "release" / "hdf5-plugins"
FILTER = 45223
GOALS = {"speed": 1, "balanced": 0, "ratio": 2}
"""Numbers of goals in the filter's client data."""


def processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def write(values: np.ndarray, chunk: list[int], **filters: object) -> float:
    """Processor seconds to write a dataset to a file in memory."""
    begin = processor_seconds()
    with h5py.File("memory", "w", driver="core", backing_store=False) as file:
        file.create_dataset("x", data=values, chunks=tuple(chunk), **filters)
    return processor_seconds() - begin


def measure_plugin(path: Path) -> list[dict]:
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "-q", "-p", "knarr-cli", "--example", "filter"],
        cwd=ROOT,
        check=True,
    )
    h5py.h5pl.append(os.fsencode(PLUGINS))
    rows = []
    with h5py.File(path) as file:
        for goal, number in GOALS.items():
            answer = subprocess.run([EXAMPLE, path, goal], check=True, capture_output=True, text=True)
            for row in map(json.loads, answer.stdout.splitlines()):
                values = file[row["variable"]][...]
                write(values, row["chunk"])
                row["hdf5_plain_s"] = write(values, row["chunk"])
                row["hdf5_s"] = write(values, row["chunk"], compression=FILTER, compression_opts=(1, number))
                rows.append({"goal": goal, **row})
    return rows


def table(rows: list[dict]) -> str:
    """`later`: from the second chunk on. Edge chunks are only in what HDF5 writes."""
    lines = [
        "| goal | ratio | chosen chains alone, s | with choosing | with choosing, later chunks"
        " | HDF5 without filter, s | HDF5 with filter, s | speed kept |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for goal in GOALS:
        mine = [row for row in rows if row["goal"] == goal]
        keys = [key for key in mine[0] if key.endswith("_s") or key in ("raw", "encoded")]
        total = {key: sum(row[key] for row in mine) for key in keys}
        own = total["own_first_s"] + total["own_others_s"]
        whole = total["first_s"] + total["others_s"]
        later = total["others_s"] / total["own_others_s"] - 1
        kept = (own + total["hdf5_plain_s"]) / total["hdf5_s"]
        lines.append(
            f"| {goal} | {total['raw'] / total['encoded']:.2f} | {own:.2f} | {whole / own - 1:+.1%} | {later:+.1%} |"
            f" {total['hdf5_plain_s']:.2f} | {total['hdf5_s']:.2f} | {kept:.0%} |"
        )
    return "\n".join(lines)
