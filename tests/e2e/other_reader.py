"""What h5py or netCDF4-python read of a file that may be damaged, and whether a repacked file agrees.

    python other_reader.py h5py DAMAGED REPACKED

prints one line of JSON: how many values and attributes were compared, and those that differ. What the reader itself
refuses of the damaged file is not compared. It runs in a process of its own: damage may end it or hold it up.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import hdf5plugin  # noqa: F401  registers filters

from netcdf_compare import bits

ADDED = ("knarr_", "history", "_NCProperties", "quantization")
"""Attributes that are Knarr's own, or the writing library's."""


LARGE = 1 << 24
"""Elements of variables that damage has made too large to compare."""


def attempt(read):
    """What `read` answers; `None` for what cannot be read."""
    try:
        return read()
    except Exception:  # of all kinds: the file is damaged
        return None


def in_hdf5(path: str) -> Iterator[tuple[str, object]]:
    import h5py

    def attributes(place: str, item) -> Iterator[tuple[str, object]]:
        for name in attempt(lambda: list(item.attrs)) or []:
            if not name.startswith(ADDED):
                value = attempt(lambda name=name: item.attrs[name])
                if not isinstance(value, h5py.Reference) and getattr(value, "dtype", None) != h5py.ref_dtype:
                    yield f"{place}@{name}", attempt(lambda value=value: bits(value))

    def walk(group, place: str) -> Iterator[tuple[str, object]]:
        yield from attributes(place, group)
        for name in attempt(lambda: list(group)) or []:
            item, path = attempt(lambda name=name: group[name]), f"{place}{name}"
            if isinstance(item, h5py.Group):
                yield from walk(item, f"{path}/")
            elif isinstance(item, h5py.Dataset):
                yield from attributes(path, item)
                if attempt(lambda item=item: item.dtype.kind in "iuf" and (item.size or 0) < LARGE):
                    yield path, attempt(lambda item=item: bits(item[()]))

    with h5py.File(path) as file:
        yield from walk(file, "/")


def in_netcdf(path: str) -> Iterator[tuple[str, object]]:
    import netCDF4

    def attributes(place: str, item) -> Iterator[tuple[str, object]]:
        for name in attempt(item.ncattrs) or []:
            if not name.startswith(ADDED):
                yield f"{place}@{name}", attempt(lambda name=name: bits(item.getncattr(name)))

    def walk(group, place: str) -> Iterator[tuple[str, object]]:
        yield from attributes(place, group)
        for name, variable in group.variables.items():
            yield from attributes(f"{place}{name}", variable)
            if attempt(lambda variable=variable: variable.dtype.kind in "iuf" and variable.size < LARGE):
                yield f"{place}{name}", attempt(lambda variable=variable: bits(variable[...]))
        for name, child in group.groups.items():
            yield from walk(child, f"{place}{name}/")

    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        yield from walk(file, "/")


def main(reader: str, damaged: str, repacked: str) -> None:
    read = {"h5py": in_hdf5, "netCDF4": in_netcdf}[reader]
    before = {place: value for place, value in (attempt(lambda: list(read(damaged))) or []) if value is not None}
    after = dict(read(repacked))
    wrong = [place for place, value in before.items() if after.get(place) != value]
    print(json.dumps({"compared": len(before), "wrong": wrong}))


if __name__ == "__main__":
    main(*sys.argv[1:])
