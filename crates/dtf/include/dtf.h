/* DTF's functions, as Knarr has them. A program that calls them is linked with -ldtf; under `knarr run` they have the effect
 * that docs/transfer.md describes, otherwise none. Fortran programs call the same names as external subroutines. */
#ifndef KNARR_DTF_H
#define KNARR_DTF_H

#ifdef __cplusplus
extern "C" {
#endif

/* After MPI_Init. Returns 0; under `knarr run` 1 if the component is not that of --as. */
int dtf_init(const char *configuration, const char *component);

/* Before MPI_Finalize. Returns 0. */
int dtf_finalize(void);

/* Collective among the ranks that have the file open. What was put so far is complete; what was asked for is there. `id` is
 * that of PnetCDF, or -1. Returns 0, or an error of PnetCDF. */
int dtf_transfer(const char *path, int id);

/* The same for all open files. */
int dtf_transfer_all_files(void);

/* As dtf_transfer, which can be called again and again. */
void dtf_transfer_multiple(const char *path, int id);
void dtf_complete_multiple(const char *path, int id);

/* No effect. */
void dtf_time_start(void);
void dtf_time_end(void);

#ifdef __cplusplus
}
#endif

#endif
