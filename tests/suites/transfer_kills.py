#!/usr/bin/env python3
"""Kills processes of two coupled programs under `knarr run` at random moments, many times.

    .venv/bin/python tests/suites/transfer_kills.py                          # 200 times each
    .venv/bin/python tests/suites/transfer_kills.py --times 20 --victim reader-rank

Two ranks write a file in three sessions, two others read it and check every value. One process of either side
is ended by SIGKILL: a rank, mpirun, or the launcher; or two of those at once. The sides are on one node, or on two.
Then nothing may hang longer than the rule's timeout, no value that is read may be wrong, and after the next run of both
components no meeting place may be left, and no shared memory but what `knarr run --recover` makes files of. Exit code 1
if anything was wrong.
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
    chosen,
    has_ended,
    kill,
    ranks_left,
    repeat,
    spools,
    until,
    victim_of,
)

PROGRAM = REPOSITORY / "tests" / "e2e" / "transfer_programs" / "coupled.c"
SIDES = {"writer": "model", "reader": "analysis"}
PROCESSES = [f"{side}-{kind}" for side in SIDES for kind in ("rank", "mpirun", "launcher")]
APART = "-apart"
"""Each side is on a node of its own: nodes are names, and nothing but TCP leads from one to the other."""
VICTIMS = (*PROCESSES, TWO, *(f"{process}{APART}" for process in [*PROCESSES, TWO]))
TIMEOUT_S = 3
RULE = f"""
[[file]]
pattern = "*.nc"
route = "transfer"
from = "model"
to = ["analysis"]
timeout = "{TIMEOUT_S}s"
"""
ROWS, COLUMNS, STEPS, SESSIONS = 400, 300, 3, 3


class Side:
    """One of the two programs."""

    def __init__(self, name: str, folder: Path, is_apart: bool, *command: object):
        self.name, self.output = name, folder / f"output-{name}"
        (folder / f"tmp-{name}").mkdir(exist_ok=True)
        node = {"KNARR_NODE": f"node-{name}"} if is_apart else {}
        with self.output.open("w") as output:
            self.launcher = subprocess.Popen(
                list(map(str, [KNARR, "run", "--as", name, "-c", folder / "knarr.toml", "--", *command])),
                cwd=folder,
                env=ON_ONE_MACHINE | node | {"TMPDIR": str(folder / f"tmp-{name}")},
                stdout=output,
                stderr=subprocess.STDOUT,
            )


def sides(folder: Path, program: Path, is_apart: bool = False) -> dict[str, Side]:
    def command(way: str, grid: str) -> list[object]:
        return ["mpirun", "--oversubscribe", "-n", 2, program, way, "a.nc", ROWS, COLUMNS, grid, STEPS, SESSIONS]

    return {
        "writer": Side(SIDES["writer"], folder, is_apart, *command("write", "2x1")),
        "reader": Side(SIDES["reader"], folder, is_apart, *command("read", "1x2")),
    }


def both_end(started: dict[str, Side], program: Path) -> None:
    # Either may wait for the other one, whose mpirun never ends.
    until(lambda: all([has_ended(side.launcher, program) for side in started.values()]), "launchers")
    until(lambda: not ranks_left(program), "ranks")


def once(folder: Path, program: Path, kind: str, longest: float) -> str:
    """One kill. Returns what was found."""
    (folder / "knarr.toml").write_text(RULE)
    is_apart = kind.endswith(APART)
    kinds = [one.split("-") for one in chosen(kind.removesuffix(APART), PROCESSES)]
    started = sides(folder, program, is_apart)
    launchers = {name: side.launcher for name, side in started.items()}
    time.sleep(random.uniform(0, longest))
    has_hit = kill(
        lambda: [victim_of(launchers[side].pid, victim, program) for side, victim in kinds],
        lambda: all(launchers[side].poll() is None for side, _ in kinds),
    )
    begin = time.monotonic()
    both_end(started, program)
    took = time.monotonic() - begin
    texts = {name: side.output.read_text() for name, side in started.items()}
    whole = "\n".join(texts.values())
    # Nobody saw the writer's launcher before it was killed: its program has made files by itself.
    is_told = "was not started within" in texts["reader"] and "the file on the disk is read" in texts["reader"]
    if "is wrong" in whole or ("another session" in whole and not is_told) or "panicked" in whole:
        raise WrongError(whole)
    # Each open may wait once, and an mpirun that waits for ever is ended.
    if took > TIMEOUT_S + PATIENCE_S / 6 + 5:
        raise WrongError(f"the other side ended {took:.0f} s after the kill:\n{whole}")
    codes = [side.launcher.returncode for side in started.values()]
    # The next run of both has to work, and takes away what is left.
    again = sides(folder, program, is_apart)
    both_end(again, program)
    if failed := [side.output.read_text() for side in again.values() if side.launcher.returncode != 0]:
        raise WrongError("the run after that fails:\n" + "\n".join(failed))
    pids = [side.launcher.pid for side in [*started.values(), *again.values()]]
    for spool in [spool for pid in pids for spool in spools(pid)]:
        recover(spool, has_hit and "launcher" in [victim for _, victim in kinds])
    if (folder / ".knarr-transfer").exists():
        raise WrongError(".knarr-transfer stays")
    if not has_hit:
        return "missed"
    return "both ended well" if codes == [0, 0] else "the other side was told" if all(codes) else "one side ended well"


def recover(spool: Path, was_killed: bool) -> None:
    """Finishes what a launcher has left that was killed: sessions that nobody has read become files."""
    if not was_killed:
        raise WrongError(f"{spool} stays")
    done = subprocess.run([KNARR, "run", "--recover", spool], capture_output=True, text=True, check=False)
    # The program went on without its launcher, and has written later sessions itself.
    if spool.exists() and "a newer file has its name" not in done.stderr:
        raise WrongError(f"--recover cannot finish {spool}:\n{done.stderr}")
    shutil.rmtree(spool, ignore_errors=True)


def prepare(top: Path) -> Callable[[Path, str], str]:
    program = built(PROGRAM, top)
    (top / "first").mkdir()
    (top / "first" / "knarr.toml").write_text(RULE)
    took = []
    for _ in range(2):
        begin = time.monotonic()
        both_end(sides(top / "first", program), program)
        took.append(time.monotonic() - begin)
    # The first run reads what no file system has in memory, and in the end only launchers are left.
    longest = 0.8 * min(took)
    return lambda folder, kind: once(folder, program, kind, longest)


if __name__ == "__main__":
    sys.exit(repeat(__doc__, VICTIMS, prepare))
