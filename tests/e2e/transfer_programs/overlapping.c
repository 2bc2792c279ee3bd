/* One of two programs that are coupled by a file: ranks put boxes that overlap, in several calls, and readers get rows or
 * columns of what counts: the later collective call, then the higher rank.
 *
 * usage: overlapping write|read FILE EXTENT CALLS WRITERS SESSIONS
 * The array has EXTENT by EXTENT elements and a record for each call. WRITERS is the number of ranks that write. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>

#include "../checked.h"

static int rank, size, extent, calls, writers;

/* The box that a rank puts in a call. In call 0 each puts the whole array, so that all is put. */
static void box(int call, int who, int session, MPI_Offset *start, MPI_Offset *count) {
    unsigned seed = 1 + call * 131u + who * 17u + session * 7u;
    for (int axis = 0; axis < 2; axis++) {
        seed = seed * 1103515245u + 12345u;
        start[axis] = call == 0 ? 0 : (seed >> 8) % (unsigned)extent;
        seed = seed * 1103515245u + 12345u;
        count[axis] = call == 0 ? extent : 1 + (seed >> 8) % (unsigned)(extent - start[axis]);
    }
}

static int value(int call, int who, int session) { return 1 + session * 100000 + call * 100 + who; }

static void write_session(const char *name, int session) {
    int id, dims[3], field, series;
    int *values = malloc((size_t)extent * extent * sizeof *values);
    OK(ncmpi_create(MPI_COMM_WORLD, name, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id));
    OK(ncmpi_def_dim(id, "time", NC_UNLIMITED, &dims[0]));
    OK(ncmpi_def_dim(id, "y", extent, &dims[1]));
    OK(ncmpi_def_dim(id, "x", extent, &dims[2]));
    OK(ncmpi_def_var(id, "field", NC_INT, 2, dims + 1, &field));
    OK(ncmpi_def_var(id, "series", NC_INT, 2, dims, &series));
    OK(ncmpi_enddef(id));
    for (int call = 0; call < calls; call++) {
        MPI_Offset start[2], count[2], row[2] = {call, 0}, whole[2] = {1, extent};
        box(call, rank, session, start, count);
        for (MPI_Offset i = 0; i < (MPI_Offset)extent * extent; i++) values[i] = value(call, rank, session);
        if (call % 2 == 0) {
            OK(ncmpi_put_vara_int_all(id, field, start, count, values));
        } else {
            OK(ncmpi_iput_vara_int(id, field, start, count, values, NULL));
            OK(ncmpi_wait_all(id, NC_REQ_ALL, NULL, NULL));
        }
        OK(ncmpi_put_vara_int_all(id, series, row, whole, values));
    }
    OK(ncmpi_close(id));
    free(values);
}

static void read_session(const char *name, int session) {
    int id, field, series, dim;
    MPI_Offset records;
    int *expected = malloc((size_t)extent * extent * sizeof *expected), *values = malloc((size_t)extent * sizeof *values);
    for (int call = 0; call < calls; call++)
        for (int who = 0; who < writers; who++) {
            MPI_Offset start[2], count[2];
            box(call, who, session, start, count);
            for (MPI_Offset y = start[0]; y < start[0] + count[0]; y++)
                for (MPI_Offset x = start[1]; x < start[1] + count[1]; x++)
                    expected[y * extent + x] = value(call, who, session);
        }
    OK(ncmpi_open(MPI_COMM_WORLD, name, NC_NOWRITE, MPI_INFO_NULL, &id));
    OK(ncmpi_inq_varid(id, "field", &field));
    OK(ncmpi_inq_varid(id, "series", &series));
    int across = session % 2;
    for (int round = 0; round * size < extent; round++) {
        /* All ranks make as many collective calls; those without a line get nothing. */
        int line = round * size + rank;
        MPI_Offset n = line < extent ? extent : 0, at = line < extent ? line : 0;
        MPI_Offset start[2] = {across ? 0 : at, across ? at : 0};
        MPI_Offset count[2] = {across ? n : n > 0, across ? n > 0 : n};
        OK(ncmpi_get_vara_int_all(id, field, start, count, values));
        for (MPI_Offset i = 0; i < n; i++) {
            int wanted = across ? expected[i * extent + line] : expected[line * extent + i];
            if (values[i] != wanted) {
                fprintf(stderr, "rank %d: line %d, element %lld is %d, not %d\n", rank, line, (long long)i, values[i], wanted);
                MPI_Abort(MPI_COMM_WORLD, 2);
            }
        }
    }
    OK(ncmpi_inq_dimid(id, "time", &dim));
    OK(ncmpi_inq_dimlen(id, dim, &records));
    for (int call = 0; call < calls; call++) {
        MPI_Offset row[2] = {call, 0}, whole[2] = {1, extent};
        OK(ncmpi_get_vara_int_all(id, series, row, whole, values));
        for (MPI_Offset i = 0; i < extent; i++)
            if (records != calls || values[i] != value(call, writers - 1, session)) {
                fprintf(stderr, "rank %d: record %d of %lld is wrong\n", rank, call, (long long)records);
                MPI_Abort(MPI_COMM_WORLD, 2);
            }
    }
    OK(ncmpi_close(id));
    free(expected);
    free(values);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 7) return 64;
    extent = atoi(argv[3]);
    calls = atoi(argv[4]);
    writers = atoi(argv[5]);
    for (int session = 0; session < atoi(argv[6]); session++)
        (argv[1][0] == 'w' ? write_session : read_session)(argv[2], session);
    MPI_Finalize();
    return 0;
}
