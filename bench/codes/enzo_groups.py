"""Gives an AMRClaw hierarchy to ranks and writes one HDF5 file a rank, with the groups and names of Enzo's dumps.

python enzo_groups.py FRAME TARGET RANKS    reads fort.q<FRAME> and fort.b<FRAME> of this folder

AMRClaw computes on one node and writes one file. The grids and their values are its own; who holds which grid
(the rank with the fewest cells takes the next one, as Enzo balances) and the files are made here: a group
Grid<number> for each grid with Density, TotalEnergy, GasEnergy, x-velocity and y-velocity in float32, without ghost
cells, row by row.
"""

import sys
from pathlib import Path

import h5py
import numpy as np

GHOSTS = 2
FIELDS = 4


def grids(frame):
    """Number, level, lower corner, cell size and conserved values (field, y, x) of each grid."""
    words = [line.split() for line in Path(f"fort.q{frame:04}").read_text().splitlines() if line.strip()]
    values = np.memmap(f"fort.b{frame:04}", "f8", "r")
    at = 0
    for start in range(0, len(words), 8):
        head = {name: float(value) for value, name in words[start : start + 8]}
        nx, ny = int(head["mx"]), int(head["my"])
        shape = (ny + 2 * GHOSTS, nx + 2 * GHOSTS, FIELDS)
        cells = values[at : at + np.prod(shape)].reshape(shape)[GHOSTS:-GHOSTS, GHOSTS:-GHOSTS]
        at += np.prod(shape)
        yield head, np.moveaxis(cells, -1, 0)
    if at != len(values):
        raise SystemExit(f"fort.b{frame:04} has {len(values)} values, its headers say {at}")


def write_grid(group, head, conserved):
    density, x_momentum, y_momentum, energy = conserved
    x_velocity, y_velocity, total = x_momentum / density, y_momentum / density, energy / density
    fields = {
        "Density": density,
        "TotalEnergy": total,
        "GasEnergy": total - (x_velocity**2 + y_velocity**2) / 2,
        "x-velocity": x_velocity,
        "y-velocity": y_velocity,
    }
    for name, values in fields.items():
        group.create_dataset(name, data=values.astype("f4"))
    group.attrs["Level"] = np.int32(head["AMR_level"])
    group.attrs["LeftEdge"] = np.array([head["xlow"], head["ylow"]])
    group.attrs["CellWidth"] = np.array([head["dx"], head["dy"]])


def main():
    frame, target, ranks = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    target.mkdir(parents=True)
    files = [
        h5py.File(target / f"implosion{frame:04}.cpu{rank:04}", "w", libver=("earliest", "v110"))
        for rank in range(ranks)
    ]
    held = [0] * ranks
    for number, (head, conserved) in enumerate(grids(frame), start=1):
        rank = held.index(min(held))
        held[rank] += conserved[0].size
        write_grid(files[rank].create_group(f"Grid{number:08}"), head, conserved)
    for file in files:
        file.close()


main()
