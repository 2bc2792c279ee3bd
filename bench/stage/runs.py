"""Runs one way of a set-up, checks that all values are there, and says what it took."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np

from .setups import RANKS, Setup
from .ways import BOUND, BOUNDED, BOUNDED_NAMES, Way, configuration

HERE = Path(__file__).resolve().parent
KNARR = Path(os.environ.get("KNARR_BIN", HERE.parents[1] / "target" / "release" / "knarr")).resolve()
TIERS_FORMAT = "=2i4d4q4q8d512q"
"""Of `struct tiers` in tiers.h."""
ENDED_AT = 4
ENVIRONMENT = {
    **os.environ,
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "HDF5_PLUGIN_PATH": hdf5plugin.PLUGIN_PATH,
}


def build(folder: Path) -> Path:
    """The programs, against the parallel HDF5 of Debian."""
    program = folder / "particles"
    flags = [f"-L{path}" for path in Path("/usr/lib").glob("*/hdf5/openmpi")] + ["-I/usr/include/hdf5/openmpi"]
    sources = [HERE / "particles.c", HERE / "tiers.c"]
    optimised = ["-O3", "-march=native", "-ffast-math"]
    subprocess.run(["mpicc.openmpi", *optimised, "-o", program, *sources, *flags, "-lhdf5"], check=True)
    return program


def write_tiers(path: Path, setup: Setup, way: Way) -> None:
    """The emulated tiers of ways without Knarr; with it they serve for reading."""
    used = setup.tiers if way.is_tiered else setup.tiers[-1:]
    filled = 4 - len(used)
    rates = [tier.rate if way.is_throttled else 0.0 for tier in used] + [0.0] * filled
    capacities = [setup.capacity(tier) for tier in used] + [0] * filled
    empty = [0] * 4 + [0.0] * 8 + [0] * 512
    path.write_bytes(struct.pack(TIERS_FORMAT, len(used), 0, *rates, *capacities, *empty))


def run_once(folder: Path, program: Path, described: str, setup: Setup, way: Way) -> dict:
    """One row. The folder is in memory and has the raw values; it is as before afterwards."""
    for name in ("nvme", "burst"):
        (folder / "tiers" / name).mkdir(parents=True, exist_ok=True)
    tiers = folder / "tiers.state"
    write_tiers(tiers, setup, way)

    def ranks(mode: str, compute: str, how: str) -> list[object]:
        told = [mode, tiers, folder / "values", setup.count, setup.steps, compute, way.delay, how, described]
        return ["mpirun", "-n", RANKS, program, *told]

    writes, reads = ranks("vpic", f"{setup.compute_s}:{setup.computing}", way.how), ranks("bdcats", "0", way.how)
    is_read = setup.is_read and way.how not in ("copy", "none")
    command = ["sh", "-c", " && ".join(quoted(one) for one in ([writes, reads] if is_read else [writes]))]
    if way.is_staged:
        (folder / "knarr.toml").write_text(configuration(setup, way))
        command = [KNARR, "run", "--quiet", "--json", folder / "result.json", "--", *command]
    mover = None if way.is_staged else subprocess.Popen([program, "mover", tiers], stdout=subprocess.PIPE, text=True)
    begin = time.monotonic()
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    if mover:
        end_mover(tiers)
        said = json.loads(mover.communicate()[0])
    wall = time.monotonic() - begin
    if done.returncode != 0:
        sys.stderr.write(done.stdout + done.stderr)
        raise SystemExit(f"{setup.name}, {way.name}: exit code {done.returncode}")
    lines = {line["program"]: line for line in map(json.loads, done.stdout.splitlines())}
    row = {"setup": setup.name, "way": way.name, "wall_s": wall} | {
        key: value for line in lines.values() for key, value in line.items() if key != "program"
    }
    if way.how in ("copy", "none"):
        return row
    if way.is_staged:
        row |= of_report(folder)
        row["durable_s"] = row.pop("placed_at") - row["begin"]
    else:
        row["durable_s"] = max(said["end"] if way.is_tiered else 0.0, row["end"]) - row["begin"]
    made = sorted(folder.glob("vpic_*.h5"))
    if len(made) != setup.steps:
        raise SystemExit(f"{setup.name}, {way.name}: {len(made)} files in place of {setup.steps}")
    row["bytes"] = sum(path.stat().st_size for path in made)
    if way == BOUNDED:
        require_within(folder, described, setup)
    else:
        require_equal(folder, [str(word) for word in ranks("bdcats", "0", "plain")], setup, way, row)
    for path in [*made, *folder.glob("vpic_*.json")]:
        path.unlink()
    return row


def quoted(words: list[object]) -> str:
    return " ".join(f"'{word}'" for word in words)


def end_mover(tiers: Path) -> None:
    with tiers.open("r+b") as file:
        file.seek(ENDED_AT)
        file.write(struct.pack("=i", 1))


def of_report(folder: Path) -> dict:
    told = json.loads((folder / "result.json").read_text())
    if not all("handed over" in (file.get("note") or "") for file in told["files"]):
        raise SystemExit(f"not handed over: {told['files']}")
    placed = [path.stat().st_ctime for path in folder.glob("vpic_*.h5")]
    keys = ("forecasts", "longest_until", "spool", "tiers", "totals")
    spent = [{"choose": file.get("choosing_seconds", 0.0), **phases_of(file)} for file in told["files"]]
    phases = {key: sum(file.get(key, 0.0) for file in spent) for key in spent[0]}
    phases["decide"] = sum(((told.get("forecasts") or {}).get("choosing_seconds") or {}).values())
    return {"placed_at": max(placed), "phases_s": phases, **{key: told.get(key) for key in keys}}


def phases_of(file: dict) -> dict[str, float]:
    """Core-seconds in which a file was made, but for choosing."""
    phases = (file.get("energy") or {}).get("seconds", {})
    return {key: phases.get(key, 0.0) for key in ("read", "encode", "prove", "write")}


def require_equal(folder: Path, reader: list[str], setup: Setup, way: Way, row: dict) -> None:
    """All values of all files, read without Knarr, are those that were written."""
    write_tiers(folder / "tiers.state", setup, way)
    (folder / "tiers.state").write_bytes(struct.pack(TIERS_FORMAT, 1, 1, *[0.0] * 4, *[0] * 8, *[0.0] * 8, *[0] * 512))
    done = subprocess.run(reader, cwd=folder, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    equal = json.loads(done.stdout)["equal"] if done.returncode == 0 else done.stderr
    if equal != setup.steps or row.get("equal", setup.steps) != setup.steps:
        raise SystemExit(f"{setup.name}, {way.name}: values differ: {equal}, {row.get('equal')}")


def require_within(folder: Path, described: str, setup: Setup) -> None:
    """All values of all files are within the bound."""
    for step in range(setup.steps):
        raw = [(folder / f"values_{rank}_{step}.raw").read_bytes() for rank in range(RANKS)]
        offset = 0
        with h5py.File(folder / f"vpic_{step}.h5") as file:
            for name, kind in (word.split(":") for word in described.split(",")):
                wanted = np.concatenate([np.frombuffer(of, kind, setup.count, offset) for of in raw])
                offset += wanted.itemsize * setup.count
                worst = np.abs(file[name][:].astype("f8") - wanted).max()
                if worst > (BOUND if name in BOUNDED_NAMES else 0):
                    raise SystemExit(f"{setup.name}: {name} of step {step} differs by {worst}")


def clear(folder: Path) -> None:
    shutil.rmtree(folder / "tiers", ignore_errors=True)


def rounds(
    setup: Setup, ways: list[Way], folder: Path, program: Path, described: str, number: int, tell: Callable
) -> list[dict]:
    rows = []
    for count in range(number):
        for way in ways:
            row = run_once(folder, program, described, setup, way)
            rows.append({"round": count, **row})
            tell(f"{setup.name}: {way.name}: blocked {sum(row['blocked_s']):.2f} s, wall {row['wall_s']:.1f} s")
    return rows
