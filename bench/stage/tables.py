"""Tables of the comparison, for a terminal and for the page."""

from __future__ import annotations

import math
from dataclasses import replace

from scale_tables import Table, number

from . import ways
from .criteria import Criterion, Summary, summaries
from .paper import Check
from .setups import SETUPS, Setup
from .simulated import Simulated


def cell(value: float, pattern: str = "{:.2f}") -> str:
    return "" if math.isnan(value) else pattern.format(value)


def of_setup(setup: Setup, rows: list[dict]) -> Table:
    found = {way: one for (name, way), one in summaries(rows).items() if name == setup.name}
    alone = found.get(ways.NOTHING.name)
    heads = ["way", ">blocked, s", ">until durable, s", ">read, s", ">written, MB", ">ratio", ">computed, of no output"]
    lines = [line(one, alone) for one in found.values()]
    kept = [column for column in range(len(heads)) if column < 1 or any(line[column] for line in lines) or column == 1]
    return Table([heads[column] for column in kept], [[line[column] for column in kept] for line in lines])


def line(one: Summary, alone: Summary | None) -> list[str]:
    computed = one.multiplications / alone.multiplications if alone and alone.multiplications else math.nan
    numbers = [one.blocked_s, one.durable_s, one.read_s]
    return [
        one.way,
        *map(cell, numbers),
        cell(one.bytes / 1e6, "{:.0f}"),
        cell(one.ratio),
        cell(computed, "{:.3f}"),
    ]


def of_criteria(found: list[Criterion]) -> Table:
    rows = [[one.what, one.words()[0], f"{one.found:.2f}", one.words()[1]] for one in found]
    return Table(["what", ">wanted", ">found", ""], rows)


def of_checks(found: list[Check]) -> Table:
    rows = [[one.figure, one.what, wanted(one), shown(one.hcompress), shown(one.knarr), why(one)] for one in found]
    return Table(
        ["figure", "what", ">paper", ">its rule, simulated", ">Knarr's rule, simulated", "why they differ"], rows
    )


def wanted(one: Check) -> str:
    return number(one.paper)


def shown(value: float | None) -> str:
    return "" if value is None else number(value)


def why(one: Check) -> str:
    """Nothing if the simulator is within a quarter."""
    return "" if one.hcompress is not None and abs(one.hcompress / one.paper - 1) <= 0.25 else one.why


def of_simulated(simulated: list[Simulated], rows: list[dict]) -> Table:
    """Measured and simulated, side by side."""
    measured, lines = summaries(rows), []
    for one in simulated:
        found = measured.get((one.setup, one.way))
        pairs = [(found.blocked_s, found.durable_s) if found else (math.nan, math.nan), (one.blocked_s, one.durable_s)]
        lines.append([one.setup, one.way, *(cell(pair[index]) for index in (0, 1) for pair in pairs)])
    heads = ["set-up", "way", ">blocked, s: measured", ">simulated", ">until durable, s: measured", ">simulated"]
    return Table(heads, lines)


def setups_of(rows: list[dict]) -> list[Setup]:
    """Those of the runs, with as many steps as these had."""
    steps = {row["setup"]: len(row["blocked_s"]) for row in rows}
    return [replace(setup, steps=steps[setup.name]) for setup in SETUPS if setup.name in steps]
