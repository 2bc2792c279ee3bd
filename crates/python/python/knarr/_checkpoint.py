"""Checkpoints of a program's arrays and files, and restarts on any number of ranks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np

from . import _knarr
from ._arrays import DTYPES, NAMES, unmasked
from ._session import Array, Session, native


@dataclass(frozen=True)
class Committed:
    """A checkpoint that was completed: step, directory, bytes handed over and written, seconds from the commit on."""

    step: int
    path: Path
    raw_bytes: int
    packed_bytes: int
    seconds: float


@dataclass(frozen=True)
class StoredArray:
    """An array of a checkpoint. ``shape`` is that of the global array, ``None`` where each rank has one of its own."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None


class Checkpoint(Session):
    """The checkpoints of a program in a directory, one set for each step.

    All ranks of ``comm``, an mpi4py communicator, do the same; without it the program is one process. Knarr's messages
    go in a duplicate of it and meet none of the program's. Everything but :meth:`put` and :meth:`add_file` is
    collective. Packing runs in a thread of one rank on each node; one step at most is under way, and :meth:`wait`,
    :meth:`close`, :meth:`restart` and the next :meth:`begin` wait for it.

    ``keep`` sets stay, or all. ``replace`` allows steps that are there already. ``spool`` is a directory where arrays
    lie until they are packed: memory if nothing is said. ``jobs`` threads pack, a quarter of the cores if nothing is
    said, and ``max_mem`` bytes they may take. ``goal``, ``scheme``, ``group_size``, ``block_size``,
    ``bundle_below`` and ``verify`` are those of ``knarr checkpoint pack``. :meth:`need` goes by ``mtbf``, the mean time
    between failures of the whole job such as ``"8h"``, 24 hours if nothing is said, and by ``end``, when the job ends
    in seconds since 1970, which Slurm says by itself.

    With ``local``, a directory on a disk of each node, steps are complete there first. ``local_keep`` sets stay there,
    two if nothing is said. Each ``flush``-th step, or one after a time such as ``"30m"``, is brought to ``directory``
    meanwhile, and the last one at the end. The next node keeps a copy of each file. With ``protect="parity"`` groups of
    8 nodes keep parity instead, which takes less space, with ``"parity:8+2"`` 2 of them may be lost together, and with
    ``"none"`` nothing is kept.

    With ``memory``, a directory in the memory of each node such as ``"/dev/shm"``, steps are complete there first, and
    ``memory_keep`` sets stay there, one if nothing is said. Each ``local_every``-th step, or one after a time, is
    copied to ``local``. A step for which memory has no room goes there at once, or to ``directory`` without ``local``.
    """

    def __init__(
        self,
        directory: str | PathLike[str],
        comm: Any = None,
        *,
        keep: int | None = None,
        mtbf: str | None = None,
        end: int | None = None,
        memory: str | PathLike[str] | None = None,
        memory_keep: int | None = None,
        local: str | PathLike[str] | None = None,
        local_keep: int | None = None,
        local_every: int | str | None = None,
        flush: int | str | None = None,
        protect: str | None = None,
        replace: bool = False,
        spool: str | PathLike[str] | None = None,
        jobs: int | None = None,
        max_mem: int | str | None = None,
        goal: str | None = None,
        scheme: Literal["agnostic", "agnostic-block", "aware", "aware-block", "separate", "auto"] | None = None,
        group_size: int | None = None,
        block_size: int | None = None,
        bundle_below: int | None = None,
        verify: bool = True,
    ) -> None:
        stated = {
            "keep": keep,
            "mtbf": mtbf,
            "end": end,
            "memory": None if memory is None else fspath(memory),
            "memory_keep": memory_keep,
            "local": None if local is None else fspath(local),
            "local_keep": local_keep,
            "local_every": local_every,
            "flush": flush,
            "protect": protect,
            "replace": "yes" if replace else "no",
            "spool": None if spool is None else fspath(spool),
            "jobs": jobs,
            "max_mem": max_mem,
            "goal": goal,
            "scheme": scheme,
            "group_size": group_size,
            "block_size": block_size,
            "bundle_below": bundle_below,
            "verify": "yes" if verify else "no",
        }
        options = [(key, str(value)) for key, value in stated.items() if value is not None]
        super().__init__(comm)
        self._session = _knarr.CheckpointSession(fspath(directory), options, self._places())

    def begin(self, step: int) -> None:
        """Begins a step, after waiting for the one before.

        Raises ``FileExistsError`` if there is a checkpoint of this step, and what became of the one before.
        """
        step = index(step)
        if step < 0:
            raise ValueError(f"step {step}: steps are counted from 0")
        try:
            self._session.begin(step)
        finally:
            self._warn()

    def put(
        self,
        name: str,
        array: Any,
        *,
        shape: Sequence[int] | None = None,
        start: Sequence[int] | None = None,
    ) -> None:
        """Copies an array, which may change at once.

        With ``shape`` it is a part of a global array of that shape that begins at ``start`` (the first element if
        nothing is said); a restart may read any part of that, on any number of ranks. Without it the array is the
        rank's own, which a restart on as many ranks brings back.

        Complex numbers are stored as floats with one more axis, of real and imaginary part; truth values as ``uint8``.
        :meth:`Restart.read` takes ``dtype`` or ``out`` to bring them back as what they were.
        """
        with self._handing_over(f"array '{name}'"):
            given = unmasked(array)
            array, parts = _numbers(given)
            if array.dtype.newbyteorder("=").name not in NAMES:
                raise TypeError(f"arrays of dtype {given.dtype} are not served; hand over a view of it as numbers")
            if shape is None and start is not None:
                raise ValueError("'start' says where in a global array this part begins: give its 'shape', too")
            origin = [0] * array.ndim if start is None else _extents(start) + [0] * len(parts)
            whole = None if shape is None else _extents(shape) + parts
            self._session.put(name, *native(array), whole, origin)

    def add_file(self, path: str | PathLike[str], name: str | None = None) -> None:
        """Adds a file of this rank under ``name``, by default its own.

        It is read while it is packed, so it must stay as it is until :meth:`wait` returns or :meth:`test` says so.
        """
        with self._handing_over(f"file '{path}'"):
            self._session.add_file(fspath(path), Path(path).name if name is None else name)

    def commit(self) -> None:
        """Hands the step over and returns as soon as packing has begun.

        Raises what went wrong on any rank; the step is given up then.
        """
        self._session.commit()

    def test(self) -> bool:
        """True if no step is under way. Raises what became of it."""
        try:
            return self._session.test()
        finally:
            self._warn()

    def need(self) -> bool:
        """True if a checkpoint should be written now. To be asked after each step of the program.

        That is when as much time has passed as loses the least to checkpoints and to failures, which come every
        ``mtbf`` on average, or when the job ends before the program asks again. Raises as :meth:`test` does.
        """
        try:
            return self._session.need()
        finally:
            self._warn()

    def wait(self) -> None:
        """Waits until no step is under way. Raises what became of it."""
        try:
            self._session.wait()
        finally:
            self._warn()

    @property
    def last(self) -> Committed | None:
        """The checkpoint that was completed last."""
        told = self._session.last()
        return None if told is None else Committed(told[0], Path(told[1]), *told[2:])

    def restart(self, step: int | None = None, *, verify: bool = False) -> Restart | None:
        """The checkpoint of ``step``, or the newest whole one; ``None`` if there is none.

        Damaged ones that are passed over are warnings. With ``verify`` all of it is read and checked first, else what
        is read is checked when it is read.
        """
        try:
            found = self._session.restart(step, verify)
        finally:
            self._warn()
        return None if found is None else Restart(found)

    def close(self) -> None:
        """Waits until the step under way is complete. Raises what became of it."""
        try:
            self._session.close(False)
        finally:
            self._warn()
        self._free()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or self._ranks > 1:
            super().__exit__(kind, error, trace)
            return
        try:
            self.close()
        except Exception as second:
            error.add_note(f"and the checkpoint: {second}")

    def _warn(self) -> None:
        for text in self._session.warnings():
            warnings.warn(text, RuntimeWarning, stacklevel=3)


