"""Route `stage` for files of any format, which the program itself writes in a tier.

Most tests run a program without Knarr and under it: what it sees and what it leaves must be the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

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
)
from test_stage import fast, tiers  # noqa: F401  a fixture

# Calls about names of files, and what they say. `show` prints what a program can see of a file.
SEES = """
import errno, shutil, stat, subprocess

def show(*names):
    for name in names:
        try:
            found = os.lstat(name)
            content = open(name, "rb").read() if stat.S_ISREG(found.st_mode) else b""
            print(name, oct(found.st_mode), found.st_nlink, found.st_size, content[:40], os.access(name, os.W_OK))
        except OSError as error:
            print(name, errno.errorcode[error.errno])
    print(sorted(name for name in os.listdir(".") if name != "field.npy"))

def tries(call, *arguments):
    try:
        print(call.__name__, call(*arguments))
    except OSError as error:
        print(call.__name__, errno.errorcode[error.errno])

def makes(name, text="text"):
    with open(name, "w") as file:
        file.write(text)
"""


def left(folder: Path) -> dict[str, tuple]:
    """What a program has left, by name: kind and permissions, links, bytes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = (oct(state.st_mode), state.st_nlink if path.is_file() else 0, content)
    return found


def same(run: Runner, text: str, config: str | None = None, env: dict | None = None) -> dict:
    """Runs a program without Knarr, and then with every file in a tier. Returns the document of the run."""
    command = script(SEES + text)
    environment = {**os.environ, **(env or {})}
    plain = subprocess.run(
        command, cwd=run.folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert plain.returncode == 0, plain.stderr
    before = left(run.folder)
    for path in sorted(run.folder.rglob("*"), reverse=True):
        if path.name != "field.npy":
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    ran = run(*command, config=config or tiers(), env=env)
    assert ran.out == plain.stdout, ran.err
    assert left(run.folder) == before
    return ran.result


WRITES = {
    "numpy": "np.save('a.npy', FIELD); np.savez('b.npz', x=FIELD, y=FIELD + 1); FIELD.tofile('c.raw')",
    "memmap": "m = np.memmap('a.mm', 'f4', 'w+', shape=(1000, 9))\nm[:] = 3\nm.flush()\nm[2] = 4\ndel m",
    "text": "makes('a.txt')\nopen('a.txt', 'a').write('more')\nopen('a.txt', 'r+').write('T')\nshow('a.txt')",
    "classic": "import netCDF4\nwith netCDF4.Dataset('a.nc', 'w', format='NETCDF3_64BIT_OFFSET') as f:\n"
    "    f.createDimension('t', None); f.createDimension('x', 256)\n    v = f.createVariable('T', 'f4', ('t', 'x'))\n"
    "    for i in range(9): v[i] = FIELD[0, i]\n"
    "with netCDF4.Dataset('a.nc') as f: print(f['T'][:].sum(), f.file_format)",
    "shell": "subprocess.run('for i in 1 2 3; do echo $i >> b.txt; echo $i > c.txt; done; cp -p b.txt d.txt;"
    " mv c.txt e.txt;"
    " cat d.txt e.txt; tee f.txt < d.txt; ls; dd if=/dev/zero of=g.bin bs=1k count=9 status=none; rm g.bin;"
    " sort -o b.txt -r b.txt; sed -i s/1/one/ b.txt', shell=True, check=True)\n"
    "show('b.txt', 'd.txt', 'e.txt', 'f.txt')",
    "tar": "makes('a.txt'); os.mkdir('d'); makes('d/b.txt', 'b' * 9999)\n"
    "subprocess.run('tar cf x.tar --mtime=@0 a.txt d; mkdir y; tar xf x.tar -C y; ls y; gzip -kn x.tar;"
    " gunzip -c x.tar.gz | cmp - x.tar', shell=True, check=True)",
    "links": "os.mkdir('d'); makes('d/a.txt'); os.link('d/a.txt', 'd/b.txt')\n"
    "subprocess.run('cp -a d e; tar cf x.tar --mtime=@0 d; mkdir y; tar xf x.tar -C y', shell=True, check=True)\n"
    "for top in ('d', 'e', 'y/d'):\n"
    "    print(os.path.samefile(top + '/a.txt', top + '/b.txt'), open(top + '/b.txt').read())",
    "sqlite": "import sqlite3\nc = sqlite3.connect('a.db')\nc.execute('create table t (x)')\n"
    "c.executemany('insert into t values (?)', [(i,) for i in range(100)])\nc.commit(); c.close()\n"
    "c = sqlite3.connect('a.db'); print(c.execute('select sum(x) from t').fetchall())",
    "zip": "import zipfile\nwith zipfile.ZipFile('a.zip', 'w') as z: z.writestr(zipfile.ZipInfo('x'), 'y' * 99)\n"
    "print(zipfile.ZipFile('a.zip').read('x')[:3])",
    "temporary": "import tempfile\nwith tempfile.NamedTemporaryFile('w', dir='.', suffix='.t', delete=False) as f:\n"
    "    f.write('x')\nos.replace(f.name, 'a.txt')\nwith tempfile.TemporaryFile(dir='.') as f: f.write(b'1')",
    "sparse": "with open('a.bin', 'wb') as f:\n    f.seek(30_000_000); f.write(b'x'); f.truncate(40_000_000)\n",
    "empty": "open('a.txt', 'w').close()\nprint(os.path.getsize('a.txt'))",
    "name": "makes('a' * 251 + '.txt'); makes('with\\nline.txt'); makes('dots..txt'); show('with\\nline.txt')",
}


@pytest.mark.parametrize("kind", WRITES)
def test_what_a_program_writes_is_the_same_through_a_tier(run, fast, kind):  # noqa: F811
    result = same(run, WRITES[kind])
    assert result["files"] and result["tiers"][0]["most_bytes"] > 0, result


ASKS = {
    "while it is written": """
f = open("a.txt", "w")
f.write("one"); f.flush()
show("a.txt"); print(os.path.exists("a.txt"), os.path.getsize("./a.txt"), os.path.isfile(os.path.abspath("a.txt")))
print(subprocess.run("cat a.txt; ls; wc -c < a.txt; echo two >> a.txt; cat a.txt", shell=True, stdout=-1).stdout)
os.truncate("a.txt", 1); os.chmod("a.txt", 0o640); os.utime("a.txt", (5, 6))
show("a.txt"); print(os.stat("a.txt").st_mtime, os.path.samefile("a.txt", "a.txt"))
print(os.path.realpath("a.txt") == os.path.join(os.getcwd(), "a.txt"))
print([e.name for e in os.scandir(".") if "a" in e.name])
f.close()
print(len(os.listdir(".")), os.listdir(".").count("a.txt"))
""",
    "a new one": """
f = open("a.txt", "x")
tries(open, "a.txt", "x"); tries(os.mkdir, "a.txt"); tries(os.symlink, "b", "a.txt"); tries(os.rmdir, "a.txt")
f.write("first")
tries(os.open, "a.txt", os.O_DIRECTORY)
f.close()
tries(open, "a.txt", "x"); tries(os.mkdir, "a.txt"); tries(os.mkfifo, "a.txt")
show("a.txt")
""",
    "removed": """
f = open("a.txt", "w"); f.write("x"); f.flush()
os.unlink("a.txt"); show("a.txt"); tries(os.unlink, "a.txt")
f.write("y"); f.close()
makes("b.txt"); os.unlink("b.txt"); show("b.txt")
makes("b.txt", "again"); show("b.txt")
makes("c.txt"); time.sleep(0.5); os.remove("c.txt"); show("c.txt")
""",
    "renamed": """
f = open("a.tmp", "w"); f.write("x"); f.flush()
os.rename("a.tmp", "b.txt"); show("a.tmp", "b.txt")
f.write("y"); f.close(); show("b.txt")
makes("c.txt", "c"); os.replace("c.txt", "b.txt"); show("b.txt", "c.txt")
makes("d.txt", "d"); time.sleep(0.5); os.rename("d.txt", "e.txt"); show("d.txt", "e.txt")
os.mkdir("sub.d"); makes("f.txt", "f"); shutil.move("f.txt", "sub.d/f.txt"); print(os.listdir("sub.d"))
g = open("g.txt", "w"); g.write("g"); tries(os.rename, "g.txt", "none/g.txt"); tries(os.rename, "g.txt", "sub.d")
tries(os.rename, "none.txt", "g.txt"); os.rename("g.txt", "g.txt"); g.close(); show("g.txt")
""",
    "over an older one": """
makes("plain", "older"); os.rename("plain", "a.txt"); os.chmod("a.txt", 0o600)
f = open("a.txt", "w"); show("a.txt"); f.write("new"); f.flush(); show("a.txt"); f.close(); show("a.txt")
makes("plain", "older"); os.rename("plain", "b.txt")
f = open("b.txt", "w"); f.write("new"); os.unlink("b.txt"); show("b.txt"); f.close(); show("b.txt")
makes("plain", "older"); os.rename("plain", "c.txt")
f = open("c.txt", "w"); f.write("new"); os.rename("c.txt", "d.txt"); f.close(); show("c.txt", "d.txt")
makes("plain", "older"); os.rename("plain", "e.txt")
f = open("g.txt", "w"); f.write("new"); os.rename("g.txt", "e.txt"); f.close(); show("e.txt", "g.txt")
""",
    "through links": """
os.symlink("a.txt", "link.txt"); f = open("link.txt", "w"); f.write("x"); f.flush(); show("a.txt", "link.txt")
f.close(); show("a.txt", "link.txt")
os.mkdir("sub"); os.symlink("sub", "other"); makes("other/b.txt"); show("sub/b.txt")
os.link("field.npy", "hard.npy"); makes("hard.npy", "x" * 10); print(os.stat("field.npy").st_size)
os.unlink("hard.npy")
np.save("field.npy", FIELD)
""",
    "directories": """
os.mkdir("sub.d"); f = open("sub.d/a.txt", "w"); f.write("x")
tries(os.rmdir, "sub.d"); print(os.listdir("sub.d"))
f.close(); tries(os.rmdir, "sub.d"); shutil.rmtree("sub.d"); print(os.path.exists("sub.d"))
os.mkdir("sub.d"); makes("sub.d/a.txt"); os.rename("sub.d", "sub.e"); print(os.listdir("sub.e")); show("sub.e/a.txt")
here = os.open("sub.e", os.O_RDONLY); d = os.open("b.txt", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=here)
print(sorted(os.listdir(here)), os.stat("b.txt", dir_fd=here).st_size); os.write(d, b"12"); os.close(d)
os.chdir("sub.e"); show("b.txt")
""",
    "a link to a directory": """
os.mkdir("one.d"); os.mkdir("two.d"); f = open("one.d/a.txt", "w"); f.write("x")
os.symlink("one.d", "latest"); os.symlink("two.d", "next"); os.replace("next", "latest"); os.rename("one.d", "three.d")
f.close(); show("three.d/a.txt", "one.d/a.txt"); print(os.listdir("latest"))
os.rename("three.d", "two.d/three.d"); show("two.d/three.d/a.txt")
""",
    "functions of C": """
import ctypes
libc = ctypes.CDLL(None)
libc.realpath.restype = ctypes.c_char_p
f = open("a.txt", "w")
for name in (b"a.txt", b"./a.txt", b"none.txt", b"."):
    print(libc.realpath(name, None) == os.path.join(os.getcwdb(), os.path.basename(name)))
room = ctypes.create_string_buffer(4096)
print(libc.realpath(b"a.txt", room) == room.value == os.path.join(os.getcwdb(), b"a.txt"))
print(os.statvfs("a.txt").f_fsid == os.statvfs(".").f_fsid, os.pathconf("a.txt", "PC_NAME_MAX"))
tries(os.statvfs, "none.txt")
f.close(); print(os.statvfs("a.txt").f_fsid == os.statvfs(".").f_fsid)
d = os.open("b.txt", os.O_CREAT | os.O_EXCL | os.O_RDONLY); os.close(d); show("b.txt")
""",
    "again and again": """
for i in range(20):
    makes("a.txt", str(i)); assert open("a.txt").read() == str(i)
    with open("b.txt", "a") as f: f.write(str(i))
    with open("c.txt", "w") as f: f.write("x" * i)
    with open("c.txt", "r+") as f: f.seek(0, 2); f.write(str(i))
show("a.txt", "b.txt", "c.txt")
""",
    "what processes inherit": """
f = open("a.txt", "w"); f.write("parent "); f.flush()
if os.fork() == 0:
    f.write("child "); f.flush(); os._exit(0)
os.wait(); f.close(); show("a.txt")
f = os.open("b.txt", os.O_CREAT | os.O_RDWR); os.set_inheritable(f, True)
subprocess.run(f"echo one >&{f}", shell=True, pass_fds=[f]); os.close(f); show("b.txt")
subprocess.run(["sh", "-c", "echo out"], stdout=open("c.txt", "w")); show("c.txt")
""",
}


@pytest.mark.parametrize("kind", ASKS)
def test_what_a_program_sees_is_the_same_while_files_are_in_a_tier(run, fast, kind):  # noqa: F811
    same(run, ASKS[kind])


def test_a_file_has_its_name_outside_when_it_is_in_its_place(run, fast):  # noqa: F811
    text = (
        SEES
        + """
f = open("a.bin", "w"); f.write("x" * 3_000_000); f.flush()
open("written", "w"); until("seen")
f.close()
open("closed", "w")
"""
    )
    text = text.replace(
        "def tries", "def until(name):\n    while not os.path.exists(name): time.sleep(0.01)\n\ndef tries"
    )
    (run.folder / "a.bin").write_text("older")
    process = run.start(*script(text), config=tiers(rate="300kB/s"))
    until((run.folder / "written").exists)
    assert (run.folder / "a.bin").read_text() == "older"
    assert sum(path.stat().st_size for path in fast.glob("*/*.image")) >= 3_000_000
    (run.folder / "seen").touch()
    with nothing_moves(run.folder):
        until((run.folder / "closed").exists, of=process)
        assert (run.folder / "a.bin").read_text() == "older"
    ran = run.finish(process)
    assert ran.code == 0 and (run.folder / "a.bin").read_text() == "x" * 3_000_000
    assert ran.result["longest_until"]["local_s"] < ran.result["longest_until"]["durable_s"]


def test_who_reads_a_file_does_not_wait_until_it_is_in_its_place(run, fast):  # noqa: F811
    text = (
        SEES
        + """
np.save("a.npy", np.arange(1_250_000))
assert (np.load("a.npy") == np.arange(1_250_000)).all()
print(os.listdir("."), subprocess.run(["sha256sum", "a.npy"], capture_output=True, check=True).stdout)
open("read", "w")
"""
    )
    process = run.start(*script(text), config=tiers(rate="1MB/s"))
    with nothing_moves(run.folder):
        until((run.folder / "read").exists, "the program does not read", of=process)
        assert not (run.folder / "a.npy").exists(), "it was waited for"
    assert run.finish(process).code == 0 and (run.folder / "a.npy").stat().st_size > 10_000_000


@pytest.mark.parametrize("mode", ["w", "x", "os.O_CREAT | os.O_RDWR"])
def test_processes_that_make_one_file_at_once_make_one(run, fast, mode):  # noqa: F811
    """Each writes its part, as ranks do."""
    opens = (
        f'open(name, "{mode}b", buffering=0)' if len(mode) == 1 else f"open(os.open(name, {mode}), 'r+b', buffering=0)"
    )
    text = f"""
import multiprocessing, threading
def rank(number, barrier):
    for file in range(20):
        name = f"a{{file}}.bin"
        barrier.wait()
        try:
            f = {opens}
        except FileExistsError:
            f = open(name, "r+b", buffering=0)
        barrier.wait()
        f.seek(number * 1000); f.write(bytes([number]) * 1000)
        f.close()
barrier = multiprocessing.Barrier(4)
ranks = [multiprocessing.Process(target=rank, args=(number, barrier)) for number in range(4)]
[r.start() for r in ranks]; [r.join() for r in ranks]
"""
    ran = run(*script(text), config=tiers(capacity="8G"))
    for file in range(20):
        assert (run.folder / f"a{file}.bin").read_bytes() == b"".join(bytes([n]) * 1000 for n in range(4)), ran.err
    assert len(ran.result["files"]) == 20


@pytest.mark.parametrize(("capacity", "staged"), [("1k", 0), ("6M", 2)])
def test_files_that_find_no_room_are_written_in_their_place(run, fast, capacity, staged):  # noqa: F811
    """The first one waits in the tier until all are written."""
    text = """
np.save("a0.npy", np.arange(250_000))
while not os.path.exists("go"): time.sleep(0.01)
for i in range(1, 4): np.save(f"a{i}.npy", np.arange(250_000) + i)
open("written", "w")
"""
    process = run.start(*script(text), config=tiers(capacity=capacity, rate="500kB/s"))
    with nothing_moves(run.folder) if staged else contextlib.nullcontext():
        (run.folder / "go").touch()
        until((run.folder / "written").exists, of=process)
    ran = run.finish(process)
    assert ran.code == 0, ran.err
    for number in range(4):
        np.testing.assert_array_equal(np.load(run.folder / f"a{number}.npy"), np.arange(250_000) + number)
    assert len(ran.result["files"]) == staged, ran.err
    assert ran.result["tiers"][0]["most_bytes"] <= {"1k": 0, "6M": 6 << 20}[capacity]


def recovered(run: Runner, knarr, tier: Path, process: subprocess.Popen[str]) -> bytes:
    """What is in the file when the run is over, or was recovered."""
    process.communicate(timeout=TIME_LIMIT_S)
    if not (run.folder / "a.bin").exists():
        # Not while a process has it open.
        until(lambda: knarr("run", "--recover", tier, ok=None).returncode == 0, "it is not recovered")
    for spool in set(SHARED_MEMORY.glob(f"knarr-spool-{process.pid}-*")):
        shutil.rmtree(spool)
    forget(run.top)
    return (run.folder / "a.bin").read_bytes()


def test_a_large_file_has_the_times_that_the_program_gives_it(run, fast):  # noqa: F811
    """Those of files that are written to the disk while they are moved."""
    with (run.folder / "big").open("wb") as file:
        file.truncate(60_000_000)
        file.seek(50_000_000)
        file.write(b"x" * 9_000_000)
    os.utime(run.folder / "big", (1e9, 1e9))
    run("cp", "-p", "big", "big.bin", config=tiers("128M", rate="100MB/s"))
    found = (run.folder / "big.bin").stat()
    assert (found.st_mtime, found.st_size) == (1e9, 60_000_000)
    assert (run.folder / "big.bin").read_bytes() == (run.folder / "big").read_bytes()


@pytest.mark.parametrize("state", ["written", "closed"])
@pytest.mark.parametrize("who", ["all", "program", "launcher"])
def test_a_kill_loses_nothing_that_was_written(run, fast, knarr, who, state):  # noqa: F811
    text = f"""
f = open("a.bin", "wb", buffering=0); f.write(b"x" * 3_000_000)
if "{state}" == "closed": f.close()
time.sleep(0.5)
open("ready", "w").write(str(os.getpid())); time.sleep({2 if who == "launcher" else 60})
"""
    process = run.start(*script(text), config=tiers(rate="100kB/s"), start_new_session=True)
    until(lambda: (run.folder / "ready").exists() and (run.folder / "ready").read_text())
    if who == "all":
        os.killpg(process.pid, signal.SIGKILL)
    elif who == "launcher":
        process.kill()
    else:
        os.kill(int((run.folder / "ready").read_text()), signal.SIGKILL)
        time.sleep(1)
        process.terminate()
    assert recovered(run, knarr, fast, process) == b"x" * 3_000_000


@pytest.mark.parametrize("state", ["written", "closed"])
def test_what_a_killed_run_has_left_in_a_tier_is_recovered_from_a_copy(run, knarr, state):
    """The tier itself is gone."""
    text = f"""
f = open("a.bin", "wb", buffering=0); f.write(b"x" * 3_000_000)
if "{state}" == "closed": f.close()
time.sleep(0.5); open("ready", "w"); time.sleep(60)
"""
    process = run.start(*script(text), config=tiers(rate="10kB/s"), start_new_session=True)
    until((run.folder / "ready").exists)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    (run.top / "fast").rename(run.top / "copy")
    knarr("run", "--recover", run.top / "copy")
    assert (run.folder / "a.bin").read_bytes() == b"x" * 3_000_000
    assert not list((run.top / "copy").iterdir())
    for spool in SHARED_MEMORY.glob(f"knarr-spool-{process.pid}-*"):
        shutil.rmtree(spool)
    forget(run.top)


def test_a_file_that_a_process_writes_after_the_program_has_ended_is_kept(run, fast, knarr):  # noqa: F811
    text = """
if os.fork() == 0:
    sys.stdout.close(); sys.stderr.close(); os.close(1); os.close(2)
    f = open("a.bin", "wb", buffering=0); f.write(b"x" * 1000); open("made", "w")
    while not os.path.exists("end"): time.sleep(0.01)
    f.write(b"y"); os._exit(0)
while not os.path.exists("made"): time.sleep(0.01)
"""
    process = run.start(*script(text), config=tiers(), start_new_session=True)
    _, err = process.communicate(timeout=TIME_LIMIT_S)
    assert process.returncode != 0 and "a.bin" in err and "has it open" in err, err
    assert knarr("run", "--recover", fast, ok=False).returncode != 0
    (run.folder / "end").touch()
    assert recovered(run, knarr, fast, process) == b"x" * 1000 + b"y"


def test_a_file_that_a_library_makes_anew_takes_the_place_of_one_in_a_tier(run, fast):  # noqa: F811
    """Knarr captures the second one. Whoever wants a new one is told that one is there."""
    text = """
import h5py, subprocess
open("a.h5", "w").write("text"); os.chmod("a.h5", 0o604)
# Who makes one anew waits for the one before, but not for long.
subprocess.run(["env", "-u", "LD_PRELOAD", "sh", "-c", "until [ -e a.h5 ]; do sleep 0.01; done"], check=True)
h5py.File("a.h5", "w")["x"] = FIELD
f = open("b.h5", "w"); f.write("text"); f.flush()
h5py.File("b.h5", "w")["x"] = FIELD
f.close()
g = open("c.h5", "w")
try:
    h5py.File("c.h5", "x")
except FileExistsError:
    print("it is there")
g.write("text")
"""
    ran = run(*script(text), config=tiers())
    assert ran.out == "it is there\n" and (run.folder / "c.h5").read_text() == "text"
    for name in ("a.h5", "b.h5"):
        with h5py.File(run.folder / name) as file:
            np.testing.assert_array_equal(file["x"][...], FIELD)
    assert (run.folder / "a.h5").stat().st_mode & 0o777 == 0o604


FORTRAN = """
program p
  integer :: i, x
  open(10, file='a.dat', form='unformatted'); do i = 1, 5; write(10) i, real(i); end do; close(10)
  open(11, file='b.dat', access='direct', recl=8, form='unformatted')
  do i = 1, 5; write(11, rec=6-i) i, i; end do; close(11)
  open(12, file='c.dat', access='stream', form='unformatted', status='replace'); write(12) (i, i = 1, 5); close(12)
  open(10, file='a.dat', form='unformatted', status='old'); read(10) x; print *, x; close(10)
  open(13, file='d.txt', position='append'); write(13, *) 'one'; close(13)
  open(13, file='d.txt', position='append'); write(13, *) 'two'; close(13)
  inquire(file='d.txt', size=i); print *, i
  open(14, file='e.tmp'); write(14, *) 1; close(14, status='delete')
end
"""
MPI = """
#include <mpi.h>
#include <stdio.h>
int main(int count, char **words) {
    int rank, size, numbers[1000], other = -1;
    MPI_File file;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int n = 0; n < 1000; n++) numbers[n] = rank * 1000 + n;
    MPI_File_open(MPI_COMM_WORLD, "a.bin", MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    MPI_File_write_at_all(file, (MPI_Offset)rank * 4000, numbers, 1000, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    MPI_File_open(MPI_COMM_WORLD, "a.bin", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    MPI_File_read_at(file, (MPI_Offset)((rank + 1) % size) * 4000, &other, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    if (other != (rank + 1) % size * 1000) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
}
"""


def test_programs_in_fortran_write_in_tiers(run, fast, tmp_path):  # noqa: F811
    (tmp_path / "p.f90").write_text(FORTRAN)
    subprocess.run(["gfortran", tmp_path / "p.f90", "-o", tmp_path / "p"], check=True)
    result = same(run, f"print(subprocess.run([{str(tmp_path / 'p')!r}], stdout=-1, check=True).stdout)")
    assert {Path(file["output"]).name for file in result["files"]} >= {"a.dat", "b.dat", "c.dat", "d.txt"}


def test_ranks_write_one_file_in_a_tier_by_mpi_io(run, fast, tmp_path):  # noqa: F811
    (tmp_path / "p.c").write_text(MPI)
    subprocess.run(["mpicc", tmp_path / "p.c", "-o", tmp_path / "p"], check=True)
    ran = run(*MPIRUN, 3, tmp_path / "p", config=tiers(pattern="a.*"))
    numbers = np.fromfile(run.folder / "a.bin", "i4")
    np.testing.assert_array_equal(numbers, np.arange(3000))
    # MPI libraries make a file of their own beside it, "a.bin_cid-…", and remove it soon.
    assert ran.file("a.bin")["output_bytes"] == 12000


def test_others_see_and_read_what_is_written_in_a_tier(run, fast, knarr):  # noqa: F811
    text = """
f = open("a.bin", "wb", buffering=0); f.write(b"x" * 1000)
g = open("b.bin", "wb"); g.write(b"y" * 1_000_000); g.close()
open("ready", "w")
while not os.path.exists("end"): time.sleep(0.01)
"""
    process = run.start(*script(text), config=tiers(rate="100kB/s"))
    written = subprocess.run(
        "head -c 1000000 /dev/zero | tr '\\0' y | cksum", shell=True, capture_output=True, text=True, check=True
    )
    with nothing_moves(run.folder):
        until((run.folder / "ready").exists, of=process)
        reads = ["sh", "-c", "cat a.bin | wc -c; cksum < b.bin; ls -l b.bin | wc -l"]
        read = knarr("run", "--with", process.pid, "--", *reads, cwd=run.folder).stdout.split()
        assert read == ["1000", *written.stdout.split(), "1"]
        runs = json.loads(knarr("tiers", "--json").stdout)["runs"]
        found = next(found for found in runs if found["pid"] == process.pid)
        assert found["to_move"]["files"] == 1 and found["to_move"]["bytes"] == 1_000_000, found
    (run.folder / "end").touch()
    assert run.finish(process).code == 0 and (run.folder / "a.bin").read_bytes() == b"x" * 1000
