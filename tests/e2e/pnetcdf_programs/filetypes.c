/* filetypes FILE: writes by datatypes for the file (ncmpi_put_vard), as any number of ranks, and reads it again. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS 6
#define OWN 5

static int line_of_error;

static void check(int code, int expected, int line) {
    if (code != expected) {
        fprintf(stderr, "line %d: %s, not %s\n", line, ncmpi_strerrno(code), ncmpi_strerrno(expected));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}
#define OK(call) check((call), NC_NOERR, __LINE__)
#define FAILS(expected, call) check((call), (expected), __LINE__)
#define SAME(condition) do { if (!(condition) && line_of_error == 0) line_of_error = __LINE__; } while (0)

int main(int argc, char **argv) {
    int rank, ranks, file, axes[3], fixed, other, half, record, second;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    OK(ncmpi_create(MPI_COMM_WORLD, argv[1], NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file));
    OK(ncmpi_def_dim(file, "time", NC_UNLIMITED, &axes[0]));
    OK(ncmpi_def_dim(file, "y", ROWS, &axes[1]));
    OK(ncmpi_def_dim(file, "x", ranks * OWN, &axes[2]));
    OK(ncmpi_def_var(file, "fixed", NC_FLOAT, 2, axes + 1, &fixed));
    OK(ncmpi_def_var(file, "half", NC_SHORT, 1, axes + 2, &half));
    OK(ncmpi_def_var(file, "other", NC_FLOAT, 2, axes + 1, &other));
    OK(ncmpi_def_var(file, "record", NC_INT, 3, axes, &record));
    OK(ncmpi_def_var(file, "second", NC_INT, 1, axes, &second));
    OK(ncmpi_enddef(file));

    /* A block of columns, from doubles that lie apart in memory. */
    int sizes[] = {ROWS, ranks * OWN}, counts[] = {ROWS, OWN}, starts[] = {0, rank * OWN};
    MPI_Datatype block, apart, both, shorts, places, mixed;
    MPI_Type_create_subarray(2, sizes, counts, starts, MPI_ORDER_C, MPI_FLOAT, &block);
    MPI_Type_commit(&block);
    MPI_Type_vector(ROWS * OWN, 1, 2, MPI_DOUBLE, &apart);
    MPI_Type_commit(&apart);
    double doubles[2 * ROWS * OWN], doubles_again[2 * ROWS * OWN] = {0};
    for (int n = 0; n < 2 * ROWS * OWN; n++) doubles[n] = rank * 100 + n * 0.5;
    OK(ncmpi_put_vard_all(file, fixed, block, doubles, 1, apart));
    OK(ncmpi_get_vard_all(file, fixed, block, doubles_again, 1, apart));
    for (int n = 0; n < ROWS * OWN; n++) SAME(doubles_again[2 * n] == doubles[2 * n] && doubles_again[2 * n + 1] == 0);

    /* Two variables at once: the datatype goes on where the other one lies. */
    MPI_Offset at, there;
    OK(ncmpi_inq_varoffset(file, fixed, &at));
    OK(ncmpi_inq_varoffset(file, other, &there));
    MPI_Aint distances[] = {0, (MPI_Aint)(there - at)};
    int once[] = {1, 1};
    MPI_Datatype blocks[] = {block, block};
    MPI_Type_create_struct(2, once, distances, blocks, &both);
    MPI_Type_commit(&both);
    float floats[2 * ROWS * OWN], floats_again[2 * ROWS * OWN] = {0};
    for (int n = 0; n < 2 * ROWS * OWN; n++) floats[n] = (float)(1000 * rank + n);
    OK(ncmpi_put_vard_all(file, fixed, both, floats, 2 * ROWS * OWN, MPI_FLOAT));
    OK(ncmpi_get_vard_all(file, fixed, both, floats_again, 2 * ROWS * OWN, MPI_FLOAT));
    for (int n = 0; n < 2 * ROWS * OWN; n++) SAME(floats_again[n] == floats[n]);

    /* Every other element, independently. */
    MPI_Aint every_other[3];
    int single[] = {1, 1, 1};
    for (int n = 0; n < 3; n++) every_other[n] = (rank * OWN + 2 * n) * (MPI_Aint)sizeof(short);
    MPI_Type_create_hindexed(3, single, every_other, MPI_SHORT, &shorts);
    MPI_Type_commit(&shorts);
    int numbers[] = {rank, rank + 10, 100000};
    OK(ncmpi_begin_indep_data(file));
    FAILS(NC_ERANGE, ncmpi_put_vard(file, half, shorts, numbers, 3, MPI_INT));
    numbers[2] = rank + 20;
    OK(ncmpi_put_vard(file, half, shorts, numbers, 3, MPI_INT));
    OK(ncmpi_end_indep_data(file));

    /* Two records. */
    MPI_Offset size, records;
    OK(ncmpi_inq_recsize(file, &size));
    int lengths[] = {OWN, OWN};
    MPI_Aint steps[] = {rank * OWN * 4, (MPI_Aint)size * 2 + rank * OWN * 4};
    MPI_Type_create_hindexed(2, lengths, steps, MPI_INT, &places);
    MPI_Type_commit(&places);
    int ints[2 * OWN], ints_again[2 * OWN];
    for (int n = 0; n < 2 * OWN; n++) ints[n] = 7 * rank + n;
    OK(ncmpi_put_vard_all(file, record, places, ints, -1, MPI_DATATYPE_NULL));
    OK(ncmpi_inq_dimlen(file, axes[0], &records));
    SAME(records == 3);
    OK(ncmpi_get_vard_all(file, record, places, ints_again, 2 * OWN, MPI_INT));
    for (int n = 0; n < 2 * OWN; n++) SAME(ints_again[n] == ints[n]);
    OK(ncmpi_put_vard_all(file, second, rank == 0 ? MPI_INT : MPI_DATATYPE_NULL, ints, 1, MPI_INT));

    /* The elements between: a plain file holds what was there before. */
    MPI_Offset first[] = {rank * OWN + 1}, count[] = {2}, stride[] = {2};
    OK(ncmpi_put_vars_int_all(file, half, first, count, stride, numbers));
    MPI_Offset begin[] = {1, 0, rank * OWN}, extent[] = {1, 1, OWN};
    OK(ncmpi_put_vara_int_all(file, record, begin, extent, ints));
    for (int n = 0; n < 3; n++)
        for (int y = 1; y < ROWS; y++) {
            begin[0] = n;
            begin[1] = y;
            OK(ncmpi_put_vara_int_all(file, record, begin, extent, ints));
        }
    MPI_Offset later[] = {1}, both_records[] = {rank == 0 ? 2 : 0};
    OK(ncmpi_put_vara_int_all(file, second, later, both_records, ints));

    /* What cannot be. */
    MPI_Datatype kinds[] = {MPI_INT, MPI_FLOAT};
    MPI_Aint next[] = {0, 4};
    MPI_Type_create_struct(2, once, next, kinds, &mixed);
    MPI_Type_commit(&mixed);
    FAILS(NC_EMULTITYPES, ncmpi_put_vard_all(file, record, mixed, ints, 2, MPI_INT));
    FAILS(NC_EMULTITYPES, ncmpi_put_vard_all(file, record, MPI_INT, ints, 1, mixed));
    FAILS(NC_ETYPE_MISMATCH, ncmpi_put_vard_all(file, record, block, ints, 2, MPI_INT));
    FAILS(NC_EIOMISMATCH, ncmpi_put_vard_all(file, record, places, ints, 3, MPI_INT));
    FAILS(NC_ENOTINDEP, ncmpi_put_vard(file, record, places, ints, 2 * OWN, MPI_INT));
    OK(ncmpi_close(file));

    MPI_Datatype *all[] = {&block, &apart, &both, &shorts, &places, &mixed};
    for (int n = 0; n < 6; n++) MPI_Type_free(all[n]);
    if (line_of_error) printf("line %d: other values\n", line_of_error);
    MPI_Finalize();
    return line_of_error != 0;
}
