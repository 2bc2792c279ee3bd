"""Output of a program whose job may have little memory: a run of twenty times what its spool may hold.

Four ranks write steps of four variables with PnetCDF under `knarr run` as fast as they can, in a control group with
2 GiB, as batch systems make one for each job. A job that takes more is ended by the system. Takes the rights of root.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from parallel_output import KNARR, STEP_BYTES, prepared

LIMIT = 2 << 30
SHARE = 4
"""The spool may hold this part of what is available."""
STEPS = 20 * LIMIT // SHARE // STEP_BYTES
RULE = '[[file]]\npattern = "*.nc"\n'
ENTERS = 'echo $$ > "$0/cgroup.procs"; exec "$@"'


@dataclass
class Result:
    """Of one run."""

    values_bytes: int
    limit_bytes: int
    most_bytes: int
    """With files that the system has cached, which it may give up."""
    killed: int
    """Processes that the system has ended for want of memory."""
    exit_code: int
    files: int
    seconds: float


@contextlib.contextmanager
def limited() -> Iterator[tuple[Path, str, str]]:
    """A control group; the names of its files of the most that was used, and of what was killed."""
    old = Path("/sys/fs/cgroup/memory")
    place = (old if old.is_dir() else Path("/sys/fs/cgroup")) / f"knarr-bench-{os.getpid()}"
    place.mkdir()
    try:
        if old.is_dir():
            (place / "memory.limit_in_bytes").write_text(str(LIMIT))
            yield place, "memory.max_usage_in_bytes", "memory.oom_control"
        else:
            (place / "memory.max").write_text(str(LIMIT))
            yield place, "memory.peak", "memory.events"
    finally:
        place.rmdir()


def measure() -> Result:
    with (
        prepared() as (folder, program, values),
        limited() as (group, most, events),
        tempfile.TemporaryDirectory() as out,
    ):
        (Path(out) / "knarr.toml").write_text(RULE)
        command = [KNARR, "run", "-q", "-c", Path(out) / "knarr.toml", "--", "mpirun", "--oversubscribe", "-n", "4"]
        command += [program, "pnetcdf", Path(out) / "s", STEPS, 0, values]
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        begin = time.monotonic()
        words = [str(word) for word in ["sh", "-c", ENTERS, group, *command]]
        done = subprocess.run(words, capture_output=True, check=False, env=environment, cwd=folder)
        seconds = time.monotonic() - begin
        ends = [line.split() for line in (group / events).read_text().splitlines()]
        return Result(
            values_bytes=STEPS * STEP_BYTES,
            limit_bytes=LIMIT,
            most_bytes=int((group / most).read_text()),
            killed=sum(int(number) for name, number in ends if name == "oom_kill"),
            exit_code=done.returncode,
            files=len(list(Path(out).glob("*.nc"))),
            seconds=seconds,
        )


def table(result: Result) -> str:
    return (
        f"{result.values_bytes / 1e9:.1f} GB of values in {STEPS} steps, {LIMIT / 1e9:.1f} GB for the job: exit code "
        f"{result.exit_code}, {result.files} files, {result.killed} processes killed, at most "
        f"{result.most_bytes / 1e9:.2f} GB used, {result.seconds:.0f} s"
    )
