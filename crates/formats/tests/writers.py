"""Files written by other people's libraries, with what they read back, for the tests of the sources;
and what those libraries read from stores that Knarr wrote.

    writers.py classic DIR     netCDF-3 files, real ones included, and DIR/expected.json
    writers.py zarr DIR        Zarr v2 and v3 stores and DIR/expected.json
    writers.py npy DIR         files of NumPy and DIR/expected.json; in DIR/refused those that hold no numbers
    writers.py read STORE      what zarr-python, zarrs and xarray read, as JSON
"""

import glob
import hashlib
import json
import os
import sys
import warnings

import numpy as np

RNG = np.random.default_rng(7)


def knarr_name(dtype):
    if dtype.kind == "S":
        return f"opaque[{dtype.itemsize}]"
    if dtype.kind == "b":
        return "i8"
    return f"{dtype.kind}{8 * dtype.itemsize}"


def dump(directory, name, values):
    """Little-endian, row-major bytes of an array."""
    values = np.asarray(values)
    little = values.astype(values.dtype.newbyteorder("<"))
    target = f"{hashlib.sha1(name.encode()).hexdigest()}.bin"
    with open(os.path.join(directory, target), "wb") as file:
        file.write(little.tobytes())
    return {"dtype": knarr_name(values.dtype), "shape": list(np.shape(values)), "bin": target}


def values_of(dtype, shape):
    dtype = np.dtype(dtype)
    if dtype.kind == "S":
        return RNG.integers(97, 123, shape).astype("u1").view("S1")
    if dtype.kind == "f":
        values = RNG.standard_normal(shape).astype(dtype)
        flat = values.reshape(-1)
        special = np.array([np.nan, np.inf, -np.inf, -0.0, np.finfo(dtype).tiny / 2], dtype)
        flat[: len(special)] = special[: len(flat)]
        return values
    if dtype.kind == "b":
        return RNG.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def classic(directory):
    import netCDF4

    expected = []
    small = ["i1", "S1", "i2", "i4", "f4", "f8"]
    kinds = [
        ("NETCDF3_CLASSIC", "CDF-1", small),
        ("NETCDF3_64BIT_OFFSET", "CDF-2", small),
        ("NETCDF3_64BIT_DATA", "CDF-5", [*small, "u1", "u2", "u4", "i8", "u8"]),
    ]

    def finish(path, version):
        entry = {"file": path, "format": f"netCDF-3 ({version})", "variables": []}
        with netCDF4.Dataset(path) as file:
            file.set_auto_maskandscale(False)
            file.set_auto_chartostring(False)
            for name, variable in file.variables.items():
                item = dump(directory, f"{path}{name}", variable[...])
                item.update(
                    path=f"/{name}",
                    dimensions=list(variable.dimensions),
                    unlimited=[file.dimensions[d].isunlimited() for d in variable.dimensions],
                    attributes={
                        k: variable.getncattr(k) for k in variable.ncattrs() if isinstance(variable.getncattr(k), str)
                    },
                )
                entry["variables"].append(item)
        expected.append(entry)

    for nc_format, version, dtypes in kinds:
        # Every type, fixed and with records; odd lengths need padding.
        path = os.path.join(directory, f"all_{nc_format}.nc")
        with netCDF4.Dataset(path, "w", format=nc_format) as file:
            file.title = "all types, odd lengths"
            file.createDimension("time", None)
            file.createDimension("y", 5)
            file.createDimension("x", 7)
            for dtype in dtypes:
                fill = None if dtype == "S1" else np.array(7, dtype)[()]
                one = file.createVariable(f"fixed_{dtype}", dtype, ("y", "x"), fill_value=fill)
                one.units = "K"
                one[...] = values_of(dtype, (5, 7))
                file.createVariable(f"record_{dtype}", dtype, ("time", "x"))[0:3] = values_of(dtype, (3, 7))
                file.createVariable(f"scalar_{dtype}", dtype, ())[...] = values_of(dtype, (1,))[0]
        finish(path, version)
        # The special case: one record variable of a small type has records without padding.
        for dtype in ["i1", "S1", "i2", "f4"]:
            path = os.path.join(directory, f"single_{dtype}_{nc_format}.nc")
            with netCDF4.Dataset(path, "w", format=nc_format) as file:
                file.createDimension("time", None)
                file.createDimension("x", 3)
                file.createVariable("only", dtype, ("time", "x"))[0:5] = values_of(dtype, (5, 3))
            finish(path, version)
        # No records at all.
        path = os.path.join(directory, f"empty_{nc_format}.nc")
        with netCDF4.Dataset(path, "w", format=nc_format) as file:
            file.createDimension("time", None)
            file.createVariable("nothing", "f4", ("time",))
        finish(path, version)

    # Many records: strides of several kinds.
    path = os.path.join(directory, "records.nc")
    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_OFFSET") as file:
        file.createDimension("time", None)
        file.createDimension("z", 4)
        file.createDimension("y", 33)
        file.createDimension("x", 45)
        for name in "ab":
            file.createVariable(name, "f4", ("time", "z", "y", "x"))[0:6] = values_of("f4", (6, 4, 33, 45))
        file.createVariable("t", "f8", ("time",))[0:6] = np.arange(6.0)
    finish(path, "CDF-2")

    import iris_sample_data

    real = 0
    for path in sorted(glob.glob(os.path.join(iris_sample_data.path, "**", "*.nc"), recursive=True)):
        with open(path, "rb") as file:
            magic = file.read(4)
        if magic[:3] == b"CDF":
            finish(path, f"CDF-{magic[3]}")
            real += 1
    assert real > 0, "iris-sample-data has no classic files any more"
    with open(os.path.join(directory, "expected.json"), "w") as file:
        json.dump(expected, file)


