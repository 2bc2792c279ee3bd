"""Lives of files that are handed over: the table of what programs do, in which surroundings, and whose calls may fail.

`lives_trial.py` runs one with a fault, `lives_oracle.py` says what must be there afterwards, `lives_regressions.py`
what was wrong once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from injecting import Call, Fault, Victim

LONGEST_S = 120
"""No run takes so long, though other work runs: what is waited for at most is 5 s, a few times. What hangs does so for
ever."""
TOP = "knarr-life"
"""Part of the names of all directories in which lives are led."""
PLACES = (
    f"/{TOP}-",
    "/dev/shm/knarr-",
    "/dev/shm/.knarr-",
    "libknarr",
    "launcher.sock",
    "new ",
    "socket",
    "/proc/self/exe",
)
"""Texts in what those calls are about that are Knarr's."""
BUCKET = "s3://bucket"
"""In rules and tiers: the bucket of the life."""


@dataclass(frozen=True)
class Life:
    """What is done, and where."""

    name: str
    library: str
    """`faults/life_LIBRARY.c`."""
    letters: str
    part: int = 2000
    """Numbers in each put. A file with fewer is smaller as the program's library writes it, and goes back so."""
    ranks: int = 1
    nodes: str = ""
    """The node of each rank, which then has a launcher of its own."""
    reads: str = ""
    """Letters of another program, which gets the file by route `transfer`. That one is "r", the first one is "w"."""
    rule: str = ""
    """Lines of the rule in `knarr.toml`."""
    tiers: str = ""
    """Lines of `knarr.toml` before the rule."""
    learned: str = ""
    """What earlier runs have learned, as `machine.learned.json` has it beside the profile "machine.json"."""
    options: tuple[str, ...] = ()
    """Of `knarr run`."""
    checkpoints: str = "jobs=1"
    """Options of the checkpoint library."""
    memory: str = ""
    """Size of the shared memory."""
    disk: str = ""
    """Size of the disk, until what is left is recovered."""
    is_deep: bool = False
    """The directory has a long name."""
    prints_to: str = ""
    """Where what the program prints goes."""
    stops_at: str = ""
    """When the first rank has noted this, the launcher gets SIGTERM."""
    is_recovered: bool = False
    """Calls do not fail in the run, but as what it has left is recovered."""
    victims: tuple[str, ...] = ("rank 0", "launcher", "worker")
    longest_s: float = LONGEST_S

    @property
    def suffix(self) -> str:
        return {"hdf5": ".h5", "serial": ".h5", "checkpoint": ".sets", "posix": ".bin"}.get(self.library, ".nc")

    @property
    def holds(self) -> bool:
        """The library keeps in its memory what it writes itself, until the file is closed."""
        return self.library in ("hdf5", "serial", "netcdf", "classic")

    @property
    def is_alone(self) -> bool:
        """The program uses Knarr's own library: nothing runs beside it, and nothing is recovered."""
        return self.library in ("output", "checkpoint")

    @property
    def is_in_bucket(self) -> bool:
        return BUCKET in self.rule + self.tiers

    def places_of_mpi(self, victim: Victim) -> tuple[str, ...]:
        """Of a file that MPI-IO opens: in Open MPI ranks wait for each other for ever if one of them cannot open it."""
        does = self.holds and self.ranks > 1 and "w" in self.letters and victim.name.startswith("rank")
        return ("not=/work/hist_",) if does else ()

    def victim(self, name: str) -> Victim:
        """By its name: "rank 1", "launcher", "worker"; "launcher b" and "rank 0 r" of one of several nodes or sides."""
        what, *words = name.split()
        side = f"KNARR_SIDE={words[-1]}" if words and words[-1].isalpha() else ""
        if what == "rank":
            env = f"OMPI_COMM_WORLD_RANK={words[0]}" if self.ranks > 1 else side
            return Victim(name, "/life_", env=env, is_marked=True, places=(*PLACES, "no file"))
        return Victim(name, "/knarr", {"launcher": "run", "worker": "worker"}[what], side, places=PLACES)


def faults_of(victim: Victim, calls: Sequence[Call]) -> list[Fault]:
    """All ways in which one of these calls fails."""
    return [Fault(victim, call, action) for call in calls for action in call.actions()]


TWO_RANKS = ("rank 0", "rank 1", "launcher", "worker")
TWO_NODES = ("rank 0", "rank 1", "launcher a", "launcher b", "worker a")
TWO_SIDES = ("rank 0 w", "launcher w", "rank 0 r", "launcher r")
SMALL_PUTS = "cf" + 600 * "p" + "x"
TRANSFER = 'route = "transfer"\nfrom = "w"\nto = ["r"]\ntimeout = "5s"\n'

STAGE = 'route = "stage"\n'
"""Files wait in the directory "tier"."""


