"""Cost of `knarr run` for a program with no file that matches: processor time, plain and under Knarr.

    .venv/bin/python bench/run_overhead.py

The program writes many small files and datasets through Debian's HDF5 (libhdf5-dev), so that calls that Knarr
sees are as frequent as they get. Runs take turns; the program reports its own user and system time, which leaves
the launcher out; the last line has the wall time with it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
KNARR = Path(os.environ.get("KNARR_BIN", REPOSITORY / "target" / "release" / "knarr")).resolve()
ROUNDS = 7
FILES, DATASETS = 3000, 20

SOURCE = """
#include <hdf5.h>
#include <stdio.h>
#include <sys/resource.h>
static float values[4096];
int main(void) {
    hsize_t dims[1] = {4096};
    for (int n = 0; n < FILES; n++) {
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


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.c").write_text(f"#define FILES {FILES}\n#define DATASETS {DATASETS}\n{SOURCE}")
        libraries = next(Path("/usr/lib").glob("*/hdf5/serial"))
        options = ["-O2", "-I/usr/include/hdf5/serial", f"-L{libraries}"]
        subprocess.run(["cc", *options, folder / "program.c", "-o", folder / "program", "-lhdf5"], check=True)
        (folder / "knarr.toml").write_text('[[file]]\npattern = "other*.h5"\nwhen = "write"\n')
        commands = {
            "plain": [folder / "program"],
            "knarr": [KNARR, "run", "--quiet", "-c", folder / "knarr.toml", "--", folder / "program"],
        }
        used: dict[str, list[float]] = {kind: [] for kind in commands}
        wall: dict[str, list[float]] = {kind: [] for kind in commands}
        for _ in range(ROUNDS):
            for kind, command in commands.items():
                begin = time.perf_counter()
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
                wall[kind].append(time.perf_counter() - begin)
                used[kind].append(float(done.stdout))
    for what, times in (("processor time of the program", used), ("wall time with the launcher", wall)):
        medians = {kind: statistics.median(values) for kind, values in times.items()}
        least = {kind: min(values) for kind, values in times.items()}
        ratios = {"median": medians["knarr"] / medians["plain"], "least": least["knarr"] / least["plain"]}
        print(json.dumps({"what": what, "rounds": ROUNDS, "ratio": ratios, "seconds": medians}))


if __name__ == "__main__":
    main()
