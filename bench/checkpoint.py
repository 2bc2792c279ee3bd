"""Checkpoint sets of real codes: size of each merging scheme, tools beside it, and what a job would wait for.

The baseline of all improvements is that of the mcrEngine paper: all files of a group one after the other through
gzip -6. A set counts only after `knarr checkpoint restore` gave back the same bytes.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from measure import Measurement, cell, median, run_measured

BENCH = Path(__file__).resolve().parent
KNARR = os.environ.get("KNARR_BIN", str(BENCH.parent / "target" / "release" / "knarr"))
CHECKPOINTS = BENCH / "inputs" / "checkpoint"
WORKING = BENCH / "inputs" / "checkpoint-out"
SCHEMES = ("agnostic", "agnostic-block", "aware", "aware-block", "auto")
GROUP = 32
OWN = "knarr checkpoint, auto"
SELF_DESCRIBING = (b"\x89HDF", b"CDF\x01", b"CDF\x02", b"CDF\x05")
"""How files begin that `knarr repack` reads."""
SIMILAR = {"implosion": "Grid[0-9]+/(.*)"}
"""What a user of the code says about its names."""


@dataclass
class Sizes:
    """Bytes of one set, and of what the schemes make of it."""

    case: str
    step: str
    raw: int
    gzip: int
    """All files of each group concatenated, gzip -6."""
    schemes: dict[str, int]
    with_base: int | None
    """Scheme auto with the step before as base; nothing for the first step."""

    def improvement(self, size: int) -> float:
        """Relative improvement over gzip -6 in percent, equation 2 of the paper."""
        return 100 * (self.gzip / size - 1)

    @property
    def behind_best(self) -> float:
        """By how many percent auto is larger than the smallest of the four schemes."""
        return 100 * (self.schemes["auto"] / min(self.schemes[name] for name in SCHEMES[:-1]) - 1)


@dataclass
class Peer:
    """One tool on one set."""

    case: str
    step: str
    tool: str
    bytes: int
    files: int
    pack: Measurement
    restore: Measurement | None = None


def natural(path: Path) -> list[object]:
    return [int(word) if word.isdigit() else word for word in re.split(r"(\d+)", path.name)]


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.iterdir(), key=natural)


def steps_of(case: str) -> list[Path]:
    return sorted(path for path in (CHECKPOINTS / case).iterdir() if path.is_dir())


def kind_of(case: str) -> str:
    """As in `checkpoint_data.Case`."""
    return json.loads((CHECKPOINTS / case / "case.json").read_text()).get("kind", "code")


def cases(*kinds: str) -> list[str]:
    """The sets that are there, of all kinds if none is named."""
    found = sorted(path.parent.name for path in CHECKPOINTS.glob("*/case.json"))
    found = [case for case in found if not kinds or kind_of(case) in kinds]
    if not found:
        raise SystemExit("no restart files: run bench/codes/setup.sh and bench/checkpoint_data.py")
    return found


def bytes_of(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def fresh(*paths: Path) -> None:
    """Makes room for `paths` in the working folder."""
    remove(*paths)
    WORKING.mkdir(parents=True, exist_ok=True)


def gzip_size(files: list[Path]) -> int:
    size = 0
    for start in range(0, len(files), GROUP):
        packer = zlib.compressobj(6, wbits=31)
        for path in files[start : start + GROUP]:
            size += len(packer.compress(path.read_bytes()))
        size += len(packer.flush())
    return size


def pack_command(case: str, source: Path, target: Path, *options: object, group: int = GROUP) -> list[str]:
    similar = ["--similar", SIMILAR[case]] if case in SIMILAR else []
    words = ["checkpoint", "pack", source, "-o", target, "--group-size", group, "--force", *similar, *options]
    return [KNARR, *(str(word) for word in words)]


def restore_command(source: Path, target: Path, *options: object) -> list[str]:
    return [KNARR, *(str(word) for word in ("checkpoint", "restore", source, "-d", target, "--force", *options))]


def measured(command: list[str]) -> Measurement:
    os.sync()
    measurement = run_measured(command)
    if measurement.exit_code != 0:
        raise SystemExit(f"{' '.join(command)} failed with exit code {measurement.exit_code}")
    return measurement


def require_same_files(plain: Path, restored: Path) -> None:
    for path in files_of(plain):
        if path.read_bytes() != (restored / path.name).read_bytes():
            raise SystemExit(f"{path.name} of {plain} is not what was packed")


def packed_size(case: str, step: Path, *options: object) -> int:
    """Size of a set of `step`, after its files came back from it."""
    target, restored = WORKING / "set", WORKING / "restored"
    fresh(target, restored)
    measured(pack_command(case, step, target, *options))
    measured(restore_command(target, restored))
    require_same_files(step, restored)
    return bytes_of(target)


def measure_sizes(case: str, goal: list[str], report: Callable[[str], None]) -> list[Sizes]:
    rows, before = [], WORKING / "before"
    fresh(before)
    for step in steps_of(case):
        files = files_of(step)
        schemes = {name: packed_size(case, step, "--scheme", name, "--no-base", *goal) for name in SCHEMES}
        with_base = packed_size(case, step, "--base", before, *goal) if before.exists() else None
        measured(pack_command(case, step, before, "--no-base", *goal))
        raw = sum(path.stat().st_size for path in files)
        rows.append(Sizes(case, step.name, raw, gzip_size(files), schemes, with_base))
        report(f"{case} {step.name}: {rows[-1]}")
    return rows


def zstd_command(source: Path, target: Path) -> list[str]:
    return ["sh", "-c", f"tar cf - -C '{source}' . | zstd -q -f -19 --long=31 -o '{target}'"]


def unzstd_command(source: Path, target: Path) -> list[str]:
    return ["sh", "-c", f"mkdir -p '{target}' && zstd -q -d --long=31 -c '{source}' | tar xf - -C '{target}'"]


def measure_repack(case: str, step: Path, goal: str) -> Peer | None:
    """Each file by itself with the chains that suit it best; nothing where Knarr knows no variables in the files."""
    target, inputs = WORKING / "repacked", WORKING / "named"
    fresh(target, inputs)
    target.mkdir()
    files = [path for path in files_of(step) if path.read_bytes()[:4] in SELF_DESCRIBING]
    if not files:
        return None
    # A suffix says what the output is to be, which names of restart files do not always have.
    inputs.mkdir()
    for path in files:
        suffix = path.suffix if path.suffix in (".h5", ".nc") else ".h5"
        (inputs / f"{path.name.replace('.', '_')}{suffix}").symlink_to(path.resolve())
    words = ["repack", *sorted(inputs.iterdir()), "-o", target, "--goal", goal, "--portable", "knarr", "--force"]
    pack = measured([KNARR, *(str(word) for word in words)])
    tool = f"knarr repack --goal {goal}, file by file"
    # Plans lie beside the outputs, and are no part of them.
    outputs = sum(path.stat().st_size for path in target.iterdir() if not path.name.endswith(".knarr.json"))
    return Peer(case, step.name, tool, outputs, len(files), pack)


def measure_peers(case: str, goal: list[str], repeats: int, report: Callable[[str], None]) -> list[Peer]:
    """The last step, in rounds of random order; what each tool gives back is compared each time."""
    step = steps_of(case)[-1]
    tools = {
        "tar, zstd -19 --long=31": (zstd_command, unzstd_command),
        OWN: (lambda source, target: pack_command(case, source, target, "--no-base", *goal), restore_command),
    }
    packs: dict[str, list[Measurement]] = {name: [] for name in tools}
    restores: dict[str, list[Measurement]] = {name: [] for name in tools}
    sizes: dict[str, int] = {}
    counts: dict[str, int] = {}
    order = random.Random(1)
    target, restored = WORKING / "packed", WORKING / "unpacked"
    for _ in range(repeats):
        for name in order.sample(list(tools), len(tools)):
            fresh(target, restored)
            pack, restore = tools[name]
            packs[name].append(measured(pack(step, target)))
            sizes[name] = bytes_of(target)
            counts[name] = sum(path.is_file() for path in target.rglob("*")) or 1
            restores[name].append(measured(restore(target, restored)))
            require_same_files(step, restored)
            report(f"{case} {step.name}: {name}: {packs[name][-1].wall_s:.1f} s")
    rows = [
        Peer(case, step.name, name, sizes[name], counts[name], median(packs[name]), median(restores[name]))
        for name in tools
    ]
    repacked = (measure_repack(case, step, goal) for goal in ("ratio", "archive"))
    return rows + [row for row in repacked if row]


def sizes_table(rows: list[Sizes]) -> str:
    """Relative improvement over gzip -6 in percent, one row per set."""
    lines = [
        f"| case | step | raw MB | gzip -6 ratio | {' | '.join(SCHEMES)} | auto, base | auto ratio | behind best |",
        "|---|---|---:|---:|" + "---:|" * (len(SCHEMES) + 3),
    ]
    for row in rows:
        gains = " | ".join(f"{row.improvement(row.schemes[name]):+.1f} %" for name in SCHEMES)
        based = f"{row.improvement(row.with_base):+.1f} %" if row.with_base else "-"
        lines.append(
            f"| {row.case} | {row.step} | {row.raw / 1e6:.1f} | {row.raw / row.gzip:.3f} | {gains} | {based} "
            f"| {row.raw / row.schemes['auto']:.3f} | {row.behind_best:+.1f} % |"
        )
    return "\n".join(lines)


def peers_table(rows: list[Peer]) -> str:
    lines = [
        "| case | tool | MB | against zstd -19 | pack s | CPU s | times as fast | by CPU | restore s | peak MB |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    reference = {row.case: row for row in rows if row.tool.startswith("tar")}
    for row in rows:
        peer = reference[row.case]
        restore = f"{row.restore.wall_s:.2f}" if row.restore else "-"
        lines.append(
            f"| {row.case} | {cell(row.tool)} | {row.bytes / 1e6:.2f} | {100 * (row.bytes / peer.bytes - 1):+.1f} % "
            f"| {row.pack.wall_s:.2f} | {row.pack.cpu_s:.2f} | {peer.pack.wall_s / row.pack.wall_s:.1f} "
            f"| {peer.pack.cpu_s / row.pack.cpu_s:.1f} | {restore} | {row.pack.peak_rss_mb:.0f} |"
        )
    return "\n".join(lines)
