"""Keyword arguments become the request of the native half."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Literal, TypedDict, get_args

import numpy as np

Portable = Literal["core", "standard", "knarr"]


class Quality(TypedDict, total=False):
    """What may change; all stated bounds hold together. Empty means lossless."""

    max_abs_error: float | None
    """Largest absolute error, in the unit of the variable."""
    max_range_error: float | None
    """Largest absolute error as a fraction of the variable's valid range."""
    max_rel_error: float | None
    """Largest error relative to each value."""
    finest_abs_error: float | None
    """Relative bounds, bits and digits never ask for less than this absolute error."""
    significant_bits: int | None
    """Explicit bits of the significand that stay right."""
    significant_digits: int | None
    """Decimal digits that stay right."""
    exact_up_to: float | None
    """Values up to this keep their bits under any bound, and no other value becomes one of them."""
    exact_from: float | None
    """The same for values from this on."""


class VariableWish(Quality, total=False):
    """Wishes for one variable or pattern, as in ``knarr.toml``: what is stated replaces the same bound of patterns,
    and of all variables. A name wins over patterns."""

    quality: str
    """``"lossless"``, which switches all bounds off, or bounds in one line; not together with others."""
    chain: str
    """Use this chain without choosing."""
    chunks: str
    """``auto``, ``keep`` or a shape such as ``1x180x360``."""


QUALITY_KEYS = tuple(Quality.__annotations__)
WHOLE = ("significant_bits", "significant_digits", "jobs", "max_mem")
FLAGS = ("force", "verify")
TEXTS = ("goal", "chain", "chunks", "quality")


def request(
    *,
    goal: str | None,
    portable: Portable | None,
    quality: Quality,
    chain: str | None = None,
    chunks: str | Mapping[str, int] | None = None,
    variables: Mapping[str, VariableWish] | None = None,
    jobs: int | None = None,
    max_mem: int | str | None = None,
    **resources: Any,
) -> str:
    """JSON of everything that was asked for; what is ``None`` is left out.

    Raises ``TypeError`` for a keyword that is no quality, and for values of another type, ``ValueError`` for those that
    make no sense.
    """
    for name in quality:
        if name not in QUALITY_KEYS:
            known = ", ".join(QUALITY_KEYS)
            raise TypeError(f"unexpected keyword argument {name!r}; what may change is one of {known}")
    if isinstance(chunks, Mapping):
        chunks = ",".join(f"{name}/{_number(f'chunks[{name!r}]', length)}" for name, length in chunks.items()) or None
    wanted: dict[str, Any] = {"goal": goal, "portable": portable, "chain": chain, "chunks": chunks, **resources}
    for name in TEXTS:
        _require_text(name, wanted.get(name))
    if portable is not None and portable not in get_args(Portable):
        raise ValueError(f"portable is {portable!r}: choose from {', '.join(get_args(Portable))}")
    for name in FLAGS:
        if not isinstance(wanted.get(name, True), bool):
            raise TypeError(f"{name} is {wanted[name]!r}: give True or False")
    wanted["quality"] = {name: _number(name, value) for name, value in quality.items() if value is not None}
    if jobs is not None:
        wanted["jobs"] = _number("jobs", jobs)
    if max_mem is not None:
        wanted["max_mem"] = max_mem if isinstance(max_mem, str) else str(_number("max_mem", max_mem))
    if variables is not None:
        wanted["variables"] = _wishes(variables)
    return json.dumps({name: value for name, value in wanted.items() if value is not None})


def _wishes(variables: object) -> dict[str, dict[str, object]]:
    if not isinstance(variables, Mapping):
        raise TypeError(f"variables is {variables!r}: give a dict of names and wishes")
    wanted = {}
    known = tuple(VariableWish.__annotations__)
    for name, wish in variables.items():
        if not isinstance(wish, Mapping):
            raise TypeError(f"variables[{name!r}] is {wish!r}: give a dict such as {{'max_abs_error': 0.01}}")
        for key in wish:
            if key not in known:
                raise ValueError(f"variables[{name!r}] has an unknown key {key!r}: choose from {', '.join(known)}")
        wanted[str(name)] = {
            key: _number(key, value) if key in QUALITY_KEYS else _require_text(key, value)
            for key, value in wish.items()
            if value is not None
        }
    return wanted


def _number(name: str, value: object) -> float:
    """A bound as a number of Python; it may be one of NumPy, such as a fraction of ``array.std()``."""
    number = value.item() if isinstance(value, np.generic | np.ndarray) and np.ndim(value) == 0 else value
    if not isinstance(number, int | float) or isinstance(number, bool):
        raise TypeError(f"{name} is {value!r}: give a number")
    if name in WHOLE and not isinstance(number, int):
        raise TypeError(f"{name} is {value!r}: give a whole number")
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number}; give a finite number, or leave it out for lossless")
    if name in WHOLE and number < 1:
        raise ValueError(f"{name} is {number}: give at least 1")
    return number


def _require_text(name: str, value: object) -> object:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}: give text")
    return value
