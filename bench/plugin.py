"""What the HDF5 filter adds to the chains it chooses, in processor time of one core, per goal over real variables."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "target" / "release" / "examples" / "filter"
GOALS = ("speed", "balanced", "ratio")


def measure_plugin(path: Path) -> list[dict]:
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "-q", "-p", "knarr-cli", "--example", "filter"],
        cwd=ROOT,
        check=True,
    )
    rows = []
    for goal in GOALS:
        answer = subprocess.run([EXAMPLE, path, goal], check=True, capture_output=True, text=True)
        rows += [{"goal": goal, **json.loads(line)} for line in answer.stdout.splitlines()]
    return rows


def table(rows: list[dict]) -> str:
    lines = [
        "| goal | variables | ratio | chosen chains alone, s | with choosing, s | more from the second chunk on | more in all |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for goal in GOALS:
        mine = [row for row in rows if row["goal"] == goal]
        total = {key: sum(row[key] for row in mine) for key in mine[0] if key.endswith("_s") or key in ("raw", "encoded")}
        own = total["own_first_s"] + total["own_others_s"]
        whole = total["first_s"] + total["others_s"]
        later = total["others_s"] / total["own_others_s"] - 1
        lines.append(
            f"| {goal} | {len(mine)} | {total['raw'] / total['encoded']:.2f} | {own:.2f} | {whole:.2f} |"
            f" {later:.1%} | {whole / own - 1:.1%} |"
        )
    return "\n".join(lines)
