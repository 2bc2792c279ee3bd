/* Ranks of one job and messages between them, as a table of functions.
 *
 * Knarr calls MPI through this table only, so one Knarr serves every MPI: what depends on an MPI's ABI is compiled with
 * that MPI. A program may fill the table itself.
 *
 * All functions are called by one thread, which is the one that made the table. send and receive return 0, or a code that
 * `message` explains; after that only `end` and `abort` may be called. No rank sends to itself. */
#ifndef KNARR_COMM_H
#define KNARR_COMM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of this header. A table with another one is refused. */
#define KNARR_COMM_VERSION 2

struct knarr_comm {
    int32_t version;
    int32_t rank;
    int32_t size;
    /* The lowest rank on the same node. */
    int32_t node;
    /* Handed to every function. */
    void *context;
    /* Sends `length` bytes to rank `to`: any number of them, also none, or more than 2 GiB. It may wait until that rank
     * receives them. */
    int32_t (*send)(void *context, int32_t to, const void *bytes, uint64_t length);
    /* Waits for the next message of rank `from`, in the order in which that rank sent them, and takes it. It goes to where
     * `room(message, length)` says, which has room for `length` bytes. Who cannot know the length beforehand calls it
     * again with a larger one: what was put there stays. It is called once at least, and after the last call the message
     * has that length. Null, if there is no memory, is to be an error. */
    int32_t (*receive)(void *context, int32_t from, void *(*room)(void *message, uint64_t length), void *message);
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
