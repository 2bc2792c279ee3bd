"""`knarr.write` into a Zarr store that is there: regions, appending, templates; read back by xarray and zarr-python."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import dask.array
import numpy as np
import pytest
import xarray
import zarr

import knarr
from chances import repeated

pytestmark = [
    pytest.mark.filterwarnings("ignore::xarray.SerializationWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings(
        "ignore::zarr.errors.UnstableSpecificationWarning", "ignore::zarr.errors.ZarrUserWarning"
    ),
]
DAYS, ROWS, COLUMNS = 24, 30, 40


def dataset(seed: int = 1, days: int = DAYS, first: int = 0) -> xarray.Dataset:
    """Variables with and without time, packed, of truth values, of strings and of times."""
    rng = np.random.default_rng(seed)
    time = np.datetime64("2000-01-01", "ns") + np.arange(first, first + days) * np.timedelta64(1, "D")
    made = xarray.Dataset(
        {
            "T": (("time", "y", "x"), rng.normal(280, 10, (days, ROWS, COLUMNS)).astype("f4"), {"units": "K"}),
            "packed": (("time", "y", "x"), rng.normal(size=(days, ROWS, COLUMNS)).round(1)),
            "counts": (("y", "time", "x"), rng.integers(0, 9, (ROWS, days, COLUMNS))),
            "mask": (("time", "y", "x"), rng.normal(size=(days, ROWS, COLUMNS)) > 0),
            "names": (("time", "x"), rng.integers(0, 99, (days, COLUMNS)).astype(str).astype(object)),
            "when": ("time", time + np.timedelta64(1, "h")),
        },
        {"time": time, "y": np.arange(ROWS) * 2, "area": (("y", "x"), rng.normal(size=(ROWS, COLUMNS)))},
        {"title": "part"},
    )
    made["packed"].encoding = {"dtype": "i2", "scale_factor": 0.1, "add_offset": 1.0, "_FillValue": -999}
    made["time"].encoding = {"units": "hours since 1900-01-01", "calendar": "standard", "dtype": "i4"}
    made["when"].encoding = {"units": "hours since 1900-01-01", "calendar": "standard", "dtype": "i4"}
    return made


def with_time(ds: xarray.Dataset) -> xarray.Dataset:
    return ds.drop_vars([name for name, variable in ds.variables.items() if "time" not in variable.dims])


def by_knarr(ds: xarray.Dataset, path: Path, **options: object) -> None:
    knarr.write(ds.chunk({"time": 5}), path, **options)


def by_xarray(ds: xarray.Dataset, path: Path, **encoding: object) -> None:
    """Codecs as xarray has them, or of every kind of objects."""
    chunks = {"T": (5, 30, 7), "packed": (4, 10, 40), "counts": (30, 3, 9), "mask": (7, 8, 9), "names": (5, 40)}
    of = {name: {"chunks": chunk} for name, chunk in chunks.items()}
    of["T"] |= {"shards": (10, 30, 21), "compressors": zarr.codecs.BloscCodec(cname="zstd", clevel=3)}
    of["packed"] |= {"compressors": (zarr.codecs.GzipCodec(level=3), zarr.codecs.Crc32cCodec())}
    of["counts"] |= {"filters": (zarr.codecs.TransposeCodec(order=(2, 0, 1)),)}
    ds.to_zarr(path, zarr_format=3, encoding=of)


def read(path: Path | str, **options: object) -> xarray.Dataset:
    with xarray.open_zarr(path, **options) as ds:
        return ds.load()


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def python(code: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("chunks", [None, {"time": 3, "x": 17}], ids=["numpy", "dask"])
@pytest.mark.parametrize("make", [by_knarr, by_xarray])
def test_a_region_reads_as_what_to_zarr_writes(tmp_path, make, chunks):
    for name in ("ours.zarr", "plain.zarr"):
        make(dataset(), tmp_path / name)
    region = {"time": slice(7, 18)}
    part = with_time(dataset(2)).isel(region)
    part = part if chunks is None else part.chunk(chunks)
    before = {path: path.read_bytes() for path in (tmp_path / "ours.zarr").rglob("zarr.json")}
    done = knarr.write(part.drop_vars("time"), tmp_path / "ours.zarr", region=region)
    assert before == {path: path.read_bytes() for path in before}, "metadata stay as they are"
    part.load().drop_vars("time").to_zarr(tmp_path / "plain.zarr", region=region, safe_chunks=False)
    xarray.testing.assert_identical(read(tmp_path / "ours.zarr"), read(tmp_path / "plain.zarr"))
    assert done.objects > done.rewritten > 0 and done.output_bytes > 0
    assert all(".knarr-" not in path.name for path in (tmp_path / "ours.zarr").rglob("*"))


def test_a_region_is_found_by_its_coordinates(tmp_path):
    by_knarr(dataset(), tmp_path / "out.zarr")
    part = with_time(dataset(2)).isel(time=slice(3, 9), x=slice(5, 40))
    knarr.write(part, tmp_path / "out.zarr", region={"time": "auto", "x": slice(5, 40)})
    expected = dataset()
    for name in ("T", "packed", "counts", "mask", "names"):
        expected[name][{"time": slice(3, 9), "x": slice(5, 40)}] = part[name]
    expected["when"][3:9] = part["when"]
    back = read(tmp_path / "out.zarr")
    np.testing.assert_allclose(back["packed"], expected["packed"], atol=0.051)
    xarray.testing.assert_equal(back.drop_vars("packed"), expected.drop_vars("packed"))
    knarr.write(dataset(3)[["T"]].drop_vars(["area"]), tmp_path / "out.zarr", region="auto")
    np.testing.assert_array_equal(read(tmp_path / "out.zarr")["T"], dataset(3)["T"])
    with pytest.raises(KeyError, match="time"):
        knarr.write(with_time(dataset(2, first=99)), tmp_path / "out.zarr", region={"time": "auto"})


def random_store(rng: random.Random, path: Path, ours: bool) -> np.ndarray:
    """An array of zarr-python's or Knarr's with random chunks, shards and codecs."""
    rank = rng.randint(1, 3)
    shape = tuple(rng.randint(1, 30) for _ in range(rank))
    dtype = rng.choice(["f4", "f8", "i2", "u1", "i8", "f2"])
    values = np.random.default_rng(rng.getrandbits(32)).integers(0, 99, shape).astype(dtype)
    chunk = tuple(rng.randint(1, n + 3) for n in shape)
    names = [f"d{axis}" for axis in range(rank)]
    if ours:
        chain = rng.choice(["raw", "zstd:3", "blosc", "gzip:1", "shuffle | zstd:1", "lz4-sized"])
        text = "x".join(str(min(c, n)) for c, n in zip(chunk, shape, strict=True))
        options = {"chain": chain, "portable": "standard"} if dtype != "f2" else {}
        knarr.write(xarray.Dataset({"v": (names, values)}), path, variables={"v": {"chunks": text}}, **options)
        return values
    shards = None
    if rng.random() < 0.5:
        extents = tuple(c * rng.randint(1, 3) for c in chunk)
        shards = {"shape": extents, "index_location": rng.choice(["start", "end"])}
    compressors = rng.choice([(), (zarr.codecs.ZstdCodec(level=1),), (zarr.codecs.Crc32cCodec(),), "auto"])
    group = zarr.create_group(path, zarr_format=3)
    array = group.create_array(
        "v",
        shape=shape,
        dtype=dtype,
        chunks=chunk,
        shards=shards,
        compressors=compressors,
        fill_value=rng.choice([0, 7]),
        dimension_names=names,
        chunk_key_encoding={"name": rng.choice(["default", "v2"]), "separator": rng.choice(["/", "."])},
    )
    if rng.random() < 0.3:
        return np.full(shape, array.fill_value, dtype)
    array[...] = values
    return values


@pytest.mark.parametrize("seed", range(40))
def test_random_regions_of_random_stores(tmp_path, seed):
    rng = random.Random(seed)
    expected = random_store(rng, tmp_path / "v.zarr", seed % 2 == 0).copy()
    consolidated = None if seed % 2 == 0 else False
    for _ in range(4):
        region = {}
        for axis, length in enumerate(expected.shape):
            start = rng.randint(0, length - 1)
            region[f"d{axis}"] = slice(start, rng.randint(start + 1, length))
        place = tuple(region.values())
        values = np.random.default_rng(rng.getrandbits(32)).integers(0, 99, expected[place].shape)
        values = values.astype(expected.dtype)
        part = xarray.Dataset({"v": (list(region), values)})
        part = part.chunk({name: rng.randint(1, 9) for name in region}) if rng.random() < 0.5 else part
        knarr.write(part, tmp_path / "v.zarr", region=region)
        expected[place] = values
        np.testing.assert_array_equal(zarr.open_group(tmp_path / "v.zarr", mode="r")["v"][...], expected)
    axis = rng.randrange(expected.ndim)
    shape = list(expected.shape)
    shape[axis] = rng.randint(1, 20)
    more = np.random.default_rng(seed).integers(0, 99, shape).astype(expected.dtype)
    names = [f"d{n}" for n in range(expected.ndim)]
    knarr.write(xarray.Dataset({"v": (names, more)}), tmp_path / "v.zarr", append_dim=f"d{axis}")
    expected = np.concatenate([expected, more], axis)
    np.testing.assert_array_equal(read(tmp_path / "v.zarr", consolidated=consolidated)["v"], expected)
    assert knarr.verify(tmp_path / "v.zarr", tmp_path / "v.zarr")


CHAINS = [
    "raw", "zstd:7", "gzip:4", "deflate:2", "bzip2:3", "xz:1", "lz4-sized", "blosc:lz4,level=4,shuffle=bit",
    "blosc:zstd,level=9,shuffle=no", "shuffle | zstd:1", "delta | shuffle:4 | zstd:3", "pcodec:5", "fletcher32",
]  # fmt: skip


@pytest.mark.parametrize("chain", CHAINS)
def test_knarr_has_the_chains_of_its_own_stores(tmp_path, chain):
    values = np.arange(4000, dtype="i4").reshape(40, 100)
    knarr.write(xarray.Dataset({"v": (("y", "x"), values)}), tmp_path / "v.zarr", chain=chain, portable="standard")
    assert knarr._knarr.StoredZarr(tmp_path / "v.zarr", "{}").is_own("/v")
    before = (tmp_path / "v.zarr/v/c/0/0").read_bytes()
    knarr.write(xarray.Dataset({"v": (("y", "x"), values)}), tmp_path / "v.zarr", region={"y": slice(0, 40)})
    assert (tmp_path / "v.zarr/v/c/0/0").read_bytes() == before, "encoded with all settings"


@pytest.mark.parametrize(
    "codecs, is_own",
    [
        ("auto", True),
        ((zarr.codecs.ZstdCodec(level=5),), True),
        ((zarr.codecs.GzipCodec(level=2),), True),
        ((zarr.codecs.BloscCodec(cname="lz4", clevel=2, shuffle="bitshuffle"),), True),
        ((zarr.codecs.ZstdCodec(level=5, checksum=True),), False),
        ((zarr.codecs.Crc32cCodec(),), False),
    ],
)
def test_zarr_python_encodes_what_knarr_has_no_chain_for(tmp_path, codecs, is_own):
    group = zarr.create_group(tmp_path / "v.zarr", zarr_format=3)
    group.create_array(
        "v", shape=(9, 9), dtype="f4", chunks=(4, 4), compressors=codecs, dimension_names=["y", "x"], fill_value=0
    )
    assert knarr._knarr.StoredZarr(tmp_path / "v.zarr", "{}").is_own("/v") == is_own
    part = xarray.Dataset({"v": (("y", "x"), np.ones((7, 6), "f4"))})
    done = knarr.write(part, tmp_path / "v.zarr", region={"y": slice(0, 7), "x": slice(3, 9)})
    assert (done.objects, done.rewritten) == (6, 4) and done.input_bytes == 168 and done.output_bytes > 6
    assert zarr.open_group(tmp_path / "v.zarr", mode="r")["v"][...].sum() == 42


@pytest.mark.parametrize("chunks", [None, {"time": 3}], ids=["numpy", "dask"])
@pytest.mark.parametrize("make", [by_knarr, by_xarray])
def test_appending_reads_as_what_to_zarr_appends(tmp_path, make, chunks):
    for name in ("ours.zarr", "plain.zarr"):
        make(dataset(), tmp_path / name)
    for turn, days in enumerate((11, 1, 30)):
        more = dataset(2 + turn, days, DAYS + 50 * turn)
        more["area"], more["y"] = dataset()["area"], dataset()["y"]
        more = more if chunks is None else more.chunk(chunks)
        done = knarr.write(more, tmp_path / "ours.zarr", append_dim="time")
        more.load().to_zarr(tmp_path / "plain.zarr", append_dim="time", safe_chunks=False)
        assert done.objects > 0
        for consolidated in (True, False):
            ours = read(tmp_path / "ours.zarr", consolidated=consolidated)
            xarray.testing.assert_identical(ours, read(tmp_path / "plain.zarr", consolidated=consolidated))


def test_stores_without_consolidated_metadata_grow(tmp_path):
    dataset().to_zarr(tmp_path / "out.zarr", zarr_format=3, consolidated=False)
    knarr.write(dataset(2, 5, DAYS), tmp_path / "out.zarr", append_dim="time")
    assert "consolidated_metadata" not in json.loads((tmp_path / "out.zarr/zarr.json").read_text())
    assert read(tmp_path / "out.zarr", consolidated=False).sizes["time"] == DAYS + 5


@pytest.mark.parametrize(
    "bound",
    [
        {"max_abs_error": 0.01},
        {"max_rel_error": 1e-3},
        {"significant_digits": 4},
        {"max_range_error": 1e-3},
        {"max_abs_error": 0.05, "exact_up_to": 265},
    ],
    ids=str,
)
@pytest.mark.parametrize("portable", [None, "knarr"])
def test_bounds_of_the_store_hold_and_older_values_keep_their_bits(tmp_path, bound, portable):
    store = tmp_path / "out.zarr"
    first, later = (dataset(seed)[["T"]].drop_vars(["area", "y"]) for seed in (1, 2))
    knarr.write(first.chunk({"time": 5}), store, variables={"T": bound}, portable=portable)
    allowed = bound.get("max_range_error", 0) * float(first["T"].max() - first["T"].min())

    def check(found, wanted):
        error = np.abs(found.astype("f8") - wanted.astype("f8"))
        limit = {
            "max_abs_error": lambda size: size,
            "max_rel_error": lambda size: size * np.abs(wanted),
            "significant_digits": lambda _: 0.05,
            "max_range_error": lambda _: allowed,
        }
        key, size = next(iter(bound.items()))
        assert np.all(error <= limit[key](size))
        assert np.any(error > 0), "it is rounded"
        if "exact_up_to" in bound:
            assert np.all(error[wanted <= 265] == 0)

    before = values_of(store)
    for start, stop in ((3, 8), (11, 12), (4, 23)):
        part = later.isel(time=slice(start, stop))
        done = knarr.write(part, store, region={"time": "auto"}, **bound_of(bound, start))
        after = values_of(store)
        check(after[start:stop], later["T"].values[start:stop])
        rest = np.ones(DAYS, bool)
        rest[start:stop] = False
        np.testing.assert_array_equal(after[rest].view("u4"), before[rest].view("u4"))
        assert done.rewritten > 0 and done.observed["/T"]["max_abs"] > 0
        before = after
    knarr.write(dataset(3, 4, DAYS)[["T"]].drop_vars("area"), store, append_dim="time")
    after = values_of(store)
    np.testing.assert_array_equal(after[:DAYS].view("u4"), before.view("u4"))
    check(after[DAYS:], dataset(3, 4, DAYS)["T"].values)


def bound_of(bound: dict[str, float], start: int) -> dict[str, object]:
    """What the store says may be said again."""
    return {"variables": {"T": bound}} if start == 11 else {}


def values_of(store: Path) -> np.ndarray:
    """The values of T, through Knarr: not all chains are read by others."""
    knarr.repack(store, store.with_suffix(".nc"), force=True)
    with xarray.open_dataset(store.with_suffix(".nc")) as ds:
        return ds["T"].values


def test_what_contradicts_the_store_is_an_error_and_changes_nothing(tmp_path):
    store = tmp_path / "out.zarr"
    knarr.write(dataset(), store, variables={"T": {"max_abs_error": 0.01}})
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    part = dataset(2)[["T"]].drop_vars(["area", "time", "y"]).isel(time=slice(2, 5))
    region = {"time": slice(2, 5)}
    for ds, options, error, words in [
        (part, {"region": region, "max_abs_error": 0.02}, ValueError, "max_abs_error=0.01"),
        (part, {"region": region, "chain": "zstd:3"}, ValueError, "chain is for a first write"),
        (part, {"region": region, "goal": "ratio"}, ValueError, "goal"),
        (part, {"region": region, "force": True}, ValueError, "force"),
        (part, {"region": region, "variables": {"T": {"quality": "lossless"}}}, ValueError, "variables"),
        (part, {"region": region, "variables": {"U": {"max_abs_error": 1}}}, ValueError, "U"),
        (part, {"region": region, "append_dim": "time"}, ValueError, "exclude"),
        (part, {"region": region, "compute": False}, ValueError, "first write"),
        (part, {"region": {"time": slice(2, 6)}}, ValueError, "different dimension sizes"),
        (part, {"region": {"time": slice(23, 26)}}, ValueError, "different dimension sizes"),
        (part, {"region": {"time": slice(2, 5, 2)}}, ValueError, "step"),
        (part, {"region": {"day": slice(2, 5)}}, ValueError, "day"),
        (part, {"region": 3}, TypeError, "dict"),
        (dataset(2).isel(time=slice(2, 5)), {"region": region}, ValueError, "drop_vars"),
        (part.rename(T="U"), {"region": region}, ValueError, "U"),
        (part.rename(x="z"), {"region": region}, ValueError, "dimension names"),
        (dataset(2)[["counts"]], {"append_dim": "time"}, ValueError, "grow together"),
        (dataset(2).assign(U=dataset()["T"]), {"append_dim": "time"}, ValueError, "U"),
        (dataset(2), {"append_dim": "day"}, ValueError, "day"),
        (dataset(2).isel(x=slice(9)), {"append_dim": "time"}, ValueError, "sizes"),
        (xarray.DataTree(part), {"region": region}, TypeError, "DataTree"),
    ]:
        with pytest.raises(error, match=words):
            knarr.write(ds, store, **options)
        assert before == {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}, words
    lossless = dataset(2)["area"].drop_vars("y").variable
    with pytest.raises(ValueError, match=r"area.*no value may change"):
        rows = xarray.Dataset({"area": lossless})
        knarr.write(rows, store, region={"y": slice(0, ROWS)}, variables={"area": {"max_abs_error": 0.3}})
    for name, words in (("out.nc", "whole dataset"), ("out.h5", "whole dataset"), ("out.zarr.zip", "whole dataset")):
        with pytest.raises(ValueError, match=words):
            knarr.write(part, tmp_path / name, region=region)
    with pytest.raises(FileNotFoundError, match="compute=False"):
        knarr.write(part, tmp_path / "none.zarr", region=region)
    dataset().to_zarr(tmp_path / "two.zarr", zarr_format=2)
    with pytest.raises(FileNotFoundError, match="version 3"):
        knarr.write(part, tmp_path / "two.zarr", region=region)
    with pytest.raises(ValueError, match="Zarr"):
        knarr.write(dataset().chunk(), tmp_path / "out.nc", compute=False)


WORKER = """
    import sys, numpy, xarray, knarr
    store, start, stop, turns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    for turn in range(turns):
        values = numpy.full((stop - start, 50, 60), start * 1000 + turn, "f4")
        part = xarray.Dataset({"v": (("time", "y", "x"), values)})
        knarr.write(part, store, region={"time": slice(start, stop)})
