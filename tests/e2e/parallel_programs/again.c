/* Opens an HDF5 file with all ranks again and again, and appends a record each time, as models do with their history.
 *
 * usage: again FILE CYCLES [what]
 * what: of the last cycle, "wait" waits for a file "go" before the file is closed, "kill" ends the last rank by SIGKILL then,
 *       "leave" leaves closing to MPI_Finalize, "objects" closes the file before the objects in it */
#include <hdf5.h>
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../checked.h"

int main(int argc, char **argv) {
    const char *what = argc > 3 ? argv[3] : "";
    int rank, size, cycles = atoi(argv[2]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    hid_t list = OK(H5Pcreate(H5P_FILE_ACCESS)), collective = OK(H5Pcreate(H5P_DATASET_XFER));
    OK(H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL));
    OK(H5Pset_dxpl_mpio(collective, H5FD_MPIO_COLLECTIVE));
    if (strcmp(what, "objects") == 0) OK(H5Pset_fclose_degree(list, H5F_CLOSE_WEAK));
    for (int cycle = 1; cycle <= cycles; cycle++) {
        int is_last = cycle == cycles;
        hid_t file = OK(H5Fopen(argv[1], H5F_ACC_RDWR, list)), set = OK(H5Dopen2(file, "T", H5P_DEFAULT));
        hid_t space = OK(H5Dget_space(set));
        hsize_t now[3], start[3] = {0, 0, 0}, n[3];
        OK(H5Sget_simple_extent_dims(space, now, NULL));
        H5Sclose(space);
        start[0] = now[0]++;
        start[1] = now[1] * (hsize_t)rank / (hsize_t)size;
        n[0] = 1;
        n[1] = now[1] * (hsize_t)(rank + 1) / (hsize_t)size - start[1];
        n[2] = now[2];
        OK(H5Dset_extent(set, now));
        float *values = malloc(sizeof *values * n[1] * n[2]);
        for (hsize_t i = 0; i < n[1] * n[2]; i++) {
            hsize_t y = start[1] + i / n[2], x = i % n[2];
            values[i] = sinf((float)y * 0.1f) * 100 + (float)(x / 16) + (float)start[0];
        }
        space = OK(H5Dget_space(set));
        hid_t part = OK(H5Screate_simple(3, n, NULL));
        OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, n, NULL));
        OK(H5Dwrite(set, H5T_NATIVE_FLOAT, part, space, collective, values));
        H5Sclose(space);
        H5Sclose(part);
        free(values);
        if (is_last) {
            if (strcmp(what, "leave") == 0) break;
            if (strcmp(what, "wait") == 0 || strcmp(what, "kill") == 0) OK(H5Fflush(file, H5F_SCOPE_GLOBAL));
            MPI_Barrier(MPI_COMM_WORLD);
            if (strcmp(what, "wait") == 0)
                while (access("go", F_OK) != 0) usleep(10000);
            if (strcmp(what, "kill") == 0 && rank == size - 1) raise(SIGKILL);
            if (strcmp(what, "kill") == 0) sleep(60);
        }
        if (is_last && strcmp(what, "objects") == 0) {
            OK(H5Fclose(file));
            MPI_Barrier(MPI_COMM_WORLD);
            OK(H5Dclose(set));
        } else {
            OK(H5Dclose(set));
            OK(H5Fclose(file));
        }
    }
    MPI_Finalize();
    return 0;
}
