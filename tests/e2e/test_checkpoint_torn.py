"""Steps of which a file is half written: as long as this machine can tell, no set is made of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from checkpoint_route import Route, name, outcome, program, rule
from conftest import may_mount, sets_in, unmount
from crashing import library
from running import script
from test_checkpoint_watch import Watch, until, watch  # noqa: F401  a fixture

PATTERN = "r_{step}_{rank}.bin"

WRITER = """
import os, sys, time
file = open(sys.argv[1], "wb", buffering=0)
file.write(os.urandom(40_000))
print("half", flush=True)
sys.stdin.readline()
file.write(os.urandom(40_000))
file.close()
print("whole", flush=True)
sys.stdin.readline()
"""


def writer(path: Path) -> subprocess.Popen[str]:
    """A process that has written half of a file."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "half\n"
    return process


def follows(watch: Watch, process: subprocess.Popen[str]) -> bool:  # noqa: F811
    """True while the watch has seen the process with a file open, and not yet that it is done with it."""
    for entry in Path(f"/proc/{watch.process.pid}/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if f"\nPid:\t{process.pid}\n" in entry.read_text():
                return True
    return False


def seen_writer(watch: Watch, path: Path) -> subprocess.Popen[str]:  # noqa: F811
    """As `writer`, and the watch has seen who has the file open: on a busy machine that takes a while."""
    process = writer(path)
    until(lambda: follows(watch, process), "a look")
    return process


def go_on(process: subprocess.Popen[str]) -> None:
    process.stdin.write("\n")
    process.stdin.flush()


def start(watch: Watch, *options: object) -> None:  # noqa: F811
    watch.start(*options, ranks=2, pattern=PATTERN)


def test_a_process_that_is_killed_leaves_no_set(watch):  # noqa: F811
    start(watch, "--remove")
    (watch.out / "r_2_0.bin").write_bytes(os.urandom(80_000))
    process = seen_writer(watch, watch.out / "r_2_1.bin")
    process.kill()
    process.wait()
    watch.says("was killed by signal 9")
    code, _, err = watch.stop()
    assert (watch.names(), code) == ([], 3), err
    assert f"process {process.pid} was killed by signal 9" in err
    assert {path.name for path in watch.out.iterdir()} == {"r_2_0.bin", "r_2_1.bin"}


def test_a_torn_file_that_is_written_again_is_packed(watch):  # noqa: F811
    start(watch)
    (watch.out / "r_2_0.bin").write_bytes(os.urandom(80_000))
    process = seen_writer(watch, watch.out / "r_2_1.bin")
    process.kill()
    process.wait()
    watch.says("was killed by signal 9")
    (watch.out / "r_2_1.bin").write_bytes(b"whole" * 10_000)
    watch.has(2)
    watch.stop()
    assert watch.restored(2)["r_2_1.bin"] == b"whole" * 10_000


@pytest.mark.parametrize("end", ["kill", "exit"])
def test_a_process_that_has_closed_its_file_may_end_as_it_will(watch, end):  # noqa: F811
    start(watch, "--remove")
    (watch.out / "r_2_0.bin").write_bytes(os.urandom(80_000))
    process = seen_writer(watch, watch.out / "r_2_1.bin")
    go_on(process)
    assert process.stdout.readline() == "whole\n"
    # Not every kernel says how a process ended: the watch has to see that it lives on without the file.
    until(lambda: not follows(watch, process), "a look")
    if end == "kill":
        process.kill()
    else:
        go_on(process)
    process.wait()
    watch.has(2)
    until(lambda: list(watch.out.iterdir()) == [], "removal of originals")
    code, _, err = watch.stop()
    assert (code, "perhaps torn" in err) == (0, False), err


def test_a_rank_of_a_run_that_is_killed_leaves_no_set(route):
    ran = route(
        *program("""
        import os, time
        write_step(1)
        wait_for_set(1)
        write(2, 0); write(2, 1); write(2, 2)
        if os.fork() == 0:
            file = open("restart_0002_3.dat", "wb", buffering=0)
            file.write(content(2, 3)[:1000])
            # Nobody can say who wrote a file that was not seen open.
            until(lambda: is_followed(os.getpid()))
            os.kill(os.getpid(), 9)
        os.wait()
        time.sleep(2)
        """),
        config=rule(remove_originals="true"),
    )
    assert route.steps() == [1], ran.err
    assert "was killed by signal 9 while it had the file open" in outcome(ran, 2)["reason"]
    assert set(route.files()) == {name(2, rank) for rank in range(4)}


def test_a_rank_that_is_killed_while_another_step_is_packed_leaves_no_set(route, tmp_path):
    """Nobody can be asked later who had the file open."""
    ran = route(
        *program("""
        def packs():
            children = " ".join(texts(f"/proc/{launcher}/task/*/children")).split()
            return [child for child in children if int(child) != os.getpid()]

        open("held", "w").close()
        write_step(1)
        until(packs)
        write(2, 0); write(2, 1); write(2, 2)
        if os.fork() == 0:
            file = open("restart_0002_3.dat", "wb", buffering=0)
            file.write(content(2, 3)[:1000])
            until(lambda: is_followed(os.getpid()))
            os.kill(os.getpid(), 9)
        os.wait()
        assert not os.path.exists("../sets/step_1"), "packed too fast for this test"
        os.remove("held")
        wait_for_set(1)
        """),
        env={"LD_PRELOAD": str(library(tmp_path))},
    )
    assert route.steps() == [1], ran.err
    assert "was killed by signal 9 while it had the file open" in outcome(ran, 2)["reason"]


def test_an_hdf5_process_that_closes_files_behind_the_back_of_hdf5_leaves_no_set(route: Route):
    """Its file rests, nobody has it open, and HDF5 has not said that it is whole."""
    for pause in (0.0, 0.5, 1.5):
        ran = route(
            *script(f"""
            if os.fork() == 0:
                import h5py
                for rank in range(4):
                    file = h5py.File(f"restart_1_{{rank}}.h5", "w")
                    file["T"] = FIELD[0]
                    file.flush()
                    if rank < 3:
                        file.close()
                os.closerange(3, 256)
                time.sleep({pause})
                os._exit(3)
            os.wait()
            time.sleep(1.5)
            """),
            config=rule("restart_{step}_{rank}.h5"),
        )
        assert route.steps() == [], (pause, ran.err)
        assert outcome(ran, 1)["outcome"] == "left"
        for path in route.folder.glob("restart_*"):
            path.unlink()


@pytest.mark.skipif(not may_mount(), reason="needs the right to mount a small file system")
def test_where_nothing_can_tell_the_set_says_so_and_originals_stay(knarr, tmp_path):
    """Of a file system that other machines may have, files that were there before may be of them."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "ramfs", "ramfs", disk], check=True)
    try:
        for rank in range(2):
            (disk / f"r_1_{rank}.bin").write_bytes(os.urandom(50_000))
        options = ("--pattern", PATTERN, "--ranks", 2, "-o", tmp_path / "sets", "--settle", "300ms", "--remove")
        said = knarr("checkpoint", "watch", disk, *options, "--once").stderr
        assert "files of ranks 0-1 were written on another node or by a process whose end nobody saw" in said
        assert len(list(disk.iterdir())) == 2
        assert sets_in(tmp_path / "sets") == ["step_1"]
        assert "perhaps torn: files of ranks 0-1" in knarr("checkpoint", "info", tmp_path / "sets/step_1").stdout
        assert "perhaps torn" in knarr("checkpoint", "list", tmp_path / "sets").stdout
    finally:
        unmount(disk)
