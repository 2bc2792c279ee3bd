#!/usr/bin/env python3
"""LAMMPS, Meep and AMRClaw start again from restored checkpoint sets, and go on as from their own files.

    bench/codes/setup.sh; .venv/bin/python tests/suites/restart.py [lammps] [meep] [amrclaw]

Each code writes its restart files (LAMMPS and Meep one a rank, on several ranks; AMRClaw, in Fortran, one), and goes on
from them to a later step: once from the files themselves, once from files that `knarr checkpoint restore` brought back
after the first were deleted. What both write at the later step must be equal: byte for byte, or where it is an HDF5
file, which holds the time of writing, in every bit of every variable.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import h5py

REPOSITORY = Path(__file__).resolve().parents[2]
CODES = REPOSITORY / "bench" / "codes"
INSTALLED = REPOSITORY / "bench" / ".codes-venv"
CLAWPACK = INSTALLED / "clawpack-5.14.0"
KNARR = Path(os.environ.get("KNARR_BIN", REPOSITORY / "target" / "release" / "knarr")).resolve()
DEBIAN_PYTHON = "/usr/bin/python3"
RANKS = 4
LAMMPS_AGAIN = """
read_restart    melt.20.%
pair_style      lj/cut 2.5
pair_coeff      1 1 1.0 1.0 2.5
neighbor        0.3 bin
neigh_modify    every 20 delay 0 check no
fix             1 all nve
restart         20 melt.*.%
run             20
"""


def run(folder: Path, *command: object) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{command} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def on_ranks(*command: object) -> list[object]:
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *root, "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-n", RANKS, *command]


def lammps_begin(folder: Path) -> list[Path]:
    small = ["-var", "cells", 12, "-var", "every", 20, "-var", "steps", 20]
    run(folder, *on_ranks("lmp", "-in", CODES / "lammps_melt.in", *small))
    return sorted(folder.glob("melt.20.*"))


def lammps_go_on(folder: Path) -> list[Path]:
    (folder / "again.in").write_text(LAMMPS_AGAIN)
    run(folder, *on_ranks("lmp", "-in", "again.in"))
    return sorted(folder.glob("melt.40.*"))


def meep_begin(folder: Path) -> list[Path]:
    run(folder, *on_ranks(DEBIAN_PYTHON, CODES / "meep_crystal.py", 32, 4))
    return sorted(folder.glob("4/*/*.h5"))


def meep_go_on(folder: Path) -> list[Path]:
    run(folder, *on_ranks(DEBIAN_PYTHON, CODES / "meep_crystal.py", 32, "--from", 4, 8))
    return sorted(folder.glob("8/*/*.h5"))


def amrclaw(folder: Path, *changes: str) -> None:
    script = ["import sys", f"sys.path.insert(0, {str(CODES / 'implosion')!r})", "from settings import implosion"]
    script += [f"run = implosion({str(CLAWPACK / 'amrclaw/examples/euler_2d_quadrants')!r})", "data = run.clawdata"]
    script += ["data.num_cells[:] = [28, 28]", "data.checkpt_style = 1", *changes, "run.write()"]
    run(folder, "env", f"PYTHONPATH={CLAWPACK}", INSTALLED / "bin" / "python", "-c", "\n".join(script))
    run(folder, INSTALLED / "implosion" / "xamr")


def amrclaw_begin(folder: Path) -> list[Path]:
    amrclaw(folder, "data.output_times = [0.01]")
    return sorted([*folder.glob("fort.chk*"), *folder.glob("fort.tck*")])


def amrclaw_go_on(folder: Path) -> list[Path]:
    (start,) = folder.glob("fort.chk*")
    amrclaw(folder, "data.output_times = [0.02]", "data.restart = True", f"data.restart_file = {start.name!r}")
    return sorted([*folder.glob("fort.b0002"), *folder.glob("fort.q0002")])


SUITES: dict[str, tuple[Callable[[Path], list[Path]], Callable[[Path], list[Path]]]] = {
    "lammps": (lammps_begin, lammps_go_on),
    "meep": (meep_begin, meep_go_on),
    "amrclaw": (amrclaw_begin, amrclaw_go_on),
}


def through_a_set(files: list[Path], top: Path) -> None:
    """Packs the files as one set, deletes them, and brings them back to where they were."""
    before = {path: path.read_bytes() for path in files}
    flat = {path: top / "flat" / f"{path.parent.name}.{path.name}" for path in files}
    (top / "flat").mkdir()
    for path, named in flat.items():
        path.rename(named)
    run(top, KNARR, "checkpoint", "pack", "flat", "-o", "set", "--no-base")
    shutil.rmtree(top / "flat")
    run(top, KNARR, "checkpoint", "restore", "set", "-d", "flat")
    for path, named in flat.items():
        named.rename(path)
        if path.read_bytes() != before[path]:
            raise SystemExit(f"{path.name} is not what was packed")


def values(path: Path) -> dict[str, bytes]:
    """What must not differ in a restart file, by name of variable."""
    if path.suffix != ".h5":
        return {"": path.read_bytes()}
    found = {}

    def take(name: str, node: object) -> None:
        if isinstance(node, h5py.Dataset):
            found[name] = node[...].tobytes()

    with h5py.File(path) as file:
        file.visititems(take)
    return found


def check(name: str) -> bool:
    begin, go_on = SUITES[name]
    with tempfile.TemporaryDirectory() as temporary:
        top = Path(temporary)
        plain, restored = top / "plain", top / "restored"
        plain.mkdir()
        files = begin(plain)
        if not files:
            raise SystemExit(f"{name} wrote no restart files")
        shutil.copytree(plain, restored)
        through_a_set([restored / path.relative_to(plain) for path in files], top)
        pairs = list(zip(go_on(plain), go_on(restored), strict=True))
        different = [ours.name for own, ours in pairs if values(own) != values(ours)]
        print(f"{name}: {len(files)} restart files; {len(pairs)} files after them", flush=True)
        for path in different:
            print(f"    {path} DIFFERS")
        return bool(pairs) and not different


def main() -> int:
    wanted = sys.argv[1:] or list(SUITES)
    unknown = set(wanted) - set(SUITES)
    if unknown:
        raise SystemExit(f"no code {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}")
    if not shutil.which("lmp") or not (INSTALLED / "implosion" / "xamr").exists():
        raise SystemExit("the codes are not installed: run bench/codes/setup.sh")
    return 0 if all([check(name) for name in wanted]) else 1


if __name__ == "__main__":
    sys.exit(main())
