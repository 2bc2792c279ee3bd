"""Files of parallel HDF5 and netCDF-4 that ranks on several nodes open again to write: each rank has a `knarr run`.
HDF5 writes them. The launcher of the first rank's node packs them when all ranks have closed them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest

from nodes import ALL, Job, Launcher
from running import MPIRUN, forget, is_packed
from test_parallel_hdf5 import HERE, RANKS, compiled, objects, system_python

pytestmark = pytest.mark.node

ROWS, COLUMNS, CYCLES = 64, 256, 3


hdf5 = compiled("hdf5", HERE / "again.c")
netcdf = compiled("netcdf", HERE / "netcdf_again.c")


def begun(path: Path, records: int = 1) -> Path:
    """A file as an earlier run has left it, which a run goes on with."""
    early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    # As parallel HDF5 does. Otherwise 1.10 adds no chunks in parallel, and says nothing of that.
    early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    with h5py.File(path, "w") as file:
        shape, most = (records, ROWS, COLUMNS), (None, ROWS, COLUMNS)
        file.create_dataset("T", shape, "f4", maxshape=most, chunks=(1, ROWS, COLUMNS), fillvalue=-1, dcpl=early)
        file["T"].attrs["units"] = "K"
        file["mask"] = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) // 1000
    return path


def plain(job: Launcher, *command: object, files: tuple[Path, ...] = ()) -> Path:
    """The folder in which a program has written without Knarr, after copies of some files came there."""
    folder = job.top / "plain"
    folder.mkdir()
    for file in files:
        shutil.copy(file, folder)
    subprocess.run([*MPIRUN, str(RANKS), *map(str, command)], cwd=folder, check=True)
    return folder


def was_packed_once(ran: Job, name: str, nodes: str) -> None:
    """On the node of the first rank; the others say that it does."""
    told = [file for result in ran.results for file in result["files"] if Path(file["input"]).name == name]
    assert sorted(file["outcome"] for file in told) == ["gathered"] * (len(set(nodes)) - 1) + ["packed"], (
        told,
        ran.err,
    )
    assert all(f"node '{nodes[0]}'" in file["reason"] for file in told if file["outcome"] == "gathered"), told


RECORDS = """
import sys
from mpi4py import MPI
import h5py
import numpy as np

comm = MPI.COMM_WORLD
for cycle in range(int(sys.argv[1])):
    files = [h5py.File(name, "r+", driver="mpio", comm=comm) for name in sys.argv[2:]]
    for file in files:
        T = file["T"]
        record, rows, columns = T.shape
        T.resize(record + 1, axis=0)
        each = rows // comm.size
        with T.collective:
            values = np.arange(each * columns).reshape(each, columns) // 99 + record
            T[record, comm.rank * each : (comm.rank + 1) * each] = values
        file.attrs["cycle"] = cycle
    for file in reversed(files):
        file.close()
"""


@pytest.mark.parametrize(("nodes", "cycles"), [("abab", 1), ("abab", 5), ("aabc", CYCLES)])
def test_records_that_h5py_appends(job, knarr, nodes, cycles):
    python, hist = system_python(), begun(job.folder / "hist.h5")
    expected = plain(job, python, "-c", RECORDS, cycles, "hist.h5", files=(hist,)) / "hist.h5"
    ran = job(python, "-c", RECORDS, cycles, "hist.h5", nodes=nodes)
    was_packed_once(ran, "hist.h5", nodes)
    assert is_packed(hist) and hist.stat().st_size < expected.stat().st_size / 2
    assert objects(hist) == objects(expected)
    knarr("verify", expected, hist)
    with h5py.File(hist) as file:
        assert file["T"][1:, 0, 250].tolist() == [3 + cycle for cycle in range(cycles)]


@pytest.mark.parametrize("nodes", ["aabb", "bcab"])
def test_records_that_hdf5_appends(job, knarr, hdf5, nodes):
    hist = begun(job.folder / "hist.h5")
    expected = plain(job, hdf5, "hist.h5", CYCLES, files=(hist,)) / "hist.h5"
    ran = job(hdf5, "hist.h5", CYCLES, nodes=nodes)
    was_packed_once(ran, "hist.h5", nodes)
    assert is_packed(hist) and objects(hist) == objects(expected)
    knarr("verify", expected, hist)
    with h5py.File(hist) as file:
        assert [file["T"][record, 0, 255] for record in range(1 + CYCLES)] == [-1, *range(16, 16 + CYCLES)]


@pytest.mark.parametrize("nodes", ["abab", "abca"])
def test_records_that_netcdf_appends(job, knarr, netcdf, nodes):
    expected = plain(job, netcdf, "hist.nc", CYCLES, "new") / "hist.nc"
    hist = job.folder / "hist.nc"
    subprocess.run([*MPIRUN, "2", netcdf, hist, "1", "new"], check=True)
    ran = job(netcdf, "hist.nc", CYCLES - 1, nodes=nodes)
    was_packed_once(ran, "hist.nc", nodes)
    knarr("verify", expected, hist)
    with netCDF4.Dataset(hist) as file, netCDF4.Dataset(expected) as other:
        assert file["T"].filters()["zlib"] or is_packed(hist)
        assert np.array_equal(file["T"][:], other["T"][:]) and file["time"][:].tolist() == [0, 6, 12]


@pytest.mark.parametrize("nodes", ["aabb", "bcab"])
def test_records_are_added_to_what_an_earlier_run_has_packed(job, knarr, hdf5, nodes):
    """HDF5 1.10 waits for ever if a dataset with filters does not take its space early."""
    hist = begun(job.folder / "hist.h5")
    expected = plain(job, hdf5, "hist.h5", 2 * CYCLES, files=(hist,)) / "hist.h5"
    for _ in range(2):
        job(hdf5, "hist.h5", CYCLES, nodes=nodes)
        assert is_packed(hist)
    assert objects(hist) == objects(expected)
    knarr("verify", expected, hist)


def test_two_files_at_the_same_time(job):
    python = system_python()
    files = tuple(begun(job.folder / name) for name in ("a.h5", "b.h5"))
    folder = plain(job, python, "-c", RECORDS, CYCLES, "a.h5", "b.h5", files=files)
    ran = job(python, "-c", RECORDS, CYCLES, "a.h5", "b.h5", nodes="abab")
    for file in files:
        was_packed_once(ran, file.name, "abab")
        assert is_packed(file) and objects(file) == objects(folder / file.name)


SPLIT = """
from mpi4py import MPI
import h5py

