"""`knarr run` and files that are read, changed, renamed or removed while they are packed."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pytest

from running import CLOSE, FIELD, H5PY, TIME_LIMIT_S, Runner, is_packed, script, until


@pytest.fixture
def run(run):
    run.config = CLOSE
    return run


def test_a_file_is_replaced_while_the_program_reads_it(run):
    """At every moment the name holds the whole file, and readers that have it open keep theirs."""
    ran = run(
        *script(
            H5PY
            + """
early = h5py.File("a.h5")
is_plain = early["T"].chunks is None
deadline = time.time() + 250
while h5py.File("a.h5")["T"].chunks is None:
    with h5py.File("a.h5") as file:
        assert np.array_equal(file["T"][:], FIELD)
    assert time.time() < deadline
assert (early["T"].chunks is None) == is_plain and np.array_equal(early["T"][:], FIELD)
with h5py.File("a.h5") as file:
    assert np.array_equal(file["T"][:], FIELD)
"""
        )
    )
    assert ran.file("a.h5")["outcome"] == "packed"


def test_a_file_that_is_appended_to_while_it_is_packed(run):
    """Every append counts, whatever was under way."""
    ran = run(
        *script("""
        for step in range(40):
            with h5py.File("a.h5", "a") as file:
                file[f"T{step}"] = FIELD[: 1 + step % 8] + step
            time.sleep(0.01 * (step % 4))
        """)
    )
    assert ran.file("a.h5")["outcome"] == "packed"
    with h5py.File(run.folder / "a.h5") as file:
        for step in range(40):
            assert np.array_equal(file[f"T{step}"][:], FIELD[: 1 + step % 8] + np.float32(step))


def test_a_file_that_another_program_changes_while_it_is_packed(run):
    """That program is not under Knarr: nobody tells that it writes."""
    process = run.start(
        *script("""
        with h5py.File("a.h5", "w") as file:
            file["T"] = np.tile(FIELD, (16, 1, 1))
        while not os.path.exists("go"):
            time.sleep(0.01)
        """),
        config=CLOSE + 'goal = "archive"\n',
    )
    path = run.folder / "a.h5"
    until(lambda: list(run.scratch.glob(".*")), "packing has not begun", of=process)
    with h5py.File(path, "r+", locking=False) as file:
        file["T"][0] = 7
    (run.folder / "go").touch()
    run.finish(process)
    with h5py.File(path) as file:
        assert np.all(file["T"][0] == 7) and np.array_equal(file["T"][8], FIELD[0])


def test_folders_that_the_program_removes_hold_nothing_of_knarr(run):
    """While files are packed, too."""
    run(
        *script("""
        import shutil
        for number in range(30):
            os.mkdir("folder")
            with h5py.File("folder/a.h5", "w") as file:
                file["T"] = np.tile(FIELD, (4, 1, 1))
            time.sleep(0.01 * (number % 5))
            assert os.listdir("folder") == ["a.h5"]
            shutil.rmtree("folder")
        """)
    )
    assert sorted(path.name for path in run.folder.iterdir()) == ["field.npy"]


def test_renamed_and_removed_files(run):
    ran = run(
        *script("""
        for name in ("kept", "gone", "moved"):
            with h5py.File(name + ".h5", "w") as file:
                file["T"] = FIELD
            if name == "gone":
                os.remove("gone.h5")
            if name == "moved":
                os.rename("moved.h5", "final.h5")
        """)
    )
    assert not (run.folder / "gone.h5").exists() and not (run.folder / "moved.h5").exists()
    assert ran.file("kept.h5")["outcome"] == "packed"
    with h5py.File(run.folder / "final.h5") as file:
        assert np.array_equal(file["T"][:], FIELD)
    assert {Path(file["output"]).name for file in ran.result["files"]} <= {
        "kept.h5",
        "gone.h5",
        "moved.h5",
        "final.h5",
    }


def test_two_files_of_one_name_in_two_folders(run):
    run(
        *script("""
        for number in range(2):
            os.mkdir(f"d{number}")
            os.chdir(f"d{number}")
            with h5py.File("a.h5", "w") as file:
                file["T"] = FIELD + number
            os.chdir("..")
        """)
    )
    for number in range(2):
        path = run.folder / f"d{number}" / "a.h5"
        assert is_packed(path)
        with h5py.File(path) as file:
            assert np.array_equal(file["T"][:], FIELD + np.float32(number))


def test_permissions_times_and_links(run):
    program = H5PY + "os.chmod('a.h5', 0o640); os.utime('a.h5', (1e9, 1e9))"
    program += "\nwith h5py.File('b.h5', 'w') as file: file['T'] = FIELD\nos.link('b.h5', 'c.h5')\n"
    program += "os.symlink('d.h5', 'link.h5')\nwith h5py.File('link.h5', 'w') as file: file['T'] = FIELD\n"
    ran = run(*script(program))
    found = (run.folder / "a.h5").stat()
    assert is_packed(run.folder / "a.h5") and found.st_mode & 0o777 == 0o640 and found.st_mtime == 1e9
    if ran.file("b.h5")["outcome"] == "left":  # the link came before the packing
        assert "hard links" in ran.file("b.h5")["reason"]
        assert os.path.samefile(run.folder / "b.h5", run.folder / "c.h5")
    assert (run.folder / "link.h5").is_symlink() and is_packed(run.folder / "d.h5")


def test_two_launchers_for_the_same_file(run, tmp_path):
    """Neither takes what the other packs for a file of the program."""
    (tmp_path / "other").mkdir()
    # A file that one of them hands over is not there for the other before it is delivered.
    h5py.File(run.folder / "a.h5", "w").close()
    runners = [run, Runner(run.program, run.environment, tmp_path / "other")]
    programs = [
        runner.start(
            *script(f"""
            import fcntl
            os.chdir({str(run.folder)!r})
            lock = open("lock", "w")
            for step in range(40):
                fcntl.flock(lock, fcntl.LOCK_EX)
                with h5py.File("a.h5", "a") as file:
                    file[f"T{number}_{{step}}"] = FIELD[: 1 + step % 8] + step
                fcntl.flock(lock, fcntl.LOCK_UN)
                time.sleep(0.01 * (step % 4))
            """)
        )
        for number, runner in enumerate(runners)
    ]
    # The folder is that of both: what one packs is in it until both have ended.
    for program in programs:
        program.wait(timeout=TIME_LIMIT_S)
    for runner, program in zip(runners, programs, strict=True):
        ran = runner.finish(program)
        assert ran.code == 0, ran.err
        assert {Path(file["output"]).name for file in ran.result["files"]} == {"a.h5"}, ran.result
    with h5py.File(run.folder / "a.h5") as file:
        for number in range(2):
            for step in range(40):
                assert np.array_equal(file[f"T{number}_{step}"][:], FIELD[: 1 + step % 8] + np.float32(step))


def test_a_file_that_replaces_a_packed_one_has_no_plan_of_that(run):
    run(
        *script(
            H5PY
            + """
deadline = time.time() + 250
while h5py.File("a.h5")["T"].chunks is None:
    assert time.time() < deadline
    time.sleep(0.05)
with open("a.h5", "wb") as file:
    file.write(b"something else")
"""
        )
    )
    assert sorted(path.name for path in run.folder.iterdir()) == ["a.h5", "field.npy"]
    assert (run.folder / "a.h5").read_bytes() == b"something else"
