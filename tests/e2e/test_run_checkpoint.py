"""Route `checkpoint` of `knarr run`: the restart files of a program become sets while it runs, and come back.

Programs are Python scripts that write through h5py, netCDF4 or plain POSIX calls, alone, as several processes or under
mpirun (skipped without it).
"""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from running import Ran, script

CANNOT_BEGIN = 125
TIME_LIMIT_S = 120
RANKS = 4
PATTERN = "restart_{step}_{rank}.dat"


def rule(pattern: str = PATTERN, ranks: int | None = RANKS, **keys: object) -> str:
    """A rule of route checkpoint."""
    keys = {"ranks": ranks, "settle": '"300ms"', **keys}
    lines = [f"{key} = {value}" for key, value in keys.items() if value is not None]
    return "\n".join(["[[file]]", f'pattern = "{pattern}"', 'route = "checkpoint"', *lines]) + "\n"


# What `content(step, rank)` gives is in every program, and here.
CONTENT = """
def content(step, rank, size=30_000):
    import random
    return random.Random(1000 * step + rank).randbytes(size) + bytes(size) + b"%d %d" % (step, rank)

def write(step, rank, name="restart_{:04}_{}.dat", part=1.0):
    data = content(step, rank)
    with open(name.format(step, rank), "wb") as file:
        file.write(data[: int(part * len(data))])

def write_step(step, ranks=4):
    for rank in range(ranks):
        write(step, rank)

def wait_for_set(step):
    import os, time
    end = time.time() + 100
    while not os.path.exists(f"../sets/step_{step}/manifest.knarr"):
        assert time.time() < end
        time.sleep(0.02)
"""
exec(CONTENT)


def program(text: str) -> list[str]:
    """A Python program that can `write(step, rank)`."""
    command = script(text)
    return [*command[:2], CONTENT + command[2]]


def name(step: int, rank: int) -> str:
    return f"restart_{step:04}_{rank}.dat"


def contents(step: int, ranks: int = RANKS) -> dict[str, bytes]:
    return {name(step, rank): content(step, rank) for rank in range(ranks)}  # noqa: F821


class Route:
    """Runs programs, and looks at the sets and files they leave."""

    def __init__(self, run, knarr):
        self.run, self.knarr = run, knarr
        self.folder: Path = run.folder
        self.sets: Path = run.top / "sets"

    def __call__(self, *command: object, config: str | None = None, **how: object) -> Ran:
        return self.run(*command, config=config or rule(), **how)

    def start(self, *command: object, config: str | None = None, **how: object) -> subprocess.Popen[str]:
        return self.run.start(*command, config=config or rule(), **how)

    def steps(self) -> list[int]:
        """Steps that have a set; nothing else may be there."""
        names = [path.name for path in self.sets.iterdir()] if self.sets.exists() else []
        assert all(name.startswith("step_") for name in names), names
        return sorted(int(name.removeprefix("step_")) for name in names)

    def restored(self, step: int) -> dict[str, bytes]:
        target = self.run.top / f"restored-{time.monotonic_ns()}"
        self.knarr("checkpoint", "restore", self.sets / f"step_{step}", "-d", target)
        return files_of(target)

    def files(self) -> dict[str, bytes]:
        """The restart files that the program left."""
        found = files_of(self.folder)
        return {path: data for path, data in found.items() if "restart" in path}

    def damage(self, step: int) -> None:
        """Turns bytes of all frames of a set."""
        for store in (self.sets / f"step_{step}").iterdir():
            if not store.name.startswith("manifest"):
                data = bytearray(store.read_bytes())
                for at in range(30, len(data), 50):
                    data[at] ^= 0xFF
                # Sets share files: this one gets its own.
                store.unlink()
                store.write_bytes(data)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def outcome(ran: Ran, step: int | None) -> dict:
    found = [row for row in ran.result["checkpoints"] if row["step"] == step]
    assert len(found) == 1, ran.result
    return found[0]


@pytest.fixture
def route(run, knarr) -> Route:
    return Route(run, knarr)


THREE_STEPS = program("for step in (1, 2, 3): write_step(step)")


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


@pytest.mark.skipif(
    shutil.which("mpirun") is None, reason="needs mpirun: run 'make setup' as root, or install openmpi-bin"
)
def test_mpirun_says_how_many_ranks_there_are(route):
    """The ranks' numbers come from the environment that Open MPI gives to processes."""
    ranked = program("for step in (1, 2): write(step, int(os.environ['OMPI_COMM_WORLD_RANK']))")
    launch = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3"]
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


