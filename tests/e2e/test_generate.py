"""`knarr generate`: files that other people's readers open, the same bytes for the same seed, statistics."""

from __future__ import annotations

import h5py
import netCDF4
import numpy as np
import pytest
import zarr

USAGE, UNWRITABLE = 2, 4
PATTERNS = [
    "constant",
    "random",
    "steps",
    "sines",
    "polynomial",
    "simplex",
    "fractal",
    "ocean",
    "patches",
    "particles",
    "detector",
]


def raw(path, dtype="<f4"):
    return np.fromfile(path, dtype=dtype)


def test_the_list_names_every_pattern_with_a_line(knarr):
    lines = knarr("generate", "--list").stdout.splitlines()
    listed = {line.split()[0]: line for line in lines if not line.startswith(" ")}
    assert list(listed) == PATTERNS
    assert all(len(line.split()) > 3 for line in listed.values())


def test_every_pattern_is_read_by_others(knarr, out):
    shape = ("--shape", "3x20x30", "--shape", "particles=600x6")
    names = ("--dims", "t,y,x", "--dims", "particles=particle,column")
    knarr("generate", *PATTERNS, *shape, "-o", out / "a.h5")
    knarr("generate", *PATTERNS, *shape, *names, "-o", out / "a.nc")
    knarr("generate", *PATTERNS, *shape, *names, "-o", out / "a.zarr", "--goal", "ratio")
    assert (out / "a.zarr.knarr.json").exists() and not (out / "a.h5.knarr.json").exists()
    store = zarr.open_group(out / "a.zarr", mode="r")
    with h5py.File(out / "a.h5") as hdf5, netCDF4.Dataset(out / "a.nc") as netcdf:
        netcdf.set_auto_mask(False)
        for name in PATTERNS:
            values = hdf5[name][...]
            assert values.dtype == ("<u2" if name == "detector" else "<f4")
            assert values.shape == ((600, 6) if name == "particles" else (3, 20, 30))
            np.testing.assert_array_equal(netcdf[name][...], values, err_msg=name)
            np.testing.assert_array_equal(store[name][...], values, err_msg=name)
            assert name in netcdf[name].comment
        assert netcdf["fractal"].dimensions == ("t", "y", "x")
        assert np.unique(hdf5["constant"][...]).tolist() == [42.0]
        assert len(np.unique(hdf5["steps"][...])) == 8
        land = hdf5["ocean"][...] == np.float32(1e20)
        assert abs(land.mean() - 0.3) < 0.001 and (land[0] == land[2]).all()


def test_bytes_depend_on_the_seed_alone(knarr, out):
    fields = [f"{name}={name}" for name in PATTERNS if name != "particles"]
    options = ("--shape", "5x61x67", "--noise", "0.1", "--fill", "0.05")

    def hashes(file: str, *more: object) -> dict[str, str]:
        knarr("generate", *fields, *options, "-o", out / file, *more)
        return knarr.variable_hashes(out / file)

    first = hashes("a.nc", "--jobs", 1)
    knarr("generate", *fields, *options, "-o", out / "b.nc", "--jobs", 2)
    assert (out / "a.nc").read_bytes() == (out / "b.nc").read_bytes()
    other = hashes("c.nc", "--seed", 1)
    assert all(first[name] != other[name] for name in first)
    # Chunks and container do not matter, nor do the other variables.
    assert hashes("d.h5", "--chunks", "2x10x9", "--max-mem", "64M") == first
    knarr("generate", "sines=sines", *options, "-o", out / "sines.zarr")
    assert knarr.variable_hashes(out / "sines.zarr")["sines"] == first["sines"]


def test_raw_and_csv_hold_the_same_values(knarr, out):
    options = ("T=fractal", "--shape", "40x50", "--range", "-5:5", "--seed", "T=3")
    knarr("generate", *options, "-o", out / "T.bin")
    knarr("generate", *options, "-o", out / "T.csv")
    values = raw(out / "T.bin").reshape(40, 50)
    np.testing.assert_array_equal(np.loadtxt(out / "T.csv", delimiter=",", dtype="<f4"), values)
    assert -5 <= values.min() < values.max() <= 5


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float64"])
def test_every_type_is_written(knarr, out, dtype):
    knarr("generate", "x=sines", "--shape", "7x11", "--type", dtype, "-o", out / "a.nc")
    with netCDF4.Dataset(out / "a.nc") as file:
        values = file["x"][...]
    assert values.dtype == dtype
    assert values.max() - values.min() > (1 if dtype == "float64" else 20)


@pytest.mark.parametrize("shape", ["scalar", "0", "1", "3x0x5", "1x1x1", "7x11x13", "2x3x2x3x2x3"])
def test_odd_shapes(knarr, out, shape):
    extents = () if shape == "scalar" else tuple(map(int, shape.split("x")))
    for suffix in ("nc", "h5", "zarr", "bin"):
        knarr("generate", "a=simplex", "--shape", shape, "-o", out / f"a.{suffix}")
    with netCDF4.Dataset(out / "a.nc") as file, h5py.File(out / "a.h5") as hdf5:
        assert file["a"].shape == hdf5["a"].shape == extents
        np.testing.assert_array_equal(file["a"][...], hdf5["a"][...])
        np.testing.assert_array_equal(raw(out / "a.bin").reshape(extents), hdf5["a"][...])
        np.testing.assert_array_equal(zarr.open_group(out / "a.zarr", mode="r")["a"][...], hdf5["a"][...])


