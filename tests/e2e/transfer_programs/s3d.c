/* One of two programs that are coupled by checkpoints as S3D-IO writes them: each is a file with the mass fractions of 11
 * species, the velocity, pressure and temperature in double precision, in blocks of three dimensions, without waiting for
 * any of them. The program that reads may divide the domain in another way.
 *
 * usage: s3d write|read PREFIX NX NY NZ PX PY PZ CHECKPOINTS, on PX * PY * PZ ranks */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../checked.h"

enum { VARIABLES = 4 };
static const char *const NAMES[VARIABLES] = {"yspecies", "u", "pressure", "temp"};
static const int COMPONENTS[VARIABLES] = {11, 3, 1, 1};
static int rank;

static double value(int checkpoint, int variable, MPI_Offset component, MPI_Offset z, MPI_Offset y, MPI_Offset x) {
    return checkpoint * 1e12 + variable * 1e11 + component * 1e9 + z * 1e6 + y * 1e3 + x;
}

/* The block of this rank along each axis. */
static void block(const MPI_Offset *extent, const int *parts, MPI_Offset *start, MPI_Offset *count) {
    int at[3] = {rank / (parts[1] * parts[2]), rank / parts[2] % parts[1], rank % parts[2]};
    start[0] = 0;
    for (int axis = 0; axis < 3; axis++) {
        start[axis + 1] = extent[axis] * at[axis] / parts[axis];
        count[axis + 1] = extent[axis] * (at[axis] + 1) / parts[axis] - start[axis + 1];
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int writes = strcmp(argv[1], "write") == 0, checkpoints = atoi(argv[9]);
    /* z is the slowest axis. */
    MPI_Offset extent[3] = {atoll(argv[5]), atoll(argv[4]), atoll(argv[3])}, start[4], count[4];
    int parts[3] = {atoi(argv[8]), atoi(argv[7]), atoi(argv[6])};
    block(extent, parts, start, count);
    MPI_Offset cells = count[1] * count[2] * count[3], wrong = 0;
    for (int checkpoint = 0; checkpoint < checkpoints; checkpoint++) {
        char name[256];
        int id, variables[VARIABLES], dims[4];
        double *values[VARIABLES];
        snprintf(name, sizeof name, "%s.%d.nc", argv[2], checkpoint);
        if (writes) {
            OK(ncmpi_create(MPI_COMM_WORLD, name, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id));
            const char *const axes[3] = {"z", "y", "x"};
            for (int axis = 0; axis < 3; axis++) OK(ncmpi_def_dim(id, axes[axis], extent[axis], &dims[axis + 1]));
        } else {
            OK(ncmpi_open(MPI_COMM_WORLD, name, NC_NOWRITE, MPI_INFO_NULL, &id));
        }
        for (int v = 0; v < VARIABLES; v++) {
            /* Those with one component have three dimensions. */
            int first = COMPONENTS[v] == 1;
            if (writes && !first) {
                char of[32];
                snprintf(of, sizeof of, "components_of_%s", NAMES[v]);
                OK(ncmpi_def_dim(id, of, COMPONENTS[v], &dims[0]));
            }
            if (writes)
                OK(ncmpi_def_var(id, NAMES[v], NC_DOUBLE, 4 - first, dims + first, &variables[v]));
            else
                OK(ncmpi_inq_varid(id, NAMES[v], &variables[v]));
            values[v] = malloc(cells * COMPONENTS[v] * sizeof(double));
        }
        if (writes) OK(ncmpi_enddef(id));
        for (int v = 0; v < VARIABLES; v++) {
            int first = COMPONENTS[v] == 1;
            count[0] = COMPONENTS[v];
            if (writes) {
                double *next = values[v];
                for (MPI_Offset c = 0; c < count[0]; c++)
                    for (MPI_Offset z = 0; z < count[1]; z++)
                        for (MPI_Offset y = 0; y < count[2]; y++)
                            for (MPI_Offset x = 0; x < count[3]; x++)
                                *next++ = value(checkpoint, v, c, start[1] + z, start[2] + y, start[3] + x);
                OK(ncmpi_iput_vara_double(id, variables[v], start + first, count + first, values[v], NULL));
            } else {
                OK(ncmpi_iget_vara_double(id, variables[v], start + first, count + first, values[v], NULL));
            }
        }
        OK(ncmpi_wait_all(id, NC_REQ_ALL, NULL, NULL));
        OK(ncmpi_close(id));
        for (int v = 0; v < VARIABLES; v++) {
            double *next = values[v];
            for (MPI_Offset c = 0; !writes && c < COMPONENTS[v]; c++)
                for (MPI_Offset z = 0; z < count[1]; z++)
                    for (MPI_Offset y = 0; y < count[2]; y++)
                        for (MPI_Offset x = 0; x < count[3]; x++)
                            wrong += *next++ != value(checkpoint, v, c, start[1] + z, start[2] + y, start[3] + x);
            free(values[v]);
        }
    }
    if (wrong) fprintf(stderr, "rank %d: %lld values are wrong\n", rank, (long long)wrong);
    if (wrong) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    return 0;
}
