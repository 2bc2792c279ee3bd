"""Skips are counted, and refused where CI is set."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
SOME = """
import pytest

def test_that_runs(): pass

@pytest.mark.skipif(True, reason="needs a rudder")
def test_by_mark(): pass

def test_by_call(): pytest.skip("needs a keel")

@pytest.mark.xfail(reason="known")
def test_that_is_expected_to_fail(): assert False
"""
IMPORTS = 'import pytest\npytest.importorskip("no_such_module_at_all")\n'


def pytest_in(folder: Path, ci: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    environment.update({} if ci is None else {"CI": ci})
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("conftest.py", "chances.py", "durations.py", "namespaces.py"):
        shutil.copy(TESTS / name, tmp_path)
    return tmp_path


def test_skips_are_counted_and_refused_by_ci(folder):
    (folder / "test_some.py").write_text(SOME)
    done = pytest_in(folder, None)
    assert done.returncode == 0, done.stdout
    assert "1 passed, 2 skipped, 1 xfailed" in done.stdout
    done = pytest_in(folder, "true")
    assert done.returncode == 1, done.stdout
    closing = done.stdout.strip().splitlines()[-1]
    assert "1 failed, 1 passed, 1 xfailed, 1 error" in closing
    for name, reason in (("test_by_mark", "needs a rudder"), ("test_by_call", "needs a keel")):
        assert any(name in line and reason in line for line in done.stdout.splitlines()), done.stdout


def test_a_module_that_skips_itself_is_refused_too(folder):
    (folder / "test_some.py").write_text(IMPORTS)
    assert pytest_in(folder, None).returncode == 5, "nothing was collected"
    done = pytest_in(folder, "true")
    assert done.returncode not in (0, 5) and "no_such_module_at_all" in done.stdout
