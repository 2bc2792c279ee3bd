/* The life of a classic netCDF file of one process. */
#define CLASSIC
#include "life_netcdf.c"
