"""HDF5 inputs that are compressed already: every filter of h5py, HDF5 itself and hdf5plugin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import hdf5plugin
import numcodecs
import numpy as np
from h5py import h5s, h5t, h5z

from values import field_with_specials, integers, smooth_field

SHAPE, CHUNKS = (45, 64, 50), (16, 32, 50)
UNKNOWN_FILTER_ID = 32999
"""Not registered with The HDF Group at the time of writing."""

LOSSLESS: dict[str, dict[str, object]] = {
    "gzip": {"compression": "gzip", "compression_opts": 4},
    "gzip_shuffle_fletcher32": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "lzf": {"compression": "lzf", "shuffle": True},
    "fletcher32": {"fletcher32": True},
    "shuffle": {"shuffle": True},
    "bitshuffle_lz4": dict(hdf5plugin.Bitshuffle(cname="lz4")),
    "bitshuffle_zstd": dict(hdf5plugin.Bitshuffle(cname="zstd")),
    "bitshuffle_none": dict(hdf5plugin.Bitshuffle(cname="none")),
    "bzip2": dict(hdf5plugin.BZip2()),
    "lz4": dict(hdf5plugin.LZ4()),
    "lz4_small_blocks": dict(hdf5plugin.LZ4(nbytes=1024)),
    "zstd": dict(hdf5plugin.Zstd(clevel=3)),
    "zstd_shuffle": {"shuffle": True, **hdf5plugin.Zstd(clevel=12)},
    **{
        f"blosc_{codec}": dict(hdf5plugin.Blosc(cname=codec, shuffle=hdf5plugin.Blosc.SHUFFLE))
        for codec in ("blosclz", "lz4", "lz4hc", "zlib", "zstd")
    },
    "blosc_bitshuffle": dict(hdf5plugin.Blosc(cname="lz4", shuffle=hdf5plugin.Blosc.BITSHUFFLE)),
    **{
        f"blosc2_{codec}": dict(hdf5plugin.Blosc2(cname=codec)) for codec in ("blosclz", "lz4", "lz4hc", "zlib", "zstd")
    },
    "blosc2_delta": dict(hdf5plugin.Blosc2(cname="zstd", filters=hdf5plugin.Blosc2.DELTA)),
    "zfp_reversible": dict(hdf5plugin.Zfp(reversible=True)),
}

LOSSY: dict[str, dict[str, object]] = {
    "zfp_accuracy": dict(hdf5plugin.Zfp(accuracy=0.01)),
    "zfp_rate": dict(hdf5plugin.Zfp(rate=12)),
    "sz": dict(hdf5plugin.SZ(absolute=0.01)),
    "sz3": dict(hdf5plugin.SZ3(absolute=0.01)),
    "sperr": dict(hdf5plugin.Sperr(absolute=0.01)),
}
"""Data lost already when these files were written: what is stored must stay as it decodes."""

INTEGER_ONLY: dict[str, dict[str, object]] = {
    "scaleoffset_integer": {"scaleoffset": 0},
    "fcidecomp": dict(hdf5plugin.FciDecomp()),
    "htj2k": dict(hdf5plugin.Htj2k()),
}

INPUTS: dict[str, Callable[[Path], None]] = {}


def _write(path: Path, filters: dict[str, object], *, floats: bool, specials: bool) -> None:
    with h5py.File(path, "w") as file:
        if floats:
            make = field_with_specials if specials else smooth_field
            file.create_dataset("f4", data=make(SHAPE, "f4"), chunks=CHUNKS, **filters)
            file.create_dataset("f8", data=make(SHAPE, "f8", 2), chunks=CHUNKS, **filters)
        else:
            file.create_dataset("u2", data=integers((45, 60), "u2") % 4096, chunks=(45, 60), **filters)
        if floats and specials and "zfp_reversible" not in path.name:
            file.create_dataset("i2", data=integers(SHAPE, "i2"), chunks=CHUNKS, **filters)
            file.create_dataset("big_endian_i4", data=integers(SHAPE, "i4").astype(">i4"), chunks=CHUNKS, **filters)


def _register(name: str, filters: dict[str, object], *, floats: bool, specials: bool) -> None:
    INPUTS[name] = lambda path: _write(path, filters, floats=floats, specials=specials)


for _name, _filters in LOSSLESS.items():
    _register(_name, _filters, floats=True, specials=_name != "zfp_reversible")
for _name, _filters in LOSSY.items():
    _register(_name, _filters, floats=True, specials=False)
for _name, _filters in INTEGER_ONLY.items():
    _register(_name, _filters, floats=False, specials=False)


def scaleoffset_float(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("f4", data=smooth_field(SHAPE), chunks=CHUNKS, scaleoffset=2)


def nbit(path: Path) -> None:
    """Integers of 17 bits and floats of 20, packed by HDF5's own filter."""
    with h5py.File(path, "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((16, 50))
        properties.set_filter(h5z.FILTER_NBIT, h5z.FLAG_MANDATORY)
        kind = h5t.STD_I32LE.copy()
        kind.set_precision(17)
        dataset = h5py.h5d.create(file.id, b"seventeen_bits", kind, h5s.create_simple((45, 50)), dcpl=properties)
        values = integers((45, 50), "i2").astype("i4")
        dataset.write(h5s.ALL, h5s.ALL, values, h5t.NATIVE_INT32)


def skipped_filters(path: Path) -> None:
    """Chunks whose filter mask says that a filter was left out, beside chunks that have all."""
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("f4", (4, 1000), "f4", chunks=(1, 1000), compression="gzip", shuffle=True)
        dataset[...] = smooth_field((4, 1000))
        raw = smooth_field((1000,), seed=9)
        dataset.id.write_direct_chunk((2, 0), raw.tobytes(), filter_mask=0b11)


def small_chunks_incompressible(path: Path) -> None:
    """Random bits: an optional filter gives up, and no output may grow by more than a header."""
    bits = np.random.default_rng(1).integers(0, 2**32, (64, 1024), "u4")
    with h5py.File(path, "w") as file:
        file.create_dataset("noise", data=bits.view("f4"), chunks=(1, 1024), compression="gzip")


def checksummed_incompressible(path: Path) -> None:
    """Random bits that each compressor makes longer, before a checksum that makes all of them count."""
    bits = np.random.default_rng(2).integers(0, 2**8, (8, 700), "u1")
    with h5py.File(path, "w") as file:
        for name, filters in LOSSLESS.items():
            if "zfp" not in name:
                file.create_dataset(name, data=bits, chunks=(1, 700), **(filters | {"fletcher32": True}))


SPECIAL = (scaleoffset_float, nbit, skipped_filters, small_chunks_incompressible, checksummed_incompressible)
for _writer in SPECIAL:
    INPUTS[_writer.__name__] = _writer


def write_unknown_filter(path: Path) -> None:
    """A variable that needs a filter nobody has, beside one that is fine."""
    with h5py.File(path, "w") as file:
        file["fine"] = smooth_field((10, 10))
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((10, 10))
        properties.set_filter(UNKNOWN_FILTER_ID, h5z.FLAG_OPTIONAL, (1, 2))
        dataset = h5py.h5d.create(file.id, b"locked", h5t.IEEE_F32LE, h5s.create_simple((10, 10)), dcpl=properties)
        dataset.write_direct_chunk((0, 0), b"coded by an unknown filter", 0)


def write_before_zstd(path: Path, filter_id: int) -> None:
    """Integers of 17 bits behind a filter of HDF5 itself, and zstd behind that. The chunk is made up."""
    with h5py.File(path, "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((32, 32))
        properties.set_filter(filter_id, h5z.FLAG_OPTIONAL)
        properties.set_filter(hdf5plugin.ZSTD_ID, h5z.FLAG_MANDATORY, (3,))
        kind = h5t.STD_I32LE.copy()
        kind.set_precision(17)
        dataset = h5py.h5d.create(file.id, b"T", kind, h5s.create_simple((32, 32)), dcpl=properties)
        dataset.write_direct_chunk((0, 0), numcodecs.Zstd().encode(bytes(4096)), 0)
