"""Runs PnetCDF's own test programs plain and under `knarr run`, and says which of them answer otherwise.

usage: pnetcdf.py BUILD [DIRECTORY...] [--output classic|netcdf4|zarr] [--ranks N...] [--only PROGRAM...]

BUILD is a built source tree of PnetCDF with shared libraries, and its test programs:

    apt-get source pnetcdf && cd pnetcdf-1.12.3 && autoreconf -i
    ./configure --enable-shared --disable-static --disable-cxx && make && make -C test check TESTS=

Programs write below a temporary directory. One that fails plain is not counted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KNARR = Path(os.environ.get("KNARR_BIN", ROOT / "target" / "release" / "knarr"))
DIRECTORIES = [
    "testcases",
    "nonblocking",
    "nc_test",
    "C",
    "header",
    "cdf_format",
    "nf_test",
    "nf90_test",
    "F90",
    "fandc",
]
# They need arguments of their own, run for very long, or test what is not the library.
LEFT_OUT = {"tst_redefine", "last_large_var", "high_dim_var", "large_var_cdf5", "bigrecords"}
TIME_LIMIT_S = 60
SEVERAL = 4


def programs(build: Path, directories: list[str]) -> list[Path]:
    """Executables of the test directories; libtool's are scripts."""
    found = []
    for directory in directories:
        for path in sorted((build / "test" / directory).iterdir()):
            is_program = path.is_file() and os.access(path, os.X_OK) and path.suffix not in (".sh", ".in", ".m4", ".pl")
            if is_program and path.name not in LEFT_OUT:
                found.append(path)
    return found


def arguments(program: Path, folder: Path) -> list[str]:
    if program.name in ("nc_test", "nf_test", "nf90_test"):
        return ["-d", str(folder)]
    return [str(folder / f"{program.name}.nc")]


def run(command: list[str], folder: Path) -> tuple[int, str]:
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return -1, f"no end after {TIME_LIMIT_S} s"
    out = done.stdout + done.stderr
    # Some say that they failed, and return 0.
    return (done.returncode or int("fail with" in out or "failed" in out)), out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("directories", nargs="*", default=DIRECTORIES)
    parser.add_argument("--output", default="classic")
    parser.add_argument("--only", nargs="*", help="names of programs")
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, SEVERAL])
    options = parser.parse_args()
    counts, differ = {"same": 0, "not counted": 0}, []
    for program in programs(options.build.resolve(), options.directories):
        if options.only and program.name not in options.only:
            continue
        for ranks in options.ranks:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                (folder / "knarr.toml").write_text(
                    f'[[file]]\npattern = "*"\noutput = "{options.output}"\nwait = "close"\n'
                )
                (folder / "out").mkdir()
                mpirun = [
                    "mpirun",
                    "--oversubscribe",
                    "-n",
                    str(ranks),
                    str(program),
                    *arguments(program, folder / "out"),
                ]
                code, _ = run(mpirun, folder)
                if code != 0:
                    counts["not counted"] += 1
                    continue
                shutil.rmtree(folder / "out")
                (folder / "out").mkdir()
                code, out = run([str(KNARR), "run", "-q", "-c", str(folder / "knarr.toml"), "--", *mpirun], folder)
                if code == 0:
                    counts["same"] += 1
                    continue
                differ.append(f"{program.parent.name}/{program.name} with {ranks} ranks")
                print(f"--- {differ[-1]}: exit code {code}", *out.splitlines()[:12], sep="\n    ", flush=True)
    print(f"{counts['same']} as without Knarr, {len(differ)} otherwise, {counts['not counted']} fail plain")
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
