/* Calls that PnetCDF takes and few programs make. usage: unusual FILE count|variable
 *
 * count: a put whose count of buffers is -1, which says that the type of the buffer does not matter (NC_COUNT_IGNORE)
 * variable: rank 1 puts into a variable that is not there, and takes part with the others all the same */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <string.h>

int main(int count, char **words) {
    int rank, size, id, dims[2], variable;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ncmpi_create(MPI_COMM_WORLD, words[1], NC_CLOBBER, MPI_INFO_NULL, &id);
    ncmpi_def_dim(id, "time", NC_UNLIMITED, &dims[0]);
    ncmpi_def_dim(id, "x", 4 * size, &dims[1]);
    ncmpi_def_var(id, "T", NC_FLOAT, 2, dims, &variable);
    ncmpi_enddef(id);
    float values[4] = {1, 2, 3, 4};
    MPI_Offset start[2] = {0, 4 * rank}, n[2] = {1, 4};
    int is_wrong = strcmp(words[2], "variable") == 0 && rank == 1;
    MPI_Offset buffers = strcmp(words[2], "count") == 0 ? -1 : 4;
    int code = ncmpi_put_vara_all(id, is_wrong ? 99 : variable, start, n, values, buffers, MPI_FLOAT);
    int closed = ncmpi_close(id);
    printf("rank %d: put %d, close %d\n", rank, code, closed), fflush(stdout);
    MPI_Finalize();
    return 0;
}
