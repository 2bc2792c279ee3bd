"""What suites that run other people's MPI programs share: runs with and without Knarr, comparison, the table.

A *case* is a program with its arguments. It runs plain, and under `knarr run` with a rule that matches every file.
Both have to give the same answer, and the files that they leave have to hold the same, by `knarr verify`. A case that
fails plain is not counted. What differs fails the suite, unless `expected.txt` lists it with the reason.
"""

from __future__ import annotations

import argparse
import contextlib
import filecmp
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from expected import expected, reason
from killing import ENVIRONMENT, KNARR, children, spools

TIME_LIMIT_S = 240
MAGIC = (b"CDF", b"\x89HDF")
MPIRUN = {"openmpi": ["mpirun.openmpi", "--oversubscribe"], "mpich": ["mpirun.mpich"]}
RULE = '[[file]]\npattern = "*"\noutput = "{output}"\n'
TIER = "nvme"
STAGE = f"""[[tier]]
name = "memory"
path = "/dev/shm"
capacity = "64M"
[[tier]]
name = "nvme"
path = "{TIER}"
capacity = "1G"
emulate = {{ rate = "500MB/s" }}
[[tier]]
name = "place"
path = "."
emulate = {{ rate = "100MB/s" }}
"""
"""With `--stage` everything waits: what finds no room in memory does in a directory beside the configuration."""
STAGED = "staged"
"""How `expected.txt` names what may differ then only."""
SAME = r" (equal|not compared) |^variable +result|^\d+ (of \d+ )?(variable|difference)"
"""Lines of `knarr verify` that tell of no difference."""
OUT = "{out}"
"""Stands for the directory of the files, in arguments."""


@dataclass(frozen=True)
class Case:
    """Programs with their arguments, one after the other; each gets a launcher of its own."""

    name: str
    commands: Sequence[Sequence[object]]
    ranks: int = 4
    """0: none, it has no MPI."""
    environment: dict[str, str] = field(default_factory=dict)
    files: Sequence[Path] = ()
    """What has to be in the directory."""
    apart: Sequence[str] = ()
    """Variables that no two runs have alike, with their attributes."""
    parts: str = ""
    """Finds the parts that have failed in what a program says; they are listed each for itself."""
    after: Sequence[str] = ()
    """A program without MPI that runs in the end. If there is one, all of them run in one run of Knarr, so that each of
    them meets files of the ones before that are not in their places yet."""
    alike: str = ""
    """Finds what the programs have to say in every run alike."""
    is_exact: bool = False
    """Files that are neither HDF5 nor netCDF have to be the same, with their access, and times that a program has set.
    Those that are called as in `apart` need not."""


@dataclass
class Answer:
    has_failed: bool
    text: str
    handed_over: int = 0
    """Number of files that the launcher made of what was handed over."""
    whole: int = 0
    """Number of files that the programs wrote in tiers by themselves."""


def has_failed(code: int, text: str) -> bool:
    """Some programs say that they failed, and return 0."""
    return code != 0 or "FAILURES" in text or "fail with" in text or "failed" in text or "FAILED" in text


def staged(rule: str) -> str:
    """A configuration with one rule, whose files wait in tiers."""
    return f'{STAGE}{rule}route = "stage"\n'


def left_in_tier(folder: Path) -> list[str]:
    """Nothing has to be there when a run has ended. `folder` is that of its configuration."""
    return [f"{path.relative_to(folder)} stays" for path in sorted((folder / TIER).rglob("*")) if path.is_file()]


def rule(output: str, wait: str | None, is_staged: bool = False) -> str:
    """The configuration of a run: every file is handed over and becomes an `output`."""
    text = RULE.format(output=output) + (f'wait = "{wait}"\n' if wait else "")
    return staged(text) if is_staged else text


def run(
    case: Case, folder: Path, mpi: str, output: str | None, wait: str | None = None, is_staged: bool = False
) -> Answer:
    """Runs a case in `folder`; under Knarr if there is an `output`."""
    (folder / "out").mkdir(parents=True)
    for file in case.files:
        shutil.copy(file, folder / "out")
    launcher = []
    if output:
        (folder / "knarr.toml").write_text(rule(output, wait, is_staged))
        launcher = [KNARR, "run", "-q", "-c", folder / "knarr.toml", "--json", folder / "result.json", "--"]
    answer = Answer(False, "")
    for command in commands(case, folder / "out", mpi):
        code, text = finished([*launcher, *command], folder / "out", case.environment)
        answer.has_failed |= has_failed(code, text)
        answer.text += text
        if output and (folder / "result.json").exists():
            files = json.loads((folder / "result.json").read_text())["files"]
            answer.handed_over += sum("handed over" in (file.get("note") or "") for file in files)
            answer.whole += sum((file.get("copied") or "").startswith("moved as") for file in files)
    if left := left_in_tier(folder):
        answer.has_failed = True
        answer.text = "\n".join([*left, answer.text])
    return answer


def commands(case: Case, out: Path, mpi: str) -> list[list[str]]:
    """What a case starts, one after the other."""
    start = [*MPIRUN[mpi], "-n", str(case.ranks)] if case.ranks else []
    started = [[*start, *(str(word).replace(OUT, str(out)) for word in command)] for command in case.commands]
    if not case.after:
        return started
    return [["sh", "-c", " && ".join(shlex.join(command) for command in [*started, case.after])]]


