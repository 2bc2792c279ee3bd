/* How programs of tests end when a call of a library fails, OK(call), or when something does not hold, check(holds, what). To be
 * included behind the header of the library: PnetCDF, netCDF or HDF5. */
#include <mpi.h>
#include <stdio.h>

static void stop(const char *text, int line, const char *why, int code) {
    int this_rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &this_rank);
    fprintf(stderr, "rank %d: line %d: %s: %s\n", this_rank, line, text, why);
    MPI_Abort(MPI_COMM_WORLD, code);
}

static void check_at(int holds, const char *what, int line) {
    if (!holds) stop(what, line, "does not hold", 2);
}
#define check(holds, what) check_at(holds, what, __LINE__)

#if defined _PNETCDF_H || defined _NETCDF_
static void ok(int told, const char *call, int line) {
#ifdef _PNETCDF_H
    if (told != NC_NOERR) stop(call, line, ncmpi_strerror(told), 1);
#else
    if (told != NC_NOERR) stop(call, line, nc_strerror(told), 1);
#endif
}
#define OK(call) ok((call), #call, __LINE__)
#else
static hid_t ok(hid_t told, const char *call, int line) {
    if (told < 0) stop(call, line, "failed", 1);
    return told;
}
#define OK(call) ok((hid_t)(call), #call, __LINE__)
#endif
