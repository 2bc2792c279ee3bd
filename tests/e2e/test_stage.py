"""Route `stage`: files are made in a fast tier, and move to their place while the program goes on.

The slow tiers here are directories that are made slower: see `emulate` in docs/run.md.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from conftest import REPOSITORY, may_mount, unmount
from crashing import workers
from running import (  # noqa: F401  a fixture
    FIELD,
    MPIRUN,
    SHARED_MEMORY,
    TIME_LIMIT_S,
    Runner,
    forget,
    no_spools_stay,
    nothing_moves,
    script,
    until,
    with_signal,
)
from test_parallel_hdf5 import compiled

RANKS, STEPS, ROWS = 2, 3, 128
FILES, NUMBERS = 3, 1_000_000
# Files of which nothing gets smaller: their sizes say how long they take.
NOISE = f"""
for number in range({FILES}):
    with h5py.File(f"a{{number}}.h5", "w") as file:
        file["T"] = np.random.default_rng(number).standard_normal({NUMBERS}).astype("f4")
"""
BUSY = f"""
import multiprocessing

def compute(end):
    # Above what is encoded in the background, and below the other tests.
    os.nice(10)
    while time.time() < end and not os.path.exists("enough"):
        sum(range(10000))

end = time.time() + 100
processes = [multiprocessing.Process(target=compute, args=(end,)) for _ in range(2 * {os.cpu_count()})]
[process.start() for process in processes]
"""
hdf5 = compiled("hdf5")


def tiers(capacity: str = "64M", rate: str = "40MB/s", more: str = "", pattern: str = "*.*") -> str:
    return f"""
[[tier]]
name = "ram"
path = "/dev/shm"
[[tier]]
name = "fast"
path = "fast"
capacity = "{capacity}"
[[tier]]
name = "slow"
path = "work"
emulate = {{ rate = "{rate}", shared = true }}
[[file]]
pattern = "{pattern}"
route = "stage"
{more}"""


@pytest.fixture
def fast(run: Runner) -> Iterator[Path]:
    """The tier in which files wait. Nothing stays there."""
    yield run.top / "fast"
    left = [path for path in (run.top / "fast").rglob("*") if not path.name.startswith(".nfs")]
    assert not left, f"stays in the tier: {left}"
    assert not run.scratch.exists(), list(run.scratch.iterdir())


def contents(number: int) -> np.ndarray:
    return np.random.default_rng(number).standard_normal(NUMBERS).astype("f4")


def are_whole(folder: Path) -> None:
    for number in range(FILES):
        with h5py.File(folder / f"a{number}.h5") as file:
            np.testing.assert_array_equal(file["T"][...], contents(number))


def staged_files(fast: Path) -> list[Path]:
    """Directories of files that wait there, known from what survives a restart of the machine."""
    return sorted(path.parent for path in fast.glob("knarr-spool-*/*/handed-over.json"))


@pytest.mark.parametrize("kind", ["pnetcdf", "parallel hdf5", "serial hdf5"])
@pytest.mark.parametrize("capacity", ["64M", "1M"])
def test_a_staged_file_has_the_bytes_of_one_that_is_compressed(run, fast, request, kind, capacity):
    """Also if the tier has no room for it."""
    program = {
        "pnetcdf": lambda: [*MPIRUN, RANKS, request.getfixturevalue("blocks"), "hist.nc", STEPS, ROWS],
        "parallel hdf5": lambda: [*MPIRUN, RANKS, request.getfixturevalue("hdf5"), "hist.nc", STEPS, ROWS],
        "serial hdf5": lambda: script('with h5py.File("hist.nc", "w") as file:\n    file["T"] = FIELD.repeat(9, 0)\n'),
    }[kind]()
    made = []
    for config in ('[[file]]\npattern = "*.*"\n', tiers(capacity, more='goal = "balanced"\n')):
        ran = run(*program, config=config)
        assert ran.file("hist.nc")["outcome"] == "packed", ran.err
        made.append((run.folder / "hist.nc").read_bytes())
        shutil.rmtree(run.folder / "hist.nc.knarr.json", ignore_errors=True)
        for path in run.folder.glob("hist.nc*"):
            path.unlink()
    assert made[0] == made[1]
    assert (ran.result["longest_until"]["local_s"] is not None) == (capacity == "64M"), ran.result


@pytest.mark.parametrize(
    ("objective", "level"),
    [('"size"', "ratio"), ("{ ratio = 1.0 }", "ratio"), ("{ encode = 1.0 }", "speed")],
)
def test_the_objective_says_how_well_files_are_encoded(run, fast, objective, level):
    program = """
