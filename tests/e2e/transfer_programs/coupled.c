/* One of two programs that are coupled by a file: writes it, or reads it and checks every value.
 *
 * usage: coupled write|read FILE ROWS COLUMNS DOWNxACROSS STEPS SESSIONS [what]
 * The ranks have the blocks of a grid of DOWN by ACROSS. Each session creates, or opens, the file anew, with other values.
 * what: "zero" gives the last rank nothing to put or get, "none" lets it make no call, "strided" puts and gets every second
 *       column and then the others, "partly" leaves the last row out, "fill" does the same in fill mode,
 *       "many" puts and gets each row by a request of its own; with "sync" and "wait" the writer puts a step, syncs the file
 *       or waits for its requests, and goes on when the reader has had it; with "third" the reader gets sessions 3, 6, …,
 *       "members" makes ranks with even numbers and those with odd ones two members of an ensemble, with a file for each
 *       The writer: "kill" ends rank 0 by SIGKILL before it closes the file, "exit" ends without closing it, "hang" waits for
 *       a minute before that. The reader: "late" waits for two seconds before it opens the file, "unread" opens and closes it,
 *       "holds" waits for the file 'go' when it has it open, "fails" expects that reading fails; both make the file 'opened'
 *       before. "absent" expects that opening fails, "die" ends rank 0 by SIGKILL when it has the file open. */
#include <mpi.h>
#include <pnetcdf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../checked.h"

static int rank, size, steps;
static MPI_Comm all;
static MPI_Offset rows, columns, start[3], count[3];
static const char *what = "";

static int is(const char *name) { return strcmp(what, name) == 0; }

static double value(int session, int step, MPI_Offset row, MPI_Offset column) {
    return session * 1e9 + step * 1e7 + (double)row * 4096 + (double)column;
}

static const char *mark(int session, int step) {
    static char path[64];
    snprintf(path, sizeof path, "seen.%d.%d", session, step);
    return path;
}

static void await_reader(int session, int step) {
    int left = 9000;
    while (rank == 0 && access(mark(session, step), F_OK) != 0 && left-- > 0) usleep(10000);
    check(left > 0, "the reader does not see a step before the file is closed");
    MPI_Barrier(all);
}

