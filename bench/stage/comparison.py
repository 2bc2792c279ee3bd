"""Measures all set-ups in turn, calibrates the simulator with what this machine does, and puts the results together."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from . import codecs, paper, simulated, tables, ways
from .codecs import Codec
from .criteria import criteria
from .paper import Check
from .runs import build, clear, rounds
from .setups import Setup, chosen
from .simulated import Simulated
from .values import write_values

SHARED = Path("/dev/shm")
"""All folders are in memory: only the token buckets make tiers slow."""


def measure(number: int, tell: Callable[[str], None]) -> dict:
    rows: list[dict] = []
    kinds: dict[str, list[Codec]] = {}
    with tempfile.TemporaryDirectory(dir=SHARED) as name:
        folder = Path(name)
        program = build(folder)
        for kind in ("particles", "distributions"):
            tell(f"calibrating with {kind}")
            kinds[kind] = codecs.measure(kind, folder)
        for setup in chosen():
            rows += measure_setup(setup, folder, program, number, tell)
    by_name = {kind: {codec.name: codec for codec in found} for kind, found in kinds.items()}
    copy_rate = simulated.copy_rate_of(rows)
    here = [
        asdict(one)
        for setup in tables.setups_of(rows)
        if setup.values in by_name
        for one in simulated.of_runs(setup, rows, by_name[setup.values], copy_rate)
    ]
    checks = [asdict(one) for one in paper.checks()]
    return {
        "rounds": number,
        "rows": rows,
        "codecs": {kind: [asdict(codec) for codec in found] for kind, found in kinds.items()},
        "copy_rate": copy_rate,
        "simulated": here,
        "checks": checks,
    }


def measure_setup(setup: Setup, folder: Path, program: Path, number: int, tell: Callable[[str], None]) -> list[dict]:
    described = write_values(setup, folder / "values")
    try:
        return rounds(setup, list(ways.BY_SETUP[setup.name]), folder, program, described, number, tell)
    finally:
        for path in folder.glob("values_*.raw"):
            path.unlink()
        clear(folder)


def table(results: dict) -> str:
    """Markdown."""
    rows = results["rows"]
    parts = []
    for setup in tables.setups_of(rows):
        parts += [f"## {setup.title}", setup.emulated() + ".", tables.of_setup(setup, rows).markdown()]
    parts += ["## Goals", tables.of_criteria(criteria(rows)).markdown()]
    here = [Simulated(**one) for one in results["simulated"]]
    parts += ["## Measured and simulated", tables.of_simulated(here, rows).markdown()]
    checks = [Check(**one) for one in results["checks"]]
    parts += ["## The paper and the simulator", tables.of_checks(checks).markdown()]
    return "\n\n".join(parts)
