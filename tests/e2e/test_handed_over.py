"""What is handed over and cannot be a file at once: it is kept, replaces nothing newer, and is not said to be there.

Each test here stands for a way in which values were lost. `test_lives.py` has the ways that come of one failing call.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import netCDF4
import pytest

from conftest import KNARR
from crashing import workers
from injecting import SOURCES, Injector, logged
from running import MPIRUN, until, with_signal
from test_pnetcdf import HERE, RULE, compiled

TIME_LIMIT_S = 300
SHARED_MEMORY = Path("/dev/shm")

pytestmark = pytest.mark.usefixtures("own_memory")


life = compiled(SOURCES / "life_pnetcdf.c")
elsewhere = compiled(HERE / "elsewhere.c")


class Told:
    """What a program of `faults/life.h` notes."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir()

    def has(self, line: str) -> bool:
        noted = self.folder / "0"
        return noted.exists() and line in noted.read_text().splitlines()


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path / "told")


def spools() -> list[Path]:
    return sorted(SHARED_MEMORY.glob("knarr-spool-*"))


def launched_by(faults: Injector, log: Path, rules: Sequence[str]) -> Path:
    """The command `knarr`, with these rules for its calls."""
    script = log.with_suffix(".sh")
    script.write_text(f'#!/bin/sh\nexec {" ".join(faults.command(log, rules, [KNARR]))} "$@"\n')
    script.chmod(0o755)
    return script


@contextmanager
def full_memory() -> Iterator[None]:
    """Meanwhile /dev/shm has no room for anything more."""
    found = os.statvfs(SHARED_MEMORY)
    remount(f"{(found.f_blocks - found.f_bfree) * found.f_frsize // 1024}k")
    yield
    remount("50%")


def remount(size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", SHARED_MEMORY], check=True)


def first_values(path: Path) -> list[int]:
    """Of which put each record is."""
    with netCDF4.Dataset(path) as file:
        return [int(value) >> 22 for value in file["T"][:, 0]]


@pytest.fixture
def short() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="knarr-") as folder:
        yield Path(folder)


