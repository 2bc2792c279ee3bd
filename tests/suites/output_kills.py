#!/usr/bin/env python3
"""Kills processes of a parallel program under `knarr run` at random moments, many times.

    .venv/bin/python tests/suites/output_kills.py                          # 200 times each
    .venv/bin/python tests/suites/output_kills.py --times 20 --victim rank

Four ranks write steps with PnetCDF. One process is ended by SIGKILL: a rank, mpirun, what packs the file (the
aggregator), the launcher, or two of those at once. Then the file must
be absent, as it was before, or whole, nothing may hang, and `knarr run --recover` must bring back each step that all
ranks had written. Said at the end: what was found of each. Exit code 1 if anything was lost or wrong.
"""

from __future__ import annotations

import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import netCDF4
import numpy as np
from killing import (
    KNARR,
    ON_ONE_MACHINE,
    REPOSITORY,
    TWO,
    WrongError,
    built,
    chosen,
    has_ended,
    kill,
    ranks_left,
    repeat,
    spools,
    until,
    victim_of,
)

sys.path.insert(0, str(REPOSITORY / "tests" / "e2e"))
from running import is_abandoned

PROGRAM = REPOSITORY / "tests" / "e2e" / "pnetcdf_programs" / "blocks.c"
VICTIMS = ("rank", "mpirun", "aggregator", "launcher", TWO)
RANKS, STEPS, ROWS = 4, 20, 256
OLD = b"what was there before"


def steps_of(path: Path, plain: Path, told: int) -> int:
    """How many steps are in the file. What all ranks have written must be there, and nothing else but fill values."""
    with netCDF4.Dataset(path) as file, netCDF4.Dataset(plain) as expected:
        count = len(file.dimensions["time"])
        if count < told:
            raise WrongError(f"{told} steps were written, {path.name} has {count}")
        for name in ("T", "time", "topo", "count"):
            values, whole = file[name][:], expected[name][:]
            known = whole.size if told else 0
            if name in ("T", "time"):
                whole, known = whole[:count], whole[:told].size
            right = np.ma.filled(values == whole, False).ravel()
            if not right[:known].all() or not (right | np.ma.getmaskarray(values).ravel()).all():
                raise WrongError(f"{name} of {path.name} has other values")
        return count


