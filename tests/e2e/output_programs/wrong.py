"""One rank does something wrong, and every rank has to learn of it: wrong.py CASE OUT, under mpirun.

Each rank prints what it learnt, and goes on to the end as a program does that looks at no error.
"""

import os
import sys

import numpy as np
from mpi4py import MPI

import knarr

case, out = sys.argv[1:3]
comm = MPI.COMM_WORLD
wrong = comm.rank == comm.size - 1


def tell(error: Exception) -> None:
    # In one piece, because mpirun puts together what ranks write.
    os.write(1, f"rank {comm.rank}: {type(error).__name__}: {error}\n".encode())


def attempt(what, *given, **named) -> None:
    try:
        what(*given, **named)
    except Exception as error:
        tell(error)


try:
    output = knarr.Output(out + (".zarr" if case == "path" and wrong else ""), comm, jobs=1)
except Exception as error:
    tell(error)
    sys.exit(1)
output.def_dim("x", 10)
output.def_var("T", "f4", ["x"])
output.put("T", np.zeros(10, "f4"))
if wrong:
    match case:
        case "unknown":
            attempt(output.put, "U", np.zeros(10, "f4"))
        case "outside":
            attempt(output.put, "T", np.zeros(4, "f4"), start=[7])
        case "type":
            attempt(output.put, "T", np.zeros(4, "f8"))
        case "definition":
            attempt(output.def_dim, "y", 3)
        case "wish":
            attempt(output.def_var, "V", "i4", ["x"], wishes={"max_abs_error": 0.1})
        case "step":
            attempt(output.commit)
        case "raise":
            comm = output = None
            raise ValueError("the program has a mistake")
attempt(output.end_step)
attempt(output.close)
