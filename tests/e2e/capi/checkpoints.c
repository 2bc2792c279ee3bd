/* Wrong calls of the checkpoint functions, each of which has to be an error with a message, and right ones between them. */
#include <knarr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEED(condition)                                                                      \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, knarr_last_error()); \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

int main(int argc, char **argv) {
    NEED(argc == 2);
    const size_t count[2] = {3, 4}, whole[2] = {6, 4}, start[2] = {3, 0}, far[2] = {4, 0};
    float values[12], back[12];
    for (int i = 0; i < 12; i++) values[i] = (float)i / 3;
    knarr_checkpoint *checkpoint = (knarr_checkpoint *)values;
    NEED(knarr_checkpoint_open(argv[1], "keep", NULL, &checkpoint) == KNARR_USAGE && checkpoint == NULL);
    NEED(knarr_checkpoint_open(argv[1], "keep=2 colour=red", NULL, &checkpoint) == KNARR_USAGE);
    NEED(strstr(knarr_last_error(), "option 'colour=red'") != NULL);
    NEED(knarr_checkpoint_open(NULL, NULL, NULL, &checkpoint) == KNARR_USAGE);
    NEED(knarr_checkpoint_open(argv[1], NULL, NULL, NULL) == KNARR_USAGE);
    NEED(knarr_checkpoint_open(argv[1], NULL, NULL, &checkpoint) == KNARR_OK);

    NEED(knarr_checkpoint_begin(NULL, 1) == KNARR_USAGE);
    NEED(knarr_checkpoint_begin(checkpoint, -1) == KNARR_USAGE);
    NEED(knarr_checkpoint_put(checkpoint, "a", values, KNARR_FLOAT32, 2, count, whole, start) == KNARR_USAGE);
    NEED(knarr_checkpoint_commit(checkpoint) == KNARR_USAGE);
    NEED(knarr_checkpoint_begin(checkpoint, 1) == KNARR_OK);
    NEED(knarr_checkpoint_put(checkpoint, "a", values, 99, 2, count, whole, start) == KNARR_USAGE);
    NEED(knarr_checkpoint_put(checkpoint, "a", values, KNARR_FLOAT32, -1, count, whole, start) == KNARR_USAGE);
    NEED(knarr_checkpoint_put(checkpoint, "a", NULL, KNARR_FLOAT32, 2, count, whole, start) == KNARR_USAGE);
    NEED(knarr_checkpoint_put(checkpoint, "a", values, KNARR_FLOAT32, 2, NULL, whole, start) == KNARR_USAGE);
    NEED(knarr_checkpoint_put(checkpoint, NULL, values, KNARR_FLOAT32, 2, count, whole, start) == KNARR_USAGE);
    NEED(knarr_checkpoint_put(checkpoint, "b", values, KNARR_FLOAT32, 2, count, NULL, NULL) == KNARR_OK);
    NEED(knarr_checkpoint_put(checkpoint, "a", values, KNARR_FLOAT32, 2, count, whole, far) == KNARR_USAGE);
    NEED(knarr_checkpoint_add_file(checkpoint, "/nowhere/at/all", NULL) == KNARR_NOT_FOUND);
    /* A step of which something was refused is not half a checkpoint. */
    NEED(knarr_checkpoint_commit(checkpoint) == KNARR_USAGE);
    /* Whatever was wrong: programs do not look at every status. */
    for (int wrong = 0; wrong < 4; wrong++) {
        NEED(knarr_checkpoint_begin(checkpoint, 1) == KNARR_OK);
        NEED(knarr_checkpoint_put(checkpoint, "b", values, KNARR_FLOAT32, 2, count, NULL, NULL) == KNARR_OK);
        if (wrong == 0) knarr_checkpoint_put(checkpoint, "a", values, 99, 2, count, whole, start);
        if (wrong == 1) knarr_checkpoint_put(checkpoint, "a", NULL, KNARR_FLOAT32, 2, count, whole, start);
        if (wrong == 2) knarr_checkpoint_put(checkpoint, NULL, values, KNARR_FLOAT32, 2, count, whole, start);
        if (wrong == 3) knarr_checkpoint_add_file(checkpoint, NULL, NULL);
        NEED(knarr_checkpoint_commit(checkpoint) == KNARR_USAGE);
    }

    int32_t done = -1, dtype, rank, is_global;
    size_t shape[KNARR_MAX_RANK];
    knarr_restart *restart;
    NEED(knarr_checkpoint_restart(checkpoint, KNARR_LATEST, 0, &restart) == KNARR_OK && restart == NULL);
    NEED(knarr_checkpoint_begin(checkpoint, 2) == KNARR_OK);
    NEED(knarr_checkpoint_put(checkpoint, "a", values, KNARR_FLOAT32, 2, count, whole, start) == KNARR_OK);
    NEED(knarr_checkpoint_put(checkpoint, "own", values, KNARR_FLOAT32, 2, count, NULL, NULL) == KNARR_OK);
    NEED(knarr_checkpoint_add_file(checkpoint, argv[0], "program") == KNARR_OK);
    NEED(knarr_checkpoint_commit(checkpoint) == KNARR_OK);
    while (done != 1) NEED(knarr_checkpoint_test(checkpoint, &done) == KNARR_OK);
    NEED(knarr_checkpoint_begin(checkpoint, 2) == KNARR_EXISTS);
    /* Nothing is known of an hour ago, and failures come once a day. */
    int32_t needed = -1;
    NEED(knarr_checkpoint_need(checkpoint, &needed) == KNARR_OK && needed == 0);
    NEED(knarr_checkpoint_need(checkpoint, NULL) == KNARR_USAGE && knarr_checkpoint_need(NULL, &needed) == KNARR_USAGE);

    NEED(knarr_checkpoint_restart(checkpoint, 3, 0, &restart) == KNARR_NOT_FOUND && restart == NULL);
    NEED(knarr_checkpoint_restart(checkpoint, 2, 1, &restart) == KNARR_OK && restart != NULL);
    int64_t step, ranks;
    NEED(knarr_restart_about(restart, &step, &ranks) == KNARR_OK && step == 2 && ranks == 1);
    NEED(knarr_restart_about(restart, NULL, NULL) == KNARR_OK);
    NEED(knarr_restart_describe(restart, "a", &dtype, &rank, shape, &is_global) == KNARR_OK);
    NEED(dtype == KNARR_FLOAT32 && rank == 2 && shape[0] == 6 && shape[1] == 4 && is_global == 1);
    NEED(knarr_restart_describe(restart, "own", &dtype, &rank, shape, &is_global) == KNARR_OK);
    NEED(rank == 2 && shape[0] == 3 && is_global == 0);
    NEED(knarr_restart_describe(restart, "none", &dtype, &rank, shape, &is_global) == KNARR_USAGE);
    NEED(knarr_restart_describe(restart, "a", &dtype, &rank, NULL, &is_global) == KNARR_USAGE);
    NEED(knarr_restart_read(restart, "a", back, KNARR_FLOAT32, 2, count, start) == KNARR_OK);
    NEED(memcmp(back, values, sizeof back) == 0);
    NEED(knarr_restart_read(restart, "a", back, KNARR_FLOAT32, 2, count, NULL) == KNARR_USAGE);
    NEED(strstr(knarr_last_error(), "no rank handed over the region") != NULL);
    NEED(knarr_restart_read(restart, "a", back, KNARR_FLOAT64, 2, count, start) == KNARR_USAGE);
    NEED(knarr_restart_read(restart, "a", NULL, KNARR_FLOAT32, 2, count, start) == KNARR_USAGE);
    NEED(knarr_restart_read(restart, "own", back, KNARR_FLOAT32, 2, count, start) == KNARR_USAGE);
    memset(back, 0, sizeof back);
    NEED(knarr_restart_read(restart, "own", back, KNARR_FLOAT32, 2, count, NULL) == KNARR_OK);
    NEED(memcmp(back, values, sizeof back) == 0);
    NEED(knarr_restart_files(restart, argv[1], 0) == KNARR_OK && knarr_restart_files(restart, argv[1], 0) == KNARR_EXISTS);
    NEED(knarr_restart_files(restart, argv[1], 1) == KNARR_OK);
    char text[8];
    size_t length = 1;
    NEED(knarr_checkpoint_warnings(checkpoint, text, sizeof text, &length) == KNARR_OK && length == 0 && text[0] == 0);
    knarr_restart_free(restart);
    knarr_restart_free(NULL);
    NEED(knarr_checkpoint_begin(checkpoint, 3) == KNARR_OK);
    NEED(knarr_checkpoint_close(checkpoint) == KNARR_USAGE);
    NEED(strstr(knarr_last_error(), "begun and not committed") != NULL);
    NEED(knarr_checkpoint_close(NULL) == KNARR_OK);
    return 0;
}
