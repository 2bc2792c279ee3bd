"""Datasets that take their space early, as all do that parallel HDF5 creates, are packed so that ranks can append to
them: HDF5 notes that in the fill value message, which Knarr sets in the finished file."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

EARLY, INCREMENTAL = h5py.h5d.ALLOC_TIME_EARLY, h5py.h5d.ALLOC_TIME_INCR
VALUES = np.linspace(0, 1, 6 * 512, dtype="f4").reshape(6, 512)
FILL_VALUES_ARE_SHARED = 1 << 5
"""`H5O_SHMESG_FILL_FLAG`."""


def creation(user_block: int, size: int) -> h5py.h5p.PropFCID:
    """Properties of a file with addresses of so many bytes."""
    properties = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    properties.set_userblock(user_block)
    properties.set_sizes(size, size)
    return properties


def early() -> h5py.h5p.PropDCID:
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_alloc_time(EARLY)
    return properties


def write(path: Path, properties: h5py.h5p.PropFCID, low: str = "earliest", attributes: int = 0, **how: object) -> None:
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    bounds = {"earliest": h5py.h5f.LIBVER_EARLIEST, "v18": h5py.h5f.LIBVER_V18, "v110": h5py.h5f.LIBVER_V110}
    access.set_libver_bounds(bounds[low], h5py.h5f.LIBVER_LATEST)
    with h5py.File(h5py.h5f.create(bytes(path), h5py.h5f.ACC_TRUNC, fcpl=properties, fapl=access)) as file:
        shaped = {"maxshape": (None, 512), "chunks": (1, 512), **how}
        file.create_dataset("early", data=VALUES, dcpl=early(), fillvalue=-1, **shaped)
        file.create_dataset("none yet", shape=(0, 512), dtype="f4", dcpl=early(), **shaped)
        file.create_dataset("later", data=VALUES, **shaped)
        # Copied as it is, with its filters.
        pairs = np.zeros(100, [("a", "i4"), ("b", "f8")])
        file.create_dataset("pairs", data=pairs, dcpl=early(), chunks=(10,), maxshape=(None,), compression="gzip")
        for name, number in itertools.product(file, range(attributes)):
            file[name].attrs[f"note {number}"] = "long enough for a header in several parts " * 4


def times(path: Path) -> dict[str, int]:
    with h5py.File(path) as file:
        return {name: file[name].id.get_create_plist().get_alloc_time() for name in file}


EXPECTED = {"early": EARLY, "none yet": EARLY, "later": INCREMENTAL, "pairs": EARLY}


@pytest.mark.parametrize("user_block", [0, 1024])
@pytest.mark.parametrize("attributes", [0, 25])
# HDF5 itself does not read the newest form with addresses of four bytes.
@pytest.mark.parametrize(("low", "size"), [("earliest", 4), ("earliest", 8), ("v18", 4), ("v18", 8), ("v110", 8)])
def test_the_time_of_allocation_stays(knarr, tmp_path, user_block, attributes, low, size):
    write(tmp_path / "in.h5", creation(user_block, size), low, attributes, track_order=attributes > 0)
    knarr("repack", tmp_path / "in.h5", "-o", tmp_path / "out.h5", "--portable", "core", "--low", low)
    assert times(tmp_path / "out.h5") == EXPECTED
    knarr("verify", tmp_path / "in.h5", tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5", "r+") as file:
        assert file.userblock_size == user_block and file["early"].id.get_create_plist().get_nfilters() > 0
        assert file.id.get_create_plist().get_sizes() == (size, size)
        assert all(len(file[name].attrs) == attributes for name in file)
        for name in ("early", "none yet"):
            file[name].resize(8, axis=0)
            file[name][7] = VALUES[0]
            file[name].attrs["written"] = "afterwards"
    with h5py.File(tmp_path / "out.h5") as file:
        assert np.array_equal(file["early"][:6], VALUES) and (file["early"][6] == -1).all()
        assert np.array_equal(file["none yet"][7], VALUES[0])
    assert subprocess.run(["h5dump", "-pH", tmp_path / "out.h5"], capture_output=True, check=False).returncode == 0


def test_chunks_without_filters(knarr, tmp_path):
    write(tmp_path / "in.h5", creation(0, 8))
    knarr("repack", tmp_path / "in.h5", "-o", tmp_path / "out.h5", "--chain", "raw")
    assert times(tmp_path / "out.h5") == EXPECTED
    knarr("verify", tmp_path / "in.h5", tmp_path / "out.h5")


def test_a_message_that_datasets_share_stays(knarr, tmp_path):
    properties = creation(0, 8)
    maps = Path("/proc/self/maps").read_text().split()
    hdf5 = ctypes.CDLL(next(word for word in maps if "h5py.libs/libhdf5-" in word))
    for function in (hdf5.H5Pset_shared_mesg_nindexes, hdf5.H5Pset_shared_mesg_index):
        function.argtypes = [ctypes.c_int64, *[ctypes.c_uint] * 3][: 2 if function.__name__.endswith("nindexes") else 4]
    assert hdf5.H5Pset_shared_mesg_nindexes(properties.id, 1) >= 0
    assert hdf5.H5Pset_shared_mesg_index(properties.id, 0, FILL_VALUES_ARE_SHARED, 1) >= 0
    write(tmp_path / "in.h5", properties)
    knarr("repack", tmp_path / "in.h5", "-o", tmp_path / "out.h5", "--portable", "core")
    knarr("verify", tmp_path / "in.h5", tmp_path / "out.h5")
    # HDF5 shares the one that is there again in this order of datasets.
    assert times(tmp_path / "out.h5") == {**EXPECTED, "pairs": INCREMENTAL}
