"""libknarr as C and Fortran programs meet it: headers, linkers, compilers and memory checkers of the system.

What the functions do is tested in `crates/capi/tests`. The library itself is not instrumented, which stable Rust cannot
do: sanitizers see the programs, what the library does to their memory through the C library, and races between their
threads; valgrind sees all of it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

import plugin

REPOSITORY = Path(__file__).resolve().parents[2]
PREFIX = Path(os.environ.get("KNARR_CAPI", REPOSITORY / "target" / "release" / "capi")).resolve()
HEADER, MODULE = PREFIX / "include" / "knarr.h", PREFIX / "include" / "knarr.f90"
PROGRAMS = Path(__file__).parent / "capi"
EXAMPLES = REPOSITORY / "examples"
TIME_LIMIT_S = 600
LARGE = 12 << 30
"""Bytes of memory that an array of more than 2 GiB, its frame and what comes back take."""
WARNINGS = ("-Wall", "-Wextra", "-Werror")


def free_memory() -> int:
    available = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    return int(available[1]) << 10 if available else 0


def need(tool: str, package: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed: package {package}; 'make setup' as root installs it")


def run(*command: object, ok: bool = True, **how: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False, **how
    )
    if ok:
        assert done.returncode == 0, f"{done.args}\nexit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def flags(*options: str) -> list[str]:
    """What pkg-config says about libknarr, and where the program finds it."""
    need("pkg-config", "pkg-config")
    assert HEADER.is_file(), f"{PREFIX} is not built: make capi"
    path = {**os.environ, "PKG_CONFIG_PATH": str(PREFIX / "lib" / "pkgconfig")}
    return [*run("pkg-config", *options, "knarr", env=path).stdout.split(), f"-Wl,-rpath,{PREFIX / 'lib'}"]


def c_program(folder: Path, source: Path, *options: str, compiler: str = "cc") -> Path:
    need(compiler, "gcc")
    program = folder / source.stem
    run(compiler, "-std=c11", "-g", *WARNINGS, source, "-o", program, *options, *flags("--cflags", "--libs"), "-lm")
    return program


def fortran_program(folder: Path, source: Path) -> Path:
    need("gfortran", "gfortran")
    program = folder / source.stem
    checks = ("-g", "-fcheck=all,no-array-temps", "-Wall", "-Werror", "-std=f2018")
    # Modules go where the compiler runs.
    run("gfortran", *checks, MODULE, source, "-o", program, *flags("--libs"), cwd=folder)
    return program


def test_the_c_example_runs_shared_and_static(tmp_path: Path) -> None:
    shared = run(c_program(tmp_path, EXAMPLES / "c" / "field.c", "-pthread"))
    assert "all hints hold: yes" in shared.stdout
    libraries = [PREFIX / "lib" / "libknarr.a", "-lpthread", "-ldl", "-lm"]
    run("cc", "-std=c11", f"-I{PREFIX / 'include'}", EXAMPLES / "c" / "field.c", "-o", tmp_path / "s", *libraries)
    assert run(tmp_path / "s", env={}).stdout == shared.stdout


def test_the_shared_library_shows_nothing_but_its_interface() -> None:
    need("nm", "binutils")
    flags()
    shown = run("nm", "-D", "--defined-only", PREFIX / "lib" / "libknarr.so").stdout.split("\n")
    names = [line.split()[-1] for line in shown if line]
    assert len(names) > 20 and [name for name in names if not name.startswith("knarr_")] == []
    wanted = run("nm", "-D", "--undefined-only", PREFIX / "lib" / "libknarr.so").stdout
    assert "H5" not in wanted


def test_the_fortran_example_runs(tmp_path: Path) -> None:
    done = run(fortran_program(tmp_path, EXAMPLES / "fortran" / "field.f90"))
    assert re.search(r"chain: round:abs=0.01,from=300.0 .* for goal 'ratio'", done.stdout), done.stdout


def test_programs_built_as_the_page_says_start(tmp_path: Path) -> None:
    """Without `LD_LIBRARY_PATH`: what is linked to the shared library has to know where it lies."""
    need("gfortran", "gfortran")
    flags()
    page = (REPOSITORY / "docs" / "c-and-fortran.md").read_text()
    (export, *commands), *_ = (
        block.splitlines() for block in re.findall(r"^```\n(.*?)^```$", page, re.M | re.S) if "pkg-config" in block
    )
    assert len(commands) == 3
    (tmp_path / "target" / "release").mkdir(parents=True)
    (tmp_path / "target" / "release" / "capi").symlink_to(PREFIX)
    for source in (EXAMPLES / "c" / "field.c", EXAMPLES / "fortran" / "field.f90"):
        shutil.copy(source, tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    for command in commands:
        run("bash", "-ec", f"{export}\n{command}\n./field", cwd=tmp_path, env=environment)


def test_every_fortran_kind_comes_back(tmp_path: Path) -> None:
    assert "all kinds come back" in run(fortran_program(tmp_path, PROGRAMS / "kinds.f90")).stdout


def test_without_a_status_fortran_stops_with_the_message(tmp_path: Path) -> None:
    source = tmp_path / "stops.f90"
    lines = ["program p", "use knarr", "type(knarr_hints) :: h", "h = knarr_new_hints('tolerance=1')", "end program"]
    source.write_text("\n".join(lines))
    done = run(fortran_program(tmp_path, source), ok=False)
    assert done.returncode != 0 and "quality 'tolerance=1' is not understood; hint: write" in done.stderr


def test_the_hdf5_example_writes_through_the_filter(tmp_path: Path) -> None:
    need("h5cc", "libhdf5-dev")
    program = tmp_path / "hdf5"
    run("h5cc", "-shlib", EXAMPLES / "c" / "hdf5.c", "-o", program, *flags("--cflags", "--libs"), "-lm", cwd=tmp_path)
    plugin.run(program, cwd=tmp_path)
    plugin.register()
    rows, columns = np.meshgrid(np.arange(256), np.arange(512), indexing="ij")
    wanted = 1000 + 20 * np.sin(rows * 0.02) * np.cos(columns * 0.01)
    with h5py.File(tmp_path / "field.h5") as file:
        found = file["P"][:]
        assert file["P"].id.get_storage_size() < found.nbytes / 4
    assert np.all(np.abs(found - wanted) <= 1.0001e-4 * wanted) and np.any(found != wanted)


@pytest.mark.parametrize("source", [EXAMPLES / "c" / "field.c", PROGRAMS / "damage.c", PROGRAMS / "threads.c"])
def test_addresses_and_undefined_behaviour_are_clean(tmp_path: Path, source: Path) -> None:
    options = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-pthread")
    run(c_program(tmp_path, source, *options), env={**os.environ, "ASAN_OPTIONS": "detect_leaks=1"})


def test_threads_share_a_context_without_races(tmp_path: Path) -> None:
    """ThreadSanitizer on the side of C: the memory that threads hand to the library and get back."""
    done = run(c_program(tmp_path, PROGRAMS / "threads.c", "-fsanitize=thread", "-pthread"))
    assert "same frames in 6 threads" in done.stdout


@pytest.mark.parametrize(
    ("tool", "source"),
    [
        ("memcheck", EXAMPLES / "c" / "field.c"),
        ("memcheck", PROGRAMS / "threads.c"),
        ("helgrind", PROGRAMS / "threads.c"),
    ],
)
def test_valgrind_finds_nothing(tmp_path: Path, tool: str, source: Path) -> None:
    need("valgrind", "valgrind")
    program = c_program(tmp_path, source, "-pthread")
    run("valgrind", f"--tool={tool}", "--error-exitcode=9", "-q", program)


@pytest.mark.skipif(free_memory() < LARGE, reason=f"takes {LARGE >> 30} GiB of free memory")
def test_arrays_of_more_than_two_gibibytes_come_back(tmp_path: Path) -> None:
    """Through the chosen chain, as they are, and through one whose library counts bytes in an int."""
    told = run(c_program(tmp_path, PROGRAMS / "large.c", "-O2"), "", "raw", "shuffle | lz4").stdout.splitlines()
    assert len(told) == 3 and all(line.startswith("2147975168 bytes in") for line in told), told
    for chain, line in zip(("zstd", "raw", "lz4"), told, strict=True):
        assert chain in line, "zstd is of the chosen one"


def test_the_header_is_cxx_too(tmp_path: Path) -> None:
    need("c++", "g++")
    source = tmp_path / "program.cc"
    source.write_text("#include <knarr.h>\nint main() { return knarr_version()[0] == 0; }\n")
    run("c++", *WARNINGS, "-pedantic", source, "-o", tmp_path / "program", *flags("--cflags", "--libs"))
    run(tmp_path / "program")


def test_only_the_interface_is_visible() -> None:
    names = run("nm", "-D", "--defined-only", PREFIX / "lib" / "libknarr.so").stdout.split()[2::3]
    assert set(names) == set(functions()), names
    dynamic = run("objdump", "-p", PREFIX / "lib" / "libknarr.so").stdout
    assert re.search(r"SONAME\s+libknarr\.so\.0\n", dynamic)


def functions() -> dict[str, int]:
    """Names of the header's functions with their numbers of arguments."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    found = re.findall(r"^[\w \*]+\b(knarr_\w+)\(([^)]*)\);", text, flags=re.MULTILINE)
    return {name: 0 if arguments == "void" else arguments.count(",") + 1 for name, arguments in found}


