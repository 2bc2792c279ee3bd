#!/usr/bin/env bash
# Builds the adapters that let the command use MPI into DIRECTORY: one for each kind of MPI whose compiler is here.
# MPICC names another compiler.
set -euo pipefail
directory=${1:?usage: tools/build-mpi.sh DIRECTORY}
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
cd "$(dirname "$0")/../crates/mpi/c"
built=" "
for compiler in ${MPICC:-} mpicc.openmpi mpicc.mpich mpicc; do
  command -v "$compiler" >/dev/null || continue
  # Its own header says which ABI it is; all but Open MPI have that of MPICH.
  macros=$("$compiler" -E -dM knarr_mpi.c)
  mpi=mpich
  grep -qw OPEN_MPI <<<"$macros" && mpi=openmpi
  case $built in *" $mpi "*) continue ;; esac
  "$compiler" -std=c99 -O2 -Wall -Wextra -fPIC -shared knarr_mpi.c knarr_datatype.c \
    -o "$directory/libknarr_mpi-$mpi.so.tmp"
  # Processes may have the old one loaded.
  mv -f "$directory/libknarr_mpi-$mpi.so.tmp" "$directory/libknarr_mpi-$mpi.so"
  built+="$mpi "
done
