#!/usr/bin/env python3
"""Runs the serial tests of HDF5 and netCDF-C plain and under `knarr run`, and compares answers and files.

    .venv/bin/python tests/suites/serial.py hdf5 --stage
    .venv/bin/python tests/suites/serial.py netcdf --stage --only nc_test/tst_small

The programs are those of Debian's source packages, linked with Debian's libraries of the same version (libhdf5-dev,
libnetcdf-dev). netCDF's are `nc_test` and all that are made of one source file. Half of them write classic files, with
calls of the C library. HDF5's are `testhdf5`, test by test, and others. Left out are programs that write gigabytes, and
those that cannot be built from the sources and the libraries alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from fetching import PLACE, source
from nc_test4 import CONFIGURED as PARALLEL
from others import Case, options, table
from testpar import COMMON, KEEP_FILES, keep_files

CONFIGURED = re.sub("#define (HDF5_PARALLEL|USE_PARALLEL4?) 1\n", "", PARALLEL)
LEFT_OUT = ("large", "big", "pnetcdf", "perf", "par", "coll", "mpi", "byterange")
"""What the names of netCDF's programs have in them that take MPI, a network, or gigabytes."""
NC_TEST = ("nc_test", "error", "test_get", "test_put", "test_read", "test_write", "util")
HDF5 = (
    *("accum", "app_ref", "btree2", "chunk_info", "cmpd_dset", "cmpd_dtransform", "cork", "cross_read", "dangle"),
    *("del_many_dense_attrs", "direct_chunk", "dsets", "dt_arith", "dtransform", "dtypes", "earray", "efc", "enum"),
    *("evict_on_close", "extend", "farray", "fheap", "file_image", "filenotclosed", "fillval", "filter_fail"),
    *("flushrefresh", "freespace", "getname", "gheap", "hyperslab", "istore", "lheap", "links", "mf", "mount", "mtime"),
    *("ntypes", "objcopy", "ohdr", "page_buffer", "set_extent", "stab", "unlink", "unregister", "vds", "vfd"),
)
TESTHDF5 = (
    *("testhdf5", "tarray", "tattr", "tchecksum", "tconfig", "tfile", "tgenprop", "th5o", "th5s", "tcoords", "theap"),
    *("tid", "titerate", "tmeta", "tmisc", "trefer", "trefstr", "tselect", "tskiplist", "tsohm", "ttime", "tunicode"),
    *("tvlstr", "tvltypes"),
)


def linked(folder: Path, program: str, files: list[Path], flags: list[str], libraries: list[str]) -> bool:
    """True if there is the program now."""
    if (folder / program).exists():
        return True
    command = ["gcc", "-O1", "-w", *flags, *files, "-o", program, *libraries, "-lm"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


def hdf5(sources: Path) -> Iterator[Case]:
    folder, tests = PLACE / "serial-hdf5", sources / "test"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "H5srcdir_str.h").write_text(f'static const char *config_srcdir = "{tests}";\n')
    keep_files(sources)
    flags = ["-I.", "-I/usr/include/hdf5/serial", f"-I{sources / 'src'}", f"-I{tests}"]
    subprocess.run(
        ["gcc", "-O1", "-w", *flags, "-c", *(tests / f"{name}.c" for name in COMMON)], cwd=folder, check=True
    )
    subprocess.run(["ar", "rcs", "libh5test.a", *(f"{name}.o" for name in COMMON)], cwd=folder, check=True)
    serial = next(Path("/usr/lib").glob("*/hdf5/serial"))
    libraries = ["-L.", "-lh5test", f"-L{serial}", f"-Wl,-rpath,{serial}", "-lhdf5", "-lz"]
    names = re.findall(r'AddTest\("(\w+)"', (tests / "testhdf5.c").read_text())
    if linked(folder, "testhdf5", [tests / f"{name}.c" for name in TESTHDF5], flags, libraries):
        for name in names:
            command = [folder / "testhdf5", "-o", name]
            yield Case(f"testhdf5/{name}", [command], 0, environment=KEEP_FILES)
    for name in HDF5:
        if linked(folder, name, [tests / f"{name}.c"], flags, libraries):
            yield Case(name, [[folder / name]], 0, environment=KEEP_FILES)


def netcdf(sources: Path) -> Iterator[Case]:
    folder = PLACE / "serial-netcdf"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.h").write_text(CONFIGURED)
    for part in ("nc_test", "nc_test4"):
        tests = sources / part
        places = [folder, "/usr/include/hdf5/serial", sources / "include", sources / "nc_test", tests]
        flags = ["-DHAVE_CONFIG_H", f'-DTOPSRCDIR="{sources}"', *(f"-I{place}" for place in places)]
        serial = next(Path("/usr/lib").glob("*/hdf5/serial"))
        libraries = ["-lnetcdf", f"-L{serial}", f"-Wl,-rpath,{serial}", "-lhdf5"]
        programs = {path.stem: [path] for path in sorted(tests.glob("t*_*.c")) if path.stem not in NC_TEST}
        if part == "nc_test":
            programs["nc_test"] = [tests / f"{name}.c" for name in NC_TEST]
        for name, files in programs.items():
            if any(word in name for word in LEFT_OUT) or not linked(folder, name, files, flags, libraries):
                continue
            yield Case(f"{part}/{name}", [[folder / name]], 0, environment={"srcdir": str(tests)})


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("suite", choices=("hdf5", "netcdf"))
    chosen = parser.parse_args()
    cases = {"hdf5": hdf5, "netcdf": netcdf}[chosen.suite]
    return table(f"serial-{chosen.suite}", chosen, list(cases(source(chosen.suite))), ("netcdf4",))


if __name__ == "__main__":
    sys.exit(main())
