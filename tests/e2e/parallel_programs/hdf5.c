/* Writes with parallel HDF5 what a model and a test may: blocks of growing datasets, collectively and not, in other types,
 * strided, as unions, by points; compounds, scalars, attributes, datasets that are never written.
 *
 * usage: hdf5 FILE STEPS ROWS [what]
 * what: "wait" makes a directory "waits" when all is put, and waits for a file "go" before the file is closed, "kill" ends
 *       rank 0 by SIGKILL then, "forget" never closes it, "leave" leaves that to MPI_Finalize, "read" reads before and after it is closed, "twice" writes the file a second time, "odd" makes calls that
 *       are refused and makes a dataset smaller, "filters" has values converted and filtered, which parallel HDF5 refuses,
 *       "differ" has one rank create what the others do not */
#include <hdf5.h>
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../checked.h"

static int rank, size;

static hid_t dataset(hid_t at, const char *name, hid_t type, int axes, const hsize_t *dims, const hsize_t *most, hid_t list) {
    hid_t space = OK(axes == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(axes, dims, most));
    hid_t id = OK(H5Dcreate2(at, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT));
    H5Sclose(space);
    return id;
}

static void attribute(hid_t at, const char *name, double value) {
    hid_t space = OK(H5Screate(H5S_SCALAR)), id = OK(H5Acreate2(at, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT));
    OK(H5Awrite(id, H5T_NATIVE_DOUBLE, &value));
    H5Aclose(id);
    H5Sclose(space);
}

struct pair {
    int number;
    double value;
};

static hid_t pair_type(void) {
    hid_t type = OK(H5Tcreate(H5T_COMPOUND, sizeof(struct pair)));
    OK(H5Tinsert(type, "number", HOFFSET(struct pair, number), H5T_NATIVE_INT));
    OK(H5Tinsert(type, "value", HOFFSET(struct pair, value), H5T_NATIVE_DOUBLE));
    return type;
}

