"""How good the predictor is on families of data that it did not see, and the model that comes with the program."""

from __future__ import annotations

import json
import math
import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "target" / "release" / "examples" / "model"
BUILT_IN = ROOT / "crates" / "choose" / "src" / "predictor" / "built-in.json"
INPUTS = ("variables.nc", "sim.nc")

FAMILIES = {
    "storm": ("Pstorm", "Tstorm", "U500storm", "Ustorm", "V500storm", "Vstorm", "contour"),
    "sst": ("sst30e_netcdf", "sstdata_netcdf", "sstanom"),
    "mpi-esm": ("tas_rectilinear_grid_2D", "uas_rectilinear_grid_2D", "vas_rectilinear_grid_2D", "rectilinear_grid_3D"),
    "cosmo": ("FR-LAND_regional_model_0", "HSURF_regional_model_0"),
    "mod3": ("orog_mod3_rectilinear_grid_2D", "sftlf_mod3_rectilinear_grid_2D"),
    "nemo": ("nemo", "nemo_1m_20150101-20150201_grid-T", "orca2_votemper"),
    "etopo": ("etopo5", "etopo20", "etopo40"),
    "um": ("UMice", "UMhybrid", "hybrid_height", "GloSea4", "A1B_north_america", "E1_north_america"),
    "ukv": ("colpex", "uk_hires"),
    "turbulence": ("u", "v", "pressure", "vorticity"),
    "particles": tuple(f"particle_{name}" for name in ("x", "y", "z", "ux", "uy", "uz", "weight", "id")),
}
"""Sources that are alike: one model, one instrument, one collection. Every other source is a family of its own."""


def family_of(variable: str) -> str:
    source = variable.split(".")[0]
    return next((family for family, sources in FAMILIES.items() if source in sources), source)


def measure_model(inputs: Path) -> list[dict]:
    """Rows of `model`. Samples are recorded into `inputs`/samples.jsonl, and not again if that is there."""
    build = ["cargo", "build", "--release", "--locked", "-q", "-p", "knarr-cli", "--example", "model"]
    subprocess.run(build, cwd=ROOT, check=True)
    manifest = json.loads((inputs / "manifest.json").read_text())
    families = {variable: family_of(variable) for name in INPUTS for variable in manifest[name]["variables"]}
    (inputs / "families.json").write_text(json.dumps(families))
    files = [inputs / name for name in INPUTS]
    command = [EXAMPLE, inputs / "samples.jsonl", inputs / "families.json", *files]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return [rounded(json.loads(line)) for line in answer.stdout.splitlines()]


def rounded(row: dict) -> dict:
    """A row of regrets with the digits that they are worth."""
    if "goal" not in row:
        return row
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}


def write_model(rows: list[dict]) -> None:
    """Puts the model trained on everything in the place of the one that comes with the program."""
    (model,) = (row["model"] for row in rows if "model" in row)
    BUILT_IN.write_text(in_lines(model) + "\n")


def in_lines(model: dict) -> str:
    """The model as JSON with a line for each list of numbers."""
    flat = json.dumps
    chains = ",\n".join(
        f"  {flat(chain)}: {{\n"
        + ",\n".join(f"   {flat(target)}: {flat(numbers)}" for target, numbers in weights.items())
        + "\n  }"
        for chain, weights in model["chains"].items()
    )
    covariance = ",\n".join(f"  {flat(row)}" for row in model["covariance"])
    parts = [f" {flat(key)}: {flat(value)}" for key, value in model.items() if key not in ("chains", "covariance")]
    parts += [f' "chains": {{\n{chains}\n }}', f' "covariance": [\n{covariance}\n ]']
    return "{\n" + ",\n".join(parts) + "\n}"


MISSED = 1.0
"""What a choice that misses a limit of its goal (archive: 100 MB/s to decode) counts as, at most."""


def family_mean(rows: list[dict], key: str) -> float:
    """Score lost on average; every family counts the same, so that one with many variables does not decide."""
    by_family = defaultdict(list)
    for row in rows:
        by_family[row["family"]].append(min(row[key], MISSED))
    means = [sum(losses) / len(losses) for losses in by_family.values()]
    return 1 - math.exp(-sum(means) / len(means))


def table(rows: list[dict]) -> str:
    regrets = [row for row in rows if "goal" in row]
    families = {row["family"] for row in regrets}
    samples = {(row["family"], row["variable"]) for row in regrets}
    lines = [
        f"{len(regrets) // len({row['goal'] for row in regrets})} samples of {len(samples)} variables,"
        f" {len(families)} families; each family is predicted by a model trained on the others.\n",
        "| predictor | ratio R² | typical factor | encode R² | factor | decode R² | factor |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        if "quality" in row:
            cells = [
                f"{row['quality'][target]['r2']:.2f} | {row['quality'][target]['factor']:.2f}"
                for target in ("ratio", "encode", "decode")
            ]
            lines.append(f"| {row['predictor']} | {' | '.join(cells)} |")
    lines += [
        "\nScore below the best of all candidates, by measured ratios and times:\n",
        "| goal | rule of thumb, prediction alone | model | rule of thumb, with trials | model |",
        "|---|---:|---:|---:|---:|",
    ]
    for goal in dict.fromkeys(row["goal"] for row in regrets):
        mine = [row for row in regrets if row["goal"] == goal]
        keys = ("rule_predicted", "model_predicted", "rule_tried", "model_tried")
        lines.append(f"| {goal} | " + " | ".join(f"{family_mean(mine, key):.1%}" for key in keys) + " |")
    return "\n".join(lines)
