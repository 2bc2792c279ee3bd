"""What others do to inputs and outputs while they are worked on, and what of theirs an output would take along."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import zarr

from conftest import KNARR

UNREADABLE, UNWRITABLE = 3, 4


def write_fields(path: Path, steps: int = 40) -> None:
    rng = np.random.default_rng(1)
    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_OFFSET") as file:
        for name, length in (("t", steps), ("y", 400), ("x", 400)):
            file.createDimension(name, length)
        for name in "TU":
            values = rng.normal(size=(steps, 400, 400)).astype("f4").cumsum(2)
            file.createVariable(name, "f4", ("t", "y", "x"))[:] = values


def stopped_while_it_writes(knarr, folder: Path, *arguments: object) -> subprocess.Popen:
    """A run that has begun to write hidden files in `folder`, stopped. It gives way to who watches it."""
    process = subprocess.Popen(
        [KNARR, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=knarr.environment,
        preexec_fn=lambda: os.nice(5),
    )
    deadline = time.monotonic() + 240
    while not any(path.name.startswith(".") for path in folder.iterdir()):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGSTOP)
    return process


def stopped_when_there_is(process: subprocess.Popen, folder: Path, pattern: str) -> Path:
    """Lets a stopped run go on until a file of this pattern is there, which is returned."""
    process.send_signal(signal.SIGCONT)
    while not (found := list(folder.glob(pattern))):
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(signal.SIGSTOP)
    return found[0]


def goes_on(process: subprocess.Popen) -> tuple[int, str]:
    process.send_signal(signal.SIGCONT)
    _, told = process.communicate(timeout=300)
    return process.returncode, told


@pytest.mark.parametrize("in_place", [False, True])
def test_an_input_that_is_written_to_while_it_is_read(knarr, tmp_path, out, in_place):
    source = (out if in_place else tmp_path) / "a.nc"
    write_fields(source)
    target = source if in_place else out / "b.nc"
    command = ("repack", source, "-o", target, "--goal", "archive", *(["--force"] if in_place else []))
    process = stopped_while_it_writes(knarr, target.parent, *command)
    with netCDF4.Dataset(source, "a") as file:
        file["T"][:] = 1
    left = source.read_bytes()
    code, told = goes_on(process)
    assert code == UNREADABLE and "a.nc: it was written to while it was read" in told
    assert source.read_bytes() == left
    assert [path.name for path in out.iterdir()] == (["a.nc"] if in_place else [])


def test_a_store_that_is_written_to_while_it_is_read(knarr, tmp_path, out):
    """Some of the chunks are of before, others of after: that is the data of no moment."""
    source = tmp_path / "in.zarr"
    values = np.random.default_rng(1).normal(size=(40, 400, 400)).astype("f4").cumsum(2)
    array = zarr.create_group(source).create_array("T", data=values, chunks=(1, 400, 400))
    process = stopped_while_it_writes(knarr, out, "repack", source, "-o", out / "b.nc", "--goal", "archive")
    array[39] = 1
    code, told = goes_on(process)
    assert code == UNREADABLE and "in.zarr: it was written to while it was read" in told
    assert not list(out.iterdir())


@pytest.mark.parametrize("name", ["b.csv", "b.bin"])
def test_an_input_that_is_written_to_while_its_values_are_written_out(knarr, tmp_path, out, name):
    source = tmp_path / "a.nc"
    write_fields(source)
    how = ["--variable", "T", "-j1"]
    if name == "b.csv":
        with netCDF4.Dataset(source, "w", format="NETCDF3_64BIT_OFFSET") as file:
            file.createDimension("x", 4_000_000)
            file.createVariable("T", "f8", ("x",))[:] = np.random.default_rng(1).normal(size=4_000_000)
    process = stopped_while_it_writes(knarr, out, "repack", source, "-o", out / name, *how)
    with netCDF4.Dataset(source, "a") as file:
        file["T"][0] = 1
    code, told = goes_on(process)
    assert code == UNREADABLE and "a.nc: it was written to while it was read" in told
    assert not list(out.iterdir())


def test_an_input_that_a_program_is_still_writing_is_not_replaced(knarr, tmp_path):
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("t", None)
        file.createDimension("x", 1000)
        values = file.createVariable("T", "f8", ("t", "x"))
        values[0:5] = 0
        file.sync()
        knarr.fails(UNWRITABLE, "repack", path, "-o", path, "--force", names=("a.nc", f"process {os.getpid()}", "wait"))
        values[5:10] = 7
    knarr("repack", path, "-o", path, "--force")
    with netCDF4.Dataset(path) as file:
        assert file["T"].shape == (10, 1000) and file["T"][9, 0] == 7


def test_a_store_from_which_files_are_removed_while_it_is_written(knarr, tmp_path, out):
    source = tmp_path / "a.nc"
    write_fields(source, steps=8)
    how = ("--chain", "xz:9", "--chunks", "1,100,100", "--jobs", "1")
    process = stopped_while_it_writes(knarr, out, "repack", source, "-o", out / "a.zarr", *how)
    written = stopped_when_there_is(process, out, ".*/T/c/*/*/*")
    shutil.rmtree(written.parents[2])
    code, told = goes_on(process)
    assert code == UNWRITABLE and "a.zarr: " in told
    assert not list(out.iterdir())


def test_a_set_from_which_files_are_removed_while_it_is_written(knarr, tmp_path, out):
    source = tmp_path / "a.nc"
    write_fields(source)
    command = ("checkpoint", "pack", source, "-o", out / "set", "--goal", "archive", "--jobs", "1")
    process = stopped_while_it_writes(knarr, out, *command)
    stopped_when_there_is(process, out, ".*/group-*").unlink()
    code, told = goes_on(process)
    assert code == UNWRITABLE and "set: " in told
    assert not list(out.iterdir())


def test_what_lies_in_a_store_or_set_is_not_removed_with_it(knarr, made, out):
    source = made("netcdf", "climate_history")
    store, pack = out / "a.zarr", out / "set"
    for path, command in ((store, ("repack", source, "-o", store)), (pack, ("checkpoint", "pack", source, "-o", pack))):
        knarr(*command)
        (path / "notes.txt").write_text("precious")
        knarr.fails(UNWRITABLE, *command, "--force", names=("notes.txt", "move it elsewhere"))
        assert (path / "notes.txt").read_text() == "precious"
        (path / "notes.txt").unlink()
        knarr(*command, "--force")
    inside = store / "only.nc"
    shutil.copy(source, inside)
    knarr.fails(UNWRITABLE, "repack", inside, "-o", store, "--force", names=("a.zarr", "the input lies inside it"))
    assert inside.read_bytes() == source.read_bytes()


def test_a_name_that_leaves_no_room_for_that_of_the_plan(knarr, made, out):
    target = out / ("a" * 249 + ".h5")
    target.write_text("old")
    names = ("the name of the plan", "choose a shorter name")
    knarr.fails(UNWRITABLE, "repack", made("hdf5", "special_values"), "-o", target, "--force", names=names)
    assert target.read_text() == "old" and len(list(out.iterdir())) == 1


@pytest.mark.parametrize("suffix", [".nc", ".zarr", ".bin"])
def test_a_limit_of_file_sizes_is_an_error_of_the_write(knarr, tmp_path, out, suffix):
    source = tmp_path / "a.nc"
    write_fields(source)
    how = ["--variable", "T"] if suffix == ".bin" else ["--chunks", "T=40,400,400"]
    command = [KNARR, "repack", source, "-o", out / f"b{suffix}", *how]
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 500; exec "$@"', "_", *map(str, command)],
        capture_output=True,
        text=True,
        env=knarr.environment,
        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_DFL),
    )
    assert done.returncode == UNWRITABLE and "File too large" in done.stderr, done
    assert not list(out.iterdir())


def test_a_chunk_that_is_a_link_to_nowhere_is_not_a_chunk_that_was_never_written(knarr, tmp_path, out):
    source = tmp_path / "in.zarr"
    zarr.create_group(source).create_array("T", data=np.ones((20, 20), "f4"), chunks=(10, 10))
    chunk = source / "T" / "c" / "0" / "0"
    chunk.unlink()
    chunk.symlink_to("/nowhere/annex/key")
    names = ("in.zarr", "'T'", "symbolic link that leads nowhere", "fetch")
    knarr.fails(UNREADABLE, "repack", source, "-o", out / "a.nc", names=names)
    assert not list(out.iterdir())
