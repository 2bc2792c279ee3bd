/* MPI datatypes, for capture of libraries that take them (PnetCDF's flexible functions). Part of the adapter, beside
 * knarr_mpi.c; `src/adapter.rs` has the other side. */
#include <mpi.h>

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

/* Bytes that MPI packs at once: positions of MPI 3 are ints. */
#define PIECE (1 << 30)

/* Not codes of MPI, which are positive. */
#define SEVERAL_KINDS (-1)
#define UNKNOWN_KIND (-2)
#define NO_MEMORY (-3)

/* What a datatype is made of. */
struct knarr_datatype {
    /* Number of the kind of its elements, below; 0 for MPI_DATATYPE_NULL. */
    int32_t element;
    /* It is that kind itself: elements follow each other. */
    int32_t is_plain;
    /* Elements in one of it. */
    uint64_t elements;
};

enum { TEXT = 1, I8, U8, I16, U16, I32, U32, I64, U64, F32, F64 };

static int32_t whole(size_t size, int is_signed) {
    switch (size) {
    case 1: return is_signed ? I8 : U8;
    case 2: return is_signed ? I16 : U16;
    case 4: return is_signed ? I32 : U32;
    case 8: return is_signed ? I64 : U64;
    default: return UNKNOWN_KIND;
    }
}

static int32_t named(MPI_Datatype type) {
    if (type == MPI_CHAR || type == MPI_CHARACTER) return TEXT;
    if (type == MPI_SIGNED_CHAR || type == MPI_INT8_T || type == MPI_INTEGER1) return I8;
    if (type == MPI_UNSIGNED_CHAR || type == MPI_BYTE || type == MPI_UINT8_T) return U8;
    if (type == MPI_SHORT || type == MPI_INT16_T || type == MPI_INTEGER2) return I16;
    if (type == MPI_UNSIGNED_SHORT || type == MPI_UINT16_T) return U16;
    if (type == MPI_INT || type == MPI_INT32_T || type == MPI_INTEGER4) return I32;
    if (type == MPI_UNSIGNED || type == MPI_UINT32_T) return U32;
    if (type == MPI_LONG) return whole(sizeof(long), 1);
    if (type == MPI_UNSIGNED_LONG) return whole(sizeof(long), 0);
    if (type == MPI_LONG_LONG || type == MPI_INT64_T || type == MPI_INTEGER8) return I64;
    if (type == MPI_UNSIGNED_LONG_LONG || type == MPI_UINT64_T) return U64;
    if (type == MPI_OFFSET || type == MPI_AINT) return whole(sizeof(MPI_Aint), 1);
    if (type == MPI_FLOAT || type == MPI_REAL4) return F32;
    if (type == MPI_DOUBLE || type == MPI_REAL8 || type == MPI_DOUBLE_PRECISION) return F64;
    int size = 0;
    MPI_Type_size(type, &size);
    /* Sizes of these are those of the compiler's flags. */
    if (type == MPI_INTEGER || type == MPI_LOGICAL) return whole((size_t)size, 1);
    if (type == MPI_REAL) return size == 4 ? F32 : size == 8 ? F64 : UNKNOWN_KIND;
    return UNKNOWN_KIND;
}

static int64_t size_of(int32_t element) {
    static const int64_t SIZES[] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
    return SIZES[element];
}

static int is_named(MPI_Datatype type) {
    int integers, addresses, datatypes, combiner = MPI_COMBINER_NAMED;
    MPI_Type_get_envelope(type, &integers, &addresses, &datatypes, &combiner);
    return combiner == MPI_COMBINER_NAMED;
}

/* The kind of all elements, or a negative number. */
static int32_t kind_of(MPI_Datatype type) {
    int integers, addresses, datatypes, combiner;
    if (MPI_Type_get_envelope(type, &integers, &addresses, &datatypes, &combiner) != MPI_SUCCESS) return UNKNOWN_KIND;
    if (combiner == MPI_COMBINER_NAMED) return named(type);
    if (datatypes == 0) {
        int size = 0;
        MPI_Type_size(type, &size);
        if (combiner == MPI_COMBINER_F90_REAL) return size == 4 ? F32 : size == 8 ? F64 : UNKNOWN_KIND;
        if (combiner == MPI_COMBINER_F90_INTEGER) return whole((size_t)size, 1);
        return UNKNOWN_KIND;
    }
    int *numbers = malloc((size_t)(integers + 1) * sizeof *numbers);
    MPI_Aint *places = malloc((size_t)(addresses + 1) * sizeof *places);
    MPI_Datatype *types = malloc((size_t)datatypes * sizeof *types);
    int32_t kind = NO_MEMORY;
    if (numbers != NULL && places != NULL && types != NULL
        && MPI_Type_get_contents(type, integers, addresses, datatypes, numbers, places, types) == MPI_SUCCESS) {
        kind = 0;
        for (int i = 0; i < datatypes; i++) {
            int32_t found = kind_of(types[i]);
            kind = kind == 0 || kind == found ? found : kind < 0 ? kind : SEVERAL_KINDS;
            if (!is_named(types[i])) MPI_Type_free(&types[i]);
        }
    }
    free(numbers);
    free(places);
    free(types);
    return kind;
}

