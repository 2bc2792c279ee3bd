"""What the packer of checkpoint sets holds in memory, and what a restore of one variable reads."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from checkpoint import (
    KNARR,
    SELF_DESCRIBING,
    WORKING,
    bytes_of,
    cases,
    files_of,
    fresh,
    measured,
    pack_command,
    require_same_files,
    restore_command,
    steps_of,
)


@dataclass
class Memory:
    files: int
    raw: int
    packed: int
    max_mem: int
    """Bytes."""
    pack_peak_mb: float
    restore_peak_mb: float


@dataclass
class PartialRestore:
    """Bytes read from the set to restore the largest variable, for the middle one of the ranks that hold it."""

    case: str
    scheme: str
    variable: str
    raw: int
    set_size: int
    packed: float
    """Its bytes by the ratio of its class, or of the whole set where no class has its name."""
    read: int
    index: int
    """Bytes read of the manifest."""

    @property
    def times(self) -> float:
        return self.read / self.packed


def megabytes(text: str) -> int:
    if not re.fullmatch(r"\d+M", text):
        raise SystemExit(f"'{text}' is not a size in megabytes, such as 64M")
    return int(text[:-1]) << 20


def write_group(folder: Path, least: int) -> tuple[int, int]:
    """Number and bytes of files of all cases and steps, at least `least` bytes.

    If these are too few, files of unknown formats are there again with all bits of some positions flipped: other
    content that is as hard to compress.
    """
    folder.mkdir()
    files = [path for case in cases("code") for step in steps_of(case) for path in files_of(step)]
    opaque = [path for path in files if path.read_bytes()[:4] not in SELF_DESCRIBING]
    rounds = itertools.chain([(0, files)], ((flipped, opaque) for flipped in range(1, 256)))
    count = size = 0
    for flipped, path in ((flipped, path) for flipped, some in rounds for path in some):
        if size >= least:
            return count, size
        target = folder / f"{count:05}{path.suffix}"
        if flipped:
            target.write_bytes((np.fromfile(path, "u1") ^ np.uint8(flipped)).tobytes())
        else:
            target.hardlink_to(path)
        count, size = count + 1, size + path.stat().st_size
    raise SystemExit(f"all files have {size / 1e6:.0f} MB together, not {least / 1e6:.0f}: lower --max-mem")


def measure_memory(max_mem: str) -> Memory:
    """One group of at least ten times `max_mem`."""
    limit, folder = megabytes(max_mem), WORKING / "large"
    target, restored = WORKING / "set", WORKING / "restored"
    fresh(folder, target, restored)
    count, size = write_group(folder, 10 * limit)
    bounds = ["--max-mem", max_mem]
    pack = measured(pack_command("", folder, target, "--no-base", *bounds, group=count))
    restore = measured(restore_command(target, restored, *bounds))
    require_same_files(folder, restored)
    return Memory(count, size, bytes_of(target), limit, pack.peak_rss_mb, restore.peak_rss_mb)


def answer(*words: object) -> dict:
    command = [KNARR, "checkpoint", *(str(word) for word in words), "--json"]
    return json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def bytes_read(command: list[str], folder: Path) -> dict[str, int]:
    """File in `folder` to the bytes that a command reads of it or maps, as strace tells."""
    logs = WORKING / "strace"
    fresh(logs)
    logs.mkdir()
    calls = "read,pread64,readv,preadv,preadv2,mmap"
    subprocess.run(
        ["strace", "-ff", "-y", "-e", f"trace={calls}", "-o", str(logs / "log"), *command],
        capture_output=True,
        check=True,
    )
    found: dict[str, int] = {}
    inside = re.escape(str(folder.resolve()))
    reads = re.compile(rf"^\w*read\w*\(\d+<{inside}/([^>]+)>.* = (\d+)$")
    maps = re.compile(rf"^mmap\([^,]+, (\d+), .*\d+<{inside}/([^>]+)>")
    for log in logs.iterdir():
        for line in log.read_text(errors="replace").splitlines():
            if match := reads.match(line):
                found[match.group(1)] = found.get(match.group(1), 0) + int(match.group(2))
            elif match := maps.match(line):
                found[match.group(2)] = found.get(match.group(2), 0) + int(match.group(1))
    return found


def size_of(variable: dict) -> int:
    """Raw bytes; the type's name holds its bits."""
    bits = re.search(r"\d+", variable["type"])
    count = int(bits.group()) // 8 if bits else 1
    for length in variable["shape"]:
        count *= length
    return count


def measure_partial(case: str, scheme: str, goal: list[str]) -> PartialRestore | None:
    """The last step; nothing for files in which Knarr knows no variables."""
    target, restored = WORKING / "set", WORKING / "restored"
    fresh(target, restored)
    step = steps_of(case)[-1]
    measured(pack_command(case, step, target, "--no-base", "--scheme", scheme, *goal))
    held = [
        (number, variable)
        for number, rank in enumerate(answer("info", target)["ranks"])
        for variable in rank["variables"]
    ]
    if not held:
        return None
    _, largest = max(held, key=lambda pair: size_of(pair[1]))
    ranks = [number for number, variable in held if variable["path"] == largest["path"]]
    middle = ranks[len(ranks) // 2]
    largest = next(variable for number, variable in held if (number, variable["path"]) == (middle, largest["path"]))
    last = re.escape(largest["path"].split("/")[-1])
    decisions = answer("explain", target)["decisions"]
    classes = [each for each in decisions if re.search(rf"(^|\W){last}\W*_", each["class"]) and each["raw_bytes"]]
    counted = classes or decisions
    share = sum(each["packed_bytes"] for each in counted) / sum(each["raw_bytes"] for each in counted)
    command = restore_command(target, restored, "--ranks", middle, "--variables", largest["path"])
    read = bytes_read(command, target)
    if not list(restored.rglob("*.npy")):
        raise SystemExit(f"{case}: {largest['path']} of rank {middle} did not come back")
    index = sum(count for name, count in read.items() if name.startswith("manifest"))
    raw = size_of(largest)
    packed, size = raw * share, bytes_of(target)
    return PartialRestore(case, scheme, largest["path"], raw, size, packed, sum(read.values()) - index, index)


def table(rows: list[PartialRestore]) -> str:
    lines = [
        "| case | scheme | set MB | variable | raw kB | packed kB | read kB | times its packed bytes | index kB |",
        "|---|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        kilobytes = " | ".join(f"{size / 1e3:.1f}" for size in (row.raw, row.packed, row.read))
        lines.append(
            f"| {row.case} | {row.scheme} | {row.set_size / 1e6:.1f} | {row.variable} | {kilobytes} "
            f"| {row.times:.2f} | {row.index / 1e3:.1f} |"
        )
    return "\n".join(lines)


def memory_line(memory: Memory) -> str:
    return (
        f"{memory.files} files of {memory.raw / 1e6:.0f} MB in one group with --max-mem {memory.max_mem >> 20}M: "
        f"{memory.packed / 1e6:.0f} MB, peak {memory.pack_peak_mb:.0f} MB packing, "
        f"{memory.restore_peak_mb:.0f} MB restoring"
    )
