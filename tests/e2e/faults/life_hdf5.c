/* The life of a file of parallel HDF5; of one process without MPI-IO if SERIAL is defined. */
#include "life.h"

#include <hdf5.h>

static hid_t file = -1, t = -1, f = -1, access_list, together_list;

static const char *suffix(void) {
    return ".h5";
}

static void begin_library(void) {
    if (access_list)
        return;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    access_list = H5Pcreate(H5P_FILE_ACCESS);
    together_list = H5Pcreate(H5P_DATASET_XFER);
#ifndef SERIAL
    H5Pset_fapl_mpio(access_list, MPI_COMM_WORLD, MPI_INFO_NULL);
    H5Pset_dxpl_mpio(together_list, H5FD_MPIO_COLLECTIVE);
#endif
}

static hid_t dataset(const char *called, int dims, const hsize_t *length, const hsize_t *most, const hsize_t *chunk) {
    hid_t space = H5Screate_simple(dims, length, most), list = H5Pcreate(H5P_DATASET_CREATE);
    if (chunk)
        H5Pset_chunk(list, dims, chunk);
    hid_t made = H5Dcreate2(file, called, H5T_NATIVE_INT, space, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Pclose(list);
    H5Sclose(space);
    return made;
}

static int make(void) {
    char path[80];
    snprintf(path, sizeof path, "%s.h5", name);
    begin_library();
    file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access_list);
    if (file < 0)
        return -1;
    hsize_t all = (hsize_t)(size * part), length[2] = {0, all}, most[2] = {H5S_UNLIMITED, all}, chunk[2] = {1, all};
    t = dataset("T", 2, length, most, chunk);
    f = dataset("F", 1, &all, NULL, NULL);
    say("0 defined %s %d\n", name, t < 0 || f < 0 ? -1 : 0);
    return 0;
}

static int moved(int row, int owner, int *numbers, int writes, hid_t list) {
    hid_t set = row < 0 ? f : t, space = H5Dget_space(set);
    hsize_t start[2] = {(hsize_t)row, (hsize_t)(owner * part)}, count[2] = {1, (hsize_t)part}, here = (hsize_t)part;
    int of = row < 0;
    hid_t memory = H5Screate_simple(1, &here, NULL);
    int code = H5Sselect_hyperslab(space, H5S_SELECT_SET, start + of, NULL, count + of, NULL);
    if (code >= 0 && writes)
        code = H5Dwrite(set, H5T_NATIVE_INT, memory, space, list, numbers);
    else if (code >= 0)
        code = H5Dread(set, H5T_NATIVE_INT, memory, space, list, numbers);
    H5Sclose(memory);
    H5Sclose(space);
    return code < 0 ? -1 : 0;
}

static int grown(int row) {
    hsize_t length[2] = {(hsize_t)(row + 1), (hsize_t)(size * part)};
    return row + 1 > rows_of() ? H5Dset_extent(t, length) : 0;
}

static int put(int row, const int *numbers, int together) {
    int code = row < 0 ? 0 : grown(row);
    int then = moved(row, rank, (int *)numbers, 1, together ? together_list : H5P_DEFAULT);
    return code ? code : then;
}

static int put_two(int row, const int *numbers, const int *behind) {
    int code = put(row, numbers, 1), then = put(row + 1, behind, 1);
    return code ? code : then;
}

static int get(int row, int owner, int *numbers) {
    return moved(row, owner, numbers, 0, together_list);
}

static int sync_all(void) {
    return H5Fflush(file, H5F_SCOPE_GLOBAL) < 0 ? -1 : 0;
}

static int end(void) {
    H5Dclose(t);
    H5Dclose(f);
    return H5Fclose(file) < 0 ? -1 : 0;
}

static int give_up(void) {
    return end();
}

static int define(void) {
    hid_t group = H5Gcreate2(file, "more", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    return group < 0 || H5Gclose(group) < 0 ? -1 : 0;
}

static int begin(int writes) {
    char path[80];
    snprintf(path, sizeof path, "%s.h5", name);
    begin_library();
    file = H5Fopen(path, writes ? H5F_ACC_RDWR : H5F_ACC_RDONLY, access_list);
    if (file < 0)
        return -1;
    t = H5Dopen2(file, "T", H5P_DEFAULT);
    f = H5Dopen2(file, "F", H5P_DEFAULT);
    return 0;
}

static int rows_of(void) {
    hsize_t length[2] = {0, 0};
    hid_t space = H5Dget_space(t);
    H5Sget_simple_extent_dims(space, length, NULL);
    H5Sclose(space);
    return (int)length[0];
}
