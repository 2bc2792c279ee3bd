"""A model of what output costs the ranks of an MPI program at 288, 8,192 and 100,000 ranks, for six ways to write.

Everything is made of the cost terms below. They are fitted on some rows of what was measured here and of what others
published, and `checks` says how far they are off on rows that were not used. Knarr on several nodes is the design of an
aggregator on each node: today it writes only files whose ranks are all on one node (`docs/limits.md`).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

import scale_sources as known
from scale_sources import GUESSES, Check, MeasuredOutput, Quantity
from scale_tables import Table, number

RANKS = (288, 8192, 100_000)
WAYS = ("PnetCDF", "netCDF-4, deflate", "gather, deflate", "I/O ranks", "Knarr", "Knarr, no idle core")


@dataclass(frozen=True)
class Site:
    """Where rows come from: a file system, a machine, and what a benchmark writes there."""

    raw: float
    """Bytes of values; 1 where they are unknown, and rates are of that unit then."""
    stored: float
    """Bytes behind deflate 1, as a part of them."""
    plain_rate: float
    """B/s of a shared file without filters, from all ranks to the file."""
    calls: float
    """Seconds that parallel HDF5's collective calls add to one output, whatever its bytes."""
    deflate_rate: float
    """B/s of values that one core deflates, with the library around it."""


# Cost terms. Seconds, of bytes, B/s and numbers of ranks.


def plain(size: float, site: Site) -> float:
    """Bytes from the ranks into one shared file."""
    return size / site.plain_rate


def deflate(site: Site, writers: float) -> float:
    """All values through deflate 1, shared by the cores that write."""
    return site.raw / (site.deflate_rate * writers)


def exchange(size: float, senders: float, link: float, messages: float, latency: float) -> float:
    """Values of some nodes into one that writes for them: its link is the narrow place."""
    return senders * size / link + messages * latency


def copy(size: float, rate: float) -> float:
    """Values of a node's ranks into its spool."""
    return size / rate


def together(surplus: float, ranks: float, measured_ranks: float) -> float:
    """Calls that all ranks make together: what was measured beyond the copy grows with the depth of a tree of ranks."""
    return surplus * math.log2(ranks) / math.log2(measured_ranks)


def index(records: float, each: float) -> float:
    """One process takes the places of all chunks into the index of a file."""
    return records * each


# Ways to write, without Knarr: seconds of one output.


def pnetcdf(site: Site) -> float:
    return plain(site.raw, site)


def netcdf4(site: Site) -> float:
    return plain(site.raw, site) + site.calls


def gather_deflate(site: Site) -> float:
    return plain(site.raw * site.stored, site) + deflate(site, 1)


def netcdf4_deflate(site: Site, writers: float) -> float:
    return plain(site.raw * site.stored, site) + site.calls + deflate(site, writers)


def fit(raw: float, stored: float, pnetcdf_s: float, netcdf4_s: float, gather_s: float) -> Site:
    """The site at which three ways take these seconds."""
    rate = raw / pnetcdf_s
    return Site(raw, stored, rate, netcdf4_s - pnetcdf_s, raw / (gather_s - raw * stored / rate))


# Rows that were measured or published, against the terms.


def here(output: MeasuredOutput, place: str) -> Site:
    seconds = output.seconds
    ways = (seconds[place, way] for way in ("pnetcdf", "netcdf4", "gather"))
    return fit(output.raw_bytes, output.stored["deflate"], *ways)


def checks_here(output: MeasuredOutput) -> list[Check]:
    """Two cores deflate for four ranks. What Knarr blocks does not depend on where the file is, or on the library."""
    rows = []
    for place in ("memory", "disk"):
        model = netcdf4_deflate(here(output, place), output.cores)
        known_s = output.seconds[place, "deflate"]
        rows.append(Check(f"here, {place}", "parallel deflate", "three other ways", known_s, model))
    blocked = output.seconds["memory", "knarr"]
    for place, way in (("disk", "knarr"), ("memory", "knarr4"), ("disk", "knarr4")):
        library = "netCDF-4" if way == "knarr4" else "PnetCDF"
        name = f"Knarr, {library}"
        rows.append(Check(f"here, {place}", name, "Knarr, memory", output.seconds[place, way], blocked))
    return rows


