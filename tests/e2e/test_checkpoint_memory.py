"""Steps that are complete in the memory of nodes first, under MPI: killed programs, lost nodes, memory that is full.

Nodes are directories here, as in `test_checkpoint_levels.py`.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from chances import repeated
from conftest import Knarr, may_mount, unmount
from test_checkpoint_levels import NODES, Job, flushed, job, levels
from test_checkpoint_library import TIME_LIMIT_S

__all__ = ["job", "levels"]


def memory(job: Job, number: int) -> Path:
    return job.folder / f"memory-{number}"


def steps(directory: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step_")) for path in directory.glob("sets-*/step_*"))


def test_each_level_has_its_own_period(job: Job) -> None:
    last = job.killed("memory_keep=1 local_every=2 local_keep=1 flush=1h")
    for number in NODES:
        (in_memory,) = steps(memory(job, number))[-1:]
        assert in_memory >= last and in_memory - max(steps(job.node(number))) <= 2
    assert flushed(job) == []
    begun, _, err = job.run(last + 3, "memory_keep=1 local_every=2 flush=1h")
    assert begun in (last, last + 1) and err == "", (begun, last, err)
    assert flushed(job) == [last + 3]
    assert [steps(memory(job, number)) for number in NODES] == [[], [], []]


@pytest.mark.kill
def test_no_step_that_was_complete_is_lost(job: Job, chance: random.Random) -> None:
    """Whatever is killed between levels, and a node may be lost then."""
    last = 0
    for _ in range(repeated(6)):
        protect = chance.choice(["partner", "parity", "parity:3+2"])
        options = (
            f"memory_keep={chance.choice([1, 2])} local_every={chance.choice([1, 2, 5])} local_keep=1 "
            f"flush={chance.choice(['1', '3', '1h'])} protect={protect}"
        )
        process = job.start(1_000_000, options)
        time.sleep(chance.uniform(0.6, 2.5))
        ranks = job.ranks(process)
        for pid in ranks if chance.random() < 0.5 else ranks[:1]:
            os.kill(pid, signal.SIGKILL)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=TIME_LIMIT_S)
        last = max([last, *map(int, re.findall(r"(?:complete|from) (\d+)\n", out))])
        assert "another value" not in err
        if chance.random() < 0.5:
            lost = chance.choice(NODES)
            shutil.rmtree(job.node(lost), ignore_errors=True)
            shutil.rmtree(memory(job, lost), ignore_errors=True)
        begun, _, _ = job.run(0, options)
        # The program may have been killed before it said that one more was complete.
        assert begun in (last, last + 1), (begun, last, options)
        last = begun
    hidden = [path for path in job.folder.rglob(".*knarr-*") if ".knarr-costs" not in path.name]
    assert not hidden, hidden


def test_nodes_that_are_given_back_bring_what_is_in_memory(job: Job, knarr: Knarr) -> None:
    step = job.killed("memory_keep=1 local_every=2 flush=1h protect=none")
    said = [
        json.loads(
            knarr("checkpoint", "scavenge", memory(job, number), job.node(number), "-o", job.sets, "--json").stdout
        )
        for number in NODES
    ]
    complete = [one["step"] for one in said[-1] if one["state"] == "complete"]
    assert complete in ([step], [step + 1]), said
    assert flushed(job) == complete
    knarr("checkpoint", "verify", job.sets / f"step_{complete[0]}")


@pytest.mark.parametrize("limit", ["size=200k", "size=64M,nr_inodes=12"])
def test_steps_for_which_memory_has_no_room_go_to_the_disk(job: Job, limit: str) -> None:
    """One that is known before, and one that is met while a step is packed."""
    if not may_mount():
        pytest.skip("needs root, to mount a file system")
    memory(job, 2).mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", limit, "none", memory(job, 2)], check=True)
    options = "memory_keep=2 local_every=100 local_keep=9 flush=100"
    try:
        _, last, err = job.run(4, options)
        assert last == 4 and "go to 'local' as long as 'memory' is full" in err and "rank 2" in err, err
        # What was complete in memory before it was full did not come to the disk.
        assert steps(job.node(0)) in ([1, 2, 3, 4], [2, 3, 4], [3, 4]), steps(job.node(0))
        assert flushed(job) == [4]
        assert job.run(5, options)[:2] == (4, 5)
    finally:
        unmount(memory(job, 2))


def test_options_of_a_level_need_it(job: Job) -> None:
    for options, words in {
        "local_every=2": "'local_every' is for sets that are in memory before",
        "memory_keep=0": "option 'memory_keep=0'",
        "memory_keep=1 local_every=often": "neither a number of checkpoints",
    }.items():
        assert words in job.run(1, options, ok=False)[2]
