#!/usr/bin/env python3
"""Runs a real model plain and under `knarr run`, and compares the files that it writes.

    .venv/bin/python tests/suites/model.py

The model is pyro (pyro-hydro from PyPI, with h5py and numba, about 450 MB in target/models): compressible gas
dynamics, the Kelvin-Helmholtz problem. Each of its files must hold what it holds without Knarr, by `knarr verify`,
and be smaller; with Knarr's filter and a bound, within that.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

REPOSITORY = Path(__file__).resolve().parents[2]
KNARR = Path(os.environ.get("KNARR_BIN", REPOSITORY / "target" / "release" / "knarr")).resolve()
PACKAGES = REPOSITORY / "target" / "models" / "pyro"
VERSION = "pyro-hydro==4.5.1"
NEEDS = [VERSION, "scipy"]
BOUND = 1e-4
MODEL = [sys.executable, PACKAGES / "bin" / "pyro_sim.py", "compressible", "kh", "inputs.kh"]
SETTINGS = [
    *("vis.dovis=0", "mesh.nx=256", "mesh.ny=256", "driver.max_steps=40", "driver.tmax=10"),
    *("io.do_io=1", "io.n_out=8", "io.dt_out=100", "io.basename=kh_"),
]
RULES = {
    "handed over": "",
    "close": 'when = "close"\n',
    "Knarr's filter": 'portable = "knarr"\n',
    f"Knarr's filter, within {BOUND}": f'portable = "knarr"\nvariables."*".max_abs_error = {BOUND}\n',
}


def install() -> None:
    if not (PACKAGES / "scipy").exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", PACKAGES, *NEEDS], check=True)


def run(folder: Path, *prefix: object) -> list[Path]:
    """The files that the model writes in `folder`."""
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES), "MPLBACKEND": "agg"}
    done = subprocess.run(
        [*prefix, *MODEL, *SETTINGS], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"the model failed:\n{done.stdout}\n{done.stderr}")
    files = sorted(folder.glob("*.h5"))
    if len(files) < 5:
        raise SystemExit(f"the model wrote {files} only:\n{done.stdout}\n{done.stderr}")
    return files


def differences(plain: Path, found: Path, bound: bool) -> str:
    """How a file differs from that of a plain run; empty if it does not."""
    if not bound:
        done = subprocess.run([KNARR, "verify", plain, found], capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else done.stdout + done.stderr
    errors = {}

    def compare(name: str, dataset: object) -> None:
        if isinstance(dataset, h5py.Dataset):
            with h5py.File(plain) as file:
                pair = [np.asarray(each[...], "f8") for each in (file[name], dataset)]
                errors[name] = float(np.max(np.abs(pair[0] - pair[1]), initial=0))

    with h5py.File(found) as file:
        file.visititems(compare)
    return "".join(f"{name} is off by {error}\n" for name, error in errors.items() if not error <= BOUND)


def main() -> int:
    install()
    h5py.h5pl.append(os.fsencode(KNARR.parent / "hdf5-plugins"))
    fine = True
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        plain = run(top / "plain")
        size = sum(path.stat().st_size for path in plain)
        print(f"{VERSION}: {len(plain)} files, {size / 1e6:.1f} MB", flush=True)
        for number, (rule, keys) in enumerate(RULES.items()):
            configuration = top / f"{number}.toml"
            configuration.write_text(f'[[file]]\npattern = "*.h5"\n{keys}')
            found = run(top / str(number), KNARR, "run", "--quiet", "-c", configuration, "--")
            if [path.name for path in plain] != [path.name for path in found]:
                raise SystemExit(f"{rule}: the model wrote {found}")
            pairs = zip(plain, found, strict=True)
            wrong = [text for pair in pairs if (text := differences(*pair, "max_abs_error" in keys))]
            packed = sum(path.stat().st_size for path in found)
            print(f"  {rule}: {'DIFFERENT' if wrong else 'equal'}, {size / packed:.2f} times smaller", flush=True)
            for line in wrong:
                print(f"    {line}")
            fine &= not wrong and packed < size
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
