/* One of two programs that are coupled by a history file as E3SM's atmosphere writes it (case F, file h0): 414 variables, of
 * which 387 lie on columns that are dealt out to ranks in short runs, so each rank has very many small pieces. Numbers,
 * types and dimensions of the variables are those of docs/variables.md of E3SM-IO. The program that reads has blocks of
 * columns.
 *
 * usage: e3sm write|read FILE COLUMNS LEVELS RECORDS */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../checked.h"

enum { RUN = 3, WORD = 8 };

/* A kind of variables: how many, of which type, with which dimensions, and whether columns are among them. */
struct kind {
    const char *name;
    int many;
    nc_type type;
    const char *dims;
};
static const struct kind KINDS[] = {
    {"setting", 5, NC_INT, ""},     {"reference", 1, NC_DOUBLE, ""}, {"column", 3, NC_DOUBLE, "c"},
    {"level", 6, NC_DOUBLE, "l"},   {"day", 5, NC_INT, "t"},         {"moment", 8, NC_DOUBLE, "t"},
    {"date", 2, NC_CHAR, "tw"},     {"surface", 321, NC_FLOAT, "tc"}, {"volume", 63, NC_FLOAT, "tlc"},
};
enum { ALL_KINDS = sizeof KINDS / sizeof *KINDS, VARIABLES = 414 };

static int rank, size, writes;
static MPI_Offset columns, levels, records, wrong;

static long value(int variable, MPI_Offset record, MPI_Offset level, MPI_Offset column) {
    /* Exact in single precision. */
    return (variable * 7919L + record * 104729L + level * 1299709L + column * 31L) % 1000003L;
}

/* The columns of this rank: runs that are dealt out in turn if it writes, else one block. */
static int runs(MPI_Offset *start, MPI_Offset *count) {
    int n = 0;
    if (!writes) {
        start[0] = columns * rank / size;
        count[0] = columns * (rank + 1) / size - start[0];
        return count[0] > 0;
    }
    for (MPI_Offset at = (MPI_Offset)rank * RUN; at < columns; at += (MPI_Offset)size * RUN, n++) {
        start[n] = at;
        count[n] = columns - at < RUN ? columns - at : RUN;
    }
    return n;
}

/* A variable that lies on columns: all pieces of this rank in one request. */
static void pieces(int id, int variable, const struct kind *kind, MPI_Offset record, float *values) {
    MPI_Offset depth = strchr(kind->dims, 'l') ? levels : 1, *starts = malloc(2 * (columns + 1) * sizeof *starts);
    int of = runs(starts, starts + columns + 1), many = of * (int)depth, axes = (int)strlen(kind->dims);
    MPI_Offset **start = malloc((many + 1) * sizeof *start), **count = malloc((many + 1) * sizeof *count);
    float *next = values;
    for (int i = 0; i < many; i++) {
        MPI_Offset level = i / of, at = starts[i % of], length = starts[columns + 1 + i % of];
        MPI_Offset place[3] = {record, level, at}, extent[3] = {1, 1, length};
        if (axes == 2) place[1] = at, extent[1] = length;
        start[i] = malloc(3 * sizeof(MPI_Offset));
        count[i] = malloc(3 * sizeof(MPI_Offset));
        memcpy(start[i], place, sizeof place);
        memcpy(count[i], extent, sizeof extent);
        for (MPI_Offset c = 0; writes && c < length; c++) *next++ = value(variable, record, level, at + c);
    }
    if (writes)
        OK(ncmpi_iput_varn_float(id, variable, many, start, count, values, NULL));
    else
        OK(ncmpi_iget_varn_float(id, variable, many, start, count, values, NULL));
    for (int i = 0; i < many; i++) free(start[i]), free(count[i]);
    free(start), free(count), free(starts);
}

static void compare(int variable, const struct kind *kind, MPI_Offset record, const float *next) {
    MPI_Offset depth = strchr(kind->dims, 'l') ? levels : 1, start[1], count[1];
    if (!runs(start, count)) return;
    for (MPI_Offset level = 0; level < depth; level++)
        for (MPI_Offset c = 0; c < count[0]; c++) wrong += *next++ != value(variable, record, level, start[0] + c);
}

