"""Components of route `transfer` that use HDF5 or netCDF-4 and have ranks on several nodes."""

from __future__ import annotations

import os
import signal
import subprocess
import textwrap
import time

import pytest

from running import MPIRUN
from test_parallel_hdf5 import system_python
from test_transfer import RULE, command, coupled
from test_transfer_hdf5 import ANY, COUPLED, H5PY_READS, H5PY_WRITES, SESSIONS, netcdf4, of_c, python
from test_transfer_several import SOON_S, Spread, both_on, components, outcomes, rid, tidy

pytestmark = pytest.mark.node

__all__ = ["components", "coupled", "netcdf4"]

BEGIN = """
from mpi4py import MPI
import h5py, numpy as np, os, signal, sys, time
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
def failed(*what):
    # A rank that ends alone would leave the others waiting.
    sys.__excepthook__(*what)
    comm.Abort(1)
sys.excepthook = failed
def shared(mode, name="a.h5", comm=comm):
    return h5py.File(name, mode, driver="mpio", comm=comm)
def opened():
    open(f"open.{rank}", "w").close()
def wait(name):
    while not os.path.exists(name):
        time.sleep(0.02)
"""


def mpi(nodes: str, text: str) -> list[object]:
    """A Python program with parallel HDF5."""
    return [*MPIRUN, len(nodes), system_python(), "-c", BEGIN + textwrap.dedent(text)]


FIELD = COUPLED.replace("netCDF4, ", "")

ROWS = """
    for session in range(3):
        with shared("w") as made:
            x = made.create_dataset("x", (size * 4, 1000), "i4", fillvalue=-1)
            with x.collective:
                x[rank * 4 : rank * 4 + 3] = session * 100 + rank
"""
COLUMNS = """
    for session in range(3):
        with shared("r") as found:
            x = found["x"]
            part = slice(rank * 1000 // size, (rank + 1) * 1000 // size)
            with x.collective:
                got = x[:, part]
            for row in range(len(x)):
                assert (got[row] == (-1 if row % 4 == 3 else session * 100 + row // 4)).all(), (session, row, got[row])
"""


@pytest.mark.parametrize(
    ("writers", "readers"),
    [("ab", "mm"), ("mm", "cd"), ("aab", "cdd"), ("abab", "ba")],
)
def test_netcdf_of_c(components, netcdf4, writers, readers):
    """Shorts and floats to double, strides, elements that nobody has written, a dimension that grows each session."""
    model, analysis = both_on(
        components,
        writers,
        of_c(netcdf4, "write", "together", len(writers)),
        readers,
        of_c(netcdf4, "read", "together", len(readers)),
    )
    assert outcomes(model, "a.nc") == ["gathered"] * (len(set(writers)) - 1) + ["transferred"], model.err
    assert outcomes(analysis, "a.nc") == ["transferred"] * len(set(readers)), analysis.err
    assert f"{SESSIONS} times" in model.file("a.nc")["reason"] and not list(components.folder.iterdir())


def test_hdf5_of_python(components):
    components.config = ANY
    both_on(components, "abc", mpi("abc", ROWS), "cd", mpi("cd", COLUMNS))


def test_a_model_on_two_nodes_an_analysis_on_one_and_plots_on_two(components, netcdf4):
    components.config = RULE.replace('"*.nc"', '"out.nc"') + RULE.replace('"*.nc"', '"back.nc"').replace(
        'from = "model"\nto = ["analysis"]', 'from = "analysis"\nto = ["plots"]'
    )
    analysis = """
        import h5py, netCDF4, numpy as np
        for session in range(2):
            with netCDF4.Dataset("out.nc") as file:
                assert file.session == session and file["grows"].units == "m s-1"
                grows = file["grows"][:].filled(-7)
                at = np.arange(140).reshape(10, 14)
                for step in range(session + 1):
                    expected = (session * 1000000 + step * 100000 + at).astype("f4")
                    expected[5 if step == session else 10:] = -7
                    assert (grows[step] == expected).all()
                assert (file["fixed"][:] == at).all()
            with h5py.File("back.nc", "w") as file:
                file["step"] = np.arange(10.0) + session
                file["names"] = ["of", "any", "length", str(session)]
    """
    reads = """
        for session in range(2):
            with shared("r", "back.nc") as found:
                assert (found["step"][:] == np.arange(10.0) + session).all()
                assert found["names"].asstr()[:].tolist() == ["of", "any", "length", str(session)]
    """
    started = [
        components.start_on("plots", "bc", mpi("bc", reads)),
        components.start_on("model", "ab", of_c(netcdf4, "write", "together", 2, "out.nc", 2)),
        components.start("analysis", *python(analysis)),
    ]
    for process in started:
        components.finish(process)


