/* Writes or reads sessions of a netCDF-4 file, alone or on all ranks together.
 *
 * usage: netcdf4 write|read alone|together FILE ROWS COLUMNS SESSIONS
 * Each rank writes rows and reads columns. Session s has s + 1 steps of the growing variable, of which the last is not
 * written beyond half of the rows. */
#include <mpi.h>
#include <netcdf.h>
#include <netcdf_par.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../checked.h"

static int rank, size, together;
static size_t rows, columns;

static int value_at(int session, int step, size_t y, size_t x) {
    return session * 1000000 + step * 100000 + (int)(y * columns + x);
}

static void together_or_not(int id, int var) {
    if (together) OK(nc_var_par_access(id, var, NC_COLLECTIVE));
}

static void write_session(const char *file, int session) {
    int id, dims[3], fixed, grows, word;
    if (together)
        OK(nc_create_par(file, NC_NETCDF4 | NC_CLOBBER, MPI_COMM_WORLD, MPI_INFO_NULL, &id));
    else
        OK(nc_create(file, NC_NETCDF4 | NC_CLOBBER, &id));
    OK(nc_def_dim(id, "time", NC_UNLIMITED, &dims[0]));
    OK(nc_def_dim(id, "y", rows, &dims[1]));
    OK(nc_def_dim(id, "x", columns, &dims[2]));
    OK(nc_def_var(id, "fixed", NC_SHORT, 2, dims + 1, &fixed));
    OK(nc_def_var(id, "grows", NC_FLOAT, 3, dims, &grows));
    float fill = -7;
    OK(nc_def_var_fill(id, grows, NC_FILL, &fill));
    OK(nc_put_att_text(id, grows, "units", 5, "m s-1"));
    OK(nc_put_att_int(id, NC_GLOBAL, "session", NC_INT, 1, &session));
    if (!together) OK(nc_def_var(id, "word", NC_STRING, 0, NULL, &word));
    OK(nc_enddef(id));
    together_or_not(id, fixed);
    together_or_not(id, grows);
    size_t first = rows * rank / size, count = rows * (rank + 1) / size - first;
    int *values = malloc((count + 1) * columns * sizeof *values);
    for (int step = 0; step <= session; step++) {
        /* The last step has half of its rows. */
        size_t some = step < session ? count : first >= rows / 2 ? 0 : first + count > rows / 2 ? rows / 2 - first : count;
        for (size_t i = 0; i < some * columns; i++)
            values[i] = value_at(session, step, first + i / columns, i % columns);
        size_t start[] = {(size_t)step, first, 0}, n[] = {1, some, columns};
        OK(nc_put_vara_int(id, grows, start, n, values));
    }
    for (size_t i = 0; i < count * columns; i++) values[i] = (int)((first * columns + i) % 30000);
    size_t start[] = {first, 0}, n[] = {count, columns};
    OK(nc_put_vara_int(id, fixed, start, n, values));
    const char *text = "text of any length";
    if (!together) OK(nc_put_var_string(id, word, &text));
    OK(nc_close(id));
    free(values);
}

static void read_session(const char *file, int session) {
    int id, fixed, grows, word, found;
    if (together)
        OK(nc_open_par(file, NC_NOWRITE, MPI_COMM_WORLD, MPI_INFO_NULL, &id));
    else
        OK(nc_open(file, NC_NOWRITE, &id));
    size_t steps, length;
    OK(nc_inq_dimlen(id, 0, &steps));
    check(steps == (size_t)session + 1, "another number of steps");
    OK(nc_get_att_int(id, NC_GLOBAL, "session", &found));
    check(found == session, "another session");
    OK(nc_inq_varid(id, "fixed", &fixed));
    OK(nc_inq_varid(id, "grows", &grows));
    OK(nc_inq_attlen(id, grows, "units", &length));
    check(length == 5, "other units");
    together_or_not(id, fixed);
    together_or_not(id, grows);
    size_t first = columns * rank / size, count = columns * (rank + 1) / size - first;
    double *values = malloc((rows * count + 1) * sizeof *values);
    for (int step = 0; step <= session; step++) {
        size_t start[] = {(size_t)step, 0, first}, n[] = {1, rows, count};
        OK(nc_get_vara_double(id, grows, start, n, values));
        for (size_t i = 0; i < rows * count; i++) {
            size_t y = i / count, x = first + i % count;
            double expected = step == session && y >= rows / 2 ? -7 : value_at(session, step, y, x);
            check(values[i] == (double)(float)expected, "another value");
        }
    }
    /* Every other row, every third column. */
    size_t start[] = {1, first}, n[] = {rows / 2, (count + 2) / 3};
    ptrdiff_t stride[] = {2, 3};
    OK(nc_get_vars_double(id, fixed, start, n, stride, values));
    for (size_t i = 0; i < n[0] * n[1]; i++) {
        size_t y = 1 + 2 * (i / n[1]), x = first + 3 * (i % n[1]);
        check(values[i] == (double)((y * columns + x) % 30000), "another strided value");
    }
    if (!together && nc_inq_varid(id, "word", &word) == NC_NOERR) {
        char *text;
        OK(nc_get_var_string(id, word, &text));
        check(strcmp(text, "text of any length") == 0, "another text");
        OK(nc_free_string(1, &text));
    }
    double value = 0;
    size_t origin[] = {0, 0};
    check(nc_put_var1_double(id, fixed, origin, &value) != NC_NOERR, "what is read was written");
    OK(nc_close(id));
    free(values);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    check(argc == 7, "usage");
    together = strcmp(argv[2], "together") == 0;
    if (together) {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
    } else
        size = 1;
    rows = strtoul(argv[4], NULL, 10);
    columns = strtoul(argv[5], NULL, 10);
    for (int session = 0; session < atoi(argv[6]); session++)
        (strcmp(argv[1], "write") == 0 ? write_session : read_session)(argv[3], session);
    return MPI_Finalize();
}
