"""`knarr run` with programs of every common linkage: their datasets get filters, or the report says the true reason."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

import plugin
from running import ALL, Runner, filters

CORE = ALL + 'portable = "core"\n'
OWN = ALL + 'portable = "knarr"\n'
VALUES = (np.arange(64 * 4096) % 5000 * 0.25).reshape(64, 4096).astype("f4")

# Naming the classes of property lists makes linkers give the executable a copy of HDF5's variables.
C = """
#include <hdf5.h>
#include <stdlib.h>
static float values[64 * 4096];
int main(int count, char **arguments) {
    hid_t creation = count > 1 ? H5Pcreate(H5P_DATASET_CREATE) : H5P_DEFAULT;
    hid_t access = count > 1 ? H5Pcreate(H5P_DATASET_ACCESS) : H5P_DEFAULT;
    hsize_t dims[2] = {64, 4096};
    for (int i = 0; i < 64 * 4096; i++) values[i] = (float)(i % 5000) * 0.25f;
    hid_t file = H5Fcreate("a.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(2, dims, NULL);
    hid_t set = H5Dcreate2(file, "T", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, creation, access);
    if (H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) return 1;
    H5Dclose(set);
    return H5Fclose(file) < 0;
}
"""

CPP = """
#include <H5Cpp.h>
#include <vector>
int main() {
    std::vector<float> values(64 * 4096);
    for (size_t i = 0; i < values.size(); i++) values[i] = (float)(i % 5000) * 0.25f;
    hsize_t dims[2] = {64, 4096};
    H5::H5File file("a.h5", H5F_ACC_TRUNC);
    H5::DataSet set = file.createDataSet("T", H5::PredType::NATIVE_FLOAT, H5::DataSpace(2, dims));
    set.write(values.data(), H5::PredType::NATIVE_FLOAT);
    return 0;
}
"""

FORTRAN = """
program writes
  use hdf5
  implicit none
  integer(hid_t) :: file, space, set, list
  integer(hsize_t) :: dims(2) = [4096, 64]
  real :: values(4096, 64)
  integer :: error, i
  values = reshape([(real(mod(i, 5000)) * 0.25, i = 0, 64 * 4096 - 1)], [4096, 64])
  call h5open_f(error)
  call h5pcreate_f(H5P_DATASET_CREATE_F, list, error)
  call h5pclose_f(list, error)
  call h5fcreate_f("a.h5", H5F_ACC_TRUNC_F, file, error)
  call h5screate_simple_f(2, dims, space, error)
  call h5dcreate_f(file, "T", H5T_NATIVE_REAL, space, set, error)
  call h5dwrite_f(set, H5T_NATIVE_REAL, values, dims, error)
  call h5dclose_f(set, error)
  call h5fclose_f(file, error)
  call h5close_f(error)
end program
"""

NETCDF_FORTRAN = """
program writes
  use netcdf
  implicit none
  integer :: file, x, y, set, i
  real :: values(4096, 64)
  values = reshape([(real(mod(i, 5000)) * 0.25, i = 0, 64 * 4096 - 1)], [4096, 64])
  i = nf90_create("a.h5", NF90_NETCDF4, file)
  i = nf90_def_dim(file, "x", 4096, x)
  i = nf90_def_dim(file, "y", 64, y)
  i = nf90_def_var(file, "T", NF90_FLOAT, [x, y], set)
  i = nf90_enddef(file)
  i = nf90_put_var(file, set, values)
  if (i /= NF90_NOERR) stop 1
  i = nf90_close(file)
end program
"""


def needs(*things: str | Path) -> None:
    """Skips the test where a compiler, header or library is not there."""
    for thing in things:
        if shutil.which(str(thing)) is None and not Path(thing).exists():
            pytest.skip(f"needs {thing}: run 'make setup' as root")


def built(folder: Path, compiler: str, source: str, suffix: str, *options: object, kind: str = "serial") -> Path:
    """A program built from `source` against Debian's HDF5 of this kind."""
    headers = Path("/usr/include/hdf5") / kind
    needs(compiler, headers / "hdf5.h")
    libraries = next(Path("/usr/lib").glob(f"*/hdf5/{kind}"))
    (folder / f"program{suffix}").write_text(source)
    command = [compiler, f"program{suffix}", "-o", "program", f"-I{headers}", f"-L{libraries}", "-O1", *options]
    subprocess.run([*map(str, command)], cwd=folder, check=True)
    return folder / "program"


def check(run: Runner, *command: object, config: str = CORE, expected: tuple[int, ...] = (2, 1)) -> None:
    """Runs the program; its dataset got the filters and has its values."""
    plugin.register()
    ran = run(*command, config=config)
    path = run.folder / "a.h5"
    assert tuple(filters(path)) == expected, ran.err
    assert ran.file("a.h5")["note"].startswith("handed over")
    with h5py.File(path) as file:
        assert np.array_equal(file["T"][...], VALUES)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("-no-pie", "-fno-pie"),
        ("-pie", "-fPIE"),
        ("-fPIC",),
        *([("-fPIC", "-mno-direct-extern-access")] if platform.machine() == "x86_64" else []),
        ("-rdynamic",),
        ("-Wl,-z,now",),
        ("-Wl,-Bsymbolic", "-flto"),
    ],
    ids=" ".join,
)
def test_executables_of_gcc(run, options):
    program = built(run.folder, "gcc", C, ".c", *options, "-lhdf5")
    check(run, program)
    check(run, program, "lists")
    check(run, program, config=OWN, expected=(plugin.ID,))


