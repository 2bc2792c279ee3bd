"""Writes the stored bytes of every variable that has fixed ones. Arguments: FILE FOLDER

Each goes to FOLDER/<path with '.' for '/'> as little- or big-endian elements exactly as the type says.
"""

import pathlib
import sys

import h5py
import hdf5plugin  # noqa: F401
import numpy as np

path, folder = sys.argv[1], pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
with h5py.File(path) as f:

    def visit(name, obj):
        if not isinstance(obj, h5py.Dataset) or obj.shape is None:
            return
        if obj.id.get_type().detect_class(h5py.h5t.VLEN) or obj.id.get_type().detect_class(h5py.h5t.REFERENCE):
            return
        if h5py.check_string_dtype(obj.dtype) and h5py.check_string_dtype(obj.dtype).length is None:
            return
        memory = obj.id.get_type()
        out = np.zeros(obj.shape, dtype=np.void(memory.get_size()).dtype if memory.get_size() else "u1")
        obj.id.read(h5py.h5s.ALL, h5py.h5s.ALL, out, mtype=memory)
        (folder / name.replace("/", ".")).write_bytes(out.tobytes())

    f.visititems(visit)
