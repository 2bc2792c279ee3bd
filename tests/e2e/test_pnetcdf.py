"""Programs that write with PnetCDF under `knarr run`: values are handed over, and a compressed file is made of them."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

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

sys.path.insert(0, str(Path(__file__).with_name("pnetcdf_programs")))
import calls  # noqa: F401  conftest makes a program of it

HERE = Path(__file__).with_name("pnetcdf_programs")
RULE = '[[file]]\npattern = "*.nc"\n'
RANKS = 4
STEPS, ROWS = 3, 64
LIBRARY = Path("/usr/lib/x86_64-linux-gnu/libpnetcdf.so")
SHARED_MEMORY = Path("/dev/shm")
ZARR = [("zarr", ""), ("zarr", "twice")]


def built(folder: Path, name: str, source: Path, more: Sequence[str] = ()) -> Path:
    """A program with PnetCDF; Debian's is for Open MPI. `more` are arguments for the compiler."""
    if not Path("/usr/include/pnetcdf.h").exists() or shutil.which("mpicc.openmpi") is None:
        pytest.skip(
            "needs PnetCDF and Open MPI: run 'make setup' as root, or install libpnetcdf-dev and libopenmpi-dev"
        )
    program = folder / name
    subprocess.run(["mpicc.openmpi", "-O1", "-w", source, "-o", program, *more, "-lpnetcdf", "-lm"], check=True)
    return program


def compiled(source: Path) -> Callable[[pytest.TempPathFactory], Path]:
    """A fixture of the tests of a file: the program of a source with PnetCDF."""

    @pytest.fixture(scope="module")
    def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
        return built(tmp_path_factory.mktemp(source.stem), source.stem, source)

    return program


again = compiled(HERE / "again.c")
filetypes = compiled(HERE / "filetypes.c")


waits = compiled(HERE / "waits.c")


def ranks(program: Path, *arguments: object, count: int = RANKS) -> list[object]:
    return [*MPIRUN, count, program, *arguments]


def written(run: Runner, program: Path, *arguments: object, config: str = RULE, count: int = RANKS, **how: object):
    return run(*ranks(program, *arguments, count=count), config=config, **how)


def test_a_file_of_four_ranks(run, knarr, blocks, plain):
    ran = written(run, blocks, "hist.nc", STEPS, ROWS)
    hist = run.folder / "hist.nc"
    knarr("verify", plain, hist)
    told = ran.file("hist.nc")
    assert told["outcome"] == "packed" and "handed over" in told["note"]
    values = sum(variable["raw_bytes"] for variable in told["variables"])
    assert ran.result["spool"]["memory_bytes"] >= values > 0 == ran.result["spool"]["disk_bytes"]
    assert "Values that waited for their files took up to" in ran.err
    assert hist.stat().st_size < plain.stat().st_size / 2
    with netCDF4.Dataset(hist) as file, netCDF4.Dataset(plain) as expected:
        assert file.data_model == "NETCDF4" and file.dimensions["time"].isunlimited()
        assert file.title == "tests" and file["T"].units == "K" and len(file.dimensions["time"]) == STEPS
        assert list(file.variables) == list(expected.variables)
        assert file["T"].filters()["zlib"]
    assert np.isfinite(xarray.open_dataset(hist)["T"].values).all()
    assert not spools()


def test_every_function_that_moves_values(run, knarr, every_call, tmp_path):
    (tmp_path / "plain").mkdir()
    command = [*MPIRUN, "2", every_call, "plain.nc"]
    subprocess.run(command, cwd=tmp_path / "plain", check=True)
    written(run, every_call, "hist.nc", count=2)
    knarr("verify", tmp_path / "plain" / "plain.nc", run.folder / "hist.nc")