static void write_session(const char *name, int session) {
    int id, dims[3], field, series, number, label;
    double *values = malloc((size_t)(count[1] * count[2]) * sizeof *values + 1);
    OK(ncmpi_create(all, name, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id));
    if (is("fill")) OK(ncmpi_set_fill(id, NC_FILL, NULL));
    OK(ncmpi_def_dim(id, "time", NC_UNLIMITED, &dims[0]));
    OK(ncmpi_def_dim(id, "y", rows, &dims[1]));
    OK(ncmpi_def_dim(id, "x", columns, &dims[2]));
    OK(ncmpi_def_var(id, "field", NC_DOUBLE, 2, dims + 1, &field));
    OK(ncmpi_def_var(id, "series", NC_FLOAT, 3, dims, &series));
    OK(ncmpi_def_var(id, "number", NC_INT, 0, NULL, &number));
    OK(ncmpi_def_var(id, "label", NC_CHAR, 1, dims + 1, &label));
    OK(ncmpi_put_att_int(id, NC_GLOBAL, "session", NC_INT, 1, &session));
    OK(ncmpi_enddef(id));
    MPI_Offset n[3] = {1, count[1], count[2]};
    if ((is("partly") || is("fill")) && start[1] + n[1] == rows) n[1]--;
    if (is("zero") && rank == size - 1) n[1] = 0;
    for (MPI_Offset i = 0; i < n[1] * n[2]; i++) values[i] = value(session, 0, start[1] + i / n[2], start[2] + i % n[2]);
    if (is("none")) {
        OK(ncmpi_begin_indep_data(id));
        if (rank < size - 1) OK(ncmpi_put_vara_double(id, field, start + 1, n + 1, values));
        OK(ncmpi_end_indep_data(id));
    } else if (is("strided")) {
        MPI_Offset stride[2] = {1, 2};
        for (int odd = 0; odd < 2; odd++) {
            MPI_Offset from[2] = {start[1], start[2] + odd}, half[2] = {n[1], (n[2] + 1 - odd) / 2};
            for (MPI_Offset i = 0; i < half[0] * half[1]; i++)
                values[i] = value(session, 0, from[0] + i / half[1], from[1] + i % half[1] * 2);
            OK(ncmpi_put_vars_double_all(id, field, from, half, stride, values));
        }
    } else if (is("many")) {
        for (MPI_Offset row = 0; row < n[1]; row++) {
            MPI_Offset from[2] = {start[1] + row, start[2]}, one[2] = {1, n[2]};
            OK(ncmpi_iput_vara_double(id, field, from, one, values + row * n[2], NULL));
        }
        OK(ncmpi_wait_all(id, NC_REQ_ALL, NULL, NULL));
    } else {
        OK(ncmpi_put_vara_double_all(id, field, start + 1, n + 1, values));
    }
    /* The buffer is free at once. */
    memset(values, 7, (size_t)(count[1] * count[2]) * sizeof *values);
    for (int step = 0; step < steps + session; step++) {
        start[0] = step;
        for (MPI_Offset i = 0; i < count[1] * count[2]; i++)
            values[i] = value(0, step, start[1] + i / count[2], start[2] + i % count[2]);
        if (is("wait")) {
            OK(ncmpi_iput_vara_double(id, series, start, count, values, NULL));
            OK(ncmpi_wait_all(id, NC_REQ_ALL, NULL, NULL));
        } else {
            OK(ncmpi_put_vara_double_all(id, series, start, count, values));
        }
        if (is("sync")) OK(ncmpi_sync(id));
        if (is("sync") || is("wait")) await_reader(session, step);
    }
    int request, one = 41 + session;
    OK(ncmpi_iput_var_int(id, number, &one, &request));
    OK(ncmpi_wait_all(id, 1, &request, NULL));
    char *text = malloc((size_t)count[1] + 1);
    memset(text, 'a' + session, (size_t)count[1]);
    OK(ncmpi_put_vara_text_all(id, label, start + 1, count + 1, text));
    free(text);
    free(values);
    if (is("hang")) sleep(60);
    if (is("kill")) {
        MPI_Barrier(all);
        if (rank == 0) raise(SIGKILL);
    }
    if (!is("exit")) OK(ncmpi_close(id));
}

