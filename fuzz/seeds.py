"""Files and stores that other writers make, as first inputs of the targets `csv`, `file` and `zarr`.

seeds.py DIRECTORY        makes DIRECTORY/csv, DIRECTORY/file and DIRECTORY/zarr
"""

import itertools
import json
import pathlib
import struct
import sys
import tempfile

import netCDF4
import numpy as np
import zarr


def classic(path, version):
    with netCDF4.Dataset(path, "w", format=version) as nc:
        nc.createDimension("time", None)
        nc.createDimension("x", 5)
        nc.title = "seed"
        nc.createVariable("t", "f8", ("time",))[:] = np.arange(3.0)
        v = nc.createVariable("v", "i2", ("time", "x"), fill_value=-1)
        v.setncattr("scale_factor", 0.5)
        v[:] = np.arange(15).reshape(3, 5)
        nc.createVariable("name", "S1", ("x",))[:] = np.array(list("seeds"), "S1")


def zarr_seed(directory, version, dtype, shape, **options):
    with tempfile.TemporaryDirectory() as store:
        array = zarr.create_array(store, shape=shape, chunks=shape, dtype=dtype, zarr_format=version, **options)
        array[...] = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        name = ".zarray" if version == 2 else "zarr.json"
        metadata = (pathlib.Path(store) / name).read_bytes()
        # Short: what the fuzzer changes should be of account.
        metadata = json.dumps(json.loads(metadata), separators=(",", ":")).encode()
        chunk = next(
            p
            for p in sorted(pathlib.Path(store).rglob("*"))
            if p.is_file() and p.suffix != ".json" and not p.name.startswith(".")
        )
        # Names of first chunks: as the target `zarr` counts them.
        rank = len(shape) - 1 if version == 2 else len(shape)
        head = struct.pack(">BH", (version - 2) | rank << 1, len(metadata))
        return head + metadata + chunk.read_bytes()


def zipped(path, version):
    # Members with names that are no keys of Zarr.
    with zarr.storage.ZipStore(path, mode="w") as store:
        store._sync_open()
        for name in ("/x", "c//0", "a/b/../c"):
            store._zf.writestr(name, b"")
        array = zarr.create_array(store, shape=(3, 5), chunks=(2, 5), dtype="f4", zarr_format=version)
        array[...] = np.arange(15.0).reshape(3, 5)


# With the first byte that the target `csv` reads: 0 for .csv, 1 for .tsv, 2 for .txt.
TABLES = {
    "named": b"\0time,t2m,count\n0,271.35,-3\n1,-1e-3,4\n2,nan,18446744073709551615\n",
    "quoted": b'\0"a, b";"c"\r\n1,5;2\r\n;3e300\r\n',
    "tabs": b"\1x\ty\n1\t2.5\n3\t4\n",
    "spaces": b"\2# comment\n  1.0   2.0 3\n -4 5 inf\n",
    "marked": b"\0\xef\xbb\xbfa,b\n1,2\n",
}


def main():
    out = pathlib.Path(sys.argv[1])
    for target in ("csv", "file", "zarr"):
        (out / target).mkdir(parents=True, exist_ok=True)
    for name, table in TABLES.items():
        (out / "csv" / name).write_bytes(table)
    for version in ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"):
        classic(out / "file" / f"{version}.nc", version)
    for order in "CF":
        np.save(out / "file" / f"{order}.npy", np.arange(60, dtype=">i2").reshape((3, 4, 5), order=order))
    for version in (2, 3):
        zipped(out / "file" / f"zarr-v{version}.zip", version)
    codecs = {2: [None, "auto"], 3: [None, "auto"]}
    kinds = itertools.product((2, 3), ("u1", "<f4", ">i2", "f8"), ((4,), (3, 5)))
    for number, (version, dtype, shape) in enumerate(kinds):
        for compressors in codecs[version]:
            seed = zarr_seed(out, version, dtype, shape, compressors=compressors)
            (out / "zarr" / f"{number}-{compressors}").write_bytes(seed)


if __name__ == "__main__":
    main()