"""


@pytest.mark.parametrize("step", [8, 7], ids=["whole chunks", "shared chunks"])
def test_workers_fill_a_template(tmp_path, step):
    blocks = dask.array.zeros((4 * step, 50, 60), chunks=(8, 50, 60), dtype="f4")
    template = xarray.Dataset({"v": (("time", "y", "x"), blocks)}, {"time": np.arange(4 * step)})

    def refuse(block):
        raise AssertionError("computed")

    template["w"] = (("time", "y", "x"), blocks.map_blocks(refuse, dtype="f4", meta=np.empty((0, 0, 0), "f4")))
    knarr.write(template, tmp_path / "out.zarr", compute=False)
    empty = read(tmp_path / "out.zarr")
    np.testing.assert_array_equal(empty["time"], np.arange(4 * step))
    assert not (tmp_path / "out.zarr/v/c").exists() and zarr.open(tmp_path / "out.zarr")["v"].shards is None
    workers = [
        python(WORKER, tmp_path, "out.zarr", str(start), str(start + step), "5") for start in range(0, 4 * step, step)
    ]
    for worker in workers:
        _, error = worker.communicate(timeout=120)
        assert worker.returncode == 0, error
    expected = np.repeat(np.arange(4) * step * 1000 + 4, step)
    found = read(tmp_path / "out.zarr")["v"]
    np.testing.assert_array_equal(found, np.broadcast_to(expected[:, None, None], found.shape))


def test_appends_of_several_processes_follow_each_other(tmp_path):
    xarray.Dataset({"v": ("time", np.zeros(3))}).to_zarr(tmp_path / "out.zarr", zarr_format=3)
    program = """
        import sys, numpy, xarray, knarr
        for _ in range(5):
            part = xarray.Dataset({"v": ("time", numpy.full(4, float(sys.argv[1])))})
            knarr.write(part, "out.zarr", append_dim="time")
    """
    for worker in [python(program, tmp_path, str(number)) for number in (1, 2, 3)]:
        _, error = worker.communicate(timeout=120)
        assert worker.returncode == 0, error
    values = read(tmp_path / "out.zarr")["v"].values
    assert sorted(values) == [0] * 3 + [1] * 20 + [2] * 20 + [3] * 20
    assert np.all(np.ptp(values[3:].reshape(-1, 4), axis=1) == 0), "each append is in one piece"


def test_a_template_takes_what_can_be_said_beforehand(tmp_path):
    ds = dataset()[["T", "counts"]].chunk({"time": 6})
    knarr.write(ds, tmp_path / "out.zarr", compute=False, variables={"T": {"max_abs_error": 0.1}})
    assert "knarr_max_abs_error_measured" not in zarr.open(tmp_path / "out.zarr")["T"].attrs
    for start in range(0, DAYS, 6):
        part = ds.isel(time=slice(start, start + 6)).drop_vars(["area", "y"])
        knarr.write(part, tmp_path / "out.zarr", region={"time": "auto"})
    back = read(tmp_path / "out.zarr")
    np.testing.assert_array_equal(back["counts"], dataset()["counts"])
    assert 0 < np.abs(back["T"] - dataset()["T"]).max() <= 0.1
    with pytest.raises(ValueError, match="max_abs_error"):
        knarr.write(ds, tmp_path / "range.zarr", compute=False, max_range_error=0.01)
    assert not (tmp_path / "range.zarr").exists()


KILLED = """
    import sys, numpy, xarray, knarr
    mode, turn = sys.argv[1], int(sys.argv[2])
    values = numpy.full((10, 40, 500), turn, "f8")
    part = xarray.Dataset({name: (("time", "y", "x"), values) for name in "uvw"})
    print("begins", flush=True)
    where = {"append_dim": "time"} if mode == "append" else {"region": {"time": slice(3, 13)}}
    knarr.write(part, "out.zarr", jobs=1, **where)
    print("done", flush=True)
