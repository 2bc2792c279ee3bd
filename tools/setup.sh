#!/usr/bin/env bash
# Installs what builds and tests need: Python packages into .venv and, where this is root on Debian, the
# command-line readers that the tests compare with.
set -euo pipefail
cd "$(dirname "$0")/.."
"${PYTHON:-python3}" -m venv .venv
.venv/bin/pip install -q --disable-pip-version-check -r tools/requirements.txt
# An h5py that brings HDF5 1.14, for the tests that run with it too.
.venv/bin/pip install -q --disable-pip-version-check --no-deps --upgrade --target .venv/hdf5-1.14 h5py==3.12.1
# Where .cargo/config.toml looks: libclang for bindgen, and the compiler's own headers, which the wheel lacks.
libclang=$(.venv/bin/python -c 'import clang.native, os; print(os.path.dirname(clang.native.__file__))')
ln -sfn "$libclang" .venv/libclang
ln -sfn "$(cc -print-file-name=include)" .venv/gcc-include
missing=()
[ -e /usr/include/pnetcdf.h ] || missing+=(pnetcdf.h)
compgen -G '/usr/lib/*/netcdf/mpi/libnetcdf.so' >/dev/null || missing+=("netCDF for MPI")
/usr/bin/python3 -c 'import mpi4py, h5py._debian_h5py_mpi' 2>/dev/null || missing+=("h5py for MPI")
compgen -G '/usr/lib/*/libucp.so.0' >/dev/null || missing+=("libucp.so.0")
for tool in h5dump h5diff h5repack ncdump nccopy ncks cdo h5cc h5pcc mpirun mpicc.openmpi mpicc.mpich g++ gfortran \
  nf-config valgrind pkg-config ncmpigen mkfs.ext4 ip openssl; do
  command -v "$tool" >/dev/null || missing+=("$tool")
done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -q >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -yq \
      hdf5-tools netcdf-bin nco cdo libhdf5-dev libhdf5-openmpi-dev openmpi-bin libopenmpi-dev mpich libmpich-dev g++ \
      gfortran libnetcdff-dev valgrind pkg-config pnetcdf-bin libpnetcdf-dev libnetcdf-mpi-dev \
      python3-h5py-mpi python3-mpi4py e2fsprogs iproute2 openssl libucx0 >/dev/null
  else
    echo "tests need ${missing[*]}: install the packages hdf5-tools, netcdf-bin, nco, cdo, libhdf5-dev," \
      "libhdf5-openmpi-dev, openmpi-bin, libopenmpi-dev, mpich, libmpich-dev, g++, gfortran," \
      "libnetcdff-dev, valgrind, pkg-config, pnetcdf-bin, libpnetcdf-dev, libnetcdf-mpi-dev, python3-h5py-mpi," \
      "python3-mpi4py, e2fsprogs, iproute2, openssl and libucx0" >&2
  fi
fi
