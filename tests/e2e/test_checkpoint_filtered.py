"""Checkpoint sets of files whose chunks went through filters: values where zlib makes the same bytes again."""

from __future__ import annotations

import shutil
import struct
import subprocess
import zlib

import h5py
import netCDF4
import numpy as np
import pytest

import knarr as knarr_package
from test_checkpoint import field, hashes, peak_memory

RANKS = 4


def hdf5(path, rank, **how):
    """Chunks of which those at the edges reach beyond the dataset, beside a dataset that is not filtered."""
    options = {"chunks": (40, 64), "compression": "gzip", "shuffle": True, **how}
    libver = options.pop("libver", "earliest")
    dtype = options.pop("dtype", "f4")
    with h5py.File(path, "w", libver=libver) as file:
        file.create_dataset("g/T", data=field(rank, (100, 200), dtype), **options)
        file["bare"] = field(rank, (50, 50), "f8")
        # An extensible array of chunks in new files.
        rows = file.create_dataset("rows", (0, 300), dtype, maxshape=(None, 300), **{**options, "chunks": (16, 300)})
        for step in range(3):
            rows.resize((20 * (step + 1), 300))
            rows[20 * step :] = field(rank + step, (20, 300), dtype)
    return 3 * 4 + 4


def netcdf4(path, rank, **how):
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        file.createDimension("y", 90)
        file.createDimension("x", 170)
        chunks = {"chunksizes": (1, 60, 100)}
        fields = file.createVariable("T", "f4", ("time", "y", "x"), **{"zlib": True, **chunks, **how})
        file.createVariable("u", "f8", ("y", "x"), **{"zlib": True, **how})[:] = field(rank, (90, 170), "f8")
        for step in range(3):
            fields[step] = field(rank + step, (90, 170), "f4")
    return 3 * 2 * 2 + 1


def tool(name, package):
    """A program that reads and writes such files again."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed (Debian: {package})")


def filtered_chunks(path):
    """What a tool made: chunks of all datasets that went through filters."""
    counts = []
    with h5py.File(path) as file:

        def visit(_, found):
            if isinstance(found, h5py.Dataset) and found.id.get_create_plist().get_nfilters():
                counts.append(found.id.get_num_chunks())

        file.visititems(visit)
    return sum(counts)


def h5repack(path, rank, *options):
    tool("h5repack", "hdf5-tools")
    hdf5(path.with_suffix(".plain"), rank)
    subprocess.run(["h5repack", *options, path.with_suffix(".plain"), path], check=True)
    path.with_suffix(".plain").unlink()
    return filtered_chunks(path)


def nccopy(path, rank):
    tool("nccopy", "netcdf-bin")
    netcdf4(path.with_suffix(".plain"), rank, zlib=False)
    subprocess.run(["nccopy", "-d", "5", "-s", path.with_suffix(".plain"), path], check=True)
    path.with_suffix(".plain").unlink()
    return filtered_chunks(path)


WRITERS = {
    "gzip-1": lambda path, rank: hdf5(path, rank, compression_opts=1),
    "gzip-4": lambda path, rank: hdf5(path, rank, compression_opts=4),
    "gzip-9": lambda path, rank: hdf5(path, rank, compression_opts=9),
    "no shuffle": lambda path, rank: hdf5(path, rank, shuffle=False),
    "shuffle alone": lambda path, rank: hdf5(path, rank, compression=None),
    "fletcher32": lambda path, rank: hdf5(path, rank, fletcher32=True),
    "fletcher32 alone": lambda path, rank: hdf5(path, rank, compression=None, shuffle=False, fletcher32=True),
    "big-endian": lambda path, rank: hdf5(path, rank, dtype=">f8"),
    "integers": lambda path, rank: hdf5(path, rank, dtype=">i2"),
    "new indices": lambda path, rank: hdf5(path, rank, libver="latest"),
    "netCDF-4": netcdf4,
    "netCDF-4, fletcher32": lambda path, rank: netcdf4(path, rank, fletcher32=True),
    **{
        f"netCDF-4, complevel {level}": lambda path, rank, level=level: netcdf4(path, rank, complevel=level)
        for level in range(1, 10)
    },
    "h5repack": lambda path, rank: h5repack(path, rank, "-f", "SHUF", "-f", "GZIP=6"),
    "h5repack, latest": lambda path, rank: h5repack(path, rank, "-L", "-f", "GZIP=3"),
    "nccopy": nccopy,
}


def source(tmp_path, writer, ranks=RANKS):
    """A directory of ranks' files, and how many filtered chunks each has."""
    directory = tmp_path / "in"
    directory.mkdir()
    return directory, [writer(directory / f"restart_{rank}.x", rank) for rank in range(ranks)]


