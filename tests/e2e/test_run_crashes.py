"""`knarr run` and files that crash what packs them: the program's exit code is kept, and all else goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from chances import repeated
from conftest import sets_in
from crashing import library, workers
from running import ALL, CLOSE, FIELD, group_ends, is_packed, script, until

TWO_FILES = """
for name in ("crash.h5", "later.h5"):
    with h5py.File(name, "w") as file:
        file["T"] = FIELD
deadline = time.time() + 250
while h5py.File("later.h5")["T"].chunks is None:
    assert time.time() < deadline
    time.sleep(0.01)
sys.exit(7)
"""


@pytest.fixture
def run(run):
    run.config = CLOSE
    return run


@pytest.fixture
def preload(tmp_path: Path) -> dict[str, str]:
    return {"LD_PRELOAD": str(library(tmp_path))}


def test_what_crashes_is_left_and_the_next_file_is_packed(run, preload):
    ran = run(*script(TWO_FILES), ok=False, env=preload)
    assert ran.code == 7
    assert ran.file("later.h5")["outcome"] == "packed" and is_packed(run.folder / "later.h5")
    crashed = ran.file("crash.h5")
    assert crashed["outcome"] == "failed" and "SIGABRT" in crashed["reason"]
    assert "crash.h5: " in ran.err and "the file is as the program wrote it" in ran.err
    with h5py.File(run.folder / "crash.h5") as file:
        assert file["T"].chunks is None and np.array_equal(file["T"][:], FIELD)


def test_what_crashes_once_is_packed_when_the_program_has_ended(run, preload):
    (run.folder / "once").touch()
    ran = run(*script(TWO_FILES), ok=False, env=preload)
    assert ran.code == 7 and (run.folder / "crashed").exists()
    crashed = ran.file("crash.h5")
    assert crashed["outcome"] == "packed" and "SIGABRT" in crashed["note"]
    assert "at the second attempt" in ran.err and is_packed(run.folder / "crash.h5")


def test_sets_owed_are_made_after_a_crash(run, preload):
    (run.folder / "once").touch()
    config = '[[file]]\npattern = "crash_{step}_{rank}.h5"\nroute = "checkpoint"\nranks = 2\nsettle = "100ms"\n'
    ran = run(
        *script("""
        for step in range(3):
            for rank in range(2):
                with h5py.File(f"crash_{step}_{rank}.h5", "w") as file:
                    file["T"] = FIELD + 10 * step + rank
            time.sleep(1)
        sys.exit(7)
        """),
        ok=False,
        config=config,
        env=preload,
    )
    assert ran.code == 7 and (run.folder / "crashed").exists() and "SIGABRT" in ran.err
    steps = {row["step"]: row["outcome"] for row in ran.result["checkpoints"]}
    assert steps == {0: "packed", 1: "packed", 2: "packed"}
    assert sets_in(run.top / "sets") == ["step_0", "step_1", "step_2"]


@pytest.mark.parametrize("rule", [ALL, CLOSE])
def test_the_launcher_outlives_files_that_are_opened_again_and_again(run, rule):
    """What HDF5 reads of a group that grows meanwhile has made it write past its memory: see tests/suites/soak.py."""
    program = script("""
        for number in range(4):
            name = f"a{number}.h5"
            with h5py.File(name, "w", track_order=True, userblock_size=512) as file:
                for item in range(150):
                    file[f"T{item}"] = FIELD[0, :16, :16] + item
            for again in range(25):
                with h5py.File(name, "r+") as file:
                    for item in range(5):
                        file[f"again{again}_{item}"] = FIELD[0, :8, :8] + again
                time.sleep(0.001 * (again % 5))
        sys.exit(7)
        """)
    ran = run(*program, ok=False, config=rule)
    assert ran.code == 7
    for number in range(4):
        assert ran.file(f"a{number}.h5")["outcome"] == "packed"
        with h5py.File(run.folder / f"a{number}.h5") as file:
            assert len(file) == 150 + 25 * 5
            assert np.array_equal(file["T7"][:], FIELD[0, :16, :16] + 7)
            assert np.array_equal(file["again24_4"][:], FIELD[0, :8, :8] + 24)


@pytest.mark.kill
def test_kills_of_what_packs_leave_whole_files(run):
    count = 24
    process = run.start(
        *script(f"""
        for number in range({count}):
            with h5py.File(f"a{{number}}.h5", "w") as file:
                file["T"] = FIELD + number
            time.sleep(0.1)
        # What makes the last ones may be killed, too.
        while not os.path.exists("go"):
            time.sleep(0.01)
        sys.exit(7)
        """),
        config=CLOSE + 'goal = "ratio"\n',
    )
    kills = 0
    while not (run.folder / f"a{count - 1}.h5").exists():
        assert process.poll() is None
        for worker in workers(process.pid):
            time.sleep(0.013 * (kills % 11))
            with contextlib.suppress(ProcessLookupError):  # Killed before, and waited for just now.
                os.kill(worker, signal.SIGKILL)
                kills += 1
        time.sleep(0.01)
    (run.folder / "go").touch()
    ran = run.finish(process)
    assert ran.code == 7 and kills > 0
    assert not [path for path in run.top.rglob(".*") if path.is_file()]
    for number in range(count):
        with h5py.File(run.folder / f"a{number}.h5") as file:
            assert np.array_equal(file["T"][:], FIELD + np.float32(number))
    outcomes = [file["outcome"] for file in ran.result["files"]]
    assert len(outcomes) == count and outcomes.count("packed") >= count - 1, ran.result


def test_a_killed_launcher_takes_its_work_along(run):
    process = run.start(
        *script("""
        with h5py.File("a.h5", "w") as file:
            file["T"] = np.tile(FIELD, (32, 1, 1))
        while not os.path.exists("go"):
            time.sleep(0.01)
        """),
        # It stops at the next chunk, and others may have the processors.
        config=CLOSE + 'goal = "archive"\nvariables.T.chunks = "1x32x32"\n',
    )
    until(lambda: list(run.scratch.glob(".*")), "packing has not begun", of=process)
    (worker,) = workers(process.pid)
    process.kill()
    process.wait()
    until(lambda: not Path(f"/proc/{worker}").exists(), "the worker goes on")
    (run.folder / "go").touch()
    process.communicate(timeout=60)
    # A worker that gets no processor for seconds ends at once, and the next run removes its file.
    run("true")
    assert not list(run.scratch.glob(".*"))
    with h5py.File(run.folder / "a.h5") as file:
        assert np.array_equal(file["T"][:8], FIELD)


@pytest.mark.kill
def test_what_killed_runs_leave_is_removed_by_the_next(run, chance):
    """Killed at any moment, and every second time while a file is packed."""
    left = 0
    for kill in range(repeated(12)):
        wrote = run.folder / "wrote"
        process = run.start(
            *script('with h5py.File("a.h5", "w") as file:\n    file["T"] = FIELD\nopen("wrote", "w")\ntime.sleep(60)'),
            start_new_session=True,
        )
        until(wrote.exists, "it is not written", of=process)
        if kill % 2:
            # It may be over before this sees it.
            until(lambda: list(run.scratch.glob(".*")) or is_packed(run.folder / "a.h5"), "it is not packed")
            time.sleep(chance.uniform(0, 0.01))
        else:
            time.sleep(chance.uniform(0, 0.15))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        group_ends(process.pid)
        left += len(list(run.top.rglob(".*.knarr-*")))
        with h5py.File(run.folder / "a.h5") as file:
            assert np.array_equal(file["T"][:], FIELD)
        wrote.unlink()
        # Looks for what is in the way of whole files, too, and removes the directory of the run that was killed.
        run("true")
    assert left, "no kill came while a file was packed"
