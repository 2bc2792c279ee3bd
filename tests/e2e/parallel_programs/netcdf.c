/* Writes steps of 2-D blocks with parallel netCDF-4, as a model does: fixed and growing variables, collectively and not,
 * fill values, filters, attributes, a group, a variable that is never written, one whose last records are not.
 *
 * usage: netcdf FILE STEPS ROWS [what]
 * what: "read" reads before and after it is closed, "append" opens it again and adds a step, "forget" never closes it */
#include <math.h>
#include <mpi.h>
#include <netcdf.h>
#include <netcdf_par.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../checked.h"

static int rank, size;

static float value_at(int step, size_t y, size_t x) {
    return sinf((float)y * 0.1f) * 10 + (float)x * 0.01f + 273.15f + (float)step;
}

/* The block of a rank. */
static size_t start[3], n[3];

static void step_of(int id, int step, float *values, float *salt) {
    int temperature, salinity, time;
    OK(nc_inq_varid(id, "T", &temperature));
    OK(nc_inq_varid(id, "S", &salinity));
    OK(nc_inq_varid(id, "time", &time));
    size_t i = 0;
    for (size_t y = 0; y < n[1]; y++)
        for (size_t x = 0; x < n[2]; x++, i++) {
            values[i] = value_at(step, start[1] + y, start[2] + x);
            salt[i] = values[i] / 8;
        }
    start[0] = (size_t)step;
    OK(nc_put_vara_float(id, temperature, start, n, values));
    /* Shorter than the others. */
    if (step == 0) OK(nc_put_vara_float(id, salinity, start, n, salt));
    size_t at = (size_t)step, one = rank == 0;
    double hour = 6.0 * step;
    OK(nc_put_vara_double(id, time, &at, &one, &hour));
}

