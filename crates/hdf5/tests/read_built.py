"""Reads a netCDF-4 file that was built from a model and checks it. Argument: FILE"""

import sys

import netCDF4
import numpy as np
import xarray as xr

path = sys.argv[1]
with netCDF4.Dataset(path) as nc:
    assert nc.data_model == "NETCDF4", nc.data_model
    assert list(nc.ncattrs()) == ["title", "levels", "words", "empty"], nc.ncattrs()
    assert nc.title == "built é" and nc.empty == ""
    assert nc.levels.dtype == "f4" and nc.levels.tolist() == [1.5, 2.5]
    assert nc.words == ["a", "bb"]
    assert list(nc.dimensions) == ["time", "lat", "lon", "strlen", "phony_dim_0"], list(nc.dimensions)
    assert nc.dimensions["time"].isunlimited() and len(nc.dimensions["time"]) == 4
    assert list(nc.variables) == ["time", "T", "lat", "name", "grid", "lon", "bare"], list(nc.variables)
    t = nc.variables["T"]
    assert t.dimensions == ("time", "lat", "lon") and t.dtype == np.dtype(">f4"), (t.dimensions, t.dtype)
    assert t.chunking() == [2, 2, 3] and t.filters()["zlib"] is False
    assert t._FillValue == np.float32(-9)
    values = np.arange(24, dtype="f4").reshape(4, 2, 3)
    values[2:] = np.nan
    got = np.ma.filled(t[:].astype("f8"), np.nan)
    assert np.array_equal(got, values.astype("f8"), equal_nan=True), got
    assert nc.variables["time"].dimensions == ("time",) and nc.variables["time"][:].tolist() == [0, 1, 2, 3]
    assert nc.variables["name"].dtype == "S1" and netCDF4.chartostring(nc.variables["name"][:]).tolist() == ["ab", "cd"]
    assert nc.variables["grid"].shape == () and nc.variables["grid"][...] == 5
    assert nc.variables["grid"].grid_mapping_name == "x"
    # a two-dimensional variable called like a dimension that is not its first
    assert nc.variables["lon"].dimensions == ("lat", "lon"), nc.variables["lon"].dimensions
    assert nc.variables["bare"].dimensions == ("phony_dim_0",)
    g = nc.groups["sub"].groups["deep"]
    assert g.variables["v"].dimensions == ("time", "x")
    assert g.variables["x"].dimensions == ("x", "lon")
with xr.open_dataset(path, engine="netcdf4") as ds:
    assert set(ds.T.dims) == {"time", "lat", "lon"}
with xr.open_dataset(path, engine="h5netcdf") as ds:
    assert ds.T.shape == (4, 2, 3)
