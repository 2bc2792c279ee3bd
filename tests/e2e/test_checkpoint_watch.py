"""`knarr checkpoint watch` and `prune`: the time steps of a running program become sets, and old sets go.

Files are written here, as a program would: by h5py and netCDF4, in place or under another name first.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest

from conftest import KNARR, sets_in
from running import until

TIME_LIMIT_S = 300
PATTERN = "restart_{step}_{rank}.h5"


def write_h5(path: Path, seed: int, size: int = 4000) -> None:
    with h5py.File(path, "w") as file:
        file["T"] = np.round(np.cumsum(np.random.default_rng(seed).standard_normal(size)), 3)
        file["group/n"] = np.arange(50, dtype="i4") + seed
        file.attrs["seed"] = seed


def write_step(folder: Path, step: int, ranks: int = 4, size: int = 4000) -> dict[str, bytes]:
    """Writes the files of a step and returns their bytes."""
    written = {}
    for rank in range(ranks):
        name = f"restart_{step:05}_{rank}.h5"
        write_h5(folder / name, 100 * step + rank, size)
        written[name] = (folder / name).read_bytes()
    return written


class Watch:
    """`knarr checkpoint watch` on `folder/out` with sets in `folder/sets`."""

    def __init__(self, knarr, folder: Path):
        self.knarr, self.folder = knarr, folder
        self.out, self.sets = folder / "out", folder / "sets"
        self.out.mkdir()
        self.said, self.said_before = folder / "said", 0
        self.process: subprocess.Popen[str] | None = None

    def arguments(self, *options: object, ranks: object = 4, pattern: str = PATTERN) -> list[str]:
        given = ["--pattern", pattern, "--ranks", ranks, "-o", self.sets, "--settle", "300ms", "--jobs", 1]
        return [str(word) for word in ["checkpoint", "watch", self.out, *given, *options]]

    def once(self, *options: object, ok: bool = True, **how: object) -> subprocess.CompletedProcess[str]:
        return self.knarr(*self.arguments("--once", *options, **how), ok=ok)

    def start(self, *options: object, **how: object) -> None:
        """Starts, and waits until it watches."""
        with self.said.open("a") as said:
            self.said_before = self.said.stat().st_size
            self.process = subprocess.Popen(
                [KNARR, *self.arguments(*options, **how)],
                env=self.knarr.environment,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )
        until(lambda: self.sees(f"/proc/{self.process.pid}/fd"), "the watch")

    @staticmethod
    def sees(descriptors: str) -> bool:
        """True once the directory is watched: signals are handled by then."""
        try:
            links = [os.readlink(f"{descriptors}/{name}") for name in os.listdir(descriptors)]
            numbers = [n for n, link in zip(os.listdir(descriptors), links, strict=False) if "inotify" in link]
            infos = [Path(descriptors + "info", number).read_text() for number in numbers]
        except OSError:
            return False
        return any("inotify wd:" in info for info in infos)

    def stop(self, how: int = signal.SIGTERM) -> tuple[int, str, str]:
        self.process.send_signal(how)
        return self.wait()

    def killed(self) -> list[int]:
        """Kills it, and returns the processes that worked for it."""
        self.process.send_signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{self.process.pid}/task")
        until(lambda: all(") T " in (task / "stat").read_text() for task in tasks.iterdir()), "the stop")
        working = [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]
        self.process.kill()
        self.process.wait()
        return working

    def wait(self) -> tuple[int, str, str]:
        out, _ = self.process.communicate(timeout=TIME_LIMIT_S)
        return self.process.returncode, out, self.told()

    def told(self) -> str:
        """What it has said since it was started."""
        return self.said.read_bytes()[self.said_before :].decode()

    def says(self, words: str) -> None:
        until(lambda: words in self.told(), words)

    def set(self, step: int) -> Path:
        return self.sets / f"step_{step}"

    def has(self, *steps: int) -> None:
        until(lambda: all((self.set(step) / "manifest.knarr").exists() for step in steps), f"sets {steps}")

    def restored(self, step: int) -> dict[str, bytes]:
        target = self.folder / f"restored-{step}-{time.monotonic_ns()}"
        self.knarr("checkpoint", "restore", self.set(step), "-d", target)
        return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}

    def names(self) -> list[str]:
        return sets_in(self.sets)


@pytest.fixture
def watch(knarr, tmp_path):
    watch = Watch(knarr, tmp_path)
    yield watch
    if watch.process is not None and watch.process.poll() is None:
        watch.process.kill()
        watch.process.wait()


def test_each_step_is_packed_once_its_last_file_is_closed(watch):
    watch.start("--json")
    first = write_step(watch.out, 1)
    watch.has(1)
    second = write_step(watch.out, 2)
    watch.has(2)
    code, out, err = watch.stop()
    assert code == 0, err
    assert watch.restored(1) == first
    assert watch.restored(2) == second
    assert watch.names() == ["step_1", "step_2"]
    sets = json.loads(out)["sets"]
    assert [(made["step"], made["files"]) for made in sets] == [(1, 4), (2, 4)]
    assert sets[0]["raw_bytes"] == sum(map(len, first.values()))
    assert "step 1: 4 files" in err


def test_a_step_waits_for_its_last_rank(watch):
    files = write_step(watch.out, 7)
    last = watch.out / "restart_00007_3.h5"
    last.unlink()
    os.truncate(watch.out / "restart_00007_0.h5", 0)
    for rank in range(3):
        (watch.out / f"restart_00007_{rank}.h5").write_bytes(files[f"restart_00007_{rank}.h5"])
    watch.start()
    time.sleep(1.5)
    assert watch.names() == []
    # Under another name first, as many programs do.
    hidden = watch.out / ".restart_00007_3.h5.tmp"
    hidden.write_bytes(files[last.name])
    time.sleep(0.5)
    hidden.rename(last)
    watch.has(7)
    assert watch.restored(7) == files


def test_a_file_that_is_open_for_writing_is_waited_for(watch):
    files = write_step(watch.out, 1)
    path = watch.out / "restart_00001_2.h5"
    with path.open("r+b") as held:
        # As if it had rested for long.
        for name in files:
            os.utime(watch.out / name, (1_000_000_000, 1_000_000_000))
        watch.start()
        time.sleep(1.5)
        assert watch.names() == []
        held.seek(0, os.SEEK_END)
        held.write(b"the end")
    watch.has(1)
    files[path.name] += b"the end"
    assert watch.restored(1) == files


def test_files_of_any_kind_and_in_directories_of_their_steps(watch):
    expected = {}
    for rank in range(1, 4):
        folder = watch.out / "chk40"
        folder.mkdir(exist_ok=True)
        path = folder / f"rank-{rank}.nc"
        if rank == 1:
            path.write_bytes(os.urandom(100_000) + b"\0" * 100_000)
        else:
            with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_OFFSET" if rank == 2 else "NETCDF4") as nc:
                nc.createDimension("x", 1000)
                nc.createVariable("u", "f8", ("x",))[:] = np.linspace(0, rank, 1000)
        expected[f"chk40/rank-{rank}.nc"] = path.read_bytes()
    (watch.out / "chk40" / "log.txt").write_text("not a restart file")
    done = watch.once(ranks="1-3", pattern="chk{step}/rank-{rank}.nc")
    assert "step 40: 3 files" in done.stderr
    assert watch.restored(40) == expected


def test_a_program_that_writes_one_file_in_each_step(watch):
    for step in (1, 2):
        write_h5(watch.out / f"restart_{step}.h5", step)
    watch.once(ranks=1, pattern="restart_{step}.h5")
    assert watch.names() == ["step_1", "step_2"]
    done = watch.once(ranks=2, pattern="restart_{step}.h5", ok=False)
    assert done.returncode == 2 and "write both {step} and {rank}" in done.stderr


def test_directories_that_come_later_are_watched_too(watch):
    watch.start(ranks=2, pattern="{step}/{rank}.h5")
    for step in (1, 2):
        (watch.out / str(step)).mkdir()
        for rank in range(2):
            write_h5(watch.out / str(step) / f"{rank}.h5", rank)
        watch.has(step)
    assert watch.stop()[0] == 0


def test_missing_ranks_are_named_and_may_still_come(watch):
    files = write_step(watch.out, 3)
    for rank in (1, 3):
        (watch.out / f"restart_00003_{rank}.h5").unlink()
    done = watch.once(ok=False)
    assert done.returncode == 3
    assert "step 3 has no file of ranks 1, 3" in done.stderr

    watch.start("--patience", "1s")
    watch.says("no file of ranks 1, 3 came")
    for rank in (1, 3):
        name = f"restart_00003_{rank}.h5"
        (watch.out / name).write_bytes(files[name])
    watch.has(3)
    code, _, err = watch.stop()
    assert code == 3
    assert err.count("knarr: step 3: no file of ranks 1, 3 came; ") == 1, err
    assert watch.restored(3) == files


def test_a_watch_that_starts_anew_packs_what_is_left(watch):
    written = {step: write_step(watch.out, step) for step in (1, 2, 3)}
    watch.start()
    watch.has(1)
    packing = watch.killed()
    until(lambda: not any(Path(f"/proc/{process}").exists() for process in packing), f"the end of {packing}")
    before = {path: path.stat().st_mtime_ns for path in watch.set(1).iterdir()}
    watch.once()
    assert {path: path.stat().st_mtime_ns for path in watch.set(1).iterdir()} == before
    assert watch.names() == ["step_1", "step_2", "step_3"]
    for step, files in written.items():
        assert watch.restored(step) == files
    assert watch.once("--json").stdout == '{"sets":[]}\n'


def test_watches_that_are_killed_lose_nothing_and_leave_nothing(watch):
    written = {step: write_step(watch.out, step, size=100_000) for step in range(1, 9)}
    moments = np.random.default_rng(1).uniform(0, 0.4, 25)
    for moment in moments:
        watch.start()
        time.sleep(moment)
        packing = watch.killed()
    # What packed for the last one ends when it notices; until then, it may still write.
    until(lambda: not any(Path(f"/proc/{process}").exists() for process in packing), f"the end of {packing}")
    watch.once()
    assert watch.names() == [f"step_{step}" for step in range(1, 9)]
    for step, files in written.items():
        assert watch.restored(step) == files


def test_a_step_that_is_written_again_is_an_error_and_its_set_stays(watch):
    watch.start()
    files = write_step(watch.out, 5)
    watch.has(5)
    kept = {path: path.read_bytes() for path in watch.set(5).iterdir()}
    for rank in range(1, 4):
        write_h5(watch.out / f"restart_00005_{rank}.h5", 990 + rank)
        watch.says("is written again")
        time.sleep(0.5)
    time.sleep(1)
    code, _, err = watch.stop()
    assert code == 4
    assert err.count("restart_00005_1.h5: step 5 was packed already, and is written again; ") == 1, err
    assert err.count("written again") == 1, err
    assert {path: path.read_bytes() for path in watch.set(5).iterdir()} == kept
    assert watch.restored(5) == files

    # So it is for a watch that did not see it happen.
    done = watch.once(ok=False)
    assert done.returncode == 4 and "restart_00005_1.h5: step 5 was packed already" in done.stderr
    files = {path.name: path.read_bytes() for path in watch.out.iterdir()}
    assert "step 5: 4 files" in watch.once("--force").stderr
    assert watch.restored(5) == files


def test_two_files_of_one_rank_are_refused(watch):
    write_step(watch.out, 1)
    write_h5(watch.out / "restart_1_2.h5", 1)
    done = watch.once(ok=False)
    assert done.returncode == 2
    assert "restart_1_2.h5: rank 2 of step 1 has another file already" in done.stderr
    assert watch.names() == []


def test_ranks_that_were_not_announced_are_told(watch):
    write_step(watch.out, 1, ranks=5)
    done = watch.once(ok=False)
    assert done.returncode == 2
    assert "restart_00001_4.h5: rank 4 is not one of 0 to 3; hint: correct --ranks" in done.stderr
    assert watch.names() == ["step_1"]


def test_files_that_vanish_before_they_are_packed_are_told(watch):
    watch.start("--patience", "1s")
    write_step(watch.out, 1, ranks=2)
    watch.says("no file of ranks 2-3 came")
    (watch.out / "restart_00001_0.h5").unlink()
    watch.says("files were removed")
    code, _, err = watch.stop()
    assert code == 3
    assert err.count("step 1: files were removed before they were packed") == 1, err


def test_a_set_that_cannot_be_written_is_tried_again(watch):
    files = write_step(watch.out, 1)
    later = write_step(watch.out, 2)
    watch.sets.mkdir()
    watch.set(1).write_text("in the way")
    done = watch.once(ok=False)
    assert done.returncode == 4
    assert f"knarr: step 1: {watch.set(1)}: the output exists" in done.stderr
    assert "step 1 was not packed" in done.stderr
    assert watch.names() == ["step_1", "step_2"] and watch.set(1).read_text() == "in the way"
    watch.start("--patience", "1s")
    watch.says("the output exists")
    watch.set(1).unlink()
    watch.has(1)
    code, _, err = watch.stop()
    assert code == 4, err
    assert watch.restored(1) == files and watch.restored(2) == later


def under_way(watch: Watch) -> bool:
    return watch.sets.exists() and any(name.startswith(".step_") for name in watch.names())


def test_a_signal_lets_the_running_set_be_finished(watch):
    files = write_step(watch.out, 1, size=3_000_000)
    later = write_step(watch.out, 2)
    watch.start()
    until(lambda: under_way(watch), "packing")
    code, _, err = watch.stop()
    assert code == 0, err
    assert watch.names() == ["step_1"]
    assert "step 2 was not packed; hint: watch again" in err
    assert watch.restored(1) == files
    watch.once()
    assert watch.restored(2) == later


def test_a_second_signal_leaves_nothing_half_done(watch):
    write_step(watch.out, 1, size=3_000_000)
    watch.start()
    until(lambda: under_way(watch), "packing")
    watch.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    code, _, err = watch.stop()
    # It may have been quick enough.
    assert code == 0
    assert watch.names() in (["step_1"], []), err


def test_originals_go_only_when_their_set_is_there(watch):
    files = write_step(watch.out, 1)
    other = watch.out / "restart_00001_9.txt"
    other.write_text("of another kind")
    watch.once("--remove")
    assert [path.name for path in watch.out.iterdir()] == [other.name]
    assert watch.restored(1) == files
    watch.once("--remove")


def test_only_the_newest_sets_are_kept(watch):
    watch.start("--keep", 2, "--remove")
    for step in (1, 2, 3, 4):
        write_step(watch.out, step)
        watch.has(step)
    code, _, err = watch.stop()
    assert code == 0, err
    assert watch.names() == ["step_3", "step_4"]
    assert f"removed {watch.set(1)}" in err


def test_one_directory_of_sets_has_one_watch(watch):
    watch.start()
    done = watch.once(ok=False)
    assert done.returncode == 4
    assert "another watch writes its sets there" in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pattern": "restart_{rank}.h5"}, "write both {step} and {rank}"),
        ({"pattern": "{step}{rank}"}, "nothing keeps {step} and {rank} apart"),
        ({"pattern": "../{step}_{rank}"}, "not a path below the directory"),
        ({"ranks": "0"}, "--ranks '0'"),
        ({"ranks": "9-3"}, "--ranks '9-3'"),
    ],
)
def test_wrong_words_are_refused(watch, options, words):
    done = watch.once(ok=False, **options)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_directory_that_is_not_there_is_named(watch):
    watch.out.rmdir()
    done = watch.once(ok=False)
    assert done.returncode == 3
    assert f"{watch.out}: " in done.stderr
    assert not watch.sets.exists()


@pytest.fixture
def sets(watch):
    """Sets of four steps, the last two committed in the other order."""
    for step in (1, 2, 4, 3):
        write_step(watch.out, step, ranks=2, size=500)
        watch.once("--remove", ranks=2)
    return watch


def test_prune_keeps_the_newest(knarr, sets):
    pruned = json.loads(knarr("checkpoint", "prune", sets.sets, "--keep", 2, "--dry-run", "--json").stdout)
    assert pruned["removed"] == [str(sets.set(1)), str(sets.set(2))]
    assert sets.names() == ["step_1", "step_2", "step_3", "step_4"]
    said = knarr("checkpoint", "prune", sets.sets, "--keep", 2).stdout
    assert said == f"removed  {sets.set(1)}\nremoved  {sets.set(2)}\nkept  {sets.set(4)}\nkept  {sets.set(3)}\n"
    assert sets.names() == ["step_3", "step_4"]
    knarr("checkpoint", "prune", sets.sets, "--keep", 2)
    # What is left does not need what went.
    assert len(sets.restored(3)) == 2 and len(sets.restored(4)) == 2


def test_prune_counts_no_damaged_set_and_removes_none(knarr, sets):
    for manifest in sets.set(3).glob("manifest*"):
        manifest.write_bytes(manifest.read_bytes()[:-5])
    manifest = sets.set(3) / "manifest.knarr"
    done = knarr("checkpoint", "prune", sets.sets, "--keep", 1)
    assert sets.names() == ["step_3", "step_4"]
    assert f"knarr: {manifest}: " in done.stderr
    assert "the set was not counted and left alone" in done.stderr


def test_prune_keeps_what_can_be_restored(knarr, sets):
    """A set whose files of frames are gone or cut off is no reason to remove another."""
    [store] = sets.set(3).glob("group*")
    os.truncate(store, 30)
    [store] = sets.set(4).glob("group*")
    store.unlink()
    done = knarr("checkpoint", "prune", sets.sets, "--keep", 1)
    assert sets.names() == ["step_2", "step_3", "step_4"]
    assert done.stderr.count("the set was not counted and left alone") == 2
    assert len(sets.restored(2)) == 2
    listed = json.loads(knarr("checkpoint", "list", sets.sets, "--json").stdout)["sets"]
    assert ["error" in row for row in listed] == [False, True, True]


def test_a_damaged_set_does_not_stop_those_that_follow(knarr, sets):
    for manifest in sets.set(3).glob("manifest*"):
        manifest.write_bytes(manifest.read_bytes()[:-5])
    write_step(sets.out, 7, ranks=2, size=500)
    sets.once("--remove", ranks=2)
    assert len(sets.restored(7)) == 2
    write_step(sets.out, 8, ranks=2, size=500)
    done = knarr("checkpoint", "pack", sets.out, "-o", sets.sets / "by_hand")
    assert "nothing is shared with that set" in done.stderr


def test_force_packs_again_what_was_written_again_only(watch):
    write_step(watch.out, 1, ranks=2, size=500)
    write_step(watch.out, 2, ranks=2, size=500)
    watch.once(ranks=2)
    before = (watch.set(1) / "manifest.knarr").stat().st_mtime_ns
    write_step(watch.out, 2, ranks=2, size=600)
    watch.once("--force", ranks=2)
    assert (watch.set(1) / "manifest.knarr").stat().st_mtime_ns == before
    assert len(watch.restored(2)) == 2


def test_files_that_are_moved_into_place_may_be_older_than_the_set(watch):
    """Their dates are those of the writing, which may have been before the set of an earlier run was complete."""
    write_step(watch.out, 1, ranks=2, size=500)
    watch.once(ranks=2)
    aside = watch.folder / "aside"
    aside.mkdir()
    files = write_step(aside, 1, ranks=2, size=600)
    for path in aside.iterdir():
        os.utime(path, (1e9, 1e9))
        path.rename(watch.out / path.name)
    done = watch.once(ranks=2, ok=False)
    assert done.returncode == 4 and "step 1 was packed already, and is written again" in done.stderr
    assert "step 1: 2 files" in watch.once("--force", ranks=2).stderr
    assert watch.restored(1) == files
    for path in watch.out.iterdir():
        path.chmod(0o600)
    assert watch.once("--force", ranks=2).stderr == "", "the same bytes are not packed again"


def test_a_damaged_set_whose_files_are_there_is_told(watch):
    files = write_step(watch.out, 1, ranks=2, size=500)
    watch.once(ranks=2)
    next(watch.set(1).glob("group-*")).unlink()
    done = watch.once(ranks=2, ok=False)
    assert done.returncode == 3 and "knarr: step 1: " in done.stderr and "use --force" in done.stderr
    watch.once("--force", ranks=2)
    assert watch.restored(1) == files


def test_prune_removes_nothing_that_is_not_of_a_set(knarr, sets):
    (sets.set(1) / "notes.txt").write_text("keep me")
    (sets.sets / "other").mkdir()
    (sets.sets / ".step_9.knarr-1-0").mkdir()
    done = knarr("checkpoint", "prune", sets.sets, "--keep", 1, ok=False)
    assert done.returncode == 4
    assert "'notes.txt' is not of the set; hint: move it elsewhere" in done.stderr
    assert (sets.set(1) / "notes.txt").exists() and (sets.set(1) / "manifest.knarr").exists()
    assert {"other", ".step_9.knarr-1-0"} < set(sets.names())
    # The others go all the same.
    assert [name for name in sets.names() if name.startswith("step_")] == ["step_1", "step_3"]
    assert done.stdout == f"removed  {sets.set(2)}\nremoved  {sets.set(4)}\nkept  {sets.set(3)}\n"


def test_a_set_that_may_not_be_read_is_not_taken_for_none(knarr, sets):
    """Files that only their owner may read give such sets: who else restarts must not begin anew."""
    # The superuser may read everything as long as it has these capabilities.
    without = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []

    def run(*arguments):
        command = [*without, KNARR, "checkpoint", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True)

    sets.set(3).chmod(0)
    try:
        done = run("prune", sets.sets, "--keep", 1)
        assert done.returncode == 0
        assert f"{sets.set(3)}/manifest.knarr: Permission denied" in done.stderr
        assert sets.names() == ["step_3", "step_4"]
        done = run("verify", sets.set(3))
        assert done.returncode == 3 and "Permission denied" in done.stderr
    finally:
        sets.set(3).chmod(0o755)


def test_a_new_set_is_the_newest_whatever_the_clock_says(knarr, sets):
    """Those before may be of a node whose clock runs ahead."""
    ahead = time.time() + 10_000
    for step in (1, 4):
        os.utime(sets.set(step) / "manifest.knarr", (ahead + step, ahead + step))
    write_step(sets.out, 7, ranks=2, size=500)
    sets.once("--keep", 2, ranks=2)
    assert sets.names() == ["step_4", "step_7"]
    write_step(sets.out, 7, ranks=2, size=600)
    assert "step 7 was packed already" in sets.once(ranks=2, ok=False).stderr
    files = write_step(sets.out, 6, ranks=2, size=500)
    sets.once("--keep", 1, "--force", ranks=2)
    assert sets.names() == ["step_6"] and sets.restored(6) == files


def test_a_watch_that_finds_nothing_says_so(watch):
    write_step(watch.out, 1)
    done = watch.once(pattern="chk_{step}_{rank}.h5", ok=False)
    assert done.returncode == 3
    for word in (str(watch.out), "'chk_{step}_{rank}.h5'", "no file matches"):
        assert word in done.stderr
    watch.once("--remove")
    done = watch.once("--remove")
    assert f"'{PATTERN}'" in done.stderr, "what there was has been packed and removed"
