/* The plugin of plugin_host.c, which is linked with PnetCDF. */
#include <mpi.h>
#include <pnetcdf.h>

int go(const char *name) {
    int id, dim, variable, code = ncmpi_create(MPI_COMM_WORLD, name, NC_CLOBBER, MPI_INFO_NULL, &id);
    if (code)
        return code;
    float values[4] = {1, 2, 3, 4};
    ncmpi_def_dim(id, "x", 4, &dim);
    ncmpi_def_var(id, "T", NC_FLOAT, 1, &dim, &variable);
    ncmpi_enddef(id);
    code = ncmpi_put_var_float_all(id, variable, values);
    int closed = ncmpi_close(id);
    return code ? code : closed;
}
