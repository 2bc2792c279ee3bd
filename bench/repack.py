"""Whole-file comparison: Knarr's repack against the tools people use, in turn, on the same files."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from equality import require_equal
from measure import Measurement, cell, median, run_measured

BENCH = Path(__file__).resolve().parent
KNARR = BENCH.parent / "target" / "release" / "knarr"


@dataclass
class Contender:
    """One tool with one setting. `command` makes the argument list for an input and an output."""

    name: str
    command: Callable[[Path, Path], list[str]]
    inputs: tuple[str, ...] = ("real.nc", "cmip.nc", "sim.nc")
    works_in_place: bool = False
    """The tool replaces a file; it is given a fresh copy, made outside the measured time."""
    note: str = ""


@dataclass
class Result:
    contender: str
    input: str
    input_bytes: int
    output_bytes: int
    command: str
    """With paths relative to the bench folder."""
    note: str
    runs: list[Measurement] = field(default_factory=list)

    @property
    def middle(self) -> Measurement:
        return median(self.runs)


def knarr(name: str, *options: str) -> Contender:
    binary = os.environ.get("KNARR_BIN", str(KNARR))
    return Contender(
        f"knarr {name}", lambda source, target: [binary, "repack", str(source), "-o", str(target), *options]
    )


def peers() -> list[Contender]:
    python = sys.executable
    return [
        Contender(
            "h5repack SHUF GZIP=5",
            lambda source, target: ["h5repack", "-f", "SHUF", "-f", "GZIP=5", str(source), str(target)],
        ),
        Contender(
            "nccopy -d5 -s",
            lambda source, target: ["nccopy", "-d5", "-s", str(source), str(target)],
        ),
        Contender(
            "cmip7repack -z 5",
            lambda source, target: [
                str(Path(python).parent / "cmip7repack"),
                "-z",
                "5",
                "-d",
                "4194304",
                "-o",
                str(target),
            ],
            inputs=("cmip.nc",),
            works_in_place=True,
            note="changes the data variable's chunks to 4 MiB and adds Fletcher-32",
        ),
        Contender(
            "h5py loop shuffle gzip-5",
            lambda source, target: [
                python,
                str(BENCH / "h5py_loop.py"),
                "deflate-5",
                str(source),
                str(target),
            ],
        ),
        Contender(
            "h5py loop shuffle zstd-3",
            lambda source, target: [python, str(BENCH / "h5py_loop.py"), "zstd-3", str(source), str(target)],
        ),
    ]


def knarr_settings(goals: list[str]) -> list[Contender]:
    return [
        knarr("shuffle | deflate:5", "--chain", "shuffle | deflate:5"),
        knarr("shuffle | zstd:3", "--chain", "shuffle | zstd:3"),
        *(knarr(f"--goal {goal}", "--goal", goal) for goal in goals),
        *(knarr(f"--portable standard --goal {goal}", "--portable", "standard", "--goal", goal) for goal in goals),
    ]


def compare(
    inputs: list[Path], contenders: list[Contender], repeats: int, checked: Callable[[str], None] = print
) -> list[Result]:
    """Runs every contender on every input `repeats` times, in a new random order each round.

    An output counts only after its values compared equal, once per contender and input, outside the
    measured time. Inputs are read once before, so the page cache is warm for all.
    """
    results: list[Result] = []
    order = random.Random(1)
    folder = BENCH / "inputs" / "out"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for source in inputs:
        entries = []
        for contender in contenders:
            if source.name in contender.inputs:
                result = Result(contender.name, source.name, source.stat().st_size, 0, "", contender.note)
                entries.append((contender, result))
        for _ in range(repeats):
            order.shuffle(entries)
            for contender, result in entries:
                _run_once(contender, result, source, folder)
                checked(f"{source.name}: {contender.name}: {result.runs[-1].wall_s:.2f} s")
        results += [result for _, result in entries]
    shutil.rmtree(folder)
    return results


def _run_once(contender: Contender, result: Result, source: Path, folder: Path) -> None:
    target = folder / f"out{source.suffix}"
    if contender.works_in_place:
        shutil.copyfile(source, target)
    command = contender.command(source, target)
    _warm(source)
    os.sync()
    measurement = run_measured(command)
    if measurement.exit_code != 0:
        raise SystemExit(f"{contender.name} failed on {source.name} with exit code {measurement.exit_code}")
    if not result.runs:
        require_equal(source, target)
        result.output_bytes = target.stat().st_size
        result.command = " ".join(_without_folders(word) for word in command)
    result.runs.append(measurement)
    target.unlink()


def _warm(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        while file.read(16 << 20):
            pass


def _without_folders(word: str) -> str:
    return Path(word).name if word.startswith("/") else (f"'{word}'" if " " in word else word)


def table(results: list[Result]) -> str:
    """Markdown, one row per contender and input, in order of wall time."""
    lines = [
        "| input | tool | wall s | min-max | CPU s | MB/s | out MB | ratio | peak MB |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for result in sorted(results, key=lambda result: (result.input, result.middle.wall_s)):
        middle, walls = result.middle, [run.wall_s for run in result.runs]
        lines.append(
            f"| {result.input} | {cell(result.contender)} "
            f"| {middle.wall_s:.2f} | {min(walls):.2f}-{max(walls):.2f} | {middle.cpu_s:.2f} "
            f"| {result.input_bytes / middle.wall_s / 1e6:.0f} "
            f"| {result.output_bytes / 1e6:.1f} | {result.input_bytes / result.output_bytes:.3f} "
            f"| {middle.peak_rss_mb:.0f} |"
        )
    notes = {f"- {result.contender}: {result.note}" for result in results if result.note}
    return "\n".join(lines + [""] * bool(notes) + sorted(notes))
