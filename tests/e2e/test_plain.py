"""CSV and raw, in and out, against NumPy and pandas."""

from __future__ import annotations

import h5py
import netCDF4
import numpy as np
import pandas
import pytest

from values import smooth_field

USAGE, UNREADABLE, CANNOT_SERVE = 2, 3, 5


@pytest.mark.parametrize("dtype", [f"{order}{kind}" for order in "<>" for kind in ("f4", "f8", "i2", "u4", "i8", "f2")])
def test_raw_files_of_numpy_come_in_and_go_out(knarr, tmp_path, out, dtype):
    values = (100 * smooth_field((6, 37, 41), seed=2)).astype(dtype)
    values.tofile(tmp_path / "field.bin")
    name = np.dtype(dtype).newbyteorder("=").name
    layout = f"shape=6x37x41,type={name},order={'big' if dtype[0] == '>' else 'little'},name=T"
    knarr("repack", tmp_path / "field.bin", "--raw", layout, "-o", out / "a.h5")
    with h5py.File(out / "a.h5") as file:
        np.testing.assert_array_equal(file["T"][...], values)
    knarr("verify", tmp_path / "field.bin", out / "a.h5", "--raw", layout)
    knarr("repack", out / "a.h5", "-o", out / "b.raw")
    np.testing.assert_array_equal(np.fromfile(out / "b.raw", dtype="<" + dtype[1:]), values.ravel())


def test_all_commands_take_raw_files_and_say_how_to_read_them_back(knarr, tmp_path, out):
    (tmp_path / "a.dat").write_bytes(b"head" + np.arange(600, dtype="<i4").tobytes())
    described = ("--raw", "shape=20x30,type=int32,offset=4")
    assert "20x30" in knarr("inspect", tmp_path / "a.dat", *described).stdout
    assert "a.dat" in knarr("advise", tmp_path / "a.dat", *described).stdout
    hashes = knarr.json("hash", tmp_path / "a.dat", *described)["variables"]
    said = knarr("repack", tmp_path / "a.dat", *described, "-o", out / "b.bin").stdout
    back = said.split("--raw ")[1].split()[0]
    assert knarr.json("hash", out / "b.bin", "--raw", back)["variables"] == hashes
    assert sorted(path.name for path in out.iterdir()) == ["b.bin"], "no plan is beside it: nothing was chosen"


def test_one_variable_of_many_goes_to_a_raw_file(knarr, made, out):
    source = made("netcdf", "climate_history")
    message = knarr.fails(CANNOT_SERVE, "repack", source, "-o", out / "a.bin", names=("one variable", "--variable"))
    with netCDF4.Dataset(source) as file:
        file.set_auto_maskandscale(False)
        name = next(name for name, v in file.variables.items() if v.ndim >= 2 and v.dtype.kind in "if")
        values = file[name][...]
    assert name in message
    knarr("repack", source, "-o", out / "a.bin", "--variable", name)
    np.testing.assert_array_equal(np.fromfile(out / "a.bin", dtype=values.dtype.newbyteorder("<")), values.ravel())
    knarr.fails(USAGE, "repack", source, "-o", out / "b.nc", "--variable", name, names=("--variable", ".bin"))
    knarr.fails(USAGE, "repack", source, "-o", out / "b.bin", "--variable", "nothing", names=("'nothing'",))
    knarr.fails(
        *(CANNOT_SERVE, "repack", source, "-o", out / "b.bin", "--variable", name, "--chain", "zstd"),
        names=("--chain",),
    )


@pytest.mark.parametrize(
    ("layout", "code", "names"),
    [
        ("shape=10x10,type=float32", UNREADABLE, ("a.bin", "400 bytes", "has 401", "1 bytes over")),
        ("shape=10x10", USAGE, ("--raw", "type is missing")),
        ("shape=10xy,type=u8", USAGE, ("--raw", "'10xy'")),
        ("10x10", USAGE, ("--raw", "KEY=VALUE", "shape=24x180x360")),
    ],
)
def test_wrong_descriptions_are_refused(knarr, tmp_path, out, layout, code, names):
    (tmp_path / "a.bin").write_bytes(bytes(401))
    knarr.fails(code, "repack", tmp_path / "a.bin", "--raw", layout, "-o", out / "a.nc", names=names)
    assert not list(out.iterdir())


def test_a_file_of_no_format_says_what_would_help(knarr, tmp_path):
    (tmp_path / "a.bin").write_bytes(bytes(400))
    knarr.fails(UNREADABLE, "inspect", tmp_path / "a.bin", names=("no known format", "--raw shape="))


def test_tables_of_pandas_come_back_bit_for_bit(knarr, tmp_path, out):
    random = np.random.default_rng(5)
    table = pandas.DataFrame(
        {
            "time": np.arange(2000),
            "T": random.normal(280, 10, 2000),
            "tiny": random.random(2000) * 10.0 ** random.integers(-320, 300, 2000),
            "large": random.integers(-(2**63), 2**63 - 1, 2000),
            "whole": np.arange(2000) * 1.0,
        }
    )
    table.to_csv(tmp_path / "table.csv", index=False)
    knarr("repack", tmp_path / "table.csv", "-o", out / "a.nc")
    with netCDF4.Dataset(out / "a.nc") as file:
        for name, column in table.items():
            assert file[name].dimensions == ("row",) and file[name].dtype == column.dtype
            assert file[name][...].tobytes() == column.to_numpy().tobytes(), name
    knarr("verify", tmp_path / "table.csv", out / "a.nc")
    knarr("repack", out / "a.nc", "-o", out / "b.tsv")
    back = pandas.read_csv(out / "b.tsv", sep="\t")
    pandas.testing.assert_frame_equal(back, table, check_exact=True)
    assert knarr.variable_hashes(out / "b.tsv") == knarr.variable_hashes(tmp_path / "table.csv")


