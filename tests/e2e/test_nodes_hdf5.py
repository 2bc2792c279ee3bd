"""Parallel HDF5 and netCDF-4 files whose ranks are on several nodes, with one `knarr run` for each rank."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time

import h5py
import pytest

from nodes import ALL, contents, measured, part, recovered, waiting
from running import MPIRUN
from test_parallel_hdf5 import H5PY, HERE, RANKS, ROWS, STEPS, built, compiled, objects, plain, system_python

pytestmark = pytest.mark.node


hdf5 = compiled("hdf5")
netcdf = compiled("netcdf")


def were_handed_over(ran, name: str, nodes: int) -> None:
    assert sorted(ran.outcomes(name)) == ["gathered"] * (nodes - 1) + ["packed"], (ran.results, ran.err)


@pytest.mark.parametrize(("what", "output"), [("hdf5", "netcdf4"), ("netcdf", "netcdf4"), ("netcdf", "zarr")])
def test_several_nodes_write_the_same_bytes_as_one(job, knarr, hdf5, netcdf, tmp_path, what, output):
    program, name = (hdf5, "hist.h5") if what == "hdf5" else (netcdf, "hist.nc")
    config = ALL + f'output = "{output}"\n'
    made = job.folder / ("hist.zarr" if output == "zarr" else name)
    expected = plain(tmp_path, program, name)
    one: dict[str, bytes] = {}
    for nodes in ("aaaa", "aabb", "abab", "abca"):
        ran = job(program, name, STEPS, ROWS, nodes=nodes, config=config)
        found = contents(made)
        assert found == (one := one or found), nodes
        were_handed_over(ran, name, len(set(nodes)))
        if output == "netcdf4":
            knarr("verify", expected, made)
            assert objects(made) == objects(expected)
        shutil.rmtree(made) if made.is_dir() else made.unlink()


@pytest.mark.parametrize("nodes", ["aabb", "abab", "abca"])
def test_writes_that_overlap_count_in_the_order_of_hdf5(job, knarr, tmp_path, nodes):
    """The program checks what it reads meanwhile."""
    program = built(tmp_path, "hdf5", HERE / "order.c")
    expected = plain(tmp_path, program, "hist.h5")
    ran = job(program, "hist.h5", STEPS, nodes=nodes)
    were_handed_over(ran, "hist.h5", len(set(nodes)))
    knarr("verify", expected, job.folder / "hist.h5")
    with h5py.File(job.folder / "hist.h5") as file:
        assert file["rows"][:, 0].tolist() == [100, 200, 300, 400, 700]


def test_collective_writes_that_overlap_count_by_rank(job, tmp_path):
    """HDF5 promises nothing there; Knarr's files do not depend on the time."""
    script = tmp_path / "overlap.py"
    script.write_text(OVERLAP)
    python = system_python()
    job(python, script, nodes="abca")
    with h5py.File(job.folder / "hist.h5") as file:
        assert file["x"][:].tolist() == [10 * (RANKS - 1)] * 64
        assert file["y"][:].tolist() == [10 * (RANKS - 1)] * 64


OVERLAP = """
from mpi4py import MPI
import h5py
import time

comm = MPI.COMM_WORLD
with h5py.File("hist.h5", "w", driver="mpio", comm=comm) as file:
    x, y = (file.create_dataset(name, (64,), dtype="i4") for name in "xy")
    # The last rank is the first one to write.
    time.sleep((comm.size - 1 - comm.rank) * 0.1)
    with x.collective:
        x[:] = 10 * comm.rank
    y[:] = 10 * comm.rank
"""


def test_h5py(job, tmp_path):
    """In atomic mode, among others."""
    python = system_python()
    (tmp_path / "plain").mkdir()
    command = [*MPIRUN, str(RANKS), python, "-c", H5PY]
    subprocess.run(command, cwd=tmp_path / "plain", check=True)
    ran = job(python, "-c", H5PY, nodes="abab")
    were_handed_over(ran, "hist.h5", 2)
    assert objects(job.folder / "hist.h5") == objects(tmp_path / "plain" / "hist.h5")


