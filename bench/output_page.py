"""The page of `run.py io`: what output blocks, when it is on the disk, what it costs and how large it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from green_plots import FIXED, KNARR
from parallel_output import MODES, PLACES, STEP_BYTES, STEPS, UNDER_KNARR, median, table, table_of_calls
from scale_page import write
from scale_tables import number

FIELDS = {
    "blocked_s": ("A step blocks the ranks, seconds (logarithmic)", 1.0),
    "until_durable_s": (f"From the start until {STEPS} steps are on the disk, seconds beyond the pauses", 1.0),
    "cpu_s": (f"Processor time of {STEPS} steps, seconds", 1.0),
    "output_bytes": ("Size of a step, MB", 1e-6),
}
CAVEAT = (
    "Four ranks on two cores of one machine: ratios tell something, seconds do not. Values are real fields, repeated "
    "with mirrored edges."
)


def bars(axis: Any, results: list[dict], place: str, field: str) -> None:
    title, factor = FIELDS[field]
    ways = [mode for mode in MODES if field != "output_bytes" or mode != "memory"]
    lengths = [median(results, mode, place, field) * factor for mode in ways]
    drawn = axis.barh([MODES[mode] for mode in ways], lengths, color=[colour(mode) for mode in ways])
    axis.bar_label(drawn, [number(length) for length in lengths], fontsize=8, padding=2)
    axis.set_title(title, fontsize=10, loc="left")
    axis.tick_params(labelsize=8)
    axis.margins(x=0.12)
    axis.invert_yaxis()
    if field == "blocked_s":
        axis.set_xscale("log")


def colour(mode: str) -> str:
    return KNARR if mode in UNDER_KNARR else FIXED


def figure(results: list[dict], place: str, field: str) -> Figure:
    drawn = Figure(figsize=(8, 3.6), layout="constrained")
    bars(drawn.subplots(), results, place, field)
    return drawn


def write_page(path: Path, results: list[dict], of_calls: list[dict], machine: str) -> None:
    sections = {
        f"In {'memory' if place == 'memory' else 'files on the disk'}": [
            table(results, place),
            *(figure(results, place, field) for field in FIELDS),
        ]
        for place in PLACES
    }
    sections["Calls of other sizes, in memory"] = [
        "Seconds that a step blocks the ranks, when each writes its block of a variable in one call or in sixteen, "
        "with the other ranks or independently.",
        table_of_calls(of_calls),
    ]
    sections["What was measured"] = [
        f"Four variables of 64 MiB a step, {STEP_BYTES / 1e6:.1f} MB of values; {STEPS} steps with pauses between, of "
        "which the first does not count for the time that ranks are blocked. Medians of all steps of all runs.",
        machine,
    ]
    write(path, "Output of an MPI program", CAVEAT, sections)