static void write_file(const char *name, int steps, hsize_t rows, float more, const char *what) {
    hid_t collective = OK(H5Pcreate(H5P_DATASET_XFER)), list = OK(H5Pcreate(H5P_FILE_ACCESS));
    OK(H5Pset_dxpl_mpio(collective, H5FD_MPIO_COLLECTIVE));
    OK(H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL));
    OK(H5Pset_alignment(list, 1, 4096));
    hid_t file = OK(H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, list));
    char named[256];
    check(H5Fget_name(file, named, sizeof named) == (ssize_t)strlen(name) && strcmp(named, name) == 0, "another name");
    hid_t shown = OK(H5Fget_access_plist(file));
    check(H5Pget_driver(shown) == H5Pget_driver(list), "another driver");
    H5Pclose(shown);

    hsize_t down = size % 2 == 0 ? 2 : 1, across = (hsize_t)size / down, y = (hsize_t)rank / across, x = (hsize_t)rank % across;
    hsize_t start[3] = {0, y * rows / down, x * 2 * rows / across};
    hsize_t n[3] = {1, (y + 1) * rows / down - start[1], (x + 1) * 2 * rows / across - start[2]};
    hsize_t all[3] = {0, rows, 2 * rows}, most[3] = {H5S_UNLIMITED, rows, 2 * rows}, chunk[3] = {1, rows, rows};
    hsize_t len = n[1] * n[2], i = 0;
    double *height = malloc(sizeof *height * len);
    float *values = malloc(sizeof *values * len * 2);
    int *numbers = malloc(sizeof *numbers * len);
    for (y = 0; y < n[1]; y++)
        for (x = 0; x < n[2]; x++, i++) {
            height[i] = sin((double)(start[1] + y) * 0.1) * 100 + (double)(start[2] + x);
            numbers[i] = (int)((start[1] + y) * 1000 + start[2] + x);
        }

    hid_t group = OK(H5Gcreate2(file, "grid", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    attribute(group, "spacing", 2.5);
    hid_t early = OK(H5Pcreate(H5P_DATASET_CREATE)), chunked = OK(H5Pcreate(H5P_DATASET_CREATE));
    hid_t filled = OK(H5Pcreate(H5P_DATASET_CREATE)), thin = OK(H5Pcreate(H5P_DATASET_CREATE));
    OK(H5Pset_alloc_time(early, H5D_ALLOC_TIME_EARLY));
    OK(H5Pset_chunk(chunked, 3, chunk));
    if (strcmp(what, "filters") == 0) OK(H5Pset_deflate(chunked, 1));
    float missing = -99;
    OK(H5Pset_fill_value(filled, H5T_NATIVE_FLOAT, &missing));
    OK(H5Pset_chunk(thin, 1, all + 1));
    /* Doubles in memory, floats in the file; the other way round; another byte order. */
    hid_t topo = dataset(group, "topo", H5T_IEEE_F32LE, 2, all + 1, NULL, early);
    hid_t temperature = dataset(file, "T", H5T_IEEE_F64LE, 3, all, most, chunked);
    hid_t count = dataset(file, "count", H5T_STD_I32BE, 2, all + 1, NULL, H5P_DEFAULT);
    hid_t times = dataset(file, "time", H5T_IEEE_F64LE, 1, all, most, thin);
    hid_t never = dataset(file, "never", H5T_NATIVE_FLOAT, 2, all + 1, NULL, filled);
    hid_t some = dataset(file, "some", H5T_NATIVE_FLOAT, 2, all + 1, NULL, filled);
    hid_t answer = dataset(file, "answer", H5T_NATIVE_INT, 0, NULL, NULL, H5P_DEFAULT);
    hsize_t each = (hsize_t)size;
    hid_t pairs = dataset(file, "pairs", pair_type(), 1, &each, NULL, H5P_DEFAULT);
    hid_t text = OK(H5Tcopy(H5T_C_S1));
    OK(H5Tset_size(text, 8));
    hid_t names = dataset(file, "names", text, 1, &each, NULL, H5P_DEFAULT);
    attribute(temperature, "scale", 0.5);

    hid_t space = OK(H5Screate_simple(2, all + 1, NULL)), memory = OK(H5Screate_simple(2, n + 1, NULL));
    OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start + 1, NULL, n + 1, NULL));
    OK(H5Dwrite(topo, H5T_NATIVE_DOUBLE, memory, space, collective, height));
    OK(H5Dwrite(count, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, numbers));
    /* Every second element of each row, from every second element of memory. */
    hsize_t zero[2] = {0, 0}, two[2] = {1, 2}, half[2] = {n[1], n[2] / 2};
    float *halves = malloc(sizeof *halves * len);
    for (i = 0; i < len; i++) halves[i] = (float)i + more;
    OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start + 1, two, half, NULL));
    OK(H5Sselect_hyperslab(memory, H5S_SELECT_SET, zero, two, half, NULL));
    OK(H5Dwrite(some, H5T_NATIVE_FLOAT, memory, space, collective, halves));
    /* A union of two rectangles of the rank's block, and two points. */
    hsize_t first[2] = {start[1], start[2] + 1}, second[2] = {start[1] + 1, start[2]}, wide[2] = {2, 3}, few = 10;
    hid_t line = OK(H5Screate_simple(1, &few, NULL));
    OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, first, NULL, wide, NULL));
    OK(H5Sselect_hyperslab(space, H5S_SELECT_OR, second, NULL, wide, NULL));
    few = (hsize_t)H5Sget_select_npoints(space);
    H5Sclose(line);
    line = OK(H5Screate_simple(1, &few, NULL));
    OK(H5Dwrite(some, H5T_NATIVE_FLOAT, line, space, H5P_DEFAULT, halves + 1));
    hsize_t points[4] = {start[1] + 3, start[2] + 3, start[1] + 2, start[2]};
    few = 2;
    OK(H5Sselect_elements(space, H5S_SELECT_SET, 2, points));
    H5Sclose(line);
    line = OK(H5Screate_simple(1, &few, NULL));
    OK(H5Dwrite(some, H5T_NATIVE_FLOAT, line, space, H5P_DEFAULT, halves + 5));
    /* Nothing at all. */
    OK(H5Sselect_none(space));
    OK(H5Sselect_none(line));
    OK(H5Dwrite(some, H5T_NATIVE_FLOAT, line, space, collective, NULL));

    int value = 42;
    if (rank == 0) OK(H5Dwrite(answer, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value));
    struct pair pair;
    memset(&pair, 0, sizeof pair);
    pair.number = rank;
    pair.value = rank * 0.5;
    hsize_t mine = (hsize_t)rank, one = 1;
    hid_t row = OK(H5Screate_simple(1, &each, NULL)), single = OK(H5Screate_simple(1, &one, NULL));
    OK(H5Sselect_hyperslab(row, H5S_SELECT_SET, &mine, NULL, &one, NULL));
    OK(H5Dwrite(pairs, pair_type(), single, row, H5P_DEFAULT, &pair));
    /* One member alone: the other stays. */
    hid_t member = OK(H5Tcreate(H5T_COMPOUND, sizeof(double)));
    OK(H5Tinsert(member, "value", 0, H5T_NATIVE_DOUBLE));
    pair.value = rank * 0.25 + more;
    OK(H5Dwrite(pairs, member, single, row, H5P_DEFAULT, &pair.value));
    char called[8] = "";
    snprintf(called, sizeof called, "r%d", rank);
    OK(H5Dwrite(names, text, single, row, H5P_DEFAULT, called));
    /* A selection that was moved. */
    hid_t moved = dataset(file, "moved", H5T_NATIVE_INT, 1, &each, NULL, H5P_DEFAULT);
    hssize_t offset = rank, still = 0;
    OK(H5Sselect_hyperslab(row, H5S_SELECT_SET, zero, NULL, &one, NULL));
    OK(H5Soffset_simple(row, &offset));
    OK(H5Dwrite(moved, H5T_NATIVE_INT, single, row, H5P_DEFAULT, &rank));
    OK(H5Soffset_simple(row, &still));
    OK(H5Sselect_hyperslab(row, H5S_SELECT_SET, &mine, NULL, &one, NULL));
    H5Dclose(moved);

    for (int step = 0; step < steps; step++) {
        hsize_t now[3] = {(hsize_t)step + 1, rows, 2 * rows};
        OK(H5Dset_extent(temperature, now));
        OK(H5Dset_extent(times, now));
        for (i = 0; i < len; i++) values[i] = (float)height[i] * 0.1f + (float)step + more;
        hid_t grown = OK(H5Dget_space(temperature)), part = OK(H5Screate_simple(3, n, NULL));
        start[0] = (hsize_t)step;
        OK(H5Sselect_hyperslab(grown, H5S_SELECT_SET, start, NULL, n, NULL));
        OK(H5Dwrite(temperature, H5T_NATIVE_FLOAT, part, grown, collective, values));
        H5Sclose(grown);
        H5Sclose(part);
        hid_t moment = OK(H5Dget_space(times));
        OK(H5Sselect_hyperslab(moment, H5S_SELECT_SET, start, NULL, &one, NULL));
        if (rank != 0) {
            OK(H5Sselect_none(moment));
            OK(H5Sselect_none(single));
        }
        double hour = 6.0 * step;
        OK(H5Dwrite(times, H5T_NATIVE_DOUBLE, single, moment, collective, &hour));
        OK(H5Sselect_all(single));
        H5Sclose(moment);
        OK(H5Fflush(file, H5F_SCOPE_GLOBAL));
    }
    if (strcmp(what, "differ") == 0 && rank == 1) H5Dclose(dataset(file, "extra", text, 1, &each, NULL, H5P_DEFAULT));
    if (strcmp(what, "odd") == 0) {
        hid_t loose = OK(H5Tcopy(H5T_C_S1));
        OK(H5Tset_size(loose, H5T_VARIABLE));
        hid_t odd = dataset(file, "loose", loose, 1, &each, NULL, H5P_DEFAULT);
        const char *word = "word";
        check(H5Dwrite(odd, loose, single, row, H5P_DEFAULT, &word) < 0, "text of any length was written");
        H5Dclose(odd);
        OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start + 1, NULL, n + 1, NULL));
        OK(H5Sselect_hyperslab(memory, H5S_SELECT_SET, zero, NULL, half, NULL));
        check(H5Dwrite(some, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, halves) < 0, "more than there is was written");
        check(H5Dwrite(some, text, memory, memory, H5P_DEFAULT, halves) < 0, "text was written as numbers");
        /* A dataset that is removed. */
        hid_t gone = dataset(file, "gone", H5T_NATIVE_INT, 1, &each, NULL, H5P_DEFAULT);
        OK(H5Dwrite(gone, H5T_NATIVE_INT, single, row, H5P_DEFAULT, &rank));
        H5Dclose(gone);
        OK(H5Ldelete(file, "gone", H5P_DEFAULT));
        /* Smaller, and larger again: what was cut off is gone. */
        hsize_t less[3] = {1, rows, 2 * rows}, again[3] = {(hsize_t)steps, rows, 2 * rows};
        OK(H5Dset_extent(temperature, less));
        OK(H5Dset_extent(temperature, again));
    }
    if (strcmp(what, "read") == 0) {
        float *seen = malloc(sizeof *seen * rows * 2 * rows);
        hid_t grown = OK(H5Dget_space(temperature)), part = OK(H5Screate_simple(2, all + 1, NULL));
        hsize_t at[3] = {0, 0, 0}, whole[3] = {1, rows, 2 * rows};
        OK(H5Sselect_hyperslab(grown, H5S_SELECT_SET, at, NULL, whole, NULL));
        OK(H5Dread(temperature, H5T_NATIVE_FLOAT, part, grown, collective, seen));
        for (y = 0; y < rows; y++)
            for (x = 0; x < 2 * rows; x++) {
                float expected = (float)(sin((double)y * 0.1) * 100 + (double)x) * 0.1f + more;
                check(seen[y * 2 * rows + x] == expected, "another value is read back");
            }
        OK(H5Dread(never, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, seen));
        check(seen[0] == -99 && seen[2 * rows * rows - 1] == -99, "no fill value is read");
        free(seen);
        H5Sclose(grown);
        H5Sclose(part);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(what, "wait") == 0) {
        if (rank == 0) mkdir("waits", 0755);
        while (access("go", F_OK) != 0) usleep(10000);
    }
    if (strcmp(what, "kill") == 0 && rank == 0) raise(SIGKILL);
    if (strcmp(what, "kill") == 0) sleep(60);
    if (strcmp(what, "forget") == 0) _exit(0);
    if (strcmp(what, "leave") == 0) return;
    hid_t sets[] = {topo, temperature, count, times, never, some, answer, pairs, names};
    for (i = 0; i < sizeof sets / sizeof *sets; i++) OK(H5Dclose(sets[i]));
    H5Gclose(group);
    hid_t closed = (hid_t)H5Fclose(file);
    /* The first rank removes what nothing is made of, before a rank that has failed ends all. */
    MPI_Barrier(MPI_COMM_WORLD);
    OK(closed);
    H5Pclose(list);
    H5Pclose(collective);
    free(height);
    free(values);
    free(numbers);
    free(halves);
}

static void read_file(const char *name, hsize_t rows) {
    hid_t access = OK(H5Pcreate(H5P_FILE_ACCESS));
    OK(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
    hid_t file = OK(H5Fopen(name, H5F_ACC_RDONLY, access)), count = OK(H5Dopen2(file, "count", H5P_DEFAULT));
    int *seen = malloc(sizeof *seen * rows * 2 * rows);
    OK(H5Dread(count, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, seen));
    for (hsize_t y = 0; y < rows; y++)
        for (hsize_t x = 0; x < 2 * rows; x++) check(seen[y * 2 * rows + x] == (int)(y * 1000 + x), "another number");
    free(seen);
    H5Dclose(count);
    OK(H5Fclose(file));
    H5Pclose(access);
}

int main(int argc, char **argv) {
    const char *what = argc > 4 ? argv[4] : "";
    int steps = atoi(argv[2]);
    hsize_t rows = (hsize_t)atoi(argv[3]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    write_file(argv[1], steps, rows, 0, what);
    if (strcmp(what, "twice") == 0) write_file(argv[1], steps, rows, 1, what);
    if (strcmp(what, "read") == 0) read_file(argv[1], rows);
    MPI_Finalize();
    return 0;
}
