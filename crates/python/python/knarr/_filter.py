"""Knarr's HDF5 filter (45223) for h5py and every other HDF5 program."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any, Unpack

from . import _knarr
from ._request import Quality, request

FILTER_ID = 45223


def plugin_path() -> str:
    """The folder of the filter plugin, for ``HDF5_PLUGIN_PATH`` of programs that are not Python's."""
    folder = Path(__file__).resolve().parent / "plugins"
    if not (folder / "libknarr_h5.so").is_file():
        raise FileNotFoundError(f"{folder} has no filter plugin; build the package with 'make python'")
    return str(folder)


def register() -> bool:
    """Makes h5py find the plugin in this process, for reading, writing and appending; ``import knarr`` does it.

    False if h5py or the plugin is not there.
    """
    try:
        from h5py import h5pl, h5z

        folder = os.fsencode(plugin_path())
        if folder not in [h5pl.get(at) for at in range(h5pl.size())]:
            h5pl.append(folder)
        # HDF5 loads a filter when a dataset is read or created, but not when one is only appended to.
        return bool(h5z.filter_avail(FILTER_ID))
    except Exception:
        # An h5py that is absent, broken or not allowed to load plugins is no reason not to import this package.
        return False


def hdf5(*, goal: str = "balanced", missing_value: float | None = None, **quality: Unpack[Quality]) -> dict[str, Any]:
    """Keyword arguments for ``h5py.Group.create_dataset`` that compress with Knarr's filter.

    Lossless unless a bound is stated (``max_abs_error``, ``max_range_error``, ``max_rel_error``, ``finest_abs_error``,
    ``significant_bits``, ``significant_digits``); a bound is checked for every element. Values up to ``exact_up_to``
    and from ``exact_from`` on, NaN, infinities, the dataset's ``fillvalue`` and ``missing_value`` keep their bits.
    ``max_range_error`` is a fraction of the range of each chunk. Raises ``ValueError`` for wishes that contradict; a
    bound that the type of the dataset cannot hold is refused when the dataset is created.
    """
    words = _knarr.filter_words(request(goal=goal, portable=None, quality=quality), missing_value)
    if importlib.util.find_spec("h5py") is None:
        raise ModuleNotFoundError("knarr.hdf5() is for h5py, which is not installed: pip install h5py", name="h5py")
    if not register():
        raise RuntimeError(f"h5py does not load the plugin in {plugin_path()}; is HDF5_PLUGIN_PATH '::'?")
    return {"compression": FILTER_ID, "compression_opts": tuple(words)}
