/* Looks at a file while a timer interrupts it again and again. The handler looks at another one. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

static const char *other;
static volatile int handled, failed;

static void handle(int signal)
{
    int saved = errno;
    handled++;
    failed += access(other, R_OK) != 0;
    errno = saved;
}

int main(int count, char **arguments)
{
    struct sigaction action = {.sa_handler = handle};
    struct itimerval every = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    struct stat found;
    other = arguments[2];
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    int code = stat(arguments[1], &found), reason = errno;
    while (handled < 3)
        pause();
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%d %s %d\n", code, code ? strerror(reason) : "", failed);
    return 0;
}
