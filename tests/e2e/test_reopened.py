"""Files of parallel HDF5 and netCDF-4 that ranks open again to write, under `knarr run`: as they have made them.

HDF5 writes datasets with filters in collective calls only. A packed file has them for as long as nobody opens it to
write, and again when the program has ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from chances import repeated
from running import MPIRUN, Ran, is_packed, no_spools_stay, spools, until, wait_for_the_end_of  # noqa: F401  a fixture
from test_parallel_hdf5 import HERE, compiled, objects, system_python, takes_space_early

RULE = '[[file]]\npattern = "hist.*"\n'
CYCLES, COLUMNS = 3, 2048


hdf5 = compiled("hdf5", HERE / "reopened.c")
netcdf = compiled("netcdf", HERE / "netcdf_reopened.c")


def command(program: Path, name: str, what: str, count: int, cycles: int = CYCLES) -> list[str]:
    return [*MPIRUN, str(count), str(program), name, str(cycles), str(COLUMNS), what]


def plain(folder: Path, program: Path, name: str, what: str, count: int, cycles: int = CYCLES) -> Path:
    """What the program writes without Knarr."""
    (folder / "plain").mkdir()
    subprocess.run(command(program, name, what, count, cycles), cwd=folder / "plain", check=True)
    return folder / "plain" / name


def was_handed_back(ran: Ran, name: str) -> None:
    told = ran.file(name)
    assert told["outcome"] == "packed" and "opened it again to write" in told["note"], (told, ran.err)


def await_packed(path: Path, dataset: str) -> None:
    until(lambda: path.exists() and is_packed(path, dataset), "it is not packed")


def await_file(path: Path) -> None:
    until(path.exists, f"there is no {path.name}")


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("what", ["alone", "together"])
def test_hdf5(run, knarr, hdf5, tmp_path, what, count):
    ran = run(*command(hdf5, "hist.h5", what, count), config=RULE)
    hist, expected = run.folder / "hist.h5", plain(tmp_path, hdf5, "hist.h5", what, count)
    assert objects(hist) == objects(expected)
    knarr("verify", expected, hist)
    was_handed_back(ran, "hist.h5")
    assert all(is_packed(hist, name) for name in ("T", "group/F", "D"))
    assert hist.stat().st_size < expected.stat().st_size / 2
    assert not spools() and not ran.err.count("failed")


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("what", ["alone", "together"])
def test_netcdf(run, knarr, netcdf, tmp_path, what, count):
    ran = run(*command(netcdf, "hist.nc", what, count), config=RULE)
    hist, expected = run.folder / "hist.nc", plain(tmp_path, netcdf, "hist.nc", what, count)
    assert objects(hist) == objects(expected)
    knarr("verify", expected, hist)
    was_handed_back(ran, "hist.nc")
    assert all(is_packed(hist, name) for name in ("T", "F", "D")) and not spools()


@pytest.mark.parametrize("settings", ['wait = "close"\n', 'portable = "knarr"\n', 'portable = "standard"\n'])
def test_other_rules(run, knarr, hdf5, tmp_path, settings):
    """Whatever filters the file has got, those of Knarr and plugins, too."""
    ran = run(*command(hdf5, "hist.h5", "alone", 2), config=RULE + settings)
    hist, expected = run.folder / "hist.h5", plain(tmp_path, hdf5, "hist.h5", "alone", 2)
    was_handed_back(ran, "hist.h5")
    knarr("verify", expected, hist)
    if "portable" in settings:
        with h5py.File(hist) as file:
            kinds = file["T"].id.get_create_plist()
            assert max(kinds.get_filter(n)[0] for n in range(kinds.get_nfilters())) > 32000


def test_a_rule_for_another_format(run, hdf5, tmp_path):
    """It is for what is handed over: what HDF5 has changed stays as it is, and the report says so."""
    ran = run(*command(hdf5, "hist.h5", "alone", 2), config=RULE + 'output = "classic"\n')
    assert objects(run.folder / "hist.h5") == objects(plain(tmp_path, hdf5, "hist.h5", "alone", 2))
    assert ran.file("hist.h5")["outcome"] == "left" and "stays what it is" in ran.file("hist.h5")["reason"]


def test_what_is_rounded_is_not_rounded_twice(run, hdf5, tmp_path):
    config = RULE + 'variables."group/F".max_abs_error = 0.25\n'
    run(*command(hdf5, "hist.h5", "alone", 2), config=config)
    expected = plain(tmp_path, hdf5, "hist.h5", "alone", 2)
    with h5py.File(run.folder / "hist.h5") as file, h5py.File(expected) as other:
        assert np.array_equal(file["T"][:], other["T"][:]) and np.array_equal(file["D"][:], other["D"][:])
        wrong = np.abs(file["group/F"][:] - other["group/F"][:])
        assert 0 < wrong[0].max() <= 0.25 and wrong.max() <= 0.25


def test_it_is_as_the_program_has_made_it_meanwhile(run, hdf5, tmp_path):
    """Datasets without chunks have none, chunks are the program's, and its own filter stays."""
    hist, process = run.folder / "hist.h5", run.start(*command(hdf5, "hist.h5", "go", 2), config=RULE)
    await_packed(hist, "T")
    assert is_packed(hist, "group/F") and is_packed(hist, "P")
    mode = hist.stat().st_mode
    for cycle in (1, 2):
        # It stays so until the program has ended.
        (run.folder / f"go.{cycle}").touch()
        await_file(run.folder / f"done.{cycle}")
        assert not is_packed(hist, "T") and hist.stat().st_mode == mode
    with h5py.File(hist) as file:
        assert file["T"].chunks == (1, COLUMNS) and takes_space_early(file["T"])
        assert file["group/F"].chunks is None and file["P"].chunks is None
        assert file["D"].chunks == (1, COLUMNS) and file["D"].compression_opts == 1 and not file["D"].shuffle
        assert file["T"].shape[0] == 3 and (file["never"][:] == -7).all()
    (run.folder / "go.3").touch()
    ran = run.finish(process)
    assert ran.code == 0
    was_handed_back(ran, "hist.h5")
    assert objects(hist) == objects(plain(tmp_path, hdf5, "hist.h5", "alone", 2))


