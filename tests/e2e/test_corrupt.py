"""Damaged files: never a crash, never a hang, never wrong data, and the damage is named."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
import pytest

from values import smooth_field

CORRUPT = 3
HANDLED = {0, 1, 3, 5}
"""Exit codes that say Knarr itself ended the run; a signal is negative, a panic is 101."""

FLIPS = 25
OTHER_READER = Path(__file__).with_name("other_reader.py")
FRACTIONS = (0.02, 0.3, 0.7, 0.95, 0.9999)


def damaged(source: Path, folder: Path, damage) -> Path:
    """A copy of `source` whose bytes went through `damage`."""
    path = folder / source.name
    content = bytearray(source.read_bytes())
    path.write_bytes(damage(content))
    return path


def require_handled(knarr, path: Path, out: Path, target_name: str) -> int:
    """Runs repack; on failure nothing may stay and the file must be named. Returns the exit code."""
    done = knarr("repack", path, "-o", out / target_name, ok=False)
    assert done.returncode in HANDLED, f"exit {done.returncode}\n{done.stderr}"
    assert "panicked" not in done.stderr
    if done.returncode != 0:
        assert path.name in done.stderr
        assert not list(out.iterdir())
    return done.returncode


@pytest.mark.parametrize("fraction", FRACTIONS)
@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("hdf5", "chunk_edges"),
        ("filter", "zstd"),
        ("netcdf", "climate_history"),
        ("netcdf", "cdf1_all"),
        ("netcdf", "cdf5_all"),
    ],
)
def test_truncated_file(knarr, made, tmp_path, out, family, name, fraction):
    source = made(family, name)
    path = damaged(source, tmp_path, lambda content: content[: int(len(content) * fraction)])
    assert require_handled(knarr, path, out, f"a{path.suffix}") == CORRUPT


def agreement(reader: str, damaged: Path, repacked: Path) -> dict:
    """What another reader says of both files; of a file that ends it or holds it up it says nothing."""
    command = [sys.executable, OTHER_READER, reader, damaged, repacked]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return {"compared": 0, "wrong": []}
    assert done.returncode <= 0, done.stderr
    return json.loads(done.stdout) if done.returncode == 0 else {"compared": 0, "wrong": []}


@pytest.mark.parametrize(
    ("family", "name", "reader"),
    [("hdf5", "user_types", "h5py"), ("netcdf", "climate_history", "netCDF4"), ("netcdf", "cdf2_all", "netCDF4")],
)
def test_flipped_bytes_in_the_header(knarr, made, tmp_path, out, family, name, reader):
    """Offsets, lengths and ranks of the first 4 KiB go wrong. What is still readable is what another reader sees."""
    compared = 0
    for seed in range(FLIPS):

        def flip(content: bytearray, seed: int = seed) -> bytearray:
            chance = random.Random(seed)
            for _ in range(3):
                content[chance.randrange(8, min(4096, len(content)))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
            return content

        path = damaged(made(family, name), tmp_path, flip)
        target = out / f"a{path.suffix}"
        if require_handled(knarr, path, out, target.name) == 0:
            found = agreement(reader, path, target)
            assert not found["wrong"], f"seed {seed}: {found['wrong'][:20]}"
            compared += found["compared"]
            for output in out.iterdir():
                output.unlink()
    assert compared > 0, "another reader understood none of what was repacked"


@pytest.fixture
def chunked(tmp_path):
    """`chunked(filters)` writes one variable; the answer is its path and the extent of one chunk."""

    def write(**filters: object) -> tuple[Path, int, int]:
        path = tmp_path / "chunked.h5"
        with h5py.File(path, "w") as file:
            dataset = file.create_dataset("field", data=smooth_field((64, 200)), chunks=(16, 200), **filters)
            chunk = dataset.id.get_chunk_info(2)
        return path, chunk.byte_offset, chunk.size

    return write


@pytest.mark.parametrize(
    "filters",
    [
        {"fletcher32": True},
        {"compression": "gzip", "shuffle": True},
        {"compression": "gzip", "fletcher32": True},
        {"fletcher32": True, **hdf5plugin.Zstd()},
    ],
    ids=["fletcher32", "gzip", "gzip_fletcher32", "zstd_fletcher32"],
)
def test_damaged_chunk_with_checksum_is_found(knarr, chunked, out, filters):
    path, offset, size = chunked(**filters)
    with path.open("r+b") as file:
        file.seek(offset + size // 2)
        byte = file.read(1)[0]
        file.seek(offset + size // 2)
        file.write(bytes([byte ^ 0x55]))
    message = knarr.fails(CORRUPT, "repack", path, "-o", out / "a.h5", names=("chunked.h5", "field"))
    assert "chunk (2, 0) from element (32, 0)" in message, "place in the grid of chunks and first element"
    assert "from a copy" in message, "how to mend it"
    for command in ("hash", "verify"):
        again = (path,) if command == "hash" else (path, path)
        message = knarr.fails(CORRUPT, command, *again, names=("variable 'field'", "from element (32, 0)"))
        assert message.count("chunked.h5") == 1
    assert not list(out.iterdir())


@pytest.mark.parametrize(
    "filters",
    [
        dict(hdf5plugin.LZ4()),
        dict(hdf5plugin.Zstd()),
        dict(hdf5plugin.Blosc2()),
        dict(hdf5plugin.Bitshuffle()),
        dict(hdf5plugin.BZip2()),
    ],
    ids=["lz4", "zstd", "blosc2", "bitshuffle", "bzip2"],
)
@pytest.mark.parametrize("seed", range(6))
def test_damaged_chunk_without_checksum_is_never_worse_than_hdf5(knarr, chunked, out, filters, seed):
    """Either an error, or exactly what the HDF5 library itself decodes."""
    path, offset, size = chunked(**filters)
    chance = random.Random(seed)
    with path.open("r+b") as file:
        for _ in range(4):
            file.seek(offset + (chance.randrange(12) if seed < 3 else chance.randrange(size)))
            file.write(bytes([chance.randrange(256)]))
    if require_handled(knarr, path, out, "a.h5") == 0:
        with h5py.File(path) as before, h5py.File(out / "a.h5") as after:
            assert before["field"][...].tobytes() == after["field"][...].tobytes()


def test_chunk_that_decodes_to_too_much_or_too_little(knarr, chunked, out):
    """A valid stream of the wrong length must not be padded or cut in silence."""
    import zlib

    for wrong in (1, 16 * 200 * 4 - 4, 16 * 200 * 4 + 4, 1 << 28):
        path, _, _ = chunked(compression="gzip")
        with h5py.File(path, "r+") as file:
            file["field"].id.write_direct_chunk((16, 0), zlib.compress(bytes(wrong), 1))
        knarr.fails(CORRUPT, "repack", path, "-o", out / "a.h5", names=("field",))
        assert not list(out.iterdir())


@pytest.mark.parametrize("name", ["v2_compressors", "v3_codecs", "v3_layouts"])
@pytest.mark.parametrize("damage", ["truncate", "metadata", "remove_metadata"])
def test_damaged_zarr(knarr, made, tmp_path, out, name, damage):
    path = tmp_path / "damaged.zarr"
    shutil.copytree(made("zarr", name), path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    metadata = [file for file in files if file.name in (".zarray", "zarr.json") and file.parent != path]
    chunks = [file for file in files if not file.name.startswith((".z", "zarr"))]
    if damage == "truncate":
        for chunk in chunks:
            chunk.write_bytes(chunk.read_bytes()[: chunk.stat().st_size // 2])
    elif damage == "metadata":
        metadata[0].write_text(metadata[0].read_text()[:40])
    else:
        for file in files:
            if file.name in (".zgroup", ".zarray", "zarr.json"):
                file.unlink()
    assert require_handled(knarr, path, out, "a.zarr") == CORRUPT


def test_hostile_shape_does_not_allocate(knarr, made, tmp_path, out):
    """Metadata that promises an array of 2**60 elements: refused or sparse, never attempted."""
    path = tmp_path / "hostile.zarr"
    shutil.copytree(made("zarr", "v3_codecs"), path)
    metadata = path / "gzip" / "zarr.json"
    metadata.write_text(metadata.read_text().replace("50", str(2**40), 1))
    require_handled(knarr, path, out, "a.zarr")


def test_nan_payloads_of_a_corrupt_looking_field_stay(knarr, tmp_path, out):
    """Random bits are data: nothing may 'repair' them."""
    path = tmp_path / "bits.h5"
    bits = np.random.default_rng(8).integers(0, 2**64, 4096, "u8")
    with h5py.File(path, "w") as file:
        file["bits"] = bits.view("f8")
    knarr.repack(path, out / "a.h5")
    with h5py.File(out / "a.h5") as file:
        assert file["bits"][...].tobytes() == bits.tobytes()


@pytest.mark.parametrize("fill", [None, "nothing"])
def test_a_heap_that_hdf5_does_not_come_back_from(knarr, tmp_path, out, fill):
    """Free space of no length: HDF5 2.x walks on the spot, for ever, in any call that looks for a string."""
    whole, path = tmp_path / "whole.h5", tmp_path / "heap.h5"
    with h5py.File(whole, "w") as file:
        file["T"] = smooth_field((50, 60), seed=1)
        words = file.create_dataset("words", (10,), h5py.string_dtype(), fillvalue=fill)
        words[:3] = ["one", "two", "three"]
    content = bytearray(whole.read_bytes())
    heaps = [at for at in range(len(content)) if content[at : at + 4] == b"GCOL"]
    assert heaps
    for heap in heaps:
        content[heap + 16 : heap + 40] = bytes(24)
    path.write_bytes(content)
    assert require_handled(knarr, path, out, "a.h5") == CORRUPT
    for command in (["verify", whole, path], ["hash", path], *([["inspect", path]] if fill else [])):
        assert "global heap is damaged" in knarr.fails(CORRUPT, *command, names=(path.name,))
    # Checkpoints take it as it is.
    knarr("checkpoint", "pack", path, "-o", out / "set")
    knarr("checkpoint", "restore", out / "set", "-d", out / "back")
    assert (out / "back" / path.name).read_bytes() == bytes(content)
