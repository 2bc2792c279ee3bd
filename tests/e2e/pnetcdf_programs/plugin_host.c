/* Loads a plugin as Python loads its modules: what it is linked with is seen by nobody else. usage: plugin_host PLUGIN FILE */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

int main(int count, char **words) {
    MPI_Init(&count, &words);
    void *plugin = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
    if (!plugin) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    int (*go)(const char *) = (int (*)(const char *))dlsym(plugin, "go");
    int code = go(words[2]);
    MPI_Finalize();
    return code ? 3 : 0;
}
