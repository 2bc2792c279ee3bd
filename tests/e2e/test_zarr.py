"""Zarr in and out, checked with zarr-python, zarrs and xarray."""

from __future__ import annotations

import json

import h5py
import netCDF4
import numcodecs
import numpy as np
import pytest
import xarray
import zarr

import netcdf_inputs
import zarr_compare
import zarr_inputs
from netcdf_compare import bits

# In 'unlimited' a variable is shorter than its dimension, which Zarr has no way to say.
WITHOUT_USER_TYPES = [
    name for name in netcdf_inputs.INPUTS if name not in {"user_defined_types", "all_types", "unlimited"}
]


@pytest.mark.parametrize("codec", [numcodecs.LZ4(), numcodecs.LZMA(preset=1)], ids=["lz4", "lzma"])
def test_a_codec_that_is_not_read_is_named(knarr, tmp_path, out, codec):
    source = tmp_path / "in.zarr"
    zarr.create_array(source, data=np.arange(99), zarr_format=2, compressors=codec, filters=None)
    knarr.fails(3, "repack", source, "-o", out / "a.zarr", names=("in.zarr", codec.codec_id))


@pytest.mark.parametrize("name", zarr_inputs.INPUTS)
def test_zarr_to_zarr_keeps_everything(knarr, made, out, name):
    source = made("zarr", name)
    zarr_compare.require_same(source, knarr.repack(source, out / source.name))


@pytest.mark.parametrize("name", zarr_inputs.INPUTS)
def test_output_is_zarr_v3_with_complete_metadata(knarr, made, out, name):
    target = knarr.repack(made("zarr", name), out / "a.zarr")
    for metadata in target.rglob("zarr.json"):
        assert json.loads(metadata.read_text())["zarr_format"] == 3
    assert (target / "zarr.json").is_file()
    assert not list(target.rglob(".z*")), "metadata of Zarr v2 beside that of v3"


@pytest.mark.parametrize("goal", ["speed", "balanced", "ratio", "archive"])
def test_zarrs_decodes_what_zarr_python_decodes(knarr, made, out, goal):
    """Two implementations read every output; the goals vary the codecs."""
    source = made("zarr", "v3_codecs")
    target = knarr.repack(source, out / "a.zarr", "--goal", goal)
    expected = {
        name: zarr_compare.native(array[...]).tobytes() for name, array in zarr_compare.arrays(source).items()
    }
    assert zarr_compare.read_with_zarrs(target) == expected


@pytest.mark.parametrize("name", WITHOUT_USER_TYPES)
def test_netcdf_to_zarr_as_xarray_sees_it(knarr, made, out, name):
    source = made("netcdf", name)
    target = knarr.repack(source, out / "a.zarr")
    plain = {"decode_cf": False}
    with xarray.open_dataset(source, engine="netcdf4", **plain) as before:
        after = xarray.open_zarr(target, consolidated=False, **plain)
        assert before.sizes == after.sizes
        assert set(before.variables) == set(after.variables)
        for variable in before.variables:
            left, right = before[variable], after[variable]
            assert left.dims == right.dims, variable
            if left.dtype.kind in "iuf":
                assert bits(left.values) == bits(right.values), variable
            names = set(left.attrs) - {"_FillValue"}
            assert {
                key: bits(left.attrs[key])[2:] for key in names if not isinstance(left.attrs[key], str)
            } == {
                key: bits(np.asarray(right.attrs[key], np.asarray(left.attrs[key]).dtype))[2:]
                for key in names
                if not isinstance(left.attrs[key], str)
            }, variable