def unfiltered(knarr, target):
    return [rank["unfiltered_chunks"] for rank in knarr.json("checkpoint", "info", target)["ranks"]]


def check(knarr, tmp_path, directory, target):
    """Restores a set: all of it, and one rank."""
    assert knarr.json("checkpoint", "verify", target)["damage"] == []
    out = tmp_path / f"{target.name}-out"
    knarr("checkpoint", "restore", target, "-d", out)
    assert hashes(out) == hashes(directory)
    assert all(not path.name.startswith(".") for path in out.iterdir())
    shutil.rmtree(out)
    name = sorted(path.name for path in directory.iterdir())[-1]
    last = len(list(directory.iterdir())) - 1
    knarr("checkpoint", "restore", target, "-d", out, "--ranks", str(last))
    assert hashes(out) == {name: hashes(directory)[name]}
    shutil.rmtree(out)


@pytest.mark.parametrize("name", WRITERS)
def test_files_come_back_and_their_chunks_are_packed_as_values(knarr, tmp_path, name):
    directory, chunks = source(tmp_path, WRITERS[name])
    packed = knarr.json("checkpoint", "pack", directory, "-o", tmp_path / "set")
    assert not packed["carried_whole"]
    assert packed["raw_bytes"] == sum(path.stat().st_size for path in directory.iterdir())
    assert unfiltered(knarr, tmp_path / "set") == chunks
    assert (tmp_path / "set" / "manifest.knarr").read_bytes()[7] == 3
    check(knarr, tmp_path, directory, tmp_path / "set")


def test_variables_become_numpy_files(knarr, tmp_path):
    directory, _ = source(tmp_path, WRITERS["big-endian"])
    knarr("checkpoint", "pack", directory, "-o", tmp_path / "set")
    wanted = ("--ranks", "1-2", "--variables", "g/T", "--variables", "rows")
    done = knarr.json("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out", *wanted)
    assert len(done["files"]) == 4 and not done["damage"]
    for found in done["files"]:
        with h5py.File(directory / f"restart_{found['rank']}.x") as file:
            values, wanted = np.load(found["path"]), file[found["variable"]][()]
            assert values.dtype == wanted.dtype and values.tobytes() == wanted.tobytes()


def test_chunks_of_another_deflate_are_taken_as_they_are(knarr, tmp_path):
    directory, chunks = source(tmp_path, WRITERS["gzip-4"])
    other = tmp_path / "other"
    other.mkdir()
    for path in sorted(directory.iterdir()):
        knarr("repack", path, "-o", other / f"{path.stem}.h5", "--chain", "shuffle|deflate:5")
    knarr("checkpoint", "pack", other, "-o", tmp_path / "set")
    plans = sorted(other.glob("*.knarr.json"))
    assert unfiltered(knarr, tmp_path / "set") == [0] * (len(chunks) + len(plans))
    assert (tmp_path / "set" / "manifest.knarr").read_bytes()[7] == 3
    check(knarr, tmp_path, other, tmp_path / "set")


def written_directly(path, chunks, masks):
    """A file whose chunks have these bytes."""
    with h5py.File(path, "w") as file:
        made = file.create_dataset("u", (len(chunks) * 1000,), "<f8", chunks=(1000,), compression="gzip", shuffle=True)
        for number, (chunk, mask) in enumerate(zip(chunks, masks, strict=True)):
            made.id.write_direct_chunk((1000 * number,), chunk, filter_mask=mask)


def shuffled(values):
    return values.view("u1").reshape(-1, values.itemsize).T.tobytes()


