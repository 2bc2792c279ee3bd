"""Runs programs under MPI with one `knarr run` for each rank, on one node and on several.

Nodes are names here (KNARR_NODE): each has a launcher, a spool and an aggregator of its own, and those reach each other
by TCP only. The processes share a machine.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import h5py

from running import MPIRUN, forget, is_abandoned, until

ALL = '[[file]]\npattern = "*"\n'
RANKS = 4
SHARED_MEMORY = Path("/dev/shm")
TIME_LIMIT_S = 300


def records(folder: Path) -> Iterator[tuple[Path, dict]]:
    """What is handed over, closed or not, of files below a folder; other tests have spools of their own."""
    for name in ("open.json", "handed-over.json", "set-aside.json"):
        for place in (entry / name for spool in SHARED_MEMORY.glob("knarr-spool-*") for entry in entries(spool)):
            try:
                record = json.loads(place.read_text())
            except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
                continue
            if bytes(record["target"]).startswith(bytes(folder)):
                yield place.parent, record


def entries(spool: Path) -> list[Path]:
    """What is in a spool, which its run may remove at this moment."""
    try:
        return list(spool.iterdir())
    except FileNotFoundError:
        return []


def left(folder: Path) -> list[Path]:
    """Spools with files below a folder that nobody delivers from any more."""
    return sorted({place.parent for place, _ in records(folder) if is_abandoned(place.parent)})


@dataclass
class Job:
    """What mpirun gave, and what each node has said."""

    code: int
    err: str
    results: list[dict] = field(default_factory=list)

    def outcomes(self, name: str) -> list[str]:
        files = [file for result in self.results for file in result["files"]]
        return sorted(file["outcome"] for file in files if Path(file["input"]).name == name)


class Launcher:
    """Runs a program under mpirun, with a `knarr run` for each rank; rank r is on node `nodes[r]`."""

    def __init__(self, program: Path, environment: dict[str, str], folder: Path):
        self.program, self.environment, self.top = program, environment, folder
        self.folder = folder / "work"
        self.folder.mkdir()
        self.started: list[subprocess.Popen[str]] = []

    def start(
        self,
        *command: object,
        nodes: str | None,
        config: str = ALL,
        within: Sequence[object] = (),
        before: Sequence[object] = (),
        **env: str,
    ) -> subprocess.Popen[str]:
        """With `within`, launchers are started by that command; with `before`, all is."""
        (self.top / "knarr.toml").write_text(config)
        arguments = [self.program, "run", "-c", self.top / "knarr.toml", "--json", self.top / "result.json", "--"]
        each = ["sh", "-c", 'n=$(echo $NODES | cut -d, -f$((OMPI_COMM_WORLD_RANK + 1))); KNARR_NODE=$n exec "$@"', "sh"]
        if nodes is None:
            each = []
        else:
            env["NODES"] = ",".join(nodes)
        process = subprocess.Popen(
            [str(word) for word in [*before, *MPIRUN, len(nodes or "") or RANKS, *each, *within, *arguments, *command]],
            text=True,
            env={**self.environment, "TMPDIR": str(self.top), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
        )
        self.started.append(process)
        return process

    def finish(self, process: subprocess.Popen[str]) -> Job:
        _, err = process.communicate(timeout=TIME_LIMIT_S)
        assert "panicked" not in err, err
        return Job(process.returncode, err, [json.loads(path.read_text()) for path in self.top.glob("result*.json")])

    def __call__(self, *command: object, ok: bool = True, **how: object) -> Job:
        for old in self.top.glob("result*.json"):
            old.unlink()
        ran = self.finish(self.start(*command, **how))
        assert not ok or ran.code == 0, f"exit {ran.code}\n{ran.err}"
        if ok:
            self.check_clean()
        return ran

    def meetings(self) -> Iterator[Path]:
        """Where launchers of this job meet. Those of other tests do so, too."""
        for place in SHARED_MEMORY.glob("knarr-node-*/ready.json"):
            with contextlib.suppress(FileNotFoundError):
                run = bytes(json.loads(place.read_text())["run"])
                if run.startswith(bytes(self.top)):
                    yield place.parent

    def check_clean(self) -> None:
        assert not list(records(self.folder))
        assert not list(self.meetings())
        assert not list(self.top.glob("knarr-run-*")), "the directory of a run stays behind"
        scratch = self.top / ".knarr"
        assert not scratch.exists(), f"stays behind: {list(scratch.iterdir())}"


def contents(path: Path) -> dict[str, bytes]:
    """The bytes of a file, or of a store."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {str(found.relative_to(path)): found.read_bytes() for found in path.rglob("*") if found.is_file()}


