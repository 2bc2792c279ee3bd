"""Cost of `knarr run` for a program with no file that matches: processor time and instructions, plain and under Knarr.

The program writes many small files and datasets through Debian's HDF5 (libhdf5-dev), so that calls that Knarr
sees are as frequent as they get; once for a moment, where starting counts, and once for more than 5 s. Runs take turns;
the program reports its own user and system time, which leaves the launcher out; wall times have it. Instructions, by
valgrind where that is installed, do not depend on what else the machine does.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
KNARR = Path(os.environ.get("KNARR_BIN", REPOSITORY / "target" / "release" / "knarr")).resolve()
DATASETS = 20
ROUNDS = {60: 25, 10_000: 5}
"""Rounds by the number of files that the program writes."""
COUNTED = 60
"""Files where instructions are counted."""

SOURCE = """
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
static float values[4096];
int main(int count, char **arguments) {
    hsize_t dims[1] = {4096};
    int files = count > 1 ? atoi(arguments[1]) : 0;
    for (int n = 0; n < files; n++) {
        char name[32];
        snprintf(name, sizeof name, "f%d.h5", n % 10);
        hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        hid_t space = H5Screate_simple(1, dims, NULL);
        for (int d = 0; d < DATASETS; d++) {
            snprintf(name, sizeof name, "d%d", d);
            hid_t set = H5Dcreate2(
                file, name, H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
            H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
            H5Dclose(set);
        }
        H5Sclose(space);
        H5Fclose(file);
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double seconds = used.ru_utime.tv_sec + used.ru_stime.tv_sec;
    printf("%f\\n", seconds + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    return 0;
}
"""


def compare(commands: dict[str, list], folder: Path, files: int) -> list[dict]:
    """Ratios of medians and of the least of all rounds, and medians in seconds."""
    used: dict[str, list[float]] = {kind: [] for kind in commands}
    wall: dict[str, list[float]] = {kind: [] for kind in commands}
    for _ in range(ROUNDS[files]):
        for kind, command in commands.items():
            begin = time.perf_counter()
            done = subprocess.run([*command, str(files)], cwd=folder, capture_output=True, text=True, check=True)
            wall[kind].append(time.perf_counter() - begin)
            used[kind].append(float(done.stdout))
    rows = []
    for what, times in (("processor time of the program", used), ("wall time with the launcher", wall)):
        medians = {kind: statistics.median(values) for kind, values in times.items()}
        least = {kind: min(values) for kind, values in times.items()}
        ratios = {"median": medians["knarr"] / medians["plain"], "least": least["knarr"] / least["plain"]}
        rounds = ROUNDS[files]
        rows.append({"what": what, "files": files, "rounds": rounds, "ratio": ratios, "plain": medians["plain"]})
    return rows


def count(commands: dict[str, list], folder: Path) -> list[dict]:
    """Instructions for no files, which is what starting takes, and for some."""
    rows = []
    counter = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    for files in (0, COUNTED):
        found = {}
        for kind, command in commands.items():
            counted = [*command[:-1], *counter, command[-1], str(files)]
            done = subprocess.run(counted, cwd=folder, capture_output=True, text=True, check=True)
            found[kind] = int(re.findall(r"Collected : (\d+)", done.stderr)[-1])
        ratio = found["knarr"] / found["plain"]
        row = {"what": "instructions of the program", "files": files, "rounds": 1}
        rows.append({**row, "ratio": {"median": ratio, "least": ratio}, "plain": found["plain"]})
    return rows


def measure_overhead() -> list[dict]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.c").write_text(f"#define DATASETS {DATASETS}\n{SOURCE}")
        libraries = next(Path("/usr/lib").glob("*/hdf5/serial"))
        options = ["-O2", "-I/usr/include/hdf5/serial", f"-L{libraries}"]
        subprocess.run(["cc", *options, folder / "program.c", "-o", folder / "program", "-lhdf5"], check=True)
        (folder / "knarr.toml").write_text('[[file]]\npattern = "other*.h5"\n')
        commands = {
            "plain": [folder / "program"],
            "knarr": [KNARR, "run", "--quiet", "-c", folder / "knarr.toml", "--", folder / "program"],
        }
        rows = count(commands, folder) if shutil.which("valgrind") else []
        return rows + [row for files in ROUNDS for row in compare(commands, folder, files)]


def table(rows: list[dict]) -> str:
    lines = [
        "| under knarr run, nothing matches | files written | rounds | plain | ratio of medians | of the least |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        ratio, plain = row["ratio"], f"{row['plain']:,}" if row["rounds"] == 1 else f"{row['plain']:.3f} s"
        lines.append(
            f"| {row['what']} | {row['files']:,} | {row['rounds']} | {plain}"
            f" | {ratio['median']:.3f} | {ratio['least']:.3f} |"
        )
    return "\n".join(lines)