static void read_session(const char *name, int session) {
    int id, dims[3], field, series, number, label, seen = -1;
    MPI_Offset length;
    if (is("late")) sleep(2);
    int opened = ncmpi_open(all, name, NC_NOWRITE, MPI_INFO_NULL, &id);
    if (is("absent")) {
        check(opened == NC_ENOENT, "a file that nobody writes can be opened");
        return;
    }
    OK(opened);
    OK(ncmpi_get_att_int(id, NC_GLOBAL, "session", &seen));
    if (seen != session) fprintf(stderr, "rank %d: session %d in place of %d\n", rank, seen, session);
    check(seen == session, "this is another session");
    if (is("die")) {
        MPI_Barrier(all);
        if (rank == 0) raise(SIGKILL);
    }
    if (is("unread")) {
        OK(ncmpi_close(id));
        return;
    }
    if ((is("holds") || is("fails")) && rank == 0) fclose(fopen("opened", "w"));
    if (is("holds")) {
        int left = 9000;
        while (access("go", F_OK) != 0 && left-- > 0) usleep(10000);
    }
    OK(ncmpi_inq_dimid(id, "time", &dims[0]));
    OK(ncmpi_inq_varid(id, "field", &field));
    OK(ncmpi_inq_varid(id, "series", &series));
    OK(ncmpi_inq_varid(id, "number", &number));
    OK(ncmpi_inq_varid(id, "label", &label));
    double *values = malloc((size_t)(count[1] * count[2]) * sizeof *values + 1);
    memset(values, 3, (size_t)(count[1] * count[2]) * sizeof *values);
    MPI_Offset n[3] = {1, count[1], count[2]};
    if (is("zero") && rank == size - 1) n[1] = 0;
    int code = NC_NOERR;
    if (is("none")) {
        OK(ncmpi_begin_indep_data(id));
        n[1] = rank < size - 1 ? n[1] : 0;
        if (n[1] > 0) OK(ncmpi_get_vara_double(id, field, start + 1, n + 1, values));
        OK(ncmpi_end_indep_data(id));
    } else if (is("strided")) {
        MPI_Offset stride[2] = {2, 1};
        for (int odd = 0; odd < 2; odd++) {
            MPI_Offset from[2] = {start[1] + odd, start[2]}, half[2] = {(n[1] + 1 - odd) / 2, n[2]};
            double *part = malloc((size_t)(half[0] * half[1]) * sizeof *part + 1);
            OK(ncmpi_get_vars_double_all(id, field, from, half, stride, part));
            for (MPI_Offset i = 0; i < half[0]; i++)
                memcpy(values + (2 * i + odd) * n[2], part + i * half[1], (size_t)half[1] * sizeof *part);
            free(part);
        }
    } else if (is("many")) {
        for (MPI_Offset row = 0; row < n[1]; row++) {
            MPI_Offset from[2] = {start[1] + row, start[2]}, one[2] = {1, n[2]};
            OK(ncmpi_iget_vara_double(id, field, from, one, values + row * n[2], NULL));
        }
        OK(ncmpi_wait_all(id, NC_REQ_ALL, NULL, NULL));
    } else {
        code = ncmpi_get_vara_double_all(id, field, start + 1, n + 1, values);
    }
    if (is("fails")) {
        check(code == NC_EREAD || start[1] + count[1] < rows, "what nobody wrote was read");
        OK(ncmpi_close(id));
        free(values);
        return;
    }
    OK(code);
    for (MPI_Offset i = 0; i < n[1] * n[2]; i++) {
        MPI_Offset row = start[1] + i / n[2];
        double expected = value(session, 0, row, start[2] + i % n[2]);
        if (is("fill") && row == rows - 1) expected = NC_FILL_DOUBLE;
        check(values[i] == expected, "a value of 'field' is wrong");
    }
    OK(ncmpi_inq_dimlen(id, dims[0], &length));
    int comes = is("sync") || is("wait");
    check(comes ? length == 1 : length == steps + session, "the number of records is wrong");
    for (int step = 0; step < steps + session; step++) {
        start[0] = step;
        OK(ncmpi_get_vara_double_all(id, series, start, count, values));
        for (MPI_Offset i = 0; i < count[1] * count[2]; i++)
            check(values[i] == (double)(float)value(0, step, start[1] + i / count[2], start[2] + i % count[2]),
                  "a value of 'series' is wrong");
        MPI_Barrier(all);
        if (comes && rank == 0) fclose(fopen(mark(session, step), "w"));
    }
    int one = 0, requests[2];
    char *text = malloc((size_t)rows + 1);
    OK(ncmpi_iget_var_int(id, number, &one, &requests[0]));
    OK(ncmpi_iget_var_text(id, label, text, &requests[1]));
    OK(ncmpi_wait_all(id, 2, requests, NULL));
    check(one == 41 + session, "the value of 'number' is wrong");
    for (MPI_Offset i = 0; i < rows; i++) check(text[i] == 'a' + session, "a value of 'label' is wrong");
    check(ncmpi_put_var_int_all(id, number, &one) == NC_EPERM, "the reader can write");
    OK(ncmpi_close(id));
    free(text);
    free(values);
}

int main(int argc, char **argv) {
    int down, across;
    MPI_Init(&argc, &argv);
    what = argc > 8 ? argv[8] : "";
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int member = is("members") ? rank % 2 : 0;
    MPI_Comm_split(MPI_COMM_WORLD, member, rank, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    if (argc < 8 || sscanf(argv[5], "%dx%d", &down, &across) != 2 || down * across != size) return 64;
    rows = atoi(argv[3]);
    columns = atoi(argv[4]);
    steps = atoi(argv[6]);
    int y = rank / across, x = rank % across;
    start[1] = rows * y / down;
    start[2] = columns * x / across;
    count[0] = 1;
    count[1] = rows * (y + 1) / down - start[1];
    count[2] = columns * (x + 1) / across - start[2];
    int writes = strcmp(argv[1], "write") == 0;
    char name[256];
    if (is("members"))
        snprintf(name, sizeof name, "%d%s", member, argv[2]);
    else
        snprintf(name, sizeof name, "%s", argv[2]);
    for (int session = 0; session < atoi(argv[7]); session++)
        (writes ? write_session : read_session)(name, is("third") && !writes ? 3 * session + 2 : session);
    MPI_Finalize();
    return 0;
}