def through_a_link(components: Spread) -> None:
    """The configuration, and what lies beside it, has a name with a link in it."""
    (components.top / "link").symlink_to(components.top)
    components.config_name = "link/knarr.toml"


def test_ranks_on_several_nodes_get_everything_that_one_process_writes(components):
    """Strings, references, links, types, attributes."""
    components.config = ANY
    reads = BEGIN + H5PY_READS.replace('h5py.File(sys.argv[1], "r")', 'shared("r", sys.argv[1])')
    through_a_link(components)
    model = components.start("model", *python(H5PY_WRITES, "a.h5", 2))
    analysis = components.start_on("analysis", "cd", [*MPIRUN, 2, system_python(), "-c", reads, "a.h5", 2])
    components.finish(model)
    components.finish(analysis)


def test_processes_without_mpi_share_a_session_on_whatever_nodes_they_are(components):
    """And what one of them has taken no other one takes again."""
    components.config = ANY
    writes = """
        for session in range(9):
            with h5py.File("a.h5", "w") as made:
                made["x"] = np.full(1000, session)
                made["name"] = ["of", "any", "length"]
    """
    reads = """
        for session in range(0, 9, 3):
            with h5py.File("a.h5", "r") as found:
                comm.Barrier()
                # The last one reads when all others have closed it.
                for turn in range(size):
                    if turn == rank:
                        assert (found["x"][:] == session).all(), (session, found["x"][0])
                        assert found["name"].asstr()[:].tolist() == ["of", "any", "length"]
                        if rank < size - 1:
                            found.close()
                    comm.Barrier()
            comm.Barrier()
            # The others know at once who has taken a session, with MPI and without.
            for turn in range(2):
                if rank == (session + turn) % size:
                    with h5py.File("a.h5", "r") if turn == 0 else shared("r", comm=MPI.COMM_SELF) as found:
                        assert (found["x"][:] == session + 1 + turn).all(), (session, turn, found["x"][0])
                comm.Barrier()
    """
    model = components.start("model", *python("import h5py, numpy as np\n" + textwrap.dedent(writes)))
    components.finish(components.start_on("analysis", "cdc", mpi("cdc", reads)))
    components.finish(model)


def test_pnetcdf_on_the_one_side_and_hdf5_on_the_other(components, coupled):
    reads = """
        for session in range(2):
            with shared("r", "a.nc") as found:
                assert found.attrs["session"] == session
                assert (found["field"][rank::size] == field(session, 0)[rank::size]).all()
                assert (found["series"][:, rank::size] == series(session)[:, rank::size]).all()
    """
    through_a_link(components)
    reader = mpi("cb", FIELD + textwrap.dedent(reads))
    both_on(components, "ab", command(coupled, "write", "a.nc", "2x1", 2), "cb", reader)
    assert not list(components.folder.iterdir())


def test_hdf5_on_the_one_side_and_pnetcdf_on_the_other(components, coupled):
    writes = """
        part = slice(rank * rows // size, (rank + 1) * rows // size)
        for session in range(2):
            with shared("w", "a.nc") as made:
                made.attrs["session"] = np.int32(session)
                every = series(session)
                for name, length, most in [("time", len(every), None), ("y", rows, rows), ("x", columns, columns)]:
                    made.create_dataset(name, (length,), "f4", maxshape=(most,), chunks=(4,)).make_scale(
                        "This is a netCDF dimension but not a netCDF variable.%10d" % length)
                def variable(name, dtype, dims, length):
                    most = tuple(None if dim == "time" else n for dim, n in zip(dims, length))
                    data = made.create_dataset(name, length, dtype, maxshape=most, chunks=True if length else None)
                    for axis, dim in enumerate(dims):
                        data.dims[axis].attach_scale(made[dim])
                    return data
                variable("field", "f8", ["y", "x"], (rows, columns))[part] = field(session, 0)[part]
                variable("series", "f4", ["time", "y", "x"], every.shape)[:, part] = every[:, part]
                made.create_dataset("number", (), "i4")[()] = 41 + session
                variable("label", "S1", ["y"], (rows,))[part] = np.full(rows, chr(97 + session), "S1")[part]
    """
    writer = mpi("ab", FIELD + textwrap.dedent(writes))
    both_on(components, "ab", writer, "cb", command(coupled, "read", "a.nc", "1x2", 2))
    assert not list(components.folder.iterdir())


