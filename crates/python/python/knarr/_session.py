"""What checkpoints and outputs have in common: a session in which the ranks of a program hand arrays over."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import numpy as np

from ._arrays import NAMES

Array = np.ndarray[Any, Any]


class Session:
    """A session of all ranks of ``comm``, an mpi4py communicator; without it the program is one process."""

    _session: Any

    def __init__(self, comm: Any) -> None:
        self._ranks = 1 if comm is None else comm.Get_size()
        self._comm = None if comm is None else comm.Dup()
        self._process = os.getpid()

    def _places(self) -> tuple[Any, int, int, int] | None:
        """The communicator, this rank, how many there are, and the lowest rank on the same node."""
        if self._comm is None:
            return None
        names = self._comm.allgather(socket.gethostname())
        return self._comm, self._comm.Get_rank(), self._comm.Get_size(), names.index(socket.gethostname())

    @contextmanager
    def _handing_over(self, what: str) -> Iterator[None]:
        """What lacks something is not written, whoever catches the error."""
        try:
            yield
        except Exception as error:
            self._session.fail(f"{what}: {error}")
            raise

    def _free(self) -> None:
        """Not after an error, and not in a process that was forked: it is collective."""
        if self._comm is not None and self._process == os.getpid():
            self._comm.Free()
            self._comm = None

    def close(self) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        # Other ranks may be anywhere, and waiting for them here would hide the error for ever.
        self._session.close(True)
        if self._ranks > 1:
            self._comm = None


def native(array: Array) -> tuple[Array, str, list[int]]:
    """The bytes of an array of numbers as they are handed over, in place if they lie so, its type and its shape."""
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    return plain.reshape(-1).view(np.uint8), NAMES[plain.dtype.name], list(array.shape)
