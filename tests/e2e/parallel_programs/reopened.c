/* Creates an HDF5 file with all ranks, and opens it again and again to write more into it, as models do with their history.
 *
 * usage: reopened FILE CYCLES COLUMNS WHAT
 * WHAT: "alone" writes what a rank has for itself, as HDF5 does unless it is asked for something else, "together" in collective
 *       calls; "go" is as "alone", waits for a file "go.N" before the file is opened for the N-th time, and makes "done.N" when it is
 *       closed; "try" is as "go", and
 *       ends when the file cannot be opened; "kill" ends the last rank by SIGKILL while the file is open for the last time */
#include <hdf5.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../checked.h"

struct pair {
    int number;
    double value;
};

static int rank, size;
static hsize_t columns;
static hid_t alone, together, pair;

/* A dataset with a row for each cycle, of which each rank has a part. */
static void make(hid_t file, const char *name, hid_t type, hsize_t rows, int grows, int deflate, const void *fill) {
    hsize_t shape[2] = {rows, columns * (hsize_t)size}, most[2] = {H5S_UNLIMITED, shape[1]}, chunk[2] = {1, columns};
    hid_t space = OK(H5Screate_simple(2, shape, grows ? most : NULL)), list = OK(H5Pcreate(H5P_DATASET_CREATE));
    if (grows || deflate) OK(H5Pset_chunk(list, 2, chunk));
    if (deflate) OK(H5Pset_deflate(list, 1));
    if (fill) OK(H5Pset_fill_value(list, type, fill));
    OK(H5Dclose(OK(H5Dcreate2(file, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT))));
    OK(H5Sclose(space));
    OK(H5Pclose(list));
}

static void move(hid_t set, hid_t type, hsize_t row, int owner, hid_t how, void *values, int writes) {
    hsize_t start[2] = {row, columns * (hsize_t)owner}, count[2] = {1, columns};
    hid_t space = OK(H5Dget_space(set)), memory = OK(H5Screate_simple(1, &columns, NULL));
    OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
    if (writes)
        OK(H5Dwrite(set, type, memory, space, how, values));
    else
        OK(H5Dread(set, type, memory, space, how, values));
    OK(H5Sclose(memory));
    OK(H5Sclose(space));
}

static float value(hsize_t row, int owner, hsize_t column) {
    return (float)row * 1000 + (float)owner * 10 + (float)(column / 64);
}

static void put(hid_t file, hsize_t row, hid_t how) {
    float *t = malloc(sizeof *t * columns), *before = malloc(sizeof *before * columns);
    double *f = malloc(sizeof *f * columns);
    int *d = malloc(sizeof *d * columns);
    struct pair *p = calloc(columns, sizeof *p);
    for (hsize_t n = 0; n < columns; n++) {
        t[n] = value(row, rank, n);
        f[n] = t[n] / 3;
        d[n] = (int)(t[n] * 2);
        p[n].number = d[n] + 1;
        p[n].value = f[n] + 1;
    }
    hid_t set = OK(H5Dopen2(file, "T", H5P_DEFAULT));
    hsize_t shape[2] = {row + 1, columns * (hsize_t)size};
    OK(H5Dset_extent(set, shape));
    move(set, H5T_NATIVE_FLOAT, row, rank, how, t, 1);
    if (row > 0) {
        /* What another rank has put before is there. */
        int other = (rank + 1) % size;
        move(set, H5T_NATIVE_FLOAT, row - 1, other, how, before, 0);
        for (hsize_t n = 0; n < columns; n++)
            if (before[n] != value(row - 1, other, n)) OK(-1);
    }
    OK(H5Dclose(set));
    set = OK(H5Dopen2(file, "group/F", H5P_DEFAULT));
    move(set, H5T_NATIVE_DOUBLE, row, rank, how, f, 1);
    OK(H5Dclose(set));
    set = OK(H5Dopen2(file, "P", H5P_DEFAULT));
    move(set, pair, row, rank, how, p, 1);
    OK(H5Dclose(set));
    /* The filter is the program's own: HDF5 wants all ranks there. */
    set = OK(H5Dopen2(file, "D", H5P_DEFAULT));
    move(set, H5T_NATIVE_INT, row, rank, together, d, 1);
    OK(H5Dclose(set));
    free(t), free(before), free(f), free(d), free(p);
}

/* Says that the file is closed for the N-th time. */
static void done(int number) {
    char name[32];
    snprintf(name, sizeof name, "done.%d", number);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) fclose(fopen(name, "w"));
}

static void await(int number) {
    char name[32];
    snprintf(name, sizeof name, "go.%d", number);
    while (access(name, F_OK) != 0) usleep(10000);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int cycles = atoi(argv[2]);
    columns = (hsize_t)atoi(argv[3]);
    const char *what = argv[4];
    int waits = strcmp(what, "go") == 0 || strcmp(what, "try") == 0;
    hid_t access_list = OK(H5Pcreate(H5P_FILE_ACCESS));
    alone = H5P_DEFAULT;
    together = OK(H5Pcreate(H5P_DATASET_XFER));
    OK(H5Pset_fapl_mpio(access_list, MPI_COMM_WORLD, MPI_INFO_NULL));
    OK(H5Pset_dxpl_mpio(together, H5FD_MPIO_COLLECTIVE));
    pair = OK(H5Tcreate(H5T_COMPOUND, sizeof(struct pair)));
    OK(H5Tinsert(pair, "number", HOFFSET(struct pair, number), H5T_NATIVE_INT));
    OK(H5Tinsert(pair, "value", HOFFSET(struct pair, value), H5T_NATIVE_DOUBLE));
    hid_t how = strcmp(what, "together") == 0 ? together : alone;
    hid_t file = OK(H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, access_list));
    OK(H5Gclose(OK(H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT))));
    int fill = -7;
    make(file, "T", H5T_NATIVE_FLOAT, 0, 1, 0, NULL);
    make(file, "group/F", H5T_NATIVE_DOUBLE, (hsize_t)cycles + 1, 0, 0, NULL);
    make(file, "P", pair, (hsize_t)cycles + 1, 0, 0, NULL);
    make(file, "D", H5T_NATIVE_INT, (hsize_t)cycles + 1, 0, 1, NULL);
    make(file, "never", H5T_NATIVE_INT, 64, 0, 0, &fill);
    put(file, 0, how);
    OK(H5Fclose(file));
    for (int cycle = 1; cycle <= cycles; cycle++) {
        if (waits) await(cycle);
        if (strcmp(what, "try") == 0) H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
        file = H5Fopen(argv[1], H5F_ACC_RDWR, access_list);
        if (file < 0 && strcmp(what, "try") == 0) {
            printf("rank %d is refused\n", rank);
            break;
        }
        OK(file);
        put(file, (hsize_t)cycle, how);
        if (cycle == cycles && strcmp(what, "kill") == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == size - 1) raise(SIGKILL);
            sleep(60);
        }
        OK(H5Fclose(file));
        if (waits) done(cycle);
    }
    MPI_Finalize();
    return 0;
}
