"""What is written by default opens in the tools that its users have, none of which finds a plugin."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import h5py
import iris_sample_data
import netCDF4
import numpy as np
import pytest
import tensorstore
import zarr

from running import script

SAMPLES = Path(iris_sample_data.path)
PLAIN = {name: value for name, value in os.environ.items() if name != "HDF5_PLUGIN_PATH"}
GOALS = ("speed", "balanced", "ratio", "archive", "energy")
CORE_FILTERS = {1, 2, 3}
CORE_CODECS = {"bytes", "transpose", "gzip", "blosc", "zstd", "crc32c", "sharding_indexed"}
TOOLS = [
    ("ncdump", "{file}"),
    ("ncks", "-O", "{file}", "{copy}"),
    ("cdo", "-s", "infon", "{file}"),
]


def answer(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, env=PLAIN, timeout=120)


def filters_in(path: Path) -> set[int]:
    """Numbers of all filters in an HDF5 file."""
    found: set[int] = set()

    def look(_: str, item: h5py.HLObject) -> None:
        if isinstance(item, h5py.Dataset):
            properties = item.id.get_create_plist()
            found.update(properties.get_filter(at)[0] for at in range(properties.get_nfilters()))

    with h5py.File(path) as file:
        file.visititems(look)
    return found


def codecs_in(store: Path) -> set[str]:
    entries = (json.loads(path.read_text()).get("codecs", []) for path in store.rglob("zarr.json"))
    return {codec["name"] for codecs in entries for codec in codecs}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Variables of many types, of which zstd, Blosc and bzip2 each suit some better than deflate."""
    random = np.random.default_rng(1)
    path = tmp_path_factory.mktemp("mixed") / "mixed.nc"
    field = np.cumsum(np.cumsum(random.normal(size=(40, 90, 180)), axis=1), axis=2)
    with netCDF4.Dataset(path, "w") as file:
        for name, length in zip(("time", "lat", "lon"), field.shape, strict=True):
            file.createDimension(name, None if name == "time" else length)
        for name, values in {
            "T": field.astype("f4"),
            "P": field.round(1).astype("f8"),
            "packed": (field - field.mean()).astype("i2"),
            "count": random.poisson(3.0, field.shape).astype("i8"),
            "mask": (field > 0).astype("i1"),
        }.items():
            file.createVariable(name, values.dtype, ("time", "lat", "lon"), zlib=True, fletcher32=name == "P")[:] = (
                values
            )
        small = file.createVariable("small", "f4", ("lat",), zlib=True)
        small[:] = np.linspace(-90, 90, 90)
    return path


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool[0])
def test_netcdf_opens_in_the_tools_of_the_distribution(knarr, mixed, out, tmp_path, tool, goal):
    target = knarr.repack(mixed, out / "a.nc", "--goal", goal)
    done = answer(*(word.format(file=target, copy=tmp_path / "copy.nc") for word in tool))
    assert done.returncode == 0 and "error" not in done.stderr.lower(), done.stderr
    assert filters_in(target) <= CORE_FILTERS


@pytest.mark.parametrize("name", ["A1B_north_america", "ostia_monthly", "orca2_votemper"])
def test_real_files_open_in_the_tools_of_the_distribution(knarr, out, tmp_path, name):
    target = knarr.repack(SAMPLES / f"{name}.nc", out / "a.nc")
    for tool in TOOLS:
        done = answer(*(word.format(file=target, copy=tmp_path / "copy.nc") for word in tool))
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
def test_netcdf_opens_in_plain_xarray(knarr, mixed, out, engine):
    target = knarr.repack(mixed, out / "a.nc", "--goal", "ratio")
    program = (
        f"import sys, xarray; a, b = (xarray.open_dataset(path, engine={engine!r}).load() for path in sys.argv[1:]);"
        "xarray.testing.assert_identical(a, b); assert 'hdf5plugin' not in sys.modules"
    )
    done = answer(sys.executable, "-c", program, mixed, target)
    assert done.returncode == 0, done.stderr


