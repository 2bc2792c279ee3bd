/* One of two programs that are coupled by an HDF5 file: writes rows, or opens the file and reads them in processes that are
 * forked from the one which has it open.
 *
 * usage: forks write|read FILE CHILDREN READS
 * Each child reads as many rows, and says if one of them is another one. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 2048, COLUMNS = 256 };

static int rows[ROWS][COLUMNS];

static int writes(const char *path) {
    hsize_t shape[2] = {ROWS, COLUMNS};
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) rows[row][column] = row * 1000 + column;
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), space = H5Screate_simple(2, shape, NULL);
    hid_t data = H5Dcreate2(file, "x", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    int failed = H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, rows) < 0;
    H5Sclose(space);
    failed |= H5Dclose(data) < 0;
    return failed | (H5Fclose(file) < 0);
}

static int child(hid_t data, int number, int reads) {
    hsize_t width[1] = {COLUMNS}, count[2] = {1, COLUMNS};
    hid_t space = H5Dget_space(data), memory = H5Screate_simple(1, width, NULL);
    unsigned seed = (unsigned)number + 1;
    for (int read = 0; read < reads; read++) {
        int row = rand_r(&seed) % ROWS, found[COLUMNS];
        hsize_t start[2] = {(hsize_t)row, 0};
        memset(found, 0, sizeof found);
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
        if (H5Dread(data, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, found) < 0) {
            fprintf(stderr, "child %d: row %d cannot be read\n", number, row);
            return 1;
        }
        for (int column = 0; column < COLUMNS; column++)
            if (found[column] != row * 1000 + column) {
                fprintf(stderr, "child %d: row %d is wrong: %d\n", number, row, found[column]);
                return 1;
            }
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 5) return 64;
    if (strcmp(argv[1], "write") == 0) return writes(argv[2]);
    hid_t file = H5Fopen(argv[2], H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0) return 2;
    hid_t data = H5Dopen2(file, "x", H5P_DEFAULT);
    /* A connection is there before the processes are. */
    if (child(data, 0, 1)) return 1;
    for (int number = 0; number < atoi(argv[3]); number++)
        if (fork() == 0) _exit(child(data, number, atoi(argv[4])));
    int status, failed = 0;
    while (wait(&status) > 0) failed |= status;
    H5Dclose(data);
    H5Fclose(file);
    return failed != 0;
}
