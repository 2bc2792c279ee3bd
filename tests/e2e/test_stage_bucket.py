"""Route `stage` with a bucket as the last tier: files wait on a disk of the node, and become objects."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

pytest.importorskip("moto", reason="moto is a server of S3")

from conftest import KNARR, Knarr
from nodes import Launcher
from object_server import FEW, Bucket, Request
from running import FIELD, MPIRUN, Runner, forget, no_spools_stay, script, spools, until
from test_parallel_hdf5 import compiled

RANKS, STEPS, ROWS = 2, 3, 128
PLACE = "runs/1/work"
"""Where files of the folder of a run are in the bucket."""
hdf5 = compiled("hdf5")

_ = no_spools_stay


@pytest.fixture
def run(s3: Knarr, tmp_path: Path) -> Runner:
    return Runner(KNARR, s3.environment, tmp_path)


@pytest.fixture
def fast(run: Runner) -> Iterator[Path]:
    """The tier in which files wait. Nothing stays there."""
    yield run.top / "fast"
    left = list((run.top / "fast").rglob("*"))
    assert not left, f"stays in the tier: {left}"
    assert not run.scratch.exists(), list(run.scratch.iterdir())


def tiers(bucket: Bucket, capacity: str = "64M", more: str = "") -> str:
    return f"""
