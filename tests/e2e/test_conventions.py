"""What attributes of netCDF mean: missing values, valid ranges, packing, coordinates, text in old encodings."""

from __future__ import annotations

import subprocess
from pathlib import Path

import netCDF4
import numpy as np
import pytest

from conftest import Knarr


def written(path: Path, values: np.ndarray, **attributes: object) -> Path:
    fill = attributes.pop("_FillValue", None)
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", values.size)
        variable = file.createVariable("v", values.dtype, ("x",), fill_value=fill)
        variable.set_auto_maskandscale(False)
        variable.setncatts(attributes)
        variable[:] = values
    return path


def read(path: Path, masked: bool = True, scaled: bool = False) -> np.ndarray:
    with netCDF4.Dataset(path) as file:
        file["v"].set_auto_mask(masked)
        file["v"].set_auto_scale(scaled)
        return file["v"][:]


def rounded(knarr: Knarr, path: Path, *bounds: str) -> Path:
    out = path.with_name("out.nc")
    knarr("repack", path, "-o", out, "--force", "--portable", "core", *bounds)
    assert knarr.json("verify", path, out)["equal"]
    return out


def noise(size: int = 20_000) -> np.ndarray:
    return np.random.default_rng(2).normal(size=size)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    "attributes",
    [
        {"_FillValue": 0.0},
        {"_FillValue": -0.0},
        {"missing_value": 0.0},
        {"valid_range": [-0.02, 0.015]},
        {"valid_max": [0.015]},
        {"valid_min": [-0.02]},
    ],
    ids=str,
)
def test_what_is_missing_stays_and_nothing_becomes_missing(
    knarr: Knarr, tmp_path: Path, dtype: str, attributes: dict
) -> None:
    values = (0.01 * noise()).astype(dtype)
    # Plateaus at the limits, which rounding could cross.
    values[::7], values[1::7] = np.array(0.015, dtype), np.array(-0.02, dtype)
    of_type = {name: np.array(value, dtype) for name, value in attributes.items()}
    path = written(tmp_path / "in.nc", values, **of_type)
    before, after = read(path), read(rounded(knarr, path, "--max-abs-error", "0.005"))
    assert np.array_equal(np.ma.getmaskarray(before), np.ma.getmaskarray(after))
    missing = np.ma.getmaskarray(before)
    assert np.array_equal(before.data[missing], after.data[missing])
    assert 0 < np.abs(before - after).max() <= 0.005


def test_values_out_of_the_valid_range_are_no_part_of_it(knarr: Knarr, tmp_path: Path) -> None:
    values = np.append(noise(), 1e10).astype("f4")
    path = written(tmp_path / "in.nc", values, valid_max=np.float32(100))
    after = read(rounded(knarr, path, "--max-range-error", "0.001"), masked=False)
    width = values[:-1].max() - values[:-1].min()
    assert after[-1] == values[-1] and np.abs(after - values).max() <= 0.001 * width


def test_bounds_are_in_the_unit_of_unpacked_values(knarr: Knarr, tmp_path: Path) -> None:
    packing = {"scale_factor": np.float64(-100), "add_offset": np.float64(7)}
    path = written(tmp_path / "in.nc", noise().astype("f4"), **packing)
    before = read(path, scaled=True)
    out = rounded(knarr, path, "--max-abs-error", "0.5", "--exact-from", "150")
    error = np.abs(read(out, scaled=True) - before)
    assert 0.1 < error.max() <= 0.5 and error[before >= 150].max() == 0
    # What is relative to unpacked values cannot be promised for stored ones.
    out = rounded(knarr, path, "--significant-digits", "3")
    assert np.array_equal(read(out), read(path))
    refused = knarr("repack", path, "-o", out, "--force", "--significant-digits", "v=3", ok=False)
    assert refused.returncode != 0 and "scale_factor" in refused.stderr and "max_abs_error" in refused.stderr


def test_coordinates_are_spared_however_they_are_named(knarr: Knarr, tmp_path: Path) -> None:
    path = tmp_path / "in.nc"
    spared = ["geo/lat", "geo/lon", "node_x", "station", "nav_lat", "when", "level"]
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 1000)
        file.coordinates = "station"
        for name in ["T", "mesh", *spared]:
            file.createVariable(name, "f8", ("x",))[:] = noise(1000)
        file["T"].coordinates = "/geo/lat ../geo/lon"
        file["mesh"].node_coordinates = "node_x"
        file["nav_lat"].units = "degrees_north"
        file["when"].units = "days since 2000-01-01"
        file["level"].axis = "Z"
    out = rounded(knarr, path, "--max-abs-error", "0.5")
    with netCDF4.Dataset(path) as before, netCDF4.Dataset(out) as after:
        equal = {name: np.array_equal(before[name][:], after[name][:]) for name in ["T", *spared]}
    assert not equal.pop("T") and all(equal.values()), equal


def test_text_of_old_encodings_is_kept_byte_by_byte(knarr: Knarr, tmp_path: Path) -> None:
    path, out, peer = (tmp_path / name for name in ("in.nc", "out.nc", "peer.nc"))
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("x", 1000)
        file.institution = "UniversitXt"
        variable = file.createVariable("v", "f4", ("x",))
        variable[:] = noise(1000)
        variable.units = "XC"
    path.write_bytes(path.read_bytes().replace(b"XC", b"\xb0C").replace(b"Xt", b"\xe4t"))
    knarr("repack", path, "-o", out)
    subprocess.run(["nccopy", "-k", "nc4", path, peer], check=True)
    header = [
        subprocess.run(["ncdump", "-h", name], check=True, capture_output=True).stdout.split(b"{", 1)[1]
        for name in (out, peer)
    ]
    assert b"\xb0C" in header[0] and b"\xe4t" in header[0] and header[0] == header[1]
    assert knarr.json("verify", path, out)["equal"]
    knarr("repack", path, "-o", tmp_path / "out.zarr")
    assert knarr.json("verify", path, tmp_path / "out.zarr")["equal"]


def test_attributes_of_the_type_of_their_variable_come_back_from_zarr(knarr: Knarr, tmp_path: Path) -> None:
    path = tmp_path / "in.nc"
    attributes = {
        "i2": {"valid_range": [0, 100], "flag_values": [1, 2], "missing_value": [-1, -2]},
        "u1": {"flag_masks": [1, 2, 128]},
        "f4": {"valid_min": 0.1, "valid_max": 300, "missing_value": [1e20, -9999]},
        "f8": {"actual_range": [0.1, 1e300], "valid_range": [0, 7]},
    }
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 100)
        for dtype, named in attributes.items():
            variable = file.createVariable(dtype, dtype, ("x",))
            variable[:] = np.arange(100)
            variable.setncatts({name: np.array(value, dtype) for name, value in named.items()})
        # In the type of unpacked values.
        file["i2"].valid_max = np.float64(7)
    knarr("repack", path, "-o", tmp_path / "a.zarr")
    knarr("repack", tmp_path / "a.zarr", "-o", tmp_path / "out.nc")
    with netCDF4.Dataset(path) as before, netCDF4.Dataset(tmp_path / "out.nc") as after:
        for name, variable in before.variables.items():
            for attribute in variable.ncattrs():
                was, now = np.asarray(variable.getncattr(attribute)), np.asarray(after[name].getncattr(attribute))
                assert was.dtype == now.dtype and np.array_equal(was, now), (name, attribute, was, now)
