"""What the runs say, put together: medians of each way, and whether the goals that were set for them are met."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from . import ways
from .setups import SETUPS, Setup

FIGURE_5 = ("figure 5", "figure 5, whole numbers")


@dataclass
class Summary:
    """Of a way in a set-up, over all rounds."""

    setup: str
    way: str
    blocked_s: float
    step_s: float
    """Blocked in a step, without the first: that one meets memory that nobody has used."""
    durable_s: float
    read_s: float
    bytes: float
    multiplications: float
    ratio: float

    @property
    def waited_s(self) -> float:
        """In output and, if there was any, reading."""
        return self.blocked_s + (0.0 if math.isnan(self.read_s) else self.read_s)


def middle(values: list[float]) -> float:
    return statistics.median(values) if values else math.nan


def summaries(rows: list[dict]) -> dict[tuple[str, str], Summary]:
    found: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        found.setdefault((row["setup"], row["way"]), []).append(row)
    return {key: summary(*key, own) for key, own in found.items()}


def summary(setup: str, way: str, rows: list[dict]) -> Summary:
    stored = middle([row["bytes"] for row in rows if "bytes" in row])
    return Summary(
        setup,
        way,
        middle([sum(row["blocked_s"]) for row in rows]),
        middle([seconds for row in rows for seconds in row["blocked_s"][1:]]),
        middle([row["durable_s"] for row in rows if "durable_s" in row]),
        middle([sum(row["read_s"]) for row in rows if "read_s" in row]),
        stored,
        middle([sum(row["multiplications"]) for row in rows]),
        rows[0]["raw_bytes"] / stored,
    )


@dataclass
class Criterion:
    what: str
    found: float
    limit: float
    is_least: bool
    """True if `found` has to be as much as the limit; else it may be no more."""

    @property
    def is_met(self) -> bool:
        return self.found >= self.limit if self.is_least else self.found <= self.limit

    def words(self) -> tuple[str, str]:
        """What is wanted, and what became of it."""
        sign = "at least" if self.is_least else "at most"
        return f"{sign} {self.limit:g}", "met" if self.is_met else "missed"


def setup_of(name: str) -> Setup:
    return next(setup for setup in SETUPS if setup.name == name)


def criteria(rows: list[dict]) -> list[Criterion]:
    """Those for which there are runs."""
    of = summaries(rows)
    names = {setup for setup, _ in of}
    found: list[Criterion] = []
    for name in FIGURE_5:
        if name in names:
            found += writing(of, name)
    if "figure 6" in names:
        found += reading(of)
    if "vpic" in names:
        found += vpic(of)
    if "figure 3" in names:
        found += deciding(rows)
    for name in ("vpic", "long", "one rank"):
        if name in names:
            found += computing(of, name)
    return found


def fixed(of: dict[tuple[str, str], Summary], setup: str) -> list[Summary]:
    return [of[setup, way.name] for way in ways.CODECS if (setup, way.name) in of]


def writing(of: dict[tuple[str, str], Summary], setup: str) -> list[Criterion]:
    found = []
    for way in (ways.DURABLE, ways.STANDARD):
        mine = of[setup, way.name].durable_s
        best = min(one.durable_s for one in fixed(of, setup)) / mine
        none = of[setup, ways.MTNC.name].durable_s / mine
        found.append(Criterion(f"{setup}: until durable, best fixed codec over {way.name}", best, 1.72, True))
        found.append(Criterion(f"{setup}: until durable, no compression over {way.name}", none, 8, True))
    return found


def reading(of: dict[tuple[str, str], Summary]) -> list[Criterion]:
    found = []
    for way in (ways.KNARR, ways.DURABLE):
        mine = of["figure 6", way.name].waited_s
        least = min(one.waited_s for one in fixed(of, "figure 6")) / mine
        found.append(Criterion(f"figure 6: written and read, best fixed codec over {way.name}", least, 1.4, True))
    return found


def vpic(of: dict[tuple[str, str], Summary]) -> list[Criterion]:
    found = []
    rate = setup_of("vpic").tiers[-1].rate
    for way in (ways.KNARR, ways.DURABLE):
        mine = of["vpic", way.name]
        for peer, limit in ((ways.BASE, 12), (ways.STWC, 7), (ways.MTNC, 7)):
            other, name = of["vpic", peer.name], peer.name.partition(",")[0]
            found.append(
                Criterion(f"figure 7: blocked, {name} over {way.name}", other.blocked_s / mine.blocked_s, limit, True)
            )
            found.append(
                Criterion(
                    f"figure 8: with reading, {name} over {way.name}", other.waited_s / mine.waited_s, limit, True
                )
            )
        found.append(
            Criterion(
                f"figure 7: until durable over size / (ratio x rate), {way.name}",
                mine.durable_s / (mine.bytes / rate),
                1.05,
                False,
            )
        )
    return found


def deciding(rows: list[dict]) -> list[Criterion]:
    """The part of all that small files take which goes into the choice of levels."""
    found = []
    for way in (ways.KNARR, ways.DURABLE):
        own = [row["phases_s"] for row in rows if (row["setup"], row["way"]) == ("figure 3", way.name)]
        part = middle([100 * phases["decide"] / sum(phases.values()) for phases in own])
        found.append(Criterion(f"figure 3: choosing levels, % of the time of files, {way.name}", part, 0.5, False))
    return found


def computing(of: dict[tuple[str, str], Summary], setup: str) -> list[Criterion]:
    found = []
    alone = of[setup, ways.NOTHING.name].multiplications
    for way in (ways.KNARR, ways.DURABLE, ways.AMPLE):
        if (setup, way.name) not in of:
            continue
        mine = of[setup, way.name]
        slower = 100 * (1 - mine.multiplications / alone)
        found.append(Criterion(f"{setup}: computing slower than without output, %, {way.name}", slower, 3, False))
        if way == ways.AMPLE:
            copy = of[setup, ways.COPY.name].step_s
            found.append(Criterion(f"{setup}: blocked over memory copy, {way.name}", mine.step_s / copy, 2, False))
    return found
