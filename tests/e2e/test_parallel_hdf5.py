"""Programs that write with parallel HDF5 or netCDF-4 under `knarr run`: values are handed over, and a compressed file
is made of them."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest
import xarray

from running import (  # noqa: F401  a fixture
    MPIRUN,
    Runner,
    forget,
    is_abandoned,
    is_killed_at_any_moment,
    no_spools_stay,
    outlives_its_launcher,
    spools,
    until,
    wait_for_the_end_of,
)

HERE = Path(__file__).with_name("parallel_programs")
RULE = '[[file]]\npattern = "hist.*"\n'
RANKS = 4
STEPS, ROWS = 3, 64
SHARED_MEMORY = Path("/dev/shm")


def built(folder: Path, name: str, source: Path | None = None) -> Path:
    """A program with Debian's HDF5 or netCDF for Open MPI: of this source, or that of the same name."""
    places = {"hdf5": "hdf5/openmpi", "netcdf": "netcdf/mpi"}
    libraries = next(Path("/usr/lib").glob(f"*/{places[name]}"), Path("/"))
    headers = [Path("/usr/include/hdf5/openmpi"), libraries / "include"]
    if shutil.which("mpicc.openmpi") is None or libraries == Path("/"):
        pytest.skip(
            "needs parallel HDF5 and netCDF: run 'make setup' as root, or install libhdf5-openmpi-dev, "
            "libnetcdf-mpi-dev and libopenmpi-dev"
        )
    program = folder / name
    options = [f"-I{header}" for header in headers] + [f"-L{libraries}", f"-Wl,-rpath,{libraries}", f"-l{name}", "-lm"]
    subprocess.run(["mpicc.openmpi", "-O1", "-w", source or HERE / f"{name}.c", "-o", program, *options], check=True)
    return program


def compiled(library: str, source: Path | None = None) -> Callable[[pytest.TempPathFactory], Path]:
    """A fixture of the tests of a file: as `built`."""

    @pytest.fixture(scope="module")
    def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
        return built(tmp_path_factory.mktemp(library), library, source)

    return program


hdf5 = compiled("hdf5")
netcdf = compiled("netcdf")


def plain(folder: Path, program: Path, name: str, *arguments: object, count: int = RANKS) -> Path:
    """What the program's library writes by itself."""
    (folder / "plain").mkdir()
    command = [*MPIRUN, str(count), program, name, str(STEPS), str(ROWS), *map(str, arguments)]
    subprocess.run(command, cwd=folder / "plain", check=True)
    return folder / "plain" / name


def ranks(program: Path, name: str, *arguments: object, count: int = RANKS) -> list[object]:
    return [*MPIRUN, count, program, name, STEPS, ROWS, *arguments]


def written(run: Runner, program: Path, name: str, *arguments: object, config: str = RULE, count: int = RANKS, **how):
    return run(*ranks(program, name, *arguments, count=count), config=config, **how)


def members(values: np.ndarray | np.generic) -> object:
    """What values hold. What lies between the members of compounds is nobody's."""
    names = values.dtype.names
    return {name: members(values[name]) for name in names} if names else values.tobytes()


def objects(path: Path) -> dict[str, object]:
    """Everything in a file: values, types, shapes, fill values, attributes."""
    found: dict[str, object] = {}

    def visit(name: str, thing: h5py.HLObject) -> None:
        found[f"{name}@"] = sorted((key, str(value)) for key, value in thing.attrs.items() if "REFERENCE" not in key)
        if isinstance(thing, h5py.Dataset):
            found[name] = (thing.dtype.str, thing.shape, thing.maxshape, str(thing.fillvalue), members(thing[()]))

    with h5py.File(path) as file:
        visit("/", file)
        file.visititems(visit)
    return found


def was_handed_over(ran, name: str) -> None:
    told = ran.file(name)
    assert told["outcome"] == "packed" and "handed over" in told["note"], (told, ran.err)


def datasets(file: h5py.File) -> list[h5py.Dataset]:
    found: list[h5py.Dataset] = []
    file.visititems(lambda _, thing: found.append(thing) if isinstance(thing, h5py.Dataset) else None)
    return found


