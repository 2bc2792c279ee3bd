/* What all ways to write a step share: the block of values that a rank has. */
#ifndef BLOCK_H
#define BLOCK_H
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
/* Ends the program on all ranks unless `code` is 0. */
void check(int code, const char *what, const char *why);

#endif
