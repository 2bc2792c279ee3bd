"""A program of mpi4py whose communicator must do what Knarr needs, and whose own messages must meet none of Knarr's."""

import socket
import sys

import numpy as np
from mpi4py import MPI

import knarr
from knarr import _knarr

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
node = comm.allgather(socket.gethostname()).index(socket.gethostname())
for longest_piece in (None, 1024):
    _knarr.check_ranks((comm, rank, size, node), longest_piece)

# It takes whatever comes from whomever.
waits = comm.irecv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
with knarr.Checkpoint(sys.argv[1], comm) as checkpoint:
    checkpoint.begin(1)
    checkpoint.put("rank", np.array([rank]))
    checkpoint.commit()
comm.send(f"from {rank}", dest=(rank + 1) % size, tag=3)
assert waits.wait() == f"from {(rank - 1) % size}"
print("all is well")
