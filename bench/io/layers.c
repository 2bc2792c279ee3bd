/* A step written by what lies beneath netCDF: POSIX, MPI-IO, parallel HDF5. Shapes and calls are those of steps.c. */
#include "layers.h"
#include <fcntl.h>
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static void ok(int holds, const char *what) { check(!holds, what, "it has failed"); }

void write_posix(const char *path, struct how how) {
    char own[4200];
    snprintf(own, sizeof own, "%s.%d.raw", path, rank);
    int file = open(own, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    ok(file >= 0, own);
    size_t part = values / (size_t)how.calls * sizeof(float);
    for (int v = 0; v < VARIABLES; v++)
        for (int call = 0; call < how.calls; call++)
            ok(write(file, (char *)block[v] + (size_t)call * part, part) == (ssize_t)part, own);
    ok(close(file) == 0, own);
}

void write_mpiio(const char *path, struct how how) {
    int all[3] = {DEPTH, SIDE, SIDE}, mine[3], at[3];
    for (int axis = 0; axis < 3; axis++) {
        mine[axis] = (int)count[axis];
        at[axis] = (int)start[axis];
    }
    MPI_File file;
    MPI_Datatype view;
    MPI_Offset length = (MPI_Offset)DEPTH * SIDE * SIDE * (MPI_Offset)sizeof(float);
    ok(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file) == MPI_SUCCESS, path);
    ok(MPI_File_set_size(file, VARIABLES * length) == MPI_SUCCESS, path);
    MPI_Type_create_subarray(3, all, mine, at, MPI_ORDER_C, MPI_FLOAT, &view);
    MPI_Type_commit(&view);
    size_t part = values / (size_t)how.calls;
    for (int v = 0; v < VARIABLES; v++) {
        MPI_File_set_view(file, v * length, MPI_FLOAT, view, "native", MPI_INFO_NULL);
        for (int call = 0; call < how.calls; call++) {
            const float *from = block[v] + (size_t)call * part;
            int told = how.independent ? MPI_File_write(file, from, (int)part, MPI_FLOAT, MPI_STATUS_IGNORE)
                                       : MPI_File_write_all(file, from, (int)part, MPI_FLOAT, MPI_STATUS_IGNORE);
            ok(told == MPI_SUCCESS, path);
        }
    }
    MPI_Type_free(&view);
    ok(MPI_File_close(&file) == MPI_SUCCESS, path);
}

void write_hdf5(const char *path, struct how how) {
    hsize_t all[3] = {DEPTH, SIDE, SIDE}, at[3], n[3];
    for (int axis = 0; axis < 3; axis++) {
        at[axis] = start[axis];
        n[axis] = count[axis];
    }
    n[0] /= (hsize_t)how.calls;
    hid_t list = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL);
    H5Pset_dxpl_mpio(transfer, how.independent ? H5FD_MPIO_INDEPENDENT : H5FD_MPIO_COLLECTIVE);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, list);
    hid_t space = H5Screate_simple(3, all, NULL), part = H5Screate_simple(3, n, NULL);
    ok(file >= 0, path);
    for (int v = 0; v < VARIABLES; v++) {
        hid_t set = H5Dcreate2(file, name_of(v), H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        ok(set >= 0, name_of(v));
        for (int call = 0; call < how.calls; call++) {
            at[0] = (hsize_t)call * n[0];
            H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, n, NULL);
            const float *from = block[v] + values / (size_t)how.calls * (size_t)call;
            ok(H5Dwrite(set, H5T_NATIVE_FLOAT, part, space, transfer, from) >= 0, name_of(v));
        }
        H5Dclose(set);
    }
    H5Sclose(space);
    H5Sclose(part);
    H5Pclose(list);
    H5Pclose(transfer);
    ok(H5Fclose(file) >= 0, path);
}
