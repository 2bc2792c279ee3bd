"""A file of very many small datasets, as codes with adaptive meshes write: what each costs apart from its values."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import h5py
import numpy as np

from measure import Measurement, median, run_measured
from repack import KNARR

DATASETS = 50_000
PER_GROUP = 10
# Cells along each side of a block. One of 2 KiB takes less room than an index of chunks does; others have 16 KiB.
SIDES = (8, 16)


@dataclass
class Row:
    """The runs of one command on a file of so many datasets, and the size of what it wrote, if anything."""

    command: str
    datasets: int
    side: int
    output_mb: float | None
    runs: list[Measurement]


def write_input(path: Path, datasets: int, side: int) -> None:
    """Groups `grid_00001`, each with ten fields of one block of cells, as Enzo has them."""
    random = np.random.default_rng(1)
    block = random.normal(1, 0.1, (side, side, side)).astype("f4").cumsum(2)
    with h5py.File(path, "w") as file:
        for number in range(0, datasets, PER_GROUP):
            group = file.create_group(f"grid_{number // PER_GROUP:05}")
            for field in range(PER_GROUP):
                group.create_dataset(f"field_{field}", data=block * np.float32(1 + number % 97 + field))


def commands(source: Path, folder: Path) -> dict[str, list[str]]:
    def repack(name: str) -> list[str]:
        return ["repack", str(source), "-o", str(folder / name), "--force"]

    copy = folder / "copy.h5"
    return {
        "repack to HDF5": repack(copy.name),
        "repack to Zarr": repack("copy.zarr"),
        "inspect": ["inspect", str(source)],
        "verify": ["verify", str(source), str(copy)],
        "hash": ["hash", str(source)],
    }


def peer(source: Path, folder: Path) -> list[str]:
    return ["h5repack", "-f", "SHUF", "-f", "GZIP=5", str(source), str(folder / "peer.h5")]


def measure_many(repeats: int, datasets: int, wanted: list[str]) -> list[Row]:
    """The commands of these names, or all, on a tenth of the datasets and on all: what grows too fast shows."""
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for side in SIDES:
            for count in (datasets // 10, datasets):
                rows += measure_file(Path(place) / f"{side}-{count}", repeats, count, side, wanted)
    return rows


def measure_file(folder: Path, repeats: int, count: int, side: int, wanted: list[str]) -> list[Row]:
    folder.mkdir()
    source = folder / "in.h5"
    write_input(source, count, side)
    programs = {name: [str(KNARR), *rest] for name, rest in commands(source, folder).items()}
    programs["h5repack"] = peer(source, folder)
    programs = {name: command for name, command in programs.items() if not wanted or name in wanted}
    runs = {name: [] for name in programs}
    for _ in range(repeats):
        for name, command in programs.items():
            runs[name].append(run_measured(command))
    outputs = {"repack to HDF5": folder / "copy.h5", "h5repack": folder / "peer.h5"}
    sizes = {name: output.stat().st_size / 1e6 for name, output in outputs.items() if output.exists()}
    shutil.rmtree(folder)
    return [Row(name, count, side, sizes.get(name), measured) for name, measured in runs.items()]


def raw(rows: list[Row]) -> list[dict[str, object]]:
    return [asdict(row) for row in rows]


def table(rows: list[Row]) -> str:
    lines = [
        "| command | cells | datasets | wall s | CPU s | peak MB | µs a dataset | output MB |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in sorted(rows, key=lambda row: (row.command, row.side, row.datasets)):
        middle = median(row.runs)
        each = 1e6 * middle.wall_s / row.datasets
        size = "-" if row.output_mb is None else f"{row.output_mb:.0f}"
        lines.append(
            f"| {row.command} | {row.side}³ | {row.datasets} | {middle.wall_s:.2f} | {middle.cpu_s:.2f} "
            f"| {middle.peak_rss_mb:.0f} | {each:.0f} | {size} |"
        )
    return "\n".join(lines)
