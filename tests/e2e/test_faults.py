"""Each system call that makes an output durable fails once: that is an error, and the output is absent or the old one.

`faults/fault.c` makes the n-th call fail, for n = 1, 2, 3 … until a command needs no more calls.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pytest

from conftest import COSTS, KNARR
from injecting import Injector, injector, logged
from running import script, spools
from test_pnetcdf import RULE, built, ranks
from values import smooth_field

UNWRITABLE = 4
NOT_STARTED = 125
MOST_CALLS = 200
TIME_LIMIT_S = 60
IN_PLACE = "complete and in its place"
HARMLESS = {"fallocate"}
"""Room that cannot be had ahead is found later."""

FIELD = smooth_field((8, 64, 64), seed=1)


@dataclass
class Ran:
    """What became of a command. `failed` is the call that was made to fail and its path, empty if it was never made."""

    code: int
    out: str
    err: str
    calls: int
    failed: str

    @property
    def call(self) -> str:
        return self.failed.split(" ")[0]


class Faults:
    """Runs commands in which a call fails that is about a path with `below` in it."""

    def __init__(self, injector: Injector, environment: dict[str, str], kernel: str = ""):
        self.injector = injector
        self.environment = environment
        self.kernel = kernel
        self.log = injector.program.with_name("log")

    def on_kernel(self, release: str) -> Faults:
        """The same on a machine that says it runs another kernel."""
        return Faults(self.injector, self.environment, release)

    def __call__(self, command: list[object], below: str, number: int, **how: object) -> Ran:
        error = errno.EIO if number % 2 else errno.ENOSPC
        rules = [f"below={below}", f"do={error}"]
        rules += [f"number={number}"] * (number > 0) + [f"kernel={self.kernel}"] * bool(self.kernel)
        done = subprocess.run(
            self.injector.command(self.log, rules, command),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
            **how,
        )
        calls, failed = logged(self.log)
        assert "panicked" not in done.stderr, done.stderr
        words = f"{failed[0].name} {failed[0].place}" if failed else ""
        return Ran(done.returncode, done.stdout, done.stderr, len(calls), words)

    def each(self, command: list[object], below: str, before: Callable[[], None], **how: object) -> Iterator[Ran]:
        """The command with one failing call after the other; the last one is without."""
        for number in range(1, MOST_CALLS):
            before()
            ran = self(command, below, number, **how)
            yield ran
            if not ran.failed:
                assert ran.calls == number - 1 > 0, "it did not make the same calls each time"
                return
        raise AssertionError(f"more than {MOST_CALLS} calls")


@pytest.fixture(scope="module")
def faults(knarr, tmp_path_factory: pytest.TempPathFactory) -> Faults:
    made = injector(tmp_path_factory.mktemp("faults"))
    if isinstance(made, str):
        pytest.skip(made)
    return Faults(made, knarr.environment)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file, one that is a table, one for a raw output, and those of two ranks."""
    folder = tmp_path_factory.mktemp("inputs")
    with h5py.File(folder / "in.h5", "w") as file:
        file.create_dataset("T", data=FIELD, chunks=(4, 64, 64))
        file["i"] = np.arange(100)
    with h5py.File(folder / "table.h5", "w") as file:
        file["x"] = np.linspace(0, 1, 50)
    ranks = folder / "ranks"
    ranks.mkdir()
    for rank in range(2):
        with h5py.File(ranks / f"restart_{rank}.h5", "w") as file:
            file["T"] = FIELD + rank
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def held(folder: Path) -> dict[str, bytes]:
    """Every file and directory below a folder, but for what making sets took."""
    paths = (path for path in folder.rglob("*") if path.name != COSTS)
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in paths}


