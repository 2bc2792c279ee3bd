"""The Python package, used as its documentation says."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401  (registers the filters that the encodings name)
import numpy as np
import pytest
import xarray

import knarr
from knarr._arrays import fill_patterns
from knarr._sample import within


@pytest.fixture
def field() -> np.ndarray:
    t, y, x = np.meshgrid(np.arange(40), np.arange(60), np.arange(90), indexing="ij")
    values = (280 + 20 * np.sin(y / 20) * np.cos(x / 30 + t / 9)).round(2).astype("float32")
    values[:, :5, :5] = np.nan
    return values


@pytest.fixture
def dataset(field: np.ndarray) -> xarray.Dataset:
    return xarray.Dataset(
        {"T": (("t", "y", "x"), field), "n": (("y", "x"), np.arange(5400, dtype="int32").reshape(60, 90))},
        coords={"x": np.arange(90.0)},
    )


def bits(values: np.ndarray) -> bytes:
    return np.ascontiguousarray(values).tobytes()


def test_arrays_come_back_bit_for_bit(field):
    small = (np.array(3.5), np.empty((0, 4), "i2"), np.arange(9, dtype="u8"))
    for array in (field, field.astype(">f8"), field[::2, ::-1], *small):
        packed = knarr.compress(array)
        back = knarr.decompress(packed)
        assert back.shape == array.shape
        assert bits(back) == bits(array.astype(array.dtype.newbyteorder("<")))
    assert len(knarr.compress(field, goal="ratio")) < field.nbytes / 4


def test_a_bound_holds_and_specials_stay(field):
    back = knarr.decompress(knarr.compress(field, max_abs_error=0.5))
    assert np.array_equal(np.isnan(back), np.isnan(field))
    assert np.nanmax(np.abs(back.astype("f8") - field)) <= 0.5
    assert len(knarr.compress(field, max_abs_error=0.5)) < len(knarr.compress(field))


def test_protected_ranges_stay_exact(field):
    # With noise: the decimals of the field are packed so well that rounding half of them gains nothing.
    field = (field + np.random.default_rng(1).normal(0, 0.01, field.shape)).astype("f4")
    limit = np.float32(np.nanmedian(field))
    back = knarr.decompress(knarr.compress(field, max_abs_error=0.5, goal="ratio", exact_from=float(limit)))
    protected = (field >= limit) | (back >= limit)
    assert protected.any() and bits(back[protected]) == bits(field[protected])
    assert np.nanmax(np.abs(back.astype("f8") - field)) > 0
    with pytest.raises(ValueError, match="exact_from"):
        knarr.compress(field, exact_from=1.0)


def test_damage_is_an_error(field):
    packed = bytearray(knarr.compress(field[0]))
    for place in range(0, len(packed), max(1, len(packed) // 50)):
        damaged = bytes(packed[:place]) + bytes([packed[place] ^ 1]) + bytes(packed[place + 1 :])
        with pytest.raises((knarr.KnarrError, ValueError)):
            knarr.decompress(damaged)


def test_bounds_may_be_numbers_of_numpy(field):
    bound = np.float32(0.01)
    packed = knarr.compress(field, max_abs_error=bound, significant_bits=np.int64(9))
    assert packed == knarr.compress(field, max_abs_error=float(bound), significant_bits=9)
    for wrong in (np.array([0.1, 0.2]), "0.1"):
        with pytest.raises(TypeError, match="give a number"):
            knarr.compress(field, max_abs_error=wrong)
    with pytest.raises(ValueError, match="max_abs_error is nan"):
        knarr.compress(field, max_abs_error=float("nan"))


def test_masks_are_not_dropped_without_a_word(field):
    masked = np.ma.masked_greater(field, np.nanmedian(field))
    with pytest.raises(TypeError, match="filled"):
        knarr.compress(masked)
    assert bits(knarr.decompress(knarr.compress(masked.filled(1e20), fill_value=1e20))) == bits(masked.filled(1e20))
    assert bits(knarr.decompress(knarr.compress(np.ma.masked_array(field, mask=False)))) == bits(field)


def test_wishes_that_contradict_are_value_errors(field):
    with pytest.raises(ValueError, match="goal"):
        knarr.compress(field, goal="fastest")
    with pytest.raises(ValueError, match="max_abs_error"):
        knarr.compress(field, max_abs_error=-1)
    with pytest.raises(TypeError, match="max_absolute_error"):
        knarr.compress(field, max_absolute_error=1)
    with pytest.raises(TypeError, match="complex"):
        knarr.compress(field.astype("complex64"))


def test_advice_for_arrays_files_and_datasets(tmp_path, field, dataset):
    one = knarr.advise(field)
    assert one.ratio > 1.5 and one.reason
    assert knarr.advise(dataset)["T"].chain == one.chain
    path = tmp_path / "in.nc"
    dataset.to_netcdf(path, engine="h5netcdf")
    advice = knarr.advise(path)
    assert set(advice) >= {"T", "n", "x"}
    with pytest.raises(FileNotFoundError):
        knarr.advise(tmp_path / "missing.nc")


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4", "zarr"])
def test_encodings_are_taken_by_xarray(tmp_path, dataset, engine):
    for variable in dataset.variables.values():
        variable.encoding["_FillValue"] = None
    encoding = knarr.encoding(dataset, engine=engine)
    assert "T" in encoding
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    if engine == "zarr":
        dataset.to_zarr(packed, encoding=encoding, zarr_format=3, consolidated=False)
        back = xarray.open_zarr(packed, consolidated=False)
    else:
        dataset.to_netcdf(packed, engine=engine, encoding=encoding)
        dataset.to_netcdf(plain, engine=engine)
        assert packed.stat().st_size < plain.stat().st_size
        back = xarray.open_dataset(packed, engine=engine)
    assert bits(back["T"].values) == bits(dataset["T"].values)
    assert bits(back["n"].values) == bits(dataset["n"].values)


def test_a_chunk_of_the_hdf5_filter_is_a_frame(tmp_path, field):
    """Its byte order is that of the dataset; elements that are no numbers are refused in words."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, values in {"little": field, "big": field.astype(">f4"), "text": np.full(9, b"seven..")}.items():
            file.create_dataset(name, data=values, chunks=values.shape, **knarr.hdf5())
        frames = {name: one.id.read_direct_chunk((0,) * one.ndim)[1] for name, one in file.items()}
    for name in ("little", "big"):
        assert bits(knarr.decompress(frames[name])) == bits(field)
    with pytest.raises(knarr.KnarrError, match="opaque"):
        knarr.decompress(frames["text"])


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4", "zarr"])
def test_encodings_keep_how_a_file_that_was_opened_stores_its_values(tmp_path, field, engine):
    """xarray drops a variable's own encoding for the one it is given."""
    masked = field.copy()
    masked.flat[::3] = np.nan
    source = xarray.Dataset({name: (("z", "y", "x"), masked) for name in ("T", "U")}, {"crs": ((), 0)})
    source["T"].attrs["grid_mapping"] = "crs"
    fills = {name: {"_FillValue": np.float32(-999)} for name in ("T", "U")}
    source.to_netcdf(tmp_path / "in.nc", encoding={**fills, "U": fills["U"] | {"scale_factor": np.float32(0.5)}})
    with xarray.open_dataset(tmp_path / "in.nc", decode_coords="all") as opened:
        encoding = knarr.encoding(opened, engine=engine)
        assert {"T", "U"} <= set(encoding)
        if engine == "zarr":
            opened.to_zarr(tmp_path / "out", encoding=encoding, zarr_format=3, consolidated=False)
        else:
            opened.to_netcdf(tmp_path / "out", engine=engine, encoding=encoding)
    plain = xarray.open_dataset(tmp_path / "in.nc", decode_cf=False)
    options = {"consolidated": False} if engine == "zarr" else {}
    with xarray.open_dataset(tmp_path / "out", engine=engine, decode_cf=False, **options) as back:
        for name in ("T", "U"):
            assert bits(back[name].values) == bits(plain[name].values)
            assert back[name].attrs["_FillValue"] == -999
        assert back["T"].attrs["grid_mapping"] == "crs"


