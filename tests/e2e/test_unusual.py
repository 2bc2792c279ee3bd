"""Programs of PnetCDF that do something rare: `knarr run` does not stop them, and takes no more memory than it may."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import netCDF4
import pytest

from conftest import KNARR
from running import MPIRUN
from test_pnetcdf import HERE, RULE, built, compiled

MIB = 1 << 20
LIMIT = 32 * MIB
SHARED_MEMORY = Path("/dev/shm")
TIME_LIMIT_S = 180

pytestmark = pytest.mark.usefixtures("own_memory")


unusual = compiled(HERE / "unusual.c")
many_files = compiled(HERE / "many_files.c")


def within(seconds: float, command: list[object], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command that is killed with all that it has started if it takes longer."""
    environment = {**os.environ, "TMPDIR": str(folder), **variables}
    with subprocess.Popen(
        list(map(str, command)),
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)


def knarr_run(folder: Path, *command: object, options: tuple = ()) -> subprocess.CompletedProcess[str]:
    (folder / "knarr.toml").write_text(RULE)
    return within(TIME_LIMIT_S, [KNARR, "run", "-c", "knarr.toml", *options, "--", *command], folder)


def test_the_library_of_a_plugin(tmp_path):
    """A module of Python brings its own PnetCDF, which nobody else sees."""
    host = built(tmp_path, "host", HERE / "plugin_host.c", ["-ldl"])
    plugin = built(tmp_path, "plugin.so", HERE / "plugin.c", ["-shared", "-fPIC"])
    done = knarr_run(tmp_path, host, plugin, "hist.nc")
    assert done.returncode == 0, done.stderr
    with netCDF4.Dataset(tmp_path / "hist.nc") as file:
        assert list(file["T"][:]) == [1, 2, 3, 4]


@pytest.mark.parametrize("mask", ["077", "002"])
def test_permissions_are_those_that_the_program_gives(tmp_path, unusual, mask):
    command = [*MPIRUN, 1, "sh", "-c", f'umask {mask}; exec "$@"', "sh", unusual, "hist.nc", "count"]
    done = knarr_run(tmp_path, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "hist.nc").stat().st_mode & 0o777 == 0o666 & ~int(mask, 8)


def test_a_count_that_does_not_matter(tmp_path, unusual):
    """NC_COUNT_IGNORE, which PnetCDF takes since 1.12."""
    done = knarr_run(tmp_path, *MPIRUN, 1, unusual, "hist.nc", "count")
    assert "put 0, close 0" in done.stdout, done.stdout + done.stderr
    with netCDF4.Dataset(tmp_path / "hist.nc") as file:
        assert list(file["T"][0]) == [1, 2, 3, 4]


def test_a_rank_that_puts_into_no_variable(tmp_path, unusual):
    """It alone gets an error, and the others do not wait for it."""
    done = knarr_run(tmp_path, *MPIRUN, 2, unusual, "hist.nc", "variable")
    assert "rank 0: put 0" in done.stdout and "rank 1: put -49" in done.stdout, done.stdout + done.stderr
    with netCDF4.Dataset(tmp_path / "hist.nc") as file:
        assert list(file["T"][0][:4]) == [1, 2, 3, 4]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_what_another_user_has_put_there_holds_nobody_up(tmp_path):
    """In a directory that all may write, it looks like a meeting place of this user, and never opens."""
    place = SHARED_MEMORY / "knarr-node-0-zz"
    place.mkdir()
    try:
        os.mkfifo(place / "lock")
        for path in (place / "lock", place):
            os.chown(path, 65534, 65534)
        command = [*MPIRUN, 2, KNARR, "run", "-q", "-c", "knarr.toml", "--", "echo", "runs"]
        (tmp_path / "knarr.toml").write_text(RULE)
        done = within(TIME_LIMIT_S / 2, command, tmp_path)
        assert done.returncode == 0 and done.stdout.count("runs") == 2, done.stderr
    finally:
        shutil.rmtree(place)


def taken(done: subprocess.CompletedProcess[str], when: str) -> int:
    """Bytes of the shared memory that came since the program began."""
    found = dict(line.split() for line in done.stdout.splitlines() if len(line.split()) == 2)
    return int(found[when]) - int(found["before"])


@pytest.mark.parametrize(("files", "ranks"), [(1, 1), (8, 1), (4, 4)])
def test_all_open_files_share_the_memory(tmp_path, many_files, files, ranks):
    done = knarr_run(
        tmp_path,
        # Messages of MPI take no shared memory here.
        *[*MPIRUN[:-1], "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo", "-n", ranks],
        *[many_files, "write", files, 8, 0],
        options=("--max-mem", LIMIT),
    )
    assert "failed" not in done.stdout and done.returncode == 0, done.stdout + done.stderr
    # A page of each file, and what a put takes ahead.
    assert taken(done, "open") <= LIMIT / 2 + 2 * MIB, done.stdout


def test_memory_of_files_that_are_made_is_given_back(tmp_path, many_files):
    done = knarr_run(tmp_path, many_files, "write", 16, 8, 4, options=("--max-mem", LIMIT))
    assert "failed" not in done.stdout and done.returncode == 0, done.stdout + done.stderr
    assert taken(done, "later") <= LIMIT / 2 + 2 * MIB, done.stdout


def test_a_file_that_is_opened_takes_no_more_memory_than_it_may(tmp_path, many_files):
    """PnetCDF cannot read what is compressed: it gets all of it unpacked."""
    made = knarr_run(tmp_path, many_files, "write", 1, 64, 0)
    assert made.returncode == 0, made.stderr
    done = knarr_run(tmp_path, many_files, "read", "hist_0_0.nc", 0, options=("--max-mem", LIMIT))
    assert "failed" not in done.stdout and done.returncode == 0, done.stdout + done.stderr
    assert taken(done, "open") <= LIMIT / 2 + 2 * MIB, done.stdout
