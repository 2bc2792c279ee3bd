"""Writes files whose layouts are looked at. Argument: FOLDER

random_N.h5 has datasets of random shapes, types, chunks and filters; the others have one trait each.
"""

import ctypes
import pathlib
import sys

import h5py
import netCDF4
import numpy as np

folder = pathlib.Path(sys.argv[1])


def random_file(seed):
    rng = np.random.default_rng(seed)
    how = dict(
        libver=["earliest", "latest", ("earliest", "v108"), "v110"][seed % 4],
        userblock_size=[0, 512, 4096, 0, 1024][seed % 5],
        track_order=bool(seed % 3 == 0),
    )
    if seed % 7 == 3:
        how |= dict(libver="latest", fs_strategy="page", fs_page_size=4096, userblock_size=0)
    with h5py.File(folder / f"random_{seed}.h5", "w", **how) as file:
        for n in range(24):
            rank = int(rng.integers(1, 5))
            shape = tuple(int(n) for n in rng.integers(1, [4000, 70, 20, 9][rank - 1], rank))
            dtype = rng.choice(["<f4", "<f8", ">f4", ">f8", "<i2", ">i4", "u1", "<u8", "<f2", "S7", "?"])
            values = (rng.random(shape) * 100).astype(dtype)
            options = {}
            if rng.random() < 0.7:
                options["chunks"] = tuple(int(rng.integers(1, s + 1)) for s in shape)
                options["maxshape"] = tuple(None if rng.random() < 0.3 else s for s in shape)
                options["shuffle"] = bool(rng.random() < 0.3)
                options["fletcher32"] = bool(rng.random() < 0.2)
                options["compression"] = rng.choice([None, None, "gzip", "lzf"])
            group = file.require_group(f"group{n % 5}/inner") if n % 2 else file
            if rng.random() < 0.3 and "chunks" in options:
                part = group.create_dataset(f"part{n}", shape, dtype, **options)
                corner = tuple(slice(0, int(rng.integers(1, s + 1))) for s in shape)
                part[corner] = values[corner]
                if part.maxshape[0] is None and rng.random() < 0.5:
                    part.resize(max(1, shape[0] // 2), axis=0)
            else:
                group.create_dataset(f"whole{n}", data=values, **options)


def masks():
    """Every filter mask of a pipeline of three, and a chunk that is left behind beyond a shrunk edge."""
    with h5py.File(folder / "masks.h5", "w") as file:
        x = file.create_dataset("x", (64, 8), "f4", chunks=(8, 8), shuffle=True, compression="gzip", fletcher32=True)
        for mask in range(8):
            if mask == 7:
                x.id.write_direct_chunk((8 * mask, 0), np.arange(64, dtype="f4").tobytes(), mask)
            else:
                x.id.write_direct_chunk((8 * mask, 0), bytes(range(100 + mask)), mask)


def edges():
    """Chunks that reach over the edge are stored without filters. h5py has no name for that."""
    library = next((pathlib.Path(h5py.__file__).parents[1] / "h5py.libs").glob("libhdf5-*.so*"))
    with h5py.File(folder / "edges.h5", "w", libver="latest") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((8, 8))
        plist.set_deflate(4)
        assert ctypes.CDLL(str(library)).H5Pset_chunk_opts(ctypes.c_int64(plist.id), 2) == 0
        h5py.h5d.create(file.id, b"edges", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((20, 21)), plist)
        file["edges"][...] = np.arange(420).reshape(20, 21)


def links():
    with h5py.File(folder / "links.h5", "w", track_order=True) as file:
        file["zebra"] = np.arange(100.0)
        file["zebra"].attrs["units"] = "m"
        file["middle/twin"] = file["zebra"]
        file["apple"] = h5py.SoftLink("/zebra")
        file["middle/self"] = file["middle"]
        file["middle/Über maß"] = np.arange(50, dtype="i2")
        file.create_dataset("outside", (10,), "f4", external=[(str(folder / "raw.bin"), 0, 40)])[...] = 1
        file["named"] = np.dtype("f8")
        file.create_dataset("of named", (5,), file["named"])[...] = 3
        file["kinds"] = np.zeros(9, h5py.enum_dtype({"a": 0, "b": 1}, "i2"))
        file["pairs"] = np.zeros(9, np.dtype([("a", "i4"), ("b", "f8")]))
        matrices = file.create_dataset("matrix", (40,), np.dtype((">f4", (3, 3))), chunks=(16,), shuffle=True)
        matrices[...] = np.arange(360).reshape(40, 3, 3)
        file["complex"] = np.exp(1j * np.arange(35)).reshape(5, 7)
        file.create_dataset("complex chunks", data=np.exp(1j * np.arange(35)).reshape(5, 7), chunks=(2, 3))
        vectors = np.dtype([("p", [("x", "f8"), ("y", "f8")]), ("q", "f8", 3)])
        file["vectors"] = np.arange(50).view("f8").reshape(10, 5).copy().view(vectors)[:, 0]
        file["gaps"] = np.zeros(9, np.dtype({"names": ["a", "b"], "formats": ["f4", "f4"], "offsets": [0, 8]}))
        file["swapped"] = np.zeros(9, np.dtype([("a", "<f4"), ("b", ">f4")]))
        file["words"] = ["a", "bb", "ccc"]


def amr():
    """Thousands of small variables, as a code with adaptive meshes writes."""
    with h5py.File(folder / "amr.h5", "w") as file:
        for grid in range(300):
            group = file.create_group(f"Grid{grid:08}")
            for name in ("Density", "TotalEnergy", "x-velocity"):
                data = group.create_dataset(name, data=np.full((grid % 5 + 2, 4), grid, "f8"))
                data.attrs["units"] = "code"


def netcdf(kind):
    with netCDF4.Dataset(folder / f"{kind}.nc", "w", format=kind) as nc:
        nc.title = "layout"
        for name, size in (("time", None), ("x", 7), ("y", 5), ("odd", 3)):
            nc.createDimension(name, size)
        for name, dims in (("fixed", ("y", "x")), ("record", ("time", "y", "x")), ("scalar", ()), ("time", ("time",))):
            for dtype in ("i1", "S1", "i2", "i4", "f4", "f8"):
                title = name if name == "time" and dtype == "f8" else f"{name}_{dtype}"
                variable = nc.createVariable(title, dtype, dims)
                shape = [3 if d == "time" else len(nc.dimensions[d]) for d in dims]
                values = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 100).astype("f8")
                if dtype == "S1":
                    values = (values + 33).astype("u1").view("S1").reshape(shape)
                variable[tuple(slice(0, s) for s in shape) or ...] = values
    for dtype in ("i1", "i2", "f8"):
        with netCDF4.Dataset(folder / f"{kind}_one_{dtype}.nc", "w", format=kind) as nc:
            nc.createDimension("time", None)
            nc.createDimension("odd", 3)
            nc.createVariable("before", "f4", ("odd",))[:] = 1.5
            nc.createVariable("only", dtype, ("time", "odd"))[0:6] = np.arange(18).reshape(6, 3)


for seed in range(20):
    random_file(seed)
masks()
edges()
links()
amr()
for kind in ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA", "NETCDF4", "NETCDF4_CLASSIC"):
    netcdf(kind)
