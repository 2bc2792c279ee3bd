/* The life of a step of Knarr's checkpoint library: each creation is a step, and rows are arrays. */
static int end_library(void);
#define END_LIBRARY end_library
#include "life.h"

#include <knarr.h>

static knarr_checkpoint *checkpoint;
static knarr_restart *restart;
static int step;

static const char *suffix(void) {
    return ".sets";
}

static int opened(void) {
    char path[80];
    snprintf(path, sizeof path, "%s.sets", name);
    /* How the life's checkpoints are made. */
    return checkpoint ? 0 : (int)knarr_checkpoint_open(path, getenv("KNARR_OPTIONS"), NULL, &checkpoint);
}

static int make(void) {
    int code = opened();
    return code ? code : (int)knarr_checkpoint_begin(checkpoint, ++step);
}

static const char *array_of(int row) {
    static char called[16];
    snprintf(called, sizeof called, row < 0 ? "F" : "T%d", row);
    return called;
}

static int put(int row, const int *numbers, int together) {
    (void)together;
    size_t start = (size_t)(rank * part), count = (size_t)part, shape = (size_t)(size * part);
    return knarr_checkpoint_put(checkpoint, array_of(row), numbers, KNARR_INT32, 1, &count, &shape, &start);
}

static int put_two(int row, const int *numbers, const int *behind) {
    int code = put(row, numbers, 0), then = put(row + 1, behind, 0);
    return code ? code : then;
}

static int get(int row, int owner, int *numbers) {
    size_t start = (size_t)(owner * part), count = (size_t)part;
    return knarr_restart_read(restart, array_of(row), numbers, KNARR_INT32, 1, &count, &start);
}

static int sync_all(void) {
    return knarr_checkpoint_wait(checkpoint);
}

static int end(void) {
    if (restart) {
        knarr_restart_free(restart);
        restart = NULL;
        return 0;
    }
    int code = knarr_checkpoint_commit(checkpoint);
    return code ? code : (int)knarr_checkpoint_wait(checkpoint);
}

static int give_up(void) {
    return end_library();
}

static int end_library(void) {
    int code = knarr_checkpoint_close(checkpoint);
    checkpoint = NULL;
    return code;
}

static int define(void) {
    return 0;
}

static int begin(int writes) {
    (void)writes;
    int code = opened();
    if (code == 0)
        code = knarr_checkpoint_restart(checkpoint, KNARR_LATEST, 1, &restart);
    return code ? code : restart ? 0 : -1;
}

static int rows_of(void) {
    int rows = 0, dtype, dims, is_global;
    size_t shape[KNARR_MAX_RANK];
    while (knarr_restart_describe(restart, array_of(rows), &dtype, &dims, shape, &is_global) == KNARR_OK)
        rows++;
    return rows;
}
