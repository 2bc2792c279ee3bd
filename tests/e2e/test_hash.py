"""The content hash names the data: not chunks, chain, byte order of storage or container."""

from __future__ import annotations

import shutil

import h5py
import netCDF4
import numpy as np
import pytest
import zarr

import filter_inputs
import hdf5_inputs
import netcdf_inputs
import zarr_inputs
from values import smooth_field


@pytest.mark.parametrize("name", ["number_types", "special_values", "chunk_edges", "layouts", "user_types", "links"])
def test_hash_survives_repack_of_hdf5(knarr, made, out, name):
    assert name in hdf5_inputs.INPUTS
    source = made("hdf5", name)
    assert knarr.content_hash(knarr.repack(source, out / source.name)) == knarr.content_hash(source)


@pytest.mark.parametrize("name", netcdf_inputs.INPUTS)
def test_hash_survives_repack_of_netcdf(knarr, made, out, name):
    source = made("netcdf", name)
    assert knarr.content_hash(knarr.repack(source, out / source.name)) == knarr.content_hash(source)


@pytest.mark.parametrize("name", zarr_inputs.INPUTS)
def test_hash_survives_repack_of_zarr(knarr, made, out, name):
    source = made("zarr", name)
    assert knarr.content_hash(knarr.repack(source, out / source.name)) == knarr.content_hash(source)


def test_variables_hash_alike_in_every_container(knarr, made, out):
    source = made("netcdf", "climate_history")
    expected = knarr.variable_hashes(source)
    assert set(expected) >= {"tas", "pr", "time", "lat", "lon", "time_bnds", "crs"}
    for suffix in (".h5", ".zarr", ".nc"):
        hashes = knarr.variable_hashes(knarr.repack(source, out / f"a{suffix}"))
        assert {name: hashes[name] for name in expected} == expected


def test_strings_hash_alike_in_every_container(knarr, tmp_path, out):
    strings = np.array([f"stazione {n} °C" * (n % 4) for n in range(2000)], dtype=object).reshape(40, 50)
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as dataset:
        for name, length in zip("yx", strings.shape, strict=True):
            dataset.createDimension(name, length)
        dataset.createVariable("text", str, ("y", "x"))[:] = strings
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.create_dataset("text", data=strings, dtype=h5py.string_dtype(), chunks=(7, 11), compression="gzip")
    zarr.create_array(tmp_path / "c.zarr/text", data=strings.astype("T"), chunks=(40, 9))
    zarr.open_group(tmp_path / "c.zarr", mode="a")
    paths = [tmp_path / name for name in ("a.nc", "b.h5", "c.zarr")]
    paths += [knarr.repack(paths[0], out / f"a{suffix}") for suffix in (".nc", ".h5", ".zarr")]
    assert len({knarr.variable_hashes(path)["text"] for path in paths}) == 1

    changed = strings.copy()
    # The same text, cut elsewhere.
    changed[3, 0], changed[3, 1] = strings[3, 0] + strings[3, 1][:1], strings[3, 1][1:]
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["text"] = changed
    assert knarr.variable_hashes(tmp_path / "d.h5")["text"] != knarr.variable_hashes(paths[0])["text"]


@pytest.mark.parametrize("name", filter_inputs.LOSSLESS)
def test_hash_ignores_filters(knarr, made, name):
    if name == "zfp_reversible":
        assert len(knarr.variable_hashes(made("filter", name))) == 2
    else:
        assert knarr.variable_hashes(made("filter", name)) == knarr.variable_hashes(made("filter", "gzip"))


def test_hash_ignores_chunks_and_layout(knarr, tmp_path):
    values = smooth_field((40, 30))
    hashes = set()
    for at, how in enumerate(
        ({}, {"chunks": (7, 30)}, {"chunks": (40, 1)}, {"chunks": (64, 64), "maxshape": (None, None)})
    ):
        path = tmp_path / f"{at}.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("v", data=values, **how)
        hashes.add(knarr.variable_hashes(path)["v"])
    assert len(hashes) == 1


def _flip_last_bit(file: h5py.File) -> None:
    values = file["v"][...]
    values.view("u4")[-1, -1] ^= 1
    file["v"][...] = values


def _swap_rows(file: h5py.File) -> None:
    file["v"][...] = file["v"][...][::-1]


def _zero_sign(file: h5py.File) -> None:
    file["v"][0, 0] = -0.0


def _reshape(file: h5py.File) -> None:
    values = file["v"][...].reshape(30, 40)
    del file["v"]
    file["v"] = values


def _retype(file: h5py.File) -> None:
    values = file["v"][...].view("i4")
    del file["v"]
    file["v"] = values


@pytest.mark.parametrize("change", [_flip_last_bit, _swap_rows, _zero_sign, _reshape, _retype])
def test_hash_sees_every_change(knarr, tmp_path, change):
    original, changed = tmp_path / "a.h5", tmp_path / "b.h5"
    values = smooth_field((40, 30))
    values[0, 0] = np.float32(0.0)
    with h5py.File(original, "w") as file:
        file["v"] = values
    shutil.copy(original, changed)
    with h5py.File(changed, "r+") as file:
        change(file)
    assert knarr.variable_hashes(original)["v"] != knarr.variable_hashes(changed)["v"]
    assert knarr.content_hash(original) != knarr.content_hash(changed)
