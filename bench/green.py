"""The table of the green compression paper again: HDF5 filters and Knarr's goals over three families of data.

Every contender writes the same arrays with h5py into a file of the same folder and reads them back: ratio, run time,
CPU utilisation, energy. pcodec has no HDF5 filter: its chunks go to a plain file. Energy is a model (processor time and
bytes; its constants are those of Knarr's built-in profile) unless the machine's counters can be read.
"""

from __future__ import annotations

import json
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
import pcodec

import knarr
from green_data import FAMILIES, Dataset

GOALS = ("speed", "balanced", "ratio", "archive", "energy")
POWERCAP = Path("/sys/class/powercap")
PROFILE = Path(__file__).resolve().parent.parent / "crates" / "choose" / "src" / "profile" / "built-in.json"
POWER = json.loads(PROFILE.read_text())["power"]


@dataclass
class Row:
    family: str
    contender: str
    ratio: float
    write_s: float
    """Wall time of writing and closing the file; it is not waited for until the disk has it."""
    read_s: float
    cpu_s: float
    """Processor time of writing."""
    utilisation: float
    """`cpu_s` over `write_s`, of one core."""
    energy_j: float
    energy_source: str


Filters = Callable[[np.ndarray], dict]


def contenders() -> dict[str, Filters | None]:
    fixed: dict[str, Filters | None] = {
        "off": lambda values: {},
        "blosc-lz4": lambda values: dict(hdf5plugin.Blosc(cname="lz4", clevel=1)),
        "lz4": lambda values: dict(hdf5plugin.LZ4()),
        "zstd": lambda values: dict(hdf5plugin.Zstd(clevel=1)),
        "zstd-11": lambda values: dict(hdf5plugin.Zstd(clevel=11)),
        "zstd-22": lambda values: dict(hdf5plugin.Zstd(clevel=22)),
        "shuffle+deflate": lambda values: {"shuffle": True, "compression": "gzip", "compression_opts": 6},
        "shuffle+zstd": lambda values: {"shuffle": True, **hdf5plugin.Zstd(clevel=3)},
        "bitshuffle+zstd": lambda values: dict(hdf5plugin.Bitshuffle(cname="zstd", clevel=3)),
        "pcodec": None,
    }
    return fixed | {f"knarr {goal}": lambda values, goal=goal: dict(knarr.hdf5(goal=goal)) for goal in GOALS}


