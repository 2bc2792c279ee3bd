"""One side of a stream of ADIOS2 SST: sst.py write|read NAME RANK RANKS ROWS COLUMNS SESSIONS PAUSE.

The wheel of ADIOS2 has no MPI, so each pair of a writer and a reader has a stream of its own, with its share of the
rows.
Each step is a session: the writer says when it began it, the reader when it has its last value.
"""

import sys
import time

import adios2.bindings as adios2
import numpy as np

role, name, rank, ranks, rows, columns, sessions = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:8])
pause = float(sys.argv[8])
first, last = rank * rows // ranks, (rank + 1) * rows // ranks
shape = [last - first, columns]
at = np.arange(first * columns, last * columns, dtype="f8").reshape(shape)

# What is declared does not keep it alive.
adios = adios2.ADIOS()
io = adios.DeclareIO("coupled")
io.SetEngine("SST")
# As with files of two programs: the writer does not wait, and nothing is dropped.
io.SetParameters({"QueueLimit": "0"} if role == "write" else {"OpenTimeoutSecs": "60"})
if role == "write":
    variable = io.DefineVariable("T", at, shape, [0, 0], shape, adios2.ConstantDims)
    stream = io.Open(name, adios2.Mode.Write)
    for session in range(sessions):
        time.sleep(pause)
        begin = time.monotonic()
        stream.BeginStep()
        stream.Put(variable, at, adios2.Mode.Sync)
        stream.EndStep()
        print(session, begin, time.monotonic(), flush=True)
        at += rows * columns
else:
    stream = io.Open(name, adios2.Mode.Read)
    found = np.empty(shape)
    for session in range(sessions):
        begin = time.monotonic()
        stream.BeginStep()
        stream.Get(io.InquireVariable("T"), found, adios2.Mode.Sync)
        stream.EndStep()
        print(session, begin, time.monotonic(), flush=True)
        assert (found == at).all()
        at += rows * columns
stream.Close()
