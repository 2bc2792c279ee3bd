"""`knarr repack` between netCDF-4 and Zarr, both ways, beside repacks that stay in a format. All in memory.

What is read has no filters: chunks that are encoded as they would be again stay as they are, which is another thing.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from measure import run_measured
from repack import KNARR

WAYS = (("nc", "nc"), ("nc", "zarr"), ("zarr", "zarr"), ("zarr", "nc"))


@dataclass
class Result:
    """Of one run."""

    input: str
    source: str
    target: str
    wall_s: float
    cpu_s: float


def repack(source: Path, target: Path, *options: str) -> tuple[float, float]:
    measured = run_measured([str(KNARR), "repack", str(source), "-o", str(target), *options])
    if measured.exit_code != 0:
        raise SystemExit(f"{source} to {target}: exit code {measured.exit_code}")
    return measured.wall_s, measured.cpu_s


def measure(inputs: list[Path], repeats: int) -> list[dict]:
    """Every way in turn, `repeats` times."""
    results = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        for path in inputs:
            sources = {suffix: folder / f"{path.stem}.{suffix}" for suffix in ("nc", "zarr")}
            for source in sources.values():
                repack(path, source, "--chain", "raw")
            for _ in range(repeats):
                for source, target in WAYS:
                    out = folder / f"out.{target}"
                    results.append(asdict(Result(path.name, source, target, *repack(sources[source], out))))
                    shutil.rmtree(out) if out.is_dir() else out.unlink()
                    for plan in folder.glob("out.*.json"):
                        plan.unlink()
            for source in sources.values():
                shutil.rmtree(source) if source.is_dir() else source.unlink()
    return results


def table(results: list[dict]) -> str:
    names = [f"{source} to {target}" for source, target in WAYS]
    lines = [f"| seconds | {' | '.join(names)} |", f"|---|{'---:|' * len(WAYS)}"]
    for path in dict.fromkeys(one["input"] for one in results):
        cells = []
        for way in WAYS:
            runs = [one["wall_s"] for one in results if (one["input"], one["source"], one["target"]) == (path, *way)]
            cells.append(f"{statistics.median(runs):.2f}")
        lines.append(f"| {path} | {' | '.join(cells)} |")
    return "\n".join(lines)