def test_chunks_that_went_through_some_of_the_filters(knarr, tmp_path):
    """Filter masks: deflate left out, all left out, as HDF5 does where a chunk would not get smaller."""
    directory = tmp_path / "in"
    directory.mkdir()
    for rank in range(RANKS):
        values = [field(rank, (1000,), "f8", number) for number in range(4)]
        first, last = zlib.compress(shuffled(values[0]), 4), zlib.compress(values[3].tobytes(), 4)
        chunks = [first, shuffled(values[1]), values[2].tobytes(), last]
        written_directly(directory / f"{rank}.h5", chunks, [0, 2, 3, 1])
        with h5py.File(directory / f"{rank}.h5") as file:
            assert np.array_equal(file["u"][()], np.concatenate(values))
    knarr("checkpoint", "pack", directory, "-o", tmp_path / "set")
    assert unfiltered(knarr, tmp_path / "set") == [3] * RANKS
    check(knarr, tmp_path, directory, tmp_path / "set")


@pytest.mark.parametrize("damage", ["cut", "noise", "longer", "checksum", "bomb"])
def test_chunks_that_cannot_be_decoded_are_taken_as_they_are(knarr, tmp_path, damage):
    good = zlib.compress(shuffled(field(0, (1000,), "f8")), 4)
    bad = {
        "cut": good[: len(good) // 2],
        "noise": np.random.default_rng(5).bytes(len(good)),
        "longer": good + b"more",
        "checksum": good[:-4] + struct.pack(">I", 7),
        "bomb": zlib.compress(bytes(50_000_000), 4),
    }[damage]
    path = tmp_path / "in" / "r0.h5"
    path.parent.mkdir()
    written_directly(path, [good, bad, good], [0, 0, 0])
    knarr("checkpoint", "pack", path, "-o", tmp_path / "set")
    assert unfiltered(knarr, tmp_path / "set") == [0]
    check(knarr, tmp_path, path.parent, tmp_path / "set")


def test_chunks_that_did_not_get_smaller_are_not_tried(knarr, tmp_path):
    path = tmp_path / "in" / "r0.h5"
    path.parent.mkdir()
    stored = zlib.compress(np.random.default_rng(5).bytes(8000), 4)
    written_directly(path, [stored, stored], [0, 0])
    assert len(stored) >= 8000
    knarr("checkpoint", "pack", path, "-o", tmp_path / "set")
    assert unfiltered(knarr, tmp_path / "set") == [0]
    check(knarr, tmp_path, path.parent, tmp_path / "set")


def test_sets_of_compressed_ranks_are_as_small_as_of_plain_ones(knarr, tmp_path):
    """The gain: what was compressed file by file is packed like with like."""
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    for directory, how in ((plain, {}), (packed, {"compression": "gzip", "compression_opts": 4, "shuffle": True})):
        directory.mkdir()
        for rank in range(8):
            with h5py.File(directory / f"r{rank}.h5", "w") as file:
                for name in ("rho", "p"):
                    grid = np.indices((48, 64, 64)).sum(axis=0) / 40.0 + rank / 50 + ord(name[0])
                    values = (280 + 10 * np.sin(grid)).astype("f4")
                    file.create_dataset(name, data=values, chunks=(16, 64, 64), **how)
    sizes = {}
    for directory in (plain, packed):
        target = tmp_path / f"{directory.name}-set"
        knarr("checkpoint", "pack", directory, "-o", target)
        sizes[directory.name] = sum(path.stat().st_size for path in target.iterdir())
        check(knarr, tmp_path, directory, target)
    # With a goal that leaves chunks as they are.
    knarr("checkpoint", "pack", packed, "-o", tmp_path / "as they are", "--goal", "speed", "--no-base")
    before = sum(path.stat().st_size for path in (tmp_path / "as they are").iterdir())
    assert unfiltered(knarr, tmp_path / "as they are") == [0] * 8
    assert sizes["packed"] < 1.05 * sizes["plain"] + 4096
    assert sizes["packed"] < 0.7 * before


def test_threads_and_processes_do_not_change_the_bytes(knarr, tmp_path):
    directory, _ = source(tmp_path, WRITERS["netCDF-4"])
    for jobs in ("1", "2", "5"):
        knarr("checkpoint", "pack", directory, "-o", tmp_path / jobs, "--jobs", jobs, "--no-base")
    assert hashes(tmp_path / "1") == hashes(tmp_path / "2") == hashes(tmp_path / "5")


def test_memory_is_bounded(knarr, tmp_path):
    """Chunks as large as may be, of a group whose values are more than the memory."""
    directory = tmp_path / "in"
    directory.mkdir()
    allowed = 96 << 20
    for rank in range(4):
        with h5py.File(directory / f"r{rank}.h5", "w") as file:
            values = np.cumsum(np.random.default_rng(rank).integers(0, 99, 4 << 20)).astype("i4")
            options = {"data": values, "compression": "gzip", "compression_opts": 1, "shuffle": True}
            for name, chunk in (("a", 512 << 10), ("b", 4 << 20)):
                file.create_dataset(name, chunks=(chunk,), **options)
    limits = ("--max-mem", f"{allowed >> 20}M", "--jobs", "2")
    peak = peak_memory(knarr, "checkpoint", "pack", directory, "-o", tmp_path / "set", *limits)
    assert peak <= allowed, f"{peak >> 20} MiB"
    assert unfiltered(knarr, tmp_path / "set") == [8] * 4, "those of 16 MiB are too large for so little memory"
    peak = peak_memory(knarr, "checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out", *limits)
    assert peak <= allowed, f"{peak >> 20} MiB"
    assert hashes(tmp_path / "out") == hashes(directory)
    # With more memory all are taken as values, and a restore needs no more than before.
    knarr("checkpoint", "pack", directory, "-o", tmp_path / "large", "--no-base")
    assert unfiltered(knarr, tmp_path / "large") == [8 + 1] * 4
    peak = peak_memory(knarr, "checkpoint", "restore", tmp_path / "large", "-d", tmp_path / "out2", *limits)
    assert peak <= allowed, f"{peak >> 20} MiB"
    assert hashes(tmp_path / "out2") == hashes(directory)


def test_earlier_sets_are_built_upon(knarr, tmp_path):
    directory, _ = source(tmp_path, WRITERS["gzip-4"])
    one = knarr.json("checkpoint", "pack", directory, "-o", tmp_path / "sets" / "1")
    # The same values, compressed otherwise: what they are is there already.
    for path in directory.iterdir():
        path.unlink()
    for rank in range(RANKS):
        WRITERS["gzip-9"](directory / f"restart_{rank}.x", rank)
    two = knarr.json("checkpoint", "pack", directory, "-o", tmp_path / "sets" / "2")
    assert two["packed_bytes"] < one["packed_bytes"] / 2
    shutil.rmtree(tmp_path / "sets" / "1")
    check(knarr, tmp_path, directory, tmp_path / "sets" / "2")


def test_damage_names_the_variable_and_the_rest_comes_back(knarr, tmp_path):
    directory, _ = source(tmp_path, WRITERS["gzip-4"])
    knarr("checkpoint", "pack", directory, "-o", tmp_path / "set", "--group-size", "1")
    store = next((tmp_path / "set").glob("group-00002-*"))
    good = store.read_bytes()
    for place in range(30, len(good), len(good) // 12):
        damaged = bytearray(good)
        damaged[place] ^= 0x10
        store.write_bytes(damaged)
        error = knarr.fails(3, "checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "out", "--force")
        assert "rank 2 (restart_2.x)" in error and str(store) in error
        wanted = hashes(directory)
        del wanted["restart_2.x"]
        assert hashes(tmp_path / "out") == wanted


def test_files_that_programs_add_come_back(knarr, tmp_path):
    path = tmp_path / "extra.h5"
    chunks = hdf5(path, 0)
    before = path.read_bytes()
    with knarr_package.Checkpoint(tmp_path / "sets") as checkpoint:
        checkpoint.begin(1)
        checkpoint.put("T", field(0, (100, 100), "f8"))
        checkpoint.add_file(path)
        checkpoint.commit()
    assert sum(unfiltered(knarr, tmp_path / "sets" / "step_1")) == chunks
    with knarr_package.Checkpoint(tmp_path / "sets") as checkpoint:
        [found] = checkpoint.restart().restore_files(tmp_path / "out")
    assert found.read_bytes() == before
