"""Programs do under `knarr run` what they do without it: the same codes, the same values, under the same names.

Each test here stands for a way in which they did not."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest

import test_parallel_hdf5
from conftest import KNARR
from running import MPIRUN, TIME_LIMIT_S, Runner, no_spools_stay, until, wait_for_the_end_of  # noqa: F401  a fixture
from test_parallel_hdf5 import objects, system_python
from test_pnetcdf import HERE, RULE, compiled
from test_transfer import RULE as TRANSFER
from test_transfer import components  # noqa: F401  a fixture

HDF5 = RULE.replace("*.nc", "*.h5")
OTHER_USER = 65534

pytestmark = pytest.mark.usefixtures("own_memory")


program = compiled(HERE / "as_plain.c")


def both(
    run: Runner, *command: object, config: str = RULE, prepare: Callable[[Path], None] = lambda _: None
) -> tuple[Path, Path]:
    """Runs a program without Knarr and with it: it says the same. Returns the folders in which it ran."""
    plain = run.top / "plain"
    plain.mkdir()
    for folder in (plain, run.folder):
        prepare(folder)
    words = list(map(str, command))
    expected = subprocess.run(
        words, cwd=plain, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False, env=run.environment
    )
    assert expected.returncode == 0, expected.stderr
    ran = run(*command, config=config, ok=False)
    assert sorted(ran.out.splitlines()) == sorted(expected.stdout.splitlines()), ran.err
    assert ran.code == 0, ran.err
    return plain, run.folder


def contents(path: Path) -> dict[str, np.ndarray]:
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        return {name: variable[:] for name, variable in file.variables.items()}


def are_same(path: Path, plain: Path) -> None:
    found, expected = contents(path), contents(plain)
    assert list(found) == list(expected)
    for name, values in expected.items():
        assert np.array_equal(found[name], values), f"{path.name}, {name}: {found[name]} in place of {values}"


def named(folder: Path) -> list[str]:
    """What a program has made. Knarr saves plans beside its outputs."""
    found = [path for path in folder.rglob("*") if path.name != "field.npy" and not path.name.endswith(".knarr.json")]
    return sorted(str(path.relative_to(folder)) for path in found)


# WRF and others name files after the time. A name with a colon in it may look like that of a file system of ROMIO.
HOURS = [f"wrf_2001-01-01_{hour:02}:00:00" for hour in (0, 6, 12)]
H5PY_FILES = """
import sys
import h5py
from mpi4py import MPI

for number, name in enumerate(sys.argv[1:]):
    with h5py.File(name, "w", driver="mpio", comm=MPI.COMM_WORLD) as file:
        file.create_dataset("T", (1000,), "i4")[:] = number
"""


def test_pnetcdf_files_that_are_named_after_the_time(run, program):
    """Each is made under its own name, whatever is in front of a colon, and none of them replaces another one."""
    names = [f"{hour}.nc" for hour in HOURS]
    plain, folder = both(run, *MPIRUN, 2, program, "files", *names)
    assert named(folder) == named(plain) == names
    for name in names:
        are_same(folder / name, plain / name)


def test_hdf5_files_that_are_named_after_the_time(run):
    names = [f"{hour}.h5" for hour in HOURS]
    plain, folder = both(run, *MPIRUN, 2, system_python(), "-c", H5PY_FILES, *names, config=HDF5)
    assert named(folder) == named(plain) == names
    for name in names:
        assert objects(folder / name) == objects(plain / name)


# Rank `late` is late for the first collective write, and for a read between two collective writes.
H5PY_LATE = """
import sys, time
import h5py, numpy as np
from mpi4py import MPI

rank, late = MPI.COMM_WORLD.rank, int(sys.argv[1])


def put(made, block, value):
    with made.collective:
        made[block * 1000 : (block + 1) * 1000] = np.full(1000, value, "i4")


with h5py.File("out.h5", "w", driver="mpio", comm=MPI.COMM_WORLD) as file:
    written, read = (file.create_dataset(name, (2000,), "i4") for name in ("written", "read"))
    if rank == late:
        time.sleep(1)
    put(written, rank, 1)
    put(written, 1 - rank, 2)
    put(read, rank, 1)
    if rank == late:
        time.sleep(1)
    values = np.zeros(2000, "i4")
    with read.collective:
        # By itself h5py reads such a selection independently.
        read.id.read(h5py.h5s.ALL, h5py.h5s.ALL, values, dxpl=read._dxpl)
    put(read, rank, 2)
    sys.stdout.write(f"rank {rank} reads {values.min()} to {values.max()}\\n")
