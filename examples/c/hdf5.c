/* Writes an HDF5 dataset through Knarr's filter, under a bound. Needs HDF5_PLUGIN_PATH to find the filter. */
#include <hdf5.h>
#include <knarr.h>
#include <math.h>
#include <stdio.h>

enum { ROWS = 256, COLUMNS = 512 };
static double field[ROWS][COLUMNS];

int main(void) {
    for (int j = 0; j < ROWS; j++)
        for (int i = 0; i < COLUMNS; i++) field[j][i] = 1000 + 20 * sin(j * 0.02) * cos(i * 0.01);

    /* What is wished for, as the client data of the filter. */
    knarr_hints hints;
    uint32_t words[20];
    size_t count;
    if (knarr_hints_init(&hints, sizeof hints) || knarr_hints_set(&hints, "max_rel_error=1e-4 goal=balanced") ||
        knarr_filter_words(&hints, words, 20, &count)) {
        fprintf(stderr, "%s\n", knarr_last_error());
        return 1;
    }

    const hsize_t shape[2] = {ROWS, COLUMNS}, chunk[2] = {64, COLUMNS};
    hid_t file = H5Fcreate("field.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(2, shape, NULL);
    hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(list, 2, chunk);
    if (H5Pset_filter(list, KNARR_HDF5_FILTER, H5Z_FLAG_MANDATORY, count, words) < 0) return 1;
    hid_t set = H5Dcreate2(file, "P", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    if (set < 0 || H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, field) < 0) return 1;
    printf("%llu bytes stored for %zu\n", (unsigned long long)H5Dget_storage_size(set), sizeof field);
    H5Dclose(set);
    H5Pclose(list);
    H5Sclose(space);
    return H5Fclose(file) < 0;
}
