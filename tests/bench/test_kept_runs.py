"""What the documents promise of checkpoint sets holds in the kept runs of the benchmarks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

RUNS = Path(__file__).resolve().parents[2] / "bench" / "runs"
MOST = 1.02


def newest(kind: str) -> dict | list:
    path = max(RUNS.glob(f"*-{kind}.json"))
    return json.loads(path.read_text())["results"]


@pytest.mark.parametrize("kind", ["auto", "checkpoint"])
def test_auto_is_hardly_behind_the_best_fixed_scheme(kind):
    found = newest(kind)
    rows = found["sizes"] if kind == "checkpoint" else found
    assert len(rows) >= 18
    for row in rows:
        fixed = [size for scheme, size in row["schemes"].items() if scheme != "auto"]
        assert row["schemes"]["auto"] <= MOST * min(fixed), (row["case"], row["step"])
