#!/usr/bin/env python3
"""Runs the tests of parallel h5py plain and under `knarr run`, and compares.

    .venv/bin/python tests/suites/h5py_mpi.py                    # both ways, all formats
    .venv/bin/python tests/suites/h5py_mpi.py ranks --output classic

The tests are those of Debian's python3-h5py-mpi, run by Debian's Python with python3-pytest-mpi. `ranks`: four ranks
run all of them, those for MPI together. `files`: one rank runs all of them, and every file is opened through MPI-IO. A
test that passes plain and fails under Knarr fails the run, unless `expected.txt` lists it with the reason.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from expected import expected, reason
from killing import KNARR
from others import MPIRUN, finished, rule

HERE = Path(__file__).resolve().parent
PYTEST = "exec /usr/bin/python3 -m pytest -q -p no:cacheprovider --with-mpi"
REPORT = "--junitxml={folder}/$OMPI_COMM_WORLD_RANK.xml"
TESTS = "--pyargs h5py._debian_h5py_mpi.tests"
WAYS = {"ranks": (4, TESTS), "files": (1, f"-p mpio_files {TESTS}")}
OUTPUTS = ("netcdf4", "classic")
RANK = {"passed": 0, "skipped": 1, "failed": 2}


def outcomes(way: str, output: str | None) -> dict[str, str]:
    """Test to outcome: the worst that any rank had."""
    ranks, arguments = WAYS[way]
    with tempfile.TemporaryDirectory(prefix="knarr-suite-") as name:
        folder = Path(name)
        launcher = []
        if output:
            (folder / "knarr.toml").write_text(rule(output, None))
            launcher = [KNARR, "run", "-q", "-c", folder / "knarr.toml", "--"]
        script = f"{PYTEST} {REPORT.format(folder=folder)} {arguments}"
        command = [*launcher, *MPIRUN["openmpi"], "-n", ranks, "sh", "-c", script]
        environment = {"PYTHONPATH": str(HERE), "TMPDIR": name, "PYTHONDONTWRITEBYTECODE": "1"}
        _, text = finished(command, folder, environment)
        reports = sorted(folder.glob("*.xml"))
        if len(reports) != ranks:
            raise SystemExit(f"{len(reports)} of {ranks} ranks came to the end:\n{text}")
        found: dict[str, str] = {}
        for case in (case for report in reports for case in ElementTree.parse(report).iter("testcase")):
            kinds = {child.tag for child in case}
            test = f"{case.get('classname')}::{case.get('name')}"
            outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
            found[test] = max(outcome, found.get(test, "passed"), key=RANK.__getitem__)
        return found


def compare(way: str, outputs: list[str]) -> bool:
    """Runs the tests in one way; True if nothing fails under Knarr that should not."""
    plain = outcomes(way, None)
    good = {test for test, outcome in plain.items() if outcome == "passed"}
    print(f"h5py-mpi, {way}: {len(good)} of {len(plain)} tests pass plain", flush=True)
    fine = bool(good)
    for output in outputs:
        found = outcomes(way, output)
        failing = sorted(test for test in good if found.get(test) != "passed")
        listed = expected(f"h5py-mpi-{way}", output)
        print(f"  {output}: {len(good) - len(failing)} of these pass", flush=True)
        for test in failing:
            print(f"    {test}: {reason(test, listed) or 'NOT EXPECTED'}")
        fine &= all(reason(test, listed) for test in failing)
    return fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ways", nargs="*", choices=[*WAYS, []], default=[])
    parser.add_argument("--output", choices=OUTPUTS)
    chosen = parser.parse_args()
    outputs = [chosen.output] if chosen.output else list(OUTPUTS)
    results = [compare(way, outputs) for way in chosen.ways or WAYS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
