"""Files that programs in C, Fortran and Python write from all their ranks, read by other people's libraries."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray
import zarr

import knarr
from chances import repeated
from conftest import may_mount
from test_capi import EXAMPLES, c_program, fortran_program, run
from test_checkpoint_library import TIME_LIMIT_S, children, example, mpi, python_program, python_under_mpi

PROGRAMS = Path(__file__).with_name("output_programs")
MPI = "openmpi"
SUFFIXES = ("nc", "h5", "zarr")
DATE = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z")


def history() -> np.ndarray:
    """What the examples write."""
    step, y, x = np.meshgrid(np.arange(5), np.arange(120), np.arange(80), indexing="ij")
    return 290 + 10 * np.sin(0.05 * y + step) * np.cos(0.1 * x)


def check_history(path: Path) -> None:
    opened = xarray.open_zarr(path) if path.suffix == ".zarr" else xarray.open_dataset(path, engine="h5netcdf")
    with opened as found:
        assert found.sizes == {"time": 5, "y": 120, "x": 80}
        assert found["T"].dtype == np.float32 and found["T"].attrs["units"] == "K"
        assert found["T"].encoding["_FillValue"] == -999 and found.attrs["title"] == "a plane"
        error = np.abs(found["T"].values - history().astype("f4")).max()
        assert 0 < error <= 0.001
        assert list(found["time"].values) == list(np.datetime64("2000-01-01") + np.arange(5) * np.timedelta64(6, "h"))


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def contents(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def spools_of(pids: list[int]) -> list[Path]:
    spools = Path("/dev/shm").glob(".knarr-spool.knarr-*")
    return [path for path in spools if int(path.name.split("-")[-3], 16) in pids]


def program(folder: Path, language: str, with_mpi: bool) -> list[object]:
    """The example in this language."""
    if language == "python":
        return [os.environ.get("KNARR_PYTHON", sys.executable), EXAMPLES / "python" / "history.py"]
    source = EXAMPLES / language / ("history.c" if language == "c" else "history.F90")
    return [example(folder, source, MPI if with_mpi else None)]


@pytest.mark.parametrize("language", ["c", "fortran", "python"])
def test_examples_write_the_same_file_alone_and_on_four_ranks(tmp_path: Path, language: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    alone = program(tmp_path, language, with_mpi=False)
    for suffix in SUFFIXES:
        run(*alone, out / f"1.{suffix}")
        check_history(out / f"1.{suffix}")
    environment = python_under_mpi(tmp_path, MPI)
    four = program(tmp_path, language, with_mpi=True)
    for suffix in ("nc", "zarr"):
        path = out / f"4.{suffix}"
        if language == "python":
            run(*python_program(MPI, 4, four[1]), path, "--mpi", env=environment)
        else:
            run(*mpi(MPI, 4), *four, path)
        check_history(path)
    assert names_in(out) == ["1.h5", "1.nc", "1.zarr", "4.nc", "4.zarr"]
    # Again it is refused, and what is there stays.
    before = contents(out / "1.nc")
    again = run(*alone, out / "1.nc", ok=False)
    assert again.returncode != 0 and "exists" in again.stderr
    assert contents(out / "1.nc") == before


def parts(ranks: int, *given: object) -> list[object]:
    return [*python_program(MPI, ranks, PROGRAMS / "parts.py"), *given]


def values() -> np.ndarray:
    step, y, x = np.meshgrid(np.arange(4), np.arange(210), np.arange(150), indexing="ij")
    return 280 + 20 * np.sin(0.03 * y + step) * np.cos(0.05 * x) + 0.001 * ((7 * x + 13 * y) % 10)


def check_parts(path: Path) -> None:
    if path.suffix == ".zarr":
        group = zarr.open_group(path, mode="r")
        found = {name: group[name][...] for name in ("T", "bounded", "part", "nothing", "ranks")}
        assert group.attrs["title"] == "parts" and group.attrs["numbers"] == [1.5, 2.5]
        assert group["T"].metadata.dimension_names == ("time", "y", "x")
    else:
        with netCDF4.Dataset(path) as file:
            file.set_auto_mask(False)
            assert file.dimensions["time"].isunlimited() and not file.dimensions["y"].isunlimited()
            assert file.title == "parts" and list(file.numbers) == [1.5, 2.5] and file["T"].units == "K"
            found = {name: file[name][...] for name in file.variables}
    assert found["T"].dtype == np.float32 and np.array_equal(found["T"], values().astype("f4"))
    assert 0 < np.abs(found["bounded"] - values()).max() <= 0.01
    assert np.array_equal(found["part"], np.where(np.arange(210)[:, None] < 100, 7, np.full((210, 150), -1)))
    assert np.array_equal(found["nothing"], np.full(210, netCDF4.default_fillvals["i2"], "i2"))
    assert found["ranks"] == 4


def test_any_decomposition_gives_the_same_bytes(tmp_path: Path) -> None:
    environment = python_under_mpi(tmp_path, MPI)
    first: dict[str, bytes] = {}
    for ranks, way in ((1, "rows"), (4, "rows"), (4, "columns"), (3, "blocks")):
        for suffix in ("nc", "zarr"):
            folder = tmp_path / f"{way}-{ranks}"
            folder.mkdir(exist_ok=True)
            run(*parts(ranks, way, f"out.{suffix}"), env=environment, cwd=folder)
            check_parts(folder / f"out.{suffix}")
        # But for the date in the history.
        found = {name: DATE.sub(b"", data) for name, data in contents(folder / "out.zarr").items()}
        first = first or found
        assert found == first, (way, ranks)


# What Open MPI starts its daemon on another node with. Here a node is a name, with shared memory of its own.
NODE = """#!/bin/sh
node=$1; shift
exec unshare --uts --mount sh -c "hostname $node && mount -t tmpfs $node /dev/shm && $*"
"""


def on_nodes(folder: Path, **ranks: int) -> list[object]:
    """`mpirun`, for so many ranks on each of these nodes."""
    agent = folder / "agent.sh"
    agent.write_text(NODE)
    agent.chmod(0o755)
    hosts = ",".join(f"{node}:{count}" for node, count in ranks.items())
    # The network of a test may have no other interface.
    network = [word for part in ("oob", "btl") for word in ("--mca", f"{part}_tcp_if_include", "lo")]
    network += ["--mca", "btl", "self,vader,tcp"]
    how = ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", agent, "--host", hosts, *network]
    return [*mpi(MPI, sum(ranks.values())), *how]


@pytest.mark.skipif(not may_mount(), reason="needs the right to mount a small file system")
def test_ranks_on_several_nodes_give_the_same_bytes(tmp_path: Path) -> None:
    """The values of each node are in memory that no other node sees."""
    environment = python_under_mpi(tmp_path, MPI)
    before = set(Path("/dev/shm").iterdir())
    program = [os.environ.get("KNARR_PYTHON", sys.executable), "-m", "mpi4py", PROGRAMS / "parts.py"]
    found = []
    for nodes in ({"nodea": 1}, {"nodea": 2, "nodeb": 2}, {"nodea": 1, "nodeb": 2, "nodec": 1}):
        folder = tmp_path / f"of {len(nodes)}"
        folder.mkdir()
        for suffix in ("nc", "zarr"):
            run(*on_nodes(tmp_path, **nodes), *program, "blocks", f"out.{suffix}", env=environment, cwd=folder)
            check_parts(folder / f"out.{suffix}")
        assert names_in(folder) == ["out.nc", "out.zarr"]
        found.append({name: DATE.sub(b"", data) for name, data in contents(folder / "out.zarr").items()})
    assert found[0] == found[1] == found[2]
    assert set(Path("/dev/shm").iterdir()) == before


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("unknown", "there is no variable 'U'"),
        ("outside", "4 elements from 7 on along dimension 'x', which has the length 10"),
        ("type", "its elements are f32, not f64"),
        ("definition", "rank 2 defines dimension 'y' of length 3 where rank 0 defines nothing"),
        ("wish", "variable 'V'"),
        ("step", "rank 2 calls commit, rank 0 end_step"),
        ("path", "create the same file on all ranks"),
    ],
)
def test_an_error_of_one_rank_is_one_of_all(tmp_path: Path, case: str, expected: str) -> None:
    environment = python_under_mpi(tmp_path, MPI)
    out = tmp_path / "out"
    out.mkdir()
    command = python_program(MPI, 3, PROGRAMS / "wrong.py", case, out / "a.nc")
    done = run(*command, env=environment, ok=False)
    for rank in range(3):
        told = [line for line in done.stdout.splitlines() if line.startswith(f"rank {rank}: ")]
        assert any(expected in line for line in told), done.stdout + done.stderr
    assert names_in(out) == []


def test_an_exception_of_one_rank_ends_the_program_and_leaves_nothing(tmp_path: Path) -> None:
    environment = python_under_mpi(tmp_path, MPI)
    out = tmp_path / "out"
    out.mkdir()
    done = run(*python_program(MPI, 3, PROGRAMS / "wrong.py", "raise", out / "a.nc"), env=environment, ok=False)
    assert done.returncode != 0 and "the program has a mistake" in done.stderr
    assert names_in(out) == []


@pytest.mark.kill
def test_a_killed_rank_leaves_the_old_file_or_the_new_one(tmp_path: Path, chance: random.Random) -> None:
    environment = python_under_mpi(tmp_path, MPI)
    out = tmp_path / "out"
    out.mkdir()
    path = out / "a.nc"
    run(*parts(2, "rows", path), env=environment)
    old = path.read_bytes()
    killed = []
    for number in range(repeated(6)):
        command = [*map(str, parts(2, "columns", path, 0.3))]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "put\n"
        if number % 2:
            assert process.stdout.readline() == "committed\n"
        time.sleep(chance.uniform(0, 0.1))
        ranks = [pid for pid in children(process.pid) if "parts.py" in Path(f"/proc/{pid}/cmdline").read_text()]
        if ranks:
            os.kill(chance.choice(ranks), signal.SIGKILL)
        killed += ranks
        process.communicate(timeout=TIME_LIMIT_S)
        check_parts(path)
    # The next one clears up.
    run(*parts(2, "rows", path), env=environment)
    assert names_in(out) == ["a.nc"] and spools_of(killed) == []
    assert path.read_bytes()[:8] == old[:8]


def test_memory_that_is_full_is_an_error_and_leaves_the_old_file(tmp_path: Path) -> None:
    """Neither the spool nor the directory of the file has room."""
    out = tmp_path / "out"
    out.mkdir()
    code = f"""
