"""Runs simulation codes and keeps their restart files: bench/inputs/checkpoint/<case>/<step>/<one file a rank>.

    bench/codes/setup.sh                                              # once: installs the codes
    bench/.codes-venv/bin/python bench/checkpoint_data.py [CASE...]   # all: about 15 minutes on two cores
    .venv/bin/python bench/checkpoint_data.py --made          # those that need no code installed: half a minute

A case that is there is kept: it is complete, because it is renamed when done. `case.json` says what its files are,
and how far they are the code's own.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import checkpoint_held_out
import checkpoint_made

BENCH = Path(__file__).resolve().parent
CODES = BENCH / "codes"
INSTALLED = BENCH / ".codes-venv"
CLAWPACK = INSTALLED / "clawpack-5.14.0"
CHECKPOINTS = BENCH / "inputs" / "checkpoint"
DEBIAN_PYTHON = "/usr/bin/python3"
"""The Python that Debian's Meep is built for."""


@dataclass
class Case:
    """One code's restart files of several steps."""

    name: str
    code: str
    files: str
    """Who wrote the files, with what, and what in them is not the code's own doing."""
    ranks: int
    distribution: str
    like: str
    """The paper's application whose checkpoints these resemble most, with its best relative improvement."""
    make: Callable[[Path], dict[str, list[Path]]]
    """Runs the code in an empty folder; step to the files of all ranks."""
    kind: str = "code"
    """`code`: of an installed code. `made`: of a small simulation of the benchmark. `held out`: also, and nothing that
    chooses was tuned on it."""


def run(folder: Path, *command: object, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout[-5000:]}\n{command} failed in {folder}. Has bench/codes/setup.sh been run?")


def on_ranks(ranks: int) -> list[str]:
    """The start of a command on more ranks than there are cores, which must not wait for each other busily."""
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *root, "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-n", str(ranks)]


def by_step(files: list[Path], step: str) -> dict[str, list[Path]]:
    """Files by what the pattern's first group finds in their path."""
    found: dict[str, list[Path]] = {}
    for path in sorted(files):
        found.setdefault(re.search(step, str(path)).group(1).zfill(4), []).append(path)
    return found


def lammps(folder: Path) -> dict[str, list[Path]]:
    run(folder, *on_ranks(16), "lmp", "-in", CODES / "lammps_melt.in")
    return by_step(list(folder.glob("melt.*.*")), r"melt\.(\d+)\.")


def meep(folder: Path) -> dict[str, list[Path]]:
    run(folder, *on_ranks(16), DEBIAN_PYTHON, CODES / "meep_crystal.py", 72, 10, 20, 30)
    for path in folder.glob("*/rank*/*.h5"):
        path.rename(path.parents[1] / f"{path.stem}.{path.parent.name}.h5")
    return by_step(list(folder.glob("*/*.h5")), r"(\d+)/\w+\.rank")


def dedalus(folder: Path) -> dict[str, list[Path]]:
    run(folder, *on_ranks(16), sys.executable, CODES / "dedalus_convection.py", 2048, 256, 12, 36)
    found = by_step(list(folder.glob("checkpoints/*/*.h5")), r"_s(\d+)_p")
    found.pop("0001")
    return found


def veros(folder: Path) -> dict[str, list[Path]]:
    run(folder, sys.executable, CODES / "veros_channel.py", folder, "parts", 10, 20, 30)
    return by_step(list(folder.glob("*/*.nc")), r"(\d+)/acc")


def veros_strided(folder: Path) -> dict[str, list[Path]]:
    run(folder, sys.executable, CODES / "veros_channel.py", folder, "strided", 10, 20, 30)
    return by_step(list(folder.glob("*/*.nc")), r"(\d+)/acc")


def implosion(folder: Path) -> dict[str, list[Path]]:
    program = INSTALLED / "implosion" / "xamr"
    example = CLAWPACK / "amrclaw" / "examples" / "euler_2d_quadrants"
    paths = {"PYTHONPATH": str(CLAWPACK)}
    run(folder, sys.executable, CODES / "implosion" / "settings.py", example, environment=paths)
    run(folder, program, environment={"OMP_NUM_THREADS": str(os.cpu_count())})
    for frame in (1, 2, 3):
        run(folder, sys.executable, CODES / "enzo_groups.py", frame, folder / f"{frame:04}", 8)
    return by_step(list(folder.glob("*/*.cpu*")), r"(\d+)/implosion")


