"""The Antarctic Circumpolar Current in Veros' own setup, on a finer grid, cut into the ranks' parts.

python veros_channel.py FOLDER parts|strided STEP...    one process; writes every rank's file to FOLDER/STEP/

Veros divides its grid over ranks by longitude and latitude, each part with two ghost cells on all sides.
Its parallel restart needs one shared file, so here one process's state is written one file a rank, as models
with per-rank files do:

    parts      all restart variables as the rank holds them, netCDF-4, by netCDF-C
    strided    the latest time level in float32, CDF-5, by PnetCDF; rank r has the rows r, r + ranks,
               r + 2 ranks, ... of latitude
"""

import sys
from pathlib import Path

import netCDF4
import numpy as np
from veros import runtime_settings, veros_routine

runtime_settings.backend = "numpy"
runtime_settings.loglevel = "warning"

import pnetcdf  # noqa: E402
from veros.setups.acc import ACCSetup  # noqa: E402

NX, NY, NZ = 80, 112, 15
PARTS = (4, 4)
STRIDED_RANKS = 16
GHOSTS = 2


class FineChannel(ACCSetup):
    """Three quarters of a degree instead of two degrees."""

    @veros_routine
    def set_parameter(self, state):
        super().set_parameter(state)
        state.settings.nx, state.settings.ny, state.settings.nz = NX, NY, NZ
        state.settings.dt_mom = 1800
        state.settings.dt_tracer = 14400

    @veros_routine
    def set_grid(self, state):
        super().set_grid(state)
        state.variables.dxt = np.full_like(state.variables.dxt, 0.75)
        state.variables.dyt = np.full_like(state.variables.dyt, 0.75)

    @veros_routine
    def set_diagnostics(self, state):
        state.diagnostics.clear()


def restart_variables(state):
    """Name to dimensions and values of all that Veros puts into a restart file."""
    wanted = {name: meta for name, meta in state.var_meta.items() if meta.write_to_restart and meta.active}
    return {name: (tuple(meta.dims or ()), np.asarray(getattr(state.variables, name))) for name, meta in wanted.items()}


def part(dims, rank):
    """What a rank holds of a variable: its cells and the ghost cells around them."""
    at = {"x": rank % PARTS[0], "y": rank // PARTS[0]}
    cells = {"x": NX // PARTS[0], "y": NY // PARTS[1]}
    index = []
    for dim in dims:
        axis = dim[0] if dim in ("xt", "xu", "yt", "yu") else None
        index.append(slice(at[axis] * cells[axis], (at[axis] + 1) * cells[axis] + 2 * GHOSTS) if axis else slice(None))
    return tuple(index)


def write_parts(folder, variables):
    folder.mkdir(parents=True)
    for rank in range(PARTS[0] * PARTS[1]):
        with netCDF4.Dataset(folder / f"acc.{rank:04}.restart.nc", "w") as file:
            for name, (dims, values) in variables.items():
                held = values[part(dims, rank)]
                for dim, length in zip(dims, held.shape, strict=True):
                    if dim not in file.dimensions:
                        file.createDimension(dim, length)
                file.createVariable(name, held.dtype, dims)[...] = held


def write_strided(folder, variables, level):
    folder.mkdir(parents=True)
    for rank in range(STRIDED_RANKS):
        rows = {}
        for name, (dims, values) in variables.items():
            if len(dims) == 4:
                rows[name] = (
                    dims[:3],
                    values[:, rank::STRIDED_RANKS, :, level].transpose(1, 0, 2).astype("f4"),
                )
        pnetcdf.write(folder / f"acc.{rank:04}.restart.nc", rows)


def main():
    folder, how, steps = Path(sys.argv[1]), sys.argv[2], [int(word) for word in sys.argv[3:]]
    model = FineChannel()
    model.setup()
    for step in range(1, max(steps) + 1):
        model.step(model.state)
        if step in steps:
            variables = restart_variables(model.state)
            target = folder / f"{step:04}"
            if how == "parts":
                write_parts(target, variables)
            else:
                write_strided(target, variables, int(variables["tau"][1]))


main()
