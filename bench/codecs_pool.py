"""Ratio of every chain of the pool on every real variable, measured with Python packages.

A variable is cut into C-order slabs of at most 1 MiB, each coded alone, as a chunk of a file would
be; of a variable above 16 MB, 16 evenly spaced slabs are used. Only sizes are measured: speeds of
these bindings say little about a native program.
"""

from __future__ import annotations

import bz2
import lzma
import math
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import blosc2
import fpzip
import h5py
import hdf5plugin
import numpy as np
import zstandard
from pcodec import ChunkConfig, standalone

from measure import cell
from netcdf_writer import slab_shape

SLAB_LIMIT_BYTES = 16_000_000
SLABS_OF_LARGE = 16
NEARLY_CONSTANT_RATIO = 100

Encoder = Callable[[np.ndarray], int]
"""Size in bytes of one encoded slab."""


def shuffled(values: np.ndarray) -> bytes:
    """HDF5's byte shuffle: all first bytes, then all second bytes, ..."""
    return values.view("u1").reshape(-1, values.itemsize).T.tobytes()


def plain(values: np.ndarray) -> bytes:
    return values.tobytes()


def bytes_chain(arrange: Callable[[np.ndarray], bytes], compress: Callable[[bytes], bytes]) -> Encoder:
    return lambda values: len(compress(arrange(np.ascontiguousarray(values).ravel())))


def xz(data: bytes) -> bytes:
    return lzma.compress(data, lzma.FORMAT_XZ, lzma.CHECK_NONE, preset=6)


def zstd(level: int) -> Callable[[bytes], bytes]:
    return lambda data: zstandard.ZstdCompressor(level=level, write_checksum=False).compress(data)


def pcodec(level: int) -> Encoder:
    config = ChunkConfig(compression_level=level)
    return lambda values: len(standalone.simple_compress(np.ascontiguousarray(values).ravel(), config))


def fpzip_lossless(values: np.ndarray) -> int:
    """fpzip takes floats of at most 4 dimensions; other types count as stored raw."""
    if values.dtype.kind != "f" or values.itemsize not in (4, 8):
        return values.nbytes
    squeezed = np.squeeze(values)
    if squeezed.ndim > 3:
        squeezed = squeezed.reshape(-1, *squeezed.shape[-2:])
    return len(fpzip.compress(np.ascontiguousarray(squeezed), precision=0, order="C"))


def blosc2_bytedelta(level: int) -> Encoder:
    """Shuffle and byte delta before zstd, as `Filter.BYTEDELTA` wants."""
    filters = [blosc2.Filter.SHUFFLE, blosc2.Filter.BYTEDELTA]

    def size(values: np.ndarray) -> int:
        parameters = {
            "codec": blosc2.Codec.ZSTD,
            "clevel": level,
            "typesize": values.itemsize,
            "filters": filters,
            "filters_meta": [0, values.itemsize],
            "nthreads": 1,
        }
        return len(blosc2.compress2(np.ascontiguousarray(values), **parameters))

    return size


def hdf5_filter(**filters: object) -> Encoder:
    """Size of one chunk as a registered HDF5 filter stores it."""

    def size(values: np.ndarray) -> int:
        with h5py.File("slab", "w", driver="core", backing_store=False) as file:
            dataset = file.create_dataset(
                "slab", data=np.atleast_1d(values), chunks=np.atleast_1d(values).shape, **filters
            )
            return min(dataset.id.get_storage_size(), values.nbytes)

    return size


POOL: dict[str, Encoder] = {
    "shuffle | deflate:5": bytes_chain(shuffled, lambda data: zlib.compress(data, 5)),
    "zstd:3": bytes_chain(plain, zstd(3)),
    "shuffle | zstd:3": bytes_chain(shuffled, zstd(3)),
    "zstd:22": bytes_chain(plain, zstd(22)),
    "shuffle | zstd:22": bytes_chain(shuffled, zstd(22)),
    "xz:6": bytes_chain(plain, xz),
    "shuffle | xz:6": bytes_chain(shuffled, xz),
    "bzip2:9": bytes_chain(plain, bz2.compress),
    "shuffle | bzip2:9": bytes_chain(shuffled, bz2.compress),
    "pcodec:8": pcodec(8),
    "pcodec:12": pcodec(12),
    "fpzip": fpzip_lossless,
    "blosc2 bytedelta zstd:5": blosc2_bytedelta(5),
    "bitshuffle | zstd:3": hdf5_filter(**hdf5plugin.Bitshuffle(cname="zstd", clevel=3)),
    "zfp reversible": hdf5_filter(**hdf5plugin.Zfp(reversible=True)),
}
"""Named as Knarr writes chains, where Knarr has the chain."""

