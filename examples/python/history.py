"""The history of a plane, one band of rows on each rank, as one file: python history.py OUT.nc (or OUT.zarr, OUT.h5),
or under mpirun with --mpi."""

import sys

import numpy as np

import knarr

STEPS, ROWS, COLUMNS = 5, 120, 80
comm = None
if "--mpi" in sys.argv:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
rank, ranks = (0, 1) if comm is None else (comm.rank, comm.size)
first, end = ROWS * rank // ranks, ROWS * (rank + 1) // ranks
y, x = np.arange(first, end)[:, None], np.arange(COLUMNS)

with knarr.Output(sys.argv[1], comm, goal="ratio") as output:
    # All ranks define the same things.
    for name, length in {"time": None, "y": ROWS, "x": COLUMNS}.items():
        output.def_dim(name, length)
    output.def_var("time", "f8", ["time"], attributes={"units": "hours since 2000-01-01"})
    output.def_var(
        "T", "f4", ["time", "y", "x"], fill_value=-999, attributes={"units": "K"}, wishes={"max_abs_error": 0.001}
    )
    output.set_attributes(title="a plane")
    for step in range(STEPS):
        band = (290 + 10 * np.sin(0.05 * y + step) * np.cos(0.1 * x)).astype("f4")
        output.put("T", band[None], start=(step, first, 0))  # a copy
        if rank == 0:
            output.put("time", np.array([6.0 * step]), start=[step])
        output.end_step()
    output.commit()  # from here on the file is made, and the program may compute
# It is complete and on the disk.
