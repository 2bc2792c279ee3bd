/* Opens a file in a child of vfork, and by a file action of posix_spawn. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int count, char **arguments)
{
    int status;
    pid_t child = vfork();
    if (child == 0)
        _exit(open(arguments[1], O_RDONLY) < 0 ? errno : 0);
    waitpid(child, &status, 0);
    printf("vfork %d\n", WEXITSTATUS(status));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    int code = posix_spawn_file_actions_addopen(&actions, 0, arguments[2], O_RDONLY, 0);
    char *command[] = {"sh", "-c", "head -c 3 >/dev/null && echo read", NULL};
    printf("action %d\n", code);
    fflush(stdout);
    code = posix_spawnp(&child, "sh", &actions, NULL, command, environ);
    printf("spawn %d\n", code);
    if (code == 0)
        waitpid(child, &status, 0);
    return 0;
}
