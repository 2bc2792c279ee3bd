#!/usr/bin/env python3
"""Kills processes at random moments of all lives of files that are handed over, many times.

    .venv/bin/python tests/suites/life_kills.py                                      # 200 times each: a day
    .venv/bin/python tests/suites/life_kills.py --times 20 --victim "pnetcdf: launcher"

`tests/e2e/lives.py` has the table of lives and says what is looked at afterwards. `faults.py` kills at calls; here
processes end between calls, too, and two at once. Said at the end: what came of the kills. Exit code 1 if anything was
lost or wrong.
"""

from __future__ import annotations

import random
import sys
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path

from killing import KNARR, REPOSITORY, TWO, Once, WrongError, chosen, repeat

sys.path.insert(0, str(REPOSITORY / "tests" / "e2e"))

from injecting import Injector
from lives import LIVES, Life
from lives_kills import kill_by_chance
from lives_trial import Lived, Lives

VICTIMS = {
    f"{life.name}: {victim}": (life, victim)
    for life in LIVES
    for victim in [*life.victims, *([TWO] if len(life.victims) > 1 else [])]
}


def prepare(top: Path) -> Once:
    lives = Lives(KNARR, Injector(top), top)
    Finalize(lives, lives.stop, exitpriority=1)

    @cache
    def undisturbed(life: Life) -> Lived:
        lived = lives.live(life)
        if lived.wrong:
            raise WrongError(f"without a kill: {lived}")
        return lived

    def once(folder: Path, kind: str) -> str:
        life, name = VICTIMS[kind]
        usual = undisturbed(life)
        victims = tuple(life.victim(one) for one in chosen(name, life.victims))
        # What is recovered has been noted before.
        noted = {} if life.is_recovered else usual.noted
        lived = lives.live(life, kill=kill_by_chance(random, victims, noted, usual.took_s))
        if lived.wrong:
            raise WrongError(str(lived))
        if lived.killed < len(victims):
            return "missed" if lived.killed == 0 else "one killed"
        if life.reads:
            return "all is well" if lived.code == 0 else "told"
        return "all is well" if lived.code == 0 else "recovered" if lived.recovered else "told"

    return once


if __name__ == "__main__":
    sys.exit(repeat(__doc__, list(VICTIMS), prepare))
