"""Route `checkpoint` of `knarr run`: the restart files of a program become sets while it runs, and come back.

Programs are Python scripts that write through h5py, netCDF4 or plain POSIX calls, alone, as several processes or under
mpirun (skipped without it).
"""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from checkpoint_route import (
    CANNOT_BEGIN,
    PATTERN,
    RANKS,
    THREE_STEPS,
    TIME_LIMIT_S,
    content,
    contents,
    files_of,
    name,
    outcome,
    program,
    rule,
)
from conftest import sets_in
from running import MPIRUN, script, until


def test_each_step_becomes_a_set(route):
    ran = route(*THREE_STEPS)
    assert route.steps() == [1, 2, 3]
    for step in (1, 2, 3):
        assert route.restored(step) == contents(step)
        row = outcome(ran, step)
        assert (row["outcome"], row["files"]) == ("packed", RANKS)
        assert row["raw_bytes"] == sum(map(len, contents(step).values()))
        assert row["packed_bytes"] < 0.7 * row["raw_bytes"]
        assert f"{PATTERN}, step {step}" in ran.err
    assert route.files() == contents(1) | contents(2) | contents(3), "originals stay"
    assert ran.result["hdf5_calls_seen"] is False


def test_steps_are_packed_while_the_program_runs(route):
    """The program waits for the set of its first step before it goes on."""
    ran = route(
        *program("""
        write_step(1)
        wait_for_set(1)
        write_step(2)
        """)
    )
    assert route.steps() == [1, 2], ran.err


def test_several_processes_write(route):
    ran = route(
        *program("""
        ranks = []
        for rank in range(4):
            ranks.append(os.fork())
            if ranks[-1] == 0:
                for step in (10, 20):
                    time.sleep(0.05 * rank)
                    write(step, rank)
                os._exit(0)
        for rank in ranks:
            os.waitpid(rank, 0)
        """)
    )
    assert route.steps() == [10, 20], ran.err
    assert route.restored(20) == contents(20)


def test_keys_stand_in_the_table_of_the_route(route):
    config = rule(keep=1).replace('route = "checkpoint"', 'route = "checkpoint"\n\n[file.checkpoint]')
    ran = route(*program("write_step(1)\nwait_for_set(1)\nwrite_step(2)"), config=config)
    assert route.steps() == [2], ran.err


@pytest.mark.skipif(
    shutil.which("mpirun") is None, reason="needs mpirun: run 'make setup' as root, or install openmpi-bin"
)
def test_mpirun_says_how_many_ranks_there_are(route):
    """The ranks' numbers come from the environment that Open MPI gives to processes."""
    ranked = program("for step in (1, 2): write(step, int(os.environ['OMPI_COMM_WORLD_RANK']))")
    launch = [*MPIRUN, "3"]
    ran = route(*launch, *ranked, config=rule(ranks=None))
    assert "ranks 0 to 2 write files, as 'mpirun -n 3' says" in ran.err
    assert route.steps() == [1, 2]
    assert route.restored(2) == contents(2, ranks=3)


HDF5 = """
for step in (1, 2):
    for rank in range(4):
        with h5py.File(f"restart_{step}_{rank}.h5", "w", libver="earliest") as file:
            file.create_dataset("T", data=FIELD + rank, track_times=False)
with h5py.File("history.h5", "w") as file:
    file["T"] = FIELD
"""


@pytest.mark.parametrize("when", ['when = "close"\n', ""])
def test_hdf5_restart_files_are_not_touched(route, when):
    """Another rule matches them too: the first counts."""
    plain = route.run.top / "plain"
    plain.mkdir()
    shutil.copy(route.folder / "field.npy", plain)
    subprocess.run(script(HDF5), cwd=plain, check=True)
    (plain / "history.h5").unlink()
    config = rule("restart_{step}_{rank}.h5") + f'[[file]]\npattern = "*.h5"\n{when}'
    ran = route(*script(HDF5), config=config)
    expected = {path: data for path, data in files_of(plain).items() if "restart" in path}
    assert route.files() == expected
    assert route.restored(1) | route.restored(2) == expected
    assert outcome(ran, 2)["outcome"] == "packed"
    assert [Path(file["output"]).name for file in ran.result["files"]] == ["history.h5"]
    assert "history.h5" in ran.err and "step 2" in ran.err, "one table"