@pytest.fixture
def start(run, told, life, short) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the program; what is left of it at the end is stopped."""
    started: list[subprocess.Popen[str]] = []

    def begin(letters: str, part: int = 1000, rule: str = RULE, **how: object) -> subprocess.Popen[str]:
        # Names of sockets are short.
        environment = {"KNARR_TOLD": str(told.folder), "TMPDIR": str(short)}
        started.append(run.start(life, letters, part, config=rule, env=environment, start_new_session=True, **how))
        return started[-1]

    yield begin
    for process in started:
        for worker in (*workers(process.pid), process.pid):
            with_signal(worker, signal.SIGCONT)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    for spool in spools():
        shutil.rmtree(spool)


AWAIT_LEAVE = "9vvvv"
"""Letters of a program that waits until it may go on. The next one must be the number of a file."""


def leave_to_go_on(folder: Path) -> None:
    (folder / "hist_9.nc").touch()


def worker_of(launcher: subprocess.Popen[str]) -> int:
    until(lambda: list(workers(launcher.pid)), "no worker began")
    return next(workers(launcher.pid))


def test_an_older_version_does_not_come_back(run, start, told, knarr):
    """It is set aside because the disk is full, a newer one is made, and SIGTERM moves the older one to the disk."""
    disk = run.folder
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], check=True)
    try:
        filler, hist = disk / "filler", disk / "hist_1.nc"
        filler.write_bytes(bytes(250 << 10))
        launcher = start("cfppx" + AWAIT_LEAVE + "1cfpx" + 40 * "z")
        until(lambda: told.has("4 close hist_1 0"), "the file is not closed")
        until(lambda: list(SHARED_MEMORY.glob("knarr-spool-*/*/set-aside.json")), "the disk is not full")
        filler.unlink()
        leave_to_go_on(disk)
        until(hist.exists, "the newer version is not made")
        assert first_values(hist) == [5]
        launcher.send_signal(signal.SIGTERM)
        launcher.communicate(timeout=TIME_LIMIT_S)
        for spool in spools():
            shutil.rmtree(spool)
        for _ in range(2):
            if run.scratch.exists():
                knarr("run", "--recover", run.scratch, ok=False)
            assert first_values(hist) == [5]
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_file_that_cannot_be_made_holds_nobody_up_when_memory_is_full(run, start, told):
    """Something newer has its name. To set it aside takes no memory, and the program creates it anew."""
    launcher = start("cfppx" + AWAIT_LEAVE + "2cfppx" + 10 * "z" + "cfpx")
    until(lambda: (run.folder / "hist_1.nc").exists(), "the first file is not made")
    worker = worker_of(launcher)
    os.kill(worker, signal.SIGSTOP)
    leave_to_go_on(run.folder)
    until(lambda: told.has("15 close hist_2 0"), "the second file is not closed")
    with full_memory():
        (run.folder / "hist_2.nc").write_bytes(b"newer")
        os.kill(worker, signal.SIGCONT)
        until(lambda: list(SHARED_MEMORY.glob("knarr-spool-*/*/set-aside.json")), "it is not set aside")
    until(lambda: told.has("29 close hist_2 0"), "the program waits")
    ran = run.finish(launcher)
    assert ran.code == 0, ran.err
    assert first_values(run.folder / "hist_2.nc") == [8]


def test_what_is_under_way_is_moved_at_the_end_of_a_batch_job(run, start, told, knarr):
    """The job gets SIGTERM while a file is made. Some seconds later it is killed, and its memory is cleared."""
    launcher = start("cfppx" + AWAIT_LEAVE + "2cfppx" + 40 * "z")
    until(lambda: (run.folder / "hist_1.nc").exists(), "the first file is not made")
    worker = worker_of(launcher)
    os.kill(worker, signal.SIGSTOP)
    leave_to_go_on(run.folder)
    until(lambda: told.has("15 close hist_2 0"), "the second file is not closed")
    time.sleep(0.5)
    launcher.send_signal(signal.SIGTERM)
    until(lambda: list(run.scratch.glob("knarr-spool-*/*/handed-over.json")), "nothing is moved")
    for process in (worker, launcher.pid):
        with_signal(process, signal.SIGKILL)
    launcher.communicate(timeout=TIME_LIMIT_S)
    for spool in spools():
        shutil.rmtree(spool)
    knarr("run", "--recover", run.scratch)
    assert first_values(run.folder / "hist_2.nc") == [5, 6]


def test_what_is_moved_is_durable_before_memory_goes(run, start, told, faults, tmp_path):
    """A job that is out of time is killed, and its node may be reset: values that had found no room count, too."""
    log = tmp_path / "calls"
    rules = ["exe=/knarr", "arg=run", "calls=fsync,rename", "below=knarr-spool", f"below={tmp_path}"]
    run.program = launched_by(faults, log, rules)
    # 24 MiB, of which memory may hold 8.
    launcher = start("cppp" + 40 * "z", part=2 << 20, options=("--max-mem", "16M"))
    until(lambda: told.has("3 put hist_1 2 0 3 0"), "nothing is put")
    (spool,) = spools()
    (spilled,) = [path.readlink() for path in spool.glob("*/values.*.more")]
    assert spilled.stat().st_size > 0
    launcher.send_signal(signal.SIGTERM)
    launcher.communicate(timeout=TIME_LIMIT_S)
    (moved,) = [path for path in run.scratch.glob("knarr-spool-*") if path.is_dir()]
    calls = [
        call for call in logged(log)[0] if call.name == "fsync" or "/.gone-" in call.place or "/.moved-" in call.place
    ]
    gone = next(
        number
        for number, call in enumerate(calls)
        if ("/.gone-" in call.place or "/.moved-" in call.place) and str(spool) in call.place
    )
    synced = {call.place for call in calls[:gone]}
    record = next(moved.glob("*/set-aside.json")).parent
    assert {str(path) for path in (spilled, record, moved, run.scratch, run.top, record / "log.0")} <= synced
    shutil.rmtree(spool, ignore_errors=True)


def test_a_close_that_waits_fails_if_the_launcher_dies(run, start, told):
    """It returns when the file is there, or with an error."""
    launcher = start("cfppx" + AWAIT_LEAVE + "2cfppxz", rule=f'{RULE}wait = "close"\n')
    until(lambda: told.has("4 close hist_1 0"), "the first file is not closed")
    worker = worker_of(launcher)
    os.kill(worker, signal.SIGSTOP)
    leave_to_go_on(run.folder)
    until(lambda: told.has("15 begins close hist_2"), "the second file is not being closed")
    time.sleep(0.5)
    for process in (launcher.pid, worker):
        with_signal(process, signal.SIGKILL)
    until(lambda: any(told.has(f"15 close hist_2 {code}") for code in (0, -206)), "the program waits")
    assert told.has("15 close hist_2 -206") and not (run.folder / "hist_2.nc").exists()


FLOOD = """
import socket, sys
own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
own.setblocking(False)
try:
    while True:
        own.sendto(b'{"process":1,"event":{"waits":true}}', sys.argv[1])
