"""Zarr stores with what would get lost: arrays outside of the hierarchy, names of axes, types that are not decoded."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import h5py
import netCDF4
import numcodecs
import numpy as np
import pytest
import xarray
import zarr


def store(path: Path, zarr_format: int = 3) -> zarr.Group:
    return zarr.open_group(path, mode="w", zarr_format=zarr_format)


@pytest.mark.parametrize(
    ("zarr_format", "file", "text"),
    [(3, "zarr.json", '{"zarr_format": 3, "node_type": "group"}'), (2, ".zgroup", '{"zarr_format": 2}')],
)
@pytest.mark.parametrize("name", ["a/v", "a/b/v"])
def test_arrays_below_what_is_no_group_are_not_dropped(knarr, tmp_path, out, zarr_format, file, text, name):
    path = tmp_path / "in.zarr"
    store(path, zarr_format).create_array(name, data=np.arange(10.0))
    (path / "a" / file).unlink()
    for command in (("inspect", path), ("verify", path, path), ("repack", path, "-o", out / "a.nc")):
        knarr.fails(3, *command, names=(f"in.zarr: directory 'a': '{name[2]}'", file, text))
    assert not list(out.iterdir())
    (path / "a" / file).write_text(text)
    assert list(knarr.variable_hashes(path)) == [f"/{name}"] or list(knarr.variable_hashes(path)) == [name]


def test_directories_that_hold_no_arrays_do_no_harm(knarr, tmp_path):
    path = tmp_path / "in.zarr"
    store(path).create_array("v", data=np.arange(10.0))
    (path / "notes" / "old").mkdir(parents=True)
    (path / "notes" / "old" / "words.txt").write_text("words")
    store(path / ".backup" / "copy.zarr")
    knarr("inspect", path)


def test_an_axis_that_loses_its_name_is_told(knarr, tmp_path, out):
    path = tmp_path / "in.zarr"
    group = store(path)
    for name, length in (("p", 500), ("q", 700), ("r", 500)):
        data = np.arange(length * 4.0).reshape(length, 4)
        group.create_array(name, data=data, dimension_names=["x", "y"])
    for suffix in ("nc", "h5"):
        target = out / f"a.{suffix}"
        # So small a store becomes larger, which is told, too.
        said = knarr("repack", path, "-o", target).stderr.splitlines()
        [told] = [line for line in said if "larger than the input" not in line]
        assert all(word in told for word in ("in.zarr", "'q'", "'x'", "700", "is lost"))
        found = knarr("verify", path, target, ok=False)
        assert found.returncode == 1 and "/q: dimensions (x, y) became" in found.stdout and "/p" not in found.stdout
        assert knarr("verify", path, target, "--values-only").returncode == 0
    with netCDF4.Dataset(out / "a.nc") as file:
        assert file["p"].dimensions == file["r"].dimensions == ("x", "y") != file["q"].dimensions
    assert not knarr("repack", path, "-o", out / "a.zarr").stderr
    knarr("verify", path, out / "a.zarr")
    assert zarr.open_group(out / "a.zarr")["q"].metadata.dimension_names == ("x", "y")


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        ("M8[ns]", "dates (numpy datetime64, <M8[ns])"),
        ("m8[s]", "durations (numpy timedelta64, <m8[s])"),
        ("c8", "complex numbers (<c8)"),
    ],
)
def test_types_that_are_not_decoded_are_called_what_people_call_them(knarr, tmp_path, out, dtype, words):
    path = tmp_path / "in.zarr"
    store(path, 2).create_array("v", data=np.arange(10).astype(dtype))
    message = knarr.fails(5, "repack", path, "-o", out / "a.nc", names=("'v'", words, "a copy of the store without it"))
    assert "Simple" not in message
    done = knarr("repack", path, "-o", out / "a.zarr", ok=False)
    assert words in done.stdout + done.stderr and "Simple" not in done.stderr


def test_dates_of_version_3_have_a_name(knarr, tmp_path, out):
    path = tmp_path / "in.zarr"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr-python warns of types without a specification.
        store(path).create_array("v", data=np.arange(10).astype("M8[ns]"))
    knarr.fails(5, "repack", path, "-o", out / "a.nc", names=("'v'", "dates (numpy.datetime64)"))


def test_the_store_is_named_once(knarr, tmp_path):
    path = tmp_path / "in.zarr"
    store(path).create_array("v", data=np.arange(10.0))
    (path / "v" / "zarr.json").write_text("{")
    message = knarr.fails(3, "inspect", path, names=(f"{path}: v/zarr.json: no valid JSON",))
    assert message.count("in.zarr") == 1


def test_objects_of_version_2_are_those_that_zarr_python_reads(knarr, tmp_path, out):
    source = tmp_path / "in.zarr"
    text = {"name": ("x", np.array(["a", "bc", ""]))}
    xarray.Dataset({"a": ("x", [1.0, 2.0, 3.0])}, coords=text).to_zarr(source, mode="w", zarr_format=2)
    objects = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "|O", "fill_value": 0, "order": "C"}
    rows = np.array([b"a", b"bb"], object)
    array = source / "rows"
    array.mkdir()
    objects |= {"compressor": None, "filters": [{"id": "vlen-bytes"}]}
    (array / ".zarray").write_text(json.dumps(objects))
    (array / "0").write_bytes(bytes(numcodecs.VLenBytes().encode(rows)))
    (source / ".zmetadata").unlink(missing_ok=True)
    knarr("repack", source, "-o", out / "a.zarr")
    found = zarr.open_group(out / "a.zarr", mode="r")
    assert found["name"][:].tolist() == ["a", "bc", ""] and found["rows"][:].tolist() == rows.tolist()
    objects["filters"] = [{"id": "vlen-array", "dtype": "<i4"}]
    (array / ".zarray").write_text(json.dumps(objects))
    knarr.fails(5, "repack", source, "-o", out / "b.zarr", names=("in.zarr", "'rows'", "ragged", "without it"))
    assert not (out / "b.zarr").exists()


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(("dtype", "fill"), [("i4", "0.0"), ("u1", "255.0"), ("i8", "-3.0")])
def test_whole_fill_values_may_be_written_as_floating_point(knarr, tmp_path, out, zarr_format, dtype, fill):
    """As the library z5 writes them, and zarr-python reads them."""
    source = tmp_path / "in.zarr"
    values = np.arange(100).reshape(10, 10).astype(dtype)
    array = store(source, zarr_format).create_array("v", data=values, chunks=(4, 10), fill_value=int(float(fill)))
    text = {2: ".zarray", 3: "zarr.json"}[zarr_format]
    document = json.loads((source / "v" / text).read_text())
    document["fill_value"] = float(fill)
    (source / "v" / text).write_text(json.dumps(document))
    # A chunk that was never written stands for the fill value.
    next(path for path in (source / "v").rglob("*") if path.name in ("1.0", "0") and path.is_file()).unlink()
    expected = zarr.open_group(source, mode="r")["v"][:]
    assert (expected == int(float(fill))).any() and array.dtype == expected.dtype
    knarr("repack", source, "-o", out / "a.zarr")
    knarr("repack", source, "-o", out / "a.nc")
    np.testing.assert_array_equal(zarr.open_group(out / "a.zarr", mode="r")["v"][:], expected)
    with netCDF4.Dataset(out / "a.nc") as found:
        found.set_auto_mask(False)
        np.testing.assert_array_equal(found["v"][:], expected)


@pytest.mark.parametrize("fill", ["0.5", "300.0"])
def test_fill_values_that_are_no_integers_of_the_type_are_refused(knarr, tmp_path, out, fill):
    source = tmp_path / "in.zarr"
    store(source, 2).create_array("v", data=np.arange(9, dtype="u1"), chunks=(3,))
    document = json.loads((source / "v" / ".zarray").read_text())
    document["fill_value"] = float(fill)
    (source / "v" / ".zarray").write_text(json.dumps(document))
    knarr.fails(3, "repack", source, "-o", out / "a.zarr", names=("v", "fill"))


def test_attributes_named_as_those_of_dimension_scales_are_the_users(knarr, tmp_path, out):
    source = tmp_path / "in.h5"
    with h5py.File(source, "w") as file:
        file.attrs["CLASS"] = "GROUP"
        file["T"] = np.arange(1000.0)
        file["T"].attrs["NAME"] = "mine"
    knarr("repack", source, "-o", out / "a.zarr")
    knarr("verify", source, out / "a.zarr")
    found = zarr.open_group(out / "a.zarr", mode="r")
    assert found.attrs["CLASS"] == "GROUP" and found["T"].attrs["NAME"] == "mine"


ONLY_IN_ZARR = ("c8", "c16", "M8[ns]", "m8[s]", "U5", "V5")


def written(path: Path, dtype: str, *, zarr_format: int, order: str = "<", changed: bool = False) -> Path:
    """One array with chunks that were never written, in this byte order."""
    numbers = np.arange(1, 41).reshape(8, 5) + 40 * changed
    values = np.array([f"é{n}" for n in numbers.flat]).reshape(8, 5) if dtype[0] == "U" else numbers
    values = values.astype("S5").astype("V5") if dtype[0] == "V" else values.astype(dtype)
    full = values.dtype.newbyteorder(order)
    keyword = {"filters": [numcodecs.Shuffle(4)], "compressors": numcodecs.Zstd()} if zarr_format == 2 else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr-python warns of types without a specification.
        array = store(path, zarr_format).create_array("v", shape=(24, 5), chunks=(8, 5), dtype=full, **keyword)
        array[8:16] = values
    return path


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", ONLY_IN_ZARR)
def test_types_that_only_zarr_has_are_hashed_and_compared(knarr, tmp_path, dtype, zarr_format):
    little = written(tmp_path / "little.zarr", dtype, zarr_format=zarr_format)
    big = written(tmp_path / "big.zarr", dtype, zarr_format=5 - zarr_format, order=">")
    changed = written(tmp_path / "changed.zarr", dtype, zarr_format=zarr_format, changed=True)
    assert knarr.variable_hashes(little) == knarr.variable_hashes(big) != knarr.variable_hashes(changed)
    told = knarr("verify", little, big).stdout
    assert "1 variable: equal" in told and "not compared" not in told
    done = knarr("verify", little, changed, ok=False)
    assert done.returncode == 1 and "DIFFERS: bits differ first at element 40" in done.stdout


def test_types_of_the_same_size_are_not_equal(knarr, tmp_path):
    dtypes = ("M8[ns]", "m8[ns]", "M8[us]")
    stores = [written(tmp_path / f"{n}.zarr", dtype, zarr_format=2) for n, dtype in enumerate(dtypes)]
    for other in stores[1:]:
        done = knarr("verify", stores[0], other, ok=False)
        assert done.returncode == 1 and "type datetime64[ns] became" in done.stdout


def test_what_is_not_compared_is_not_called_equal(knarr, tmp_path):
    path = tmp_path / "in.h5"
    with h5py.File(path, "w") as file:
        file["T"] = np.arange(10.0)
        file["link"] = np.array([file["T"].ref], h5py.ref_dtype)
    told = knarr("verify", path, path).stdout
    assert "1 variable: equal" in told and "1 not compared" in told


@pytest.mark.parametrize(("file", "known"), [("zarr.json", 3), (".zgroup", 2), ("v/.zarray", 2), ("v/zarr.json", 3)])
def test_versions_that_are_not_known_are_not_called_damage(knarr, tmp_path, file, known):
    path = tmp_path / "in.zarr"
    store(path, known).create_array("v", data=np.arange(10.0))
    metadata = path / file
    metadata.write_text(metadata.read_text().replace(f'"zarr_format": {known}', f'"zarr_format": {known + 1}'))
    message = knarr.fails(3, "inspect", path, names=(file, f"'zarr_format' is {known + 1}, Knarr knows {known}"))
    assert "damaged" not in message and "restore" not in message
