"""netCDF inputs, written by netCDF4-python (netCDF-C): netCDF-4 and the classic formats.

`INPUTS` maps a name to a function that writes the file; names of classic files start with `cdf`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import netCDF4
import numpy as np

from values import field_with_specials, integers, smooth_field, special_floats

INPUTS: dict[str, Callable[[Path], None]] = {}
SUFFIX = ".nc"

CLASSIC_FORMATS = {"cdf1": "NETCDF3_CLASSIC", "cdf2": "NETCDF3_64BIT_OFFSET", "cdf5": "NETCDF3_64BIT_DATA"}
CLASSIC_TYPES = {
    "cdf1": ("i1", "i2", "i4", "f4", "f8"),
    "cdf2": ("i1", "i2", "i4", "f4", "f8"),
    "cdf5": ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"),
}


def netcdf_input(write: Callable[[Path], None]) -> Callable[[Path], None]:
    INPUTS[write.__name__] = write
    return write


def new_dataset(path: Path, format: str = "NETCDF4") -> netCDF4.Dataset:
    dataset = netCDF4.Dataset(path, "w", format=format)
    dataset.set_auto_maskandscale(False)
    return dataset


def add(dataset: netCDF4.Dataset, name: str, values: np.ndarray, dimensions: tuple[str, ...], **how: object):
    order = {"little": "<", "big": ">"}.get(how.get("endian"), "=")
    variable = dataset.createVariable(name, values.dtype.newbyteorder(order), dimensions, **how)
    variable.set_auto_maskandscale(False)
    variable[...] = values
    return variable


@netcdf_input
def climate_history(path: Path) -> None:
    """As a model writes it: unlimited time, bounds, packed and masked variables, groups of attributes."""
    with new_dataset(path) as dataset:
        dataset.Conventions, dataset.history = "CF-1.11", "created by a test"
        dataset.createDimension("time", None)
        for name, length in (("lat", 40), ("lon", 60), ("bnds", 2)):
            dataset.createDimension(name, length)
        time = add(dataset, "time", np.arange(13.0), ("time",))
        time.units, time.bounds, time.calendar = "days since 1850-01-01", "time_bnds", "noleap"
        add(dataset, "time_bnds", np.stack([np.arange(13.0), np.arange(13.0) + 1], 1), ("time", "bnds"))
        add(dataset, "lat", np.linspace(-89, 89, 40), ("lat",)).units = "degrees_north"
        add(dataset, "lon", np.linspace(0, 354, 60), ("lon",)).units = "degrees_east"
        masked = field_with_specials((13, 40, 60))
        tas = add(
            dataset,
            "tas",
            masked,
            ("time", "lat", "lon"),
            fill_value=np.float32(1e20),
            chunksizes=(1, 40, 60),
        )
        tas.units, tas.missing_value, tas.cell_methods = "K", np.float32(1e20), "time: mean"
        packed = integers((13, 40, 60), "i2")
        pr = add(
            dataset,
            "pr",
            packed,
            ("time", "lat", "lon"),
            fill_value=np.int16(-32768),
            zlib=True,
            shuffle=True,
        )
        pr.scale_factor, pr.add_offset = 0.01, 273.15
        add(dataset, "crs", np.array(1, "i4"), ())


@netcdf_input
def groups(path: Path) -> None:
    """Nested groups that share dimensions and use the same names."""
    with new_dataset(path) as dataset:
        dataset.createDimension("x", 12)
        dataset.createDimension("time", None)
        add(dataset, "v", smooth_field((5, 12)), ("time", "x"))
        for name in ("ocean", "atmosphere"):
            group = dataset.createGroup(name)
            group.title = name
            group.createDimension("x", 7)
            add(group, "v", smooth_field((5, 7)), ("time", "x"))
            deep = group.createGroup("level/one")
            deep.createDimension("steps", None)
            add(deep, "w", smooth_field((3, 7), "f8"), ("steps", "x"))
        dataset.createGroup("empty").comment = "no variables"


@netcdf_input
def all_types(path: Path) -> None:
    """Every atomic type, both byte orders, and attributes of every type."""
    with new_dataset(path) as dataset:
        dataset.createDimension("y", 9)
        dataset.createDimension("x", 11)
        dataset.createDimension("text", 4)
        for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"):
            for endian in ("little", "big"):
                variable = add(dataset, f"{kind}_{endian}", integers((9, 11), kind), ("y", "x"), endian=endian)
                variable.limits = np.array([0, 1], kind)
        for kind in ("f4", "f8"):
            for endian in ("little", "big"):
                variable = add(
                    dataset, f"{kind}_{endian}", field_with_specials((9, 11), kind), ("y", "x"), endian=endian
                )
                variable.specials = special_floats(kind)
        characters = dataset.createVariable("characters", "S1", ("y", "text"))
        characters[...] = np.array([list("abcd")] * 9, "S1")
        strings = dataset.createVariable("strings", str, ("y",))
        strings[:] = np.array(["", "ü", "long " * 300, "a", "b", "c", "d", "e", "f"], object)
        strings.list = ["one", "två"]
        strings.text = "plain"
        strings.empty = ""


@netcdf_input
def user_defined_types(path: Path) -> None:
    with new_dataset(path) as dataset:
        dataset.createDimension("n", 6)
        point_type = np.dtype([("lat", "f4"), ("lon", "f8"), ("count", "i2")])
        point = dataset.createCompoundType(point_type, "point_t")
        records = np.zeros(6, point_type)
        records["lat"], records["lon"], records["count"] = np.arange(6), np.arange(6) / 7, -1
        dataset.createVariable("points", point, ("n",))[:] = records
        cloud = dataset.createEnumType(np.uint8, "cloud_t", {"clear": 0, "cirrus": 7, "missing": 255})
        clouds = dataset.createVariable("clouds", cloud, ("n",), fill_value=255)
        clouds[:4] = [0, 7, 0, 7]
        ragged = dataset.createVLType(np.int32, "ragged_t")
        rows = dataset.createVariable("rows", ragged, ("n",))
        for at in range(6):
            rows[at] = np.arange(at, dtype="i4")


@netcdf_input
def fill_values(path: Path) -> None:
    """Default fill, chosen fill, no fill, and parts that were never written."""
    with new_dataset(path) as dataset:
        dataset.createDimension("time", None)
        dataset.createDimension("x", 100)
        for name, fill in (("default", None), ("chosen", -1.0), ("nan", np.nan), ("none", False)):
            variable = dataset.createVariable(name, "f4", ("time", "x"), fill_value=fill, chunksizes=(2, 50))
            variable.set_auto_maskandscale(False)
            variable[9, 3] = 5 if fill is not False else 6
            if fill is False:
                variable[...] = 6
        dataset.createVariable("never_written", "i4", ("x",), fill_value=-5)


@netcdf_input
def unlimited(path: Path) -> None:
    """Two unlimited dimensions, one still empty, and a scalar."""
    with new_dataset(path) as dataset:
        dataset.createDimension("time", None)
        dataset.createDimension("station", None)
        dataset.createDimension("later", None)
        add(dataset, "obs", smooth_field((8, 5)), ("time", "station"))
        dataset.createVariable("empty", "f4", ("later", "time"))
        add(dataset, "scalar", np.array(2.5), ())


@netcdf_input
def short_records(path: Path) -> None:
    """Variables with fewer records than their unlimited dimension: readers see fill values behind them."""
    with new_dataset(path) as dataset:
        dataset.createDimension("time", None)
        for name, length in (("x", 6), ("letters", 3)):
            dataset.createDimension(name, length)
        add(dataset, "full", smooth_field((9, 6)), ("time", "x"))
        for name, kind, fill in (
            ("chosen", "f4", -1.5),
            ("default", "f8", None),
            ("off", "i4", False),
            ("packed", "i2", np.int16(7)),
        ):
            variable = dataset.createVariable(name, kind, ("time", "x"), fill_value=fill, chunksizes=(2, 4))
            variable.set_auto_maskandscale(False)
            variable[:5] = np.arange(30).reshape(5, 6)
        dataset.createVariable("never", "f4", ("time", "x"), fill_value=np.float32(1e20))
        dataset.createVariable("label", "S1", ("time", "letters"))[:2] = np.array([list("abc")] * 2, "S1")
        group = dataset.createGroup("inner")
        variable = group.createVariable("chosen", "f4", ("time",), fill_value=np.float32(3))
        variable.set_auto_maskandscale(False)
        variable[:4] = 1


@netcdf_input
def quantised(path: Path) -> None:
    """Rounded by netCDF-C itself; its attributes must stay."""
    with new_dataset(path) as dataset:
        dataset.createDimension("x", 5000)
        variable = dataset.createVariable(
            "v", "f4", ("x",), zlib=True, significant_digits=3, quantize_mode="GranularBitRound"
        )
        variable[:] = smooth_field((5000,))


def write_classic(path: Path, kind: str) -> None:
    """Record and fixed variables of every type with sizes that need padding, and character data."""
    with new_dataset(path, CLASSIC_FORMATS[kind]) as dataset:
        dataset.title = "classic"
        dataset.NCO = "ends in NUL!"
        dataset.createDimension("time", None)
        for name, length in (("y", 5), ("x", 7), ("odd", 3)):
            dataset.createDimension(name, length)
        for type_name in CLASSIC_TYPES[kind]:
            make = integers if type_name[0] in "iu" else field_with_specials
            variable = add(dataset, f"record_{type_name}", make((6, 3), type_name), ("time", "odd"))
            variable.valid = make((3,), type_name)
            add(dataset, f"fixed_{type_name}", make((5, 7), type_name), ("y", "x"))
        add(dataset, "time", np.arange(6.0), ("time",)).units = "days since 2000-01-01"
        characters = dataset.createVariable("characters", "S1", ("time", "odd"))
        characters[:] = np.array([list("abc")] * 6, "S1")
        add(dataset, "scalar", np.array(7, "i4"), ())
        filled = dataset.createVariable("filled", "f4", ("time", "x"), fill_value=np.float32(1e20))
        filled.set_auto_maskandscale(False)
        filled[2] = 4
    # NCO counts the NUL at the end of a C string as a part of the text.
    path.write_bytes(path.read_bytes().replace(b"ends in NUL!", b"ends in NUL\0"))


def write_single_record(path: Path, kind: str) -> None:
    """One record variable of 2-byte type: the format drops the padding between records here."""
    with new_dataset(path, CLASSIC_FORMATS[kind]) as dataset:
        dataset.createDimension("time", None)
        dataset.createDimension("x", 3)
        add(dataset, "only", integers((11, 3), "i2"), ("time", "x"))


def write_no_records(path: Path, kind: str) -> None:
    with new_dataset(path, CLASSIC_FORMATS[kind]) as dataset:
        dataset.createDimension("time", None)
        dataset.createVariable("empty", "f4", ("time",))
        dataset.createDimension("x", 4)
        add(dataset, "v", smooth_field((4,)), ("x",))


for _kind in CLASSIC_FORMATS:
    for _write in (write_classic, write_single_record, write_no_records):
        _name = _kind + _write.__name__.removeprefix("write").replace("_classic", "_all")
        INPUTS[_name] = lambda path, write=_write, kind=_kind: write(path, kind)

NETCDF4 = [name for name in INPUTS if not name.startswith("cdf")]
CLASSIC = [name for name in INPUTS if name.startswith("cdf")]