def test_of_writes_that_overlap_the_later_call_counts_and_then_the_higher_rank(components):
    """And an independent write more than the collective one before it. Sessions 1 and 2 are alike but for values."""
    components.config = ANY + 'replay = true\nin_flight = "raw"\n'
    writes = """
        for session in range(4):
            with shared("w") as made:
                x = made.create_dataset("x", (300 + session // 2,), "i4")
                y = made.create_dataset("y", (300,), "i4")
                with x.collective:
                    x[rank * 10 : 300] = session * 1000 + rank
                    x[:100] = session * 1000 + 100 + rank
                with y.collective:
                    y[:] = session * 1000 + rank
                if rank == 0:
                    y[7] = session * 1000 + 500
    """
    reads = """
        for session in range(4):
            with shared("r") as found:
                x, y = found["x"][:], found["y"][:]
                assert len(x) == 300 + session // 2
                assert (x[:100] == session * 1000 + 102).all() and (x[100:300] == session * 1000 + 2).all(), x
                assert y[7] == session * 1000 + 500 and (np.delete(y, 7) == session * 1000 + 2).all(), y
    """
    both_on(components, "aba", mpi("aba", writes), "cd", mpi("cd", reads))


def test_two_components_and_every_second_session(components):
    components.config = ANY.replace('["analysis"]', '["analysis", "plots"]') + "every = 2\n"
    writes = """
        for session in range(5):
            with shared("w") as made:
                made.create_dataset("x", (size,), "i8")[rank] = session
    """
    reads = """
        for session in (1, 3):
            with shared("r") as found:
                assert (found["x"][:] == session).all()
    """
    alone = """
        import h5py
        for session in (1, 3):
            with h5py.File("a.h5") as file:
                assert (file["x"][:] == session).all()
    """
    model = components.start_on("model", "ab", mpi("ab", writes))
    readers = [components.start_on("analysis", "bc", mpi("bc", reads)), components.start("plots", *python(alone))]
    wrote, *_ = [components.finish(process) for process in (model, *readers)]
    assert "2 times (3 more were skipped)" in wrote.file("a.h5")["reason"]


def test_the_members_of_an_ensemble_may_be_on_nodes_of_their_own(components):
    components.config = RULE.replace('"*.nc"', '"a{member}.h5"')
    each = """
        member = rank % 2
        own = comm.Split(member)
        for session in range(3):
            with shared("{mode}", f"a{{member}}.h5", own) as found:
                {does}
    """
    writes = each.format(mode="w", does='found.create_dataset("x", (2, 9), "i4")[own.rank] = session * 10 + member')
    reads = each.format(mode="r", does='assert (found["x"][:] == session * 10 + member).all()')
    model, _ = both_on(components, "abab", mpi("abab", writes), "ccdd", mpi("ccdd", reads))
    assert outcomes(model, "a0.h5") == outcomes(model, "a1.h5") == ["transferred"]


def test_a_file_that_is_kept_has_the_bytes_of_one_node(components, netcdf4):
    components.config = RULE + "keep = true\n"
    made = {}
    for nodes in ("aaa", "aba"):
        writer, reader = (
            of_c(netcdf4, "write", "together", 3, "a.nc", 1),
            of_c(netcdf4, "read", "together", 2, "a.nc", 1),
        )
        ran, _ = both_on(components, nodes, writer, "cd", reader)
        assert outcomes(ran, "a.nc") == ["gathered"] * (len(set(nodes)) - 1) + ["packed"], ran.err
        made[nodes] = (components.folder / "a.nc").read_bytes()
        for old in [*components.top.glob("model*.json"), components.folder / "a.nc"]:
            old.unlink()
    assert made["aaa"] == made["aba"]


