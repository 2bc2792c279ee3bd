"""HCompress's rule as its paper states it (equations 1 to 4), for the simulator: the cheapest time for this task, now.

    Match(i, l, c) = min { t(i, l, c), Match(i, l + 1, c), Match(i, l, c + 1) }     if it fits what is left in tier l
                   = Place(the part that fits) + Match(the rest, l + 1, c)           else; parts are multiples of 4,096
    t(i, l, c)     = wc * tc + t - wr * t * (r - 1) / r + wd * td,   t = size / rate of tier l

Codec 0 is none, so that t(i, l, 0) is the time of plain bytes. A codec that does not shrink is left out (constraint 4).
"""

from __future__ import annotations

from dataclasses import dataclass

from .codecs import Codec

PAGE = 4096


@dataclass(frozen=True)
class Weights:
    compression: float
    ratio: float
    decompression: float


TIME = Weights(1.0, 1.0, 1.0)
"""Real time. The paper's own are below."""
ASYNCHRONOUS = Weights(1.0, 0.0, 0.0)
ARCHIVAL = Weights(0.0, 1.0, 0.0)
READ_AFTER_WRITE = Weights(0.3, 0.4, 0.3)
COMPRESSION_AND_RATIO = Weights(0.5, 0.5, 0.0)
"""Figures 7 and 8 weigh compression and ratio; how much each is not said."""


@dataclass(frozen=True)
class Part:
    raw_bytes: int
    tier: int
    codec: int


class Rule:
    """Decides for a task where its parts go, by what a rank gets of each tier's rate."""

    def __init__(self, codecs: list[Codec], rates: list[float], weights: Weights) -> None:
        self.codecs = [codec for codec in codecs if codec.ratio > 1.0 or codec.name == "none"]
        self.rates, self.weights = rates, weights
        self.known: dict[tuple[int, int, int], tuple[float, tuple[Part, ...]]] = {}
        self.room: list[float] = []

    def decide(self, size: int, room: list[float]) -> tuple[Part, ...]:
        """`room` of each tier; the last one has enough."""
        self.known, self.room = {}, room
        return self._match(size, 0, 0)[1]

    def cost(self, size: int, tier: int, codec: int) -> float:
        of, weights = self.codecs[codec], self.weights
        plain = size / self.rates[tier]
        saved = plain * (of.ratio - 1) / of.ratio
        return (
            weights.compression * size * of.encode
            + plain
            - weights.ratio * saved
            + weights.decompression * size * of.decode
        )

    def _match(self, size: int, tier: int, codec: int) -> tuple[float, tuple[Part, ...]]:
        key = (size, tier, codec)
        if key not in self.known:
            self.known[key] = self._search(*key)
        return self.known[key]

    def _search(self, size: int, tier: int, codec: int) -> tuple[float, tuple[Part, ...]]:
        is_last, ratio = tier + 1 == len(self.rates), self.codecs[codec].ratio
        if is_last or size / ratio <= self.room[tier]:
            options = [(self.cost(size, tier, codec), (Part(size, tier, codec),))]
            if not is_last:
                options.append(self._match(size, tier + 1, codec))
            if codec + 1 < len(self.codecs):
                options.append(self._match(size, tier, codec + 1))
            return min(options, key=lambda option: option[0])
        fits = int(self.room[tier] * ratio) // PAGE * PAGE
        if fits <= 0:
            return self._match(size, tier + 1, codec)
        rest = self._match(size - fits, tier + 1, codec)
        return self.cost(fits, tier, codec) + rest[0], (Part(fits, tier, codec), *rest[1])
