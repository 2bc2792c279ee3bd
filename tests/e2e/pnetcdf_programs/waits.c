/* waits FILE MIB: each rank writes so much noise, and says what ncmpi_close took it: processor time and time, in seconds. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void check(int code) {
    if (code != NC_NOERR) {
        fprintf(stderr, "%s\n", ncmpi_strerror(code));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv) {
    int rank, ranks, file, dimension, variable;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Offset count = (MPI_Offset)atoi(argv[2]) << 18, start = rank * count;
    float *values = malloc((size_t)count * sizeof(float));
    for (MPI_Offset n = 0; n < count; n++) values[n] = (float)(n % 1000) + (float)rand() / (float)RAND_MAX;
    check(ncmpi_create(MPI_COMM_WORLD, argv[1], NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file));
    check(ncmpi_def_dim(file, "x", ranks * count, &dimension));
    check(ncmpi_def_var(file, "v", NC_FLOAT, 1, &dimension, &variable));
    check(ncmpi_enddef(file));
    check(ncmpi_put_vara_float_all(file, variable, &start, &count, values));
    double used = seconds(CLOCK_PROCESS_CPUTIME_ID), begun = seconds(CLOCK_MONOTONIC);
    check(ncmpi_close(file));
    printf("%.3f %.3f\n", seconds(CLOCK_PROCESS_CPUTIME_ID) - used, seconds(CLOCK_MONOTONIC) - begun);
    free(values);
    MPI_Finalize();
    return 0;
}