@pytest.mark.parametrize("when", ["close", "write"])
def test_hdf5_restart_files_are_not_touched(route, when):
    """Another rule matches them too: the first counts."""
    plain = route.run.top / "plain"
    plain.mkdir()
    shutil.copy(route.folder / "field.npy", plain)
    subprocess.run(script(HDF5), cwd=plain, check=True)
    (plain / "history.h5").unlink()
    config = rule("restart_{step}_{rank}.h5") + f'[[file]]\npattern = "*.h5"\nwhen = "{when}"\n'
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
    assert sorted(os.listdir(route.run.top / "a")) == ["step_3"], ran.err
    assert sorted(os.listdir(route.run.top / "b")) == ["step_1", "step_2", "step_3"]
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
        time.sleep(1)
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
    assert "step 3: " in ran.err and "the program failed" in ran.err
    assert route.restored(2) == contents(2)
    assert len((route.folder / name(3, 3)).read_bytes()) == 1000, "left alone"


def test_missing_ranks_of_a_crash_are_named(route):
    ran = route(*program("write_step(1); time.sleep(1); write(2, 0); write(2, 3); os.abort()"), ok=False)
    assert route.steps() == [1]
    assert "has no file of ranks 1-2" in outcome(ran, 2)["reason"]
    assert route.files() == contents(1) | {name(2, rank): content(2, rank) for rank in (0, 3)}  # noqa: F821


