"""Values that xarray has encoded and Knarr is to write: computed when they are asked for."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ._arrays import NAMES
from ._sample import within

# Arrays of at most so many bytes are computed as a whole, before others.
SMALL = 64 << 10
# Blocks of more are cut into chunks of about so many bytes.
LARGEST_CHUNK, CHUNK = 16 << 20, 1 << 20


class Values:
    """Arrays, in memory or of Dask, by the paths of their variables."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.arrays: list[Any] = []
        self.scheduling: dict[str, Any] = {}

    def described(self) -> list[tuple[str, str, list[int], tuple[list[list[int]], list[int]] | None]]:
        """Path, type and shape of each variable that is kept, and lengths and chunks of its blocks."""
        return [
            (path, _stored_type(array), list(array.shape), _divided(array))
            for path, array in zip(self.paths, self.arrays, strict=True)
        ]

    def compute(self, number: int, start: list[int], stop: list[int]) -> np.ndarray[Any, Any]:
        """The bytes of a region, little-endian."""
        array = self.arrays[number]
        part = array[tuple(map(slice, start, stop))]
        values = np.asarray(part.compute(**self.scheduling) if hasattr(part, "dask") else part)
        shape = tuple(b - a for a, b in zip(start, stop, strict=True))
        if values.dtype.newbyteorder("=") != array.dtype.newbyteorder("=") or values.shape != shape:
            raise ValueError(
                f"a block of {self.paths[number][1:]!r} was computed as {values.dtype} of shape {values.shape}, but "
                f"Dask says that it is {array.dtype} of shape {shape}"
            )
        little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
        return little.reshape(-1).view(np.uint8)

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """One pool for all threads that compute: Dask's threaded scheduler would start one for each of them."""
        if all(_blocks(array) is None for array in self.arrays):
            yield
            return
        import dask

        is_threaded = dask.config.get("scheduler", None) in (None, "threads", "threading")
        if not is_threaded or dask.config.get("pool", None) is not None:
            yield
            return
        with ThreadPoolExecutor(dask.config.get("num_workers", None) or os.cpu_count()) as pool:
            self.scheduling = {"pool": pool}
            yield


def is_number(array: Any) -> bool:
    """True for arrays of a type that Knarr encodes."""
    return array.dtype.kind in "iufb" and array.dtype.newbyteorder("=").name in (*NAMES, "bool")


def _blocks(array: Any) -> list[list[int]] | None:
    """Lengths of Dask's blocks along each axis."""
    chunks = getattr(array, "chunks", None)
    return None if chunks is None else [[int(length) for length in lengths] for lengths in chunks]


def _divided(array: Any) -> tuple[list[list[int]], list[int]] | None:
    """Lengths of Dask's blocks along each axis, and the shape of chunks. Those are the blocks if they are small enough,
    and otherwise parts of them: a chunk that lies across blocks needs them all at once.
    """
    if (blocks := _blocks(array)) is None:
        return None
    largest = [max(lengths) for lengths in blocks]
    if math.prod(largest) * array.dtype.itemsize > LARGEST_CHUNK:
        return blocks, list(within(array.chunks, array.dtype.itemsize, CHUNK))
    return blocks, largest


def _stored_type(array: Any) -> str:
    return "i8" if array.dtype.kind == "b" else NAMES[array.dtype.newbyteorder("=").name]
