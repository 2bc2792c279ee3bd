"""Arrays in memory: compress and decompress."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _knarr
from ._arrays import DTYPES, fill_patterns, plain
from ._request import request


def compress(
    array: np.ndarray[Any, Any],
    *,
    goal: str = "balanced",
    chain: str | None = None,
    fill_value: object = None,
    max_abs_error: float | None = None,
    max_range_error: float | None = None,
    max_rel_error: float | None = None,
    finest_abs_error: float | None = None,
    significant_bits: int | None = None,
    significant_digits: int | None = None,
) -> bytes:
    """Compresses ``array`` into a checksummed, self-describing frame.

    Lossless unless a bound is stated; a bound is checked for every element, and where it cannot be kept the frame is
    lossless. Raises ``ValueError`` for contradictory wishes and ``KnarrError`` for what cannot be served.
    """
    array = np.asarray(array)
    values, dtype, shape = plain(array)
    quality = {
        "max_abs_error": max_abs_error,
        "max_range_error": max_range_error,
        "max_rel_error": max_rel_error,
        "finest_abs_error": finest_abs_error,
        "significant_bits": significant_bits,
        "significant_digits": significant_digits,
    }
    wishes = request(goal=goal, portable=None, quality=quality, chain=chain)
    return _knarr.compress(values, dtype, shape, fill_patterns(array.dtype, fill_value), wishes)


def decompress(packed: bytes) -> np.ndarray[Any, Any]:
    """The array that :func:`compress` packed. Raises ``KnarrError`` if a byte is damaged."""
    values, dtype, shape = _knarr.decompress(packed)
    return np.frombuffer(values, DTYPES[dtype]).reshape(shape).copy()