def test_no_function_is_missing(knarr):
    """Every public function that moves values, or changes what they mean, is caught."""
    if not LIBRARY.exists():
        pytest.skip("needs PnetCDF: run 'make setup' as root, or install libpnetcdf-dev")

    def exported(library: Path) -> set[str]:
        lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
        return {name for name in lines.stdout.split() if name.startswith("ncmpi_")}

    here = exported(Path(knarr.program).with_name("libknarr_preload.so"))
    there = exported(LIBRARY)
    assert here <= there, here - there
    # What is left to the library: definitions, attributes, and what is asked of the header.
    families = ("put", "get", "iput", "iget", "bput", "mput", "mget")
    moves = {name for name in there if name.split("_")[1] in families and "_att" not in name}
    moves -= {"ncmpi_get_file_info"}
    moves |= {f"ncmpi_{name}" for name in ("create", "open", "close", "abort", "delete", "enddef", "_enddef", "redef")}
    moves |= {f"ncmpi_{name}" for name in ("begin_indep_data", "end_indep_data", "sync", "flush", "sync_numrecs")}
    moves |= {f"ncmpi_{name}" for name in ("wait", "wait_all", "cancel", "set_fill", "def_var_fill", "fill_var_rec")}
    moves |= {f"ncmpi_{name}" for name in ("buffer_attach", "buffer_detach", "inq_buffer_usage", "inq_buffer_size")}
    moves |= {
        f"ncmpi_{name}" for name in ("inq_nreqs", "inq_put_size", "inq_dimlen", "inq_dim", "inq_path", "inq_var_fill")
    }
    assert len(moves) > 800 and here == moves, (moves - here, here - moves)


@pytest.mark.parametrize(
    ("output", "what"),
    # A Zarr store does not tell which dimension was unlimited.
    [(output, what) for output in ("netcdf4", "classic") for what in ("", "read", "twice")] + ZARR,
)
def test_what_a_program_opens_again_is_what_it_wrote(run, knarr, blocks, plain, output, what):
    """PnetCDF reads classic files only, and the program does not know of others."""
    written(run, blocks, "hist.nc", STEPS, ROWS, what, config=RULE + f'output = "{output}"\n')
    hist = run.folder / ("hist.zarr" if output == "zarr" else "hist.nc")
    assert hist.is_dir() == (output == "zarr")
    if what == "twice":
        with xarray.open_dataset(hist, **({"engine": "zarr"} if output == "zarr" else {})) as file:
            assert abs(float(file["T"][0, 0, 0]) - 281) < 1e-4
    else:
        knarr("verify", plain, hist)
    if output == "classic":
        with netCDF4.Dataset(hist) as file:
            assert file.data_model == "NETCDF3_64BIT_DATA"
    assert not spools()


@pytest.mark.parametrize("what", ["record", "part", "variable", "fixed"])
def test_a_record_that_nobody_writes_to_its_end_is_delivered(run, tmp_path, what):
    """PnetCDF writes nothing behind what was put, so the file is shorter than its header says."""
    partly = built(tmp_path, "partly", HERE / "partly.c")
    run(*MPIRUN, 1, partly, "hist.nc", what, config=RULE)
    with netCDF4.Dataset(run.folder / "hist.nc") as hist:
        assert hist.data_model == "NETCDF4"
        records, length = hist["T"].shape
        expected = np.arange(3 * length, dtype="f4").reshape(3, length)
        assert np.array_equal(hist["T"][:3], expected) and np.array_equal(hist["time"][:3], np.arange(3))
        if what == "record":
            assert np.array_equal(hist["T"][3], expected[2])
        elif what == "part":
            assert hist["T"][3, 3] == expected[2, 3]
        else:
            assert hist["more"].shape == (length if what == "fixed" else records,)
        assert records == (4 if what in ("record", "part") else 3)


@pytest.mark.parametrize("output", ["netcdf4", "classic"])
@pytest.mark.parametrize("what", ["", "modes"])
def test_attributes_and_modes_are_those_of_pnetcdf(run, knarr, again, tmp_path, output, what):
    """Text that ends in NUL, attributes without numbers; ranks that create and open a file in different modes."""
    (tmp_path / "plain").mkdir()
    command = [*MPIRUN, str(RANKS), again, "plain.nc", what]
    subprocess.run(command, cwd=tmp_path / "plain", check=True)
    written(run, again, "hist.nc", what, config=f'{RULE}output = "{output}"\n')
    knarr("verify", tmp_path / "plain" / "plain.nc", run.folder / "hist.nc")
    assert not spools()