@pytest.mark.parametrize("suffix", [".nc", ".h5"])
@pytest.mark.parametrize("name", zarr_inputs.INPUTS)
def test_zarr_to_hdf5(knarr, made, out, name, suffix):
    source = made("zarr", name)
    target = knarr.repack(source, out / f"a{suffix}")
    with h5py.File(target) as file:
        for path, array in zarr_compare.arrays(source).items():
            values = zarr_compare.native(array[...])
            stored = zarr_compare.native(np.asarray(file[path][...]))
            assert stored.shape == values.shape, path
            if values.dtype.kind == "b":
                stored = stored.astype(bool)
            assert stored.tobytes() == values.tobytes(), path
            for key, value in array.attrs.items():
                stored_attribute = file[path].attrs[key]
                assert (
                    stored_attribute.decode() if isinstance(stored_attribute, bytes) else stored_attribute
                ) == value
    if suffix == ".nc":
        netCDF4.Dataset(target).close()


def test_round_trip_through_zarr_keeps_a_netcdf_file(knarr, made, out):
    source = made("netcdf", "climate_history")
    there = knarr.repack(source, out / "there.zarr")
    back = knarr.repack(there, out / "back.nc")
    with netCDF4.Dataset(source) as before, netCDF4.Dataset(back) as after:
        for dataset in (before, after):
            dataset.set_auto_maskandscale(False)
        assert set(before.variables) == set(after.variables)
        for name, variable in before.variables.items():
            assert variable.dimensions == after.variables[name].dimensions, name
            assert bits(variable[...]) == bits(after.variables[name][...]), name
            assert set(variable.ncattrs()) == set(after.variables[name].ncattrs()), name


def test_a_type_zarr_cannot_hold_is_an_error(knarr, made, out):
    """All that Zarr has no type for are named at once, in file order."""
    refused = ("ascii_strings", "bitfield", "committed_compound", "compound", "nested", "null_padded", "opaque")
    names = ("user_types.h5", *(f"'{name}'" for name in refused), "write netCDF-4 or HDF5 instead")
    message = knarr.fails(5, "repack", made("hdf5", "user_types"), "-o", out / "a.zarr", names=names)
    places = [message.index(f"'{name}'") for name in refused]
    assert places == sorted(places)
    assert "committed_enum" not in message, "enumerations are written as their integers"
    assert not list(out.iterdir())


def test_enumerations_become_integers_with_flags(knarr, tmp_path, out):
    """Zarr has no enumerations: the names are kept as CF conventions 3.5 keep them."""
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as file:
        file["mask"] = np.arange(5000) % 3 == 0
        colours = h5py.enum_dtype({"RED": -1, "DARK BLUE": 42}, "i2")
        file.create_dataset("colour", data=np.array([-1, 42] * 2500, "i2"), dtype=colours)
    target = knarr.repack(source, out / "a.zarr")
    group = zarr.open_group(target, mode="r")
    assert group["mask"][...].tolist() == [int(at % 3 == 0) for at in range(5000)]
    assert group["mask"].attrs.asdict() == {"flag_values": [0, 1], "flag_meanings": "FALSE TRUE"}
    assert group["colour"].dtype == "i2" and group["colour"][:2].tolist() == [-1, 42]
    assert dict(zip(group["colour"].attrs["flag_meanings"].split(), group["colour"].attrs["flag_values"])) == {
        "RED": -1,
        "DARK_BLUE": 42,
    }
    knarr("verify", source, target)


def test_missing_chunks_are_not_written(knarr, made, out):
    target = knarr.repack(made("zarr", "v3_layouts"), out / "a.zarr", "--chunks", "keep")
    chunks = [path for path in (target / "missing").rglob("*") if path.is_file() and path.name != "zarr.json"]
    assert len(chunks) == 1
    assert zarr.open_array(target / "missing", mode="r")[0, 0] == -3


def test_a_codec_of_knarr_alone_is_never_written_to_zarr(knarr, made, out):
    """Nothing reads `knarr.grid` from Zarr: such a store would be lost data."""
    source = made("netcdf", "climate_history")
    wish = ("--portable", "knarr", "--chain", "grid")
    knarr.fails(5, "repack", source, "-o", out / "a.zarr", *wish, names=("climate_history.nc", "grid"))
    assert not list(out.iterdir())
    target = knarr.repack(source, out / "b.zarr", "--portable", "knarr", "--goal", "ratio")
    assert "knarr." not in "".join(path.read_text() for path in target.rglob("zarr.json"))
