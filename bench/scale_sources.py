"""What the models of scale are made of: numbers measured here, numbers that others published, and assumptions.

Measured numbers are read from the newest raw results in `runs/` whenever a model runs; nothing of them is copied here.
Published ones stand here once, each with its source. `GUESSES` are neither, and each page of a model lists them.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path

RUNS = Path(__file__).resolve().parent / "runs"
MIB = 1 << 20
MANY_REQUESTS = 64_000
"""Puts of one session of `run.py transfer` with many small requests."""


@dataclass(frozen=True)
class Quantity:
    """A number that a model uses."""

    name: str
    value: float
    unit: str
    source: str
    """File of raw results, paper, thread, or why it was assumed."""


@dataclass(frozen=True)
class Check:
    """A number that the model did not see, and what it says instead."""

    site: str
    what: str
    fitted_on: str
    known: float
    model: float
    unit: str = "s"

    @property
    def error(self) -> float:
        """Of the model, as a part of the known number."""
        return self.model / self.known - 1

    @property
    def factor(self) -> float:
        """How many times too small or too large."""
        return max(self.model / self.known, self.known / self.model)


def worst(checks: list[Check]) -> Check:
    return max(checks, key=lambda check: check.factor)


def newest(kind: str) -> tuple[Path, dict]:
    """The last raw results of a benchmark, by the date in their names."""
    found = sorted(RUNS.glob(f"[0-9]*-{kind}.json"))
    if not found:
        raise SystemExit(f"bench/runs has no results of '{kind}': run bench/run.py {kind} first")
    return found[-1], json.loads(found[-1].read_text())


@dataclass(frozen=True)
class MeasuredOutput:
    """`run.py io`: four ranks of one node, medians of the steps of a way to write."""

    file: str
    cores: int
    ranks: int
    raw_bytes: int
    seconds: dict[tuple[str, str], float]
    """By place (`memory`, `disk`) and way."""
    stored: dict[str, float]
    """Bytes of the file of a way, as a part of the raw ones."""


def measured_output() -> MeasuredOutput:
    path, run = newest("io")
    rows = run["results"]
    keys = dict.fromkeys((row["place"], row["mode"]) for row in rows)
    seconds, sizes = {}, {}
    for place, mode in keys:
        own = [row for row in rows if (row["place"], row["mode"]) == (place, mode)]
        seconds[place, mode] = statistics.median(s for row in own for s in row["blocked_s"])
        sizes[mode] = statistics.median(row["output_bytes"] for row in own)
    # PnetCDF's file is its values and a header of some hundred bytes.
    raw = round(sizes["pnetcdf"] / MIB) * MIB
    stored = {mode: size / raw for mode, size in sizes.items() if size}
    return MeasuredOutput(path.name, run["machine"]["cores"], 4, raw, seconds, stored)


@dataclass(frozen=True)
class MeasuredTransfer:
    """`run.py transfer`: two ranks write and two read, medians of all sessions but the first."""

    file: str
    seconds: dict[tuple[str, str, str], float]
    """By way, size and cut."""

    @property
    def seconds_per_record(self) -> float:
        """Of the session of many small requests, what it takes beyond one of few, for each put that a reader has in its
        index. The reader's gets and the writer's puts are in it, too, so it is more than the index alone."""
        sessions = {cut: s for (way, _, cut), s in self.seconds.items() if way == "transfer"}
        return (sessions["requests"] - self.seconds["transfer", "64 MiB", "rows"]) / MANY_REQUESTS


def measured_transfer() -> MeasuredTransfer:
    path, run = newest("transfer")
    keys = dict.fromkeys((row["way"], row["what"], row["cut"]) for row in run["results"])
    seconds = {}
    for key in keys:
        own = [row["seconds"] for row in run["results"] if (row["way"], row["what"], row["cut"]) == key]
        seconds[key] = statistics.median(s for one in own for s in one[1:])
    return MeasuredTransfer(path.name, seconds)


def measured_encoding() -> Quantity:
    """Bytes a second that one core encodes for `knarr run`, written to the page cache."""
    path, run = newest("write")
    (row,) = (row for row in run["results"] if row["way"] == "knarr run, knarr, 1 threads")
    (plain,) = (row for row in run["results"] if row["way"] == "plain")
    return Quantity("Knarr encodes, one core", plain["bytes"] / row["cpu_s"], "B/s", path.name)


# NCAR: Xu and Dennis, "I/O Performance with Compression Enabled", 2019, "Enabled Parallel Compression in CESM/PIO".
# 288 processes of 3 threads, 8 I/O processes. Seconds of history I/O. Two columns have the same name, and neither the
# volume nor the length of the run is stated, nor what is timed in the asynchronous column.
CESM = "NCAR slides of 2019, CESM table"
CESM_PNETCDF_S, CESM_SERIAL_S, CESM_NETCDF4_S = 2.78, 10.36, 12.68
CESM_DEFLATE_S, CESM_DEFLATE_AGAIN_S, CESM_ASYNC_S = 23.98, 13.09, 14.78
CESM_WRITERS = 8

# FESOM2, mesh NG5, on Levante. Gathered to one rank for each file, written there.
FESOM_967 = "thread FESOM/fesom2#967"
"""8,192 ranks on 64 nodes, 31 output streams; a model month."""
FESOM_RANKS, FESOM_NODES, FESOM_STREAMS = 8192, 64, 31
FESOM_RAW_BYTES, FESOM_STORED_BYTES = 134e9, 76e9
FESOM_PLAIN_S, FESOM_DEFLATE_S = 577.0, 3610.0
FESOM_968 = "thread FESOM/fesom2#968"
"""1,024 ranks, other streams, without shuffle. Only the bytes stored are stated."""
FESOM_968_STORED_BYTES, FESOM_968_S = 19.23e9, 1172.0
FESOM_969 = "thread FESOM/fesom2#969"
"""Whole runs of one job on 1,024 and 8,192 ranks; how much faster collective writing is by the timer of writing
(18 to 24 times); how much slower the ocean part is with threads at 8,192 ranks (14 to 23 %)."""
FESOM_969_RANKS = (1024, 8192)
FESOM_GATHER_S, FESOM_COLLECTIVE_S = (1472.0, 950.0), (693.0, 128.0)
FESOM_THREADS_GAIN = (1.90, 3.42)
FESOM_COLLECTIVE_GAIN, FESOM_THREADS_SLOWER = (18 + 24) / 2, (0.14 + 0.23) / 2
FESOM_970 = "thread FESOM/fesom2#970"
FESOM_WRITERS = 512
"""Best number of writers of 8,192 ranks."""

# PIO's own benchmark, 10,240 MB. Seconds by number of ranks, of I/O ranks, and kind of file: the shorter of two runs.
PIO_1390, PIO_1409 = "thread NCAR/ParallelIO#1390", "thread NCAR/ParallelIO#1409"
PIO_BYTES = 10240e6
PIO_S = {
    (128, 1): {"pnetcdf": 1.927, "serial": 24.071, "netcdf4": 5.587},
    (128, 4): {"pnetcdf": 2.072, "serial": 28.924, "netcdf4": 5.200},
    (4096, 1): {"pnetcdf": 2.250, "serial": 29.545, "netcdf4": 5.251},
    (4096, 4): {"pnetcdf": 1.893, "serial": 31.341, "netcdf4": 4.714},
    (2048, 16): {"pnetcdf": 1.8, "serial": 46.9, "netcdf4": 4.0},
}

# DTF: Yin et al., "Scalability Evaluation of Data Transfer Framework", 2020. Tables 1 and 2: MiB a process and cycle.
# Processes of both programs together: half of them times the bytes of one gives the totals of the text.
DTF = "Yin et al., DTF, 2020"
DTF_TABLES = {
    # name: members, then by processes: SCALE writes, SCALE reads (as much as LETKF writes), LETKF reads
    "Fugaku": (
        10,
        {
            320: (894.4, 320.5, 590.2),
            640: (449.0, 160.3, 295.3),
            1280: (225.5, 80.3, 147.9),
            2560: (113.7, 40.3, 74.2),
            5120: (57.2, 20.2, 37.3),
        },
    ),
    "Oakforest-PACS": (
        8,
        {
            64: (3563.0, 1281.0, 2359.0),
            128: (1785.1, 640.5, 1179.5),
            256: (894.4, 320.2, 589.7),
            512: (449.0, 160.1, 294.8),
            1024: (225.5, 80.1, 147.4),
            2048: (113.7, 40.0, 73.7),
        },
    ),
}
DTF_GRID = 1024
"""Cells along each side of a member's grid, section 3.2."""
DTF_WRITTEN, DTF_READ, DTF_BACK = 89 + 143, 20 + 11, 11
"""Variables of SCALE's two files, those of them that LETKF reads, and those that come back: section 3.1. The text does
not say how many come back; 11 are those of the analysis file that LETKF reads."""
DTF_TOTAL_GIB = {"Fugaku": (189.8, 142.3), "Oakforest-PACS": (151.4, 113.7)}
"""Section 3.2: all SCALE processes, all LETKF processes, a cycle."""
DTF_STRONG_GAIN, DTF_FILE_STRONG_GAIN = 10.0, 2.0
"""From 320 to 5,120 processes on Fugaku, section 3.2.1: the only factors of time in the text. Its figures 4 to 6 are
pictures that the text does not repeat, so nothing was read from them."""

GUESSES = {
    "link": Quantity("a node's link", 12.5e9, "B/s", "assumed: 100 Gbit/s, as Oakforest-PACS's Omni-Path"),
    "latency": Quantity("a message", 2e-6, "s", "assumed"),
    "question": Quantity(
        "a question that a launcher answers", 1e-4, "s", "assumed: two threads wake, one after the other"
    ),
    "memory": Quantity("memory of a node", 256e9, "B", "assumed; Knarr's spool may take a quarter of it"),
    "idle cores": Quantity("cores of a node without a rank", 1, "", "assumed; the aggregator runs there"),
    "record": Quantity("a put in the log", 40, "B", "docs/format.md: 8 bytes and some 30 of numbers"),
    "indexed put": Quantity("a put in memory", 200, "B", "assumed: its numbers, and two bounds for each axis"),
}
