"""Programs that are coupled as models are: what S3D and E3SM write, in blocks and in very many pieces, and models in
Fortran with programs in Python."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from running import MPIRUN
from test_pnetcdf import compiled
from test_transfer import PROGRAMS, both, components

__all__ = ["components"]


s3d = compiled(PROGRAMS / "s3d.c")
e3sm = compiled(PROGRAMS / "e3sm.c")


@pytest.mark.parametrize(("writers", "readers"), [((2, 1, 2), (1, 2, 1)), ((1, 3, 1), (2, 1, 2))])
def test_checkpoints_of_s3d(components, s3d, writers, readers):
    """Each checkpoint is a file of its own, and no side of the domain divides evenly."""

    def program(way: str, parts: tuple[int, int, int]) -> list:
        count = parts[0] * parts[1] * parts[2]
        return [*MPIRUN, count, s3d, way, "wave", 21, 17, 13, *parts, 3]

    for ran in both(components, program("write", writers), program("read", readers)):
        for checkpoint in range(3):
            assert ran.file(f"wave.{checkpoint}.nc")["outcome"] == "transferred"
    assert not list(components.folder.iterdir())


@pytest.mark.parametrize(("writers", "readers", "columns"), [(3, 2, 866), (2, 3, 5)])
def test_a_history_file_of_e3sm(components, e3sm, writers, readers, columns):
    """Runs of three columns on each of 72 levels; with five columns some ranks have none."""
    arguments = ["h0.nc", columns, 72, 2]
    both(
        components,
        [*MPIRUN, writers, e3sm, "write", *arguments],
        [*MPIRUN, readers, e3sm, "read", *arguments],
        reader_first=True,
    )
    assert not list(components.folder.iterdir())


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("gfortran") or not shutil.which("nf-config"):
        pytest.skip("needs gfortran and netCDF-Fortran: run 'make setup' as root, or install libnetcdff-dev")
    flags = subprocess.run(["nf-config", "--fflags", "--flibs"], capture_output=True, text=True, check=True)
    folder = tmp_path_factory.mktemp("state")
    command = ["gfortran", PROGRAMS / "state.f90", "-o", "state", *flags.stdout.split()]
    subprocess.run(command, check=True, cwd=folder)
    return folder / "state"


VALUES = """
import sys, netCDF4, h5py, numpy as np, xarray
steps = int(sys.argv[1])
def values(step):
    lat, lon = np.mgrid[1:17, 1:25]
    return 1000.0 * step + 10.0 * lat + lon / 8.0
expected = np.stack([values(step + 1) for step in range(steps)])
"""
READS = {
    "netCDF4": 'found = netCDF4.Dataset("state.nc")["T"][:].filled(-1)',
    "h5py": 'found = h5py.File("state.nc")["T"][:]',
    "xarray": 'found = xarray.open_dataset("state.nc", decode_times=False)["T"].values',
}


@pytest.mark.parametrize("library", READS)
def test_python_reads_what_a_model_in_fortran_writes(components, state, library):
    reads = VALUES + READS[library] + "\nassert found.shape == expected.shape and (found == expected).all()\n"
    model, _ = both(components, [state, "write", 5], [sys.executable, "-c", reads, 5])
    assert model.file("state.nc")["outcome"] == "transferred"
    assert not list(components.folder.iterdir())


def test_a_model_in_fortran_reads_what_python_writes(components, state):
    writes = VALUES + textwrap.dedent("""
        times = xarray.DataArray(6.0 * np.arange(1, steps + 1), dims="time")
        T = xarray.DataArray(expected, dims=("time", "lat", "lon"), attrs={"units": "K"})
        xarray.Dataset({"T": T, "time": times}).to_netcdf("state.nc", unlimited_dims=["time"])
    """)
    both(components, [sys.executable, "-c", writes, 4], [state, "read", 4], reader_first=True)
    assert not list(components.folder.iterdir())
