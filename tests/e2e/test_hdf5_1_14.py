"""HDF5 1.14, between Debian's 1.10 and the wheels' 2.x: tests of filter and capture with an h5py that brings it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.suite

HERE = Path(__file__).resolve().parent
OLDER = HERE.parents[1] / ".venv" / "hdf5-1.14"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(OLDER)}


def test_this_is_1_14() -> None:
    script = "import h5py; print(h5py.version.hdf5_version)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=ENVIRONMENT, check=True)
    assert done.stdout.startswith("1.14."), f"{OLDER} is not there: make setup"


@pytest.mark.parametrize("tests", ["test_plugin.py", "test_run_serial.py"])
def test_filter_and_capture_hold(tests: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", HERE / tests]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