def check_each(faults: Faults, command: list[object], out: Path, old: Path | None = None) -> set[str]:
    """Fails each call for what is in the folder `out`, which first holds what `old` does. Returns the calls."""
    whole = out.with_name("whole")

    def before() -> None:
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(old, out, symlinks=True) if old else out.mkdir()

    before()
    was = held(out)
    ran = faults(command, f"/{out.name}/", 0)
    assert ran.code == 0, ran
    shutil.rmtree(whole, ignore_errors=True)
    shutil.copytree(out, whole)
    made, seen = held(whole), set()
    assert made != was
    for ran in faults.each(command, f"/{out.name}/", before):
        now = held(out)
        seen.add(ran.call)
        if not ran.failed or ((ran.call in HARMLESS or COSTS in ran.failed) and ran.code == 0):
            assert ran.code == 0 and now.keys() == made.keys(), ran
            continue
        assert ran.code == UNWRITABLE, ran
        if IN_PLACE in ran.err:
            # The main output, and perhaps its plan.
            assert now.keys() <= made.keys() and any(now.get(name) == made[name] for name in made), (ran, now.keys())
            assert set(now) >= {name for name in made if not name.endswith(".knarr.json")}, (ran, now.keys())
        else:
            assert now == was, (ran, sorted(now), sorted(was))
    return seen


QUICK = ["--chain", "shuffle | zstd:1", "--jobs", "1"]
SYNCED = {"fsync", "renameat2"}


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("suffix", ["nc", "h5", "zarr", "zarr.zip"])
def test_repack(faults, inputs, out, tmp_path, knarr, suffix, force):
    target, old = out / f"a.{suffix}", tmp_path / "old"
    if force:
        old.mkdir()
        knarr.repack(inputs / "in.h5", old / target.name, "--chain", "zstd:3")
    command = [KNARR, "repack", inputs / "in.h5", "-o", target, *QUICK, *(["--force"] if force else [])]
    seen = check_each(faults, command, out, old if force else None)
    calls = {"zarr": {"write", "syncfs", "renameat2"}, "zarr.zip": {"write", "fsync"}}
    assert seen >= calls.get(suffix, {"pwrite", "fsync"}), seen


def test_a_store_on_a_kernel_that_does_not_tell_of_lost_pages(faults, inputs, out):
    """Before Linux 5.8 syncfs(2) succeeds although writing back failed: each file is synced by itself."""
    command = [KNARR, "repack", inputs / "in.h5", "-o", out / "a.zarr", *QUICK]
    seen = check_each(faults.on_kernel("4.18.0-553.el8_10.x86_64"), command, out)
    assert seen >= SYNCED and "syncfs" not in seen, seen


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("name", ["a.csv", "a.bin"])
def test_plain_outputs(faults, inputs, out, tmp_path, name, force):
    old = tmp_path / "old"
    old.mkdir()
    if force:
        (old / name).write_bytes(b"precious")
    command = [KNARR, "repack", inputs / "table.h5", "-o", out / name, "-j1", *(["--force"] if force else [])]
    assert check_each(faults, command, out, old) >= {"fsync"}


def test_pages_of_reports(faults, inputs, out, tmp_path):
    """Profiles and models are written in the same way."""
    target, old = tmp_path / "a.h5", tmp_path / "old"
    old.mkdir()
    (old / "page.html").write_text("the last one")
    command = [KNARR, "repack", inputs / "in.h5", "-o", target, "--report", out / "page.html", "--force", *QUICK]
    assert check_each(faults, command, out, old) >= {"write", "fsync"}


@pytest.mark.parametrize("force", [False, True])
def test_sets(faults, inputs, out, tmp_path, knarr, force):
    old = tmp_path / "old"
    if force:
        knarr("checkpoint", "pack", inputs / "in.h5", "-o", old / "set")
    options = ["-o", out / "set", "-j1", "--no-base", *(["--force"] if force else [])]
    command = [KNARR, "checkpoint", "pack", inputs / "ranks", *options]
    assert check_each(faults, command, out, old if force else None) >= {"write", "fsync", "fdatasync"}


@pytest.mark.parametrize("options", [[], ["--variables", "T"]])
def test_restored_files(faults, inputs, out, tmp_path, knarr, options):
    """Each file that is there is whole."""
    knarr("checkpoint", "pack", inputs / "ranks", "-o", tmp_path / "set")

    def before() -> None:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()

    command = [KNARR, "checkpoint", "restore", tmp_path / "set", "-d", out, "-j1", *options]
    before()
    assert faults(command, "/out/", 0).code == 0
    made = {name: content for name, content in held(out).items() if content}
    assert len(made) == 2
    for ran in faults.each(command, "/out/", before):
        now = {name: content for name, content in held(out).items() if content}
        assert now.items() <= made.items(), (ran, sorted(now))
        assert ran.code == (UNWRITABLE if ran.failed else 0), ran
        assert ran.failed or now == made