import resource, signal
import numpy as np
import knarr
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with knarr.Output({str(out / "a.nc")!r}) as output:
    output.def_dim("x", 1 << 20)
    output.def_var("T", "f8", ["x"])
    output.put("T", np.random.default_rng(1).random(1 << 20))
"""
    done = run(os.environ.get("KNARR_PYTHON", sys.executable), "-c", code, ok=False)
    assert done.returncode != 0 and "OSError" in done.stderr and "a.nc" in done.stderr, done.stderr
    assert names_in(out) == []


def test_a_closed_output_says_what_it_did(tmp_path: Path) -> None:
    output = knarr.Output(tmp_path / "a.nc", jobs=1)
    output.def_dim("x", 100_000)
    output.def_var("T", "f8", ["x"])
    output.put("T", np.arange(100_000.0))
    output.commit()
    with pytest.raises(ValueError, match="the file was committed"):
        output.put("T", np.arange(100_000.0))
    written = output.wait()
    assert output.test()
    assert written.raw_bytes == 800_000 and written.output_bytes == (tmp_path / "a.nc").stat().st_size < 400_000
    assert written.path == tmp_path / "a.nc" and written.seconds > 0 and written.notes == []
    assert output.close() == written
    assert output.close() is None
    with pytest.raises(ValueError, match="closed"):
        output.put("T", np.arange(3.0))
    with pytest.raises(FileExistsError):
        knarr.Output(tmp_path / "a.nc")


def test_an_exception_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), knarr.Output(tmp_path / "a.zarr") as output:
        output.def_dim("x", 10)
        output.def_var("T", "f8", ["x"])
        output.put("T", np.arange(10.0))
        output.commit()
        raise ZeroDivisionError
    assert names_in(tmp_path) == []


def test_wrong_calls_in_c_are_errors_and_write_nothing(tmp_path: Path) -> None:
    options = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    misuse = c_program(tmp_path, Path(__file__).parent / "capi" / "outputs.c", *options)
    done = run(misuse, tmp_path / "a.nc", env={**os.environ, "ASAN_OPTIONS": "detect_leaks=1"}, cwd=tmp_path)
    assert done.stdout == "all errors are errors\n"
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        found = file["T"][...]
    assert found.mask.tolist() == [[True] * 4] + [[False] * 4] * 3
    assert np.array_equal(found[1:], (np.arange(12, dtype="f4") / 3).reshape(3, 4))


def test_wrong_calls_in_fortran_are_errors_and_write_nothing(tmp_path: Path) -> None:
    built = fortran_program(tmp_path, Path(__file__).parent / "capi" / "refused_output.f90")
    assert run(built, cwd=tmp_path).stdout == "refused\n"
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["T"].dimensions == ("y", "x") and np.array_equal(file["T"][...], np.ones((4, 3)))
