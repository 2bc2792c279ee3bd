/* Writes steps of four variables from all ranks, as a model does, and says how long each step blocked the ranks.
 *
 * usage: steps MODE OUT STEPS SECONDS VALUES [SWEEPS]
 *   MODE     nothing   writes nothing
 *            memory    copies the values to memory that was used before
 *            pnetcdf   PnetCDF, collective; CDF-5
 *            apart     PnetCDF, each rank a file of its own with its block
 *            netcdf4   parallel netCDF-4, collective, without filters
 *            deflate   parallel netCDF-4, collective, shuffle and deflate 1, chunks within the block of a rank
 *            gather    values go to rank 0, which writes netCDF-4 with shuffle and deflate 1
 *            posix     write(2), each rank a file of its own
 *            mpiio     MPI-IO, one file without a format
 *            hdf5      parallel HDF5, contiguous
 *            With ",calls=N" a rank writes its block of a variable in N calls, a part of its depth in each; with
 *            ",independent" without the other ranks.
 *            With ",open" steps of PnetCDF and netCDF-4 are records of one file, which is open until the end.
 *   OUT      beginning of the names of files, one for each step
 *   SECONDS  between steps, in which the ranks sleep
 *   VALUES   raw floats, 4 x DEPTH x SIDE x SIDE, of which each rank takes its block; each step shifts them
 *   SWEEPS   of a stencil over a block between steps, in which all ranks compute
 *
 * Two or four ranks. One line a step: seconds from create to close of the slowest rank, seconds of the sweeps of the slowest
 * one. Then the same sweeps
 * after the pause, if there is one, and of both the mean seconds on a processor, and ready to run without one. */
#include "layers.h"
#include "records.h"
#include <mpi.h>
#include <netcdf.h>
#include <netcdf_par.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static float *used[VARIABLES];
/* A rank has all of a row, or half of it. */
static size_t row;

#define PN(call) do { int code = (call); check(code, #call, code ? ncmpi_strerror(code) : ""); } while (0)
#define NC(call) do { int code = (call); check(code, #call, code ? nc_strerror(code) : ""); } while (0)

static void write_pnetcdf(const char *shared, int apart, struct how how) {
    static const char *AXES[] = {"z", "y", "x"};
    int id, axes[3], variables[VARIABLES];
    MPI_Offset begin[3], n[3];
    char path[4200];
    snprintf(path, sizeof path, apart ? "%s.%d.nc" : "%s", shared, rank);
    PN(ncmpi_create(apart ? MPI_COMM_SELF : MPI_COMM_WORLD, path, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id));
    for (int axis = 0; axis < 3; axis++) {
        begin[axis] = apart ? 0 : (MPI_Offset)start[axis];
        n[axis] = (MPI_Offset)count[axis];
        PN(ncmpi_def_dim(id, AXES[axis], apart ? n[axis] : axis == 0 ? DEPTH : SIDE, &axes[axis]));
    }
    for (int v = 0; v < VARIABLES; v++) PN(ncmpi_def_var(id, name_of(v), NC_FLOAT, 3, axes, &variables[v]));
    PN(ncmpi_enddef(id));
    n[0] /= how.calls;
    if (how.independent) PN(ncmpi_begin_indep_data(id));
    for (int v = 0; v < VARIABLES; v++)
        for (int call = 0; call < how.calls; call++) {
            const float *from = block[v] + values / (size_t)how.calls * (size_t)call;
            begin[0] = call * n[0];
            if (how.independent)
                PN(ncmpi_put_vara_float(id, variables[v], begin, n, from));
            else
                PN(ncmpi_put_vara_float_all(id, variables[v], begin, n, from));
        }
    PN(ncmpi_close(id));
}

