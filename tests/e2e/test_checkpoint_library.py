"""Programs in C and Fortran that make checkpoints and restart: alone, under Open MPI and MPICH, and killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import knarr
from chances import repeated
from conftest import Knarr, sets_in, unmount
from test_capi import EXAMPLES, MODULE, PREFIX, c_program, flags, fortran_program, need, run

ROWS, COLUMNS = 120, 80
TIME_LIMIT_S = 900
MPIS = {
    "openmpi": ("mpirun.openmpi", "--oversubscribe", "--bind-to", "none"),
    "mpich": ("mpirun.mpich",),
}


def heat(steps: int) -> np.ndarray:
    """What the examples compute."""
    band = np.zeros((ROWS + 2, COLUMNS))
    band[1:-1] = np.sin(0.05 * np.arange(ROWS))[:, None] * np.cos(0.1 * np.arange(COLUMNS))
    for _ in range(steps):
        around = band[:-2, 1:-1] + band[2:, 1:-1] + band[1:-1, :-2] + band[1:-1, 2:]
        band[1:-1, 1:-1] += 0.2 * (around - 4 * band[1:-1, 1:-1])
    return band[1:-1]


def stored(sets: Path, verify: bool = False) -> tuple[int, np.ndarray]:
    with knarr.Checkpoint(sets) as checkpoint:
        restart = checkpoint.restart(verify=verify)
        return restart.step, restart.read("T")


def mpi(name: str, size: int) -> list[str]:
    return [*MPIS[name], "-n", str(size)]


C_HEAT, FORTRAN_HEAT = EXAMPLES / "c" / "heat.c", EXAMPLES / "fortran" / "heat.F90"


def example(folder: Path, source: Path, name: str | None) -> Path:
    """The program of an example, for one process or an MPI."""
    if name is None:
        return c_program(folder, source) if source.suffix == ".c" else fortran_program(folder, source)
    program, include = folder / f"{source.stem}{source.suffix}-{name}", PREFIX / "include"
    need(f"mpicc.{name}", f"lib{name}-dev")
    if source.suffix == ".c":
        options = ["-std=c11", "-O1", "-DUSE_MPI", *flags("--cflags")]
        run(f"mpicc.{name}", *options, source, include / "knarr_mpi.c", "-o", program, *flags("--libs"), "-lm")
        return program
    need(f"mpifort.{name}", f"lib{name}-dev")
    run(f"mpicc.{name}", "-c", include / "knarr_mpi.c", cwd=folder)
    sources = [MODULE, include / "knarr_mpi.f90", source, folder / "knarr_mpi.o"]
    run(f"mpifort.{name}", "-DUSE_MPI", *sources, "-o", program, *flags("--libs"), cwd=folder)
    return program


def test_programs_go_on_from_each_others_checkpoints(tmp_path: Path) -> None:
    """C, then Python, then Fortran, whose planes are turned round: its first dimension is the last of the others."""
    sets = tmp_path / "sets"
    program = example(tmp_path, C_HEAT, None)
    assert "from step" not in run(program, sets, 25).stdout
    step, found = stored(sets, verify=True)
    assert step == 20 and np.allclose(found, heat(20), rtol=1e-13, atol=1e-300)
    assert sets_in(sets) == ["step_10", "step_20"]
    assert "from step 20 of 1 ranks" in run(program, sets, 30).stdout
    python = run(os.environ.get("KNARR_PYTHON", sys.executable), EXAMPLES / "python" / "heat.py", sets, 45)
    assert "from step 30 of 1 ranks" in python.stdout
    fortran = fortran_program(tmp_path, FORTRAN_HEAT)
    assert "from step 40 of 1 ranks" in run(fortran, sets, 60).stdout
    step, found = stored(sets, verify=True)
    assert step == 60 and np.allclose(found, heat(60), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("name", MPIS)
@pytest.mark.parametrize("language", ["c", "fortran"])
def test_any_number_of_ranks_goes_on(tmp_path: Path, name: str, language: str) -> None:
    need(MPIS[name][0], f"{name}-bin" if name == "openmpi" else name)
    program = example(tmp_path, C_HEAT if language == "c" else FORTRAN_HEAT, name)
    sets, before, steps = tmp_path / "sets", 0, 0
    for ranks in (2, 8, 1, 3):
        steps += 20
        done = run(*mpi(name, ranks), program, sets, steps)
        assert done.stdout.count(f"from step {steps - 20} of {before} ranks") == (ranks if before else 0), done.stdout
        before = ranks
        step, found = stored(sets, verify=True)
        assert step == steps and np.allclose(found, heat(steps), rtol=1e-12, atol=1e-300)


def python_under_mpi(tmp_path: Path, name: str) -> dict[str, str]:
    """The environment in which mpi4py uses this MPI."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    need(MPIS[name][0], name)
    environment = {**os.environ, "MPI4PY_MPIABI": name}
    if name == "mpich":
        # Debian's name of this library is not the one that MPICH and mpi4py give it.
        library = next(Path("/usr/lib").glob("*/libmpich.so.12"), None)
        if library is not None:
            (tmp_path / "libmpi.so.12").symlink_to(library)
            environment["LD_LIBRARY_PATH"] = str(tmp_path)
    return environment


