/* Opens a netCDF-4 file with all ranks again and again, and appends a record each time, as models do with their history.
 *
 * usage: netcdf_again FILE CYCLES ["new"]
 * "new" creates the file before. */
#include <math.h>
#include <mpi.h>
#include <netcdf.h>
#include <netcdf_par.h>
#include <stdio.h>
#include <stdlib.h>

#include "../checked.h"

int main(int argc, char **argv) {
    int rank, size, id, dims[3], temperature, time;
    size_t now = 0, rows = 64, columns = 256;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 3) {
        OK(nc_create_par(argv[1], NC_CLOBBER | NC_NETCDF4, MPI_COMM_WORLD, MPI_INFO_NULL, &id));
        OK(nc_def_dim(id, "time", NC_UNLIMITED, &dims[0]));
        OK(nc_def_dim(id, "y", rows, &dims[1]));
        OK(nc_def_dim(id, "x", columns, &dims[2]));
        OK(nc_def_var(id, "T", NC_FLOAT, 3, dims, &temperature));
        OK(nc_def_var(id, "time", NC_DOUBLE, 1, dims, &time));
        OK(nc_put_att_text(id, temperature, "units", 1, "K"));
        OK(nc_enddef(id));
        OK(nc_close(id));
    }
    size_t start[3] = {0, rows * (size_t)rank / (size_t)size, 0}, n[3] = {1, 0, columns};
    n[1] = rows * (size_t)(rank + 1) / (size_t)size - start[1];
    float *values = malloc(sizeof *values * n[1] * columns);
    for (int cycle = 0; cycle < atoi(argv[2]); cycle++) {
        OK(nc_open_par(argv[1], NC_WRITE, MPI_COMM_WORLD, MPI_INFO_NULL, &id));
        OK(nc_inq_dimid(id, "time", &dims[0]));
        OK(nc_inq_dimlen(id, dims[0], &now));
        OK(nc_inq_varid(id, "T", &temperature));
        OK(nc_inq_varid(id, "time", &time));
        OK(nc_var_par_access(id, temperature, NC_COLLECTIVE));
        OK(nc_var_par_access(id, time, NC_COLLECTIVE));
        start[0] = now;
        for (size_t i = 0; i < n[1] * columns; i++) {
            size_t y = start[1] + i / columns, x = i % columns;
            values[i] = sinf((float)y * 0.1f) * 10 + (float)(x / 16) + (float)now;
        }
        size_t one = rank == 0;
        double hour = 6.0 * (double)now;
        OK(nc_put_vara_float(id, temperature, start, n, values));
        OK(nc_put_vara_double(id, time, &now, &one, &hour));
        OK(nc_close(id));
    }
    free(values);
    MPI_Finalize();
    return 0;
}
