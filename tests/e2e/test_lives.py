"""The life of files that are handed over, with each call failing once: `lives.py` has the table of lives.

Here a few calls of each process of each life fail, other ones in each run. `tests/suites/faults.py` has all of them
fail, in every way.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chances import repeated
from conftest import KNARR
from injecting import injector
from lives import LIVES, Life, sample
from lives_regressions import REGRESSIONS, Regression
from lives_trial import Lives

USUAL = 5
"""Faults for each process of a life."""
CASES = [(life, victim) for life in LIVES for victim in life.victims]


@pytest.fixture(scope="module")
def lives(knarr, own_memory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    made = injector(tmp_path_factory.mktemp("lives"))
    if isinstance(made, str):
        pytest.skip(made)
    lives = Lives(KNARR, made, made.program.parent)
    yield lives
    lives.stop()


def name_of(value: object) -> str:
    return value.name if isinstance(value, Life) else str(value)


@pytest.mark.parametrize(("life", "victim"), CASES, ids=name_of)
def test_some_calls_fail(lives, life, victim, chance):
    calls = lives.calls(life, victim)
    faults = sample(life.victim(victim), calls, chance)
    wrong = [lived for lived in (lives.live(life, fault) for fault in faults[: repeated(USUAL)]) if lived.wrong]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("regression", REGRESSIONS, ids=lambda regression: regression.what.replace(" ", "_"))
def test_what_was_wrong_once(lives, regression: Regression):
    lived = regression.lived(lives)
    assert not lived.wrong, str(lived)
