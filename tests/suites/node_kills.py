#!/usr/bin/env python3
"""Kills processes of a parallel program on several nodes at random moments while its file is made, many times.

    .venv/bin/python tests/suites/node_kills.py                          # 200 times each
    .venv/bin/python tests/suites/node_kills.py --times 20 --victim node

Four ranks on two or three nodes (names, as in tests/e2e/test_nodes.py) write one file with PnetCDF. Nodes encode chunks
and write them into the file. One process is ended by SIGKILL: the launcher of the node that makes the file (maker),
what packs it there (worker), the launcher of another node (node), mpirun, or two of those
at once. Then the file must be absent or whole, nothing may hang, and `knarr run --recover` must make it of the parts of
all nodes. Said at the end: what was found of each. Exit code 1 if anything was lost or wrong.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from killing import (
    KNARR,
    ON_ONE_MACHINE,
    PATIENCE_S,
    REPOSITORY,
    TWO,
    WrongError,
    built,
    children,
    chosen,
    command_of,
    kill,
    repeat,
    until,
)

sys.path.insert(0, str(REPOSITORY / "tests" / "e2e"))
from output_kills import steps_of

from nodes import RANKS, Launcher, collected, launcher_of, records, spools_of

PROGRAM = REPOSITORY / "tests" / "e2e" / "pnetcdf_programs" / "blocks.c"
VICTIMS = ("maker", "worker", "node", "mpirun", TWO)
STEPS, ROWS = 6, 512
# Chunks within the blocks of the ranks, and a chain that takes its time.
RULE = """
[[file]]
pattern = "hist.*"
[file.variables.T]
chunks = "1x16x128"
chain = "shuffle | zstd:9"
"""


def launchers(job: Launcher) -> dict[int, int]:
    """Those that have a part of the file, by its number."""
    return {record["part"]: launcher_of(place) for place, record in records(job.folder) if record["parts"]}


def victim(kind: str, job: Launcher, mpirun: int, known: dict[int, int]) -> int | None:
    if kind == "mpirun":
        return mpirun
    if kind == "maker":
        return known[0]
    if kind == "node":
        return known[random.randrange(1, len(known))]
    found = [process for process in children(known[0]) if command_of(process).startswith("knarr worker")]
    return random.choice(found) if found else None


def once(folder: Path, program: Path, plain: Path, kind: str, longest: float) -> str:
    """One kill. Returns what was found."""
    job, nodes = Launcher(KNARR, ON_ONE_MACHINE, folder), random.choice(["abbb", "abab", "abca"])
    process = job.start(program, "hist.nc", STEPS, ROWS, nodes=nodes, config=RULE)
    try:
        until(lambda: len(launchers(job)) == len(set(nodes)) or process.poll() is not None, "the parts of all nodes")
        known = launchers(job)
        time.sleep(random.uniform(0, longest))
        kinds = chosen(kind, VICTIMS)
        has_hit = len(known) == len(set(nodes)) and kill(
            lambda: [victim(one, job, process.pid, known) for one in kinds], lambda: process.poll() is None
        )
        _, text = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise WrongError("mpirun hangs") from None
    until(lambda: not [pid for pid in known.values() if command_of(pid).startswith(str(KNARR))], "launchers")
    hist = job.folder / "hist.nc"
    if hist.exists():
        same(plain, hist)
        for spool in spools_of(job):
            shutil.rmtree(spool)
        return "published" if has_hit else "missed"
    if process.returncode == 0:
        raise WrongError(f"exit code 0, and no file:\n{text}")
    is_whole = not [place for place, _ in records(job.folder) if (place / "open.json").exists()]
    try:
        together = collected(job, len(set(nodes)))
    except AssertionError as error:
        raise WrongError(f"parts are missing: {error}\n{text}") from None
    # A put is logged when its values are there. What a link leads to and is not there may have been values.
    is_empty = not any(not path.exists() or path.read_bytes().strip(b"\0") for path in together.rglob("values.*"))
    done = subprocess.run([KNARR, "run", "--recover", together], capture_output=True, text=True, check=False)
    if not hist.exists() and is_empty and done.returncode == 0:
        return "nothing written"
    if not hist.exists():
        raise WrongError(f"--recover makes no file:\n{text}\n{done.stderr}")
    if is_whole:
        same(plain, hist)
    else:
        steps_of(hist, plain, 0)
    left = [path.name for path in job.folder.iterdir() if path.name not in ("hist.nc", "hist.nc.knarr.json")]
    if left := [name for name in left if not name.startswith("core")]:
        raise WrongError(f"left in the folder: {left}")
    return "recovered whole" if is_whole else "recovered in part"


def same(plain: Path, hist: Path) -> None:
    done = subprocess.run([KNARR, "verify", plain, hist], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WrongError(f"the file has other values:\n{done.stdout}{done.stderr}")


def prepare(top: Path) -> Callable[[Path, str], str]:
    program, plain = built(PROGRAM, top), top / "plain.nc"
    writes = ["mpirun", "--oversubscribe", "-n", str(RANKS), program, plain, str(STEPS), str(ROWS)]
    subprocess.run(writes, env=ON_ONE_MACHINE, check=True, capture_output=True)
    folder = top / "first"
    folder.mkdir()
    job = Launcher(KNARR, ON_ONE_MACHINE, folder)
    process = job.start(program, "hist.nc", STEPS, ROWS, nodes="abbb", config=RULE)
    until(lambda: len(launchers(job)) == 2, "the parts of all nodes")
    begin = time.monotonic()
    until((job.folder / "hist.nc").exists, "the file")
    longest = time.monotonic() - begin
    job.finish(process)
    return lambda folder, kind: once(folder, program, plain, kind, longest)


if __name__ == "__main__":
    sys.exit(repeat(__doc__, VICTIMS, prepare))