def test_wishes_for_variables_refine_those_for_all(tmp_path, field):
    source, output = tmp_path / "in.h5", tmp_path / "out.h5"
    # With noise: rounding gains something in every variable.
    field = (field + np.random.default_rng(1).normal(0, 0.01, field.shape)).astype("f4")
    with h5py.File(source, "w") as file:
        for name in ("T", "Tmax", "mask"):
            file.create_dataset(name, data=field, chunks=(1, 60, 90))
    wishes = {
        "T": {"max_abs_error": 0.1},
        "T*": {"max_abs_error": 0.5, "significant_digits": 3, "significant_bits": None},
        "mask": {"quality": "lossless"},
    }
    knarr.repack(source, output, max_rel_error=0.1, variables=wishes)
    promised = {one["path"]: one["promised"] for one in knarr.verify(source, output).variables}
    together = {"max_rel_error": 0.1, "significant_digits": 3}
    assert promised["/T"] == {"max_abs_error": 0.1, **together}
    assert promised["/Tmax"] == {"max_abs_error": 0.5, **together}
    assert promised["/mask"] == {}
    knarr.repack(source, output, max_rel_error=0.1, variables={"T": {"finest_abs_error": 1e-6}}, force=True)
    contradiction = {"T": {"quality": "lossless", "max_abs_error": 1.0}}
    for wrong in ({"T": {"exact_from": 5.0}}, {"T": {"max_abs_error": -1.0}}, contradiction):
        with pytest.raises(ValueError, match=r"'T'|exact_from"):
            knarr.repack(source, tmp_path / "other.h5", variables=wrong)