def finished(command: Sequence[object], folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Exit code and everything that was said. Nothing stays, neither processes nor shared memory."""
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=folder,
            env=ENVIRONMENT | environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        try:
            code = process.wait(TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            code = -1
            for each in [process.pid, *children(process.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
            process.wait()
            said.write(f"no end after {TIME_LIMIT_S} s\n")
        said.seek(0)
        text = said.read()
    for spool in spools(process.pid):
        text += f"{spool.name} stays\n"
        code = code or -1
        shutil.rmtree(spool)
    return code, text


def compare(
    plain: Path, found: Path, output: str, apart: Sequence[str], is_exact: bool = False
) -> tuple[int, list[str]]:
    """How many files of a plain run were compared, and how those under Knarr differ."""
    compared, wrong = 0, []
    for path in sorted(path for path in plain.rglob("*") if path.is_file()):
        name = path.relative_to(plain)
        other = found / (name.with_suffix(".zarr") if output == "zarr" else name)
        if not other.exists():
            wrong.append(f"{name} is missing")
        elif begins(path).startswith(MAGIC):
            compared += 1
            if other.is_dir() or not filecmp.cmp(path, other, shallow=False):
                wrong += verified(path, other, apart)
        elif is_exact and path.name not in apart:
            compared += 1
            if not filecmp.cmp(path, other, shallow=False):
                wrong.append(f"{name} has other bytes")
            if (own := access(path)) != (ours := access(other)):
                wrong.append(f"{name} has access and time {ours}, not {own}")
    ours = ("*.knarr.json", ".knarr")
    known = {path.relative_to(plain).stem for path in plain.rglob("*")}
    for path in found.iterdir():
        if path.stem not in known and not any(path.match(pattern) for pattern in ours):
            wrong.append(f"{path.name} is there only under Knarr")
    return compared, wrong


def access(path: Path) -> tuple[str, int]:
    """Permissions of a file, and its time in whole seconds if a program has set it: others have nanoseconds."""
    found = path.stat()
    seconds, rest = divmod(found.st_mtime_ns, 10**9)
    return oct(found.st_mode & 0o7777), 0 if rest else seconds


def begins(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)


def verified(path: Path, other: Path, apart: Sequence[str]) -> list[str]:
    """What `knarr verify` says against `other`. Files that it cannot read are none of Knarr's."""

    def verify(against: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([KNARR, "verify", path, against], capture_output=True, text=True, check=False)

    done = verify(other)
    if done.returncode == 0 or (done.returncode > 1 and verify(path).returncode > 1):
        return []
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line and not re.search(SAME, line)]
    starts = tuple(start for name in apart for start in (f"{name} ", f"/{name}: "))
    return [f"{path.name}: {line}" for line in lines if not line.startswith(starts)]


def excused(suite: str, ways: Sequence[str], case: Case, answer: Answer) -> str | None:
    """Why a case may be otherwise under Knarr: each part that failed, or the whole; `None` if it may not."""
    parts = sorted(set(re.findall(case.parts, answer.text))) if case.parts else []
    names = [f"{case.name}/{part}" for part in parts] or [case.name]
    reasons = [reason(name, expected(suite, *ways)) for name in names]
    return "; ".join(dict.fromkeys(reasons)) if all(reasons) else None


def options(text: str) -> argparse.ArgumentParser:
    """What every suite can be told."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpi", choices=MPIRUN, default="openmpi")
    parser.add_argument("--output", choices=("netcdf4", "classic", "zarr"), action="append")
    parser.add_argument("--wait", choices=("close",), help="key of the rule; default: that of knarr run")
    parser.add_argument("--stage", action="store_true", help="all files wait in tiers; Zarr stores cannot")
    parser.add_argument("--only", nargs="*", help="names of cases")
    return parser


def table(suite: str, chosen: argparse.Namespace, cases: Sequence[Case], outputs: Sequence[str]) -> int:
    """Runs the cases, says of each what differs and in the end how many do. Returns 1 if any does that may not."""
    outputs = [output for output in outputs if not chosen.stage or output != "zarr"]
    counts = {output: Counter() for output in chosen.output or outputs}
    for case in cases:
        if chosen.only and case.name not in chosen.only:
            continue
        with tempfile.TemporaryDirectory(prefix="knarr-suite-") as name:
            top = Path(name)
            plain = run(case, top / "plain", chosen.mpi, None)
            if plain.has_failed:
                print(f"{case.name} fails plain: {' / '.join(plain.text.splitlines()[:2])}", flush=True)
            for output, count in counts.items():
                if plain.has_failed:
                    count["fail plain"] += 1
                    continue
                answer = run(case, top / output, chosen.mpi, output, chosen.wait, chosen.stage)
                compared, wrong = compare(
                    *(top / "plain" / "out", top / output / "out", output), case.apart, case.is_exact
                )
                if case.alike:
                    own, ours = (re.findall(case.alike, each.text, re.MULTILINE) for each in (plain, answer))
                    wrong += [f"says {ours}, not {own}"] if own != ours else []
                if answer.has_failed:
                    wrong = answer.text.splitlines()[:12]
                count["files compared"] += compared
                count["handed over"] += answer.handed_over
                count["whole"] += answer.whole
                why = excused(suite, [output, *([STAGED] if chosen.stage else [])], case, answer)
                count["same" if not wrong else "listed" if why else "OTHERWISE"] += 1
                if wrong:
                    print(f"{case.name}, {output}: {why or 'NOT AS EXPECTED'}", flush=True)
                    if not why:
                        print(*wrong, sep="\n", flush=True)
    columns = ("same", "listed", "OTHERWISE", "fail plain", "files compared", "handed over", "whole")
    print(f"{suite} with {chosen.mpi}{', staged' if chosen.stage else ''}: output, " + ", ".join(columns))
    for output, count in counts.items():
        print(f"{output:8}", *(f"{count[column]:6}" for column in columns))
    return int(any(count["OTHERWISE"] or not count["same"] for count in counts.values()))
