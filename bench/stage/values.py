"""Values of each rank and step: generated particles, and four distributions as in the paper's micro-benchmark."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from simulation import particles

from .setups import RANKS, Setup

SHAPES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda random, count: random.normal(0.0, 1.0, count),
    "gamma": lambda random, count: random.gamma(2.0, 1.0, count),
    "exponential": lambda random, count: random.exponential(1.0, count),
    "uniform": lambda random, count: random.random(count),
}
"""The distributions that the paper's predictor knows."""
PAPER_ZLIB = 320 / 70
"""Figure 5: zlib makes 70 GB of 320 GB."""


def seed_of(rank: int, step: int) -> int:
    return 1000 * rank + step


def distributions(count: int, seed: int, scale: float) -> dict[str, np.ndarray]:
    """Whole numbers of each distribution, of so many units: two variables each, with the sizes of particles."""
    random = np.random.default_rng(seed)
    types = ["i4", "i4", "i4", "i4", "i4", "i4", "i8", "i8"]
    names = [*SHAPES, *(f"{name}_2" for name in SHAPES)]
    return {
        name: np.round(scale * SHAPES[name.removesuffix("_2")](random, count)).astype(kind)
        for name, kind in zip(names, types, strict=True)
    }


def zlib_ratio(values: dict[str, np.ndarray]) -> float:
    """Of zlib as the paper used it: level 6, no shuffle."""
    raw = [array.tobytes() for array in values.values()]
    return sum(map(len, raw)) / sum(len(zlib.compress(one, 6)) for one in raw)


def scale_of_paper(count: int = 50_000) -> float:
    """The units at which zlib makes of whole numbers what it made of the paper's data; no more is known of those."""
    low, high = 0.1, 1e6
    for _ in range(20):
        middle = (low * high) ** 0.5
        if zlib_ratio(distributions(count, 0, middle)) > PAPER_ZLIB:
            low = middle
        else:
            high = middle
    return low


def floats(count: int, seed: int) -> dict[str, np.ndarray]:
    """The distributions as numbers of 4 and 8 bytes, nothing rounded."""
    random = np.random.default_rng(seed)
    types = ["f4", "f4", "f4", "f4", "f4", "f4", "f8", "f8"]
    names = [*SHAPES, *(f"{name}_2" for name in SHAPES)]
    return {
        name: SHAPES[name.removesuffix("_2")](random, count).astype(kind)
        for name, kind in zip(names, types, strict=True)
    }


def maker(kind: str) -> Callable[[int, int], dict[str, np.ndarray]]:
    if kind == "particles":
        return particles
    if kind == "floats":
        return floats
    scale = scale_of_paper()
    return lambda count, seed: distributions(count, seed, scale)


def write_values(setup: Setup, prefix: Path) -> str:
    """The raw file of each rank and step, and what the programs are told of variables."""
    make, described = maker(setup.values), ""
    for rank in range(RANKS):
        for step in range(setup.steps):
            values = make(setup.count, seed_of(rank, step))
            described = ",".join(f"{name}:{array.dtype.str[1:]}" for name, array in values.items())
            with open(f"{prefix}_{rank}_{step}.raw", "wb") as file:
                for array in values.values():
                    file.write(np.ascontiguousarray(array).tobytes())
    return described
