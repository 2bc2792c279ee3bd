/* The history of a plane, one band of rows on each rank, as one file: history OUT.nc (or OUT.zarr, OUT.h5). Without
 * -DUSE_MPI it is one process. */
#ifdef USE_MPI
#include <mpi.h>
#include <knarr_comm.h>
#endif
#include <knarr.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 5, ROWS = 120, COLUMNS = 80 };
static float band[ROWS][COLUMNS];

static void check(knarr_status status) {
    if (status == KNARR_OK) return;
    fprintf(stderr, "%s\n", knarr_last_error());
#ifdef USE_MPI
    MPI_Abort(MPI_COMM_WORLD, 1);
#endif
    exit(1);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
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

    /* All ranks define the same things. */
    const char *plane[3] = {"time", "y", "x"};
    const float fill = -999;
    knarr_output *output;
    check(knarr_output_create(argv[1], "goal=ratio", comm, &output));
    check(knarr_output_def_dim(output, "time", KNARR_UNLIMITED));
    check(knarr_output_def_dim(output, "y", ROWS));
    check(knarr_output_def_dim(output, "x", COLUMNS));
    check(knarr_output_def_var(output, "time", KNARR_FLOAT64, 1, plane, NULL));
    check(knarr_output_def_var(output, "T", KNARR_FLOAT32, 3, plane, "max_abs_error=0.001"));
    check(knarr_output_put_att_text(output, "time", "units", "hours since 2000-01-01"));
    check(knarr_output_put_att_text(output, "T", "units", "K"));
    check(knarr_output_put_att(output, "T", "_FillValue", KNARR_FLOAT32, 1, &fill));
    check(knarr_output_put_att_text(output, NULL, "title", "a plane"));

    for (size_t step = 0; step < STEPS; step++) {
        for (size_t j = 0; j < rows; j++)
            for (size_t i = 0; i < COLUMNS; i++)
                band[j][i] = (float)(290 + 10 * sin(0.05 * (double)(first + j) + (double)step) * cos(0.1 * (double)i));
        const size_t start[3] = {step, first, 0}, count[3] = {1, rows, COLUMNS};
        const double hours = 6.0 * (double)step;
        check(knarr_output_put(output, "T", band, KNARR_FLOAT32, 3, count, start)); /* a copy */
        if (rank == 0) check(knarr_output_put(output, "time", &hours, KNARR_FLOAT64, 1, count, start));
        check(knarr_output_end_step(output));
    }
    check(knarr_output_commit(output)); /* from here on the file is made, and the program may compute */
    check(knarr_output_close(output));  /* it is complete and on the disk */
#ifdef USE_MPI
    MPI_Finalize();
#endif
    return 0;
}
