"""`knarr run` with programs of several processes on one node (skipped without Open MPI and its HDF5)."""

from __future__ import annotations

import shutil

import h5py
import numpy as np
import pytest

from running import ALL, MPIRUN, c_program, is_packed

RANKS, ROWS, COLUMNS = 3, 64, 4096

PARALLEL = """
static float values[64][4096];
int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < 64 * 4096; i++) ((float *)values)[i] = rank * 1000 + (float)(i % 500);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    hid_t file = H5Fcreate("a.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access);
    hsize_t dims[2] = {64 * ranks, 4096}, count[2] = {64, 4096}, start[2] = {64 * rank, 0};
    hid_t space = H5Screate_simple(2, dims, NULL), memory = H5Screate_simple(2, count, NULL);
    hid_t set = H5Dcreate2(file, "T", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    if (H5Dwrite(set, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, values) < 0) MPI_Abort(MPI_COMM_WORLD, 1);
    H5Dclose(set); H5Sclose(space); H5Sclose(memory); H5Fclose(file); H5Pclose(access);
    MPI_Finalize();
    return 0;
}
"""


NO_MPI = "needs mpirun: run 'make setup' as root, or install openmpi-bin"


@pytest.mark.skipif(shutil.which("mpirun") is None, reason=NO_MPI)
@pytest.mark.parametrize("when", ['when = "close"\n', ""])
def test_ranks_write_one_file(run, when):
    """A plain file, which is packed when it is closed, or what they hand over."""
    program = c_program(run.folder, PARALLEL, parallel=True)
    ran = run(*MPIRUN, 3, program, config=ALL + when)
    found = ran.file("a.h5")
    assert found["outcome"] == "packed" and is_packed(run.folder / "a.h5"), ran.err
    assert ("handed over" in found.get("note", "")) == (when == "")
    expected = np.concatenate(
        [rank * 1000 + (np.arange(ROWS * COLUMNS) % 500).reshape(ROWS, COLUMNS) for rank in range(RANKS)]
    )
    with h5py.File(run.folder / "a.h5") as file:
        assert np.array_equal(file["T"][:], expected)
