"""How good Knarr's choices are: each goal's choice against the best of all candidates, per variable."""

from __future__ import annotations

import json
import math
import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "target" / "release" / "examples" / "choice"


def measure_choices(reader: str, path: Path) -> list[dict]:
    """Rows of `choice`: ratios of all candidates of a variable that `reader` allows, and what each goal chose."""
    build = ["cargo", "build", "--release", "--locked", "-q", "-p", "knarr-cli", "--example", "choice"]
    subprocess.run(build, cwd=ROOT, check=True)
    answer = subprocess.run([EXAMPLE, reader, path], check=True, capture_output=True, text=True)
    return [json.loads(line) for line in answer.stdout.splitlines()]


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


def table(rows: list[dict]) -> str:
    by_goal = defaultdict(list)
    for row in rows:
        if "goal" in row:
            by_goal[row["goal"]].append(row)
    lines = [
        "| goal | score below the best, geometric mean | worst | worst variable | ratio, geometric mean |",
        "|---|---:|---:|---|---:|",
    ]
    for goal, chosen in by_goal.items():
        worst = max(chosen, key=lambda row: row["loss"])
        mean = 1 - math.exp(-sum(row["loss"] for row in chosen) / len(chosen))
        ratio = geometric_mean([row["ratio"] for row in chosen])
        told = f"{worst['variable']}: {worst['chosen']} ({worst['ratio']:.2f})"
        told += f", best {worst['best']} ({worst['best_ratio']:.2f})"
        lines.append(f"| {goal} | {mean:.1%} | {worst['loss']:.3f} | {told} | {ratio:.3f} |")
    ratios = [row["ratios"] for row in rows if "ratios" in row]
    fixed = {
        chain: geometric_mean([max(row[chain], 1.0) for row in ratios])
        for chain in set.intersection(*(set(row) for row in ratios))
    }
    best = max(fixed, key=fixed.get)
    lines.append(f"\nBest single chain for all {len(ratios)} variables: `{best}`, {fixed[best]:.3f}.")
    return "\n".join(lines)