"""
NETCDF_LATE = """
#include <mpi.h>
#include <netcdf.h>
#include <netcdf_par.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int rank, id, values[2000];

static void put(int variable, int block, int value) {
    size_t start = 1000 * block, count = 1000;
    for (int n = 0; n < 1000; n++) values[n] = value;
    int code = nc_put_vara_int(id, variable, &start, &count, values);
    if (code) printf("rank %d: put: %d\\n", rank, code);
}

int main(int argc, char **argv) {
    int late = atoi(argv[1]), dim, written, read;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    nc_create_par("out.nc", NC_NETCDF4 | NC_CLOBBER, MPI_COMM_WORLD, MPI_INFO_NULL, &id);
    nc_def_dim(id, "x", 2000, &dim);
    nc_def_var(id, "written", NC_INT, 1, &dim, &written);
    nc_def_var(id, "read", NC_INT, 1, &dim, &read);
    nc_enddef(id);
    nc_var_par_access(id, written, NC_COLLECTIVE);
    nc_var_par_access(id, read, NC_COLLECTIVE);
    if (rank == late) sleep(1);
    put(written, rank, 1);
    put(written, 1 - rank, 2);
    put(read, rank, 1);
    if (rank == late) sleep(1);
    size_t start = 0, count = 2000;
    int code = nc_get_vara_int(id, read, &start, &count, values);
    printf("rank %d: get: %d, values %d and %d\\n", rank, code, values[0], values[1000]), fflush(stdout);
    put(read, rank, 2);
    nc_close(id);
    MPI_Finalize();
    return 0;
}
"""


@pytest.mark.parametrize("late", [0, 1])
def test_the_later_collective_write_of_hdf5_counts(run, late):
    """A rank that is late for a collective write puts nothing over what others write in the next one, and one that is
    late for a collective read does not see what they write after it."""
    plain, folder = both(run, *MPIRUN, 2, system_python(), "-c", H5PY_LATE, late, config=HDF5)
    with h5py.File(plain / "out.h5") as expected:
        assert (expected["written"][:] == 2).all() and (expected["read"][:] == 2).all()
    with h5py.File(folder / "out.h5") as file:
        for name in ("written", "read"):
            assert (file[name][:] == 2).all(), f"{name}: {file[name][:]}"


# Rank `late` is late for each of several collective writes, behind which all ranks read without each other.
H5PY_BEHIND = """
import sys, time
import h5py, numpy as np
from mpi4py import MPI

rank, late = MPI.COMM_WORLD.rank, int(sys.argv[1])
with h5py.File("out.h5", "w", driver="mpio", comm=MPI.COMM_WORLD) as file:
    made = file.create_dataset("made", (3000,), "i4")
    for value in (1, 2, 3):
        if rank == late:
            time.sleep(0.3)
        with made.collective:
            if rank > 0:
                made[(rank - 1) * 1500 : rank * 1500] = np.full(1500, value, "i4")
            else:
                # It takes part without an element.
                nothing = [h5py.h5s.create_simple((3000,)) for _ in range(2)]
                for space in nothing:
                    space.select_none()
                made.id.write(*nothing, np.zeros(3000, "i4"), dxpl=made._dxpl)
        values = made[:]
        sys.stdout.write(f"{value}: rank {rank} reads {values.min()} to {values.max()}\\n")
        MPI.COMM_WORLD.Barrier()
"""


@pytest.mark.parametrize("late", [0, 1, 2])
def test_an_independent_read_finds_what_a_collective_write_of_hdf5_has_put(run, late):
    ran = run(*MPIRUN, 3, system_python(), "-c", H5PY_BEHIND, late, config=HDF5)
    expected = [f"{value}: rank {rank} reads {value} to {value}" for value in (1, 2, 3) for rank in range(3)]
    assert sorted(ran.out.splitlines()) == expected


# Dataspaces of other shapes than the datasets, which HDF5 takes for datasets that lie in one piece.
H5PY_SHAPES = """
import sys
import h5py, numpy as np
from mpi4py import MPI

