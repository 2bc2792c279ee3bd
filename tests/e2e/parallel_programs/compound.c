/* Writes compounds with parallel HDF5, some of the members at a time: random types, with members in any order and within
 * others, converted or not, into regions that overlap. Reads its own elements back, some of the members, over what is there.
 *
 * usage: compound FILE SEED COUNT
 * Makes COUNT datasets, and prints what rank 0 has read. */
#include <hdf5.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../checked.h"

enum { MOST = 6, ROWS = 12, COLUMNS = 10, CALLS = 7 };

static int rank, size;
static uint64_t state;

static unsigned below(unsigned end) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % end;
}

/* A type: a number, a string, or members; each as often as `times` says, in an array unless that is 0. */
struct node {
    enum { NUMBER, STRING, COMPOUND } kind;
    char name[8];
    unsigned times, count;
    hid_t type; /* with its array */
    hid_t one;  /* without */
    size_t offset;
    struct node *members[MOST];
};

static void shuffle(struct node **all, unsigned count) {
    for (unsigned i = count; i > 1; i--) {
        unsigned j = below(i);
        struct node *one = all[i - 1];
        all[i - 1] = all[j];
        all[j] = one;
    }
}

/* Gives members places in their order, with gaps, and makes a compound of them, in another order. */
static hid_t compound(struct node *of) {
    size_t end = 0;
    for (unsigned i = 0; i < of->count; i++) {
        of->members[i]->offset = end + (below(3) == 0 ? below(6) : 0);
        end = of->members[i]->offset + H5Tget_size(of->members[i]->type);
    }
    hid_t type = OK(H5Tcreate(H5T_COMPOUND, end + (below(3) == 0 ? 3 : 0)));
    shuffle(of->members, of->count);
    for (unsigned i = 0; i < of->count; i++)
        OK(H5Tinsert(type, of->members[i]->name, of->members[i]->offset, of->members[i]->type));
    return type;
}

static void finish(struct node *of) {
    of->type = of->one;
    hsize_t times = of->times;
    if (times > 0) of->type = OK(H5Tarray_create2(of->one, 1, &times));
}

static hid_t number(void) {
    const hid_t all[] = {H5T_STD_I8LE, H5T_STD_I16BE, H5T_STD_I32LE, H5T_STD_U32BE, H5T_STD_I64LE, H5T_IEEE_F32LE, H5T_IEEE_F64BE};
    return all[below(sizeof all / sizeof *all)];
}

static struct node *stored(unsigned depth, const char *name) {
    struct node *of = calloc(1, sizeof *of);
    snprintf(of->name, sizeof of->name, "%s", name);
    unsigned kind = below(6);
    of->kind = depth == 0 || (kind == 0 && depth < 3) ? COMPOUND : kind == 1 ? STRING : NUMBER;
    of->times = depth > 0 && below(5) == 0 ? 1 + below(3) : 0;
    if (of->kind == NUMBER) of->one = number();
    if (of->kind == STRING) {
        of->one = OK(H5Tcopy(H5T_C_S1));
        OK(H5Tset_size(of->one, 1 + below(7)));
    }
    if (of->kind == COMPOUND) {
        of->count = 1 + below(MOST);
        for (unsigned i = 0; i < of->count; i++) {
            char name[8] = {(char)('a' + i), 0};
            of->members[i] = stored(depth + 1, name);
        }
        of->one = compound(of);
    }
    finish(of);
    return of;
}

/* Some of the members, of the same or other types, and perhaps one more. */
static struct node *some(const struct node *from, unsigned depth) {
    struct node *of = calloc(1, sizeof *of);
    *of = *from;
    if (of->kind == NUMBER && below(3) == 0) of->one = below(2) ? H5T_NATIVE_INT : H5T_NATIVE_DOUBLE;
    if (of->kind == COMPOUND) {
        unsigned is_all = below(6) == 0;
        of->count = 0;
        while (of->count == 0)
            for (unsigned i = 0; i < from->count; i++)
                if (of->count < MOST && (is_all || below(2))) of->members[of->count++] = some(from->members[i], depth + 1);
        if (of->count < MOST && below(6) == 0) of->members[of->count++] = stored(3, "other");
        of->one = compound(of);
    }
    finish(of);
    return of;
}

/* The same type, of which nothing has to be converted. */
static struct node *equal(const struct node *from) {
    struct node *of = calloc(1, sizeof *of);
    *of = *from;
    for (unsigned i = 0; i < of->count; i++) of->members[i] = equal(from->members[i]);
    return of;
}