static void define(int id, int *variables, int filtered) {
    static const char *AXES[] = {"z", "y", "x"};
    int axes[3];
    for (int axis = 0; axis < 3; axis++) NC(nc_def_dim(id, AXES[axis], axis == 0 ? DEPTH : SIDE, &axes[axis]));
    for (int v = 0; v < VARIABLES; v++) {
        size_t chunk[3] = {DEPTH / 2, HALF, HALF};
        NC(nc_def_var(id, name_of(v), NC_FLOAT, 3, axes, &variables[v]));
        NC(nc_def_var_fill(id, variables[v], 1, NULL));
        if (filtered) {
            NC(nc_def_var_chunking(id, variables[v], NC_CHUNKED, chunk));
            NC(nc_def_var_deflate(id, variables[v], 1, 1, 1));
        }
    }
    NC(nc_enddef(id));
}

static void write_netcdf4(const char *path, int filtered, struct how how) {
    int id, variables[VARIABLES];
    size_t at[3] = {0, start[1], start[2]}, n[3] = {count[0] / (size_t)how.calls, count[1], count[2]};
    NC(nc_create_par(path, NC_CLOBBER | NC_NETCDF4, MPI_COMM_WORLD, MPI_INFO_NULL, &id));
    define(id, variables, filtered);
    for (int v = 0; v < VARIABLES; v++) {
        NC(nc_var_par_access(id, variables[v], how.independent ? NC_INDEPENDENT : NC_COLLECTIVE));
        for (int call = 0; call < how.calls; call++) {
            at[0] = (size_t)call * n[0];
            NC(nc_put_vara_float(id, variables[v], at, n, block[v] + values / (size_t)how.calls * (size_t)call));
        }
    }
    NC(nc_close(id));
}

static void write_gathered(const char *path) {
    static float *all;
    int id = 0, variables[VARIABLES], size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0 && all == NULL) all = malloc(sizeof *all * values * (size_t)size);
    if (rank == 0) {
        NC(nc_create(path, NC_CLOBBER | NC_NETCDF4, &id));
        define(id, variables, 1);
    }
    for (int v = 0; v < VARIABLES; v++) {
        MPI_Gather(block[v], (int)values, MPI_FLOAT, all, (int)values, MPI_FLOAT, 0, MPI_COMM_WORLD);
        for (int from = 0; rank == 0 && from < size; from++) {
            size_t place[3] = {0, (size_t)(from / (size / 2)) * HALF, (size_t)(from % (size / 2)) * row};
            NC(nc_put_vara_float(id, variables[v], place, count, all + (size_t)from * values));
        }
    }
    if (rank == 0) NC(nc_close(id));
}

static void read_values(const char *path) {
    FILE *file = fopen(path, "rb");
    check(file == NULL, path, "cannot be read");
    for (int v = 0; v < VARIABLES; v++) {
        block[v] = malloc(sizeof(float) * values);
        used[v] = calloc(values, sizeof(float));
        memset(used[v], 1, sizeof(float) * values);
        for (int z = 0; z < DEPTH; z++)
            for (int y = 0; y < HALF; y++) {
                long at = ((((long)v * DEPTH + z) * SIDE + (long)start[1] + y) * SIDE + (long)start[2]) * (long)sizeof(float);
                check(fseek(file, at, SEEK_SET), path, "is too short");
                check(fread(block[v] + ((size_t)z * HALF + (size_t)y) * row, sizeof(float), row, file) != row, path,
                      "is too short");
            }
    }
    fclose(file);
}

/* Writes a step in a way that the command line has named. */
static void write_step(const char *named, const char *path, size_t step) {
    char way[64];
    snprintf(way, sizeof way, "%s", named);
    char *option = strtok(way, ",");
    struct how how = {1, 0};
    int is_open = 0;
    while ((option = strtok(NULL, ",")) != NULL) {
        if (strcmp(option, "independent") == 0)
            how.independent = 1;
        else if (strcmp(option, "open") == 0)
            is_open = 1;
        else
            check(sscanf(option, "calls=%d", &how.calls) != 1 || how.calls < 1 || DEPTH % how.calls != 0, option, "is no option");
    }
    if (is_open)
        add_record(path, way, step);
    else if (strcmp(way, "memory") == 0)
        for (int v = 0; v < VARIABLES; v++) memcpy(used[v], block[v], sizeof(float) * values);
    else if (strcmp(way, "pnetcdf") == 0 || strcmp(way, "apart") == 0)
        write_pnetcdf(path, way[0] == 'a', how);
    else if (strcmp(way, "netcdf4") == 0 || strcmp(way, "deflate") == 0)
        write_netcdf4(path, way[0] == 'd', how);
    else if (strcmp(way, "gather") == 0)
        write_gathered(path);
    else if (strcmp(way, "posix") == 0)
        write_posix(path, how);
    else if (strcmp(way, "mpiio") == 0)
        write_mpiio(path, how);
    else if (strcmp(way, "hdf5") == 0)
        write_hdf5(path, how);
    else
        check(strcmp(way, "nothing") != 0, way, "is no way to write");
}

