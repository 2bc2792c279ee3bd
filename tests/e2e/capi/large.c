/* An array of more than 2 GiB, which 31 bits do not count, comes back; the chain is the argument, chosen without one. */
#include <knarr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    const size_t shape[2] = {65551, 32768}, count = shape[0] * shape[1];
    unsigned char *values = malloc(count);
    size_t bound, size, written;
    if (!values || knarr_compress_bound(KNARR_UINT8, 2, shape, &bound)) return 2;
    for (size_t i = 0; i < count; i++) values[i] = (unsigned char)((i >> 9) * 7 + (i % 97 == 0));
    knarr_hints hints;
    knarr_context *context;
    if (knarr_hints_init(&hints, sizeof hints) || knarr_hints_set(&hints, "goal=speed")) return 2;
    if (argc > 1) snprintf(hints.chain, sizeof hints.chain, "%s", argv[1]);
    if (knarr_context_create(&hints, &context)) return 2;
    unsigned char *frame = malloc(bound);
    if (!frame) return 2;
    if (knarr_compress(context, values, KNARR_UINT8, 2, shape, frame, bound, &size)) {
        fprintf(stderr, "%s\n", knarr_last_error());
        return 1;
    }
    unsigned char *back = malloc(count);
    knarr_info info = {.size = sizeof info};
    if (!back || knarr_inspect(context, frame, size, &info) || info.raw_size != count) return 1;
    if (knarr_decompress(context, frame, size, back, count, &written) || written != count) return 1;
    if (memcmp(values, back, count)) return 1;
    printf("%zu bytes in %zu, %s\n", count, size, info.chain);
    knarr_context_free(context);
    free(values), free(frame), free(back);
    return 0;
}
