"""How long tests take. Each run records that of its tests below `target`; `KNARR_WRITE_DURATIONS=1` does so in
`durations.json` beside this file, too, which a fresh clone goes by."""

from __future__ import annotations

import collections
import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
KEPT = REPOSITORY / "tests" / "durations.json"
NEWEST = REPOSITORY / "target" / "durations.json"
SPENT = REPOSITORY / "target" / "spent.json"
"""Of the last run, each test with its seconds and those of processors."""
SHOWN = 30
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


class Clock:
    """A plugin of pytest for the processes that run tests: notes the processor time of each, with that of what it
    started and waited for. Unlike the time on the wall it says little of what else the machine does."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[object]:
        self.begin = used()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo) -> Iterator[object]:
        report = yield
        if call.when == "teardown":
            report.user_properties.append(("processor", used() - self.begin))
        return report


def used() -> float:
    return sum(os.times()[:4])


class Recorder:
    """A plugin of pytest for the process that gives out tests, and hears of them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = collections.Counter()
        self.processor: dict[str, float] = collections.Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.when == "teardown":
            self.processor[report.nodeid] += dict(report.user_properties).get("processor", 0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The tests that use processors most: the others wait, and others run meanwhile."""
        total = sum(self.processor.values())
        took = sum(self.seconds.values())
        terminalreporter.write_line(f"{total:.0f} s of processor time in tests that took {took:.0f} s")
        most = sorted(self.processor.items(), key=lambda item: -item[1])[:SHOWN]
        for test, seconds in most:
            if seconds > 1:
                terminalreporter.write_line(f"{seconds:.1f} s of {self.seconds[test]:.1f} s {test}")

    def pytest_sessionfinish(self) -> None:
        files: dict[str, dict[str, float]] = collections.defaultdict(dict)
        for test, seconds in self.seconds.items():
            file, _, name = test.partition("::")
            files[file][name] = seconds
        places = [NEWEST, KEPT] if os.environ.get("KNARR_WRITE_DURATIONS") else [NEWEST]
        for place in places:
            write(place, files)
        spent = {test: [round(self.seconds[test], 2), round(self.processor[test], 2)] for test in self.seconds}
        SPENT.write_text(json.dumps(spent, indent=0))


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
