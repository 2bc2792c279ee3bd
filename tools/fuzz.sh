#!/usr/bin/env bash
# Runs every fuzz target for a number of seconds; installs cargo-fuzz if it is not there. The toolchain of the
# repository serves: without a sanitizer no nightly one is needed. They look for panics, endless loops, too much memory and
# wrong values; `cargo +nightly fuzz run TARGET` looks with AddressSanitizer at the little unsafe code they reach.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-20}
# A number makes them try the same again; 0 is another one each time.
seed=${FUZZ_SEED:-0}
# A small stack: what recurses without end, or as deep as its input says, does not pass because the input was short.
ulimit -s 1024
command -v cargo-fuzz >/dev/null || cargo install --locked -q cargo-fuzz
.venv/bin/python fuzz/seeds.py fuzz/target/seeds
cargo fuzz build --target-dir target --sanitizer none
export seconds seed
# One on each core: a target uses no more.
cargo fuzz list | xargs -P "$(nproc)" -I TARGET bash -euo pipefail -c '
  echo "fuzzing TARGET for $seconds s"
  mkdir -p fuzz/corpus/TARGET fuzz/target/seeds/TARGET
  cargo fuzz run --target-dir target --sanitizer none TARGET fuzz/corpus/TARGET fuzz/target/seeds/TARGET -- \
    -max_total_time="$seconds" -seed="$seed" -timeout=60 -rss_limit_mb=2048 -verbosity=0'