@pytest.mark.parametrize("what", ["filters", "odd", "leave", "read", "twice"])
def test_what_hdf5_programs_do_else(job, hdf5, tmp_path, what):
    ran = job(hdf5, "hist.h5", STEPS, ROWS, what, nodes="abab")
    assert ran.outcomes("hist.h5")[-1] == "packed"
    expected = plain(tmp_path, hdf5, "hist.h5", *([] if what == "filters" else [what]))
    assert objects(job.folder / "hist.h5") == objects(expected)


def test_netcdf_that_is_read_and_waited_for(job, knarr, netcdf, tmp_path):
    ran = job(netcdf, "hist.nc", STEPS, ROWS, "read", nodes="abca", config=ALL + 'wait = "close"\n')
    were_handed_over(ran, "hist.nc", 3)
    knarr("verify", plain(tmp_path, netcdf, "hist.nc"), job.folder / "hist.nc")


def test_ranks_that_create_different_datasets_are_told(job, hdf5):
    (job.folder / "hist.h5").write_bytes(b"precious")
    ran = job(hdf5, "hist.h5", STEPS, ROWS, "differ", nodes="abab", ok=False)
    assert ran.code != 0 and "have not created the same datasets" in ran.err
    assert (job.folder / "hist.h5").read_bytes() == b"precious"


FLUSH = """
from mpi4py import MPI
import h5py

comm = MPI.COMM_WORLD
with h5py.File("hist.h5", "w", driver="mpio", comm=comm) as file:
    x = file.create_dataset("x", (comm.size,), dtype="i4")
    x[comm.rank] = comm.rank
    if comm.rank == 1:
        file.flush()
"""


def test_ranks_that_make_different_collective_calls_are_told(job):
    """HDF5 would wait for ever. What they have written is not lost by that."""
    ran = job(system_python(), "-c", FLUSH, nodes="abab")
    assert ran.err.count("have not made the same collective calls") == 1, ran.err
    with h5py.File(job.folder / "hist.h5") as file:
        assert file["x"][:].tolist() == list(range(RANKS))


LARGE = 512
# As large as the block of a rank; a chain that needs no samples.
CHUNKS = '[file.variables."T"]\nchunks = "1x256x512"\nchain = "shuffle | zstd:3"\n'


@pytest.mark.parametrize("nodes", ["aabb", "abca"])
def test_chunks_are_encoded_where_their_values_are(job, netcdf, nodes):
    job(netcdf, "hist.nc", STEPS, LARGE, nodes="aaaa", config=ALL + CHUNKS)
    one = contents(job.folder / "hist.nc")
    ran = job(netcdf, "hist.nc", STEPS, LARGE, nodes=nodes, config=ALL + CHUNKS)
    assert contents(job.folder / "hist.nc") == one
    # Ranks have the quarters of each plane, and two of them are elsewhere.
    assert measured(ran)["T"]["elsewhere_chunks"] == STEPS * 2


def filters(dataset: h5py.Dataset) -> int:
    return dataset.id.get_create_plist().get_nfilters()


@pytest.mark.parametrize("killed", [0, 1])
def test_a_launcher_that_is_killed_leaves_what_can_be_finished(job, knarr, hdf5, tmp_path, killed):
    (job.folder / "hist.h5").write_bytes(b"precious")
    process = waiting(job, hdf5, "hist.h5", STEPS, ROWS)
    os.kill(part(job, killed), signal.SIGKILL)
    ran = job.finish(process)
    assert ran.code != 0 and (job.folder / "hist.h5").read_bytes() == b"precious"
    (job.folder / "hist.h5").unlink()
    recovered(job, knarr, "hist.h5", plain(tmp_path, hdf5, "hist.h5"))


@pytest.mark.parametrize("what", ["kill", "forget"])
def test_a_file_that_is_not_closed_can_be_made(job, knarr, hdf5, tmp_path, what):
    # Seconds from SIGTERM to SIGKILL when a rank has failed. Without it is 1: short for launchers on a busy machine.
    patience = {"OMPI_MCA_odls_base_sigkill_timeout": "4"}
    ran = job(hdf5, "hist.h5", STEPS, ROWS, what, nodes="abab", ok=False, **patience)
    assert ran.code != 0 and not (job.folder / "hist.h5").exists()
    assert "knarr run --recover" in ran.err
    recovered(job, knarr, "hist.h5", plain(tmp_path, hdf5, "hist.h5"))


