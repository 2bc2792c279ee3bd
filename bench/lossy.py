"""Ratio under a bound of 1e-3 of each variable's range, on ten real fields, beside error-bounded compressors.

The fields are those of a study of SCIL, which reached 5.9 (SZ as it called it), 11.5 (SZ with the dimensions in the
right order) and 12.0 (the best of its pool for each field) by geometric mean.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np

import repack
from real_variables import RealVariable, real_variables

FIELDS = (
    "A1B_north_america.air_temperature",
    "ostia_monthly.surface_temperature",
    "vinth2p.T",
    "levitus_climatology.TEMP",
    "levitus_climatology.SALT",
    "monthly_navy_winds.UWND",
    "ocean_atlas_subset.TEMP",
    "etopo5.ROSE",
    "fice.fice",
    "trinidad.data",
)
FRACTION = 1e-3
PLUGINS = Path(__file__).resolve().parent.parent / "target" / "release" / "hdf5-plugins"


@dataclass
class Row:
    field: str
    contender: str
    ratio: float
    """Bytes of values over bytes of stored chunks."""
    error: float
    """Largest error over the bound; above 1 the bound is broken."""
    special: bool
    """Whether fill values, NaN and infinities are as they were."""


def valid(variable: RealVariable) -> np.ndarray:
    mask = np.isfinite(variable.values)
    if variable.fill is not None:
        mask &= variable.values != variable.values.dtype.type(variable.fill)
    return mask


def bound_of(variable: RealVariable) -> float:
    values = variable.values[valid(variable)].astype("f8")
    return FRACTION * float(values.max() - values.min())


def judge(variable: RealVariable, contender: str, dataset: h5py.Dataset) -> Row:
    before, after, mask = variable.values, dataset[...], valid(variable)
    error = float(np.abs(before[mask].astype("f8") - after[mask].astype("f8")).max()) / bound_of(variable)
    special = bool((before[~mask].view("u4") == after[~mask].view("u4")).all())
    return Row(variable.name, contender, before.nbytes / dataset.id.get_storage_size(), error, special)


def peers(bound: float) -> dict[str, dict]:
    return {
        "SZ3": dict(hdf5plugin.SZ3(absolute=bound)),
        "SZ": dict(hdf5plugin.SZ(absolute=bound)),
        "ZFP": dict(hdf5plugin.Zfp(accuracy=bound)),
    }


def measure_lossy() -> list[Row]:
    h5py.h5pl.append(os.fsencode(PLUGINS))
    variables = [variable for variable in real_variables() if variable.name in FIELDS]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "fields.h5"
        with h5py.File(source, "w") as file:
            for variable in variables:
                dataset = file.create_dataset(variable.name, data=variable.values)
                if variable.fill is not None:
                    dataset.attrs["_FillValue"] = variable.values.dtype.type(variable.fill)
        for portable in ("standard", "knarr"):
            target = Path(folder) / f"{portable}.h5"
            binary = os.environ.get("KNARR_BIN", str(repack.KNARR))
            options = ["--max-range-error", str(FRACTION), "--goal", "ratio", "--portable", portable]
            command = [binary, "repack", str(source), "-o", str(target), *options]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            with h5py.File(target) as file:
                rows += [judge(variable, f"knarr, {portable}", file[variable.name]) for variable in variables]
        for variable in variables:
            for name, filters in peers(bound_of(variable)).items():
                with h5py.File(Path(folder) / "peer.h5", "w") as file:
                    # The whole variable is one chunk, which suits these compressors best.
                    data = variable.values
                    dataset = file.create_dataset("x", data=data, chunks=data.shape, **filters)
                    file.flush()
                    rows.append(judge(variable, name, dataset))
    return rows


def table(rows: list[Row]) -> str:
    names = list(dict.fromkeys(row.contender for row in rows))
    lines = ["| field | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for field in dict.fromkeys(row.field for row in rows):
        cells = {row.contender: row for row in rows if row.field == field}
        lines.append(f"| {field} | " + " | ".join(cell(cells[name]) for name in names) + " |")
    means = [np.exp(np.mean([np.log(row.ratio) for row in rows if row.contender == name])) for name in names]
    lines.append("| geometric mean | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")
    return "\n".join([*lines, "", "`!`: the bound is broken; `*`: fill values or NaN were changed."])


def cell(row: Row) -> str:
    return f"{row.ratio:.2f}{'!' if row.error > 1 else ''}{'' if row.special else '*'}"
