/* What PnetCDF does by itself is what it does under `knarr run`: each mode says the codes that it gets and what it reads.
 *
 * usage: as_plain MODE ARGUMENT...
 * files NAME...        makes files, the first one with values 1, the second one with values 2, ...
 * attempt NAME         creates a file anew, opens it to write, and opens and reads it
 * rename early|late    the directory gets another name while a file in it is open, and a new one takes its name; the file is
 *                      closed before one of the same name is made in the new one, or after that
 * record FORMAT N      puts the records 0 to 4, and record N
 * subarray ROWS        puts values that lie within a larger array; one more element on each side
 * mapped NAME          puts and gets arrays that run backwards in memory, by rows or by columns
 * redef NAME           rank 0 puts records independently, and then all define more
 * write, read NAME     four sessions of a file, each with other values; who reads it waits for the last one */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH (1 << 18)

static int rank;
static double values[LENGTH];

static void say(const char *what, int code) {
    printf("rank %d: %s: %d\n", rank, what, code), fflush(stdout);
}

static void await(const char *path) {
    while (access(path, F_OK) != 0) usleep(20000);
}

static void touch(const char *path) {
    fclose(fopen(path, "w"));
}

static void fill(double value) {
    for (int n = 0; n < LENGTH; n++) values[n] = value;
}

/* Variables a and b, of one value. */
static int make(const char *name, double value) {
    int id = -1, dim, first, second;
    fill(value);
    say("create", ncmpi_create(MPI_COMM_WORLD, name, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id));
    ncmpi_def_dim(id, "x", LENGTH, &dim);
    ncmpi_def_var(id, "a", NC_DOUBLE, 1, &dim, &first);
    ncmpi_def_var(id, "b", NC_DOUBLE, 1, &dim, &second);
    say("enddef", ncmpi_enddef(id));
    say("put a", ncmpi_put_var_double_all(id, first, values));
    say("put b", ncmpi_put_var_double_all(id, second, values));
    return id;
}

/* Says the values of a variable: all of them should be one. */
static int get(int id, int variable) {
    fill(-1);
    int code = ncmpi_get_var_double_all(id, variable, values);
    double least = values[0], most = values[0];
    for (int n = 0; n < LENGTH; n++) {
        if (values[n] < least) least = values[n];
        if (values[n] > most) most = values[n];
    }
    printf("rank %d: get: %d, values %g to %g\n", rank, code, least, most), fflush(stdout);
    return code;
}

static void attempt(const char *name) {
    int id, code = ncmpi_create(MPI_COMM_WORLD, name, NC_CLOBBER, MPI_INFO_NULL, &id);
    say("create", code);
    if (!code) say("close", ncmpi_close(id));
    say("open to write", ncmpi_open(MPI_COMM_WORLD, name, NC_WRITE, MPI_INFO_NULL, &id));
    say("open to read", ncmpi_open(MPI_COMM_WORLD, name, NC_NOWRITE, MPI_INFO_NULL, &id));
    get(id, 0);
    say("close", ncmpi_close(id));
}

static void rename_directory(int is_early) {
    mkdir("d", 0777);
    int first = make("d/out.nc", 1);
    say("rename", rename("d", "d2"));
    mkdir("d", 0777);
    if (is_early) say("close the first", ncmpi_close(first));
    int second = make("d/out.nc", 2);
    if (!is_early) say("close the first", ncmpi_close(first));
    say("close the second", ncmpi_close(second));
}

static void put_record(int format, MPI_Offset record) {
    int id, dim, variable, numbers[5] = {1, 2, 3, 4, 5};
    int mode = format == 5 ? NC_64BIT_DATA : format == 2 ? NC_64BIT_OFFSET : 0;
    ncmpi_create(MPI_COMM_WORLD, "out.nc", NC_CLOBBER | mode, MPI_INFO_NULL, &id);
    ncmpi_def_dim(id, "time", NC_UNLIMITED, &dim);
    ncmpi_def_var(id, "T", NC_INT, 1, &dim, &variable);
    ncmpi_enddef(id);
    MPI_Offset start = 0, count = 5;
    say("put 5", ncmpi_put_vara_int_all(id, variable, &start, &count, numbers));
    count = 1;
    say("put one", ncmpi_put_vara_int_all(id, variable, &record, &count, numbers));
    say("close", ncmpi_close(id));
}