def structures() -> dict[str, list[str]]:
    """Names of the header's structures with their fields."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    found = re.findall(r"typedef struct \{(.*?)\} (\w+);", text, flags=re.DOTALL)
    return {name: re.findall(r"(\w+)(?:\[\w+\])?;", body) for body, name in found}


def test_the_module_has_every_function_with_its_arguments() -> None:
    text = MODULE.read_text().replace("&\n", " ")
    bound = re.findall(r"(?:function|subroutine) c_\w+\(([^)]*)\)\s+bind\(c, name=\"(knarr_\w+)\"\)", text)
    assert {name: len([a for a in arguments.split(",") if a.strip()]) for arguments, name in bound} == functions()


def test_numbers_and_layouts_of_the_module_are_those_of_the_header(tmp_path: Path) -> None:
    """Every constant, and the size and every offset of each structure, as both compilers see them."""
    number = re.compile(r"^\s*(?:#define )?(KNARR_\w+)(?: = \d+,| -?\d+)$", re.MULTILINE)
    constants = sorted(set(number.findall(HEADER.read_text())))
    assert len(constants) > 25
    fields = [(name, field) for name, its in structures().items() for field in its]
    assert len(fields) > 30
    c = ["#include <knarr.h>", "#include <stdio.h>", "int main(void) {"]
    c += [f'printf("{name} %d\\n", (int){name});' for name in constants]
    c += [f'printf("{name} %zu\\n", sizeof({name}));' for name in structures()]
    c += [f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));' for name, field in fields]
    fortran = ["program layout", "use knarr", "use, intrinsic :: iso_c_binding"]
    fortran += [f"type({name}), target :: v_{name}" for name in structures()]
    fortran += [f"print '(a,1x,i0)', '{name}', {name.lower()}" for name in constants]
    fortran += [f"print '(a,1x,i0)', '{name}', c_sizeof(v_{name})" for name in structures()]
    for name, field in fields:
        array = "(1)" if field in {"goal", "chain", "profile", "shape", "miss"} else ""
        difference = f"transfer(c_loc(v_{name}%{field}{array}), 0_c_intptr_t) - transfer(c_loc(v_{name}), 0_c_intptr_t)"
        fortran.append(f"print '(a,1x,i0)', '{name}.{field}', &\n{difference}")
    (tmp_path / "layout.c").write_text("\n".join([*c, "}"]))
    (tmp_path / "layout.f90").write_text("\n".join([*fortran, "end program"]))
    (tmp_path / "f").mkdir()
    seen_by_c = run(c_program(tmp_path, tmp_path / "layout.c")).stdout.splitlines()
    seen_by_fortran = run(fortran_program(tmp_path / "f", tmp_path / "layout.f90")).stdout.splitlines()
    assert seen_by_c == seen_by_fortran and len(seen_by_c) == len(constants) + len(structures()) + len(fields)


def test_the_page_shows_the_examples_that_are_tested() -> None:
    page = (REPOSITORY / "docs" / "c-and-fortran.md").read_text()
    for example in (EXAMPLES / "c" / "field.c", EXAMPLES / "fortran" / "field.f90"):
        assert example.read_text() in page, f"{example.name} is not in docs/c-and-fortran.md as it is"
