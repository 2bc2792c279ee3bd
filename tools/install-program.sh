#!/usr/bin/env bash
# Puts the command and the libraries it uses below PREFIX: bin/knarr, and lib/knarr with what programs load or are linked with.
set -euo pipefail
prefix=$(realpath -m "${1:?usage: tools/install-program.sh PREFIX [DIRECTORY OF THE COMMAND]}")
bin=$(realpath -m "${2:-$prefix/bin}")
cd "$(dirname "$0")/../target/release"
install -D -s -m 755 knarr "$bin/knarr"
install -D -s -m 755 libknarr_preload.so "$prefix/lib/knarr/libknarr_preload.so"
install -D -m 755 hdf5-plugins/libknarr_h5.so "$prefix/lib/knarr/hdf5-plugins/libknarr_h5.so"
install -D -s -m 755 libdtf.so "$prefix/lib/knarr/libdtf.so"
install -D -m 644 ../../crates/dtf/include/dtf.h "$prefix/lib/knarr/include/dtf.h"
for adapter in libknarr_mpi-*.so; do
  [ ! -e "$adapter" ] || install -D -m 755 "$adapter" "$prefix/lib/knarr/$adapter"
done
