"""Route `stage` with `when = "close"`: plain files of a program are packed in the tier when they are closed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest

from running import FIELD, SHARED_MEMORY, TIME_LIMIT_S, Runner, forget, no_spools_stay, script, until  # noqa: F401  a fixture
from test_stage import fast, tiers  # noqa: F401  a fixture

CLOSE = 'when = "close"\n'
# Values that pack well.
MAKES = """
def classic(name, form="NETCDF3_64BIT_OFFSET", scale=1.0):
    with netCDF4.Dataset(name, "w", format=form) as file:
        file.history = "made by a test"
        file.createDimension("time", None)
        for axis, length in zip("zyx", FIELD.shape):
            file.createDimension(axis, length)
        T = file.createVariable("T", "f4", ("time", "z", "y", "x"))
        T.units = "K"
        for step in range(3):
            T[step] = FIELD * scale + step
"""


def values(scale: float = 1.0) -> np.ndarray:
    return np.stack([(FIELD * scale + step).astype("f4") for step in range(3)])


def is_hdf5(path: Path) -> bool:
    return path.read_bytes()[:4] == b"\x89HDF"


@pytest.mark.parametrize("form", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"])
def test_a_classic_file_of_one_process_becomes_a_compressed_one(run, fast, form):  # noqa: F811
    """With all that the program has said of it, and under a name that its library reads."""
    text = f"""
os.umask(0o027)
classic("a.nc", "{form}")
os.utime("a.nc", (1_000_000_000, 1_100_000_000))
os.setxattr("a.nc", "user.origin", b"test")
print(netCDF4.Dataset("a.nc")["T"][...].sum())
"""
    ran = run(*script(MAKES + text), config=tiers(more=CLOSE))
    path = run.folder / "a.nc"
    told = ran.file("a.nc")
    assert told["outcome"] == "packed" and is_hdf5(path), ran.err
    with netCDF4.Dataset(path) as file:
        assert file.history == "made by a test" and file["T"].units == "K"
        assert file.dimensions["time"].isunlimited() and file.data_model.startswith("NETCDF4")
        np.testing.assert_array_equal(file["T"][...], values())
    plain = values().nbytes
    assert path.stat().st_size < 0.8 * plain < plain <= told["input_bytes"] < plain + 4000, told
    found = path.stat()
    assert (found.st_mode & 0o777, found.st_mtime) == (0o640, 1_100_000_000)
    assert os.getxattr(path, "user.origin") == b"test"
    assert (run.folder / "a.nc.knarr.json").exists(), "it has a plan"
    subprocess.run(["ncdump", "-h", path], check=True, capture_output=True)


def test_programs_of_other_libraries_and_bounds(run, fast):  # noqa: F811
    """HDF5 is packed in its place, and classic files without records are in the tier. The bounds of the rule hold."""
    text = """
with h5py.File("a.h5", "w") as file:
    file["T"] = FIELD
    file["T"].attrs["units"] = "K"
with h5py.File("a.h5", "a") as file:
    file["U"] = FIELD + 1
with netCDF4.Dataset("b.nc", "w", format="NETCDF3_CLASSIC") as file:
    for axis, length in zip("zyx", FIELD.shape):
        file.createDimension(axis, length)
    file.createVariable("T", "f4", ("z", "y", "x"))[:] = FIELD
"""
    ran = run(*script(MAKES + text), config=tiers(more=CLOSE + "goal = 'ratio'\nvariables.T.max_abs_error = 0.01\n"))
    for name in ("a.h5", "b.nc"):
        assert ran.file(name)["outcome"] == "packed" and is_hdf5(run.folder / name), ran.err
        with h5py.File(run.folder / name) as file:
            error = np.abs(file["T"][...].astype("f8") - FIELD)
            assert 0 < error.max() <= 0.01
    with h5py.File(run.folder / "a.h5") as file:
        np.testing.assert_array_equal(file["U"][...], FIELD + 1)
        assert file["T"].attrs["units"] == "K"


def test_what_cannot_be_packed_is_moved_as_it_is(run, fast):  # noqa: F811
    """Files of other formats, some that are broken, some that would get larger, and what no variable has."""
    text = """
np.save("a.npy", FIELD)
open("b.txt", "w").write("text " * 100_000)
classic("whole")
whole = open("whole", "rb").read()
open("c.nc", "wb").write(whole[:200])
open("d.nc", "wb").write(whole + b"what the format does not know")
with netCDF4.Dataset("e.nc", "w", format="NETCDF3_CLASSIC") as file:
    file.createDimension("n", 3)
    file.createVariable("n", "i4", ("n",))[:] = 1