def test_a_missing_folder_is_an_error_with_a_mend(tmp_path, field):
    source = tmp_path / "in.h5"
    with h5py.File(source, "w") as file:
        file["T"] = field
    with pytest.raises(OSError, match=r"out\.h5: .*make the directory first"):
        knarr.repack(source, tmp_path / "none" / "out.h5")


def test_repack_reports_progress_and_can_be_stopped(tmp_path, field):
    source, output = tmp_path / "in.h5", tmp_path / "out.h5"
    with h5py.File(source, "w") as file:
        file.create_dataset("T", data=np.tile(field, (20, 1, 1)), chunks=(1, 60, 90))
    seen = []
    done = knarr.repack(source, output, progress=lambda phase, now, total: seen.append((phase, now, total)))
    assert done.ratio > 1.5
    assert {phase for phase, _, _ in seen} >= {"choosing", "repacking"}
    found = knarr.verify(source, output)
    assert found and found.metadata == []
    assert all(one["difference"] == "equal" for one in found.variables)
    assert knarr.content_hash(source) == knarr.content_hash(output)
    with pytest.raises(FileExistsError, match="force"):
        knarr.repack(source, output)

    def stop(phase, now, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        knarr.repack(source, tmp_path / "other.h5", progress=stop)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.h5", "out.h5", "out.h5.knarr.json"]


def test_what_an_output_lost_is_a_warning(tmp_path, field):
    source, output = tmp_path / "in.h5", tmp_path / "out.zarr"
    with h5py.File(source, "w") as file:
        file["T"] = field
        file["again"] = h5py.SoftLink("/T")
    with pytest.warns(UserWarning, match=r"no links: /again \(.*T\)") as told:
        done = knarr.repack(source, output)
    assert done.notes == [str(one.message) for one in told]
    assert [one.filename for one in told] == [__file__]
    with pytest.warns(UserWarning, match="no chain meets encode>=.* for 'T'"):
        knarr.repack(source, tmp_path / "fast.h5", goal="encode>=900000000")


@pytest.mark.parametrize("blocks", [((7, 7, 7, 3), (40,), (60,)), ((24,), (20, 20), (60,)), ((5, 19), (40,), (30, 30))])
def test_chunks_lie_within_those_of_dask(blocks):
    chunk = within(blocks, 4, 1 << 20)
    for n, sizes in zip(chunk, blocks, strict=True):
        ends = np.cumsum(sizes)[:-1]
        assert n <= max(sizes) and not (ends % n).any()
    assert within(((4096,), (4096,)), 8, 1 << 20) == (32, 4096)


@pytest.mark.parametrize("portable", [None, "standard"])
def test_what_does_not_get_smaller_can_be_written_by_netcdf(tmp_path, portable):
    noise = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, size=(24, 4000))
    ds = xarray.Dataset({"r": (("a", "b"), noise)})
    encoding = knarr.encoding(ds, engine="netcdf4", goal="speed", portable=portable)
    ds.to_netcdf(tmp_path / "a.nc", engine="netcdf4", encoding=encoding)
    assert np.array_equal(xarray.open_dataset(tmp_path / "a.nc")["r"].values, noise)


@pytest.mark.parametrize("goal", ["balanced", "ratio", "archive"])
@pytest.mark.parametrize("portable", [None, "standard"])
def test_transposed_datasets_come_back_from_zarr(tmp_path, goal, portable):
    """zarr-python hands chunks to codecs of numcodecs as they lie in memory."""
    values = np.round(np.cumsum(np.random.default_rng(0).normal(size=(60, 40, 24)), 2), 2)
    ds = xarray.Dataset({"t": (("lon", "lat", "time"), values)}).transpose("time", "lat", "lon")
    encoding = knarr.encoding(ds, engine="zarr", goal=goal, portable=portable)
    assert encoding["t"]["compressors"]
    ds.to_zarr(tmp_path / "a.zarr", encoding=encoding, zarr_format=3)
    assert np.array_equal(xarray.open_zarr(tmp_path / "a.zarr", chunks=None)["t"].values, ds["t"].values)


