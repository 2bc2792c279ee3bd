"""Arrays in memory: compress and decompress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from . import _knarr
from ._arrays import DTYPES, fill_patterns, given_fill, plain, unmasked
from ._request import Quality, request

if TYPE_CHECKING:
    from typing_extensions import Buffer


def compress(
    array: np.ndarray[Any, Any],
    *,
    goal: str = "balanced",
    chain: str | None = None,
    fill_value: object = None,
    **quality: Unpack[Quality],
) -> bytes:
    """Compresses ``array`` into a checksummed, self-describing frame.

    Lossless unless a quality is stated: ``max_abs_error``, ``max_range_error``, ``max_rel_error``,
    ``finest_abs_error``, ``significant_bits``, ``significant_digits``; values up to ``exact_up_to`` and from
    ``exact_from`` on keep their bits under each of them. All that are stated are checked for every element. Where one
    cannot be kept the frame is lossless, or the call fails if ``chain`` is given. Raises ``ValueError`` for
    contradictory wishes, ``TypeError`` for types without a place in a frame (masked values among them), and
    ``KnarrError`` for what cannot be served.
    """
    array = unmasked(array)
    values, dtype, shape = plain(array)
    wishes = request(goal=goal, portable=None, quality=quality, chain=chain)
    return _knarr.compress(values, dtype, shape, fill_patterns(array.dtype, given_fill(fill_value)), wishes)


def decompress(packed: Buffer) -> np.ndarray[Any, Any]:
    """The array that :func:`compress` packed, from ``bytes`` or what holds bytes. Raises ``KnarrError`` if a byte is
    damaged.
    """
    values, dtype, shape = _knarr.decompress(packed if isinstance(packed, bytes) else bytes(memoryview(packed)))
    return np.frombuffer(values, DTYPES[dtype]).reshape(shape).copy()