def test_calls_from_a_library_that_the_program_links(run):
    """The executable has the copies, and the library makes the calls."""
    library = built(run.folder, "gcc", C.replace("main", "writes"), ".c", "-fPIC", "-shared", "-lhdf5")
    library = library.rename(run.folder / "libwrites.so")
    main = """
    #include <hdf5.h>
    int writes(int, char **);
    int main(int count, char **arguments) {
        return H5Pget_class(H5Pcreate(H5P_DATASET_CREATE)) < 0 || H5Pget_class(H5Pcreate(H5P_DATASET_ACCESS)) < 0
            || writes(count, arguments);
    }
    """
    check(run, built(run.folder, "gcc", main, ".c", library, f"-Wl,-rpath,{run.folder}", "-lhdf5"))


def test_parallel_hdf5(run):
    needs("mpicc")
    check(run, built(run.folder, "mpicc", C, ".c", "-lhdf5", kind="openmpi"))


def test_cpp(run):
    check(run, built(run.folder, "g++", CPP, ".cpp", "-lhdf5_cpp", "-lhdf5"))


@pytest.mark.parametrize("kind", ["serial", "openmpi"])
def test_fortran(run, kind):
    compiler = "gfortran" if kind == "serial" else "mpifort"
    needs(compiler)
    check(run, built(run.folder, compiler, FORTRAN, ".f90", "-lhdf5_fortran", "-lhdf5", kind=kind))


def test_fortran_through_netcdf(run):
    needs("gfortran", "nf-config")
    flags = subprocess.run(["nf-config", "--fflags", "--flibs"], capture_output=True, text=True, check=True)
    check(run, built(run.folder, "gfortran", NETCDF_FORTRAN, ".f90", *flags.stdout.split()))


def test_a_static_hdf5_is_not_seen(run):
    """The report says so, and the file is the program's own."""
    archive = next(Path("/usr/lib").glob("*/hdf5/serial/libhdf5.a"), None)
    if archive is None:
        pytest.skip("needs libhdf5.a: run 'make setup' as root, or install libhdf5-dev")
    libraries = ["-lcrypto", "-lcurl", "-lpthread", "-lsz", "-lz", "-ldl", "-lm"]
    program = built(run.folder, "gcc", C, ".c", archive, *libraries)
    ran = run(program, config=ALL)
    assert not ran.result["hdf5_calls_seen"] and ran.result["files"] == []
    assert "matches was seen" in ran.err and "linked statically" in ran.err
    with h5py.File(run.folder / "a.h5") as file:
        assert file["T"].chunks is None and np.array_equal(file["T"][...], VALUES)


# A filter function of the executable's own HDF5 pushes its errors by classes that the executable may hold, too.
READS = """
#include <hdf5.h>
#include <stdio.h>
int main(void) {
    float value[64 * 4096];
    printf("%d\\n", H5E_PLINE > 0 && H5E_ERR_CLS > 0 && H5E_CANTFILTER > 0 && H5E_SETLOCAL > 0);
    hid_t file = H5Fopen("broken.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t set = H5Dopen2(file, "T", H5P_DEFAULT);
    return H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, value) >= 0;
}
"""


def test_the_filter_tells_its_errors_to_programs_that_hold_the_classes(run):
    plugin.register()
    with h5py.File(run.folder / "broken.h5", "w") as file:
        dataset = file.create_dataset("T", VALUES.shape, "f4", chunks=VALUES.shape, **plugin.filtered())
        dataset.id.write_direct_chunk((0, 0), b"no frame")
    done = plugin.run(built(run.folder, "gcc", READS, ".c", "-lhdf5"), cwd=run.folder)
    assert done.stdout == "1\n" and "knarr filter" in done.stderr
