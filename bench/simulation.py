"""Generated simulation output: evolving spectral fields, particles and detector counts.

Everything follows from fixed seeds and numpy's documented PCG64 streams; the FFT can differ in last
bits between CPU families, so sizes are comparable between runs of one input file only.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def turbulence(shape: tuple[int, ...], steps: int, slope: float, seed: int, dtype: str) -> Iterator[np.ndarray]:
    """`steps` snapshots of a random-phase field with energy spectrum k**slope, unit variance.

    Each mode turns with a frequency that grows as k**(2/3), as eddies of an inertial range do, so
    consecutive snapshots stay correlated at large scales and decorrelate at small ones.
    """
    random = np.random.default_rng(seed)
    axes = [np.fft.fftfreq(length, 1 / length) for length in shape[:-1]]
    axes.append(np.fft.rfftfreq(shape[-1], 1 / shape[-1]))
    k = np.sqrt(sum(axis**2 for axis in np.meshgrid(*axes, indexing="ij", sparse=True)))
    k.flat[0] = 1.0
    amplitude = k ** ((slope - (len(shape) - 1)) / 2)
    amplitude.flat[0] = 0.0
    amplitude *= np.exp(-((k / (0.45 * min(shape))) ** 2))
    modes = amplitude * np.exp(2j * np.pi * random.random(k.shape))
    turn = np.exp(1j * 0.15 * k ** (2 / 3) * random.choice([-1.0, 1.0], k.shape))
    scale = None
    for _ in range(steps):
        field = np.fft.irfftn(modes, s=shape, axes=range(len(shape)))
        scale = scale or 1 / field.std()
        yield (field * scale).astype(dtype)[np.newaxis]
        modes *= turn


def shock_tubes(shape: tuple[int, int], steps: int, dtype: str) -> Iterator[np.ndarray]:
    """Piecewise smooth density with moving fronts: constant regions beside steep ones."""
    y, x = np.meshgrid(*(np.linspace(0, 1, length) for length in shape), indexing="ij")
    for step in range(steps):
        radius = np.hypot(x - 0.4, y - 0.5)
        front = 0.1 + 0.01 * step
        density = np.where(radius < front, 1.0, 0.125) + np.where(
            np.abs(radius - front) < 0.05, 0.3 * np.cos(np.pi * (radius - front) / 0.1), 0.0
        )
        yield density.astype(dtype)[np.newaxis]


def particles(count: int, seed: int) -> dict[str, np.ndarray]:
    """Positions in cell order after a drift, thermal momenta, weights with few values, identifiers."""
    random = np.random.default_rng(seed)
    cell = np.sort(random.integers(0, 64**3, count))
    position = [(cell // 64**power % 64 + random.random(count)).astype("f4") for power in range(3)]
    momentum = [random.normal(0, 0.1, count).astype("f4") for _ in range(3)]
    for axis in range(3):
        position[axis] += momentum[axis]
    names = dict(zip(("x", "y", "z", "ux", "uy", "uz"), position + momentum, strict=True))
    names["weight"] = random.choice(np.linspace(0.5, 2.0, 500), count).astype("f8")
    names["id"] = random.permutation(count).astype("i8")
    names["id"][: count // 2].sort()
    return names


def detector(shape: tuple[int, int], frames: int, seed: int) -> Iterator[np.ndarray]:
    """12-bit photon counts on uint16: rings, shot noise, read noise."""
    random = np.random.default_rng(seed)
    y, x = np.indices(shape)
    radius = np.hypot(y - shape[0] / 2, x - shape[1] / 2)
    for frame in range(frames):
        rings = 300 * np.exp(-radius / 200) * (1 + np.cos(radius / 9 + frame / 3))
        counts = random.poisson(rings) + random.normal(20, 2, shape)
        yield np.clip(counts, 0, 4095).astype("u2")[np.newaxis]
