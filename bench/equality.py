"""Do two HDF5 files hold the same values, bit for bit? Streams, so files may exceed memory."""

from __future__ import annotations

from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401  registers the filters that outputs may use
import numpy as np


class DifferenceError(Exception):
    """The first difference found; the message names the variable."""


def numeric_variables(file: h5py.File) -> dict[str, h5py.Dataset]:
    found: dict[str, h5py.Dataset] = {}

    def visit(name: str, item: h5py.HLObject) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.kind in "iuf":
            found[name] = item

    file.visititems(visit)
    return found


def require_equal(left_path: Path, right_path: Path, variables: set[str] | None = None) -> None:
    """Raises `DifferenceError` unless both files hold the same numeric variables with the same bits."""
    with h5py.File(left_path) as left_file, h5py.File(right_path) as right_file:
        left, right = numeric_variables(left_file), numeric_variables(right_file)
        if left.keys() != right.keys():
            raise DifferenceError(f"variables only on one side: {sorted(left.keys() ^ right.keys())}")
        for name in sorted(left if variables is None else variables):
            _require_equal_variable(name, left[name], right[name])


def _require_equal_variable(name: str, left: h5py.Dataset, right: h5py.Dataset) -> None:
    if left.shape != right.shape or left.dtype != right.dtype:
        raise DifferenceError(f"{name}: {left.dtype} {left.shape} against {right.dtype} {right.shape}")
    if left.ndim == 0 or left.size == 0:
        blocks = [()] if left.size else []
    else:
        rows = max(1, (64 << 20) // max(1, left.nbytes // len(left)))
        blocks = [slice(begin, begin + rows) for begin in range(0, len(left), rows)]
    for block in blocks:
        if np.asarray(left[block]).tobytes() != np.asarray(right[block]).tobytes():
            raise DifferenceError(f"{name}: values differ in rows {block}")
