"""The HDF5 filter plugin as other people's programs meet it: a folder on HDF5's search path."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import h5py

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("KNARR_PLUGINS", REPOSITORY / "target" / "release" / "hdf5-plugins")).resolve()
ID = 45223
GOALS = {"balanced": 0, "speed": 1, "ratio": 2, "archive": 3, "energy": 4}
ENVIRONMENT = {**os.environ, "HDF5_PLUGIN_PATH": str(FOLDER)}


def register() -> None:
    """Makes the plugin known to h5py in this process."""
    assert (FOLDER / "libknarr_h5.so").is_file(), f"{FOLDER} has no plugin: make build"
    if os.fsencode(FOLDER) not in [h5py.h5pl.get(at) for at in range(h5py.h5pl.size())]:
        h5py.h5pl.append(os.fsencode(FOLDER))


def words(
    goal: str = "balanced",
    abs_error: float | None = None,
    range_error: float | None = None,
    rel_error: float | None = None,
    missing: float | None = None,
    exact_up_to: float | None = None,
    exact_from: float | None = None,
    digits: int = 0,
    bits: int = 0,
) -> tuple[int, ...]:
    """Client data as `docs/filter.md` lays them out, written from that page alone."""
    parts = [abs_error, range_error, rel_error, None, missing, exact_up_to, exact_from]
    first = GOALS[goal] | bits << 16 | digits << 22
    first |= sum(1 << 4 + at for at, part in enumerate(parts) if part is not None)
    doubles = b"".join(struct.pack("<d", part) for part in parts if part is not None)
    return (1, first, *struct.unpack(f"<{len(doubles) // 4}I", doubles))


def filtered(**wishes: object) -> dict[str, object]:
    """Keyword arguments for `create_dataset`."""
    return {"compression": ID, "compression_opts": words(**wishes)}


def run(*command: object, ok: bool = True, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs another program with the plugin on its path."""
    done = subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        timeout=120,
        env=ENVIRONMENT,
        cwd=cwd,
        check=False,
    )
    if ok:
        assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
    return done


def python(script: str, *arguments: object, ok: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs a script in a new process."""
    return run(sys.executable, "-c", script, *arguments, ok=ok)
