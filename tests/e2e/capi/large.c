/* An array of more than 2 GiB, which 31 bits do not count, comes back through each chain of the arguments; "" is chosen. */
#include <knarr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 65551, COLUMNS = 32768, BLOCK = 512, MARKED = 97 };

static int comes_back(const char *chain, const unsigned char *values, unsigned char *frame, size_t bound, unsigned char *back) {
    const size_t shape[2] = {ROWS, COLUMNS}, count = shape[0] * shape[1];
    size_t size, written;
    knarr_hints hints;
    knarr_context *context;
    if (knarr_hints_init(&hints, sizeof hints) || knarr_hints_set(&hints, "goal=speed")) return 0;
    snprintf(hints.chain, sizeof hints.chain, "%s", chain);
    if (knarr_context_create(&hints, &context)) return 0;
    if (knarr_compress(context, values, KNARR_UINT8, 2, shape, frame, bound, &size)) {
        fprintf(stderr, "%s\n", knarr_last_error());
        return 0;
    }
    knarr_info info = {.size = sizeof info};
    if (knarr_inspect(context, frame, size, &info) || info.raw_size != count) return 0;
    /* What an earlier chain gave back is not what this one gives. */
    for (size_t i = 0; i < count; i += BLOCK) back[i] = (unsigned char)~values[i];
    if (knarr_decompress(context, frame, size, back, count, &written) || written != count) return 0;
    if (memcmp(values, back, count)) return 0;
    printf("%zu bytes in %zu, %s\n", count, size, info.chain);
    knarr_context_free(context);
    return 1;
}

int main(int argc, char **argv) {
    const size_t shape[2] = {ROWS, COLUMNS}, count = shape[0] * shape[1];
    size_t bound;
    if (knarr_compress_bound(KNARR_UINT8, 2, shape, &bound)) return 2;
    unsigned char *values = malloc(count), *frame = malloc(bound), *back = malloc(count);
    if (!values || !frame || !back) return 2;
    for (size_t i = 0; i < count; i += BLOCK) memset(values + i, (int)((i / BLOCK) * 7 % 256), BLOCK);
    for (size_t i = 0; i < count; i += MARKED) values[i]++;
    for (int argument = 1; argument < argc; argument++) {
        if (!comes_back(argv[argument], values, frame, bound, back)) return 1;
    }
    free(values), free(frame), free(back);
    return 0;
}
