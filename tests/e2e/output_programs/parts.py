"""Writes the same file from any decomposition: parts.py WAY OUT [SLEEP], under mpirun. WAY is rows, columns or blocks.

With SLEEP the ranks say "put" when everything is put, sleep, and say "committed" when the file is being made.
"""

import sys
import time

import numpy as np
from mpi4py import MPI

import knarr

STEPS, ROWS, COLUMNS = 4, 210, 150
way, out = sys.argv[1:3]
sleep = float(sys.argv[3]) if len(sys.argv) > 3 else None
comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size


def share(length: int) -> tuple[int, int]:
    return length * rank // ranks, length * (rank + 1) // ranks


def parts() -> list[tuple[int, int, int, int]]:
    """First and last of rows and columns."""
    if way == "rows":
        return [(*share(ROWS), 0, COLUMNS)]
    if way == "columns":
        return [(0, ROWS, *share(COLUMNS))]
    blocks = [
        (y, min(y + 40, ROWS), x, min(x + 32, COLUMNS)) for y in range(0, ROWS, 40) for x in range(0, COLUMNS, 32)
    ]
    return blocks[rank::ranks]


def values(step: int) -> np.ndarray:
    y, x = np.arange(ROWS)[:, None], np.arange(COLUMNS)
    return 280 + 20 * np.sin(0.03 * y + step) * np.cos(0.05 * x) + 0.001 * ((7 * x + 13 * y) % 10)


with knarr.Output(out, comm, replace=True, jobs=1) as output:
    output.def_dim("time", None)
    output.def_dim("y", ROWS)
    output.def_dim("x", COLUMNS)
    output.def_var("T", "f4", ["time", "y", "x"], attributes={"units": "K"})
    output.def_var("bounded", "f8", ["time", "y", "x"], wishes={"max_abs_error": 0.01})
    output.def_var("part", "i4", ["y", "x"], fill_value=-1)
    output.def_var("nothing", "i2", ["y"])
    output.def_var("ranks", "i4", [])
    output.set_attributes(title="parts", numbers=[1.5, 2.5])
    for step in range(STEPS):
        for y0, y1, x0, x1 in parts():
            mine = values(step)[None, y0:y1, x0:x1]
            output.put("T", mine.astype("f4"), start=(step, y0, x0))
            output.put("bounded", mine, start=(step, y0, x0))
        output.end_step()
    # Half of it, by all ranks: the same values.
    output.put("part", np.full((100, COLUMNS), 7, "i4"))
    if rank == 0:
        output.put("ranks", np.array(4, "i4"))
    if sleep is not None:
        comm.Barrier()
        if rank == 0:
            print("put", flush=True)
        time.sleep(sleep)
    output.commit()
    if sleep is not None and rank == 0:
        print("committed", flush=True)
