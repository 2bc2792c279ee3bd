/* Writes the same elements again and again, by one rank after the other, the last one first. What HDF5 has for an order counts:
 * flushes, collective calls, and atomic mode, in which MPI alone says who is next. Each phase has a row of its own.
 *
 * usage: order FILE COLUMNS */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "../checked.h"

static int rank, size;

enum { FLUSHED, COLLECTIVE, CREATED, ATOMIC, MIXED, PHASES };

static hid_t set, memory, space, collective;
static hsize_t columns;

static void select_row(hsize_t row, int selects) {
    hsize_t start[2] = {row, 0}, count[2] = {1, columns};
    OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
    OK(H5Sselect_all(memory));
    if (!selects) {
        OK(H5Sselect_none(space));
        OK(H5Sselect_none(memory));
    }
}

static void put(hsize_t row, int value, int selects, hid_t list) {
    int *values = malloc(sizeof *values * columns);
    for (hsize_t i = 0; i < columns; i++) values[i] = value;
    select_row(row, selects);
    OK(H5Dwrite(set, H5T_NATIVE_INT, memory, space, list, values));
    free(values);
}

static void compare(hsize_t row, int expected, hid_t list) {
    int *values = malloc(sizeof *values * columns);
    select_row(row, 1);
    OK(H5Dread(set, H5T_NATIVE_INT, memory, space, list, values));
    for (hsize_t i = 0; i < columns; i++)
        if (values[i] != expected) {
            fprintf(stderr, "rank %d, row %d: %d in place of %d\n", rank, (int)row, values[i], expected);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    free(values);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    columns = (hsize_t)atoi(argv[2]);
    hid_t access = OK(H5Pcreate(H5P_FILE_ACCESS));
    OK(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
    collective = OK(H5Pcreate(H5P_DATASET_XFER));
    OK(H5Pset_dxpl_mpio(collective, H5FD_MPIO_COLLECTIVE));
    hid_t file = OK(H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, access));
    hsize_t shape[2] = {PHASES, columns};
    space = OK(H5Screate_simple(2, shape, NULL));
    memory = OK(H5Screate_simple(1, &columns, NULL));
    set = OK(H5Dcreate2(file, "rows", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));

    for (int turn = size - 1; turn >= 0; turn--) {
        if (rank == turn) put(FLUSHED, 100 + rank, 1, H5P_DEFAULT);
        OK(H5Fflush(file, H5F_SCOPE_GLOBAL));
        MPI_Barrier(MPI_COMM_WORLD);
        OK(H5Fflush(file, H5F_SCOPE_GLOBAL));
    }
    compare(FLUSHED, 100, collective);
    for (int turn = size - 1; turn >= 0; turn--) put(COLLECTIVE, 200 + rank, rank == turn, collective);
    compare(COLLECTIVE, 200, collective);
    for (int turn = size - 1; turn >= 0; turn--) {
        char name[32];
        if (rank == turn) put(CREATED, 300 + rank, 1, H5P_DEFAULT);
        MPI_Barrier(MPI_COMM_WORLD);
        snprintf(name, sizeof name, "empty%d", turn);
        OK(H5Dclose(OK(H5Dcreate2(file, name, H5T_STD_I32LE, memory, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT))));
    }
    compare(CREATED, 300, collective);

    OK(H5Fset_mpi_atomicity(file, 1));
    for (int turn = size - 1; turn >= 0; turn--) {
        if (rank == turn) put(ATOMIC, 400 + rank, 1, H5P_DEFAULT);
        MPI_Barrier(MPI_COMM_WORLD);
        compare(ATOMIC, 400 + turn, H5P_DEFAULT);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    OK(H5Fset_mpi_atomicity(file, 0));

    /* Every rank for itself, then one together with the others, then one alone. */
    if (rank == size - 1) put(MIXED, 500 + rank, 1, H5P_DEFAULT);
    MPI_Barrier(MPI_COMM_WORLD);
    put(MIXED, 600, rank == 0, collective);
    compare(MIXED, 600, collective);
    if (rank == 0) put(MIXED, 700, 1, H5P_DEFAULT);
    OK(H5Fflush(file, H5F_SCOPE_GLOBAL));
    MPI_Barrier(MPI_COMM_WORLD);
    compare(MIXED, 700, H5P_DEFAULT);

    H5Dclose(set);
    OK(H5Fclose(file));
    MPI_Finalize();
    return 0;
}
