"""Four tests run at a time on two processors: many of them wait. What cannot be tested on a machine is skipped, with
the reason. Where CI is set, a skip fails."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import chances
import durations
import namespaces
from chances import chance  # noqa: F401  a fixture

REFUSED = bool(os.environ.get("CI"))
# Open MPI starts nothing as root otherwise, and in containers there is no other user.
for option in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
    os.environ[option] = "1"
# Ranks of one machine reach each other by memory. Looking for networks is half of what a short program of MPI takes.
os.environ |= {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader"}
if "PYTEST_XDIST_WORKER" in os.environ:
    # netCDF4 has set it in the process that gives out the tests. hdf5plugin would leave out the filters that are there.
    os.environ.pop("HDF5_PLUGIN_PATH", None)


def pytest_xdist_auto_num_workers() -> int:
    """Of `-n auto`."""
    return 4 if (os.cpu_count() or 1) > 1 and namespaces.may_be_own() else 1


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(durations.Clock())
    if hasattr(config, "workerinput"):
        if config.workerinput["workercount"] > 1:
            namespaces.become_own()
        return
    chances.choose_seed()
    if "PYTEST_CURRENT_TEST" not in os.environ:
        # Not for tests that a test runs.
        config.pluginmanager.register(durations.Recorder())
        config.pluginmanager.register(chances)


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
