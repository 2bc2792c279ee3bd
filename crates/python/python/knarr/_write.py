"""Datasets of xarray, written with chains that Knarr chooses."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from os import fspath
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from . import _knarr
from ._arrays import NAMES
from ._files import Path, Repacked, now, repack_request, repacked
from ._request import Portable, Quality, VariableWish
from ._sample import trailing, within

if TYPE_CHECKING:
    import xarray

# How a file was stored that a dataset was read from. Knarr chooses that anew.
STORAGE = frozenset({
    "blosc_shuffle", "chunks", "chunksizes", "complevel", "compression", "compression_opts", "compressor",
    "compressors", "contiguous", "endian", "filters", "fletcher32", "least_significant_digit", "original_shape",
    "preferred_chunks", "quantize_mode", "serializer", "shards", "shuffle", "significant_digits", "source", "szip",
    "szip_coding", "szip_pixels_per_block", "zlib",
})  # fmt: skip
# Arrays of at most so many bytes are written with the header.
SMALL = 64 << 10
# Blocks of more are cut into chunks of about so many bytes.
LARGEST_CHUNK, CHUNK = 16 << 20, 1 << 20


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
    jobs: int | None = None,
    max_mem: int | str | None = None,
    model: Path | None = None,
    force: bool = False,
    verify: bool = True,
    progress: Callable[[str, int, int], None] | None = None,
    **quality: Unpack[Quality],
) -> Repacked:
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

    Returns sizes, seconds and what a reader needs; ``input_bytes`` are those of the values. Warns of every one of the
    result's ``notes``.
    """
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
    kind = _knarr.output_kind(output, force)
    unlimited = _unlimited(groups, unlimited_dims, kind)
    command = f"knarr.write(ds, {fspath(output)!r}, **{wishes})"
    with tempfile.TemporaryDirectory(prefix="knarr-") as directory:
        header = os.path.join(directory, "header." + ("zarr" if kind == "zarr" else "nc"))
        values = Values()
        _write_header(groups, header, kind, unlimited, values)
        with values.computing():
            report = _knarr.write(header, output, values.described(), values.compute, wishes, command, now(), progress)
    return repacked(report)


class Values:
    """The writer that xarray gives encoded arrays to. It keeps large ones of numbers for later."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.arrays: list[Any] = []
        # The group that is being written, and its variables that grow as they are written.
        self.group = ""
        self.growing: set[str] = set()
        self.scheduling: dict[str, Any] = {}

    def add(self, source: Any, target: Any, region: object = None) -> None:
        """Takes the values of a variable of the header, as xarray's writers do."""
        is_number = source.dtype.kind in "iufb" and source.dtype.newbyteorder("=").name in (*NAMES, "bool")
        if not is_number or source.size * source.dtype.itemsize <= SMALL:
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

    def described(self) -> list[tuple[str, str, list[int], tuple[list[list[int]], list[int]] | None]]:
        """Path, type and shape of each variable that is kept, and lengths and chunks of its blocks."""
        return [
            (path, _stored_type(array), list(array.shape), _divided(array))
            for path, array in zip(self.paths, self.arrays, strict=True)
        ]

    def compute(self, number: int, start: list[int], stop: list[int]) -> np.ndarray[Any, Any]:
        """The bytes of a region, little-endian."""
        array = self.arrays[number]
        part = array[tuple(map(slice, start, stop))]
        values = np.asarray(part.compute(**self.scheduling) if hasattr(part, "dask") else part)
        shape = tuple(b - a for a, b in zip(start, stop, strict=True))
        if values.dtype.newbyteorder("=") != array.dtype.newbyteorder("=") or values.shape != shape:
            raise ValueError(
                f"a block of {self.paths[number][1:]!r} was computed as {values.dtype} of shape {values.shape}, but "
                f"Dask says that it is {array.dtype} of shape {shape}"
            )
        little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
        return little.reshape(-1).view(np.uint8)

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """One pool for all threads that compute: Dask's threaded scheduler would start one for each of them."""
        if all(_blocks(array) is None for array in self.arrays):
            yield
            return
        import dask

        is_threaded = dask.config.get("scheduler", None) in (None, "threads", "threading")
        if not is_threaded or dask.config.get("pool", None) is not None:
            yield
            return
        with ThreadPoolExecutor(dask.config.get("num_workers", None) or os.cpu_count()) as pool:
            self.scheduling = {"pool": pool}
            yield


def _blocks(array: Any) -> list[list[int]] | None:
    """Lengths of Dask's blocks along each axis."""
    chunks = getattr(array, "chunks", None)
    return None if chunks is None else [[int(length) for length in lengths] for lengths in chunks]


def _divided(array: Any) -> tuple[list[list[int]], list[int]] | None:
    """Lengths of Dask's blocks along each axis, and the shape of chunks. Those are the blocks if they are small enough,
    and otherwise parts of them: a chunk that lies across blocks needs them all at once.
    """
    if (blocks := _blocks(array)) is None:
        return None
    largest = [max(lengths) for lengths in blocks]
    if math.prod(largest) * array.dtype.itemsize > LARGEST_CHUNK:
        return blocks, list(within(array.chunks, array.dtype.itemsize, CHUNK))
    return blocks, largest


def _stored_type(array: Any) -> str:
    return "i8" if array.dtype.kind == "b" else NAMES[array.dtype.newbyteorder("=").name]


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
    values: Values,
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
