"""Checkpoint sets of files that other programs wrote: restored byte for byte, whole and part by part."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import sys

import h5py
import netCDF4
import numpy as np
import pytest

from conftest import sets_in

RANKS = 6


def field(rank, shape, dtype, seed=0):
    """A smooth field, other for each rank, with a little noise."""
    grid = np.indices(shape).sum(axis=0) / 7.0 + rank
    noise = np.random.default_rng(seed + rank).normal(0, 1e-3, shape)
    return (280 + 10 * np.sin(grid) + noise).astype(dtype)


def hdf5(path, rank):
    with h5py.File(path, "w") as file:
        file["rho"] = field(rank, (20, 30, 40), "f8")
        file.create_dataset("chunked", data=field(rank, (50, 70), ">f4"), chunks=(16, 16))
        file.create_dataset(
            "packed", data=field(rank, (64, 64), "f4"), chunks=(16, 64), compression="gzip", shuffle=True
        )
        file["time"] = 12.5
        file["ids"] = np.arange(1000 * rank, 1000 * rank + 5000)
        for grid in range(12):
            file[f"Grid{grid * 7 + rank:08d}/Density"] = field(rank, (6, 6), "f4", grid)
        file["names"] = np.array([b"a", b"bc"])
        file.create_dataset("rows", (10, 8), maxshape=(None, 8), chunks=(4, 8), dtype="i2")[0:2] = rank
        file["rho"].attrs["units"] = "kg m-3"


def netcdf4(path, rank):
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 50)
        file.createDimension("y", 40)
        file.createDimension("time", None)
        file.createVariable("T", "f8", ("x", "y"))[:] = field(rank, (50, 40), "f8")
        file.createVariable("u", "f4", ("time", "x"), zlib=True)[0:3] = field(rank, (3, 50), "f4")


def classic(path, rank):
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("time", None)
        file.createDimension("x", 500)
        file.createVariable("T", "f8", ("x",))[:] = field(rank, (500,), "f8")
        records = file.createVariable("u", "f4", ("time", "x"))
        other = file.createVariable("step", "i4", ("time",))
        for step in range(4):
            records[step] = field(rank, (500,), "f4", step)
            other[step] = step


def opaque(path, rank):
    record = np.zeros(4000, dtype=[("id", "i4"), ("x", "f8", 3), ("kind", "i2"), ("v", "f4", 3)])
    record["id"] = np.arange(4000)
    record["x"] = field(rank, (4000, 3), "f8")
    path.write_bytes(b"my own format" + record.tobytes())


WRITERS = {"hdf5": hdf5, "netcdf4": netcdf4, "classic": classic, "opaque": opaque}


@pytest.fixture(scope="module", params=WRITERS)
def files(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param)
    for rank in range(RANKS):
        WRITERS[request.param](directory / f"restart_{rank}.x", rank)
    return directory


def comes_back(knarr, packed, source, out):
    knarr("checkpoint", "restore", packed, "-d", out)
    assert hashes(out) == hashes(source)


def hashes(directory):
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_names_as_long_as_files_may_have(knarr, tmp_path):
    directory = tmp_path / "in"
    directory.mkdir()
    for name in ("n" * 255, "m" * 240, "short"):
        (directory / name).write_bytes(name.encode() * 50)
    knarr("checkpoint", "pack", directory, "-o", tmp_path / "set")
    comes_back(knarr, tmp_path / "set", directory, tmp_path / "out")


def test_nothing_is_restored_if_a_file_is_in_the_way(knarr, files, tmp_path):
    knarr("checkpoint", "pack", files, "-o", tmp_path / "set", "--group-size", "2")
    out = tmp_path / "out"
    out.mkdir()
    (out / f"restart_{RANKS - 1}.x").write_bytes(b"mine")
    done = knarr("checkpoint", "restore", tmp_path / "set", "-d", out, ok=False)
    assert done.returncode == 4
    assert [path.name for path in out.iterdir()] == [f"restart_{RANKS - 1}.x"]


def test_a_pipe_is_no_file_of_a_rank(knarr, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = knarr("checkpoint", "pack", tmp_path / "pipe", "-o", tmp_path / "set", ok=False)
    assert done.returncode == 5
    assert f"{tmp_path / 'pipe'}: not a regular file" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_sets_below_a_directory_are_not_files_of_ranks(knarr, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    hdf5(work / "restart_0.h5", 0)
    for number in range(3):
        packed = knarr.json("checkpoint", "pack", work, "-o", work / "sets" / str(number))
        assert packed["ranks"] == 1


def test_shared_frames_are_read_once(knarr, tmp_path):
    directory = tmp_path / "in"
    directory.mkdir()
    for rank in range(32):
        with h5py.File(directory / f"r{rank}.h5", "w") as file:
            for name in "ab":
                file[name] = field(rank, (40, 40), "f8")
    knarr("checkpoint", "pack", directory, "-o", tmp_path / "set")
    stored = sum(path.stat().st_size for path in (tmp_path / "set").iterdir())
    read = knarr.json("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out", "--variables", "a")
    assert len(read["files"]) == 32
    assert read["read_bytes"] <= stored
    for rank in range(32):
        got = np.load(tmp_path / "out" / f"r{rank}.h5" / "a.npy")
        assert got.tobytes() == field(rank, (40, 40), "f8").tobytes()


def test_variables_whose_names_collide_as_files(knarr, tmp_path):
    with h5py.File(tmp_path / "r.h5", "w") as file:
        file["x"] = field(1, (30, 30), "f4")
        file["x.npy/y"] = field(2, (30, 30), "f4")
        file["v" * 252] = field(3, (30, 30), "f4")
        file["z"] = field(4, (30, 30), "f4")
    knarr("checkpoint", "pack", tmp_path / "r.h5", "-o", tmp_path / "set")
    done = knarr("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out", "--variables", "*", ok=False)
    assert done.returncode == 5
    assert "its name is too long for a file; hint: restore the whole file" in done.stderr
    for rank, name in ((1, "x"), (2, "x%2Enpy/y"), (4, "z")):
        assert np.load(tmp_path / "out" / "r.h5" / f"{name}.npy").tobytes() == field(rank, (30, 30), "f4").tobytes()


def test_a_netcdf_variable_and_the_dimension_of_its_name(knarr, tmp_path):
    path = tmp_path / "r.h5"
    with h5py.File(path, "w") as file:
        file["x"] = field(1, (50, 50), "f8")
        file["_nc4_non_coord_x"] = field(2, (50, 50), "f8")
    knarr("checkpoint", "pack", path, "-o", tmp_path / "set")
    [rank] = knarr.json("checkpoint", "info", tmp_path / "set")["ranks"]
    assert {variable["path"] for variable in rank["variables"]} == {"/x", "/_nc4_non_coord_x"}


@pytest.mark.parametrize("scheme", ["agnostic", "agnostic-block", "aware", "aware-block", "separate", "auto"])
def test_every_file_comes_back(knarr, files, tmp_path, scheme):
    packed = knarr.json("checkpoint", "pack", files, "-o", tmp_path / "set", "--scheme", scheme, "--group-size", "4")
    assert packed["ranks"] == RANKS and packed["files"] == 2 and not packed["carried_whole"]
    assert packed["packed_bytes"] < packed["raw_bytes"]
    restored = knarr.json("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out")
    assert not restored["damage"]
    assert hashes(tmp_path / "out") == hashes(files)
    verified = knarr.json("checkpoint", "verify", tmp_path / "set")
    assert verified["damage"] == []


def test_bytes_do_not_depend_on_threads(knarr, files, tmp_path):
    for jobs in ("1", "2", "5"):
        knarr("checkpoint", "pack", files, "-o", tmp_path / jobs, "--jobs", jobs, "--no-base")
    assert hashes(tmp_path / "1") == hashes(tmp_path / "2") == hashes(tmp_path / "5")


def test_some_ranks(knarr, files, tmp_path):
    knarr("checkpoint", "pack", files, "-o", tmp_path / "set", "--group-size", "2")
    knarr("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out", "--ranks", "1-2,5")
    wanted = {name: value for name, value in hashes(files).items() if name in {f"restart_{n}.x" for n in (1, 2, 5)}}
    assert hashes(tmp_path / "out") == wanted
    assert "0 to 5" in knarr.fails(2, "checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out", "--ranks", "6")


def test_variables_become_numpy_files(knarr, tmp_path, source):
    for rank in range(RANKS):
        hdf5(source / f"r{rank}.h5", rank)
    knarr("checkpoint", "pack", source, "-o", tmp_path / "set")
    done = knarr.json(
        "checkpoint",
        "restore",
        tmp_path / "set",
        "-d",
        tmp_path / "out",
        "--ranks",
        "3",
        "--variables",
        "rho",
        "--variables",
        "chunked",
        "--variables",
        "packed",
        "--variables",
        "Grid*/Density",
    )
    assert len(done["files"]) == 15 and not done["damage"]
    with h5py.File(source / "r3.h5") as file:
        for found in done["files"]:
            values = np.load(found["path"])
            wanted = file[found["variable"]]
            assert values.dtype == wanted.dtype and values.shape == wanted.shape
            assert values.tobytes() == wanted[()].tobytes()
    error = knarr.fails(2, "checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out", "--variables", "rhoo")
    assert "rho" in error
    # Chunks that were never written have no values of their own in the file.
    error = knarr.fails(5, "checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out", "--variables", "rows")
    assert "rows" in error and "restore the whole file" in error


def test_records_become_numpy_files(knarr, tmp_path, source):
    classic(source / "r0.nc", 0)
    knarr("checkpoint", "pack", source / "r0.nc", "-o", tmp_path / "set")
    knarr("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out", "--variables", "*")
    with netCDF4.Dataset(source / "r0.nc") as file:
        for name in ("T", "u", "step"):
            values = np.load(tmp_path / "out" / "r0.nc" / f"{name}.npy")
            assert values.dtype.byteorder == ">"
            assert np.array_equal(values, np.asarray(file[name][:]))


def test_a_large_variable_is_read_without_the_others(knarr, tmp_path, source):
    for rank in range(8):
        with h5py.File(source / f"r{rank}.h5", "w") as file:
            for name in ("a", "b", "c", "d"):
                noise = np.random.default_rng(rank * 7 + ord(name)).normal(0, 1, (64, 64, 64))
                file[name] = noise.astype("f4")
    knarr("checkpoint", "pack", source, "-o", tmp_path / "set")
    one = knarr.json(
        "checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "o", "--ranks", "5", "--variables", "c"
    )
    explained = knarr.json("checkpoint", "explain", tmp_path / "set", "--variable", "c")
    mine = sum(decision["packed_bytes"] for decision in explained["decisions"]) / 8
    assert one["read_bytes"] <= 2 * mine


def test_a_small_variable_of_any_type_is_read_without_the_others_if_all_are_separate(knarr, tmp_path, source):
    kept = {"real": {}, "mask": {}, "record": {}, "filtered": {"compression": "lzf", "chunks": (3000,)}}
    types = {"real": "f8", "mask": "u1", "record": [("a", "u1"), ("b", "f4")], "filtered": "f4"}
    for rank in range(8):
        with h5py.File(source / f"r{rank}.h5", "w") as file:
            for number, (name, options) in enumerate(kept.items()):
                # Of random bits, so that what is read can be compared with what it holds.
                dtype = np.dtype(types[name])
                bits = np.random.default_rng(rank * 7 + number).bytes(3000 * dtype.itemsize)
                file.create_dataset(name, data=np.frombuffer(bits, dtype), **options)
    knarr("checkpoint", "pack", source, "-o", tmp_path / "set", "--scheme", "separate")
    for name in kept:
        command = ("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / name, "--ranks", "5")
        one = knarr.json(*command, "--variables", name)
        raw = 3000 * np.dtype(types[name]).itemsize
        assert raw <= one["read_bytes"] <= 1.1 * raw, name
        with h5py.File(source / "r5.h5") as file:
            assert np.load(tmp_path / name / "r5.h5" / f"{name}.npy").tobytes() == file[name][()].tobytes()
    comes_back(knarr, tmp_path / "set", source, tmp_path / "all")


def test_the_chain_of_separate_variables_suits_most_of_them_not_the_one_in_the_middle(knarr, tmp_path, source):
    steps = np.random.default_rng(1).integers(-3, 4, (41, 500))
    with h5py.File(source / "r0.h5", "w") as file:
        for grid, walk in enumerate(np.cumsum(steps, axis=1)):
            noise = np.random.default_rng(grid).random(500)
            file[f"Grid{grid:08d}/Density"] = noise if grid == 20 else walk * 0.25
    packed = knarr.json("checkpoint", "pack", source, "-o", tmp_path / "set", "--scheme", "separate")
    # Three bits would do for a step.
    assert packed["packed_bytes"] < 41 * 500 * 8 / 8, packed


def test_equal_content_is_stored_once_and_the_earlier_set_may_go(knarr, tmp_path, source):
    for rank in range(RANKS):
        hdf5(source / f"r{rank}.h5", rank)
    one = knarr.json("checkpoint", "pack", source, "-o", tmp_path / "one")
    with h5py.File(source / "r2.h5", "r+") as file:
        file["rho"][0, 0, 0] = 1.0
    two = knarr.json("checkpoint", "pack", source, "-o", tmp_path / "two")
    assert two["base"] == str(tmp_path / "one")
    assert two["packed_bytes"] < one["packed_bytes"] / 2
    shutil.rmtree(tmp_path / "one")
    comes_back(knarr, tmp_path / "two", source, tmp_path / "out")


def test_names_of_all_kinds(knarr, tmp_path):
    source = tmp_path / "in"
    (source / "sub dir" / "a...").mkdir(parents=True)
    names = ["a b", "ü", "new\nline", "sub dir/a.../-x", "%41", "'\"$(x)", "r10", "r9"]
    for number, name in enumerate(names):
        (source / name).write_bytes(b"content" * number)
    (source / os.fsdecode(b"not\xffutf8")).write_bytes(b"x")
    knarr("checkpoint", "pack", source, "-o", tmp_path / "set")
    knarr("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out")
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()} == {
        p.name: p.read_bytes() for p in source.rglob("*") if p.is_file()
    }
    ranks = [rank["name"] for rank in knarr.json("checkpoint", "info", tmp_path / "set")["ranks"]]
    assert ranks.index("r9") < ranks.index("r10")


def test_ranks_from_names(knarr, tmp_path, source):
    for step in (1, 2):
        for rank in range(3):
            (source / f"{rank}.of.{step}").write_bytes(bytes([rank]))
    (source / "log").write_bytes(b"x")
    pack = ("checkpoint", "pack", source, "-o", tmp_path / "set")
    assert "different steps" in knarr.fails(2, *pack, "--pattern", "{rank}.of.{step}")
    knarr(*pack, "--pattern", "{rank}.of.2")
    ranks = [rank["name"] for rank in knarr.json("checkpoint", "info", tmp_path / "set")["ranks"]]
    assert ranks == ["0.of.2", "1.of.2", "2.of.2"]


def test_damage_is_named_and_the_rest_comes_back(knarr, tmp_path, source):
    for rank in range(RANKS):
        hdf5(source / f"r{rank}.h5", rank)
    knarr("checkpoint", "pack", source, "-o", tmp_path / "set", "--group-size", "3")
    store = sorted((tmp_path / "set").glob("group-00001-*"))[0]
    damaged = bytearray(store.read_bytes())
    damaged[len(damaged) // 2] ^= 0x10
    store.write_bytes(damaged)
    error = knarr.fails(3, "checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out")
    assert "rank 3 (r3.h5)" in error and "variables /" in error and str(store) in error
    found = hashes(tmp_path / "out")
    wanted = hashes(source)
    assert {"r0.h5", "r1.h5", "r2.h5"} <= set(found)
    assert all(wanted[name] == value for name, value in found.items())
    assert knarr.fails(3, "checkpoint", "verify", tmp_path / "set") == error


def test_nobody_may_read_a_set_who_may_not_read_the_files(knarr, files, tmp_path):
    source = tmp_path / "in"
    shutil.copytree(files, source)

    def modes(directory):
        return {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()}

    changes = (("open", {}, 0o755), ("group", {"restart_1.x": 0o640}, 0o750), ("own", {"restart_2.x": 0o600}, 0o700))
    for name, changed, mode in changes:
        for file, of_file in changed.items():
            (source / file).chmod(of_file)
        knarr("checkpoint", "pack", source, "-o", tmp_path / name)
        assert (tmp_path / name).stat().st_mode & 0o777 == mode
        knarr("checkpoint", "restore", tmp_path / name, "-d", tmp_path / f"out-{name}")
        assert modes(tmp_path / f"out-{name}") == modes(source)
        # Variables alone are no more open than the set.
        variables = ("checkpoint", "restore", tmp_path / name, "-d", tmp_path / f"var-{name}", "--variables", "*")
        if knarr(*variables, ok=False).returncode == 0:
            found = {path.stat().st_mode & 0o777 for path in (tmp_path / f"var-{name}").rglob("*.npy")}
            assert found == {mode & 0o666}


def test_damaged_files_are_carried_as_bytes_and_named(knarr, tmp_path, source):
    hdf5(source / "r0.h5", 0)
    netcdf4(source / "r1.nc", 1)
    os.truncate(source / "r0.h5", 3000)
    shown = knarr("checkpoint", "pack", source, "-o", tmp_path / "set").stdout
    assert "r0.h5 is carried as bytes: " in shown and "truncated" in shown and "r1.nc is" not in shown
    comes_back(knarr, tmp_path / "set", source, tmp_path / "out")


def test_a_damaged_manifest_has_a_copy(knarr, files, tmp_path):
    knarr("checkpoint", "pack", files, "-o", tmp_path / "set")
    manifest = tmp_path / "set" / "manifest.knarr"
    whole = manifest.read_bytes()
    for damaged in (whole[:-9], whole[:40] + b"x" + whole[41:], None):
        manifest.unlink() if damaged is None else manifest.write_bytes(damaged)
        done = knarr("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out", "--force")
        assert str(manifest) in done.stderr and "its copy serves" in done.stderr
        assert hashes(tmp_path / "out") == hashes(files)
        assert "its copy serves" in knarr.fails(3, "checkpoint", "verify", tmp_path / "set")
    manifest.write_bytes(whole)
    copy = tmp_path / "set" / "manifest-copy.knarr"
    for damaged in (whole[:-9], whole[:40] + b"x" + whole[41:], None):
        copy.unlink() if damaged is None else copy.write_bytes(damaged)
        assert str(copy) in knarr.fails(3, "checkpoint", "verify", tmp_path / "set")


@pytest.mark.parametrize("wanted", [[], ["--variables", "*"]], ids=["files", "variables"])
def test_a_restore_that_brings_nothing_back_leaves_no_directory(knarr, tmp_path, wanted):
    hdf5(tmp_path / "r0.h5", 0)
    knarr("checkpoint", "pack", tmp_path / "r0.h5", "-o", tmp_path / "set")
    for store in (tmp_path / "set").glob("group-*"):
        store.write_bytes(store.read_bytes()[:30])
    knarr.fails(3, "checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out/of", *wanted)
    assert not (tmp_path / "out").exists()
    (tmp_path / "mine").mkdir()
    knarr.fails(3, "checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "mine", *wanted)
    assert list((tmp_path / "mine").iterdir()) == []


def test_sets_may_have_more_files_than_a_process(knarr, tmp_path, source):
    for rank in range(150):
        (source / f"r{rank}").write_text(f"rank {rank}")

    def few(*arguments):
        command = [knarr.program, "checkpoint", *arguments]
        done = subprocess.run(
            ["bash", "-c", 'ulimit -n 100; exec "$@"', "_", *map(str, command)], capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, ""), done.args

    for step in range(3):
        (source / "r0").write_text(f"step {step}")
        few("pack", source, "-o", tmp_path / "sets" / f"step_{step}", "--group-size", "1")
    few("verify", tmp_path / "sets" / "step_2")
    few("restore", tmp_path / "sets" / "step_2", "-d", tmp_path / "out")
    assert hashes(tmp_path / "out") == hashes(source)
    few("prune", tmp_path / "sets", "--keep", "1")
    assert sets_in(tmp_path / "sets") == ["step_2"]


def test_newer_sets_and_no_sets_are_refused(knarr, tmp_path):
    (tmp_path / "in").write_bytes(b"x" * 1000)
    knarr("checkpoint", "pack", tmp_path / "in", "-o", tmp_path / "set")
    manifest = tmp_path / "set" / "manifest.knarr"
    newer = bytearray(manifest.read_bytes())
    newer[7] = 4
    manifest.write_bytes(newer)
    assert "version 4" in knarr.fails(5, "checkpoint", "info", tmp_path / "set")
    assert "not a checkpoint set" in knarr.fails(3, "checkpoint", "info", tmp_path)
    assert "version 4" in knarr("checkpoint", "list", tmp_path).stdout


def test_a_full_disk_leaves_the_last_set_intact(knarr, tmp_path, source):
    """The limit on file sizes stands for a full disk: a write fails in the middle."""
    for rank in range(4):
        (source / f"r{rank}").write_bytes(random.Random(rank).randbytes(400_000))
    knarr("checkpoint", "pack", source, "-o", tmp_path / "set")
    before = hashes(tmp_path / "set")
    (source / "r0").write_bytes(random.Random(9).randbytes(400_000))
    command = [knarr.program, "checkpoint", "pack", source, "-o", tmp_path / "set", "--force", "--no-base"]
    done = subprocess.run(
        ["bash", "-c", 'trap "" XFSZ; ulimit -f 800; exec "$@"', "_", *map(str, command)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 4, done.stderr
    assert str(tmp_path / "set") in done.stderr
    assert hashes(tmp_path / "set") == before
    assert sets_in(tmp_path) == ["in", "set"]


def test_the_configuration_says_how(knarr, tmp_path, source):
    for rank in range(4):
        hdf5(source / f"restart_{rank}.h5", rank)
    config = tmp_path / "knarr.toml"
    rule = '[[file]]\npattern = "restart_*"\nroute = "checkpoint"\ngroup_size = 2\nscheme = "aware"\n'
    config.write_text(rule + 'similar = ["Grid[0-9]+/(.*)"]\n')
    knarr("checkpoint", "pack", source, "-o", tmp_path / "set", "-c", config)
    info = knarr.json("checkpoint", "info", tmp_path / "set")
    assert (info["scheme"], info["group_size"]) == ("aware", 2)
    assert [rank["group"] for rank in info["ranks"]] == [0, 0, 1, 1]
    config.write_text('[[file]]\npattern = "restart_*"\n')
    pack = ("checkpoint", "pack", source, "-o", tmp_path / "other", "-c", config)
    assert "another route" in knarr.fails(2, *pack)
    config.write_text('[[file]]\npattern = "restart_*"\ngroup_size = 2\n')
    assert 'route = "checkpoint"' in knarr.fails(2, *pack)
    config.write_text(rule)
    error = knarr.fails(2, "repack", source / "restart_0.h5", "-o", tmp_path / "x.h5", "-c", config)
    assert "knarr checkpoint pack" in error
    assert sets_in(tmp_path) == ["in", "knarr.toml", "set"]


def test_memory_does_not_grow_with_the_group(knarr, tmp_path, source):
    """A group of ten times the memory that is allowed, which bounds the program and its libraries, too."""
    allowed = 96 << 20
    for rank in range(16):
        with h5py.File(source / f"r{rank}.h5", "w") as file:
            for name in "abcd":
                values = np.random.default_rng(rank).integers(0, 1 << 20, (15 << 20) // 8 + rank)
                file[name] = np.cumsum(values) * (1 + ord(name))
            # What comes back far away in another rank is looked for in long frames.
            for name, width in (("even", 1000), ("odd", 999), ("flat", 1)):
                twins = np.random.default_rng(rank % 4).standard_normal(((3 << 20) // (8 * width), width))
                file[name] = np.roll(twins, 40 * rank, axis=0)
    assert sum(path.stat().st_size for path in source.iterdir()) > 10 * allowed
    command = ["checkpoint", "pack", source, "-o", tmp_path / "set", "--max-mem", f"{allowed >> 20}M", "--jobs", "2"]
    for goal in (("--goal", "speed"), ("--goal", "balanced"), ()):
        peak = peak_memory(knarr, *command, *goal, "--no-base", "--force")
        assert peak <= allowed, f"{peak >> 20} MiB for {goal}"
    peak = peak_memory(knarr, "checkpoint", "verify", tmp_path / "set", "--max-mem", f"{allowed >> 20}M", "--jobs", "2")
    assert peak <= allowed, f"{peak >> 20} MiB"


def test_repeats_far_apart_are_found(knarr, tmp_path, source):
    """Ranks that hold the rows of others negated and in another order, as fields do whose problem is symmetric."""
    # Of any magnitude: nothing but repeats makes them smaller.
    planes = np.random.default_rng(3).integers(1 << 52, 2046 << 52, (2, 240, 50, 64)).view("f8")
    for rank in range(4):
        mine = planes[rank % 2]
        if rank >= 2:
            # Rows of a plane are near those they mirror in the first half; planes of the second are far from theirs.
            mine = np.concatenate([-mine[:120, ::-1], -mine[:119:-1]])
        with h5py.File(source / f"r{rank}.h5", "w") as file:
            file["field"] = mine.ravel()
    raw = sum(path.stat().st_size for path in source.iterdir())
    sizes = {}
    for memory, jobs in (("1G", "1"), ("1G", "3"), ("96M", "2")):
        target = tmp_path / f"{memory}-{jobs}"
        knarr("checkpoint", "pack", source, "-o", target, "--max-mem", memory, "--jobs", jobs, "--no-base")
        sizes[memory] = sum(path.stat().st_size for path in target.iterdir())
        for limit in ("96M", "1G"):
            knarr("checkpoint", "restore", target, "-d", tmp_path / "out", "--force", "--max-mem", limit)
            assert hashes(tmp_path / "out") == hashes(source)
    assert hashes(tmp_path / "1G-1") == hashes(tmp_path / "1G-3")
    # Half of the numbers are new, and frames of little memory do not hold both copies of all.
    assert sizes["1G"] < 0.55 * raw < 0.6 * raw < sizes["96M"]
    explained = knarr.json("checkpoint", "explain", tmp_path / "1G-1", "--variable", "field")
    assert [decision["order"]["span"] for decision in explained["decisions"]] == [64 << 20]
    # What was decided before is decided anew, on samples, and is the same.
    knarr("checkpoint", "pack", source, "-o", tmp_path / "again", "--base", tmp_path / "1G-1")
    knarr("checkpoint", "restore", tmp_path / "again", "-d", tmp_path / "out", "--force")
    assert hashes(tmp_path / "out") == hashes(source)


def peak_memory(knarr, *arguments):
    """Bytes that the program held at most."""
    measure = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
    measure += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    command = [sys.executable, "-c", measure, knarr.program, *arguments]
    done = subprocess.run([str(word) for word in command], env=knarr.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout) * 1024
