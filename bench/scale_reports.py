"""What the models of scale say, put together: for the terminal, for `runs/`, and as a page with every assumption."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import output_scale
import scale_page
import scale_sources
import transfer_scale
from checkpoint_model import cost_of_files
from scale_sources import GUESSES, Quantity
from scale_tables import number, table_of_checks, table_of_quantities, worst_line

WARNING = (
    "Nothing on this page was measured at this scale. It is a model, made of measurements on one node with two cores "
    "and of numbers that others published. Between nodes Knarr was measured on emulated ones only."
)
OUTPUT_ASSUMPTIONS = [
    "Every rank hands over as many bytes as one of FESOM2's 8,192 in a model month, in one step: 16.4 MB in 31 "
    "variables (FESOM/fesom2#967). More ranks write more.",
    "A shared file takes bytes at one rate, whatever the number of ranks and of ranks that write. PIO's benchmark "
    "has 1.8 to 2.3 s for 10 GB from 128 to 4,096 ranks (NCAR/ParallelIO#1390, #1409). NCAR's slides say the "
    "opposite of collective MPI-IO: a tenth of the throughput on several nodes. If they are right, every way but "
    "'gather' is slower.",
    "HDF5's collective calls of a step cost the same at any number of ranks, as in PIO's benchmark from 128 to 4,096.",
    "Deflate runs as fast on a core as here, on values that shrink to a fifth. FESOM2's did 41 MB/s and shrank to 57 "
    "%: with its values all ways that deflate are slower, and so is Knarr.",
    "One of 16 ranks writes, FESOM2's best (512 of 8,192, #970). 'I/O ranks' are such ranks on nodes of their own: a "
    "sixteenth more cores. The others wait only until the values are on those nodes. CESM's run with asynchronous I/O "
    "took 4.3 % longer than with PnetCDF, so the model is kinder to I/O ranks than that table.",
    "What HDF5 moves between ranks to fill a chunk is not counted, nor what PIO moves to its I/O ranks before they "
    "write together: the model is too fast for parallel deflate at all sites.",
    "Knarr copies on a node as fast as here on two cores; real nodes copy faster. What a call takes beyond the copy "
    "here, with four ranks, grows with the logarithm of the ranks. Nobody has measured that.",
    "Knarr's aggregator has one core that no rank uses. Without one it takes that time from a rank for which all "
    "wait; at the lowest priority it would rather hardly run, and files would wait in memory.",
    "Nothing overlaps behind the ranks: encoding, writing and the index of the file follow each other.",
    "The file of all nodes gets its chunk index from one process, at the time that a put costs in a session of 64,000 "
    "small puts here.",
]
TRANSFER_ASSUMPTIONS = [
    "SCALE and LETKF have half of the processes each: only so do the paper's tables give the totals of its text. They "
    "divide a grid of 1024 by 1024 cells for each member alike, as close to squares as can be.",
    "Bytes for each cell, and for each cell of an edge with halo, come from two rows of the table of Oakforest-PACS.",
    "DTF: a rank moves what is read, beside all others; waiting for the other ranks of the file grows with the "
    "logarithm of their number. How long that takes is fitted on '10 times' (section 3.2.1). Matching is left out, "
    "because the paper measured with replay.",
    "Files: a rank moves what is written and read; the file system moves all of it, at a rate fitted on '2 times'. "
    "It is the same number of ranks' worth on Oakforest-PACS.",
    "The paper's figures 4 to 6 are pictures. Nothing was read from them; only sentences and tables are compared.",
    "Knarr: a session costs what one costs here (a fixed time, and bytes at the rate of put and get on two cores), "
    "plus the link. All puts of SCALE are copied, also those that nobody reads.",
    "Layout 'today' is the code as it is: the first rank of each member looks into the directory where the programs "
    "meet, each launcher of a reader asks the launcher of the member's first rank for each session, and each reader "
    "indexes the puts of all writers of its file. Layout 'divided' is a design: launchers pass on what they hear, and "
    "an aggregator has the index of its own place.",
    "A question to the parallel file system costs what a file costs in the mcrEngine paper "
    "(bench/checkpoint_model.py), 1.06 ms for all ranks together. A faster metadata server moves that limit.",
    "The thread and the connection that a launcher keeps for each launcher of the other program cost nothing.",
    "One rank on each node, as in the paper. 100,000 nodes share the same grid: tiles are tiny, and only what does not "
    "shrink with them is left.",
]


def output(path: Path) -> tuple[str, dict]:
    """The model of output: what to print, and raw results. Its page is written to `path`."""
    measured = scale_sources.measured_output()
    quantities, machine = output_scale.quantities(measured), output_scale.machine(measured)
    checks, costs = output_scale.checks(measured), output_scale.costs(machine)
    elsewhere = output_scale.checks_elsewhere(measured)
    sensitivities = output_scale.sensitivities(machine)
    steps = output_scale.held_steps(8192, machine)
    table, checked, line = output_scale.table(costs), table_of_checks(checks), worst_line(checks)
    cold, cold_line = table_of_checks(elsewhere), worst_line(elsewhere)
    sections = {
        "What each way costs": [
            "'Blocked' is how long the ranks wait in one output, 'complete' when the file is whole. Outputs that "
            "follow each other faster than the difference fill Knarr's spool, or that of I/O ranks; then all wait.",
            table,
            scale_page.blocked(costs),
            scale_page.until_complete(costs, 8192),
            scale_page.until_complete(costs, 100_000),
            f"Knarr's spool holds {steps:.0f} steps, if it may take a quarter of 256 GB.",
        ],
        "Where Knarr loses": [
            "Rows of the first table that are better than Knarr's, in one of the two.",
            output_scale.table_of_better(costs),
            "Behind the ranks nothing scales: the time to write one shared file grows with the ranks, and Knarr has "
            "one core of a node to encode. A store of several files is not modelled. If no core is idle, the ranks "
            "wait for the encoding, too: the rows 'no idle core'.",
        ],
        "How far the model is off": [
            "Each row was left out, and its site fitted on other rows of the same site.",
            line,
            checked,
            scale_page.errors(checks),
            "These sites were not fitted. On another machine any number of the first table may be as far off.",
            cold_line,
            cold,
            "The CESM table's runs grow by 2.1 to 4.0 s for each second of history I/O. The slides do not say why, and "
            "the model does not know.",
        ],
        "Assumptions": [OUTPUT_ASSUMPTIONS, table_of_quantities([*quantities.values(), GUESSES["memory"]])],
        "Which of them matter": [
            "Knarr at 8,192 ranks, if one of them is twice as large. The others change less than 5 %.",
            output_scale.sensitivity_table(sensitivities, quantities),
        ],
    }
    scale_page.write(path, "Output at scale: a model", WARNING, sections)
    results = {
        "quantities": {name: asdict(quantity) for name, quantity in quantities.items()},
        "checks": [{**asdict(row), "error": row.error} for row in checks],
        "checks elsewhere": [{**asdict(row), "error": row.error} for row in elsewhere],
        "costs": [{**asdict(row), "blocked": row.blocked, "complete": row.complete} for row in costs],
        "sensitivities": [asdict(row) for row in sensitivities],
        "held_steps": steps,
    }
    return "\n\n".join((table.markdown(), checked.markdown(), line, cold.markdown(), cold_line)), results


def transfer(path: Path) -> tuple[str, dict]:
    """The simulator of coupled programs, likewise."""
    found = transfer_scale.simulate()
    table, line = transfer_scale.table(found.cycles), worst_line(found.checks)
    records, statements = transfer_scale.records_table(found.cycles), transfer_scale.statements_table(found.statements)
    knarr = found.knarr
    quantities = [
        Quantity("a session of Knarr, without bytes", knarr.fixed, "s", "newest results of 'transfer', rows"),
        Quantity("put and get on a node", knarr.rate, "B/s", "newest results of 'transfer', rows"),
        Quantity("a put in an index", knarr.record, "s", "newest results of 'transfer', small requests"),
        Quantity("a question to the file system", cost_of_files(), "s", "mcrEngine paper, bench/checkpoint_model.py"),
        *(GUESSES[name] for name in ("link", "latency", "question", "record", "indexed put")),
    ]
    sections = {
        "The paper's figures again": [
            "Relative to the first point of each line. The factors 10 and 2 on Fugaku were fitted; all else follows.",
            statements,
            scale_page.scaling(found.points),
            transfer_scale.points_table(found.points),
        ],
        "What Knarr would take": [
            table,
            scale_page.cycles(found.cycles, "today"),
            scale_page.cycles(found.cycles, "divided"),
        ],
        "Where Knarr's own design stops scaling": [
            [
                "As the code is today, a cycle gets shorter up to "
                f"{transfer_scale.shortest(found.cycles, 'today'):,} nodes and longer beyond. To tell each launcher "
                "of a reader of each session takes more time than the values "
                f"{transfer_scale.outweighed(found.cycles, 'today', 'telling')}.",
                "The index is the next limit: each reader keeps the puts of all writers of its file. It takes more "
                f"time than the values {transfer_scale.outweighed(found.cycles, 'today', 'index')}.",
                "Divided over aggregators, index and telling stay small. What is left is the fixed time of a session "
                "and the meeting: "
                f"from 320 to 5,120 nodes a cycle gets {transfer_scale.gain(found.cycles, 'divided'):.1f} times "
                f"shorter, and DTF's {scale_sources.DTF_STRONG_GAIN:.0f} times.",
                f"{100 * found.unread:.0f} % of SCALE's bytes are copied into the spool and never read. DTF does not "
                "move them.",
            ],
            records,
            "A file of one member that all 100,000 nodes share is the worst case: the last two rows.",
        ],
        "Who reads from whom": [
            "Messages for one variable of a member, with 256 writers, where the readers divide the grid otherwise.",
            transfer_scale.divisions_table(found.divisions),
        ],
        "How far the model is off": [
            "Bytes of the paper's tables, from two of their eleven rows, and sessions measured here.",
            line,
            table_of_checks(found.checks),
        ],
        "Assumptions": [TRANSFER_ASSUMPTIONS, table_of_quantities(quantities)],
    }
    scale_page.write(path, "Coupled programs at scale: a model", WARNING, sections)
    results = {
        "quantities": [asdict(quantity) for quantity in quantities],
        "checks": [{**asdict(row), "error": row.error} for row in found.checks],
        "points": [asdict(row) for row in found.points],
        "statements": [asdict(row) for row in found.statements],
        "cycles": [{**asdict(row), "seconds": row.seconds} for row in found.cycles],
        "divisions": [asdict(row) for row in found.divisions],
        "unread": number(found.unread),
    }
    return "\n\n".join((statements.markdown(), table.markdown(), records.markdown(), line)), results
