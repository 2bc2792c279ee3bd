"""Zarr in and out, checked with zarr-python, zarrs and xarray."""

from __future__ import annotations

import base64
import json
import lzma
import warnings

import h5py
import netCDF4
import numcodecs
import numpy as np
import pytest
import xarray
import zarr

import netcdf_inputs
import zarr_compare
import zarr_inputs
from netcdf_compare import bits

WITHOUT_USER_TYPES = [name for name in netcdf_inputs.INPUTS if name != "user_defined_types"]


def test_a_codec_that_is_not_read_is_named(knarr, tmp_path, out):
    source = tmp_path / "in.zarr"
    raw_lzma = numcodecs.LZMA(format=lzma.FORMAT_ALONE)
    zarr.create_array(source, data=np.arange(99), zarr_format=2, compressors=raw_lzma, filters=None)
    knarr.fails(3, "repack", source, "-o", out / "a.zarr", names=("in.zarr", "variable 'in'", "lzma"))


# Chunks as zfpy 1.0.1 writes them (`compress_numpy(..., write_header=True)`), and what it decodes them to.
# The package is not among those of the tests.
ZFPY = {
    "accuracy": (
        "<f8",
        (4, 5),
        "emZwBUcAADAAAMDKDUgqICVGonW1btiXi0IUdddArnHjc5XNhUlOA5IKCilECgBRiAJEohAFKEAEIgAJAAAAAA==",
        "AAAAAAAAAAAAAAAAAATwPwAAAAAApAZAAAAAAADJFEAAAAAAIAAgQAAAAABgXCZAAAAAAKBlLUAAAAAAcIUyQAAAAACQ"
        "oDZAAAAAADAAO0AAAAAAcJ8/QAAAAADIPUJAAAAAANjIREAAAAAAqG9HQAAAAAAIMUpAAAAAACAMTUAAAAAAAABQQAAA"
        "AADwhVFAAAAAAIAXU0AAAAAAbLRUQA==",
    ),
    "precision": (
        "<f4",
        (4, 5),
        "emZwBUYAADAAADCBDUkFpMRItK7WDftyUYii7hrINW58rrK5MMlpSCoopBApAEQhChCJQhSgABGIACQAAAAAAA==",
        "AAAAAAAggD8AIDVAAEimQAABAEEA4zJBAC1rQYArlEGABLVBgAHYQYD7/EFA7hFCwEYmQkB9O0JAiFFCAGFoQgAAgEKAL4xCALyYQmCjpUI=",
    ),
    "rate": (
        "<f8",
        (4, 5),
        "emZwBUcAADAAAPAXDUgqICVGonW1btiXi0IUdddArnHjc5XNhUlOlTyC7wfDUXynmw2G8feqkohgHEOzDUgqKKQQKQBE"
        "IQoQiUIUoAARiAAkKBEJABQCApQoQCQKUQkKFAIQkKBEJShQCUoQAAAAAA==",
        "AAAAAAAAgL4AAACA/v/vPwAAAHCeoAZAAAAAMNzIFEAAAAgAAAAgQAAAAHRVXCZAAAAAONVkLUAAAACqL4UyQAAAAGSe"
        "oDZAAAAAAAAAO0AAAABCbp8/QAAAAMTOPUJAAAAAMdzIREAAAAAoo29HQAAAOs8MMUpAAAAAyyAMTUAAAAD8//9PQAAA"
        "gF3whVFAAAAApIUXU0AAADjOa7RUQA==",
    ),
    "reversible": ("<i4", (1, 4, 5), "emZwBUgAMAAAAACIHwAAACSwDwAAAC4g", None),
}


