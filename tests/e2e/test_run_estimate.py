"""Route `estimate`: files stay byte for byte what their program writes, and the run says what `compress` would do."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

from running import H5PY, MPIRUN, c_program, is_packed, script

ESTIMATE = '[[file]]\npattern = "*"\nroute = "estimate"\n'
COMPRESS = '[[file]]\npattern = "*"\nwhen = "close"\n'

# Two files whose bytes do not depend on the time, with values that compress in different ways.
TWO_FILES = """
    with h5py.File("a.h5", "w", libver="earliest") as file:
        file.create_dataset("T", data=FIELD, track_times=False)
        file.create_dataset("steps/U", data=np.round(FIELD * 4), chunks=(2, 64, 256), track_times=False)
        file.create_dataset("mask", data=FIELD > FIELD.mean(), track_times=False)
        file.create_dataset("count", data=np.int64(3), track_times=False)
    with netCDF4.Dataset("b.nc", "w") as dataset:
        for name, length in zip("zyx", FIELD.shape):
            dataset.createDimension(name, length)
        dataset.createVariable("T", "f4", ("z", "y", "x"))[:] = FIELD
        dataset.createVariable("q", "f8", ("y", "x"), zlib=True)[:] = np.cumsum(FIELD[0], axis=1)
        dataset.createVariable("x", "f8", ("x",))[:] = np.arange(FIELD.shape[2])
