"""Route `stage`: a file that has moved to its place is read where it has waited, as long as nobody needs the room.

Which file a process reads says the path of its descriptor: that of a copy ends in `.copy`.
"""

from __future__ import annotations

import json
import os
import signal

import pytest

from running import Runner, forget, no_spools_stay, script, until  # noqa: F401  a fixture
from test_stage import fast, spools_of, tiers  # noqa: F401  a fixture

NUMBERS = 500_000
# What a program does with its files: it `makes` one, knows `where` it reads one, `awaits` the copy. The run does not
# see what happens `outside`.
DOES = f"""
import subprocess

def values(seed):
    return np.random.default_rng(seed).standard_normal({NUMBERS}).astype("f4")

def makes(name, seed):
    with h5py.File(name, "w") if name.endswith(".h5") else open(name, "wb") as file:
        if name.endswith(".h5"):
            file["T"] = values(seed)
        else:
            file.write(values(seed).tobytes())

def where(name):
    with open(name, "rb") as file:
        return os.readlink(f"/proc/self/fd/{{file.fileno()}}")

def awaits(name):
    end = time.time() + 20
    while not where(name).endswith(".copy"):
        assert time.time() < end, where(name)
        time.sleep(0.001)

def read(name):
    with open(name, "rb") as file:
        return file.read()

def outside(*command):
    subprocess.run(command, env={{"PATH": os.environ["PATH"]}}, check=True)
"""


def does(text: str) -> list[str]:
    return script(DOES + text)


@pytest.mark.parametrize("name", ["a.h5", "a.raw"])
def test_a_file_in_its_place_is_read_in_the_tier(run, knarr, fast, name):  # noqa: F811
    reads = f"""
makes("{name}", 7)
awaits("{name}")
assert "/fast/" in where("{name}")
if "{name}".endswith(".h5"):
    with h5py.File("{name}") as file:
        print(os.readlink(f"/proc/self/fd/{{file.id.get_vfd_handle()}}")[-5:])
        assert (file["T"][...] == values(7)).all()
else:
    assert read("{name}") == values(7).tobytes()
    print(where("{name}")[-5:])
# What the system says of it fits what is read.
found = os.stat("{name}")
told = f"{{found.st_size}} {{int(found.st_mtime)}} {{found.st_mode & 0o777:o}}"
outside("sh", "-c", f"test \\"$(stat -c '%s %Y %a' {name})\\" = '{{told}}'")
subprocess.run(["cp", "{name}", "other"], check=True)
outside("cmp", "{name}", "other")
open("read", "w").close()
while not os.path.exists("go"):
    time.sleep(0.01)
"""
    process = run.start(*does(reads), config=tiers(rate="20MB/s", pattern=name))
    until(lambda: (run.folder / "read").exists(), of=process)
    (own,) = [found for found in json_of(knarr)["runs"] if found["pid"] == process.pid]
    held = own["tiers"][1]
    size = (run.folder / name).stat().st_size
    assert held["bytes"] == 0 and size <= held["copies_bytes"] < size + 10_000, held
    (run.folder / "go").touch()
    ran = run.finish(process)
    assert ran.code == 0 and ran.out.split() == [".copy"], ran.err
    copies = ran.result["copies"]
    assert copies["files"] == 1 and copies["most_bytes"] == held["copies_bytes"] and copies["reads"] >= 3
    assert "Copies of 1 file stayed in tiers" in ran.err
    assert (run.folder / name).read_bytes() == (run.folder / "other").read_bytes()


def json_of(knarr) -> dict:
    return json.loads(knarr("tiers", "--json").stdout)


CHANGES = {
    "in place": """
found = os.stat("a.raw")
with open("a.raw", "r+b") as file:
    file.write(b"new!")
# Times say nothing of it.
os.utime("a.raw", ns=(found.st_atime_ns, found.st_mtime_ns))
""",
    "appended to": 'with open("a.raw", "ab") as file: file.write(b"new!")',
    "truncated": 'os.truncate("a.raw", 100)',
    "replaced": """
with open("b", "wb") as file: file.write(values(9).tobytes())
os.replace("b", "a.raw")
""",
    "moved away": 'os.rename("a.raw", "b"); os.rename("field.npy", "a.raw")',
    "removed": 'os.remove("a.raw")',
    "exchanged": """
with open("b", "wb") as file: file.write(values(9).tobytes())
os.rename("a.raw", "c"); os.rename("b", "a.raw"); os.rename("c", "b")
""",
    "mapped": """
import mmap
with open("a.raw", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
    mapped[:4] = b"new!"
""",
}


@pytest.mark.parametrize("by", ["the run", "others"])
@pytest.mark.parametrize("how", CHANGES)
def test_a_file_that_has_changed_is_read_as_it_is(run, fast, how, by):  # noqa: F811
    """A copy is of no use any more, whoever has changed the file."""
    change = f"import os, numpy as np\n{DOES[DOES.index('def values') : DOES.index('def makes')]}\n{CHANGES[how]}"
    (run.top / "change.py").write_text(change)
    text = f"""
makes("a.raw", 7)
awaits("a.raw")
if "{by}" == "others":
    outside(sys.executable, "../change.py")
else:
    exec(open("../change.py").read())
read_now = [where("a.raw")[-5:], read("a.raw")] if os.path.exists("a.raw") else None
outside(sys.executable, "-c", "import shutil, os; os.path.exists('a.raw') and shutil.copy('a.raw', 'seen')")
expected = read("seen") if os.path.exists("seen") else None
assert (read_now and read_now[1]) == expected
assert (read_now is None) == ("{how}" == "removed")
assert read_now is None or read_now[0] == "a.raw"
"""
    ran = run(*does(text), config=tiers(rate="20MB/s", pattern="a.raw"))
    assert ran.result["copies"]["files"] == 1, ran.err