def python_program(name: str, ranks: int, *program: object) -> list[object]:
    return [*mpi(name, ranks), os.environ.get("KNARR_PYTHON", sys.executable), "-m", "mpi4py", *program]


@pytest.mark.parametrize("name", MPIS)
def test_python_programs_go_on_under_mpi(tmp_path: Path, name: str) -> None:
    environment = python_under_mpi(tmp_path, name)
    sets = tmp_path / "sets"
    for number, ranks in enumerate((3, 2)):
        program = python_program(name, ranks, EXAMPLES / "python" / "heat.py", sets)
        done = run(*program, 20 * (number + 1), "--mpi", env=environment)
        assert done.stdout.count("from step 20 of 3 ranks") == (2 if number else 0)
    step, found = stored(sets, verify=True)
    assert step == 40 and np.allclose(found, heat(40), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("name", MPIS)
def test_communicators_of_mpi4py_do_what_they_must(tmp_path: Path, name: str) -> None:
    """And messages of the program and of Knarr do not meet."""
    environment = python_under_mpi(tmp_path, name)
    for ranks in (2, 3):
        program = python_program(name, ranks, Path(__file__).with_name("ranks.py"), tmp_path / f"sets-{ranks}")
        assert run(*program, env=environment).stdout.count("all is well") == ranks


@pytest.mark.parametrize("kind", ["shared", "static"])
def test_files_of_the_programs_own_hdf5(tmp_path: Path, kind: str) -> None:
    """The shared library finds their variables with an HDF5 of its own; the static one has none that could be met."""
    need("h5cc", "libhdf5-dev")
    program, sets, file = tmp_path / "files", tmp_path / "sets", tmp_path / "restart.h5"
    static = [PREFIX / "lib" / "libknarr.a", "-lpthread", "-ldl", "-lm"]
    libraries = flags("--libs") if kind == "shared" else static
    source = Path(__file__).parent / "capi" / "files.c"
    run("h5cc", "-shlib", source, "-o", program, *flags("--cflags")[:-1], *libraries, cwd=tmp_path)
    told = run(program, sets, file, tmp_path / "other.h5").stdout
    assert told.startswith("HDF5 "), told
    for step in (1, 2, 3):
        info = Knarr().json("checkpoint", "info", sets / f"step_{step}")
        [added] = [rank for rank in info["ranks"] if rank["name"] == "rank-00000000/restart.h5"]
        found = {variable["path"]: (variable["type"], variable["shape"]) for variable in added["variables"]}
        wanted = {"/whole": ("f64", [400, 300]), "/chunks": ("f64", [400, 300])}
        assert found == (wanted if kind == "shared" else {})
        assert added["format"] == ("HDF5" if kind == "shared" else "unknown")
    with knarr.Checkpoint(sets) as checkpoint:
        checkpoint.restart(verify=True).restore_files(tmp_path / "back")
    assert (tmp_path / "back" / "restart.h5").read_bytes() == file.read_bytes()


def check_after_kill(sets: Path, before: int) -> int:
    """The newest set is whole and not older than what was there before."""
    if not any(path.name.startswith("step_") for path in sets.glob("*")):
        assert before == 0
        return 0
    step, found = stored(sets, verify=True)
    assert step >= before and np.allclose(found, heat(step), rtol=1e-10, atol=1e-300)
    return step


@pytest.mark.kill
def test_a_killed_program_leaves_its_last_checkpoint(tmp_path: Path, chance: random.Random) -> None:
    program, sets = example(tmp_path, C_HEAT, None), tmp_path / "sets"
    step, killed = 0, []
    for _ in range(repeated(30)):
        process = subprocess.Popen([program, sets, "1000000"], stdout=subprocess.DEVNULL)
        # On a busy machine the first checkpoint takes a while.
        time.sleep(chance.uniform(0.01, 0.4) * (1 if step else 1 + len(killed)))
        process.send_signal(signal.SIGKILL)
        assert process.wait(TIME_LIMIT_S) == -signal.SIGKILL
        killed.append(process.pid)
        step = check_after_kill(sets, step)
    assert step > 0
    last = run(program, sets, step + 10)
    assert f"from step {step} of" in last.stdout
    assert check_after_kill(sets, step) == step + 10
    # What killed programs left behind is gone: half written sets, and arrays in memory.
    assert all(name.startswith("step_") for name in sets_in(sets))
    spools = Path("/dev/shm").glob(".knarr-spool.knarr-*")
    assert not [path for path in spools if int(path.name.split("-")[-3], 16) in killed]


@pytest.mark.kill
@pytest.mark.parametrize("name", MPIS)
def test_a_killed_rank_leaves_the_last_checkpoint(tmp_path: Path, name: str, chance: random.Random) -> None:
    need(MPIS[name][0], name)
    program, sets = example(tmp_path, C_HEAT, name), tmp_path / "sets"
    step = 0
    for _ in range(repeated(5)):
        process = subprocess.Popen(
            [*mpi(name, 3), program, sets, "1000000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(chance.uniform(0.5, 2))
        ranks = [pid for pid in children(process.pid) if is_running(pid, program)]
        if ranks:
            os.kill(chance.choice(ranks), signal.SIGKILL)
        else:
            process.terminate()
        assert process.wait(TIME_LIMIT_S) != 0
        step = check_after_kill(sets, step)
    done = run(*mpi(name, 2), program, sets, step + 10)
    assert step == 0 or done.stdout.count(f"from step {step} of 3 ranks") == 2
    assert check_after_kill(sets, step) == step + 10


def children(pid: int) -> list[int]:
    """All processes below ``pid``."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue
    found = [pid]
    for parent in found:
        found += [child for child, its in parents.items() if its == parent]
    return found[1:]


def is_running(pid: int, program: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/exe").resolve() == program.resolve()
    except OSError:
        return False


def test_addresses_and_undefined_behaviour_are_clean(tmp_path: Path) -> None:
    options = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    program = c_program(tmp_path, EXAMPLES / "c" / "heat.c", *options)
    for steps in (20, 40):
        run(program, tmp_path / "sets", steps, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=1"})
    misuse = c_program(tmp_path, Path(__file__).parent / "capi" / "checkpoints.c", *options)
    run(misuse, tmp_path / "misused", env={**os.environ, "ASAN_OPTIONS": "detect_leaks=1"})


def test_a_step_that_lacks_an_array_is_not_committed_from_fortran(tmp_path: Path) -> None:
    program = fortran_program(tmp_path, Path(__file__).parent / "capi" / "refused.f90")
    assert run(program, cwd=tmp_path).stdout == "refused\n"


def test_complex_numbers_and_logicals_of_fortran_come_back(tmp_path: Path) -> None:
    program = fortran_program(tmp_path, Path(__file__).parent / "capi" / "complex.f90")
    assert run(program, cwd=tmp_path).stdout == "all come back\n"


def test_valgrind_finds_nothing(tmp_path: Path) -> None:
    need("valgrind", "valgrind")
    program = c_program(tmp_path, EXAMPLES / "c" / "heat.c")
    loader = Path(__file__).parent / "capi" / "loader.supp"
    valgrind = ["valgrind", "--error-exitcode=9", "-q", f"--suppressions={loader}"]
    run(*valgrind, program, tmp_path / "sets", 20)
    run(*valgrind, program, tmp_path / "sets", 30)


def test_no_room_is_an_error(tmp_path: Path) -> None:
    """Arrays that memory has no room for, and sets that the disk has none for, end no program."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small file system needs root")
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", small], check=False).returncode != 0:
        pytest.skip("file systems cannot be mounted here")
    try:
        noise = np.random.default_rng(1).normal(size=400_000)
        with knarr.Checkpoint(tmp_path / "sets", spool=small) as checkpoint:
            checkpoint.begin(1)
            with pytest.raises(OSError, match="name another directory"):
                checkpoint.put("noise", noise)
            with pytest.raises(OSError, match="name another directory"):
                checkpoint.commit()
            checkpoint.begin(2)
            checkpoint.put("little", noise[:100])
            checkpoint.commit()
        with knarr.Checkpoint(small) as checkpoint:
            checkpoint.begin(1)
            checkpoint.put("noise", noise[:100])
            checkpoint.commit()
            checkpoint.begin(2)
            checkpoint.put("noise", noise)
            checkpoint.commit()
            with pytest.raises(OSError, match="free space"):
                checkpoint.wait()
            assert checkpoint.restart().step == 1
        assert sets_in(small) == ["step_1"]
    finally:
        unmount(small)
