/* Buffers of exactly the size that is stated, damaged frames and wrong calls: for memory checkers. */
#include <knarr.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 600 };

static int refused;

static void expect(knarr_status wanted, knarr_status status) {
    if (status != wanted || !*knarr_last_error()) {
        fprintf(stderr, "status %d instead of %d: %s\n", status, wanted, knarr_last_error());
        exit(1);
    }
    refused++;
}

int main(void) {
    static const char *asked[] = {"", "max_abs_error=0.05", "significant_digits=3 goal=ratio", "goal=speed", "chain=raw"};
    const size_t shape[4] = {2, 10, 5, 6};
    for (size_t k = 0; k < sizeof asked / sizeof *asked; k++) {
        double *values = malloc(COUNT * sizeof *values), *back = malloc(COUNT * sizeof *back);
        for (int i = 0; i < COUNT; i++) values[i] = i % 50 ? 100 + sin(i * 0.05) : NAN;
        knarr_hints hints;
        knarr_context *context;
        if (knarr_hints_init(&hints, sizeof hints) || knarr_hints_set(&hints, asked[k])) return 1;
        if (knarr_context_create(&hints, &context)) return 1;
        size_t bound, size;
        if (knarr_compress_bound(KNARR_FLOAT64, 4, shape, &bound)) return 1;
        unsigned char *roomy = malloc(bound);
        if (knarr_compress(context, values, KNARR_FLOAT64, 4, shape, roomy, bound, &size)) return 1;
        unsigned char *frame = malloc(size); /* to the byte */
        memcpy(frame, roomy, size);
        free(roomy);
        if (knarr_decompress(context, frame, size, back, COUNT * sizeof *back, NULL)) return 1;
        expect(KNARR_USAGE, knarr_decompress(context, frame, size, back, COUNT * sizeof *back - 1, NULL));
        expect(KNARR_USAGE, knarr_compress(context, values, KNARR_FLOAT64, 4, shape, frame, size - 1, &bound));

        knarr_hints observed;
        knarr_validation found = {.size = sizeof found};
        if (knarr_hints_init(&observed, sizeof observed)) return 1;
        if (knarr_validate(context, frame, size, values, KNARR_FLOAT64, 4, shape, &observed, &found)) return 1;
        if (!found.holds) return 1;

        double *damaged = malloc(COUNT * sizeof *damaged);
        for (size_t at = 0; at < size; at++) {
            frame[at] ^= 0x41;
            knarr_status status = knarr_decompress(context, frame, size, damaged, COUNT * sizeof *damaged, NULL);
            if (status == KNARR_OK && memcmp(damaged, back, COUNT * sizeof *back)) return 1;
            frame[at] ^= 0x41;
        }
        for (size_t length = 0; length < size; length += 7) {
            unsigned char *cut = malloc(length + 1);
            memcpy(cut, frame, length);
            expect(KNARR_CORRUPT, knarr_decompress(context, cut, length, damaged, COUNT * sizeof *damaged, NULL));
            free(cut);
        }

        char *text = malloc(10);
        size_t length;
        if (knarr_explain(context, values, KNARR_FLOAT64, 4, shape, text, 10, &length)) return 1;
        if (strlen(text) != 9 || length < 20) return 1;
        free(text);
        knarr_context_free(context);
        free(values), free(back), free(damaged), free(frame);
    }
    knarr_hints hints;
    if (knarr_hints_init(&hints, sizeof hints)) return 1;
    expect(KNARR_USAGE, knarr_hints_set(&hints, "max_abs_error"));
    hints.goal[0] = 'x';
    knarr_context *none;
    expect(KNARR_USAGE, knarr_context_create(&hints, &none));
    expect(KNARR_USAGE, knarr_context_create(NULL, NULL));
    knarr_context_free(NULL);
    if (none != NULL) return 1;
    printf("%d calls refused\n", refused);
    return 0;
}