def zarr_stores(directory):
    import numcodecs
    import xarray
    import zarr
    from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec

    warnings.simplefilter("ignore")
    expected = []

    def finish(path, version, **more):
        entry = {"file": path, "format": f"Zarr v{version}", "variables": []}
        root = zarr.open_group(path, mode="r")
        for name, array in root.members(max_depth=None):
            if isinstance(array, zarr.Array) and array.dtype.kind in "biuf":
                entry["variables"].append({"path": f"/{name}", **dump(directory, f"{path}{name}", array[...]), **more})
        expected.append(entry)

    types = ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
    path = os.path.join(directory, "v3_types.zarr")
    group = zarr.create_group(path, zarr_format=3, attributes={"title": "types", "nan": float("nan")})
    for dtype in types:
        array = group.create_array(dtype, shape=(7, 9), chunks=(3, 4), dtype=dtype, dimension_names=["y", "x"])
        array[...] = values_of(dtype, (7, 9))
        group.create_array(f"scalar_{dtype}", shape=(), dtype=dtype)[...] = values_of(dtype, (1,))[0]
    group.create_array("zero", shape=(0, 4), chunks=(1, 4), dtype="f4")
    sparse = group.create_array("sparse", shape=(8, 8), chunks=(4, 4), dtype="f4", fill_value=1e20)
    sparse[:4, :4] = 3
    finish(path, 3)

    path = os.path.join(directory, "v3_codecs.zarr")
    group = zarr.create_group(path, zarr_format=3)
    data = np.cumsum(RNG.integers(-3, 4, (40, 50)), axis=1).astype("f4")
    pipelines = {
        "gzip": dict(compressors=GzipCodec(level=5)),
        "zstd": dict(compressors=ZstdCodec(level=3, checksum=True)),
        "none": dict(compressors=None),
        "crc32c": dict(compressors=[ZstdCodec(level=1), Crc32cCodec()]),
        "transpose": dict(filters=[TransposeCodec(order=(1, 0))], compressors=GzipCodec(level=1)),
        "big": dict(serializer=BytesCodec(endian="big"), compressors=None),
        "sharded": dict(shards=(20, 50), compressors=ZstdCodec(level=1)),
        "sharded_big": dict(shards=(40, 50), serializer=BytesCodec(endian="big"), compressors=GzipCodec(level=1)),
    }
    for cname in ["lz4", "lz4hc", "blosclz", "zstd", "zlib"]:
        for shuffle in ["noshuffle", "shuffle", "bitshuffle"]:
            pipelines[f"blosc_{cname}_{shuffle}"] = dict(
                compressors=BloscCodec(cname=cname, clevel=5, shuffle=shuffle, typesize=4)
            )
    from zarr.codecs import numcodecs as extra

    for name, codec in {
        "zlib": extra.Zlib(level=5),
        "bz2": extra.BZ2(level=5),
        "shuffle_zlib": [extra.Shuffle(elementsize=4), extra.Zlib(level=5)],
        "adler32": [extra.Zlib(level=1), extra.Adler32()],
        # Checksums of odd lengths differ between numcodecs and zarrs 0.23.14, which drops the last byte.
        "fletcher32": [extra.Fletcher32(), extra.Zlib(level=1)],
    }.items():
        pipelines[f"numcodecs_{name}"] = dict(compressors=codec)
    pipelines["numcodecs_pcodec"] = dict(serializer=extra.PCodec(level=8), compressors=None)
    pipelines["numcodecs_bitround"] = dict(filters=[extra.BitRound(keepbits=10)], compressors=GzipCodec(level=1))
    for name, pipeline in pipelines.items():
        array = group.create_array(name, shape=data.shape, chunks=(10, 25), dtype="f4", **pipeline)
        array[...] = data
    finish(path, 3)

    path = os.path.join(directory, "v2.zarr")
    group = zarr.create_group(path, zarr_format=2, attributes={"title": "version 2", "inf": float("inf")})
    for dtype in types:
        array = group.create_array(f"t_{dtype}", shape=(7, 9), chunks=(3, 4), dtype=dtype, fill_value=0)
        array[...] = values_of(dtype, (7, 9))
    group.create_array("big", shape=(7, 9), chunks=(3, 4), dtype=">f8")[...] = values_of("f8", (7, 9))
    group.create_array("fortran", shape=(7, 9), chunks=(3, 4), dtype="f4", order="F")[...] = values_of("f4", (7, 9))
    group.create_array("null", shape=(6,), chunks=(3,), dtype="i4", fill_value=None)[0:3] = [1, 2, 3]
    for name, (filters, compressor) in {
        "zlib": (None, numcodecs.Zlib(5)),
        "gzip": (None, numcodecs.GZip(5)),
        "bz2": (None, numcodecs.BZ2(5)),
        "zstd": (None, numcodecs.Zstd(3)),
        "blosc": (None, numcodecs.Blosc("zstd", 5, 2)),
        "shuffle": ([numcodecs.Shuffle(4)], numcodecs.Zlib(5)),
        "plain": (None, None),
    }.items():
        array = group.create_array(
            f"c_{name}", shape=data.shape, chunks=(10, 25), dtype="f4", filters=filters, compressors=compressor
        )
        array[...] = data
    finish(path, 2)

    dataset = xarray.Dataset(
        {
            "T": (("time", "x"), np.array([[1, np.nan], [3, 4]], "f4"), {"units": "K"}),
            "count": (("x",), np.array([1, -999], "i2")),
        },
        coords={"time": ("time", np.array([0, 1]))},
        attrs={"title": "by xarray"},
    )
    dataset["T"].encoding["_FillValue"] = np.float32(1e20)
    dataset["count"].encoding["_FillValue"] = np.int16(-999)
    for version in (2, 3):
        path = os.path.join(directory, f"xarray_v{version}.zarr")
        dataset.to_zarr(path, zarr_format=version)
        finish(path, version)

    # What cannot be decoded must say so.
    path = os.path.join(directory, "missing.zarr")
    group = zarr.create_group(path, zarr_format=3)
    group.create_array("lzma", shape=(4,), dtype="f4", compressors=extra.LZMA())[...] = 1
    group.create_array("text", shape=(2,), dtype=str)[...] = np.array(["a", "bb"])
    path = os.path.join(directory, "missing_v2.zarr")
    group = zarr.create_group(path, zarr_format=2)
    group.create_array("lzma", shape=(4,), dtype="f4", compressors=numcodecs.LZMA())[...] = 1
    group.create_array("text", shape=(2,), dtype=str)[...] = np.array(["a", "bb"])
    with open(os.path.join(directory, "expected.json"), "w") as file:
        json.dump(expected, file)


