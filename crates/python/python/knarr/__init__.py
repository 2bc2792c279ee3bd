"""Knarr: chooses how each variable of netCDF, HDF5 and Zarr data is compressed, and proves that nothing was lost."""

from ._advice import Advice, advise
from ._checkpoint import Checkpoint, Committed, Restart, StoredArray
from ._encoding import encoding
from ._files import Repacked, Verified, content_hash, repack, verify
from ._filter import hdf5, plugin_path, register
from ._frames import compress, decompress
from ._knarr import KnarrError, __version__
from ._output import Output, Written
from ._part import Part
from ._write import write

__all__ = [
    "Advice",
    "Checkpoint",
    "Committed",
    "KnarrError",
    "Output",
    "Part",
    "Repacked",
    "Restart",
    "StoredArray",
    "Verified",
    "Written",
    "__version__",
    "advise",
    "compress",
    "content_hash",
    "decompress",
    "encoding",
    "hdf5",
    "plugin_path",
    "register",
    "repack",
    "verify",
    "write",
]

register()
