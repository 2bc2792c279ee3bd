"""What the pipeline costs: `knarr repack` against its codecs alone, in memory, over the same chunks and threads."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from pathlib import Path

from repack import KNARR

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "target" / "release" / "examples" / "in_memory"
CHAINS = ("shuffle | zstd:1", "shuffle | zstd:3", "shuffle | deflate:5", "shuffle | lz4")


def measure_pipeline(path: Path, output: Path, threads: int, repeats: int) -> list[dict]:
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "-q", "-p", "knarr-cli", "--example", "in_memory"],
        cwd=ROOT,
        check=True,
    )
    rows = []
    for chain in CHAINS:
        alone, whole = [], []
        for _ in range(repeats):
            answer = subprocess.run(
                [EXAMPLE, path, chain, str(threads)], check=True, capture_output=True, text=True
            )
            alone.append(json.loads(answer.stdout)["seconds"])
            command = [KNARR, "repack", path, "-o", output, "--chain", chain, "--jobs", str(threads), "--force"]
            # To free the blocks of an output that is replaced is no part of the pipeline.
            output.unlink(missing_ok=True)
            os.sync()
            begin = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            whole.append(time.perf_counter() - begin)
        rows.append({"chain": chain, "codec_s": statistics.median(alone), "repack_s": statistics.median(whole)})
    output.unlink()
    return rows


def table(rows: list[dict]) -> str:
    lines = ["| chain | codec alone, s | repack, s | speed kept |", "|---|---:|---:|---:|"]
    for row in rows:
        kept = row["codec_s"] / row["repack_s"]
        lines.append(f"| {row['chain']} | {row['codec_s']:.2f} | {row['repack_s']:.2f} | {kept:.0%} |")
    return "\n".join(lines)
