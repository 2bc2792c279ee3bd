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
from lives_defects import DEFECTS, Defect, known
from lives_trial import Lives, WrongError

USUAL = 5
"""Faults for each process of a life."""
BROKEN = {defect.shown_by[0] for defect in DEFECTS if not defect.calls}
CASES = [(life, victim) for life in LIVES for victim in life.victims if life.name not in BROKEN]


@pytest.fixture(scope="module")
def lives(knarr, own_memory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    made = injector(tmp_path_factory.mktemp("lives"))
    if isinstance(made, str):
        pytest.skip(made)
    lives = Lives(KNARR, made, made.program.parent)
    yield lives
    lives.stop()


def name_of(value: object) -> str:
    return value.name if isinstance(value, Life | Defect) else str(value)


@pytest.mark.parametrize(("life", "victim"), CASES, ids=name_of)
def test_some_calls_fail(lives, life, victim, chance):
    calls = lives.calls(life, victim)
    faults = [fault for fault in sample(life.victim(victim), calls, chance) if not known(life, fault)]
    wrong = [lived for lived in (lives.live(life, fault) for fault in faults[: repeated(USUAL)]) if lived.wrong]
    assert not wrong, "\n".join(map(str, wrong))


def unmended(defect: Defect) -> object:
    return pytest.param(defect, marks=pytest.mark.xfail(strict=True, raises=WrongError, reason=defect.what))


@pytest.mark.parametrize("defect", [unmended(one) for one in DEFECTS], ids=name_of)
def test_defect(lives, defect):
    defect.shown(lives).check()