def test_a_bound_holds(run, blocks, plain):
    ran = written(run, blocks, "hist.nc", STEPS, ROWS, config=RULE + "variables.T.max_abs_error = 0.05\n")
    with netCDF4.Dataset(run.folder / "hist.nc") as file, netCDF4.Dataset(plain) as expected:
        difference = np.abs(file["T"][:] - expected["T"][:])
        assert 0 < difference.max() <= 0.05
        assert np.array_equal(file["count"][:], expected["count"][:])
    assert ran.file("hist.nc")["outcome"] == "packed"


def test_an_old_file_stays_until_the_new_one_is_whole(run, blocks, plain):
    hist = run.folder / "hist.nc"
    hist.write_bytes(b"precious")
    ran = written(run, blocks, "hist.nc", STEPS, ROWS, "kill", ok=False)
    assert ran.code != 0 and hist.read_bytes() == b"precious"


def test_a_file_that_is_open_when_mpi_ends_is_made(run, knarr, blocks, plain):
    written(run, blocks, "hist.nc", STEPS, ROWS, "forget")
    knarr("verify", plain, run.folder / "hist.nc")


def test_a_file_that_is_not_closed_is_kept_and_can_be_made(run, knarr, blocks, plain):
    ran = written(run, blocks, "hist.nc", STEPS, ROWS, "kill", ok=False)
    assert ran.code != 0 and not (run.folder / "hist.nc").exists()
    assert "before it had closed the file" in ran.err and "knarr run --recover" in ran.err
    (spool,) = spools()
    # What somebody has put there since is not replaced.
    (run.folder / "hist.nc").write_bytes(b"newer")
    assert "a newer file has its name" in knarr("run", "--recover", spool, ok=False).stderr
    assert (run.folder / "hist.nc").read_bytes() == b"newer"
    (run.folder / "hist.nc").unlink()
    knarr("run", "--recover", spool)
    knarr("verify", plain, run.folder / "hist.nc")
    assert not spools()


def test_logs_on_a_disk_that_is_not_there_are_not_taken_for_empty_ones(run, knarr, blocks, plain):
    """When memory is full, logs move to the disk, and links lead there."""
    written(run, blocks, "hist.nc", STEPS, ROWS, "kill", ok=False)
    (spool,) = spools()
    disk, away = run.top / "disk", run.top / "away"
    disk.mkdir()
    for log in list(spool.glob("*/log.*")):
        shutil.move(log, disk / log.name)
        log.symlink_to(disk / log.name)
    disk.rename(away)
    refused = knarr("run", "--recover", spool, ok=False)
    said = f"{disk / 'log.0'}: what was put lies there, and that cannot be found"
    assert refused.returncode != 0 and said in refused.stderr, refused.stderr
    assert spools() == [spool] and not (run.folder / "hist.nc").exists()
    away.rename(disk)
    knarr("run", "--recover", spool)
    knarr("verify", plain, run.folder / "hist.nc")
    assert not spools()


@pytest.mark.parametrize("when", ["late", "wait"])
def test_what_a_program_still_writes_is_not_taken(run, knarr, blocks, when):
    """The launcher is killed, and the program goes on: before it has put anything, or behind that."""
    run.config = RULE
    outlives_its_launcher(run, knarr, ranks(blocks, "hist.nc", STEPS, ROWS, when), blocks, "log.3")
    assert (run.folder / "hist.nc").exists()


def test_a_launcher_that_is_killed_leaves_what_can_be_finished(run, knarr, blocks, plain):
    run.config = RULE
    is_killed_at_any_moment(run, knarr, ranks(blocks, "hist.nc", STEPS, ROWS), blocks, plain)


def test_what_is_left_at_the_end_of_a_batch_job_leaves_the_memory(run, knarr, blocks, plain):
    """SIGTERM ends the program with its file open: the values lie on the disk, from where the file is made."""
    launcher = run.start(*ranks(blocks, "hist.nc", STEPS, ROWS, "wait"), config=RULE)
    until((run.folder / "waits").exists, "not all is put")
    launcher.send_signal(signal.SIGTERM)
    ran = run.finish(launcher)
    wait_for_the_end_of(blocks)
    assert ran.code != 0 and not spools() and not (run.folder / "hist.nc").exists()
    (spool,) = run.scratch.glob("knarr-spool-*")
    assert f"knarr run --recover {spool}" in ran.err.replace("\n", " ")
    knarr("run", "--recover", run.scratch)
    knarr("verify", plain, run.folder / "hist.nc")
    assert not list(run.scratch.glob("*"))


