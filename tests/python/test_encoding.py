"""`knarr.encoding` for what xarray turns into numbers as it writes (packed values, dates, truth values), and for more
than memory should hold.
"""

from __future__ import annotations

import tracemalloc
import warnings
from pathlib import Path

import dask.array
import hdf5plugin  # noqa: F401  (registers the filters that the encodings name)
import numpy as np
import pytest
import xarray

import knarr
from knarr._sample import BOX, BOXES, LARGEST, sample

ENGINES = ("h5netcdf", "netcdf4", "zarr")


def write(ds: xarray.Dataset, path: Path, engine: str, **how: object) -> xarray.Dataset:
    """What is stored in `path` after it was written with `engine`."""
    if engine == "zarr":
        ds.to_zarr(path, zarr_format=3, consolidated=False, mode="w", **how)
        return xarray.open_dataset(path, engine="zarr", consolidated=False, decode_cf=False)
    ds.to_netcdf(path, engine=engine, **how)
    return xarray.open_dataset(path, engine=engine, decode_cf=False)


@pytest.fixture
def turned() -> xarray.Dataset:
    """Variables that xarray stores as other numbers than it shows."""
    hours = np.datetime64("2001-01-01", "ns") + np.arange(3000) * np.timedelta64(1, "h")
    smooth = np.cumsum(np.random.default_rng(1).normal(size=3000))
    gaps = np.where(np.arange(3000) % 7 == 0, np.nan, smooth)
    ds = xarray.Dataset(
        {name: ("time", gaps.copy()) for name in ("packed", "single", "unsigned", "plain")}
        | {"mask": ("time", smooth > 0), "lag": ("time", np.arange(3000) * np.timedelta64(90, "s").astype("m8[ns]"))},
        {"time": hours},
    )
    ds["packed"].encoding = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 3.0, "_FillValue": -32768}
    ds["single"].encoding = {"dtype": "f4", "_FillValue": np.float32(1e20)}
    ds["unsigned"].encoding = {"dtype": "i1", "_Unsigned": "true", "scale_factor": 1.0, "_FillValue": np.int8(-1)}
    ds["time"].encoding = {"units": "hours since 1900-01-01", "calendar": "standard", "dtype": "i4"}
    ds["unsigned"].values = np.where(np.isnan(gaps), np.nan, np.abs(gaps).round() % 250)
    return ds


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("opened", [False, True], ids=["made", "opened"])
def test_what_is_stored_stays_and_gets_smaller(tmp_path, turned, engine, opened):
    """Values, types and attributes are those that xarray stores without these encodings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if opened:
            write(turned, tmp_path / "first", engine).close()
            how = {"consolidated": False} if engine == "zarr" else {}
            turned = xarray.open_dataset(tmp_path / "first", engine=engine, decode_timedelta=True, **how).load()
            for variable in turned.variables.values():
                variable.encoding.pop("compressors", None)
        encoding = knarr.encoding(turned, engine=engine)
        assert set(encoding) == set(turned.variables)
        plain = write(turned, tmp_path / "plain", engine)
        packed = write(turned, tmp_path / "packed", engine, encoding=encoding)
    for name in turned.variables:
        assert packed[name].dtype.newbyteorder("=") == plain[name].dtype.newbyteorder("="), name
        assert packed[name].values.tobytes() == plain[name].values.astype(packed[name].dtype).tobytes(), name
        assert str(packed[name].attrs) == str(plain[name].attrs), name
        assert packed[name].encoding.get("chunksizes", packed[name].encoding.get("chunks")) == (3000,)


def test_a_sample_is_read_of_what_memory_should_not_hold():
    """Of 16 GiB, in Dask's blocks and in rows."""
    read = []

    def block(block_info: dict) -> np.ndarray:
        place, shape = block_info[None]["array-location"], block_info[None]["chunk-shape"]
        read.append(int(np.prod(shape)) * 8)
        return np.add.outer(np.arange(*place[0]), np.arange(shape[1] * shape[2])).reshape(shape).astype("f8")

    blocks = ((4,) * 512, (1024,), (1024,))
    lazy = dask.array.map_blocks(block, chunks=blocks, dtype="f8", meta=np.empty((0, 0, 0)))
    ds = xarray.Dataset({"T": (("time", "y", "x"), lazy)})
    tracemalloc.start()
    encoding = knarr.encoding(ds, engine="zarr")
    advice = knarr.advise(ds)["T"]
    assert tracemalloc.get_traced_memory()[1] < 6 * BOX * BOXES
    tracemalloc.stop()
    assert sum(read) <= 2 * BOXES * 8 * BOX and all(4 % n == 0 or n == 1 for n in encoding["T"]["chunks"][:1])
    assert advice.ratio > 2


