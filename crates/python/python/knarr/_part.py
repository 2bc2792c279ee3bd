"""A part of a Zarr store that is there, written from a dataset of xarray."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import fspath
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from . import _knarr
from ._files import Path
from ._values import SMALL, Values, is_number

if TYPE_CHECKING:
    import xarray

Region = Mapping[Hashable, slice | Literal["auto"]] | Literal["auto"]


@dataclass(frozen=True)
class Part:
    """What was written of a store: bytes of values and of objects, and seconds of wall time.

    ``rewritten`` of the ``objects`` hold elements beside the region, too: they were read, merged and written anew.
    """

    input_bytes: int
    output_bytes: int
    objects: int
    rewritten: int
    seconds: float
    observed: dict[str, dict[str, Any]] = field(repr=False)
    """Per rounded array the largest errors, ``max_abs`` and ``max_rel``."""


def write_part(
    ds: xarray.Dataset,
    output: Path,
    *,
    region: Region | None,
    append_dim: Hashable | None,
    safe_chunks: bool,
    wishes: str,
    progress: Callable[[str, int, int], None] | None,
) -> Part:
    """Writes ``ds`` into the arrays of the store ``output``, as ``ds.to_zarr`` does."""
    begin = time.monotonic()
    stored = _knarr.StoredZarr(output, wishes)
    # Two that append at once would begin at the same place.
    with _held(stored, append_dim is not None and safe_chunks) as is_held:
        part = Writing(ds, stored, region, append_dim)
        sharing = safe_chunks and append_dim is None
        report = part.write(sharing, is_held, progress)
        stored.put_all(part.overlay.grown(part.shapes) if append_dim is not None else [])
    return Part(seconds=time.monotonic() - begin, **report)


@contextmanager
def _held(stored: _knarr.StoredZarr, wanted: bool) -> Iterator[bool]:
    is_held = wanted and stored.hold()
    try:
        yield is_held
    finally:
        if is_held:
            stored.release()


class Writing(Values):
    """The writer that xarray gives encoded arrays to. Those of codecs that Knarr has are kept for it; zarr-python
    writes the others, object by object.
    """

    def __init__(
        self, ds: xarray.Dataset, stored: _knarr.StoredZarr, region: Region | None, append_dim: Hashable | None
    ) -> None:
        from xarray import backends

        from ._overlay import Overlay

        super().__init__()
        self.stored, self.overlay = stored, Overlay(stored)
        self.starts: list[list[int]] = []
        self.others: list[tuple[Any, Any, tuple[slice, ...]]] = []
        # Of all arrays that are written.
        self.shapes: dict[str, tuple[int, ...]] = {}
        if append_dim is not None:
            self.overlay.settle(append_dim)
            ds = ds.drop_vars([name for name, variable in ds.variables.items() if append_dim not in variable.dims])
        store = backends.ZarrStore.open_group(
            self.overlay,
            "r+",
            append_dim=append_dim,
            write_region=dict(region) if isinstance(region, Mapping) else region,
            safe_chunks=False,
            zarr_format=3,
            # What is nothing but fill is written, too: it replaces what is there.
            write_empty=True,
        )
        if append_dim is not None:
            _check_all_grow(store, ds, append_dim)
        store._validate_and_autodetect_region(ds).dump_to_store(store, writer=self)

    def add(self, source: Any, target: Any, region: tuple[slice, ...] | None = None) -> None:
        """Takes the values for a region of an array, as xarray's writers do."""
        assert region is not None
        bounds = [one.indices(length) for one, length in zip(region, target.shape, strict=True)]
        place = tuple(slice(start, stop) for start, stop, _ in bounds)
        self.shapes[target.path] = target.shape
        if source.size == 0:
            return
        if is_number(source) and self.stored.is_own(f"/{target.path}"):
            if source.nbytes <= SMALL:
                source = np.asarray(source)
            source = _converted(source, target)
            self.paths.append(f"/{target.path}")
            self.arrays.append(source)
            self.starts.append([one.start for one in place])
        else:
            self.others.append((source, target, place))

    def write(self, sharing: bool, is_held: bool, progress: Callable[[str, int, int], None] | None) -> dict[str, Any]:
        """Writes everything; returns the report."""
        described = [
            (*one, start, list(self.shapes[one[0].lstrip("/")]))
            for one, start in zip(self.described(), self.starts, strict=True)
        ]
        with self.computing():
            report = json.loads(self.stored.write(described, self.compute, sharing, progress))
            for source, target, place in self.others:
                for part, is_whole in _objects(target, place):
                    self.write_other(source, target, (place, part), sharing and not is_held and not is_whole)
                    report["objects"] += 1
                    report["rewritten"] += not is_whole
                report["input_bytes"] += source.nbytes
        report["output_bytes"] += self.overlay.written
        return report

    def write_other(
        self, source: Any, target: Any, where: tuple[tuple[slice, ...], tuple[slice, ...]], is_shared: bool
    ) -> None:
        """Has zarr-python write an object: what the second region has of it. The first is that of all values."""
        place, part = where
        values = source[tuple(slice(p.start - at.start, p.stop - at.start) for p, at in zip(part, place, strict=True))]
        values = np.asarray(values.compute(**self.scheduling) if hasattr(values, "dask") else values)
        with _held(self.stored, is_shared) as is_held:
            if is_shared and not is_held:
                raise ValueError(
                    f"variable {target.path!r}: the region covers objects of {_extents(target)} elements in part, "
                    "which others may write at the same time, and this store cannot be locked: let regions begin and "
                    "end where such objects do, or say that nobody else writes them (safe_chunks=False)"
                )
            target[part] = values