/* Rows have half as many columns. Each value is its row. */
static void put_subarray(int rows) {
    int inner[2] = {rows, rows / 2}, outer[2] = {rows + 2, rows / 2 + 2}, first[2] = {1, 1}, id, dims[2], variable;
    double *array = malloc(sizeof *array * outer[0] * outer[1]);
    for (int row = 0; row < outer[0]; row++)
        for (int column = 0; column < outer[1]; column++) array[(size_t)row * outer[1] + column] = row - 1;
    MPI_Datatype type;
    MPI_Type_create_subarray(2, outer, inner, first, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    ncmpi_create(MPI_COMM_WORLD, "out.nc", NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id);
    ncmpi_def_dim(id, "y", inner[0], &dims[0]);
    ncmpi_def_dim(id, "x", inner[1], &dims[1]);
    ncmpi_def_var(id, "T", NC_DOUBLE, 2, dims, &variable);
    ncmpi_enddef(id);
    MPI_Offset start[2] = {0, 0}, count[2] = {inner[0], inner[1]};
    say("put", ncmpi_put_vara_all(id, variable, start, count, array, 1, type));
    free(array);
    say("close", ncmpi_close(id));
}

static void say_all(const char *what, int code, const int *numbers) {
    printf("rank %d: %s: %d,", rank, what, code);
    for (int n = 0; n < 24; n++) printf(" %d", numbers[n]);
    printf("\n"), fflush(stdout);
}

/* Variables of four rows and six columns: T, and U, whose rows are records. */
static int make_small(const char *name, int *variables) {
    int id, dims[3];
    ncmpi_create(MPI_COMM_WORLD, name, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id);
    ncmpi_def_dim(id, "y", 4, &dims[0]);
    ncmpi_def_dim(id, "x", 6, &dims[1]);
    ncmpi_def_var(id, "T", NC_INT, 2, dims, &variables[0]);
    ncmpi_def_dim(id, "time", NC_UNLIMITED, &dims[0]);
    ncmpi_def_var(id, "U", NC_INT, 2, dims, &variables[1]);
    say("enddef", ncmpi_enddef(id));
    return id;
}

static const MPI_Offset origin[2] = {0, 0}, whole[2] = {4, 6}, ones[2] = {1, 1};

static void put_mapped(const char *name) {
    int variables[2], numbers[24], back[24], id = make_small(name, variables);
    for (int n = 0; n < 24; n++) numbers[n] = n;
    MPI_Offset columns_back[2] = {6, -1}, rows_back[2] = {-6, 1};
    say("put T", ncmpi_put_varm_int_all(id, variables[0], origin, whole, ones, columns_back, numbers + 5));
    say("put U", ncmpi_put_varm_int_all(id, variables[1], origin, whole, ones, rows_back, numbers + 18));
    for (int n = 0; n < 2; n++) {
        memset(back, -1, sizeof back);
        say_all("get", ncmpi_get_varm_int_all(id, variables[n], origin, whole, ones, rows_back, back + 18), back);
        memset(back, -1, sizeof back);
        say_all("get", ncmpi_get_varm_int_all(id, variables[n], origin, whole, ones, columns_back, back + 5), back);
    }
    say("close", ncmpi_close(id));
}

static void redefine(const char *name) {
    int variables[2], numbers[24], dim, id = make_small(name, variables);
    MPI_Offset records = -1;
    for (int n = 0; n < 24; n++) numbers[n] = n;
    say("put T", ncmpi_put_var_int_all(id, variables[0], numbers));
    say("begin", ncmpi_begin_indep_data(id));
    if (rank == 0) say("put U", ncmpi_put_vara_int(id, variables[1], origin, whole, numbers));
    MPI_Barrier(MPI_COMM_WORLD);
    say("redef", ncmpi_redef(id));
    ncmpi_put_att_text(id, NC_GLOBAL, "title", 4, "more");
    say("enddef", ncmpi_enddef(id));
    ncmpi_inq_dimid(id, "time", &dim);
    ncmpi_inq_dimlen(id, dim, &records);
    say("records", records);
    memset(numbers, -1, sizeof numbers);
    say_all("get", ncmpi_get_vara_int_all(id, variables[1], origin, whole, numbers), numbers);
    say("close", ncmpi_close(id));
}

static void write_sessions(const char *name) {
    for (int session = 1; session <= 4; session++) {
        say("close", ncmpi_close(make(name, session)));
        if (session == 1) await("go");
        sleep(1);
    }
    touch("written");
}

/* It may get an error, and no other value. */
static void read_session(const char *name) {
    int id = -1, all_are_written = 0, code = ncmpi_open(MPI_COMM_WORLD, name, NC_NOWRITE, MPI_INFO_NULL, &id);
    say("open", code);
    get(id, 0);
    touch("opened");
    await("go");
    while (!code && !all_are_written) {
        all_are_written = access("written", F_OK) == 0;
        code = get(id, 1);
        usleep(200000);
    }
    touch("read");
    ncmpi_close(id);
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *mode = words[1], *word = count > 2 ? words[2] : "";
    if (strcmp(mode, "files") == 0)
        for (int n = 2; n < count; n++) say("close", ncmpi_close(make(words[n], n - 1)));
    else if (strcmp(mode, "attempt") == 0)
        attempt(word);
    else if (strcmp(mode, "rename") == 0)
        rename_directory(strcmp(word, "early") == 0);
    else if (strcmp(mode, "record") == 0)
        put_record(atoi(word), atoll(words[3]));
    else if (strcmp(mode, "subarray") == 0)
        put_subarray(atoi(word));
    else if (strcmp(mode, "mapped") == 0)
        put_mapped(word);
    else if (strcmp(mode, "redef") == 0)
        redefine(word);
    else if (strcmp(mode, "write") == 0)
        write_sessions(word);
    else if (strcmp(mode, "read") == 0)
        read_session(word);
    MPI_Finalize();
    return 0;
}
