"""What is known to be wrong when a call fails, as long as nobody has mended it.

The loops leave out what a defect covers. Each has a test of its own, which is expected to fail: when it does not any
more, its row goes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from injecting import Fault
from lives import LIVES, Life
from lives_trial import Lived, Lives


@dataclass(frozen=True)
class Defect:
    """Calls that may not fail as these do."""

    name: str
    """A letter of the report that describes it, or a word."""
    what: str
    victim: str
    """The process, without its number."""
    calls: str
    """Pattern of calls' names, as a whole."""
    about: str
    """Pattern of what they are about."""
    shown_by: tuple[str, str, str, int, str]
    """A life, a call and what it is about, how many such calls come before it, and how it fails. If it is wrong without
    a fault, all but the life are empty."""
    actions: str = ".*"
    """Pattern of how they fail, as a whole."""
    lives: str = ".*"
    """Pattern of the lives in which they do, as a whole."""

    def covers(self, life: Life, fault: Fault) -> bool:
        """True if the loops leave a fault out because of it."""
        call = fault.call
        is_victim = fault.victim.name.split()[0] == self.victim and re.fullmatch(self.lives, life.name)
        is_call = self.calls and re.fullmatch(self.calls, call.name) and re.search(self.about, call.about)
        return bool(is_victim and is_call and re.fullmatch(self.actions, fault.action))

    def shown(self, lives: Lives) -> Lived:
        """The life that shows it."""
        name, call, about, before, action = self.shown_by
        life = next(life for life in LIVES if life.name == name)
        victim = f"{self.victim} 0" if self.victim == "rank" else self.victim
        if not call:
            return lives.live(life)
        calls = [one for one in lives.calls(life, victim) if one.name == call and re.search(about, one.about)]
        # What hangs does so in less time, too.
        return lives.live(replace(life, longest_s=10), Fault(life.victim(victim), calls[before], action))


DEFECTS: list[Defect] = []


def known(life: Life, fault: Fault) -> bool:
    return any(defect.covers(life, fault) for defect in DEFECTS)
