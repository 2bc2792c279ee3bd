"""Names of files that one node makes: a program on another node that uses one sees what it sees without Knarr."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import netCDF4
import pytest

from chances import repeated
from crashing import workers
from injecting import Fault, Victim, logged
from nodes import SHARED_MEMORY, Launcher, launcher_of, records
from running import until
from test_pnetcdf import HERE, RULE, compiled

TIME_LIMIT_S = 300
SHORT, LENGTH = 1 << 20, 1 << 22
"""Noise of so many numbers takes a while to be encoded: longer than a shell takes to start, and than Python does."""


pytestmark = [pytest.mark.node, pytest.mark.usefixtures("own_memory")]


elsewhere = compiled(HERE / "elsewhere.c")


def python(code: str) -> str:
    return f'{sys.executable} -c "{code}"'


SEES = python("import netCDF4; T = netCDF4.Dataset('{}')['T']; print('T:', T.shape[0], T[0], T[-1])")
WITH_HDF5 = python("import h5py; T = h5py.File('{}')['T']; print('T:', T.shape[0], T[0], T[-1])")
ANEW = python("import netCDF4; netCDF4.Dataset('hist.nc', 'w', format='{}').createVariable('new', 'i4')[...] = 7")
WHOLE = f"T: {LENGTH} 1.0 1.0"
# What rank 1 does, and what it prints.
USES = {
    "netcdf": (SEES.format("hist.nc"), WHOLE),
    "hdf5": (WITH_HDF5.format("hist.nc"), WHOLE),
    "stat": ("stat -c %F hist.nc", "regular file"),
    "access": ("[ -s hist.nc ] && echo there", "there"),
    "fopen": ("head -c 4 hist.nc | tail -c 3; echo", "HDF"),
    "link": (f"ln -s hist.nc last.nc && {SEES.format('last.nc')}", WHOLE),
    "copy": (f"cp hist.nc copy.nc && {SEES.format('copy.nc')}", WHOLE),
    "rename": (f"mv hist.nc old.nc && {SEES.format('old.nc')} && ls", f"{WHOLE}\nold.nc"),
    "onto": ("echo text > text && mv text hist.nc && cat hist.nc", "text"),
    "unlink": ("rm hist.nc && ls; echo gone", "gone"),
    "shell": ("echo text > hist.nc; cat hist.nc", "text"),
    "exclusive": ("set -C; (echo text > hist.nc) 2> /dev/null || echo there", "there"),
    "mkdir": ("mkdir hist.nc 2> /dev/null || echo there", "there"),
    "netcdf4": (f"{ANEW.format('NETCDF4')}; ncdump hist.nc | grep -o 'new = .'", "new = 7"),
    "classic": (f"{ANEW.format('NETCDF3_CLASSIC')}; ncdump hist.nc | grep -o 'new = .'", "new = 7"),
}


def said(out: str) -> str:
    """By the commands of rank 1."""
    return "\n".join(line for line in out.splitlines() if not line.startswith("rank"))


def older(job: Launcher) -> None:
    with netCDF4.Dataset(job.folder / "hist.nc", "w") as file:
        file.createVariable("old", "i4")[...] = 3


def waits(job: Launcher) -> int:
    """How many calls have waited on the node of rank 1."""
    return json.loads((job.top / "result.b.json").read_text())["name_waits"]["calls"]


@pytest.mark.parametrize("use", USES)
def test_a_call_on_another_node_waits(job, elsewhere, use):
    command, expected = USES[use]
    # Of each use, what it finds without waiting is something else: nothing, or an older file.
    if use in ("netcdf", "hdf5", "rename", "onto"):
        older(job)
    length = LENGTH if sys.executable in command else 2 * SHORT
    process = job.start(elsewhere, "hist.nc", "run", length, command, nodes="ab", config=RULE)
    out, err = process.communicate(timeout=TIME_LIMIT_S)
    assert process.returncode == 0, err
    assert said(out) == expected, out + err
    assert waits(job) > 0
    job.check_clean()
    assert not list(job.folder.glob("*.kept-by-knarr*"))


def test_a_store_on_another_node_is_waited_for(job, elsewhere):
    """What is in it is as pending as the store."""
    rule = f'{RULE}output = "zarr"\n'
    command = "cat hist.zarr/zarr.json > /dev/null && echo there"
    process = job.start(elsewhere, "hist.nc", "run", LENGTH, command, nodes="ab", config=rule)
    out, err = process.communicate(timeout=TIME_LIMIT_S)
    assert process.returncode == 0 and said(out) == "there" and waits(job) > 0, out + err
    job.check_clean()


def test_a_node_waits_for_its_own_files_by_its_page(job, elsewhere):
    """Both ranks are on one node: no note is looked for."""
    process = job.start(elsewhere, "hist.nc", "run", LENGTH, SEES.format("hist.nc"), nodes="aa", config=RULE)
    out, err = process.communicate(timeout=TIME_LIMIT_S)
    assert process.returncode == 0 and said(out) == WHOLE, out + err
    job.check_clean()


def test_a_close_waits_if_other_nodes_cannot_be_told(job, elsewhere):
    """Notes have no place: the file is there when it is closed."""
    (job.top / ".knarr").mkdir()
    (job.top / ".knarr" / "pending").write_text("in the way")
    process = job.start(elsewhere, "hist.nc", "run", LENGTH, SEES.format("hist.nc"), nodes="ab", config=RULE)
    out, err = process.communicate(timeout=TIME_LIMIT_S)
    assert process.returncode == 0 and said(out) == WHOLE, out + err
    assert waits(job) == 0
    assert err.count("other nodes cannot be told of files that are not there yet") == 2
    assert "other nodes are not told of it, so the program waits until it is there" in err


# What a process on another node reads that mpirun does not end with its rank.
SURVIVES = "setsid -f sh -c 'head -c 4 hist.nc > read 2> read.err; echo $? > read.code'; sleep 30"


@pytest.mark.kill
@pytest.mark.parametrize("has_older", [False, True], ids=["", "older"])
def test_a_launcher_that_is_killed_ends_the_wait_of_other_nodes(job, knarr, elsewhere, has_older):
    if has_older:
        older(job)
    process = job.start(elsewhere, "hist.nc", "run", 4 * LENGTH, SURVIVES, nodes="ab", config=RULE)
    place = until(lambda: next((place for place, record in records(job.folder) if is_closed(place)), None))
    launcher = launcher_of(place)
    worker = until(lambda: next(iter(workers(launcher)), None))
    os.kill(worker, signal.SIGSTOP)
    until((job.folder / "read").exists)
    time.sleep(0.5)
    assert not (job.folder / "read.code").exists(), "it does not wait"
    for number in (launcher, worker):
        os.kill(number, signal.SIGKILL)
    since = time.monotonic()
    code = until(lambda: (job.folder / "read.code").exists() and (job.folder / "read.code").read_text())
    assert time.monotonic() - since < 20 and code == "1\n"
    # What is there is older than what the program has written.
    expected = "Input/output error" if has_older else "No such file or directory"
    assert expected in (job.folder / "read.err").read_text()
    process.communicate(timeout=TIME_LIMIT_S)
    for spool in {place.parent for place, _ in records(job.folder)}:
        knarr("run", "--recover", spool)
    assert netCDF4.Dataset(job.folder / "hist.nc")["T"].shape == (4 * LENGTH,)
    assert not list((job.top / ".knarr").glob("*/*")), "notes stay behind"


def is_closed(place: Path) -> bool:
    return (place / "handed-over.json").exists()


READS = "head -c 4 hist.nc | tail -c 3; echo"
# Places of notes, and of the lock of those who change them.
NOTES = ("/.knarr/pending", "names.lock")
VICTIMS = {
    "rank": Victim("rank", "/elsewhere", env="OMPI_COMM_WORLD_RANK=0", places=NOTES),
    "launcher": Victim("launcher", "/knarr", "run", "KNARR_NODE=a", places=NOTES),
    "reader": Victim("reader", "/head", places=NOTES),
}


@pytest.mark.parametrize("name", VICTIMS)
def test_a_call_about_a_note_that_fails(job, knarr, elsewhere, faults, chance, name):
    """No file is lost, an older one never passes for the newer one, and nobody waits for ever."""
    victim, log = VICTIMS[name], job.top / "calls"

    def trial(rules: list[str]) -> tuple[str, str]:
        for path in (*job.folder.iterdir(), log):
            path.unlink(missing_ok=True)
        older(job)
        before = faults.command(log, rules, [])
        process = job.start(elsewhere, "hist.nc", "run", SHORT, READS, nodes="ab", config=RULE, before=before)
        return process.communicate(timeout=TIME_LIMIT_S)

    def recovered() -> bool:
        """True if the file is there, perhaps after it was finished."""
        for spool in SHARED_MEMORY.glob("knarr-spool-*"):
            knarr("run", "--recover", spool, ok=False)
        with netCDF4.Dataset(job.folder / "hist.nc") as file:
            return "T" in file.variables and file["T"].shape == (SHORT,)

    out, err = trial([*victim.rules(), "calls=all"])
    calls, _ = logged(log)
    assert calls and said(out) == "HDF" and recovered(), out + err
    # A launcher that never can take a note away is waited for for a minute.
    actions = [(call, action) for call in calls for action in call.actions() if name != "launcher" or action[-1] != "+"]
    all_faults = [Fault(victim, call, action) for call, action in actions]
    for fault in chance.sample(all_faults, min(len(all_faults), repeated(4))):
        out, err = trial(fault.rules())
        what = f"{fault}\n{out}{err}"
        # Who reads it may get an error, and so may who closes it; what is killed takes the job along.
        assert said(out) in ("HDF", "") and "panicked" not in err, what
        assert "Input/output" in err or said(out) == "HDF" or name == "reader" or fault.action == "kill", what
        assert recovered() or "rank 0: 0" not in out, what
    # What a launcher that was killed has left goes with the next one.
    knarr("run", "-q", "-c", job.top / "knarr.toml", "--", "true")
    assert not (job.top / ".knarr").exists() and not list(records(job.folder))
