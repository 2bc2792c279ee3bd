#!/usr/bin/env bash
# Runs every fuzz target for a number of seconds. Needs a nightly toolchain and cargo-fuzz; installs the latter.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-20}
if ! rustup toolchain list | grep -q nightly; then
  echo "fuzzing needs a nightly toolchain: rustup toolchain install nightly" >&2
  exit 1
fi
cargo fuzz --version >/dev/null 2>&1 || cargo install --locked -q cargo-fuzz
for target in $(cargo +nightly fuzz list); do
  cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -verbosity=0
done