def encoded(path: Path) -> dict[object, object]:
    """All that is encoded, and attributes but for the time that `history` has of a file with errors."""
    if path.is_dir():
        return {name: re.sub(rb"\d{4}-[-\d]+T[:\d]+Z", b"", found) for name, found in contents(path).items()}
    with h5py.File(path) as file:
        found: dict[object, object] = {}
        for name, dataset in file.items():
            found[name] = sorted((key, str(value)) for key, value in dataset.attrs.items() if "LIST" not in key)
            for number in range(dataset.id.get_num_chunks() if dataset.chunks else 0):
                place = dataset.id.get_chunk_info(number).chunk_offset
                found[name, place] = dataset.id.read_direct_chunk(place)
        return found


def measured(ran: Job) -> dict[str, dict]:
    """What was measured on each variable of the file, on the node that made it."""
    (made,) = [file for result in ran.results for file in result["files"] if file["outcome"] == "packed"]
    return {variable["name"]: variable["measured"] for variable in made["variables"]}


def part(job: Launcher, number: int) -> int:
    """The launcher that has a part of the file that is open."""
    end = time.monotonic() + 240
    while time.monotonic() < end:
        for place, record in records(job.folder):
            if record["parts"] and record["part"] == number:
                return launcher_of(place)
        time.sleep(0.02)
    raise AssertionError("no file was begun")


def waiting(job: Launcher, *command: object, nodes: str = "aabb") -> subprocess.Popen[str]:
    """A job whose file is open, with all its values, until there is a file 'go'."""
    process = job.start(*command, "wait", nodes=nodes)
    part(job, 1)
    until((job.folder / "waits").exists, "not all is put", of=process)
    return process


def recovered(job: Launcher, knarr: Callable[..., subprocess.CompletedProcess[str]], name: str, plain: Path) -> None:
    """`--recover` makes the file of the parts of all nodes, as the program would have made it, and of no fewer."""
    made, together = job.folder / name, collected(job)
    for spool in together.iterdir():
        alone = job.top / f"alone-{spool.name}"
        shutil.copytree(spool, alone / spool.name, symlinks=True)
        # The error says what is missing.
        said = knarr("run", "--recover", alone, ok=False).stderr
        assert "the part of node" in said and not made.exists()
        shutil.rmtree(alone)
    knarr("run", "--recover", together)
    knarr("verify", plain, made)
    assert not list(together.iterdir())
    forget(job.top)


def launcher_of(place: Path) -> int:
    return int(place.parent.name.split("-")[2])


def spools_of(job: Launcher) -> list[Path]:
    """In memory, and where launchers have moved them. One without a lock is empty: its launcher was killed."""
    in_memory = sorted({place.parent for place, _ in records(job.folder)})
    moved = (job.top / ".knarr").glob("knarr-spool-*")
    return in_memory + sorted(spool for spool in moved if (spool / "launcher").exists())


def collected(job: Launcher, nodes: int = 2) -> Path:
    """A directory with the spools of all nodes. SIGTERM makes launchers move theirs out of memory."""
    together = job.top / "together"
    together.mkdir()
    # mpirun does not wait for launchers that it kills, and the system ends them when their disk has answered.
    end = time.monotonic() + 240
    while held := [spool for spool in spools_of(job) if not is_abandoned(spool)]:
        assert time.monotonic() < end, f"launchers go on: {held}"
        time.sleep(0.01)
    spools = spools_of(job)
    parts = {}
    for spool in spools:
        # A launcher that is killed as it moves its spool may leave two of them: either has all, or says nothing.
        for name in ("open.json", "handed-over.json", "set-aside.json"):
            parts |= {json.loads(place.read_text())["part"]: spool for place in spool.glob(f"*/{name}")}
    assert sorted(parts) == list(range(nodes)), spools
    for number, spool in parts.items():
        shutil.copytree(spool, together / f"knarr-spool-{number}-0", symlinks=True)
    for spool in spools:
        shutil.rmtree(spool)
    return together