def test_netcdf_files_in_directories_of_their_steps(route):
    """The directory comes later; one file in each step, and no rank in its name."""
    ran = route(
        *script("""
        for step in (5, 10):
            os.makedirs(f"out/chk{step}")
            with netCDF4.Dataset(f"out/chk{step}/restart.nc", "w") as file:
                for name, length in zip("zyx", FIELD.shape):
                    file.createDimension(name, length)
                file.createVariable("T", "f4", ("z", "y", "x"))[:] = FIELD + step
        """),
        config=rule("out/chk{step}/restart.nc", ranks=None),
    )
    assert route.steps() == [5, 10], ran.err
    written = {path.removeprefix("out/"): data for path, data in route.files().items()}
    assert route.restored(5) | route.restored(10) == written
    shutil.rmtree(route.folder / "out")
    again = route("true", config=rule("out/chk{step}/restart.nc", ranks=None), options=("--restart",))
    assert "restart from step 10: 1 of 1 files" in again.err
    assert route.files() == {"out/chk10/restart.nc": written["chk10/restart.nc"]}


def test_each_rule_has_its_steps_and_the_first_that_matches_wins(route):
    config = '[[file]]\npattern = "restart_0002*"\nroute = "file"\n' + rule(sets='"a"', keep=1)
    config += rule("ocean{step}", None, sets=f'"{route.run.top}/b"')
    ran = route(
        *program("""
        for step in (1, 2, 3):
            write_step(step)
            write(step, 0, "ocean{0}")
            time.sleep(1)
        """),
        config=config,
    )
    assert sets_in(route.run.top / "a") == ["step_3"], ran.err
    assert sets_in(route.run.top / "b") == ["step_1", "step_2", "step_3"]
    rows = {(row["pattern"], row["step"]): row["outcome"] for row in ran.result["checkpoints"]}
    assert rows[PATTERN, 1] == "left" and rows[PATTERN, 3] == rows["ocean{step}", 2] == "packed"
    assert (PATTERN, 2) not in rows


def test_originals_go_when_their_set_is_there(route):
    (route.folder / "restart_0001_9.txt").write_text("of another kind")
    ran = route(*THREE_STEPS, config=rule(remove_originals="true"))
    assert list(route.files()) == ["restart_0001_9.txt"], ran.err
    for step in (1, 2, 3):
        assert route.restored(step) == contents(step)
    ran = route("true", config=rule(remove_originals="true"), options=("--restart",))
    (route.folder / "restart_0001_9.txt").unlink()
    assert route.files() == contents(3)


def test_a_full_disk_leaves_originals_and_the_last_set(route):
    """A limit on the size of files, which holds for Knarr and not for the program, stands for the full disk."""
    import resource

    route(*program("write_step(1)"))
    before = files_of(route.sets)
    limit = lambda: (  # noqa: E731
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY)),
    )
    ran = route(
        *program("""
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        write_step(2)
        time.sleep(1)
        sys.exit(7)
        """),
        config=rule(remove_originals="true"),
        preexec_fn=limit,
        restore_signals=False,
        ok=False,
    )
    assert ran.code == 7
    assert "knarr: step 2: " in ran.err
    assert "was not packed" in outcome(ran, 2)["reason"]
    assert files_of(route.sets) == before
    assert route.files() == contents(1) | contents(2)