def _converted(source: Any, target: Any) -> Any:
    """The values in the type of the array, if they are the same there: xarray makes wider integers of Dask's times."""
    wanted = target.dtype.newbyteorder("=")
    if source.dtype.newbyteorder("=") == wanted:
        return source
    if isinstance(source, np.ndarray) and source.dtype.kind == wanted.kind:
        converted = source.astype(wanted)
        if np.array_equal(converted, source, equal_nan=wanted.kind == "f"):
            return converted
    raise TypeError(
        f"variable {target.path!r} is of type {source.dtype}, the array of the store of {wanted}: "
        f"convert it (ds[{target.path!r}].astype({wanted.name!r}))"
    )


def _extents(target: Any) -> tuple[int, ...]:
    """Shape of the objects of an array of zarr-python."""
    return tuple(target.shards or target.chunks)


def _objects(target: Any, place: tuple[slice, ...]) -> Iterator[tuple[tuple[slice, ...], bool]]:
    """What each object has of a region, and whether that is all of the object."""
    along = []
    for one, extent, length in zip(place, _extents(target), target.shape, strict=True):
        cuts = []
        for first in range(one.start // extent * extent, one.stop, extent):
            last = min(first + extent, length)
            cut = slice(max(one.start, first), min(one.stop, last))
            cuts.append((cut, (cut.start, cut.stop) == (first, last)))
        along.append(cuts)
    for parts in itertools.product(*along):
        yield tuple(part for part, _ in parts), all(is_whole for _, is_whole in parts)


def _check_all_grow(store: Any, ds: xarray.Dataset, append_dim: Hashable) -> None:
    """Refuses to let some arrays grow along a dimension and others not: nobody could open the store."""
    names = {name for name, variable in store.get_variables().items() if append_dim in variable.dims}
    if not names:
        raise ValueError(f"append_dim: no array of the store has a dimension {append_dim!r}")
    if missing := sorted(names - set(ds.variables)):
        raise ValueError(
            f"the store has {', '.join(missing)} along {append_dim!r}, too, and the dataset has not: "
            "all arrays along a dimension grow together"
        )
    if added := sorted(str(name) for name in set(ds.variables) - names):
        raise ValueError(
            f"the store has no {', '.join(added)} along {append_dim!r}: drop what is not there "
            f"(ds.drop_vars({added!r}))"
        )


def refuse_options(output: Path, **given: Any) -> None:
    """Refuses what only a first write can be asked for."""
    name = fspath(output)
    kind = _knarr.output_kind(output, True)
    if kind != "zarr" or name.endswith(".zip"):
        raise ValueError(
            f"{name}: only Zarr stores, in directories and at s3://, are written in parts. Write a .zarr, or the whole "
            "dataset anew with force=True"
        )
    for option, value in given.items():
        if value:
            raise ValueError(
                f"{option} is for a first write: a part is written with the chains, chunks and bounds that the arrays "
                "of the store have"
            )
