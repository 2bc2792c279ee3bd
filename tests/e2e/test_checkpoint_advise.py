"""`knarr checkpoint advise`: how long to compute between two checkpoints."""

from __future__ import annotations

import json

import pytest


def test_the_interval_is_that_of_the_papers(knarr):
    """Daly's own example: a checkpoint of 5 min and a restart of 10 min on a machine that fails once a day."""
    said = json.loads(
        knarr("checkpoint", "advise", "--cost", "5min", "--restart", "10min", "--mtbf", "1day", "--json").stdout
    )
    assert said["young_s"] == pytest.approx((2 * 300 * 86400) ** 0.5)
    ratio = 300 / (2 * 86400)
    daly = (2 * 300 * 86400) ** 0.5 * (1 + ratio**0.5 / 3 + ratio / 9) - 300
    assert said["interval_s"] == pytest.approx(daly)
    assert 1.05 < said["run_time_factor"] < 1.15


def test_words_for_people(knarr):
    said = knarr("checkpoint", "advise", "--cost", "12s", "--restart", "30s", "--mtbf", "8h").stdout
    assert said.startswith("compute 13m 43s between two checkpoints (Daly 2006; Young 1974: 13m 51s)\n"), said
    assert "1.031 times as long" in said


@pytest.mark.parametrize(
    ("cost", "mtbf", "words"),
    [("0s", "8h", "the time for which it stops"), ("12s", "0s", "mean time between failures"), ("12", "8h", "--cost")],
)
def test_what_gives_no_interval_is_refused(knarr, cost, mtbf, words):
    done = knarr("checkpoint", "advise", "--cost", cost, "--restart", "30s", "--mtbf", mtbf, ok=False)
    assert done.returncode == 2
    assert words in done.stderr