LIBRARY = """
import sys, numpy, knarr
try:
    with knarr.Checkpoint(sys.argv[1] + "/sets", spool=sys.argv[1]) as checkpoint:
        checkpoint.begin(1)
        checkpoint.put("T", numpy.arange(3000.0))
        checkpoint.commit()
        checkpoint.wait()
except (knarr.KnarrError, OSError) as error:
    print(error, file=sys.stderr)
    sys.exit(4)
"""


def test_sets_of_programs(faults, out):
    command = [os.environ.get("KNARR_PYTHON", sys.executable), "-c", LIBRARY, out]
    shutil.rmtree(out, ignore_errors=True)

    def before() -> None:
        shutil.rmtree(out, ignore_errors=True)
        (out / "sets").mkdir(parents=True)

    for ran in faults.each(command, "/out/", before):
        left = set(held(out)) - {"sets"}
        done = {name for name in left if name.startswith("sets/step_1")}
        assert left == done, (ran, left)
        is_harmless = COSTS in ran.failed or (ran.call in HARMLESS and ran.code == 0)
        if ran.failed and not is_harmless:
            assert ran.code == UNWRITABLE, ran
            assert not left or IN_PLACE in ran.err, (ran, left)
        else:
            assert ran.code == 0 and done, (ran, left)


def test_packed_files_of_a_program(faults, tmp_path):
    """The program's own calls do not fail: its file is whole whatever becomes of the packed one."""
    work = tmp_path / "work"
    (tmp_path / "knarr.toml").write_text('[[file]]\npattern = "*.h5"\nwhen = "close"\nvariables."*".chain = "zstd:1"\n')
    program = script('with h5py.File("a.h5", "w") as file:\n    file["T"] = FIELD\n')
    command = [KNARR, "run", "-c", tmp_path / "knarr.toml", "--", *program]

    def before() -> None:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        np.save(work / "field.npy", FIELD)

    environment = {**faults.environment, "TMPDIR": str(tmp_path)}
    packed_files = set()
    for ran in Faults(faults.injector, environment).each(command, "knarr-", before, cwd=work):
        if not (work / "a.h5").exists():
            assert ran.code == NOT_STARTED, ran
            continue
        assert ran.code == 0, ran
        with h5py.File(work / "a.h5") as file:
            assert np.array_equal(file["T"][()], FIELD), ran
            is_packed = file["T"].id.get_create_plist().get_nfilters() > 0
        packed_files.add(is_packed)
        assert is_packed or ("a.h5: " in ran.err and ("error" in ran.err or "space" in ran.err)), ran
        assert {path.name for path in work.iterdir()} - {"a.h5.knarr.json"} == {"a.h5", "field.npy"}, ran
        assert not list(tmp_path.glob("*knarr-run-*")), ran
    assert packed_files == {True, False}


def test_files_that_are_handed_over(faults, knarr, run, tmp_path):
    """What cannot be written is an error, and is kept until it can be."""
    program = built(tmp_path, "blocks", Path(__file__).with_name("pnetcdf_programs") / "blocks.c")
    out, target, spool = tmp_path / "out", tmp_path / "out" / "hist.nc", tmp_path / "spool"
    out.mkdir()
    run(*ranks(program, target, 1, 16, "kill", count=2), config=RULE, ok=False)
    (kept,) = spools()
    shutil.move(kept, tmp_path / "kept")
    command = [KNARR, "run", "--recover", spool]

    def before() -> None:
        for folder in (out, spool):
            shutil.rmtree(folder, ignore_errors=True)
        out.mkdir()
        shutil.copytree(tmp_path / "kept", spool, symlinks=True)

    seen = set()
    for ran in faults.each(command, "hist.nc", before):
        seen.add(ran.call)
        if not ran.failed or (ran.call in HARMLESS and ran.code == 0):
            assert ran.code == 0 and target.exists() and not spool.exists(), ran
            continue
        if IN_PLACE in ran.err:
            assert ran.code == UNWRITABLE and target.exists(), ran
            continue
        assert ran.code == UNWRITABLE and "--recover" in ran.err and not list(out.iterdir()), ran
        knarr("run", "--recover", spool)
        assert target.exists() and not spool.exists()
    assert seen >= {"pwrite", "fsync"}, seen
