"""Restart files that nothing in `auto` was tuned on: they are looked at only to judge it. As `checkpoint_made`."""

from __future__ import annotations

import itertools
from pathlib import Path

import h5py
import numpy as np

from checkpoint_made import Steps, cuts, folder_of, turbulence, vorticity


def particles(folder: Path) -> Steps:
    """HDF5, two kinds of particles in boxes of unequal counts, float32 and identities, as in cosmology."""
    side = 96
    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3) / side
    random = np.random.default_rng(3)
    waves, phases = random.integers(-4, 5, (40, 3)), random.random(40) * 2 * np.pi
    pull = np.zeros_like(grid)
    for wave, phase in zip(waves, phases, strict=True):
        size = max(float(wave @ wave), 1.0)
        pull += wave / size**1.5 * np.sin(2 * np.pi * grid @ wave + phase)[:, None]
    found: Steps = {}
    for step, growth in ((1, 0.01), (2, 0.016)):
        place = ((grid + growth * pull) % 1).astype("<f4")
        speed = (growth * 55 * pull).astype("<f4")
        owner = (place[:, 0] * 4).astype(int) * 4 + (place[:, 1] * 4).astype(int)
        key = np.lexsort((place[:, 2], (place[:, 1] * 64).astype(int), (place[:, 0] * 64).astype(int)))
        files = []
        for rank in range(16):
            own = key[owner[key] == rank]
            path = folder_of(folder, step) / f"snap.{rank}.hdf5"
            with h5py.File(path, "w") as out:
                for kind, chosen in (("PartType0", own[own % 4 == 0]), ("PartType1", own[own % 4 != 0])):
                    out[f"{kind}/Coordinates"] = place[chosen]
                    out[f"{kind}/Velocities"] = speed[chosen]
                    out[f"{kind}/ParticleIDs"] = chosen.astype("<u8")
                    if kind == "PartType0":
                        out[f"{kind}/Masses"] = np.full(len(chosen), 0.0123, "<f4")
                        out[f"{kind}/InternalEnergy"] = (1e4 * (1 + pull[chosen, 0] ** 2)).astype("<f4")
                out.create_group("Header").attrs["NumPart_ThisFile"] = len(own)
            files.append(path)
        found[f"{step:04}"] = files
    return found


