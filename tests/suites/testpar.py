#!/usr/bin/env python3
"""Runs the tests of parallel HDF5 (testpar) plain and under `knarr run`, and compares answers and files.

    .venv/bin/python tests/suites/testpar.py
    .venv/bin/python tests/suites/testpar.py --mpi mpich --only testphdf5/cdsetw

The programs are those of Debian's source package, linked with Debian's HDF5 of the same version for the MPI that is
asked for (libhdf5-openmpi-dev or libhdf5-mpich-dev). A test that a program selects by name is a case of its own. Left
out are t_cache and t_cache_image, which test the inside of the library, t_bigio, which writes many gigabytes, and
t_pflush1, which ends without closing its file.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from fetching import PLACE, source
from others import Case, options, table

PARTS = ("dset", "file", "file_image", "mdset", "ph5basic", "coll_chunk", "span_tree", "chunk_alloc", "filter_read")
ALONE = (*("t_mpi", "t_pread", "t_pshutdown", "t_prestart", "t_init_term", "t_shapesame", "t_filters_parallel"),)
PROGRAMS = {name: [name] for name in ALONE}
PROGRAMS["testphdf5"] = ["testphdf5", "t_prop", "t_coll_md_read", *(f"t_{part}" for part in PARTS)]
"""Source files of each program."""
COMMON = ["h5test", "testframe", "cache_common"]
SELECTS = ("testphdf5", "t_shapesame")
KEEP_FILES = {"HDF5_NOCLEANUP": "1", "HDF5TestExpress": "3"}
ANY = ("Data4",)
"""Scalars to which several ranks write other values in one call: any of them may count."""
FIRST = {"t_prestart": "t_pshutdown"}
"""What a program needs to have run before it, in the same directory."""


def built(mpi: str, sources: Path) -> Path:
    """A directory with the programs."""
    folder = PLACE / f"testpar-{mpi}"
    folder.mkdir(parents=True, exist_ok=True)
    libraries = next(Path("/usr/lib").glob(f"*/hdf5/{mpi}"))
    # HDF5's configure would make this header: where tests find files that they come with.
    data = sources / "testpar"
    (folder / "H5srcdir_str.h").write_text(f'static const char *config_srcdir = "{data}";\n')
    places = [folder, f"/usr/include/hdf5/{mpi}", sources / "src", sources / "test"]
    flags = ["-O1", "-w", *(f"-I{place}" for place in places)]
    keep_files(sources)
    # Of an archive the linker takes what is missing: a program may have names that HDF5's helpers have, too.
    helpers = [sources / "test" / f"{name}.c" for name in COMMON]
    subprocess.run([f"mpicc.{mpi}", *flags, "-c", *helpers], check=True, cwd=folder)
    subprocess.run(["ar", "rcs", "libh5test.a", *(f"{name}.o" for name in COMMON)], check=True, cwd=folder)
    linked = ["-L.", "-lh5test", f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lhdf5", "-lm"]
    for program, names in PROGRAMS.items():
        files = [data / f"{name}.c" for name in names]
        if not (folder / program).exists():
            subprocess.run([f"mpicc.{mpi}", *flags, *files, "-o", program, *linked], check=True, cwd=folder)
    return folder


def keep_files(sources: Path) -> None:
    """The programs remove their files in the end without asking whether these are to be kept. These here ask."""
    path = sources / "test" / "h5test.c"
    asks = "\n        if (GetTestCleanup()) h5_delete_test_file("
    text = path.read_text().replace("\n        h5_delete_test_file(", asks)
    if asks not in text:
        raise SystemExit(f"{path} does not remove files where it did")
    path.write_text(text)


def cases(folder: Path, sources: Path) -> Iterator[Case]:
    for program in PROGRAMS:
        if program in SELECTS:
            text = (sources / "testpar" / f"{program}.c").read_text()
            tests = sorted(set(re.findall(r'AddTest\(\s*"-?(\w[\w-]*)"', text)))
            for test in tests:
                # What is read was written by the test whose name ends so.
                writer = f"{test[:-1]}w"
                names = [writer, test] if test.endswith("r") and writer in tests else [test]
                command = [folder / program, *(word for name in names for word in ("-o", name))]
                yield Case(f"{program}/{test}", [command], environment=KEEP_FILES, apart=ANY)
        elif program not in FIRST.values():
            names = [FIRST[program], program] if program in FIRST else [program]
            yield Case(program, [[folder / name] for name in names], environment=KEEP_FILES)


def main() -> int:
    chosen = options(__doc__).parse_args()
    sources = source("hdf5")
    return table("testpar", chosen, list(cases(built(chosen.mpi, sources), sources)), ("netcdf4", "classic"))


if __name__ == "__main__":
    sys.exit(main())
