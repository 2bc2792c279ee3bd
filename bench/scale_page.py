"""Pages of the models of scale: one HTML file each, with its figures inside and every number labelled as a model's."""

from __future__ import annotations

import html
import io
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from green_plots import FIXED, KNARR
from output_scale import RANKS, WAYS, Cost
from scale_sources import Check
from scale_tables import Table
from transfer_scale import Cycle, Point

COLOURS = ("#4878a8", "#8a99a8", "#d8a848", "#6a9a6a", "#9a6a9a", "#5a4a3a")
STYLE = """
body { max-width: 52rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 sans-serif; color: #222; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
.model { background: #fdf1e3; border-left: 4px solid #c4512d; padding: 0.5rem 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px; }
th, td { padding: 0.2rem 0.7rem; border-bottom: 1px solid #ddd; text-align: left; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
svg { max-width: 100%; height: auto; }
"""

Part = str | Table | list[str] | Figure
"""A paragraph, a table, a list, a figure."""


def drawn(figure: Figure) -> str:
    """As SVG, whose text stays text."""
    out = io.StringIO()
    # Names inside are made from this and not at random, so that equal results make equal pages.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "knarr"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()[out.getvalue().index("<svg") :]


def shown(part: Part) -> str:
    if isinstance(part, Table):
        return part.html()
    if isinstance(part, Figure):
        return drawn(part)
    if isinstance(part, list):
        return "<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in part) + "</ul>"
    return f"<p>{html.escape(part)}</p>"


def write(path: Path, title: str, warning: str, sections: dict[str, list[Part]]) -> None:
    parts = [f"<h1>{html.escape(title)}</h1>", f'<p class="model">{html.escape(warning)}</p>']
    for heading, own in sections.items():
        parts += [f"<h2>{html.escape(heading)}</h2>", *map(shown, own)]
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
    )
    body = "\n".join(parts)
    path.write_text(f'<!doctype html>\n<html lang="en">\n{head}<style>{STYLE}</style>\n{body}\n</html>\n')


def framed(axis: Any, title: str, x: str, y: str) -> None:
    axis.set_title(f"{title} (model)", fontsize=10)
    axis.set_xlabel(x, fontsize=9)
    axis.set_ylabel(y, fontsize=9)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.25)


def errors(checks: list[Check]) -> Figure:
    """How far the model is from each number that it did not see."""
    figure = Figure(figsize=(8, 0.24 * len(checks) + 1), layout="constrained")
    axis = figure.subplots()
    names = [f"{row.site}: {row.what} ({number})" for number, row in enumerate(checks, 1)]
    parts = [100 * row.error for row in checks]
    axis.barh(names, parts, color=[KNARR if abs(part) > 25 else FIXED for part in parts])
    axis.axvline(0, color="#222", linewidth=0.8)
    axis.invert_yaxis()
    framed(axis, "Error on numbers that were not fitted", "%", "")
    return figure


def blocked(costs: list[Cost]) -> Figure:
    figure = Figure(figsize=(8, 4), layout="constrained")
    axis = figure.subplots()
    for place, way in enumerate(WAYS):
        seconds = [one.blocked for one in costs if one.way == way]
        style = {"color": KNARR, "linewidth": 2.5} if way == "Knarr" else {"color": COLOURS[place % len(COLOURS)]}
        if way == "Knarr, no idle core":
            style = {"color": KNARR, "linestyle": "--"}
        axis.plot(RANKS, seconds, marker="o", label=way, **style)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xticks(RANKS, [f"{ranks:,}" for ranks in RANKS])
    axis.minorticks_off()
    axis.legend(fontsize=8, loc="upper left", ncols=2)
    framed(axis, "How long one output blocks the ranks, 16.4 MB a rank", "ranks", "s")
    return figure


def stacked(axis: Any, names: list[str], columns: list[dict[str, float]]) -> None:
    """Horizontal bars of terms, of which each has its colour."""
    terms = list(dict.fromkeys(term for column in columns for term in column))
    begin = [0.0] * len(names)
    for place, term in enumerate(terms):
        colour = (KNARR, *COLOURS)[place]
        lengths = [column.get(term, 0.0) for column in columns]
        axis.barh(names, lengths, left=begin, label=term, color=colour)
        begin = [one + other for one, other in zip(begin, lengths, strict=True)]
    axis.invert_yaxis()
    axis.legend(fontsize=8)


def until_complete(costs: list[Cost], ranks: int) -> Figure:
    """Without the way that is two orders slower than the others."""
    own = [one for one in costs if one.ranks == ranks and one.way != "gather, deflate"]
    figure = Figure(figsize=(8, 3), layout="constrained")
    axis = figure.subplots()
    stacked(axis, [one.way for one in own], [{**one.blocking, **one.behind} for one in own])
    framed(axis, f"What the seconds until the file is complete are made of, {ranks:,} ranks", "s", "")
    return figure


def scaling(points: list[Point]) -> Figure:
    """What figures 4 and 5 of the paper show, without their values."""
    figure = Figure(figsize=(8, 6), layout="constrained")
    axes = figure.subplots(2, 2)
    sites = list(dict.fromkeys(one.site for one in points))
    for row, site in enumerate(sites):
        for column, name in enumerate(("strong", "weak")):
            axis, own = axes[row][column], [one for one in points if (one.site, one.scaling) == (site, name)]
            processes = [one.processes for one in own]
            axis.plot(processes, [one.dtf for one in own], marker="o", color=COLOURS[0], label="DTF, messages")
            axis.plot(processes, [one.file for one in own], marker="s", color=COLOURS[2], label="PnetCDF files")
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_xticks(processes, [f"{n:,}" for n in processes])
            ticks = (0.05, 0.1, 0.2, 0.5, 1) if name == "strong" else (1, 2, 4, 8)
            axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
            axis.minorticks_off()
            axis.legend(fontsize=8)
            framed(axis, f"{site}, {name} scaling", "processes", "time, first point = 1")
    return figure


def cycles(found: list[Cycle], layout: str) -> Figure:
    own = [one for one in found if one.layout == layout]
    figure = Figure(figsize=(8, 2.8), layout="constrained")
    axis = figure.subplots()
    names = [f"{one.processes:,} nodes, {one.members} member{'s' * (one.members > 1)}" for one in own]
    stacked(axis, names, [one.terms for one in own])
    framed(axis, f"Knarr, a cycle, layout '{layout}'", "s", "")
    return figure