/* Describes a datatype. Returns 0 or a negative number. */
int32_t knarr_datatype_describe(MPI_Datatype type, struct knarr_datatype *out) {
    MPI_Count size = 0;
    out->element = 0;
    out->is_plain = 0;
    out->elements = 0;
    if (type == MPI_DATATYPE_NULL) return 0;
    int32_t kind = kind_of(type);
    if (kind <= 0) return kind < 0 ? kind : UNKNOWN_KIND;
    if (MPI_Type_size_x(type, &size) != MPI_SUCCESS || size < 0) return UNKNOWN_KIND;
    out->element = kind;
    out->is_plain = is_named(type);
    out->elements = (uint64_t)(size / size_of(kind));
    return 0;
}

/* The first byte that a datatype has, relative to its place, and how many there are up to its last. Returns 0 or a code of
 * MPI. */
int32_t knarr_datatype_reach(MPI_Datatype type, int64_t *first, int64_t *length) {
    MPI_Aint lower = 0, extent = 0;
    int code = MPI_Type_get_true_extent(type, &lower, &extent);
    *first = lower;
    *length = extent;
    return code;
}

typedef int move(char *packed, int length, char *buffer, int count, MPI_Datatype type);

static int pack(char *packed, int length, char *buffer, int count, MPI_Datatype type) {
    int position = 0;
    return MPI_Pack(buffer, count, type, packed, length, &position, MPI_COMM_SELF);
}

static int unpack(char *packed, int length, char *buffer, int count, MPI_Datatype type) {
    int position = 0;
    return MPI_Unpack(packed, length, &position, buffer, count, type, MPI_COMM_SELF);
}

static int32_t in_pieces(move *move, char *packed, uint64_t length, char *buffer, int64_t count, MPI_Datatype type) {
    MPI_Aint lower, extent;
    MPI_Count size = 0;
    int code = MPI_Type_get_extent(type, &lower, &extent);
    if (code == MPI_SUCCESS) code = MPI_Type_size_x(type, &size);
    if (code != MPI_SUCCESS) return code;
    if (size > INT_MAX || (size > 0 && length / (uint64_t)size < (uint64_t)count)) return MPI_ERR_TRUNCATE;
    while (count > 0 && size > 0) {
        int64_t most = size > PIECE ? 1 : PIECE / size;
        int now = (int)(count < most ? count : most);
        code = move(packed, (int)(now * size), buffer, now, type);
        if (code != MPI_SUCCESS) return code;
        packed += now * size;
        buffer += now * extent;
        count -= now;
    }
    return 0;
}

/* Copies the elements of `count` of a datatype, one behind the other, to `packed`, or back. Returns 0 or a code of MPI. */
int32_t knarr_datatype_pack(void *packed, uint64_t length, const void *buffer, int64_t count, MPI_Datatype type) {
    return in_pieces(pack, packed, length, (char *)buffer, count, type);
}

int32_t knarr_datatype_unpack(const void *packed, uint64_t length, void *buffer, int64_t count, MPI_Datatype type) {
    return in_pieces(unpack, (char *)packed, length, buffer, count, type);
}

/* A copy of a datatype, or what needs none: MPI_DATATYPE_NULL and those that cannot be freed. */
MPI_Datatype knarr_datatype_keep(MPI_Datatype type) {
    MPI_Datatype copy = MPI_DATATYPE_NULL;
    if (type == MPI_DATATYPE_NULL || is_named(type)) return type;
    MPI_Type_dup(type, &copy);
    return copy;
}

void knarr_datatype_give_back(MPI_Datatype type) {
    if (type != MPI_DATATYPE_NULL && !is_named(type)) MPI_Type_free(&type);
}

/* Bytes of a handle in an array of datatypes. */
int32_t knarr_datatype_handle(void) {
    return (int32_t)sizeof(MPI_Datatype);
}
