"""Writes steps as steps.c does, as Zarr stores by zarr-python, with its codecs or those of zarrs: each rank its chunks.

usage: zarr_steps.py zarr|zarrs OUT STEPS SECONDS VALUES
OUT is what names of stores begin with, or a URL of S3.
"""

import os
import sys
import time

import numpy as np
import zarr
from mpi4py import MPI

DEPTH, SIDE, NAMES = 64, 512, "TUVQ"

if sys.argv[1] == "zarrs":
    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})


def place(name: str) -> object:
    """The store of this name, in a directory or in a bucket."""
    if not name.startswith("s3://"):
        return name
    from obstore.store import S3Store
    from zarr.storage import ObjectStore

    options = {"allow_http": True}
    return ObjectStore(S3Store.from_url(name, endpoint=os.environ["AWS_ENDPOINT_URL"], client_options=options))


comm = MPI.COMM_WORLD
half = SIDE // 2
rows, columns = (slice(n * half, (n + 1) * half) for n in divmod(comm.rank, 2))
values = np.memmap(sys.argv[5], "f4", "r", shape=(len(NAMES), DEPTH, SIDE, SIDE))
blocks = [np.array(one[:, rows, columns]) for one in values]
for step in range(int(sys.argv[3])):
    # Values move by a row, so that no step is the one before.
    blocks = [np.roll(block, -1, axis=1) for block in blocks]
    comm.Barrier()
    begin = time.perf_counter()
    store = place(f"{sys.argv[2]}{step}.zarr")
    if comm.rank == 0:
        group = zarr.create_group(store)
        for name in NAMES:
            group.create_array(name, shape=(DEPTH, SIDE, SIDE), chunks=(DEPTH // 2, half, half), dtype="f4")
    comm.Barrier()
    group = zarr.open_group(store, mode="r+")
    for name, block in zip(NAMES, blocks, strict=True):
        group[name][:, rows, columns] = block
    slowest = comm.reduce(time.perf_counter() - begin, op=MPI.MAX)
    if comm.rank == 0:
        print(f"{slowest:.4f} 0", flush=True)
    time.sleep(float(sys.argv[4]))
