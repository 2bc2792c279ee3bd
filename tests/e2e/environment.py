"""Settings that HDF5 reads once, when it is loaded; imported before everything else."""

import os

os.environ["HDF5_EXTFILE_PREFIX"] = "${ORIGIN}"
"""Lets every HDF5, Knarr's too, find external raw files beside the file that names them."""
