#!/usr/bin/env python3
"""What jhdf, a reader of HDF5 in pure Java, reads of repacked files, against what h5py reads of them.

    .venv/bin/python tests/suites/jhdf.py bench/inputs/*.nc      # needs a JDK from 17 on, and Maven

Outputs are made as `.nc`, which by default keep to filters and forms of HDF5 that every reader has. Compared are signed
integers and floating point that were ever written: jhdf has wider types for unsigned numbers, and no values for
datasets without storage, such as the dimensions of netCDF-4.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import h5py

HERE = Path(__file__).resolve().parent
KNARR = os.environ.get("KNARR_BIN", str(HERE.parents[1] / "target" / "release" / "knarr"))


def build(folder: Path) -> str:
    """The class path of the compiled program."""
    libraries = folder / "lib"
    fetch = ["mvn", "-q", "-f", str(HERE / "jhdf" / "pom.xml"), "dependency:copy-dependencies"]
    subprocess.run([*fetch, f"-DoutputDirectory={libraries}"], check=True)
    subprocess.run(["javac", "-cp", f"{libraries}/*", "-d", str(folder), str(HERE / "jhdf" / "Dump.java")], check=True)
    return f"{folder}:{libraries}/*"


def expected(path: Path) -> dict[str, int]:
    """CRC-32 of the values of each dataset that can be compared."""
    found: dict[str, int] = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.kind in "fi" and item.shape and item.id.get_storage_size():
            values = item[()]
            found["/" + name] = zlib.crc32(values.astype(values.dtype.newbyteorder("<")).tobytes())

    with h5py.File(path) as file:
        file.visititems(visit)
    return found


def main() -> int:
    wrong = compared = 0
    with tempfile.TemporaryDirectory() as place:
        classes = build(Path(place))
        for number, source in enumerate(sys.argv[1:]):
            output = Path(place) / f"{number}.nc"
            subprocess.run([KNARR, "repack", source, "-o", str(output)], check=True, stdout=subprocess.DEVNULL)
            lines = subprocess.run(
                ["java", "-cp", classes, "Dump", str(output)], check=True, capture_output=True, text=True
            )
            read = dict(line.rsplit("\t", 1) for line in lines.stdout.splitlines())
            for name, crc in expected(output).items():
                compared += 1
                if read.get(name) != str(crc):
                    wrong += 1
                    print(f"{source}: {name}: jhdf reads other values than h5py")
    print(f"{compared} datasets compared, {wrong} differ")
    return int(wrong > 0 or compared == 0)


if __name__ == "__main__":
    sys.exit(main())
