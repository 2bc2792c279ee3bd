#!/usr/bin/env python3
"""Has every call of every process fail once, in every way, in all lives of files that are handed over.

    .venv/bin/python tests/suites/faults.py                                # all: 10 hours on two cores
    .venv/bin/python tests/suites/faults.py --share 0.05 --seed 7          # some of each
    .venv/bin/python tests/suites/faults.py --distinct --seed 7            # calls that are alike once: 20 minutes
    .venv/bin/python tests/suites/faults.py --life "pnetcdf, spilled" --victim worker

`tests/e2e/lives.py` has the table of lives and says what is looked at afterwards. Said for each life and each process
in it, once it is through: how many calls it makes, how many faults were tried, how many of them were not reached, how
many led to something wrong. Exit code 1 if anything was.
"""

from __future__ import annotations

import argparse
import os
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
from injecting import Call, Fault, Injector, injector
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


@dataclass
class Process:
    """One whose calls fail, in a life, with the calls that it makes there."""

    life: Life
    name: str
    calls: list[Call] = field(default_factory=list)
    wrong: str = ""

    def faults(self) -> list[Fault]:
        return faults_of(self.life.victim(self.name), self.calls)


def counted(made: Injector, folder: Path, life: Life, name: str) -> Process:
    """The process with its calls."""
    lives, process = Lives(KNARR, made, folder), Process(life, name)
    try:
        process.calls = lives.calls(life, name)
    except AssertionError as error:
        process.wrong = f"without a fault: {error}"
    lives.stop()
    return process


def tried(made: Injector, folder: Path, process: Process, faults: list[Fault]) -> Found:
    """What comes of these faults."""
    lives, found = Lives(KNARR, made, folder), Found(process.life.name, process.name, len(process.calls))
    if process.wrong:
        found.wrong.append(process.wrong)
    for fault in faults:
        lived = lives.live(process.life, fault)
        found.tried[fault.call.kind] += 1
        found.missed += not lived.failed
        if lived.wrong:
            found.wrong.append(str(lived))
    lives.stop()
    return found


def share_of(processes: list[Process], share: float, seed: int) -> list[list[Fault]]:
    """For each process all its faults, or a share of them."""
    chosen = []
    for process in processes:
        chance = random.Random(f"{seed} {process.life.name} {process.name}")
        chosen.append([fault for fault in process.faults() if chance.random() < share])
    return chosen


def distinct_of(processes: list[Process], seed: int) -> list[list[Fault]]:
    """For each process some of its faults: what ranks, launchers or workers call by the same name about the same place
    fails once in each way, in a life by chance."""
    alike: dict[tuple[str, str, str, str], list[tuple[int, Fault]]] = {}
    for number, process in enumerate(processes):
        for fault in process.faults():
            kind = (process.name.split()[0], fault.call.name, fault.call.about, fault.action)
            alike.setdefault(kind, []).append((number, fault))
    chance = random.Random(seed)
    chosen: list[list[Fault]] = [[] for _ in processes]
    for faults in alike.values():
        number, fault = chance.choice(faults)
        chosen[number].append(fault)
    return chosen


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
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--share", type=float, default=1.0, help="of all faults, by chance")
    which.add_argument("--distinct", action="store_true", help="of faults of calls that are alike, one by chance")
    parser.add_argument("--seed", type=int, default=1)
    # Lives wait more than they compute.
    parser.add_argument("--jobs", type=int, default=4 * (os.cpu_count() or 1))
    arguments = parser.parse_args()
    what = "faults of distinct calls" if arguments.distinct else f"{arguments.share:.1%} of all faults"
    print(f"seed {arguments.seed}, {what}", flush=True)
    with tempfile.TemporaryDirectory(prefix="knarr-faults-") as name:
        folder = Path(name)
        made = injector(folder)
        if isinstance(made, str):
            sys.exit(made)
        lives = Lives(KNARR, made, folder)
        chosen = [life for life in LIVES if not arguments.life or life.name in arguments.life]
        for life in chosen:
            lives.program(life.library)
        found = []
        # Each process has a shared memory and a network of its own.
        with ProcessPoolExecutor(arguments.jobs, initializer=namespaces.become_own) as pool:
            victims = [(life, name) for life in chosen for name in life.victims if arguments.victim in (None, name)]
            counts = [pool.submit(counted, made, folder, life, name) for life, name in victims]
            processes = [future.result() for future in counts]
            if arguments.distinct:
                faults = distinct_of(processes, arguments.seed)
            else:
                faults = share_of(processes, arguments.share, arguments.seed)
            print(f"{'life':26} {'process':12} {'calls':>6} {'tried':>6} {'missed':>7} {'wrong':>6}", flush=True)
            pairs = zip(processes, faults, strict=True)
            for future in [pool.submit(tried, made, folder, process, some) for process, some in pairs]:
                found.append(future.result())
                tell(found[-1])
    kinds = sum((row.tried for row in found), Counter())
    print("tried: " + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
    return int(any(row.wrong for row in found))


if __name__ == "__main__":
    sys.exit(main())
