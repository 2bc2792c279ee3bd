"""A plugin of pytest: h5py opens files through MPI-IO, each for its own process, where a test names no driver."""

from __future__ import annotations

import os

import h5py
from mpi4py import MPI

as_it_is = h5py.File.__init__


def through_mpi(self: h5py.File, name: object, mode: str = "r", driver: str | None = None, *args, **keys) -> None:
    if driver is None and isinstance(name, str | bytes | os.PathLike):
        driver, keys["comm"] = "mpio", MPI.COMM_SELF
    as_it_is(self, name, mode, driver, *args, **keys)


h5py.File.__init__ = through_mpi
