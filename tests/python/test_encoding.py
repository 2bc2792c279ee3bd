"""`knarr.encoding` for what xarray turns into numbers as it writes (packed values, dates, truth values), and for more
than memory should hold.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path

import dask.array
import h5py
import hdf5plugin  # noqa: F401  (registers the filters that the encodings name)
import numpy as np
import pytest
import xarray

import knarr
from knarr import _knarr
from knarr._encoding import _h5netcdf, _netcdf4
from knarr._request import request
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


def filters_of(path: Path, name: str) -> list[tuple[int, tuple[int, ...]]]:
    """Number and client data of each filter of a dataset, in order."""
    with h5py.File(path) as file:
        properties = file[name].id.get_create_plist()
        found = [properties.get_filter(at) for at in range(properties.get_nfilters())]
    return [(number, tuple(values)) for number, _, values, _ in found]


def fields() -> dict[str, np.ndarray]:
    """Data of which each suits another chain."""
    random = np.random.default_rng(5)
    smooth = np.cumsum(np.cumsum(random.normal(size=(60, 90, 80)), 1), 2)
    return {
        "smooth": smooth.astype("f4"),
        "decimal": smooth.round(1),
        "count": random.poisson(2.0, smooth.shape).astype("i4"),
        "tiled": np.broadcast_to(np.linspace(0, 1, 80), smooth.shape).astype("f4"),
        "noise": random.normal(size=smooth.shape),
    }


@pytest.mark.parametrize("portable", ["core", "standard", "knarr"])
@pytest.mark.parametrize(("engine", "keys_of"), [("h5netcdf", _h5netcdf), ("netcdf4", _netcdf4)])
@pytest.mark.parametrize("dtype", ["i2", "f4", "f8"])
def test_every_chain_that_can_come_out_is_written_as_it_was_ranked(tmp_path, engine, keys_of, portable, dtype):
    """The filters are read back from the file: engines drop what they do not know without a word."""
    values = np.add.outer(np.arange(64), np.arange(80)).astype(dtype)
    native = {"i2": "i16", "f4": "f32", "f8": "f64"}[dtype]
    wishes = request(goal=None, portable=portable, quality={})
    forms = json.loads(_knarr.chain_forms(native, [32, 40], "nc", wishes))
    written = 0
    for number, (chain, form) in enumerate(forms.items()):
        keys = keys_of(form, (32, 40))
        if keys is not None:
            path = tmp_path / f"{number}.nc"
            xarray.Dataset({"v": (("y", "x"), values)}).to_netcdf(path, engine=engine, encoding={"v": keys})
            asked = [(one["id"], tuple(one["cd_values"])) for one in form["hdf5"]]
            stored = filters_of(path, "v")
            # Shuffle learns the size of an element, which it is asked for without.
            assert [number for number, _ in stored] == [number for number, _ in asked], chain
            assert stored[-1] == asked[-1], chain
            written += 1
    assert written >= (4 if portable == "core" else 6)


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
@pytest.mark.parametrize("goal", ["speed", "balanced", "ratio"])
def test_more_readers_never_make_files_larger(tmp_path, engine, goal):
    ds = xarray.Dataset({name: (("t", "y", "x"), values) for name, values in fields().items()})
    sizes = {}
    for portable in ("core", "standard"):
        path = tmp_path / f"{portable}.nc"
        encoding = knarr.encoding(ds, engine=engine, goal=goal, portable=portable)
        assert set(encoding) == set(ds.variables)
        ds.to_netcdf(path, engine=engine, encoding=encoding)
        sizes[portable] = path.stat().st_size
        xarray.testing.assert_identical(xarray.open_dataset(path, engine=engine).load(), ds)
    if goal != "speed":
        assert sizes["standard"] <= 1.02 * sizes["core"], sizes


def test_the_example_of_the_readme_opens_in_plain_xarray(tmp_path):
    """Without hdf5plugin, in both engines; the store without codecs that zarr-python warns of."""
    ds = xarray.Dataset({name: (("t", "y", "x"), values) for name, values in fields().items()})
    ds.to_netcdf(tmp_path / "in.nc")
    program = """
import sys, warnings, xarray, knarr
warnings.simplefilter("error", UserWarning)
ds = xarray.open_dataset("in.nc")
ds.to_netcdf("h5netcdf.nc", engine="h5netcdf", encoding=knarr.encoding(ds))
ds.to_netcdf("netcdf4.nc", engine="netcdf4", encoding=knarr.encoding(ds, engine="netcdf4"))
ds.to_zarr("small.zarr", encoding=knarr.encoding(ds, engine="zarr"), consolidated=False)
for name in ("h5netcdf.nc", "netcdf4.nc"):
    for engine in (None, "h5netcdf", "netcdf4"):
        xarray.testing.assert_identical(xarray.open_dataset(name, engine=engine).load(), ds)
xarray.testing.assert_identical(xarray.open_zarr("small.zarr", consolidated=False).load(), ds)
assert "hdf5plugin" not in sys.modules
"""
    plain = {name: value for name, value in os.environ.items() if name != "HDF5_PLUGIN_PATH"}
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for store in (tmp_path / "small.zarr").iterdir():
        if store.is_dir():
            codecs = {codec["name"] for codec in json.loads((store / "zarr.json").read_text())["codecs"]}
            assert codecs <= {"bytes", "transpose", "gzip", "blosc", "zstd", "crc32c", "sharding_indexed"}, store


@pytest.mark.parametrize("to", ["nc", "zarr", "h5"])
def test_advice_for_a_dataset_is_advice_for_its_file(tmp_path, to):
    """Of variables in one chunk: chains and what readers need."""
    ds = xarray.Dataset({name: (("y", "x"), values[0]) for name, values in fields().items()})
    ds.to_netcdf(tmp_path / "in.nc", engine="h5netcdf")
    of_file, of_dataset = knarr.advise(tmp_path / "in.nc", to=to), knarr.advise(ds, to=to)
    for name in ds.variables:
        assert of_dataset[name].chain == of_file[name].chain, name
        assert of_dataset[name].choice["reader"] == of_file[name].choice["reader"], name