def test_a_newer_version_of_a_file_is_read(run, fast):  # noqa: F811
    text = """
for seed in range(4):
    makes("a.h5", seed)
    with h5py.File("a.h5") as file:
        assert (file["T"][...] == values(seed)).all()
    awaits("a.h5")
    with h5py.File("a.h5") as file:
        assert (file["T"][...] == values(seed)).all()
"""
    ran = run(*does(text), config=tiers(rate="20MB/s", pattern="a.h5"))
    assert ran.result["copies"]["files"] == 4, ran.err


@pytest.mark.parametrize("kind", ["h5", "raw"])
def test_copies_make_room_for_what_waits(run, fast, kind):  # noqa: F811
    """Those that nobody has read for longest. Nothing waits for that, and nothing is written to a slower tier."""
    capacity, each = 12 << 20, 4 * NUMBERS
    text = f"""
held = []
for number in range(12):
    makes(f"a{{number}}.{kind}", number)
    assert "/fast/" in where(f"a{{number}}.{kind}"), f"{{number}} was written in its place"
    awaits(f"a{{number}}.{kind}")
    where("a0.{kind}")
    # They go when the launcher looks.
    time.sleep(0.3)
    held.append(sum(os.lstat(os.path.join(top, name)).st_blocks * 512
                    for top, _, names in os.walk("../fast") for name in names))
assert max(held) <= {capacity}, held
assert max(held) > 2 * {each}, held
print(*(int(where(f"a{{number}}.{kind}").endswith(".copy")) for number in range(12)))
"""
    ran = run(*does(text), config=tiers(capacity="12M", rate="40MB/s", pattern=f"a*.{kind}"))
    copied = [int(word) for word in ran.out.split()]
    # The first one is read all the time.
    assert copied[0] == 1 and copied[-1] == 1 and 0 in copied, copied
    for number in range(12):
        assert (run.folder / f"a{number}.{kind}").stat().st_size >= each * 0.8


def test_a_tier_that_is_no_faster_has_no_copies(run, fast):  # noqa: F811
    """Both are directories of one file system."""
    config = tiers(pattern="a.raw").replace("emulate", "# emulate")
    text = """
makes("a.raw", 1)
while "/fast/" in where("a.raw"):
    time.sleep(0.01)
time.sleep(0.5)
assert where("a.raw").endswith("a.raw")
"""
    assert run(*does(text), config=config).result["copies"] == {"files": 0, "most_bytes": 0, "reads": 0}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_copy_outlives_the_run(run, knarr, fast, number):  # noqa: F811
    text = """
makes("a.h5", 1); makes("b.raw", 2)
awaits("a.h5"); awaits("b.raw")
open("copied", "w").close()
time.sleep(600)
"""
    config = tiers(rate="20MB/s")
    process = run.start(*does(text), config=config, start_new_session=True)
    until(lambda: (run.folder / "copied").exists(), of=process)
    assert len(list(fast.rglob("*.copy"))) == 2
    if number == signal.SIGKILL:
        os.killpg(process.pid, number)
        process.communicate()
        forget(run.top)
        # Nothing waits there.
        for place in (fast, *spools_of(process)):
            done = knarr("run", "--recover", place, ok=None)
            assert "nothing in it was handed over" in done.stderr or done.returncode == 0, done.stderr
        run(*script("pass"), config=config)
        assert not spools_of(process)
    else:
        process.send_signal(number)
        run.finish(process)
    assert (run.folder / "b.raw").stat().st_size == 4 * NUMBERS


def test_a_program_reads_on_when_its_launcher_was_killed(run, knarr, fast):  # noqa: F811
    """The copy is as good as it was, and is gone when the run is recovered."""
    text = """
makes("a.raw", 1)
awaits("a.raw")
open("copied", "w").close()
while not os.path.exists("killed"):
    time.sleep(0.01)
assert read("a.raw") == values(1).tobytes()
open("read", "w").close()
while not os.path.exists("recovered"):
    time.sleep(0.01)
assert read("a.raw") == values(1).tobytes() and where("a.raw").endswith("/a.raw")
with open("a.raw", "r+b") as file: file.write(b"new!")
assert read("a.raw")[:4] == b"new!"
print("done")
"""
    config = tiers(rate="20MB/s", pattern="a.raw")
    process = run.start(*does(text), config=config)
    until(lambda: (run.folder / "copied").exists(), of=process)
    process.kill()
    process.wait()
    (run.folder / "killed").touch()
    until(lambda: (run.folder / "read").exists())
    forget(run.top)
    for place in (fast, *spools_of(process)):
        knarr("run", "--recover", place, ok=None)
    (run.folder / "recovered").touch()
    assert process.stdout.read().split() == ["done"], process.stderr.read()
    run(*script("pass"), config=config)
