"""Cost of a call of the C library that takes the name of a file, in a program under `knarr run`.

The library in the program looks at each such name: the file may be one that was handed over and is not there yet. To
measure the look alone, a library behind it answers `access` at once. Then the same with the C library's own `access`,
and `open` with `close`, of files that are not pending. Each figure is the least of several rounds, in ns for each call.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
RELEASE = REPOSITORY / "target" / "release"
PRELOAD = RELEASE / "libknarr_preload.so"
ROUNDS = 9
CALLS = 1_000_000
PENDING = ("0", "1000", "2000", "0:.h5", "0:.nc")
"""Names that are pending meanwhile; on several nodes, what names end with that may be pending on another one."""

PROGRAM = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
int main(int count, char **arguments) {
    int opens = !strcmp(arguments[1], "open"), calls = atoi(arguments[2]);
    char names[64][256];
    for (int n = 0; n < 64; n++) {
        snprintf(names[n], sizeof names[n], "%s/history_of_member_%05d.nc", arguments[3], n);
        close(open(names[n], O_CREAT | O_WRONLY, 0600));
    }
    double begin = now();
    for (int n = 0; n < calls; n++)
        if (opens) close(open(names[n % 64], O_RDONLY)); else access(names[n % 64], F_OK);
    printf("%f\\n", (now() - begin) / calls);
    return 0;
}
"""
ANSWER = "int access(const char *path, int mode) { return 0; }"


def built(folder: Path, name: str, source: str, *options: str) -> Path:
    (folder / f"{name}.c").write_text(source)
    subprocess.run(["cc", "-O2", folder / f"{name}.c", "-o", folder / name, *options], check=True)
    return folder / name


def measure_names() -> list[dict]:
    """Nanoseconds of a call, by what is called and which names are pending (null: without Knarr)."""
    cargo = ["cargo", "build", "-q", "--release", "--locked", "-p", "knarr-names", "--example", "page"]
    subprocess.run(cargo, cwd=REPOSITORY, check=True)
    page = RELEASE / "examples" / "page"
    rows = []
    with tempfile.TemporaryDirectory(prefix="knarr-names-", dir="/dev/shm") as place:
        folder = Path(place)
        program = built(folder, "program", PROGRAM)
        answer = built(folder, "answer.so", ANSWER, "-shared", "-fPIC")
        run = folder / "run"
        run.mkdir()
        for what, call, behind in (
            ("the look alone", "access", [answer]),
            ("access", "access", []),
            ("open, close", "open", []),
        ):
            command = [program, call, str(CALLS if behind else CALLS // 5), folder]
            for count in (None, *PENDING):
                preload = [*([] if count is None else [PRELOAD]), *behind]
                environment = os.environ | {"LD_PRELOAD": ":".join(map(str, preload))}
                inner = ["env", f"LD_PRELOAD={environment['LD_PRELOAD']}", *command]
                outer = inner if count is None else [page, run, count, *inner]
                times = [
                    float(subprocess.run(outer, capture_output=True, text=True, check=True).stdout)
                    for _ in range(ROUNDS)
                ]
                rows.append({"what": what, "pending": count, "ns": min(times)})
    return rows


def table(rows: list[dict]) -> str:
    lines = [
        "| call | without Knarr | nothing pending | 1,000 names pending | 2,000 names pending "
        "| several nodes, no rule for the name | several nodes, a rule for it |",
        "|---|---|---|---|---|---|---|",
    ]
    for what in dict.fromkeys(row["what"] for row in rows):
        cells = [f"{row['ns']:.1f} ns" for row in rows if row["what"] == what]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines)