def npy(directory):
    expected = []

    def finish(name, values, version=None):
        path = os.path.join(directory, f"{name}.npy")
        with open(path, "wb") as file:
            np.lib.format.write_array(file, values, version=version)
        assert np.load(path).tobytes() == values.tobytes()
        shape = values.shape
        item = {
            "path": f"/{name}",
            "dimensions": [f"dim_{axis}" for axis in range(len(shape))],
            "unlimited": [False] * len(shape),
            "attributes": {"dtype": "bool"} if values.dtype.kind == "b" else {},
            **dump(directory, path, values),
        }
        expected.append({"file": path, "format": "NumPy", "variables": [item]})

    for dtype in ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]:
        for order in "<>" if np.dtype(dtype).itemsize > 1 else "<":
            values = values_of(dtype, (5, 6, 7)).astype(np.dtype(dtype).newbyteorder(order))
            end = "little" if order == "<" else "big"
            finish(f"{dtype}_{end}", values)
            finish(f"{dtype}_{end}_fortran", np.asfortranarray(values))
    for version in [(1, 0), (2, 0), (3, 0)]:
        finish(f"version_{version[0]}", values_of("f4", (3, 4)), version)
    for number, shape in enumerate([(), (1,), (7,), (0,), (3, 0, 2), (1, 9, 1), (2,) * 9]):
        for order in "CF":
            finish(f"shape_{number}_{order}", np.array(values_of("f8", shape), order=order))
    # Several chunks, whole first axes and pieces of one.
    finish("long", np.asfortranarray(values_of("f4", (90, 70, 130))))
    finish("wide", np.asfortranarray(values_of("i2", (900, 1100))))

    refused = os.path.join(directory, "refused")
    os.mkdir(refused)
    for name, values in {
        "objects": np.array([{}, None], object),
        "structured": np.zeros(3, [("a", "f4"), ("b", "i2")]),
        "structured_long": np.zeros(3, [(f"a_name_of_some_length_{n}", "f4") for n in range(3000)]),
        "complex": np.zeros(3, "c8"),
        "strings": np.array(["a", "bb"]),
        "dates": np.array(["2020-01-01"], "M8[D]"),
        "floats_of_a_length": np.zeros(3, "g"),
    }.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.save(os.path.join(refused, f"{name}.npy"), values, allow_pickle=True)
    with open(os.path.join(refused, "follow.npy"), "wb") as file:
        np.save(file, np.zeros(3))
        np.save(file, np.zeros(3))
    with open(os.path.join(directory, "expected.json"), "w") as file:
        json.dump(expected, file)


