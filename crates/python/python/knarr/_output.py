"""Files that a program writes from all its ranks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from . import _knarr
from ._arrays import NAMES, unmasked
from ._request import Portable, Quality, VariableWish, request
from ._session import Session, native


@dataclass(frozen=True)
class Written:
    """A file that is complete: its path, bytes of its values and of the file, seconds from the commit on, and the
    longest time that a rank spent in calls before. ``notes`` says which wishes were not met, and what readers do not
    find.
    """

    path: Path
    raw_bytes: int
    output_bytes: int
    seconds: float
    blocked_seconds: float
    notes: list[str]


class Output(Session):
    """A file that all ranks of a program write together: netCDF-4 (.nc), HDF5 (.h5) or a Zarr v3 store (.zarr).

    >>> with knarr.Output("out.nc", comm) as output:
    ...     output.def_dim("x", 100)
    ...     output.def_var("T", "f4", ["x"], wishes={"max_abs_error": 0.01})
    ...     output.put("T", part, start=[first])

    All ranks of ``comm``, an mpi4py communicator, do the same; without it the program is one process.
    Knarr's messages go in a duplicate of it. :meth:`end_step`, :meth:`commit`, :meth:`test`, :meth:`wait` and
    :meth:`close` are collective. :meth:`put` copies, and each rank may put any regions. The file is made by a thread of
    rank 0 after the commit, as by :func:`knarr.repack`, whose ``goal``, ``portable``, ``chain``, ``chunks``, ``verify``
    and bounds these are. It appears under its name when it is complete, proven and on the disk, or not at all: an
    exception that leaves the ``with`` block gives it up.

    ``replace`` allows a file that is there. ``spool`` is a directory where values lie until the file is made: memory if
    nothing is said. ``jobs`` threads make the file, a quarter of the cores if nothing is said, and ``max_mem`` bytes
    they may take.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        comm: Any = None,
        *,
        goal: str | None = None,
        portable: Portable | None = None,
        chain: str | None = None,
        chunks: str | Mapping[str, int] | None = None,
        replace: bool = False,
        spool: str | PathLike[str] | None = None,
        jobs: int | None = None,
        max_mem: int | str | None = None,
        verify: bool = True,
        **quality: Unpack[Quality],
    ) -> None:
        wrong: Exception | None = None
        try:
            wishes = request(
                goal=goal,
                portable=portable,
                quality=quality,
                chain=chain,
                chunks=chunks,
                jobs=jobs,
                max_mem=max_mem,
                force=replace,
                verify=verify,
            )
        except (TypeError, ValueError) as error:
            # The other ranks would wait for this one: all of them refuse it together.
            wrong, wishes = error, ""
        super().__init__(comm)
        command = f"knarr.Output({fspath(path)!r}, **{wishes})"
        place = None if spool is None else fspath(spool)
        try:
            reason = None if wrong is None else str(wrong)
            self._session = _knarr.OutputSession(fspath(path), wishes, reason, place, command, self._places())
        except Exception as error:
            raise wrong or error from None

    def def_dim(self, name: str, length: int | None) -> None:
        """Defines a dimension. ``None``: it can grow, and is as long as what is put along it.

        Not collective, but all ranks define the same things in the same order, at any time before the commit.
        """
        with self._handing_over(f"dimension {name!r}"):
            self._session.def_dim(name, None if length is None else index(length))

    def def_var(
        self,
        name: str,
        dtype: Any,
        dimensions: Sequence[str],
        *,
        fill_value: Any = None,
        attributes: Mapping[str, Any] | None = None,
        wishes: VariableWish | None = None,
    ) -> None:
        """Defines a variable along dimensions that are defined, slowest first; as for :meth:`def_dim`.

        ``wishes`` are bounds, ``quality``, ``chain`` and ``chunks`` of this variable. What nobody puts is
        ``fill_value``, or else netCDF's own.
        """
        with self._handing_over(f"variable {name!r}"):
            kind = np.dtype(dtype)
            words = [(key, str(value)) for key, value in (wishes or {}).items() if value is not None]
            self._session.def_var(name, _type_name(kind), list(dimensions), words)
            if fill_value is not None:
                self._set(name, "_FillValue", np.array([fill_value]).astype(kind, casting="same_kind"))
            self.set_attributes(name, **(attributes or {}))

    def set_attributes(self, variable: str | None = None, /, **attributes: Any) -> None:
        """Sets attributes of a variable, or of the file: text, numbers, or arrays of numbers of one dimension."""
        for name, value in attributes.items():
            with self._handing_over(f"attribute {name!r}"):
                self._set(variable, name, value)

    def _set(self, variable: str | None, name: str, value: Any) -> None:
        if isinstance(value, str):
            self._session.set_text(variable, name, value)
            return
        numbers = np.atleast_1d(unmasked(value))
        if numbers.ndim != 1:
            raise TypeError("an attribute is text, a number, or an array of numbers of one dimension")
        little = np.ascontiguousarray(numbers, dtype=numbers.dtype.newbyteorder("<"))
        self._session.set_numbers(variable, name, _type_name(numbers.dtype), little.tobytes())

    def put(self, name: str, array: Any, *, start: Sequence[int] | None = None) -> None:
        """Copies an array, which may change at once: the region of variable ``name`` that begins at ``start``, or at
        the first element.

        Where regions overlap, what was put in a later step counts, in one step what the higher rank put, and of one
        rank the last. After an error the file is not written, whoever catches it.
        """
        with self._handing_over(f"variable {name!r}"):
            given = unmasked(array)
            _type_name(given.dtype)
            begin = None if start is None else [index(n) for n in start]
            self._session.put(name, *native(given), begin)

    def end_step(self) -> None:
        """Ends a step: what is put afterwards counts where it overlaps with what was put before.

        Raises the errors of all ranks, and where they define different things.
        """
        self._session.end_step()

    def commit(self) -> None:
        """Hands all values over and returns as soon as the file is being made."""
        self._session.commit()

    def test(self) -> bool:
        """True if the file is complete. Raises why there is none."""
        return self._session.test()

    def wait(self) -> Written:
        """Waits until the file is complete. Raises why there is none."""
        return _written(self._session.wait())

    def close(self) -> Written | None:
        """Commits the file unless that was done, and waits until it is complete. Warns of its notes.

        Returns ``None`` in a process that was forked, and the second time.
        """
        told = self._session.close(False)
        self._free()
        if told is None:
            return None
        written = _written(told)
        for note in written.notes:
            warnings.warn(note, stacklevel=2)
        return written


def _written(told: tuple[str, int, int, float, float, list[str]]) -> Written:
    return Written(Path(told[0]), *told[1:])


def _type_name(dtype: np.dtype[Any]) -> str:
    name = NAMES.get(dtype.newbyteorder("=").name)
    if name is None:
        raise TypeError(f"values of dtype {dtype} are not served; convert them to a number type first")
    return name
