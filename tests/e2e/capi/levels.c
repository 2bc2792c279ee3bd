/* Steps of an array on "nodes" of at most two ranks, each with a directory of its own, and one in memory if
 * OPTIONS say of it: levels SETS LOCAL STEPS OPTIONS. Every rank
 * checks all values of the step from which it goes on, and rank 0 says which steps are complete. */
#include <mpi.h>

#include <knarr.h>
#include <knarr_comm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 40000 };

static void check(knarr_status status) {
    if (status == KNARR_OK) return;
    fprintf(stderr, "%s\n", knarr_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Noise, so that packed files have some length. */
static double value(int64_t step, size_t at) {
    uint64_t bits = ((uint64_t)step * NUMBERS + at + 1) * 0x9e3779b97f4a7c15u;
    return (double)((bits ^ bits >> 29) * 0xbf58476d1ce4e5b9u >> 12);
}

static void tell(knarr_checkpoint *checkpoint) {
    char text[4096];
    size_t length;
    check(knarr_checkpoint_warnings(checkpoint, text, sizeof text, &length));
    if (length > 0) fprintf(stderr, "warning: %s\n", text);
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    int rank, ranks, provided;
    char options[4096];
    struct knarr_comm table;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (knarr_mpi_table(MPI_COMM_WORLD, &table) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
    table.node = rank / 2 * 2;
    int length = snprintf(options, sizeof options, "local=%s/node-%d %s", argv[2], (int)table.node, argv[4]);
    if (strstr(argv[4], "memory_keep") != NULL)
        snprintf(options + length, sizeof options - length, " memory=%s/memory-%d", argv[2], (int)table.node);
    size_t first = (size_t)NUMBERS * rank / ranks, count = (size_t)NUMBERS * (rank + 1) / ranks - first, whole = NUMBERS;
    double *all = malloc(NUMBERS * sizeof *all);

    knarr_checkpoint *checkpoint;
    knarr_restart *restart;
    int64_t step = 0, before, steps = atoll(argv[3]);
    check(knarr_checkpoint_open(argv[1], options, &table, &checkpoint));
    check(knarr_checkpoint_restart(checkpoint, KNARR_LATEST, 1, &restart));
    if (restart != NULL) {
        size_t none = 0;
        check(knarr_restart_about(restart, &step, &before));
        check(knarr_restart_read(restart, "T", all, KNARR_FLOAT64, 1, &whole, &none));
        knarr_restart_free(restart);
        for (size_t at = 0; at < NUMBERS; at++)
            if (all[at] != value(step, at)) {
                fprintf(stderr, "rank %d: another value than step %lld had\n", rank, (long long)step);
                MPI_Abort(MPI_COMM_WORLD, 3);
            }
    }
    tell(checkpoint);
    if (rank == 0) printf("from %lld\n", (long long)step);
    fflush(stdout);
    while (step < steps) {
        step++;
        for (size_t at = 0; at < count; at++) all[at] = value(step, first + at);
        check(knarr_checkpoint_begin(checkpoint, step));
        check(knarr_checkpoint_put(checkpoint, "T", all, KNARR_FLOAT64, 1, &count, &whole, &first));
        check(knarr_checkpoint_commit(checkpoint));
        check(knarr_checkpoint_wait(checkpoint));
        tell(checkpoint);
        if (rank == 0) printf("complete %lld\n", (long long)step);
        fflush(stdout);
    }
    check(knarr_checkpoint_close(checkpoint));
    free(all);
    MPI_Finalize();
    return 0;
}
