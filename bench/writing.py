"""Speed of writing under `knarr run` with `when = "write"`: HDF5's own filters, and Knarr's threads.

A program writes one variable of simulation output, plain, with HDF5's own shuffle and deflate (the usual chain),
and under Knarr with the same chain and with Knarr's filter, by one thread and by all. Runs take turns. Times are
those of writing alone, told by the program: wall time, processor time, and that of the calling thread alone, of the
median run. Where others use the machine, wall times of several threads say little; the share of the calling thread
says how the work was divided.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from simulation import turbulence

REPOSITORY = Path(__file__).resolve().parents[1]
KNARR = Path(os.environ.get("KNARR_BIN", REPOSITORY / "target" / "release" / "knarr")).resolve()
ROUNDS = 5
MEBIBYTES = 256
OWN = "HDF5's own filters"
CHUNK = (1, 512, 512)
"""1 MiB, whole steps: what Knarr gives a contiguous variable of this shape, too."""

PROGRAM = """
import json, os, sys, time, h5py, numpy as np
values = np.load("values.npy")
with h5py.File("out.h5", "w") as file:
    options = {"compression": "gzip", "compression_opts": 1, "shuffle": True} if "filters" in sys.argv else {}
    dataset = file.create_dataset("x", values.shape, "f4", chunks=CHUNK, **options)
    clocks = time.perf_counter, time.process_time, time.thread_time
    begin = [clock() for clock in clocks]
    dataset[...] = values
    file.flush()
    wall, cpu, thread = (clock() - before for clock, before in zip(clocks, begin))
size = os.path.getsize("out.h5")
print(json.dumps({"wall_s": wall, "cpu_s": cpu, "calling_thread_s": thread, "bytes": size}))
"""


def commands(folder: Path) -> dict[str, list]:
    """Ways to write."""
    program = [sys.executable, "-c", PROGRAM.replace("CHUNK", str(CHUNK))]
    rule = '[[file]]\npattern = "*"\nwhen = "write"\n'
    rules = {
        "deflate": rule + 'variables."*".chain = "shuffle | deflate:1"\n',
        "knarr": rule + 'portable = "knarr"\n',
        "knarr, speed": rule + 'portable = "knarr"\ngoal = "speed"\n',
    }
    found = {"plain": program, OWN: [*program, "filters"]}
    for name, text in rules.items():
        path = folder / f"{name}.toml"
        path.write_text(text)
        for jobs in (1, os.cpu_count() or 1):
            command = [KNARR, "run", "--quiet", "-c", path, "--jobs", str(jobs), "--", *program]
            found[f"knarr run, {name}, {jobs} threads"] = command
    return found


def measure_write() -> list[dict]:
    """Medians of each way."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        steps = turbulence((512, 512), MEBIBYTES, -5 / 3, 1, "f4")
        np.save(folder / "values.npy", np.concatenate(list(steps)))
        ways = commands(folder)
        runs: dict[str, list[dict]] = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way, command in ways.items():
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
                runs[way].append(json.loads(done.stdout))
    return [
        {"way": way, **{key: statistics.median(run[key] for run in found) for key in found[0]}}
        for way, found in runs.items()
    ]


def table(rows: list[dict]) -> str:
    own = next(row["wall_s"] for row in rows if row["way"] == OWN)
    lines = [
        f"| {MEBIBYTES} MiB of turbulence | wall s | CPU s | times as fast as HDF5's own filters | MB |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        times, size = own / row["wall_s"], row["bytes"] / 1e6
        lines.append(f"| {row['way']} | {row['wall_s']:.2f} | {row['cpu_s']:.2f} | {times:.1f} | {size:.1f} |")
    return "\n".join(lines)
