"""`mpirun knarr checkpoint`: the sets of one process, by many, under Open MPI and MPICH; and nobody waits for ever."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from chances import repeated
from conftest import may_mount, sets_in
from running import until
from test_checkpoint import hashes, hdf5

FILES = 7
MPIS = {"openmpi": ["--oversubscribe"], "mpich": []}
TIME_LIMIT_S = 300

# Debian's names; both may be installed.
HERE = [mpi for mpi in MPIS if shutil.which(f"mpirun.{mpi}") and shutil.which(f"mpicc.{mpi}")]

# Runs the command behind it, on rank 1 from another directory.
ELSEWHERE = ["bash", "-c", 'if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ]; then cd /; fi; exec "$@"', "_"]


class Mpirun:
    """Starts the program on many ranks."""

    def __init__(self, knarr, mpi: str):
        self.knarr = knarr
        self.mpi = mpi

    def command(self, ranks: int, *arguments: object, before: list[str] = ()) -> list[str]:
        mpirun = [f"mpirun.{self.mpi}", *MPIS[self.mpi], "-n", str(ranks)]
        return [*mpirun, *before, str(self.knarr.program), "checkpoint", *map(str, arguments)]

    def __call__(
        self, ranks: int, *arguments: object, before: list[str] = (), cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(ranks, *arguments, before=before),
            env={**self.knarr.environment, **variables},
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )

    def ok(self, ranks: int, *arguments: object) -> str:
        """What is printed, by one rank alone."""
        done = self(ranks, *arguments)
        assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def fails(self, done: subprocess.CompletedProcess[str]) -> str:
        """The message, which must be said once."""
        assert done.returncode != 0, done.stdout
        said = [line for line in done.stderr.splitlines() if line.startswith("knarr: ")]
        assert len(said) == 1, done.stderr
        assert "panicked" not in done.stderr
        return said[0]


@pytest.fixture(params=MPIS)
def mpirun(request, knarr) -> Mpirun:
    if request.param not in HERE:
        pytest.skip(f"needs mpirun.{request.param} and mpicc.{request.param}: run 'make setup' as root")
    adapter = knarr.program.with_name(f"libknarr_mpi-{request.param}.so")
    assert adapter.is_file(), f"{adapter} is not built: tools/build-mpi.sh {adapter.parent}"
    return Mpirun(knarr, request.param)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    for rank in range(FILES):
        hdf5(folder / f"restart_{rank}.h5", rank)
    return folder


def test_sets_of_many_processes_are_those_of_one(knarr, mpirun, files, tmp_path):
    pack = ("pack", "--group-size", "2", "--goal", "speed")
    knarr("checkpoint", *pack, files, "-o", tmp_path / "first", "--no-base")
    changed = tmp_path / "in"
    shutil.copytree(files, changed)
    hdf5(changed / "restart_3.h5", 30)
    for base in (["--no-base"], ["--base", tmp_path / "first"]):
        knarr("checkpoint", *pack, changed, "-o", tmp_path / "one", "--force", *base)
        for ranks in (1, 2, 3, 8):
            target = tmp_path / f"by{ranks}"
            table = mpirun.ok(ranks, *pack, changed, "-o", target, "--force", *base)
            assert table.count("ratio") == 1, table
            assert hashes(target) == hashes(tmp_path / "one")
    shutil.rmtree(tmp_path / "first")
    for ranks in (2, 8):
        said = mpirun.ok(ranks, "restore", tmp_path / "by8", "-d", tmp_path / "out")
        assert f"{FILES} of {FILES} files" in said and said.count("files") == 1
        assert hashes(tmp_path / "out") == hashes(changed)
        shutil.rmtree(tmp_path / "out")


def test_variables_are_restored_by_many(knarr, mpirun, files, tmp_path):
    knarr("checkpoint", "pack", files, "-o", tmp_path / "set", "--goal", "speed")
    restore = ("restore", tmp_path / "set", "--variables", "rho", "--ranks", "1-3,5")
    knarr("checkpoint", *restore, "-d", tmp_path / "one")
    said = mpirun.ok(3, *restore, "-d", tmp_path / "three")
    assert said.startswith("4 variables of 4 ranks")
    assert hashes(tmp_path / "three") == hashes(tmp_path / "one")
    error = mpirun.fails(mpirun(2, "restore", tmp_path / "set", "-d", tmp_path / "x", "--variables", "rhoo"))
    assert "no variable matches" in error and not (tmp_path / "x").exists()


def test_damage_is_told_once_and_the_rest_comes_back(knarr, mpirun, files, tmp_path):
    knarr("checkpoint", "pack", files, "-o", tmp_path / "set", "--group-size", "2", "--goal", "speed")
    store = next((tmp_path / "set").glob("group-00001-*"))
    damaged = bytearray(store.read_bytes())
    damaged[len(damaged) // 2] ^= 0x10
    store.write_bytes(damaged)
    alone = knarr("checkpoint", "restore", tmp_path / "set", "-d", tmp_path / "one", ok=False)
    many = mpirun(4, "restore", tmp_path / "set", "-d", tmp_path / "four")
    assert many.returncode == alone.returncode == 3
    told = [line for line in many.stderr.splitlines() if line.startswith("knarr: ")]
    assert told == alone.stderr.splitlines() != []
    assert hashes(tmp_path / "four") == hashes(tmp_path / "one") != {}


def test_the_error_of_one_rank_is_that_of_all(knarr, mpirun, files, tmp_path):
    """Rank 1 is on a node that does not have the files; the others go on with theirs until all have to agree."""
    shutil.copytree(files, tmp_path / "in")
    sets = tmp_path / "sets"
    knarr("checkpoint", "pack", tmp_path / "in", "-o", sets / "last", "--goal", "speed")
    before = hashes(sets)
    pack = ("pack", "in", "-o", sets / "last", "--force", "--group-size", "1", "--goal", "speed")
    error = mpirun.fails(mpirun(3, *pack, before=ELSEWHERE, cwd=tmp_path))
    assert "rank 1 of 3: in/restart_" in error
    assert hashes(sets) == before and sets_in(sets) == ["last"]
    error = mpirun.fails(mpirun(3, "restore", "sets/last", "-d", "out", before=ELSEWHERE, cwd=tmp_path))
    assert "rank 1 of 3: sets/last" in error and not (tmp_path / "out").exists()
    error = mpirun.fails(mpirun(2, "pack", tmp_path / "nothing", "-o", sets / "other"))
    assert "rank 0 of 2: " in error and "no such file" in error


@pytest.mark.skipif(not may_mount(), reason="needs the right to mount a small file system")
def test_a_full_disk_leaves_the_last_set_intact(knarr, mpirun, small_disk, tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    for rank in range(4):
        (source / f"r{rank}").write_bytes(random.Random(rank).randbytes(400_000))
    pack = ("pack", source, "-o", small_disk / "set", "--force", "--no-base", "--group-size", "1")
    assert mpirun(3, *pack).returncode == 0
    before = hashes(small_disk)
    error = mpirun.fails(mpirun(3, *pack))
    assert str(small_disk / "set") in error and "space" in error
    assert hashes(small_disk) == before and sets_in(small_disk) == ["set"]


def ranks_of(mpirun: int, program: Path) -> list[int]:
    """Processes of the program below this one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    below, found = {mpirun}, []
    while more := {process for process, parent in parents.items() if parent in below} - below:
        below |= more
    for process in below:
        try:
            if os.readlink(f"/proc/{process}/exe") == str(program):
                found.append(process)
        except OSError:
            continue
    return sorted(found)


