/* Writes numbers of all types, or reads each of them as each type and prints what comes: values that a type cannot hold, too.
 *
 * usage: ranges write|read FILE */
#include <mpi.h>
#include <pnetcdf.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LENGTH = 8, TYPES = 10 };

static const nc_type types[TYPES] = {NC_DOUBLE, NC_FLOAT, NC_INT64, NC_UINT64, NC_INT, NC_UINT, NC_SHORT, NC_USHORT, NC_BYTE, NC_UBYTE};
static const char *names[TYPES] = {"double", "float", "int64", "uint64", "int", "uint", "short", "ushort", "byte", "ubyte"};

#define GET(type, name, format)                                                                                        \
    for (int at = 0; at < TYPES; at++) {                                                                               \
        type found[LENGTH];                                                                                            \
        int variable;                                                                                                  \
        memset(found, 77, sizeof found);                                                                               \
        ncmpi_inq_varid(id, names[at], &variable);                                                                     \
        int code = ncmpi_get_var_##name##_all(id, variable, found);                                                    \
        printf("%s as %s: %s", names[at], #name, ncmpi_strerrno(code));                                                \
        for (int i = 0; i < LENGTH; i++) printf(" " format, found[i]);                                                 \
        printf("\n");                                                                                                  \
    }

int main(int argc, char **argv) {
    int id, dim, all[TYPES];
    MPI_Init(&argc, &argv);
    if (argc < 3) return 64;
    if (strcmp(argv[1], "write") == 0) {
        ncmpi_create(MPI_COMM_WORLD, argv[2], NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id);
        ncmpi_def_dim(id, "x", LENGTH, &dim);
        for (int at = 0; at < TYPES; at++) ncmpi_def_var(id, names[at], types[at], 1, &dim, &all[at]);
        short fill = 7;
        ncmpi_put_att_short(id, all[6], "_FillValue", NC_SHORT, 1, &fill);
        ncmpi_enddef(id);
        double reals[LENGTH] = {1.5, INFINITY, 1e40, 70000, -12.5, 5, -70000, 9.5e18};
        ncmpi_put_var_double_all(id, all[0], reals);
        reals[1] = reals[2] = 1e30;
        ncmpi_put_var_double_all(id, all[1], reals);
        long long whole[LENGTH] = {1, -1, 70000, -70000, 5000000000LL, -5000000000LL, 200, -200};
        unsigned long long natural[LENGTH] = {1, 200, 300, 70000, 5000000000ULL, 10000000000000000000ULL, 127, 65535};
        ncmpi_put_var_longlong_all(id, all[2], whole);
        ncmpi_put_var_ulonglong_all(id, all[3], natural);
        int ints[LENGTH] = {1, -1, 70000, -70000, 200, -200, 40000, 128};
        unsigned uints[LENGTH] = {1, 200, 300, 70000, 4000000000u, 128, 127, 65535};
        ncmpi_put_var_int_all(id, all[4], ints);
        ncmpi_put_var_uint_all(id, all[5], uints);
        short shorts[LENGTH] = {1, -1, 200, -200, 127, 128, -128, -129};
        unsigned short ushorts[LENGTH] = {1, 40000, 200, 300, 127, 128, 255, 256};
        ncmpi_put_var_short_all(id, all[6], shorts);
        ncmpi_put_var_ushort_all(id, all[7], ushorts);
        signed char bytes[LENGTH] = {1, -1, 127, -128, 5, 6, 7, 8};
        unsigned char ubytes[LENGTH] = {1, 200, 127, 128, 255, 6, 7, 8};
        ncmpi_put_var_schar_all(id, all[8], bytes);
        ncmpi_put_var_uchar_all(id, all[9], ubytes);
        ncmpi_close(id);
    } else {
        ncmpi_open(MPI_COMM_WORLD, argv[2], NC_NOWRITE, MPI_INFO_NULL, &id);
        GET(signed char, schar, "%d")
        GET(unsigned char, uchar, "%d")
        GET(short, short, "%d")
        GET(unsigned short, ushort, "%d")
        GET(int, int, "%d")
        GET(unsigned, uint, "%u")
        GET(float, float, "%g")
        GET(double, double, "%g")
        GET(long long, longlong, "%lld")
        GET(unsigned long long, ulonglong, "%llu")
        ncmpi_close(id);
    }
    MPI_Finalize();
    return 0;
}
