/* Ranks of one job and messages between them, as a table of functions.
 *
 * Knarr calls MPI through this table only, so one Knarr serves every MPI: what depends on an MPI's ABI is compiled with
 * that MPI. A program may fill the table itself.
 *
 * All functions are called by one thread, which is the one that made the table. gather and broadcast are collective. They
 * return 0, or a code that `message` explains; after that only `end` and `abort` may be called. */
#ifndef KNARR_COMM_H
#define KNARR_COMM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of this header. A table with another one is refused. */
#define KNARR_COMM_VERSION 1

struct knarr_comm {
    int32_t version;
    int32_t rank;
    int32_t size;
    /* The lowest rank on the same node. */
    int32_t node;
    /* Handed to every function. */
    void *context;
    /* Brings `length` bytes of each rank to `root`. Only there are `all` and `lengths` given: `lengths` has what each rank
     * sends, and `all` takes it, one rank's bytes after the other's. Any length is allowed, also more than 2 GiB. */
    int32_t (*gather)(void *context, int32_t root, const void *bytes, uint64_t length, void *all,
                      const uint64_t *lengths);
    /* Brings `length` bytes, the same number on all ranks, of `root` to all. */
    int32_t (*broadcast)(void *context, int32_t root, void *bytes, uint64_t length);
    /* Writes what a code means into `text`, cut to `capacity` bytes with the zero at the end. */
    void (*message)(void *context, int32_t code, char *text, uint64_t capacity);
    /* Gives everything back. The table is not used after it. */
    void (*end)(void *context);
    /* Ends all ranks at once, because this one cannot go on. Does not return. */
    void (*abort)(void *context, int32_t code);
};

/* Of knarr_mpi.c, which a program with MPI compiles with its own mpicc: fills a table for the ranks of a communicator, which
 * stays the caller's. Collective. Returns 0 or a code of MPI. */
#ifdef MPI_VERSION
int32_t knarr_mpi_table(MPI_Comm comm, struct knarr_comm *table);
#endif

#ifdef __cplusplus
}
#endif

#endif
