"""Zarr v2 and v3 inputs, written by zarr-python and numcodecs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numcodecs
import numpy as np
import zarr
from zarr.codecs import (
    BloscCodec,
    BytesCodec,
    Crc32cCodec,
    GzipCodec,
    ShardingCodec,
    TransposeCodec,
    ZstdCodec,
)
from zarr.codecs import numcodecs as extra

from values import field_with_specials, integers, smooth_field

INPUTS: dict[str, Callable[[Path], None]] = {}
SUFFIX = ".zarr"

SHAPE, CHUNKS = (21, 32, 50), (8, 16, 50)


def zarr_input(write: Callable[[Path], None]) -> Callable[[Path], None]:
    INPUTS[write.__name__] = write
    return write


def _v2_array(group: zarr.Group, name: str, values: np.ndarray, **how: object) -> zarr.Array:
    array = group.create_array(name, shape=values.shape, dtype=values.dtype, chunks=how.pop("chunks", CHUNKS), **how)
    array[...] = values
    return array


@zarr_input
def v2_compressors(path: Path) -> None:
    root = zarr.create_group(path, zarr_format=2)
    root.attrs["title"] = "the compressors of Zarr v2"
    compressors = {
        "none": None,
        "zlib": numcodecs.Zlib(5),
        "gzip": numcodecs.GZip(5),
        "zstd": numcodecs.Zstd(3),
        "bz2": numcodecs.BZ2(5),
        "lz4": numcodecs.LZ4(),
        "lzma": numcodecs.LZMA(preset=1),
        "blosc_lz4": numcodecs.Blosc("lz4", 5, numcodecs.Blosc.SHUFFLE),
        "blosc_zstd": numcodecs.Blosc("zstd", 5, numcodecs.Blosc.BITSHUFFLE),
        "blosc_zlib": numcodecs.Blosc("zlib", 5, numcodecs.Blosc.NOSHUFFLE),
        "blosc_blosclz": numcodecs.Blosc("blosclz", 5),
    }
    for name, compressor in compressors.items():
        _v2_array(root, name, field_with_specials(SHAPE), compressors=compressor, filters=None)


@zarr_input
def v2_filters_and_layouts(path: Path) -> None:
    root = zarr.create_group(path, zarr_format=2)
    _v2_array(root, "shuffle", smooth_field(SHAPE), filters=[numcodecs.Shuffle(4)], compressors=numcodecs.Zlib(1))
    _v2_array(root, "delta", integers(SHAPE, "i4"), filters=[numcodecs.Delta("<i4")])
    _v2_array(root, "delta_u2_big", integers(SHAPE, ">u2"), filters=[numcodecs.Delta(">u2")])
    _v2_array(root, "delta_float", smooth_field(SHAPE), filters=[numcodecs.Delta("<f4")])
    _v2_array(
        root,
        "delta_shuffle",
        integers(SHAPE, "i8"),
        filters=[numcodecs.Delta("<i8"), numcodecs.Shuffle(8)],
        compressors=numcodecs.LZ4(),
        order="F",
    )
    _v2_array(
        root,
        "delta_narrow",
        np.arange(np.prod(SHAPE), dtype="i4").reshape(SHAPE) % 7,
        filters=[numcodecs.Delta("<i4", "<i2")],
    )
    _v2_array(root, "rounded", smooth_field(SHAPE), filters=[numcodecs.BitRound(9)])
    _v2_array(root, "fortran_order", smooth_field(SHAPE), order="F")
    _v2_array(root, "big_endian", field_with_specials(SHAPE).astype(">f4"))
    _v2_array(root, "slash_keys", smooth_field(SHAPE), chunk_key_encoding={"name": "v2", "separator": "/"})
    missing = root.create_array("missing_chunks", shape=(100, 10), dtype="f8", chunks=(10, 10), fill_value=np.nan)
    missing[20:30] = 1
    scalar = root.create_array("scalar", shape=(), dtype="f8")
    scalar[...] = 2.5
    root.create_group("nested/deeper").attrs["level"] = 2
    _v2_array(root["nested/deeper"], "bool", np.arange(64).reshape(8, 8) % 3 == 0, chunks=(3, 3))


@zarr_input
def v3_codecs(path: Path) -> None:
    root = zarr.create_group(path, zarr_format=3)
    root.attrs.update({"title": "codecs of Zarr v3", "numbers": [1, 2.5], "nested": {"a": None}})
    compressors = {
        "none": (),
        "gzip": (GzipCodec(level=5),),
        "zstd": (ZstdCodec(level=3),),
        "zstd_checksum": (ZstdCodec(level=3, checksum=True),),
        "blosc": (BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=4),),
        "blosc_bitshuffle": (BloscCodec(cname="zstd", clevel=5, shuffle="bitshuffle", typesize=4),),
        "crc32c": (ZstdCodec(level=3), Crc32cCodec()),
    }
    for name, chain in compressors.items():
        array = root.create_array(
            name, shape=SHAPE, dtype="f4", chunks=CHUNKS, compressors=chain, dimension_names=("t", "y", "x")
        )
        array[...] = field_with_specials(SHAPE)
        array.attrs["units"] = "K"


@zarr_input
def v3_numcodecs(path: Path) -> None:
    """Codecs that zarr-python takes from numcodecs."""
    root = zarr.create_group(path, zarr_format=3)
    field, whole = field_with_specials(SHAPE), integers(SHAPE, "i4")
    pipelines = {
        "lzma": (field, {"compressors": extra.LZMA(preset=1)}),
        "lz4": (field, {"compressors": extra.LZ4()}),
        "zlib_shuffle": (field, {"compressors": (extra.Shuffle(elementsize=4), extra.Zlib(level=2))}),
        "bz2_fletcher32": (field, {"compressors": (extra.BZ2(level=2), extra.Fletcher32())}),
        "lz4_crc32c": (field, {"compressors": (extra.LZ4(), Crc32cCodec())}),
        "pcodec": (field, {"serializer": extra.PCodec(level=3), "compressors": ()}),
        "delta": (whole, {"filters": extra.Delta(dtype="<i4"), "compressors": ZstdCodec(level=3)}),
        "lzma_shards": (field, {"compressors": extra.LZMA(preset=1), "shards": (16, 32, 50)}),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that their specification is not final
        for name, (values, how) in pipelines.items():
            array = root.create_array(name, shape=SHAPE, dtype=values.dtype, chunks=CHUNKS, **how)
            array[...] = values


@zarr_input
def v3_layouts(path: Path) -> None:
    root = zarr.create_group(path, zarr_format=3)
    values = field_with_specials(SHAPE)
    big = root.create_array("big_endian", shape=SHAPE, dtype="f4", chunks=CHUNKS, serializer=BytesCodec(endian="big"))
    big[...] = values
    transposed = root.create_array(
        "transposed", shape=SHAPE, dtype="f4", chunks=CHUNKS, filters=(TransposeCodec(order=(2, 0, 1)),)
    )
    transposed[...] = values
    sharded = root.create_array("sharded", shape=(64, 64), dtype="f4", chunks=(8, 16), shards=(32, 64))
    sharded[:40] = field_with_specials((40, 64))
    index_first = root.create_array(
        "index_first",
        shape=(64, 64),
        dtype="f4",
        chunks=(32, 64),
        serializer=ShardingCodec(
            chunk_shape=(8, 16),
            codecs=[BytesCodec(), ZstdCodec(level=1)],
            index_codecs=[BytesCodec(), Crc32cCodec()],
            index_location="start",
        ),
        compressors=(),
    )
    index_first[...] = field_with_specials((64, 64))
    root.create_array("v2_keys", shape=SHAPE, dtype="f4", chunks=CHUNKS, chunk_key_encoding={"name": "v2"})[...] = (
        values
    )
    root.create_array("missing", shape=(100, 10), dtype="i4", chunks=(10, 10), fill_value=-3)[20:30] = 1
    root.create_array("scalar", shape=(), dtype="f8")[...] = 1.5
    root.create_array("wide_chunks", shape=(40, 17), dtype="f8", chunks=(64, 40))[...] = smooth_field((40, 17), "f8")
    for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"):
        root.create_array(kind, shape=(30, 9), dtype=kind, chunks=(7, 9))[...] = integers((30, 9), kind)
    root.create_array("bool", shape=(9,), dtype="bool", chunks=(4,))[...] = np.arange(9) % 2 == 0
    root.create_group("nested").create_array("f8", shape=(20,), dtype="f8", chunks=(8,))[...] = smooth_field(
        (20,), "f8"
    )


V3 = [name for name in INPUTS if name.startswith("v3")]