def chunk_slices(dataset: Dataset) -> Iterator[tuple[slice, ...]]:
    for index in np.ndindex(*(-(-n // c) for n, c in zip(dataset.values.shape, dataset.chunks, strict=True))):
        yield tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, dataset.chunks, strict=True))


def write_hdf5(path: Path, datasets: list[Dataset], filters: Filters) -> None:
    """Chunk by chunk, as a model writes its steps."""
    with h5py.File(path, "w") as file:
        for dataset in datasets:
            target = file.create_dataset(
                dataset.name,
                shape=dataset.values.shape,
                dtype=dataset.values.dtype,
                chunks=dataset.chunks,
                fillvalue=dataset.fill,
                **filters(dataset.values),
            )
            for chunk in chunk_slices(dataset):
                target[chunk] = dataset.values[chunk]


def read_hdf5(path: Path, datasets: list[Dataset]) -> None:
    with h5py.File(path) as file:
        for dataset in datasets:
            if file[dataset.name][...].tobytes() != dataset.values.tobytes():
                raise SystemExit(f"{path.name}: {dataset.name} was changed")


def write_pcodec(path: Path, datasets: list[Dataset]) -> None:
    config = pcodec.ChunkConfig()
    with path.open("wb") as file:
        for dataset in datasets:
            for chunk in chunk_slices(dataset):
                piece = pcodec.standalone.simple_compress(np.ascontiguousarray(dataset.values[chunk]).ravel(), config)
                file.write(len(piece).to_bytes(8, "little") + piece)


def read_pcodec(path: Path, datasets: list[Dataset]) -> None:
    with path.open("rb") as file:
        for dataset in datasets:
            for chunk in chunk_slices(dataset):
                piece = file.read(int.from_bytes(file.read(8), "little"))
                if pcodec.standalone.simple_decompress(piece).tobytes() != dataset.values[chunk].tobytes():
                    raise SystemExit(f"{path.name}: {dataset.name} was changed")


def counted_joules() -> float | None:
    """What all packages took so far; `None` where the kernel shows no counter."""
    try:
        counters = [path / "energy_uj" for path in POWERCAP.glob("intel-rapl:?")]
        return sum(int(counter.read_text()) for counter in counters) / 1e6 if counters else None
    except OSError:
        return None


def processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(family: str, name: str, filters: Filters | None, datasets: list[Dataset], path: Path) -> Row:
    raw = sum(dataset.values.nbytes for dataset in datasets)
    joules, cpu, begin = counted_joules(), processor_seconds(), time.perf_counter()
    if filters is None:
        write_pcodec(path, datasets)
    else:
        write_hdf5(path, datasets, filters)
    write_s, cpu_s, counted = time.perf_counter() - begin, processor_seconds() - cpu, counted_joules()
    stored = path.stat().st_size
    begin = time.perf_counter()
    (read_pcodec if filters is None else read_hdf5)(path, datasets)
    read_s = time.perf_counter() - begin
    modelled = cpu_s * POWER["watts_per_core"] + stored / 1e9 * POWER["joules_per_gb"]
    return Row(
        family,
        name,
        raw / stored,
        write_s,
        read_s,
        cpu_s,
        cpu_s / write_s,
        modelled if counted is None or joules is None else counted - joules,
        "model" if counted is None else "counter",
    )


def measure_green(repeats: int, say: Callable[[str], None]) -> list[Row]:
    """Medians of `repeats` rounds in which every contender has its turn."""
    rows = []
    for family, make in FAMILIES.items():
        datasets = list(make())
        runs: dict[str, list[Row]] = {}
        with tempfile.TemporaryDirectory() as folder:
            for turn in range(repeats):
                for name, filters in contenders().items():
                    path = Path(folder) / "out.h5"
                    runs.setdefault(name, []).append(measure(family, name, filters, datasets, path))
                    path.unlink()
                    say(f"{family}, round {turn + 1} of {repeats}: {name}")
        for several in runs.values():
            row = asdict(several[0])
            for field in ("write_s", "read_s", "cpu_s", "utilisation", "energy_j"):
                row[field] = statistics.median(getattr(run, field) for run in several)
            rows.append(Row(**row))
    return rows


def table(rows: list[Row]) -> str:
    lines = [
        "| data | filter | ratio | write, s | read, s | CPU | energy, J |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        lines.append(
            f"| {row.family} | {row.contender} | {row.ratio:.2f} | {row.write_s:.2f} | {row.read_s:.2f}"
            f" | {100 * row.utilisation:.0f} % | {row.energy_j:.1f} |"
        )
    lines += ["", f"Energy: {rows[0].energy_source}.", ""]
    for family in dict.fromkeys(row.family for row in rows):
        lines.append(verdict([row for row in rows if row.family == family]))
    return "\n".join(lines)


def verdict(rows: list[Row]) -> str:
    """What the goals are to reach, by one family's rows."""
    by_name = {row.contender: row for row in rows}
    fixed = [row for row in rows if not row.contender.startswith("knarr")]
    balanced, ratio, energy = (by_name[f"knarr {goal}"] for goal in ("balanced", "ratio", "energy"))
    beaten_by = [row.contender for row in fixed if row.ratio > balanced.ratio and row.write_s < balanced.write_s]
    front = "on or above the front of the fixed filters" if not beaten_by else f"behind {', '.join(beaten_by)}"
    best = max(fixed, key=lambda row: row.ratio)
    slow, lz4 = by_name["zstd-22"], by_name["lz4"]
    return (
        f"- {rows[0].family}: balanced is {front}; ratio reaches {ratio.ratio:.2f} against {best.ratio:.2f}"
        f" ({best.contender}) at {slow.write_s / ratio.write_s:.1f} times the speed of zstd-22; energy takes"
        f" {energy.energy_j:.1f} J for {energy.ratio:.2f} against {lz4.energy_j:.1f} J for {lz4.ratio:.2f} (lz4)"
    )
