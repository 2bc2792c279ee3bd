"""Random choices of tests, others for each commit from a seed that is printed, and how often they repeat what they do.

`KNARR_SEED=N` makes a run choose as another one did, `KNARR_TIMES=N` has tests kill N times what they kill 30 times of
themselves, and so on.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from pathlib import Path

import pytest

USUAL = 30
SEED, TIMES = "KNARR_SEED", "KNARR_TIMES"


def choose_seed() -> None:
    """In the process that gives out the tests: those that run them inherit the seed. Whoever tests the same commit
    chooses the same."""
    head = ["git", "-C", Path(__file__).parent, "rev-parse", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=False)
    seed = int(commit.stdout, 16) if commit.returncode == 0 else time.time_ns() // 1000
    os.environ.setdefault(SEED, str(seed % 10**9))


def repeated(usual: int) -> int:
    """How often to do now what is done `usual` times for each commit."""
    return max(1, round(usual * int(os.environ.get(TIMES, USUAL)) / USUAL))


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Random choices of a test. If it fails, the seed of the run is shown with it."""
    print(f"{SEED}={os.environ[SEED]}")
    return random.Random(f"{os.environ[SEED]} {request.node.name}")


def pytest_terminal_summary(terminalreporter) -> None:
    terminalreporter.write_line(f"random choices: {SEED}={os.environ[SEED]} {TIMES}={repeated(USUAL)}")
