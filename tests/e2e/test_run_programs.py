"""`knarr run` with programs of netCDF and NCO: the files hold what they hold without Knarr."""

from __future__ import annotations

import shutil
import subprocess

import netCDF4
import numpy as np
import pytest

from running import ALL, CLOSE, FIELD

pytestmark = pytest.mark.suite

RULES = {
    "handed over": ALL,
    "close": CLOSE,
    "own": ALL + 'portable = "knarr"\n',
}
PROGRAMS = {
    "ncks": ["ncks", "-O", "-v", "T", "-d", "t,1,6", "in.nc", "out.nc"],
    "ncks of a classic file": ["ncks", "-O", "-4", "classic.nc", "out.nc"],
    "nccopy": ["nccopy", "in.nc", "out.nc"],
    "ncgen": ["ncgen", "-4", "-o", "out.nc", "in.cdl"],
}


@pytest.fixture
def inputs(run):
    for name, kind in {"in.nc": "NETCDF4", "classic.nc": "NETCDF3_64BIT_OFFSET"}.items():
        with netCDF4.Dataset(run.folder / name, "w", format=kind) as dataset:
            dataset.createDimension("t", None)
            for axis, length in zip("yx", FIELD.shape[1:], strict=True):
                dataset.createDimension(axis, length)
            variable = dataset.createVariable("T", "f4", ("t", "y", "x"), fill_value=-9)
            variable.units = "K"
            variable[:] = FIELD
            dataset.createVariable("P", "f8", ("t", "y", "x"))[:] = FIELD * 2
            dataset.createVariable("y", "f8", ("y",))[:] = np.arange(FIELD.shape[1])
    return run


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_outputs_equal_those_of_a_plain_run(inputs, knarr, program, rule):
    run, command = inputs, PROGRAMS[program]
    if shutil.which(command[0]) is None:
        package = "nco" if command[0] == "ncks" else "netcdf-bin"
        pytest.skip(f"needs {command[0]}: run 'make setup' as root, or install {package}")
    if command[0] == "ncgen":
        with open(run.folder / "in.cdl", "w") as text:
            subprocess.run(["ncdump", "in.nc"], cwd=run.folder, stdout=text, check=True)
    subprocess.run(command, cwd=run.folder, check=True)
    plain = run.folder / "plain.nc"
    (run.folder / "out.nc").rename(plain)
    ran = run(*command, config=RULES[rule])
    assert (run.folder / "out.nc").stat().st_size < 0.8 * plain.stat().st_size, ran.err
    knarr("verify", plain, run.folder / "out.nc")