def test_a_session_that_nobody_takes_becomes_a_file(components, netcdf4):
    components.config = RULE.replace("60s", "1s")
    model = components.finish(components.start_on("model", "ab", of_c(netcdf4, "write", "together", 2, "a.nc", 1)))
    assert outcomes(model, "a.nc") == ["gathered", "packed"], model.err
    components.finish(components.start_on("analysis", "cd", of_c(netcdf4, "read", "together", 2, "a.nc", 1)))


OPEN = """
    made = shared("w")
    made.create_dataset("x", (size,), "i8")[rank] = rank
    opened()
    wait("go")
    if rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.Barrier()
"""
ABSENT = """
    try:
        shared("r")
    except OSError:
        sys.exit(0)
    sys.exit(9)
"""


def await_open(components: Spread, *processes: subprocess.Popen[str]) -> None:
    """Both ranks of a program have the file open."""
    end = time.monotonic() + 240
    while len(list(components.folder.glob("open.*"))) < 2:
        assert time.monotonic() < end and all(process.poll() is None for process in processes)
        time.sleep(0.02)


@pytest.mark.parametrize("who", ["rank", "launcher"])
def test_a_writer_that_dies_before_it_closes_the_file_is_noticed(components, who):
    components.config = ANY
    analysis = components.start_on("analysis", "cd", mpi("cd", ABSENT))
    model = components.start_on("model", "ab", mpi("ab", OPEN))
    await_open(components, model)
    begin = time.monotonic()
    if who == "rank":
        (components.folder / "go").touch()
    else:
        os.kill(components.launcher_of("model", "b"), signal.SIGKILL)
    read = components.finish(analysis)
    assert time.monotonic() - begin < SOON_S
    assert "component 'model'" in read.err and "there is no session of the file that was not read" in read.err, read.err
    assert components.finish(model, ok=False).code != 0
    tidy(components)


def test_a_node_of_the_writer_that_fails_after_the_close_is_named_on_all_ranks(components):
    """The one component has the file open, and gets an error for values. The other one does not find a session."""
    components.config = ANY.replace('["analysis"]', '["analysis", "plots"]')
    reads = """
        found = shared("r")
        opened()
        wait("go")
        try:
            found["x"][:, rank]
        except (OSError, RuntimeError):
            sys.exit(0)
        sys.exit(9)
    """
    model = components.start_on("model", "ab", mpi("ab", ROWS.replace("range(3)", "range(1)")))
    analysis = components.start_on("analysis", "cd", mpi("cd", reads))
    await_open(components, analysis)
    os.kill(components.launcher_of("model", "b"), signal.SIGSTOP)
    begin = time.monotonic()
    (components.folder / "go").touch()
    plots = components.start_on("plots", "ef", mpi("ef", ABSENT))
    read, absent = components.finish(analysis), components.finish(plots)
    assert time.monotonic() - begin < SOON_S
    for ran, what in ((read, "dataset '/x'"), (absent, "its values")):
        assert what in ran.err and "node 'b' is gone" in ran.err, ran.err
        assert outcomes(ran, "a.h5") == ["missed", "missed"]
    rid(components, model, may_keep=True)


@pytest.mark.parametrize("who", ["rank", "launcher"])
def test_a_reader_that_dies_is_noticed(components, who):
    components.config = ANY
    reads = """
        found = shared("r")
        opened()
        wait("go")
        os.kill(os.getpid(), signal.SIGKILL)
    """
    model = components.start_on("model", "ab", mpi("ab", ROWS.replace("range(3)", "range(1)")))
    analysis = components.start_on("analysis", "cd", mpi("cd", reads))
    await_open(components, analysis)
    begin = time.monotonic()
    if who == "rank":
        (components.folder / "go").touch()
    else:
        os.kill(components.launcher_of("analysis", "d"), signal.SIGKILL)
    assert components.finish(analysis, ok=False).code != 0
    wrote = components.finish(model)
    assert time.monotonic() - begin < SOON_S
    assert "component 'analysis' has ended without it; a file is made of it" in wrote.err, wrote.err
    tidy(components)
