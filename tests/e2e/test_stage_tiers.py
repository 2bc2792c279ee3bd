"""Tiers of route `stage` that do not do what they should: no value is lost as long as it lies anywhere."""

from __future__ import annotations

import os
import shutil
import time

import h5py
import numpy as np
import pytest

from conftest import may_mount, unmount
from running import TIME_LIMIT_S, Runner, forget, no_spools_stay, nothing_moves, script, until  # noqa: F401  a fixture
from test_stage import FILES, NOISE, NUMBERS, are_whole, contents, fast, staged_files, tiers  # noqa: F401  a fixture

LESS = NUMBERS // 10
MORE = NOISE.replace('f"a{', 'f"b{').replace("default_rng(number)", "default_rng(number + 9)")
MORE = MORE.replace(str(NUMBERS), str(LESS))
GOES_ON = """
open("written", "w")
while not os.path.exists("go"):
    time.sleep(0.05)
"""


def more_are_whole(run: Runner) -> None:
    for number in range(FILES):
        with h5py.File(run.folder / f"b{number}.h5") as file:
            np.testing.assert_array_equal(file["T"][...], contents(number + 9)[:LESS])


def test_a_tier_that_vanishes_takes_only_what_waited_there(run, fast):  # noqa: F811
    """Each file that is lost is named, and those that come are made in their places."""
    process = run.start(*script(NOISE + GOES_ON + MORE), config=tiers(rate="500kB/s"))
    with nothing_moves(run.folder):
        until((run.folder / "written").exists, of=process)
        moved = len(list(run.folder.glob("a*.h5")))
        until(lambda: len(staged_files(fast)) + moved == FILES, of=process)
        shutil.rmtree(fast)
    (run.folder / "go").touch()
    ran = run.finish(process)
    assert ran.code != 0 and "is gone: the tier was lost" in ran.err
    more_are_whole(run)
    lost = [number for number in range(FILES) if not (run.folder / f"a{number}.h5").exists()]
    # The one that moves is open.
    assert len(lost) >= max(1, FILES - moved - 1), lost
    for number in lost:
        assert f"a{number}.h5" in ran.err, ran.err
        assert ran.file(f"a{number}.h5")["outcome"] == "failed", ran.result


def test_a_tier_that_becomes_read_only_is_passed_over(run, fast):  # noqa: F811
    if not may_mount():
        pytest.skip("mounting a small file system needs root")
    fast.mkdir()
    os.system(f"mount -t tmpfs -o size=64m tmpfs {fast}")
    try:
        process = run.start(*script(NOISE + GOES_ON + MORE), config=tiers(rate="100MB/s"))
        until(lambda: (run.folder / f"a{FILES - 1}.h5").exists() and not staged_files(fast))
        os.system(f"mount -o remount,ro {fast}")
        (run.folder / "go").touch()
        ran = run.finish(process)
        assert ran.code == 0, ran.err
        are_whole(run.folder)
        more_are_whole(run)
        os.system(f"mount -o remount,rw {fast}")
        forget(run.top)
        # What could not be removed goes with the next run.
        run(*script("pass"), config=tiers())
    finally:
        unmount(fast)


def test_a_tier_that_is_slow_does_not_block_the_program(run, fast):  # noqa: F811
    """It takes 20 s to get 10 MB: 6 s at least after the program has made the last file."""
    config = tiers(rate="100MB/s").replace('capacity = "64M"', 'capacity = "64M"\nemulate = { rate = "500kB/s" }')
    ran = run(*script(NOISE + "print(time.time())\n"), config=config)
    assert float(ran.out) < time.time() - 6
    are_whole(run.folder)


@pytest.mark.parametrize("capacity", ["1", "1k"])
def test_a_tier_without_room_is_passed_over(run, fast, capacity):  # noqa: F811
    ran = run(*script(NOISE), config=tiers(capacity=capacity))
    are_whole(run.folder)
    assert ran.result["tiers"][0]["most_bytes"] == 0, ran.result["tiers"]


def test_two_runs_use_one_tier(run, fast, tmp_path):  # noqa: F811
    (tmp_path / "other").mkdir()
    runs = [run, Runner(run.program, run.environment, tmp_path / "other")]
    config = tiers(rate="4MB/s").replace('"fast"\ncap', f'"{fast}"\ncap')
    assert str(fast) in config
    programs = [one.start(*script(NOISE), config=config) for one in runs]
    for program in programs:
        program.wait(timeout=TIME_LIMIT_S)
    for one, program in zip(runs, programs, strict=True):
        assert one.finish(program).code == 0
        are_whole(one.folder)


def test_files_smaller_than_a_tier_pass_through_it_again_and_again(run, fast):  # noqa: F811
    """Room is given back: each of 40 files takes an eighth of the tier."""
    program = """
for number in range(40):
    with h5py.File(f"a{number}.h5", "w") as file:
        file["T"] = np.random.default_rng(number).standard_normal(30_000).astype("f4")
    time.sleep(0.02)
"""
    ran = run(*script(program), config=tiers(capacity="10M", rate="40MB/s"))
    for number in range(40):
        with h5py.File(run.folder / f"a{number}.h5") as file:
            values = np.random.default_rng(number).standard_normal(30_000).astype("f4")
            np.testing.assert_array_equal(file["T"][...], values)
    assert 0 < ran.result["tiers"][0]["most_bytes"] <= 10 << 20, ran.result["tiers"]