def test_blocks_of_any_size_give_a_sample():
    """Axes on which no chunk but one of 1 divides all blocks, and blocks of a few elements."""
    for sizes in ((4, 3, 5) * 400, (1,) * 5000):
        blocks = (sizes, (1000, 1500), (3, 4))
        lazy = dask.array.zeros([sum(sizes), 2500, 7], chunks=blocks, dtype="f4")
        assert sample(xarray.Variable(("t", "y", "x"), lazy)).nbytes >= BOXES * 1500 * 4 * 4


@pytest.mark.parametrize(
    ("shape", "blocks"), [((1_000_003,), 1_000_003), ((4, 1009, 2003), (1, 1009, 2003)), ((6, 64, 10), (2, 64, 10))]
)
def test_blocks_that_nothing_divides_are_not_cut_to_crumbs(tmp_path, shape, blocks):
    ds = xarray.Dataset({"v": (("t", "y", "x")[: len(shape)], dask.array.ones(shape, chunks=blocks, dtype="f8"))})
    encoding = knarr.encoding(ds, engine="zarr")
    ds.to_zarr(tmp_path / "a.zarr", encoding=encoding, zarr_format=3, consolidated=False)
    assert sum(path.is_file() for path in (tmp_path / "a.zarr" / "v").rglob("*")) <= 64


def test_blocks_that_differ_are_left_to_xarray(tmp_path):
    ones = dask.array.ones((24, 100, 100), chunks=((4, 3, 5, 12), (40, 60), (30, 70)))
    ds = xarray.Dataset({"v": (("t", "y", "x"), ones)})
    with pytest.raises(ValueError, match="uniform chunk sizes"):
        ds.to_zarr(tmp_path / "a.zarr", encoding=knarr.encoding(ds, engine="zarr"), zarr_format=3, consolidated=False)


def test_samples_are_spread_over_all_axes():
    small = np.arange(10.0)
    assert sample(small) is small
    for shape in ((64, 4, 1 << 17), (1, 1 << 25), (1 << 25, 1)):
        array = np.lib.stride_tricks.as_strided(np.zeros(1), shape, (0,) * len(shape))
        found = sample(array)
        assert found.ndim == array.ndim and LARGEST >= found.nbytes > LARGEST // 2
    rows = np.repeat(np.arange(1 << 12, dtype="f8"), 1 << 12).reshape(1 << 12, 1 << 12)
    seen = np.unique(sample(rows)[:, 0]) / len(rows)
    assert seen.min() < 0.1 and seen.max() > 0.9 and np.diff(seen).max() < 0.2


@pytest.mark.parametrize("values", [np.array(["a", "b"] * 2000), np.array([b"x"] * 3000), np.array([[1j]] * 3000)])
def test_what_holds_no_numbers_gets_no_encoding(values):
    ds = xarray.Dataset({"v": (("x", "y")[: values.ndim], values)})
    assert knarr.encoding(ds) == {} and "not encoded" in knarr.advise(ds)["v"].reason


def test_values_that_do_not_fit_are_left_to_xarray():
    """Whole numbers without a fill value cannot hold NaN: to write them is an error of xarray's, not of the advice."""
    ds = xarray.Dataset({"v": ("x", np.full(3000, np.nan))})
    ds["v"].encoding = {"dtype": "i4"}
    assert set(knarr.encoding(ds)) <= {"v"}