for number in range(3):
    with h5py.File(f"a{number}.h5", "w") as file:
        for name in "TUV":
            file[name] = FIELD[0] * (1 + number)
"""
    ran = run(*script(program), config=tiers(more=f"objective = {objective}\n"))
    forecasts = ran.result["forecasts"]
    assert forecasts["levels"] == {level: 3} and forecasts["variables"] == 9, ran.err
    assert 0 <= forecasts["ratio_error"] < 0.5 and forecasts["ratio_r_squared"] <= 1, forecasts
    assert f"3 files at level '{level}'" in ran.err
    for number in range(3):
        with h5py.File(run.folder / f"a{number}.h5") as file:
            np.testing.assert_array_equal(file["U"][...], FIELD[0] * (1 + number))


def test_a_goal_says_it_in_place_of_the_objective(run, fast):
    ran = run(*script(NOISE), config=tiers(more='goal = "speed"\n'))
    assert "objective" not in ran.err
    assert ran.result["forecasts"] is None and "at level" not in ran.err
    are_whole(run.folder)


def test_a_program_that_computes_on_all_cores_does_not_keep_files_from_moving(run, fast):
    """Whatever is encoded gets a core only if the program leaves one, unless the tiers would be full."""
    busy = BUSY + NOISE.replace("range(3)", "range(2)")
    looks = """
while not os.path.exists("a0.h5") and time.time() < end:
    time.sleep(0.01)
