"""The loop people write: read each variable with h5py, write it with a filter, copy attributes.

    h5py_loop.py zstd-3|deflate-5 IN OUT

A peer of `knarr repack` in the benchmarks. It keeps the chunks and writes a block of chunks along the
first axis at a time; like most such scripts it copies attributes, not links, types or scales.
"""

from __future__ import annotations

import sys

import h5py

FILTERS = {
    "deflate-5": {"compression": "gzip", "compression_opts": 5, "shuffle": True},
    "zstd-3": {"shuffle": True},
}
BLOCK_BYTES = 32 << 20


def copy_variable(source: h5py.Dataset, target: h5py.Group, filters: dict[str, object]) -> None:
    if source.chunks is None:
        copy = target.create_dataset(source.name, data=source[...])
    else:
        copy = target.create_dataset(
            source.name,
            source.shape,
            source.dtype,
            chunks=source.chunks,
            maxshape=source.maxshape,
            fillvalue=source.fillvalue,
            **filters,
        )
        row_bytes = max(1, source.nbytes // max(1, len(source)))
        rows = max(1, BLOCK_BYTES // row_bytes // source.chunks[0]) * source.chunks[0]
        for begin in range(0, len(source), rows):
            copy[begin : begin + rows] = source[begin : begin + rows]
    for name, value in source.attrs.items():
        if source.attrs.get_id(name).dtype.kind != "O":
            copy.attrs[name] = value


def main(setting: str, source_path: str, target_path: str) -> None:
    filters = dict(FILTERS[setting])
    if setting.startswith("zstd"):
        import hdf5plugin

        filters |= hdf5plugin.Zstd(clevel=3)
    with h5py.File(source_path) as source, h5py.File(target_path, "w") as target:
        for name in source:
            copy_variable(source[name], target, filters)


if __name__ == "__main__":
    main(*sys.argv[1:])
