"""netCDF in, netCDF-4 out: same to netCDF4-python, ncdump, xarray and, for netCDF-4, to HDF5."""

from __future__ import annotations

import subprocess
from pathlib import Path

import netCDF4
import pytest
import xarray

import hdf5_compare
import netcdf_compare
import netcdf_inputs
from conftest import outputs


def ncdump_header(path: Path) -> list[str]:
    """`ncdump -h` without its first line, which is the file's name."""
    answer = subprocess.run(["ncdump", "-h", path], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.splitlines()[1:]


@pytest.mark.parametrize("name", netcdf_inputs.INPUTS)
def test_netcdf_readers_see_the_same(knarr, made, out, name):
    source = made("netcdf", name)
    target = knarr.repack(source, out / source.name)
    netcdf_compare.require_same(source, target)
    assert ncdump_header(target) == ncdump_header(source)


@pytest.mark.parametrize("name", netcdf_inputs.NETCDF4)
def test_netcdf4_is_the_same_to_hdf5(knarr, made, out, name):
    """Hidden attributes, dimension ids, scales, named types and creation order included."""
    source = made("netcdf", name)
    hdf5_compare.require_same(source, knarr.repack(source, out / source.name))


@pytest.mark.parametrize("name", netcdf_inputs.INPUTS)
def test_ncdump_prints_the_same_values(knarr, made, out, name):
    """All digits of every number, by a reader with a netCDF-C and HDF5 older than Knarr's."""
    source = made("netcdf", name)
    target = knarr.repack(source, out / source.name, "--portable", "core")
    dumps = [
        subprocess.run(["ncdump", "-p", "9,17", path], capture_output=True, text=True) for path in (source, target)
    ]
    assert all(dump.returncode == 0 for dump in dumps), dumps[1].stderr
    assert dumps[0].stdout == dumps[1].stdout.replace(target.stem, source.stem, 1)


@pytest.mark.parametrize("name", netcdf_inputs.CLASSIC)
def test_classic_becomes_netcdf4_that_can_grow(knarr, made, out, name):
    target = knarr.repack(made("netcdf", name), out / "a.nc")
    with netCDF4.Dataset(target, "a") as dataset:
        assert dataset.data_model.startswith("NETCDF4")
        assert dataset.dimensions["time"].isunlimited()
        length = len(dataset.dimensions["time"])
        growing = next(v for v in dataset.variables.values() if v.dimensions[:1] == ("time",) and v.dtype != "S1")
        growing[length] = 1
    with netCDF4.Dataset(target) as dataset:
        assert len(dataset.dimensions["time"]) == length + 1


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
@pytest.mark.parametrize("name", ["climate_history", "fill_values", "cdf1_all", "cdf5_all"])
def test_xarray_decodes_the_same(knarr, made, out, name, engine):
    source = made("netcdf", name)
    target = knarr.repack(source, out / source.name)
    with (
        xarray.open_dataset(source, engine="netcdf4", decode_times=False) as before,
        xarray.open_dataset(target, engine=engine, decode_times=False) as after,
    ):
        xarray.testing.assert_identical(before.load(), after.load())


def test_nccopy_reads_the_output(knarr, made, out):
    source = made("netcdf", "climate_history")
    target, copy = knarr.repack(source, out / "a.nc"), out / "copy.nc"
    subprocess.run(["nccopy", target, copy], check=True, env=knarr.environment)
    netcdf_compare.require_same(source, copy)


def test_every_goal_keeps_a_climate_file(knarr, made, out):
    source = made("netcdf", "climate_history")
    for goal in ("speed", "balanced", "ratio", "archive", "energy"):
        netcdf_compare.require_same(source, knarr.repack(source, out / f"{goal}.nc", "--goal", goal))


def test_many_inputs_into_a_folder(knarr, made, out):
    names = ["climate_history", "groups", "cdf1_all"]
    sources = [made("netcdf", name) for name in names]
    knarr("repack", *sources, "-o", out)
    assert sorted(path.name for path in outputs(out)) == sorted(source.name for source in sources)
    for source in sources:
        netcdf_compare.require_same(source, out / source.name)


def test_user_defined_attribute_order_is_kept(knarr, made, out):
    source = made("netcdf", "climate_history")
    target = knarr.repack(source, out / "a.nc")
    with netCDF4.Dataset(source) as before, netCDF4.Dataset(target) as after:
        for name in before.variables:
            assert before.variables[name].ncattrs() == after.variables[name].ncattrs()


def test_a_name_ends_at_its_first_nul(knarr, tmp_path, out):
    """netCDF-C's own reference files count the padding of names in."""
    source = tmp_path / "in.nc"
    with netCDF4.Dataset(source, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("ppqqqqqq", 3)
        file.createVariable("values", "f4", ("ppqqqqqq",))[:] = [1, 2, 3]
    source.write_bytes(source.read_bytes().replace(b"ppqqqqqq", b"pp" + bytes(6)))
    with netCDF4.Dataset(knarr.repack(source, out / "a.nc")) as file, netCDF4.Dataset(source) as before:
        assert list(file.dimensions) == list(before.dimensions) == ["pp"]
        assert file["values"][:].tolist() == [1, 2, 3]
