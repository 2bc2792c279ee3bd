/* Ranks that use a file one after the other, each for itself (MPI_COMM_SELF), with a barrier between.
 *
 * usage: elsewhere FILE open|create LENGTH
 *        elsewhere FILE run|share LENGTH COMMAND...
 * Rank 0 writes LENGTH numbers, all 1, and closes the file. Rank 1 then opens it and tells the first and the last of them, or
 * creates it again with 10 numbers, all 2, or runs commands, one after the other, and tells the exit code of each. With `share`
 * all ranks write the file together, each of them all numbers. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int write_file(MPI_Comm comm, const char *name, MPI_Offset length, float value) {
    int id, dim, variable, code = ncmpi_create(comm, name, NC_CLOBBER, MPI_INFO_NULL, &id);
    if (code)
        return code;
    float *values = malloc(sizeof *values * (size_t)length);
    /* Noise takes long to encode. */
    for (MPI_Offset n = 0; n < length; n++)
        values[n] = value + (n == 0 || n == length - 1 ? 0 : (float)rand() / (float)RAND_MAX);
    ncmpi_def_dim(id, "x", length, &dim);
    ncmpi_def_var(id, "T", NC_FLOAT, 1, &dim, &variable);
    ncmpi_enddef(id);
    code = ncmpi_put_var_float_all(id, variable, values);
    free(values);
    int closed = ncmpi_close(id);
    return code ? code : closed;
}

int main(int count, char **words) {
    int rank;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Offset length = atol(words[3]);
    int shares = strcmp(words[2], "share") == 0;
    if (rank == 0 || shares)
        printf("rank %d: %d\n", rank, write_file(shares ? MPI_COMM_WORLD : MPI_COMM_SELF, words[1], length, 1)), fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1 && strcmp(words[2], "create") == 0)
        printf("rank 1: %d\n", write_file(MPI_COMM_SELF, words[1], 10, 2)), fflush(stdout);
    if (rank == 1 && strcmp(words[2], "open") == 0) {
        int id, variable, code = ncmpi_open(MPI_COMM_SELF, words[1], NC_NOWRITE, MPI_INFO_NULL, &id);
        printf("rank 1: %d", code);
        if (code == 0) {
            float first = 0, last = 0;
            MPI_Offset zero = 0, end = length - 1;
            ncmpi_inq_varid(id, "T", &variable);
            ncmpi_get_var1_float_all(id, variable, &zero, &first);
            ncmpi_get_var1_float_all(id, variable, &end, &last);
            printf(" %g %g", first, last);
            ncmpi_close(id);
        }
        printf("\n"), fflush(stdout);
    }
    for (int word = 4; rank == 1 && word < count; word++)
        printf("rank 1: %d\n", system(words[word])), fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
