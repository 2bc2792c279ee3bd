"""Values that memory has no room for while they wait: they go to a disk, packed by the ranks where it is full."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import may_mount, unmount
from running import MPIRUN, no_spools_stay, spools  # noqa: F401  a fixture
from test_pnetcdf import RANKS, RULE, written

STEPS, ROWS = 16, 512
"""36 MiB, of which 16 may be in memory."""
LITTLE = ("--max-mem", "32M")


@pytest.fixture(scope="module")
def plain(blocks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What PnetCDF writes by itself."""
    folder = tmp_path_factory.mktemp("plain")
    subprocess.run([*MPIRUN, str(RANKS), blocks, "plain.nc", str(STEPS), str(ROWS)], cwd=folder, check=True)
    return folder / "plain.nc"


@pytest.fixture
def full(run) -> Iterator[Path]:
    """The disk of the run has room for half of the values."""
    if not may_mount():
        pytest.skip("mounting a small file system needs root")
    run.scratch.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=18m", "tmpfs", run.scratch], check=True)
    yield run.scratch
    unmount(run.scratch)


def test_a_file_larger_than_its_memory(run, knarr, blocks, plain):
    ran = written(run, blocks, "hist.nc", STEPS, ROWS, options=LITTLE)
    knarr("verify", plain, run.folder / "hist.nc")
    taken = ran.result["spool"]
    assert taken["memory_bytes"] <= 16 << 20 and taken["disk_bytes"] > 4 << 20
    assert not list(run.scratch.glob("knarr-spool-*")) and not spools()


def test_a_disk_without_room_has_some_for_values_that_are_packed(run, knarr, blocks, plain, full):
    ran = written(run, blocks, "hist.nc", STEPS, ROWS, options=LITTLE)
    knarr("verify", plain, run.folder / "hist.nc")
    taken = ran.result["spool"]
    assert taken["memory_bytes"] <= 16 << 20 and 4 << 20 < taken["disk_bytes"] <= 18 << 20
    assert not list(full.glob("knarr-spool-*")) and not spools()


def test_what_was_packed_is_there_when_a_rank_is_killed(run, knarr, blocks, plain, full):
    ran = written(run, blocks, "hist.nc", STEPS, ROWS, "kill", options=LITTLE, ok=False)
    assert ran.code != 0 and not (run.folder / "hist.nc").exists()
    (spool,) = spools()
    assert list(spool.glob("*/values.*.parts"))
    knarr("run", "--recover", spool)
    knarr("verify", plain, run.folder / "hist.nc")
    assert not spools()


def test_files_that_find_no_room_do_not_fill_the_memory(run, blocks):
    """What was not delivered stays in memory up to a limit. Then the library writes, and says what is wrong."""
    if not may_mount():
        pytest.skip("mounting a small file system needs root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", run.folder], check=True)
    try:
        each = " ".join(f"hist{number}.nc" for number in range(8))
        loop = f"for name in {each}; do {' '.join(map(str, MPIRUN))} {RANKS} {blocks} $name 4 256 > /dev/null; done"
        ran = run("sh", "-c", loop, config=RULE, options=("--max-mem", "16M"), ok=False)
        kept = [file for file in ran.result["failed"] if "hist" in file["output"]]
        assert ran.code != 0 and 1 <= len(kept) < 8, ran.result
        assert "take the memory that is for its own" in ran.err and ran.result["spool"]["memory_bytes"] <= 12 << 20
        (spool,) = spools()
        assert len(list(spool.glob("*/set-aside.json"))) == len(kept)
    finally:
        unmount(run.folder)
