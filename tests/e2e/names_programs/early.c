/* A library whose constructor uses files, before that of any library behind it. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((constructor)) static void begin(void)
{
    struct stat found;
    int file = open("/etc/passwd", O_RDONLY);
    if (file < 0 || stat("/etc/passwd", &found) < 0 || access("/nowhere", R_OK) == 0 || fopen("/nowhere", "r") != NULL)
        _exit(99);
    close(file);
}