def test_a_node_that_is_stopped_is_named_and_values_are_kept(job, knarr, hdf5, tmp_path):
    process = waiting(job, hdf5, "hist.h5", STEPS, ROWS)
    launcher = part(job, 1)
    os.kill(launcher, signal.SIGSTOP)
    (job.folder / "go").touch()
    begin, other = time.monotonic(), job.top / "result.json"
    while not other.exists():
        assert time.monotonic() - begin < 100, "the other node waits"
        time.sleep(0.1)
    os.kill(launcher, signal.SIGCONT)
    ran = job.finish(process)
    (file,) = json.loads(other.read_text())["files"]
    assert file["outcome"] == "failed" and "node 'b'" in file["reason"], file
    assert ran.code != 0 and not (job.folder / "hist.h5").exists()
    recovered(job, knarr, "hist.h5", plain(tmp_path, hdf5, "hist.h5"))


AGAIN = """
from mpi4py import MPI
import h5py

comm = MPI.COMM_WORLD
with h5py.File("hist.h5", "w", driver="mpio", comm=comm) as file:
    first = file.create_dataset("first", (comm.size, 4096), dtype="i4")
    first[comm.rank] = comm.rank
with h5py.File("hist.h5", "r+", driver="mpio", comm=comm) as file:
    second = file.create_dataset("second", (comm.size, 4096), dtype="i4")
    second[comm.rank] = comm.rank + file["first"][comm.rank, 0]
"""


def test_a_file_that_is_opened_again_to_write_is_packed_again(job):
    """The launcher of the first rank's node does that when all ranks have closed it."""
    ran = job(system_python(), "-c", AGAIN, nodes="abab")
    were_handed_over(ran, "hist.h5", 2)
    with h5py.File(job.folder / "hist.h5") as file:
        assert filters(file["first"]) > 0 and filters(file["second"]) > 0
        assert file["first"][:, 9].tolist() == [0, 1, 2, 3] and file["second"][:, 9].tolist() == [0, 2, 4, 6]


def test_nodes_that_do_not_answer_leave_the_file_to_hdf5(job, knarr, netcdf, tmp_path):
    """Several launchers see it closed: none of them may pack it under the eyes of the others."""
    expected = plain(tmp_path, netcdf, "hist.nc")
    # Launchers that take themselves for the only one, as under a batch system whose variables Knarr does not know.
    name = "OMPI_COMM_WORLD_SIZE"
    command = ["env", f"{name}={RANKS}", netcdf, "hist.nc", STEPS, ROWS]
    ran = job(*command, nodes="abcd", within=["env", "-u", name])
    assert set(ran.outcomes("hist.nc")) == {"left"} and "answers nobody" in str(ran.results), ran.results
    assert contents(job.folder / "hist.nc").keys() == contents(expected).keys()
    knarr("verify", expected, job.folder / "hist.nc")
    with h5py.File(job.folder / "hist.nc") as file, h5py.File(expected) as other:
        for name in ("T", "S", "topo"):
            assert filters(file[name]) == filters(other[name])


def test_without_an_adapter_for_mpi_the_file_is_left_to_hdf5(job, netcdf, tmp_path):
    """Nobody knows then on which nodes its ranks are."""
    installed = tmp_path / "installed"
    installed.mkdir()
    for name in ("knarr", "libknarr_preload.so"):
        shutil.copy(job.program.parent / name, installed)
    job.program = installed / "knarr"
    ran = job(netcdf, "hist.nc", STEPS, ROWS, nodes="abab")
    assert ran.outcomes("hist.nc") == ["left", "left"] and "adapter" in str(ran.results), ran.results
    with h5py.File(job.folder / "hist.nc") as file:
        assert filters(file["topo"]) == 0
