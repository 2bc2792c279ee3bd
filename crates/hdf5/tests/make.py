"""Writes the HDF5 and netCDF-4 fixtures of the tests into the folder given as argument."""

import pathlib
import sys

import h5py
import hdf5plugin
import netCDF4
import numpy as np

folder = pathlib.Path(sys.argv[1])
rng = np.random.default_rng(7)


def field(shape, dtype="f4"):
    axes = np.meshgrid(*[np.linspace(0, 3, n) for n in shape], indexing="ij")
    return (np.round(sum(np.sin((i + 1) * a) for i, a in enumerate(axes)) * 1000) / 10).astype(dtype)


def netcdf():
    with netCDF4.Dataset(folder / "model.nc", "w") as nc:
        nc.title = "a model run"
        nc.history = "made by a test"
        nc.setncattr("numbers", np.array([1.5, 2.5]))
        nc.setncattr_string("words", ["alpha", "béta"])
        nc.setncattr("empty", "")
        nc.createDimension("time", None)
        nc.createDimension("lat", 33)
        nc.createDimension("lon", 57)
        nc.createDimension("strlen", 8)
        nc.createDimension("unused", 4)
        t = nc.createVariable("time", "f8", ("time",))
        t.units = "days since 2000-01-01"
        lat = nc.createVariable("lat", "f4", ("lat",))
        lat[:] = np.linspace(-90, 90, 33)
        lon = nc.createVariable("lon", "f4", ("lon",))
        lon[:] = np.linspace(0, 359, 57)
        temperature = nc.createVariable(
            "T",
            "f4",
            ("time", "lat", "lon"),
            zlib=True,
            complevel=5,
            shuffle=True,
            chunksizes=(3, 16, 20),
            fill_value=1e20,
        )
        temperature.missing_value = np.float64(-999)
        temperature.long_name = "temperature"
        temperature[0:10] = np.ma.masked_where(rng.random((10, 33, 57)) < 0.1, field((10, 33, 57)))
        q = nc.createVariable("q", "i2", ("lat", "lon"), fletcher32=True, shuffle=True, zlib=True, endian="big")
        q.scale_factor = 0.01
        q.set_auto_scale(False)
        q[:] = field((33, 57), "i2")
        plain = nc.createVariable("plain", "f8", ("lat", "lon"), contiguous=True)
        plain[:] = field((33, 57), "f8")
        nc.createVariable("unwritten", "f4", ("lat", "lon"), zlib=True)
        name = nc.createVariable("name", "S1", ("lat", "strlen"))
        name[0, :3] = np.array(list("abc"), "S1")
        s = nc.createVariable("label", str, ("lat",))
        s[0] = "first"
        s[32] = "last é"
        scalar = nc.createVariable("crs", "i4")
        scalar.grid_mapping_name = "latitude_longitude"
        scalar[...] = 7
        g = nc.createGroup("forecast")
        g.createDimension("level", 5)
        v = g.createVariable("wind", "f4", ("time", "level", "lat"), zlib=True, chunksizes=(1, 5, 33))
        v[0:10] = field((10, 5, 33))
        compound = nc.createCompoundType(np.dtype([("a", "i4"), ("b", "f8")]), "pair_t")
        c = nc.createVariable("pairs", compound, ("lat",), zlib=True)
        c[0:3] = np.array([(1, 2.0), (3, 4.0), (5, 6.0)], compound.dtype)
        enum = nc.createEnumType("u1", "cloud_t", {"clear": 0, "cloudy": 1})
        e = nc.createVariable("cloud", enum, ("lat",), fill_value=0)
        e[:5] = [0, 1, 0, 1, 1]
        vlen = nc.createVLType("i4", "ragged_t")
        r = nc.createVariable("ragged", vlen, ("lat",))
        r[0] = np.array([1, 2, 3], "i4")
        r[3] = np.array([9], "i4")
        t[:] = np.arange(10)