print(os.path.exists("a0.h5") and time.time() < end)
open("enough", "w")
[process.join() for process in processes]
"""
    ran = run(
        *script(busy + looks),
        config=tiers(capacity="6M", rate="100MB/s").replace('"/dev/shm"', '"/dev/shm"\ncapacity = "6M"'),
    )
    assert ran.out.split() == ["True"], ran.err


# Little is encoded meanwhile.
STARVING = BUSY.replace("os.nice(10)", "os.nice(5)") + NOISE + 'open("written", "w")\n'


def stopped(process: subprocess.Popen[str]) -> list[int]:
    """Stops the processes that encode files for a launcher."""
    encoders = list(workers(process.pid))
    for encoder in encoders:
        with_signal(encoder, signal.SIGSTOP)
    return encoders


@pytest.mark.parametrize(
    ("lost", "capacity"), [("nothing", "64M"), ("nothing", "18M"), ("launcher", "64M"), ("node", "64M")]
)
def test_values_leave_memory_in_time_though_they_are_not_encoded(run, knarr, fast, lost, capacity):
    """Where the tier has room for them and not for the encoded file, too, that is made in its place."""
    config = tiers(capacity, rate="20MB/s" if lost == "nothing" else "200kB/s", more='local_within = "2s"\n')
    process = run.start(*script(STARVING + "while not os.path.exists('go'): time.sleep(0.1)\n"), config=config)
    in_tier = lambda: [place for place in staged_files(fast) if (place / "values.0").exists()]  # noqa: E731
    until(lambda: stopped(process) and len(in_tier()) == FILES, "values stay in memory", of=process)
    encoders = stopped(process)
    if lost == "nothing":
        for encoder in encoders:
            with_signal(encoder, signal.SIGCONT)
        (run.folder / "enough").touch()
        # All room is given back when the files are in their places.
        until(lambda: (run.folder / f"a{FILES - 1}.h5").exists() and not staged_files(fast), of=process)

        def held() -> list[int]:
            runs = json.loads(knarr("tiers", "--json").stdout)["runs"]
            (own,) = [found for found in runs if found["pid"] == process.pid]
            return [tier["bytes"] for tier in own["tiers"][1:]]

        until(lambda: held() == [0, 0], "room is not given back")
        (run.folder / "go").touch()
        ran = run.finish(process)
        until_safe = ran.result["longest_until"]
        assert ran.code == 0 and 0.9 < until_safe["local_s"] < until_safe["durable_s"], ran.err
    else:
        process.kill()
        process.wait()
        # They would not notice that nobody waits for them.
        for encoder in encoders:
            with_signal(encoder, signal.SIGKILL)
        for name in ("enough", "go"):
            (run.folder / name).touch()
        process.communicate(timeout=TIME_LIMIT_S)
        forget(run.top)
        for spool in spools_of(process):
            if lost == "node":
                shutil.rmtree(spool)
        knarr("run", "--recover", fast)
    are_whole(run.folder)
    for spool in spools_of(process):
        knarr("run", "--recover", spool, ok=None)
    shutil.rmtree(run.scratch, ignore_errors=True)


@pytest.mark.parametrize(("capacity", "in_tier"), [("64M", {3}), ("6M", {0, 1})])
def test_what_a_batch_system_ends_waits_in_a_tier(run, knarr, fast, capacity, in_tier):
    """There is no time to encode it: the job is killed soon. What finds no room goes to the disk: the room of a file
    that is being encoded at this moment is not there for others.
    """
    process = run.start(*script(STARVING + "time.sleep(600)\n"), config=tiers(capacity, rate="10kB/s"))
    until(lambda: stopped(process) and (run.folder / "written").exists(), of=process)
    process.terminate()
    on_disk = lambda: list(run.scratch.glob("*/*/handed-over.json"))  # noqa: E731
    until(lambda: len(staged_files(fast)) + len(on_disk()) == FILES, "values stay")
    for killed in (*workers(process.pid), process.pid):
        with_signal(killed, signal.SIGKILL)
    process.wait()
    (run.folder / "enough").touch()
    staged = len(staged_files(fast))
    assert staged in in_tier
    forget(run.top)
    for spool in spools_of(process):
        shutil.rmtree(spool)
    for place, files in ((fast, staged), (run.scratch, FILES - staged)):
        # Where nothing is left it says so.
        assert (knarr("run", "--recover", place, ok=False).returncode == 0) == (files > 0) or not place.exists()
    are_whole(run.folder)
    shutil.rmtree(run.scratch, ignore_errors=True)


def test_the_program_goes_on_while_files_move(run, fast):
    """3.3 MB each at 500 kB/s, of which the program waits for none."""
    ends = 'print(time.time())\nprint(sorted(os.listdir(".")))\n'
    begin = time.time()
    ran = run(*script(NOISE + ends), config=tiers(rate="500kB/s"))
    took, ended = time.time() - begin, float(ran.out.splitlines()[0]) - begin
    assert took > 19 and ended < took - 4, (ended, took)
    are_whole(run.folder)
    until = ran.result["longest_until"]
    # The last file takes 6.6 s to move, however long it has taken to be encoded.
    assert 0 < until["local_s"] < until["durable_s"] - 6 < took - 6 and "Files were safe in a tier after" in ran.err
    fast_tier, slow = ran.result["tiers"]
    assert 4 * NUMBERS <= fast_tier["most_bytes"] < 5 * FILES * NUMBERS and slow["emulated_bytes_per_second"] == 5e5


def test_anybody_sees_what_waits_in_the_tiers(run, knarr, fast):
    """And how long that will take."""
    waits = NOISE + 'open("written", "w")\n'
    process = run.start(*script(waits), config=tiers(rate="500kB/s"))

    def own() -> dict:
        runs = json.loads(knarr("tiers", "--json").stdout)["runs"]
        return next((found for found in runs if found["pid"] == process.pid), {})

    with nothing_moves(run.folder):
        until(lambda: own().get("to_move", {}).get("files", 0) >= 2, of=process)
        found = own()
        assert [tier["name"] for tier in found["tiers"]] == ["memory", "fast", "slow"], found
        assert found["tiers"][1]["bytes"] > 0 and found["to_move"]["bytes"] > 3 * NUMBERS
        last = found["tiers"][2]
        assert last["emulated_bytes_per_second"] == 5e5 and "written" in found["command"][-1]
        rate = last["bytes_per_second"] or last["emulated_bytes_per_second"]
        assert found["to_move"]["seconds"] == pytest.approx(found["to_move"]["bytes"] / rate)
        shown = knarr("tiers").stdout
        assert f"Run {process.pid}: " in shown and "to be moved to 'slow', in about" in shown
    process.communicate()
    assert process.returncode == 0 and not own()
    are_whole(run.folder)


def test_files_move_in_the_order_in_which_they_were_closed(run, fast):
    """Those that are encoded when the move before has ended: whatever moves first is held until all others are."""
    program = """
