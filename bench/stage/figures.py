"""The figures of the HCompress paper for these runs. Each says whether it is emulated (measured here) or simulated."""

from __future__ import annotations

import math
import statistics
from typing import Any

from matplotlib.figure import Figure

from green_plots import FIXED, KNARR
from scale_tables import number

from . import ways
from .criteria import Summary, summaries
from .paper import Check
from .setups import SETUPS, Setup

PARTS = ("#4878a8", "#d8a848", "#6a9a6a", "#9a6a9a", "#8a99a8", "#c4512d", "#222222")
EMULATED, SIMULATED = "emulated by token buckets", "simulated"
OPERATIONS = {
    "choose": "choosing chains, with trials on samples",
    "encode": "encoding",
    "prove": "decoding to prove it",
    "read": "reading values from memory or a tier",
    "write": "writing to a tier",
    "move": "moving to the last tier",
    "decide": "choosing levels, with monitor and feedback",
}


def setup_of(name: str) -> Setup:
    return next(setup for setup in SETUPS if setup.name == name)


def of_setup(rows: list[dict], name: str, only: tuple[str, ...] = ()) -> list[Summary]:
    """In the order of the ways; without those that write nothing."""
    found = [one for (setup, _), one in summaries(rows).items() if setup == name and not math.isnan(one.bytes)]
    return [one for one in found if not only or one.way in only]


def colour(way: str) -> str:
    return KNARR if way.startswith("Knarr") else FIXED


def new(rows: int, title: str, x: str, label: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=(8, 0.32 * rows + 1.3), layout="constrained")
    axis = figure.subplots()
    axis.set_title(f"{title} ({label})", fontsize=10, loc="left")
    axis.set_xlabel(x, fontsize=9)
    axis.tick_params(labelsize=8)
    axis.grid(axis="x", alpha=0.25)
    axis.set_axisbelow(True)
    axis.margins(x=0.14)
    return figure, axis


def bars(found: list[Summary], lengths: list[float], title: str, x: str) -> Figure:
    figure, axis = new(len(found), title, x, EMULATED)
    drawn = axis.barh([one.way for one in found], lengths, color=[colour(one.way) for one in found])
    axis.bar_label(drawn, [number(length) for length in lengths], fontsize=8, padding=2)
    axis.invert_yaxis()
    return figure


def stacked(names: list[str], parts: dict[str, list[float]], title: str, x: str, label: str) -> Figure:
    figure, axis = new(len(names) + 1, title, x, label)
    begin = [0.0] * len(names)
    for (part, lengths), shade in zip(parts.items(), PARTS, strict=False):
        axis.barh(names, lengths, left=begin, label=part, color=shade)
        begin = [one + other for one, other in zip(begin, lengths, strict=True)]
    for place, total in enumerate(begin):
        axis.annotate(number(total), (total, place), (3, 0), textcoords="offset points", va="center", fontsize=8)
    axis.invert_yaxis()
    figure.legend(fontsize=8, loc="outside lower center", ncols=3)
    return figure


def figure_1(rows: list[dict], setup: Setup) -> Figure:
    """The whole time of the program that writes."""
    found = of_setup(rows, setup.name)
    computing = setup.steps * setup.compute_s
    parts = {"computing": [computing] * len(found), "blocked in output": [one.blocked_s for one in found]}
    return stacked([one.way for one in found], parts, "Figure 1: time of VPIC-IO", "s", EMULATED)


def figure_3(rows: list[dict]) -> Figure:
    """What Knarr spends for a file: as it counts itself, and what the last tier takes by its rate."""
    found: dict[str, dict[str, float]] = {}
    for setup in map(setup_of, ("vpic", "figure 5", "figure 3")):
        for way in (ways.KNARR, ways.DURABLE):
            own = [row for row in rows if (row["setup"], row["way"]) == (setup.name, way.name) and row.get("phases_s")]
            if own:
                spent = {key: statistics.median(row["phases_s"][key] for row in own) for key in own[0]["phases_s"]}
                spent["move"] = statistics.median(row["bytes"] for row in own) / setup.tiers[-1].rate
                found[f"{setup.name}, {way.name}"] = spent
    totals = [sum(spent.values()) for spent in found.values()]
    parts = {
        title: [100 * spent.get(key, 0.0) / total for spent, total in zip(found.values(), totals, strict=True)]
        for key, title in OPERATIONS.items()
    }
    names = [f"{name} (choosing {100 * spent['choose'] / sum(spent.values()):.2f} %)" for name, spent in found.items()]
    return stacked(names, parts, "Figure 3: what a file takes, behind the program", "% of the seconds", EMULATED)


