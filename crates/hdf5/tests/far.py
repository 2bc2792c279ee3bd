"""Writes a file whose only chunk claims to lie beyond the end of the file. Argument: FILE"""

import struct
import sys
from pathlib import Path

import h5py
import numpy as np

path = sys.argv[1]
with h5py.File(path, "w", libver="earliest") as f:
    x = f.create_dataset("x", data=np.arange(64, dtype="u1"), chunks=(64,))
    address = x.id.get_chunk_info(0).byte_offset
data = bytearray(Path(path).read_bytes())
where = data.find(struct.pack("<Q", address), data.find(b"TREE\x01"))
assert where > 0
data[where : where + 8] = struct.pack("<Q", len(data) - 10)
Path(path).write_bytes(data)
