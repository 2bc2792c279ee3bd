/* One of two programs that are coupled by a file whose definitions change while it is written.
 *
 * usage: definitions write|read FILE
 * The writer defines 'a', puts it, waits until the reader had time to open the file, and defines 'b' and changes attributes, in
 * define mode and in data mode. The reader prints what it sees of all that when it has opened the file. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../checked.h"

enum { LENGTH = 100 };

int main(int argc, char **argv) {
    int id, dim, a, b, count;
    float values[LENGTH];
    char status[32] = "", mode[32] = "";
    MPI_Init(&argc, &argv);
    if (argc < 3) return 64;
    if (strcmp(argv[1], "write") == 0) {
        for (int i = 0; i < LENGTH; i++) values[i] = (float)i;
        OK(ncmpi_create(MPI_COMM_WORLD, argv[2], NC_CLOBBER, MPI_INFO_NULL, &id));
        OK(ncmpi_def_dim(id, "x", LENGTH, &dim));
        OK(ncmpi_def_var(id, "a", NC_FLOAT, 1, &dim, &a));
        OK(ncmpi_put_att_text(id, NC_GLOBAL, "status", 10, "incomplete"));
        OK(ncmpi_put_att_text(id, NC_GLOBAL, "mode", 6, "define"));
        OK(ncmpi_enddef(id));
        OK(ncmpi_put_var_float_all(id, a, values));
        usleep(400000);
        OK(ncmpi_redef(id));
        OK(ncmpi_def_var(id, "b", NC_FLOAT, 1, &dim, &b));
        OK(ncmpi_put_att_text(id, NC_GLOBAL, "status", 8, "complete"));
        OK(ncmpi_enddef(id));
        OK(ncmpi_put_var_float_all(id, b, values));
        OK(ncmpi_put_att_text(id, NC_GLOBAL, "mode", 4, "data"));
        OK(ncmpi_close(id));
    } else {
        OK(ncmpi_open(MPI_COMM_WORLD, argv[2], NC_NOWRITE, MPI_INFO_NULL, &id));
        OK(ncmpi_get_att_text(id, NC_GLOBAL, "status", status));
        OK(ncmpi_get_att_text(id, NC_GLOBAL, "mode", mode));
        OK(ncmpi_inq_nvars(id, &count));
        printf("%s %s %d\n", status, mode, count);
        OK(ncmpi_inq_varid(id, "b", &b));
        OK(ncmpi_get_var_float_all(id, b, values));
        for (int i = 0; i < LENGTH; i++)
            if (values[i] != (float)i) MPI_Abort(MPI_COMM_WORLD, 2);
        OK(ncmpi_close(id));
    }
    MPI_Finalize();
    return 0;
}
