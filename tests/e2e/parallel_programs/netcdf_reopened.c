/* Creates a netCDF-4 file with all ranks, and opens it again and again to write more into it, as models do with their history.
 *
 * usage: netcdf_reopened FILE CYCLES COLUMNS WHAT
 * WHAT: "alone" writes in independent calls where netCDF allows it, "together" in collective ones */
#include <mpi.h>
#include <netcdf.h>
#include <netcdf_par.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../checked.h"

static int rank, size;
static size_t columns;

/* A row of a variable, and the next time. */
static void put(int id, size_t row, int is_together) {
    size_t start[2] = {row, columns * (size_t)rank}, count[2] = {1, columns}, one = rank == 0;
    float *values = malloc(sizeof *values * columns);
    for (size_t n = 0; n < columns; n++) values[n] = (float)(row * 1000 + (size_t)rank * 10 + n / 64);
    const char *names[] = {"T", "F", "D"};
    for (int n = 0; n < 3; n++) {
        int set;
        OK(nc_inq_varid(id, names[n], &set));
        /* "T" grows, and "D" has a filter: netCDF and HDF5 want all ranks there. The default is the other one. */
        if (n != 1 || is_together) OK(nc_var_par_access(id, set, NC_COLLECTIVE));
        OK(nc_put_vara_float(id, set, start, count, values));
    }
    int time;
    double hour = 6.0 * (double)row;
    OK(nc_inq_varid(id, "time", &time));
    OK(nc_var_par_access(id, time, NC_COLLECTIVE));
    OK(nc_put_vara_double(id, time, &row, &one, &hour));
    free(values);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int id, dims[3], cycles = atoi(argv[2]), set, is_together = strcmp(argv[4], "together") == 0;
    columns = (size_t)atoi(argv[3]);
    OK(nc_create_par(argv[1], NC_CLOBBER | NC_NETCDF4, MPI_COMM_WORLD, MPI_INFO_NULL, &id));
    OK(nc_def_dim(id, "time", NC_UNLIMITED, &dims[0]));
    OK(nc_def_dim(id, "x", columns * (size_t)size, &dims[1]));
    OK(nc_def_dim(id, "step", (size_t)cycles + 1, &dims[2]));
    int fixed[2] = {dims[2], dims[1]};
    OK(nc_def_var(id, "T", NC_FLOAT, 2, dims, &set));
    OK(nc_put_att_text(id, set, "units", 1, "K"));
    OK(nc_def_var(id, "F", NC_FLOAT, 2, fixed, &set));
    OK(nc_def_var(id, "D", NC_FLOAT, 2, fixed, &set));
    OK(nc_def_var_deflate(id, set, 0, 1, 1));
    OK(nc_def_var(id, "time", NC_DOUBLE, 1, dims, &set));
    OK(nc_enddef(id));
    put(id, 0, is_together);
    OK(nc_close(id));
    for (int cycle = 1; cycle <= cycles; cycle++) {
        OK(nc_open_par(argv[1], NC_WRITE, MPI_COMM_WORLD, MPI_INFO_NULL, &id));
        put(id, (size_t)cycle, is_together);
        if (cycle == 2) {
            /* Definitions come later, too. */
            int late[1] = {dims[2]};
            OK(nc_redef(id));
            OK(nc_inq_dimid(id, "step", late));
            OK(nc_def_var(id, "late", NC_INT, 1, late, &set));
            OK(nc_put_att_int(id, NC_GLOBAL, "cycle", NC_INT, 1, &cycle));
            OK(nc_enddef(id));
        }
        OK(nc_close(id));
    }
    MPI_Finalize();
    return 0;
}
