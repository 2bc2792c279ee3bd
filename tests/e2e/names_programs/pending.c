/* All ranks write a file of 32-bit integers with PnetCDF or parallel HDF5 and close it. Then rank 0 uses its name, without
 * waiting for anything:
 *
 *   pending FILE COUNT STEP...
 *
 * COUNT is the number of values of each rank. A STEP is one of the words below, or a command for the shell. What came of each
 * is printed. Steps between '+' and the next one begin with writing the file again. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef WITH_HDF5
#include <hdf5.h>
#else
#include <pnetcdf.h>
#endif

static int rank, size, round_number;

static void write_file(const char *name, MPI_Offset count)
{
    int *values = malloc(count * sizeof *values);
    unsigned seed = 17 * round_number + rank + 1;
    for (MPI_Offset i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = seed >> 12;
    }
    round_number++;
#ifdef WITH_HDF5
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    hsize_t all = count * size, start = rank * count, own = count;
    hid_t space = H5Screate_simple(1, &all, NULL), memory = H5Screate_simple(1, &own, NULL);
    hid_t dataset = H5Dcreate2(file, "T", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &own, NULL);
    H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, values);
    H5Dclose(dataset);
    int code = H5Fclose(file);
    H5Pclose(access);
#else
    int file, dimension, variable;
    MPI_Offset start = rank * count;
    ncmpi_create(MPI_COMM_WORLD, name, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file);
    ncmpi_def_dim(file, "x", count * size, &dimension);
    ncmpi_def_var(file, "T", NC_INT, 1, &dimension, &variable);
    ncmpi_enddef(file);
    ncmpi_put_vara_int_all(file, variable, &start, &count, values);
    int code = ncmpi_close(file);
#endif
    if (code != 0)
        printf("close %d\n", code);
    free(values);
}

static void tell(const char *step, int code)
{
    printf("%s %d %s\n", step, code, code < 0 ? strerror(errno) : "");
    fflush(stdout);
}

static void put_text(const char *name, const char *mode)
{
    FILE *file = fopen(name, mode);
    tell(mode, file == NULL ? -1 : 0);
    if (file != NULL) {
        fputs("text\n", file);
        fclose(file);
    }
}

static void use(const char *name, const char *step)
{
    char other[4096];
    struct stat found;
    int code;
    snprintf(other, sizeof other, "%s.other", name);
    if (!strcmp(step, "unlink"))
        tell(step, unlink(name));
    else if (!strcmp(step, "remove"))
        tell(step, remove(name));
    else if (!strcmp(step, "rename"))
        tell(step, rename(name, other));
    else if (!strcmp(step, "onto")) {
        put_text(other, "w");
        tell(step, rename(other, name));
    } else if (!strcmp(step, "link"))
        tell(step, link(name, other));
    else if (!strcmp(step, "stat"))
        tell(step, (code = stat(name, &found)) < 0 ? code : found.st_size > 1000);
    else if (!strcmp(step, "access"))
        tell(step, access(name, R_OK));
    else if (!strcmp(step, "open")) {
        tell(step, (code = open(name, O_RDONLY)) < 0 ? code : 0);
        close(code);
    } else if (!strcmp(step, "exclusive")) {
        tell(step, (code = open(name, O_WRONLY | O_CREAT | O_EXCL, 0666)) < 0 ? code : 0);
        close(code);
    } else if (!strcmp(step, "mkdir"))
        tell(step, mkdir(name, 0777));
    else if (!strcmp(step, "truncate"))
        tell(step, truncate(name, 0));
    else if (!strcmp(step, "chmod"))
        tell(step, chmod(name, 0600));
    else if (!strcmp(step, "write"))
        put_text(name, "w");
    else if (!strcmp(step, "append"))
        put_text(name, "a");
    else if (!strcmp(step, "delete"))
        tell(step, MPI_File_delete((char *)name, MPI_INFO_NULL) == MPI_SUCCESS ? 0 : 1);
#ifdef WITH_HDF5
    else if (!strcmp(step, "serial")) {
        hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), space = H5Screate(H5S_SCALAR);
        hid_t dataset = H5Dcreate2(file, "new", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &size);
        H5Dclose(dataset);
        tell(step, H5Fclose(file));
    }
#else
    else if (!strcmp(step, "ncmpi_delete"))
        tell(step, ncmpi_delete(name, MPI_INFO_NULL));
#endif
    else
        tell("command", system(step));
}

int main(int count, char **arguments)
{
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    write_file(arguments[1], atol(arguments[2]));
    for (int at = 3; at < count; at++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (!strcmp(arguments[at], "+"))
            write_file(arguments[1], atol(arguments[2]));
        else if (rank == 0)
            use(arguments[1], arguments[at]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