@pytest.mark.parametrize("mode", ZFPY)
def test_zfpy_is_read(knarr, tmp_path, out, mode):
    dtype, shape, chunk, decoded = ZFPY[mode]
    values = np.arange(20, dtype=dtype)
    if decoded is not None:
        values = np.frombuffer(base64.b64decode(decoded), dtype)
    source = tmp_path / "in.zarr"
    plain = {"zarr_format": 2, "compressors": None, "filters": None}
    zarr.create_array(source, shape=shape, chunks=shape, dtype=dtype, **plain)
    metadata = json.loads((source / ".zarray").read_text())
    metadata["compressor"] = {"id": "zfpy", "mode": 4, "tolerance": 0.01, "rate": -1, "precision": -1}
    (source / ".zarray").write_text(json.dumps(metadata))
    file = source / ".".join("0" for _ in shape)
    file.write_bytes(base64.b64decode(chunk))
    target = knarr.repack(source, out / "a.zarr", "--chain", "in=zstd:3")
    assert zarr.open_array(target / "in", mode="r")[...].tobytes() == values.tobytes()
    for cut in (0, 5, 11, len(file.read_bytes()) // 2):
        file.write_bytes(base64.b64decode(chunk)[:cut])
        knarr.fails(3, "hash", source, names=("in.zarr", "variable 'in'", "zfp"))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_scaled_values_are_those_of_numcodecs(knarr, tmp_path, out, zarr_format):
    """To the bit: the offset and the scale are doubles, and what is stored is divided as NumPy does."""
    source = tmp_path / "in.zarr"
    root = zarr.create_group(source, zarr_format=zarr_format)
    for dtype in ("<f4", "<f8", "<i4", ">f8"):
        for stored in ("|u1", "<i2", "<u4", "<f4", "<f8"):
            if zarr_format == 3 and ">" in dtype:
                continue
            stored = stored.replace("<", dtype[0])
            for offset, scale in ((0, 10), (273.15, 0.1), (-1000.7, 3)):
                how = {"offset": offset, "scale": scale, "dtype": dtype, "astype": stored}
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    filters = numcodecs.FixedScaleOffset(**how)
                    if zarr_format == 3:
                        filters = zarr.codecs.numcodecs.FixedScaleOffset(**how)
                    name = f"{dtype[1:]}_{stored[1:]}_{scale}_{'big' if '>' in dtype else 'little'}"
                    array = root.create_array(
                        name, shape=(250,), chunks=(125,), dtype=dtype, filters=filters, compressors=None
                    )
                    array[...] = (np.arange(250) / (7 if "f" in dtype else 1) / scale + offset).astype(dtype)
    zarr_compare.require_same(source, knarr.repack(source, out / "a.zarr"))


def test_a_scale_that_is_not_understood_is_refused(knarr, tmp_path, out):
    source = tmp_path / "in.zarr"
    mixed = numcodecs.FixedScaleOffset(offset=0.1, scale=10, dtype=">f8", astype="<i2")
    zarr.create_array(source, data=np.arange(9, dtype=">f8"), zarr_format=2, filters=mixed)
    knarr.fails(3, "repack", source, "-o", out / "a.zarr", names=("variable 'in'", "fixedscaleoffset"))


def test_names_of_dimensions_need_not_be_unique(knarr, tmp_path, out):
    source = tmp_path / "in.zarr"
    root = zarr.create_group(source, zarr_format=3)
    for names in (("x", "x", "y"), ("", None, ""), (None, None, None)):
        root.create_array(f"a{names.count(None)}", data=np.zeros((2, 3, 4)), dimension_names=names)
    old = zarr.create_group(tmp_path / "old.zarr", zarr_format=2)
    old.create_array("a", data=np.ones((2, 3))).attrs["_ARRAY_DIMENSIONS"] = ["x", "x"]
    zarr_compare.require_same(source, knarr.repack(source, out / "a.zarr"))
    assert knarr.repack(tmp_path / "old.zarr", out / "b.zarr")
    assert zarr.open_array(out / "b.zarr" / "a", mode="r").metadata.dimension_names == ("x", "x")


def test_copies_of_version_2_can_be_read(knarr, tmp_path, out):
    source = tmp_path / "in.zarr"
    root = zarr.create_group(source, zarr_format=2)
    for name, dtype in (("complex64", "c8"), ("complex128", "c16")):
        for filters in (None, [numcodecs.Fletcher32()]):
            array = root.create_array(
                name + str(bool(filters)), shape=(4, 5), chunks=(2, 5), dtype=dtype, filters=filters, compressors=None
            )
            array[:2] = 1 + 2j
    zarr_compare.require_same(source, knarr.repack(source, out / "a.zarr"))
    unfilled = zarr.create_array(
        tmp_path / "unfilled.zarr", shape=(4,), chunks=(2,), dtype="c8", fill_value=None, zarr_format=2
    )
    unfilled[...] = 3j
    target = knarr.repack(tmp_path / "unfilled.zarr", out / "b.zarr")
    assert zarr.open_array(target / "unfilled", mode="r")[...].tolist() == [3j] * 4


@pytest.mark.parametrize("name", zarr_inputs.INPUTS)
def test_zarr_to_zarr_keeps_everything(knarr, made, out, name):
    source = made("zarr", name)
    zarr_compare.require_same(source, knarr.repack(source, out / source.name))


@pytest.mark.parametrize("name", zarr_inputs.INPUTS)
def test_output_is_zarr_v3_with_complete_metadata(knarr, made, out, name):
    target = knarr.repack(made("zarr", name), out / "a.zarr")
    for metadata in target.rglob("zarr.json"):
        assert json.loads(metadata.read_text())["zarr_format"] == 3
    assert (target / "zarr.json").is_file()
    assert not list(target.rglob(".z*")), "metadata of Zarr v2 beside that of v3"


@pytest.mark.parametrize("goal", ["speed", "balanced", "ratio", "archive"])
def test_zarrs_decodes_what_zarr_python_decodes(knarr, made, out, goal):
    """Two implementations read every output; the goals vary the codecs."""
    source = made("zarr", "v3_codecs")
    target = knarr.repack(source, out / "a.zarr", "--goal", goal)
    expected = {name: zarr_compare.native(array[...]).tobytes() for name, array in zarr_compare.arrays(source).items()}
    assert zarr_compare.read_with_zarrs(target) == expected


@pytest.mark.parametrize("name", WITHOUT_USER_TYPES)
def test_netcdf_to_zarr_as_xarray_sees_it(knarr, made, out, name):
    source = made("netcdf", name)
    target = knarr.repack(source, out / "a.zarr")
    plain = {"decode_cf": False}
    with xarray.open_dataset(source, engine="netcdf4", **plain) as before:
        after = xarray.open_zarr(target, consolidated=False, **plain)
        assert before.sizes == after.sizes
        assert set(before.variables) == set(after.variables)
        for variable in before.variables:
            left, right = before[variable], after[variable]
            assert left.dims == right.dims, variable
            if left.dtype.kind in "iuf":
                assert bits(left.values) == bits(right.values), variable
            elif left.dtype.kind != "S":
                assert left.values.tolist() == right.values.tolist(), variable
            for key in set(left.attrs) - {"_FillValue"}:
                kept = np.asarray(right.attrs[key], np.asarray(left.attrs[key]).dtype)
                assert json_bits(left.attrs[key]) == json_bits(kept), (variable, key)


def json_bits(value):
    """JSON has one NaN, and no arrays of one."""
    array = np.asarray(value)
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return bits(array.reshape(-1))


def test_characters_come_back_from_zarr(knarr, made, out):
    source = made("netcdf", "all_types")
    there = knarr.repack(source, out / "there.zarr")
    knarr("verify", source, there)
    assert zarr.open_array(there / "characters", mode="r")[0].tolist() == [b"a", b"b", b"c", b"d"]
    copied = knarr.repack(there, out / "again.zarr")
    knarr("verify", source, copied)


def test_records_that_were_never_written_are_fill_values(knarr, made, out):
    """In groups, too, which xarray does not look into; and for `knarr verify` and `knarr hash`."""
    source = made("netcdf", "short_records")
    target = knarr.repack(source, out / "a.zarr")
    knarr("verify", source, target)
    assert knarr.variable_hashes(source) == knarr.variable_hashes(target)
    with netCDF4.Dataset(source) as dataset:
        dataset.set_auto_maskandscale(False)
        for name in ("full", "chosen", "default", "off", "packed", "never", "inner/chosen"):
            written = zarr.open_array(target / name, mode="r")
            assert bits(dataset[name][...]) == bits(written[...]), name


def test_strings_are_strings_to_zarr(knarr, tmp_path, out):
    source = tmp_path / "strings.nc"
    names = np.array(["", "zwölf", "long " * 3000, "a"], object)
    with netCDF4.Dataset(source, "w") as dataset:
        dataset.createDimension("time", None)
        dataset.createDimension("x", 3)
        dataset.createVariable("t", "f8", ("time",))[:] = np.arange(5000.0)
        dataset.createVariable("names", str, ("time",))[:4] = names
        dataset.createVariable("table", str, ("x", "time"))[...] = np.array([["n"] * 5000] * 3, object)
        dataset.createVariable("alone", str, ())[...] = "one ☃"
        dataset.createVariable("empty", str, ("x",))
    target = knarr.repack(source, out / "a.zarr", "--chain", "t=zstd:3")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = {name: array[...] for name, array in zarr_compare.arrays(target).items()}
    assert read["names"].tolist() == [*names, *[""] * 4996]
    assert read["table"].tolist() == [["n"] * 5000] * 3
    assert str(read["alone"]) == "one ☃"
    assert read["empty"].tolist() == [""] * 3
    assert (target / "names" / "c" / "0").stat().st_size < 2000, "strings are compressed"
    knarr("verify", source, target)
    with xarray.open_zarr(target, consolidated=False) as dataset:
        assert dataset["names"].values.tolist()[1] == "zwölf"
    with netCDF4.Dataset(source, "a") as dataset:
        dataset["names"][1] = "elf"
    assert "strings differ first at element 1" in knarr("verify", source, target, ok=False).stdout


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_strings_of_a_store_are_copied(knarr, tmp_path, out, zarr_format):
    source = tmp_path / "in.zarr"
    root = zarr.create_group(source, zarr_format=zarr_format)
    root.create_array("bytes", data=np.array([b"abcde", b"f", b""] * 300, "S5"), chunks=(100,))
    root.create_array("characters", data=np.array([b"a", b"b"] * 3000, "S1"), chunks=(1000,))
    root.create_array("text", shape=(3,), dtype=str)[...] = np.array(["", "zwölf", "x" * 999], object)
    target = knarr.repack(source, out / "a.zarr")
    left, right = zarr_compare.arrays(source), zarr_compare.arrays(target)
    assert left.keys() == right.keys()
    for name in left:
        assert left[name][...].tolist() == right[name][...].tolist(), name
    knarr("verify", source, target)
    for suffix in ("nc", "h5"):
        names = ("in.zarr", "variable 'bytes'", "strings of 5 bytes", "write Zarr instead")
        knarr.fails(5, "repack", source, "-o", out / f"b.{suffix}", names=names)
        assert not (out / f"b.{suffix}").exists()


def test_a_string_that_is_not_utf8_is_refused(knarr, tmp_path, out):
    source = tmp_path / "latin1.h5"
    with h5py.File(source, "w") as file:
        values = np.array([b"a", "ü".encode("latin-1")], object)
        file.create_dataset("text", data=values, dtype=h5py.string_dtype("ascii"))
    names = ("latin1.h5", "variable 'text'", "not UTF-8", "write netCDF-4 or HDF5 instead")
    knarr.fails(5, "repack", source, "-o", out / "a.zarr", names=names)
    assert not list(out.iterdir())


def test_byte_strings_are_those_of_h5py(knarr, tmp_path, out):
    source = tmp_path / "bytes.h5"
    with h5py.File(source, "w") as file:
        file["short"] = np.array([[b"a", b"bc"], [b"", b"def"]], "S3")
        file.create_dataset("long", data=np.array([b"x" * 40, b"y"] * 900, "S40"), chunks=(400,))
        file.create_dataset("filled", (4,), "S12", fillvalue=b"nothing here", chunks=(2,))[:2] = b"here"
    target = knarr.repack(source, out / "a.zarr")
    with h5py.File(source) as file:
        for name, array in zarr_compare.arrays(target).items():
            values = array[...]
            assert values.dtype == file[name].dtype, name
            assert values.tobytes() == file[name][...].tobytes(), name
    knarr("verify", source, target)


@pytest.mark.parametrize("suffix", [".nc", ".h5"])
@pytest.mark.parametrize("name", zarr_inputs.INPUTS)
def test_zarr_to_hdf5(knarr, made, out, name, suffix):
    source = made("zarr", name)
    target = knarr.repack(source, out / f"a{suffix}")
    with h5py.File(target) as file:
        for path, array in zarr_compare.arrays(source).items():
            values = zarr_compare.native(array[...])
            stored = zarr_compare.native(np.asarray(file[path][...]))
            assert stored.shape == values.shape, path
            if values.dtype.kind == "b":
                stored = stored.astype(bool)
            assert stored.tobytes() == values.tobytes(), path
            for key, value in array.attrs.items():
                stored_attribute = file[path].attrs[key]
                assert (stored_attribute.decode() if isinstance(stored_attribute, bytes) else stored_attribute) == value
    if suffix == ".nc":
        netCDF4.Dataset(target).close()


def test_round_trip_through_zarr_keeps_a_netcdf_file(knarr, made, out):
    source = made("netcdf", "climate_history")
    there = knarr.repack(source, out / "there.zarr")
    back = knarr.repack(there, out / "back.nc")
    with netCDF4.Dataset(source) as before, netCDF4.Dataset(back) as after:
        for dataset in (before, after):
            dataset.set_auto_maskandscale(False)
        assert set(before.variables) == set(after.variables)
        for name, variable in before.variables.items():
            assert variable.dimensions == after.variables[name].dimensions, name
            assert bits(variable[...]) == bits(after.variables[name][...]), name
            assert set(variable.ncattrs()) == set(after.variables[name].ncattrs()), name


def test_a_type_zarr_cannot_hold_is_an_error(knarr, made, out):
    """All that Zarr has no type for are named at once, in file order."""
    refused = ("bitfield", "committed_compound", "compound", "nested", "opaque", "ragged", "seventeen_bits")
    names = ("user_types.h5", *(f"'{name}'" for name in refused), "write netCDF-4 or HDF5 instead")
    message = knarr.fails(5, "repack", made("hdf5", "user_types"), "-o", out / "a.zarr", names=names)
    places = [message.index(f"'{name}'") for name in refused]
    assert places == sorted(places)
    assert "committed_enum" not in message, "enumerations are written as their integers"
    assert not list(out.iterdir())


def test_enumerations_become_integers_with_flags(knarr, tmp_path, out):
    """Zarr has no enumerations: the names are kept as CF conventions 3.5 keep them."""
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as file:
        file["mask"] = np.arange(5000) % 3 == 0
        colours = h5py.enum_dtype({"RED": -1, "DARK BLUE": 42}, "i2")
        file.create_dataset("colour", data=np.array([-1, 42] * 2500, "i2"), dtype=colours)
    target = knarr.repack(source, out / "a.zarr")
    group = zarr.open_group(target, mode="r")
    assert group["mask"][...].tolist() == [int(at % 3 == 0) for at in range(5000)]
    assert group["mask"].attrs.asdict() == {"flag_values": [0, 1], "flag_meanings": "FALSE TRUE"}
    assert group["colour"].dtype == "i2" and group["colour"][:2].tolist() == [-1, 42]
    meanings = group["colour"].attrs["flag_meanings"].split()
    assert dict(zip(meanings, group["colour"].attrs["flag_values"], strict=True)) == {
        "RED": -1,
        "DARK_BLUE": 42,
    }
    knarr("verify", source, target)


def test_missing_chunks_are_not_written(knarr, made, out):
    target = knarr.repack(made("zarr", "v3_layouts"), out / "a.zarr", "--chunks", "keep")
    chunks = [path for path in (target / "missing").rglob("*") if path.is_file() and path.name != "zarr.json"]
    assert len(chunks) == 1
    assert zarr.open_array(target / "missing", mode="r")[0, 0] == -3


CHAINS = [
    "raw",
    "zstd:3",
    "gzip:5",
    "shuffle | deflate:5",
    "shuffle | lz4-sized | fletcher32",
    "bzip2:5",
    "shuffle | xz:1",
    "blosc:zstd,level=3,shuffle=bit",
    "pcodec:4",
    "grid",
]


@pytest.mark.parametrize("chain", CHAINS)
def test_knarr_reads_what_it_writes(knarr, made, out, chain):
    """Through Zarr and back, whichever chain was asked for."""
    source = made("netcdf", "climate_history")
    wish = [f"--chain={name}={chain}" for name in ("tas", "pr")]
    there = knarr.repack(source, out / "there.zarr", "--portable", "knarr", "--chunks", "tas=3x15x60", *wish)
    knarr("verify", source, there)
    back = knarr.repack(there, out / "back.nc")
    with netCDF4.Dataset(source) as before, netCDF4.Dataset(back) as after:
        for dataset in (before, after):
            dataset.set_auto_maskandscale(False)
        for name, variable in before.variables.items():
            assert bits(variable[...]) == bits(after.variables[name][...]), name


def test_knarr_reads_shards_of_its_own_codec(knarr, made, out):
    source = made("netcdf", "climate_history")
    wish = ("--portable", "knarr", "--chain", "tas=grid", "--chunks", "tas=1x2x5")
    there = knarr.repack(source, out / "there.zarr", *wish)
    metadata = json.loads((there / "tas" / "zarr.json").read_text())
    assert [codec["name"] for codec in metadata["codecs"]] == ["sharding_indexed"]
    knarr("verify", source, there)


@pytest.mark.parametrize("portable", [(), ("--portable", "standard"), ("--portable", "core")])
def test_knarrs_own_codec_is_not_written_to_zarr_unasked(knarr, made, out, portable):
    source = made("netcdf", "climate_history")
    names = ("climate_history.nc", "grid", "--portable knarr")
    knarr.fails(5, "repack", source, "-o", out / "a.zarr", *portable, "--chain", "tas=grid", names=names)
    assert not list(out.iterdir())
    target = knarr.repack(source, out / "b.zarr", *portable, "--goal", "ratio")
    assert "knarr." not in "".join(path.read_text() for path in target.rglob("zarr.json"))


def test_inspect_says_who_reads_a_store(knarr, made, out):
    source = made("netcdf", "climate_history")
    own = knarr.repack(source, out / "own.zarr", "--portable", "knarr", "--chain", "tas=grid")
    common = knarr.repack(source, out / "common.zarr", "--chain", "shuffle | zstd:3")
    for store, words in ((own, "Knarr, which alone has knarr.grid"), (common, "codecs")):
        assert words in knarr("inspect", store).stdout
        assert words in knarr.json("inspect", store)["files"][0]["reader"]
    assert "zstd" in knarr.json("inspect", common)["files"][0]["reader"]


def test_raw_bytes_of_version_2_can_be_read(knarr, tmp_path, out):
    source = tmp_path / "in.zarr"
    root = zarr.create_group(source, zarr_format=2)
    values = np.arange(120, dtype="u1").view("V3")
    for name, fill in (("filled", np.void(b"\1\2\3")), ("zero", np.void(bytes(3))), ("unfilled", None)):
        array = root.create_array(name, shape=(60,), chunks=(20,), dtype="V3", fill_value=fill)
        array[:40] = values
    target = knarr.repack(source, out / "a.zarr")
    copy = zarr.open_group(target, mode="r")
    for name in ("filled", "zero", "unfilled"):
        assert copy[name].dtype == "V3"
        assert copy[name][...].tobytes() == root[name][...].tobytes(), name
    assert copy["filled"].fill_value == np.void(b"\1\2\3")


ODD_NUMBERS = {
    "nan": np.nan,
    "inf": -np.inf,
    "list": [1.5, np.nan, np.inf],
    "wide": 2**70,
    "negative": -(2**63) - 1,
    "unsigned": 2**64 - 1,
    "mixed": [-1, 2**64 - 1],
    "exact": [0.5, 2**53 + 1],
    "nested": {"a": [np.nan, 2**70], "text": "NaN"},
    "text": "NaN",
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("version", [2, 3])
def test_attributes_keep_numbers_that_json_has_no_words_for(knarr, tmp_path, out, version):
    """zarr-python and xarray write NaN and Infinity bare, and whole numbers of any length."""
    source = tmp_path / "in.zarr"
    root = zarr.create_group(source, zarr_format=version, attributes=ODD_NUMBERS)
    root.create_array("T", data=np.arange(5.0), attributes=ODD_NUMBERS)
    target = knarr.repack(source, out / "a.zarr")
    knarr("verify", source, target)
    copy = zarr.open_group(target, mode="r")
    for attributes in (copy.attrs, copy["T"].attrs):
        assert repr({name: attributes[name] for name in ODD_NUMBERS}) == repr(ODD_NUMBERS)
    packed = knarr.repack(source, out / "a.nc")
    knarr("verify", source, packed)
    with netCDF4.Dataset(packed) as file:
        for kept in (file, file["T"]):
            assert np.isnan(kept.nan) and kept.inf == -np.inf and kept.text == "NaN"
            assert kept.list.tolist()[::2] == [1.5, np.inf]
            assert kept.unsigned == 2**64 - 1
            # What no type holds is text, not another number.
            for name in ("wide", "negative", "mixed", "exact", "nested"):
                assert repr(json.loads(kept.getncattr(name))) == repr(ODD_NUMBERS[name]), name


def test_numbers_of_netcdf_attributes_stay_numbers(knarr, tmp_path, out):
    source = tmp_path / "a.nc"
    with netCDF4.Dataset(source, "w") as file:
        file.createDimension("x", 5)
        variable = file.createVariable("T", "f4", ("x",))
        variable[:] = np.arange(5)
        variable.setncatts({"valid_max": np.float32(np.inf), "missing_value": np.float32(np.nan)})
        file.limits = np.array([-np.inf, 0, np.nan])
    target = knarr.repack(source, out / "a.zarr")
    knarr("verify", source, target)
    with xarray.open_zarr(target, decode_cf=False) as file:
        assert file["T"].valid_max == np.inf and np.isnan(file["T"].missing_value)
        assert repr(file.limits) == repr([-np.inf, 0.0, np.nan])


def test_portable_core_keeps_to_codecs_that_every_library_has(knarr, made, out):
    source = made("netcdf", "climate_history")
    named = {"core": set(), "standard": set()}
    for portable, names in named.items():
        target = out / f"{portable}.zarr"
        report = knarr.json("repack", source, "-o", target, "--portable", portable)
        assert report["files"][0]["reader"] == portable
        for path in target.rglob("zarr.json"):
            names.update(codec["name"] for codec in json.loads(path.read_text()).get("codecs", []))
        assert knarr.json("verify", source, target)["equal"]
    assert named["core"] <= {"bytes", "transpose", "gzip", "blosc", "zstd", "crc32c", "sharding_indexed"}
    assert any(name.startswith("numcodecs.") for name in named["standard"])
    chain = ("--chain", "tas=shuffle | zstd:3")
    knarr.fails(5, "repack", source, "-o", out / "a.zarr", *chain, "--portable", "core", names=("--portable standard",))


def test_what_zarr_does_not_say_is_told(knarr, tmp_path, out):
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as data:
        data.createDimension("time", None)
        data.createDimension("x", 30)
        data.createDimension("unused", 7)
        data.createVariable("T", "f4", ("time", "x"))[:] = np.ones((20, 30))
    text = knarr("repack", path, "-o", out / "a.zarr").stdout
    assert "Not kept: which dimensions can grow: 'time'" in text and "no variable has: 'unused'" in text
    assert "'x'" not in text
    text = knarr("repack", out / "a.zarr", "-o", out / "back.nc").stdout
    assert "Not kept: which dimensions can grow: " in text and "'time', 'x'" in text
    assert knarr.json("repack", out / "a.zarr", "-o", out / "b.nc")["files"][0]["notes"] == [text_of(text)]
    assert "Not kept" not in knarr("repack", path, "-o", out / "c.nc").stdout


def text_of(printed: str) -> str:
    return next(line for line in printed.splitlines() if line.startswith("Not kept: "))


def test_netcdf_c_notes_in_its_stores_what_can_grow(knarr, tmp_path, out):
    store = tmp_path / "store"
    try:
        data = netCDF4.Dataset(f"file://{store}#mode=nczarr,file", "w")
    except OSError:
        pytest.skip("this netCDF-C writes no Zarr")
    with data:
        data.createDimension("time", None)
        data.createDimension("x", 3)
        data.createGroup("g").createVariable("T", "f4", ("time", "x"))[:] = np.ones((4, 3))
    assert "Not kept" not in knarr("repack", store, "-o", out / "a.nc").stdout
    with netCDF4.Dataset(out / "a.nc") as data:
        dimensions = data["g"].dimensions
        assert dimensions["time"].isunlimited() and not dimensions["x"].isunlimited()
        assert data["g/T"].shape == (4, 3)
