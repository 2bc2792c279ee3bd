"""Zarr stores in one ZIP file, as zarr-python's ZipStore writes and reads them."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import zarr
from zarr.storage import ZipStore


@pytest.fixture
def field(made) -> Path:
    return made("netcdf", "climate_history")


def written(path: Path, zarr_format: int = 3, compression: int = zipfile.ZIP_STORED) -> np.ndarray:
    """A store of zarr-python's, whose metadata is there twice: the second one counts."""
    values = np.arange(600.0).reshape(20, 30)
    with warnings.catch_warnings(), ZipStore(path, mode="w", compression=compression) as store:
        warnings.simplefilter("ignore")
        root = zarr.create_group(store, zarr_format=zarr_format)
        group = root.create_group("g")
        # Chunks that hold nothing but the fill value are not there.
        array = group.create_array("T", shape=(20, 60), dtype="f8", chunks=(7, 11))
        array[:, :30] = values
        array.attrs["units"] = "K"
        root.attrs["title"] = "the second one"
    return values


def test_members_are_the_files_of_a_directory_and_zarr_python_reads_them(knarr, field, out):
    for name in ("a.zarr", "a.zarr.zip"):
        knarr("repack", field, "-o", out / name)
    with zipfile.ZipFile(out / "a.zarr.zip") as file:
        assert file.testzip() is None
        assert {member.compress_type for member in file.infolist()} == {zipfile.ZIP_STORED}
        members = {name: file.read(name) for name in file.namelist()}
    files = [path for path in (out / "a.zarr").rglob("*") if path.is_file()]
    assert members == {str(path.relative_to(out / "a.zarr")): path.read_bytes() for path in files}
    with ZipStore(out / "a.zarr.zip", mode="r") as store:
        packed, plain = zarr.open_group(store, mode="r"), zarr.open_group(out / "a.zarr", mode="r")
        assert dict(packed.attrs) == dict(plain.attrs)
        for name, array in plain.arrays():
            assert packed[name][...].tobytes() == array[...].tobytes(), name


def test_what_was_written_is_read(knarr, field, out):
    knarr("repack", field, "-o", out / "a.zarr.zip")
    assert {path.name for path in out.iterdir()} == {"a.zarr.zip", "a.zarr.zip.knarr.json"}
    knarr("verify", field, out / "a.zarr.zip")
    assert knarr.content_hash(out / "a.zarr.zip") == knarr.content_hash(field)
    [told] = knarr.json("inspect", out / "a.zarr.zip")["files"]
    assert told["format"] == "Zarr v3"
    knarr("repack", out / "a.zarr.zip", "-o", out / "a.zarr.zip", "--force")
    knarr("verify", field, out / "a.zarr.zip")
    knarr("repack", out / "a.zarr.zip", "-o", out / "a.nc")
    knarr("verify", field, out / "a.nc", "--values-only")


def test_equal_inputs_give_equal_bytes(knarr, field, out):
    for name in ("a.zarr.zip", "b.ZARR.ZIP"):
        knarr("repack", field, "-o", out / name)
    assert (out / "a.zarr.zip").read_bytes() == (out / "b.ZARR.ZIP").read_bytes()


def test_shards_are_members(knarr, tmp_path, out):
    with netCDF4.Dataset(tmp_path / "in.nc", "w") as file:
        for name, length in zip("tyx", (120, 64, 64), strict=True):
            file.createDimension(name, length)
        values = np.arange(120 * 64 * 64, dtype="f4").reshape(120, 64, 64)
        file.createVariable("T", "f4", ("t", "y", "x"), chunksizes=(120, 8, 8))[:] = values
    knarr("repack", tmp_path / "in.nc", "-o", out / "a.zarr.zip", "--chunks", "2x8x8")
    knarr("verify", tmp_path / "in.nc", out / "a.zarr.zip")
    with ZipStore(out / "a.zarr.zip", mode="r") as store:
        array = zarr.open_group(store, mode="r")["T"]
        assert array.shards is not None and np.array_equal(array[...], values)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_stores_of_zarr_python_are_read(knarr, tmp_path, out, zarr_format):
    values = written(tmp_path / "in.zip", zarr_format)
    assert knarr.json("inspect", tmp_path / "in.zip")["files"][0]["format"] == f"Zarr v{zarr_format}"
    knarr("repack", tmp_path / "in.zip", "-o", out / "a.zarr.zip")
    knarr("verify", tmp_path / "in.zip", out / "a.zarr.zip")
    with ZipStore(out / "a.zarr.zip", mode="r") as store:
        root = zarr.open_group(store, mode="r")
        assert root.attrs["title"] == "the second one" and root["g/T"].attrs["units"] == "K"
        assert np.array_equal(root["g/T"][:, :30], values) and not root["g/T"][:, 30:].any()


def test_members_that_are_compressed_are_refused(knarr, tmp_path):
    written(tmp_path / "in.zarr.zip", compression=zipfile.ZIP_DEFLATED)
    knarr.fails(5, "inspect", tmp_path / "in.zarr.zip", names=("in.zarr.zip", "DEFLATE", "unpack"))


def test_other_zip_files_are_no_stores(knarr, tmp_path):
    with zipfile.ZipFile(tmp_path / "in.zarr.zip", "w") as file:
        file.writestr("in.zarr/zarr.json", "{}")
    knarr.fails(3, "inspect", tmp_path / "in.zarr.zip", names=("in.zarr.zip", "zarr.json", "at its top"))


@pytest.mark.parametrize(
    "name",
    ["/g/T/c/0/0", "//", "g//T/x", "g/T//c/0/9", "/".join(["g/T"] + ["d"] * 30_000)],
    ids=["root", "empty", "group", "array", "deep"],
)
def test_names_that_are_no_keys_of_zarr_are_left_alone(knarr, tmp_path, out, name):
    """Folders are walked, and a name may say that one lies in itself, or below ten thousands of others."""
    path = tmp_path / "in.zarr.zip"
    values = written(path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(name, b"junk")
    knarr("repack", path, "-o", out / "a.nc")
    with netCDF4.Dataset(out / "a.nc") as nc:
        assert np.array_equal(nc["g/T"][:, :30], values)
    knarr("inspect", path)


def test_damage_is_told(knarr, tmp_path):
    path = tmp_path / "in.zarr.zip"
    written(path)
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        [chunk] = [member for member in file.infolist() if member.filename == "g/T/c/0/0"]
    path.write_bytes(whole[:-100])
    knarr.fails(3, "inspect", path, names=("in.zarr.zip", "ZIP file is damaged"))
    place = chunk.header_offset + 30 + len(chunk.filename) + chunk.file_size // 2
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    knarr.fails(3, "hash", path, names=("in.zarr.zip", "'g/T'", "g/T/c/0/0", "checksum"))


def test_names_that_are_no_place_for_a_zip_file(knarr, field, out):
    knarr.fails(2, "repack", field, "-o", out / "a.zip", names=("a.zip", ".zarr.zip"))
    knarr.fails(5, "repack", field, "-o", "s3://bucket/a.zarr.zip", names=("ZIP files", "s3://bucket/a.zarr.zip"))
    (out / "a.zarr.zip").write_bytes(b"precious")
    knarr.fails(4, "repack", field, "-o", out / "a.zarr.zip", names=("a.zarr.zip", "--force"))
    assert (out / "a.zarr.zip").read_bytes() == b"precious"
