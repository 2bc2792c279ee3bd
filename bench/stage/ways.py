"""The ways that are compared, all with the same emulated tiers."""

from __future__ import annotations

from dataclasses import dataclass

from .setups import Setup


@dataclass(frozen=True)
class Way:
    name: str
    how: str
    """What the program does: HOW of particles.c."""
    keys: str | None = None
    """Of the rule, under `knarr run`."""
    is_tiered: bool = True
    """False: everything goes to the last tier."""
    is_throttled: bool = True
    """False: its devices are as fast as memory."""
    delay: int = 0
    """Steps after which a file is closed."""
    portable: str = "core"
    memory: float | None = None
    """Part of the data that memory holds, if not as in the set-up."""

    @property
    def is_staged(self) -> bool:
        return self.keys is not None


def fixed(name: str, chain: str, portable: str = "standard") -> Way:
    return Way(name, "staged", f'variables."*".chain = "{chain}"', portable=portable)


COPY = Way("memory copy", "copy")
NOTHING = Way("no output", "none")
MEMORY = Way("parallel HDF5 in memory", "plain", is_tiered=False, is_throttled=False)
BASE = Way("BASE", "plain", is_tiered=False)
STWC = Way("STWC, shuffle and deflate 1", "deflate", is_tiered=False)
MTNC = Way("MTNC, as Hermes places", "plain")
CODECS = (
    fixed("lz4 in tiers", "lz4"),
    fixed("deflate 1 in tiers", "deflate:1"),
    fixed("deflate 6 in tiers", "deflate:6"),
    fixed("shuffle, deflate 1 in tiers", "shuffle | deflate:1"),
    fixed("zstd 3 in tiers", "zstd:3"),
    fixed("bzip2 in tiers", "bzip2"),
)
GOALS = tuple(Way(f"goal {goal} in tiers", "staged", f'goal = "{goal}"') for goal in ("speed", "balanced", "ratio"))
KNARR = Way("Knarr", "staged", "")
DURABLE = Way("Knarr, durable", "staged", 'objective = "durable"')
STANDARD = Way("Knarr, durable, all filters", "staged", 'objective = "durable"', portable="standard")
LATER = Way("Knarr, closed a step later", "staged", "", delay=1)
AMPLE = Way("Knarr, memory for all", "staged", "", memory=1.0)
BOUND, BOUNDED_NAMES = 0.001, ("x", "y", "z", "ux", "uy", "uz")
BOUNDED = Way(
    f"Knarr, durable, within {BOUND}",
    "staged",
    "\n".join(['objective = "durable"', *(f"variables.{name}.max_abs_error = {BOUND}" for name in BOUNDED_NAMES)]),
    portable="standard",
)


BY_SETUP = {
    "vpic": (NOTHING, COPY, BASE, STWC, MTNC, *GOALS, KNARR, DURABLE, LATER),
    "vpic, burst buffers": (MTNC, KNARR, DURABLE),
    "long": (NOTHING, COPY, MEMORY, MTNC, KNARR, DURABLE, AMPLE),
    "figure 5": (MTNC, *CODECS, KNARR, DURABLE, STANDARD, BOUNDED),
    "figure 5, whole numbers": (MTNC, *CODECS, KNARR, DURABLE, STANDARD),
    "figure 6": (MTNC, *CODECS, KNARR, DURABLE, STANDARD),
    "one rank": (NOTHING, MTNC, GOALS[0], KNARR),
    "figure 3": (MTNC, KNARR, DURABLE),
    "figure 4": (DURABLE, STANDARD),
}
"""Which ways take turns."""


def configuration(setup: Setup, way: Way) -> str:
    """The `knarr.toml` of a way."""
    sections = []
    for tier in setup.tiers[:-1]:
        if tier.name == "ram":
            part = tier.part if way.memory is None else way.memory
            sections.append(f'[[tier]]\nname = "ram"\npath = "/dev/shm"\ncapacity = "{int(part * setup.raw_bytes)}"')
        else:
            sections.append(
                f'[[tier]]\nname = "{tier.name}"\npath = "tiers/{tier.name}"\ncapacity = "{setup.capacity(tier)}"\n'
                f'emulate = {{ rate = "{tier.rate / 1e6:g}MB/s" }}'
            )
    last = setup.tiers[-1]
    sections.append(
        f'[[tier]]\nname = "{last.name}"\npath = "."\nemulate = {{ rate = "{last.rate / 1e6:g}MB/s", shared = true }}'
    )
    rule = f'[[file]]\npattern = "vpic_*.h5"\nroute = "stage"\nportable = "{way.portable}"\n{way.keys}\n'
    return "\n".join([*sections, rule])