"""


@pytest.mark.kill
@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.parametrize("mode", ["append", "region"])
def test_a_kill_leaves_old_values_or_new_ones(tmp_path, mode, consolidated, chance):
    store = tmp_path / "out.zarr"
    first = xarray.Dataset({name: (("time", "y", "x"), np.zeros((20, 40, 500))) for name in "uvw"})
    first.chunk({"time": 3}).to_zarr(store, zarr_format=3, consolidated=consolidated)
    killed, expected = 0, read(store, consolidated=consolidated)
    longest = 0.4
    for turn in range(1, 1 + repeated(8)):
        child = python(KILLED, tmp_path, mode, str(turn))
        assert child.stdout.readline() == "begins\n"
        time.sleep(chance.uniform(0, longest))
        child.send_signal(signal.SIGKILL)
        out, _ = child.communicate()
        if "done" in out:
            # This machine is fast: later kills come sooner.
            longest /= 2
        else:
            killed += 1
        try:
            found = read(store, consolidated=consolidated)
        except ValueError as error:
            # Metadata of several arrays are not replaced all at once.
            assert mode == "append" and not consolidated and "conflicting sizes" in str(error)
            continue
        for name in "uvw":
            values, before = found[name].values, expected[name].values
            if mode == "region":
                is_new, is_old = values == turn, values == before
                assert np.all(is_new | is_old) and np.array_equal(values[:3], before[:3])
                assert np.array_equal(values[13:], before[13:])
            else:
                assert len(values) in (len(before), len(before) + 10)
                assert np.array_equal(values[: len(before)], before)
                assert np.all(values[len(before) :] == turn)
        assert "done" not in out or np.all(found["u"].values[3:13] == turn) or mode == "append"
        expected = found
    assert killed > 1
    # What follows is not in the way of what was left.
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), mode, "99"], cwd=tmp_path, check=True)
    assert done.returncode == 0
    values = read(store, consolidated=consolidated)["w"].values
    assert np.all((values[3:13] if mode == "region" else values[-10:]) == 99)
    assert mode == "append" or all(".knarr-" not in path.name for path in store.rglob("*"))


@pytest.mark.parametrize("written", range(5))
@pytest.mark.parametrize("consolidated", [True, False])
def test_an_append_that_ended_between_the_metadata_is_made_good_by_the_next(tmp_path, written, consolidated):
    store = tmp_path / "out.zarr"
    ds = dataset()[["T", "mask"]].drop_vars(["area", "y"])
    ds.to_zarr(store, zarr_format=3, consolidated=consolidated)
    child = python(
        """
        import sys, xarray, knarr
        from knarr._overlay import Overlay
        grown = Overlay.grown
        Overlay.grown = lambda self, shapes: grown(self, shapes)[:int(sys.argv[1])]
        more = xarray.open_zarr("out.zarr").load()
        more = more.assign_coords(time=more["time"] + more["time"].diff("time").sum() * 2)
        knarr.write(more, "out.zarr", append_dim="time")
        """,
        tmp_path,
        str(written),
    )
    _, error = child.communicate(timeout=60)
    assert child.returncode == 0, error
    if consolidated and written < 4:
        xarray.testing.assert_identical(read(store), ds)
    is_whole = written > (3 if consolidated else 2)
    more = dataset(3, 7, 2 * DAYS)[["T", "mask"]].drop_vars(["area", "y"])
    knarr.write(more, store, append_dim="time")
    found = read(store, consolidated=consolidated)
    assert found.sizes["time"] == (2 * DAYS if is_whole else DAYS) + 7
    xarray.testing.assert_equal(found.isel(time=slice(-7, None)), more)
    xarray.testing.assert_equal(found.isel(time=slice(DAYS)), ds)
    xarray.testing.assert_identical(found, read(store, consolidated=False))


@pytest.mark.parametrize("chain", ["grid", "grid | zstd:3"])
def test_stores_that_only_knarr_reads_take_parts(tmp_path, chain):
    store, name = tmp_path / "out.zarr", "T"
    ds = dataset()[["T", "counts"]].drop_vars(["area", "y"])
    knarr.write(ds, store, chain=chain, portable="knarr", chunks={"time": 7})
    assert "knarr.grid" in (store / name / "zarr.json").read_text()
    later = dataset(2)[["T", "counts"]].drop_vars(["area", "y"])
    knarr.write(later.isel(time=slice(5, 20)), store, region={"time": "auto"})
    more = dataset(3, 6, DAYS)[["T", "counts"]].drop_vars(["area", "y"])
    knarr.write(more.chunk({"time": 4}), store, append_dim="time")
    assert "knarr.grid" in (store / name / "zarr.json").read_text()
    found = values_of(store)
    np.testing.assert_array_equal(found[:5], ds[name][:5])
    np.testing.assert_array_equal(found[5:20], later[name][5:20])
    np.testing.assert_array_equal(found[20:DAYS], ds[name][20:])
    np.testing.assert_array_equal(found[DAYS:], more[name])


def test_a_full_disk_is_an_error_and_leaves_old_values_or_new_ones(tmp_path):
    store = tmp_path / "out.zarr"
    knarr.write(dataset()[["T"]].chunk({"time": 4}), store, chain="raw", chunks={"time": 4})
    child = python(
        """
        import resource, signal, numpy, xarray, knarr
        part = xarray.open_zarr("out.zarr")[["T"]].drop_vars(["area", "time", "y"]).load() + 1
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        for where in ({"region": {"time": slice(0, 24)}}, {"append_dim": "time"}):
            time = numpy.arange(24).astype("M8[D]").astype("M8[ns]")
            try:
                knarr.write(part if "region" in where else part.assign_coords(time=time), "out.zarr", **where)
            except OSError as error:
                print(error)
        """,
        tmp_path,
    )
    out, error = child.communicate(timeout=60)
    assert child.returncode == 0, error
    assert len(out.splitlines()) >= 2 and "out.zarr/T/c/" in out and "File too large" in out
    xarray.testing.assert_identical(read(store)["T"], dataset()["T"])
    assert all(".knarr-" not in path.name for path in store.rglob("*"))


def test_an_exception_of_a_block_is_passed_on_and_the_store_goes_on(tmp_path):
    store = tmp_path / "out.zarr"
    by_knarr(dataset(), store)

    def fail(block):
        raise LookupError("no such block")

    values = dask.array.zeros((10, ROWS, COLUMNS), chunks=(5, ROWS, COLUMNS), dtype="f4")
    broken = values.map_blocks(fail, dtype="f4", meta=np.empty((0, 0, 0), "f4"))
    part = xarray.Dataset({"T": (("time", "y", "x"), broken)})
    with pytest.raises(LookupError, match="no such block"):
        knarr.write(part, store, region={"time": slice(2, 12)})
    back = read(store)
    xarray.testing.assert_equal(back["T"], dataset()["T"])
    knarr.write(part.copy(data={"T": values}), store, region={"time": slice(2, 12)})
    assert np.all(read(store)["T"][2:12] == 0)


def test_dask_workers_write_regions(tmp_path):
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    ds = dataset()[["T", "counts"]].drop_vars(["area", "y"])
    knarr.write(ds.chunk({"time": 6}), tmp_path / "out.zarr", compute=False)
    store = str(tmp_path / "out.zarr")

    def fill(start):
        knarr.write(ds.isel(time=slice(start, start + 4)), store, region={"time": "auto"})
        return os.getpid()

    with (
        dask.config.set({"temporary-directory": str(tmp_path / "dask")}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = client.gather(client.map(fill, range(0, DAYS, 4)))
    assert os.getpid() not in pids
    xarray.testing.assert_equal(read(store), ds)