def strict(attributes):
    """Attributes in words that strict JSON has: no NaN, no infinities."""
    return {
        name: repr(value) if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in attributes.items()
    }


def read(store):
    import xarray
    import zarr

    def contents():
        group = zarr.open_group(store, mode="r")
        found = {}
        for name, array in group.members(max_depth=None):
            if isinstance(array, zarr.Array):
                values = np.asarray(array[...])
                if values.dtype.kind in "OT":
                    found[name] = {"values": values.tolist(), "dimensions": array.metadata.dimension_names}
                    continue
                fill = np.asarray(array.fill_value, values.dtype)
                found[name] = {
                    "dtype": knarr_name(values.dtype) if values.dtype.kind != "b" else "bool",
                    "shape": list(values.shape),
                    "bytes": values.tobytes().hex(),
                    "fill": fill.tobytes().hex(),
                    "attributes": strict(array.attrs),
                    "dimensions": array.metadata.dimension_names,
                }
        return {"arrays": found, "attributes": strict(group.attrs)}

    result = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result["zarr"] = contents()
        # xarray opens no store in which an axis has no name.
        if all(array.get("dimensions") is not None for array in result["zarr"]["arrays"].values()):
            dataset = xarray.open_zarr(store)
            dataset.load()
            result["xarray"] = {
                name: {"dims": list(variable.dims), "values": variable.values.astype(str).tolist()}
                for name, variable in dataset.variables.items()
            }
    result["warnings"] = [str(warning.message) for warning in caught]
    import zarrs  # noqa: F401  registers its pipeline

    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result["zarrs"] = contents()
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    {"classic": classic, "zarr": zarr_stores, "npy": npy, "read": read}[sys.argv[1]](sys.argv[2])
