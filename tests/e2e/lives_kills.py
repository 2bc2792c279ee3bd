"""SIGKILL for processes of a life, at moments that no call marks: between two of them, too, and several at once."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from injecting import Victim

LONGEST_S = 0.03
"""Few calls of a program take longer."""


@dataclass(frozen=True)
class Kill:
    """What is killed, and when."""

    victims: tuple[Victim, ...]
    lines: int
    """As soon as the program has noted so many."""
    delay_s: float
    """And a while later."""

    def __str__(self) -> str:
        return f"{' and '.join(one.name for one in self.victims)} killed {self.delay_s:.6f} s after line {self.lines}"

    @property
    def notes(self) -> str:
        """Where the program notes them: that of the reader if only that side is killed."""
        return "reader/0" if all(one.name.endswith(" r") for one in self.victims) else "0"

    def strike(self, noted: Path, processes: Callable[[], list[int]], goes_on: Callable[[], bool]) -> int:
        """Kills them once all are there after that moment, or those that are there in the end. Returns how many."""
        notes = noted / self.notes
        while goes_on() and lines_of(notes) < self.lines:
            time.sleep(0.0005)
        time.sleep(self.delay_s)
        while True:
            found = list(self.found(processes()))
            if len(found) == len(self.victims) or not goes_on():
                break
            time.sleep(0.0005)
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return len(found)

    def found(self, processes: list[int]) -> Iterator[int]:
        """The process of each victim, where there is one."""
        for victim in self.victims:
            found = next((process for process in processes if is_it(process, victim)), None)
            if found is not None:
                yield found


def lines_of(notes: Path) -> int:
    return notes.read_bytes().count(b"\n") if notes.exists() else 0


def is_it(process: int, victim: Victim) -> bool:
    """Whether a process is this one: as `faults/fault.c` decides."""
    with contextlib.suppress(OSError):
        place = Path(f"/proc/{process}")
        words = (place / "cmdline").read_bytes().split(b"\0")
        return (
            victim.exe in os.readlink(place / "exe")
            and (not victim.arg or words[1:2] == [victim.arg.encode()])
            and (not victim.env or victim.env.encode() in (place / "environ").read_bytes().split(b"\0"))
        )
    return False


def kill_by_chance(chance: random.Random, victims: tuple[Victim, ...], noted: dict[str, int], took_s: float) -> Kill:
    """At any moment of a life whose programs note so many lines, and which takes so long."""
    kill = Kill(victims, 0, 0.0)
    most = noted.get(kill.notes, 0)
    # Before its mark a rank has done nothing but start, and the others of MPI may wait for it for ever.
    lines = chance.randint(any(one.is_marked for one in victims), most)
    is_edge = lines in (0, most)
    delay_s = chance.uniform(0, took_s / 2) if is_edge else 10 ** chance.uniform(-5, 0) * LONGEST_S
    return Kill(victims, lines, delay_s)
