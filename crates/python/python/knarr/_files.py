"""Files: repack, hash, verify."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from os import PathLike, fspath
from typing import Any, Unpack

from . import _knarr
from ._request import Portable, Quality, VariableWish, request

Path = str | PathLike[str]


@dataclass(frozen=True)
class Repacked:
    """What a repack did: sizes in bytes, seconds of wall time, the plan, and what was measured per variable.

    ``notes`` says what the output lost, what readers do not find from it, and wishes that were not met.
    """

    input_bytes: int
    output_bytes: int
    seconds: float
    reader: str
    notes: list[str]
    plan: dict[str, Any] = field(repr=False)
    measured: dict[str, Any] = field(repr=False)

    @property
    def ratio(self) -> float:
        """Input size over output size."""
        return self.input_bytes / self.output_bytes


def repack(
    source: Path,
    output: Path,
    *,
    goal: str | None = None,
    portable: Portable | None = None,
    chain: str | None = None,
    chunks: str | Mapping[str, int] | None = None,
    variables: Mapping[str, VariableWish] | None = None,
    plan: Path | None = None,
    jobs: int | None = None,
    max_mem: int | str | None = None,
    model: Path | None = None,
    force: bool = False,
    verify: bool = True,
    progress: Callable[[str, int, int], None] | None = None,
    **quality: Unpack[Quality],
) -> Repacked:
    """Writes the data of ``source`` smaller to ``output`` (.nc, .h5, .zarr or .zarr.zip).

    Either may be a URL: ``s3://``, ``https://`` and ``http://`` are read, Zarr stores are written to ``s3://``.

    Lossless unless a quality is stated: ``max_abs_error``, ``max_range_error``, ``max_rel_error``,
    ``finest_abs_error``, ``significant_bits``, ``significant_digits``; all that are stated hold for every element.
    ``exact_up_to`` and ``exact_from`` are limits beyond which values stay exact whatever the bounds allow.

    ``variables`` refines that for names and patterns: ``{"q*": {"significant_digits": 4}, "mask": {"quality":
    "lossless"}}``. A bound replaces the same bound of what is less exact, the others hold on.

    ``chunks`` is ``"auto"``, ``"keep"``, a shape such as ``"1x180x360"``, or lengths along dimensions:
    ``{"time": 12}``, as text ``"time/12"``.

    ``portable`` is the most demanding reader allowed: ``core`` (every HDF5, every Zarr v3 library), which .nc and .zarr
    files keep to by themselves, ``standard`` (the filters of ``hdf5plugin`` or of netCDF-C, the codecs of
    ``numcodecs``), the default for .h5, or ``knarr``.

    ``goal`` is ``"balanced"`` unless another one is named.

    ``plan`` is an earlier output, or the plan that was saved beside it (``OUT.knarr.json``). Its chains, chunks and
    bounds are used again, and nothing is chosen but for variables that it lacks. It excludes ``goal``, ``portable``,
    ``chain``, ``chunks``, ``variables`` and bounds.

    ``max_mem`` is a number of bytes, or text such as ``"512M"`` or ``"4G"``.

    ``model`` is a file written by ``knarr train``.

    ``progress(phase, done_bytes, total_bytes)`` is called now and then from a worker thread; if it raises, the work
    stops and nothing is left behind. The GIL is released meanwhile.

    Warns of every one of the result's ``notes``.
    """
    wishes = repack_request(
        goal=goal,
        portable=portable,
        chain=chain,
        chunks=chunks,
        variables=variables,
        plan=plan,
        jobs=jobs,
        max_mem=max_mem,
        model=model,
        force=force,
        verify=verify,
        quality=quality,
    )
    command = f"knarr.repack({fspath(source)!r}, {fspath(output)!r}, **{wishes})"
    return repacked(_knarr.repack(source, output, wishes, command, now(), progress))


def repack_request(
    *,
    goal: str | None,
    portable: Portable | None,
    chain: str | None,
    chunks: str | Mapping[str, int] | None,
    variables: Mapping[str, VariableWish] | None,
    plan: Path | None,
    jobs: int | None,
    max_mem: int | str | None,
    model: Path | None,
    force: bool,
    verify: bool,
    quality: Quality,
) -> str:
    """The request of a call that writes a file.

    Raises ``ValueError`` if a plan is named together with what it says itself.
    """
    if plan is not None:
        asked = {
            "goal": goal,
            "portable": portable,
            "chain": chain,
            "chunks": chunks,
            "variables": variables,
            **quality,
        }
        if others := [name for name, value in asked.items() if value is not None]:
            raise ValueError(f"plan and {others[0]} exclude each other: a plan says that, too")
    return request(
        goal=goal,
        portable=portable,
        quality=quality,
        chain=chain,
        chunks=chunks,
        variables=variables,
        plan=None if plan is None else fspath(plan),
        jobs=jobs,
        max_mem=max_mem,
        model=None if model is None else fspath(model),
        force=force,
        verify=verify,
    )


def now() -> str:
    """The time for ``history``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def repacked(report: str) -> Repacked:
    """What the native half reports. Warns the caller's caller of every note."""
    found = json.loads(report)
    for note in found["notes"]:
        warnings.warn(note, stacklevel=3)
    result = found["result"]
    return Repacked(
        input_bytes=result["input_bytes"],
        output_bytes=result["output_bytes"],
        seconds=result["seconds"],
        reader=result["reader"],
        notes=found["notes"],
        plan=found["plan"],
        measured=result["execution"]["variables"],
    )


def content_hash(path: Path) -> dict[str, Any]:
    """Content hash of a file and its variables; independent of chunks, chain and container."""
    found = json.loads(_knarr.content_hash(path))
    variables = {one["path"].lstrip("/"): one["hash"].get("Ok") for one in found["variables"]}
    return {"hash": found["hash"], "variables": variables}


@dataclass(frozen=True)
class Verified:
    """What a comparison of two files found; true if nothing differs that should not."""

    equal: bool
    """Every variable has equal bits or keeps its promised bound, and nothing else differs."""
    variables: list[dict[str, Any]] = field(repr=False)
    """Per variable ``path``, ``difference``, ``promised`` and ``observed``, the largest errors."""
    metadata: list[dict[str, str]] = field(repr=False)
    """``place`` and ``what`` of each difference of groups, dimensions, types and attributes."""

    def __bool__(self) -> bool:
        return self.equal


def verify(original: Path, copy: Path, *, values_only: bool = False) -> Verified:
    """Compares two files as the command ``knarr verify`` does: values by variable, then everything else.

    ``values_only`` leaves out dimensions, types and attributes.
    """
    return Verified(**json.loads(_knarr.verify(original, copy, values_only)))
