/* How long one value takes from a program that puts it to one that waits for it.
 *
 * usage: latency write|read FILE RECORDS
 * The writer defines a variable along the unlimited dimension, and puts and syncs one record after the other, milliseconds
 * apart. The reader asks for each before it is there, and checks it. Both print -1 and the time at which definitions were
 * complete (write) or the file was open (read), then each record and the time at which it was to be put, or had come: each
 * time twice, in seconds of a clock that all processes share. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        int code = (call);                                                                                             \
        if (code != NC_NOERR) {                                                                                        \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, ncmpi_strerror(code));                               \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                              \
        }                                                                                                              \
    } while (0)

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (argc != 4) return 64;
    int writes = strcmp(argv[1], "write") == 0, records = atoi(argv[3]), id, dim, variable;
    double *times = malloc(sizeof *times * (size_t)records), begun;
    if (writes) {
        usleep(500000);
        OK(ncmpi_create(MPI_COMM_WORLD, argv[2], NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id));
        OK(ncmpi_def_dim(id, "time", NC_UNLIMITED, &dim));
        OK(ncmpi_def_var(id, "value", NC_DOUBLE, 1, &dim, &variable));
        OK(ncmpi_enddef(id));
        begun = now();
        usleep(500000);
    } else {
        OK(ncmpi_open(MPI_COMM_WORLD, argv[2], NC_NOWRITE, MPI_INFO_NULL, &id));
        begun = now();
        OK(ncmpi_inq_varid(id, "value", &variable));
    }
    for (MPI_Offset record = 0; record < records; record++) {
        double value = 3.5 * (double)record;
        if (writes) {
            usleep(5000);
            times[record] = now();
            OK(ncmpi_put_var1_double_all(id, variable, &record, &value));
            OK(ncmpi_sync(id));
        } else {
            double found;
            OK(ncmpi_get_var1_double_all(id, variable, &record, &found));
            times[record] = now();
            if (found != value) {
                fprintf(stderr, "record %lld is %g\n", (long long)record, found);
                MPI_Abort(MPI_COMM_WORLD, 2);
            }
        }
    }
    OK(ncmpi_close(id));
    printf("-1 %.6f %.6f\n", begun, begun);
    for (int record = 0; record < records; record++) printf("%d %.6f %.6f\n", record, times[record], times[record]);
    free(times);
    MPI_Finalize();
    return 0;
}
