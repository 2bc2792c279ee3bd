"""Restart files of small simulations, of kinds that the installed codes do not write. Needs NumPy and h5py alone.

Every function runs its simulation in an empty folder and returns step to the files of all ranks. Nothing is drawn at
random but where a start needs it, from a fixed seed: what is compressed are fields that obey equations.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import h5py
import numpy as np

Steps = dict[str, list[Path]]


def cuts(extent: int, parts: int, skew: float = 0.0) -> list[slice]:
    """Parts of an axis, of about the same extent; `skew` makes them differ by up to this share."""
    weights = 1 + skew * np.sin(1.0 + 2.3 * np.arange(parts))
    ends = np.rint(np.concatenate([[0], np.cumsum(weights)]) / weights.sum() * extent).astype(int)
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]


def folder_of(folder: Path, step: int) -> Path:
    made = folder / f"{step:04}"
    made.mkdir(exist_ok=True)
    return made


def shallow_water(fields: list[np.ndarray], depth: np.ndarray, steps: int) -> list[np.ndarray]:
    """Height and speeds of water over `depth` in a basin, by centred differences in time: now and before."""
    h, u, v, h0, u0, v0 = fields
    f, g, dt, dx = 1e-4, 9.81, 20.0, 5e3

    def ddx(a: np.ndarray) -> np.ndarray:
        return (np.roll(a, -1, 1) - np.roll(a, 1, 1)) / (2 * dx)

    def ddy(a: np.ndarray) -> np.ndarray:
        return (np.roll(a, -1, 0) - np.roll(a, 1, 0)) / (2 * dx)

    for _ in range(steps):
        h2 = h0 - 2 * dt * (ddx((depth + h) * u) + ddy((depth + h) * v))
        u2 = u0 + 2 * dt * (f * v - g * ddx(h) - u * ddx(u) - v * ddy(u))
        v2 = v0 + 2 * dt * (-f * u - g * ddy(h) - u * ddx(v) - v * ddy(v))
        for wall in (u2, v2):
            wall[[0, -1]] = 0
            wall[:, [0, -1]] = 0
        now = [a + 0.05 * (b - 2 * a + c) for a, b, c in ((h, h2, h0), (u, u2, u0), (v, v2, v0))]
        (h0, u0, v0), (h, u, v) = now, (h2, u2, v2)
    return [h, u, v, h0, u0, v0]


def basin(ny: int, nx: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Water at rest with a bump, over a floor with a ridge and dry land."""
    y, x = np.meshgrid(np.linspace(0, 1, ny), np.linspace(0, 1, nx), indexing="ij")
    depth = 200 + 3000 * (x * (1 - x) * 4) - 1500 * np.exp(-((x - 0.6) ** 2) * 80) * np.sin(3 * y) ** 2
    depth[(y - 0.7) ** 2 + (x - 0.3) ** 2 < 0.01] = 0
    bump = 1.5 * np.exp(-((x - 0.4) ** 2 + (y - 0.35) ** 2) * 150)
    still = np.zeros_like(bump)
    return [bump, still, still.copy(), bump.copy(), still.copy(), still.copy()], depth


def uneven(folder: Path) -> Steps:
    """Own binary format, parts of unequal size, a table of the equation of state in each file behind the fields."""
    fields, depth = basin(640, 768)
    table = np.exp(-np.linspace(0, 4, 30_000)) * (1 + 0.1 * np.sin(np.linspace(0, 200, 30_000)))
    found: Steps = {}
    for step in (1, 2):
        fields = shallow_water(fields, depth, 60)
        files = []
        for rank, rows in enumerate(cuts(640, 13, 0.3)):
            path = folder_of(folder, step) / f"tide.{rank:03}.rst"
            with path.open("wb") as out:
                out.write(b"TIDE0002" + np.array([rank, rows.start, rows.stop, 768, step], "<i4").tobytes())
                for array in (*fields, depth):
                    out.write(array[rows].astype("<f8").tobytes())
                out.write(table.tobytes())
            files.append(path)
        found[f"{step:04}"] = files
    return found