@pytest.mark.parametrize("separator", [",", ";", "\t", " "])
@pytest.mark.parametrize("header", [None, "comment"])
def test_matrices_of_numpy_come_in(knarr, tmp_path, out, separator, header):
    values = smooth_field((23, 17), seed=3).astype("f8")
    options = {} if header is None else {"header": "a comment, of numpy"}
    np.savetxt(tmp_path / "m.txt", values, delimiter=separator, fmt="%.17g", **options)
    knarr("repack", tmp_path / "m.txt", "-o", out / "a.h5")
    with h5py.File(out / "a.h5") as file:
        np.testing.assert_array_equal(file["data"][...], values)
    knarr("repack", out / "a.h5", "-o", out / "m.csv")
    np.testing.assert_array_equal(np.loadtxt(out / "m.csv", delimiter=","), values)


def test_missing_values_stay_missing(knarr, tmp_path, out):
    (tmp_path / "a.csv").write_text("n,x\n1,2.5\n,\n3,NaN\nNA,-0.0\n")
    knarr("repack", tmp_path / "a.csv", "-o", out / "a.nc")
    with netCDF4.Dataset(out / "a.nc") as file:
        n, x = file["n"][...], file["x"][...]
    assert n.dtype == "i8" and n.mask.tolist() == [False, True, False, True] and n[2] == 3
    assert np.isnan(x.data).tolist() == [False, True, True, False] and np.signbit(x.data[3])
    knarr("repack", out / "a.nc", "-o", out / "b.csv")
    assert (out / "b.csv").read_text() == "n,x\n1,2.5\n,NaN\n3,NaN\n,-0.0\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b\n1,2\n3\n", ("line 3", "1 values", "first row has 2")),
        ("a,b\n1,2\n3,x\n", ("line 3, column 2 ('b')", "'x' is not a number")),
        ("a;b\n1;2,5\n", ("line 2, column 2 ('b')", "point")),
        ("1 2\n3 4\n5\n", ("line 3", "1 values")),
        ("", ("no rows",)),
    ],
)
def test_bad_tables_are_refused(knarr, tmp_path, out, text, names):
    (tmp_path / "bad.csv").write_text(text)
    knarr.fails(UNREADABLE, "repack", tmp_path / "bad.csv", "-o", out / "a.nc", names=("bad.csv", *names))
    assert not list(out.iterdir())


@pytest.mark.parametrize(
    ("text", "place"), [("a,b\n1,2\n3,1e400\n", "line 3, column 2 ('b')"), ("1,-2e999\n", "line 1, column 2")]
)
def test_numbers_beyond_doubles_are_refused(knarr, tmp_path, out, text, place):
    (tmp_path / "bad.csv").write_text(text)
    names = ("bad.csv", place, "larger than any", "inf")
    knarr.fails(CANNOT_SERVE, "repack", tmp_path / "bad.csv", "-o", out / "a.nc", names=names)
    assert not list(out.iterdir())
    (tmp_path / "good.csv").write_text("x\ninf\n-Infinity\n1e308\n1e-400\n")
    with netCDF4.Dataset(knarr.repack(tmp_path / "good.csv", out / "b.nc")) as file:
        assert file["x"][:].tolist() == [np.inf, -np.inf, 1e308, 0]


def test_tables_beyond_the_memory_are_refused(knarr, tmp_path, out):
    np.savetxt(tmp_path / "large.csv", np.ones((100_000, 8)), delimiter=",", fmt="%d")
    message = ("large.csv", "7 MiB", "--max-mem")
    knarr.fails(USAGE, "repack", tmp_path / "large.csv", "-o", out / "a.nc", "--max-mem", "8M", names=message)
    knarr("repack", tmp_path / "large.csv", "-o", out / "a.nc", "--max-mem", "64M")


def test_variables_that_make_no_table_are_refused(knarr, made, out):
    source = made("netcdf", "climate_history")
    knarr.fails(CANNOT_SERVE, "repack", source, "-o", out / "a.csv", names=("table", "--variable"))
    assert not list(out.iterdir())


def test_plain_inputs_become_netcdf_in_a_directory(knarr, tmp_path, out):
    (tmp_path / "a.csv").write_text("x\n1\n2\n")
    (tmp_path / "b.csv").write_text("x\n3\n")
    knarr("repack", tmp_path / "a.csv", tmp_path / "b.csv", "-o", out)
    for name, values in (("a", [1, 2]), ("b", [3])):
        with netCDF4.Dataset(out / f"{name}.csv.nc") as file:
            assert file["x"][...].tolist() == values


def test_a_table_of_many_dimensions_and_what_to_write_instead(knarr, tmp_path, out):
    path = tmp_path / "deep.h5"
    with h5py.File(path, "w") as file:
        file["deep"] = np.zeros((2, 3, 4))
    told = knarr.fails(5, "repack", path, "-o", out / "a.csv", names=("'deep'", "3 dimensions make no table"))
    assert "; hint: write .bin" in told and "--variable" not in told
    with h5py.File(path, "a") as file:
        file["flat"] = np.zeros((3, 4))
    knarr.fails(5, "repack", path, "-o", out / "a.csv", names=("make no table", "with --variable: flat (3x4)"))