/* A variable without columns in records, or one of columns that has no record: the first rank writes it, all read it. */
static void small(int id, int variable, const struct kind *kind, MPI_Offset record) {
    MPI_Offset start[2] = {strchr(kind->dims, 't') ? record : 0, 0}, count[2] = {1, WORD};
    MPI_Offset n = strchr(kind->dims, 'w') ? WORD : 1;
    if (kind->dims[0] == 'c') n = count[0] = columns;
    if (kind->dims[0] == 'l') n = count[0] = levels;
    double *values = malloc(n * sizeof *values);
    char text[WORD];
    for (MPI_Offset i = 0; i < n; i++) {
        values[i] = value(variable, record, 0, i);
        if (kind->type == NC_CHAR) text[i] = 'a' + value(variable, record, 0, i) % 26;
    }
    if (writes && rank == 0 && kind->type == NC_CHAR)
        OK(ncmpi_bput_vara_text(id, variable, start, count, text, NULL));
    else if (writes && rank == 0)
        OK(ncmpi_bput_vara_double(id, variable, start, count, values, NULL));
    else if (!writes && kind->type == NC_CHAR) {
        char found[WORD];
        OK(ncmpi_get_vara_text_all(id, variable, start, count, found));
        wrong += memcmp(found, text, WORD) != 0;
    } else if (!writes) {
        double *found = malloc(n * sizeof *found);
        OK(ncmpi_get_vara_double_all(id, variable, start, count, found));
        for (MPI_Offset i = 0; i < n; i++) wrong += found[i] != values[i];
        free(found);
    }
    free(values);
}

static int on_columns(const struct kind *kind) { return kind->type == NC_FLOAT; }

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    writes = strcmp(argv[1], "write") == 0;
    columns = atoll(argv[3]), levels = atoll(argv[4]), records = atoll(argv[5]);
    int id, variables = 0, kinds[VARIABLES], ids[VARIABLES], dims[4];
    if (writes) {
        OK(ncmpi_create(MPI_COMM_WORLD, argv[2], NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id));
        OK(ncmpi_def_dim(id, "time", NC_UNLIMITED, &dims[0]));
        OK(ncmpi_def_dim(id, "lev", levels, &dims[1]));
        OK(ncmpi_def_dim(id, "ncol", columns, &dims[2]));
        OK(ncmpi_def_dim(id, "nchar", WORD, &dims[3]));
    } else {
        OK(ncmpi_open(MPI_COMM_WORLD, argv[2], NC_NOWRITE, MPI_INFO_NULL, &id));
        MPI_Offset found;
        OK(ncmpi_inq_unlimdim(id, &dims[0]));
        OK(ncmpi_inq_dimlen(id, dims[0], &found));
        wrong += found != records;
    }
    for (int kind = 0; kind < ALL_KINDS; kind++)
        for (int i = 0; i < KINDS[kind].many; i++, variables++) {
            char name[32];
            int own[3], axes = (int)strlen(KINDS[kind].dims);
            for (int axis = 0; axis < axes; axis++) own[axis] = dims[strchr("tlcw", KINDS[kind].dims[axis]) - "tlcw"];
            snprintf(name, sizeof name, "%s_%d", KINDS[kind].name, i);
            kinds[variables] = kind;
            if (writes)
                OK(ncmpi_def_var(id, name, KINDS[kind].type, axes, own, &ids[variables]));
            else
                OK(ncmpi_inq_varid(id, name, &ids[variables]));
        }
    if (writes) OK(ncmpi_enddef(id));
    if (writes) OK(ncmpi_buffer_attach(id, 64 << 20));
    float **values = calloc(VARIABLES, sizeof *values);
    for (MPI_Offset record = 0; record < records; record++) {
        for (int v = 0; v < variables; v++) {
            const struct kind *kind = &KINDS[kinds[v]];
            if (!on_columns(kind)) {
                if (record == 0 || strchr(kind->dims, 't')) small(id, ids[v], kind, record);
                continue;
            }
            values[v] = malloc(columns * levels * sizeof(float));
            pieces(id, ids[v], kind, record, values[v]);
        }
        OK(ncmpi_wait_all(id, NC_REQ_ALL, NULL, NULL));
        for (int v = 0; v < variables; v++) {
            if (!writes && values[v]) compare(ids[v], &KINDS[kinds[v]], record, values[v]);
            free(values[v]);
            values[v] = NULL;
        }
    }
    if (writes) OK(ncmpi_buffer_detach(id));
    OK(ncmpi_close(id));
    free(values);
    if (variables != VARIABLES || wrong) {
        fprintf(stderr, "rank %d: %d variables, %lld values are wrong\n", rank, variables, (long long)wrong);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
