"""`knarr.write`: datasets of xarray, read back by the readers that people have."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import dask
import dask.array
import netCDF4
import numpy as np
import pytest
import xarray
import zarr

import knarr

pytestmark = [
    pytest.mark.filterwarnings("ignore::xarray.SerializationWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings(
        "ignore::zarr.errors.UnstableSpecificationWarning", "ignore::zarr.errors.ZarrUserWarning"
    ),
]
OUTPUTS = ("nc", "h5", "zarr")
READERS = {"nc": ("netcdf4", "h5netcdf"), "h5": ("netcdf4", "h5netcdf"), "zarr": ("zarr",)}
# How values are stored, as xarray finds it in a file.
KEPT = ("dtype", "_FillValue", "missing_value", "units", "calendar", "scale_factor", "add_offset", "coordinates")
DAYS, ROWS, COLUMNS = 31, 60, 80


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where headers are written; empty after each test."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    yield tmp_path / "temporary"
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.fixture
def ds() -> xarray.Dataset:
    """Every kind of variable that xarray writes to netCDF and Zarr alike."""
    rng = np.random.default_rng(1)
    time = np.arange("2000-01-01", "2000-02-01", dtype="M8[D]").astype("M8[ns]")
    walk = np.cumsum(rng.normal(size=(DAYS, ROWS, COLUMNS)), axis=1)
    made = xarray.Dataset(
        {
            "T": (("time", "y", "x"), (280 + walk / 10).astype("f4"), {"units": "K", "range": np.array([1.0, 2.0])}),
            "packed": (("time", "y", "x"), walk.round(1)),
            "counts": (("y", "time", "x"), rng.integers(0, 9, (ROWS, DAYS, COLUMNS))),
            "big_endian": (("time", "y", "x"), walk.astype(">f8")),
            "mask": (("time", "y", "x"), walk > 0),
            "small_mask": ("x", np.arange(COLUMNS) % 3 == 0),
            "names": ("x", np.array([f"Zürich {n}" for n in range(COLUMNS)], dtype=object)),
            "letters": ("x", np.array([f"a{n}" for n in range(COLUMNS)], dtype="U4")),
            "scalar": ((), 3.5, {"long_name": "one value"}),
            "nothing": (("none", "x"), np.zeros((0, COLUMNS), "f4")),
            "lag": ("time", time - time[0]),
            "when": (("time", "x"), time[:, None] + np.arange(COLUMNS) * np.timedelta64(1, "h")),
        },
        {"time": time, "x": np.arange(COLUMNS) / 2, "area": (("y", "x"), rng.normal(size=(ROWS, COLUMNS)))},
        {"title": "Tést", "number": 5, "list": [1, 2, 3]},
    )
    made["T"][0, :5, :5] = np.nan
    made["packed"][1, :5, :5] = np.nan
    made["packed"].encoding = {"dtype": "i2", "scale_factor": 0.1, "add_offset": 1.0, "_FillValue": -999}
    made["T"].encoding = {"_FillValue": np.float32(1e20), "zlib": True, "chunksizes": (3, 3, 3), "chunks": (7, 7, 7)}
    made["time"].encoding = {"units": "hours since 1900-01-01", "calendar": "standard", "dtype": "i4"}
    made.encoding = {"unlimited_dims": {"time"}}
    return made


def plainly(ds: xarray.Dataset, path: Path) -> None:
    """As xarray writes by itself, which wants even blocks of Dask."""
    ds = ds.chunk({"time": 5}) if ds.chunks else ds
    for variable in (ds := ds.copy()).variables.values():
        for key in ("zlib", "chunksizes", "chunks"):
            variable.encoding.pop(key, None)
    if path.suffix == ".zarr":
        ds.to_zarr(path, zarr_format=3)
    else:
        ds.to_netcdf(path, engine="netcdf4")


@pytest.mark.parametrize(
    "chunks", [None, {"time": 5}, {"time": (2, 9, 1, 19), "y": 17}], ids=["numpy", "dask", "uneven"]
)
@pytest.mark.parametrize("suffix", OUTPUTS)
def test_reads_as_what_xarray_writes(ds, tmp_path, suffix, chunks):
    given = ds if chunks is None else ds.chunk(chunks)
    ours, plain = tmp_path / f"ours.{suffix}", tmp_path / f"plain.{suffix}"
    plainly(given, plain)
    before = {name: dict(variable.encoding) for name, variable in given.variables.items()}
    done = knarr.write(given, ours, portable="core")
    assert {name: dict(variable.encoding) for name, variable in given.variables.items()} == before
    assert done.output_bytes < done.input_bytes
    for engine in READERS[suffix]:
        with xarray.open_dataset(ours, engine=engine) as a, xarray.open_dataset(plain, engine=engine) as b:
            xarray.testing.assert_identical(a.load(), b.load())
            xarray.testing.assert_identical(a.drop_vars("packed"), ds.drop_vars("packed"))
            np.testing.assert_allclose(a["packed"], ds["packed"], atol=0.051)
            assert a.encoding.get("unlimited_dims") == b.encoding.get("unlimited_dims")
            for name in b.variables:
                stored = [{key: str(v.encoding[key]) for key in KEPT if key in v.encoding} for v in (a[name], b[name])]
                assert stored[0] == stored[1], name
    found = knarr.verify(plain, ours)
    assert found, [one for one in found.variables if one["difference"] != "equal"] + found.metadata


def test_ncdump_shows_what_it_shows_of_plain_files(ds, tmp_path):
    if (ncdump := shutil.which("ncdump")) is None:
        pytest.skip("ncdump is not installed")
    plainly(ds.chunk({"time": 5}), tmp_path / "plain.nc")
    knarr.write(ds.chunk({"time": 5}), tmp_path / "ours.nc")
    shown = [
        subprocess.run([ncdump, "-n", "same", tmp_path / f"{name}.nc"], capture_output=True, check=True).stdout
        for name in ("plain", "ours")
    ]
    assert b"time = UNLIMITED ; // (31 currently)" in shown[1]
    assert shown[0] == shown[1]


def test_dimensions_without_coordinates_grow(tmp_path):
    ds = xarray.Dataset({"v": (("t", "x"), np.arange(40000.0).reshape(400, 100)), "few": ("t", np.arange(400))})
    knarr.write(ds.chunk({"t": 100}), tmp_path / "out.nc", unlimited_dims=["t"])
    with netCDF4.Dataset(tmp_path / "out.nc", "a") as file:
        assert file.dimensions["t"].isunlimited()
        assert len(file.dimensions["t"]) == 400
        file["v"][400] = np.arange(100)
        file["few"][400] = 7
    with xarray.open_dataset(tmp_path / "out.nc") as grown:
        assert grown.sizes["t"] == 401
        np.testing.assert_array_equal(grown["v"][:400], ds["v"])


def test_every_bit_is_kept(tmp_path):
    bits = np.random.default_rng(2).integers(0, 2**32, (50, 700), dtype="u4").view("f4")
    for suffix in OUTPUTS:
        ds = xarray.Dataset({"v": (("y", "x"), bits)})
        ds["v"].encoding["_FillValue"] = None
        for name, given in (("numpy", ds), ("dask", ds.chunk({"y": 7}))):
            knarr.write(given, tmp_path / f"{name}.{suffix}")
            engine = "zarr" if suffix == "zarr" else "h5netcdf"
            with xarray.open_dataset(tmp_path / f"{name}.{suffix}", engine=engine) as back:
                assert back["v"].values.tobytes() == bits.tobytes()


@pytest.mark.parametrize("suffix", OUTPUTS)
def test_a_bound_holds_and_is_promised(ds, tmp_path, suffix):
    plainly(ds[["T"]], tmp_path / f"plain.{suffix}")
    lossless = knarr.write(ds[["T"]].chunk({"time": 4}), tmp_path / f"exact.{suffix}", portable="core")
    bounds = {"T": {"max_abs_error": 0.05}}
    done = knarr.write(ds[["T"]].chunk({"time": 4}), tmp_path / f"out.{suffix}", portable="core", variables=bounds)
    assert done.output_bytes < lossless.output_bytes * 0.7
    found = knarr.verify(tmp_path / f"plain.{suffix}", tmp_path / f"out.{suffix}")
    (variable,) = [one for one in found.variables if one["path"] == "/T"]
    assert "0.05" in str(variable["promised"])
    with xarray.open_dataset(tmp_path / f"out.{suffix}", engine=READERS[suffix][-1]) as back:
        error = np.abs(back["T"].values.astype("f8") - ds["T"].values)
        assert 0 < np.nanmax(error) <= 0.05
        assert np.array_equal(np.isnan(back["T"]), np.isnan(ds["T"]))
        assert "knarr.write" in back.attrs["history"]


def test_chunks_and_chains_are_those_asked_for(ds, tmp_path):
    knarr.write(ds[["T"]], tmp_path / "out.nc", chunks={"time": 2, "y": 30}, chain="shuffle | deflate:9")
    with netCDF4.Dataset(tmp_path / "out.nc") as file:
        assert file["T"].chunking()[:2] == [2, 30]
        assert file["T"].filters()["complevel"] == 9
    plan = knarr.write(ds[["T"]].chunk({"time": 8}), tmp_path / "again.nc", plan=tmp_path / "out.nc")
    assert plan.plan["variables"][0]["action"]["encode"]["chain"] == "shuffle | deflate:9"
    with pytest.raises(ValueError, match="plan and goal exclude each other"):
        knarr.write(ds, tmp_path / "more.nc", plan=tmp_path / "out.nc", goal="ratio")


@pytest.mark.parametrize("suffix", OUTPUTS)
def test_odd_datasets(tmp_path, suffix):
    cases = [
        xarray.Dataset(attrs={"title": "nothing else"}),
        xarray.Dataset({"one": ((), 1.0), "none": (("z", "x"), np.zeros((3, 0)))}),
        xarray.Dataset({"v": ("x", dask.array.zeros(0, chunks=1))}),
        xarray.Dataset({"v": ("x", dask.array.arange(5, chunks=2))}),
        xarray.Dataset({"v": ((), dask.array.asarray(3.0))}),
        xarray.Dataset({"v": (("y", "x"), dask.array.ones((40, 1000), chunks=((0, 30, 0, 10), (1000,))))}),
        xarray.Dataset({"x": (("x", "y"), np.random.default_rng(1).normal(size=(100, 200)))}),
        xarray.Dataset({"ä b": ("größe", np.arange(20000.0))}, attrs={"größe": "ü"}),
    ]
    for number, ds in enumerate(cases):
        out = tmp_path / f"{number}.{suffix}"
        knarr.write(ds, out, portable="core")
        with xarray.open_dataset(out, engine=READERS[suffix][0]) as back:
            xarray.testing.assert_identical(back.load(), ds.compute())


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "temporary")


def test_what_is_there_is_replaced_when_asked(ds, tmp_path):
    for suffix in OUTPUTS:
        out = tmp_path / f"out.{suffix}"
        knarr.write(ds[["T"]], out)
        before = knarr.content_hash(out)
        with pytest.raises(FileExistsError, match="force=True"):
            knarr.write(ds[["counts"]], out)
        assert knarr.content_hash(out) == before
        knarr.write(ds[["counts"]], out, force=True)
        assert set(knarr.content_hash(out)["variables"]) & {"T", "counts"} == {"counts"}


def test_what_cannot_be_written_is_an_error_and_leaves_nothing(ds, tmp_path):
    cases = [
        (ds, "out.csv", {}, ValueError, "holds no dataset"),
        (ds, "out", {}, ValueError, "which format"),
        (ds, "out.nc", {"unlimited_dims": ["depth"]}, ValueError, "no dimension depth"),
        (ds, "out.zarr", {"unlimited_dims": ["time"]}, ValueError, "every dimension of a store can grow"),
        (ds, "out.nc", {"variables": {"missing": {"max_abs_error": 1}}}, ValueError, "missing"),
        (ds, "out.nc", {"max_abs_err": 1}, TypeError, "max_abs_err"),
        (ds, "s3://bucket/out.nc", {}, knarr.KnarrError, "Zarr"),
        (ds, str(tmp_path / "no" / "such" / "out.nc"), {}, OSError, "no"),
        (ds["T"], "out.nc", {}, TypeError, "to_dataset"),
        (xarray.Dataset({5: ("x", [1, 2])}), "out.nc", {}, TypeError, "5"),
        (ds.assign_attrs(odd={"a": 1}), "out.nc", {}, TypeError, "odd"),
        (ds.assign(odd=("q", np.array([{1}, 2], object))), "out.nc", {}, (TypeError, ValueError), "odd|dtype"),
    ]
    for given, name, how, error, words in cases:
        target = name if "/" in name else tmp_path / name
        with pytest.raises(error, match=words):
            knarr.write(given, target, **how)
        assert listed(tmp_path) == [], name


class OddError(Exception):
    """Of nobody else."""


@pytest.mark.parametrize("suffix", OUTPUTS)
def test_an_exception_of_a_block_is_passed_on_and_leaves_nothing(tmp_path, suffix):
    def fail(block, block_info=None):
        if block_info[0]["chunk-location"] == (17, 0):
            raise OddError("no block 17")
        return block

    values = dask.array.random.default_rng(1).normal(size=(800, 1000), chunks=(40, 1000)).map_blocks(fail, dtype="f8")
    ds = xarray.Dataset({"v": (("y", "x"), values)})
    old = xarray.Dataset({"old": ("x", [1, 2, 3])})
    knarr.write(old, tmp_path / f"old.{suffix}")
    before = listed(tmp_path)
    for name in ("new", "old"):
        with pytest.raises(OddError, match="no block 17"):
            knarr.write(ds, tmp_path / f"{name}.{suffix}", force=True)
        assert listed(tmp_path) == before
    assert set(knarr.content_hash(tmp_path / f"old.{suffix}")["variables"]) == {"old"}


def test_blocks_that_are_not_what_dask_says_are_refused(tmp_path):
    blocks = dask.array.zeros((100, 1000), chunks=(10, 1000))
    for lie in (
        blocks.map_blocks(lambda block: block.astype("f4"), dtype="f8", meta=np.empty((0, 0), "f8")),
        blocks.map_blocks(lambda block: block[:5], dtype="f8", meta=np.empty((0, 0), "f8")),
    ):
        with pytest.raises(ValueError, match="a block of 'v' was computed as"):
            knarr.write(xarray.Dataset({"v": (("y", "x"), lie)}), tmp_path / "out.nc")
        assert listed(tmp_path) == []


def test_progress_may_stop_it(ds, tmp_path):
    seen = []

    def progress(phase, done, total):
        seen.append((phase, done, total))
        if done:
            raise OddError(phase)

    with pytest.raises(OddError):
        knarr.write(ds.chunk({"time": 1}), tmp_path / "out.nc", progress=progress)
    assert seen[-1][2] >= seen[-1][1] > 0
    assert listed(tmp_path) == []


class Counting:
    """A function of blocks that counts how often each was computed, and how many at the same time."""

    def __init__(self, seconds: float = 0.0):
        self.lock, self.seconds = threading.Lock(), seconds
        self.counts: dict[tuple[int, ...], int] = {}
        self.active = self.most = 0

    def __call__(self, block, block_info=None):
        with self.lock:
            place = block_info[0]["chunk-location"]
            self.counts[place] = self.counts.get(place, 0) + 1
            self.active += 1
            self.most = max(self.most, self.active)
        time.sleep(self.seconds)
        with self.lock:
            self.active -= 1
        return block


# Small blocks are the chunks, large ones are cut; memory need not hold many of them.
@pytest.mark.parametrize(("rows", "memory"), [(210, "256M"), (2100, "256M"), (2100, "40M")])
def test_blocks_are_computed_about_once_and_several_at_a_time(tmp_path, rows, memory):
    blocks = dask.array.random.default_rng(1).integers(0, 9, size=(8400, 2000), chunks=(rows, 1000)).astype("f8")
    counting = Counting(0.05)
    ds = xarray.Dataset({"v": (("y", "x"), blocks.map_blocks(counting, dtype="f8", meta=np.empty((0, 0))))})
    knarr.write(ds, tmp_path / "out.nc", jobs=3, max_mem=memory)
    assert len(counting.counts) == 8400 // rows * 2
    # Samples are taken of three.
    assert sum(counting.counts.values()) - len(counting.counts) <= 3
    assert 2 <= counting.most <= 3
    with xarray.open_dataset(tmp_path / "out.nc") as back:
        xarray.testing.assert_equal(back["v"], ds["v"].compute())


@pytest.mark.parametrize("suffix", OUTPUTS)
def test_the_bytes_do_not_depend_on_threads(tmp_path, suffix):
    blocks = dask.array.random.default_rng(1).normal(size=(5000, 1000), chunks=(2500, 500)).round(1)
    ds = xarray.Dataset({"large": (("y", "x"), blocks), "small": (("y", "x"), blocks.rechunk((300, 300)))})
    written = []
    for jobs in (1, 4):
        out = tmp_path / f"{jobs}.{suffix}"
        knarr.write(ds, out, jobs=jobs, max_mem="64M")
        files = [out] if out.is_file() else sorted(path for path in out.rglob("*") if path.is_file())
        written.append([(path.relative_to(out), path.read_bytes()) for path in files])
    assert written[0] == written[1]


@pytest.mark.parametrize("memory", ["1G", "24M"])
@pytest.mark.parametrize("chunks", ["800x20", "13x1000", "1x300"])
def test_chunks_may_lie_across_blocks(tmp_path, chunks, memory):
    blocks = dask.array.random.default_rng(1).integers(0, 9, size=(800, 3000), chunks=(200, (1000, 700, 1300)))
    ds = xarray.Dataset({"v": (("y", "x"), blocks.astype("f8"))})
    knarr.write(ds, tmp_path / "out.nc", chunks=chunks, max_mem=memory)
    with xarray.open_dataset(tmp_path / "out.nc") as back:
        assert back["v"].encoding["chunksizes"] == tuple(map(int, chunks.split("x")))
        xarray.testing.assert_identical(back.load(), ds.compute())


def test_the_scheduler_is_that_of_dask(tmp_path):
    blocks = dask.array.random.default_rng(1).normal(size=(400, 1000), chunks=(100, 1000))
    expected = blocks.compute()
    threads: set[str] = set()

    def note(block):
        threads.add(threading.current_thread().name)
        return block

    ds = xarray.Dataset({"v": (("y", "x"), blocks.map_blocks(note, dtype="f8", meta=np.empty((0, 0))))})
    for scheduler, is_pool in (("threads", True), ("synchronous", False)):
        threads.clear()
        with dask.config.set(scheduler=scheduler, num_workers=2):
            knarr.write(ds, tmp_path / f"{scheduler}.nc")
        assert all(name.startswith("ThreadPoolExecutor") == is_pool for name in threads), threads
        assert len(threads) <= 2 or not is_pool
        with xarray.open_dataset(tmp_path / f"{scheduler}.nc") as back:
            np.testing.assert_array_equal(back["v"], expected)


def python(code: str, tmp_path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_memory_is_bounded_for_more_than_it(tmp_path, suffix):
    child = python(
        f"""
        import os, resource, dask.array, numpy, xarray, knarr
        from pathlib import Path
        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        def field(chunks):
            ramp = dask.array.arange(1 << 27, chunks=chunks, dtype="f8") // 7
            return xarray.Dataset({{"v": ("x", ramp)}})
        knarr.write(field(1 << 27)[dict(x=slice(0, 1 << 21))].chunk(x=1 << 20), "warm.{suffix}", jobs=2, max_mem="96M")
        before, header = peak(), 0
        def progress(*_):
            global header
            files = [path for path in Path(os.environ["TMPDIR"]).rglob("*") if path.is_file()]
            header = max(header, sum(path.stat().st_size for path in files))
        done = knarr.write(field(1 << 20), "out.{suffix}", jobs=2, max_mem="96M", progress=progress)
        print(done.input_bytes >> 20, peak() - before, header)
        """,
        tmp_path,
    )
    out, error = child.communicate(timeout=300)
    assert child.returncode == 0, error
    mebibytes, more, header = map(int, out.split())
    assert mebibytes == 1024
    assert more < 200
    assert 0 < header < 100_000


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_ctrl_c_stops_it_between_blocks(tmp_path, suffix):
    child = python(
        f"""
        import os, time, dask.array, numpy, xarray, knarr
        def slow(block):
            os.write(1, b"computing\\n")
            time.sleep(0.2)
            return block
        blocks = dask.array.zeros((4000, 1000), chunks=(10, 1000))
        blocks = blocks.map_blocks(slow, dtype="f8", meta=numpy.empty((0, 0)))
        knarr.write(xarray.Dataset({{"v": (("y", "x"), blocks)}}), "out.{suffix}")
        """,
        tmp_path,
    )
    for _ in range(6):
        assert child.stdout.readline() == "computing\n"
    child.send_signal(signal.SIGINT)
    begin = time.monotonic()
    _, error = child.communicate(timeout=30)
    assert time.monotonic() - begin < 5
    assert child.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in error
    assert listed(tmp_path) == []


def test_values_come_through_a_client_of_dask(tmp_path):
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    blocks = dask.array.random.default_rng(1).normal(size=(1000, 1000), chunks=(50, 1000))
    ds = xarray.Dataset({"v": (("y", "x"), blocks)})
    with (
        dask.config.set({"temporary-directory": str(tmp_path / "dask")}),
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        knarr.write(ds, tmp_path / "out.nc")
        tasks = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.transition_log))
        expected = ds.compute()

        def fail(block):
            raise OddError("on a worker")

        broken = xarray.Dataset({"v": (("y", "x"), blocks.map_blocks(fail, dtype="f8", meta=np.empty((0, 0))))})
        with pytest.raises(OddError, match="on a worker"):
            knarr.write(broken, tmp_path / "broken.nc")
    assert tasks > 20
    assert listed(tmp_path) == ["dask", "out.nc", "out.nc.knarr.json"]
    with xarray.open_dataset(tmp_path / "out.nc") as back:
        xarray.testing.assert_identical(back.load(), expected)


def test_xarray_is_asked_for_when_it_is_used(tmp_path):
    child = python("import sys, knarr; print('xarray' in sys.modules, 'dask' in sys.modules)", tmp_path)
    assert child.communicate(timeout=60)[0].split() == ["False", "False"]


def test_a_store_has_the_arrays_of_the_dataset_and_no_more(ds, tmp_path):
    knarr.write(ds[["T", "names"]], tmp_path / "out.zarr")
    group = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert set(group.array_keys()) == {"T", "names", "time", "x", "area"}
    assert group["T"].metadata.dimension_names == ("time", "y", "x")
    assert group.metadata.consolidated_metadata is not None


@pytest.mark.parametrize("suffix", OUTPUTS)
def test_trees_become_groups(ds, tmp_path, suffix):
    fine = ds[["counts"]].chunk({"y": 10}).drop_vars(["x", "area"]).rename(x="u", y="v")
    tree = xarray.DataTree.from_dict({"/": ds[["T"]], "/fine": fine, "/fine/deep": ds[["scalar"]]})
    tree["fine"].attrs["level"] = 2
    for name, given in (("whole", tree), ("branch", tree["fine"])):
        ours, plain = tmp_path / f"{name}.{suffix}", tmp_path / f"{name}_plain.{suffix}"
        knarr.write(given, ours, portable="core")
        if suffix == "zarr":
            given.copy().to_zarr(plain, zarr_format=3)
        else:
            given.copy().to_netcdf(plain, engine="netcdf4")
        engine = READERS[suffix][0]
        with xarray.open_datatree(ours, engine=engine) as a, xarray.open_datatree(plain, engine=engine) as b:
            xarray.testing.assert_identical(a.load(), b.load())


@pytest.mark.parametrize("suffix", OUTPUTS)
def test_a_dataset_may_replace_the_file_it_is_read_from(ds, tmp_path, suffix):
    out = tmp_path / f"out.{suffix}"
    knarr.write(ds[["T", "counts"]], out, portable="core")
    for chunks in ({}, None):
        with xarray.open_dataset(out, engine=READERS[suffix][0], chunks=chunks) as opened:
            expected = opened.compute()
            knarr.write(opened.assign_attrs(title="again"), out, portable="core", force=True)
        with xarray.open_dataset(out, engine=READERS[suffix][0]) as back:
            xarray.testing.assert_identical(back.load(), expected.assign_attrs(title="again"))
