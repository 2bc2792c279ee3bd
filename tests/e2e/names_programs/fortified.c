/* Opens a file as programs do that are built with _FORTIFY_SOURCE: by __open_2 and its kin, as the flags are not constant. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    int flags = atoi(arguments[2]);
    char path[PATH_MAX];
    int file = open(arguments[1], flags), at = openat(AT_FDCWD, arguments[1], flags);
    printf("%d %d %s\n", file >= 0, at >= 0, realpath(arguments[1], path) ? "resolved" : strerror(errno));
    return 0;
}
