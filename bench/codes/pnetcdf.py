"""Writes one CDF-5 file through PnetCDF, by this process alone."""

import ctypes
import ctypes.util

import numpy as np
from mpi4py import MPI

NC_CLOBBER, NC_64BIT_DATA, NC_FLOAT = 0, 0x20, 5
LIBRARY = ctypes.CDLL(ctypes.util.find_library("pnetcdf"))
LIBRARY.ncmpi_strerror.restype = ctypes.c_char_p


def check(code):
    if code:
        raise OSError(LIBRARY.ncmpi_strerror(code).decode())


def write(path, variables):
    """`variables`: name to dimension names and float32 values; a dimension is made for each name and length."""
    comm = ctypes.c_void_p.from_address(MPI._addressof(MPI.COMM_SELF))
    info = ctypes.c_void_p.from_address(MPI._addressof(MPI.INFO_NULL))
    file, ids, dimensions = ctypes.c_int(), {}, {}
    check(LIBRARY.ncmpi_create(comm, bytes(path), NC_CLOBBER | NC_64BIT_DATA, info, ctypes.byref(file)))
    for name, (dims, values) in variables.items():
        for key in zip(dims, values.shape, strict=True):
            if key not in dimensions:
                dimensions[key] = ctypes.c_int()
                label = f"{key[0]}_{key[1]}".encode()
                check(LIBRARY.ncmpi_def_dim(file, label, ctypes.c_longlong(key[1]), ctypes.byref(dimensions[key])))
        order = (ctypes.c_int * len(dims))(*(dimensions[key].value for key in zip(dims, values.shape, strict=True)))
        ids[name] = ctypes.c_int()
        check(LIBRARY.ncmpi_def_var(file, name.encode(), NC_FLOAT, len(dims), order, ctypes.byref(ids[name])))
    check(LIBRARY.ncmpi_enddef(file))
    for name, (_, values) in variables.items():
        values = np.ascontiguousarray(values, "f4")
        check(LIBRARY.ncmpi_put_var_float_all(file, ids[name], ctypes.c_void_p(values.ctypes.data)))
    check(LIBRARY.ncmpi_close(file))