for number in range(4):
    with h5py.File(f"a{number}.h5", "w") as file:
        file["T"] = np.random.default_rng(number).standard_normal(250_000).astype("f4")
"""
    process = run.start(*script(program), config=tiers(rate="200kB/s"))
    files = [run.folder / f"a{number}.h5" for number in range(4)]
    with nothing_moves(run.folder) as first:
        encoded = lambda: [*fast.glob("knarr-spool-*/*/image"), *filter(Path.exists, files)]  # noqa: E731
        until(lambda: len(encoded()) == 4, "files are not encoded", of=process)
        late = [path for path in files if path != first and not path.exists()]
    assert run.finish(process).code == 0
    assert len(late) >= 2 and late == sorted(late, key=lambda path: path.stat().st_mtime_ns)


def test_the_speed_of_moving_has_a_limit(run, fast):
    begin = time.time()
    run(*script(NOISE), config=tiers(rate="1GB/s", more='drain = "10MB/s"\n'))
    assert time.time() - begin > 1.1
    are_whole(run.folder)


@pytest.mark.parametrize("link", ["", "link/"])
def test_who_reads_a_staged_file_does_not_wait_until_it_is_in_its_place(run, fast, link):
    begins = 'import netCDF4, numpy.testing, subprocess\nos.symlink(".", "link")\n'
    reads = f"""
open("written", "w")
while not os.path.exists("look"):
    time.sleep(0.05)
for number in range({FILES}):
    name = f"{link}a{{number}}.h5"
    expected = np.random.default_rng(number).standard_normal({NUMBERS}).astype("f4")
    with h5py.File(name) as file:
        assert file.filename == name and os.path.getsize(name) > {NUMBERS} and os.access(name, os.R_OK)
        np.testing.assert_array_equal(file["T"][...], expected)
    assert open(name, "rb").read(4)[1:] == b"HDF"
    with netCDF4.Dataset(name) as file:
        np.testing.assert_array_equal(file["T"][...], expected)
    # If the file moves meanwhile, 'cp' says that it was replaced.
    subprocess.run(["sh", "-c", f"cat {{name}} > copy{{number}}"], check=True)
    with h5py.File(f"copy{{number}}") as file:
        np.testing.assert_array_equal(file["T"][...], expected)
open("read", "w")
with h5py.File("a0.h5", "a") as changed:
    changed["more"] = 1
"""
    process = run.start(*script(begins + NOISE + reads), config=tiers(rate="500kB/s"))
    until((run.folder / "written").exists, of=process)
    with nothing_moves(run.folder):
        (run.folder / "look").touch()
        until((run.folder / "read").exists, "the program does not read", of=process)
        assert not (run.folder / f"a{FILES - 1}.h5").exists(), "some of it was waited for"
    assert run.finish(process).code == 0
    are_whole(run.folder)
    with h5py.File(run.folder / "a0.h5") as changed:
        assert changed["more"][()] == 1


def test_a_program_outside_of_the_run_joins_it_to_read(run, knarr, fast):
    """It sees files that wait in a tier. What it writes itself is not packed."""
    process = run.start(*script(NOISE + 'open("written", "w")\n'), config=tiers(rate="500kB/s"))
    last = f"a{FILES - 1}.h5"
    # Python would list the directory, and wait for all files.
    reads = ["sh", "-c", f"cp {last} own.h5; exit 7"]
    with nothing_moves(run.folder):
        until((run.folder / "written").exists, of=process)
        joined = knarr("run", "--with", process.pid, "--", *reads, ok=None, cwd=run.folder)
        assert joined.returncode == 7 and not (run.folder / last).exists(), joined.stderr
    assert process.wait(timeout=TIME_LIMIT_S) == 0
    are_whole(run.folder)
    assert (run.folder / "own.h5").read_bytes() == (run.folder / last).read_bytes()
    gone = knarr("run", "--with", process.pid, "true", ok=None)
    assert gone.returncode == 125 and f"no run of yours on this node has process {process.pid}" in gone.stderr
    both = knarr("run", "--with", 1, "-c", "knarr.toml", "true", ok=None)
    assert both.returncode == 2 and "--config" in both.stderr, both


def test_who_reads_a_file_that_is_written_anew_gets_the_newer_one(run, fast):
    again = NOISE + NOISE.replace("default_rng(number)", "default_rng(number + 7)")
    reads = f"""
