/* The life of a file of parallel netCDF-4, or of a classic one. */
#include "life.h"

#include <netcdf.h>
#include <netcdf_par.h>

static int id, t, f;

#ifdef CLASSIC
#define CREATE(path) nc_create(path, NC_64BIT_OFFSET | NC_CLOBBER, &id)
#define OPEN(path, mode) nc_open(path, mode, &id)
#define ACCESS(set, together) 0
#else
#define CREATE(path) nc_create_par(path, NC_NETCDF4 | NC_CLOBBER, MPI_COMM_WORLD, MPI_INFO_NULL, &id)
#define OPEN(path, mode) nc_open_par(path, mode, MPI_COMM_WORLD, MPI_INFO_NULL, &id)
#define ACCESS(set, together) nc_var_par_access(id, set, together)
#endif

static const char *suffix(void) {
    return ".nc";
}

static int first(int code, int then) {
    return code ? code : then;
}

static int make(void) {
    char path[80];
    int dims[2];
    snprintf(path, sizeof path, "%s.nc", name);
    int code = CREATE(path);
    if (code)
        return code;
    code = first(code, nc_def_dim(id, "time", NC_UNLIMITED, &dims[0]));
    code = first(code, nc_def_dim(id, "x", (size_t)(size * part), &dims[1]));
    code = first(code, nc_def_var(id, "T", NC_INT, 2, dims, &t));
    code = first(code, nc_def_var(id, "F", NC_INT, 1, dims + 1, &f));
    code = first(code, nc_put_att_text(id, NC_GLOBAL, "title", 4, "life"));
    code = first(code, nc_enddef(id));
    say("0 defined %s %d\n", name, code);
    return 0;
}

static void place(int row, int owner, size_t *start, size_t *count) {
    start[0] = (size_t)row;
    start[1] = (size_t)(owner * part);
    count[0] = 1;
    count[1] = (size_t)part;
}

static int put(int row, const int *numbers, int together) {
    size_t start[2], count[2];
    place(row, rank, start, count);
    int of = row < 0, set = of ? f : t;
    /* netCDF lets a variable grow in collective calls only. */
    int is_new = row >= rows_of();
    int code = ACCESS(set, together || is_new ? NC_COLLECTIVE : NC_INDEPENDENT);
    return first(code, nc_put_vara_int(id, set, start + of, count + of, numbers));
}

static int put_two(int row, const int *numbers, const int *behind) {
    int code = put(row, numbers, 1);
    return first(code, put(row + 1, behind, 1));
}

static int get(int row, int owner, int *numbers) {
    size_t start[2], count[2];
    place(row, owner, start, count);
    int of = row < 0, set = of ? f : t;
    int code = ACCESS(set, NC_COLLECTIVE);
    return first(code, nc_get_vara_int(id, set, start + of, count + of, numbers));
}

static int sync_all(void) {
    return nc_sync(id);
}

static int end(void) {
    return nc_close(id);
}

static int give_up(void) {
    return nc_abort(id);
}

static int define(void) {
    int code = nc_redef(id), dim;
    code = first(code, nc_put_att_text(id, NC_GLOBAL, "more", 4, "more"));
    code = first(code, nc_def_dim(id, "z", 3, &dim));
    return first(code, nc_enddef(id));
}

static int begin(int writes) {
    char path[80];
    snprintf(path, sizeof path, "%s.nc", name);
    int code = OPEN(path, writes ? NC_WRITE : NC_NOWRITE);
    if (code)
        return code;
    return first(nc_inq_varid(id, "T", &t), nc_inq_varid(id, "F", &f));
}

static int rows_of(void) {
    size_t length = 0;
    int dim;
    if (nc_inq_dimid(id, "time", &dim) || nc_inq_dimlen(id, dim, &length))
        return 0;
    return (int)length;
}