def odd(name, libver, userblock=0, track=True):
    with h5py.File(folder / name, "w", libver=libver, userblock_size=userblock, track_order=track) as f:
        f.attrs["z"] = 1
        f.attrs["a"] = "text é"
        f.attrs["m"] = np.arange(6).reshape(2, 3)
        f.attrs["null"] = h5py.Empty("f4")
        g = f.create_group("zulu/alpha", track_order=track)
        x = f.create_dataset("x", data=field((40, 30)), chunks=(16, 16), compression="gzip", shuffle=True)
        f.create_dataset("big", data=field((40, 30), ">f4"), chunks=(7, 30), compression="gzip")
        f.create_dataset("half", data=field((40,), "f2"), chunks=(16,), compression="gzip")
        f.create_dataset("flag", data=np.array([True, False]))
        g["hard"] = x
        g["soft"] = h5py.SoftLink("/x")
        g["dangling"] = h5py.SoftLink("/nowhere")
        g["other"] = h5py.ExternalLink("elsewhere.h5", "/data")
        g["loop"] = f["zulu"]
        f["named"] = np.dtype([("lat", "f4"), ("name", "S5")])
        f["named"].attrs["about"] = "a named type"
        d = f.create_dataset("typed", shape=(10,), dtype=f["named"], chunks=(4,), compression="gzip")
        d[2] = (1.5, b"abc")
        f.attrs.create("typed", (2.5, b"xyz"), dtype=f["named"])
        refs = f.create_dataset("refs", shape=(4,), dtype=h5py.ref_dtype)
        refs[0] = x.ref
        refs[1] = g.ref
        refs[2] = f["named"].ref
        regions = f.create_dataset("regions", shape=(3,), dtype=h5py.regionref_dtype)
        regions[0] = x.regionref[2:5, 3:9]
        regions[1] = x.regionref[::2, 0]
        x.attrs["see"] = g.ref
        x.attrs["region"] = x.regionref[0:2, 0:2]
        mixed = np.dtype([("n", "i4"), ("r", h5py.ref_dtype), ("s", h5py.string_dtype())])
        m = f.create_dataset("mixed", shape=(3,), dtype=mixed)
        m[0] = (4, x.ref, "hello")
        vr = f.create_dataset("vlenrefs", shape=(2,), dtype=h5py.vlen_dtype(h5py.ref_dtype))
        vr[0] = np.array([x.ref, g.ref], dtype=h5py.ref_dtype)
        strings = f.create_dataset(
            "strings", shape=(100,), dtype=h5py.string_dtype(), chunks=(30,), compression="gzip", maxshape=(None,)
        )
        strings[40:60] = [f"s{i}" * (i % 5) for i in range(20)]
        f.create_dataset("fixed", data=np.array([b"a", b"bcd", b""], "S6"), chunks=(2,))
        f.create_dataset("opaque", data=np.void(b"\1\2\3\4"))
        f.create_dataset("nothing", data=h5py.Empty("i4"))
        f.create_dataset("zero", shape=(0, 5), maxshape=(None, 5), dtype="i4", chunks=(4, 5))
        f.create_dataset("scalar", data=3.25)
        f.create_dataset("sparse", shape=(1000, 1000), chunks=(10, 10), dtype="i8", fillvalue=-5)[500:520, 7:9] = 3
        f.create_dataset("thin", data=field((60, 50, 40), "f8"))
        f.create_dataset("shuffled", data=field((45, 37), "f8"), chunks=(10, 11), shuffle=True)
        f.create_dataset("checked", data=field((45, 37), "f8"), chunks=(10, 11), fletcher32=True)
        hidden = np.dtype([("u", "i2"), ("v", "u8")])
        f["gone"] = hidden
        f.create_dataset("nameless", shape=(3,), dtype=f["gone"])[1] = (-3, 5)
        del f["gone"]
        f.create_dataset("void", shape=(50, 50), dtype="f4", fillvalue=2.5)
        f.create_dataset("raw", data=field((45, 37), "i4"), chunks=(10, 10))
        f.create_dataset("so", data=field((40, 30), "i4"), chunks=(20, 30), scaleoffset=0)
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((5,))
        h5py.h5d.create(f.id, b"compact", h5py.h5t.STD_I32LE, space, compact)
        f["compact"][...] = np.arange(5)
        odd_int = h5py.h5t.STD_I32LE.copy()
        odd_int.set_precision(20)
        dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        dcpl.set_chunk((10, 10))
        dcpl.set_filter(h5py.h5z.FILTER_NBIT)
        h5py.h5d.create(f.id, b"nbit", odd_int, h5py.h5s.create_simple((20, 25)), dcpl)
        f["nbit"][...] = field((20, 25), "i4")
        # a chunk whose first filter was left out
        masked = f.create_dataset("masked", shape=(8, 8), chunks=(4, 8), dtype="u1", compression="gzip", shuffle=True)
        masked.id.write_direct_chunk((0, 0), bytes(range(32)), 3)
        masked[4:] = 9
        h5py.h5o.set_comment(f["zulu"].id, b"a comment")
        if libver == "latest":
            f.create_dataset("early", shape=(20, 20), chunks=(5, 5), dtype="f4")[0:5] = 1
            fixed = f.create_dataset(
                "growing", shape=(20, 20), maxshape=(None, 20), chunks=(5, 5), dtype="f4", compression="gzip"
            )
            fixed[...] = field((20, 20))
            both = f.create_dataset(
                "both", shape=(20, 21), maxshape=(None, None), chunks=(5, 5), dtype="f4", compression="gzip"
            )
            both[...] = field((20, 21))
            f.create_dataset("single", data=field((20, 20)), chunks=(20, 20), compression="gzip")
            edges = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            edges.set_chunk((8, 8))
            edges.set_deflate(4)
            if hasattr(edges, "set_chunk_opts"):
                edges.set_chunk_opts(2)
            h5py.h5d.create(f.id, b"edges", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((20, 21)), edges)
            f["edges"][...] = field((20, 21))
        scale = f.create_dataset("lat", data=np.arange(40.0))
        scale.make_scale("latitude")
        x.dims[0].attach_scale(scale)
        x.dims[1].label = "columns"
    if userblock:
        with open(folder / name, "r+b") as raw:
            raw.write(b"#!/bin/sh user block".ljust(userblock, b"."))


