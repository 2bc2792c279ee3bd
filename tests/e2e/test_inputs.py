"""The inputs can be read by others, and the comparisons notice what they must notice."""

from __future__ import annotations

import shutil
import subprocess

import h5py
import hdf5plugin
import numpy as np
import pytest

import filter_inputs
import hdf5_compare
import hdf5_inputs
import netcdf_compare
import netcdf_inputs
import zarr_compare
import zarr_inputs


@pytest.mark.parametrize("name", hdf5_inputs.INPUTS)
def test_an_hdf5_input_equals_itself(made, name, tmp_path):
    path = made("hdf5", name)
    hdf5_compare.require_same(path, path)


@pytest.mark.parametrize("name", filter_inputs.INPUTS)
def test_a_filtered_input_decodes(made, name):
    with h5py.File(made("filter", name)) as file:
        for dataset in file.values():
            assert dataset[...].size == dataset.size


@pytest.mark.parametrize("name", netcdf_inputs.INPUTS)
def test_a_netcdf_input_survives_nccopy(made, name, tmp_path):
    path, copy = made("netcdf", name), tmp_path / "copy.nc"
    subprocess.run(["nccopy", path, copy], check=True)
    netcdf_compare.require_same(path, copy)


@pytest.mark.parametrize("name", zarr_inputs.INPUTS)
def test_a_zarr_input_equals_itself(made, name):
    zarr_compare.require_same(made("zarr", name), made("zarr", name))


@pytest.mark.parametrize("name", ["special_values", "dimension_scales", "creation_order", "links"])
def test_h5repack_output_counts_as_same(made, name, tmp_path):
    copy = tmp_path / "copy.h5"
    subprocess.run(["h5repack", "-f", "GZIP=1", made("hdf5", name), copy], check=True)
    hdf5_compare.require_same(made("hdf5", name), copy)


def _flip_nan_payload(file: h5py.File) -> None:
    values = file["specials_f4"][...]
    values.view("u4")[-1] ^= 1
    # Written as unsigned integers over the same storage: no conversion on the way.
    file["specials_f4"].id.write(h5py.h5s.ALL, h5py.h5s.ALL, values, h5py.h5t.IEEE_F32LE)


def _lose_sign_of_zero(file: h5py.File) -> None:
    file["negative_zero_f8"][3, 3] = 0.0


def _change_fill_value(file: h5py.File) -> None:
    values = file["fill_1e20"][...]
    del file["fill_1e20"]
    file.create_dataset("fill_1e20", data=values, fillvalue=np.float32(0), chunks=(32, 32))


def _add_attribute(file: h5py.File) -> None:
    file["all_nan_f4"].attrs["extra"] = 1


def _retype(file: h5py.File) -> None:
    values = file["all_nan_f4"][...]
    del file["all_nan_f4"]
    file["all_nan_f4"] = values.astype(">f4")


def _rename(file: h5py.File) -> None:
    file.move("random_bits", "renamed")


@pytest.mark.parametrize(
    "change", [_flip_nan_payload, _lose_sign_of_zero, _change_fill_value, _add_attribute, _retype, _rename]
)
def test_a_change_is_noticed(made, change, tmp_path):
    original, copy = made("hdf5", "special_values"), tmp_path / "copy.h5"
    shutil.copy(original, copy)
    with h5py.File(copy, "r+") as file:
        change(file)
    assert hdf5_compare.differences(original, copy)


def test_a_reference_to_another_object_is_noticed(made, tmp_path):
    original, copy = made("hdf5", "references"), tmp_path / "copy.h5"
    shutil.copy(original, copy)
    with h5py.File(copy, "r+") as file:
        file["a_references"][0] = file["z_table"].ref
    assert hdf5_compare.differences(original, copy) == ["/a_references: values differ"]


def test_every_plugin_has_an_input():
    """A plugin added to hdf5plugin must get an input here."""
    covered = {
        "Bitshuffle",
        "Blosc",
        "Blosc2",
        "BZip2",
        "FciDecomp",
        "Htj2k",
        "LZ4",
        "SZ",
        "SZ3",
        "Sperr",
        "Zfp",
        "Zstd",
    }
    assert {filter_class.__name__ for filter_class in hdf5plugin.get_filters()} == covered