open("f.h5", "wb").write(b"\\x89HDF\\r\\n\\x1a\\n" + bytes(10_000))
"""
    plain = run.top / "plain"
    plain.mkdir()
    np.save(plain / "field.npy", FIELD)
    subprocess.run(script(MAKES + text), cwd=plain, check=True)
    ran = run(*script(MAKES + text), config=tiers(more=CLOSE))
    reasons = {
        "a.npy": "no classic netCDF file",
        "b.txt": "no classic netCDF file",
        "c.nc": "",
        "d.nc": "bytes that belong to no variable",
        "e.nc": "not make it smaller",
        "f.h5": "no classic netCDF file",
    }
    for name, why in reasons.items():
        assert (run.folder / name).read_bytes() == (plain / name).read_bytes(), name
        copied = ran.file(name)["copied"]
        assert copied.startswith("moved as the program wrote it: ") and why in copied, (name, copied)


def test_readers_find_the_file_before_while_and_after_it_is_packed(run, fast):  # noqa: F811
    """Whoever has it open goes on with what the program has written; others get one or the other, never half of one."""
    text = """
def opened(name):
    try:
        return netCDF4.Dataset(name)
    except OSError:
        # netCDF opens a file twice, and it was packed in between: docs/run.md.
        return netCDF4.Dataset(name)

for number in range(2):
    begin = time.monotonic()
    classic(f"a{number}.nc")
    before = open(f"a{number}.nc", "rb")
    end = time.time() + 250
    seen = set()
    while "NETCDF4" not in seen and time.time() < end:
        with opened(f"a{number}.nc") as file:
            np.testing.assert_array_equal(file["T"][2], FIELD + 2)
            seen.add(file.data_model[:7])
        time.sleep(0.05)
    with open(f"a{number}.nc") as file:
        link, passed = os.readlink(f"/proc/self/fd/{file.fileno()}"), time.monotonic() - begin
        # It is found in the tier, unless there was time to move it.
        assert ".packed" in link or passed > os.path.getsize(f"a{number}.nc") / 5e5, (link, passed)
    # It was opened at once, and what it has read of is not changed.
    print(before.read(3), sorted(seen))
"""
    process = run.start(*script(MAKES + text), config=tiers(rate="500kB/s", more=CLOSE))
    ran = run.finish(process)
    assert ran.code == 0, ran.err
    assert ran.out.count("NETCDF4") == 2, ran.out
    for number in range(2):
        with netCDF4.Dataset(run.folder / f"a{number}.nc") as file:
            np.testing.assert_array_equal(file["T"][...], values())


def test_a_tier_without_room_for_both_moves_what_was_written(run, fast):  # noqa: F811
    """What the program has written takes two thirds of the tier."""
    capacity = values().nbytes * 3 // 2
    ran = run(*script(MAKES + 'classic("a.nc")\n'), config=tiers(capacity=str(capacity), more=CLOSE))
    with netCDF4.Dataset(run.folder / "a.nc") as file:
        np.testing.assert_array_equal(file["T"][...], values())
        assert file.data_model.startswith("NETCDF3")
    assert "no room to pack it" in ran.file("a.nc")["copied"] and ran.result["tiers"][0]["most_bytes"] <= capacity


@pytest.mark.parametrize("killed", ["launcher", "all"])
def test_what_a_kill_leaves_is_recovered(run, knarr, fast, killed):  # noqa: F811
    """Packed, or as the program has written it."""
    text = """
for number in range(4):
    classic(f"a{number}.nc", scale=number + 1)
open("written", "w")
while not os.path.exists("go"):
    time.sleep(0.05)
"""
    process = run.start(*script(MAKES + text), config=tiers(rate="10kB/s", more=CLOSE), start_new_session=True)
    until((run.folder / "written").exists, of=process)
    until(lambda: list(fast.glob("*/*.packed")), "nothing is packed", of=process)
    if killed == "all":
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    (run.folder / "go").touch()
    # What works for the launcher goes on for some seconds.
    process.communicate(timeout=TIME_LIMIT_S)
    forget(run.top)
    for place in (fast, *sorted(SHARED_MEMORY.glob(f"knarr-spool-{process.pid}-*"))):
        knarr("run", "--recover", place, ok=place == fast)
    for number in range(4):
        with netCDF4.Dataset(run.folder / f"a{number}.nc") as file:
            np.testing.assert_array_equal(file["T"][...], values(number + 1))
    shutil.rmtree(run.scratch, ignore_errors=True)


def test_a_file_that_gets_a_name_of_another_rule_stays_as_it_is(run, fast):  # noqa: F811
    """While it is written."""
    text = """
with netCDF4.Dataset("out.nc", "w", format="NETCDF3_CLASSIC") as file:
    os.rename("out.nc", "keep.nc")
    file.createDimension("n", FIELD.size)
    file.createVariable("T", "f4", ("n",))[:] = FIELD.ravel()
"""
    keeps = '[[file]]\npattern = "keep*"\nroute = "file"\n'
    rule = tiers(more=CLOSE + "variables.T.max_abs_error = 1.0\n", pattern="out*")
    ran = run(*script(MAKES + text), config=rule + keeps)
    with netCDF4.Dataset(run.folder / "keep.nc") as file:
        assert file.data_model == "NETCDF3_CLASSIC"
        np.testing.assert_array_equal(file["T"][...], FIELD.ravel())
    assert ran.file("keep.nc")["copied"] == "moved as the program wrote it", ran.err