except BlockingIOError:
    pass
"""


def test_a_message_that_is_lost_holds_nobody_up(run, start, told, short):
    """The launcher does not listen for seconds, and other ranks have filled its queue. The file is closed meanwhile."""
    launcher = start("cfppx" + 5 * "z" + "cfpx2cfpxz")
    until(lambda: told.has("4 close hist_1 0"), "the file is not closed")
    until(lambda: (run.folder / "hist_1.nc").exists(), "it is not made")
    os.kill(launcher.pid, signal.SIGSTOP)
    (door,) = short.glob("knarr-run-*/launcher.sock")
    subprocess.run(["python3", "-c", FLOOD, door], check=True)
    # Each message is waited for for two seconds.
    time.sleep(7)
    os.kill(launcher.pid, signal.SIGCONT)
    until(lambda: told.has("18 close hist_2 0"), "the program waits")
    ran = run.finish(launcher)
    assert ran.code == 0, ran.err
    assert first_values(run.folder / "hist_1.nc") == [5] and first_values(run.folder / "hist_2.nc") == [7]


@pytest.mark.node
def test_a_file_that_another_node_has_just_closed_is_waited_for(job, elsewhere):
    """Rank 0 writes it alone; rank 1, on another node, opens it behind a barrier."""
    process = job.start(elsewhere, "hist.nc", "open", 1 << 22, nodes="ab", config=RULE)
    out, err = process.communicate(timeout=TIME_LIMIT_S)
    assert "rank 0: 0" in out and "rank 1: 0 1 1" in out, out + err


@pytest.mark.node
def test_the_file_of_another_node_does_not_replace_a_newer_one(job, elsewhere):
    """Rank 0 writes one that takes long to be made; rank 1, on another node, creates it anew behind a barrier."""
    process = job.start(elsewhere, "hist.nc", "create", 1 << 23, nodes="ab", config=RULE)
    out, err = process.communicate(timeout=TIME_LIMIT_S)
    assert "rank 0: 0" in out and "rank 1: 0" in out, out + err
    with netCDF4.Dataset(job.folder / "hist.nc") as file:
        assert file["T"].shape == (10,), err


@pytest.mark.node
def test_a_node_that_cannot_read_what_it_holds_does_not_make_the_file(job, knarr, blocks, faults):
    """It says that it cannot tell. The node that makes it does so, or recovery."""
    rules = [
        "exe=/knarr",
        "arg=run",
        "env=KNARR_NODE=b",
        "calls=openat",
        "below=handed-over.json",
        "number=1",
        "last=6",
        "do=5",
    ]
    log = job.top / "calls"
    before = faults.command(log, rules, [])
    process = job.start(blocks, "hist.nc", 3, 64, nodes="aabb", config=RULE, before=before)
    out, err = process.communicate(timeout=TIME_LIMIT_S)
    assert process.returncode != 0 and "handed-over.json: Input/output error" in err, out + err
    knarr("run", "--recover", SHARED_MEMORY)
    with netCDF4.Dataset(job.folder / "hist.nc") as file:
        assert file["T"].shape[0] == 3
    assert not spools()


def test_ranks_leave_what_they_cannot_agree_on_to_the_library(tmp_path, blocks):
    """On one of two nodes the adapter for the MPI of the program is missing."""
    (tmp_path / "knarr.toml").write_text(RULE)
    copies = [tmp_path / node for node in "ab"]
    for copy in copies:
        copy.mkdir()
        for name in ("knarr", "libknarr_preload.so", "libknarr_mpi-openmpi.so", "libdtf.so"):
            if KNARR.with_name(name).exists():
                shutil.copy2(KNARR.with_name(name), copy / name)
    (copies[1] / "libknarr_mpi-openmpi.so").unlink()
    (tmp_path / "work").mkdir()

    def of(node: int) -> list[object]:
        run = [copies[node] / "knarr", "run", "-q", "-c", tmp_path / "knarr.toml", "--"]
        return ["-n", 1, "-x", f"KNARR_NODE={'ab'[node]}", *run, blocks, "hist.nc", 1, 16]

    command = [*MPIRUN[:-1], *of(0), ":", *of(1)]
    with subprocess.Popen(list(map(str, command)), cwd=tmp_path / "work", text=True, start_new_session=True) as process:
        try:
            assert process.wait(timeout=TIME_LIMIT_S) == 0
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    with netCDF4.Dataset(tmp_path / "work" / "hist.nc") as file:
        assert file["T"].shape[0] == 1
