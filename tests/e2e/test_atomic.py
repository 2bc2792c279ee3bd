"""At any moment there is the old output or the new one, and nothing else stays in the folder.

SIGKILL cannot be cleaned up after: an unfinished file may stay beside, never under the output's name.
"""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from conftest import KNARR, may_mount, may_mount_images, outputs
from hdf5_compare import require_same
from values import smooth_field

UNWRITABLE = 4
STOPPED = {signal.SIGHUP: 129, signal.SIGINT: 130, signal.SIGTERM: 143}
"""Exit codes: 128 and the number of the signal."""

SLOW = ("--chain", "shuffle | zstd:22", "--jobs", "1")


@pytest.fixture(scope="module")
def slow_input(tmp_path_factory) -> Path:
    """Large enough that zstd's highest level needs several seconds."""
    path = tmp_path_factory.mktemp("slow") / "slow.h5"
    with h5py.File(path, "w") as file:
        for number in range(4):
            values = smooth_field((16, 512, 512), seed=number)
            file.create_dataset(f"v{number}", data=values, chunks=(1, 512, 512))
    return path


def start(knarr, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [KNARR, *map(str, arguments)],
        env=knarr.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until_writing(process: subprocess.Popen[str], folder: Path, before: set[Path]) -> None:
    """Returns when something new is in the output folder, after a moment more."""
    deadline = time.monotonic() + 20
    while not set(folder.iterdir()) - before:
        assert process.poll() is None, f"ended before it wrote anything: {process.communicate()}"
        assert time.monotonic() < deadline, "nothing appeared in the output folder"
        time.sleep(0.005)
    time.sleep(0.2)


@pytest.mark.parametrize("old", [None, b"precious"])
@pytest.mark.parametrize("stop", STOPPED)
def test_interrupt_leaves_no_debris(knarr, slow_input, out, stop, old):
    target = out / "a.h5"
    if old is not None:
        target.write_bytes(old)
    before = set(out.iterdir())
    process = start(knarr, "repack", slow_input, "-o", target, "--force", *SLOW)
    wait_until_writing(process, out, before)
    process.send_signal(stop)
    begin = time.monotonic()
    _, message = process.communicate(timeout=30)
    assert process.returncode == STOPPED[stop], message
    assert "interrupted; nothing was changed" in message
    assert time.monotonic() - begin < 5, "took too long to stop"
    assert set(out.iterdir()) == before
    assert old is None or target.read_bytes() == old


@pytest.mark.parametrize("target_name", ["a.zarr", "a.zarr.zip"])
@pytest.mark.parametrize("stop", STOPPED)
def test_interrupt_of_zarr_output_leaves_no_debris(knarr, slow_input, out, stop, target_name):
    process = start(knarr, "repack", slow_input, "-o", out / target_name, *SLOW)
    wait_until_writing(process, out, set())
    process.send_signal(stop)
    process.communicate(timeout=30)
    assert process.returncode == STOPPED[stop]
    assert not list(out.iterdir())


@pytest.mark.parametrize("target_name", ["a.h5", "a.zarr", "a.zarr.zip"])
@pytest.mark.parametrize("after_s", [0.0, 0.4])
def test_kill_never_leaves_a_partial_output(knarr, slow_input, out, target_name, after_s):
    target = out / target_name
    process = start(knarr, "repack", slow_input, "-o", target, *SLOW)
    wait_until_writing(process, out, set())
    time.sleep(after_s)
    process.kill()
    process.communicate()
    assert not target.exists()
    fast = ("--chain", "lz4") if target_name.endswith(".h5") else ("--goal", "speed")
    knarr.repack(slow_input, target, *fast)  # what a killed run left is not in the way, and goes
    assert not [path.name for path in out.iterdir() if path.name.startswith(".")]


def test_kill_keeps_the_old_output(knarr, slow_input, out):
    target = out / "a.h5"
    target.write_bytes(b"precious")
    process = start(knarr, "repack", slow_input, "-o", target, "--force", *SLOW)
    wait_until_writing(process, out, {target})
    process.kill()
    process.communicate()
    assert target.read_bytes() == b"precious"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_replaced_file_stays_as_private_as_it_was(knarr, made, out, mode):
    target = out / "a.h5"
    target.write_bytes(made("filter", "gzip").read_bytes())
    target.chmod(mode)
    knarr("repack", target, "-o", target, "--force")
    assert stat.S_IMODE(target.stat().st_mode) == mode


def test_a_replaced_store_stays_as_private_as_it_was(knarr, made, out):
    target = knarr.repack(made("filter", "gzip"), out / "a.zarr")
    target.chmod(0o700)
    knarr("repack", target, "-o", target, "--force")
    assert stat.S_IMODE(target.stat().st_mode) == 0o700


@pytest.fixture(scope="module")
def incompressible(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("noise") / "noise.h5"
    noise = np.random.default_rng(1).integers(0, 2**32, (64, 65536), "u4")
    with h5py.File(path, "w") as file:
        file.create_dataset("noise", data=noise, chunks=(1, 65536))
    return path


def _limit_file_size() -> None:
    """No file may exceed 1 MiB: writes fail with EFBIG, as SIGXFSZ is ignored."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


@pytest.mark.parametrize("suffix", [".h5", ".nc"])
def test_writes_that_fail_are_reported_and_cleaned_up(knarr, incompressible, out, suffix):
    target = out / f"a{suffix}"
    knarr.fails(
        UNWRITABLE,
        "repack",
        incompressible,
        "-o",
        target,
        names=(target.name,),
        preexec_fn=_limit_file_size,
        restore_signals=False,
    )
    assert not list(out.iterdir())


mounting = pytest.mark.skipif(not may_mount(), reason="needs the right to mount a small file system")


@mounting
@pytest.mark.parametrize("suffix", [".h5", ".nc", ".zarr", ".zarr.zip"])
def test_full_disk_is_reported_and_cleaned_up(knarr, incompressible, small_disk, suffix):
    target = small_disk / f"a{suffix}"
    knarr.fails(UNWRITABLE, "repack", incompressible, "-o", target, names=(target.name, "space"))
    assert not list(small_disk.iterdir())


@mounting
def test_full_disk_keeps_the_old_output(knarr, incompressible, small_disk):
    target = small_disk / "a.h5"
    target.write_bytes(b"precious")
    knarr.fails(UNWRITABLE, "repack", incompressible, "-o", target, "--force")
    assert target.read_bytes() == b"precious"
    assert outputs(small_disk) == [target]


def test_two_runs_into_one_output_do_not_mix(knarr, slow_input, out):
    """Both end; the output is that of one of them, whole."""
    target = out / "a.h5"
    runs = [start(knarr, "repack", slow_input, "-o", target, "--force", "--goal", "speed") for _ in range(2)]
    for run in runs:
        run.communicate(timeout=100)
    assert any(run.returncode == 0 for run in runs)
    require_same(slow_input, target)
    assert outputs(out) == [target]


@pytest.mark.skipif(not may_mount_images(), reason="needs the right to mount an image of a disk")
@pytest.mark.parametrize("room", [42, 44, 50, 54, 58, 62])
def test_a_disk_with_just_enough_room_takes_the_output(knarr, tmp_path, image_disk, room):
    """Blocks that were taken ahead are there for what is written before them."""
    noise = np.random.default_rng(2).integers(0, 2**32, (160, 65536), "u4")
    with h5py.File(tmp_path / "noise.h5", "w") as file:
        file.create_dataset("noise", data=noise, chunks=(1, 65536))
    free = os.statvfs(image_disk)
    with open(image_disk / "other", "wb") as other:
        os.posix_fallocate(other.fileno(), 0, free.f_bavail * free.f_bsize - (room << 20))
    knarr("repack", tmp_path / "noise.h5", "-o", image_disk / "a.h5", "--chain", "shuffle | lz4")
    require_same(tmp_path / "noise.h5", image_disk / "a.h5")
    assert (image_disk / "a.h5").stat().st_blocks * 512 < 41 << 20
