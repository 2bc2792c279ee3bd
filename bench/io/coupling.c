/* One or both of two programs that are coupled by a file with one variable of doubles: the first half of the ranks writes it
 * by blocks of rows, the second half reads it by blocks of rows or of columns. Every value is checked.
 *
 * usage: coupling write|read|file|messages FILE ROWS COLUMNS rows|columns|requests SESSIONS PAUSE
 * "write" and "read" are two programs, in either order; "file" and "messages" are both in one: through a file, one after the
 * other, or by MPI's own messages. "requests" puts and gets each row of the block by a request of its own.
 * Prints a line for each session: its number, and the time at which it began (write) or at which the last rank had its last
 * value (read), or both; seconds of a clock that all processes share. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        int code = (call);                                                                                             \
        if (code != NC_NOERR) {                                                                                        \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, ncmpi_strerror(code));                               \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                              \
        }                                                                                                              \
    } while (0)

static MPI_Offset rows, columns;
static const char *name, *cut;

typedef struct {
    MPI_Offset start[2], count[2];
} block;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double value(int session, MPI_Offset row, MPI_Offset column) {
    return session + (double)row * 1e6 + (double)column;
}

/* The block of one of `size` ranks, cut along an axis. */
static block part(int rank, int size, int axis) {
    block all = {{0, 0}, {rows, columns}};
    MPI_Offset length = axis == 0 ? rows : columns;
    all.start[axis] = length * rank / size;
    all.count[axis] = length * (rank + 1) / size - all.start[axis];
    return all;
}

static double *room(block b) {
    double *values = malloc((size_t)(b.count[0] * b.count[1]) * sizeof *values);
    memset(values, 0, (size_t)(b.count[0] * b.count[1]) * sizeof *values);
    return values;
}

static void fill(double *values, block b, int session) {
    for (MPI_Offset i = 0; i < b.count[0]; i++)
        for (MPI_Offset j = 0; j < b.count[1]; j++)
            values[i * b.count[1] + j] = value(session, b.start[0] + i, b.start[1] + j);
}

static void check(const double *values, block b, int session) {
    for (MPI_Offset i = 0; i < b.count[0]; i++)
        for (MPI_Offset j = 0; j < b.count[1]; j++)
            if (values[i * b.count[1] + j] != value(session, b.start[0] + i, b.start[1] + j)) {
                fprintf(stderr, "session %d: the value at %lld, %lld is wrong\n", session, (long long)(b.start[0] + i),
                        (long long)(b.start[1] + j));
                MPI_Abort(MPI_COMM_WORLD, 2);
            }
}

static void put(MPI_Comm comm, double *values, block b) {
    int id, dims[2], variable;
    OK(ncmpi_create(comm, name, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id));
    OK(ncmpi_def_dim(id, "y", rows, &dims[0]));
    OK(ncmpi_def_dim(id, "x", columns, &dims[1]));
    OK(ncmpi_def_var(id, "values", NC_DOUBLE, 2, dims, &variable));
    OK(ncmpi_enddef(id));
    if (strcmp(cut, "requests") == 0) {
        for (MPI_Offset i = 0; i < b.count[0]; i++) {
            MPI_Offset start[2] = {b.start[0] + i, b.start[1]}, count[2] = {1, b.count[1]};
            OK(ncmpi_iput_vara_double(id, variable, start, count, values + i * b.count[1], NULL));
        }
        OK(ncmpi_wait_all(id, NC_REQ_ALL, NULL, NULL));
    } else {
        OK(ncmpi_put_vara_double_all(id, variable, b.start, b.count, values));
    }
    OK(ncmpi_close(id));
}

static void get(MPI_Comm comm, double *values, block b) {
    int id, variable;
    OK(ncmpi_open(comm, name, NC_NOWRITE, MPI_INFO_NULL, &id));
    OK(ncmpi_inq_varid(id, "values", &variable));
    if (strcmp(cut, "requests") == 0) {
        for (MPI_Offset i = 0; i < b.count[0]; i++) {
            MPI_Offset start[2] = {b.start[0] + i, b.start[1]}, count[2] = {1, b.count[1]};
            OK(ncmpi_iget_vara_double(id, variable, start, count, values + i * b.count[1], NULL));
        }
        OK(ncmpi_wait_all(id, NC_REQ_ALL, NULL, NULL));
    } else {
        OK(ncmpi_get_vara_double_all(id, variable, b.start, b.count, values));
    }
    OK(ncmpi_close(id));
}

/* What the writer `from` has for the reader `to`, as a part of the array of one of them. */
static void share(block from, block to, block of, MPI_Datatype *type, int *is_any) {
    int sizes[2], counts[2], starts[2];
    *is_any = 1;
    for (int axis = 0; axis < 2; axis++) {
        MPI_Offset begin = from.start[axis] > to.start[axis] ? from.start[axis] : to.start[axis];
        MPI_Offset end = from.start[axis] + from.count[axis], other = to.start[axis] + to.count[axis];
        end = end < other ? end : other;
        sizes[axis] = (int)of.count[axis];
        counts[axis] = (int)(end - begin);
        starts[axis] = (int)(begin - of.start[axis]);
        if (end <= begin) *is_any = 0;
    }
    if (!*is_any) return;
    MPI_Type_create_subarray(2, sizes, counts, starts, MPI_ORDER_C, MPI_DOUBLE, type);
    MPI_Type_commit(type);
}

static void send_and_receive(double *values, block mine, int rank, int half, int axis) {
    MPI_Request requests[64];
    MPI_Datatype types[64];
    int count = 0, is_any;
    for (int other = 0; other < half; other++) {
        block from = rank < half ? mine : part(other, half, 0), to = rank < half ? part(other, half, axis) : mine;
        share(from, to, mine, &types[count], &is_any);
        if (!is_any) continue;
        if (rank < half)
            MPI_Isend(values, 1, types[count], half + other, 0, MPI_COMM_WORLD, &requests[count]);
        else
            MPI_Irecv(values, 1, types[count], other, 0, MPI_COMM_WORLD, &requests[count]);
        count++;
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    while (count > 0) MPI_Type_free(&types[--count]);
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 8) return 64;
    const char *way = argv[1];
    name = argv[2];
    rows = atoll(argv[3]);
    columns = atoll(argv[4]);
    cut = argv[5];
    int axis = strcmp(cut, "columns") == 0 ? 1 : 0, sessions = atoi(argv[6]);
    double pause = atof(argv[7]);
    int is_both = strcmp(way, "file") == 0 || strcmp(way, "messages") == 0, half = is_both ? size / 2 : size;
    int writes = is_both ? rank < half : strcmp(way, "write") == 0;
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, writes, rank, &comm);
    block mine = writes ? part(rank % half, half, 0) : part(rank % half, half, axis);
    double *values = room(mine);
    for (int session = 0; session < sessions; session++) {
        if (writes) fill(values, mine, session);
        if (writes) usleep((unsigned)(pause * 1e6));
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = now(), end;
        if (strcmp(way, "messages") == 0) {
            send_and_receive(values, mine, rank, half, axis);
        } else {
            if (writes) put(comm, values, mine);
            if (is_both) MPI_Barrier(MPI_COMM_WORLD);
            if (!writes) get(comm, values, mine);
        }
        end = now();
        double last;
        MPI_Reduce(&end, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (!writes) check(values, mine, session);
        if (rank == 0) printf("%d %.6f %.6f\n", session, begin, last);
        if (rank == 0) fflush(stdout);
    }
    free(values);
    MPI_Finalize();
    return 0;
}
