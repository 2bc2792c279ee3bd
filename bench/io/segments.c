/* One or both of two programs that are coupled by a file of many tiny segments, as E3SM writes its history: each rank has
 * segments of four values, dealt out in turn, so that no two of a rank adjoin.
 *
 * usage: segments write|read|file FILE VARIABLES SEGMENTS varn|rows SESSIONS PAUSE [WRITERS]
 * "write" and "read" are two programs, in either order; "file" is both in one, the first half of the ranks writes. Each
 * writing rank has SEGMENTS segments in all, spread over the variables, and puts those of a variable by one iput_varn. The
 * reading ranks read segments of six values in turn by one iget_varn for each variable, or each of them a block.
 * Prints a line for each session, as coupling.c does. Every value is checked. */
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

enum { PUT = 4, GOT = 6 };

/* Of each variable. */
static MPI_Offset cells;
static int variables, is_verbose;

/* Segments of one rank, the same of all variables. */
typedef struct {
    int number;
    MPI_Offset **starts, **counts, values;
} segments;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static float value(int session, int variable, MPI_Offset cell) {
    return (float)((session * 7 + variable) * 4099 % 1024) * 8192 + (float)(cell % 8191);
}

/* Those of a rank: every `size`-th segment of `length` values, or one block of all. */
static segments dealt(int rank, int size, int length) {
    segments mine = {0, NULL, NULL, 0};
    MPI_Offset all = (cells + length - 1) / length;
    MPI_Offset *numbers = malloc((size_t)(all / size + 1) * 2 * sizeof *numbers);
    mine.starts = malloc((size_t)(all / size + 1) * sizeof *mine.starts);
    mine.counts = malloc((size_t)(all / size + 1) * sizeof *mine.counts);
    for (MPI_Offset at = rank; at < all; at += size) {
        mine.starts[mine.number] = numbers++;
        mine.counts[mine.number] = numbers++;
        *mine.starts[mine.number] = at * length;
        *mine.counts[mine.number] = cells - at * length < length ? cells - at * length : length;
        mine.values += *mine.counts[mine.number++];
    }
    return mine;
}

/* Seconds, and those of a core since the process began. */
static void say(const char *what, double since) {
    if (is_verbose) fprintf(stderr, "%s: %.3f s (%.3f)\n", what, now() - since, (double)clock() / CLOCKS_PER_SEC);
}

static void put(MPI_Comm comm, const char *name, const segments *mine, float *values) {
    int id, dimension, *numbers = malloc((size_t)variables * sizeof *numbers);
    char text[16];
    double begin = now();
    OK(ncmpi_create(comm, name, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id));
    OK(ncmpi_def_dim(id, "cell", cells, &dimension));
    for (int v = 0; v < variables; v++) {
        snprintf(text, sizeof text, "v%d", v);
        OK(ncmpi_def_var(id, text, NC_FLOAT, 1, &dimension, &numbers[v]));
    }
    OK(ncmpi_enddef(id));
    say("write: definitions", begin);
    begin = now();
    for (int v = 0; v < variables; v++)
        OK(ncmpi_iput_varn_float(id, numbers[v], mine->number, mine->starts, mine->counts, values + v * mine->values,
                                 NULL));
    say("write: iput_varn", begin);
    begin = now();
    OK(ncmpi_wait_all(id, NC_REQ_ALL, NULL, NULL));
    say("write: wait_all", begin);
    begin = now();
    OK(ncmpi_close(id));
    say("write: close", begin);
    free(numbers);
}

static void get(MPI_Comm comm, const char *name, const segments *mine, float *values) {
    int id;
    double begin = now();
    OK(ncmpi_open(comm, name, NC_NOWRITE, MPI_INFO_NULL, &id));
    say("read: open", begin);
    begin = now();
    for (int v = 0; v < variables; v++)
        OK(ncmpi_iget_varn_float(id, v, mine->number, mine->starts, mine->counts, values + v * mine->values, NULL));
    say("read: iget_varn", begin);
    begin = now();
    OK(ncmpi_wait_all(id, NC_REQ_ALL, NULL, NULL));
    say("read: wait_all", begin);
    begin = now();
    OK(ncmpi_close(id));
    say("read: close", begin);
}

/* Sets or compares all values of a rank. */
static void each(float *values, const segments *mine, int session, int sets) {
    for (int v = 0; v < variables; v++)
        for (int s = 0; s < mine->number; s++)
            for (MPI_Offset cell = *mine->starts[s]; cell < *mine->starts[s] + *mine->counts[s]; cell++, values++)
                if (sets) {
                    *values = value(session, v, cell);
                } else if (*values != value(session, v, cell)) {
                    fprintf(stderr, "session %d: the value of variable %d at %lld is wrong\n", session, v,
                            (long long)cell);
                    MPI_Abort(MPI_COMM_WORLD, 2);
                }
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 8) return 64;
    const char *way = argv[1], *name = argv[2];
    variables = atoi(argv[3]);
    int is_both = strcmp(way, "file") == 0, half = is_both ? size / 2 : size, sessions = atoi(argv[6]);
    int writes = is_both ? rank < half : strcmp(way, "write") == 0, writers = argc > 8 ? atoi(argv[8]) : half;
    cells = (MPI_Offset)atoi(argv[4]) / variables * PUT * writers;
    is_verbose = rank == 0 && getenv("SEGMENTS_VERBOSE") != NULL;
    double pause = atof(argv[7]);
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, writes, rank, &comm);
    int length = writes ? PUT : strcmp(argv[5], "rows") == 0 ? (int)((cells + half - 1) / half) : GOT;
    segments mine = dealt(rank % half, half, length);
    float *values = malloc((size_t)mine.values * (size_t)variables * sizeof *values);
    for (int session = 0; session < sessions; session++) {
        if (writes) each(values, &mine, session, 1);
        else memset(values, 0, (size_t)mine.values * (size_t)variables * sizeof *values);
        if (writes) usleep((unsigned)(pause * 1e6));
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = now(), end, last;
        if (writes) put(comm, name, &mine, values);
        if (is_both) MPI_Barrier(MPI_COMM_WORLD);
        if (!writes) get(comm, name, &mine, values);
        end = now();
        MPI_Reduce(&end, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (!writes) each(values, &mine, session, 0);
        if (rank == 0) printf("%d %.6f %.6f\n", session, begin, last);
        if (rank == 0) fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