rank = MPI.COMM_WORLD.rank
SPACES = {
    "other": ((6, 4), (1, 1), (2, 2)),
    "smaller": ((2, 3), (0, 0), (2, 3)),
    "flat": ((24,), (0,), (24,)),
    "part": ((24,), (7,), (9,)),
    "deeper": ((2, 3, 4), (1, 0, 1), (1, 2, 3)),
    "scalar": ((1,), (0,), (1,)),
}
with h5py.File("out.h5", "w", driver="mpio", comm=MPI.COMM_WORLD) as file:
    for how in ("collective", "independent"):
        for name, (shape, start, count) in SPACES.items():
            dataset = file.create_dataset(f"{how} {name}", () if name == "scalar" else (4, 6), "i4")
            space, memory = h5py.h5s.create_simple(shape), h5py.h5s.create_simple(count)
            space.select_hyperslab(start, count)
            values = (np.arange(np.prod(count), dtype="i4") + 1).reshape(count)
            if how == "collective":
                with dataset.collective:
                    dataset.id.write(memory, space, values, dxpl=dataset._dxpl)
            elif rank == 0:
                dataset.id.write(memory, space, values)
            MPI.COMM_WORLD.Barrier()
            if rank == 0:
                found = np.zeros(count, "i4")
                dataset.id.read(memory, space, found)
                sys.stdout.write(f"{dataset.name}: {found.ravel().tolist()}, {dataset[()].ravel().tolist()}\\n")
            MPI.COMM_WORLD.Barrier()
"""


def test_dataspaces_of_other_shapes_than_the_dataset(run):
    plain, folder = both(run, *MPIRUN, 2, system_python(), "-c", H5PY_SHAPES, config=HDF5)
    assert objects(folder / "out.h5") == objects(plain / "out.h5")


@pytest.mark.parametrize("late", [0, 1])
def test_the_later_collective_write_of_netcdf_counts(run, tmp_path, late):
    (tmp_path / "late.c").write_text(NETCDF_LATE)
    program = test_parallel_hdf5.built(tmp_path, "netcdf", tmp_path / "late.c")
    plain, folder = both(run, *MPIRUN, 2, program, late)
    assert all((values == 2).all() for values in contents(plain / "out.nc").values())
    are_same(folder / "out.nc", plain / "out.nc")


def test_arrays_in_memory_that_run_backwards(run, program):
    """A negative stride of `varm`, to put and to get: rows from the last one to the first one, or columns."""
    plain, folder = both(run, *MPIRUN, 2, program, "mapped", "out.nc")
    assert contents(plain / "out.nc")["T"][0].tolist() == [5, 4, 3, 2, 1, 0]
    are_same(folder / "out.nc", plain / "out.nc")


def test_ranks_agree_on_records_when_they_define_more(run, program):
    """One of them has put records independently."""
    plain, folder = both(run, *MPIRUN, 2, program, "redef", "out.nc")
    are_same(folder / "out.nc", plain / "out.nc")


@pytest.mark.parametrize("when", ["early", "late"])
def test_a_directory_that_gets_another_name(run, program, when):
    """While a file in it is open: the file goes with it, and the one that has its name since is another one."""
    plain, folder = both(run, program, "rename", when)
    for name, number in (("d2/out.nc", 1), ("d/out.nc", 2)):
        assert (contents(plain / name)["a"] == number).all()
        are_same(folder / name, plain / name)


@pytest.fixture
def others(program) -> Iterator[Path]:
    """A folder of another user, with the program in it."""
    with tempfile.TemporaryDirectory(prefix="knarr-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copy(program, folder / "program")
        for path in (folder, folder / "plain", folder / "work"):
            path.mkdir(exist_ok=True)
            os.chown(path, OTHER_USER, OTHER_USER)
        (folder / "knarr.toml").write_text(RULE)
        yield folder


def as_other_user(folder: Path, *command: object) -> subprocess.CompletedProcess[str]:
    """`folder` is one of `others`."""
    user = ["setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups"]
    environment = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder.parent)}
    words = [*user, *map(str, command)]
    how = {"capture_output": True, "text": True, "timeout": TIME_LIMIT_S, "check": False}
    return subprocess.run(words, cwd=folder, env=environment, **how)


H5PY_ATTEMPT = """
import sys
import h5py
from mpi4py import MPI

for mode in ("w", "r+", "r"):
    try:
        with h5py.File("out.h5", mode, driver="mpio", comm=MPI.COMM_WORLD) as file:
            print(mode, "opens", file["T"][0] if mode == "r" else "")
    except OSError:
        print(mode, "is refused")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
