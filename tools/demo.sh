#!/usr/bin/env bash
# The main job on real files: Met Office, NEMO and OSTIA data of the package iris-sample-data.
set -euo pipefail
cd "$(dirname "$0")/.."
knarr=target/release/knarr
data=$(.venv/bin/python -c 'import iris_sample_data, os; print(os.path.join(os.path.dirname(iris_sample_data.__file__), "sample_data"))')
out=target/demo
rm -rf "$out"
mkdir -p "$out"
run() { printf '\n$ knarr %s\n' "$*"; "$knarr" "$@"; }
run inspect "$data/ostia_monthly.nc"
run repack "$data/ostia_monthly.nc" "$data/A1B_north_america.nc" "$data/orca2_votemper.nc" "$data"/NEMO/*.nc \
  -o "$out" --goal ratio --report "$out/report.html"
run verify "$data/A1B_north_america.nc" "$out/A1B_north_america.nc"
run hash "$data/A1B_north_america.nc" "$out/A1B_north_america.nc"
run repack "$data/A1B_north_america.nc" -o "$out/rounded.zarr" --max-abs-error air_temperature=0.01
run verify "$data/A1B_north_america.nc" "$out/rounded.zarr"
run explain "$out/A1B_north_america.nc" --variable air_temperature
printf '\nOpen %s/report.html in a browser.\n' "$out"