def test_ranks_that_went_on_were_done_with_the_step_before(route):
    """Nothing rests before the crash."""
    ran = route(
        *program("write_step(1); time.sleep(0.05); [write(2, rank, part=0.5) for rank in range(4)]; os.abort()"),
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
    time.sleep(1)
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
    assert route.files() == contents(1) | {name(2, 0): content(2, 0)}  # noqa: F821
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
        (rule(when='"write"'), ("'when' and 'portable'",)),
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


# Restarts


def restart(route: Route, *command: object, force: bool = False, **how: object) -> Ran:
    options = ("--restart", "--force") if force else ("--restart",)
    return route(*(command or ("true",)), options=options, **how)


def test_restart_without_a_set_begins_anew(route):
    ran = restart(route, *program("write_step(1); sys.exit(3)"), ok=False)
    assert ran.code == 3
    assert f"no set is in {route.sets} yet: the program starts from its beginning" in ran.err


def test_restart_needs_a_rule(route):
    ran = restart(route, config='[[file]]\npattern = "*"\n', ok=False)
    assert ran.code == CANNOT_BEGIN and 'no rule has route "checkpoint"' in ran.err


def test_restart_brings_the_newest_set_back(route):
    route(*THREE_STEPS)
    for path in route.folder.glob("restart*"):
        path.unlink()
    ran = restart(route, *program("print(sorted(name for name in os.listdir() if 'restart' in name))"))
    assert ran.out == f"{sorted(contents(3))}\n", "they are there when the program starts"
    assert "restart from step 3: 4 of 4 files" in ran.err
    assert route.files() == contents(3)
    assert not list(route.folder.glob(".*"))
    # Files that are there stay as they are; what is missing comes.
    (route.folder / name(3, 1)).unlink()
    before = (route.folder / name(3, 0)).stat()
    ran = restart(route)
    assert "ranks write now" not in ran.err
    assert "1 of 4 files were brought back" in ran.err and "3 were there" in ran.err
    assert (route.folder / name(3, 0)).stat().st_mtime_ns == before.st_mtime_ns
    assert route.files() == contents(3)
    assert route.steps() == [1, 2, 3], "what was brought back is not packed again"
    assert "has 4 files, and 8 ranks write now" in restart(route, config=rule(ranks=8)).err


def test_restart_after_a_crash_with_an_incomplete_step(route):
    crash = program("write_step(1); write_step(2); time.sleep(1); write(3, 0); write(3, 2, part=0.3); os.abort()")
    route(*crash, ok=False)
    left = route.files()
    ran = restart(route, *program("write_step(3)"))
    assert "restart from step 2: 0 of 4 files were brought back" in ran.err
    assert "files of step 3 were there before" in ran.err
    assert route.steps() == [1, 2, 3]
    assert route.restored(3) == contents(3)
    assert len(left[name(3, 2)]) < len(content(3, 2))  # noqa: F821


def test_restart_passes_over_a_damaged_set(route):
    route(*THREE_STEPS)
    for path in route.folder.glob("restart*"):
        path.unlink()
    route.damage(3)
    ran = restart(route)
    assert "step_3" in ran.err and "an earlier set is taken instead" in ran.err
    assert "restart from step 2" in ran.err
    assert route.files() == contents(2), "nothing of the damaged set is left"
    assert not list(route.folder.glob(".*"))
    for manifest in (route.sets / "step_2").glob("manifest*"):
        manifest.write_bytes(b"KNARR?")
    (route.folder / name(2, 0)).unlink()
    assert "restart from step 1" in restart(route).err
    # The program writes the step again, and its set is mended.
    ran = route(*program("write_step(3)"))
    assert route.restored(3) == contents(3)
    assert "restart from step 3" in restart(route).err


def test_restart_without_a_whole_set_is_an_error(route):
    route(*program("write_step(1)"))
    for path in route.folder.glob("restart*"):
        path.unlink()
    route.damage(1)
    ran = restart(route, "touch", "started", ok=False)
    assert ran.code == CANNOT_BEGIN
    assert "no set is whole" in ran.err and "leave --restart out" in ran.err
    assert not (route.folder / "started").exists() and route.files() == {}


def test_restart_replaces_no_other_file_unless_forced(route):
    route(*THREE_STEPS)
    (route.folder / name(3, 2)).write_bytes(b"edited")
    (route.folder / name(3, 3)).unlink()
    files = route.files()
    ran = restart(route, "touch", "started", ok=False)
    assert ran.code == CANNOT_BEGIN
    assert name(3, 2) in ran.err and "--force" in ran.err
    assert not (route.folder / "started").exists()
    assert route.files() == files, "all or nothing"
    restart(route, force=True)
    assert route.files() == contents(1) | contents(2) | contents(3)


def test_restart_takes_no_set_of_other_files(route):
    route(*program("write_step(1)"))
    ran = restart(route, config=rule("other_{step}_{rank}"), ok=False)
    assert ran.code == CANNOT_BEGIN
    assert "does not name for step 1" in ran.err


# Kills

MODEL = """
try:
    begin = 1 + int(open("begin").read())
except FileNotFoundError:
    begin = 1
for step in range(begin, begin + 3):
    write_step(step)
    time.sleep(0.15)
"""


def test_kills_of_the_launcher_lose_no_set_and_no_file(route):
    """Killed at any moment, also while sets replace others and originals are removed."""
    kills, chance = 0, random.Random(5)
    whole: set[int] = set()
    last = 0
    while kills < 55:
        begin = chance.choice([last, max(last - 2, 0)])
        (route.folder / "begin").write_text(str(begin))
        removes = chance.random() < 0.5
        config = rule(settle='"50ms"', remove_originals=str(removes).lower())
        process = route.start(*program(MODEL), config=config, start_new_session=True)
        time.sleep(chance.uniform(0.05, 1.4))
        process.kill()
        kills += process.wait() != 0
        group_ends(process.pid)
        process.communicate()
        for leftover in route.run.top.glob("knarr-run-*"):
            shutil.rmtree(leftover)
        steps = {int(path.name[5:]) for path in route.sets.glob("step_*")}
        assert whole <= steps, "a set is gone"
        whole = steps
        files = route.files()
        for step in range(begin + 1, begin + 4):
            if step not in steps:
                # The program was not killed: what it wrote is there and whole.
                assert all(files[path] == data for path, data in contents(step).items() if path in files)
            elif chance.random() < 0.3 or step == max(steps):
                assert route.restored(step) == contents(step)
        last = begin + 3
    newest = int(re.search(r"restart from step (\d+)", restart(route).err)[1])
    assert newest in whole
    assert all(route.files()[path] == data for path, data in contents(newest).items())
    left = [path.name for path in route.sets.iterdir() if not path.name.startswith("step_")]
    assert not left, "the next run removes what killed ones left"


def group_ends(group: int) -> None:
    """Waits until the program, whose launcher is gone, has ended: it is not stopped by that."""
    end = time.monotonic() + TIME_LIMIT_S
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    raise AssertionError("the program does not end")


def test_kills_of_a_restart_leave_whole_files(route):
    route(*program("write_step(1)"))
    chance = random.Random(6)
    for _ in range(25):
        for path in route.folder.glob("restart*"):
            if chance.random() < 0.8:
                path.unlink()
        process = route.start("true", options=("--restart",))
        time.sleep(chance.uniform(0, 0.1))
        process.kill()
        process.communicate()
        assert all(contents(1)[path] == data for path, data in route.files().items() if "/" not in path)
        for leftover in route.run.top.glob("knarr-run-*"):
            shutil.rmtree(leftover)
    restart(route)
    assert route.files() == contents(1)
    assert not list(route.folder.glob(".*"))
