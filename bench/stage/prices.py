"""Knarr's rule in short, for the simulator: what crates/choose/src/place does, with objectives `blocked` and `durable`.

Bytes of the link and seconds of processors have prices. A level costs what it uses, at those prices; the cheapest wins.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from .codecs import Codec

STEPS, STEP, TIE = 32, 0.7, 1e-3
FASTER, LEAST = 8.0, 8.0


@dataclass(frozen=True)
class Outlook:
    """What a machine has for what waits and for what is to come."""

    queued: float
    burst: float
    more: float
    """Raw bytes to come."""
    seconds: float
    """Until the last of them comes."""
    next: float
    memory: float
    room: float
    drain: float
    idle_cores: float
    cores: float


@dataclass
class Cadence:
    """How often, and how much, the program has written."""

    bursts: int = 0
    bytes: float = 0.0
    first: float = 0.0
    last: float = 0.0

    def came(self, count: float, at: float) -> None:
        self.first = at if self.bursts == 0 else self.first
        self.bursts, self.bytes, self.last = self.bursts + 1, self.bytes + count, at

    def to_come(self, now: float, drain: float) -> dict[str, float]:
        burst = self.bytes / self.bursts
        every = (self.last - self.first) / (self.bursts - 1) if self.bursts > 1 else burst / (FASTER * drain)
        late = (now - self.last) / 2
        more, every = max(2.0 * self.bursts, LEAST), max(every, late)
        return {
            "burst": burst,
            "more": more * burst,
            "seconds": more * every,
            "next": max(self.last + every - now, late),
        }


def level(levels: list[Codec], size: float, outlook: Outlook, objective: str) -> int:
    """Which of the levels the next file gets."""
    uses = [(1 / one.ratio, one.encode) for one in levels]
    if objective == "durable":
        prices = soonest(uses, size + outlook.more, outlook)
    else:
        stays = max(outlook.memory - outlook.burst, 0.0)
        soon = least_blocked(uses, max(size - stays, 0.0), outlook.next, outlook)
        later = least_blocked(uses, max(size + outlook.more - stays, size), outlook.seconds, outlook)
        prices = tuple(max(pair) for pair in zip(soon, later, strict=True))
    return min(range(len(uses)), key=lambda index: sum(p * u for p, u in zip(prices, uses[index], strict=True)))


def least_blocked(
    uses: list[tuple[float, float]], size: float, seconds: float, outlook: Outlook
) -> tuple[float, float]:
    """The prices at which all of it makes the program wait least."""
    byte, second = 1 / outlook.drain, 1 / max(outlook.cores, 1.0)
    room = max(outlook.room - outlook.queued + outlook.drain * seconds, 0.0)
    resources = ((room, TIE * byte, byte), (outlook.idle_cores * seconds, TIE * TIE * second, second))

    def cost(prices: tuple[float, float]) -> float:
        used = min(uses, key=lambda use: sum(p * u for p, u in zip(prices, use, strict=True)))
        total = 0.0
        for (capacity, least, most), use in zip(resources, used, strict=True):
            beyond = use * size - capacity
            total += capacity * least + beyond * most if beyond > 0 else use * size * least
        return total

    tried = [
        [least, *(price for step in reversed(range(STEPS)) if (price := most * STEP**step) > least)]
        for _, least, most in resources
    ]
    return min(itertools.product(*tried), key=cost)


def soonest(uses: list[tuple[float, float]], size: float, outlook: Outlook) -> tuple[float, float]:
    """The link and the processors are busy equally long."""
    cores = max(outlook.idle_cores, 1.0)

    def prices(weight: float) -> tuple[float, float]:
        return weight / outlook.drain, (1 - weight) / cores

    def takes(weight: float) -> tuple[float, float]:
        at = prices(weight)
        stored, encode = min(uses, key=lambda use: at[0] * use[0] + at[1] * use[1])
        return size * stored / outlook.drain, size * encode / cores

    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        link, processors = takes(middle)
        low, high = (middle, high) if link > processors else (low, middle)
    return prices(low if max(takes(low)) < max(takes(high)) else high)


def is_urgent(waiting: float, outlook: Outlook, objective: str) -> bool:
    """True if values have to be encoded even though the program computes on all cores."""
    is_memory_short = outlook.memory - waiting < outlook.burst
    has_room = waiting + outlook.more <= outlook.memory + outlook.room - outlook.queued
    return (outlook.queued <= 0 or is_memory_short) and (objective == "durable" or not has_room)