def tiers(capacity: str) -> str:
    return (
        '[[tier]]\nname = "ram"\npath = "/dev/shm"\n'
        f'[[tier]]\nname = "fast"\npath = "tier"\ncapacity = "{capacity}"\n'
        '[[tier]]\nname = "slow"\npath = "work"\nemulate = { rate = "20MB/s", shared = true }\n'
    )


# What waits behind another file is encoded again. At first level "speed" is said to be the best.
WAITS = f"""[machine]
profile = "machine.json"
{tiers("64M").replace("20MB/s", "4kB/s")}[[file]]
pattern = "hist_1*"
{STAGE}"""
LEARNED = """{"families": [{"pattern": "hist_*", "extension": "h5", "variables": [], "levels": [
{"ratio": 1000.0, "encode": 1e-9, "decode": 1e-9},
{"ratio": 1.5, "encode": 1e-7, "decode": 1e-8},
{"ratio": 1.6, "encode": 1e-6, "decode": 1e-8}]}]}"""

LIVES = [
    Life("pnetcdf", "pnetcdf", "cfppPnrsgdpx"),
    Life("pnetcdf, spilled", "pnetcdf", "cfpppppppppppprngx", part=250_000, options=("--max-mem", "24M")),
    Life("pnetcdf, small memory", "pnetcdf", "cfpppprpngx", part=100_000, memory="3m"),
    # Nothing is delivered: there is no worker.
    Life(
        "pnetcdf, fits nowhere",
        "pnetcdf",
        "cfppppppppprpngx",
        part=100_000,
        memory="1536k",
        disk="200k",
        victims=("rank 0", "launcher"),
    ),
    Life("pnetcdf, small puts", "pnetcdf", SMALL_PUTS, part=1024, memory="2m", victims=("rank 0",)),
    Life("pnetcdf, deep down", "pnetcdf", SMALL_PUTS, part=1024, memory="2m", is_deep=True, victims=("rank 0",)),
    Life("pnetcdf, two ranks", "pnetcdf", "cfppPnrsgpx", ranks=2, victims=TWO_RANKS),
    # MPI ends, and the file is closed then.
    Life("pnetcdf, left open", "pnetcdf", "cfppPnrsgp", ranks=2, victims=TWO_RANKS),
    Life("pnetcdf, created twice", "pnetcdf", "cfppxcfpprx", part=500),
    Life("pnetcdf, read again", "pnetcdf", "cfppxoax"),
    Life("pnetcdf, changed again", "pnetcdf", "cfppxwprxoax"),
    Life("pnetcdf, waited for", "pnetcdf", "cfppx", rule='wait = "close"\n'),
    Life("pnetcdf, recovered", "pnetcdf", "cfppPrq", is_recovered=True, victims=("launcher", "worker")),
    Life("pnetcdf, stopped", "pnetcdf", "cfppx2cfppzzzzzzzzzzzzzzzzzzz", stops_at="9 put", victims=("launcher",)),
    Life("pnetcdf, two nodes", "pnetcdf", "cfppPnrsgpx", ranks=2, nodes="ab", victims=TWO_NODES),
    Life("pnetcdf, nodes, twice", "pnetcdf", "cfpxcfprxoax", ranks=2, nodes="ab", victims=TWO_NODES),
    Life("pnetcdf, transferred", "pnetcdf", "cfppPnrx", reads="oax", rule=TRANSFER, victims=TWO_SIDES),
    Life("pnetcdf, kept, too", "pnetcdf", "cfppx", reads="oax", rule=f"{TRANSFER}keep = true\n", victims=TWO_SIDES),
    Life("pnetcdf, in a bucket", "pnetcdf", "cfppnrx", rule=f'output = "{BUCKET}"\n', victims=("launcher", "worker")),
    Life("hdf5", "hdf5", "cfppPrsgdpx", part=500),
    Life("hdf5, two ranks", "hdf5", "cfppPrsgpx", ranks=2, victims=TWO_RANKS),
    Life("hdf5, left open", "hdf5", "cfppPrsgp", ranks=2, victims=TWO_RANKS),
    Life("hdf5, prints nowhere", "hdf5", "cfppPrx", prints_to="/dev/full", victims=("rank 0",)),
    Life("hdf5, created twice", "hdf5", "cfppxcfpprx"),
    Life("hdf5, changed again", "hdf5", "cfppxwprxoax"),
    Life("hdf5, reopened by ranks", "hdf5", "cfppxwPprxwPxoax", ranks=2, victims=TWO_RANKS),
    Life("hdf5, two nodes", "hdf5", "cfppPrsgpx", ranks=2, nodes="ab", victims=TWO_NODES),
    Life("hdf5, transferred", "hdf5", "cfpprx", reads="oax", rule=TRANSFER, victims=TWO_SIDES),
    Life("serial", "serial", "cfppPrsgdpx", part=500),
    Life("serial, created twice", "serial", "cfppxcfpprx"),
    Life("serial, changed again", "serial", "cfppxwprxoax"),
    Life("serial, small memory", "serial", "cfpppprpgx", part=100_000, memory="3m"),
    Life("netcdf", "netcdf", "cfppPrsgdpx"),
    Life("netcdf, two ranks", "netcdf", "cfppPrsgpx", ranks=2, victims=TWO_RANKS),
    Life("pnetcdf, staged", "pnetcdf", "cfppPnrsgpx", rule=STAGE, tiers=tiers("64M")),
    Life("pnetcdf, staged twice", "pnetcdf", "cfppxcfpprxoax", part=500, rule=STAGE, tiers=tiers("64M")),
    # Values leave memory at the next look, while the file is encoded.
    Life(
        "pnetcdf, moved out", "pnetcdf", "cfppPnrsgpxcfpprx", rule=f'{STAGE}local_within = "1ms"\n', tiers=tiers("64M")
    ),
    Life(
        "pnetcdf, staged, stopped",
        "pnetcdf",
        "cfppx2cfppzzzzzzzzzzzzzzzzzzz",
        stops_at="9 put",
        rule=STAGE,
        tiers=tiers("64M"),
        victims=("launcher",),
    ),
    Life("hdf5, staged", "hdf5", "cfppPrsgpx", ranks=2, rule=STAGE, tiers=tiers("64M"), victims=TWO_RANKS),
    Life("serial, staged", "serial", "cfppxcfpprx", rule=STAGE, tiers=tiers("64M")),
    Life(
        "serial, staged to a bucket",
        "serial",
        "cfppx2cfpprx",
        rule=STAGE,
        tiers=tiers("64M").replace('"work"', f'"{BUCKET}"'),
        victims=("launcher", "worker"),
    ),
    Life("serial, tier full", "serial", "cfpppprpgx", part=100_000, memory="3m", rule=STAGE, tiers=tiers("1M")),
    Life(
        "serial, staged, encoded again",
        "serial",
        "cfppx2cfppxzzzz",
        part=200_000,
        rule=f'portable = "knarr"\n{STAGE}',
        tiers=WAITS,
        learned=LEARNED,
        victims=("launcher", "worker"),
    ),
    Life(
        "classic, packed",
        "classic",
        "cfppxcfpprx",
        part=20_000,
        rule='when = "close"\n',
        victims=("launcher", "worker"),
    ),
    # The program writes its files in the tier itself.
    Life("whole, staged", "posix", "cfppsgdpxorgxwpxcfppxA2cfpAcfpx", rule=STAGE, tiers=tiers("640M")),
    # It is read in the tier when it is in its place, until it is changed.
    Life("whole, read in the tier", "posix", "cfppxzzzzoaxwpxoax", rule=STAGE, tiers=tiers("64M")),
    Life("serial, read in the tier", "serial", "cfppxzzzzoaxwpxoax", rule=STAGE, tiers=tiers("64M")),
    # What a killed program has not written yet is lost as without Knarr.
    Life(
        "whole, packed",
        "classic",
        "cfppxcfpprx",
        part=20_000,
        rule=f'{STAGE}when = "close"\n',
        tiers=tiers("64M"),
        victims=("launcher", "worker"),
    ),
    Life("whole, tier full", "posix", "cfppx2cfppxor", part=300_000, rule=STAGE, tiers=tiers("5M")),
    Life(
        "whole, staged, stopped",
        "posix",
        "cfppx2cfppzzzzzzzzzzzzzzzzzzz",
        stops_at="9 put",
        rule=STAGE,
        tiers=tiers("64M"),
        victims=("launcher",),
    ),
    Life(
        "pnetcdf, nodes, staged",
        "pnetcdf",
        "cfppPnrxoax",
        ranks=2,
        nodes="ab",
        rule=STAGE,
        tiers=tiers("64M"),
        victims=TWO_NODES,
    ),
    Life("output library", "output", "cfppnrsdxcfprx", victims=("rank 0",)),
    Life("checkpoint library", "checkpoint", "cfppxcfpprxe", victims=("rank 0",)),
    Life(
        "checkpoint library, levels",
        "checkpoint",
        "cfppxcfpprxcfppxe",
        checkpoints="jobs=1 local=../node local_keep=1 flush=2",
        victims=("rank 0",),
    ),
    Life(
        "checkpoint library, memory",
        "checkpoint",
        "cfppxcfpprxcfppxcfpxe",
        checkpoints="jobs=1 memory=../memory local=../node local_keep=1 local_every=2 flush=3",
        victims=("rank 0",),
    ),
]