@pytest.mark.parametrize("library", ["pnetcdf", "hdf5"])
def test_a_file_that_may_not_be_written_stays(others, program, library):
    """A program that creates it anew is refused, though it might replace it: its user has protected it."""
    if library == "pnetcdf":
        name, command = "out.nc", [others / "program", "attempt", "out.nc"]
        subprocess.run([program, "files", "out.nc"], cwd=others, check=True, stdout=subprocess.DEVNULL)
    else:
        name, command = "out.h5", [*MPIRUN, 1, system_python(), "-c", H5PY_ATTEMPT]
        (others / "knarr.toml").write_text(HDF5)
        with h5py.File(others / "out.h5", "w") as file:
            file["T"] = np.ones(1000)
    if as_other_user(others / "work", "test", "-x", KNARR).returncode != 0:
        pytest.skip(f"another user may not run {KNARR}")
    done = []
    for folder, before in (("plain", []), ("work", [KNARR, "run", "-c", others / "knarr.toml", "--"])):
        path = others / folder / name
        shutil.copy(others / name, path)
        os.chown(path, OTHER_USER, OTHER_USER)
        path.chmod(0o444)
        done.append(as_other_user(path.parent, *before, *command))
        assert path.read_bytes() == (others / name).read_bytes(), done[-1].stdout + done[-1].stderr
        assert path.stat().st_mode & 0o777 == 0o444
    expected, found = done
    assert expected.returncode == 0, expected.stderr
    assert found.stdout == expected.stdout and found.returncode == expected.returncode, found.stderr


def link(folder: Path, name: str) -> None:
    (folder / "real").mkdir()
    (folder / name).symlink_to(f"real/target{Path(name).suffix}")


@pytest.mark.parametrize("name", ["out.nc", "out.h5"])
def test_a_link_that_leads_to_nothing_yet(run, program, name):
    """The file is made where it leads, and it stays."""
    command = [*MPIRUN, 1, system_python(), "-c", H5PY_FILES] if name == "out.h5" else [program, "files"]
    config = HDF5 if name == "out.h5" else RULE
    plain, folder = both(run, *command, name, config=config, prepare=lambda folder: link(folder, name))
    assert named(folder) == named(plain)
    assert (plain / name).is_symlink() and (folder / name).is_symlink()
    target = (plain / name).readlink()
    assert (folder / name).readlink() == target
    if name == "out.nc":
        are_same(folder / target, plain / target)
    else:
        assert objects(folder / target) == objects(plain / target)


def test_a_reader_without_its_launcher_sees_no_later_session(components, program):  # noqa: F811
    """In the session that it has open: its memory is used again when nobody is said to read it. The reader may get an
    error, and no other values."""
    components.config = TRANSFER.replace("60s", "2s")
    go = components.folder / "go"
    model = components.start("model", program, "write", "out.nc")
    analysis = components.start("analysis", program, "read", "out.nc")
    until((components.folder / "opened").exists, "the reader has not opened it")
    os.kill(analysis.pid, signal.SIGKILL)
    go.touch()
    out, err = analysis.communicate(timeout=TIME_LIMIT_S)
    wait_for_the_end_of(program)
    # What became of the sessions that nobody has read is told, and may be an error.
    components.finish(model, ok=False)
    components.finish(components.start("analysis", "true"))
    for rest in components.top.glob("*/knarr-run-*"):
        shutil.rmtree(rest)
    gets = [line for line in out.splitlines() if "get:" in line]
    assert gets[0] == "rank 0: get: 0, values 1 to 1" and len(gets) > 1, out + err
    later = [line for line in gets if "get: 0," in line and not line.endswith("values 1 to 1")]
    assert not later, f"values of later sessions: {later}"


@pytest.mark.parametrize(("kind", "record"), [(2, 5_000_000_000), (1, 4_294_967_295), (2, 4_294_967_295)])
def test_records_that_a_format_cannot_count(run, program, kind, record):
    """The program is told so, and the records before stay."""
    plain, folder = both(run, program, "record", kind, record)
    with netCDF4.Dataset(folder / "out.nc") as file, netCDF4.Dataset(plain / "out.nc") as expected:
        assert len(file.dimensions["time"]) == len(expected.dimensions["time"])
        assert file["T"][:5].tolist() == expected["T"][:5].tolist() == [1, 2, 3, 4, 5]


def test_an_array_of_more_than_a_gibibyte_within_another_one(run, program):
    """One subarray type of MPI describes all of it: 1.08 GiB."""
    rows = 17_000
    plain, folder = both(run, program, "subarray", rows)
    (plain / "out.nc").unlink()
    with netCDF4.Dataset(folder / "out.nc") as file:
        assert file["T"].shape == (rows, rows // 2)
        for row in range(0, rows, 500):
            values = file["T"][row : row + 500]
            assert (values == np.arange(row, row + 500)[:, np.newaxis]).all(), f"rows from {row}"
