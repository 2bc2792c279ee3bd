"""The real variables the benchmarks are made from, read from installed sample collections.

Three collections are used: the PyPI package `iris-sample-data` (Met Office, NEMO, OSTIA), and the
Debian packages `libncarg-data` (NCL) and `ferret-datasets`. A variable counts if it has at least
`MIN_BYTES` bytes of numbers; equal arrays are listed once.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import netCDF4
import numpy as np

MIN_BYTES = 300_000

NCARG = Path("/usr/share/ncarg/data")
FERRET = Path("/usr/share/ferret-vis/data")

COORDINATE_NAMES = ("lat", "lon", "nav_", "bounds_", "clat", "clon", "ele", "urot", "vrot")
TERRAIN_NAMES = ("ROSE", "HSURF", "FR_LAND", "orog", "sftlf", "trinidad.data")


@dataclass
class RealVariable:
    """One variable as stored: packed values are not unpacked, fill values are not masked."""

    name: str
    """`source.variable`, unique."""
    values: np.ndarray
    """Native byte order, C order; the values keep their bits."""
    fill: float | None = None

    @property
    def family(self) -> str:
        """`coordinate`, `terrain` or `field`: the groups that anchors and reports average over."""
        short = self.name.rpartition(".")[2]
        if short.startswith(COORDINATE_NAMES):
            return "coordinate"
        if short.startswith(TERRAIN_NAMES) or self.name.startswith(TERRAIN_NAMES):
            return "terrain"
        return "field"


class MissingCollectionError(RuntimeError):
    """A sample collection is not installed; the message says how to install it."""


def iris_folder() -> Path:
    spec = find_spec("iris_sample_data")
    if spec is None or spec.origin is None:
        raise MissingCollectionError("iris-sample-data is not installed: run bench/setup.sh")
    return Path(spec.origin).parent / "sample_data"


def pp_fields(path: Path) -> Iterator[tuple[int, int, np.ndarray]]:
    """(STASH code, processing code, values) of each unpacked real field of a Met Office PP file.

    PP is a sequence of big-endian Fortran records: a header of 45 integers and 19 reals, then the
    data (Unified Model documentation paper F3). Packed fields (LBPACK not 0) are left out.
    """
    data = path.read_bytes()
    at = 0
    while at < len(data):
        (header_bytes,) = struct.unpack_from(">i", data, at)
        header = struct.unpack_from(">45i", data, at + 4)
        at += header_bytes + 8
        (field_bytes,) = struct.unpack_from(">i", data, at)
        rows, columns, extra_words, packing = header[17], header[18], header[19], header[20]
        processing, stash, data_type = header[24], header[41], header[38]
        if packing == 0 and data_type == 1 and field_bytes // 4 - extra_words == rows * columns:
            values = np.frombuffer(data, ">f4", rows * columns, at + 4).astype("=f4")
            yield stash, processing, values.reshape(rows, columns)
        at += field_bytes + 8


def pp_series(name: str, paths: list[Path]) -> Iterator[RealVariable]:
    """Fields of one STASH and processing code, stacked in file order into (time, y, x)."""
    stacks: dict[tuple[int, int, tuple[int, ...]], list[np.ndarray]] = {}
    for path in paths:
        for stash, processing, values in pp_fields(path):
            stacks.setdefault((stash, processing, values.shape), []).append(values)
    for (stash, processing, _), fields in stacks.items():
        yield RealVariable(f"{name}.s{stash}p{processing}", np.stack(fields))


def netcdf_variables(path: Path) -> Iterator[RealVariable]:
    """Every numeric variable of a netCDF or HDF-EOS5 file, as stored."""
    source = path.name.rsplit(".", 1)[0]

    def walk(group: netCDF4.Group) -> Iterator[RealVariable]:
        for name, variable in group.variables.items():
            if not isinstance(variable.dtype, np.dtype) or variable.dtype.kind not in "iuf":
                continue
            if variable.size * variable.dtype.itemsize >= MIN_BYTES:
                values = np.ascontiguousarray(variable[...])
                values = values.astype(values.dtype.newbyteorder("="), copy=False)
                fill = getattr(variable, "_FillValue", getattr(variable, "missing_value", None))
                fill = float(np.ravel(fill)[0]) if fill is not None and not isinstance(fill, str) else None
                yield RealVariable(f"{source}.{name}", values, fill)
        for child in group.groups.values():
            yield from walk(child)

    with netCDF4.Dataset(path) as dataset:
        dataset.set_auto_maskandscale(False)
        yield from walk(dataset)


def sources() -> Iterator[RealVariable]:
    """All variables of all collections, duplicates included, in a fixed order."""
    for folder, package in ((NCARG, "libncarg-data"), (FERRET, "ferret-datasets")):
        if not folder.is_dir():
            raise MissingCollectionError(f"Debian package {package} is not installed: run bench/setup.sh")
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".nc", ".cdf", ".he5"):
                yield from netcdf_variables(path)
    iris = iris_folder()
    for path in sorted(iris.glob("*.nc")):
        yield from netcdf_variables(path)
    nemo = [list(netcdf_variables(path)) for path in sorted((iris / "NEMO").glob("*.nc"))]
    yield from (variable for variable in nemo[0] if not variable.name.endswith(".tos"))
    months = [variable.values for month in nemo for variable in month if variable.name.endswith(".tos")]
    yield RealVariable("nemo.tos3", np.concatenate(months))
    yield from pp_series("GloSea4", sorted((iris / "GloSea4").glob("*.pp")))
    yield from pp_series("UMice", sorted((iris / "UM").glob("*.pp")))
    yield from pp_series("UMhybrid", sorted((iris / "time_varying_hybrid_height").glob("*.pp")))
    for single in ("colpex", "uk_hires"):
        yield from pp_series(single, [iris / f"{single}.pp"])


def real_variables() -> Iterator[RealVariable]:
    """Every distinct real variable of at least `MIN_BYTES` bytes, under a unique name.

    Variables with fewer than three distinct values are left out: their ratio says nothing.
    """
    seen: set[bytes] = set()
    names: set[str] = set()
    for variable in sources():
        if variable.values.nbytes < MIN_BYTES:
            continue
        digest = hashlib.sha256(variable.values.tobytes()).digest()
        if digest in seen or len(np.unique(variable.values.ravel()[:100_000])) < 3:
            continue
        seen.add(digest)
        base, number = variable.name, 2
        while variable.name in names:
            variable.name = f"{base}_{number}"
            number += 1
        names.add(variable.name)
        yield variable
