/* Each rank writes files of its own, and tells what /dev/shm holds meanwhile.
 *
 * usage: many_files write FILES STEPS SECONDS | many_files read FILE SECONDS
 * write: FILES files are open at a time, and get STEPS records of 1 MiB each; SECONDS later rank 0 tells once more
 * read: opens a file for so long */
#include <dirent.h>
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { MOST = 64, LENGTH = 1 << 18 };

static void tell(const char *when) {
    struct statvfs found;
    MPI_Barrier(MPI_COMM_WORLD);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && statvfs("/dev/shm", &found) == 0)
        printf("%s %lu\n", when, (unsigned long)((found.f_blocks - found.f_bfree) * found.f_bsize)), fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void check(int code, const char *what) {
    if (code)
        printf("failed %s %d\n", what, code), fflush(stdout);
}

int main(int count, char **words) {
    int rank, ids[MOST], variables[MOST], dims[2];
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    tell("before");
    if (strcmp(words[1], "read") == 0) {
        check(ncmpi_open(MPI_COMM_WORLD, words[2], NC_NOWRITE, MPI_INFO_NULL, &ids[0]), "open");
        tell("open");
        sleep((unsigned)atoi(words[3]));
        check(ncmpi_close(ids[0]), "close");
        MPI_Finalize();
        return 0;
    }
    int files = atoi(words[2]), steps = atoi(words[3]);
    float *values = malloc(sizeof *values * LENGTH);
    for (int n = 0; n < LENGTH; n++)
        values[n] = (float)(n % 97 + rank);
    for (int file = 0; file < files; file++) {
        char name[64];
        snprintf(name, sizeof name, "hist_%d_%d.nc", rank, file);
        check(ncmpi_create(MPI_COMM_SELF, name, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &ids[file]), "create");
        ncmpi_def_dim(ids[file], "time", NC_UNLIMITED, &dims[0]);
        ncmpi_def_dim(ids[file], "x", LENGTH, &dims[1]);
        ncmpi_def_var(ids[file], "T", NC_FLOAT, 2, dims, &variables[file]);
        ncmpi_enddef(ids[file]);
    }
    for (int step = 0; step < steps; step++)
        for (int file = 0; file < files; file++) {
            MPI_Offset start[2] = {step, 0}, n[2] = {1, LENGTH};
            check(ncmpi_put_vara_float_all(ids[file], variables[file], start, n, values), "put");
        }
    tell("open");
    for (int file = 0; file < files; file++)
        check(ncmpi_close(ids[file]), "close");
    sleep((unsigned)atoi(words[4]));
    tell("later");
    MPI_Finalize();
    return 0;
}