def test_what_a_crash_cut_short_is_not_packed(route):
    """The last file of step 3 is there, but half of it: looking alone could not tell."""
    ran = route(
        *program("""
        write_step(1)
        write_step(2)
        wait_for_set(2)
        for rank in range(3):
            write(3, rank)
        file = open("restart_0003_3.dat", "wb", buffering=0)
        file.write(content(3, 3)[:1000])
        os.abort()
        """),
        ok=False,
    )
    assert ran.code == 128 + signal.SIGABRT
    assert route.steps() == [1, 2], ran.err
    assert outcome(ran, 3)["outcome"] == "left"
    assert "step 3: " in ran.err
    # The launcher may have looked while the file was open.
    said = ("the program failed", "was killed by signal 6 while it had the file open")
    assert any(words in ran.err for words in said), ran.err
    assert route.restored(2) == contents(2)
    assert len((route.folder / name(3, 3)).read_bytes()) == 1000, "left alone"


def test_missing_ranks_of_a_crash_are_named(route):
    ran = route(*program("write_step(1); wait_for_set(1); write(2, 0); write(2, 3); os.abort()"), ok=False)
    assert route.steps() == [1]
    assert "has no file of ranks 1-2" in outcome(ran, 2)["reason"]
    assert route.files() == contents(1) | {name(2, rank): content(2, rank) for rank in (0, 3)}


def test_ranks_that_went_on_were_done_with_the_step_before(route):
    """Nothing rests before the crash."""
    ran = route(
        *program("write_step(1); time.sleep(0.05); [write(2, rank, part=0.5) for rank in range(4)]; os.abort()"),
        config=rule(settle='"3s"'),
        ok=False,
    )
    assert route.steps() == [1], ran.err
    assert route.restored(1) == contents(1)


CRASH = """
for step in (1, 2, 3):
    for rank in range(4):
        file = h5py.File(f"restart_{step}_{rank}.h5", "w")
        file["T"] = FIELD[0] + rank
        file.flush()
        if (step, rank) == (3, 3):
            os.abort()
        file.close()
"""


def test_hdf5_files_that_were_closed_before_a_crash_are_packed_at_once(route):
    """What the library inside the program tells: no file rested, and every name is there."""
    ran = route(*script(CRASH), config=rule("restart_{step}_{rank}.h5"), ok=False)
    assert route.steps() == [1, 2], ran.err
    assert "its process ended while it was open" in outcome(ran, 3)["reason"]


def test_a_rank_that_dies_leaves_no_whole_step_though_the_program_goes_on(route):
    ran = route(
        *script("""
        if os.fork() == 0:
            import h5py
            for rank in range(4):
                file = h5py.File(f"restart_1_{rank}.h5", "w")
                file["T"] = FIELD[0]
                file.flush()
                if rank < 3:
                    file.close()
            os.kill(os.getpid(), 9)
        os.wait()
        time.sleep(2)
        """),
        config=rule("restart_{step}_{rank}.h5"),
    )
    assert route.steps() == [], ran.err
    assert "its process ended while it was open" in outcome(ran, 1)["reason"]


def test_a_program_that_runs_into_its_time_limit(route):
    process = route.start(*program("write_step(1); print('written', flush=True); time.sleep(100)"))
    assert process.stdout.readline() == "written\n"
    until((route.sets / "step_1/manifest.knarr").exists, "no set is made", of=process)
    process.send_signal(signal.SIGTERM)
    ran = route.run.finish(process)
    assert ran.code == 128 + signal.SIGTERM
    assert route.steps() == [1], ran.err


def test_a_signal_after_the_program_stops_packing(route):
    process = route.start(
        *program("""
        import random
        with open("restart_1_0.dat", "wb") as file:
            for piece in range(60):
                file.write(random.Random(piece).randbytes(1_000_000) if piece % 2 else bytes(3_000_000))
        """),
        config=rule(ranks=1, goal='"archive"'),
        options=("--jobs", 1),
    )
    staged = lambda: any(path.name.startswith(".step_1.") for path in route.sets.glob(".*"))  # noqa: E731
    end = time.monotonic() + TIME_LIMIT_S
    while process.poll() is None and not staged():
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    ran = route.run.finish(process)
    if "packed" not in str(ran.result.get("checkpoints")):
        assert ran.code == 128 + signal.SIGTERM
        assert "was not packed" in outcome(ran, 1)["reason"]
        assert route.steps() == []
    assert (route.folder / "restart_1_0.dat").stat().st_size == 30 * 1_000_000 + 30 * 3_000_000


