/* A program that writes sessions of an HDF5 file, or reads them and says which it got.
 *
 * usage: sessions write|read FILE SESSIONS MILLISECONDS
 * A "%d" in FILE stands for the number of the session, from 0 on. The writer waits before each session, the reader while it has
 * one open. The reader ends when there is none to open, and prints "PID got NUMBER" for each. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LENGTH = 1000 };

static int values[LENGTH];

static int writes(const char *path, int session) {
    hsize_t length = LENGTH;
    for (int i = 0; i < LENGTH; i++) values[i] = session * LENGTH + i;
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), space = H5Screate_simple(1, &length, NULL);
    hid_t data = H5Dcreate2(file, "x", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    int failed = H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0;
    H5Sclose(space);
    failed |= H5Dclose(data) < 0;
    return failed | (H5Fclose(file) < 0);
}

/* The number of the session; -1 if there is none, -2 if its values are not its own. */
static int reads(const char *path, int milliseconds) {
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0) return -1;
    hid_t data = H5Dopen2(file, "x", H5P_DEFAULT);
    usleep((useconds_t)milliseconds * 1000);
    int failed = H5Dread(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0, session = values[0] / LENGTH;
    for (int i = 0; i < LENGTH; i++) failed |= values[i] != session * LENGTH + i;
    H5Dclose(data);
    H5Fclose(file);
    return failed ? -2 : session;
}

int main(int argc, char **argv) {
    if (argc < 5) return 64;
    int milliseconds = atoi(argv[4]);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    for (int session = 0; session < atoi(argv[3]); session++) {
        char path[256];
        snprintf(path, sizeof path, argv[2], session);
        if (strcmp(argv[1], "write") == 0) {
            usleep((useconds_t)milliseconds * 1000);
            if (writes(path, session)) return 1;
            continue;
        }
        int got = reads(path, milliseconds);
        if (got == -1) break;
        if (got < 0) return 2;
        printf("%d got %d\n", (int)getpid(), got);
        fflush(stdout);
    }
    return 0;
}
