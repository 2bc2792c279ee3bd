/* The table of knarr_comm.h over MPI. Compile it with the mpicc of the MPI that it is for:
 *
 *     mpicc -O2 -fPIC -shared knarr_mpi.c -o libknarr_mpi-openmpi.so      (or -mpich.so)
 */
#define _POSIX_C_SOURCE 199309L
#include <mpi.h>

#include "knarr_comm.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Bytes that MPI moves at once: counts of MPI 3 are ints. A longer message goes in pieces of so many, the last of which is
 * shorter, if need be empty. All ranks need the same number. Tests take a small one. */
#ifndef KNARR_LONGEST_PIECE
#define KNARR_LONGEST_PIECE (1 << 30)
#endif
/* There are no other messages in a communicator of the table's own. */
#define TAG 1
/* MPI libraries keep the processor while they wait, and other ranks of the node need it for packing. So a waiting rank
 * asks again and again: at first it only yields in between, later it sleeps. What it sleeps is a small part of what it has
 * waited, because in a tree the delays of all ranks on the way add up. */
#define ASKED_AT_ONCE 100
#define NAPS_OF_A_LENGTH 16
#define LONGEST_NAP_NS 1000000L

struct waiting {
    long asked;
    struct timespec nap;
};

static const struct waiting BEGIN = {0, {0, 1000}};

struct context {
    MPI_Comm comm;
    int rank;
    int size;
    /* MPI was started for this table. */
    int started;
};

static void before_asking_again(struct waiting *waiting) {
    waiting->asked++;
    if (waiting->asked <= ASKED_AT_ONCE) {
        sched_yield();
        return;
    }
    nanosleep(&waiting->nap, NULL);
    if (waiting->asked % NAPS_OF_A_LENGTH == 0 && waiting->nap.tv_nsec < LONGEST_NAP_NS) waiting->nap.tv_nsec *= 2;
}

static int wait_for(MPI_Request *request) {
    struct waiting waiting = BEGIN;
    for (;;) {
        int done = 0;
        int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS || done) return code;
        before_asking_again(&waiting);
    }
}

static int32_t send_bytes(void *opaque, int32_t to, const void *bytes, uint64_t length) {
    struct context *context = opaque;
    const char *from = bytes;
    int piece;
    do {
        MPI_Request request;
        piece = length < KNARR_LONGEST_PIECE ? (int)length : KNARR_LONGEST_PIECE;
        int code = MPI_Isend((void *)from, piece, MPI_BYTE, to, TAG, context->comm, &request);
        if (code == MPI_SUCCESS) code = wait_for(&request);
        if (code != MPI_SUCCESS) return code;
        from += piece;
        length -= (uint64_t)piece;
    } while (piece == KNARR_LONGEST_PIECE);
    return 0;
}

/* Waits for the next piece of a message and says how long it is. */
static int length_of_next(struct context *context, int from, int *length) {
    struct waiting waiting = BEGIN;
    for (;;) {
        int here = 0;
        MPI_Status status;
        int code = MPI_Iprobe(from, TAG, context->comm, &here, &status);
        if (code != MPI_SUCCESS) return code;
        if (here) return MPI_Get_count(&status, MPI_BYTE, length);
        before_asking_again(&waiting);
    }
}

static int32_t receive_bytes(void *opaque, int32_t from, void *(*room)(void *message, uint64_t length),
                             void *message) {
    struct context *context = opaque;
    uint64_t length = 0;
    int piece;
    do {
        MPI_Request request;
        int code = length_of_next(context, from, &piece);
        if (code != MPI_SUCCESS) return code;
        char *all = room(message, length + (uint64_t)piece);
        if (all == NULL) return MPI_ERR_NO_MEM;
        code = MPI_Irecv(all + length, piece, MPI_BYTE, from, TAG, context->comm, &request);
        if (code == MPI_SUCCESS) code = wait_for(&request);
        if (code != MPI_SUCCESS) return code;
        length += (uint64_t)piece;
    } while (piece == KNARR_LONGEST_PIECE);
    return 0;
}

