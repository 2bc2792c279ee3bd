/* The life of a file that one process writes with calls of the system: F, and behind it the rows of T. */
#include "life.h"

#include <errno.h>
#include <sys/stat.h>

static int file = -1;

static const char *suffix(void) {
    return ".bin";
}

static const char *path_of(void) {
    static char path[80];
    snprintf(path, sizeof path, "%s.bin", name);
    return path;
}

static int code_of(int returned) {
    return returned < 0 ? errno : 0;
}

/* It gets its name when it is there, as programs do that replace a file. */
static int make(void) {
    char begun[80];
    snprintf(begun, sizeof begun, "%s.begun.bin", name);
    if ((file = open(begun, O_RDWR | O_CREAT | O_TRUNC, 0644)) < 0)
        return errno;
    int code = code_of(rename(begun, path_of()));
    for (int times = 0; code && times < 3 && unlink(begun) != 0; times++)
        ;
    if (code)
        close(file);
    return code;
}

static off_t at(int row, int owner) {
    return (off_t)sizeof(int) * part * ((row + 1) * size + owner);
}

static int put(int row, const int *numbers, int together) {
    const char *next = (const char *)numbers;
    off_t place = at(row, rank), end = place + (off_t)sizeof(int) * part;
    (void)together;
    while (place < end) {
        ssize_t written = pwrite(file, next, (size_t)(end - place), place);
        if (written < 0 && errno != EINTR)
            return errno;
        if (written > 0) {
            next += written;
            place += written;
        }
    }
    return 0;
}

static int put_two(int row, const int *numbers, const int *behind) {
    int code = put(row, numbers, 1);
    return code ? code : put(row + 1, behind, 1);
}

static int get(int row, int owner, int *numbers) {
    char *next = (char *)numbers;
    off_t place = at(row, owner), end = place + (off_t)sizeof(int) * part;
    memset(numbers, 0, (size_t)(end - place));
    while (place < end) {
        ssize_t read = pread(file, next, (size_t)(end - place), place);
        if (read < 0 && errno != EINTR)
            return errno;
        if (read == 0)
            return 0;
        if (read > 0) {
            next += read;
            place += read;
        }
    }
    return 0;
}

static int sync_all(void) {
    return code_of(fsync(file));
}

static int end(void) {
    int code = code_of(close(file));
    file = -1;
    return code;
}

static int give_up(void) {
    int code = code_of(unlink(path_of()));
    int closed = end();
    return code ? code : closed;
}

static int define(void) {
    return code_of(chmod(path_of(), 0600));
}

static int begin(int writes) {
    file = open(path_of(), writes ? O_RDWR : O_RDONLY);
    return code_of(file);
}

static int rows_of(void) {
    struct stat found;
    if (fstat(file, &found) != 0)
        return rows;
    long row = (long)sizeof(int) * part * size, all = (long)(found.st_size + row - 1) / row;
    return all > 0 ? (int)all - 1 : 0;
}
