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


def read_again(path: Path) -> None:
    """The page cache as a reader fills it, whoever wrote the file and however long ago."""
    os.sync()
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while file.read(1 << 20):
            pass


def measure_pipeline(paths: list[Path], output: Path, threads: int, repeats: int) -> list[dict]:
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "-q", "-p", "knarr-cli", "--example", "in_memory"],
        cwd=ROOT,
        check=True,
    )
    return [row for path in paths for row in measure_file(path, output, threads, repeats)]


def measure_file(path: Path, output: Path, threads: int, repeats: int) -> list[dict]:
    read_again(path)
    rows = []
    for chain in CHAINS:
        alone, whole = [], []
        for _ in range(repeats):
            answer = subprocess.run([EXAMPLE, path, chain, str(threads)], check=True, capture_output=True, text=True)
            alone.append(json.loads(answer.stdout)["seconds"])
            command = [KNARR, "repack", path, "-o", output, "--chain", chain, "--jobs", str(threads), "--force"]
            # To free the blocks of an output that is replaced is no part of the pipeline.
            output.unlink(missing_ok=True)
            os.sync()
            begin = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            whole.append(time.perf_counter() - begin)
        rows.append(
            {
                "file": path.stem,
                "bytes": path.stat().st_size,
                "chain": chain,
                "codec_s": statistics.median(alone),
                "repack_s": statistics.median(whole),
            }
        )
    output.unlink()
    return rows


def table(rows: list[dict]) -> str:
    lines = ["| file | MB | chain | codec alone, s | repack, s | speed kept |", "|---|---:|---|---:|---:|---:|"]
    for row in rows:
        kept = row["codec_s"] / row["repack_s"]
        seconds = f"{row['codec_s']:.3f} | {row['repack_s']:.3f}"
        lines.append(f"| {row['file']} | {row['bytes'] / 1e6:.0f} | `{row['chain']}` | {seconds} | {kept:.0%} |")
    return "\n".join(lines)