/* Seconds that this thread has been on a processor, and ready to run without one. */
static void scheduled(double seconds[2]) {
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    check(file == NULL || fscanf(file, "%lf %lf", &seconds[0], &seconds[1]) != 2, "/proc/thread-self/schedstat",
          "says nothing: this kernel does not count");
    fclose(file);
    seconds[0] /= 1e9;
    seconds[1] /= 1e9;
}

/* Every value becomes the mean of its neighbours, from one array to the other. `spent` gets the seconds of this thread. */
static double compute(int sweeps, double spent[2]) {
    if (sweeps == 0) return 0;
    double begin = MPI_Wtime(), before[2], after[2];
    scheduled(before);
    for (int sweep = 0; sweep < sweeps; sweep++) {
        const float *from = used[sweep % 2];
        float *to = used[1 - sweep % 2];
        size_t plane = HALF * row;
        for (size_t at = plane + row + 1; at < values - plane - row - 1; at++)
            to[at] = (from[at - 1] + from[at + 1] + from[at - row] + from[at + row] + from[at - plane] + from[at + plane]) / 6;
    }
    scheduled(after);
    for (int kind = 0; kind < 2; kind++) spent[kind] = after[kind] - before[kind];
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime() - begin;
}

int main(int argc, char **argv) {
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check(argc < 6 || argc > 7 || (size != 2 && size != 4), "usage",
          "steps MODE OUT STEPS SECONDS VALUES [SWEEPS], with 2 or 4 ranks");
    row = count[2] = SIDE / ((size_t)size / 2);
    values = DEPTH * HALF * row;
    start[1] = (size_t)(rank / (size / 2)) * HALF;
    start[2] = (size_t)(rank % (size / 2)) * row;
    read_values(argv[5]);
    for (int step = 0; step < atoi(argv[3]); step++) {
        char path[4096];
        snprintf(path, sizeof path, "%s%d.nc", argv[2], step);
        for (int v = 0; v < VARIABLES; v++) {
            /* Values move by a row, so that no step is the one before. */
            float first[SIDE];
            memcpy(first, block[v], sizeof(float) * row);
            memmove(block[v], block[v] + row, sizeof(float) * (values - row));
            memcpy(block[v] + values - row, first, sizeof(float) * row);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        write_step(argv[1], path, (size_t)step);
        double mine = MPI_Wtime() - begin, slowest = 0;
        MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        double spent[4] = {0}, rested[2], all[4], pause = atof(argv[4]), quiet = 0;
        int sweeps = argc == 7 ? atoi(argv[6]) : 0;
        /* A processor that has rested is slower at first: if both are compared, twice as much goes before either. */
        if (pause > 0) compute(2 * sweeps, rested);
        double computed = compute(sweeps, spent);
        usleep((useconds_t)(pause * 1e6));
        if (pause > 0) compute(2 * sweeps, rested), quiet = compute(sweeps, spent + 2);
        MPI_Reduce(spent, all, 4, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("%.4f %.4f %.4f", slowest, computed, quiet);
            for (int kind = 0; kind < 4; kind++) printf(" %.6f", all[kind] / size);
            printf("\n");
            fflush(stdout);
        }
    }
    close_records();
    MPI_Finalize();
    return 0;
}
