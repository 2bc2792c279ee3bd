#!/usr/bin/env bash
# Runs every fuzz target for a number of seconds. They look for panics, endless loops, too much memory and wrong values, in
# the crates of this repository. The toolchain of the repository serves, and what `make build` has built; `cargo +nightly
# fuzz run TARGET` (with cargo-fuzz) looks at all that they depend on, too, and with AddressSanitizer at unsafe code.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-20}
# Inputs are other ones each time; FUZZ_SEED=N tries those of another run again.
seed=${FUZZ_SEED:-$((RANDOM * 32768 + RANDOM + 1))}
echo "fuzzing for $seconds s each, FUZZ_SEED=$seed"
mapfile -t targets < <(sed -n 's/^name = "\(.*\)"/\1/p' fuzz/Cargo.toml | tail -n +2)
.venv/bin/python fuzz/seeds.py target/fuzz/seeds
# All packages are named and some programs: so dependencies have the features that they are built with.
RUSTC_WORKSPACE_WRAPPER=$PWD/fuzz/rustc.sh cargo build --release --locked --workspace "${targets[@]/#/--bin=}"
# A small stack: what recurses without end, or as deep as its input says, does not pass because the input was short.
ulimit -s 1024
export seconds seed
# One on each core: a target uses no more.
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I TARGET bash -euo pipefail -c '
  mkdir -p fuzz/corpus/TARGET fuzz/artifacts/TARGET target/fuzz/seeds/TARGET
  target/release/TARGET -artifact_prefix=fuzz/artifacts/TARGET/ -max_total_time="$seconds" -seed="$seed" -timeout=60 \
    -rss_limit_mb=2048 -verbosity=0 fuzz/corpus/TARGET target/fuzz/seeds/TARGET'
