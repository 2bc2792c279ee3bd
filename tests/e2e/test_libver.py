"""Forms of HDF5 objects: the oldest that serve by default, what `--low` and `--high` ask for, metadata in one place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pyfive
import pytest

from hdf5_compare import require_same
from running import ALL, FIELD, is_packed, script
from values import smooth_field


def climate(path: Path, steps: int = 400, shape: tuple[int, int] = (90, 144)) -> Path:
    """As a CMIP file: an unlimited time with bounds, one field, many attributes."""
    with netCDF4.Dataset(path, "w") as file:
        file.setncatts({f"attribute_{number}": "a" * 60 for number in range(40)} | {"variable_id": "tas"})
        file.createDimension("time", None)
        for name, length in (("lat", shape[0]), ("lon", shape[1]), ("bnds", 2)):
            file.createDimension(name, length)
        time = file.createVariable("time", "f8", ("time",), chunksizes=(512,))
        time.setncatts({"units": "days since 1850-01-01", "bounds": "time_bnds", "axis": "T"})
        bounds = file.createVariable("time_bnds", "f8", ("time", "bnds"), chunksizes=(512, 2))
        tas = file.createVariable("tas", "f4", ("time", "lat", "lon"), zlib=True, chunksizes=(min(steps, 4), *shape))
        tas.setncatts({f"note_{number}": "b" * 30 for number in range(12)})
        time[:] = np.arange(steps, dtype="f8")
        bounds[:] = np.stack([np.arange(steps), np.arange(steps) + 1.0], axis=1)
        tas[:] = smooth_field((steps, *shape))
    return path


def read_by_pyfive(path: Path) -> dict[str, np.ndarray]:
    with pyfive.File(str(path)) as file:
        return {name: file[name][...] for name in ("time", "time_bnds", "tas")}


def test_a_reader_in_pure_python_opens_outputs(knarr, tmp_path, out):
    source = climate(tmp_path / "in.nc")
    knarr("repack", source, "-o", out / "a.nc", "--portable", "core")
    with netCDF4.Dataset(source) as file:
        expected = {name: file[name][...].filled() for name in ("time", "time_bnds", "tas")}
    for name, values in read_by_pyfive(out / "a.nc").items():
        np.testing.assert_array_equal(values, expected[name])


@pytest.mark.parametrize(("steps", "shape"), [(3, (90, 144)), (2000, (90, 144)), (700, (20, 40)), (5, (1100, 1200))])
def test_outputs_are_packed_as_cmip7_asks(knarr, tmp_path, out, steps, shape):
    source = climate(tmp_path / "in.nc", steps, shape)
    check = [sys.executable, Path(sys.executable).with_name("check_cmip7_packing")]
    if steps > 512:
        assert "FAIL" in subprocess.run([*check, source], capture_output=True, text=True, check=False).stdout
    knarr("repack", source, "-o", out / "a.nc", "--chunks", "auto")
    done = subprocess.run([*check, out / "a.nc"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "PASS" in done.stdout, done.stdout + done.stderr
    require_same(source, out / "a.nc")


@pytest.mark.parametrize("steps", [3, 400, 3000])
def test_metadata_lie_before_all_chunks(knarr, tmp_path, out, steps):
    source = climate(tmp_path / "in.nc", steps)
    knarr("repack", source, "-o", out / "a.nc", "--portable", "core")
    with pyfive.File(str(out / "a.nc")) as file:
        assert file.consolidated_metadata
    # What was set aside and not used is little.
    with h5py.File(out / "a.nc") as file:
        chunks = [file[name].id.get_storage_size() for name in ("time", "time_bnds", "tas")]
        first = min(file["tas"].id.get_chunk_info(0).byte_offset, file["time"].id.get_chunk_info(0).byte_offset)
    size = (out / "a.nc").stat().st_size
    stat = subprocess.run(["h5stat", "-S", out / "a.nc"], capture_output=True, text=True, check=True).stdout
    metadata = next(int(line.split(":")[1].split()[0]) for line in stat.splitlines() if "File metadata" in line)
    assert size - sum(chunks) <= metadata * 1.25 + 4096, (size, chunks, metadata, first)


def test_files_made_from_other_formats_have_their_metadata_in_front(knarr, made, tmp_path, out):
    source = climate(tmp_path / "in.nc")
    knarr("repack", source, "-o", tmp_path / "a.zarr")
    knarr("repack", tmp_path / "a.zarr", "-o", out / "a.nc", "--portable", "core")
    with pyfive.File(str(out / "a.nc")) as file:
        assert file.consolidated_metadata


def superblock(path: Path) -> int:
    return path.read_bytes()[8]


def test_low_asks_for_newer_forms(knarr, tmp_path, out):
    source = climate(tmp_path / "in.nc")
    knarr("repack", source, "-o", out / "a.nc", "--portable", "core")
    knarr("repack", source, "-o", out / "b.nc", "--portable", "core", "--low", "v110")
    require_same(out / "a.nc", out / "b.nc")
    assert (superblock(out / "a.nc"), superblock(out / "b.nc")) == (2, 3)
    # Its indices of chunks are those of HDF5 1.10, which take less room and which pyfive does not know.
    assert (out / "b.nc").stat().st_size < (out / "a.nc").stat().st_size
    with pytest.raises(RuntimeError, match="layout class 4"):
        read_by_pyfive(out / "b.nc")


def test_files_for_hdf5_1_8_stay_so(knarr, tmp_path, out):
    source = tmp_path / "in.h5"
    with h5py.File(source, "w", libver=("earliest", "v108")) as file:
        file.create_dataset("tas", data=smooth_field((40, 30, 30)), chunks=(4, 30, 30))
        file.create_dataset("time", data=np.arange(4000.0), chunks=(1000,), maxshape=(None,))
        file["time_bnds"] = np.arange(8000.0).reshape(4000, 2)
    knarr("repack", source, "-o", out / "a.h5", "--portable", "core", "--high", "v18")
    assert superblock(out / "a.h5") == superblock(source) == 0
    assert read_by_pyfive(out / "a.h5")["time"].tolist() == list(range(4000))


def test_what_needs_a_newer_release_than_allowed_is_an_error(knarr, tmp_path, out):
    source = tmp_path / "in.h5"
    with h5py.File(source, "w") as file:
        layout = h5py.VirtualLayout(shape=(10,), dtype="f4")
        layout[:] = h5py.VirtualSource(".", "part", shape=(10,))
        file.create_virtual_dataset("whole", layout)
        file["part"] = np.arange(10, dtype="f4")
    knarr("repack", source, "-o", out / "a.h5")
    knarr.fails(5, "repack", source, "-o", out / "b.h5", "--high", "v18", names=("whole", "high"))
    assert not (out / "b.h5").exists()


def test_ranges_that_hold_nothing_are_refused(knarr, tmp_path, out):
    source = climate(tmp_path / "in.nc", 3)
    knarr.fails(2, "repack", source, "-o", out / "a.nc", "--low", "v110", "--high", "v18", names=("v110", "v18"))
    knarr.fails(2, "repack", source, "-o", out / "a.nc", "--low", "1.8", names=("1.8", "v18"))
    config = tmp_path / "knarr.toml"
    config.write_text('[[file]]\npattern = "*"\nlow = "v110"\nhigh = "v18"\n')
    knarr.fails(2, "repack", source, "-o", out / "a.nc", "-c", config, names=("knarr.toml", "v110"))
    config.write_text('[[file]]\npattern = "*"\nlow = "v110"\n')
    knarr("repack", source, "-o", out / "a.nc", "-c", config)
    assert superblock(out / "a.nc") == 3


@pytest.mark.parametrize("when", ['when = "close"\n', ""])
def test_files_of_a_program_for_hdf5_1_8_stay_so(run, when):
    program = script("""
        for name, libver in (("asked", ("earliest", "v108")), ("plain", None)):
            with h5py.File(f"{name}.h5", "w", libver=libver) as file:
                file["T"] = FIELD
                file.create_dataset("grows", data=FIELD, maxshape=(None, *FIELD.shape[1:]), chunks=(2, 128, 256))
        """)
    run(*program, config=ALL + when + 'portable = "core"\n')
    for name in ("asked", "plain"):
        path = run.folder / f"{name}.h5"
        assert is_packed(path) and is_packed(path, "grows") and superblock(path) == 0
        with pyfive.File(str(path)) as file:
            np.testing.assert_array_equal(file["T"][...], FIELD)
            np.testing.assert_array_equal(file["grows"][...], FIELD)
