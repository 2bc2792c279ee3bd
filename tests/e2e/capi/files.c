/* Adds an HDF5 file to a checkpoint and goes on using HDF5 while that is packed: the library's HDF5 and this one are two. */
#include <hdf5.h>
#include <knarr.h>
#include <stdio.h>
#include <stdlib.h>

#define NEED(condition)                                                                      \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, knarr_last_error()); \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

enum { ROWS = 400, COLUMNS = 300 };
static double field[ROWS][COLUMNS];

static void write_field(const char *path) {
    const hsize_t shape[2] = {ROWS, COLUMNS}, chunk[2] = {50, 60};
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(2, shape, NULL), chunked = H5Pcreate(H5P_DATASET_CREATE);
    NEED(file >= 0 && space >= 0 && H5Pset_chunk(chunked, 2, chunk) >= 0);
    const char *names[2] = {"whole", "chunks"};
    const hid_t lists[2] = {H5P_DEFAULT, chunked};
    for (int n = 0; n < 2; n++) {
        hid_t set = H5Dcreate2(file, names[n], H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, lists[n], H5P_DEFAULT);
        NEED(set >= 0 && H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, field) >= 0);
        NEED(H5Dclose(set) >= 0);
    }
    NEED(H5Pclose(chunked) >= 0 && H5Sclose(space) >= 0 && H5Fclose(file) >= 0);
}

int main(int argc, char **argv) {
    NEED(argc == 4);
    const char *sets = argv[1], *path = argv[2], *other = argv[3];
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) field[row][column] = row / 8.0 + column;
    write_field(path);
    /* Open all the time, as files of programs may be. */
    hid_t open = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    NEED(open >= 0);
    knarr_checkpoint *checkpoint;
    int32_t done = 0;
    int between = 0;
    NEED(knarr_checkpoint_open(sets, NULL, NULL, &checkpoint) == KNARR_OK);
    for (int64_t step = 1; step <= 3; step++) {
        NEED(knarr_checkpoint_begin(checkpoint, step) == KNARR_OK);
        NEED(knarr_checkpoint_add_file(checkpoint, path, NULL) == KNARR_OK);
        NEED(knarr_checkpoint_commit(checkpoint) == KNARR_OK);
        for (done = 0; done != 1; between++) {
            write_field(other);
            NEED(knarr_checkpoint_test(checkpoint, &done) == KNARR_OK);
        }
    }
    NEED(knarr_checkpoint_close(checkpoint) == KNARR_OK);
    unsigned major, minor, release;
    NEED(H5get_libversion(&major, &minor, &release) >= 0);
    NEED(major == H5_VERS_MAJOR && minor == H5_VERS_MINOR && release == H5_VERS_RELEASE);
    /* Only what this program opened is open. */
    NEED(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL) == 1 && H5Fclose(open) >= 0);
    printf("HDF5 %u.%u was used %d times meanwhile\n", major, minor, between);
    return 0;
}
