"""What writing costs one process under `knarr run`, which hands its values over.

`serial`: h5py and netCDF4-python write 1 GB of simulation output into one file; plain, with HDF5's own shuffle and
deflate, and under Knarr. For comparison the same values are copied once into new memory, and once into a new file in
memory. Times are those from creating the file to the return of its close.

`many`: 200 files are open at once and get 5 MB of values in total. The memory is that of the spool.

Ways take turns.
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
ROUNDS = 3
MEBIBYTES = 1024
FILES, VALUES = 200, 6250

BEGIN = """
import json, os, sys, time, h5py, netCDF4, numpy as np
"""
SERIAL = """
values = np.load("values.npy")
filters = "filters" in sys.argv
begin = time.perf_counter()
if "h5py" in sys.argv:
    with h5py.File("out.h5", "w") as file:
        options = {"compression": "gzip", "compression_opts": 1, "shuffle": True} if filters else {}
        dataset = file.create_dataset("x", values.shape, "f4", chunks=(1, *values.shape[1:]), **options)
        for step, part in enumerate(values):
            dataset[step] = part
else:
    with netCDF4.Dataset("out.nc", "w") as file:
        for name, length in zip("tyx", values.shape):
            file.createDimension(name, length)
        options = {"chunksizes": (1, *values.shape[1:]), "fill_value": False, "zlib": filters, "complevel": 1}
        variable = file.createVariable("x", "f4", ("t", "y", "x"), **options)
        for step, part in enumerate(values):
            variable[step] = part
print(json.dumps({"seconds": time.perf_counter() - begin}))
"""
COPY = """
values = np.load("values.npy")
begin = time.perf_counter()
if "file" in sys.argv:
    with open("/dev/shm/knarr-bench-copy", "wb") as file:
        for part in values:
            file.write(part)
    seconds = time.perf_counter() - begin
    os.remove("/dev/shm/knarr-bench-copy")
else:
    copy = np.empty_like(values)
    for step, part in enumerate(values):
        copy[step] = part
    seconds = time.perf_counter() - begin
print(json.dumps({"seconds": seconds}))
"""
MANY = f"""
begin = time.perf_counter()
files = [h5py.File(f"many{{number}}.h5", "w") for number in range({FILES})]
values = np.arange({VALUES}, dtype="f4")
for file in files:
    file["x"] = values
for file in files:
    file.close()
print(json.dumps({{"seconds": time.perf_counter() - begin}}))
"""


def ways(folder: Path) -> dict[str, list]:
    """Commands by the words for them."""
    (folder / "knarr.toml").write_text('[[file]]\npattern = "*"\n')
    run = [KNARR, "run", "--quiet", "--json", folder / "result.json", "-c", folder / "knarr.toml", "--"]

    def program(text: str, *arguments: str) -> list:
        return [sys.executable, "-c", BEGIN + text, *arguments]

    found = {"copy into new memory": program(COPY), "copy into a file in memory": program(COPY, "file")}
    for library in ("h5py", "netCDF4"):
        found[f"{library}, plain"] = program(SERIAL, library)
        found[f"{library}, own filters"] = program(SERIAL, library, "filters")
        found[f"{library}, knarr run"] = [*run, *program(SERIAL, library)]
    found["200 files, plain"] = program(MANY)
    found["200 files, knarr run"] = [*run, *program(MANY)]
    return found


def measure_write() -> list[dict]:
    """Medians of each way."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        steps = turbulence((512, 512), MEBIBYTES, -5 / 3, 1, "f4")
        np.save(folder / "values.npy", np.concatenate(list(steps)))
        commands = ways(folder)
        runs: dict[str, list[dict]] = {way: [] for way in commands}
        for _ in range(ROUNDS):
            for way, command in commands.items():
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
                row = json.loads(done.stdout.splitlines()[-1])
                result = folder / "result.json"
                if result.exists():
                    told = json.loads(result.read_text())
                    row["memory_bytes"] = told["spool"]["memory_bytes"]
                    assert all("handed over" in file["note"] for file in told["files"]), told
                    result.unlink()
                runs[way].append(row)
                for made in [*folder.glob("out.*"), *folder.glob("many*")]:
                    made.unlink()
    return [
        {"way": way, **{key: statistics.median(run[key] for run in found) for key in found[0]}}
        for way, found in runs.items()
    ]


def table(rows: list[dict]) -> str:
    seconds = {row["way"]: row["seconds"] for row in rows}
    copy = seconds["copy into a file in memory"]
    lines = ["| way | s | times a copy into a file in memory | memory MB |", "|---|---:|---:|---:|"]
    for row in rows:
        memory = f"{row['memory_bytes'] / 1e6:.1f}" if "memory_bytes" in row else "-"
        lines.append(f"| {row['way']} | {row['seconds']:.3f} | {row['seconds'] / copy:.2f} | {memory} |")
    return "\n".join(lines)
