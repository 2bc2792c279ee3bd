#!/usr/bin/env bash
# Runs every fuzz target for a number of seconds; installs cargo-fuzz if it is not there. The toolchain of the
# repository serves: without a sanitizer no nightly one is needed. The targets reach no unsafe code of Knarr's, so what
# they look for (panics, endless loops, too much memory, wrong values) shows without.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-20}
command -v cargo-fuzz >/dev/null || cargo install --locked -q cargo-fuzz
for target in $(cargo fuzz list); do
  echo "fuzzing $target for $seconds s"
  cargo fuzz run --sanitizer none "$target" -- \
    -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -verbosity=0
done
