/* A step written by what lies beneath netCDF. */
#ifndef LAYERS_H
#define LAYERS_H
#include "block.h"

/* Each rank a file, by write(2). */
void write_posix(const char *path, struct how how);
/* One file, by MPI-IO, without a format: variables lie one after another. */
void write_mpiio(const char *path, struct how how);
/* One file, by parallel HDF5, contiguous. */
void write_hdf5(const char *path, struct how how);

#endif
