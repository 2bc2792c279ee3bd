/* Wrong calls of the output functions, each of which has to be an error with a message, and right ones between them. */
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

static const char *plane[2] = {"y", "x"};
static const size_t count[2] = {3, 4}, start[2] = {1, 0}, far[2] = {2, 0};

/* A file of 4 x 4 with a variable T. */
static knarr_output *begun(const char *path) {
    knarr_output *output;
    NEED(knarr_output_create(path, "replace=yes jobs=1", NULL, &output) == KNARR_OK);
    NEED(knarr_output_def_dim(output, "y", 4) == KNARR_OK);
    NEED(knarr_output_def_dim(output, "x", 4) == KNARR_OK);
    NEED(knarr_output_def_var(output, "T", KNARR_FLOAT32, 2, plane, NULL) == KNARR_OK);
    return output;
}

int main(int argc, char **argv) {
    NEED(argc == 2);
    const char *path = argv[1];
    float values[12];
    for (int i = 0; i < 12; i++) values[i] = (float)i / 3;
    knarr_output *output = (knarr_output *)values;
    NEED(knarr_output_create(path, "goal", NULL, &output) == KNARR_USAGE && output == NULL);
    NEED(knarr_output_create(path, "colour=red", NULL, &output) == KNARR_USAGE);
    NEED(strstr(knarr_last_error(), "option 'colour=red'") != NULL);
    NEED(knarr_output_create(NULL, NULL, NULL, &output) == KNARR_USAGE);
    NEED(knarr_output_create(path, NULL, NULL, NULL) == KNARR_USAGE);
    NEED(knarr_output_create("nowhere/at/all.nc", NULL, NULL, &output) == KNARR_NOT_FOUND && output == NULL);
    NEED(knarr_output_end_step(NULL) == KNARR_USAGE);
    NEED(knarr_output_close(NULL) == KNARR_OK);

    /* Whatever was wrong: programs do not look at every status, and get no file that lacks something. */
    for (int wrong = 0; wrong < 16; wrong++) {
        output = begun(path);
        knarr_status found = KNARR_OK;
        switch (wrong) {
        case 0: found = knarr_output_def_dim(output, NULL, 4); break;
        case 1: found = knarr_output_def_dim(output, "y", 4); break;
        case 2: found = knarr_output_def_var(output, "U", 99, 2, plane, NULL); break;
        case 3: found = knarr_output_def_var(output, "U", KNARR_FLOAT32, 2, NULL, NULL); break;
        case 4: found = knarr_output_def_var(output, "U", KNARR_FLOAT32, -1, plane, NULL); break;
        case 5: found = knarr_output_def_var(output, "U", KNARR_FLOAT32, 2, plane, "colour=red"); break;
        case 6: found = knarr_output_def_var(output, "U", KNARR_FLOAT32, 2, plane, "max_abs_error"); break;
        case 7: found = knarr_output_put_att_text(output, "T", "units", NULL); break;
        case 8: found = knarr_output_put_att_text(output, "U", "units", "K"); break;
        case 9: found = knarr_output_put_att(output, "T", "_FillValue", KNARR_FLOAT64, 1, values); break;
        case 10: found = knarr_output_put_att(output, NULL, "a", KNARR_FLOAT32, 0, values); break;
        case 11: found = knarr_output_put(output, "U", values, KNARR_FLOAT32, 2, count, start); break;
        case 12: found = knarr_output_put(output, "T", NULL, KNARR_FLOAT32, 2, count, start); break;
        case 13: found = knarr_output_put(output, "T", values, KNARR_FLOAT32, 2, count, far); break;
        case 14: found = knarr_output_put(output, "T", values, KNARR_INT32, 2, count, start); break;
        default: found = knarr_output_put(output, "T", values, KNARR_FLOAT32, 1, count, NULL);
        }
        NEED(found == KNARR_USAGE && strlen(knarr_last_error()) > 0);
        NEED(knarr_output_end_step(output) == KNARR_USAGE);
        NEED(knarr_output_commit(output) == KNARR_USAGE);
        NEED(knarr_output_close(output) == KNARR_USAGE);
        FILE *file = fopen(path, "r");
        NEED(file == NULL);
    }

    char notes[100];
    size_t length = 99;
    int32_t done = -1;
    output = begun(path);
    NEED(knarr_output_test(output, &done) == KNARR_USAGE && done == -1);
    NEED(knarr_output_put(output, "T", values, KNARR_FLOAT32, 2, count, start) == KNARR_OK);
    NEED(knarr_output_notes(output, notes, sizeof notes, &length) == KNARR_OK && length == 0);
    NEED(knarr_output_commit(output) == KNARR_OK);
    NEED(knarr_output_put(output, "T", values, KNARR_FLOAT32, 2, count, start) == KNARR_USAGE);
    NEED(knarr_output_commit(output) == KNARR_USAGE);
    NEED(knarr_output_wait(output) == KNARR_OK);
    NEED(knarr_output_test(output, &done) == KNARR_OK && done == 1);
    NEED(knarr_output_close(output) == KNARR_OK);
    NEED(knarr_output_create(path, NULL, NULL, &output) == KNARR_EXISTS && output == NULL);
    printf("all errors are errors\n");
    return 0;
}
