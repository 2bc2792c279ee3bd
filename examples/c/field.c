/* Compresses a temperature field under a bound, says why, decompresses it and proves what was kept. */
#include <knarr.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS = 6, ROWS = 90, COLUMNS = 180 };
static float field[LEVELS][ROWS][COLUMNS];

static void check(knarr_status status) {
    if (status != KNARR_OK) {
        fprintf(stderr, "%s\n", knarr_last_error());
        exit(1);
    }
}

int main(void) {
    for (int k = 0; k < LEVELS; k++)
        for (int j = 0; j < ROWS; j++)
            for (int i = 0; i < COLUMNS; i++)
                field[k][j][i] = 290 - 7 * k + 15 * sinf(j * 0.035f) + 2 * cosf(i * 0.07f) + 0.3f * sinf(i * j * 0.01f);
    field[0][10][20] = 1e20f; /* missing */

    /* At most 0.01 K off; 1e20 is missing; from 300 K on every bit counts; the smallest frame. */
    knarr_hints hints;
    check(knarr_hints_init(&hints, sizeof hints));
    hints.max_abs_error = 0.01;
    hints.fill_value = 1e20;
    hints.exact_from = 300;
    check(knarr_hints_set(&hints, "goal=ratio"));

    knarr_context *context;
    check(knarr_context_create(&hints, &context));

    const size_t shape[3] = {LEVELS, ROWS, COLUMNS}; /* slowest first */
    size_t bound, frame_size;
    check(knarr_compress_bound(KNARR_FLOAT32, 3, shape, &bound));
    void *frame = malloc(bound);
    if (frame == NULL) return 1;
    check(knarr_compress(context, field, KNARR_FLOAT32, 3, shape, frame, bound, &frame_size));

    char why[4096]; /* the first lines are enough here */
    check(knarr_explain(context, field, KNARR_FLOAT32, 3, shape, why, sizeof why, NULL));
    printf("chain: %.*s\n", (int)strcspn(why, "\n"), why);

    /* The frame says itself what it holds. */
    knarr_info info = {.size = sizeof info};
    check(knarr_inspect(context, frame, frame_size, &info));
    printf("%zu bytes for %zu, %d dimensions, %s\n", info.frame_size, info.raw_size, (int)info.rank, info.chain);
    float *back = malloc(info.raw_size);
    if (back == NULL) return 1;
    check(knarr_decompress(context, frame, frame_size, back, info.raw_size, NULL));

    /* What was kept, in the same structure as what was asked. */
    knarr_hints observed;
    knarr_validation found = {.size = sizeof found};
    check(knarr_hints_init(&observed, sizeof observed));
    check(knarr_validate(context, frame, frame_size, field, KNARR_FLOAT32, 3, shape, &observed, &found));
    printf("largest error %g K at element %lld; all hints hold: %s\n", observed.max_abs_error,
           (long long)found.worst_abs, found.holds ? "yes" : found.miss);

    free(back);
    free(frame);
    knarr_context_free(context);
    return found.holds ? 0 : 1;
}
