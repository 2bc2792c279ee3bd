"""Datasets of xarray, written with chains that Knarr chooses."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Hashable, Iterable, Mapping
from os import fspath
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from . import _knarr
from ._files import Path, Repacked, now, repack_request, repacked
from ._part import Part, Region, refuse_options, write_part
from ._request import Portable, Quality, VariableWish
from ._sample import trailing
from ._values import SMALL, Values, is_number

if TYPE_CHECKING:
    import xarray

# How a file was stored that a dataset was read from. Knarr chooses that anew.
STORAGE = frozenset({
    "blosc_shuffle", "chunks", "chunksizes", "complevel", "compression", "compression_opts", "compressor",
    "compressors", "contiguous", "endian", "filters", "fletcher32", "least_significant_digit", "original_shape",
    "preferred_chunks", "quantize_mode", "serializer", "shards", "shuffle", "significant_digits", "source", "szip",
    "szip_coding", "szip_pixels_per_block", "zlib",
})  # fmt: skip


def write(
    ds: xarray.Dataset | xarray.DataTree,
    output: Path,
    *,
    goal: str | None = None,
    portable: Portable | None = None,
    chain: str | None = None,
    chunks: str | Mapping[str, int] | None = None,
    variables: Mapping[str, VariableWish] | None = None,
    plan: Path | None = None,
    unlimited_dims: Iterable[Hashable] | None = None,
    region: Region | None = None,
    append_dim: Hashable | None = None,
    safe_chunks: bool = True,
    compute: bool = True,
    jobs: int | None = None,
    max_mem: int | str | None = None,
    model: Path | None = None,
    force: bool = False,
    verify: bool = True,
    progress: Callable[[str, int, int], None] | None = None,
    **quality: Unpack[Quality],
) -> Repacked | Part:
    """Writes a dataset, or a tree of them, to ``output``: netCDF-4 (.nc), HDF5 (.h5) or a Zarr v3 store (.zarr, also at
    ``s3://``).

    >>> knarr.write(ds, "out.nc", variables={"T": {"max_abs_error": 0.01}})

    The chain of each variable is chosen as by :func:`knarr.repack`, whose arguments these are. Every chunk is proven,
    and the output appears under its name when it is complete, or not at all. Lossless unless a quality is stated.

    Variables, dimensions and attributes are those that ``ds.to_netcdf`` or ``ds.to_zarr`` would write, by xarray
    itself: times, ``_FillValue``, ``scale_factor`` and the like are encoded as the variables' ``encoding`` says. What
    it says of chunks and compression is not used; ``chunks`` and ``chain`` are for that. Writing netCDF needs
    ``netCDF4`` or ``h5netcdf``, writing Zarr ``zarr``.

    ``unlimited_dims`` are the dimensions of a netCDF or HDF5 file that can grow; by default those of
    ``ds.encoding["unlimited_dims"]``.

    The dataset may be larger than memory if it is made of Dask arrays. Their blocks are computed while others are
    encoded, by the scheduler that Dask is configured to use, at most ``jobs`` at a time. Blocks that wait to be encoded
    take a quarter of ``max_mem``, or two blocks. A few blocks are computed twice, because the choice needs samples.
    Small variables, and those that are no numbers, are computed as a whole. Other arrays that are not in memory yet are
    loaded.

    ``progress(phase, done_bytes, total_bytes)`` is called now and then from a worker thread. If it raises, if a block
    cannot be computed, or at Ctrl-C, the work stops when the blocks under way are computed, and nothing is left behind.
    The exception is passed on.

    ``compute=False`` writes a Zarr store without the values of Dask arrays, for workers that write regions of it. Their
    chain is ``chain``, or a common one: there is nothing yet to choose by.

    ``region`` and ``append_dim`` write into the arrays of a Zarr store that is there, as ``ds.to_zarr`` does: a dict of
    slices by dimension, or ``"auto"``, and a dimension along which the arrays grow. Chains, chunks and bounds are those
    of the store. Objects, chunks or shards, are replaced one by one. What the region has only some elements of is read
    and written anew, with the store locked. A store that cannot be locked, such as one at ``s3://``, refuses that
    unless ``safe_chunks=False`` says that nobody else writes there.

    Returns sizes, seconds and what a reader needs; ``input_bytes`` are those of the values. Warns of every one of the
    result's ``notes``. Of a region or what was appended it returns a :class:`knarr.Part`.
    """
    is_part = region is not None or append_dim is not None
    if is_part:
        _check_part(ds, region, append_dim, compute)
        refuse_options(
            output,
            goal=goal,
            portable=portable,
            chain=chain,
            chunks=chunks,
            plan=plan,
            model=model,
            unlimited_dims=unlimited_dims,
            force=force,
            variables=any({"chain", "chunks", "quality"} & set(wish) for wish in (variables or {}).values()),
        )
    groups = _groups(ds)
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
    if is_part:
        return write_part(
            groups["/"],
            output,
            region=region,
            append_dim=append_dim,
            safe_chunks=safe_chunks,
            wishes=wishes,
            progress=progress,
        )
    kind = _knarr.output_kind(output, force)
    if not compute and kind != "zarr":
        raise ValueError(f"{fspath(output)}: compute=False is for Zarr stores, which workers can fill")
    unlimited = _unlimited(groups, unlimited_dims, kind)
    command = f"knarr.write(ds, {fspath(output)!r}, **{wishes})"
    with tempfile.TemporaryDirectory(prefix="knarr-") as directory:
        header = os.path.join(directory, "header." + ("zarr" if kind == "zarr" else "nc"))
        values = Header(compute)
        _write_header(groups, header, kind, unlimited, values)
        with values.computing():
            report = _knarr.write(
                header, output, values.described_with_later(), values.compute, wishes, command, now(), progress
            )
    return repacked(report)


def _check_part(ds: Any, region: Region | None, append_dim: Hashable | None, compute: bool) -> None:
    import xarray

    if isinstance(ds, xarray.DataTree):
        raise TypeError("a DataTree is written as a whole: give the dataset of one group of a store that has no others")
    if region is not None and append_dim is not None:
        raise ValueError("region and append_dim exclude each other: append first, then write regions of what has grown")
    if not compute:
        raise ValueError("compute=False is for a first write, which describes the store that regions are written to")


class Header(Values):
    """The writer that xarray gives encoded arrays to. It keeps large ones of numbers, and all of Dask unless they are
    to be computed: others write those later.
    """

    def __init__(self, compute: bool) -> None:
        super().__init__()
        self.is_computed = compute
        self.later: list[bool] = []
        # The group that is being written, and its variables that grow as they are written.
        self.group = ""
        self.growing: set[str] = set()

    def add(self, source: Any, target: Any, region: object = None) -> None:
        """Takes the values of a variable of the header, as xarray's writers do."""
        is_later = not self.is_computed and hasattr(source, "dask")
        if not is_number(source) or (source.size * source.dtype.itemsize <= SMALL and not is_later):
            if not is_later:
                target[...] = np.asarray(source)
            return
        name = getattr(target, "variable_name", None)
        if name is None:
            self.paths.append(f"/{target.path}")
        else:
            self.paths.append(f"{self.group}/{name}")
            if name in self.growing:
                last = tuple(slice(length - 1, length) for length in source.shape)
                target[last] = np.zeros((1,) * source.ndim, source.dtype)
        self.arrays.append(source)
        self.later.append(is_later)

    def described_with_later(self) -> list[tuple[Any, ...]]:
        """As :meth:`described`, with whether others write the values later."""
        return [(*one, is_later) for one, is_later in zip(self.described(), self.later, strict=True)]


def _groups(ds: Any) -> dict[str, xarray.Dataset]:
    """The datasets by group, parents first."""
    import xarray

    if isinstance(ds, xarray.Dataset):
        return {"/": ds}
    if isinstance(ds, xarray.DataTree):
        # A branch of a tree becomes the root, with the coordinates that it inherits.
        branches = [node for node in ds.subtree if node is not ds]
        return {"/": ds.to_dataset()} | {
            f"/{node.relative_to(ds)}": node.to_dataset(inherit=False) for node in branches
        }
    raise TypeError(f"{type(ds).__name__} is no Dataset: give one, of a DataArray da.to_dataset(name='values')")


def _unlimited(
    groups: Mapping[str, xarray.Dataset], asked: Iterable[Hashable] | None, kind: str
) -> dict[str, set[Hashable]] | None:
    """Per group, as ``to_netcdf`` takes them: of those in ``encoding`` a dataset need not have all."""
    if kind == "zarr":
        if asked:
            raise ValueError("unlimited_dims: Zarr does not know such; every dimension of a store can grow")
        return None
    names = None if asked is None else {asked} if isinstance(asked, str) else set(asked)
    for name in names or ():
        if not any(name in ds.dims for ds in groups.values()):
            raise ValueError(f"unlimited_dims: the dataset has no dimension {name}")
    return {
        group: set(ds.encoding.get("unlimited_dims", ()) if names is None else names).intersection(ds.dims)
        for group, ds in groups.items()
    }


def _write_header(
    groups: Mapping[str, xarray.Dataset],
    header: str,
    kind: str,
    unlimited: Mapping[str, set[Hashable]] | None,
    values: Header,
) -> None:
    """Everything but the values that ``values`` keeps, as xarray writes it."""
    for group, ds in groups.items():
        grows = unlimited[group] if unlimited is not None else set()
        described = ds.copy(deep=False)
        values.group, values.growing = group.rstrip("/"), set()
        for name, variable in described.variables.items():
            if not isinstance(name, str) or not name:
                raise TypeError(f"variable {name!r} has a name that is no text, or empty: rename it")
            variable.encoding = _encoding(variable, kind)
            if grows.intersection(variable.dims):
                values.growing.add(name)
                # One chunk is written with the header.
                chunk = trailing(variable.shape, variable.dtype.itemsize, SMALL)
                variable.encoding["chunksizes"] = tuple(max(length, 1) for length in chunk)
        store = _open_store(header, kind, group)
        try:
            described.dump_to_store(store, writer=values, unlimited_dims=grows or None)
        finally:
            store.close()


def _encoding(variable: xarray.Variable, kind: str) -> dict[str, Any]:
    """The encoding of a variable in the header."""
    encoding = {key: value for key, value in variable.encoding.items() if key not in STORAGE}
    stored = np.dtype(encoding.get("dtype", variable.dtype))
    if stored.kind in "iuf" and not stored.isnative:
        encoding["dtype"] = stored.newbyteorder("=")
    if kind == "zarr":
        # Dask's blocks need not be even for that.
        encoding["chunks"] = tuple(max(length, 1) for length in variable.shape)
    return encoding


def _open_store(header: str, kind: str, group: str) -> Any:
    """A store of xarray for one group. The root comes first, and makes the header."""
    from xarray import backends

    mode: Any = "w" if group == "/" else "a"
    if kind == "zarr":
        return backends.ZarrStore.open_group(header, mode, group=group, zarr_format=3, safe_chunks=False)
    try:
        import netCDF4  # noqa: F401
    except ImportError:
        return backends.H5NetCDFStore.open(header, mode, group=group)
    return backends.NetCDF4DataStore.open(header, mode, group=group)
