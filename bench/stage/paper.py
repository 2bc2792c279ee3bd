"""The paper's machine in the simulator: what the paper's text says goes in, and what else it says is compared.

From the text: 64 nodes of 40 ranks, the sizes, the time of the file system (4,270 s), of two codecs alone and what they
make of the data (figure 1: Brotli 90 s and a half, zlib 3,431 s and a fifth). One rate is fitted: that of the burst
buffers, on what Hermes gains (2.5 times). Everything else is predicted. Knarr's rule gets the same codecs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .codecs import Codec
from .hcompress import COMPRESSION_AND_RATIO, TIME, Weights
from .setups import NVME_RATE
from .simulator import Behind, Direct, HCompress, Load, Machine, Outcome, Placed, Policy, simulate

NODES, NODE_RANKS, VARIABLES, STEPS = 64, 40, 8, 10
COPY_RATE = 10e9
"""Bytes a second that a node copies to memory (assumed)."""
RANK_BYTES = STEPS * 256e6
NODE_BYTES = NODE_RANKS * RANK_BYTES
FILES_S, HERMES_GAIN = 4270.0, 2.5
BROTLI = Codec("Brotli", 2.0, 90 / RANK_BYTES, 30 / RANK_BYTES)
ZLIB = Codec("zlib", 5.0, 3431 / RANK_BYTES, 300 / RANK_BYTES)
"""Decoding is assumed: a third and a tenth of the time of encoding."""
FIGURE_5_RATIOS = {"Brotli": 320 / 203, "zlib": 320 / 70}
VPIC = Load(STEPS, VARIABLES, 32_000_000, 60.0)
FILES = Machine(NODE_RANKS, NODE_RANKS, COPY_RATE, ("files",), (0.0,), (NODE_BYTES / FILES_S,))


@dataclass
class Check:
    """A number of the paper, and what its rule and Knarr's give in the simulator."""

    figure: str
    what: str
    paper: float
    hcompress: float | None
    knarr: float | None
    why: str
    """If they differ."""


INPUT = "It went in."
RATES = "The rate of the NVMe is assumed, and the weights of compression and ratio are not in the text."
STOPS = (
    "The paper's text has 8 TB, its figures 2,560 ranks x 10 x 256 MB = 6.6 TB, and the share of computing in its "
    "times is not said."
)
LIMIT = (
    "5 GB a node in hundreds of seconds, although 80 % of it fits memory and NVMe: something other than the devices "
    "was the paper's limit, and is not in the simulator."
)


def node(memory: float, nvme: float, burst: float, burst_rate: float) -> Machine:
    """What is written ends in the burst buffers, as in the paper."""
    names, capacity = ("ram", "nvme", "burst"), (memory, nvme, burst)
    return Machine(NODE_RANKS, NODE_RANKS, COPY_RATE, names, capacity, (0.0, NVME_RATE, burst_rate))


def fitted_burst_rate() -> float:
    """Bytes a second of a node, at which Hermes gains what it does in the paper."""
    wanted, low, high = simulate(FILES, VPIC, Direct()).blocked_s / HERMES_GAIN, 1e6, 1e9
    for _ in range(20):
        middle = (low * high) ** 0.5
        if simulate(node(12.5e9, 25e9, NODE_BYTES, middle), VPIC, Placed()).blocked_s > wanted:
            low = middle
        else:
            high = middle
    return low


def ruled(machine: Machine, codecs: list[Codec], weights: Weights) -> Policy:
    return HCompress(codecs, weights, machine)


def checks() -> list[Check]:
    codecs, burst_rate = [BROTLI, ZLIB], fitted_burst_rate()
    tiered = node(12.5e9, 25e9, NODE_BYTES, burst_rate)

    def blocked(machine: Machine, policy: Policy) -> float:
        return simulate(machine, VPIC, policy).blocked_s

    base, mtnc = blocked(FILES, Direct()), blocked(tiered, Placed())
    stwc = blocked(FILES, Direct(BROTLI))
    hc, knarr = blocked(tiered, ruled(tiered, codecs, COMPRESSION_AND_RATIO)), blocked(tiered, Behind(codecs))
    return [
        Check("1", "file system, s", FILES_S, base, None, INPUT),
        Check("1", "BASE over Hermes", HERMES_GAIN, base / mtnc, None, INPUT),
        Check("1", "BASE over Brotli alone", 1.93, base / stwc, None, STOPS),
        Check("1", "BASE over zlib alone", 4270 / (3431 + 4270 / 5), base / blocked(FILES, Direct(ZLIB)), None, STOPS),
        Check("7", "blocked, BASE over HCompress", 12, base / hc, base / knarr, RATES),
        Check("7", "blocked, STWC over HCompress", 7, stwc / hc, stwc / knarr, RATES),
        Check("7", "blocked, MTNC over HCompress", 7, mtnc / hc, mtnc / knarr, RATES),
        *figure_5(burst_rate),
        *figure_6(burst_rate),
    ]


def of_figure_5() -> list[Codec]:
    return [replace(codec, ratio=FIGURE_5_RATIOS[codec.name]) for codec in (BROTLI, ZLIB)]


def figure_5(burst_rate: float) -> list[Check]:
    machine, load, codecs = node(1e9, 3e9, 31.25e9, burst_rate), Load(1, 128, 1_000_000, 0.0), of_figure_5()
    none = simulate(machine, load, Placed()).blocked_s
    brotli, zlib = (simulate(machine, load, Placed(codec)).blocked_s for codec in codecs)
    best = min(brotli, zlib)
    hc, knarr = (simulate(machine, load, policy).blocked_s for policy in (ruled(machine, codecs, TIME), Behind(codecs)))
    return [
        Check("5", "Brotli in tiers, s", 634, brotli, None, LIMIT),
        Check("5", "zlib in tiers, s", 218, zlib, None, LIMIT),
        Check("5", "none over HCompress, at most", 8, none / hc, none / knarr, LIMIT),
        Check("5", "best codec over HCompress, at least", 1.72, best / hc, best / knarr, LIMIT),
    ]


def figure_6(burst_rate: float) -> list[Check]:
    machine, load, codecs = node(0.5e9, 1.5e9, 15.6e9, burst_rate), Load(1, 512, 512_000, 0.0), of_figure_5()

    def both(policy: Policy, used: list[Codec]) -> float:
        outcome = simulate(machine, load, policy)
        return outcome.blocked_s + reading(machine, load, outcome, used)

    times = [both(Placed(codec), [codec]) for codec in codecs]
    hc, knarr = both(ruled(machine, codecs, TIME), codecs), both(Behind(codecs), codecs)
    return [
        Check("6", "best codec over HCompress, at least", 1.4, min(times) / hc, min(times) / knarr, LIMIT),
        Check("6", "worst codec over HCompress, at most", 3, max(times) / hc, max(times) / knarr, LIMIT),
    ]


def reading(machine: Machine, load: Load, outcome: Outcome, codecs: list[Codec]) -> float:
    """What was written, from where it was at most, with the fastest decoder."""
    left, took = outcome.stored_bytes, 0.0
    for tier, name in enumerate(machine.names[:-1]):
        part = min(left, outcome.in_tier[name])
        took = max(took, part / (machine.rate[tier] or machine.copy_rate))
        left -= part
    took = max(took, left / machine.rate[-1])
    return took + min(codec.decode for codec in codecs) * load.step_bytes(machine) / machine.cores
