"""Tables of the models of scale, as Markdown for a terminal of 80 columns and as HTML for a page."""

from __future__ import annotations

import html
from dataclasses import dataclass

from scale_sources import Check, Quantity, worst


@dataclass(frozen=True)
class Table:
    heads: list[str]
    """Those of numbers begin with `>`."""
    rows: list[list[str]]

    def markdown(self) -> str:
        marks = ["---:" if head.startswith(">") else "---" for head in self.heads]
        lines = [[head.removeprefix(">") for head in self.heads], marks, *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def html(self) -> str:
        def line(cells: list[str], name: str) -> str:
            classes = [' class="number"' if head.startswith(">") else "" for head in self.heads]
            inner = "".join(
                f"<{name}{kind}>{html.escape(cell)}</{name}>" for kind, cell in zip(classes, cells, strict=True)
            )
            return f"<tr>{inner}</tr>"

        heads = line([head.removeprefix(">") for head in self.heads], "th")
        return "\n".join(["<table>", heads, *(line(row, "td") for row in self.rows), "</table>"])


def number(value: float) -> str:
    """Three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def percent(part: float) -> str:
    return f"{round(100 * part):+d} %"


def table_of_checks(rows: list[Check]) -> Table:
    heads = ["site", "predicted", "fitted on", ">known", ">model", ">error"]
    cells = [
        [row.site, row.what, row.fitted_on, number(row.known), number(row.model), percent(row.error)] for row in rows
    ]
    return Table(heads, cells)


def worst_line(rows: list[Check]) -> str:
    far = worst(rows)
    off = f"{percent(far.error)}, {far.factor:.3g} times off"
    return f"Worst error: {off} ({far.site}, {far.what}, fitted on {far.fitted_on})."


def scaled(value: float, unit: str) -> str:
    """A quantity as people write it."""
    if unit in ("B", "B/s") and value >= 1e6:
        giga = value >= 1e9
        return f"{value / (1e9 if giga else 1e6):.3g} {'G' if giga else 'M'}{unit}"
    if unit == "s" and value < 0.1:
        return f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} µs"
    return f"{value:.3g} {unit}".rstrip()


def table_of_quantities(rows: list[Quantity]) -> Table:
    cells = [[row.name, scaled(row.value, row.unit), row.source] for row in rows]
    return Table(["quantity", ">value", "source"], cells)