def checks_cesm(stored: float) -> list[Check]:
    """The share of bytes behind deflate is that of the values here: the slides state none. The asynchronous column is
    taken for the time of the ranks that write."""
    site = fit(1, stored, known.CESM_PNETCDF_S, known.CESM_NETCDF4_S, known.CESM_SERIAL_S)
    model = netcdf4_deflate(site, known.CESM_WRITERS)
    rows = (
        ("deflate, column 4", known.CESM_DEFLATE_S),
        ("deflate, column 5", known.CESM_DEFLATE_AGAIN_S),
        ("asynchronous", known.CESM_ASYNC_S),
    )
    return [Check("CESM", what, "columns 1 to 3", seconds, model) for what, seconds in rows]


def checks_fesom() -> list[Check]:
    """Whole runs are computing, which gets faster as ranks become more, and output, which does not."""
    stored = known.FESOM_STORED_BYTES / known.FESOM_RAW_BYTES
    month = fit(known.FESOM_RAW_BYTES, stored, known.FESOM_PLAIN_S, known.FESOM_PLAIN_S, known.FESOM_DEFLATE_S)
    other = Site(known.FESOM_968_STORED_BYTES / stored, stored, month.plain_rate, 0, month.deflate_rate)
    rows = [Check("FESOM2", "gather at 1,024", "#967, 8,192", known.FESOM_968_S, gather_deflate(other))]

    # Seconds of gathered output and of computing on fewer ranks.
    few, many = known.FESOM_969_RANKS
    output = (known.FESOM_GATHER_S[0] - known.FESOM_COLLECTIVE_S[0]) / (1 - 1 / known.FESOM_COLLECTIVE_GAIN)
    compute = known.FESOM_GATHER_S[0] - output
    gather, collective = compute * few / many + output, compute * few / many + output / known.FESOM_COLLECTIVE_GAIN
    rows += [
        Check("FESOM2", "gather at 8,192", "#969, 1,024", known.FESOM_GATHER_S[1], gather),
        Check("FESOM2", "collective at 8,192", "#969, 1,024", known.FESOM_COLLECTIVE_S[1], collective),
    ]
    gain = known.FESOM_GATHER_S[1] / known.FESOM_COLLECTIVE_S[1]
    rows.append(Check("FESOM2", "their ratio", "#969, 1,024", gain, gather / collective, "times"))
    # Threads take a part of computing, and the program ends when the busiest of them has written.
    busiest = known.FESOM_GATHER_S[1] / known.FESOM_THREADS_GAIN[1]
    threads = max(compute * (1 + known.FESOM_THREADS_SLOWER), busiest)
    what = "threads' gain, 1,024"
    model = known.FESOM_GATHER_S[0] / threads
    rows.append(Check("FESOM2", what, "#969, 8,192", known.FESOM_THREADS_GAIN[0], model, "times"))
    return rows


def pio_site(stored: float) -> Site:
    row = known.PIO_S[128, 1]
    return fit(known.PIO_BYTES, stored, row["pnetcdf"], row["netcdf4"], row["serial"])


def checks_pio(stored: float) -> list[Check]:
    """Volume decides, not ranks. With serial deflate other I/O ranks forward their part to the one that writes."""
    site = pio_site(stored)
    forward = (known.PIO_S[128, 4]["serial"] - gather_deflate(site)) / (3 / 4)
    rows = []
    for (ranks, writers), seconds in known.PIO_S.items():
        if ranks == 128:
            continue
        model = {
            "pnetcdf": pnetcdf(site),
            "netcdf4": netcdf4(site),
            "serial": gather_deflate(site) + forward * (writers - 1) / writers,
        }
        named = {"pnetcdf": "PnetCDF", "netcdf4": "netCDF-4", "serial": "serial deflate"}
        for way, name in named.items():
            rows.append(Check("PIO", f"{name}, {ranks}/{writers}", "#1390, 128", seconds[way], model[way]))
    return rows


# What each way costs on a machine that nobody has measured.


@dataclass(frozen=True)
class Machine:
    """What the model needs to know of a machine, and of an output of one step."""

    bytes_per_rank: float
    puts_per_rank: float
    ranks_per_node: float
    plain_rate: float
    calls: float
    deflate_rate: float
    stored: float
    ranks_per_writer: float
    link: float
    latency: float
    copy_rate: float
    surplus: float
    measured_ranks: float
    encode_rate: float
    knarr_stored: float
    record: float
    """Seconds for each put that is taken into an index, or looked up there."""
    idle_cores: float

    def nodes(self, ranks: int) -> int:
        return math.ceil(ranks / self.ranks_per_node)

    def site(self, ranks: int) -> Site:
        return Site(ranks * self.bytes_per_rank, self.stored, self.plain_rate, self.calls, self.deflate_rate)


