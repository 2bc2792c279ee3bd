"""What bursts of output cost a program, and when they are safe, through tiers: route `stage` and other ways.

One process writes a file of particles after each step and multiplies matrices on all cores between steps, as VPIC-IO
does: 8 one-dimensional datasets, contiguous. The tiers are EMULATED by token buckets: fractions of the data and ratios
of rates are those of the HCompress paper (memory holds 12 % of the data, NVMe 24 %), the slow tier takes 29 MB/s (8 TB
in 4,270 s on 64 nodes). All ways have the same tiers:

- `plain` (BASE in the paper): h5py writes to the slow tier;
- `own filters` (STWC): the same with shuffle and deflate 1 in the program;
- `fast tier, raw` (MTNC): plain files go to the NVMe while it has room, and a thread moves them; else to the slow tier;
- `stage`: `knarr run`, route stage, with an objective: the planner chooses the level of each file;
- `stage, goal G`: the same with one goal for all files: what a fixed codec in the same tiers costs.

Blocked is the time from creating to closing all files; durable, when all are in the slow tier. Ways take turns.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from simulation import particles

REPOSITORY = Path(__file__).resolve().parents[1]
KNARR = Path(os.environ.get("KNARR_BIN", REPOSITORY / "target" / "release" / "knarr")).resolve()
ROUNDS, STEPS, COUNT = 3, 10, 1_500_000
MEMORY, FAST = 0.12, 0.24
"""Parts of all data that the tiers hold."""
SLOW_RATE, FAST_RATE = 29e6, 700e6
COMPUTE_S = 1.5

PROGRAM = f"""
import json, os, sys, threading, time, h5py, numpy as np
WAY = sys.argv[1]
FAST, SLOW_RATE, FAST_RATE = {FAST}, {SLOW_RATE}, {FAST_RATE}
steps = [dict(np.load(f"step_{{number}}.npz")) for number in range({STEPS})]
raw = sum(values.nbytes for step in steps for values in step.values())
options = {{"compression": "gzip", "compression_opts": 1, "shuffle": True}} if "filters" in WAY else {{}}

class Device:
    def __init__(self, rate):
        self.rate, self.free_at, self.lock = rate, 0.0, threading.Lock()
    def take(self, count):
        with self.lock:
            self.free_at = end = max(self.free_at, time.monotonic()) + count / self.rate
        time.sleep(max(0.0, end - time.monotonic()))

slow, fast, held, moving = Device(SLOW_RATE), Device(FAST_RATE), 0, []

def move(size):
    global held
    slow.take(size)
    held -= size

def write(number, step):
    global held
    path = f"vpic_{{number}}.h5"
    with h5py.File(path, "w") as file:
        for name, values in step.items():
            file.create_dataset(name, data=values, **options)
    if WAY == "knarr":
        return
    size = os.path.getsize(path)
    if WAY.startswith("fast") and held + size <= FAST * raw:
        held += size
        fast.take(size)
        moving.append(threading.Thread(target=move, args=(size,)))
        moving[-1].start()
    else:
        slow.take(size)

blocked = computing = 0.0
matrix = np.random.default_rng(1).standard_normal((1200, 1200))
for number, step in enumerate(steps):
    begin = time.monotonic()
    write(number, step)
    blocked += time.monotonic() - begin
    begin, count = time.monotonic(), 0
    while time.monotonic() - begin < {COMPUTE_S}:
        matrix @ matrix
        count += 1
    computing += count
for thread in moving:
    thread.join()
print(json.dumps({{"blocked_s": blocked, "multiplications": computing, "raw_bytes": raw}}))
"""
PEERS = {
    "plain": "plain",
    "own filters": "filters",
    "fast tier, raw": "fast",
}
"""What the program itself does."""
STAGED = {
    "stage": "",
    "stage, durable": 'objective = "durable"',
    "stage, goal speed": 'goal = "speed"',
    "stage, goal balanced": 'goal = "balanced"',
    "stage, goal ratio": 'goal = "ratio"',
}
"""Lines of the rule."""


def configuration(raw: int, line: str) -> str:
    return f"""
[[tier]]
name = "ram"
path = "/dev/shm"
capacity = "{int(MEMORY * raw)}"
[[tier]]
name = "nvme"
path = "nvme"
capacity = "{int(FAST * raw)}"
emulate = {{ rate = "{FAST_RATE / 1e6:.0f}MB/s" }}
[[tier]]
name = "pfs"
path = "."
emulate = {{ rate = "{SLOW_RATE / 1e6:.0f}MB/s", shared = true }}
[[file]]
pattern = "vpic_*.h5"
route = "stage"
{line}
"""


def measure_stage() -> list[dict]:
    """Medians of each way."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        raw = 0
        for number in range(STEPS):
            step = particles(COUNT, seed=number)
            raw += sum(values.nbytes for values in step.values())
            np.savez(folder / f"step_{number}.npz", **step)
        runs: dict[str, list[dict]] = {way: [] for way in [*PEERS, *STAGED]}
        for _ in range(ROUNDS):
            for way in runs:
                runs[way].append(run_once(folder, way, raw))
    return [
        {"way": way, **{key: statistics.median(run[key] for run in found) for key in found[0]}}
        for way, found in runs.items()
    ]


def run_once(folder: Path, way: str, raw: int) -> dict:
    command = [sys.executable, "-c", PROGRAM, PEERS.get(way, "knarr")]
    if way in STAGED:
        (folder / "knarr.toml").write_text(configuration(raw, STAGED[way]))
        command = [KNARR, "run", "--quiet", "--json", "result.json", "--", *command]
    begin = time.monotonic()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    row = json.loads(done.stdout.splitlines()[-1])
    row["durable_s"] = time.monotonic() - begin
    made = list(folder.glob("vpic_*.h5"))
    assert len(made) == STEPS, made
    row["bytes"] = sum(path.stat().st_size for path in made)
    if way in STAGED:
        told = json.loads((folder / "result.json").read_text())
        assert all("handed over" in file["note"] for file in told["files"]), told
        row["memory_bytes"] = told["spool"]["memory_bytes"]
        row["fast_bytes"] = told["tiers"][0]["most_bytes"]
        forecasts = told["forecasts"] or {}
        for key in ("ratio_r_squared", "time_r_squared"):
            row[key] = forecasts.get(key) or 0.0
    for path in [*made, *folder.glob("vpic_*.json")]:
        path.unlink()
    return row


def table(rows: list[dict]) -> str:
    plain = rows[0]
    lines = [
        "Tiers emulated by token buckets: memory 12 %, NVMe 24 % of the data at 700 MB/s, slow tier 29 MB/s.",
        "",
        "| way | blocked s | of plain | durable s | written MB | multiplications, of plain |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        less, speed = plain["blocked_s"] / row["blocked_s"], row["multiplications"] / plain["multiplications"]
        lines.append(
            f"| {row['way']} | {row['blocked_s']:.2f} | {less:.1f}x less | {row['durable_s']:.1f} "
            f"| {row['bytes'] / 1e6:.0f} | {speed:.2f} |"
        )
    return "\n".join(lines)