class Restart:
    """A checkpoint to restart from. Reading is not collective: every rank reads what it needs."""

    def __init__(self, restart: _knarr.CheckpointRestart) -> None:
        self._restart = restart
        self.step, self.ranks, path = restart.about()
        self.path = Path(path)

    @property
    def arrays(self) -> dict[str, StoredArray]:
        """What there is, by name."""
        return {
            name: StoredArray(DTYPES[dtype].newbyteorder("="), None if shape is None else tuple(shape))
            for name, dtype, shape in self._restart.arrays()
        }

    def read(
        self,
        name: str,
        start: Sequence[int] | None = None,
        count: Sequence[int] | None = None,
        *,
        rank: int | None = None,
        dtype: Any = None,
        out: Array | None = None,
    ) -> Array:
        """The part of a global array from ``start`` on with the shape ``count``; all of it if nothing is said.

        Of arrays that each rank has of its own, that of this rank or of ``rank``. With ``out``, a C-contiguous array of
        the same type and shape, the values are put there. ``dtype`` (or that of ``out``) may be complex for floats
        whose last axis is one of two, real and imaginary part, and ``bool`` for integers of one byte. Raises
        ``ValueError`` if a part was handed over by no rank, ``KnarrError`` if it is damaged.
        """
        stored, shape = self._restart.describe(name)
        meant = _meant(out.dtype if dtype is None and out is not None else dtype, DTYPES[stored])
        parts = _parts(meant)
        if shape is None:
            if start is not None or count is not None:
                raise ValueError(f"array '{name}' is each rank's own: it has no regions")
            array = _array(name, out, meant, self._restart.own_shape(name, rank), parts)
            self._restart.read_own(name, rank, _bytes(array))
            return array
        if rank is not None:
            raise ValueError(f"array '{name}' is global: give 'start' and 'count' instead of 'rank'")
        begin = [0] * len(shape) if start is None else _extents(start) + [0] * len(parts)
        if count is None:
            wanted = [max(n - first, 0) for n, first in zip(shape, begin, strict=True)]
        else:
            wanted = _extents(count) + parts
        array = _array(name, out, meant, wanted, parts)
        self._restart.read(name, begin, wanted, _bytes(array))
        return array

    def restore_files(self, directory: str | PathLike[str], *, force: bool = False) -> list[Path]:
        """Brings back the files that this rank added, below ``directory``, on as many ranks as made the checkpoint."""
        return [Path(path) for path in self._restart.restore_files(fspath(directory), force)]


