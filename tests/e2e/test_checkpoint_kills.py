"""A packer that is killed at any moment leaves the last complete set as it was."""

from __future__ import annotations

import hashlib
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from chances import repeated
from conftest import sets_in

RANKS = 3


class Sets:
    """Sets of small files, packed by programs that may be killed."""

    def __init__(self, knarr, folder: Path, chance: random.Random):
        self.knarr = knarr
        self.source = folder / "in"
        self.sets = folder / "sets"
        self.out = folder / "out"
        self.random = chance
        self.source.mkdir()
        self.sets.mkdir()

    def write(self) -> dict[str, str]:
        """The program writes its next checkpoint; some ranks' files stay as they were, and are shared by sets."""
        for rank in range(RANKS):
            if (self.source / f"r{rank}").exists() and self.random.random() < 0.3:
                continue
            (self.source / f"r{rank}").write_bytes(self.random.randbytes(60_000))
        return self.hashes(self.source)

    def start(self, target: Path) -> subprocess.Popen[bytes]:
        command = [self.knarr.program, "checkpoint", "pack", self.source, "-o", target, "--force"]
        return subprocess.Popen(
            [str(word) for word in command],
            env=self.knarr.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def restored(self, target: Path) -> dict[str, str]:
        self.knarr("checkpoint", "restore", target, "-d", self.out)
        found = self.hashes(self.out)
        shutil.rmtree(self.out)
        return found

    @staticmethod
    def hashes(folder: Path) -> dict[str, str]:
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.kill
def test_kills_leave_the_last_set_restorable(knarr, tmp_path, chance):
    sets = Sets(knarr, tmp_path, chance)
    wanted, times, kills = {}, [], 0
    for _ in range(3):
        wanted[sets.sets / "0"] = sets.write()
        begin = time.monotonic()
        assert sets.start(sets.sets / "0").wait() == 0
        times.append(time.monotonic() - begin)
    # Of a moment when the machine is busy with other things most kills would come too late.
    usual = min(times)
    while kills < repeated(30):
        new = sets.write()
        target = sets.sets / str(sets.random.randrange(3))
        process = sets.start(target)
        time.sleep(sets.random.uniform(0, 1.2 * usual))
        process.send_signal(signal.SIGKILL)
        kills += process.wait() != 0
        # What is there is whole: the set that was there before, or the new one.
        if target.exists():
            found = sets.restored(target)
            assert found in (new, wanted.get(target))
            wanted[target] = found
        else:
            assert target not in wanted
        other = sets.random.choice(sorted(wanted))
        assert sets.restored(other) == wanted[other]
    for target in list(wanted):
        assert sets.start(target).wait() == 0
    left = set(sets_in(sets.sets)) - {target.name for target in wanted}
    assert not left, "the next pack removes what killed ones left"


def test_work_in_progress_of_another_node_stays(knarr, tmp_path):
    """Its processes are not of this machine: that none here has their number says nothing."""
    sets, source = tmp_path / "sets", tmp_path / "in"
    source.mkdir()
    (source / "r_2_0.bin").write_bytes(bytes(range(256)) * 100)
    theirs = sets / ".step_1.knarr-123456789abcdef0-3ffffe-5-0"
    theirs.mkdir(parents=True)
    (theirs / "group-0.knarr").write_bytes(b"half of a set")
    knarr("checkpoint", "pack", source, "-o", sets / "step_1")
    knarr("checkpoint", "pack", source, "-o", sets / "step_1", "--force")
    options = ("--pattern", "r_{step}_{rank}.bin", "--ranks", 1, "--settle", "10ms", "-o", sets)
    knarr("checkpoint", "watch", source, *options, "--once")
    knarr("checkpoint", "prune", sets, "--keep", 1)
    assert sets_in(sets) == [theirs.name, "step_2"]
    assert (theirs / "group-0.knarr").read_bytes() == b"half of a set"
