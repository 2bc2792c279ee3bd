"""Two programs coupled by a file: under `knarr run` with route transfer, through a file in memory, and by MPI messages.

Two ranks write an array by blocks of rows, two read it by blocks of rows or of columns, on one node, and check every
value. The time of a session goes from the writer's create to the last value at the last reader. The first session of
each run finds memory that nobody has used; it is shown apart.

ADIOS2 SST passes the same rows, in pairs of a writer and a reader: its wheel has no MPI.

*Segments* are as many as in E3SM's case F: four ranks put half a million segments of four values each, dealt out in
turn so that no two of a rank adjoin, by an iput_varn for each variable; two ranks read segments of six, or blocks.

*One value* is put and synced by one rank, and read by one that waits for it, a few hundred times; the first number is
the time from the end of the writer's definitions to the end of the reader's open.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KNARR = ROOT / "target" / "release" / "knarr"
SOURCES = Path(__file__).with_name("io")
WAYS = ("messages", "transfer", "replay", "file")
SESSIONS, PAUSE_S = 5, 0.5
SIZES = {"64 MiB": (2048, 4096), "256 MiB": (4096, 8192)}
REQUESTS = (64000, 8)
"""Rows of 64 bytes: 32,000 requests a rank."""
SEGMENTS = {"500,000 segments a rank, 400 variables": 400, "500,000 segments a rank, 1 variable": 1}
SEGMENTS_OF_A_RANK, SEGMENT_WRITERS, SEGMENT_READERS, SEGMENT_SESSIONS = 500000, 4, 2, 3
ONE_VALUE, RECORDS = "one value", 300
RULE = '[[file]]\npattern = "*.nc"\nroute = "transfer"\nfrom = "writer"\nto = ["reader"]\ntimeout = "60s"\n'


@dataclass
class Result:
    """Of one run: seconds of each session."""

    way: str
    what: str
    cut: str
    seconds: list[float]


def build(folder: Path, name: str) -> Path:
    program = folder / name
    subprocess.run(["mpicc.openmpi", "-O2", "-o", program, SOURCES / f"{name}.c", "-lpnetcdf"], check=True)
    return program


def run(program: Path, way: str, what: str, cut: str, arguments: list[object], ranks: tuple[int, int]) -> Result:
    """Both programs once, with `arguments` behind the name of the file, on so many ranks that write and that read."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        out = Path(name)

        def command(ranks: int, way: str) -> list[object]:
            return ["mpirun", "--oversubscribe", "-n", ranks, program, way, out / "a.nc", *arguments]

        def start(words: list[object]) -> subprocess.Popen[str]:
            environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            return subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True, env=environment, cwd=out)

        def times(process: subprocess.Popen[str]) -> list[tuple[float, float]]:
            text, _ = process.communicate(timeout=600)
            if process.returncode != 0:
                raise SystemExit(f"{way}, {what}, {cut}: exit code {process.returncode}")
            return [(float(begin), float(end)) for _, begin, end in map(str.split, text.splitlines())]

        if way in ("transfer", "replay"):
            keys = ("replay = true\n" if way == "replay" else "") + ('publish = "sync"\n' if what == ONE_VALUE else "")
            (out / "knarr.toml").write_text(RULE + keys)
            launch = [KNARR, "run", "-q", "-c", out / "knarr.toml", "--as"]
            reader = start([*launch, "reader", "--", *command(ranks[1], "read")])
            writer = start([*launch, "writer", "--", *command(ranks[0], "write")])
            begun, ended = times(writer), times(reader)
            # What comes of an open or a get may be there before the writer's own call has returned.
            seconds = [max(end - begin, 0.0) for (begin, _), (_, end) in zip(begun, ended, strict=True)]
        else:
            seconds = [end - begin for begin, end in times(start(command(2 * ranks[0], way)))]
        return Result(way, what, cut, seconds)


def run_sst(what: str, shape: tuple[int, int], pairs: int) -> Result:
    """The same values through ADIOS2 SST, from rows to rows. Steps of one stream are its sessions: it opens no file."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        program = SOURCES / "sst.py"
        sides: dict[str, list[subprocess.Popen[str]]] = {"write": [], "read": []}
        for pair in range(pairs):
            for role, started in sides.items():
                words = [sys.executable, program, role, f"pair{pair}", pair, pairs, *shape, SESSIONS, PAUSE_S]
                started.append(subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True, cwd=name))
        texts = {role: [process.communicate(timeout=600)[0] for process in side] for role, side in sides.items()}
        if any(process.returncode != 0 for side in sides.values() for process in side):
            raise SystemExit(f"ADIOS2 SST, {what}: a process failed")

        def times(role: str) -> list[list[tuple[float, float]]]:
            told = [[line.split() for line in text.splitlines()] for text in texts[role]]
            return [[(float(begin), float(end)) for _, begin, end in lines] for lines in told]

        begun, ended = zip(*times("write"), strict=True), zip(*times("read"), strict=True)
        seconds = [
            max(end for _, end in last) - min(begin for begin, _ in first)
            for first, last in zip(begun, ended, strict=True)
        ]
        return Result("ADIOS2 SST", what, "rows", seconds)


def measure(repeats: int) -> list[dict]:
    """Every way in turn, `repeats` times."""
    results = []
    cases = [(what, shape, cut) for what, shape in SIZES.items() for cut in ("rows", "columns")]
    cases.append(("32,000 requests of 64 bytes a rank", REQUESTS, "requests"))
    with tempfile.TemporaryDirectory() as name:
        coupling, segments, latency = (build(Path(name), program) for program in ("coupling", "segments", "latency"))
        for _ in range(repeats):
            results.append(asdict(run(latency, "transfer", ONE_VALUE, "a rank that waits", [RECORDS], (1, 1))))
            for what, shape, cut in cases:
                arguments = [*shape, cut, SESSIONS, PAUSE_S]
                ways = WAYS if cut != "requests" else WAYS[1:]
                results += [asdict(run(coupling, way, what, cut, arguments, (2, 2))) for way in ways]
                if cut == "rows":
                    results.append(asdict(run_sst(what, shape, 2)))
            for what, variables in SEGMENTS.items():
                for cut in ("varn", "rows"):
                    arguments = [variables, SEGMENTS_OF_A_RANK, cut, SEGMENT_SESSIONS, PAUSE_S, SEGMENT_WRITERS]
                    ranks = (SEGMENT_WRITERS, SEGMENT_READERS)
                    results += [asdict(run(segments, way, what, cut, arguments, ranks)) for way in WAYS[1:]]
    return results


def table(results: list[dict]) -> str:
    lines = [
        "| values | read by | way | first session, s | later ones, median s | least to most | of messages |",
        "|---|---|---|---:|---:|---|---:|",
    ]
    medians: dict[tuple[str, str, str], float] = {}
    for key in dict.fromkeys((one["what"], one["cut"], one["way"]) for one in results):
        runs = [one["seconds"] for one in results if (one["what"], one["cut"], one["way"]) == key]
        first, later = [run[0] for run in runs], [s for run in runs for s in run[1:]]
        what, cut, way = key
        medians[key] = statistics.median(later)
        messages = medians.get((what, cut, "messages"))
        of = f"{medians[key] / messages:.2f}" if messages else "-"
        digits = 4 if what == ONE_VALUE else 3
        spread = f"{min(later):.{digits}f} to {max(later):.{digits}f}"
        numbers = f"{statistics.median(first):.{digits}f} | {medians[key]:.{digits}f} | {spread} | {of}"
        lines.append(f"| {what} | {cut} | {way} | {numbers} |")
    return "\n".join(lines)
