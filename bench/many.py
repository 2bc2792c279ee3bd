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
CELLS = (8, 8, 8)


@dataclass
class Row:
    """The runs of one command on a file of so many datasets."""

    command: str
    datasets: int
    runs: list[Measurement]


def write_input(path: Path, datasets: int) -> None:
    """Groups `grid_00001`, each with ten fields of one block of cells, as Enzo has them."""
    random = np.random.default_rng(1)
    block = random.normal(1, 0.1, CELLS).astype("f4").cumsum(2)
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


def measure_many(repeats: int, datasets: int) -> list[Row]:
    """Each command, and h5repack, on a tenth of the datasets and on all: what grows faster than the file shows."""
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for count in (datasets // 10, datasets):
            folder = Path(place) / str(count)
            folder.mkdir()
            source = folder / "in.h5"
            write_input(source, count)
            programs = {name: [str(KNARR), *rest] for name, rest in commands(source, folder).items()}
            programs["h5repack"] = peer(source, folder)
            runs = {name: [] for name in programs}
            for _ in range(repeats):
                for name, command in programs.items():
                    runs[name].append(run_measured(command))
            rows += [Row(name, count, measured) for name, measured in runs.items()]
            shutil.rmtree(folder)
    return rows


def raw(rows: list[Row]) -> list[dict[str, object]]:
    return [asdict(row) for row in rows]


def table(rows: list[Row]) -> str:
    lines = ["| command | datasets | wall s | CPU s | peak MB | µs a dataset |", "|---|---:|---:|---:|---:|---:|"]
    for row in sorted(rows, key=lambda row: (row.command, row.datasets)):
        middle = median(row.runs)
        each = 1e6 * middle.wall_s / row.datasets
        lines.append(
            f"| {row.command} | {row.datasets} | {middle.wall_s:.2f} | {middle.cpu_s:.2f} "
            f"| {middle.peak_rss_mb:.0f} | {each:.0f} |"
        )
    return "\n".join(lines)
