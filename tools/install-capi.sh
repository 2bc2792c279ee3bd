#!/usr/bin/env bash
# Puts what C and Fortran programs need below PREFIX: header, module source, libraries, pkg-config file.
set -euo pipefail
prefix=${1:?usage: tools/install-capi.sh PREFIX}
mkdir -p "$prefix"
prefix=$(cd "$prefix" && pwd)
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
install -D -m 644 crates/capi/include/knarr.h "$prefix/include/knarr.h"
# Several modules, one file to compile, with procedures for every type.
fortran=crates/capi/fortran
awk -f $fortran/types.awk $fortran/knarr_c.f90 $fortran/knarr_support.f90 $fortran/knarr.f90 \
  $fortran/knarr_checkpoints.f90 $fortran/knarr_outputs.f90 > "$prefix/include/knarr.f90"
chmod 644 "$prefix/include/knarr.f90"
# Programs with MPI compile these with it, because MPIs differ in their ABI.
install -m 644 crates/mpi/c/knarr_comm.h crates/mpi/c/knarr_mpi.c $fortran/knarr_mpi.f90 "$prefix/include/"
install -D -m 755 target/release/libknarr.so "$prefix/lib/libknarr.so.0"
strip --strip-unneeded "$prefix/lib/libknarr.so.0"
ln -sfn libknarr.so.0 "$prefix/lib/libknarr.so"
install -D -m 644 target/release/libknarr.a "$prefix/lib/libknarr.a"
strip --strip-debug "$prefix/lib/libknarr.a"
mkdir -p "$prefix/lib/pkgconfig"
# Relative to itself, so that the whole may be moved.
cat > "$prefix/lib/pkgconfig/knarr.pc" <<END
prefix=\${pcfiledir}/../..
includedir=\${prefix}/include
libdir=\${prefix}/lib

Name: knarr
Description: Compresses arrays in memory under a stated quality
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lknarr
Libs.private: -lpthread -ldl -lm
END