"""


def plain(run, program: str) -> Path:
    """The folder in which the program has written its files without Knarr."""
    folder = run.top / "plain"
    folder.mkdir()
    (folder / "field.npy").symlink_to(run.folder / "field.npy")
    subprocess.run(script(program), cwd=folder, check=True, env=run.environment)
    return folder


def chains(file: dict) -> dict[str, str | None]:
    return {variable["name"]: variable["chain"] for variable in file["variables"]}


WISHES = {
    "nothing": "",
    "goal": 'goal = "ratio"\n',
    "bound": 'variables.T.max_abs_error = 0.01\nvariables."*".quality = "lossless"\n',
    "chain": 'variables.T.chain = "shuffle | deflate:9"\nvariables.T.chunks = "1x128x256"\n',
    "readers": 'portable = "standard"\nlow = "v110"\n',
    "table": '[file.compress]\ngoal = "archive"\nvariables.T.significant_digits = 3\n',
}


@pytest.mark.parametrize("wishes", WISHES.values(), ids=WISHES)
def test_nothing_is_written_and_compress_does_what_was_estimated(run, wishes):
    untouched = plain(run, TWO_FILES)
    before = {path.name for path in run.top.rglob("*")} | {"knarr.toml", "result.json", "a.h5", "b.nc"}
    estimated = run(*script(TWO_FILES), config=ESTIMATE + wishes)
    assert {path.name for path in run.top.rglob("*")} == before, "something else was written"
    for name in ("a.h5", "b.nc"):
        path, file = run.folder / name, estimated.file(name)
        assert path.read_bytes() == (untouched / name).read_bytes()
        assert file["outcome"] == "estimated"
        assert file["input_bytes"] == file["output_bytes"] == path.stat().st_size
    assert "failed" in estimated.result and estimated.result["failed"] == []

    packed = run(*script(TWO_FILES), config=COMPRESS + wishes)
    for name in ("a.h5", "b.nc"):
        expected, file = estimated.file(name), packed.file(name)
        assert file["outcome"] == "packed"
        assert chains(expected) == chains(file)
        assert expected["expected_bytes"] == pytest.approx(file["output_bytes"], rel=0.15)
        for said, became in zip(expected["variables"], file["variables"], strict=True):
            assert (said["name"], said["raw_bytes"]) == (became["name"], became["raw_bytes"])
            if said["chain"] is not None:
                # Chunks that were tried stand for all.
                assert said["expected_bytes"] == pytest.approx(became["measured"]["encoded_bytes"], rel=0.15)
                assert said["expected_ratio"] == pytest.approx(said["raw_bytes"] / said["expected_bytes"], rel=0.01)
        assert 0 < expected["expected_seconds"] < 10


def test_the_table_tells_each_variable_and_the_sum(run):
    ran = run(*script(TWO_FILES), config=ESTIMATE)
    for file in ran.result["files"]:
        for name, chain in chains(file).items():
            if chain is not None:
                rows = [line for line in ran.err.splitlines() if line.split()[:1] == [name]]
                assert any(chain in row for row in rows), ran.err
    all_files = ran.result["estimated"]
    assert all_files["files"] == 2
    assert all_files["input_bytes"] == sum(file["input_bytes"] for file in ran.result["files"])
    assert all_files["expected_bytes"] == sum(file["expected_bytes"] for file in ran.result["files"])
    assert "2 files: " in ran.err and "saved" in ran.err and "nothing was written" in ran.err
    # The totals are those of what is there.
    totals = ran.result["totals"]
    assert totals["input_bytes"] == totals["output_bytes"] == all_files["input_bytes"]
    assert run(*script(TWO_FILES), config=ESTIMATE, options=("--quiet",)).err == ""


def test_limits_that_no_chain_meets_are_told(run):
    ran = run(*script(H5PY), config=ESTIMATE + 'goal = "archive,ratio>=1000000"\n')
    assert ran.err.count("no chain meets ratio>=1000000 for 'T': the nearest was taken") == 1


def test_steps_of_a_run_are_one_row_for_each_variable(run):
    ran = run(
        *script("""
        for step in range(5):
            with h5py.File(f"a{step}.h5", "w") as file:
                file["T"] = FIELD + step
        """),
        config=ESTIMATE,
    )
    assert len(ran.result["files"]) == 5
    rows = [line.split() for line in ran.err.splitlines() if line.split()[:1] == ["T"]]
    assert 1 <= len(rows) < 5, ran.err
    assert "estimate of 5 files" in ran.err


def test_a_file_that_would_not_get_smaller_is_said_to_stay(run):
    text = """
    with h5py.File("a.h5", "w") as file:
        file["n"] = np.frombuffer(np.random.default_rng(1).bytes(1 << 20), "u1")
    """
    file = run(*script(text), config=ESTIMATE).file("a.h5")
    assert file["expected_bytes"] == file["input_bytes"] and "smaller" in file["reason"]
    file = run(*script(text), config=COMPRESS).file("a.h5")
    assert (file["outcome"], "smaller" in file["reason"]) == ("left", True)


def test_files_that_are_written_again_or_renamed_or_removed(run):
    ran = run(
        *script("""
        with h5py.File("again.h5", "w") as file:
            file["T"] = FIELD
        with h5py.File("again.h5", "a") as file:
            file["U"] = FIELD
        with h5py.File("old.h5", "w") as file:
            file["T"] = FIELD
        os.rename("old.h5", "new.h5")
        with h5py.File("gone.h5", "w") as file:
            file["T"] = FIELD
        os.remove("gone.h5")
        """),
        config=ESTIMATE,
    )
    assert set(chains(ran.file("again.h5"))) == {"T", "U"}
    outcomes = {Path(file["output"]).name: file["outcome"] for file in ran.result["files"]}
    assert outcomes.pop("again.h5") == "estimated" and outcomes.pop("gone.h5") in ("left", "estimated")
    assert set(outcomes) <= {"old.h5", "new.h5"}
    assert sorted(path.name for path in run.folder.iterdir()) == ["again.h5", "field.npy", "new.h5"]


def test_a_file_of_a_killed_process_is_not_estimated(run):
    text = 'file = h5py.File("a.h5", "w")\nfile["T"] = FIELD\nfile.flush()\nos.kill(os.getpid(), 9)\n'
    ran = run(*script(text), config=ESTIMATE, ok=False)
    assert ran.file("a.h5")["outcome"] == "left"
    assert "while the file was open" in ran.file("a.h5")["reason"]


def test_rules_of_other_routes_beside_it(run):
    text = "".join(f'with h5py.File("{name}.h5", "w") as file:\n    file["T"] = FIELD\n' for name in "abc")
    config = '[[file]]\npattern = "a*"\nroute = "file"\n[[file]]\npattern = "b*"\n' + ESTIMATE
    ran = run(*script(text), config=config)
    assert {Path(file["output"]).name: file["outcome"] for file in ran.result["files"]} == {
        "b.h5": "packed",
        "c.h5": "estimated",
    }
    assert [is_packed(run.folder / f"{name}.h5") for name in "abc"] == [False, True, False]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ('when = "close"', "when"),
        ('wait = "close"', "wait"),
        ('output = "netcdf4"', "output"),
        ('output = "zarr"', "output"),
        ('high = "v110"', "high"),
        ("group_size = 3", "group_size"),
        ("keep = true", "keep"),
        ('[file.compress]\nwhen = "close"', "when"),
        ("[file.checkpoint]\ngroup_size = 3", "file.checkpoint"),
        ('[file.transfer]\nfrom = "a"', "file.transfer"),
        ("[file.estimate]\n", "estimate"),
        ('goal = "fastest"', "fastest"),
    ],
)
def test_keys_without_effect_are_refused_before_the_program_starts(run, key, name):
    ran = run(*script(H5PY), config=f"{ESTIMATE}{key}\n", ok=False)
    assert ran.code == 125
    assert name in ran.err and "was not started" in ran.err
    assert not (run.folder / "a.h5").exists()


def test_repack_does_not_touch_what_is_to_stay(knarr, run, tmp_path):
    run(*script(H5PY), config=ESTIMATE)
    knarr.fails(
        2, "repack", run.folder / "a.h5", "-o", tmp_path / "o.h5", "-c", run.top / "knarr.toml", names=["estimate"]
    )


def test_classic_files_of_pnetcdf_are_named(run):
    if not Path("/usr/include/pnetcdf.h").exists() or shutil.which("mpicc.openmpi") is None:
        pytest.skip(
            "needs PnetCDF and Open MPI: run 'make setup' as root, or install libpnetcdf-dev and libopenmpi-dev"
        )
    source = Path(__file__).with_name("pnetcdf_programs") / "again.c"
    subprocess.run(["mpicc.openmpi", "-O1", "-w", source, "-o", run.top / "again", "-lpnetcdf"], check=True)
    command = [*MPIRUN, "2", str(run.top / "again"), "a.nc"]
    file = run(*command, config=ESTIMATE).file("a.nc")
    assert file["outcome"] == "left" and "knarr advise" in file["reason"]
    under_knarr = (run.folder / "a.nc").read_bytes()
    subprocess.run(command, cwd=run.folder, check=True, env=run.environment)
    assert (run.folder / "a.nc").read_bytes() == under_knarr


PARALLEL = """
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    hid_t file = H5Fcreate("a.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access);
    hsize_t all = 40000 * ranks, count = 40000, start = count * rank;
    hid_t space = H5Screate_simple(1, &all, NULL), part = H5Screate_simple(1, &count, NULL);
    hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(list, 0);
    hid_t set = H5Dcreate(file, "T", H5T_NATIVE_INT, space, H5P_DEFAULT, list, H5P_DEFAULT);
    static int values[40000];
    for (int i = 0; i < 40000; i++) values[i] = (int)(start + i) / 7;
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
    H5Dwrite(set, H5T_NATIVE_INT, part, space, H5P_DEFAULT, values);
    H5Dclose(set); H5Sclose(part); H5Sclose(space); H5Pclose(list); H5Pclose(access);
    H5Fclose(file);
    MPI_Finalize();
    return 0;
}
"""


def test_parallel_hdf5_writes_its_own_file(run):
    program = c_program(run.top, PARALLEL, parallel=True)
    command = [*MPIRUN, "2", program]
    ran = run(*command, config=ESTIMATE)
    file = ran.file("a.h5")
    assert file["outcome"] == "estimated", ran.err
    assert list(chains(file)) == ["T"] and file["expected_bytes"] < file["input_bytes"] / 2
    under_knarr = (run.folder / "a.h5").read_bytes()
    subprocess.run(list(map(str, command)), cwd=run.folder, check=True, env=run.environment)
    assert (run.folder / "a.h5").read_bytes() == under_knarr
    with h5py.File(run.folder / "a.h5") as written:
        assert np.array_equal(written["T"][:], np.arange(80000) // 7)


@pytest.mark.parametrize(("nodes", "outcomes"), [("aa", ["estimated"]), ("ab", ["estimated", "gathered"])])
def test_ranks_on_several_nodes_are_waited_for(job, nodes, outcomes):
    """The launcher of the first rank's node tells of the file when all ranks have closed it."""
    program = c_program(job.top, PARALLEL, parallel=True)
    ran = job(program, nodes=nodes, config=ESTIMATE)
    assert ran.outcomes("a.h5") == outcomes, ran.err
    (told,) = [file for result in ran.results for file in result["files"] if file["outcome"] == "estimated"]
    assert list(chains(told)) == ["T"] and told["expected_bytes"] < told["input_bytes"] / 2
    command = [*MPIRUN, "2", str(program)]
    under_knarr = (job.folder / "a.h5").read_bytes()
    subprocess.run(command, cwd=job.folder, check=True)
    assert (job.folder / "a.h5").read_bytes() == under_knarr