def blocks(folder: Path) -> Steps:
    """Blocks of an adaptive mesh: a line of text, then five float64 components; unequal numbers of blocks."""
    found: Steps = {}
    n = 512
    y, x = np.meshgrid(np.arange(n) / n, np.arange(n) / n, indexing="ij")
    for step in (1, 2):
        radius = np.hypot(x - 0.5, y - 0.45) - 0.12 * step
        front = 0.5 * (1 - np.tanh(radius * 40))
        rho = 1 + 3 * np.exp(-((radius * 14) ** 2)) + 0.05 * np.sin(9 * x + 4 * y)
        pressure = 0.1 + 2 * front
        state = [rho, rho * front * (x - 0.5), rho * front * (y - 0.45), pressure / 0.4 + 0.5 * rho * front, front]
        steep = np.hypot(*np.gradient(rho))
        made = []
        for level, size in ((0, 32), (1, 16), (2, 8)):
            for j in range(0, n, size):
                for i in range(0, n, size):
                    window = np.s_[j : j + size, i : i + size]
                    if level and steep[window].max() < (0, 0.012, 0.02)[level]:
                        continue
                    body = b"".join(np.ascontiguousarray(a[window]).astype("<f8").tobytes() for a in state)
                    head = f"FAB ((8, (64 11 52 0 1 12 0 1023)))(({i},{j}) ({i + size - 1},{j + size - 1})) 5 {level}\n"
                    made.append(head.encode() + body)
        files = []
        for rank in range(10):
            path = folder_of(folder, step) / f"Cell_D_{rank:05}"
            path.write_bytes(b"".join(made[k] for k in range(len(made)) if (k * 7 + k // 13) % 10 == rank))
            files.append(path)
        found[f"{step:04}"] = files
    return found


def training(folder: Path) -> Steps:
    """NumPy's npz files of ranks that train a network together: weights in each, moments of the optimizer dealt out."""
    random = np.random.default_rng(5)
    sizes, parts = (96, 512, 512, 10), 8
    weights = [random.standard_normal(s).astype("f4") / np.float32(s[0] ** 0.5) for s in itertools.pairwise(sizes)]
    first, second = ([np.zeros_like(w) for w in weights] for _ in range(2))
    inputs = np.sin(random.random((2048, 1)) * np.arange(1, 97) + random.random((2048, 1))).astype("f4")
    target = np.eye(10, dtype="f4")[(inputs[:, :5].sum(1) * 7).astype(int) % 10]
    found: Steps = {}
    for step in (1, 2):
        for batch in range(150):
            rows = np.arange(64) + 64 * (batch % 32)
            layers = [inputs[rows]]
            for w in weights:
                layers.append(np.maximum(layers[-1] @ w, 0) if w.shape[1] != 10 else layers[-1] @ w)
            delta = (layers[-1] - target[rows]) / 64
            for k in reversed(range(3)):
                grad = layers[k].T @ delta
                delta = (delta @ weights[k].T) * (layers[k] > 0)
                first[k] = np.float32(0.9) * first[k] + np.float32(0.1) * grad
                second[k] = np.float32(0.999) * second[k] + np.float32(0.001) * grad**2
                weights[k] = weights[k] - np.float32(1e-3) * first[k] / (np.sqrt(second[k]) + np.float32(1e-8))
        files = []
        for rank in range(parts):
            arrays = {f"layer{k}": w for k, w in enumerate(weights)}
            for name, moments in (("m", first), ("v", second)):
                arrays |= {f"{name}{k}": np.array_split(a.ravel(), parts)[rank] for k, a in enumerate(moments)}
            path = folder_of(folder, step) / f"rank{rank}.npz"
            np.savez(path, step=step, rng=(np.arange(rank, rank + 625) * 2654435761 % 2**32).astype("u4"), **arrays)
            files.append(path)
        found[f"{step:04}"] = files
    return found


def text(folder: Path) -> Steps:
    """Numbers as text, six digits, as OpenFOAM writes fields of each process; unequal numbers of cells."""
    q = turbulence(256, 11)
    found: Steps = {}
    for step in (1, 2):
        q = vorticity(q, 25)
        vorticities = np.fft.irfft2(q)
        k = np.fft.fftfreq(256, 1 / 256)
        k2 = np.maximum(k[:, None] ** 2 + np.arange(129) ** 2, 1)
        speeds = [np.fft.irfft2(a) for a in (1j * k[:, None] * q / k2, -1j * np.arange(129) * q / k2)]
        files = []
        for rank, rows in enumerate(cuts(256, 9, 0.3)):
            path = folder_of(folder, step) / f"processor{rank}.foam"
            with path.open("w") as out:
                out.write(f'FoamFile\n{{\n    format ascii;\n    location "{step}";\n}}\ninternalField nonuniform\n')
                out.write(f"List<vector>\n{vorticities[rows].size}\n(\n")
                for u, v in zip(*(a[rows].ravel() for a in speeds), strict=True):
                    out.write(f"({u:.6g} {v:.6g} 0)\n")
                out.write(")\nList<scalar>\n(\n")
                out.writelines(f"{value:.6g}\n" for value in vorticities[rows].ravel())
                out.write(")\n")
            files.append(path)
        found[f"{step:04}"] = files
    return found


def spectra(folder: Path) -> Steps:
    """HDF5, complex coefficients in slabs, three components of which the third follows from the others."""
    n, parts = 512, 8
    layers = [turbulence(n, seed) for seed in (21, 22)]
    found: Steps = {}
    for step in (1, 2):
        layers = [vorticity(q, 15) for q in layers]
        whole = {"a": layers[0], "b": layers[1], "c": layers[0] - 0.5 * layers[1]}
        files = []
        for rank, rows in enumerate(cuts(n, parts)):
            path = folder_of(folder, step) / f"spec_p{rank}.h5"
            with h5py.File(path, "w") as out:
                for name, q in whole.items():
                    out[f"{name}/real"] = q[rows].real
                    out[f"{name}/imag"] = q[rows].imag
            files.append(path)
        found[f"{step:04}"] = files
    return found


def members(folder: Path) -> Steps:
    """Own format, big-endian float32: an ensemble, a member a file, that starts from almost the same state."""
    n = 256
    start = turbulence(n, 31)
    random = np.random.default_rng(7)
    states = [start * (1 + 1e-4 * random.standard_normal(start.shape)) for _ in range(20)]
    found: Steps = {}
    for step in (1, 2):
        states = [vorticity(q, 8) for q in states]
        files = []
        for rank, q in enumerate(states):
            path = folder_of(folder, step) / f"member{rank + 1:02}.state"
            k = np.fft.fftfreq(n, 1 / n)
            psi = np.fft.irfft2(q / np.maximum(k[:, None] ** 2 + np.arange(n // 2 + 1) ** 2, 1))
            head = f"member {rank + 1:02} step {step:04}".ljust(64).encode()
            path.write_bytes(head + np.fft.irfft2(q).astype(">f4").tobytes() + psi.astype(">f4").tobytes())
            files.append(path)
        found[f"{step:04}"] = files
    return found
