/* One of two programs that DTF couples, which transfer the same variable several times while the file is open.
 *
 * usage: dtf_again dtf.ini scale|letkf TRANSFERS once|multiple
 * "scale" writes Hist.D01.nc, "letkf" reads it and checks every value. Each transfer has other values. When a transfer returns
 * in the program that writes, the other one has what it asked for. With "multiple" the first values are read TRANSFERS times,
 * by one call of the program that writes. */
#include <dtf.h>
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../checked.h"

enum { LENGTH = 60 };

static const char *path = "Hist.D01.nc";
static int rank, size, id, variable;
static MPI_Offset start, count;
static float values[LENGTH];

static const char *mark(int transfer) {
    static char name[32];
    snprintf(name, sizeof name, "got.%d", transfer);
    return name;
}

static void put(int transfer) {
    for (MPI_Offset i = 0; i < count; i++) values[i] = (float)(1000 * transfer + start + i);
    OK(ncmpi_put_vara_float_all(id, variable, &start, &count, values));
}

static void get(int transfer) {
    memset(values, 0, sizeof values);
    OK(ncmpi_get_vara_float_all(id, variable, &start, &count, values));
    for (MPI_Offset i = 0; i < count; i++)
        check(values[i] == (float)(1000 * transfer + start + i), "a value is that of another transfer");
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 5) return 64;
    int transfers = atoi(argv[3]), multiple = strcmp(argv[4], "multiple") == 0, dim;
    start = LENGTH * rank / size;
    count = LENGTH * (rank + 1) / size - start;
    OK(dtf_init(argv[1], argv[2]));
    if (strcmp(argv[2], "scale") == 0) {
        OK(ncmpi_create(MPI_COMM_WORLD, path, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id));
        OK(ncmpi_def_dim(id, "x", LENGTH, &dim));
        OK(ncmpi_def_var(id, "v", NC_FLOAT, 1, &dim, &variable));
        OK(ncmpi_enddef(id));
        if (multiple) {
            put(7);
            dtf_transfer_multiple(path, id);
            check(access(mark(transfers - 1), F_OK) == 0, "the call returns before the values were read as often as wanted");
        }
        for (int transfer = 0; transfer < (multiple ? 1 : transfers); transfer++) {
            put(transfer);
            OK(dtf_transfer(path, id));
            check(multiple || access(mark(transfer), F_OK) == 0, "the call returns before the other side has the values");
        }
    } else {
        OK(ncmpi_open(MPI_COMM_WORLD, path, NC_NOWRITE, MPI_INFO_NULL, &id));
        OK(ncmpi_inq_varid(id, "v", &variable));
        for (int transfer = 0; transfer < transfers; transfer++) {
            /* The other side is ahead if it can be. */
            usleep(50000);
            get(multiple ? 7 : transfer);
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == 0) fclose(fopen(mark(transfer), "w"));
            OK(dtf_transfer(path, id));
        }
        if (multiple) {
            dtf_complete_multiple(path, id);
            get(0);
            OK(dtf_transfer(path, id));
        }
    }
    OK(ncmpi_close(id));
    OK(dtf_finalize());
    MPI_Finalize();
    return 0;
}
