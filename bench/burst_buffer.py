"""PnetCDF with its burst buffer, which keeps puts in a log until the file is closed. Debian builds it without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "suites"))
from fetching import PLACE, source


def library() -> Path:
    """The directory of the library, which is built in target/suites of Debian's sources: two minutes, once."""
    unpacked, folder = source("pnetcdf"), PLACE / "pnetcdf-burst-buffer"
    built = folder / "src" / "libs" / ".libs"
    if not (built / "libpnetcdf.so").exists():
        folder.mkdir(exist_ok=True)
        if not (unpacked / "configure").exists():
            subprocess.run(["autoreconf", "-i"], cwd=unpacked, check=True)
        compilers = ["MPICC=/usr/bin/mpicc.openmpi", "--disable-fortran", "--disable-cxx"]
        libraries = ["--enable-burst-buffering", "--enable-shared", "--disable-static"]
        with (folder / "log").open("w") as log:
            how = {"cwd": folder, "check": True, "stdout": log, "stderr": subprocess.STDOUT}
            subprocess.run([unpacked / "configure", *compilers, *libraries, "CFLAGS=-O2"], **how)
            subprocess.run(["make", f"-j{os.cpu_count()}", "-C", "src"], **how)
        # Programs know Debian's library by a name of its own.
        for name in {path.name for path in Path("/usr/lib").glob("*/libpnetcdf.so.*")}:
            (built / name).unlink(missing_ok=True)
            (built / name).symlink_to("libpnetcdf.so")
    return built


def environment(folder: Path) -> dict[str, str]:
    """What lets programs have it, with their logs in `folder`."""
    hints = {"nc_burst_buf": "enable", "nc_burst_buf_dirname": folder, "nc_burst_buf_del_on_close": "enable"}
    words = ";".join(f"{name}={value}" for name, value in hints.items())
    return {"LD_LIBRARY_PATH": str(library()), "PNETCDF_HINTS": words}
