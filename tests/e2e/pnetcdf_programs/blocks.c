/* Writes steps of 2-D blocks with PnetCDF, as a model does: a fixed variable, a record variable in another type, a time.
 *
 * usage: blocks FILE STEPS ROWS [what]
 * what: "wait" makes a directory "waits" when all is put, and waits for a file "go" before the file is closed, "kill" ends
 *       rank 0 by SIGKILL then, "forget" never closes it, "abort" calls ncmpi_abort, "twice" writes the file a second time, with values that are larger by 1, "read" opens
 *       it again and reads it, "tell" prints a line when all ranks have written a step, and rests then, "new" replaces no file,
 *       "value" opens a file that is there and tells a value of it, "change" changes that value before, "late" waits for a
 *       file "go" before anything is put */
#include <math.h>
#include <mpi.h>
#include <pnetcdf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../checked.h"

static int rank, size;

static void write_file(const char *name, int steps, MPI_Offset rows, float more, const char *what) {
    int id, dims[3], topo, temperature, count, time, requests[2];
    int down = size % 2 == 0 ? 2 : 1, across = size / down;
    MPI_Offset y = rank / across, x = rank % across;
    MPI_Offset start[3] = {0, y * rows / down, x * 2 * rows / across};
    MPI_Offset n[3] = {1, (y + 1) * rows / down - start[1], (x + 1) * 2 * rows / across - start[2]};
    MPI_Offset all = n[1] * n[2], i = 0;
    float *height = malloc(sizeof *height * (size_t)all);
    double *values = malloc(sizeof *values * (size_t)all);
    int *numbers = malloc(sizeof *numbers * (size_t)all);
    for (y = 0; y < n[1]; y++)
        for (x = 0; x < n[2]; x++, i++) {
            height[i] = sinf((float)(start[1] + y) * 0.1f) * 100 + (float)(start[2] + x);
            numbers[i] = (int)((start[1] + y) * 1000 + start[2] + x);
        }
    int mode = strcmp(what, "new") == 0 ? NC_NOCLOBBER : NC_CLOBBER;
    OK(ncmpi_create(MPI_COMM_WORLD, name, mode | NC_64BIT_DATA, MPI_INFO_NULL, &id));
    OK(ncmpi_def_dim(id, "time", NC_UNLIMITED, &dims[0]));
    OK(ncmpi_def_dim(id, "y", rows, &dims[1]));
    OK(ncmpi_def_dim(id, "x", 2 * rows, &dims[2]));
    OK(ncmpi_def_var(id, "topo", NC_FLOAT, 2, dims + 1, &topo));
    /* Requests may be made for what is defined already. */
    OK(ncmpi_iput_vara_float(id, topo, start + 1, n + 1, height, &requests[0]));
    OK(ncmpi_def_var(id, "T", NC_FLOAT, 3, dims, &temperature));
    OK(ncmpi_def_var(id, "time", NC_DOUBLE, 1, dims, &time));
    OK(ncmpi_def_var(id, "count", NC_INT, 2, dims + 1, &count));
    OK(ncmpi_iput_vara_int(id, count, start + 1, n + 1, numbers, &requests[1]));
    OK(ncmpi_put_att_text(id, temperature, "units", 1, "K"));
    OK(ncmpi_put_att_text(id, NC_GLOBAL, "title", 5, "tests"));
    OK(ncmpi_enddef(id));
    if (strcmp(what, "late") == 0)
        while (access("go", F_OK) != 0) usleep(10000);
    OK(ncmpi_wait_all(id, 2, requests, NULL));
    for (int step = 0; step < steps; step++) {
        for (i = 0; i < all; i++) values[i] = 280 + step + height[i] * 0.01 + more;
        start[0] = step;
        OK(ncmpi_put_vara_double_all(id, temperature, start, n, values));
        MPI_Offset at = step, one = rank == 0, length;
        double now = step * 0.5;
        OK(ncmpi_put_vara_double_all(id, time, &at, &one, &now));
        OK(ncmpi_inq_dimlen(id, dims[0], &length));
        check(length == step + 1, "number of records");
        if (strcmp(what, "tell") == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == 0) printf("step %d\n", step), fflush(stdout);
            usleep(20000);
        }
    }
    float last = -1;
    MPI_Offset at[3] = {steps - 1, rows - 1, 2 * rows - 1};
    OK(ncmpi_get_var1_float_all(id, temperature, at, &last));
    check(last > 270, "a value of another rank, read back");
    if (strcmp(what, "wait") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) mkdir("waits", 0755);
        while (access("go", F_OK) != 0) usleep(10000);
    }
    if (strcmp(what, "kill") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) raise(SIGKILL);
    }
    if (strcmp(what, "abort") == 0)
        OK(ncmpi_abort(id));
    else if (strcmp(what, "forget") != 0)
        OK(ncmpi_close(id));
    free(height);
    free(values);
    free(numbers);
}

static void read_file(const char *name, int steps, MPI_Offset rows) {
    int id, temperature, unlimited;
    MPI_Offset length, at[3] = {steps - 1, 0, 0};
    double value = 0;
    char units[8] = "";
    OK(ncmpi_open(MPI_COMM_WORLD, name, NC_NOWRITE, MPI_INFO_NULL, &id));
    OK(ncmpi_inq_unlimdim(id, &unlimited));
    OK(ncmpi_inq_dimlen(id, unlimited, &length));
    check(length == steps, "number of records of the file that was opened again");
    OK(ncmpi_inq_varid(id, "T", &temperature));
    OK(ncmpi_get_att_text(id, temperature, "units", units));
    check(units[0] == 'K', "an attribute of the file that was opened again");
    OK(ncmpi_get_var1_double_all(id, temperature, at, &value));
    check(fabs(value - (280 + steps - 1)) < 1e-4, "a value of the file that was opened again");
    OK(ncmpi_close(id));
    (void)rows;
}

static void tell_value(const char *name, int steps, int changes) {
    int id, temperature;
    MPI_Offset at[3] = {steps - 1, 0, 0};
    double value = 0;
    OK(ncmpi_open(MPI_COMM_WORLD, name, changes ? NC_WRITE : NC_NOWRITE, MPI_INFO_NULL, &id));
    OK(ncmpi_inq_varid(id, "T", &temperature));
    OK(ncmpi_get_var1_double_all(id, temperature, at, &value));
    if (changes) {
        value += 1000;
        OK(ncmpi_put_var1_double_all(id, temperature, at, &value));
    }
    if (rank == 0) printf("value %g\n", value);
    OK(ncmpi_close(id));
}

int main(int argc, char **argv) {
    if (argc < 4) return 64;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *what = argc > 4 ? argv[4] : "";
    int steps = atoi(argv[2]);
    MPI_Offset rows = atoi(argv[3]);
    int changes = strcmp(what, "change") == 0;
    if (changes || strcmp(what, "value") == 0)
        tell_value(argv[1], steps, changes);
    else
        write_file(argv[1], steps, rows, 0, what);
    if (strcmp(what, "twice") == 0) write_file(argv[1], steps, rows, 1, what);
    if (strcmp(what, "read") == 0) read_file(argv[1], steps, rows);
    MPI_Finalize();
    return 0;
}
