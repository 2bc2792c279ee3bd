/* What all ways to write a step share. */
#ifndef STEPS_H
#define STEPS_H
#include <stddef.h>

enum { VARIABLES = 4, DEPTH = 64, SIDE = 512, HALF = SIDE / 2 };

/* How a rank writes its block of a variable: in how many calls, and with the other ranks or by itself. */
struct how {
    int calls, independent;
};

extern int rank;
extern float *block[VARIABLES];
/* Values of a block, its place and its shape. */
extern size_t values, start[3], count[3];

const char *name_of(int variable);
void check(int code, const char *what, const char *why);

/* Each rank a file, by write(2). */
void write_posix(const char *path, struct how how);
/* One file, by MPI-IO, without a format: variables lie one after another. */
void write_mpiio(const char *path, struct how how);
/* One file, by parallel HDF5, contiguous. */
void write_hdf5(const char *path, struct how how);

#endif
