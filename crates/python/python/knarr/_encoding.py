"""Encodings for xarray: what ``to_netcdf`` and ``to_zarr`` take."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from . import _knarr
from ._advice import advise_values, fills_of
from ._arrays import NAMES
from ._request import Portable, request
from ._sample import LITTLE, stored, trailing, within

if TYPE_CHECKING:
    import xarray

Engine = Literal["h5netcdf", "netcdf4", "zarr"]

SHUFFLE, DEFLATE, BZIP2, ZSTD = 2, 1, 307, 32015
# How values are stored and which variables are related, in a variable's own encoding. xarray drops all of that for the
# encoding it is given.
CARRIED = (
    "_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "units", "calendar",
    "bounds", "cell_measures", "climatology", "formula_terms", "geometry", "grid_mapping",
    "interior_ring", "node_coordinates", "node_count", "part_node_count",
)  # fmt: skip
# Variables of less are not worth it; chunks have about so many bytes.
SMALL, CHUNK = 2048, 1 << 20


def encoding(
    ds: xarray.Dataset, engine: Engine = "h5netcdf", *, goal: str = "balanced", portable: Portable | None = None
) -> dict[str, dict[str, Any]]:
    """An ``encoding`` for every variable of ``ds`` that is worth encoding, lossless.

    >>> ds.to_netcdf("out.nc", engine="h5netcdf", encoding=knarr.encoding(ds, engine="h5netcdf"))

    The best chain that the engine can write is taken. By default every program opens the result: netCDF files hold
    deflate and shuffle, Zarr stores the codecs of the specification and zstd. ``portable="standard"`` allows the
    filters of netCDF-C's plugins (``h5netcdf`` then needs ``import hdf5plugin``, to write and to read; ``netcdf4``
    writes zstd and bzip2 without shuffle) and the codecs of ``numcodecs``.

    Chunks lie within Dask's. How a variable's own encoding stores its values stays: packing, fill values, units of
    time, names of related variables. Of a variable of more than 64 MiB a sample is read.
    """
    writers = {"h5netcdf": _h5netcdf, "netcdf4": _netcdf4, "zarr": _zarr}
    if not hasattr(ds, "data_vars"):
        raise TypeError(f"{type(ds).__name__} is no Dataset: give one, of a DataArray da.to_dataset(name='values')")
    if engine not in writers:
        raise ValueError(f"engine {engine!r} is not known; choose from {', '.join(writers)}")
    wishes = request(goal=goal, portable=portable, quality={})
    to = "zarr" if engine == "zarr" else "nc"
    found = {}
    for name, variable in ds.variables.items():
        seen = stored(variable)
        if seen is None or variable.size * seen.dtype.itemsize < SMALL:
            continue
        itemsize = seen.dtype.itemsize
        chunk = trailing(variable.shape, itemsize, CHUNK)
        is_left = False
        if engine == "zarr" and variable.chunks:
            largest = tuple(max(sizes) for sizes in variable.chunks)
            chunk = within(variable.chunks, itemsize, CHUNK)
            # Of blocks that have next to nothing in common, xarray says that they are to be made alike.
            is_left = chunk != largest and math.prod(chunk) * itemsize * LITTLE < CHUNK
        dtype = NAMES[seen.dtype.newbyteorder("=").name]
        forms = json.loads(_knarr.chain_forms(dtype, list(chunk), to, wishes))
        written = {chain: writers[engine](form, chunk) for chain, form in forms.items()}
        among = [chain for chain, keys in written.items() if keys is not None]
        choice = advise_values(seen.values, to, wishes, *fills_of(seen), among=among)
        best = next((one["chain"] for one in choice["candidates"] if one["dropped"] is None), None)
        if best is not None:
            keys = dict(written[best])
            if is_left:
                del keys["chunks"]
            found[str(name)] = keys | _carried(variable)
    return found


def _carried(variable: xarray.Variable) -> dict[str, Any]:
    own = variable.encoding
    carried = {key: own[key] for key in CARRIED if key in own}
    # The type in the file says no more than the values do, unless xarray turns them into it.
    if np.dtype(own.get("dtype", variable.dtype)).newbyteorder("=") != variable.dtype.newbyteorder("="):
        carried["dtype"] = own["dtype"]
    return carried


def _one_filter(forms: dict[str, Any]) -> tuple[bool, dict[str, Any]] | None:
    """Whether shuffle comes first, and the one other filter; ``None`` where the pipeline is anything else."""
    filters = forms["hdf5"]
    if not filters:
        return None
    shuffle = filters[0]["id"] == SHUFFLE
    rest = filters[1:] if shuffle else filters
    return (shuffle, rest[0]) if len(rest) == 1 else None


def _h5netcdf(forms: dict[str, Any], chunk: tuple[int, ...]) -> dict[str, Any] | None:
    found = _one_filter(forms)
    if found is None:
        return None
    shuffle, last = found
    keys: dict[str, Any] = {"chunksizes": chunk, "shuffle": shuffle}
    if last["id"] == DEFLATE:
        return {**keys, "compression": "gzip", "compression_opts": last["cd_values"][0]}
    return {**keys, "compression": last["id"], "compression_opts": tuple(last["cd_values"])}


def _netcdf4(forms: dict[str, Any], chunk: tuple[int, ...]) -> dict[str, Any] | None:
    found = _one_filter(forms)
    if found is None:
        return None
    shuffle, last = found
    names = {DEFLATE: "zlib", ZSTD: "zstd", BZIP2: "bzip2"}
    # netCDF4-python shuffles before zlib alone. netCDF-C's Blosc ends with an error at the first chunk that does not
    # get smaller.
    if last["id"] not in names or (shuffle and last["id"] != DEFLATE):
        return None
    how = {"compression": names[last["id"]], "complevel": last["cd_values"][0]}
    return {"chunksizes": chunk, "shuffle": shuffle, **how}


def _zarr(forms: dict[str, Any], chunk: tuple[int, ...]) -> dict[str, Any] | None:
    """Chains that begin with ``bytes`` alone: zarr-python hands chunks to array codecs of numcodecs (pcodec, delta) as
    they lie in memory, and those of a transposed dataset come back permuted.
    """
    codecs = forms["zarr"]
    if not codecs or codecs[0]["name"] != "bytes":
        return None
    return {"chunks": chunk, "filters": [], "serializer": codecs[0], "compressors": codecs[1:]}
