"""Maps become series and series maps: `repack --chunks` against the tools that change chunks, and `hash` of both."""

from __future__ import annotations

from pathlib import Path

import netCDF4

from measure import cell, median, run_measured
from repack import KNARR, Contender, Result, compare

VARIABLE = "thetao"
MAP, SERIES = (1, 1, 90, 180), (276, 1, 15, 15)


def write_input(source: Path, target: Path, chunks: tuple[int, ...]) -> None:
    """The variable of `source` as shuffle and deflate 1 in chunks of another shape, by netCDF-C."""
    with netCDF4.Dataset(source) as original, netCDF4.Dataset(target, "w") as file:
        for one in (original, file):
            one.set_auto_maskandscale(False)
        variable = original[VARIABLE]
        for name in variable.dimensions:
            file.createDimension(name, len(original.dimensions[name]))
        options = {"zlib": True, "complevel": 1, "shuffle": True, "chunksizes": chunks, "fill_value": False}
        file.createVariable(VARIABLE, variable.dtype, variable.dimensions, **options)[:] = variable[:]


def contenders(name: str, chunks: tuple[int, ...], dimensions: tuple[str, ...]) -> list[Contender]:
    crossed = "x".join(map(str, chunks))
    named = ",".join(f"{dimension}/{length}" for dimension, length in zip(dimensions, chunks, strict=True))
    layout = ["-l", f"{VARIABLE}:CHUNK={crossed}", "-f", f"{VARIABLE}:SHUF", "-f", f"{VARIABLE}:GZIP=5"]

    def knarr(source: Path, target: Path) -> list[str]:
        chain = ["--chunks", f"{VARIABLE}={crossed}", "--chain", "shuffle | deflate:5"]
        return [str(KNARR), "repack", str(source), "-o", str(target), *chain]

    return [
        Contender("knarr", knarr, inputs=(name,)),
        Contender("h5repack", lambda source, target: ["h5repack", *layout, str(source), str(target)], inputs=(name,)),
        Contender(
            "nccopy",
            lambda source, target: ["nccopy", "-d5", "-s", "-c", named, str(source), str(target)],
            inputs=(name,),
        ),
    ]


def measure_rechunk(inputs: Path, repeats: int) -> list[Result]:
    with netCDF4.Dataset(inputs / "cmip.nc") as file:
        dimensions = file[VARIABLE].dimensions
    maps, series = inputs / "maps.nc", inputs / "series.nc"
    results = []
    for path, chunks, others in ((maps, MAP, SERIES), (series, SERIES, MAP)):
        write_input(inputs / "cmip.nc", path, chunks)
        results += compare([path], contenders(path.name, others, dimensions), repeats)
        hashed = Result("knarr hash", path.name, path.stat().st_size, 0, f"knarr hash {path.name}", "")
        hashed.runs += [run_measured([str(KNARR), "hash", str(path)]) for _ in range(repeats)]
        results.append(hashed)
        path.unlink()
    return results


def table(results: list[Result]) -> str:
    lines = ["| input | tool | wall s | CPU s | peak MB | out MB |", "|---|---|---:|---:|---:|---:|"]
    for result in sorted(results, key=lambda result: (result.input, result.middle.wall_s)):
        middle = median(result.runs)
        lines.append(
            f"| {result.input} | {cell(result.contender)} | {middle.wall_s:.2f} | {middle.cpu_s:.2f} "
            f"| {middle.peak_rss_mb:.0f} | {result.output_bytes / 1e6:.1f} |"
        )
    return "\n".join(lines)