comm = MPI.COMM_WORLD
some = comm.Split(min(comm.rank, 1))
with h5py.File("all.h5", "r+", driver="mpio", comm=comm) as file:
    if comm.rank > 0:
        with h5py.File("some.h5", "r+", driver="mpio", comm=some) as other:
            other["T"][0, some.rank] = comm.rank
    file["T"][0, comm.rank] = comm.rank
"""


def test_the_node_of_the_first_rank_that_opens_a_file_packs_it(job):
    for name in ("all.h5", "some.h5"):
        begun(job.folder / name)
    ran = job(system_python(), "-c", SPLIT, nodes="abca")
    was_packed_once(ran, "all.h5", "abc")
    # The ranks 1, 2 and 3 are on other nodes.
    was_packed_once(ran, "some.h5", "bca")
    for name, first in (("all.h5", 0), ("some.h5", 1)):
        with h5py.File(job.folder / name) as file:
            assert file["T"][0, : RANKS - first, 5].tolist() == list(range(first, RANKS))


WHILE_IT_IS_PACKED = """
import os
import time
from mpi4py import MPI
import h5py
import numpy as np

comm = MPI.COMM_WORLD
for number in range(16):
    name = f"a{number}.h5"
    if comm.rank == number % 2:
        with h5py.File(name, "w") as file:
            file["T"] = np.arange(1 << 18).reshape(512, 512) // 1000
    comm.Barrier()
    # All ranks at moments of their own.
    time.sleep(0.02 * (number // 2 % 5) + 0.004 * (comm.rank * 7 % 4))
    with h5py.File(name, "r+", driver="mpio", comm=comm) as file:
        file["T"][comm.rank::comm.size] = -number - comm.rank
"""


def test_a_file_that_is_opened_again_while_it_is_packed(job):
    """One process has created it, on either node, and its launcher has begun."""
    ran = job(system_python(), "-c", WHILE_IT_IS_PACKED, nodes="abab", config=ALL + 'goal = "archive"\n')
    for number in range(16):
        was_packed_once(ran, f"a{number}.h5", "ab")
        with h5py.File(job.folder / f"a{number}.h5") as file:
            rows = file["T"][:]
        for rank in range(RANKS):
            assert (rows[rank::RANKS] == -number - rank).all(), (number, rank)


READ = """
import time
from mpi4py import MPI
import h5py
import numpy as np

comm = MPI.COMM_WORLD
for number in range(8):
    name = f"a{number}.h5"
    expected = np.arange(1 << 18).reshape(512, 512) // 1000 + number
    if comm.rank == number % 2:
        with h5py.File(name, "w") as file:
            file["T"] = expected
    end, is_packed = time.time() + 250, False
    while not is_packed:
        comm.Barrier()
        time.sleep(0.001 * (comm.rank * 5 % 4))
        with h5py.File(name, "r", driver="mpio", comm=comm) as file:
            assert (file["T"][comm.rank::comm.size] == expected[comm.rank::comm.size]).all()
            is_packed = file["T"].chunks is not None
        seen = comm.allgather(is_packed)
        assert len(set(seen)) == 1, seen
        assert time.time() < end
"""


def test_a_file_that_is_read_while_it_is_packed(job):
    """All ranks open the same file: that from before, or the packed one."""
    ran = job(system_python(), "-c", READ, nodes="abab")
    assert all(ran.outcomes(f"a{number}.h5") == ["packed"] for number in range(8))


def test_a_file_that_is_left_to_mpi_finalize_stays(job, hdf5):
    """A launcher does not know then what the ranks of other nodes do with it."""
    hist = begun(job.folder / "hist.h5")
    expected = plain(job, hdf5, "hist.h5", CYCLES, "leave", files=(hist,)) / "hist.h5"
    ran = job(hdf5, "hist.h5", CYCLES, "leave", nodes="abab")
    assert ran.outcomes("hist.h5") == ["gathered", "left"] and "while the file was open" in str(ran.results)
    assert not is_packed(hist) and objects(hist) == objects(expected)


def test_a_file_whose_objects_stay_open_stays(job, hdf5):
    hist = begun(job.folder / "hist.h5")
    expected = plain(job, hdf5, "hist.h5", CYCLES, "objects", files=(hist,)) / "hist.h5"
    ran = job(hdf5, "hist.h5", CYCLES, "objects", nodes="abab")
    assert ran.outcomes("hist.h5") == ["left", "left"] and "objects in it" in str(ran.results), ran.results
    assert not is_packed(hist) and objects(hist) == objects(expected)


@pytest.mark.parametrize("nodes", ["aaab", "abbb"])
def test_a_rank_that_is_killed_while_the_file_is_open(job, hdf5, nodes):
    hist = begun(job.folder / "hist.h5")
    inode = hist.stat().st_ino
    ran = job(hdf5, "hist.h5", CYCLES, "kill", nodes=nodes, ok=False)
    assert ran.code != 0 and hist.stat().st_ino == inode and "packed" not in ran.outcomes("hist.h5")
    with h5py.File(hist) as file:
        assert not is_packed(hist) and len(file["T"]) == 1 + CYCLES and (file["T"][1:] >= 0).any()


AFTERWARDS = """
import subprocess
import sys
from mpi4py import MPI
import h5py

comm = MPI.COMM_WORLD
rank = comm.rank
with h5py.File("hist.h5", "r+", driver="mpio", comm=comm) as file:
    file["T"][0, rank] = rank
MPI.Finalize()
if rank == 1:
    subprocess.run([sys.argv[1], "-c", sys.argv[2]], check=True)
"""

SLOWLY = """
import time
import h5py

with h5py.File("hist.h5", "r+") as file:
    time.sleep(6)
    file["T"][0, 10] = 10
"""


def test_a_file_that_one_process_goes_on_with_after_the_others(job):
    """On another node than that of the launcher that packs, which has nothing else to do for seconds."""
    hist = begun(job.folder / "hist.h5")
    ran = job(system_python(), "-c", AFTERWARDS, sys.executable, SLOWLY, nodes="abaa")
    was_packed_once(ran, "hist.h5", "ab")
    with h5py.File(hist) as file:
        assert is_packed(hist) and file["T"][0, [0, 1, 2, 3, 10], 7].tolist() == [0, 1, 2, 3, 10]


def test_nodes_that_do_not_answer_leave_the_file(job, hdf5):
    """Launchers that take themselves for the only one."""
    hist = begun(job.folder / "hist.h5")
    expected = plain(job, hdf5, "hist.h5", CYCLES, files=(hist,)) / "hist.h5"
    name = "OMPI_COMM_WORLD_SIZE"
    command = ["env", f"{name}={RANKS}", hdf5, "hist.h5", CYCLES]
    ran = job(*command, nodes="abcd", within=["env", "-u", name])
    assert set(ran.outcomes("hist.h5")) == {"left"} and "answers nobody" in str(ran.results), ran.results
    assert not is_packed(hist) and objects(hist) == objects(expected)


def launcher_on(job: Launcher, node: str) -> list[int]:
    """The launchers of a node."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
            variables = (place / "environ").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        is_launcher = words[:2] == [bytes(job.program), b"run"] and str(job.top / "knarr.toml").encode() in words
        if is_launcher and f"KNARR_NODE={node}".encode() in variables:
            found.append(int(place.name))
    return found


@pytest.mark.parametrize("node", "ab")
@pytest.mark.parametrize("when", ["open", "packed"])
def test_a_launcher_that_is_killed(job, knarr, hdf5, node, when):
    """The file has all that the ranks have written, packed or not."""
    hist = begun(job.folder / "hist.h5", 60)
    expected = plain(job, hdf5, "hist.h5", 1, files=(hist,)) / "hist.h5"
    what = "wait" if when == "open" else ""
    process = job.start(hdf5, "hist.h5", 1, what, nodes="aabb", config=ALL + 'goal = "archive"\n')
    end, scratch = time.monotonic() + 240, job.top / ".knarr"

    def has_begun() -> bool:
        if when == "packed":
            return bool(list(scratch.glob(".*.knarr-*")))
        with h5py.File(hist, locking=False) as file:
            return len(file["T"]) == 61

    while True:
        assert time.monotonic() < end and process.poll() is None
        try:
            if has_begun():
                break
        except OSError:
            # It is being written.
            pass
        time.sleep(0.005)
    for launcher in launcher_on(job, node):
        os.kill(launcher, signal.SIGKILL)
    (job.folder / "go").touch()
    job.finish(process)
    knarr("verify", expected, hist)
    assert {path.name for path in job.folder.iterdir()} <= {"hist.h5", "hist.h5.knarr.json", "waits", "go"}
    forget(job.top)
