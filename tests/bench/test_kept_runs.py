"""What the documents promise holds in the kept runs of the benchmarks."""

from __future__ import annotations

import json
import statistics
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


def test_values_cross_slow_networks_as_fast_as_tcp_and_compressed_faster():
    def reading(way: str, rate: str, mib: int) -> float:
        runs = [row for row in newest("transfer-nodes") if (row["way"], row["rate"], row["mib"]) == (way, rate, mib)]
        assert runs and all(len(row["reading"]) > 1 for row in runs)
        return statistics.median(seconds for row in runs for seconds in row["reading"][1:])

    for mib in (64, 256):
        for rate in ("1 Gbit/s", "0.1 Gbit/s"):
            assert reading("tcp", rate, mib) >= 0.9 * reading("raw", rate, mib)
        assert reading("tcp", "0.1 Gbit/s", mib) >= 1.85 * reading("auto", "0.1 Gbit/s", mib)
