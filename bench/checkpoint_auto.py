"""How far the scheme `auto` is behind the best of the four fixed schemes, and from `tar | zstd -19 --long=31`.

On the first step of each case. Sets were restored and compared before their sizes count.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import checkpoint

FIXED = checkpoint.SCHEMES[:-1]


@dataclass
class Row:
    case: str
    kind: str
    """As in `case.json`: `code`, `made` or `held out`."""
    step: str
    raw: int
    schemes: dict[str, int]
    zstd: int
    """Bytes of `tar | zstd -19 --long=31` of all files."""
    pack_s: float
    """CPU seconds of packing with `auto`."""

    @property
    def behind_best(self) -> float:
        """By how many percent auto is larger than the smallest of the four schemes."""
        return 100 * (self.schemes["auto"] / min(self.schemes[name] for name in FIXED) - 1)

    @property
    def against_zstd(self) -> float:
        return 100 * (self.schemes["auto"] / self.zstd - 1)


def zstd_size(case: str, step: str) -> int:
    """Kept beside the files: it takes most of the time and never changes."""
    known = checkpoint.CHECKPOINTS / case / f"zstd-{step}.json"
    if not known.exists():
        target = checkpoint.WORKING / "zstd"
        checkpoint.fresh(target)
        checkpoint.measured(checkpoint.zstd_command(checkpoint.CHECKPOINTS / case / step, target))
        known.write_text(json.dumps(checkpoint.bytes_of(target)))
    return json.loads(known.read_text())


def measure_auto(names: list[str], report: Callable[[str], None]) -> list[Row]:
    rows = []
    for case in names:
        step = checkpoint.steps_of(case)[0]
        sizes = {name: checkpoint.packed_size(case, step, "--scheme", name, "--no-base") for name in checkpoint.SCHEMES}
        target = checkpoint.WORKING / "set"
        seconds = min(
            checkpoint.measured(checkpoint.pack_command(case, step, target, "--no-base")).cpu_s for _ in range(3)
        )
        raw = sum(path.stat().st_size for path in checkpoint.files_of(step))
        rows.append(Row(case, checkpoint.kind_of(case), step.name, raw, sizes, zstd_size(case, step.name), seconds))
        report(f"{case}: {rows[-1].behind_best:+.1f} % {rows[-1]}")
    checkpoint.remove(checkpoint.WORKING)
    return rows


def table(rows: list[Row]) -> str:
    lines = [
        f"| case | kind | raw MB | {' | '.join(f'{name} MB' for name in checkpoint.SCHEMES)} | zstd -19 MB "
        "| behind best | against zstd -19 | CPU s |",
        "|---|---|---:|" + "---:|" * (len(checkpoint.SCHEMES) + 4),
    ]
    for row in rows:
        sizes = " | ".join(f"{row.schemes[name] / 1e6:.3f}" for name in checkpoint.SCHEMES)
        lines.append(
            f"| {row.case} | {row.kind} | {row.raw / 1e6:.1f} | {sizes} | {row.zstd / 1e6:.3f} "
            f"| {row.behind_best:+.1f} % | {row.against_zstd:+.1f} % | {row.pack_s:.2f} |"
        )
    for kind in sorted({row.kind for row in rows}):
        worst = max((row for row in rows if row.kind == kind), key=lambda row: row.behind_best)
        lines.append(f"\nworst of {kind}: {worst.case}, {worst.behind_best:+.1f} % behind the best scheme")
    return "\n".join(lines)
