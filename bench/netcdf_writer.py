"""Writing plain, uncompressed netCDF-4 inputs with chunks of about 1 MiB."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import netCDF4
import numpy as np

CHUNK_BYTES = 1 << 20


def slab_shape(shape: Sequence[int], itemsize: int, limit: int = CHUNK_BYTES) -> tuple[int, ...]:
    """A C-order slab of `shape` of about `limit` bytes: trailing axes whole, leading axes 1.

    A whole step up to a quarter larger than the limit stays whole. The axis that is cut is cut into
    equal pieces, so that edge chunks hold little padding.
    """
    slab = [1] * len(shape)
    room = limit / itemsize
    for axis in reversed(range(len(shape))):
        if shape[axis] <= 1.25 * room:
            slab[axis] = max(1, shape[axis])
            room /= slab[axis]
        else:
            pieces = math.ceil(shape[axis] / max(1.0, room))
            slab[axis] = math.ceil(shape[axis] / pieces)
            break
    return tuple(slab)


class InputFile:
    """A netCDF-4 file under construction; dimensions of equal length and role are shared."""

    def __init__(self, path: Path, title: str):
        self.dataset = netCDF4.Dataset(path, "w", format="NETCDF4")
        self.dataset.Conventions = "CF-1.11"
        self.dataset.title = title

    def __enter__(self) -> InputFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.dataset.close()

    def dimension(self, length: int) -> str:
        name = f"n{length}"
        if name not in self.dataset.dimensions:
            self.dataset.createDimension(name, length)
        return name

    def time(self, length: int) -> str:
        """An unlimited time dimension for series of `length` steps, with its coordinate variable."""
        name = f"time_{length}"
        if name not in self.dataset.dimensions:
            self.dataset.createDimension(name, None)
            variable = self.dataset.createVariable(name, "f8", (name,), chunksizes=(512,))
            variable.units = "days since 2000-01-01"
            variable.standard_name = "time"
            variable[:] = np.arange(length, dtype="f8")
        return name

    def add_series(
        self,
        name: str,
        blocks: Iterable[np.ndarray],
        shape: Sequence[int],
        dtype: np.dtype,
        fill: float | None = None,
        period: int = 1,
    ) -> None:
        """A variable of `shape`, time first and unlimited, written from consecutive blocks of steps.

        With a `period` no chunk holds steps of two periods: a compressor that looks back would find
        the repeated values of a tiled series, which real series do not have.
        """
        chunks = slab_shape(shape, dtype.itemsize)
        if period > 1:
            steps = next(steps for steps in range(chunks[0], 0, -1) if period % steps == 0)
            chunks = (steps, *chunks[1:])
        dimensions = (self.time(shape[0]), *(self.dimension(length) for length in shape[1:]))
        variable = self._create(name, dimensions, chunks, dtype, fill)
        at = 0
        for block in blocks:
            variable[at : at + len(block)] = block
            at += len(block)

    def add(self, name: str, values: np.ndarray, fill: float | None = None) -> None:
        """A variable of fixed dimensions."""
        dimensions = [self.dimension(length) for length in values.shape]
        chunks = slab_shape(values.shape, values.itemsize)
        self._create(name, dimensions, chunks, values.dtype, fill)[...] = values

    def _create(
        self, name: str, dimensions: Sequence[str], chunks: Sequence[int], dtype: np.dtype, fill: float | None
    ) -> netCDF4.Variable:
        variable = self.dataset.createVariable(
            name,
            dtype,
            dimensions,
            chunksizes=chunks,
            fill_value=None if fill is None else dtype.type(fill),
        )
        variable.set_auto_maskandscale(False)
        return variable
