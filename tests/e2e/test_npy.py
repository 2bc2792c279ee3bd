"""NumPy's files as inputs, against NumPy and the readers of what comes of them."""

from __future__ import annotations

import netCDF4
import numpy as np
import pytest
import xarray
import zarr

from values import smooth_field

UNREADABLE, CANNOT_SERVE = 3, 5
TYPES = ["i1", ">u2", "<f4", ">f8"]


def field(dtype: str, order: str, shape: tuple[int, ...] = (24, 37, 41)) -> np.ndarray:
    values = np.asarray(100 * smooth_field(shape, seed=2), dtype)
    if values.dtype.kind == "f":
        values[0, 0, :4] = np.array([np.nan, -0.0, np.inf, 1e-40])
    return np.asarray(values, order=order)


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", TYPES)
def test_arrays_become_files_and_stores_bit_for_bit(knarr, tmp_path, out, dtype, order):
    values = field(dtype, order)
    np.save(tmp_path / "T.npy", values)
    knarr("repack", tmp_path / "T.npy", "-o", out / "a.nc")
    knarr("repack", tmp_path / "T.npy", "-o", out / "a.zarr")
    wanted = values.astype(values.dtype.newbyteorder("<")).tobytes()
    with netCDF4.Dataset(out / "a.nc") as file:
        file.set_auto_maskandscale(False)
        assert file["T"].dimensions == ("dim_0", "dim_1", "dim_2") and file["T"].dtype == values.dtype.newbyteorder("<")
        assert file["T"][...].tobytes() == wanted
    assert zarr.open_group(out / "a.zarr")["T"][...].tobytes() == wanted
    for output in ("a.nc", "a.zarr"):
        knarr("verify", tmp_path / "T.npy", out / output)


def test_all_commands_take_them(knarr, tmp_path, out):
    np.save(tmp_path / "T.npy", field("<f4", "F", (120, 90, 80)))
    [told] = knarr.json("inspect", tmp_path / "T.npy")["files"]
    assert told["format"] == "NumPy"
    assert "120x90x80" in knarr("inspect", tmp_path / "T.npy").stdout
    assert "T.npy" in knarr("advise", tmp_path / "T.npy").stdout
    knarr("repack", tmp_path / "T.npy", "-o", out / "a.h5")
    assert "T: f32 120x90x80" in knarr("explain", out / "a.h5").stdout
    assert knarr.content_hash(out / "a.h5") == knarr.content_hash(tmp_path / "T.npy")
    # Chunks across those that lie in the file.
    knarr("repack", tmp_path / "T.npy", "-o", out / "b.zarr", "--chunks", "7x90x80", "--max-mem", "16M")
    assert zarr.open_group(out / "b.zarr")["T"].chunks == (7, 90, 80)
    knarr("verify", tmp_path / "T.npy", out / "b.zarr")
    knarr("repack", tmp_path / "T.npy", "-o", out / "c.nc", "--max-abs-error", "0.1")
    knarr("verify", tmp_path / "T.npy", out / "c.nc")


def test_truth_values_stay_such_to_xarray(knarr, tmp_path, out):
    values = np.random.default_rng(1).random((300, 40)) < 0.3
    np.save(tmp_path / "mask.npy", values)
    for name in ("a.nc", "a.zarr"):
        knarr("repack", tmp_path / "mask.npy", "-o", out / name)
        with xarray.open_dataset(out / name) as dataset:
            assert dataset["mask"].dtype == bool
            np.testing.assert_array_equal(dataset["mask"], values)


def test_what_a_set_of_checkpoints_gives_is_read(knarr, tmp_path, out, made):
    source = made("netcdf", "climate_history")
    (tmp_path / "step").mkdir()
    (tmp_path / "step" / "rank_0.nc").write_bytes(source.read_bytes())
    knarr("checkpoint", "pack", tmp_path / "step", "-o", out / "set")
    with netCDF4.Dataset(source) as file:
        name = next(name for name, v in file.variables.items() if v.ndim >= 2 and v.dtype.kind in "if")
    knarr("checkpoint", "restore", out / "set", "--variables", name, "-d", out / "parts")
    [part] = (out / "parts").rglob("*.npy")
    [own] = knarr.variable_hashes(part).values()
    knarr("repack", part, "-o", out / "a.nc")
    assert list(knarr.variable_hashes(out / "a.nc").values()) == [own]


@pytest.mark.parametrize(
    ("values", "code", "names"),
    [
        (np.zeros(3, "c8"), CANNOT_SERVE, ("complex numbers", "array.real")),
        (np.zeros(3, [("a", "f4"), ("b", "i2")]), CANNOT_SERVE, ("structured", "array['field']")),
        (np.array([{}, None], object), CANNOT_SERVE, ("objects of Python",)),
    ],
)
def test_what_is_no_number_is_refused(knarr, tmp_path, out, values, code, names):
    np.save(tmp_path / "bad.npy", values, allow_pickle=True)
    knarr.fails(code, "repack", tmp_path / "bad.npy", "-o", out / "a.nc", names=("bad.npy", *names))
    assert not list(out.iterdir())


def test_damaged_files_are_refused(knarr, tmp_path, out):
    np.save(tmp_path / "a.npy", np.arange(1000.0))
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[:-8])
    names = ("cut.npy", "8 bytes are missing")
    knarr.fails(UNREADABLE, "repack", tmp_path / "cut.npy", "-o", out / "a.nc", names=names)
    (tmp_path / "more.npy").write_bytes(whole + whole)
    names = ("more.npy", "bytes follow the array", "file of its own")
    knarr.fails(CANNOT_SERVE, "repack", tmp_path / "more.npy", "-o", out / "a.nc", names=names)
    assert not list(out.iterdir())


def test_readers_of_hdf5_have_no_say_about_other_formats(knarr, tmp_path):
    np.save(tmp_path / "a.npy", np.arange(10.0))
    np.savetxt(tmp_path / "a.csv", np.arange(10.0))
    told = knarr.json("doctor", tmp_path / "a.npy", tmp_path / "a.csv")["files"]
    assert [(file["format"], file["verdicts"]) for file in told] == [("NumPy", []), ("CSV", [])]
