/* Heat in a plane, one band of rows on each rank, with a checkpoint every 10 steps. Start it again, on any number of ranks,
 * and it goes on from the last one: heat DIRECTORY STEPS. Without -DUSE_MPI it is one process. */
#ifdef USE_MPI
#include <mpi.h>
#include <knarr_comm.h>
#endif
#include <knarr.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 120, COLUMNS = 80 };
static double band[ROWS + 2][COLUMNS], next[ROWS + 2][COLUMNS];

static void check(knarr_status status) {
    if (status == KNARR_OK) return;
    fprintf(stderr, "%s\n", knarr_last_error());
#ifdef USE_MPI
    MPI_Abort(MPI_COMM_WORLD, 1);
#endif
    exit(1);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    int rank = 0, ranks = 1;
    const knarr_comm *comm = NULL;
#ifdef USE_MPI
    int provided;
    struct knarr_comm table;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (knarr_mpi_table(MPI_COMM_WORLD, &table) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
    comm = &table;
#endif
    const size_t first = (size_t)ROWS * rank / ranks, rows = (size_t)ROWS * (rank + 1) / ranks - first;
    const size_t whole[2] = {ROWS, COLUMNS}, start[2] = {first, 0}, count[2] = {rows, COLUMNS};

    knarr_checkpoint *checkpoint;
    knarr_restart *restart;
    int64_t step = 0, steps = atoll(argv[2]);
    check(knarr_checkpoint_open(argv[1], "keep=2", comm, &checkpoint));
    check(knarr_checkpoint_restart(checkpoint, KNARR_LATEST, 0, &restart));
    if (restart != NULL) {
        int64_t before;
        check(knarr_restart_about(restart, &step, &before));
        check(knarr_restart_read(restart, "T", band[1], KNARR_FLOAT64, 2, count, start));
        knarr_restart_free(restart);
        printf("rank %d: from step %lld of %lld ranks\n", rank, (long long)step, (long long)before);
    } else {
        for (size_t j = 0; j < rows; j++)
            for (size_t i = 0; i < COLUMNS; i++) band[j + 1][i] = sin(0.05 * (double)(first + j)) * cos(0.1 * (double)i);
    }
    while (step < steps) {
        for (size_t i = 0; i < COLUMNS; i++) band[0][i] = band[rows + 1][i] = 0;
#ifdef USE_MPI
        int up = rank > 0 ? rank - 1 : MPI_PROC_NULL, down = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
        MPI_Sendrecv(band[1], COLUMNS, MPI_DOUBLE, up, 0, band[rows + 1], COLUMNS, MPI_DOUBLE, down, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(band[rows], COLUMNS, MPI_DOUBLE, down, 1, band[0], COLUMNS, MPI_DOUBLE, up, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
#endif
        for (size_t j = 1; j <= rows; j++)
            for (size_t i = 1; i + 1 < COLUMNS; i++)
                next[j][i] = band[j][i] + 0.2 * (band[j - 1][i] + band[j + 1][i] + band[j][i - 1] + band[j][i + 1] - 4 * band[j][i]);
        for (size_t j = 1; j <= rows; j++)
            for (size_t i = 1; i + 1 < COLUMNS; i++) band[j][i] = next[j][i];
        if (++step % 10 == 0) {
            check(knarr_checkpoint_begin(checkpoint, step));
            check(knarr_checkpoint_put(checkpoint, "T", band[1], KNARR_FLOAT64, 2, count, whole, start));
            check(knarr_checkpoint_commit(checkpoint)); /* packed while the next steps are computed */
        }
    }
    check(knarr_checkpoint_close(checkpoint));
#ifdef USE_MPI
    MPI_Finalize();
#endif
    return 0;
}
