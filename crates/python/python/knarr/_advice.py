"""Advice for files, datasets and arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from . import _knarr
from ._arrays import fill_patterns, given_fill, plain
from ._request import Portable, request
from ._sample import sample, stored

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Advice:
    """The chain recommended for one variable, with what it is expected to give."""

    chain: str
    """For example ``shuffle | zstd:1``; ``None``-like ``as it is`` for variables that are copied."""
    ratio: float
    """Raw bytes over encoded bytes."""
    encode_mb_s: float
    """MB/s of one core, from the profile."""
    decode_mb_s: float
    """MB/s of one core, from the profile."""
    reason: str
    """Why, in one sentence."""
    choice: dict[str, Any] = field(repr=False)
    """Everything that led to it: features, candidates, scores."""


@overload
def advise(
    data: np.ndarray[Any, Any] | xarray.DataArray,
    *,
    goal: str = ...,
    portable: Portable | None = ...,
    to: str = ...,
    fill_value: object = ...,
    model: str | PathLike[str] | None = ...,
) -> Advice: ...


@overload
def advise(
    data: str | PathLike[str] | xarray.Dataset,
    *,
    goal: str = ...,
    portable: Portable | None = ...,
    to: str = ...,
    fill_value: object = ...,
    model: str | PathLike[str] | None = ...,
) -> dict[str, Advice]: ...


def advise(
    data: str | PathLike[str] | np.ndarray[Any, Any] | xarray.Dataset | xarray.DataArray,
    *,
    goal: str = "balanced",
    portable: Portable | None = None,
    to: str = "nc",
    fill_value: object = None,
    model: str | PathLike[str] | None = None,
) -> Advice | dict[str, Advice]:
    """Recommends a chain for an array, or for each variable of a file or an xarray dataset.

    ``to`` is the kind of output: ``nc``, ``h5`` or ``zarr``; ``portable`` what its readers may need: ``core`` for
    ``nc`` and ``zarr``, ``standard`` for ``h5``, unless said otherwise; ``model`` a file written by ``knarr train``. Of
    arrays of more than 64 MiB a sample is read. Nothing is written.
    """
    wishes = request(goal=goal, portable=portable, quality={}, model=None if model is None else fspath(model))
    if isinstance(data, str | PathLike):
        plan = json.loads(_knarr.advise_file(data, to, wishes))
        return {variable["path"].lstrip("/"): _from_action(variable["action"]) for variable in plan["variables"]}
    if isinstance(data, np.ndarray):
        return _from_choice(advise_values(sample(data), to, wishes, given_fill(fill_value)))
    if hasattr(data, "data_vars"):
        return {str(name): _of_variable(variable, to, wishes) for name, variable in data.variables.items()}
    if hasattr(data, "variable"):
        return _of_variable(data.variable, to, wishes)
    raise TypeError(f"{type(data).__name__} is neither a path, a NumPy array nor an xarray object")


def advise_values(
    values: np.ndarray[Any, Any], to: str, wishes: str, *fills: object, among: list[str] | None = None
) -> dict[str, Any]:
    """The choice of the native half for one array, among these chains if there are any."""
    bytes_, dtype, shape = plain(values)
    found: dict[str, Any] = json.loads(
        _knarr.advise_array(bytes_, dtype, shape, fill_patterns(values.dtype, *fills), to, wishes, among)
    )
    return found


def fills_of(variable: Any) -> list[object]:
    """Fill values that an xarray variable carries."""
    names = ("_FillValue", "missing_value")
    return [holder.get(name) for holder in (variable.encoding, variable.attrs) for name in names]


def _of_variable(variable: Any, to: str, wishes: str) -> Advice:
    seen = stored(variable)
    if seen is None:
        return _copied(f"{variable.dtype} of shape {variable.shape} is not encoded")
    return _from_choice(advise_values(seen.values, to, wishes, *fills_of(seen)))


def _from_action(action: dict[str, Any]) -> Advice:
    return _copied(action["copy"]) if "copy" in action else _from_choice(action["encode"])


def _from_choice(choice: dict[str, Any]) -> Advice:
    expected = choice["expected"]
    return Advice(choice["chain"], expected["ratio"], expected["encode"], expected["decode"], choice["reason"], choice)


def _copied(why: str) -> Advice:
    return Advice("as it is", 1.0, float("inf"), float("inf"), why, {})