def _extents(numbers: Sequence[int]) -> list[int]:
    """Whole numbers, which nothing is rounded to."""
    return [index(n) for n in numbers]


def _bytes(array: Array) -> Array:
    """The bytes of a contiguous array, in place."""
    return array.reshape(-1).view(np.uint8)


def _parts(dtype: np.dtype[Any]) -> list[int]:
    """The axes that the numbers of an array have beside its own."""
    return [2] if dtype.kind == "c" else []


def _numbers(array: Array) -> tuple[Array, list[int]]:
    """An array as numbers that are served, and the axes that it has more for that."""
    if array.dtype.kind == "b":
        return array.view(np.uint8), []
    parts = _parts(array.dtype)
    if not parts:
        return array, parts
    whole = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    return whole.reshape(-1).view(whole.real.dtype).reshape(*array.shape, *parts), parts


def _meant(dtype: Any, stored: np.dtype[Any]) -> np.dtype[Any]:
    """As which type stored numbers are read."""
    stored = stored.newbyteorder("=")
    if dtype is None:
        return stored
    meant = np.dtype(dtype)
    is_pair = meant.kind == "c" and stored.kind == "f" and meant.itemsize == 2 * stored.itemsize
    is_truth = meant.kind == "b" and stored.kind in "iu" and stored.itemsize == 1
    return meant.newbyteorder("=") if is_pair or is_truth else stored


def _array(name: str, out: Array | None, wanted: np.dtype[Any], stored: Sequence[int], parts: list[int]) -> Array:
    if list(stored[len(stored) - len(parts) :]) != parts:
        raise ValueError(f"array '{name}' of shape {tuple(stored)} has no last axis of real and imaginary part")
    shape = stored[: len(stored) - len(parts)]
    if out is None:
        return np.empty(shape, wanted)
    if out.dtype != wanted or out.shape != tuple(shape) or not out.flags.c_contiguous or not out.flags.writeable:
        raise ValueError(f"array '{name}' needs a writeable C-contiguous 'out' of {wanted} and shape {tuple(shape)}")
    return out
