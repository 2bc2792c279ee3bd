"""A simulator of coupled programs at scale: the bytes, messages and records of each rank and link for the tables of the
DTF paper (320 to 5,120 and 64 to 2,048 processes), and for 100,000 nodes.

Two programs with as many processes as each other divide a member's grid in two dimensions (section 3.2 of the paper).
Who reads from whom, and how much, follows from the two divisions. Time is then counted on the busiest rank. The text of
the paper has no seconds, so DTF and its files are known only relative to their first point. Knarr was measured on one
machine only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import scale_sources as known
from checkpoint_model import cost_of_files
from scale_sources import GUESSES, MIB, Check
from scale_tables import Table, number

FAR = 100_000
WEAK_AS = {"Fugaku": 5120, "Oakforest-PACS": 2048}
"""The weak scaling has as many bytes a process as the strong one at so many processes: 57.2 + 20.2 and 20.2 + 37.3 MiB
on Fugaku (the text: 77.4 and 57.6), 113.7 + 40.0 and 40.0 + 73.7 MiB on Oakforest-PACS (the text: 153.6 and 113.7)."""


# Who reads what from whom.


def divided(length: int, parts: int) -> np.ndarray:
    """Where the parts of an axis begin, and the end."""
    return np.arange(parts + 1) * length // parts


def shared(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Cells along an axis that each part of one division shares with each of another."""
    begin = np.maximum.outer(one[:-1], other[:-1])
    return np.maximum(np.minimum.outer(one[1:], other[1:]) - begin, 0)


def process_grid(processes: int) -> tuple[int, int]:
    """The factors of a number that are closest to each other."""
    across = next(n for n in range(math.isqrt(processes), 0, -1) if processes % n == 0)
    return across, processes // across


@dataclass(frozen=True)
class Exchange:
    """What one program reads of a variable of one member that another one writes: cells and messages of each rank."""

    sent: np.ndarray
    received: np.ndarray
    messages_in: np.ndarray
    messages_out: np.ndarray


def exchange(side: tuple[int, int], writers: tuple[int, int], readers: tuple[int, int]) -> Exchange:
    """Grids of ranks divide a grid of cells. A tile is the product of two intervals, and so is what two tiles share."""
    axes = [shared(divided(side[axis], writers[axis]), divided(side[axis], readers[axis])) for axis in (0, 1)]
    meet = [(cells > 0).astype(int) for cells in axes]

    def each(values: list[np.ndarray], axis: int) -> np.ndarray:
        return np.outer(values[0].sum(axis), values[1].sum(axis)).ravel()

    return Exchange(each(axes, 1), each(axes, 0), each(meet, 0), each(meet, 1))


# Bytes. A put covers the tile of a process; those of SCALE's analysis file also its halo.


@dataclass(frozen=True)
class Volumes:
    """MiB of all variables of a cycle, for each cell of a tile, and for each cell of its edge."""

    written: float
    halo: float
    read: float
    back: float


