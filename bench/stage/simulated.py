"""What the simulator says of the runs that were measured, with the same numbers."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from . import ways
from .codecs import OWN_DEFLATE, Codec
from .hcompress import TIME
from .paper import COPY_RATE
from .setups import RANKS, Setup
from .simulator import Behind, Direct, HCompress, Load, Machine, Placed, Policy, simulate

VARIABLES = 8


@dataclass
class Simulated:
    setup: str
    way: str
    blocked_s: float
    durable_s: float
    stored_bytes: float
    slowed: float


def here(setup: Setup, way_tiers: bool, copy_rate: float) -> Machine:
    used = setup.tiers if way_tiers else setup.tiers[-1:]
    capacity = tuple(float(setup.capacity(tier)) for tier in used)
    return Machine(RANKS, RANKS, copy_rate, tuple(tier.name for tier in used), capacity, tuple(t.rate for t in used))


def policies(codecs: dict[str, Codec]) -> dict[str, Policy]:
    """Of each way that the simulator knows, by its name."""
    levels = [codecs[f"goal {goal}"] for goal in ("speed", "balanced", "ratio")]
    found: dict[str, Policy] = {
        ways.BASE.name: Direct(),
        ways.STWC.name: Direct(codecs[OWN_DEFLATE]),
        ways.MTNC.name: Placed(),
        ways.KNARR.name: Behind(levels),
        ways.DURABLE.name: Behind(levels, "durable"),
    }
    for way in (*ways.CODECS, *ways.GOALS):
        found[way.name] = Behind([codecs[way.name.removesuffix(" in tiers")]])
    return found


def of_runs(setup: Setup, rows: list[dict], codecs: dict[str, Codec], copy_rate: float) -> list[Simulated]:
    """The same ways with the same numbers, and HCompress's rule."""
    load = Load(setup.steps, VARIABLES, setup.step_bytes // (RANKS * VARIABLES), setup.compute_s)
    tiered = here(setup, True, copy_rate)
    wanted = {row["way"] for row in rows if row["setup"] == setup.name}
    known = {name: policy for name, policy in policies(codecs).items() if name in wanted}
    own = [codec for name, codec in codecs.items() if not name.startswith(("goal", OWN_DEFLATE))]
    known["HCompress's rule (simulated only)"] = HCompress(own, TIME, tiered)
    found = []
    for name, policy in known.items():
        machine = here(setup, not isinstance(policy, Direct), copy_rate)
        outcome = simulate(machine, load, policy)
        computed = load.steps * load.compute_s * RANKS
        slowed = outcome.taken_s / computed if computed else 0.0
        found.append(Simulated(setup.name, name, outcome.blocked_s, outcome.durable_s, outcome.stored_bytes, slowed))
    return found


def copy_rate_of(rows: list[dict]) -> float:
    """Of all ranks together, by the way that only copies."""
    copies = [row for row in rows if row["way"] == ways.COPY.name]
    if not copies:
        return COPY_RATE
    steps = [(row["raw_bytes"] / len(row["blocked_s"]), seconds) for row in copies for seconds in row["blocked_s"][1:]]
    return statistics.median(count / max(seconds, 1e-6) for count, seconds in steps)
