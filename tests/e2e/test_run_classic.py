"""`when = "close"` for classic netCDF files that programs write without HDF5."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import netCDF4
import numpy as np
import pytest

from running import CLOSE, FIELD, script, until
from test_stage_close import MAKES, is_hdf5, values

NETCDF = CLOSE.replace('"*"', '"*.nc"')


def has(path: Path, expected: np.ndarray) -> None:
    with netCDF4.Dataset(path) as file:
        np.testing.assert_array_equal(file["T"][...], expected)


@pytest.mark.parametrize("form", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"])
def test_a_classic_file_is_packed_where_it_is(run, form):
    text = f"""
os.umask(0o027)
classic("a.nc", "{form}")
os.setxattr("a.nc", "user.origin", b"test")
os.utime("a.nc", (1_000_000_000, 1_100_000_000))
"""
    ran = run(*script(MAKES + text), config=NETCDF)
    told = ran.file("a.nc")
    assert told["outcome"] == "packed" and is_hdf5(run.folder / "a.nc"), ran.err
    has(run.folder / "a.nc", values())
    found = (run.folder / "a.nc").stat()
    assert found.st_size < 0.8 * values().nbytes and (found.st_mode & 0o777, found.st_mtime) == (0o640, 1_100_000_000)
    assert os.getxattr(run.folder / "a.nc", "user.origin") == b"test"
    assert (run.folder / "a.nc.knarr.json").exists()


def test_it_stays_as_it_is_while_the_program_goes_on_and_bounds_hold(run):
    """The netCDF library opens a file twice: it must not become another format in between."""
    text = """
classic("a.nc")
time.sleep(0.5)
print(open("a.nc", "rb").read(3))
"""
    ran = run(*script(MAKES + text), config=NETCDF + "variables.T.max_abs_error = 0.01\n")
    assert ran.out.split() == ["b'CDF'"], ran.err
    with netCDF4.Dataset(run.folder / "a.nc") as file:
        assert 0 < np.abs(file["T"][...].astype("f8") - values()).max() <= 0.011


def test_a_file_that_is_opened_again_and_again_has_all_that_was_added(run):
    text = """
classic("a.nc")
for step in range(3, 9):
    with netCDF4.Dataset("a.nc", "a") as file:
        file["T"][step] = FIELD + step
"""
    run(*script(MAKES + text), config=NETCDF)
    has(run.folder / "a.nc", np.stack([(FIELD + step).astype("f4") for step in range(9)]))
    assert is_hdf5(run.folder / "a.nc")


def test_files_of_other_formats_stay_and_are_not_told(run):
    text = """
np.save("a.npy", FIELD)
open("b.txt", "w").write("text " * 100_000)
classic("whole")
whole = open("whole", "rb").read()
open("c.nc", "wb").write(whole[:200])
open("d.nc", "wb").write(whole + b"what the format does not know")
open("expected", "wb").write(whole)
"""
    ran = run(*script(MAKES + text), config=CLOSE.replace('"*"', '"*.*"'))
    whole = (run.folder / "expected").read_bytes()
    assert (run.folder / "c.nc").read_bytes() == whole[:200]
    assert (run.folder / "d.nc").read_bytes() == whole + b"what the format does not know"
    assert {Path(file["input"]).name for file in ran.result["files"]} == {"c.nc", "d.nc"}
    assert "bytes that belong to no variable" in ran.err and "is truncated" in ran.err


@pytest.mark.parametrize("command", ["ncks -O -6 in.nc out.nc", "cdo -s -f nc2 copy in.nc out.nc"])
def test_tools_write_such_files(run, command):
    """NCO gives the file its name when it is written."""
    with netCDF4.Dataset(run.folder / "in.nc", "w", format="NETCDF3_64BIT_OFFSET") as file:
        for axis, length in zip("yx", (400, 500), strict=True):
            file.createDimension(axis, length)
        file.createVariable("T", "f4", ("y", "x"))[:] = FIELD.ravel()[:200_000].reshape(400, 500)
    ran = run(*command.split(), config=CLOSE.replace('"*"', '"out*"'))
    assert is_hdf5(run.folder / "out.nc"), ran.err
    has(run.folder / "out.nc", FIELD.ravel()[:200_000].reshape(400, 500))


def test_a_program_that_is_killed_while_it_writes_loses_nothing(run):
    """The last record is there, and the header does not say so."""
    text = """
file = netCDF4.Dataset("a.nc", "w", format="NETCDF3_64BIT_OFFSET")
file.createDimension("time", None)
file.createDimension("n", 100_000)
T = file.createVariable("T", "f4", ("time", "n"))
T[0] = np.arange(100_000)
file.sync()
with open("a.nc", "ab") as end:
    end.write(b"x" * 400_000)
open("ready", "w")
time.sleep(60)
"""
    process = run.start(*script(text), config=NETCDF)
    until((run.folder / "ready").exists)
    before = (run.folder / "a.nc").read_bytes()
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True)
    for child in children.stdout.split():
        # Others may end meanwhile.
        with contextlib.suppress(OSError):
            if Path(f"/proc/{child}/cmdline").read_bytes().startswith(os.fsencode(script("")[0])):
                os.kill(int(child), signal.SIGKILL)
    ran = run.finish(process)
    assert (run.folder / "a.nc").read_bytes() == before
    assert "bytes that belong to no variable" in ran.err
