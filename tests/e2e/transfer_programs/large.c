/* One of two programs that are coupled by a file with one long variable of bytes, which is put by one request and got by one.
 *
 * usage: large write|read FILE BYTES MIB STRIDE...
 * For each stride, the longest first, the reader gets every STRIDE-th byte, then the same spread over twice the memory, checks
 * them, and takes no more than so many MiB of memory beside its buffer. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "../checked.h"

static signed char value(MPI_Offset at) { return (signed char)(at % 251 - 125 + (at >> 20) % 3); }

static long peak_kib(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss;
}

/* Peaks of memory only grow, and the buffer is part of them: each stride has one of its own, longer than those before. */
static void gets_strided(int id, int variable, MPI_Offset bytes, MPI_Offset stride, long most_mib) {
    MPI_Offset start = 0, count = (bytes + stride - 1) / stride, twice = 2;
    signed char *values = malloc((size_t)count * 2);
    memset(values, 1, (size_t)count * 2);
    long before = peak_kib();
    OK(ncmpi_get_vars_schar_all(id, variable, &start, &count, &stride, values));
    for (MPI_Offset at = 0; at < count; at++) check(values[at] == value(at * stride), "a value is wrong");
    check(peak_kib() - before < most_mib * 1024, "the get takes more memory");
    if (stride > 1) {
        OK(ncmpi_get_varm_schar_all(id, variable, &start, &count, &stride, &twice, values));
        for (MPI_Offset at = 0; at < count; at++) check(values[2 * at] == value(at * stride), "a value is wrong");
    }
}

int main(int argc, char **argv) {
    int id, dim, variable;
    MPI_Init(&argc, &argv);
    if (argc < 6) return 64;
    MPI_Offset bytes = atoll(argv[3]), start = 0;
    if (strcmp(argv[1], "write") == 0) {
        signed char *values = malloc((size_t)bytes);
        for (MPI_Offset at = 0; at < bytes; at++) values[at] = value(at);
        OK(ncmpi_create(MPI_COMM_WORLD, argv[2], NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id));
        OK(ncmpi_def_dim(id, "x", bytes, &dim));
        OK(ncmpi_def_var(id, "long", NC_BYTE, 1, &dim, &variable));
        OK(ncmpi_enddef(id));
        OK(ncmpi_put_vara_schar_all(id, variable, &start, &bytes, values));
        OK(ncmpi_close(id));
    } else {
        OK(ncmpi_open(MPI_COMM_WORLD, argv[2], NC_NOWRITE, MPI_INFO_NULL, &id));
        OK(ncmpi_inq_varid(id, "long", &variable));
        for (int i = 5; i < argc; i++) gets_strided(id, variable, bytes, atoll(argv[i]), atol(argv[4]));
        OK(ncmpi_close(id));
    }
    MPI_Finalize();
    return 0;
}
