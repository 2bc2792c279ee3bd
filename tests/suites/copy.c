/* Copies every session of a file until there is none: copy FILE COPY. Ranks share the first dimension of each variable. The
 * copy of the last session stays. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        int told = (call);                                                                                             \
        if (told != NC_NOERR) {                                                                                        \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, ncmpi_strerror(told));                               \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                              \
        }                                                                                                              \
    } while (0)

static int rank, size;

static void attributes(int from, int of, int to, int like) {
    int many;
    char name[NC_MAX_NAME + 1];
    if (of == NC_GLOBAL)
        OK(ncmpi_inq_natts(from, &many));
    else
        OK(ncmpi_inq_varnatts(from, of, &many));
    for (int i = 0; i < many; i++) {
        OK(ncmpi_inq_attname(from, of, i, name));
        OK(ncmpi_copy_att(from, of, name, to, like));
    }
}

static void copy(int from, const char *path) {
    static const int MODES[] = {0, 0, NC_64BIT_OFFSET, 0, 0, NC_64BIT_DATA};
    int format, to, dims, variables, unlimited;
    char name[NC_MAX_NAME + 1];
    OK(ncmpi_inq_format(from, &format));
    OK(ncmpi_create(MPI_COMM_WORLD, path, NC_CLOBBER | MODES[format], MPI_INFO_NULL, &to));
    OK(ncmpi_inq(from, &dims, &variables, NULL, &unlimited));
    for (int i = 0, made; i < dims; i++) {
        MPI_Offset length;
        OK(ncmpi_inq_dim(from, i, name, &length));
        OK(ncmpi_def_dim(to, name, i == unlimited ? NC_UNLIMITED : length, &made));
    }
    attributes(from, NC_GLOBAL, to, NC_GLOBAL);
    for (int v = 0, made; v < variables; v++) {
        nc_type type;
        int axes, *own = malloc((dims + 1) * sizeof *own);
        OK(ncmpi_inq_varndims(from, v, &axes));
        own = realloc(own, (axes + 1) * sizeof *own);
        OK(ncmpi_inq_var(from, v, name, &type, NULL, own, NULL));
        OK(ncmpi_def_var(to, name, type, axes, own, &made));
        attributes(from, v, to, made);
        free(own);
    }
    OK(ncmpi_enddef(to));
    for (int v = 0; v < variables; v++) {
        int axes;
        OK(ncmpi_inq_varndims(from, v, &axes));
        int *own = malloc((axes + 1) * sizeof *own);
        MPI_Offset *start = calloc(axes + 1, sizeof *start), *count = calloc(axes + 1, sizeof *count), elements = 1;
        OK(ncmpi_inq_vardimid(from, v, own));
        for (int axis = 0; axis < axes; axis++) OK(ncmpi_inq_dimlen(from, own[axis], &count[axis]));
        if (axes) {
            MPI_Offset length = count[0];
            start[0] = length * rank / size;
            count[0] = length * (rank + 1) / size - start[0];
        }
        for (int axis = 0; axis < axes; axis++) elements *= count[axis];
        void *values = malloc(elements * 8 + 8);
        OK(ncmpi_get_vara_all(from, v, start, count, values, elements, MPI_DATATYPE_NULL));
        OK(ncmpi_put_vara_all(to, v, start, count, values, elements, MPI_DATATYPE_NULL));
        free(values), free(start), free(count), free(own);
    }
    OK(ncmpi_close(to));
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int from, sessions = 0;
    while (ncmpi_open(MPI_COMM_WORLD, argv[1], NC_NOWRITE, MPI_INFO_NULL, &from) == NC_NOERR) {
        copy(from, argv[2]);
        OK(ncmpi_close(from));
        sessions++;
    }
    if (rank == 0) printf("%d sessions\n", sessions);
    MPI_Finalize();
    return sessions == 0;
}