def symmetric_columns(folder: Path) -> Steps:
    """Own binary format, parts of unequal size of a problem that is symmetric: ranks hold the same runs of numbers."""
    n, parts = 160, 12
    axis = np.abs(np.linspace(-1, 1, n))
    z, y, x = np.meshgrid(axis[: n // 2], axis, axis, indexing="ij")
    p = np.exp(-40 * ((x**2) + (y**2) + (z - 0.3) ** 2))
    before = p.copy()
    speed = 0.1 + 0.05 * np.cos(5 * (x + y))
    found: Steps = {}
    for step in (1, 2):
        for _ in range(40):
            # Neighbours are added in an order that keeps the symmetry to the last bit.
            sums = [np.roll(p, 1, a) + np.roll(p, -1, a) for a in range(3)]
            after = 2 * p - before + speed * (sums[0] + (sums[1] + sums[2]) - 6 * p)
            after[:, [0, -1]] = after[:, :, [0, -1]] = after[[0, -1]] = 0
            p, before = after, p
        files = []
        for rank, rows in enumerate(cuts(n, parts, 0.25)):
            path = folder_of(folder, step) / f"wave{rank}.dat"
            with path.open("wb") as out:
                out.write(np.array([rank, step, rows.stop - rows.start], "<i8").tobytes())
                for array in (p, before, speed):
                    out.write(np.ascontiguousarray(array[:, rows]).tobytes())
            files.append(path)
        found[f"{step:04}"] = files
    return found


def mirrored(folder: Path) -> Steps:
    """HDF5: a stretched mesh and its metrics, mirrored between ranks, beside fields of the same type and shape."""
    n, parts = 72, 4
    s = np.linspace(-1, 1, n)
    stretched = np.sinh(2.2 * s) / np.sinh(2.2)
    stretched = (stretched - stretched[::-1]) / 2
    z, y, x = np.meshgrid(stretched, stretched, stretched, indexing="ij")
    bend = 1 + 0.1 * (x * x) * (y * y)
    mesh = {
        "x": x * bend,
        "y": y * bend,
        "z": z,
        "volume": np.abs(x * y * z) + 1e-3,
        "distance": np.sqrt(x * x + y * y),
    }
    c, b, a = np.meshgrid(*[np.pi * np.arange(-n // 2, n // 2) / (n // 2)] * 3, indexing="ij")
    flow = {
        "rho": 1 + 0.2 * np.sin(a + 0.4) * np.cos(2 * b) * np.cos(c + 1),
        "energy": 2.5 + 0.3 * np.sin(3 * a + 2 * b) * np.cos(2 * c + 0.3),
        "u": np.sin(a + 0.1) * np.cos(b) * np.cos(c),
        "v": -np.cos(a + 0.1) * np.sin(b) * np.cos(c),
        "w": 0.1 * np.sin(a + b + c),
    }
    found: Steps = {}
    for step in (1, 2):
        for _ in range(25):
            u, v, w = flow["u"].copy(), flow["v"].copy(), flow["w"].copy()
            for name, a in flow.items():
                grad = [(np.roll(a, -1, k) - np.roll(a, 1, k)) / 2 for k in (2, 1, 0)]
                lap = sum(np.roll(a, 1, k) + np.roll(a, -1, k) for k in range(3)) - 6 * a
                flow[name] = a - 0.2 * (u * grad[0] + v * grad[1] + w * grad[2]) + 0.05 * lap
        files = []
        for rank, (ys, xs) in enumerate((ys, xs) for ys in cuts(n, parts) for xs in cuts(n, parts)):
            path = folder_of(folder, step) / f"jet_{rank}.h5"
            with h5py.File(path, "w") as out:
                for group, arrays in (("mesh", mesh), ("flow", flow)):
                    for name, array in arrays.items():
                        out[f"{group}/{name}"] = array[:, ys, xs]
                out.attrs["time"] = 25.0 * step
            files.append(path)
        found[f"{step:04}"] = files
    return found


def record(*arrays: np.ndarray) -> bytes:
    """A record as Fortran compilers write it to an unformatted sequential file."""
    body = b"".join(array.tobytes() for array in arrays)
    length = np.array([len(body)], "<i4").tobytes()
    return length + body + length


def vorticity(q: np.ndarray, steps: int) -> np.ndarray:
    """Decaying turbulence on a plane, by Fourier transforms: the spectrum of vorticity."""
    n = q.shape[0]
    k = np.fft.fftfreq(n, 1 / n)
    ky, kx = np.meshgrid(k, k[: n // 2 + 1] * np.sign(k[: n // 2 + 1] + 0.5), indexing="ij")
    kx = np.abs(kx)
    k2 = np.maximum(kx**2 + ky**2, 1)
    keep = (np.abs(kx) < n / 3) & (np.abs(ky) < n / 3)
    for _ in range(steps):
        psi = -q / k2
        u, v, qx, qy = (np.fft.irfft2(a) for a in (-1j * ky * psi, 1j * kx * psi, 1j * kx * q, 1j * ky * q))
        q = (q - 2e-3 * keep * np.fft.rfft2(u * qx + v * qy)) * np.exp(-1e-5 * k2)
    return q


def turbulence(n: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    q = np.fft.rfft2(random.standard_normal((n, n)))
    k = np.hypot(*np.meshgrid(np.fft.fftfreq(n, 1 / n), np.arange(n // 2 + 1), indexing="ij"))
    return vorticity(q * np.exp(-(((k - 8) / 4) ** 2)) * 20 / n * 8, 60)


def fortran(folder: Path) -> Steps:
    """Fortran unformatted sequential records: a level of a variable each, two precisions, layers of turbulence."""
    n, levels, parts = 384, 8, 16
    layers = [turbulence(n, seed) for seed in range(levels)]
    found: Steps = {}
    for step in (1, 2):
        layers = [vorticity(q, 30) for q in layers]
        q = np.array([np.fft.irfft2(layer) for layer in layers])
        temperature = 280 + np.cumsum(q, axis=0) * 0.5
        salinity = (35 + 0.1 * np.sin(q)).astype("<f4")
        mask = (q[0] > -0.8 * np.abs(q[0]).max()).astype("<i4")
        files = []
        for rank, rows in enumerate(cuts(n, parts, 0.1)):
            path = folder_of(folder, step) / f"fort.{100 + rank}"
            with path.open("wb") as out:
                out.write(record(np.array([rank, n, rows.stop - rows.start, levels, step], "<i4")))
                out.write(record(np.array([step * 3600.0])))
                for level in range(levels):
                    for array in (q, temperature, salinity):
                        out.write(record(np.ascontiguousarray(array[level, rows])))
                out.write(record(np.ascontiguousarray(mask[rows])))
            files.append(path)
        found[f"{step:04}"] = files
    return found


def lattice(folder: Path) -> Steps:
    """HDF5, one array of under 5 MB: lattice Boltzmann flow past a cylinder in the middle of a channel."""
    ny, nx, parts = 160, 400, 8
    c = np.array([(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1)])
    w = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
    back = [0, 2, 1, 4, 3, 6, 5, 8, 7]
    y, x = np.meshgrid(np.arange(ny) - (ny - 1) / 2, np.arange(nx), indexing="ij")
    solid = ((x - 80) ** 2 + y**2 < 18**2) | (np.abs(y) > ny / 2 - 1.5)

    def equilibrium(rho: np.ndarray, ux: np.ndarray, uy: np.ndarray) -> np.ndarray:
        along = [cx * ux + cy * uy for cx, cy in c]
        speed = ux * ux + uy * uy
        return np.array([wi * rho * (1 + 3 * a + 4.5 * a * a - 1.5 * speed) for wi, a in zip(w, along, strict=True)])

    f = equilibrium(np.ones((ny, nx)), 0.08 * np.ones((ny, nx)), np.zeros((ny, nx)))
    found: Steps = {}
    for step in (1, 2):
        for _ in range(250):
            rho = f[0] + (f[1] + f[2]) + (f[3] + f[4]) + ((f[5] + f[7]) + (f[6] + f[8]))
            ux = ((f[1] - f[2]) + ((f[5] + f[7]) - (f[6] + f[8]))) / rho
            uy = ((f[3] - f[4]) + ((f[5] - f[7]) + (f[8] - f[6]))) / rho
            after = f + (equilibrium(rho, ux, uy) - f) / 0.56
            after[:, solid] = f[back][:, solid]
            f = np.array([np.roll(a, (cy, cx), (0, 1)) for a, (cx, cy) in zip(after, c, strict=True)])
        files = []
        for rank, rows in enumerate(cuts(ny, parts)):
            path = folder_of(folder, step) / f"lbm_{rank:02}.h5"
            with h5py.File(path, "w") as out:
                out["populations"] = f[:, rows]
                out.attrs["step"] = 250 * step
            files.append(path)
        found[f"{step:04}"] = files
    return found


def lists(folder: Path) -> Steps:
    """HDF5 with lists of neighbours of variable length, which lie outside of the datasets, and short attributes."""
    side, parts = 40, 8
    lattice_points = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3) / side
    points = lattice_points + 0.02 * np.sin(2 * np.pi * (lattice_points[:, [1, 2, 0]] * 3 + 0.1))
    found: Steps = {}
    for step in (1, 2):
        points = (points + 0.01 * np.sin(2 * np.pi * points[:, [2, 0, 1]])) % 1
        cell = np.minimum((points * 20).astype(int), 19) @ np.array([400, 20, 1])
        order = np.argsort(cell, kind="stable")
        starts = np.searchsorted(cell[order], np.arange(8001))
        files = []
        for rank, own in enumerate(np.array_split(order, parts)):
            path = folder_of(folder, step) / f"md-{rank}.h5"
            with h5py.File(path, "w") as out:
                out["position"] = points[own]
                out["id"] = own.astype("<i8")
                kind = h5py.vlen_dtype(np.int32)
                neighbours = out.create_dataset("neighbours", (len(own),), kind)
                near = [order[starts[cell[i]] : starts[cell[i] + 1]] for i in own]
                neighbours[...] = np.array([np.sort(each).astype("<i4") for each in near], dtype=object)
                for number in range(0, len(own), 400):
                    group = out.create_group(f"domain/{rank:03}-{number:05}")
                    group.attrs["centre"] = points[own[number]]
                    group.attrs["owner"] = f"process {rank} of {parts}"
            files.append(path)
        found[f"{step:04}"] = files
    return found
