"""Figures 4 to 8 of the green compression paper for the rows of `green`, in one SVG file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

FIXED, KNARR = "#8a99a8", "#c4512d"


def bars(axis: Any, rows: list[dict], field: str, label: str, log: bool = False) -> None:
    names = [f"{row['contender']}  {number}" for number, row in enumerate(rows, 1)]
    colours = [KNARR if name.startswith("knarr") else FIXED for name in names]
    axis.barh(names, [row[field] for row in rows], color=colours)
    axis.invert_yaxis()
    axis.set_title(f"{rows[0]['family']}: {label}", fontsize=10)
    axis.tick_params(labelsize=8)
    if log:
        axis.set_xscale("log")


def scatter(axis: Any, rows: list[dict], x: str, y: str, labels: tuple[str, str]) -> None:
    """Points carry the numbers that the bars show beside the names."""
    for number, row in enumerate(rows, 1):
        colour = KNARR if row["contender"].startswith("knarr") else FIXED
        axis.scatter(row[x], row[y], color=colour, s=130, alpha=0.85)
        axis.annotate(str(number), (row[x], row[y]), ha="center", va="center", fontsize=7, color="white")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.margins(0.1)
    axis.set_xlabel(labels[0], fontsize=8)
    axis.set_ylabel(labels[1], fontsize=8)
    axis.set_title(rows[0]["family"], fontsize=10)
    axis.tick_params(labelsize=8, which="both")
    axis.grid(alpha=0.2)


def plot(rows: list[dict], path: Path) -> None:
    """A column for each family: ratio, energy, CPU, run time, energy against run time, ratio against run time."""
    families = list(dict.fromkeys(row["family"] for row in rows))
    figure = Figure(figsize=(5 * len(families), 19), layout="constrained")
    axes = figure.subplots(6, len(families), squeeze=False)
    for column, family in enumerate(families):
        own = [row for row in rows if row["family"] == family]
        percent = [{**row, "utilisation": 100 * row["utilisation"]} for row in own]
        bars(axes[0][column], own, "ratio", "compression ratio (figure 4)")
        bars(axes[1][column], own, "energy_j", f"energy of writing, J, {own[0]['energy_source']} (figure 4)", log=True)
        bars(axes[2][column], percent, "utilisation", "CPU of one core, % (figures 5, 6)")
        bars(axes[3][column], own, "write_s", "run time of writing, s (figure 7)", log=True)
        scatter(axes[4][column], own, "write_s", "energy_j", ("run time, s (figure 8)", "energy, J"))
        scatter(axes[5][column], own, "write_s", "ratio", ("run time, s", "compression ratio"))
    # Text stays text: the file is a fifth smaller, and can be searched.
    with rc_context({"svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})