def has_all_chunks(dataset: h5py.Dataset) -> bool:
    """HDF5 up to 1.10 cannot read a dataset with filters collectively where chunks are missing."""
    if dataset.chunks is None:
        return True
    grid = (-(-extent // size) for extent, size in zip(dataset.shape, dataset.chunks, strict=True))
    return dataset.id.get_num_chunks() == math.prod(grid)


def test_hdf5_of_four_ranks(run, knarr, hdf5, tmp_path):
    """Blocks, strides, unions, points, conversions, compounds, scalars: as HDF5 writes them by itself."""
    ran = written(run, hdf5, "hist.h5")
    hist = run.folder / "hist.h5"
    expected = plain(tmp_path, hdf5, "hist.h5")
    assert objects(hist) == objects(expected)
    knarr("verify", expected, hist)
    was_handed_over(ran, "hist.h5")
    with h5py.File(hist) as file:
        assert file["T"].id.get_create_plist().get_nfilters() > 0 and file["T"].maxshape[0] is None
        assert file["pairs"]["value"].tolist() == [0, 0.25, 0.5, 0.75] and file["answer"][()] == 42
        assert (file["never"][:] == -99).all()
        assert all(map(has_all_chunks, datasets(file)))
    assert hist.stat().st_size < expected.stat().st_size / 2
    assert not spools()


@pytest.mark.parametrize("count", [1, 3])
def test_other_numbers_of_ranks(run, hdf5, tmp_path, count):
    written(run, hdf5, "hist.h5", count=count)
    assert objects(run.folder / "hist.h5") == objects(plain(tmp_path, hdf5, "hist.h5", count=count))


def test_what_parallel_hdf5_refuses_because_of_filters_is_written(run, hdf5, tmp_path):
    """HDF5 writes no values here, so it need not convert and filter them together."""
    written(run, hdf5, "hist.h5", "filters")
    assert objects(run.folder / "hist.h5") == objects(plain(tmp_path, hdf5, "hist.h5"))


def test_calls_that_fail_and_a_dataset_that_gets_smaller(run, hdf5, tmp_path):
    ran = written(run, hdf5, "hist.h5", "odd")
    assert "strings of variable length" in ran.err
    expected = plain(tmp_path, hdf5, "hist.h5", "odd")
    assert objects(run.folder / "hist.h5") == objects(expected)
    with h5py.File(run.folder / "hist.h5") as file:
        assert file["T"][0].any() and not file["T"][1:].any()


def test_ranks_that_create_different_datasets_are_told(run, hdf5, knarr):
    """Parallel HDF5 would wait for ever, or damage its file."""
    (run.folder / "hist.h5").write_bytes(b"precious")
    ran = written(run, hdf5, "hist.h5", "differ", ok=False)
    assert ran.code != 0 and "have not created the same datasets" in ran.err
    (spool,) = spools()
    # Nobody knows which values belong to which dataset.
    assert "nothing can be made" in knarr("run", "--recover", spool, ok=False).stderr
    assert (run.folder / "hist.h5").read_bytes() == b"precious"
    shutil.rmtree(spool)


def test_hdf5_closes_what_a_program_leaves_open(run, hdf5, tmp_path):
    """When MPI ends, as HDF5 does by itself."""
    ran = written(run, hdf5, "hist.h5", "leave")
    assert objects(run.folder / "hist.h5") == objects(plain(tmp_path, hdf5, "hist.h5", "leave"))
    was_handed_over(ran, "hist.h5")
    assert not spools()


@pytest.mark.parametrize("what", ["read", "twice"])
def test_hdf5_that_is_read_or_written_again(run, hdf5, tmp_path, what):
    written(run, hdf5, "hist.h5", what)
    assert objects(run.folder / "hist.h5") == objects(plain(tmp_path, hdf5, "hist.h5", what))
    assert not spools()


LINKED = """
#include <hdf5.h>
#include <mpi.h>

/* Ranks follow external links of the file that they write, which name files beside it. */
int main(int argc, char **argv) {
    int rank, values[2] = {0, 0};
    hsize_t size = 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    hid_t file = H5Fcreate("out/hist.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access);
    hid_t space = H5Screate_simple(1, &size, NULL);
    hid_t data = H5Dcreate2(file, "T", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external("grid.h5", "/x", file, "grid", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external("sub/mask.h5", "/x", file, "mask", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external("none.h5", "/x", file, "none", H5P_DEFAULT, H5P_DEFAULT);
    const char *names[] = {"grid", "mask"};
    for (int i = 0; i < 2; i++) {
        hid_t linked = H5Dopen2(file, names[i], H5P_DEFAULT);
        if (linked < 0 || H5Dread(linked, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &values[i]) < 0) return 9;
        H5Dclose(linked);
    }
    H5E_BEGIN_TRY {
        if (H5Dopen2(file, "none", H5P_DEFAULT) >= 0) return 8;
    } H5E_END_TRY;
    if (H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) return 7;
    H5Dclose(data);
    H5Sclose(space);
    H5Pclose(access);
    if (H5Fclose(file) < 0) return 6;
    MPI_Finalize();
    return 0;
}
"""


@pytest.mark.parametrize("count", [1, RANKS])
def test_external_links_lead_beside_the_file(run, tmp_path, count):
    """HDF5 without MPI-IO locks what it opens to write, so that one rank has it, unless it is told not to."""
    (tmp_path / "linked.c").write_text(LINKED)
    program = built(tmp_path, "hdf5", tmp_path / "linked.c")
    (run.folder / "out/sub").mkdir(parents=True)
    for name, value in (("grid.h5", 5), ("sub/mask.h5", 6)):
        with h5py.File(run.folder / "out" / name, "w") as file:
            file["x"] = np.int32([value])
    command = [*MPIRUN, str(count), program]
    ran = run("env", "HDF5_USE_FILE_LOCKING=FALSE", *command, config=RULE)
    assert ran.file("hist.h5")["outcome"] == "packed" and "handed over" in ran.err
    with h5py.File(run.folder / "out/hist.h5") as file:
        assert file["T"][...].tolist() == [5, 6] and file["grid"][0] == 5 and file["mask"][0] == 6


@pytest.mark.parametrize("what", ["", "read"])
def test_netcdf_of_four_ranks(run, knarr, netcdf, tmp_path, what):
    ran = written(run, netcdf, "hist.nc", what)
    hist = run.folder / "hist.nc"
    expected = plain(tmp_path, netcdf, "hist.nc")
    knarr("verify", expected, hist)
    was_handed_over(ran, "hist.nc")
    with netCDF4.Dataset(hist) as file, netCDF4.Dataset(expected) as other:
        assert file.data_model == "NETCDF4" and file.dimensions["time"].isunlimited()
        assert list(file.variables) == list(other.variables) and list(file.groups) == ["masks"]
        assert len(file.dimensions["time"]) == STEPS and file.title == "tests" and file["T"].units == "K"
        assert file["S"][1:].mask.all() and file["topo"].endian() == "big"
        for name in (*file.variables, "masks/land"):
            assert np.array_equal(np.ma.filled(file[name][:]), np.ma.filled(other[name][:])), name
    with xarray.open_dataset(hist) as file:
        assert file["T"].sizes == {"time": STEPS, "y": ROWS, "x": 2 * ROWS}
    assert hist.stat().st_size < expected.stat().st_size
    assert not spools()


def test_netcdf_that_grows_when_it_is_opened_again(run, knarr, netcdf, tmp_path):
    written(run, netcdf, "hist.nc", "append")
    knarr("verify", plain(tmp_path, netcdf, "hist.nc", "append"), run.folder / "hist.nc")
    with netCDF4.Dataset(run.folder / "hist.nc") as file:
        assert len(file.dimensions["time"]) == STEPS + 1 and is_filtered(file["T"])


again = compiled("hdf5", HERE / "again.c")


BOUND = "variables.T.max_abs_error = 0.25\n"


@pytest.mark.parametrize("settings", ["", 'goal = "speed"\n', 'portable = "core"\n', 'portable = "knarr"\n', BOUND])
def test_records_are_added_to_what_was_packed(run, knarr, again, tmp_path, settings):
    """HDF5 1.10 waits for ever if a dataset with filters does not take its space early."""
    parallel_file(run.folder / "hist.h5")
    shutil.copy(run.folder / "hist.h5", tmp_path)
    for cycle in range(3):
        run(*MPIRUN, RANKS, again, "hist.h5", 2, config=RULE + settings)
        with h5py.File(run.folder / "hist.h5") as file:
            assert is_filtered(file["T"]) and has_all_chunks(file["T"]) and takes_space_early(file["T"]), cycle
    subprocess.run([*MPIRUN, str(RANKS), again, "hist.h5", "6"], cwd=tmp_path, check=True)
    if settings != BOUND:
        knarr("verify", tmp_path / "hist.h5", run.folder / "hist.h5")
        return
    with h5py.File(run.folder / "hist.h5") as file, h5py.File(tmp_path / "hist.h5") as expected:
        assert file["T"].shape[0] == 7 and 0 < np.abs(file["T"][:] - expected["T"][:]).max() <= 0.25


def test_records_are_added_to_what_repack_wrote(knarr, again, tmp_path):
    """Also outside a run, with filters that HDF5 has."""
    parallel_file(tmp_path / "plain.h5", userblock_size=512)
    knarr("repack", tmp_path / "plain.h5", "-o", tmp_path / "packed.h5", "--portable", "core")
    for name in ("plain.h5", "packed.h5"):
        subprocess.run([*MPIRUN, str(RANKS), again, tmp_path / name, "2"], check=True, timeout=60)
    assert objects(tmp_path / "packed.h5") == objects(tmp_path / "plain.h5")
    with h5py.File(tmp_path / "packed.h5") as file:
        assert is_filtered(file["T"]) and file.userblock_size == 512


def test_a_file_of_one_process_takes_space_as_it_did(knarr, tmp_path):
    with h5py.File(tmp_path / "serial.h5", "w") as file:
        file.create_dataset("T", data=np.arange(4096.0).reshape(4, 1024), maxshape=(None, 1024), chunks=(1, 1024))
    knarr("repack", tmp_path / "serial.h5", "-o", tmp_path / "packed.h5")
    with h5py.File(tmp_path / "packed.h5") as file:
        assert is_filtered(file["T"]) and not takes_space_early(file["T"])


def parallel_file(path: Path, **how: int) -> None:
    """A file as parallel HDF5 makes it."""
    early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    with h5py.File(path, "w", **how) as file:
        shape = (1, ROWS, 4 * ROWS)
        file.create_dataset("T", shape, "f4", maxshape=(None, *shape[1:]), chunks=shape, fillvalue=-1, dcpl=early)
        file["mask"] = np.arange(ROWS * ROWS).reshape(ROWS, ROWS) // 1000


def is_filtered(dataset: h5py.Dataset | netCDF4.Variable) -> bool:
    if isinstance(dataset, netCDF4.Variable):
        return is_filtered(h5py.File(dataset.group().filepath())[dataset.name])
    return dataset.id.get_create_plist().get_nfilters() > 0


def takes_space_early(dataset: h5py.Dataset) -> bool:
    return dataset.id.get_create_plist().get_alloc_time() == h5py.h5d.ALLOC_TIME_EARLY


def test_zarr(run, netcdf, tmp_path):
    written(run, netcdf, "hist.nc", config=RULE + 'output = "zarr"\n')
    expected = plain(tmp_path, netcdf, "hist.nc")
    with xarray.open_zarr(run.folder / "hist.zarr") as store, xarray.open_dataset(expected) as file:
        assert np.array_equal(store["T"].values, file["T"].values) and store["T"].units == "K"
    assert not (run.folder / "hist.nc").exists()


def test_a_bound_holds(run, netcdf, tmp_path):
    written(run, netcdf, "hist.nc", config=RULE + "variables.T.max_abs_error = 0.05\n")
    expected = plain(tmp_path, netcdf, "hist.nc")
    with netCDF4.Dataset(run.folder / "hist.nc") as file, netCDF4.Dataset(expected) as other:
        assert 0 < np.abs(file["T"][:] - other["T"][:]).max() <= 0.05
        assert np.array_equal(file["topo"][:], other["topo"][:])


def test_an_old_file_stays_until_the_new_one_is_whole(run, hdf5):
    hist = run.folder / "hist.h5"
    hist.write_bytes(b"precious")
    ran = written(run, hdf5, "hist.h5", "kill", ok=False)
    assert ran.code != 0 and hist.read_bytes() == b"precious"


@pytest.mark.parametrize(("what", "name"), [("kill", "hist.h5"), ("forget", "hist.h5"), ("forget", "hist.nc")])
def test_a_file_that_is_not_closed_is_kept_and_can_be_made(run, knarr, hdf5, netcdf, tmp_path, what, name):
    program = hdf5 if name.endswith("h5") else netcdf
    ran = written(run, program, name, what, ok=False)
    assert ran.code != 0 and not (run.folder / name).exists()
    assert "before it had closed the file" in ran.err and "knarr run --recover" in ran.err
    (spool,) = spools()
    knarr("run", "--recover", spool)
    expected = plain(tmp_path, program, name)
    assert objects(run.folder / name) == objects(expected)
    assert not spools()


def test_what_a_program_still_writes_is_not_taken(run, knarr, hdf5, tmp_path):
    """The launcher is killed, and the program goes on."""
    run.config = RULE
    outlives_its_launcher(run, knarr, ranks(hdf5, "hist.h5", "wait"), hdf5, "datasets.json")
    assert objects(run.folder / "hist.h5") == objects(plain(tmp_path, hdf5, "hist.h5"))


def test_a_launcher_that_is_killed_leaves_what_can_be_finished(run, knarr, hdf5, tmp_path):
    run.config = RULE
    is_killed_at_any_moment(run, knarr, ranks(hdf5, "hist.h5"), hdf5, plain(tmp_path, hdf5, "hist.h5"))


def test_where_no_rule_matches_the_library_writes(run, hdf5, tmp_path):
    ran = written(run, hdf5, "hist.h5", config='[[file]]\npattern = "*.nc"\n')
    assert not ran.result["files"]
    assert objects(run.folder / "hist.h5") == objects(plain(tmp_path, hdf5, "hist.h5"))


H5PY = """
import sys
from mpi4py import MPI
import h5py
import numpy as np

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
rows = np.arange(8 * 300, dtype="f4").reshape(8, 300) + rank * 1000
with h5py.File("hist.h5", "w", driver="mpio", comm=comm) as file:
    assert file.driver == "mpio" and file.filename == "hist.h5" and not file.atomic
    file.atomic = True
    assert file.atomic
    file.attrs["title"] = "tests"
    T = file.create_dataset("T", (8 * size, 300), dtype="f4", maxshape=(None, 300), chunks=(8, 100))
    T.attrs["units"] = "K"
    with T.collective:
        T[rank * 8 : rank * 8 + 8] = rows
    T.resize(8 * size + 1, axis=0)
    if rank == 0:
        T[-1, ::3] = -1
    some = file.create_dataset("group/some", (size, 10), dtype="i8", fillvalue=7)
    some[rank, 1:4] = rank
    whole = file.create_dataset("whole", (size,), dtype=[("a", "i4"), ("b", "f8")])
    whole[rank : rank + 1] = np.array([(rank, rank / 2)], dtype=whole.dtype)
    comm.Barrier()
    assert (T[:8] == np.arange(8 * 300, dtype="f4").reshape(8, 300)).all() and T[8 * size, 3] == -1
    assert some[size - 1, 3] == size - 1 and some[size - 1, 4] == 7
with h5py.File("hist.h5", "r", driver="mpio", comm=comm) as file:
    assert (file["T"][rank * 8 : rank * 8 + 8] == rows).all()
"""


def system_python() -> Path:
    """The Python of the system, which may have h5py for MPI."""
    python = Path("/usr/bin/python3")
    has = subprocess.run([python, "-c", "import h5py, mpi4py, h5py._debian_h5py_mpi"], check=False, capture_output=True)
    if has.returncode != 0:
        pytest.skip("needs h5py for MPI: install python3-h5py-mpi")
    return python


def test_h5py(run, tmp_path):
    python = system_python()
    (tmp_path / "plain").mkdir()
    command = [*MPIRUN, str(RANKS), python, "-c", H5PY]
    subprocess.run(command, cwd=tmp_path / "plain", check=True)
    ran = run(*MPIRUN, RANKS, python, "-c", H5PY, config=RULE)
    was_handed_over(ran, "hist.h5")
    assert objects(run.folder / "hist.h5") == objects(tmp_path / "plain" / "hist.h5")
    assert not spools()


ATTRIBUTES = """
from mpi4py import MPI
import h5py

with h5py.File("hist.h5", "w", driver="mpio", comm=MPI.COMM_WORLD) as file:
    file.attrs["title"] = "new"
    file.attrs["notes"] = "long " * 1000
"""


def test_a_file_without_datasets_takes_the_place_of_a_smaller_one(run):
    python = system_python()
    with h5py.File(run.folder / "hist.h5", "w") as old:
        old.attrs["title"] = "old"
    ran = run(*MPIRUN, RANKS, python, "-c", ATTRIBUTES, config=RULE)
    was_handed_over(ran, "hist.h5")
    with h5py.File(run.folder / "hist.h5") as file:
        assert file.attrs["title"] == "new"


compound = compiled("hdf5", HERE / "compound.c")


@pytest.mark.parametrize("seed", [1, 1001])
def test_members_of_compounds_one_after_the_other(run, knarr, compound, tmp_path, seed):
    """Any types, members in any order and within others, converted or not, over each other: what HDF5 reads meanwhile,
    and the file."""
    ran = run(*MPIRUN, 2, compound, "hist.h5", seed, 40, config=RULE)
    command = [*MPIRUN, "2", compound, "hist.h5", str(seed), "40"]
    expected = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert ran.out == expected
    was_handed_over(ran, "hist.h5")
    assert objects(run.folder / "hist.h5") == objects(tmp_path / "hist.h5")
    assert not spools()