def test_a_file_that_cannot_be_handed_back_is_not_opened(run, hdf5, tmp_path):
    """A second name would lead to what is not written."""
    hist, process = run.folder / "hist.h5", run.start(*command(hdf5, "hist.h5", "try", 2, 1), config=RULE)
    await_packed(hist, "T")
    before = objects(hist)
    os.link(hist, run.folder / "other")
    (run.folder / "go.1").touch()
    ran = run.finish(process)
    assert sorted(ran.out.split("\n")) == ["", "rank 0 is refused", "rank 1 is refused"]
    assert "hist.h5" in ran.err and "hard links" in ran.err and "hint" in ran.err
    assert objects(hist) == before and is_packed(hist)
    assert ran.file("hist.h5")["outcome"] == "packed" and not spools()


def test_a_file_that_it_cannot_read_is_not_opened(run, hdf5):
    hist, process = run.folder / "hist.h5", run.start(*command(hdf5, "hist.h5", "try", 2, 1), config=RULE)
    await_packed(hist, "T")
    with h5py.File(hist) as file:
        at = file["T"].id.get_chunk_info(0).byte_offset
    with hist.open("r+b") as file:
        file.seek(at)
        file.write(b"\xff" * 16)
    damaged = hist.read_bytes()
    (run.folder / "go.1").touch()
    ran = run.finish(process)
    assert ran.out.count("is refused") == 2 and "hist.h5" in ran.err and "hint" in ran.err
    assert hist.read_bytes() == damaged and not spools()


