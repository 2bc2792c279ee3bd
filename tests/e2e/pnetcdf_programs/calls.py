"""Writes the C program that calls every function of PnetCDF which moves values, and reads back what each has put.

Two ranks put their halves of a variable of 4 by 6 elements, one variable for each function. The values are those of
their places, and elements that a function leaves out stay fill values. With a second argument "write" the program only
puts, and with "read" it only reads what another one has put.
"""

from __future__ import annotations

from collections.abc import Iterator

TYPES = {
    "text": ("char", "NC_CHAR", "MPI_CHAR"),
    "schar": ("signed char", "NC_BYTE", "MPI_SIGNED_CHAR"),
    "uchar": ("unsigned char", "NC_UBYTE", "MPI_UNSIGNED_CHAR"),
    "short": ("short", "NC_SHORT", "MPI_SHORT"),
    "ushort": ("unsigned short", "NC_USHORT", "MPI_UNSIGNED_SHORT"),
    "int": ("int", "NC_INT", "MPI_INT"),
    "uint": ("unsigned", "NC_UINT", "MPI_UNSIGNED"),
    "long": ("long", "NC_INT", "MPI_LONG"),
    "float": ("float", "NC_FLOAT", "MPI_FLOAT"),
    "double": ("double", "NC_FLOAT", "MPI_DOUBLE"),
    "longlong": ("long long", "NC_INT64", "MPI_LONG_LONG"),
    "ulonglong": ("unsigned long long", "NC_UINT64", "MPI_UNSIGNED_LONG_LONG"),
}

SHAPES = {
    "var": ("", 24),
    "var1": ("at", 1),
    "vara": ("start, half", 12),
    "vars": ("start, half_strided, stride", 6),
    "varm": ("start, half, one, map", 12),
    "varn": ("2, starts, counts", 12),
}

HEAD = r"""
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, id;

#define OK(call) do { int code = (call); if (code != NC_NOERR) { \
    fprintf(stderr, "rank %d: %s: %s\n", rank, #call, ncmpi_strerror(code)); failures++; } } while (0)
#define SAME(a, b, bytes, what) do { if (memcmp(a, b, bytes)) { \
    fprintf(stderr, "rank %d: %s reads other values\n", rank, what); failures++; } } while (0)

static int failures, puts_values = 1, gets_values = 1;
static MPI_Offset at[2], start[2], half[2] = {2, 6}, half_strided[2] = {2, 3}, stride[2] = {1, 2}, one[2] = {1, 1};
static MPI_Offset map[2] = {1, 2}, first[2], second[2], row[2] = {1, 6};
static MPI_Offset *starts[2] = {first, second}, *counts[2] = {row, row};
"""

MAIN = r"""
int main(int argc, char **argv) {
    int dims[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    at[0] = start[0] = first[0] = 2 * rank;
    at[1] = 3;
    second[0] = 2 * rank + 1;
    if (argc > 2) puts_values = strcmp(argv[2], "write") == 0, gets_values = !puts_values;
    if (puts_values) {
        OK(ncmpi_create(MPI_COMM_WORLD, argv[1], NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id));
        OK(ncmpi_set_fill(id, NC_FILL, NULL));
        OK(ncmpi_def_dim(id, "y", 4, &dims[0]));
        OK(ncmpi_def_dim(id, "x", 6, &dims[1]));
    } else {
        OK(ncmpi_open(MPI_COMM_WORLD, argv[1], NC_NOWRITE, MPI_INFO_NULL, &id));
    }
"""


def functions() -> Iterator[tuple[str, str, str, str]]:
    """Verb, shape, type ("" for flexible) and suffix of each function that puts."""
    for shape in SHAPES:
        for kind in ("", *TYPES):
            yield from (("put", shape, kind, suffix) for suffix in ("", "_all"))
            yield from ((verb, shape, kind, "") for verb in ("iput", "bput"))
            if shape != "varn":
                yield from (("mput", shape, kind, suffix) for suffix in ("", "_all"))


def name(verb: str, shape: str, kind: str, suffix: str) -> str:
    return f"{verb}_{shape}{'_' if kind else ''}{kind}{suffix}"


