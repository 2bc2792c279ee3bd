#!/usr/bin/env bash
# Installs the simulation codes whose restart files bench/checkpoint_data.py makes, about 1.3 GB:
#   system: LAMMPS, Meep with MPI (runs in Debian's own Python), PnetCDF, FFTW, a Fortran compiler;
#   bench/.codes-venv: Dedalus and Veros, and AMRClaw built from Clawpack's source package.
# Safe to run again.
set -euo pipefail
cd "$(dirname "$0")"
venv=$PWD/../.codes-venv
clawpack=clawpack-5.14.0

system_packages=(
    lammps python3-meep-openmpi python3-matplotlib python3-scipy python3-mpi4py
    libfftw3-dev libfftw3-mpi-dev libpnetcdf-dev libopenmpi-dev openmpi-bin gfortran make zstd strace
)
missing=()
for package in "${system_packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if ((${#missing[@]})); then
    if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
        echo "setup.sh: these Debian packages are missing: ${missing[*]}; install them, then run again." >&2
        exit 1
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
libraries=/usr/lib/$(uname -m)-linux-gnu
# Dedalus is compiled against the system's MPI and FFTW, where it looks for both.
CC=mpicc FFTW_PATH=/usr FFTW_LIBRARY_PATH=$libraries MPI_PATH=$libraries/openmpi \
    "$venv/bin/pip" install -q --disable-pip-version-check -r requirements.txt

if [ ! -x "$venv/implosion/xamr" ]; then
    "$venv/bin/pip" download -q --disable-pip-version-check --no-deps --no-binary clawpack \
        -d "$venv" "${clawpack/-/==}"
    tar xf "$venv/$clawpack.tar.gz" -C "$venv"
    rm -rf "$venv/implosion"
    cp -r implosion "$venv/implosion"
    cp "$venv/$clawpack/amrclaw/examples/euler_2d_quadrants/setprob.f" "$venv/implosion"
    make -s -C "$venv/implosion" .exe CLAW="$venv/$clawpack" FC=gfortran FFLAGS="-O2 -fopenmp" >/dev/null
fi
echo "setup.sh: ready. Data: bench/.codes-venv/bin/python bench/checkpoint_data.py"
