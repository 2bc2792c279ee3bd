"""Tests that may fail under `knarr run`: what `expected.txt` says."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

LIST = Path(__file__).with_name("expected.txt")


def expected(suite: str, *ways: str) -> dict[str, str]:
    """Patterns of tests of a suite that may fail if it is run in these ways, with the reason."""
    lines = (line.partition("#") for line in LIST.read_text().splitlines() if not line.startswith("#"))
    entries = ((head.split(), reason.strip()) for head, _, reason in lines if head.strip())
    return {
        name: reason for (of, at, name), reason in entries if of == suite and any(fnmatchcase(way, at) for way in ways)
    }


def reason(test: str, listed: dict[str, str]) -> str | None:
    """Why this test may fail; `None` if it may not."""
    return next((why for pattern, why in listed.items() if fnmatchcase(test, pattern)), None)
