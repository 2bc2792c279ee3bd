/* One of two programs that are coupled by DTF: each session "scale" writes Hist.D01.nc and reads Anal.nc, "letkf" the other
 * way round.
 *
 * usage: dtf_coupled INI COMPONENT SESSIONS
 * Values of Hist.D01.nc are read before "scale" closes it. Every value is checked. */
#include <dtf.h>
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../checked.h"

enum { ROWS = 12, COLUMNS = 5 };

static int rank, size;

static float value(int session, int kind, MPI_Offset row, MPI_Offset column) {
    return (float)(session * 10000 + kind * 1000 + row * 10 + column);
}

static MPI_Offset first(int of) { return ROWS * of / size; }

static void put(const char *path, int session, int waits) {
    int id, dims[3], field, series, requests[1];
    MPI_Offset start[3] = {0, first(rank), 0}, count[3] = {1, first(rank + 1) - first(rank), COLUMNS};
    float *values = malloc((size_t)(count[1] * COLUMNS) * sizeof *values + 1);
    OK(ncmpi_create(MPI_COMM_WORLD, path, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id));
    OK(ncmpi_def_dim(id, "time", NC_UNLIMITED, &dims[0]));
    OK(ncmpi_def_dim(id, "y", ROWS, &dims[1]));
    OK(ncmpi_def_dim(id, "x", COLUMNS, &dims[2]));
    OK(ncmpi_def_var(id, "field", NC_FLOAT, 2, dims + 1, &field));
    OK(ncmpi_def_var(id, "series", NC_FLOAT, 3, dims, &series));
    OK(ncmpi_enddef(id));
    for (MPI_Offset i = 0; i < count[1] * COLUMNS; i++) values[i] = value(session, 1, start[1] + i / COLUMNS, i % COLUMNS);
    OK(ncmpi_iput_vara_float(id, field, start + 1, count + 1, values, &requests[0]));
    for (start[0] = 0; start[0] < 2; start[0]++) {
        for (MPI_Offset i = 0; i < count[1] * COLUMNS; i++)
            values[i] = value(session, 2 + (int)start[0], start[1] + i / COLUMNS, i % COLUMNS);
        OK(ncmpi_put_vara_float_all(id, series, start, count, values));
    }
    /* The request is not waited for: DTF only notes it. */
    OK(dtf_transfer(path, session % 2 ? id : -1));
    OK(ncmpi_wait_all(id, 1, requests, NULL));
    memset(values, 7, (size_t)(count[1] * COLUMNS) * sizeof *values);
    if (waits) {
        char seen[32];
        snprintf(seen, sizeof seen, "seen.%d", session);
        int left = 2000;
        while (rank == 0 && access(seen, F_OK) != 0 && left-- > 0) usleep(10000);
        check(left > 0, "nothing is seen of the file before it is closed");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    OK(ncmpi_close(id));
    free(values);
}

static void get(const char *path, int session, int marks) {
    int id, dim, field, series;
    MPI_Offset records, columns = COLUMNS * (rank + 1) / size - COLUMNS * rank / size;
    MPI_Offset start[3] = {0, 0, COLUMNS * rank / size}, count[3] = {2, ROWS, columns};
    float *one = malloc((size_t)(ROWS * columns) * sizeof *one + 1), *two = malloc((size_t)(2 * ROWS * columns) * sizeof *two + 1);
    OK(ncmpi_open(MPI_COMM_WORLD, path, NC_NOWRITE, MPI_INFO_NULL, &id));
    OK(ncmpi_inq_varid(id, "field", &field));
    OK(ncmpi_inq_varid(id, "series", &series));
    OK(ncmpi_inq_dimid(id, "time", &dim));
    OK(ncmpi_iget_vara_float(id, field, start + 1, count + 1, one, NULL));
    OK(ncmpi_get_vara_float_all(id, series, start, count, two));
    OK(dtf_transfer(path, id));
    OK(ncmpi_inq_dimlen(id, dim, &records));
    check(records == 2, "the number of records is wrong");
    for (MPI_Offset i = 0; i < ROWS * columns; i++) {
        check(one[i] == value(session, 1, i / columns, start[2] + i % columns), "a value of 'field' is wrong");
        for (int record = 0; record < 2; record++)
            check(two[record * ROWS * columns + i] == value(session, 2 + record, i / columns, start[2] + i % columns),
                  "a value of 'series' is wrong");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (marks && rank == 0) {
        char seen[32];
        snprintf(seen, sizeof seen, "seen.%d", session);
        fclose(fopen(seen, "w"));
    }
    OK(ncmpi_close(id));
    free(one);
    free(two);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 4) return 64;
    OK(dtf_init(argv[1], argv[2]));
    for (int session = 0; session < atoi(argv[3]); session++) {
        dtf_time_start();
        if (strcmp(argv[2], "scale") == 0) {
            put("./Hist.D01.nc", session, 1);
            get("Anal.nc", session, 0);
        } else {
            get("Hist.D01.nc", session, 1);
            put("Anal.nc", session, 0);
        }
        dtf_time_end();
    }
    OK(dtf_finalize());
    MPI_Finalize();
    return 0;
}