[[tier]]
name = "fast"
path = "fast"
capacity = "{capacity}"
[[tier]]
name = "cloud"
path = "{bucket.url("runs/1")}"
[[file]]
pattern = "*.*"
route = "stage"
{more}"""


def write(name: str = "a.h5", times: int = 9) -> list[str]:
    return script(f'with h5py.File("{name}", "w") as file:\n    file["T"] = FIELD.repeat({times}, 0)\n')


def is_whole(content: bytes, folder: Path, times: int = 9) -> bool:
    (folder / "read.h5").write_bytes(content)
    with h5py.File(folder / "read.h5") as file:
        return np.array_equal(file["T"][...], FIELD.repeat(times, 0))


def busy(one: Request) -> tuple[int, bytes] | None:
    is_put = one.method in ("PUT", "POST")
    return (503, b"<Error><Code>SlowDown</Code></Error>") if is_put else None


@pytest.mark.parametrize("kind", ["pnetcdf", "parallel hdf5", "serial hdf5"])
@pytest.mark.parametrize("capacity", ["64M", "10K"])
def test_an_object_has_the_bytes_of_a_file_that_is_compressed(run, fast, bucket, request, kind, capacity):
    """Also if no tier has room for it."""
    program = {
        "pnetcdf": lambda: [*MPIRUN, RANKS, request.getfixturevalue("blocks"), "hist.nc", STEPS, ROWS],
        "parallel hdf5": lambda: [*MPIRUN, RANKS, request.getfixturevalue("hdf5"), "hist.nc", STEPS, ROWS],
        "serial hdf5": lambda: write("hist.nc"),
    }[kind]()
    run(*program, config='[[file]]\npattern = "*.*"\ngoal = "balanced"\n')
    expected = (run.folder / "hist.nc").read_bytes()
    shutil.rmtree(run.folder / "hist.nc.knarr.json", ignore_errors=True)
    for path in run.folder.glob("hist.nc*"):
        path.unlink()
    ran = run(*program, config=tiers(bucket, capacity, 'goal = "balanced"\n'))
    told = ran.file("hist.nc")
    assert told["outcome"] == "packed" and told["output"] == bucket.url(f"{PLACE}/hist.nc"), told
    assert bucket.get(f"{PLACE}/hist.nc") == expected
    assert not list(run.folder.glob("hist*")) and bucket.uploads() == []


def test_files_of_any_program_become_objects(run, fast, bucket):
    """Each written by the program itself in the tier, with directories below that of the configuration."""
    os.mkdir(run.folder / "deep")
    text = "np.save('deep/a.npy', FIELD)\nopen('b.txt', 'w').write('text\\n' * 99)\nopen('empty.dat', 'w').close()\n"
    run(*script(text), config=tiers(bucket))
    keys = bucket.keys(f"{PLACE}/")
    assert set(keys) == {"deep/a.npy", "b.txt", "empty.dat"} and keys["empty.dat"] == 0
    assert bucket.get(f"{PLACE}/b.txt") == b"text\n" * 99
    assert not [path for path in run.folder.rglob("*.*") if path.name != "field.npy"]


def test_a_large_file_is_sent_in_parts(run, fast, bucket, tmp_path):
    run(*script("np.save('a.npy', np.arange(3_000_000.0))"), config=tiers(bucket))
    (tmp_path / "a.npy").write_bytes(bucket.get(f"{PLACE}/a.npy"))
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.arange(3_000_000.0))
    assert bucket.uploads() == []


def test_the_program_reads_a_file_that_waits(run, fast, bucket, proxy):
    """Until the server has it; then there is no file of its name."""
    proxy.answer = lambda one: 3.0 if one.method == "PUT" else None
    text = """
    with h5py.File("a.h5", "w") as file:
        file["T"] = FIELD
    with h5py.File("a.h5") as file:
        print("equal", np.array_equal(file["T"][...], FIELD))
    while os.path.exists("a.h5"):
        time.sleep(0.1)
    """
    ran = run(*script(text), config=tiers(bucket))
    assert "equal True" in ran.out
    assert list(bucket.keys(f"{PLACE}/")) == ["a.h5"]


def test_what_was_there_is_replaced_when_the_newer_one_is_whole(run, fast, bucket, tmp_path):
    bucket.put(f"{PLACE}/a.h5", b"older")
    (run.folder / "a.h5").write_bytes(b"older still")
    run(*write(), config=tiers(bucket))
    assert is_whole(bucket.get(f"{PLACE}/a.h5"), tmp_path)
    assert not (run.folder / "a.h5").exists(), "its values would pass for those that the program has written"


def test_a_file_that_is_to_be_new_replaces_no_object(run, bucket, s3, tmp_path):
    new = script('with h5py.File("a.h5", "x") as file:\n    file["T"] = FIELD.repeat(9, 0)\n')
    bucket.put(f"{PLACE}/a.h5", b"older")
    ran = run(*new, config=tiers(bucket), ok=False)
    assert ran.code != 0 and "is not to be replaced" in " ".join(ran.err.split())
    assert bucket.get(f"{PLACE}/a.h5") == b"older"
    (left,) = spools_left(run)
    bucket.client.delete_object(Bucket=bucket.name, Key=f"{PLACE}/a.h5")
    s3("run", "--recover", left)
    assert is_whole(bucket.get(f"{PLACE}/a.h5"), tmp_path)


def spools_left(run: Runner) -> list[Path]:
    return [*spools(), *run.scratch.glob("knarr-spool-*"), *(run.top / "fast").glob("knarr-spool-*")]


def test_what_the_server_does_not_take_is_kept(run, fast, s3, bucket, proxy, tmp_path):
    proxy.answer = busy
    ran = run(*write(), config=tiers(bucket), ok=False, env=FEW)
    told = " ".join(ran.err.split())
    assert ran.code != 0 and "503" in told and "knarr run --recover" in told, told
    assert not bucket.keys() and not bucket.uploads()
    (left,) = spools_left(run)
    proxy.answer = lambda one: None
    s3("run", "--recover", left)
    assert is_whole(bucket.get(f"{PLACE}/a.h5"), tmp_path)
    assert not spools_left(run)


def test_what_the_server_did_not_take_is_tried_again(run, fast, bucket, proxy, tmp_path):
    proxy.answer = lambda one: busy(one) if one.number < 2 else None
    ran = run(*write(), config=tiers(bucket), env=FEW)
    assert ran.file("a.h5")["outcome"] == "packed"
    assert is_whole(bucket.get(f"{PLACE}/a.h5"), tmp_path)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_launcher_that_is_killed_loses_nothing(run, fast, s3, bucket, proxy, tmp_path, when):
    """Before the server has the object, and after that."""

    def late(one: Request) -> float | None:
        if one.method != "PUT":
            return None
        if when == "after":
            bucket.put(one.key, one.body)
        return 30.0

    proxy.answer = late
    launcher = run.start(*write(), config=tiers(bucket))
    until(lambda: any(key.endswith("a.h5") for key in proxy.puts()))
    launcher.send_signal(signal.SIGKILL)
    launcher.communicate()
    proxy.answer = lambda one: None
    until(lambda: not workers_of(run))
    for left in spools_left(run):
        # That in memory has nothing.
        s3("run", "--recover", left, ok=False)
    assert is_whole(bucket.get(f"{PLACE}/a.h5"), tmp_path)
    forget(run.top)


def workers_of(run: Runner) -> list[int]:
    """Processes that do the work of a launcher of this run. They end when it has."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"worker" in (process / "cmdline").read_bytes() and (process / "cwd").readlink() == run.folder:
                found.append(int(process.name))
        except OSError:
            pass
    return found


def test_the_newest_of_several_versions_is_recovered(run, fast, s3, bucket, proxy, tmp_path):
    proxy.answer = busy
    both = ["sh", "-c", "\n".join(shlex.join(write("a.h5", times)) for times in (2, 9))]
    run(*both, config=tiers(bucket), ok=False, env=FEW)
    proxy.answer = lambda one: None
    for left in spools_left(run):
        s3("run", "--recover", left)
    assert is_whole(bucket.get(f"{PLACE}/a.h5"), tmp_path)