GDAL = """
import sys, rasterio
def bands(path):
    with rasterio.open(path) as file:
        names = file.subdatasets or [path]
    for name in names:
        with rasterio.open(name) as file:
            yield name.split(":")[-1], file.dtypes, file.tags(), file.transform, file.read().tobytes()
before, after = (list(bands(path)) for path in sys.argv[1:])
assert [band[0].replace(sys.argv[1], sys.argv[2]) for band in before] == [band[0] for band in after] != []
assert [band[1:] for band in before] == [band[1:] for band in after]
"""


@pytest.mark.parametrize("name", ["mixed", "A1B_north_america", "ostia_monthly"])
def test_netcdf_opens_in_gdal(knarr, mixed, out, name):
    """It sees the same bands, with the same attributes and coordinates."""
    source = mixed if name == "mixed" else SAMPLES / f"{name}.nc"
    done = answer(sys.executable, "-W", "ignore", "-c", GDAL, source, knarr.repack(source, out / source.name))
    assert done.returncode == 0, done.stderr


def test_checksums_of_netcdf_stay(knarr, mixed, out):
    with h5py.File(knarr.repack(mixed, out / "a.nc")) as file:
        assert file["P"].fletcher32 and not file["T"].fletcher32


def test_small_variables_keep_no_filter_that_the_tools_lack(knarr, tmp_path, out):
    import hdf5plugin

    source = tmp_path / "in.nc"
    with netCDF4.Dataset(source, "w") as file:
        file.createDimension("x", 100)
    with h5py.File(source, "a") as file:
        file.create_dataset("small", data=np.arange(100.0), chunks=(100,), **hdf5plugin.Zstd())
    assert filters_in(knarr.repack(source, out / "a.nc")) <= CORE_FILTERS
    assert 32015 in filters_in(knarr.repack(source, out / "b.nc", "--portable", "standard"))


def test_other_readers_are_one_word_away(knarr, tmp_path, out):
    """The table says what they are expected to save, and that is near what they do save."""
    source = tmp_path / "in.nc"
    y, x = np.linspace(0, 9, 180)[:, None], np.linspace(0, 12, 360)
    noise = np.random.default_rng(2).normal(0, 0.02, (180, 360))
    with netCDF4.Dataset(source, "w") as file:
        for name, length in zip(("t", "y", "x"), (300, 180, 360), strict=True):
            file.createDimension(name, length)
        variable = file.createVariable("T", "f4", ("t", "y", "x"))
        for step in range(300):
            variable[step] = np.round(np.sin(y + step / 9) * np.cos(x) + np.roll(noise, step * 7), 3)
    report = knarr.json("repack", source, "-o", out / "a.nc")["files"][0]
    told = {gain["portable"]: gain["saves"] for gain in report["other_readers"]}
    assert "knarr" in told
    for portable, saves in told.items():
        other = knarr.repack(source, out / f"{portable}.nc", "--portable", portable)
        saved = 1 - other.stat().st_size / report["output_bytes"]
        assert abs(saved - saves) < 0.1, (portable, saved, saves)
    page = out / "page.html"
    printed = knarr("repack", source, "-o", out / "b.nc", "--report", page).stdout
    assert "Other readers: --portable " in printed
    assert f"knarr {100 * told['knarr']:.0f} %" in printed.replace("is expected to save ", "")
    assert "Other readers" in page.read_text()
    assert "Other readers: " in knarr("advise", source).stdout
    assert "Other readers: " in knarr("explain", out / "b.nc").stdout
    assert "Other readers: " not in knarr("advise", source, "--portable", "knarr").stdout


def test_h5_files_may_need_plugins(knarr, mixed, out):
    assert not filters_in(knarr.repack(mixed, out / "a.h5", "--goal", "ratio")) <= CORE_FILTERS


@pytest.mark.parametrize("chain", ["shuffle | zstd:3", "zstd:3"])
def test_a_chain_that_is_named_needs_no_second_word(knarr, mixed, out, chain):
    assert 32015 in filters_in(knarr.repack(mixed, out / "a.nc", "--chain", chain))
    knarr.fails(5, "repack", mixed, "-o", out / "b.nc", "--chain", chain, "--portable", "core", names=("core",))
    target = knarr.repack(mixed, out / "a.zarr", "--chain", "T=shuffle | deflate:5")
    assert {"numcodecs.shuffle", "numcodecs.zlib"} <= codecs_in(target)