def tile(processes: int, members: int) -> tuple[int, int]:
    """Cells of the largest tile. Half of the processes are SCALE's, and they share the members."""
    grid = process_grid(processes // 2 // members)
    return math.ceil(known.DTF_GRID / grid[0]), math.ceil(known.DTF_GRID / grid[1])


def fitted_volumes() -> Volumes:
    """From the rows of 64 and 256 processes of Oakforest-PACS, whose tiles are squares."""
    members, rows = known.DTF_TABLES["Oakforest-PACS"]
    (large, _), (small, _) = tile(64, members), tile(256, members)
    areas, edges = (large**2, small**2), (4 * large, 4 * small)
    cell, edge = np.linalg.solve(np.array([areas, edges]).T, [rows[64][0], rows[256][0]])
    return Volumes(float(cell), float(edge), rows[64][2] / large**2, rows[64][1] / large**2)


def amounts(processes: int, members: int, volumes: Volumes) -> tuple[float, float, float]:
    """MiB that a process of SCALE writes and reads, and that one of LETKF reads, in a cycle."""
    x, y = tile(processes, members)
    cells = x * y
    return cells * volumes.written + 2 * (x + y) * volumes.halo, cells * volumes.back, cells * volumes.read


def checks_bytes(volumes: Volumes) -> list[Check]:
    rows = []
    for name, (members, table) in known.DTF_TABLES.items():
        for processes, row in table.items():
            if (name, processes) in (("Oakforest-PACS", 64), ("Oakforest-PACS", 256)):
                continue
            for what, mib, model in zip(
                ("SCALE writes", "SCALE reads", "LETKF reads"), row, amounts(processes, members, volumes), strict=True
            ):
                rows.append(Check(name, f"{what}, {processes:,}", "OFP, 64 and 256", mib, model, "MiB"))
        first = min(table)
        written, back, read = amounts(first, members, volumes)
        sums = ((written + back) * first / 2 / 1024, (back + read) * first / 2 / 1024)
        for program, gib, model in zip(("SCALE", "LETKF"), known.DTF_TOTAL_GIB[name], sums, strict=True):
            rows.append(Check(name, f"all of {program}", "OFP, 64 and 256", gib, model, "GiB"))
    return rows


# Time of DTF and of files, relative: in the time that a rank needs for a MiB.


def moved(processes: int, members: int, volumes: Volumes) -> float:
    """MiB that a rank of DTF sends and receives in a cycle: only what is read."""
    _, back, read = amounts(processes, members, volumes)
    return back + read


def filed(processes: int, members: int, volumes: Volumes) -> float:
    """MiB that a rank of each program writes into files or reads from them."""
    written, back, read = amounts(processes, members, volumes)
    return written + 2 * back + read


@dataclass(frozen=True)
class Relative:
    """Both in MiB of one rank."""

    barrier: float
    """Of DTF: what a level of the tree of a member's ranks costs in a cycle, whatever the bytes."""
    servers: float
    """Of files: as many ranks as the file system takes bytes from at once."""


def levels(processes: int, members: int) -> float:
    """Of a tree of the ranks that open the same file."""
    return math.log2(processes / members)


def fitted_relative(volumes: Volumes) -> Relative:
    """From the two factors of the text, 10 and 2, on Fugaku."""
    members, table = known.DTF_TABLES["Fugaku"]
    few, many = min(table), max(table)
    gain = known.DTF_STRONG_GAIN
    whole, last = moved(few, members, volumes), moved(many, members, volumes)
    barrier = (whole - gain * last) / (gain * levels(many, members) - levels(few, members))
    gain = known.DTF_FILE_STRONG_GAIN
    whole, last = filed(few, members, volumes), filed(many, members, volumes)
    servers = (few / 2 * whole - gain * many / 2 * last) / (gain * last - whole)
    return Relative(barrier, servers)


def dtf_time(mib: float, processes: int, members: int, relative: Relative) -> float:
    """A rank moves its bytes, beside all others, and waits for the others of its file."""
    return mib + relative.barrier * levels(processes, members)


def file_time(mib: float, processes: int, relative: Relative) -> float:
    """A rank moves its bytes; the file system those of all ranks."""
    return mib + processes / 2 * mib / relative.servers


@dataclass(frozen=True)
class Point:
    """Times of a cycle, relative to the first point of its line."""

    site: str
    scaling: str
    processes: int
    dtf: float
    file: float


def points(volumes: Volumes, relative: Relative) -> list[Point]:
    rows = []
    for site, (members, table) in known.DTF_TABLES.items():
        for scaling in ("strong", "weak"):
            times = []
            for processes in table:
                like = processes if scaling == "strong" else WEAK_AS[site]
                dtf = dtf_time(moved(like, members, volumes), processes, members, relative)
                times.append((processes, dtf, file_time(filed(like, members, volumes), processes, relative)))
            _, dtf, file = times[0]
            rows += [Point(site, scaling, n, one / dtf, other / file) for n, one, other in times]
    return rows


@dataclass(frozen=True)
class Statement:
    """A sentence of the paper, and what the model says."""

    site: str
    says: str
    model: str
    holds: bool
    is_fitted: bool


def statements(rows: list[Point]) -> list[Statement]:
    found = []
    for site, (_, table) in known.DTF_TABLES.items():
        last = {one.scaling: one for one in rows if (one.site, one.processes) == (site, max(table))}
        strong, weak = last["strong"], last["weak"]
        is_fugaku, ideal = site == "Fugaku", max(table) / min(table)
        gain, file_gain = 1 / strong.dtf, 1 / strong.file
        # The text calls 10 of 16 almost linear, too.
        found += [
            Statement(
                site,
                "DTF, strong: 10 times less" if is_fugaku else "DTF, strong: almost linear",
                f"{gain:.1f} of {ideal:.0f}",
                gain / ideal >= 10 / 16,
                is_fugaku,
            ),
            Statement(
                site,
                "files, strong: 2 times less" if is_fugaku else "files, strong: scale worse",
                f"{file_gain:.1f} of {ideal:.0f}",
                file_gain < gain / 2,
                is_fugaku,
            ),
            Statement(site, "DTF, weak: steady", f"{weak.dtf:.2f} times", weak.dtf < 1.3, False),
            Statement(site, "files, weak: ever slower", f"{weak.file:.1f} times", weak.file > 2, False),
        ]
    return found


# Knarr, in seconds.


@dataclass(frozen=True)
class Knarr:
    """Fitted on sessions that were measured here: seconds = fixed + bytes / rate, where blocks of rows are read."""

    fixed: float
    rate: float
    """B/s of a node, put and got."""
    record: float


def fitted_knarr() -> Knarr:
    transfer = known.measured_transfer()
    small, large = (transfer.seconds["transfer", f"{mib} MiB", "rows"] for mib in (64, 256))
    rate = (256 - 64) * MIB / (large - small)
    return Knarr(small - 64 * MIB / rate, rate, transfer.seconds_per_record)


def checks_knarr(knarr: Knarr) -> list[Check]:
    transfer, rows = known.measured_transfer(), []
    for mib in (64, 256):
        seconds = transfer.seconds["transfer", f"{mib} MiB", "columns"]
        model = knarr.fixed + mib * MIB / knarr.rate
        rows.append(Check("Knarr here", f"columns, {mib} MiB", "rows", seconds, model))
    return rows


SESSIONS = 3
"""Of a cycle: history and analysis to LETKF, analysis back."""
QUESTIONS = 4
"""To the file system that all nodes share, in one look for a session: `Presence::of` in crates/capture/src/meeting."""
TOLD = 3
"""Questions of each launcher of a reader for each session: that it is there, its header, and its datasets."""
LAYOUTS = ("today", "divided")


@dataclass(frozen=True)
class Cycle:
    """What a rank waits for in a cycle, one rank on each node, as on Fugaku."""

    layout: str
    processes: int
    members: int
    mib: float
    """Put and got by a rank of each program."""
    records: int
    """Puts in the indices of a reader."""
    index_mib: float
    """Memory for them."""
    log_gib: float
    """Logs that go over the network to all readers."""
    terms: dict[str, float]
    """Seconds."""

    @property
    def seconds(self) -> float:
        return sum(self.terms.values())


def cycle(layout: str, processes: int, members: int, volumes: Volumes, knarr: Knarr) -> Cycle:
    """`today`: the code as it is. The first rank of each member looks into the directory where the programs meet, each
    launcher of a reader asks for each session, and each reader takes the logs of all writers of its file into an index.
    `divided`: a design. Launchers of one member only ask, and pass on what they hear; an aggregator has the index of
    its own place only."""
    written, back, read = amounts(processes, members, volumes)
    ranks = processes // 2 // members
    grid = process_grid(ranks)
    messages = int(exchange((known.DTF_GRID, known.DTF_GRID), grid, grid).messages_in.max())
    puts = known.DTF_WRITTEN + known.DTF_BACK
    is_today = layout == "today"
    # Divided: a rank's own puts, and a question for each variable and each writer that it reads from.
    records = ranks * puts if is_today else puts + messages * (known.DTF_READ + known.DTF_BACK)
    # The launcher of a member's first rank answers one after the other. Divided: two launchers each, which do the same.
    told = processes // 2 if is_today else 2 * math.ceil(math.log2(ranks + 1))
    log = GUESSES["record"].value * records
    terms = {
        "sessions": SESSIONS * knarr.fixed,
        "put and get": (written + back) * MIB / knarr.rate,
        "link": ((back + read) * MIB + log) / GUESSES["link"].value + SESSIONS * messages * GUESSES["latency"].value,
        "index": records * knarr.record,
        "meeting": SESSIONS * members * QUESTIONS * cost_of_files(),
        "telling": SESSIONS * told * TOLD * GUESSES["question"].value,
    }
    index_mib, log_gib = records * GUESSES["indexed put"].value / MIB, log * ranks * members / 1024**3
    return Cycle(layout, processes, members, filed(processes, members, volumes), records, index_mib, log_gib, terms)


@dataclass(frozen=True)
class Division:
    """How a reading program that is divided otherwise than the writing one reads a variable of a member."""

    writers: int
    readers: str
    messages: int
    """Of the reader that has most."""
    all_messages: int
    busiest: float
    """Bytes into the busiest reader, as a part of all."""


def divisions(writers: int) -> list[Division]:
    side, own = (known.DTF_GRID, known.DTF_GRID), process_grid(writers)
    grids = {"the same": own, "a quarter of the ranks": process_grid(writers // 4), "rows": (writers, 1)}
    rows = []
    for name, grid in grids.items():
        found = exchange(side, own, grid)
        part = float(found.received.max() / found.received.sum())
        rows.append(Division(writers, name, int(found.messages_in.max()), int(found.messages_in.sum()), part))
    return rows


def unread(volumes: Volumes) -> float:
    """Part of SCALE's bytes that nobody reads, at the smallest run on Fugaku. Knarr copies them into its spool."""
    written, _, read = amounts(320, known.DTF_TABLES["Fugaku"][0], volumes)
    return 1 - read / written


@dataclass(frozen=True)
class Simulation:
    checks: list[Check]
    points: list[Point]
    statements: list[Statement]
    cycles: list[Cycle]
    divisions: list[Division]
    unread: float
    knarr: Knarr


def simulate() -> Simulation:
    volumes, knarr = fitted_volumes(), fitted_knarr()
    members, processes = known.DTF_TABLES["Fugaku"]
    found = points(volumes, fitted_relative(volumes))
    runs = [(n, members) for n in (*processes, FAR)] + [(FAR, 1)]
    cycles = [cycle(layout, *run, volumes, knarr) for run in runs for layout in LAYOUTS]
    rows = [*checks_bytes(volumes), *checks_knarr(knarr)]
    return Simulation(rows, found, statements(found), cycles, divisions(256), unread(volumes), knarr)


def paper_sized(cycles: list[Cycle], layout: str) -> list[Cycle]:
    """Those of the paper's numbers of members."""
    return [one for one in cycles if one.layout == layout and one.members == known.DTF_TABLES["Fugaku"][0]]


def shortest(cycles: list[Cycle], layout: str) -> int:
    """Nodes at which a cycle is shortest."""
    return min(paper_sized(cycles, layout), key=lambda one: one.seconds).processes


def outweighed(cycles: list[Cycle], layout: str, term: str) -> str:
    """From how many nodes on a term takes longer than the values do."""
    found = (one for one in paper_sized(cycles, layout) if one.terms[term] > one.terms["put and get"])
    first = next(found, None)
    return f"from {first.processes:,} nodes on" if first else "nowhere"


def gain(cycles: list[Cycle], layout: str) -> float:
    """Of a cycle from the first to the last number of nodes in the paper."""
    own = [one for one in paper_sized(cycles, layout) if one.processes < FAR]
    return own[0].seconds / own[-1].seconds


def table(cycles: list[Cycle]) -> Table:
    heads = [">nodes", ">members", "layout", ">put, get s", ">index s", ">meet s", ">tell s", ">cycle s"]
    cells = []
    for one in cycles:
        terms = [number(one.terms[name]) for name in ("put and get", "index", "meeting", "telling")]
        cells.append([f"{one.processes:,}", str(one.members), one.layout, *terms, number(one.seconds)])
    return Table(heads, cells)


def records_table(cycles: list[Cycle]) -> Table:
    heads = [">nodes", ">members", "layout", ">puts indexed", ">MiB for them", ">GiB of logs sent"]
    cells = []
    for one in cycles:
        sizes = [f"{one.records:,}", number(one.index_mib), number(one.log_gib)]
        cells.append([f"{one.processes:,}", str(one.members), one.layout, *sizes])
    return Table(heads, cells)


def statements_table(rows: list[Statement]) -> Table:
    def state(row: Statement) -> str:
        return "fitted" if row.is_fitted else "holds" if row.holds else "does not hold"

    cells = [[row.site, row.says, row.model, state(row)] for row in rows]
    return Table(["where", "the text says", "the model", "status"], cells)


def points_table(rows: list[Point]) -> Table:
    cells = [[row.site, row.scaling, f"{row.processes:,}", f"{row.dtf:.2f}", f"{row.file:.2f}"] for row in rows]
    return Table(["where", "scaling", ">processes", ">DTF", ">files"], cells)


def divisions_table(rows: list[Division]) -> Table:
    heads = [">writers", "readers divide as", ">messages of one", ">of all", ">of the bytes, busiest"]
    cells = [
        [str(row.writers), row.readers, str(row.messages), f"{row.all_messages:,}", f"{100 * row.busiest:.2g} %"]
        for row in rows
    ]
    return Table(heads, cells)