FLOAT_ONLY = ("zfp reversible",)


def slabs(dataset: h5py.Dataset) -> list[np.ndarray]:
    """The slabs of a variable that are measured, native byte order."""
    values = dataset[...]
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    shape = slab_shape(values.shape, values.itemsize)
    counts = [math.ceil(length / step) for length, step in zip(values.shape, shape, strict=True)]
    indices = list(np.ndindex(*counts))
    if values.nbytes > SLAB_LIMIT_BYTES:
        chosen = np.linspace(0, len(indices) - 1, SLABS_OF_LARGE).round().astype(int)
        indices = [indices[at] for at in chosen]
    return [
        np.ascontiguousarray(values[tuple(slice(i * s, (i + 1) * s) for i, s in zip(index, shape, strict=True))])
        for index in indices
    ]


def measure_variable(path: Path, name: str) -> dict[str, float]:
    """Ratio of every chain of the pool that takes the variable's type."""
    with h5py.File(path) as file:
        pieces = slabs(file[name])
    raw = sum(piece.nbytes for piece in pieces)
    takes_zfp = pieces[0].dtype.kind == "f" and 1 <= pieces[0].ndim <= 4
    return {
        chain: raw / sum(encode(piece) for piece in pieces)
        for chain, encode in POOL.items()
        if takes_zfp or chain not in FLOAT_ONLY
    }


def variable_names(path: Path) -> list[str]:
    """Every variable with a name of a source, which dimension scales do not have."""
    with h5py.File(path) as file:
        return [name for name in file if "." in name]


def measure_pool(path: Path, jobs: int) -> dict[str, dict[str, float]]:
    names = variable_names(path)
    with ProcessPoolExecutor(jobs) as workers:
        return dict(zip(names, workers.map(measure_variable, [path] * len(names), names), strict=True))


def stored_ratios(path: Path) -> dict[str, float]:
    """Ratio per variable as stored in an HDF5 file, from the library's own accounting."""
    with h5py.File(path) as file:
        return {name: file[name].nbytes / file[name].id.get_storage_size() for name in file if "." in name}


def geometric_mean(numbers: list[float]) -> float:
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def table(pool: dict[str, dict[str, float]], others: dict[str, dict[str, float]]) -> str:
    """Geometric mean per chain and of the best per variable; `others` are ratios of repacked files.

    Nearly constant variables are left out: their ratios, in the hundreds, would decide the means.
    """
    left_out = [name for name, ratios in pool.items() if ratios["shuffle | deflate:5"] > NEARLY_CONSTANT_RATIO]
    pool = {name: ratios for name, ratios in pool.items() if name not in left_out}
    lines = ["| chain | geometric mean ratio | variables it is best for |", "|---|---:|---:|"]
    best = {name: max(ratios, key=ratios.__getitem__) for name, ratios in pool.items()}
    for chain in POOL:
        ratios = [variable[chain] for variable in pool.values() if chain in variable]
        wins = sum(winner == chain for winner in best.values())
        lines.append(f"| {cell(chain)} | {geometric_mean(ratios):.3f} | {wins} |")
    oracle = geometric_mean([max(ratios.values()) for ratios in pool.values()])
    lines.append(f"| best per variable | {oracle:.3f} | {len(pool)} |")
    for label, ratios in others.items():
        against = [ratios[name] / max(pool[name].values()) for name in pool]
        lines.append(
            f"| {label} | {geometric_mean([ratios[name] for name in pool]):.3f} | "
            f"{geometric_mean(against):.3f} of the best, worst {min(against):.3f} |"
        )
    return "\n".join([*lines, "", f"left out, nearly constant: {', '.join(left_out) or 'none'}"])
