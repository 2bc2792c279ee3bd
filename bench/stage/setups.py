"""What is written, and the tiers: fractions of the data and rates of the HCompress paper, scaled to one small node.

The paper's machine: 64 nodes of 40 ranks. Its parallel file system took 8 TB in 4,270 s, which is 29 MB/s a node. The
rates of the other tiers are not in its text. Two of them are assumed: 62.5 MB/s of burst buffers a node (8 solid-state
disks of 500 MB/s in all), and 700 MB/s for the NVMe of a node.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

RANKS = 2
PLACE_RATE, BURST_RATE, NVME_RATE = 29e6, 62.5e6, 700e6
MEMORY, NVME, BURST, PLACE = "ram", "nvme", "burst", "place"


@dataclass(frozen=True)
class Tier:
    name: str
    part: float
    """Of all data that it holds; the last tier holds all."""
    rate: float
    """Bytes a second; 0: that of memory."""


@dataclass(frozen=True)
class Setup:
    name: str
    title: str
    values: str
    """Which values: a key of `values.KINDS`."""
    tiers: tuple[Tier, ...]
    steps: int
    step_bytes: int
    compute_s: float
    """Between steps."""
    is_read: bool
    """All steps are read afterwards, by other processes of the run."""
    computing: int = RANKS
    """Ranks that compute between steps. The others sleep."""

    @property
    def raw_bytes(self) -> int:
        return self.steps * self.step_bytes

    @property
    def count(self) -> int:
        """Particles of a rank and a step, of 40 bytes."""
        return self.step_bytes // (40 * RANKS)

    def capacity(self, tier: Tier) -> int:
        return int(tier.part * self.raw_bytes)

    def emulated(self) -> str:
        """What has to stand beside each number."""
        parts = [
            f"{tier.name} {100 * tier.part:.3g} % of the data" + (f" at {tier.rate / 1e6:g} MB/s" if tier.rate else "")
            for tier in self.tiers[:-1]
        ]
        return f"emulated by token buckets: {', '.join(parts)}, last tier {self.tiers[-1].rate / 1e6:g} MB/s"


def tiers(memory: float, nvme: float, *below: Tier) -> tuple[Tier, ...]:
    return (Tier(MEMORY, memory, 0.0), Tier(NVME, nvme, NVME_RATE), *below)


TO_FILES = Tier(PLACE, 1.0, PLACE_RATE)
"""The last tier is the parallel file system."""
TO_BURST = Tier(PLACE, 1.0, BURST_RATE)
"""The last tier is the burst buffers: the paper counts nothing beyond them."""
STEP, SHORT_STEP = 40_000_000, 32_000_000
COMPUTE = 60 * STEP / (40 * 256e6)
"""Seconds. The paper computes 60 s after each step of 40 ranks x 256 MB."""

SETUPS = (
    Setup(
        "vpic",
        "VPIC-IO, then BD-CATS-IO (figures 1, 7, 8)",
        "particles",
        tiers(0.12, 0.24, TO_FILES),
        10,
        STEP,
        round(COMPUTE, 2),
        True,
    ),
    Setup(
        "vpic, burst buffers",
        "The same with burst buffers before the file system",
        "particles",
        tiers(0.12, 0.24, Tier(BURST, 1.0, BURST_RATE), TO_FILES),
        10,
        STEP,
        round(COMPUTE, 2),
        True,
    ),
    Setup(
        "long",
        "VPIC-IO with four times as much computing",
        "particles",
        tiers(0.12, 0.24, TO_FILES),
        10,
        STEP,
        1.0,
        False,
    ),
    Setup("figure 5", "Writing only (figure 5)", "particles", tiers(0.2, 0.6, TO_BURST), 8, SHORT_STEP, 0.0, False),
    Setup(
        "figure 5, whole numbers",
        "The same, whole numbers of which zlib makes as little as of the paper's data",
        "distributions",
        tiers(0.2, 0.6, TO_BURST),
        8,
        SHORT_STEP,
        0.0,
        False,
    ),
    Setup(
        "figure 6",
        "Writing, then reading (figure 6)",
        "particles",
        tiers(32 / 671, 96 / 671, TO_BURST),
        8,
        SHORT_STEP,
        0.0,
        True,
    ),
    Setup(
        "one rank",
        "VPIC-IO in which one of two ranks computes",
        "particles",
        tiers(0.12, 0.64, TO_FILES),
        10,
        STEP,
        0.6,
        False,
        1,
    ),
    Setup(
        "figure 3", "Anatomy of small files (figure 3)", "particles", tiers(0.2, 0.6, TO_BURST), 60, 10**6, 0.0, False
    ),
    Setup("figure 4", "Forecasts (figure 4)", "floats", tiers(0.2, 0.6, TO_BURST), 8, SHORT_STEP, 0.0, False),
)


def chosen() -> list[Setup]:
    """All of them; those that `STAGE_SETUPS` names (between semicolons), with `STAGE_STEPS` steps, for a quick look."""
    names = [name.strip() for name in os.environ.get("STAGE_SETUPS", "").split(";") if name]
    wanted = [setup for setup in SETUPS if not names or setup.name in names]
    steps = int(os.environ.get("STAGE_STEPS", "0"))
    return [replace(setup, steps=min(steps, setup.steps)) for setup in wanted] if steps else wanted