def test_a_file_of_one_process_that_all_ranks_write_then(run, hdf5, tmp_path):
    """It is packed while the program runs, and handed back when all ranks open it."""
    python = system_python()
    first = """
import sys, time
import h5py, numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
if comm.rank == 0:
    with h5py.File("hist.h5", "w") as file:
        file["T"] = np.arange(4096.0).reshape(4, 1024) // 16
        file.create_dataset("U", data=np.arange(4096).reshape(4, 1024) // 16, chunks=(1, 512), maxshape=(None, 1024))
packed = sys.argv[1] == "packed"
end = time.monotonic() + 250
while packed and comm.rank == 0 and time.monotonic() < end:
    with h5py.File("hist.h5", "r") as file:
        packed = file["T"].id.get_create_plist().get_nfilters() == 0
    time.sleep(0.05)
if packed and comm.rank == 0:
    raise TimeoutError("the file was not packed")
comm.barrier()
for cycle in range(2):
    with h5py.File("hist.h5", "r+", driver="mpio", comm=comm) as file:
        file["T"][comm.rank + cycle] = np.full(1024, 7.0 + comm.rank)
        file["U"][comm.rank + cycle] = np.full(1024, 9 + comm.rank)
"""
    ran = run(*MPIRUN, 2, python, "-c", first, "packed", config=RULE)
    (tmp_path / "plain").mkdir()
    subprocess.run([*MPIRUN, "2", python, "-c", first, "plain"], cwd=tmp_path / "plain", check=True)
    assert objects(run.folder / "hist.h5") == objects(tmp_path / "plain" / "hist.h5")
    was_handed_back(ran, "hist.h5")


def test_a_rank_that_is_killed_leaves_the_file_as_hdf5_has_written_it(run, hdf5):
    ran = run(*command(hdf5, "hist.h5", "kill", 2), config=RULE, ok=False)
    assert ran.code != 0 and ran.file("hist.h5")["outcome"] == "left"
    assert not spools()


@pytest.mark.node
@pytest.mark.parametrize("nodes", ["abab", "abca"])
def test_ranks_on_several_nodes(job, knarr, hdf5, tmp_path, nodes):
    """The node that has packed the file hands it back, and packs it again when all have ended."""
    ran = job(hdf5, "hist.h5", CYCLES, COLUMNS, "alone", nodes=nodes)
    hist, expected = job.folder / "hist.h5", plain(tmp_path, hdf5, "hist.h5", "alone", 4)
    assert objects(hist) == objects(expected)
    knarr("verify", expected, hist)
    told = [file for result in ran.results for file in result["files"] if Path(file["input"]).name == "hist.h5"]
    assert "opened it again to write" in "".join(file.get("note", "") for file in told), told
    assert is_packed(hist)


@pytest.mark.kill
def test_kills_of_the_launcher(run, knarr, hdf5, tmp_path, chance):
    """Whatever the moment, the file has all values that were in it when it was last closed, or more."""
    expected, hist = plain(tmp_path, hdf5, "hist.h5", "alone", 2), run.folder / "hist.h5"
    with h5py.File(expected) as file:
        rows = file["T"][:]
    whole = 0
    for _ in range(repeated(30)):
        hist.unlink(missing_ok=True)
        launcher = run.start(*command(hdf5, "hist.h5", "alone", 2), config=RULE)
        time.sleep(chance.uniform(0.1, 0.8))
        launcher.send_signal(signal.SIGKILL)
        _, errors = launcher.communicate()
        wait_for_the_end_of(hdf5)
        for spool in spools():
            knarr("run", "--recover", spool, ok=False)
            shutil.rmtree(spool, ignore_errors=True)
        if hist.exists():
            with h5py.File(hist) as file:
                found = file["T"][:]
            assert np.array_equal(found, rows[: len(found)]), errors
            whole += len(found) == len(rows)
        shutil.rmtree(run.scratch, ignore_errors=True)
        for rest in [*run.top.glob("knarr-run-*"), *run.top.rglob(".*.knarr-*")]:
            shutil.rmtree(rest) if rest.is_dir() else rest.unlink()
    assert whole > 0
