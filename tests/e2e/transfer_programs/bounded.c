/* One of two programs that are coupled by a file: writes a field of floats, or reads it in several ways into files.
 *
 * usage: bounded write|read FILE ROWS COLUMNS SESSIONS FIELD [OUT]
 * FIELD has the floats, row by row. Ranks that write have blocks of rows; of the variable "back" the last row is never written, in
 * fill mode. Ranks that read have blocks of columns: of the last session OUT.float.RANK has them as floats, OUT.double.RANK as
 * doubles, OUT.strided.RANK every second row and third column, and OUT.fill.RANK the row that was never written. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../checked.h"

static int rank, size;

static void *room(size_t bytes) {
    void *memory = malloc(bytes);
    if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 3);
    return memory;
}

static void save(const char *out, const char *what, const void *values, size_t bytes) {
    char name[4096];
    snprintf(name, sizeof name, "%s.%s.%d", out, what, rank);
    FILE *file = fopen(name, "wb");
    if (file == NULL || fwrite(values, 1, bytes, file) != bytes || fclose(file) != 0) MPI_Abort(MPI_COMM_WORLD, 4);
}

static void write_session(const char *name, MPI_Offset rows, MPI_Offset columns, const float *field) {
    int id, dims[2], values, back;
    OK(ncmpi_create(MPI_COMM_WORLD, name, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id));
    OK(ncmpi_set_fill(id, NC_FILL, NULL));
    OK(ncmpi_def_dim(id, "y", rows, &dims[0]));
    OK(ncmpi_def_dim(id, "x", columns, &dims[1]));
    OK(ncmpi_def_var(id, "T", NC_FLOAT, 2, dims, &values));
    OK(ncmpi_def_var(id, "back", NC_FLOAT, 2, dims, &back));
    OK(ncmpi_enddef(id));
    MPI_Offset first = rows * rank / size, end = rows * (rank + 1) / size;
    MPI_Offset start[2] = {first, 0}, count[2] = {end - first, columns};
    const float *mine = field + first * columns;
    OK(ncmpi_put_vara_float_all(id, values, start, count, mine));
    if (end == rows) count[0]--;
    OK(ncmpi_put_vara_float_all(id, back, start, count, mine));
    OK(ncmpi_sync(id));
    OK(ncmpi_close(id));
}

static void read_session(const char *name, MPI_Offset rows, MPI_Offset columns, const char *out) {
    int id, values, back;
    MPI_Offset first = columns * rank / size, wide = columns * (rank + 1) / size - first;
    MPI_Offset start[2] = {0, first}, count[2] = {rows, wide};
    OK(ncmpi_open(MPI_COMM_WORLD, name, NC_NOWRITE, MPI_INFO_NULL, &id));
    OK(ncmpi_inq_varid(id, "T", &values));
    OK(ncmpi_inq_varid(id, "back", &back));
    size_t number = (size_t)(rows * wide);
    float *floats = room(number * sizeof *floats);
    OK(ncmpi_get_vara_float_all(id, values, start, count, floats));
    save(out, "float", floats, number * sizeof *floats);
    double *doubles = room(number * sizeof *doubles);
    OK(ncmpi_get_vara_double_all(id, values, start, count, doubles));
    save(out, "double", doubles, number * sizeof *doubles);
    MPI_Offset fewer[2] = {(rows + 1) / 2, (wide + 2) / 3}, stride[2] = {2, 3};
    OK(ncmpi_get_vars_float_all(id, values, start, fewer, stride, floats));
    save(out, "strided", floats, (size_t)(fewer[0] * fewer[1]) * sizeof *floats);
    start[0] = rows - 1;
    count[0] = 1;
    OK(ncmpi_get_vara_float_all(id, back, start, count, floats));
    save(out, "fill", floats, (size_t)wide * sizeof *floats);
    OK(ncmpi_close(id));
    free(floats);
    free(doubles);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 7) MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Offset rows = atoll(argv[3]), columns = atoll(argv[4]);
    size_t number = (size_t)(rows * columns);
    float *field = room(number * sizeof *field);
    FILE *file = fopen(argv[6], "rb");
    if (file == NULL || fread(field, sizeof *field, number, file) != number) MPI_Abort(MPI_COMM_WORLD, 5);
    fclose(file);
    for (int session = 0; session < atoi(argv[5]); session++) {
        if (strcmp(argv[1], "write") == 0) {
            write_session(argv[2], rows, columns, field);
        } else {
            read_session(argv[2], rows, columns, argv[7]);
        }
    }
    free(field);
    MPI_Finalize();
    return 0;
}
