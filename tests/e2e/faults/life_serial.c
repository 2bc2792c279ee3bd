/* The life of a file that one process writes with HDF5. */
#define SERIAL
#include "life_hdf5.c"
