"""Are two netCDF datasets the same to netCDF4-python? Across all formats netCDF-C reads."""

from __future__ import annotations

from pathlib import Path

import netCDF4
import numpy as np


def differences(left_path: Path, right_path: Path) -> list[str]:
    """Every difference in dimensions, variables, bits, user-defined types, groups and attributes."""
    with netCDF4.Dataset(left_path) as left, netCDF4.Dataset(right_path) as right:
        for dataset in (left, right):
            dataset.set_auto_maskandscale(False)
        return _compare_groups("/", left, right)


def require_same(left_path: Path, right_path: Path) -> None:
    found = differences(left_path, right_path)
    assert not found, "\n".join(found[:20])


def _compare_groups(path: str, left: netCDF4.Group, right: netCDF4.Group) -> list[str]:
    found: list[str] = []

    def require(before: object, after: object, what: str) -> None:
        if before != after:
            found.append(f"{what}: {before!r} became {after!r}"[:400])

    def dimensions(group: netCDF4.Group) -> list[tuple]:
        return [(name, len(dimension), dimension.isunlimited()) for name, dimension in group.dimensions.items()]

    def types(group: netCDF4.Group) -> list[tuple]:
        compounds = [(name, str(kind.dtype)) for name, kind in group.cmptypes.items()]
        enums = [(name, str(kind.dtype), kind.enum_dict) for name, kind in group.enumtypes.items()]
        return compounds + enums + [(name, str(kind.dtype)) for name, kind in group.vltypes.items()]

    require(dimensions(left), dimensions(right), f"{path} dimensions")
    require(types(left), types(right), f"{path} types")
    require(attributes(left), attributes(right), f"{path} attributes")
    require(list(left.variables), list(right.variables), f"{path} variables")
    require(list(left.groups), list(right.groups), f"{path} groups")
    for name in left.variables.keys() & right.variables.keys():
        before, after, place = left.variables[name], right.variables[name], f"{path}{name}"
        require(before.dimensions, after.dimensions, f"{place} dimensions")
        require(str(before.datatype), str(after.datatype), f"{place} type")
        require(attributes(before), attributes(after), f"{place} attributes")
        if before.shape == after.shape and bits(before[...]) != bits(after[...]):
            found.append(f"{place}: values differ")
    for name in left.groups.keys() & right.groups.keys():
        found += _compare_groups(f"{path}{name}/", left.groups[name], right.groups[name])
    return found


def attributes(item: netCDF4.Variable | netCDF4.Group) -> list[tuple[str, object]]:
    return [(name, bits(item.getncattr(name))) for name in item.ncattrs()]


def bits(value: object) -> object:
    """Something that compares equal exactly if type, shape and every bit are equal."""
    if isinstance(value, str):
        return value
    array = np.asarray(value)
    if array.dtype.hasobject:
        return [bits(item) for item in array.reshape(-1)] if array.ndim else array.item()
    return (
        array.dtype.newbyteorder("=").str,
        array.shape,
        array.astype(array.dtype.newbyteorder("="), copy=False).tobytes(),
    )
