"""Three families of arrays in the spirit of the data of the green compression paper (its table II).

ECOHAM      3-D ecosystem of a shelf sea over time: doubles, most cells land or below the sea floor
PETRA III   tomography: stacks of 16-bit detector frames
ECHAM       atmospheric fields, float and double: real variables of other models (ECHAM's own are not to be had)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from real_variables import real_variables
from simulation import detector, turbulence

FILL = -9.99e30


@dataclass
class Dataset:
    name: str
    values: np.ndarray
    chunks: tuple[int, ...]
    fill: float | None = None


def ecoham(steps: int = 6) -> Iterator[Dataset]:
    """Tracers (time, depth, latitude, longitude) of 24 x 82 x 88 cells: three of five cells are no water.

    A tracer is a profile in depth, a pattern that moves, and what its reactions make of the pattern; each value is
    the result of a computation in doubles and uses all its bits.
    """
    levels, rows, columns = 24, 82, 88
    bathymetry = next(turbulence((rows, columns), 1, -3.5, 90, "f8"))[0] * 6 + 4
    water = np.arange(levels)[:, None, None] < bathymetry
    depth = np.linspace(0, 1, levels)[:, None, None]
    for number in range(12):
        pattern = turbulence((levels, rows, columns), steps, -2.7, 91 + number, "f8")
        values = np.empty((steps, levels, rows, columns))
        for step, (field,) in enumerate(pattern):
            reaction = np.exp(-((depth - 0.1 * (number % 4)) ** 2) * 12) * (1 + 0.2 * np.tanh(field))
            values[step] = np.where(water, (1 + number) * reaction / (1.5 + 0.1 * np.sin(step / 4)), FILL)
        yield Dataset(f"tracer{number:02}", values, (1, levels, rows, columns), FILL)


def petra(frames: int = 40) -> Iterator[Dataset]:
    """Projections of a turning sample: absorption, beam profile, shot and read noise, 14 bits on uint16."""
    rings = np.concatenate(list(detector((512, 512), frames // 2, 7)))
    yield Dataset("rings", rings, (1, 512, 512))
    random = np.random.default_rng(8)
    sample = np.exp(next(turbulence((96, 512, 512), 1, -3.0, 9, "f4"))[0] * 0.5)
    beam = np.exp(-(np.linspace(-1.2, 1.2, 512) ** 2))[:, None] * 9000
    stack = np.empty((frames, 512, 512), "u2")
    for frame in range(frames):
        turned = np.roll(sample[frame % 48 :: 48].sum(axis=0), frame * 5, axis=1)
        counts = random.poisson(beam * np.exp(-turned / turned.mean())) + random.normal(100, 3, (512, 512))
        stack[frame] = np.clip(counts, 0, 16383)
    yield Dataset("projections", stack, (1, 512, 512))


def echam(limit: int = 70_000_000) -> Iterator[Dataset]:
    """Real fields with time or height. Half of those without fill values become doubles as models make them: means of
    neighbouring steps."""
    total = without_fill = 0
    for variable in real_variables():
        values = variable.values
        if variable.family != "field" or values.dtype.kind != "f" or values.ndim < 3:
            continue
        if variable.fill is None and len(values) > 1:
            without_fill += 1
            if without_fill % 2 == 0:
                values = (values[:-1].astype("f8") + 2 * values[1:].astype("f8")) / 3
        rows = max(1, 1_000_000 // values[0].nbytes)
        yield Dataset(variable.name, values, (min(rows, len(values)), *values.shape[1:]), variable.fill)
        total += values.nbytes
        if total > limit:
            return


FAMILIES = {"ECOHAM": ecoham, "PETRA III": petra, "ECHAM": echam}
