"""The disk beside knarr.toml has no locks (flock), as Lustre without its option. Values go there when memory is short
or is about to be cleared, and can be recovered."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from test_handed_over import (  # noqa: F401  fixtures
    AWAIT_LEAVE,
    TIME_LIMIT_S,
    first_values,
    full_memory,
    launched_by,
    leave_to_go_on,
    life,
    short,
    spools,
    start,
    told,
    until,
    with_signal,
    worker_of,
)

NO_LOCKS = ("calls=flock", "below=/.knarr/", "number=1", "last=0", "do=38")
"""ENOSYS"""

pytestmark = pytest.mark.usefixtures("own_memory")


@pytest.fixture
def without_locks(run, faults, tmp_path) -> Path:
    """The command `knarr` where the disk has no locks."""
    run.program = launched_by(faults, tmp_path / "faults", NO_LOCKS)
    return run.program


def recover(program: Path, where: Path) -> subprocess.CompletedProcess[str]:
    command = [program, "run", "--recover", where]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIME_LIMIT_S)


def test_values_are_moved_at_the_end_of_a_batch_job(run, start, told, without_locks):  # noqa: F811
    """Nobody delivers from what a launcher that lives has moved, and all can when it was killed."""
    launcher = start("cfppx" + AWAIT_LEAVE + "2cfppx" + 40 * "z")
    until(lambda: (run.folder / "hist_1.nc").exists(), "the first file is not made")
    worker = worker_of(launcher)
    os.kill(worker, signal.SIGSTOP)
    leave_to_go_on(run.folder)
    until(lambda: told.has("15 close hist_2 0"), "the second file is not closed")
    time.sleep(0.5)
    launcher.send_signal(signal.SIGTERM)
    until(lambda: list(run.scratch.glob("knarr-spool-*/*/handed-over.json")), "nothing is moved")
    (moved,) = run.scratch.glob("knarr-spool-*")
    refused = recover(without_locks, moved)
    assert refused.returncode != 0 and "a run that goes on delivers from it" in refused.stderr
    for process in (worker, launcher.pid):
        with_signal(process, signal.SIGKILL)
    launcher.communicate(timeout=TIME_LIMIT_S)
    for spool in spools():
        shutil.rmtree(spool)
    done = recover(without_locks, run.scratch)
    assert done.returncode == 0, done.stderr
    assert first_values(run.folder / "hist_2.nc") == [5, 6]


def test_what_a_launcher_leaves_when_it_ends_can_be_recovered(run, start, told, without_locks):  # noqa: F811
    """By whoever finds it: the launcher may have been on another node."""
    launcher = start("cfpp" + 40 * "z")
    until(lambda: told.has("3 put hist_1 1 0 3 0"), "nothing is put")
    time.sleep(0.5)
    launcher.send_signal(signal.SIGTERM)
    launcher.communicate(timeout=TIME_LIMIT_S)
    for spool in spools():
        shutil.rmtree(spool)
    (moved,) = run.scratch.glob("knarr-spool-*")
    done = recover(without_locks, moved)
    assert done.returncode == 0, done.stderr
    assert first_values(run.folder / "hist_1.nc") == [2, 3]


def test_puts_go_on_when_memory_is_full(run, start, told, without_locks):  # noqa: F811
    """What is said of values goes to the disk as the values do."""
    puts = 300
    launcher = start("c" + 10 * "z" + puts * "p" + "x", part=10)
    until(lambda: told.has("0 defined hist_1 0"), "the file is not created")
    with full_memory():
        until(lambda: told.has(f"{11 + puts} close hist_1 0") or launcher.poll() is not None, "the file is not closed")
    launcher.communicate(timeout=TIME_LIMIT_S)
    noted = (told.folder / "0").read_text().splitlines()
    failed = [line for line in noted if line.split()[1] == "put" and not line.endswith(" 0")]
    assert launcher.returncode == 0 and not failed, failed[:3]
    assert len(first_values(run.folder / "hist_1.nc")) == puts
