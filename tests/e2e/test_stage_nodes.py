"""Route `stage` with ranks on several nodes: one keeps the file in a tier, and the others are free of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import netCDF4
import pytest

from nodes import SHARED_MEMORY, TIME_LIMIT_S, Launcher, contents, records
from running import forget, is_abandoned, nothing_moves, until
from test_nodes_names import SHORT
from test_parallel_hdf5 import compiled
from test_pnetcdf import HERE
from test_pnetcdf import compiled as compiled_for_pnetcdf
from test_stage import staged_files, tiers

pytestmark = [pytest.mark.node, pytest.mark.usefixtures("own_memory")]

STEPS, ROWS = 3, 256
COMPRESS = '[[file]]\npattern = "*.*"\n'
hdf5 = compiled("hdf5")
elsewhere = compiled_for_pnetcdf(HERE / "elsewhere.c")


@pytest.fixture
def fast(job: Launcher) -> Iterator[Path]:
    """The tier in which files wait: one directory for all nodes. Nothing stays there."""
    yield job.top / "fast"
    left = list((job.top / "fast").rglob("*"))
    assert not left, f"stays in the tier: {left}"


@pytest.mark.parametrize("nodes", ["aabb", "abcc"])
@pytest.mark.parametrize("kind", ["blocks", "hdf5"])
def test_a_staged_file_has_the_bytes_of_one_that_is_compressed(job, fast, request, kind, nodes):
    program = request.getfixturevalue(kind)
    made = []
    for config in (COMPRESS, tiers(more='goal = "balanced"\n')):
        ran = job(program, "hist.nc", STEPS, ROWS, nodes=nodes, config=config)
        assert ran.outcomes("hist.nc").count("gathered") == len(set(nodes)) - 1, ran.results
        made.append(contents(job.folder / "hist.nc"))
        for path in job.folder.glob("hist.nc*"):
            path.unlink()
    assert made[0] == made[1]
    waited = [result["tiers"][0]["most_bytes"] for result in ran.results]
    assert sum(most > 0 for most in waited) == 1, "it waits on the node that makes it"


def test_other_nodes_are_free_of_a_file_that_waits_in_a_tier(job, fast, blocks):
    process = job.start(blocks, "hist.nc", STEPS, ROWS, nodes="aabb", config=tiers(rate="30kB/s"))
    with nothing_moves(job.folder):
        assert staged_files(fast), "it does not wait in the tier"
        until(lambda: not list(records(job.folder)), "values stay in memory", of=process)
        assert not (job.folder / "hist.nc").exists()
    ran = job.finish(process)
    assert ran.code == 0 and ran.outcomes("hist.nc") == ["gathered", "packed"], ran.err
    job.check_clean()


@pytest.mark.parametrize("room", ["64M", "2M"])
def test_another_node_that_has_written_a_file_reads_it_before_it_is_in_its_place(job, fast, elsewhere, room):
    """Without room in memory for a copy it waits for that."""
    # Who does not belong to the run sees what is there.
    looks = "cp hist.nc ../copy.nc && env -u LD_PRELOAD ls; touch ../read"
    command = f"until [ -e ../go ]; do sleep 0.1; done; {looks}"
    config = tiers(rate="1MB/s").replace('"/dev/shm"', f'"/dev/shm"\ncapacity = "{room}"')
    process = job.start(elsewhere, "hist.nc", "share", SHORT, command, nodes="ab", config=config)
    with nothing_moves(job.folder) if room == "64M" else contextlib.nullcontext():
        (job.top / "go").touch()
        if room == "64M":
            until((job.top / "read").exists, "it waits", of=process)
    out, err = process.communicate(timeout=TIME_LIMIT_S)
    assert process.returncode == 0, err
    there = [line for line in out.splitlines() if not line.startswith("rank")]
    assert there == (["hist.nc"] if room == "2M" else []), out
    assert contents(job.top / "copy.nc") == contents(job.folder / "hist.nc")
    job.check_clean()


@pytest.mark.parametrize("lost", ["", "memory"])
def test_what_waits_in_a_tier_needs_no_other_node_to_be_recovered(job, knarr, fast, elsewhere, lost):
    """All is killed. The other node has removed its part, and nothing of it stays."""
    command = [elsewhere, "hist.nc", "share", SHORT, "sleep 600"]
    process = job.start(*command, nodes="ab", config=tiers(rate="10kB/s"))
    until(lambda: staged_files(fast), "it does not wait in the tier")
    until(lambda: not list(records(job.folder)), "values stay in memory", of=process)
    until(lambda: list(fast.glob("*/*/freed.1")), "nobody notes that the other part is removed", of=process)
    kill_all(job, process)
    for spool in spools_in_memory():
        if lost:
            shutil.rmtree(spool)
    knarr("run", "--recover", fast)
    with netCDF4.Dataset(job.folder / "hist.nc") as file:
        assert file["T"].shape == (SHORT,) and file["T"][0] == file["T"][-1] == 1
    if not lost:
        knarr("run", "--recover", SHARED_MEMORY)
    assert not spools_in_memory()
    forget(job.top)
    assert not (job.top / ".knarr").exists(), list((job.top / ".knarr").iterdir())


def kill_all(job: Launcher, process: subprocess.Popen) -> None:
    """Launchers, ranks and mpirun, at once. Returns when they are gone."""
    own = str(job.top).encode()

    def all_are_gone() -> bool:
        found = False
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if own in (place / "environ").read_bytes() and int(place.name) != os.getpid():
                    os.kill(int(place.name), signal.SIGKILL)
                    found = True
        return not found

    until(all_are_gone)
    process.communicate()
    # What they held locked is free a moment after their memory is.
    until(lambda: all(map(is_abandoned, spools_in_memory())), "launchers go on")


def spools_in_memory() -> list[Path]:
    return sorted(SHARED_MEMORY.glob("knarr-spool-*"))
