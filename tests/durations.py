"""How long tests take. Each run records that of its tests below `target`; `KNARR_WRITE_DURATIONS=1` does so in
`durations.json` beside this file, too, which a fresh clone goes by."""

from __future__ import annotations

import collections
import contextlib
import json
import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
KEPT = REPOSITORY / "tests" / "durations.json"
NEWEST = REPOSITORY / "target" / "durations.json"
SHORT_S = 0.5
"""Tests that take no longer are counted together, by their file."""
UNKNOWN_S = 0.3
"""What a test is taken to need of which nothing is known."""

Durations = dict[str, dict[str, float]]
"""For each file what its tests take, by their names; under the name `""` what one of the short ones takes."""


def known() -> Durations:
    """What is known, newer figures first."""
    found: Durations = {}
    for place in (KEPT, NEWEST):
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            for file, tests in json.loads(place.read_text()).items():
                found.setdefault(file, {}).update(tests)
    return found


def expected(durations: Durations, test: str) -> float:
    """Seconds that a test, named as pytest names it, will take."""
    file, _, name = test.partition("::")
    tests = durations.get(file, {})
    return tests.get(name, tests.get("", UNKNOWN_S))


class Recorder:
    """A plugin of pytest."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = collections.Counter()

    def pytest_runtest_logreport(self, report) -> None:
        self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        files: dict[str, dict[str, float]] = collections.defaultdict(dict)
        for test, seconds in self.seconds.items():
            file, _, name = test.partition("::")
            files[file][name] = seconds
        places = [NEWEST, KEPT] if os.environ.get("KNARR_WRITE_DURATIONS") else [NEWEST]
        for place in places:
            write(place, files)


def write(place: Path, files: dict[str, dict[str, float]]) -> None:
    """Puts what files took in place of what is said of their tests."""
    durations: Durations = {}
    with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
        durations = json.loads(place.read_text())
    for file, tests in files.items():
        if not (REPOSITORY / file).is_file():
            continue
        told = durations.setdefault(file, {})
        for name in tests:
            told.pop(name, None)
        short = [seconds for seconds in tests.values() if seconds <= SHORT_S]
        told.update({name: round(seconds, 1) for name, seconds in tests.items() if seconds > SHORT_S})
        if short:
            told[""] = round(sum(short) / len(short), 2)
    durations = {file: tests for file, tests in durations.items() if (REPOSITORY / file).is_file()}
    place.parent.mkdir(exist_ok=True)
    beside = place.with_name(f"{place.name}.{os.getpid()}")
    beside.write_text(json.dumps(durations, indent=1, sort_keys=True) + "\n")
    beside.replace(place)