CODES_CASES = (
    Case(
        "lammps",
        "LAMMPS, Lennard-Jones melt of 630 000 atoms",
        "LAMMPS' own restart files, its own binary format (restart melt.*.%), float64 and integers by atom",
        16,
        "segmented: boxes in space",
        "no code of the paper; a format that no reader knows",
        lammps,
    ),
    Case(
        "meep",
        "Meep, light in a photonic crystal, 72 cells cubed",
        "Meep's own per-rank dumps, HDF5, float64; renamed only",
        16,
        "segmented: boxes in space",
        "Cactus, 115 % (hyperbolic equations in three dimensions)",
        meep,
    ),
    Case(
        "dedalus",
        "Dedalus, Rayleigh-Bénard convection, 2048 by 256 modes",
        "Dedalus' own per-process files, HDF5 by h5py, float64",
        16,
        "segmented: slabs along x",
        "no code of the paper; smooth fields",
        dedalus,
    ),
    Case(
        "veros",
        "Veros, Antarctic Circumpolar Current, 80 by 112 by 15 cells, three time levels",
        "written here from one process's state: the parts that Veros' ranks hold, ghost cells included, netCDF-4 by "
        "netCDF-C, float64",
        16,
        "segmented: 4 by 4 parts with ghost cells",
        "ALE3D, 28 % (many double precision fields of one mesh)",
        veros,
    ),
    Case(
        "veros-strided",
        "Veros, as before, latest time level in float32",
        "written here from one process's state: rows of latitude dealt out to ranks, CDF-5 by PnetCDF, float32",
        16,
        "strided: every 16th row",
        "ALE3D, 28 % (similar data striped over processes)",
        veros_strided,
    ),
    Case(
        "implosion",
        "AMRClaw (Fortran), implosion in a box, four levels",
        "grids and values are AMRClaw's; given to ranks and written here as Enzo does, HDF5 by h5py, float32, "
        "thousands of small variables",
        8,
        "grids to the rank with the fewest cells",
        "Implosion, 39 % (the same problem)",
        implosion,
    ),
)


def made(name: str, ranks: int, distribution: str, make: Callable[[Path], dict[str, list[Path]]], kind: str) -> Case:
    files = " ".join((make.__doc__ or "").split())
    return Case(name, "a simulation of the benchmark", files, ranks, distribution, "no code of the paper", make, kind)


CASES = (
    *CODES_CASES,
    made("uneven", 13, "segmented: slabs of unequal extent", checkpoint_made.uneven, "made"),
    made("symmetric", 12, "segmented: slabs of unequal extent", checkpoint_made.symmetric_columns, "made"),
    made("mirrored", 16, "segmented: 4 by 4 columns", checkpoint_made.mirrored, "made"),
    made("fortran", 16, "segmented: slabs of unequal extent", checkpoint_made.fortran, "made"),
    made("lattice", 8, "segmented: slabs", checkpoint_made.lattice, "made"),
    made("lists", 8, "segmented: in the order of cells", checkpoint_made.lists, "made"),
    made("particles", 16, "segmented: boxes in space", checkpoint_held_out.particles, "held out"),
    made("blocks", 10, "blocks dealt out", checkpoint_held_out.blocks, "held out"),
    made("training", 8, "weights in each, moments dealt out", checkpoint_held_out.training, "held out"),
    made("text", 9, "segmented: slabs of unequal extent", checkpoint_held_out.text, "made"),
    made("spectra", 8, "segmented: slabs", checkpoint_held_out.spectra, "held out"),
    made("members", 20, "a member of an ensemble each", checkpoint_held_out.members, "made"),
)


def make(case: Case) -> None:
    target, working = CHECKPOINTS / case.name, CHECKPOINTS / f".{case.name}.making"
    if target.exists():
        print(f"{case.name}: there already", flush=True)
        return
    shutil.rmtree(working, ignore_errors=True)
    (working / "run").mkdir(parents=True)
    (working / "done").mkdir()
    steps = {}
    for step, files in case.make(working / "run").items():
        (working / "done" / step).mkdir()
        for path in files:
            path.rename(working / "done" / step / path.name)
        sizes = [path.stat().st_size for path in (working / "done" / step).iterdir()]
        steps[step] = {"files": len(sizes), "bytes": sum(sizes)}
    facts = {key: value for key, value in asdict(case).items() if key != "make"}
    (working / "done" / "case.json").write_text(
        json.dumps({**facts, "steps": steps}, indent=1, ensure_ascii=False) + "\n"
    )
    (working / "done").rename(target)
    shutil.rmtree(working)
    print(f"{case.name}: {steps}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="names; all if none is given")
    parser.add_argument("--made", action="store_true", help="those that need no code installed")
    options = parser.parse_args()
    wanted = [case.name for case in CASES if case.kind != "code"] if options.made else options.cases
    unknown = set(wanted) - {case.name for case in CASES}
    if unknown:
        raise SystemExit(f"no case {', '.join(sorted(unknown))}; there are {', '.join(case.name for case in CASES)}")
    for case in CASES:
        if not wanted or case.name in wanted:
            make(case)


if __name__ == "__main__":
    main()