for number in range({FILES}):
    expected = np.random.default_rng(number + 7).standard_normal({NUMBERS}).astype("f4")
    np.testing.assert_array_equal(h5py.File(f"a{{number}}.h5")["T"][...], expected)
"""
    run(*script(again + reads), config=tiers(rate="8MB/s"))


def spools_of(launcher: subprocess.Popen) -> list[Path]:
    """What other launchers have left does not count."""
    return sorted(SHARED_MEMORY.glob(f"knarr-spool-{launcher.pid}-*"))


@pytest.mark.parametrize("lost", ["", "memory"])
def test_a_launcher_that_is_killed_leaves_files_that_can_be_recovered(run, knarr, fast, lost):
    """With what lies on the disk alone if the machine was started again."""
    waits = NOISE + 'open("written", "w")\ntime.sleep(600)\n'
    process = run.start(*script(waits), config=tiers(rate="10kB/s"), start_new_session=True)
    until(lambda: len(staged_files(fast)) == FILES and (run.folder / "written").exists())
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not list(run.folder.glob("*.h5"))
    forget(run.top)
    # Memory first: a file may have been on its way from there to the tier. As a rule there is nothing left.
    for spool in spools_of(process):
        if lost:
            shutil.rmtree(spool)
        else:
            knarr("run", "--recover", spool, ok=None)
    knarr("run", "--recover", fast)
    are_whole(run.folder)
    # What is left of the spool holds nothing, and goes with the next run.
    run(*script("pass"), config=tiers())
    assert not spools_of(process)
    for pattern in (".a*.h5.knarr-*", "*/.a*.h5.knarr-*"):
        assert not list(run.top.glob(pattern))
    shutil.rmtree(run.scratch, ignore_errors=True)


@pytest.mark.parametrize("spool", ["stays", "is gone"])
def test_a_program_that_outlives_its_launcher_reads_what_was_recovered(run, knarr, fast, spool):
    """What it was told of the file, that it waits in a tier, does not hold any more."""
    reads = """
open("written", "w")
while not os.path.exists("go"):
    time.sleep(0.05)
