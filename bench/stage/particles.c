/* VPIC-IO and BD-CATS-IO with the calls of h5bench, and a mover for tiers without Knarr.
 *
 *   particles vpic   TIERS VALUES COUNT STEPS COMPUTE DELAY HOW VARIABLES   writes vpic_STEP.h5 after each step, and
 *                                                       computes: SECONDS, or SECONDS:RANKS if not all ranks compute
 *   particles bdcats TIERS VALUES COUNT STEPS 0 0 HOW VARIABLES             reads them all, and compares
 *   particles mover  TIERS                                                moves what waits in the tiers to the last one
 *
 * As in h5bench: contiguous one-dimensional datasets, of which each rank writes a slab as long as its particles, in one
 * shared file, collectively; the file of a step can be closed some steps later (DELAY). Unlike there: a file for each
 * step, as route stage moves files when they are closed; values come from VALUES_RANK_STEP.raw, loaded before the clock
 * runs, and differ between ranks and steps; ranks multiply matrices between steps instead of sleeping. Ranks read
 * independently: collective reads of HDF5 1.10.8 decode chunks that were stored without filters (filter mask), too.
 *
 * HOW: `plain`; `deflate` (shuffle and deflate 1 of its own, chunks as long as a slab); `staged` (the tiers are
 * Knarr's, and only reading is emulated here); `copy` (a copy to memory in place of output); `none` (no output).
 */
#define _GNU_SOURCE
#include "tiers.h"
#include <dirent.h>
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_VARIABLES = 16, SIDE = 160 };

static int rank, ranks, steps, delay, variables, computing;
static hsize_t count;
static const char *how, *values_path;
static char names[MOST_VARIABLES][32], types[MOST_VARIABLES][3];
static size_t sizes[MOST_VARIABLES], step_bytes;
static struct tiers *tiers;

static void ok(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "rank %d: %s has failed\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int is(const char *one, const char *other) { return strcmp(one, other) == 0; }

static double clock_of_files(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void parse(char *text) {
    for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
        ok(variables < MOST_VARIABLES && sscanf(word, "%31[^:]:%2s", names[variables], types[variables]) == 2, word);
        sizes[variables] = (size_t)(types[variables][1] - '0');
        step_bytes += sizes[variables++] * count;
    }
}

static hid_t type_of(int variable) {
    const char *type = types[variable];
    if (is(type, "f4")) return H5T_NATIVE_FLOAT;
    if (is(type, "f8")) return H5T_NATIVE_DOUBLE;
    return is(type, "i4") ? H5T_NATIVE_INT : H5T_NATIVE_LLONG;
}

static void *load(int step) {
    char path[4200];
    snprintf(path, sizeof path, "%s_%d_%d.raw", values_path, rank, step);
    void *values = malloc(step_bytes);
    FILE *file = fopen(path, "rb");
    ok(file && values && fread(values, 1, step_bytes, file) == step_bytes, path);
    fclose(file);
    return values;
}

/* Multiplies for so many seconds, and returns how often. Ranks that do not compute sleep. */
static long compute(double length) {
    if (rank >= computing) {
        until(seconds() + length);
        return 0;
    }
    static double a[SIDE][SIDE], b[SIDE][SIDE], c[SIDE][SIDE];
    long done = 0;
    if (b[0][0] == 0)
        for (int i = 0; i < SIDE; i++)
            for (int j = 0; j < SIDE; j++) a[i][j] = b[i][j] = 1.0 / (1 + i + j + rank);
    for (double end = seconds() + length; seconds() < end; done++)
        for (int i = 0; i < SIDE; i++)
            for (int k = 0; k < SIDE; k++) {
                double factor = a[i][k];
                for (int j = 0; j < SIDE; j++) c[i][j] += factor * b[k][j];
            }
    ok(c[SIDE - 1][SIDE - 1] >= 0, "multiplying");
    return done;
}

/* All ranks sleep until rank 0 says that the devices are done: none waits for another one by spinning. */
static void sleep_together(double end) {
    MPI_Bcast(&end, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    until(end);
}

static void path_of(int step, char *path, size_t length) { snprintf(path, length, "vpic_%d.h5", step); }

static hid_t access_list(void) {
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL);
    return list;
}

static hid_t write_step(int step, const char *values) {
    char path[64];
    path_of(step, path, sizeof path);
    hsize_t all = count * (hsize_t)ranks, at = count * (hsize_t)rank;
    hid_t list = access_list(), transfer = H5Pcreate(H5P_DATASET_XFER), creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
    if (is(how, "deflate")) {
        H5Pset_chunk(creation, 1, &count);
        H5Pset_shuffle(creation);
        H5Pset_deflate(creation, 1);
    }
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, list);
    hid_t space = H5Screate_simple(1, &all, NULL), part = H5Screate_simple(1, &count, NULL);
    ok(file >= 0, path);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &at, NULL, &count, NULL);
    for (int v = 0; v < variables; v++) {
        hid_t set = H5Dcreate2(file, names[v], type_of(v), space, H5P_DEFAULT, creation, H5P_DEFAULT);
        ok(set >= 0 && H5Dwrite(set, type_of(v), part, space, transfer, values) >= 0, names[v]);
        values += sizes[v] * count;
        H5Dclose(set);
    }
    H5Sclose(space);
    H5Sclose(part);
    H5Pclose(list);
    H5Pclose(transfer);
    H5Pclose(creation);
    return file;
}