@pytest.mark.kill
def test_a_killed_rank_ends_the_job_and_leaves_the_last_set(knarr, mpirun, tmp_path, chance):
    source, sets = tmp_path / "in", tmp_path / "sets"
    source.mkdir()

    def write() -> dict[str, str]:
        for rank in range(4):
            (source / f"r{rank}").write_bytes(chance.randbytes(300_000))
        return hashes(source)

    wanted = write()
    pack = ("pack", source, "-o", sets / "set", "--force", "--group-size", "1", "--goal", "speed")
    begin = time.monotonic()
    mpirun.ok(3, *pack)
    usual = time.monotonic() - begin
    failed = 0
    for round in range(repeated(12)):
        new = write()
        job = subprocess.Popen(
            mpirun.command(3, *pack),
            env=knarr.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        ranks = until(lambda job=job: job.poll() is not None or ranks_of(job.pid, knarr.program), within=TIME_LIMIT_S)
        time.sleep(chance.uniform(0, usual))
        if ranks is not True:
            ranks = ranks_of(job.pid, knarr.program)
        if ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(ranks[round % len(ranks)], signal.SIGKILL)
        until(lambda job=job: job.poll() is not None or not ranks_of(job.pid, knarr.program), within=TIME_LIMIT_S)
        try:
            failed += job.wait(timeout=30) != 0
        except subprocess.TimeoutExpired:
            # No rank waits, but Open MPI's mpirun may when one of them dies while MPI starts.
            job.kill()
            failed += job.wait() != 0
        knarr("checkpoint", "restore", sets / "set", "-d", tmp_path / "out")
        found = hashes(tmp_path / "out")
        assert found in (new, wanted)
        wanted = found
        shutil.rmtree(tmp_path / "out")
    assert failed > 0, "no kill came in time"
    write()
    mpirun.ok(3, *pack)
    assert sets_in(sets) == ["set"], "the next pack removes what killed ones left"


def test_without_an_adapter_the_message_says_what_to_do(knarr, mpirun, files, tmp_path):
    lonely = tmp_path / "bin" / "knarr"
    lonely.parent.mkdir()
    shutil.copy(knarr.program, lonely)
    pack = ("pack", files, "-o", tmp_path / "set")
    command = [str(lonely) if word == str(knarr.program) else word for word in mpirun.command(2, *pack)]
    done = subprocess.run(
        command, env=knarr.environment, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False
    )
    error = mpirun.fails(done)
    assert f"libknarr_mpi-{mpirun.mpi}.so" in error and "KNARR_MPI" in error
    assert "KNARR_MPI" in mpirun.fails(mpirun(2, *pack, KNARR_MPI="lam"))
    maps = Path("/proc/self/maps").read_text().split()
    library = next(word for word in maps if word.endswith("libc.so.6"))
    assert "no adapter" in mpirun.fails(mpirun(2, *pack, KNARR_MPI=library))
    assert not (tmp_path / "set").exists()
    # One process needs no MPI, and other commands do not either.
    lone = ("checkpoint", *map(str, pack), "--goal", "speed")
    one = subprocess.run([str(lonely), *lone], env=knarr.environment, timeout=TIME_LIMIT_S, check=False)
    assert one.returncode == 0
    assert mpirun(2, "info", tmp_path / "set", KNARR_MPI="/nowhere/adapter.so").returncode == 0


@pytest.mark.skipif(len(HERE) < 2, reason="needs Open MPI and MPICH: run 'make setup' as root")
def test_the_adapter_of_another_mpi_is_refused(mpirun, files, tmp_path):
    other = next(mpi for mpi in MPIS if mpi != mpirun.mpi)
    error = mpirun.fails(mpirun(2, "pack", files, "-o", tmp_path / "set", KNARR_MPI=other))
    assert "sees 1 process" in error and "KNARR_MPI" in error
    assert not (tmp_path / "set").exists()
