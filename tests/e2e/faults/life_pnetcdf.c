/* The life of a file of PnetCDF. */
#include "life.h"

#include <pnetcdf.h>

static int id, t, f;

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
    int code = ncmpi_create(MPI_COMM_WORLD, path, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id);
    if (code)
        return code;
    code = first(code, ncmpi_def_dim(id, "time", NC_UNLIMITED, &dims[0]));
    code = first(code, ncmpi_def_dim(id, "x", size * part, &dims[1]));
    code = first(code, ncmpi_def_var(id, "T", NC_INT, 2, dims, &t));
    code = first(code, ncmpi_def_var(id, "F", NC_INT, 1, dims + 1, &f));
    code = first(code, ncmpi_put_att_text(id, NC_GLOBAL, "title", 4, "life"));
    code = first(code, ncmpi_enddef(id));
    say("0 defined %s %d\n", name, code);
    return 0;
}

static void place(int row, int owner, MPI_Offset *start, MPI_Offset *count) {
    start[0] = row;
    start[1] = owner * part;
    count[0] = 1;
    count[1] = part;
}

static int put(int row, const int *numbers, int together) {
    MPI_Offset start[2], count[2];
    place(row, rank, start, count);
    int of = row < 0;
    if (together)
        return ncmpi_put_vara_int_all(id, of ? f : t, start + of, count + of, numbers);
    int begun = ncmpi_begin_indep_data(id);
    int code = ncmpi_put_vara_int(id, of ? f : t, start + of, count + of, numbers);
    return first(first(begun, code), ncmpi_end_indep_data(id));
}

static int put_two(int row, const int *numbers, const int *behind) {
    MPI_Offset start[2], count[2];
    int requests[2] = {NC_REQ_NULL, NC_REQ_NULL}, codes[2] = {0, 0};
    place(row, rank, start, count);
    int code = ncmpi_iput_vara_int(id, t, start, count, numbers, &requests[0]);
    start[0]++;
    code = first(code, ncmpi_iput_vara_int(id, t, start, count, behind, &requests[1]));
    code = first(code, ncmpi_wait_all(id, 2, requests, codes));
    return first(code, first(codes[0], codes[1]));
}

static int get(int row, int owner, int *numbers) {
    MPI_Offset start[2], count[2];
    place(row, owner, start, count);
    int of = row < 0;
    return ncmpi_get_vara_int_all(id, of ? f : t, start + of, count + of, numbers);
}

static int sync_all(void) {
    return ncmpi_sync(id);
}

static int end(void) {
    return ncmpi_close(id);
}

static int give_up(void) {
    return ncmpi_abort(id);
}

static int define(void) {
    int code = ncmpi_redef(id), dim;
    if (code)
        return code;
    code = first(code, ncmpi_put_att_text(id, NC_GLOBAL, "more", 4, "more"));
    code = first(code, ncmpi_def_dim(id, "z", 3, &dim));
    return first(code, ncmpi_enddef(id));
}

static int begin(int writes) {
    char path[80];
    snprintf(path, sizeof path, "%s.nc", name);
    int code = ncmpi_open(MPI_COMM_WORLD, path, writes ? NC_WRITE : NC_NOWRITE, MPI_INFO_NULL, &id);
    if (code)
        return code;
    return first(ncmpi_inq_varid(id, "T", &t), ncmpi_inq_varid(id, "F", &f));
}

static int rows_of(void) {
    MPI_Offset length = 0;
    int dim;
    if (ncmpi_inq_dimid(id, "time", &dim) || ncmpi_inq_dimlen(id, dim, &length))
        return 0;
    return (int)length;
}
