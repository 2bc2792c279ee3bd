"""Runs programs under route `checkpoint` and looks at the sets and files they leave."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from conftest import sets_in
from running import Ran, script

CANNOT_BEGIN = 125
TIME_LIMIT_S = 120
RANKS = 4
PATTERN = "restart_{step}_{rank}.dat"


def rule(pattern: str = PATTERN, ranks: int | None = RANKS, **keys: object) -> str:
    """A rule of route checkpoint."""
    keys = {"ranks": ranks, "settle": '"300ms"', **keys}
    lines = [f"{key} = {value}" for key, value in keys.items() if value is not None]
    return "\n".join(["[[file]]", f'pattern = "{pattern}"', 'route = "checkpoint"', *lines]) + "\n"


# What `content(step, rank)` gives is in every program, and here.
CONTENT = """
import os
launcher = os.getppid()

def content(step, rank, size=30_000):
    import random
    return random.Random(1000 * step + rank).randbytes(size) + bytes(size) + b"%d %d" % (step, rank)

def write(step, rank, name="restart_{:04}_{}.dat", part=1.0):
    data = content(step, rank)
    with open(name.format(step, rank), "wb") as file:
        file.write(data[: int(part * len(data))])

def write_step(step, ranks=4):
    for rank in range(ranks):
        write(step, rank)

def until(holds):
    import time
    end = time.time() + 250
    while not holds():
        assert time.time() < end
        time.sleep(0.01)

def wait_for_set(step):
    until(lambda: os.path.exists(f"../sets/step_{step}/manifest.knarr"))

def texts(pattern):
    import glob
    for path in glob.glob(pattern):
        try:
            yield open(path).read()
        except OSError:
            pass

def is_followed(process):
    # The launcher has seen that it has a file open.
    return any(f"\\nPid:\\t{process}\\n" in text for text in texts(f"/proc/{launcher}/fdinfo/*"))
"""
exec(CONTENT)  # Defines content, which programs and tests share.


def program(text: str) -> list[str]:
    """A Python program that can `write(step, rank)`."""
    command = script(text)
    return [*command[:2], CONTENT + command[2]]


def name(step: int, rank: int) -> str:
    return f"restart_{step:04}_{rank}.dat"


def contents(step: int, ranks: int = RANKS) -> dict[str, bytes]:
    return {name(step, rank): content(step, rank) for rank in range(ranks)}  # noqa: F821


class Route:
    """Runs programs, and looks at the sets and files they leave."""

    def __init__(self, run, knarr):
        self.run, self.knarr = run, knarr
        self.folder: Path = run.folder
        self.sets: Path = run.top / "sets"

    def __call__(self, *command: object, config: str | None = None, **how: object) -> Ran:
        return self.run(*command, config=config or rule(), **how)

    def start(self, *command: object, config: str | None = None, **how: object) -> subprocess.Popen[str]:
        return self.run.start(*command, config=config or rule(), **how)

    def steps(self) -> list[int]:
        """Steps that have a set; nothing else may be there."""
        names = sets_in(self.sets) if self.sets.exists() else []
        assert all(name.startswith("step_") for name in names), names
        return sorted(int(name.removeprefix("step_")) for name in names)

    def restored(self, step: int) -> dict[str, bytes]:
        target = self.run.top / f"restored-{time.monotonic_ns()}"
        self.knarr("checkpoint", "restore", self.sets / f"step_{step}", "-d", target)
        return files_of(target)

    def files(self) -> dict[str, bytes]:
        """The restart files that the program left."""
        found = files_of(self.folder)
        return {path: data for path, data in found.items() if "restart" in path}

    def damage(self, step: int) -> None:
        """Turns bytes of all frames of a set."""
        for store in (self.sets / f"step_{step}").iterdir():
            if not store.name.startswith("manifest"):
                data = bytearray(store.read_bytes())
                for at in range(30, len(data), 50):
                    data[at] ^= 0xFF
                # Sets share files: this one gets its own.
                store.unlink()
                store.write_bytes(data)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def outcome(ran: Ran, step: int | None) -> dict:
    found = [row for row in ran.result["checkpoints"] if row["step"] == step]
    assert len(found) == 1, ran.result
    return found[0]


THREE_STEPS = program("for step in (1, 2, 3): write_step(step)")
