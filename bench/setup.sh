#!/usr/bin/env bash
# Installs what the benchmarks and the end-to-end tests need beside Knarr itself:
#   system: h5repack, h5diff, h5dump (hdf5-tools), nccopy, ncdump (netcdf-bin), the headers of HDF5 for
#           the C programs of the tests (libhdf5-dev, libhdf5-openmpi-dev, openmpi-bin) and two
#           collections of real sample files (libncarg-data, ferret-datasets);
#   Python: bench/requirements.txt into .venv/ of the repository.
# Nothing else outside .venv/ is changed. Safe to run again.
set -euo pipefail
cd "$(dirname "$0")/.."

system_packages=(hdf5-tools netcdf-bin libhdf5-dev libhdf5-openmpi-dev openmpi-bin libncarg-data ferret-datasets)

missing_packages() {
    for package in "${system_packages[@]}"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || echo "$package"
    done
}

if ! command -v apt-get >/dev/null; then
    for tool in h5repack h5diff h5dump nccopy ncdump; do
        command -v "$tool" >/dev/null || {
            echo "setup.sh: '$tool' is missing and this system has no apt-get." >&2
            echo "Install the HDF5 and netCDF command line tools with its package manager, then run again." >&2
            exit 1
        }
    done
else
    mapfile -t missing < <(missing_packages)
    if ((${#missing[@]})); then
        as_root=()
        if ((EUID != 0)); then
            if sudo -n true 2>/dev/null; then
                as_root=(sudo)
            else
                echo "setup.sh: these packages are missing: ${missing[*]}" >&2
                echo "Neither root nor password-less sudo is available. Ask for:" >&2
                echo "    sudo apt-get install --no-install-recommends ${missing[*]}" >&2
                exit 1
            fi
        fi
        "${as_root[@]}" apt-get update -qq
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends "${missing[@]}"
    fi
fi

[ -x .venv/bin/python ] || python3 -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check -r bench/requirements.txt
echo "setup.sh: ready. Data: .venv/bin/python bench/data.py   Run: .venv/bin/python bench/run.py --help"
