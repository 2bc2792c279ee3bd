"""The page of `run.py stage`."""

from __future__ import annotations

from pathlib import Path

from scale_page import Part, write

from . import figures, tables
from .criteria import criteria
from .paper import Check
from .setups import Setup
from .simulated import Simulated

WARNING = (
    "All tiers are EMULATED by token buckets, on one machine: two ranks, every directory in memory, fractions of the "
    "data as in the HCompress paper, and the rates that stand at each table. What is called simulated was not measured."
)
WAYS = [
    "BASE: parallel HDF5 to the last tier. STWC: the same, with shuffle and deflate 1 in the program. MTNC: placed by "
    "the uncompressed size in the fastest tier with room, as Hermes does; a mover takes it to the last tier; copies "
    "stay until their room is needed.",
    "A codec or a goal in tiers: `knarr run`, route stage, with that chain or goal for all files. Knarr: the planner "
    "chooses, with filters of HDF5 itself (objective `blocked`, or `durable`).",
    "The emulated tiers of BASE, STWC and MTNC cost no processor time, and files are not synced there. Knarr encodes, "
    "proves, copies and syncs.",
    "Reading is charged for the tier in which a file lies when it is opened, in all ways alike, on devices apart from "
    "those that take output. When Knarr has moved a file, its copy in the tier is gone.",
    "All files of all ways were read again without Knarr, and every value compared.",
]
NOT_SHOWN = [
    "Figure 3 has no share of feedback: Knarr does not count the time in which it learns apart from the rest. Choosing "
    "the level of a file is in no report, either; `cargo bench -p knarr-decisions` has it.",
    "Figure 4b of the paper has 8,192 writes of 1 MB; here each variable of each file is one forecast.",
]


def write_page(path: Path, results: dict, machine: str) -> None:
    rows = results["rows"]
    sections: dict[str, list[Part]] = {
        "How to read this": [WAYS],
        "Goals": ["Medians of all rounds, in which the ways took turns.", tables.of_criteria(criteria(rows))],
    }
    for setup in tables.setups_of(rows):
        label = f"{label_of(setup)}: {setup.emulated()}."
        sections[setup.title] = [label, tables.of_setup(setup, rows), *figures_of(setup, rows)]
    sections["What was left out"] = [NOT_SHOWN]
    here = [Simulated(**one) for one in results["simulated"]]
    sections["The simulator against these runs"] = [
        "Simulated with the codecs' ratios and times measured here on one core, and the rate of copying measured here.",
        tables.of_simulated(here, rows),
    ]
    checks = [Check(**one) for one in results["checks"]]
    sections["The simulator against the paper"] = [
        "SIMULATED: 64 nodes of 40 ranks. What the paper says of its machine and of two codecs goes in; one rate, that "
        "of the burst buffers, is fitted on what Hermes gains there. Nothing of this was measured at that scale.",
        tables.of_checks(checks),
        figures.simulated(checks),
    ]
    sections["What was measured"] = [f"{results['rounds']} rounds.", machine]
    write(path, "Bursts of output through tiers", WARNING, sections)


def label_of(setup: Setup) -> str:
    return (
        f"{setup.steps} steps of {setup.step_bytes / 1e6:g} MB, 8 variables, computing {setup.compute_s:g} s after "
        "each; tiers"
    )


def figures_of(setup: Setup, rows: list[dict]) -> list[Part]:
    name = setup.name
    if name == "vpic":
        both = figures.written_and_read(rows, name, "Figure 8: VPIC-IO, then BD-CATS-IO")
        parts = [figures.figure_1(rows, setup), *figures.figure_7(rows), both]
        return [*parts, figures.computed(rows, name)]
    if name == "vpic, burst buffers":
        return [*figures.figure_7(rows, name), figures.written_and_read(rows, name, "Figure 8, with burst buffers")]
    if name == "figure 3":
        return [figures.figure_3(rows)]
    if name in ("long", "one rank"):
        return [figures.computed(rows, name)]
    if name == "figure 6":
        return [figures.written_and_read(rows, name, "Figure 6: writing, then reading")]
    return [figures.figure_4(rows)] if name == "figure 4" else list(figures.figure_5(rows, name))
