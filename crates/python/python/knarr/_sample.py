"""What is looked at of an array: all of a small one, boxes spread over a large one, which need not fit the memory."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray

LARGEST, BOX, BOXES = 64 << 20, 4 << 20, 16
# A chunk of fewer than one in so many of the bytes that it should have is little: files of them are slow, and many.
LITTLE = 16
GOLDEN = (math.sqrt(5) - 1) / 2


def sample(array: Any) -> np.ndarray[Any, Any]:
    """The values of an array or a variable of xarray, or, of more than 64 MiB, 16 boxes of at most 4 MiB in a row."""
    itemsize = array.dtype.itemsize
    if array.size * itemsize <= LARGEST:
        return np.asarray(array)
    # Of Dask's blocks as few as can be are computed.
    blocks = getattr(array, "chunks", None)
    box = trailing(tuple(max(sizes) for sizes in blocks) if blocks else array.shape, itemsize, BOX)
    counts = [n // side for n, side in zip(array.shape, box, strict=True)]
    total = math.prod(counts)
    # Multiples of the golden ratio spread evenly, and meet no period of the axes.
    places = sorted({int((n + 0.5) * GOLDEN % 1 * total) for n in range(BOXES)})
    corners = (np.unravel_index(place, counts) for place in places)
    boxes = [
        tuple(slice(int(at) * side, (int(at) + 1) * side) for at, side in zip(corner, box, strict=True))
        for corner in corners
    ]
    return np.concatenate([np.asarray(array[part]) for part in boxes])


def trailing(shape: tuple[int, ...], itemsize: int, most: int) -> tuple[int, ...]:
    """Whole trailing dimensions, as many as ``most`` bytes hold."""
    piece = list(shape)
    for axis in range(len(piece)):
        size = math.prod(piece) * itemsize
        if size <= most:
            break
        piece[axis] = max(1, piece[axis] * most // size)
    return tuple(piece)


def within(blocks: tuple[tuple[int, ...], ...], itemsize: int, most: int) -> tuple[int, ...]:
    """Parts of Dask's blocks: a chunk that two blocks share would have two writers at once. Larger than ``most`` where
    what divides the blocks is much smaller.
    """
    piece = [math.gcd(*sizes[:-1], sizes[0]) if len(sizes) > 1 else sizes[0] for sizes in blocks]
    for axis, side in enumerate(piece):
        rest = math.prod(piece) // max(1, side) * itemsize
        if side * rest <= most:
            break
        divisors = {divisor for n in range(1, math.isqrt(side) + 1) if side % n == 0 for divisor in (n, side // n)}
        fitting = max((n for n in divisors if n * rest <= most), default=1)
        is_little = rest <= most and fitting * rest * LITTLE < most
        piece[axis] = min(n for n in divisors if n > fitting) if is_little else fitting
    return tuple(max(1, n) for n in piece)


def stored(variable: xarray.Variable) -> xarray.Variable | None:
    """A sample of the numbers that xarray will write for ``variable``: packed, dates as counts, truth values as bytes.
    ``None`` if it is no array of numbers, or xarray cannot write it.
    """
    import xarray

    if variable.ndim == 0 or variable.size == 0 or variable.dtype.kind not in "iufbmM":
        return None
    part = xarray.Variable(variable.dims, sample(variable), variable.attrs, variable.encoding)
    try:
        with warnings.catch_warnings():
            # What xarray has to say about the values it says again when it writes them.
            warnings.simplefilter("ignore")
            encoded = xarray.conventions.encode_cf_variable(part)
            values = np.asarray(encoded.values)
    except (ValueError, TypeError, OverflowError):
        return None
    return xarray.Variable(variable.dims, values, encoded.attrs) if values.dtype.kind in "iuf" else None
