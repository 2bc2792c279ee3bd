"""A dataset of Dask arrays written by `knarr.write`, beside xarray's own `to_netcdf` and `to_zarr`."""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from measure import Measurement, median, run_measured

# All ways get blocks of about 1 MiB, which become the chunks: some variables of the input repeat themselves after a few
# MiB, and one chunk that holds them all would show how often.
PROGRAM = """
import sys, xarray
def in_blocks(one):
    steps = (1 << 20) // max(1, one.nbytes // one.shape[0])
    return one.chunk({one.dims[0]: max(1, steps)})
with xarray.open_dataset(sys.argv[1], engine="netcdf4", chunks={}, decode_cf=False) as ds:
    out, how = sys.argv[2:4]
    ds = ds.assign({name: in_blocks(one) for name, one in ds.data_vars.items() if one.nbytes > 1 << 20})
    for variable in ds.variables.values():
        variable.encoding = {"chunksizes": [max(sizes) for sizes in variable.chunks]} if variable.chunks else {}
    if how == "knarr":
        import knarr
        knarr.write(ds, out)
    elif how == "netcdf4":
        encoding = {
            name: {"zlib": True, "complevel": 1, "shuffle": True, **one.encoding}
            for name, one in ds.data_vars.items() if one.ndim and one.dtype.kind in "iuf"
        }
        ds.to_netcdf(out, engine="netcdf4", encoding=encoding)
    else:
        ds.to_zarr(out, zarr_format=3)
"""
# Reads back what was written, and compares every bit.
SAME = """
import sys, numpy, xarray
a, b = (xarray.open_dataset(path, decode_cf=False, chunks="auto") for path in sys.argv[1:])
assert set(a.variables) == set(b.variables)
for name, one in a.variables.items():
    x, y = (numpy.ascontiguousarray(ds.variables[name].compute()) for ds in (a, b))
    assert x.shape == y.shape and x.tobytes() == y.astype(x.dtype).tobytes(), name
"""
WAYS = {
    "knarr.write to netCDF-4": ("nc", "knarr"),
    "to_netcdf, shuffle and deflate 1": ("nc", "netcdf4"),
    "knarr.write to Zarr": ("zarr", "knarr"),
    "to_zarr": ("zarr", "zarr"),
}


@dataclass
class Result:
    """One way, with what it cost in each round."""

    name: str
    runs: list[Measurement]
    megabytes: float
    """What was written, in MB of 1e6 bytes."""


def compare(source: Path, repeats: int, say: Callable[[str], None]) -> list[Result]:
    """Every way, `repeats` times, in random order. What is written is compared with the input once."""
    results: dict[str, Result] = {}
    shuffled = random.Random(1)
    for number in range(repeats):
        for name in shuffled.sample(list(WAYS), len(WAYS)):
            suffix, how = WAYS[name]
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / f"out.{suffix}"
                measured = run_measured([sys.executable, "-c", PROGRAM, str(source), str(out), how])
                if measured.exit_code != 0:
                    raise RuntimeError(f"{name} failed")
                if number == 0:
                    if run_measured([sys.executable, "-c", SAME, str(source), str(out)]).exit_code != 0:
                        raise RuntimeError(f"{name} wrote other values")
                    results[name] = Result(name, [], size_of(out) / 1e6)
            results[name].runs.append(measured)
            say(f"round {number + 1}: {name}: {measured.wall_s:.2f} s")
    return [results[name] for name in WAYS]


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files of a store."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def table(results: list[Result]) -> str:
    lines = ["| way | wall s | CPU s | peak MB | written MB |", "|---|---:|---:|---:|---:|"]
    for result in results:
        middle = median(result.runs)
        lines.append(
            f"| {result.name} | {middle.wall_s:.2f} | {middle.cpu_s:.2f} | {middle.peak_rss_mb:.0f} "
            f"| {result.megabytes:.1f} |"
        )
    return "\n".join(lines)
