/* Many threads with one context: every frame is the same and comes back, and errors stay with their thread. */
#include <knarr.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 6, ROUNDS = 3, COUNT = 20000 };
static float values[COUNT];
static const size_t shape[2] = {100, 200};
static knarr_context *context;
static unsigned char *expected;
static size_t expected_size;

static unsigned char *compress(size_t *size) {
    size_t bound;
    if (knarr_compress_bound(KNARR_FLOAT32, 2, shape, &bound)) return NULL;
    unsigned char *frame = malloc(bound);
    if (frame && knarr_compress(context, values, KNARR_FLOAT32, 2, shape, frame, bound, size)) return NULL;
    return frame;
}

static void *work(void *number) {
    const size_t mine = *(size_t *)number;
    float *back = malloc(sizeof values);
    for (int round = 0; round < ROUNDS; round++) {
        size_t size = 0, written = 0;
        unsigned char *frame = compress(&size);
        if (!frame || size != expected_size || memcmp(frame, expected, size)) return "another frame";
        if (knarr_decompress(context, frame, size, back, sizeof values, &written)) return "not decompressed";
        if (written != sizeof values) return "another size";
        for (int i = 0; i < COUNT; i++)
            if (!(fabsf(back[i] - values[i]) <= 0.0101f)) return "a bound that does not hold";
        char wanted[64];
        snprintf(wanted, sizeof wanted, "the destination has %zu bytes", mine);
        if (knarr_decompress(context, frame, size, back, mine, NULL) != KNARR_USAGE) return "no error";
        if (!strstr(knarr_last_error(), wanted)) return "the error of another thread";
        /* Contexts of its own beside the shared one. */
        knarr_hints hints;
        knarr_context *own;
        if (knarr_hints_init(&hints, sizeof hints) || knarr_hints_set(&hints, "goal=speed")) return "no hints";
        if (knarr_context_create(&hints, &own)) return "no context";
        if (knarr_decompress(own, frame, size, back, sizeof values, NULL)) return "not decompressed by its own";
        knarr_context_free(own);
        free(frame);
    }
    free(back);
    return NULL;
}

int main(void) {
    for (int i = 0; i < COUNT; i++) values[i] = 280 + 10 * sinf(i * 0.01f);
    knarr_hints hints;
    if (knarr_hints_init(&hints, sizeof hints) || knarr_hints_set(&hints, "max_abs_error=0.01")) return 2;
    if (knarr_context_create(&hints, &context)) return 2;
    expected = compress(&expected_size);
    if (!expected) return 2;
    pthread_t threads[THREADS];
    size_t numbers[THREADS];
    int failed = 0;
    for (int t = 0; t < THREADS; t++) {
        numbers[t] = 100 + t;
        if (pthread_create(&threads[t], NULL, work, &numbers[t])) return 2;
    }
    for (int t = 0; t < THREADS; t++) {
        void *why = NULL;
        pthread_join(threads[t], &why);
        if (why) {
            fprintf(stderr, "thread %d: %s: %s\n", t, (const char *)why, knarr_last_error());
            failed = 1;
        }
    }
    free(expected);
    knarr_context_free(context);
    if (!failed) printf("same frames in %d threads\n", THREADS);
    return failed;
}