/* Values in memory; what lies between them stays. */
static void values(const struct node *of, char *at) {
    size_t each = H5Tget_size(of->one);
    for (unsigned n = 0; n < (of->times ? of->times : 1); n++, at += each) {
        if (of->kind == STRING)
            for (size_t i = 0; i < each; i++) at[i] = (char)('a' + below(26));
        if (of->kind == COMPOUND)
            for (unsigned i = 0; i < of->count; i++) values(of->members[i], at + of->members[i]->offset);
        if (of->kind == NUMBER) {
            char room[8];
            double value = 1 + below(100);
            memcpy(room, &value, 8);
            OK(H5Tconvert(H5T_NATIVE_DOUBLE, of->one, 1, room, NULL, H5P_DEFAULT));
            memcpy(at, room, each);
        }
    }
}

/* What members have, without what lies between them. */
static uint64_t sum(const struct node *of, const char *at, uint64_t before) {
    size_t each = H5Tget_size(of->one);
    for (unsigned n = 0; n < (of->times ? of->times : 1); n++, at += each) {
        if (of->kind == COMPOUND)
            for (unsigned i = 0; i < of->count; i++) before = sum(of->members[i], at + of->members[i]->offset, before);
        else
            for (size_t i = 0; i < each; i++) before = (before ^ (unsigned char)at[i]) * 1099511628211u;
    }
    return before;
}

/* A part of the rank's own rows: which, and a dataspace of memory for it. */
static hid_t region(hid_t space, hsize_t *elements) {
    hsize_t start[2], stride[2], count[2], most[2] = {ROWS, COLUMNS};
    for (int axis = 0; axis < 2; axis++) {
        stride[axis] = 1 + below(2);
        start[axis] = below((unsigned)most[axis]);
        count[axis] = 1 + below((unsigned)((most[axis] - start[axis] - 1) / stride[axis] + 1));
    }
    if (below(3) == 0) {
        start[0] = start[1] = 0;
        stride[0] = stride[1] = 1;
        memcpy(count, most, sizeof count);
    }
    start[0] += (hsize_t)rank * ROWS;
    OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL));
    *elements = count[0] * count[1];
    return OK(H5Screate_simple(1, elements, NULL));
}

static void dataset(hid_t file, unsigned seed) {
    state = seed;
    struct node *type = stored(0, "");
    hsize_t shape[2] = {(hsize_t)size * ROWS, COLUMNS}, elements, chunk[2] = {5, 4};
    hid_t space = OK(H5Screate_simple(2, shape, NULL)), list = OK(H5Pcreate(H5P_DATASET_CREATE));
    if (below(2)) OK(H5Pset_chunk(list, 2, chunk));
    size_t each = H5Tget_size(type->type);
    char *fill = calloc(1, each);
    values(type, fill);
    if (below(2)) OK(H5Pset_fill_value(list, type->type, fill));
    char name[16];
    snprintf(name, sizeof name, "d%u", seed);
    hid_t id = OK(H5Dcreate2(file, name, type->type, space, H5P_DEFAULT, list, H5P_DEFAULT));
    hid_t collective = OK(H5Pcreate(H5P_DATASET_XFER));
    OK(H5Pset_dxpl_mpio(collective, H5FD_MPIO_COLLECTIVE));
    for (int call = 0; call < CALLS; call++) {
        struct node *mine = below(5) == 0 ? equal(type) : some(type, 0);
        hid_t how = below(2) ? collective : H5P_DEFAULT;
        uint64_t same = state;
        /* The types are the same on all ranks, as a program's are; regions and values are not. */
        state ^= (uint64_t)rank << 40;
        hid_t memory = region(space, &elements);
        size_t size = H5Tget_size(mine->type);
        char *buffer = malloc(size * elements);
        memset(buffer, 7, size * elements);
        for (hsize_t n = 0; n < elements; n++) values(mine, buffer + n * size);
        if (call % 3 < 2 || call == CALLS - 1) OK(H5Dwrite(id, mine->type, memory, space, how, buffer));
        memset(buffer, 1, size * elements);
        OK(H5Dread(id, mine->type, memory, space, how, buffer));
        uint64_t all = 0;
        for (hsize_t n = 0; n < elements; n++) all = sum(mine, buffer + n * size, all);
        if (rank == 0) printf("%s %d %llx\n", name, call, (unsigned long long)all);
        free(buffer);
        H5Sclose(memory);
        state = same + 1;
    }
    H5Dclose(id);
    H5Pclose(collective);
    H5Pclose(list);
    H5Sclose(space);
    free(fill);
}

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    hid_t list = OK(H5Pcreate(H5P_FILE_ACCESS));
    OK(H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL));
    hid_t file = OK(H5Fcreate(arguments[1], H5F_ACC_TRUNC, H5P_DEFAULT, list));
    unsigned first = (unsigned)atoi(arguments[2]), datasets = (unsigned)atoi(arguments[3]);
    for (unsigned n = 0; n < datasets; n++) dataset(file, first + n);
    OK(H5Fclose(file));
    MPI_Finalize();
    return 0;
}
