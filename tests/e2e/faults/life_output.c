/* The life of a file of Knarr's own library. */
#include "life.h"

#include <knarr.h>

static knarr_output *output;

static const char *suffix(void) {
    return ".nc";
}

static int make(void) {
    static const char *dims[2] = {"time", "x"};
    char path[80];
    snprintf(path, sizeof path, "%s.nc", name);
    int code = knarr_output_create(path, "replace=yes jobs=1", NULL, &output);
    if (code)
        return code;
    int then = knarr_output_def_dim(output, "time", KNARR_UNLIMITED);
    then = then ? then : knarr_output_def_dim(output, "x", (size_t)(size * part));
    then = then ? then : knarr_output_def_var(output, "T", KNARR_INT32, 2, dims, NULL);
    then = then ? then : knarr_output_def_var(output, "F", KNARR_INT32, 1, dims + 1, NULL);
    say("0 defined %s %d\n", name, then);
    return 0;
}

static int put(int row, const int *numbers, int together) {
    size_t start[2] = {(size_t)row, (size_t)(rank * part)}, count[2] = {1, (size_t)part};
    int of = row < 0;
    int code = knarr_output_put(output, of ? "F" : "T", numbers, KNARR_INT32, 2 - of, count + of, start + of);
    return code || !together ? code : (int)knarr_output_end_step(output);
}

static int put_two(int row, const int *numbers, const int *behind) {
    int code = put(row, numbers, 0), then = put(row + 1, behind, 1);
    return code ? code : then;
}

static int get(int row, int owner, int *numbers) {
    (void)row, (void)owner, (void)numbers;
    return -1;
}

static int sync_all(void) {
    return knarr_output_end_step(output);
}

static int end(void) {
    int code = knarr_output_commit(output), then = knarr_output_close(output);
    return code ? code : then;
}

static int give_up(void) {
    return end();
}

static int define(void) {
    return knarr_output_put_att_text(output, NULL, "more", "more");
}

static int begin(int writes) {
    (void)writes;
    return -1;
}

static int rows_of(void) {
    return 0;
}
