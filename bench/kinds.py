"""Generated variables of kinds that the built-in model was not trained on, to judge choices by.

`kinds` may be looked at while choices are worked on. `held_out` may not: those say what a change is worth.
Sizes are like those of real files of such kinds: 0.5 to 4 MB each.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from netcdf_writer import slab_shape


def smooth(shape: tuple[int, ...], seed: int, slope: float = -3.0) -> np.ndarray:
    """A random field that is smooth on large scales, of unit variance."""
    random = np.random.default_rng(seed)
    axes = np.meshgrid(*(np.fft.fftfreq(n) * n for n in shape), indexing="ij", sparse=True)
    k = np.sqrt(sum(axis**2 for axis in axes))
    k.flat[0] = 1.0
    field = np.fft.ifftn(np.fft.fftn(random.normal(size=shape)) * k ** (slope / 2)).real
    return (field - field.mean()) / field.std()


def classes(shape: tuple[int, ...], seed: int, count: int, slope: float = -3.0) -> np.ndarray:
    """Numbers of regions: a smooth field cut at levels."""
    field = smooth(shape, seed, slope)
    return np.searchsorted(np.quantile(field, np.linspace(0, 1, count + 1)[1:-1]), field)


def kinds() -> dict[str, np.ndarray]:
    lat, lon = np.linspace(-90, 90, 721), np.linspace(0, 360, 1440, endpoint=False)
    half = smooth((90, 360), 1)
    wide = smooth((4, 181, 181), 2)
    series = smooth((5000,), 3)
    return {
        "tiled_lat_f4": np.repeat(lat.astype("f4")[:, None], 1440, axis=1),
        "tiled_lon_f4": np.repeat(lon.astype("f4")[None], 721, axis=0),
        "tiled_lon_f8": np.repeat(lon[None], 400, axis=0),
        "tiled_levels": np.repeat(np.cumsum(1.07 ** np.arange(60)).astype("f4"), 120 * 160).reshape(60, 120, 160),
        "mirrored_f4": np.concatenate([half, half[::-1]]).astype("f4")[None].repeat(12, 0)
        * np.arange(1, 13, dtype="f4")[:, None, None],
        "mirrored_f8": np.concatenate([wide, wide[:, :, ::-1]], axis=2),
        "land_use_i1": classes((1200, 1800), 4, 17).astype("i1"),
        "land_use_i4": classes((600, 900), 5, 12).astype("i4"),
        "basins_f4": classes((500, 1000), 6, 40, -4.0).astype("f4"),
        "mask_f8": (smooth((400, 800), 7, -4.0) > 0.3).astype("f8"),
        "steps_f4": np.repeat(series[:250].astype("f4"), 4000),
        "season_f4": np.tile(smooth((1, 64, 128), 8)[0].astype("f4"), (60, 1, 1)),
        "flags_u2": np.where(smooth((24, 200, 300), 9) > 1.5, 0x8001, 0).astype("u2"),
        "stations_f8": np.repeat(np.round(series[:400], 2), 900),
    }


def held_out() -> dict[str, np.ndarray]:
    random = np.random.default_rng(77)
    quarter = smooth((200, 300), 21)
    upper = smooth((6, 100, 200), 22).astype("f4")
    levels = np.zeros((512, 512), "i4")
    for level, (row, column) in enumerate(((64, 80), (128, 150), (176, 200), (200, 224)), 1):
        side = 384 >> level
        levels[row : row + side, column : column + side] = level
    nodes = np.arange(399 * 299).reshape(399, 299) + np.arange(399)[:, None]
    corners = np.stack([nodes, nodes + 1, nodes + 300, nodes + 1, nodes + 301, nodes + 300], axis=-1)
    wave = smooth((300, 400), 23, -4.0)
    sources = np.where(smooth((20, 150, 200), 24) > 1.8, random.choice([0.5, 2.0, 7.25], (20, 150, 200)), 0.0)
    return {
        "mesh_y_f8": np.broadcast_to(np.linspace(0, 1, 90)[None, :, None], (40, 90, 120)),
        "fourfold_f8": np.block([[quarter, quarter[:, ::-1]], [quarter[::-1], quarter[::-1, ::-1]]]),
        "opposed_f4": np.concatenate([upper, -upper[:, ::-1]], axis=1),
        "amr_levels_i4": np.repeat(levels[None], 3, axis=0),
        "profile_days_f8": np.repeat(18000 + np.arange(900) / 7, random.integers(100, 700, 900)),
        "quality_u1": random.choice([0, 1, 2, 4], (1000, 1500), p=[0.985, 0.01, 0.003, 0.002]).astype("u1"),
        "triangles_i4": corners.reshape(-1, 3).astype("i4"),
        "soil_levels_i2": np.repeat(classes((300, 400), 25, 13)[None], 10, axis=0).astype("i2"),
        "wet_i1": np.stack([wave > 0.02 * step for step in range(16)]).astype("i1"),
        "emissions_f4": sources.astype("f4"),
    }


def write_kinds(path: Path, variables: dict[str, np.ndarray]) -> None:
    with h5py.File(path, "w") as file:
        for name, values in variables.items():
            file.create_dataset(name, data=values, chunks=slab_shape(values.shape, values.itemsize))