def test_a_step_that_is_written_again_replaces_its_set(route):
    """Not before all its ranks have written: two runs are never mixed."""
    route(*program("write_step(1)"))
    ran = route(*program("[write(1, rank, part=0.7) for rank in range(3)]"))
    assert "has no file of rank 3" in outcome(ran, 1)["reason"]
    assert route.restored(1) == contents(1)
    ran = route(*program("[write(1, rank, part=0.5) for rank in range(4)]"))
    assert outcome(ran, 1)["outcome"] == "packed"
    half = {name: data[: len(data) // 2] for name, data in contents(1).items()}
    assert route.restored(1) == half == route.files()


def test_a_program_that_goes_back_never_mixes_two_times(route):
    """It writes a step again in the same run, but not all of it."""
    ran = route(
        *program("""
        write_step(1)
        wait_for_set(1)
        [write(1, rank, part=0.5) for rank in range(3)]
        time.sleep(1)
        """)
    )
    assert route.restored(1) == contents(1)
    assert "has no file of rank 3" in outcome(ran, 1)["reason"]


def test_what_was_there_before_is_left_alone_and_told(route):
    subprocess.run(program("write_step(1); write(2, 0)"), cwd=route.folder, check=True)
    ran = route(*program("write_step(3)"), config=rule(remove_originals="true"))
    assert "files of 2 steps (1 to 2) were there before" in ran.err
    assert route.steps() == [3]
    assert route.files() == contents(1) | {name(2, 0): content(2, 0)}
    command = re.search(r"'knarr (checkpoint watch .* --once)' packs", ran.err)[1]
    route.knarr(*shlex.split(command), ok=False)
    assert route.steps() == [1, 3] and route.restored(1) == contents(1)
    assert "were there before" not in route(*program("write_step(3)"), options=("--quiet",)).err


def test_nothing_is_written(route):
    ran = route("true")
    assert outcome(ran, None)["reason"] == f"no file of it was written in {route.folder}"
    assert "no file of it was written" in ran.err


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (rule("restart_*.dat"), ("[[file]] pattern 'restart_*.dat'", "where the time step stands")),
        (rule("restart_{rank}.dat"), ("where the time step stands",)),
        (rule(ranks=None), ("how many ranks", "ranks = 64")),
        (rule("restart_{step}.dat"), ("without {rank}",)),
        (rule("../r{step}_{rank}"), ("holds '..'", "line 2")),
        (rule(ranks=0), ("names no ranks", "line 4")),
        (rule(keep=0), ("line 6", "nonzero")),
        (rule(settle='"soon"'), ("line 5", "soon")),
        (rule(remove_original="true"), ("line 6", "remove_original", "remove_originals")),
        (rule(when='"close"'), ("line 6", "packs every byte into sets", "'when' is for route \"compress\"")),
        (rule() + rule("r{step}", None), ("the same directory for sets",)),
        ('[[file]]\npattern = "a"\nkeep = 2\n', ("keep", 'route "checkpoint"')),
        ('[[file]]\npattern = "a{step}"\n', ("{step} and {rank} are for",)),
    ],
)
def test_rules_that_cannot_be_served_stop_before_the_program_starts(route, config, words):
    ran = route("touch", "started", config=config, ok=False)
    assert ran.code == CANNOT_BEGIN
    for word in (*words, "the program was not started"):
        assert word in ran.err
    assert not (route.folder / "started").exists()


def test_a_directory_of_sets_has_one_run(route):
    process = route.start(*program("print('runs', flush=True); time.sleep(60)"))
    assert process.stdout.readline() == "runs\n"
    (route.run.top / "other").mkdir()
    done = subprocess.run(
        [route.run.program, "run", "-c", route.run.top / "knarr.toml", "true"],
        capture_output=True,
        text=True,
        cwd=route.folder,
    )
    assert done.returncode == CANNOT_BEGIN
    assert "another watch writes its sets there" in done.stderr and "knarr run -- mpirun" in done.stderr
    process.send_signal(signal.SIGTERM)
    route.run.finish(process)