def test_noise_and_missing_values_are_as_asked(knarr, out):
    knarr(
        "generate",
        *("flat=constant:10", "few=constant:10", "land=constant:10", "count=detector:background=9,rings=0,peaks=0"),
        *("--shape", "4x200x250", "--type", "float64", "--type", "count=uint16"),
        *("--noise", "flat=uniform:0.5", "--noise", "few=0.25", "--noise", "land=relative:0.1"),
        *("--fill", "few=0.1", "--fill", "land=region:0.4", "--fill-value", "few=-1", "-o", out / "a.nc"),
    )
    with netCDF4.Dataset(out / "a.nc") as file:
        flat, few, land = (file[name][...] for name in ("flat", "few", "land"))
        assert file["few"]._FillValue == -1 and "_FillValue" not in file["flat"].ncattrs()
        count = file["count"][...]
    assert 9.5 <= flat.min() < 9.501 and 10.499 < flat.max() <= 10.5
    assert abs(flat.std() / (0.5 / 3**0.5) - 1) < 0.01
    assert abs(few.mask.mean() - 0.1) < 0.003 and abs(few.std() / 0.25 - 1) < 0.01
    assert abs(land.mask.mean() - 0.4) < 0.015 and abs(land.std() - 1) < 0.02
    lit = count[:, 90:110, 115:135]
    assert abs(lit[lit < 1000].mean() - 8.7) < 0.4


def test_groups_and_compression_in_one_go(knarr, out):
    knarr(
        *("generate", "sea/T=ocean", "sea/ice/h=steps", "--shape", "12x90x180", "--dims", "month,lat,lon"),
        *("--chain", "shuffle | zstd:3", "--max-abs-error", "sea/T=0.01", "-o", out / "a.nc"),
    )
    with netCDF4.Dataset(out / "a.nc") as file:
        assert file["sea/T"].filters()["zstd"] and file["sea/ice/h"].dimensions == ("month", "lat", "lon")
        assert file.dimensions["lat"].size == 90
    knarr("generate", "sea/T=ocean", "--shape", "12x90x180", "-o", out / "plain.nc")
    with netCDF4.Dataset(out / "a.nc") as packed, netCDF4.Dataset(out / "plain.nc") as plain:
        error = np.abs(packed["sea/T"][...] - plain["sea/T"][...])
    assert 0 <= error.max() <= 0.01


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["T=simplx", "--shape", "4"], ("variable 'T'", "'simplx'", "simplex", "--list")),
        (["T=simplex:scal=4", "--shape", "4"], ("pattern 'simplex'", "'scal'", "scale")),
        (["T=simplex"], ("variable 'T'", "no shape", "--shape")),
        (["T=simplex", "--shape", "4x"], ("--shape", "'4x'")),
        (["T=simplex", "--shape", "U=4"], ("--shape", "'U'", "there are: T")),
        (["T=simplex", "--shape", "4", "--type", "text"], ("--type", "'text'", "float32")),
        (["T=simplex", "--shape", "4", "--noise", "T=loud:1"], ("--noise", "'loud:1'", "normal")),
        (["T=simplex", "--shape", "4", "--noise", "-1"], ("--noise", "'-1'", "0 or above")),
        (["T=simplex", "--shape", "4", "--fill", "-0.5"], ("--fill", "'-0.5'", "0 to 1")),
        (["T=simplex", "--shape", "-4"], ("--shape", "'-4'")),
        (["T=simplex", "--shape", "4", "--jobs", "-1"], ("--jobs", "-1", "1..=4096")),
        (["T=simplex", "--shape", "4", "--fill", "2"], ("--fill", "'2'", "0 to 1")),
        (["T=simplex", "--shape", "4", "--range", "3:1"], ("--range", "'3:1'")),
        (["T=simplex", "T=steps", "--shape", "4"], ("'T'", "two variables")),
        (["T=simplex", "--shape", "4", "--seed", "-1"], ("--seed", "'-1'")),
        (["T=simplex", "--shape", "99999999999x99999999999"], ("'T'", "larger than any file")),
        ([], ()),
    ],
)
def test_mistakes_are_named(knarr, out, arguments, names):
    knarr.fails(USAGE, "generate", *arguments, "-o", out / "a.nc", names=names)
    assert not list(out.iterdir())


def test_an_output_is_not_replaced_unless_asked(knarr, out):
    (out / "a.bin").write_bytes(b"mine")
    knarr.fails(UNWRITABLE, "generate", "T=steps", "--shape", "4", "-o", out / "a.bin", names=("--force",))
    assert (out / "a.bin").read_bytes() == b"mine"
    knarr("generate", "T=steps", "--shape", "4", "-o", out / "a.bin", "--force")
    assert raw(out / "a.bin").size == 4


def test_memory_is_bounded(knarr, out):
    """96 MiB of values within an address space of 700 MB, of which the program's own pages and stacks are a part."""
    import resource

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20))

    for suffix in ("bin", "h5"):
        path = out / f"a.{suffix}"
        options = ("--shape", "24x1024x1024", "--max-mem", "64M", "--jobs", 2)
        knarr("generate", "r=random", *options, "-o", path, preexec_fn=limit)
        assert path.stat().st_size >= 24 << 22
