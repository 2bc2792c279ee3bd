#!/usr/bin/env bash
# Installs what the benchmarks need beside what builds and tests need (tools/setup.sh):
#   system: two collections of real sample files (libncarg-data, ferret-datasets), parallel netCDF (libnetcdf-mpi-dev);
#   Python: bench/requirements.txt into .venv/ of the repository.
# Safe to run again.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -x .venv/bin/python ] || tools/setup.sh
.venv/bin/python -m pip install --quiet --disable-pip-version-check -r bench/requirements.txt
missing=()
for package in libncarg-data ferret-datasets libnetcdf-mpi-dev; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -q >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "${missing[@]}" >/dev/null
  else
    echo "benchmarks on real variables need ${missing[*]}: install these Debian packages" >&2
    exit 1
  fi
fi
echo "setup.sh: ready. Data: .venv/bin/python bench/data.py   Run: .venv/bin/python bench/run.py --help"