int main(int argc, char **argv) {
    const char *what = argc > 4 ? argv[4] : "", *name = argv[1];
    int steps = atoi(argv[2]), id, group, dims[3], temperature, salinity, time, topo, mask, never, text, packed, pair;
    size_t rows = (size_t)atoi(argv[3]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    size_t down = size % 2 == 0 ? 2 : 1, across = (size_t)size / down, y = (size_t)rank / across, x = (size_t)rank % across;
    start[1] = y * rows / down;
    start[2] = x * 2 * rows / across;
    n[0] = 1;
    n[1] = (y + 1) * rows / down - start[1];
    n[2] = (x + 1) * 2 * rows / across - start[2];
    size_t len = n[1] * n[2];
    float *values = malloc(sizeof *values * len), *salt = malloc(sizeof *salt * len), *seen = malloc(sizeof *seen * rows * rows * 2);
    signed char *bytes = malloc(len);
    double *heights = malloc(sizeof *heights * len);

    OK(nc_create_par(name, NC_CLOBBER | NC_NETCDF4, MPI_COMM_WORLD, MPI_INFO_NULL, &id));
    OK(nc_def_dim(id, "time", NC_UNLIMITED, &dims[0]));
    OK(nc_def_dim(id, "y", rows, &dims[1]));
    OK(nc_def_dim(id, "x", 2 * rows, &dims[2]));
    OK(nc_put_att_text(id, NC_GLOBAL, "title", 5, "tests"));
    OK(nc_def_var(id, "T", NC_FLOAT, 3, dims, &temperature));
    OK(nc_put_att_text(id, temperature, "units", 1, "K"));
    OK(nc_def_var_deflate(id, temperature, 1, 1, 1));
    OK(nc_def_var(id, "S", NC_FLOAT, 3, dims, &salinity));
    float missing = -1e20f;
    OK(nc_put_att_float(id, salinity, "_FillValue", NC_FLOAT, 1, &missing));
    OK(nc_def_var(id, "time", NC_DOUBLE, 1, dims, &time));
    OK(nc_def_var(id, "topo", NC_FLOAT, 2, dims + 1, &topo));
    OK(nc_def_var(id, "y", NC_INT, 1, dims + 1, &mask));
    OK(nc_def_var(id, "never", NC_SHORT, 2, dims + 1, &never));
    OK(nc_def_var(id, "loose", NC_DOUBLE, 2, dims + 1, &packed));
    OK(nc_def_var_fill(id, packed, NC_NOFILL, NULL));
    OK(nc_def_grp(id, "masks", &group));
    OK(nc_def_var(group, "land", NC_BYTE, 2, dims + 1, &pair));
    OK(nc_def_var_endian(id, topo, NC_ENDIAN_BIG));
    OK(nc_def_var(id, "crs", NC_INT, 0, NULL, &text));
    OK(nc_put_att_double(id, text, "radius", NC_DOUBLE, 1, (double[]){6371000}));
    OK(nc_enddef(id));

    OK(nc_var_par_access(id, temperature, NC_COLLECTIVE));
    OK(nc_var_par_access(id, salinity, NC_COLLECTIVE));
    OK(nc_var_par_access(id, time, NC_COLLECTIVE));
    OK(nc_var_par_access(id, topo, NC_INDEPENDENT));
    size_t i = 0;
    for (y = 0; y < n[1]; y++)
        for (x = 0; x < n[2]; x++, i++) {
            heights[i] = sin((double)(start[1] + y)) * 1000 + (double)(start[2] + x);
            bytes[i] = heights[i] > 500;
        }
    OK(nc_put_vara_double(id, topo, start + 1, n + 1, heights));
    OK(nc_put_vara_double(id, packed, start + 1, n + 1, heights));
    OK(nc_put_vara_schar(group, pair, start + 1, n + 1, bytes));
    if (rank == 0) {
        int *numbers = malloc(sizeof *numbers * rows), radius = 7;
        for (i = 0; i < rows; i++) numbers[i] = (int)i * 3;
        OK(nc_put_var_int(id, mask, numbers));
        OK(nc_put_var_int(id, text, &radius));
        free(numbers);
    }
    for (int step = 0; step < steps; step++) {
        step_of(id, step, values, salt);
        OK(nc_sync(id));
    }
    if (strcmp(what, "read") == 0) {
        size_t at[3] = {0, 0, 0}, all[3] = {1, rows, 2 * rows};
        OK(nc_get_vara_float(id, temperature, at, all, seen));
        for (y = 0; y < rows; y++)
            for (x = 0; x < 2 * rows; x++) check(seen[y * 2 * rows + x] == value_at(0, y, x), "another value is read back");
        at[0] = (size_t)steps - 1;
        OK(nc_get_vara_float(id, salinity, at, all, seen));
        check(steps == 1 || seen[0] == missing, "no fill value is read");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(what, "forget") == 0) _exit(0);
    OK(nc_close(id));
    if (strcmp(what, "append") == 0) {
        OK(nc_open_par(name, NC_WRITE, MPI_COMM_WORLD, MPI_INFO_NULL, &id));
        OK(nc_inq_varid(id, "T", &temperature));
        OK(nc_inq_varid(id, "S", &salinity));
        OK(nc_inq_varid(id, "time", &time));
        OK(nc_var_par_access(id, temperature, NC_COLLECTIVE));
        OK(nc_var_par_access(id, salinity, NC_COLLECTIVE));
        OK(nc_var_par_access(id, time, NC_COLLECTIVE));
        step_of(id, steps, values, salt);
        OK(nc_close(id));
    }
    if (strcmp(what, "read") == 0) {
        OK(nc_open_par(name, NC_NOWRITE, MPI_COMM_WORLD, MPI_INFO_NULL, &id));
        OK(nc_inq_varid(id, "T", &temperature));
        start[0] = (size_t)steps - 1;
        OK(nc_get_vara_float(id, temperature, start, n, values));
        check(values[0] == value_at(steps - 1, start[1], start[2]), "another value is in the file");
        OK(nc_close(id));
    }
    free(values);
    free(salt);
    free(seen);
    free(bytes);
    free(heights);
    MPI_Finalize();
    return 0;
}
