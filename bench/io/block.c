#include "block.h"
#include <mpi.h>
#include <stdio.h>

int rank;
float *block[VARIABLES];
size_t values, start[3], count[3] = {DEPTH, HALF, 0};

void check(int code, const char *what, const char *why) {
    if (code == 0) return;
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

const char *name_of(int variable) {
    static const char *NAMES[VARIABLES] = {"T", "U", "V", "Q"};
    return NAMES[variable];
}
