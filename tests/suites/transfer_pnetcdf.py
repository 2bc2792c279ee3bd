#!/usr/bin/env python3
"""PnetCDF's own test programs write under `knarr run`, and another program copies what it gets instead of their file.

    .venv/bin/python tests/suites/transfer_pnetcdf.py
    .venv/bin/python tests/suites/transfer_pnetcdf.py --only testcases/vectors

Taken are the tests that leave one file and never open it again themselves: with route `transfer` there is none. Four
ranks write, two others read each session. The copy of the last one has to hold what the file of a plain run does, by
`knarr verify`. Test programs are those of `pnetcdf.py`. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from expected import expected, reason
from fetching import source
from killing import ENVIRONMENT, KNARR
from others import MAGIC, MPIRUN, OUT, Case, begins, run, verified
from pnetcdf import built, cases

TIME_LIMIT_S = 60
COPIES = Path(__file__).with_name("copy.c")
RULE = """
[[file]]
pattern = "{name}"
route = "transfer"
from = "model"
to = ["analysis"]
timeout = "15s"
"""
OPENS = re.compile(r"\bn(?:c|f|f90)mpi_open\b", re.IGNORECASE)


def suited(build: Path, sources: Path) -> Iterator[Case]:
    """Tests with one program that does not open a file."""
    for case in cases(build, sources):
        program = Path(str(case.commands[0][0]))
        folder = sources / "test" / program.parent.name
        texts = [path for path in folder.iterdir() if path.stem == program.name and path.suffix != ".o"]
        is_writer = texts and not any(
            OPENS.search(path.read_text(errors="replace")) for path in texts if path.is_file()
        )
        if is_writer and len(case.commands) == 1 and f"{OUT}/{program.name}.nc" in case.commands[0]:
            yield case


def coupled(case: Case, name: str, copy: Path, folder: Path) -> tuple[str, Path]:
    """What went wrong with the file of this name, if anything did, and the copy."""
    (folder / "out").mkdir(parents=True)
    (folder / "knarr.toml").write_text(RULE.format(name=name))
    target, copied = folder / "out" / name, folder / "copy.nc"
    writes = [str(word).replace(OUT, str(folder / "out")) for word in case.commands[0]]
    programs = {
        "model": [*MPIRUN["openmpi"], "-n", str(case.ranks), *writes],
        "analysis": [*MPIRUN["openmpi"], "-n", "2", copy, target, copied],
    }
    started = {}
    for who, words in programs.items():
        (folder / who).mkdir()
        started[who] = subprocess.Popen(
            list(map(str, [KNARR, "run", "-q", "-c", folder / "knarr.toml", "--as", who, "--", *words])),
            cwd=folder / "out",
            env=ENVIRONMENT | {"TMPDIR": str(folder / who)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    wrong = ""
    for who, process in started.items():
        try:
            said, _ = process.communicate(timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            said = f"no end after {TIME_LIMIT_S} s"
        # The last open of the reader finds no session, which its launcher tells.
        if process.returncode and not (who == "analysis" and re.search(r"^[1-9]\d* sessions", said, re.MULTILINE)):
            wrong += f"{who}: exit {process.returncode}: {said[:400]}"
    if target.exists():
        wrong += "there is a file"
    return wrong, copied


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", help="names of cases")
    chosen = parser.parse_args()
    counts = {"the same": 0, "expected": 0, "wrong": 0, "no file": 0}
    with tempfile.TemporaryDirectory(prefix="knarr-suite-") as place:
        copy = Path(place) / "copy"
        subprocess.run(["mpicc.openmpi", "-O1", COPIES, "-o", copy, "-lpnetcdf"], check=True)
        for number, case in enumerate(suited(built("openmpi"), source("pnetcdf"))):
            if chosen.only and case.name not in chosen.only:
                continue
            folder = Path(place) / str(number)
            answer = run(case, folder / "plain", "openmpi", None)
            files = list((folder / "plain" / "out").iterdir())
            if answer.has_failed or len(files) != 1 or not begins(files[0]).startswith(MAGIC):
                counts["no file"] += 1
                continue
            wrong, copied = coupled(case, files[0].name, copy, folder / "coupled")
            differs = [wrong] if wrong else verified(files[0], copied, case.apart)
            why = reason(case.name, expected("transfer_pnetcdf", "transfer")) if differs else None
            state = "the same" if not differs else "expected" if why else "wrong"
            counts[state] += 1
            print(f"{case.name}: {state}{': ' + (why or '; '.join(differs)) if differs else ''}", flush=True)
    print(", ".join(f"{count} {state}" for state, count in counts.items()))
    return 1 if counts["wrong"] or not counts["the same"] else 0


if __name__ == "__main__":
    sys.exit(main())