def quantities(output: MeasuredOutput) -> dict[str, Quantity]:
    """Everything that a `Machine` is made of, by the name of its field."""
    pio = pio_site(output.stored["deflate"])
    memory = here(output, "memory")
    transfer, seconds = known.measured_transfer(), output.seconds
    copy_s = seconds["memory", "memory"]
    pio_source = f"{known.PIO_1390}, 128 ranks, 1 I/O rank"
    return {
        "bytes_per_rank": Quantity(
            "values of a rank and step", known.FESOM_RAW_BYTES / known.FESOM_RANKS, "B", known.FESOM_967
        ),
        "puts_per_rank": Quantity("variables of a step", known.FESOM_STREAMS, "", known.FESOM_967),
        "ranks_per_node": Quantity("ranks of a node", known.FESOM_RANKS / known.FESOM_NODES, "", known.FESOM_967),
        "plain_rate": Quantity("one shared file", pio.plain_rate, "B/s", pio_source),
        "calls": Quantity("collective HDF5 calls of a step", pio.calls, "s", pio_source),
        "deflate_rate": Quantity("shuffle and deflate 1, one core", memory.deflate_rate, "B/s", output.file),
        "stored": Quantity("left by deflate 1", output.stored["deflate"], "of raw", output.file),
        "ranks_per_writer": Quantity(
            "ranks for each one that writes", known.FESOM_RANKS / known.FESOM_WRITERS, "", known.FESOM_970
        ),
        "link": GUESSES["link"],
        "latency": GUESSES["latency"],
        "copy_rate": Quantity("a node copies", output.raw_bytes / copy_s, "B/s", f"{output.file}: two cores"),
        "surplus": Quantity("Knarr beyond the copy", seconds["memory", "knarr"] - copy_s, "s", output.file),
        "measured_ranks": Quantity("ranks of that measurement", output.ranks, "", output.file),
        "encode_rate": known.measured_encoding(),
        "knarr_stored": Quantity("left by Knarr", output.stored["knarr"], "of raw", output.file),
        "record": Quantity("a put in an index", transfer.seconds_per_record, "s", transfer.file),
        "idle_cores": GUESSES["idle cores"],
    }


def machine(output: MeasuredOutput) -> Machine:
    return Machine(**{name: quantity.value for name, quantity in quantities(output).items()})


@dataclass(frozen=True)
class Cost:
    """Of one step."""

    way: str
    ranks: int
    blocking: dict[str, float]
    """Seconds that the ranks wait, by term."""
    behind: dict[str, float]
    """Seconds until the file is complete, after that."""

    @property
    def blocked(self) -> float:
        return sum(self.blocking.values())

    @property
    def complete(self) -> float:
        return self.blocked + sum(self.behind.values())


def cost(way: str, ranks: int, m: Machine) -> Cost:
    site, nodes = m.site(ranks), m.nodes(ranks)
    node_bytes = site.raw / nodes
    writers = max(ranks / m.ranks_per_writer, 1)
    messages = m.ranks_per_writer * m.puts_per_rank
    deflated = {
        "write": plain(site.raw * site.stored, site),
        "collective calls": site.calls,
        "encode": deflate(site, writers),
    }
    if way == "PnetCDF":
        return Cost(way, ranks, {"write": pnetcdf(site)}, {})
    if way == "netCDF-4, deflate":
        return Cost(way, ranks, deflated, {})
    if way == "gather, deflate":
        everything = exchange(node_bytes, nodes - 1, m.link, ranks * m.puts_per_rank, m.latency)
        terms = {"exchange": everything, "encode": deflate(site, 1), "write": deflated["write"]}
        return Cost(way, ranks, terms, {})
    if way == "I/O ranks":
        # Nodes of their own, one for so many others.
        moved = exchange(node_bytes, min(m.ranks_per_writer, nodes), m.link, messages, m.latency)
        return Cost(way, ranks, {"exchange": moved}, deflated)
    blocking = {
        "copy": copy(node_bytes, m.copy_rate),
        "together": together(m.surplus, ranks, m.measured_ranks),
    }
    behind = {
        "encode": node_bytes / (m.encode_rate * m.idle_cores),
        "write": plain(site.raw * m.knarr_stored, site),
        "index": index(ranks * m.puts_per_rank, m.record),
    }
    if way == "Knarr, no idle core":
        # One rank shares its core with the aggregator, and all wait for that rank.
        blocking["encode"] = behind.pop("encode")
    return Cost(way, ranks, blocking, behind)