def test_verify_is_that_of_the_command(tmp_path, field):
    paths = [tmp_path / "a.h5", tmp_path / "b.h5"]
    for path, units in zip(paths, ("K", "degC"), strict=True):
        with h5py.File(path, "w") as file:
            file["T"] = field
            file["T"].attrs["units"] = units
    found = knarr.verify(*paths)
    assert not found
    assert [one["difference"] for one in found.variables] == ["equal"]
    assert [one["place"] for one in found.metadata] == ["/T"] and "degC" in found.metadata[0]["what"]
    assert knarr.verify(*paths, values_only=True)


def test_the_gil_is_released(field):
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.wait(0.001):
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()
    knarr.compress(np.tile(field, (10, 1, 1)), chain="zstd:19")
    stop.set()
    thread.join()
    assert len(ticks) > 5


def test_h5py_writes_and_reads_through_the_filter(tmp_path, field):
    keys = knarr.hdf5(max_abs_error=0.05, goal="ratio")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("T", data=field, chunks=(10, 60, 90), **keys)
        file.create_dataset("exact", data=field, chunks=(10, 60, 90), **knarr.hdf5())
    script = (
        "import knarr, h5py, sys, numpy\n"
        "with h5py.File(sys.argv[1], 'a') as file:\n"
        "    numpy.save(sys.argv[2], file['T'][...])\n"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path / "a.h5", tmp_path / "T.npy"], check=True)
    back = np.load(tmp_path / "T.npy")
    assert np.array_equal(np.isnan(back), np.isnan(field))
    assert 0 < np.nanmax(np.abs(back.astype("f8") - field)) <= 0.05
    with h5py.File(tmp_path / "a.h5") as file:
        assert bits(file["exact"][...]) == bits(field)
        assert file["T"].id.get_storage_size() < file["exact"].id.get_storage_size()
    assert (Path(knarr.plugin_path()) / "libknarr_h5.so").is_file()
    with pytest.raises(ValueError, match="finest_abs_error"):
        knarr.hdf5(finest_abs_error=1.0)
    with pytest.raises(TypeError, match="tolerance"):
        knarr.hdf5(tolerance=1.0)


def test_the_package_does_without_h5py():
    script = "import sys; sys.modules['h5py'] = None; import knarr; assert not knarr.register()"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_advice_names_arguments_not_options(tmp_path, field):
    path, out, raw = tmp_path / "in.h5", tmp_path / "out.h5", tmp_path / "in.bin"
    with h5py.File(path, "w") as file:
        file["T"] = field
    raw.write_bytes(bytes(100))
    there = tmp_path / "there.h5"
    there.write_bytes(b"")
    advised = [
        (lambda: knarr.repack(path, there), "replace it with force=True"),
        (lambda: knarr.repack(path, out, chain="grid"), 'allow Knarr.s own filter with portable="knarr"'),
        (
            lambda: knarr.repack(path, out, chain="zstd:1", portable="core"),
            r'portable="core".; hint: allow plugins with portable="standard"',
        ),
        (lambda: knarr.repack(path, out, max_mem="1K"), r"raise max_mem to \d+M or choose smaller chunks with chunks"),
        (lambda: knarr.compress(field, chain="round:abs=1"), "state a bound, for example max_abs_error"),
        (lambda: knarr.repack(raw, out), "say which: knarr repack --raw shape="),
    ]
    for call, words in advised:
        with pytest.raises(Exception, match=words) as raised:
            call()
        assert "--" not in str(raised.value).replace("knarr repack --raw", "")