/* What a real device would take: plain values pass while they are written, filtered ones only when they are encoded. */
static void emulate_output(int step, double begin) {
    char path[64];
    struct stat told;
    path_of(step, path, sizeof path);
    if (is(how, "staged")) return;
    double end = 0;
    if (rank == 0) {
        ok(stat(path, &told) == 0, path);
        end = place(tiers, step, told.st_size, is(how, "deflate") ? seconds() : begin);
    }
    sleep_together(end);
}

static void print_list(const char *name, const double *list, int length) {
    printf("\"%s\": [", name);
    for (int index = 0; index < length; index++) printf("%s%.6f", index ? ", " : "", list[index]);
    printf("]");
}

static void vpic(double compute_s) {
    double blocked[MOST_STEPS] = {0}, most[MOST_STEPS], counts[MOST_STEPS], sums[MOST_STEPS], begin_all = 0;
    void *values[MOST_STEPS];
    hid_t open[MOST_STEPS];
    for (int step = 0; step < steps; step++) values[step] = load(step);
    char *copy = malloc(step_bytes);
    memset(copy, 1, step_bytes);
    compute(0.3); /* caches and clocks of the processor */
    MPI_Barrier(MPI_COMM_WORLD);
    begin_all = clock_of_files();
    for (int step = 0; step < steps; step++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = seconds();
        if (is(how, "copy")) memcpy(copy, values[step], step_bytes);
        else if (!is(how, "none")) {
            open[step] = write_step(step, values[step]);
            if (step >= delay) ok(H5Fclose(open[step - delay]) >= 0, "closing");
            emulate_output(step, begin);
        }
        blocked[step] = seconds() - begin;
        counts[step] = (double)compute(compute_s);
    }
    double begin = seconds();
    if (!is(how, "none") && !is(how, "copy"))
        for (int step = steps > delay ? steps - delay : 0; step < steps; step++) ok(H5Fclose(open[step]) >= 0, "closing");
    blocked[steps - 1] += seconds() - begin;
    MPI_Reduce(blocked, most, steps, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(counts, sums, steps, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank > 0) return;
    printf("{\"program\": \"vpic\", \"begin\": %.6f, \"end\": %.6f, ", begin_all, clock_of_files());
    print_list("blocked_s", most, steps);
    printf(", ");
    print_list("multiplications", sums, steps);
    printf(", \"raw_bytes\": %.0f}\n", (double)step_bytes * ranks * steps);
}

/* In which tier of Knarr the open file lies, by the name that its descriptor has. */
static int tier_of_open_file(void) { /* tiers are memory, nvme, burst (not always), the place of files */
    const char *marks[] = {"/tiers/nvme/", "/tiers/burst/"};
    char own[300], leads_to[4200];
    int found = tiers->tiers - 1;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        snprintf(own, sizeof own, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(own, leads_to, sizeof leads_to - 1);
        leads_to[length > 0 ? length : 0] = 0;
        for (int tier = 0; tier < 2; tier++)
            if (strstr(leads_to, marks[tier])) found = tier + 1;
    }
    closedir(folder);
    return found < tiers->tiers ? found : tiers->tiers - 1;
}

/* Where the bytes of a step lie now. */
static void where(int step, hid_t file, long long at[MOST_TIERS]) {
    memset(at, 0, MOST_TIERS * sizeof *at);
    hsize_t size = 0;
    if (!is(how, "staged")) {
        found(tiers, step, at);
        return;
    }
    H5Fget_filesize(file, &size);
    at[tier_of_open_file()] = (long long)size;
}

static void bdcats(void) {
    double took[MOST_STEPS] = {0}, most[MOST_STEPS], waited[MOST_STEPS], most_waited[MOST_STEPS];
    long long sums[MOST_TIERS] = {0}, at[MOST_TIERS] = {0};
    int equal = 0, all_equal;
    char *values = malloc(step_bytes);
    memset(values, 1, step_bytes);
    for (int step = 0; step < steps; step++) {
        char path[64], *to = values;
        path_of(step, path, sizeof path);
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = seconds(), end = 0;
        hid_t list = access_list();
        hid_t file = H5Fopen(path, H5F_ACC_RDONLY, list);
        ok(file >= 0, path);
        double opened = seconds();
        waited[step] = opened - begin;
        if (rank == 0) where(step, file, at);
        hsize_t start = count * (hsize_t)rank;
        for (int v = 0; v < variables; v++) {
            hid_t set = H5Dopen2(file, names[v], H5P_DEFAULT);
            hid_t space = H5Dget_space(set), part = H5Screate_simple(1, &count, NULL);
            H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
            ok(set >= 0 && H5Dread(set, type_of(v), part, space, H5P_DEFAULT, to) >= 0, names[v]);
            to += sizes[v] * count;
            H5Sclose(space);
            H5Sclose(part);
            H5Dclose(set);
        }
        H5Pclose(list);
        H5Fclose(file);
        if (rank == 0) {
            end = fetch(tiers, at, is(how, "plain") ? opened : seconds());
            for (int tier = 0; tier < MOST_TIERS; tier++) sums[tier] += at[tier];
        }
        sleep_together(end);
        took[step] = seconds() - begin;
        char *wanted = load(step);
        equal += memcmp(wanted, values, step_bytes) == 0;
        free(wanted);
    }
    MPI_Reduce(took, most, steps, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(waited, most_waited, steps, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&equal, &all_equal, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
    if (rank > 0) return;
    printf("{\"program\": \"bdcats\", \"equal\": %d, \"found\": [%lld, %lld, %lld, %lld], ", all_equal, sums[0], sums[1],
           sums[2], sums[3]);
    print_list("read_s", most, steps);
    printf(", ");
    print_list("opening_s", most_waited, steps);
    printf("}\n");
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    tiers = attach(argv[2]);
    if (is(argv[1], "mover")) {
        move_all(tiers);
        printf("{\"program\": \"mover\", \"end\": %.6f}\n", clock_of_files());
        return 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    ok(argc == 10, "reading the arguments");
    values_path = argv[3];
    count = (hsize_t)atoll(argv[4]);
    steps = atoi(argv[5]);
    delay = atoi(argv[7]);
    how = argv[8];
    ok(steps <= MOST_STEPS, "so many steps");
    parse(argv[9]);
    const char *of = strchr(argv[6], ':');
    computing = of ? atoi(of + 1) : ranks;
    if (is(argv[1], "vpic")) vpic(atof(argv[6]));
    else bdcats();
    MPI_Finalize();
    return 0;
}