def costs(m: Machine) -> list[Cost]:
    return [cost(way, ranks, m) for ranks in RANKS for way in WAYS]


def checks(output: MeasuredOutput) -> list[Check]:
    """Sites that were fitted on other rows of their own."""
    stored = output.stored["deflate"]
    return [*checks_here(output), *checks_cesm(stored), *checks_fesom(), *checks_pio(stored)]


def checks_elsewhere(output: MeasuredOutput) -> list[Check]:
    """Sites of which the model knows nothing but what was written, as it knows nothing of a reader's machine."""
    gather = cost("gather, deflate", known.FESOM_RANKS, machine(output)).blocked
    site = here(output, "disk")
    ratios = (
        ("netCDF-4", known.CESM_NETCDF4_S, netcdf4(site)),
        ("serial deflate", known.CESM_SERIAL_S, gather_deflate(site)),
        ("deflate, column 4", known.CESM_DEFLATE_S, netcdf4_deflate(site, known.CESM_WRITERS)),
        ("deflate, column 5", known.CESM_DEFLATE_AGAIN_S, netcdf4_deflate(site, known.CESM_WRITERS)),
    )
    rows = [Check("FESOM2", "gather at 8,192", "here and PIO", known.FESOM_DEFLATE_S, gather)]
    for what, seconds, model in ratios:
        known_ratio, ratio = seconds / known.CESM_PNETCDF_S, model / pnetcdf(site)
        rows.append(Check("CESM, of PnetCDF", what, "here, disk", known_ratio, ratio, "times"))
    return rows


@dataclass(frozen=True)
class Sensitivity:
    """What becomes of Knarr's seconds when a quantity is twice as large, at 8,192 ranks."""

    name: str
    blocked: float
    """Times as long."""
    complete: float


def sensitivities(m: Machine) -> list[Sensitivity]:
    rows, base = [], cost("Knarr", 8192, m)
    for name in asdict(m):
        if name == "measured_ranks":
            continue
        other = cost("Knarr", 8192, replace(m, **{name: 2 * getattr(m, name)}))
        rows.append(Sensitivity(name, other.blocked / base.blocked, other.complete / base.complete))
    return rows


def held_steps(ranks: int, m: Machine) -> float:
    """Steps that the spool of a node holds."""
    return GUESSES["memory"].value / 4 / (m.site(ranks).raw / m.nodes(ranks))


def table(rows: list[Cost]) -> Table:
    cells = []
    for row in rows:
        (own,) = (one for one in rows if (one.way, one.ranks) == ("Knarr", row.ranks))
        seconds = [number(row.blocked), number(row.blocked / own.blocked), number(row.complete)]
        cells.append([f"{row.ranks:,}", row.way, *seconds])
    return Table([">ranks", "way", ">blocked s", ">of Knarr's", ">complete after s"], cells)


def table_of_better(rows: list[Cost]) -> Table:
    """Where another way blocks less than Knarr, or is complete earlier."""
    cells = []
    for row in rows:
        (own,) = (one for one in rows if (one.way, one.ranks) == ("Knarr", row.ranks))
        ahead = (("blocked", row.blocked, own.blocked), ("complete", row.complete, own.complete))
        if row.way not in ("Knarr", "Knarr, no idle core"):
            cells += [[f"{row.ranks:,}", row.way, what, number(s), number(of)] for what, s, of in ahead if s < of]
    return Table([">ranks", "way", "what", ">s", ">Knarr s"], cells)


def sensitivity_table(rows: list[Sensitivity], names: dict[str, Quantity]) -> Table:
    """Those that matter."""
    found = [row for row in rows if abs(row.blocked - 1) > 0.05 or abs(row.complete - 1) > 0.05]
    cells = [[names[row.name].name, f"{row.blocked:.2f}", f"{row.complete:.2f}"] for row in found]
    return Table(["twice as large", ">blocked, times", ">complete, times"], cells)
