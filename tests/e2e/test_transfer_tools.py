"""Transferred files and programs that use the C library, as scripts and tools do: sessions become files."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time

import h5py
import netCDF4
import pytest

from running import MPIRUN
from test_transfer import RULE, components

__all__ = ["components"]

FILES = RULE.replace('"*.nc"', '"f*.nc"')
WRITER = """
import os, sys, time, netCDF4, numpy
names, pause = sys.argv[1:-1], float(sys.argv[-1])
for number, name in enumerate(names):
    time.sleep(pause)
    name, *final = name.split(">")
    with netCDF4.Dataset(name, "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 300_000)
        time_of = file.createVariable("time", "f8", ("time",))
        time_of.units = "days since 2000-01-01"
        time_of[:] = [number]
        values = numpy.arange(300_000, dtype="f4") % 997 + 1000 * number
        file.createVariable("t", "f4", ("time", "x"))[:] = values[None, :]
    for other in final:
        os.rename(name, other)
"""


def writes(components, *names: str, pause: float = 0.3) -> subprocess.Popen[str]:
    return components.start("model", sys.executable, "-c", WRITER, *names, pause)


def reads(components, script: str) -> subprocess.Popen[str]:
    return components.start("analysis", "sh", "-ec", textwrap.dedent(script))


def mean(number: int) -> float:
    return sum((i % 997) + 1000 * number for i in range(300_000)) / 300_000


def test_cdo_waits_for_a_file_and_reads_it(components):
    components.config = FILES
    analysis = reads(components, "for i in 0 1; do cdo -s outputf,%.3f -fldmean f$i.nc; done")
    model = components.finish(writes(components, "f0.nc", "f1.nc"))
    ran = components.finish(analysis)
    assert [float(word) for word in ran.out.split()] == pytest.approx([mean(0), mean(1)], rel=1e-5)
    assert "has it as a file" in model.file("f0.nc")["note"] and model.file("f1.nc")["outcome"] == "packed"
    assert ran.file("f1.nc")["outcome"] == "transferred"


def test_ncks_and_cp_read_the_same_file(components):
    components.config = FILES
    analysis = reads(components, "ncks -O -d x,5,7 f0.nc out.nc; cp f0.nc copy.nc; ncdump -v time f0.nc; ncks -M f0.nc")
    components.finish(writes(components, "f0.nc"))
    ran = components.finish(analysis)
    assert "time = 0 ;" in ran.out
    for name, x in (("out.nc", 3), ("copy.nc", 300_000)):
        with netCDF4.Dataset(components.folder / name) as file:
            assert file["t"].shape == (1, x)
    with netCDF4.Dataset(components.folder / "copy.nc") as file:
        assert file["t"][0, 996] == 996 and file["t"][0, 997] == 0


@pytest.mark.parametrize("way", ["[ -e f.nc ]", "test -s f.nc", "ls | grep -q '^f.nc$'", "stat f.nc >stat 2>&1"])
def test_a_loop_until_a_file_is_there(components, way):
    """All sessions have one name, and the script removes each file."""
    components.config = FILES
    script = f"""
        for i in 0 1 2; do
            until {way}; do sleep 0.02; done
            ncdump -v time f.nc | grep 'time = '
            rm -f f.nc
        done
    """
    analysis = reads(components, script)
    model = components.finish(writes(components, "f.nc", "f.nc", "f.nc", pause=0.1))
    ran = components.finish(analysis)
    times = [line.split()[2] for line in ran.out.splitlines() if "UNLIMITED" not in line]
    assert times == ["0", "1", "2"], ran.out
    assert model.code == 0 and not (components.folder / "f.nc").exists()


def test_what_a_script_removes_is_what_it_has_read(components):
    """The next session is there already."""
    components.config = FILES
    script = """
        until ls | grep -q '^f.nc$'; do sleep 0.02; done
        until [ -e ../ended ]; do sleep 0.1; done
        for i in 0 1 2; do
            ncdump -v time f.nc | grep 'time = [0-9]'
            rm -f f.nc
        done
    """
    analysis = reads(components, script)
    model = writes(components, "f.nc", "f.nc", "f.nc", pause=0)
    while sum(len(list(spool.glob("*/handed-over.json"))) for spool in components.spools()) < 3:
        assert model.poll() is None
        time.sleep(0.05)
    (components.top / "ended").touch()
    components.finish(model)
    assert components.finish(analysis).out == " time = 0 ;\n time = 1 ;\n time = 2 ;\n"


def test_open_mfdataset_finds_what_was_closed(components):
    components.config = FILES
    script = """
        import glob, sys, time, xarray
        while len(glob.glob("f*.nc")) < 3:
            time.sleep(0.05)
        with xarray.open_mfdataset("f*.nc", combine="nested", concat_dim="time", decode_times=False) as data:
            print(data.t.shape, [int(data.t[i, 3]) for i in range(3)])
    """
    analysis = components.start("analysis", sys.executable, "-c", textwrap.dedent(script))
    components.finish(writes(components, "f0.nc", "f1.nc", "f2.nc"))
    assert components.finish(analysis).out == "(3, 300000) [3, 1003, 2003]\n"


def test_xarray_alone_makes_no_file(components):
    """It looks into a file before its library opens it."""
    components.config = FILES
    script = """
        import xarray
        for name in ("f0.nc", "f1.nc"):
            with xarray.open_dataset(name, decode_times=False) as data:
                print(int(data.t[0, 3]))
    """
    analysis = components.start("analysis", sys.executable, "-c", textwrap.dedent(script))
    model = components.finish(writes(components, "f0.nc", "f1.nc"))
    assert components.finish(analysis).out == "3\n1003\n"
    assert model.file("f1.nc")["outcome"] == "transferred" and not list(components.folder.glob("f*.nc"))


@pytest.mark.parametrize("name", ["part", "f-part.nc"], ids=["other name", "name of a rule"])
@pytest.mark.parametrize("reader", ["library", "tool"])
def test_a_writer_that_renames_what_it_has_written(components, name, reader):
    components.config = FILES
    script = """
        import sys, netCDF4
        for number in range(2):
            with netCDF4.Dataset(f"f{number}.nc") as file:
                print(int(file["t"][0, 0]))
    """
    with_tool = """
        for i in 0 1; do cdo -s outputf,%.0f -fldmin f$i.nc; done
    """
    if reader == "library":
        analysis = components.start("analysis", sys.executable, "-c", textwrap.dedent(script))
    else:
        analysis = reads(components, with_tool)
    model = components.finish(writes(components, f"{name}>f0.nc", f"{name}>f1.nc"))
    assert components.finish(analysis).out.split() == ["0", "1000"]
    # What was compressed under a name of the rule has its plan beside it, under the new name.
    plans = [] if name == "part" else ["f0.nc.knarr.json", "f1.nc.knarr.json"]
    assert sorted(path.name for path in components.folder.glob("*")) == sorted(["f0.nc", "f1.nc", *plans])
    assert model.code == 0, model.err


def test_what_never_comes_is_absent_after_a_while(components):
    components.config = FILES.replace('"60s"', '"500ms"')
    model = components.start("model", "sleep", "4")
    components.await_running("model")
    begin = time.monotonic()
    ran = components.finish(reads(components, "[ ! -e f9.nc ]; [ ! -e f9.nc ]; [ ! -e g.nc ]; ! cat f8.nc"))
    assert time.monotonic() - begin < 4
    assert "f9.nc: waited" in ran.err and "f8.nc: waited" in ran.err
    components.finish(model)


def test_a_writer_that_is_never_started_is_named(components):
    components.config = FILES.replace('"60s"', '"500ms"')
    ran = components.finish(reads(components, "! cat f0.nc; [ ! -e f0.nc ]"))
    said = "f0.nc: waited 0 s: component 'model' was not started within 0.5 s (timeout)"
    assert ran.err.count(said) >= 1, ran.err


def test_a_file_of_an_earlier_run_is_replaced(components):
    components.config = FILES
    (components.folder / "f0.nc").write_bytes(b"old")
    model = writes(components, "f0.nc")
    analysis = reads(components, "while [ $(wc -c < f0.nc) = 3 ]; do sleep 0.05; done; cat f0.nc > copy.nc")
    components.finish(model)
    components.finish(analysis)
    with netCDF4.Dataset(components.folder / "copy.nc") as file:
        assert file["t"][0, 3] == 3


BOTH_WRITE = """
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <string.h>

#define OK(call) if (failed = (call)) return printf("%s: %s\\n", #call, ncmpi_strerror(failed))

int main(int argc, char **argv) {
    int failed, file, dim, var, rank, values[4];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Offset start = rank * 4, count = 4;
    int is_first = strcmp(argv[1], "create") == 0;
    if (is_first) {
        OK(ncmpi_create(MPI_COMM_WORLD, argv[2], NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file));
        OK(ncmpi_def_dim(file, "x", 8, &dim));
        OK(ncmpi_def_var(file, "a", NC_INT, 1, &dim, &var));
        OK(ncmpi_def_var(file, "b", NC_INT, 1, &dim, &var));
        OK(ncmpi_enddef(file));
    } else {
        OK(ncmpi_open(MPI_COMM_WORLD, argv[2], NC_WRITE, MPI_INFO_NULL, &file));
    }
    OK(ncmpi_inq_varid(file, is_first ? "a" : "b", &var));
    for (int i = 0; i < 4; i++) values[i] = (is_first ? 0 : 100) + rank * 4 + i;
    OK(ncmpi_put_vara_int_all(file, var, &start, &count, values));
    OK(ncmpi_close(file));
    MPI_Finalize();
    return 0;
}
"""


@pytest.mark.parametrize("way", ["knarr.toml", "dtf.ini"])
def test_both_components_write_a_file_with_pnetcdf(components, tmp_path, way):
    program = tmp_path / "both"
    (tmp_path / "both.c").write_text(BOTH_WRITE)
    subprocess.run(["mpicc.openmpi", "-o", program, tmp_path / "both.c", "-lpnetcdf"], check=True)
    if way == "dtf.ini":
        components.config_name = "dtf.ini"
        components.config = """[INFO]
ncomp=2
comp_name=model
comp_name=analysis
[FILE]
filename=f.nc
comp1=model
comp2=analysis
mode=file
write_only=1
"""
    else:
        components.config = FILES + 'write_only = true\noutput = "classic"\n'
    analysis = components.start("analysis", *MPIRUN, 2, program, "open", "f.nc")
    components.finish(components.start("model", *MPIRUN, 2, program, "create", "f.nc"))
    components.finish(analysis)
    with netCDF4.Dataset(components.folder / "f.nc") as file:
        assert file["a"][:].tolist() == list(range(8)) and file["b"][:].tolist() == list(range(100, 108))


def test_both_components_write_a_file_with_hdf5(components):
    components.config = FILES.replace('"f*.nc"', '"f*.h5"') + "write_only = true\n"
    create = "import h5py\nwith h5py.File('f.h5', 'w') as file: file['a'] = range(1000)"
    add = "import h5py\nwith h5py.File('f.h5', 'r+') as file: file['b'] = file['a'][5] + 1"
    analysis = components.start("analysis", sys.executable, "-c", add)
    components.finish(components.start("model", sys.executable, "-c", create))
    components.finish(analysis)
    with h5py.File(components.folder / "f.h5") as file:
        assert file["a"][999] == 999 and file["b"][()] == 6
