"""What output under way costs a program that computes on all cores: more time on a processor, and time without one.

Two ranks on two cores write a step, sweep a stencil over their block while it is made into a file, rest until that is
done, and sweep again. Wall time varies by more than what is looked for, because others use the machine, and from run
to run the same sweeps take once or twice as long, by where their memory lies. So both are compared in one process, and
the kernel tells what each rank had (`/proc/thread-self/schedstat`): seconds on a processor, which grow if others take
memory bandwidth and caches, and seconds in which it was ready to run and another one ran. *Slowed* is the sum of both
against that of the sweeps after the rest: the median of the steps, and the range in which it lies in 95 of 100 drawings
of runs.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from measure import run_measured
from parallel_output import KNARR, RULE, prepared
from scale_tables import Table

STEPS, SWEEPS, REST_S = 5, 30, 3.0
WAYS = {
    "nothing": "nothing",
    "pnetcdf": "PnetCDF",
    "knarr": "PnetCDF under knarr run",
    "knarr fast": "the same, goal speed, filters of hdf5plugin",
}
KEYS = {"knarr fast": 'goal = "speed"\nportable = "standard"\n'}
DRAWINGS = 2000


@dataclass
class Result:
    """Of one run: seconds of the sweeps of each step, the mean of the ranks; behind each output and after the rest."""

    way: str
    on_processor_s: list[float]
    waiting_s: list[float]
    quiet_on_processor_s: list[float]
    quiet_waiting_s: list[float]

    def slowed(self, waits: bool) -> list[float]:
        """By how much more, in percent; with the time without a processor or without it."""
        rows = zip(self.on_processor_s, self.waiting_s, self.quiet_on_processor_s, self.quiet_waiting_s, strict=True)
        return [100 * ((on + waits * off) / (quiet + waits * idle) - 1) for on, off, quiet, idle in rows]


def run(program: Path, way: str, values: Path) -> Result:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        out = Path(name)
        mode = "pnetcdf" if way.startswith("knarr") else way
        ranks = ["mpirun", "--oversubscribe", "-n", "2", program, mode, out / "s", STEPS, REST_S, values, SWEEPS]
        command = ["sh", "-c", '"$@" > "$0"', out / "said"]
        if way.startswith("knarr"):
            (out / "knarr.toml").write_text(RULE + KEYS.get(way, ""))
            command += [KNARR, "run", "-q", "-c", out / "knarr.toml", "--"]
        environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        subprocess.run(["sync"], check=True)
        measured = run_measured([str(word) for word in [*command, *ranks]], environment)
        if measured.exit_code != 0:
            raise SystemExit(f"{way}: exit code {measured.exit_code}")
        steps = [list(map(float, line.split()))[3:] for line in (out / "said").read_text().splitlines()]
        return Result(way, *map(list, zip(*steps, strict=True)))


def measure(repeats: int) -> list[dict]:
    """Every way in turn, in memory."""
    with prepared() as (_, program, values):
        return [asdict(run(program, way, values)) for _ in range(repeats) for way in WAYS]


def table(results: list[dict]) -> Table:
    rows = []
    for way, title in WAYS.items():
        mine = [Result(**one) for one in results if one["way"] == way]
        # The first step meets memory that was not used before.
        runs = [one.slowed(waits=True)[1:] for one in mine]
        on_processor = statistics.median(percent for one in mine for percent in one.slowed(waits=False)[1:])
        waited = statistics.median(1000 * seconds for one in mine for seconds in one.waiting_s[1:])
        draw = random.Random(1)
        drawn = sorted(
            statistics.median(percent for one in draw.choices(runs, k=len(runs)) for percent in one)
            for _ in range(DRAWINGS)
        )
        low, high = (drawn[int(part * DRAWINGS)] for part in (0.025, 0.975))
        middle = statistics.median(percent for one in runs for percent in one)
        rows.append(
            [title, f"{on_processor:+.1f} %", f"{waited:.1f}", f"{middle:+.1f} %", f"{low:+.1f} to {high:+.1f} %"]
        )
    return Table(["output", ">on a processor", ">waiting, ms", ">slowed", ">95 of 100"], rows)