@pytest.mark.parametrize("goal", GOALS)
def test_zarr_opens_in_tensorstore_and_plain_zarr_python(knarr, mixed, out, goal):
    target = knarr.repack(mixed, out / "a.zarr", "--goal", goal)
    assert codecs_in(target) <= CORE_CODECS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = zarr.open_group(target, mode="r")
        with netCDF4.Dataset(mixed) as file:
            file.set_auto_maskandscale(False)
            for name in file.variables:
                values = file[name][...]
                assert store[name][...].tobytes() == values.tobytes(), name
                spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(target / name)}}
                assert np.asarray(tensorstore.open(spec).result().read().result()).tobytes() == values.tobytes(), name


def test_netcdf_files_of_a_program_keep_to_what_its_tools_read(run):
    """Whatever the program itself could decode. HDF5 files may need what it has."""
    program = """
    import hdf5plugin
    with netCDF4.Dataset("a.nc", "w") as dataset:
        for name, length in zip("zyx", FIELD.shape):
            dataset.createDimension(name, length)
        dataset.createVariable("T", "f4", ("z", "y", "x"))[:] = FIELD
    for name in ("b.nc", "c.h5"):
        with h5py.File(name, "w") as file:
            file["T"] = FIELD
    """
    rule = '[[file]]\npattern = "*"\ngoal = "ratio"\n'
    run(*script(program), config=rule)
    for name in ("a.nc", "b.nc"):
        assert filters_in(run.folder / name) and filters_in(run.folder / name) <= CORE_FILTERS
    assert not filters_in(run.folder / "c.h5") <= CORE_FILTERS
    run(*script(program), config=rule + 'portable = "standard"\n')
    assert not filters_in(run.folder / "a.nc") <= CORE_FILTERS


def test_what_was_chosen_for_files_with_other_readers_is_not_taken_for_netcdf_files(run):
    """Neither the other way: a file whose readers may have more need not be larger."""
    program = """
    import hdf5plugin
    for step in range(3):
        for name in (f"{step}-a.h5", f"{step}-b.nc", f"{step}-c.he5"):
            with h5py.File(name, "w") as file:
                file["T"] = FIELD
    """
    run(*script(program), config='[[file]]\npattern = "*"\ngoal = "ratio"\n')
    for file in run.folder.glob("[0-2]-*5"):
        assert not filters_in(file) <= CORE_FILTERS, file
    for step in range(3):
        assert filters_in(run.folder / f"{step}-b.nc") <= CORE_FILTERS


def test_doctor_says_what_is_not_seen_of_programs(knarr, tmp_path):
    source = tmp_path / "program.c"
    source.write_text("int H5Fcreate(void) { return 1; }\nint main(void) { return H5Fcreate() - 1; }\n")
    for name, options in (("plain", []), ("static", ["-static"]), ("setuid", [])):
        subprocess.run(["cc", *options, source, "-o", tmp_path / name], check=True)
    (tmp_path / "setuid").chmod(0o4755)
    script = tmp_path / "script"
    script.write_text("#!/usr/bin/env python3\n")
    script.chmod(0o755)
    asked = knarr("doctor", "--json", *(tmp_path / name for name in ("plain", "static", "setuid", "script")), ok=False)
    assert asked.returncode == 3
    plain, static, setuid, run = json.loads(asked.stdout)["programs"]
    assert [unseen["is_all"] for unseen in plain["unseen"]] == [False] and "HDF5" in plain["unseen"][0]["what"]
    assert "statically" in static["unseen"][0]["what"] and static["unseen"][0]["is_all"]
    assert "user" in setuid["unseen"][0]["what"] and setuid["unseen"][0]["is_all"]
    assert run["unseen"] == [] and "python" in run["interpreter"]
    linked = knarr.json("doctor", Path(shutil.which("ncdump") or "ncdump").resolve())["programs"][0]
    assert any(name.startswith("libnetcdf") for name in linked["libraries"]), linked
    shown = knarr("doctor", script).stdout
    assert "'knarr run' sees the files that it writes" in shown and "run by" in shown
