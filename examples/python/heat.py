"""Heat in a plane, one band of rows on each rank, with a checkpoint every 10 steps. Start it again, on any number of
ranks, and it goes on from the last one: python heat.py DIRECTORY STEPS, or under mpirun with --mpi."""

import sys

import numpy as np

import knarr

ROWS, COLUMNS = 120, 80
directory, last = sys.argv[1], int(sys.argv[2])
comm = None
if "--mpi" in sys.argv:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
rank, ranks = (0, 1) if comm is None else (comm.rank, comm.size)
first, end = ROWS * rank // ranks, ROWS * (rank + 1) // ranks
band = np.zeros((end - first + 2, COLUMNS))  # with a row of each neighbour


def exchange() -> None:
    band[0], band[-1] = 0, 0
    if comm is not None:
        up, down = rank - 1 if rank else MPI.PROC_NULL, rank + 1 if rank + 1 < ranks else MPI.PROC_NULL
        comm.Sendrecv(band[1], up, recvbuf=band[-1], source=down)
        comm.Sendrecv(band[-2], down, recvbuf=band[0], source=up)


with knarr.Checkpoint(directory, comm, keep=2) as checkpoint:
    step = 0
    if restart := checkpoint.restart():
        step = restart.step
        band[1:-1] = restart.read("T", start=(first, 0), count=(end - first, COLUMNS))
        print(f"rank {rank}: from step {step} of {restart.ranks} ranks")
    else:
        band[1:-1] = np.sin(0.05 * np.arange(first, end))[:, None] * np.cos(0.1 * np.arange(COLUMNS))
    while step < last:
        exchange()
        around = band[:-2, 1:-1] + band[2:, 1:-1] + band[1:-1, :-2] + band[1:-1, 2:]
        band[1:-1, 1:-1] += 0.2 * (around - 4 * band[1:-1, 1:-1])
        step += 1
        if step % 10 == 0:
            checkpoint.begin(step)
            checkpoint.put("T", band[1:-1], shape=(ROWS, COLUMNS), start=(first, 0))
            checkpoint.commit()  # packed while the next steps are computed
