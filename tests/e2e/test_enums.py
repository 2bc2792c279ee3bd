"""Enumerations, h5py's booleans among them, are compressed as the integers they are and keep their type."""

from __future__ import annotations

from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest

import hdf5_compare

COLOURS = h5py.enum_dtype({"RED": 0, "GREEN": 1, "BLUE": 4000}, ">i2")


@pytest.fixture
def source(tmp_path) -> Path:
    path = tmp_path / "enums.h5"
    chance = np.random.default_rng(4)
    with h5py.File(path, "w") as file:
        file.create_dataset("mask", data=chance.random((200, 300)) < 0.05, chunks=(50, 300))
        colours = chance.choice(np.array([0, 1, 4000], "i2"), (200, 300))
        file.create_dataset("colour", data=colours, dtype=COLOURS, fillvalue=1)
        file.create_dataset("flag", data=np.bool_(True))
    return path


def test_inspect_names_them(knarr, source):
    text = knarr("inspect", source).stdout
    rows = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert " bool " in rows["mask"] and " enum i16 " in rows["colour"]
    types = knarr.json("inspect", source)["files"][0]["types"]
    assert types["/mask"] == "bool" and types["/colour"] == "enum i16 {RED=0, GREEN=1, BLUE=4000}"


@pytest.mark.parametrize("goal", ["speed", "balanced", "ratio"])
def test_they_are_encoded_and_keep_their_type(knarr, source, out, goal):
    target = knarr.repack(source, out / "a.h5", "--goal", goal)
    hdf5_compare.require_same(source, target)
    with h5py.File(target) as file:
        assert file["mask"].dtype == np.dtype("?")
        assert h5py.check_enum_dtype(file["colour"].dtype)["BLUE"] == 4000
        for name in ("mask", "colour"):
            assert file[name].id.get_storage_size() < file[name].nbytes * 0.7
    knarr("verify", source, target)


def test_advice_sees_integers(knarr, source):
    plans = knarr.json("advise", source)
    assert "I8" in str(plans) and "I16" in str(plans)


def test_netcdf_enums_keep_their_type(knarr, tmp_path, out):
    source = tmp_path / "a.nc"
    with netCDF4.Dataset(source, "w") as dataset:
        dataset.createDimension("x", 9000)
        cloud = dataset.createEnumType("u1", "cloud_t", {"clear": 0, "stratus": 2, "missing": 255})
        variable = dataset.createVariable("cloud", cloud, ("x",), fill_value=255)
        variable[:] = np.tile(np.array([0, 2, 255], "u1"), 3000)
    target = knarr.repack(source, out / "a.nc")
    hdf5_compare.require_same(source, target)
    assert knarr.content_hash(source) == knarr.content_hash(target)