@pytest.mark.parametrize("count", [1, 3])
def test_datatypes_for_the_file_lead_to_the_same_elements(run, knarr, filetypes, tmp_path, count):
    subprocess.run([*MPIRUN, str(count), filetypes, "plain.nc"], cwd=tmp_path, check=True)
    ran = written(run, filetypes, "hist.nc", count=count)
    assert ran.file("hist.nc")["outcome"] == "packed"
    knarr("verify", tmp_path / "plain.nc", run.folder / "hist.nc")


def test_ranks_that_wait_for_a_file_leave_their_cores_to_it(run, knarr, waits):
    """Waiting inside of MPI takes a core for each rank."""
    ran = written(run, waits, "hist.nc", 32, config=f'{RULE}wait = "close"\ngoal = "ratio"\n')
    took = np.array([line.split() for line in ran.out.split("\n") if line.count(".") == 2], float)
    assert took.shape == (RANKS, 2) and took[:, 1].min() > 0.2, ran.out
    assert (took[:, 0] < took[:, 1] / 4).all(), took
    assert ran.file("hist.nc")["outcome"] == "packed"


def test_without_ranks_on_one_node_or_a_place_the_library_writes(run, knarr, blocks, plain):
    """Nothing is captured where no rule matches, and the file is PnetCDF's own."""
    written(run, blocks, "hist.nc", STEPS, ROWS, config='[[file]]\npattern = "*.h5"\n')
    with netCDF4.Dataset(run.folder / "hist.nc") as file:
        assert file.data_model == "NETCDF3_64BIT_DATA"
    knarr("verify", plain, run.folder / "hist.nc")


def test_a_directory_of_that_name_is_the_library_s_error(run, blocks):
    (run.folder / "hist.nc" / "below").mkdir(parents=True)
    ran = written(run, blocks, "hist.nc", STEPS, ROWS, ok=False)
    assert ran.code != 0 and "ncmpi_create" in ran.err and (run.folder / "hist.nc" / "below").is_dir()


def test_nothing_to_recover_is_said(knarr, tmp_path):
    assert "nothing in it was handed over" in knarr.fails(2, "run", "--recover", tmp_path)
    # A job script may begin with it.
    ran = knarr("run", "--recover")
    assert "nothing in /dev/shm was handed over and not delivered" in ran.stderr, ran.stderr


def test_a_small_file_does_not_grow(run, knarr, blocks, tmp_path):
    """What HDF5 needs besides takes more than the values: it is as PnetCDF writes it, unless the rule says more."""
    (tmp_path / "plain").mkdir()
    subprocess.run([*MPIRUN, "2", blocks, "plain.nc", "1", "4"], cwd=tmp_path / "plain", check=True)
    plain, hist = tmp_path / "plain" / "plain.nc", run.folder / "hist.nc"
    ran = run(*MPIRUN, 2, blocks, "hist.nc", 1, 4, config=RULE)
    told = ran.file("hist.nc")
    assert hist.stat().st_size == told["output_bytes"] <= plain.stat().st_size
    # PnetCDF leaves a little room between header and values.
    assert abs(told["input_bytes"] - plain.stat().st_size) < 512
    assert "as the program's library writes it" in ran.err
    knarr("verify", plain, hist)
    assert sorted(path.name for path in run.folder.iterdir()) == ["field.npy", "hist.nc"]
    ran = run(*MPIRUN, 2, blocks, "hist.nc", 1, 4, config=f'{RULE}output = "netcdf4"\n')
    with netCDF4.Dataset(hist) as file:
        assert file.data_model == "NETCDF4"


def test_the_size_before_is_that_of_the_plain_file(run, blocks, plain):
    ran = written(run, blocks, "hist.nc", STEPS, ROWS)
    assert abs(ran.file("hist.nc")["input_bytes"] - plain.stat().st_size) < 512
