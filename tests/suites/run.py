#!/usr/bin/env python3
"""Runs the test suites of h5py, netCDF4-python, h5netcdf and PyTables plain and under `knarr run`, and compares.

    .venv/bin/python tests/suites/run.py                     # all suites, in all ways
    .venv/bin/python tests/suites/run.py h5py --when close   # one of them
    .venv/bin/python tests/suites/run.py --stage             # everything that the tests write waits in tiers

h5py's and h5netcdf's tests are those that are installed, netCDF4-python's come from its source package of the
installed version, which pip fetches; Debian's `libnetcdf-dev` has to be there, whose headers it asks for. PyTables is
asked for by its name, and need not be installed, if pip has put it into a directory:

    pip install --target DIRECTORY tables; PYTHONPATH=DIRECTORY .venv/bin/python tests/suites/run.py tables --stage

Every file that the tests write is to be compressed: pattern "*". A test that passes plain and fails under Knarr fails
the run, unless `expected.txt` lists it with the reason.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from expected import expected, reason
from others import STAGED, left_in_tier, staged

REPOSITORY = Path(__file__).resolve().parents[2]
KNARR = Path(os.environ.get("KNARR_BIN", REPOSITORY / "target" / "release" / "knarr")).resolve()
SUITES = ("h5py", "netCDF4", "h5netcdf")
TABLES = "tables"
PARTS = (
    *("array", "attributes", "aux", "backcompat", "basics", "carray", "create", "direct_chunk", "do_undo", "earray"),
    *("enum", "expression", "garbage", "hdf5compat", "index_backcompat", "links", "lists", "nestedtypes", "numpy"),
    *("tables", "tablesMD", "timestamps", "timetype", "tree", "types", "utils", "vlarray"),
)
"""Tests of PyTables that run. Left out are 66,000 of indexes and queries, which take hours, and tables of gigabytes."""
TIMINGS = {
    "handed": "",
    "close": 'when = "close"\n',
    "own": 'portable = "knarr"\n',
}
"""Keys of the rule: values are handed over, closed files are packed, or Knarr's own filter is used."""


def arguments_of(suite: str, folder: Path) -> list[str]:
    """What pytest is told, to run in `folder`."""
    if suite == TABLES:
        tests = Path(find_spec(suite).origin).parent / "tests"
        return ["--rootdir", str(tests), *(str(tests / f"test_{name}.py") for name in PARTS)]
    if suite != "netCDF4":
        return ["--pyargs", f"{suite}.tests"]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", suite),
            *(f"{suite}=={version(suite)}", "-d", folder),
        ],
        check=True,
    )
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    tests = next(folder.glob("*/test"))
    return ["-o", "python_files=tst_*.py test_*.py", "--rootdir", str(tests), str(tests)]


def outcomes(arguments: list[str], folder: Path, when: str | None, is_staged: bool = False) -> dict[str, str]:
    """Test to outcome: passed, failed or skipped."""
    report = folder / f"{when}.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *arguments]
    if when:
        configuration = folder / f"{when}.toml"
        rule = f'[[file]]\npattern = "*"\n{TIMINGS[when]}'
        configuration.write_text(staged(rule) if is_staged else rule)
        command = [KNARR, "run", "--quiet", "-c", configuration, "--", *command]
    # netCDF4's tests reach for servers unless they are told that there is no network.
    environment = {**os.environ, "NO_NET": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if left := left_in_tier(folder):
        raise SystemExit("\n".join(left))
    if not report.exists():
        raise SystemExit(f"no results of {command}:\n{done.stdout}\n{done.stderr}")
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        name = f"{case.get('classname')}::{case.get('name')}"
        found[name] = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
    return found


def compare(suite: str, timings: list[str], is_staged: bool) -> bool:
    """Runs a suite; True if nothing fails under Knarr that should not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arguments = arguments_of(suite, folder)
        plain = outcomes(arguments, folder, None)
        good = sum(outcome == "passed" for outcome in plain.values())
        print(f"{suite} {version(suite)}: {good} of {len(plain)} tests pass plain", flush=True)
        fine = good > 0
        for when in timings:
            found = outcomes(arguments, folder, when, is_staged)
            failing = {test for test in plain if plain[test] == "passed" != found.get(test, "missing")}
            listed = expected(suite, when, *([STAGED] if is_staged else []))
            print(f"  {when}{', staged' if is_staged else ''}: {good - len(failing)} of these pass", flush=True)
            for test in sorted(failing):
                print(f"    {test}: {reason(test, listed) or 'NOT EXPECTED'}")
            fine &= all(reason(test, listed) for test in failing)
        return fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", choices=[*SUITES, TABLES, []], default=[])
    parser.add_argument("--when", choices=TIMINGS)
    parser.add_argument("--stage", action="store_true", help="all files wait in tiers")
    options = parser.parse_args()
    timings = [options.when] if options.when else list(TIMINGS)
    results = [compare(suite, timings, options.stage) for suite in options.suites or SUITES]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
