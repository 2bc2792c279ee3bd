"""What a job waits for at a checkpoint and a restart, with a modelled parallel file system: the mcrEngine paper's.

No file system is slowed down: times of processing are measured on this machine; the time that bytes and files
take on the file system is computed, and everything that holds such a time is called modelled.

The figures, from Islam et al., "McrEngine", Scientific Programming 21 (2013):

- section 6: the file system of the cluster Sierra, Lustre, has 30 GB/s at most, for all nodes together;
- section 7.3: the runs of figures 12 and 13 have 15,408 processes, in groups of 32;
- section 7.2: written by 32 times fewer writers, the same bytes (1.2 GB a writer for 32 processes, 87 MB a process)
  take up to 26 % less time.

With time = bytes / bandwidth + files * cost, the last says what a file costs: 15,408 files of 87 MB take
b = 44.7 s for their bytes and f for being so many, and (b + f / 32) = 0.74 (b + f).
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from checkpoint import CHECKPOINTS, OWN, Peer, files_of, measured, steps_of

BANDWIDTH = 30e9
"""Bytes per second, reading and writing."""
PROCESSES = 15_408
FEWER_WRITERS = 32
GAIN_OF_FEWER_WRITERS = 0.26
BYTES_PER_PROCESS = 87e6


def cost_of_files() -> float:
    """Seconds for each file, read or written by one of all processes at once."""
    seconds = PROCESSES * BYTES_PER_PROCESS / BANDWIDTH
    kept = 1 - GAIN_OF_FEWER_WRITERS
    files = seconds * (1 - kept) / (kept - 1 / FEWER_WRITERS)
    return files / PROCESSES


@dataclass
class Transfer:
    """What one group of ranks writes or reads."""

    ranks: int
    files: int
    bytes: int

    @property
    def modelled_s(self) -> float:
        """Seconds when all processes of the paper's runs do the same in groups like this one, at once."""
        groups = PROCESSES / self.ranks
        return groups * self.bytes / BANDWIDTH + groups * self.files * cost_of_files()


@dataclass
class EndToEnd:
    """What a job of the paper's size waits for, with the modelled file system."""

    case: str
    plain_modelled_s: float
    pack_s: float
    restore_s: float
    transfer_modelled_s: float
    """To write the set or to read it."""
    hand_over_s: float
    """Measured: the set's files written to memory of the node, after which an application may go on."""

    @property
    def checkpoint_lower(self) -> float:
        """Percent of the time to write plain files that is saved; packing does not overlap with anything."""
        return 100 * (1 - (self.pack_s + self.transfer_modelled_s) / self.plain_modelled_s)

    @property
    def visible_lower(self) -> float:
        """The same for what the application waits for, where packing and writing go on behind it."""
        return 100 * (1 - self.hand_over_s / self.plain_modelled_s)

    @property
    def restart_lower(self) -> float:
        return 100 * (1 - (self.restore_s + self.transfer_modelled_s) / self.plain_modelled_s)


def hand_over(step: Path) -> float:
    """Seconds to write a step's files to memory, as an application does that checkpoints to its node."""
    target = Path("/dev/shm") / f"knarr-bench-{os.getpid()}"
    try:
        return measured(["cp", "-r", str(step), str(target)]).wall_s
    finally:
        shutil.rmtree(target, ignore_errors=True)


def end_to_end(case: str, peers: list[Peer]) -> EndToEnd:
    """From the measured times of a case's last step."""
    step = steps_of(case)[-1]
    ranks = json.loads((CHECKPOINTS / case / "case.json").read_text())["ranks"]
    files = files_of(step)
    (own,) = (peer for peer in peers if peer.case == case and peer.tool == OWN)
    plain = Transfer(ranks, len(files), sum(path.stat().st_size for path in files)).modelled_s
    packed = Transfer(ranks, own.files, own.bytes).modelled_s
    return EndToEnd(case, plain, own.pack.wall_s, own.restore.wall_s, packed, hand_over(step))


def table(rows: list[EndToEnd]) -> str:
    lines = [
        "| case | plain files, modelled s | pack s + write, modelled s | lower | seen by the application s | lower "
        "| restore s + read, modelled s | lower |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        lines.append(
            f"| {row.case} | {row.plain_modelled_s:.1f} | {row.pack_s:.2f} + {row.transfer_modelled_s:.2f} "
            f"| {row.checkpoint_lower:.0f} % | {row.hand_over_s:.2f} | {row.visible_lower:.0f} % "
            f"| {row.restore_s:.2f} + {row.transfer_modelled_s:.2f} | {row.restart_lower:.0f} % |"
        )
    return "\n".join(lines)
