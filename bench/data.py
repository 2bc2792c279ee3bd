"""Writes the benchmark inputs into bench/inputs/ (not kept in git). Same packages, same values.

    real.nc       17 real float32 variables tiled over time, about 400 MB
    cmip.nc       one real variable in CMIP layout, about 340 MB (cmip7-repack handles no other)
    sim.nc        generated simulation output, about 150 MB
    variables.nc  every distinct real variable of at least 300 KB, for ratios per variable
    kinds.nc      generated variables of kinds that training does not have, and held-out.nc more of them
    large.h5      (only with --large BYTES) for the memory bound

`manifest.json` lists each file's variables with shape, type and SHA-256 of the values.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

from kinds import held_out, kinds, write_kinds
from netcdf_writer import InputFile
from real_variables import RealVariable, real_variables
from simulation import detector, particles, shock_tubes, turbulence

INPUTS = Path(__file__).resolve().parent / "inputs"

SERIES = (
    "GloSea4.s24p128",
    "UMhybrid.s2p128",
    "coads_climatology.SST",
    "coads_climatology.AIRT",
    "coads_climatology.SPEH",
    "coads_climatology.WSPD",
    "coads_climatology.UWND",
    "coads_climatology.VWND",
    "coads_climatology.SLP",
    "ocean_atlas_subset.TEMP",
    "monthly_navy_winds.UWND",
    "monthly_navy_winds.VWND",
    "UMice.s149p128",
    "ostia_monthly.surface_temperature",
    "tas_rectilinear_grid_2D.tas",
    "uas_rectilinear_grid_2D.uas",
    "vas_rectilinear_grid_2D.vas",
)
"""Real series of `real.nc`; each is tiled to about `SERIES_BYTES`."""

SERIES_BYTES = 23_000_000
ROLL = 37


def tiles(values: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """`count` copies of a time series; copy k is rolled by 37k cells along the last axis.

    Every value keeps its bits, noise included, and no two copies line up, so a long match between
    tiles helps no compressor.
    """
    for k in range(count):
        yield np.roll(values, ROLL * k, axis=-1)


def write_tiled(path: Path, title: str, variables: list[tuple[str, RealVariable, int]], **attributes: str) -> None:
    with InputFile(path, title) as output:
        for name, value in attributes.items():
            output.dataset.setncattr(name, value)
        for name, variable, count in variables:
            values = variable.values
            shape = (len(values) * count, *values.shape[1:])
            output.add_series(name, tiles(values, count), shape, values.dtype, variable.fill, period=len(values))


def write_real(path: Path, by_name: dict[str, RealVariable]) -> None:
    series = [(name, by_name[name], max(1, round(SERIES_BYTES / by_name[name].values.nbytes))) for name in SERIES]
    write_tiled(path, "Real variables tiled over time", series)


def write_cmip(path: Path, by_name: dict[str, RealVariable]) -> None:
    variable = by_name["ocean_atlas_subset.TEMP"]
    write_tiled(path, "Ocean temperature in CMIP layout", [("thetao", variable, 23)], variable_id="thetao")
    with h5py.File(path, "a") as file:
        (time,) = (name for name in file if name.startswith("time_"))
        file.move(time, "time")


def write_simulation(path: Path) -> None:
    with InputFile(path, "Generated simulation output") as output:
        cube = (96, 96, 96)
        for seed, (name, slope, dtype, steps) in enumerate(
            (("u", -5 / 3, "f4", 8), ("v", -5 / 3, "f4", 8), ("pressure", -7 / 3, "f8", 4))
        ):
            fields = turbulence(cube, steps, slope, seed, dtype)
            output.add_series(name, fields, (steps, *cube), np.dtype(dtype))
        plane = (512, 512)
        fields = turbulence(plane, 32, -3.0, 11, "f4")
        output.add_series("vorticity", fields, (32, *plane), np.dtype("f4"))
        output.add_series("density", shock_tubes(plane, 12, "f8"), (12, *plane), np.dtype("f8"))
        output.add_series("frames", detector(plane, 12, 5), (12, *plane), np.dtype("u2"))
        for name, values in particles(500_000, 7).items():
            output.add(f"particle_{name}", values)


def write_variables(path: Path, by_name: dict[str, RealVariable]) -> None:
    with InputFile(path, "Distinct real variables of at least 300 KB") as output:
        for name, variable in by_name.items():
            output.add(name, variable.values, variable.fill)


def write_large(path: Path, size: int) -> None:
    """One contiguous and one chunked float32 variable, `size` bytes together.

    The values are a smooth field plus noise, different in each block, and cost little to make.
    """
    rows = size // 2 // (1024 * 1024 * 4)
    block = next(turbulence((1024, 1024), 1, -2.0, 3, "f4"))[0]
    with h5py.File(path, "w", libver=("earliest", "v110")) as file:
        shape = (rows, 1024, 1024)
        chunked = file.create_dataset("chunked", shape, "f4", chunks=(1, 512, 1024))
        contiguous = file.create_dataset("contiguous", shape, "f4")
        for row in range(rows):
            shifted = np.roll(block, row * 131)
            chunked[row] = shifted
            contiguous[row] = shifted * np.float32(1 + row / rows)


def describe(path: Path, families: dict[str, str]) -> dict[str, object]:
    variables = {}
    with h5py.File(path) as file:
        for name, dataset in file.items():
            if dataset.dtype.kind in "iuf" and dataset.attrs.get("CLASS") != b"DIMENSION_SCALE":
                digest = hashlib.sha256()
                for step in dataset:
                    digest.update(step.tobytes())
                variables[name] = {
                    "shape": dataset.shape,
                    "chunks": dataset.chunks,
                    "dtype": dataset.dtype.str,
                    "bytes": dataset.nbytes,
                    "family": families.get(name, "generated"),
                    "sha256": digest.hexdigest(),
                }
    return {"bytes": path.stat().st_size, "variables": variables}


def write_inputs(large: int | None = None) -> None:
    """Writes what is missing; an input that is there is complete, because it is renamed when done."""
    INPUTS.mkdir(exist_ok=True)
    by_name = {variable.name: variable for variable in real_variables()}
    families = {name: variable.family for name, variable in by_name.items()}
    families["thetao"] = "field"
    writers = {
        "real.nc": lambda path: write_real(path, by_name),
        "cmip.nc": lambda path: write_cmip(path, by_name),
        "sim.nc": write_simulation,
        "variables.nc": lambda path: write_variables(path, by_name),
        "kinds.nc": lambda path: write_kinds(path, kinds()),
        "held-out.nc": lambda path: write_kinds(path, held_out()),
    }
    if large is not None:
        writers["large.h5"] = lambda path: write_large(path, large)
    manifest_path = INPUTS / "manifest.json"
    manifest = json.loads(manifest_path.read_text()) if manifest_path.exists() else {}
    for name, write in writers.items():
        path = INPUTS / name
        if path.exists() and name in manifest:
            continue
        unfinished = path.with_name(f"{name}.unfinished")
        write(unfinished)
        os.replace(unfinished, path)
        manifest[name] = {"bytes": path.stat().st_size} if name == "large.h5" else describe(path, families)
        manifest_path.write_text(json.dumps(manifest, indent=1) + "\n")
        print(f"{name}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", type=int, metavar="BYTES", help="also write large.h5 of this size")
    write_inputs(parser.parse_args().large)
