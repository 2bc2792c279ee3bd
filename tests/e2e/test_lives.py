"""The life of files that are handed over: without a fault, with those that once were mishandled, with some by chance.

`lives.py` has the table of lives. `tests/suites/faults.py` has all calls fail, in every way: `make soak` runs it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from chances import USUAL, repeated
from conftest import KNARR
from injecting import injector
from lives import LIVES, Life, faults_of
from lives_regressions import REGRESSIONS, Regression
from lives_trial import Lives


@pytest.fixture(scope="module")
def lives(knarr, own_memory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    made = injector(tmp_path_factory.mktemp("lives"))
    if isinstance(made, str):
        pytest.skip(made)
    lives = Lives(KNARR, made, made.program.parent)
    yield lives
    lives.stop()


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.name.replace(" ", "_"))
def test_a_life_without_a_fault(lives, life: Life):
    lived = lives.live(life)
    assert not lived.wrong, str(lived)


@pytest.mark.parametrize("regression", REGRESSIONS, ids=lambda regression: regression.what.replace(" ", "_"))
def test_what_was_wrong_once(lives, regression: Regression):
    lived = regression.lived(lives)
    assert not lived.wrong, str(lived)


@pytest.mark.kill
@pytest.mark.parametrize("number", range(repeated(USUAL) // 3))
def test_a_call_fails_by_chance(lives, chance: random.Random, number: int):
    life = chance.choice(LIVES)
    victim = chance.choice(life.victims)
    fault = chance.choice(faults_of(life.victim(victim), lives.calls(life, victim)))
    lived = lives.live(life, fault)
    assert not lived.wrong, str(lived)