static void message(void *opaque, int32_t code, char *text, uint64_t capacity) {
    char found[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    (void)opaque;
    if (capacity == 0) return;
    if (MPI_Error_string(code, found, &length) != MPI_SUCCESS) strcpy(found, "unknown error");
    strncpy(text, found, capacity - 1);
    text[capacity - 1] = '\0';
}

static void end(void *opaque) {
    struct context *context = opaque;
    int started = context->started;
    MPI_Comm_free(&context->comm);
    free(context);
    if (started) MPI_Finalize();
}

static void abort_all(void *opaque, int32_t code) {
    struct context *context = opaque;
    MPI_Abort(context->comm, code);
    /* Not reached: MPI ends this process, too. */
    abort();
}

static int lowest_on_node(MPI_Comm comm, int rank, int *node) {
    MPI_Comm shared;
    int code = MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared);
    if (code != MPI_SUCCESS) return code;
    code = MPI_Allreduce(&rank, node, 1, MPI_INT, MPI_MIN, shared);
    MPI_Comm_free(&shared);
    return code;
}

/* Fills `table` for the ranks of `comm`, which stays the caller's. Collective. Returns 0 or a code of MPI. */
int32_t knarr_mpi_table(MPI_Comm comm, struct knarr_comm *table) {
    int node = 0;
    struct context *context = calloc(1, sizeof *context);
    if (context == NULL) return MPI_ERR_NO_MEM;
    /* A communicator of its own: its messages meet no others, and its errors are returned. */
    int code = MPI_Comm_dup(comm, &context->comm);
    if (code != MPI_SUCCESS) {
        free(context);
        return code;
    }
    MPI_Comm_set_errhandler(context->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(context->comm, &context->rank);
    MPI_Comm_size(context->comm, &context->size);
    code = lowest_on_node(context->comm, context->rank, &node);
    if (code != MPI_SUCCESS) {
        MPI_Comm_free(&context->comm);
        free(context);
        return code;
    }
    table->version = KNARR_COMM_VERSION;
    table->rank = context->rank;
    table->size = context->size;
    table->node = node;
    table->context = context;
    table->send = send_bytes;
    table->receive = receive_bytes;
    table->message = message;
    table->end = end;
    table->abort = abort_all;
    return 0;
}

/* The largest of the numbers of all ranks of a table that knarr_mpi_table filled. Collective. Returns 0 or a code of MPI. */
int32_t knarr_mpi_largest(void *opaque, uint64_t *number) {
    struct context *context = opaque;
    return MPI_Allreduce(MPI_IN_PLACE, number, 1, MPI_UINT64_T, MPI_MAX, context->comm);
}

/* The same for a communicator of Fortran, which is an integer: comm of mpif.h and mpi, comm%mpi_val of mpi_f08. */
int32_t knarr_mpi_table_f(int32_t comm, struct knarr_comm *table) {
    return knarr_mpi_table(MPI_Comm_f2c((MPI_Fint)comm), table);
}

/* Starts MPI for a process whose other threads do not call it, and fills `table` for all ranks; `end` ends MPI. Returns 0
 * or a code of MPI. */
int32_t knarr_mpi_start(struct knarr_comm *table) {
    int provided = MPI_THREAD_SINGLE;
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (code != MPI_SUCCESS) return code;
    if (provided < MPI_THREAD_FUNNELED) {
        MPI_Finalize();
        return MPI_ERR_OTHER;
    }
    code = knarr_mpi_table(MPI_COMM_WORLD, table);
    if (code != 0) {
        MPI_Finalize();
        return code;
    }
    ((struct context *)table->context)->started = 1;
    return 0;
}

static int ends(MPI_Comm comm, int key, void *value, void *state) {
    (void)comm, (void)key, (void)state;
    void (*call)(void);
    memcpy(&call, &value, sizeof call);
    call();
    return MPI_SUCCESS;
}

/* Has `call` called when MPI_Finalize begins, while messages still go: MPI deletes the attributes of MPI_COMM_SELF then, the
 * latest first. Returns 0 or a code of MPI. */
int32_t knarr_mpi_at_end(void (*call)(void)) {
    int key;
    void *value;
    memcpy(&value, &call, sizeof value);
    int code = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, ends, &key, NULL);
    return code == MPI_SUCCESS ? MPI_Comm_set_attr(MPI_COMM_SELF, key, value) : code;
}
