"""Files that a program has open for long: what it has put is encoded meanwhile, and the file is the same."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import test_pnetcdf as pnetcdf
from conftest import unmount
from running import Runner, forget, no_spools_stay, spools  # noqa: F401  a fixture
from test_parallel_hdf5 import hdf5, was_handed_over  # noqa: F401  fixtures
from test_pnetcdf import RANKS, SHARED_MEMORY

STEPS, ROWS = 6, 256
RULE = '[[file]]\npattern = "hist.*"\n'


def program(request: pytest.FixtureRequest, kind: str) -> tuple[Path, str]:
    """A program that waits for a file `go` before it closes its file, and the file's name."""
    return request.getfixturevalue("hdf5" if kind == "hdf5" else "blocks"), "hist.h5" if kind == "hdf5" else "hist.nc"


def begun(run: Runner, program: Path, name: str, config: str):
    """A program that has put everything, and of whose file something is encoded."""
    command = [*pnetcdf.MPIRUN, RANKS, program, name, STEPS, ROWS, "wait"]
    waits = run.folder / "waits"
    if waits.exists():
        waits.rmdir()
    launcher = run.start(*command, config=config, process_group=0)
    end, listed, before = time.monotonic() + 240, 0, -1
    while not listed or listed != before or not waits.exists():
        assert time.monotonic() < end and launcher.poll() is None
        time.sleep(1.5)
        before, listed = listed, size(launcher.pid)
    return launcher


def size(launcher: int) -> int:
    lists = SHARED_MEMORY.glob(f"knarr-spool-{launcher}-*/*/ahead.list")
    return sum(found.stat().st_size for found in lists)


def same_bytes(path: Path) -> dict[str, bytes]:
    """Contents by names, of a file or of a store."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


@pytest.mark.parametrize(("kind", "output"), [("pnetcdf", "netcdf4"), ("pnetcdf", "zarr"), ("hdf5", "netcdf4")])
def test_the_file_is_the_same_and_was_encoded_before(run, request, kind, output):
    made_by, name = program(request, kind)
    config = RULE + f'output = "{output}"\n'
    target = (run.folder / name).with_suffix(".zarr") if output == "zarr" else run.folder / name
    (run.folder / "go").touch()
    run(*[*pnetcdf.MPIRUN, RANKS, made_by, name, STEPS, ROWS, "wait"], config=config)
    plainly = same_bytes(target)
    (run.folder / "go").unlink()

    launcher = begun(run, made_by, name, config)
    (run.folder / "go").touch()
    ran = run.finish(launcher)
    assert ran.code == 0, ran.err
    told = ran.file(target.name)
    measured = {variable["name"]: variable["measured"] for variable in told["variables"] if variable["measured"]}
    assert measured["T"]["ahead_chunks"] > 0, measured
    assert not list(run.scratch.glob("*.ahead")) and not spools()
    found = same_bytes(target)
    assert found.keys() == plainly.keys()
    assert [file for file in found if found[file] != plainly[file]] == []


def test_a_launcher_that_is_killed_leaves_what_was_encoded_to_the_next(run, knarr, blocks, tmp_path):
    launcher = begun(run, blocks, "hist.nc", RULE)
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    (run.folder / "go").touch()
    pnetcdf.wait_for_the_end_of(blocks)
    (spool,) = spools()
    assert list(run.scratch.glob("*.ahead"))
    knarr("run", "--recover", spool, "--json", tmp_path / "result.json")
    (told,) = json.loads((tmp_path / "result.json").read_text())["files"]
    assert {variable["name"]: variable["measured"] for variable in told["variables"]}["T"]["ahead_chunks"] > 0
    assert not spools() and not list(run.scratch.glob("*.ahead"))
    (tmp_path / "plain").mkdir()
    command = [*map(str, pnetcdf.MPIRUN), str(RANKS), blocks, "plain.nc", str(STEPS), str(ROWS)]
    subprocess.run(command, cwd=tmp_path / "plain", check=True)
    knarr("verify", tmp_path / "plain" / "plain.nc", run.folder / "hist.nc")
    forget(run.top)


def test_a_disk_that_is_full_before_all_is_encoded(run, knarr, blocks, tmp_path):
    """Chunks take no more of a disk than they leave. The others are encoded when the file is closed."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small file system needs root")
    run.scratch.mkdir(exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48k", "none", run.scratch]).returncode != 0:
        pytest.skip("file systems cannot be mounted here")
    try:
        launcher = begun(run, blocks, "hist.nc", RULE + '[file.variables.T]\nchunks = "1x32x128"\n')
        (run.folder / "go").touch()
        ran = run.finish(launcher)
        assert ran.code == 0, ran.err
        measured = {variable["name"]: variable["measured"] for variable in ran.file("hist.nc")["variables"]}
        assert 0 < measured["T"]["ahead_chunks"] < measured["T"]["chunks"], measured["T"]
    finally:
        (run.folder / "go").touch()
        unmount(run.scratch)
    (tmp_path / "plain").mkdir()
    command = [*map(str, pnetcdf.MPIRUN), str(RANKS), blocks, "plain.nc", str(STEPS), str(ROWS)]
    subprocess.run(command, cwd=tmp_path / "plain", check=True)
    knarr("verify", tmp_path / "plain" / "plain.nc", run.folder / "hist.nc")
