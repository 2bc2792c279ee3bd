"""NumPy arrays as the native half takes them: little-endian bytes, type name, shape, fill patterns."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

NAMES = {
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float16": "f16", "float32": "f32", "float64": "f64",
}  # fmt: skip
DTYPES = {short: np.dtype(name).newbyteorder("<") for name, short in NAMES.items()}


def plain(array: np.ndarray[Any, Any]) -> tuple[bytes, str, list[int]]:
    """Row-major little-endian bytes, type name and shape of ``array``."""
    name = NAMES.get(array.dtype.newbyteorder("=").name)
    if name is None:
        raise TypeError(f"arrays of dtype {array.dtype} are not served; convert to a number type first")
    native = array.dtype.newbyteorder("<")
    # A view of the same values: bytes move only if the byte order or the layout must change.
    return np.ascontiguousarray(array, dtype=native).tobytes(), name, list(array.shape)


def unmasked(array: object) -> np.ndarray[Any, Any]:
    """``array`` as a plain array. A mask has no place in bytes, and what lies under it would become values."""
    if isinstance(array, np.ma.MaskedArray):
        if np.ma.is_masked(array):
            raise TypeError("masked values are not served: they would lose their mask; give array.filled(value)")
        return array.data
    return np.asarray(array)


def given_fill(value: object) -> object:
    """``fill_value`` as a caller gave it. Raises ``TypeError`` for what is no number."""
    if value is not None and np.asarray(value).dtype.kind not in "iufb":
        raise TypeError(f"fill_value is {value!r}: give a number, or leave it out")
    return value


def fill_patterns(dtype: np.dtype[Any], *values: object) -> list[int]:
    """Bit patterns, zero-extended, of fill values in ``dtype``; what is ``None`` is left out."""
    order = sys.byteorder
    patterns = []
    for value in values:
        if value is None:
            continue
        for one in np.atleast_1d(np.asarray(value)):
            try:
                with np.errstate(all="ignore"):
                    same = dtype.newbyteorder("=").type(one)
            except (TypeError, ValueError, OverflowError):
                continue
            # A fill value that the type cannot hold never occurs among the values.
            if dtype.kind == "f" or same == one:
                patterns.append(int.from_bytes(same.tobytes(), order))
    return patterns