def test_a_version_for_which_no_tier_has_room_is_not_replaced_by_an_older_one(run, fast, bucket, tmp_path):
    """Two processes have it open at the same time: the older one waits in the tier while the newer one is sent."""
    text = """
    noise = np.random.default_rng(1).integers(0, 1 << 30, (2, 20, 1 << 18))
    begin = time.time()

    def write(number, values, opened, closed):
        if os.fork() == 0:
            time.sleep(max(0, begin + opened - time.time()))
            file = h5py.File("a.h5", "w")
            file["T"] = values
            time.sleep(max(0, begin + closed - time.time()))
            file.close()
            os._exit(0)

    write(1, noise[0, :12], 0, 3)
    write(2, noise[1], 1.5, 3.2)
    os.wait(), os.wait()
    """
    run(*script(text), config=tiers(bucket, "32M", 'goal = "speed"\n'))
    (tmp_path / "read.h5").write_bytes(bucket.get(f"{PLACE}/a.h5"))
    with h5py.File(tmp_path / "read.h5") as file:
        assert file["T"].shape == (20, 1 << 18)


def test_what_no_object_can_be_made_of_stays_in_the_directory(run, fast, bucket):
    """And the report says so."""
    bucket.put(f"{PLACE}/new.txt", b"older")
    text = r"""
    open("with\nline.txt", "w").write("x")
    for number in range(3):
        with os.fdopen(os.open("added.txt", os.O_RDWR | os.O_CREAT, 0o644), "r+") as file:
            file.seek(0, 2)
            file.write(f"line {number}\n")
    open("new.txt", "x").write("newer")
    """
    ran = run(*script(text), config=tiers(bucket), ok=False)
    assert (run.folder / "added.txt").read_text() == "line 0\nline 1\nline 2\n"
    assert (run.folder / "with\nline.txt").read_text() == "x"
    (told,) = [file for file in ran.result["files"] if file["input"].endswith("added.txt")]
    assert "does not go to the bucket" in json.dumps(told)
    assert ran.code != 0 and "is not to be replaced" in ran.err and bucket.get(f"{PLACE}/new.txt") == b"older"
    for left in spools_left(run):
        shutil.rmtree(left)
    shutil.rmtree(run.scratch, ignore_errors=True)


def test_recovery_replaces_nothing_that_may_be_newer(run, s3, bucket, proxy, tmp_path):
    proxy.answer = busy
    run(*write(), config=tiers(bucket), ok=False, env=FEW)
    (left,) = spools_left(run)
    proxy.answer = lambda one: None
    bucket.put(f"{PLACE}/a.h5", b"newer")
    assert "may be newer" in s3.fails(4, "run", "--recover", left)
    assert bucket.get(f"{PLACE}/a.h5") == b"newer"
    bucket.client.delete_object(Bucket=bucket.name, Key=f"{PLACE}/a.h5")
    s3("run", "--recover", left)
    assert is_whole(bucket.get(f"{PLACE}/a.h5"), tmp_path)
    assert not spools_left(run)


def test_what_was_damaged_in_the_tier_does_not_become_an_object(run, fast, s3, bucket, proxy, tmp_path):
    bucket.put(f"{PLACE}/a.h5", b"older")
    proxy.answer = lambda one: 30.0 if one.method == "PUT" else None
    waits = [*write()[:2], write()[2] + "time.sleep(600)\n"]
    launcher = run.start(*waits, config=tiers(bucket), start_new_session=True)
    until(lambda: any(key.endswith("a.h5") for key in proxy.puts()))
    os.killpg(launcher.pid, signal.SIGKILL)
    launcher.communicate()
    forget(run.top)
    proxy.answer = lambda one: None
    (image,) = (path.resolve() for path in fast.glob("knarr-spool-*/*/image"))
    content = image.read_bytes()
    image.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    told = s3("run", "--recover", fast, ok=False).stderr
    assert "may be newer" in told and bucket.get(f"{PLACE}/a.h5") == b"older"
    bucket.client.delete_object(Bucket=bucket.name, Key=f"{PLACE}/a.h5")
    told = s3("run", "--recover", fast, ok=False).stderr
    assert "was damaged there: its CRC-32C is" in told and not bucket.keys(), told
    image.write_bytes(content)
    s3("run", "--recover", fast)
    assert is_whole(bucket.get(f"{PLACE}/a.h5"), tmp_path)


def test_a_bucket_that_cannot_be_reached_ends_the_run_before_the_program(run, bucket):
    begun = run.folder / "begun"
    ran = run("touch", begun, config=tiers(bucket), env={**FEW, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, ok=False)
    assert ran.code == 125 and "cannot be reached" in ran.err and not begun.exists(), ran.err


@pytest.mark.parametrize("nodes", ["aabb", "abcc"])
def test_ranks_on_several_nodes_fill_one_object(s3, bucket, hdf5, tmp_path, nodes):
    job = Launcher(KNARR, {**os.environ, **s3.environment}, tmp_path)
    config = tiers(bucket, more='goal = "balanced"\n')
    ran = job(hdf5, "hist.h5", STEPS, ROWS, nodes=nodes, config=config)
    assert ran.outcomes("hist.h5").count("packed") == 1, ran.err
    (key,) = [key for key in list(bucket.keys()) if key.endswith("hist.h5")]
    several = bucket.get(key)
    job(hdf5, "hist.h5", STEPS, ROWS, nodes="aaaa", config=config)
    assert bucket.get(key) == several
