#!/usr/bin/env python3
"""Has every call of every process fail once, in every way, in all lives of files that are handed over.

    .venv/bin/python tests/suites/faults.py                                # all: hours
    .venv/bin/python tests/suites/faults.py --share 0.05 --seed 7          # some of each
    .venv/bin/python tests/suites/faults.py --life "pnetcdf, spilled" --victim worker

`tests/e2e/lives.py` has the table of lives and says what is looked at afterwards. Said for each life and each process
in it, once it is through: how many calls it makes, how many faults were tried, how many of them were not reached, how
many led to something wrong. Exit code 1 if anything was.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from killing import KNARR, REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests"))
sys.path.insert(0, str(REPOSITORY / "tests" / "e2e"))

import namespaces
from injecting import Injector, injector
from lives import LIVES, Life, faults_of
from lives_trial import Lives


@dataclass
class Found:
    """What came of the faults of one process of a life."""

    life: str
    victim: str
    calls: int = 0
    tried: Counter[str] = field(default_factory=Counter)
    """By kinds of calls."""
    missed: int = 0
    wrong: list[str] = field(default_factory=list)


def one(made: Injector, folder: Path, life: Life, name: str, share: float, seed: int) -> Found:
    """All faults of a process of a life, or a share of them."""
    lives, found = Lives(KNARR, made, folder), Found(life.name, name)
    try:
        calls = lives.calls(life, name)
    except AssertionError as error:
        found.wrong.append(f"without a fault: {error}")
        lives.stop()
        return found
    found.calls = len(calls)
    chance = random.Random(f"{seed} {life.name} {name}")
    for fault in faults_of(life.victim(name), calls):
        if chance.random() >= share:
            continue
        lived = lives.live(life, fault)
        found.tried[fault.call.kind] += 1
        found.missed += not lived.failed
        if lived.wrong:
            found.wrong.append(str(lived))
    lives.stop()
    return found


def tell(row: Found) -> None:
    """Its line of the table."""
    tried = sum(row.tried.values())
    print(f"{row.life:26} {row.victim:12} {row.calls:6} {tried:6} {row.missed:7} {len(row.wrong):6}", flush=True)
    for wrong in row.wrong:
        print(wrong, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--life", action="append", help="all without it")
    parser.add_argument("--victim", help="all without it")
    parser.add_argument("--share", type=float, default=1.0, help="of all faults, by chance")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}, {arguments.share:.1%} of all faults", flush=True)
    with tempfile.TemporaryDirectory(prefix="knarr-faults-") as name:
        folder = Path(name)
        made = injector(folder)
        if isinstance(made, str):
            sys.exit(made)
        lives = Lives(KNARR, made, folder)
        chosen = [life for life in LIVES if not arguments.life or life.name in arguments.life]
        for life in chosen:
            lives.program(life.library)
        found, begun = [], []
        # Each process has a shared memory and a network of its own.
        with ProcessPoolExecutor(arguments.jobs, initializer=namespaces.become_own) as pool:
            for life in chosen:
                for victim in life.victims:
                    if arguments.victim in (None, victim):
                        begun.append(pool.submit(one, made, folder, life, victim, arguments.share, arguments.seed))
            print(f"{'life':26} {'process':12} {'calls':>6} {'tried':>6} {'missed':>7} {'wrong':>6}", flush=True)
            for future in begun:
                found.append(future.result())
                tell(found[-1])
    kinds = sum((row.tried for row in found), Counter())
    print("tried: " + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
    return int(any(row.wrong for row in found))


if __name__ == "__main__":
    sys.exit(main())