print(h5py.File("a0.h5")["T"].shape)
"""
    process = run.start(*script(NOISE + reads), config=tiers(rate="10kB/s"))
    until(lambda: len(staged_files(fast)) == FILES and (run.folder / "written").exists())
    process.kill()
    process.wait()
    forget(run.top)
    knarr("run", "--recover", fast)
    if spool == "is gone":
        # As after any later run: nothing is to be made of it.
        for left in spools_of(process):
            shutil.rmtree(left)
    (run.folder / "go").touch()
    assert process.stdout.read().split() == [f"({NUMBERS},)"], process.stderr.read()
    are_whole(run.folder)
    for left in spools_of(process):
        knarr("run", "--recover", left, ok=None)
    shutil.rmtree(run.scratch, ignore_errors=True)


@pytest.mark.parametrize("way", ["relative", "dots", "link", "the spool", "copied"])
def test_what_waits_in_a_tier_is_recovered_by_whatever_path(run, knarr, fast, way):
    """The directory that is named need not be spelled as it was noted. A spool may be copied, too."""
    waits = NOISE + 'open("written", "w")\ntime.sleep(600)\n'
    process = run.start(*script(waits), config=tiers(rate="10kB/s"), start_new_session=True)
    until(lambda: len(staged_files(fast)) == FILES and (run.folder / "written").exists())
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    forget(run.top)
    for spool in spools_of(process):
        shutil.rmtree(spool)
    named = {"relative": "fast", "dots": "./work/../fast", "link": "link", "copied": "copied"}.get(way)
    if way == "link":
        (run.top / "link").symlink_to(fast)
    elif way == "copied":
        shutil.copytree(fast, run.top / "copied", symlinks=True)
        shutil.rmtree(fast)
    elif way == "the spool":
        named = next(fast.glob("knarr-spool-*")).relative_to(run.top)
    knarr("run", "--recover", named, cwd=run.top)
    are_whole(run.folder)
    assert not list((run.top / "copied").glob("knarr-spool-*"))
    for pattern in (".a*.h5.knarr-*", "*/.a*.h5.knarr-*"):
        assert not list(run.top.glob(pattern))
    shutil.rmtree(run.scratch, ignore_errors=True)


def test_a_file_that_was_damaged_in_a_tier_is_named_and_the_others_are_made(run, knarr, fast):
    waits = NOISE + 'open("written", "w")\ntime.sleep(600)\n'
    process = run.start(*script(waits), config=tiers(rate="10kB/s"), start_new_session=True)
    until(lambda: len(staged_files(fast)) == FILES and (run.folder / "written").exists())
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    forget(run.top)
    image = (staged_files(fast)[1] / "image").resolve()
    with image.open("r+b") as file:
        file.seek(2_000_000)
        byte = file.read(1)
        file.seek(2_000_000)
        file.write(bytes([byte[0] ^ 1]))
    recovered = knarr("run", "--recover", fast, ok=False)
    assert "was damaged there: its CRC-32C is" in recovered.stderr and str(image) in recovered.stderr
    assert [(run.folder / f"a{number}.h5").exists() for number in range(FILES)] == [True, False, True]
    with image.open("r+b") as file:
        file.seek(2_000_000)
        file.write(byte)
    knarr("run", "--recover", fast)
    are_whole(run.folder)
    shutil.rmtree(run.scratch, ignore_errors=True)


def test_a_tier_that_others_have_filled_is_passed_over(run, fast):
    if not may_mount():
        pytest.skip("mounting a small file system needs root")
    fast.mkdir()
    os.system(f"mount -t tmpfs -o size=6m tmpfs {fast}")
    try:
        run(*script(NOISE), config=tiers(rate="40MB/s"))
        are_whole(run.folder)
    finally:
        unmount(fast)


def test_a_file_system_that_is_full_leaves_files_in_the_tier(run, knarr, fast):
    if not may_mount():
        pytest.skip("mounting a small file system needs root")
    os.system(f"mount -t tmpfs -o size=6m tmpfs {run.folder}")
    try:
        np.save(run.folder / "field.npy", np.zeros(1))
        ran = run(*script(NOISE), config=tiers(rate="40MB/s"), ok=False)
        assert ran.code != 0 and "No space left" in ran.err and "--recover" in ran.err
        assert len(staged_files(fast)) + len(list(fast.glob("*/*/set-aside.json"))) == 2
        os.system(f"mount -o remount,size=64m {run.folder}")
        knarr("run", "--recover", fast)
        are_whole(run.folder)
        shutil.rmtree(run.scratch, ignore_errors=True)
    finally:
        unmount(run.folder)


def test_values_that_find_no_memory_wait_in_the_tier(run, fast):
    """Each file is larger than the memory for values."""
    ran = run(*script(NOISE), config=tiers(rate="40MB/s"), options=("--max-mem", "6M"))
    are_whole(run.folder)
    assert ran.result["spool"]["memory_bytes"] <= 3 << 20 and ran.result["spool"]["disk_bytes"] == 0


def test_a_staged_file_has_the_permissions_of_a_file(run, fast):
    (run.folder / "a1.h5").touch()
    (run.folder / "a1.h5").chmod(0o604)
    run(*script("os.umask(0o027)\n" + NOISE), config=tiers())
    modes = [(run.folder / f"a{number}.h5").stat().st_mode & 0o777 for number in range(2)]
    assert modes == [0o640, 0o604]


def test_what_a_run_learns_is_known_to_the_next(run, fast, tmp_path):
    """If the machine has a profile. What is damaged is written anew."""
    profile = tmp_path / "machine.json"
    profile.write_bytes((REPOSITORY / "crates/choose/src/profile/built-in.json").read_bytes())
    kept = tmp_path / "machine.learned.json"
    kept.write_text("{")
    config = f'[machine]\nprofile = "{profile}"\n' + tiers(more='objective = "size"\n')
    for _ in range(2):
        run(*script(NOISE), config=config)
        (family,) = json.loads(kept.read_text())["families"]
        assert (family["pattern"], family["extension"]) == ("*.*", "h5") and family["levels"][2]["ratio"] > 1
        assert {variable["path"] for variable in family["variables"]} == {"/T"}
    assert sum(variable["corrections"][0]["seen"] for variable in family["variables"]) == 2 * FILES