def test_what_makes_no_sense_is_named_with_what_to_give(tmp_path, field):
    path = tmp_path / "in.h5"
    with h5py.File(path, "w") as file:
        file["T"] = field
    out = tmp_path / "out.h5"
    no_format = "'grib' is no format that is written; hint: choose nc, h5"
    wrong = [
        (lambda: knarr.compress(field, significant_bits=3.0), TypeError, "_bits is 3.0: give a whole number"),
        (lambda: knarr.compress(field, significant_digits=-1), ValueError, "significant_digits is -1: give at least 1"),
        (lambda: knarr.compress(field, max_abs_error=True), TypeError, "max_abs_error is True: give a number"),
        (lambda: knarr.compress(field, goal=5), TypeError, "goal is 5: give text"),
        (lambda: knarr.compress(field, fill_value="x", max_abs_error=1), TypeError, "fill_value is 'x': give a number"),
        (lambda: knarr.advise(field, fill_value="5"), TypeError, "fill_value is '5': give a number"),
        (lambda: knarr.advise(field, portable="all"), ValueError, "portable is 'all': choose from core, standard"),
        (lambda: knarr.advise(field, to="grib"), ValueError, no_format),
        (lambda: knarr.advise(path, to="grib"), ValueError, no_format),
        (lambda: knarr.repack(path, out, jobs=0), ValueError, "jobs is 0: give at least 1"),
        (lambda: knarr.repack(path, out, jobs=-1), ValueError, "jobs is -1: give at least 1"),
        (lambda: knarr.repack(path, out, jobs=1.5), TypeError, "jobs is 1.5: give a whole number"),
        (lambda: knarr.repack(path, out, max_mem=0), ValueError, "max_mem is 0: give at least 1"),
        (lambda: knarr.repack(path, out, max_mem="lots"), ValueError, "max_mem: 'lots' is not a size"),
        (lambda: knarr.repack(path, out, variables={"T": {"chunks": 5}}), TypeError, "chunks is 5: give text"),
        (
            lambda: knarr.repack(path, out, variables={"T": {"chunk": "5"}}),
            ValueError,
            "'T'. has an unknown key 'chunk'.*chunks",
        ),
        (lambda: knarr.repack(path, out, variables={"T": 5}), TypeError, "variables.'T'. is 5: give a dict"),
        (lambda: knarr.repack(path, out, variables=["T"]), TypeError, "variables is .'T'.: give a dict"),
        (lambda: knarr.repack(path, out, force="no"), TypeError, "force is 'no': give True or False"),
        (lambda: knarr.encoding(xarray.DataArray(field)), TypeError, "DataArray is no Dataset.*to_dataset"),
    ]
    for call, kind, text in wrong:
        with pytest.raises(kind, match=text) as raised:
            call()
        assert "column" not in str(raised.value)
    assert not out.exists()


def test_memory_may_be_said_as_on_the_command_line(tmp_path, field):
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["T"] = field
    for number, size in enumerate(("64M", 64 << 20, np.int64(64 << 20))):
        assert knarr.repack(tmp_path / "in.h5", tmp_path / f"out{number}.h5", max_mem=size, jobs=np.int64(1)).ratio > 0


def test_half_precision_comes_back(field):
    half = field.astype("f2")
    for array in (half, half.astype(">f2")):
        assert bits(knarr.decompress(knarr.compress(array))) == bits(half)
    with pytest.raises(knarr.KnarrError, match="32- and 64-bit"):
        knarr.compress(half, max_abs_error=0.1)


@pytest.mark.parametrize("goal", ["balanced", "ratio", "archive"])
@pytest.mark.parametrize("portable", [None, "standard"])
def test_encodings_for_zarr_serve_both_byte_orders(tmp_path, field, goal, portable):
    arrays = {dtype: (("t", "y", "x"), field.astype(dtype)) for dtype in ("<f4", ">f4", "<f8", ">f8")}
    dataset = xarray.Dataset(arrays)
    encoding = knarr.encoding(dataset, engine="zarr", goal=goal, portable=portable)
    assert set(encoding) == set(arrays)
    dataset.to_zarr(tmp_path / "a.zarr", encoding=encoding, zarr_format=3, consolidated=False)
    back = xarray.open_zarr(tmp_path / "a.zarr", consolidated=False)
    for name in arrays:
        assert np.array_equal(back[name].values, dataset[name].values, equal_nan=True)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda packed: np.frombuffer(packed, "u1")])
def test_frames_come_from_whatever_holds_bytes(field, kind):
    assert bits(knarr.decompress(kind(knarr.compress(field)))) == bits(field)


def test_what_holds_no_bytes_is_no_frame():
    for wrong in (5, "text", [1, 2], None):
        with pytest.raises(TypeError, match="bytes-like"):
            knarr.decompress(wrong)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("dtype", "patterns"), [("i1", []), ("u4", []), ("f4", [0x60AD78EC]), ("f8", [0x4415AF1D78B58C40])]
)
def test_fill_values_that_a_type_cannot_hold_are_left_out(dtype, patterns):
    """None of them becomes another value, such as 0."""
    for fill in (1e20, np.float32(1e20) if dtype == "f4" else np.float64(1e20)):
        assert fill_patterns(np.dtype(dtype), fill) == patterns
    assert fill_patterns(np.dtype("u4"), -7, 2.5, 3) == [3]
