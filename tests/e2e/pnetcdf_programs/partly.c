/* Writes a file with PnetCDF, opens it again, and leaves the end of its last record unwritten.
 *
 * usage: partly FILE record|part|variable|fixed
 * "record" puts a record of the first variable and none of the second one, "part" one element of the first one. "variable"
 * and "fixed" define another variable, with records or without, and put nothing into it. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <string.h>

#include "../checked.h"

enum { RECORDS = 3, LENGTH = 50000 };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int id, dims[2], values, times, more;
    static float numbers[LENGTH];
    MPI_Offset start[] = {0, 0}, count[] = {1, LENGTH};
    OK(ncmpi_create(MPI_COMM_WORLD, argv[1], NC_CLOBBER, MPI_INFO_NULL, &id));
    OK(ncmpi_def_dim(id, "time", NC_UNLIMITED, &dims[0]));
    OK(ncmpi_def_dim(id, "x", LENGTH, &dims[1]));
    OK(ncmpi_def_var(id, "T", NC_FLOAT, 2, dims, &values));
    OK(ncmpi_def_var(id, "time", NC_DOUBLE, 1, dims, &times));
    OK(ncmpi_enddef(id));
    for (int record = 0; record < RECORDS; record++) {
        double time = start[0] = record;
        for (int i = 0; i < LENGTH; i++) numbers[i] = (float)(LENGTH * record + i);
        OK(ncmpi_put_vara_float_all(id, values, start, count, numbers));
        OK(ncmpi_put_var1_double_all(id, times, start, &time));
    }
    OK(ncmpi_close(id));
    OK(ncmpi_open(MPI_COMM_WORLD, argv[1], NC_WRITE, MPI_INFO_NULL, &id));
    start[0] = RECORDS;
    if (strcmp(argv[2], "record") == 0) {
        OK(ncmpi_put_vara_float_all(id, values, start, count, numbers));
    } else if (strcmp(argv[2], "part") == 0) {
        start[1] = 3;
        OK(ncmpi_put_var1_float_all(id, values, start, numbers + 3));
    } else {
        int is_fixed = strcmp(argv[2], "fixed") == 0;
        OK(ncmpi_redef(id));
        OK(ncmpi_def_var(id, "more", NC_INT, 1, dims + is_fixed, &more));
        OK(ncmpi_enddef(id));
    }
    OK(ncmpi_close(id));
    MPI_Finalize();
    return 0;
}