def call(verb: str, shape: str, kind: str, suffix: str) -> str:
    """The call of a function, and of the one that reads what it has put."""
    function = name(verb, shape, kind, suffix)
    reader = name(verb.replace("put", "get").replace("bget", "iget"), shape, kind, suffix)
    c_type, _, mpi_type = TYPES[kind or "int"]
    arguments, count = SHAPES[shape]
    lines = [
        f"static void do_{function}(int variable) {{",
        f"    {c_type} values[24], back[24];",
        "    int request = 0;",
    ]
    lines += [
        f"    for (int i = 0; i < {count}; i++)",
        f"        values[i] = ({c_type})(i + {ord('a') if kind == 'text' else 1} + 2 * rank);",
    ]
    if shape == "var":
        # All ranks put all of it.
        lines += [f"    for (int i = 0; i < 24; i++) values[i] = ({c_type})(i + 'a');"]
    lines += ["    memset(back, 0, sizeof back);"]
    if verb.startswith("m"):
        lines += [f"    {c_type} *buffers[1] = {{values}}, *backs[1] = {{back}};"]
        names = arguments.split(", ") if arguments else []
        lines += [f"    MPI_Offset *m_{each}[1] = {{{each}}};" for each in names]
        many = "".join(f", m_{each}" for each in names)
        for function_, buffers, when in ((function, "buffers", "puts"), (reader, "backs", "gets")):
            if kind:
                lines += [f"    if ({when}_values) OK(ncmpi_{function_}(id, 1, &variable{many}, {buffers}));"]
            else:
                lines += [f"    MPI_Offset n_{buffers}[1] = {{{count}}}; MPI_Datatype t_{buffers}[1] = {{{mpi_type}}};"]
                which = f"(void *const *){buffers}, n_{buffers}, t_{buffers}"
                lines += [f"    if ({when}_values) OK(ncmpi_{function_}(id, 1, &variable{many}, {which}));"]
    else:
        shown = f", {arguments}" if arguments else ""
        for function_, buffer, when in ((function, "values", "puts"), (reader, "back", "gets")):
            flexible = "" if kind else f", {count}, {mpi_type}"
            later = ", &request" if verb in ("iput", "bput") else ""
            lines += [f"    if ({when}_values) OK(ncmpi_{function_}(id, variable{shown}, {buffer}{flexible}{later}));"]
            if later:
                lines += [f"    if ({when}_values) OK(ncmpi_wait_all(id, 1, &request, NULL));"]
    lines += [f'    if (gets_values) SAME(values, back, {count} * sizeof *values, "{reader}");', "}"]
    return "\n".join(lines)


def program() -> str:
    """The whole program."""
    all_functions = list(functions())
    parts = [HEAD, *(call(*function) for function in all_functions), MAIN]
    for function in all_functions:
        called, nc_type = name(*function), TYPES[function[2] or "int"][1]
        parts += [f"    int v_{called};"]
        parts += [f'    if (puts_values) OK(ncmpi_def_var(id, "{called}", {nc_type}, 2, dims, &v_{called}));']
        parts += [f'    else OK(ncmpi_inq_varid(id, "{called}", &v_{called}));']
    parts += [
        "    if (puts_values) OK(ncmpi_enddef(id));",
        "    if (puts_values) OK(ncmpi_buffer_attach(id, 1 << 20));",
    ]

    def is_independent(function: tuple[str, str, str, str]) -> bool:
        verb, _, _, suffix = function
        return verb in ("put", "mput") and not suffix

    parts += [
        f"    do_{name(*function)}(v_{name(*function)});" for function in all_functions if not is_independent(function)
    ]
    parts += ["    OK(ncmpi_begin_indep_data(id));"]
    parts += [
        f"    do_{name(*function)}(v_{name(*function)});" for function in all_functions if is_independent(function)
    ]
    parts += ["    OK(ncmpi_end_indep_data(id));", "    if (puts_values) OK(ncmpi_buffer_detach(id));"]
    parts += ["    OK(ncmpi_close(id));"]
    parts += ["    MPI_Finalize();", "    return failures > 0;", "}"]
    return "\n".join(parts) + "\n"
