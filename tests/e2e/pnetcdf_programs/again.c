/* Writes a file with PnetCDF, opens it again and looks whether it is the same: attributes whose text ends in NUL, that hold no
 * numbers, or bytes of no known encoding.
 *
 * usage: again FILE [modes]
 * With "modes" the ranks create and open the file in different modes; that of the first one counts. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <string.h>

static int rank;

static void check(int holds, const char *what, int code) {
    if (!holds) {
        fprintf(stderr, "rank %d: %s: %s\n", rank, what, ncmpi_strerror(code));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        int told = (call);                                                                                             \
        check(told == NC_NOERR, #call, told);                                                                          \
    } while (0)

struct text {
    const char *name, *value;
    MPI_Offset length;
};

static const struct text TEXTS[] = {
    {"plain", "abc", 3}, {"ends", "abc", 4}, {"within", "a\0c", 3}, {"nothing", "\0\0", 2}, {"latin", "\xff\xfe", 2}, {"none", "", 0},
};
enum { COUNT = sizeof TEXTS / sizeof *TEXTS };

static void write_texts(int id, int variable) {
    for (int i = 0; i < COUNT; i++) OK(ncmpi_put_att_text(id, variable, TEXTS[i].name, TEXTS[i].length, TEXTS[i].value));
    OK(ncmpi_put_att_int(id, variable, "numbers", NC_INT, 0, NULL));
}

static void check_texts(int id, int variable) {
    for (int i = 0; i < COUNT; i++) {
        char seen[8] = "#######";
        MPI_Offset length = -1;
        OK(ncmpi_inq_attlen(id, variable, TEXTS[i].name, &length));
        check(length == TEXTS[i].length, TEXTS[i].name, NC_EINVAL);
        OK(ncmpi_get_att_text(id, variable, TEXTS[i].name, seen));
        check(memcmp(seen, TEXTS[i].value, (size_t)length) == 0 && seen[length] == '#', TEXTS[i].name, NC_EINVAL);
    }
    nc_type type;
    MPI_Offset length = -1;
    OK(ncmpi_inq_att(id, variable, "numbers", &type, &length));
    check(type == NC_INT && length == 0, "no numbers", NC_EINVAL);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int differ = argc > 2 && strcmp(argv[2], "modes") == 0, id, dim, variable, told;
    told = ncmpi_create(MPI_COMM_WORLD, argv[1], NC_CLOBBER | (differ && rank > 0 ? NC_64BIT_OFFSET : 0), MPI_INFO_NULL, &id);
    check(told == (differ && rank > 0 ? NC_EMULTIDEFINE_CMODE : NC_NOERR), "created", told);
    OK(ncmpi_def_dim(id, "x", 8, &dim));
    OK(ncmpi_def_var(id, "v", NC_INT, 1, &dim, &variable));
    write_texts(id, variable);
    write_texts(id, NC_GLOBAL);
    OK(ncmpi_enddef(id));
    MPI_Offset start = rank * 2, count = 2;
    int values[2] = {rank, 7}, seen[2] = {-1, -1};
    OK(ncmpi_put_vara_int_all(id, variable, &start, &count, values));
    OK(ncmpi_close(id));
    told = ncmpi_open(MPI_COMM_WORLD, argv[1], differ && rank > 0 ? NC_WRITE : NC_NOWRITE, MPI_INFO_NULL, &id);
    check(told == (differ && rank > 0 ? NC_EMULTIDEFINE_OMODE : NC_NOERR), "opened", told);
    OK(ncmpi_inq_varid(id, "v", &variable));
    OK(ncmpi_get_vara_int_all(id, variable, &start, &count, seen));
    check(memcmp(seen, values, sizeof seen) == 0, "values", NC_EINVAL);
    check_texts(id, variable);
    check_texts(id, NC_GLOBAL);
    OK(ncmpi_close(id));
    MPI_Finalize();
    return 0;
}
