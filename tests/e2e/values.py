"""Arrays that find bugs: special floats, extremes, edge sizes. All are deterministic."""

from __future__ import annotations

import numpy as np

FILL = np.float32(1e20)

_NAN_PAYLOADS = {
    "f4": np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0x7FC12345, 0xFFFFFFFF], "u4").view("f4"),
    "f8": np.array([0x7FF8 << 48, 0xFFF8 << 48, (0x7FF0 << 48) + 1, (0x7FF8 << 48) + 0xABCDEF], "u8").view("f8"),
}


def special_floats(dtype: str) -> np.ndarray:
    """NaNs with payloads (signalling ones too), infinities, zeros of both signs, subnormals, extremes."""
    limits = np.finfo(dtype)
    tiny = limits.smallest_subnormal
    plain = np.array(
        [0.0, -0.0, np.inf, -np.inf, tiny, -tiny, limits.tiny, limits.max, limits.min, 1e20, -1.0, 1.0], dtype
    )
    return np.concatenate([plain, _NAN_PAYLOADS[dtype]])


def smooth_field(shape: tuple[int, ...], dtype: str = "f4", seed: int = 1) -> np.ndarray:
    """A smooth field with a little noise, as most model output is."""
    random = np.random.default_rng(seed)
    axes = np.meshgrid(*(np.linspace(0, 3 + axis, length) for axis, length in enumerate(shape)), indexing="ij")
    field = 280 + sum(20 * np.sin(axis + at) for at, axis in enumerate(axes))
    return (field + 0.01 * random.standard_normal(shape)).astype(dtype)


def field_with_specials(shape: tuple[int, ...], dtype: str = "f4", seed: int = 1) -> np.ndarray:
    """A smooth field with a masked region of 1e20 and every special float scattered over it."""
    field = smooth_field(shape, dtype, seed)
    random = np.random.default_rng(seed + 100)
    field.reshape(-1)[: field.size // 5] = FILL
    specials = special_floats(dtype)
    places = random.choice(field.size, min(field.size, 3 * specials.size), replace=False)
    bits = field.reshape(-1).view(f"u{field.itemsize}")
    bits[places] = np.resize(specials.view(f"u{field.itemsize}"), places.size)
    return field


def integers(shape: tuple[int, ...], dtype: str, seed: int = 1) -> np.ndarray:
    """Slowly varying integers with both extremes of the type among them."""
    random = np.random.default_rng(seed)
    limits = np.iinfo(dtype)
    steps = random.integers(-2, 3, shape).cumsum().reshape(shape)
    values = (steps % min(30_000, limits.max)).astype(dtype)
    values.reshape(-1)[:2] = limits.min, limits.max
    return values
