"""Runs a command and measures it: wall time, CPU time and peak memory. Describes the machine.

Run as a program it is the small process between the benchmark and a command: Linux counts the peak
memory of the process that starts a command into the command's own, and the benchmark's own memory
is large.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass
class Measurement:
    wall_s: float
    cpu_s: float
    peak_rss_mb: float
    """Maximum resident set, MB of 1e6 bytes."""
    exit_code: int


def run_measured(command: Sequence[str], environment: dict[str, str] | None = None) -> Measurement:
    """Runs `command` and returns what it cost. Its output goes to stderr only if it fails."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as answer, tempfile.TemporaryFile("w+") as log:
        subprocess.run(
            [sys.executable, "-I", "-S", __file__, answer.name, *command],
            env={**os.environ, **(environment or {})},
            stdout=log,
            stderr=log,
            check=True,
        )
        measurement = Measurement(**json.load(answer))
        if measurement.exit_code != 0:
            log.seek(0)
            sys.stderr.write(log.read())
    return measurement


def median(measurements: Sequence[Measurement]) -> Measurement:
    """Field by field; the worst exit code."""
    fields = [asdict(measurement) for measurement in measurements]
    return Measurement(
        wall_s=statistics.median(field["wall_s"] for field in fields),
        cpu_s=statistics.median(field["cpu_s"] for field in fields),
        peak_rss_mb=max(field["peak_rss_mb"] for field in fields),
        exit_code=max(field["exit_code"] for field in fields),
    )


def machine() -> dict[str, object]:
    """What a reader needs to judge the numbers; no host name and no paths."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Model")):
            model = line.partition(":")[2].strip()
            break
    return {
        "cpu": model,
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "load_before": os.getloadavg()[0],
    }


def cell(text: str) -> str:
    """`text` for a Markdown table: the bars of a chain would end the cell."""
    return text.replace("|", "\\|")


def host_class() -> str:
    """The part of a results file's name that says what kind of machine it is from."""
    facts = machine()
    return f"{facts['architecture']}-{facts['cores']}core"


def _measure_here(answer: str, command: Sequence[str]) -> None:
    begin = time.perf_counter()
    child = subprocess.Popen(command)
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - begin
    Path(answer).write_text(
        json.dumps(
            {
                "wall_s": wall,
                "cpu_s": usage.ru_utime + usage.ru_stime,
                "peak_rss_mb": usage.ru_maxrss * 1024 / 1e6,
                "exit_code": os.waitstatus_to_exitcode(status),
            }
        )
    )


if __name__ == "__main__":
    _measure_here(sys.argv[1], sys.argv[2:])