FORECASTS = {
    "vpic": "particles",
    "figure 5, whole numbers": "four distributions, whole numbers",
    "figure 4": "four distributions, floating-point numbers",
}


def figure_4(rows: list[dict]) -> Figure:
    """R² of what was predicted before it was seen."""
    names, ratios, times = [], [], []
    for setup, title in FORECASTS.items():
        own = [row for row in rows if row["setup"] == setup and row["way"] == ways.DURABLE.name]
        told = [row["forecasts"] for row in own if row.get("forecasts")]
        if told:
            names.append(title)
            ratios.append(statistics.median(one.get("ratio_r_squared") or 0.0 for one in told))
            times.append(statistics.median(one.get("time_r_squared") or 0.0 for one in told))
    figure, axis = new(2 * len(names), "Figure 4: R² of forecasts, each made before the file", "R²", EMULATED)
    for shift, lengths, title, shade in ((-0.2, ratios, "ratio", KNARR), (0.2, times, "time of a byte", FIXED)):
        drawn = axis.barh([place + shift for place in range(len(names))], lengths, 0.36, label=title, color=shade)
        axis.bar_label(drawn, [f"{length:.3f}" for length in lengths], fontsize=8, padding=2)
    axis.set_yticks(range(len(names)), names)
    axis.axvline(0.9554, color="#222", linewidth=0.8, linestyle="--", label="the paper, with feedback")
    axis.invert_yaxis()
    figure.legend(fontsize=8, loc="outside lower center", ncols=3)
    return figure


def figure_5(rows: list[dict], setup: str) -> list[Figure]:
    found = of_setup(rows, setup)
    return [
        bars(found, [one.durable_s for one in found], "Figure 5: until all is in the last tier", "s"),
        bars(found, [one.bytes / 1e6 for one in found], "Figure 5: footprint", "MB"),
    ]


def written_and_read(rows: list[dict], setup: str, title: str) -> Figure:
    found = [one for one in of_setup(rows, setup) if not math.isnan(one.read_s)]
    parts = {"blocked in output": [one.blocked_s for one in found], "reading": [one.read_s for one in found]}
    return stacked([one.way for one in found], parts, title, "s", EMULATED)


def figure_7(rows: list[dict], setup: str = "vpic") -> list[Figure]:
    found, of = of_setup(rows, setup), setup_of(setup)
    durable = bars(
        found, [one.durable_s for one in found], "Figure 7: until all is in the last tier; line: size / its rate", "s"
    )
    axis = durable.axes[0]
    for one in found:
        # What the last tier takes for so many bytes at its rate.
        least = one.bytes / of.tiers[-1].rate
        place = [each.way for each in found].index(one.way)
        axis.plot([least, least], [place - 0.4, place + 0.4], color="#222", linewidth=1.2)
    title = "Figure 7: blocked in output, all steps"
    return [bars(found, [one.blocked_s for one in found], title, "s"), durable]


def computed(rows: list[dict], setup: str) -> Figure:
    """How much computing is left beside output."""
    found = [one for (name, _), one in summaries(rows).items() if name == setup]
    alone = next(one.multiplications for one in found if one.way == ways.NOTHING.name)
    lengths = [100 * (1 - one.multiplications / alone) for one in found]
    title = f"Computing that is lost beside output, {setup_of(setup).compute_s} s a step"
    return bars(found, lengths, title, "% of the multiplications without output")


def simulated(checks: list[Check]) -> Figure:
    """The paper's gains, those of its rule, and those of Knarr's rule, at 64 nodes of 40 ranks."""
    figure, axis = new(3 * len(checks), "64 nodes x 40 ranks: gains (logarithmic)", "times", SIMULATED)
    names = [f"figure {one.figure}: {one.what}" for one in checks]
    series = (
        (-0.27, "paper", [one.paper for one in checks], "#222"),
        (0.0, "its rule, simulated", [one.hcompress or math.nan for one in checks], FIXED),
        (0.27, "Knarr's rule, simulated", [one.knarr or math.nan for one in checks], KNARR),
    )
    for shift, title, lengths, shade in series:
        drawn = axis.barh([place + shift for place in range(len(names))], lengths, 0.25, label=title, color=shade)
        axis.bar_label(drawn, ["" if math.isnan(one) else number(one) for one in lengths], fontsize=7, padding=2)
    axis.set_yticks(range(len(names)), names)
    axis.set_xscale("log")
    axis.invert_yaxis()
    figure.legend(fontsize=8, loc="outside lower center", ncols=3)
    return figure
