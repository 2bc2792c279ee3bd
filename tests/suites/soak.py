#!/usr/bin/env python3
"""Opens files again just after they were closed, many times, under `knarr run`: the launcher must outlive it.

    .venv/bin/python tests/suites/soak.py                        # 2000 times
    .venv/bin/python tests/suites/soak.py --times 200 --when handed

The launcher begins to pack a file when it is closed. HDF5 takes the number of links from the header of a group and then
reads the links: where some were added in between, it writes past its memory. So what reads may die, and the launcher
must not. Each file here is opened again 15 times within milliseconds. Said at the end: how often a process for packing
died; that the launcher kept the program's exit code; and that every file holds what was written.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py

REPOSITORY = Path(__file__).resolve().parents[2]
KNARR = Path(os.environ.get("KNARR_BIN", REPOSITORY / "target" / "release" / "knarr")).resolve()
AGAIN = 15
LINKS = 200
CODE = 7
PROGRAM = f"""
import random, sys, time
import h5py, numpy as np
random.seed(int(sys.argv[2]))
field = np.random.default_rng(1).normal(size=(64, 64)).cumsum(0)
for number in range(int(sys.argv[1])):
    kind = [dict(userblock_size=512), dict(), dict(track_order=True), dict(libver="latest")][number % 4]
    with h5py.File(f"a{{number}}.h5", "w", **kind) as file:
        # Who reads references looks for the paths of their objects: in all groups, of which the first one will grow.
        for order in "<>":
            for dtype in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"):
                values = (field * 3).astype(order + dtype)
                file[f"{{'be' if order == '>' else 'le'}}/{{dtype}}"] = values
        for item in range(40):
            file[f"T{{item:03}}"] = field[:8, :8] + item
        file["text"] = ["a" * (item % 9) for item in range(2000)]
        file["records"] = np.zeros(2000, dtype=[("a", "i4"), ("b", "f8"), ("c", "i2", (3,))])
        file["refs"] = np.array([file["T001"].ref, file["le"].ref], dtype=h5py.ref_dtype)
        file["regions"] = np.array([file["T001"].regionref[2:5, 1]], dtype=h5py.regionref_dtype)
        file.attrs["ref"] = file["T007"].ref
        file["hard"], file["soft"] = file["T003"], h5py.SoftLink("/T004")
        for axis, name in enumerate(("x", "y")):
            file[name] = np.arange(64.0)
            file[name].make_scale(name)
            file["le/f4"].dims[axis].attach_scale(file[name])
        for item in range({LINKS}):
            file[f"many/d{{item:03}}"] = np.arange(item, dtype="i4")
    for again in range({AGAIN}):
        time.sleep(random.random() * 0.004)
        with h5py.File(f"a{{number}}.h5", "r+") as file:
            file[f"late{{again}}"] = field
            file[f"later{{again}}"] = field
sys.exit({CODE})
"""


def run(folder: Path, files: int, when: str, seed: int) -> tuple[int, list[dict]]:
    """Runs the program once. Returns the exit code and what became of the files."""
    rule = 'when = "close"\n' if when == "close" else ""
    (folder / "knarr.toml").write_text(f'[[file]]\npattern = "*"\n{rule}')
    program = [sys.executable, "-c", PROGRAM, str(files), str(seed)]
    command = [KNARR, "run", "-q", "-c", "knarr.toml", "--json", "result.json", "--", *program]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    sys.stderr.write(done.stderr)
    result = folder / "result.json"
    return done.returncode, json.loads(result.read_text())["files"] if result.exists() else []


def is_whole(path: Path) -> bool:
    with h5py.File(path) as file:
        late = [file[f"{name}{again}"] for name in ("late", "later") for again in range(AGAIN)]
        return len(file["many"]) == LINKS and all(data[:].std() > 0 for data in late)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=2000, help="how often files are opened again")
    parser.add_argument("--when", choices=("close", "handed"), default="close")
    parser.add_argument("--files", type=int, default=8, help="files of each run")
    arguments = parser.parse_args()
    runs = -(-arguments.times // (AGAIN * arguments.files))
    wrong, died, left, begin = 0, 0, 0, time.monotonic()
    for seed in range(runs):
        with tempfile.TemporaryDirectory(prefix="knarr-soak-") as name:
            folder = Path(name)
            code, files = run(folder, arguments.files, arguments.when, seed)
            named = {Path(file["output"]).name for file in files}
            whole = [is_whole(folder / f"a{number}.h5") for number in range(arguments.files)]
            if code != CODE or not all(whole) or len(named) != arguments.files:
                print(f"run {seed}: exit code {code}, whole {whole}, reported {sorted(named)}")
                wrong += 1
            died += sum("signal" in str(file.get("note", "")) + str(file.get("reason", "")) for file in files)
            left += sum(file["outcome"] != "packed" for file in files)
    times = runs * arguments.files * AGAIN
    print(
        f"when = {arguments.when}: {times} times opened again in {runs} runs and {time.monotonic() - begin:.0f} s: "
        f"{wrong} runs wrong, {died} processes for packing died, {left} files left as they were"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