def once(folder: Path, program: Path, plain: Path, kind: str, longest: float) -> str:
    """One kill. Returns what was found."""
    hist = folder / "hist.nc"
    has_old = random.random() < 0.5
    if has_old:
        hist.write_bytes(OLD)
    (folder / "knarr.toml").write_text('[[file]]\npattern = "*.nc"\n')
    command = [KNARR, "run", "-q", "-c", "knarr.toml", "--", "mpirun", "--oversubscribe", "-n", str(RANKS), program]
    with (folder / "output").open("w+") as output:
        launcher = subprocess.Popen(
            [*command, hist.name, str(STEPS), str(ROWS), "tell"],
            cwd=folder,
            env=ON_ONE_MACHINE,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        await_moment(launcher, Path(output.name), longest)
        kinds = chosen(kind, VICTIMS)
        has_hit = kill(
            lambda: [victim_of(launcher.pid, one, program) for one in kinds], lambda: launcher.poll() is None
        )
        until(lambda: has_ended(launcher, program), f"launcher {launcher.pid}")
        until(lambda: not ranks_left(program), "ranks")
        output.seek(0)
        text = output.read()
    told = 1 + max((int(step) for step in re.findall(r"^step (\d+)$", text, re.MULTILINE)), default=-1)
    return judge(hist, plain, launcher.pid, launcher.returncode, told, text, has_old, has_hit)


def await_moment(launcher: subprocess.Popen, output: Path, longest: float) -> None:
    """Some kills fall into the start, most between steps, and some into the packing after the last one."""
    step = random.randint(-5, STEPS + 4)
    if step < 0:
        time.sleep(random.uniform(0, longest))
        return
    line = f"step {min(step, STEPS - 1)}\n"
    until(lambda: line in output.read_text() or launcher.poll() is not None, line.strip())
    time.sleep(random.uniform(0, 0.05 if step < STEPS else longest))


def judge(hist: Path, plain: Path, launcher: int, code: int, told: int, text: str, has_old: bool, has_hit: bool) -> str:
    """Whether all is as it should be after the end of the launcher, and after `--recover`."""
    if hist.exists() and hist.read_bytes().startswith(b"CDF"):
        # Ranks that outlive mpirun, and create the file when the launcher is gone, write it themselves.
        if code == 0:
            raise WrongError("the file was written past the launcher")
        found = "without a launcher"
    elif hist.exists() and hist.read_bytes() != OLD:
        steps_of(hist, plain, STEPS)
        if any(any(spool.rglob("log.*")) for spool in spools(launcher)):
            # The launcher was killed in the moment between. --recover does not replace the file.
            if code != -signal.SIGKILL:
                raise WrongError(f"{spools(launcher)} stays beside the file that was made of it")
            done = subprocess.run(
                [KNARR, "run", "--recover", *spools(launcher)], capture_output=True, text=True, check=False
            )
            steps_of(hist, plain, STEPS)
            if "a newer file has its name" in done.stderr:
                shutil.rmtree(spools(launcher)[0])
            elif done.returncode != 0 or any(any(spool.rglob("log.*")) for spool in spools(launcher)):
                # It may be known as the file of these values, and is made once more.
                raise WrongError(f"--recover says of a file that was made already:\n{done.stderr}")
            return "published, with its values left"
        found = "published" if has_hit else "missed"
    else:
        if code == 0:
            raise WrongError(f"exit code 0, and no file:\n{text}")
        if has_old and not hist.exists():
            raise WrongError("the old file is gone")
        if any(any(spool.rglob("log.*")) for spool in spools(launcher)) and code > 0 and "--recover" not in text:
            raise WrongError(f"nothing is told of what is left:\n{text}")
        found = recovered(hist, plain, launcher, told, text)
    for spool in spools(launcher):
        # A launcher that was killed before the program began has nothing to finish.
        if not is_abandoned(spool) or any(spool.rglob("log.*")):
            raise WrongError(f"{spool} stays")
        shutil.rmtree(spool)
    # A launcher that is killed leaves a directory with the file that it had locked. The next one takes it over.
    expected = ("hist.nc", "hist.nc.knarr.json", "knarr.toml", "output", ".knarr", "in-use")
    debris = [str(path.relative_to(hist.parent)) for path in hist.parent.rglob("*") if path.name not in expected]
    if debris := [name for name in debris if not name.startswith("core")]:
        raise WrongError(f"left in the folder: {debris}")
    return found


def recovered(hist: Path, plain: Path, launcher: int, told: int, text: str) -> str:
    left = spools(launcher)
    if not left:
        if told:
            raise WrongError(f"{told} steps were written, and nothing is left of them:\n{text}")
        return "nothing written"
    # What the killed run would have replaced is not in the way.
    hist.unlink(missing_ok=True)
    done = subprocess.run([KNARR, "run", "--recover", *left[:1]], capture_output=True, text=True, check=False)
    if not hist.exists():
        if told:
            raise WrongError(f"{told} steps were written, and --recover makes no file of them:\n{text}\n{done.stderr}")
        for spool in spools(launcher):
            shutil.rmtree(spool)
        return "nothing written"
    return "recovered whole" if steps_of(hist, plain, told) == STEPS else "recovered in part"


def prepare(top: Path) -> Callable[[Path, str], str]:
    program, plain = built(PROGRAM, top), top / "plain.nc"
    writes = ["mpirun", "--oversubscribe", "-n", str(RANKS), program, plain, str(STEPS), str(ROWS)]
    begin = time.monotonic()
    subprocess.run([*writes, "tell"], env=ON_ONE_MACHINE, check=True, capture_output=True)
    longest = time.monotonic() - begin
    return lambda folder, kind: once(folder, program, plain, kind, longest)


if __name__ == "__main__":
    sys.exit(repeat(__doc__, VICTIMS, prepare))
