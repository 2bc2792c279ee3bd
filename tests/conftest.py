"""What cannot be tested on a machine is skipped, with the reason. Where CI is set, a skip fails.

Two tests run at a time (`pytest -n 2 --dist loadgroup`): those of a file one after the other, as they share what they
make. So do all of files that look at what launchers leave in `/dev/shm`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

REFUSED = bool(os.environ.get("CI"))
LOOK_AT_SPOOLS = {
    "test_nodes", "test_parallel_hdf5", "test_pnetcdf", "test_transfer", "test_transfer_dtf", "test_transfer_hdf5",
}  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The largest group begins first."""
    items.sort(key=lambda item: item.path.stem not in LOOK_AT_SPOOLS)
    for item in items:
        group = "spools" if item.path.stem in LOOK_AT_SPOOLS else item.path.stem
        item.add_marker(pytest.mark.xdist_group(group))


def refuse(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Makes a failure of a skip, with its reason. What is expected to fail is no skip."""
    if REFUSED and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"CI takes no skips. {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    report = yield
    refuse(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    report = yield
    refuse(report)
    return report
