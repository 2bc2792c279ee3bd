"""Steps that are complete on disks of nodes first, under MPI: killed programs, lost nodes, nodes that are given back.

Nodes are directories here, one for each two ranks.
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
from conftest import REPOSITORY, Knarr, may_mount, sets_in, unmount
from test_capi import PREFIX, flags, need
from test_checkpoint_library import MPIS, TIME_LIMIT_S, children, is_running

RANKS, NODES = 5, (0, 2, 4)


@pytest.fixture(scope="session")
def levels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program, include = tmp_path_factory.mktemp("levels") / "levels", PREFIX / "include"
    need("mpicc.openmpi", "libopenmpi-dev")
    source = REPOSITORY / "tests" / "e2e" / "capi" / "levels.c"
    options = ["-std=c11", "-O1", f"-I{include}", *flags("--cflags")]
    command = ["mpicc.openmpi", *options, source, include / "knarr_mpi.c", "-o", program, *flags("--libs")]
    subprocess.run(command, check=True)
    return program


class Job:
    """The program on the nodes of a folder."""

    def __init__(self, program: Path, folder: Path):
        self.program, self.folder, self.sets = program, folder, folder / "sets"

    def start(self, steps: int, options: str) -> subprocess.Popen[str]:
        command = [*MPIS["openmpi"], "-n", RANKS, self.program, self.sets, self.folder, steps, options]
        return subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder
        )

    def run(self, steps: int, options: str, ok: bool = True) -> tuple[int, int, str]:
        """The step from which it went on, the last one that was complete, and what it said on standard error."""
        process = self.start(steps, options)
        out, err = process.communicate(timeout=TIME_LIMIT_S)
        assert not ok or process.returncode == 0, err
        begun = re.findall(r"from (\d+)\n", out)
        return int(begun[0]) if begun else -1, max([0, *map(int, re.findall(r"complete (\d+)\n", out))]), err

    def killed(self, options: str) -> int:
        """Kills all ranks after the third step. Returns the last one that was complete."""
        process = self.start(1_000_000, options)
        for line in process.stdout:
            if line == "complete 3\n":
                break
        for pid in self.ranks(process):
            os.kill(pid, signal.SIGKILL)
        out, _ = process.communicate(timeout=TIME_LIMIT_S)
        return max([3, *map(int, re.findall(r"complete (\d+)\n", out))])

    def ranks(self, process: subprocess.Popen[str]) -> list[int]:
        return [pid for pid in children(process.pid) if is_running(pid, self.program)]

    def node(self, number: int) -> Path:
        return self.folder / f"node-{number}"


@pytest.fixture
def job(levels: Path, tmp_path: Path) -> Job:
    return Job(levels, tmp_path)


def flushed(job: Job) -> list[int]:
    return sorted(int(name.removeprefix("step_")) for name in sets_in(job.sets))


def test_steps_are_on_the_nodes_first(job: Job, knarr: Knarr) -> None:
    job.run(7, "flush=3 local_keep=2")
    # The last one is brought when the program ends.
    assert flushed(job) == [3, 6, 7]
    for number in NODES:
        (place,) = job.node(number).iterdir()
        assert place.name.startswith("sets-") and sorted(path.name for path in place.glob("step_*")) == [
            "step_6",
            "step_7",
        ]
    for step in (3, 6, 7):
        knarr("checkpoint", "verify", job.sets / f"step_{step}")
    assert job.run(8, "flush=3 local_keep=1 keep=2")[:2] == (7, 8)
    assert flushed(job) == [7, 8]


@pytest.mark.kill
def test_no_step_that_was_complete_is_lost(job: Job, chance: random.Random) -> None:
    """Whatever is killed, and a node may be lost then."""
    last = 0
    for _ in range(repeated(6)):
        protect = chance.choice(["partner", "parity", "parity:2", "parity:3+2"])
        options = f"flush={chance.choice(['1', '3', '100', '1h'])} local_keep={chance.choice([1, 2])} protect={protect}"
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
            shutil.rmtree(job.node(chance.choice(NODES)), ignore_errors=True)
        begun, _, _ = job.run(0, options)
        # The program may have been killed before it said that one more was complete.
        assert begun in (last, last + 1), (begun, last, options)
        last = begun
    hidden = [path for path in job.folder.rglob(".*knarr-*") if ".knarr-costs" not in path.name]
    assert not hidden, hidden


def test_nodes_that_are_given_back_bring_their_parts(job: Job, knarr: Knarr) -> None:
    job.killed("flush=1h protect=none")
    said = [
        json.loads(knarr("checkpoint", "scavenge", job.node(number), "-o", job.sets, "--json").stdout)
        for number in NODES
    ]
    assert [one[0]["state"] for one in said] == ["waits", "waits", "complete"], said
    newest = said[-1][0]["step"]
    assert newest in (3, 4) and flushed(job) == [newest]
    knarr("checkpoint", "verify", job.sets / f"step_{newest}")
    again = knarr("checkpoint", "scavenge", job.node(0), "-o", job.sets).stdout
    assert again == f"step {newest}: is in the directory of sets\n"
    nothing = knarr("checkpoint", "scavenge", job.folder / "other", "-o", job.sets, ok=False)
    assert "this node has no part of these sets" in nothing.stderr
    for number in NODES:
        shutil.rmtree(job.node(number))
    assert job.run(0, "")[0] == newest


@pytest.mark.parametrize("lost", [[0], [2], [4], [0, 2], [2, 4]])
def test_lost_nodes_cost_no_step_of_which_parity_is_left(job: Job, knarr: Knarr, lost: list[int]) -> None:
    options = f"flush=1h protect=parity:8+{len(lost)}"
    last = job.killed(options)
    for number in lost:
        shutil.rmtree(job.node(number))
    # The program checks all values of the step.
    begun, _, err = job.run(0, options)
    assert begun in (last, last + 1) and err == "", (begun, last, err)
    assert flushed(job) == [begun]
    knarr("checkpoint", "verify", job.sets / f"step_{begun}")
    assert job.run(begun + 2, options)[:2] == (begun, begun + 2)


def test_nodes_that_are_left_bring_what_parity_makes_up_for(job: Job, knarr: Knarr) -> None:
    step = job.killed("flush=1h protect=parity")
    shutil.rmtree(job.node(2))
    first, last = (
        json.loads(knarr("checkpoint", "scavenge", job.node(number), "-o", job.sets, "--json").stdout)
        for number in (0, 4)
    )
    complete = [one["step"] for one in last if one["state"] == "complete"]
    assert first[0]["state"] == "waits" and len(complete) == 1 and complete[0] >= step, (first, last)
    assert flushed(job) == complete
    knarr("checkpoint", "verify", job.sets / f"step_{complete[0]}")
    assert not list(job.sets.rglob("parity-*")) and not list(job.sets.glob(".step_*"))
    assert job.run(0, "")[0] == complete[0]


def test_options_of_levels_need_the_directory(job: Job, tmp_path: Path) -> None:
    for options, words in {
        "flush=often": "neither a number of checkpoints, such as 10, nor a time, such as 30m",
        "protect=mirror": "neither none, partner nor parity",
        "protect=parity:4+4": "a group of 4 nodes cannot lose 4",
        "local=/proc/nowhere": "/proc/nowhere",
    }.items():
        assert words in job.run(1, options, ok=False)[2]


def test_a_node_whose_disk_is_full_is_told_and_older_steps_stay(job: Job) -> None:
    if not may_mount():
        pytest.skip("needs root, to mount a file system")
    job.node(2).mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2M", "none", job.node(2)], check=True)
    try:
        job.run(2, "flush=100")
        (job.node(2) / "filler").write_bytes(os.urandom(1 << 20))
        subprocess.run(["sh", "-c", f"cat /dev/zero > {job.node(2)}/more"], check=False, capture_output=True)
        _, _, err = job.run(4, "flush=100", ok=False)
        assert "No space left" in err and "node-2" in err, err
        (job.node(2) / "more").unlink()
        (job.node(2) / "filler").unlink()
        assert job.run(4, "flush=100")[0] in (2, 3)
    finally:
        unmount(job.node(2))


def test_a_step_without_parity_on_a_full_disk_is_complete_and_an_older_one_with_parity_stays(job: Job) -> None:
    if not may_mount():
        pytest.skip("needs root, to mount a file system")
    options = "flush=100 local_keep=1 protect=parity"
    job.node(4).mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4M", "none", job.node(4)], check=True)
    try:
        job.run(1, options)
        (place,) = job.node(4).glob("sets-*")
        parity = (place / "step_1" / "parity-4.knarr").stat().st_size
        part = sum(path.stat().st_size for path in (place / "step_1").iterdir()) - parity
        # The next step fits, and half of its parity.
        free = shutil.disk_usage(job.node(4)).free
        (job.node(4) / "filler").write_bytes(os.urandom(free - part - parity // 2))
        begun, last, err = job.run(2, options)
        assert (begun, last) == (1, 2), err
        for words in ("step 2 does not survive the loss of a node", "parity-4.knarr", "No space left"):
            assert words in err, err
        assert not list(place.rglob(".parity-*"))
        assert [(place / f"step_{step}").exists() for step in (1, 2)] == [True, True]
    finally:
        unmount(job.node(4))