def plugins():
    with h5py.File(folder / "plugins.h5", "w") as f:
        data = field((60, 70))
        for n, c in [
            ("zstd", hdf5plugin.Zstd(3)),
            ("blosc", hdf5plugin.Blosc()),
            ("lz4", hdf5plugin.LZ4()),
            ("bitshuffle", hdf5plugin.Bitshuffle()),
        ]:
            f.create_dataset(n, data=data, chunks=(25, 70), **c)
    with h5py.File(folder / "plugin-strings.h5", "w") as f:
        f.create_dataset("words", data=["a", "bb"] * 50, dtype=h5py.string_dtype(), chunks=(25,), **hdf5plugin.Zstd())


netcdf()
odd("old.h5", "earliest")
odd("untracked.h5", "earliest", track=False)
odd("new.h5", "latest", userblock=1024)
plugins()
with h5py.File(folder / "paged.h5", "w", fs_strategy="page", fs_page_size=8192, fs_persist=True) as f:
    f.create_dataset("x", data=field((40, 30)), chunks=(10, 30), compression="gzip")
# HDF5 1.10.8's h5dump fails on this one, whoever writes it
with h5py.File(folder / "virtual.h5", "w", libver="latest") as f:
    f.create_dataset("x", data=field((40, 30)), chunks=(10, 30), compression="gzip")
    layout = h5py.VirtualLayout(shape=(40, 30), dtype="f4")
    layout[...] = h5py.VirtualSource(".", "x", shape=(40, 30))
    f.create_virtual_dataset("view", layout)
