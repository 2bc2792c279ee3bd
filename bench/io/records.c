/* Steps as records of one file. Shapes and calls are those of steps.c. */
#include "records.h"
#include <mpi.h>
#include <netcdf.h>
#include <netcdf_par.h>
#include <pnetcdf.h>
#include <string.h>

#define PN(call) do { int code = (call); check(code, #call, code ? ncmpi_strerror(code) : ""); } while (0)
#define NC(call) do { int code = (call); check(code, #call, code ? nc_strerror(code) : ""); } while (0)

static const char *AXES[] = {"time", "z", "y", "x"};
static const size_t LENGTHS[] = {0, DEPTH, SIDE, SIDE};
static enum { NONE, PNETCDF, NETCDF4 } library = NONE;
static int id, variables[VARIABLES];

static void create_pnetcdf(const char *path) {
    int axes[4];
    PN(ncmpi_create(MPI_COMM_WORLD, path, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id));
    for (int axis = 0; axis < 4; axis++) PN(ncmpi_def_dim(id, AXES[axis], (MPI_Offset)LENGTHS[axis], &axes[axis]));
    for (int v = 0; v < VARIABLES; v++) PN(ncmpi_def_var(id, name_of(v), NC_FLOAT, 4, axes, &variables[v]));
    PN(ncmpi_enddef(id));
    library = PNETCDF;
}

static void create_netcdf4(const char *path, int filtered) {
    int axes[4];
    size_t chunk[4] = {1, DEPTH / 2, HALF, HALF};
    NC(nc_create_par(path, NC_CLOBBER | NC_NETCDF4, MPI_COMM_WORLD, MPI_INFO_NULL, &id));
    for (int axis = 0; axis < 4; axis++) NC(nc_def_dim(id, AXES[axis], LENGTHS[axis], &axes[axis]));
    for (int v = 0; v < VARIABLES; v++) {
        NC(nc_def_var(id, name_of(v), NC_FLOAT, 4, axes, &variables[v]));
        NC(nc_def_var_fill(id, variables[v], 1, NULL));
        NC(nc_def_var_chunking(id, variables[v], NC_CHUNKED, chunk));
        if (filtered) NC(nc_def_var_deflate(id, variables[v], 1, 1, 1));
        NC(nc_var_par_access(id, variables[v], NC_COLLECTIVE));
    }
    NC(nc_enddef(id));
    library = NETCDF4;
}

void add_record(const char *path, const char *way, size_t record) {
    if (library == NONE && strcmp(way, "pnetcdf") == 0)
        create_pnetcdf(path);
    else if (library == NONE)
        create_netcdf4(path, strcmp(way, "deflate") == 0);
    for (int v = 0; v < VARIABLES; v++)
        if (library == PNETCDF) {
            MPI_Offset at[4] = {(MPI_Offset)record, (MPI_Offset)start[0], (MPI_Offset)start[1], (MPI_Offset)start[2]};
            MPI_Offset n[4] = {1, (MPI_Offset)count[0], (MPI_Offset)count[1], (MPI_Offset)count[2]};
            PN(ncmpi_put_vara_float_all(id, variables[v], at, n, block[v]));
        } else {
            size_t at[4] = {record, start[0], start[1], start[2]}, n[4] = {1, count[0], count[1], count[2]};
            NC(nc_put_vara_float(id, variables[v], at, n, block[v]));
        }
}

void close_records(void) {
    if (library == PNETCDF) PN(ncmpi_close(id));
    if (library == NETCDF4) NC(nc_close(id));
    library = NONE;
}
