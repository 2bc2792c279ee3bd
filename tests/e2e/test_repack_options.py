"""What is asked of `knarr repack` and friends is done, refused or told, for one file and for many."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
from pathlib import Path

import h5py
import hdf5plugin
import netCDF4
import numpy as np
import pytest

from conftest import KNARR
from values import smooth_field

PORTABLE = {"core", "standard", "knarr"}


@pytest.fixture
def monthly(tmp_path: Path) -> Path:
    """A file as models write it: one step a record, and so one element a chunk of `time`."""
    path = tmp_path / "monthly.nc"
    with netCDF4.Dataset(path, "w") as file:
        for name, length in (("time", None), ("bnds", 2), ("lat", 45), ("lon", 90)):
            file.createDimension(name, length)
        time = file.createVariable("time", "f8", ("time",), chunksizes=(1,))
        bounds = file.createVariable("time_bnds", "f8", ("time", "bnds"), chunksizes=(1, 2))
        field = file.createVariable("tas", "f4", ("time", "lat", "lon"), zlib=True, chunksizes=(1, 45, 90))
        time[:] = np.arange(240) * 30.5
        bounds[:] = np.arange(480).reshape(240, 2) * 15.25
        field[:] = smooth_field((240, 45, 90))
    return path


def chunks(path: Path) -> dict[str, tuple]:
    with h5py.File(path) as file:
        return {name: item.chunks for name, item in file.items() if isinstance(item, h5py.Dataset) and item.chunks}


def test_small_variables_become_one_chunk(knarr, monthly, out):
    found = chunks(knarr.repack(monthly, out / "a.nc"))
    assert (found["time"], found["time_bnds"]) == ((240,), (240, 2))
    knarr("verify", monthly, out / "a.nc")
    kept = chunks(knarr.repack(monthly, out / "kept.nc", "--chunks", "keep"))
    assert (kept["time"], kept["tas"]) == ((1,), (1, 45, 90))


@pytest.mark.parametrize("wish", [["time=12"], ["time/12"], ["lat=9", "time/12,lat/"], ["*=time/12"]])
def test_chunks_along_a_dimension(knarr, monthly, out, wish):
    options = [word for text in wish for word in ("--chunks", text)]
    done = knarr("repack", monthly, "-o", out / "a.nc", *options)
    found = chunks(out / "a.nc")
    assert found["tas"] == (12, 9 if "lat=9" in wish else 45, 90)
    assert found["time"] == (240,), "small"
    assert "no effect" not in done.stderr
    knarr("verify", monthly, out / "a.nc")


def test_chunks_of_a_variable_that_is_called_like_its_dimension(knarr, monthly, out):
    knarr.repack(monthly, out / "a.nc", "--chunks", "/time=48")
    assert chunks(out / "a.nc")["time"] == (48,)
    (out / "knarr.toml").write_text('[[file]]\npattern = "*"\nvariables.time.chunks = "24"\nvariables.tas.goal = 1\n')
    knarr.fails(2, "repack", monthly, "-o", out / "b.nc", "-c", out / "knarr.toml", names=("goal",))
    (out / "knarr.toml").write_text('[[file]]\npattern = "*"\nvariables.time.chunks = "24"\n')
    knarr.repack(monthly, out / "b.nc", "-c", out / "knarr.toml")
    assert chunks(out / "b.nc")["tas"] == (24, 45, 90)
    knarr.fails(2, "repack", monthly, "-o", out / "c.nc", "--chunks", "tme=12", names=("'tme'", "time"))
    knarr.fails(2, "repack", monthly, "-o", out / "c.nc", "--chunks", "tme/12", names=("no dimension 'tme'", "time"))


def test_wishes_without_effect_are_told(knarr, monthly, out):
    with netCDF4.Dataset(out / "small.nc", "w") as file:
        file.createDimension("time", 54)
        file.createVariable("time", "f8", ("time",))[:] = np.arange(54)
    said = knarr("repack", out / "small.nc", "-o", out / "a.nc", "--chunks", "time=1").stderr
    assert "'time' have no effect" in said and "/time" in said
    assert "no effect" not in knarr("repack", out / "small.nc", "-o", out / "b.nc", "--chunks", "/time=1").stderr
    assert chunks(out / "b.nc")["time"] == (1,)
    said = knarr("repack", monthly, "-o", out / "c.nc", "--chain", "tas=deflate:5 | shuffle").stderr
    assert "'shuffle' behind 'deflate'" in said
    assert "behind" not in knarr("repack", monthly, "-o", out / "d.nc", "--chain", "tas=shuffle | deflate:5").stderr
    for command in (["repack", "-o", out / "e.nc"], ["inspect"], ["hash"], ["advise"]):
        message = knarr.fails(2, *command, monthly, "--raw", "shape=4,type=int8", names=("--raw", "monthly.nc"))
        assert "says itself what it holds" in message
    (out / "raw.bin").write_bytes(bytes(4))
    knarr("verify", out / "raw.bin", out / "raw.bin", "--raw", "shape=4,type=int8")


def test_gzip_is_deflate_in_hdf5(knarr, monthly, out):
    knarr.repack(monthly, out / "a.nc", "--chain", "tas=shuffle | gzip:5", "--portable", "core")
    with h5py.File(out / "a.nc") as file:
        assert (file["tas"].compression, file["tas"].compression_opts, file["tas"].shuffle) == ("gzip", 5, True)
    knarr.repack(monthly, out / "a.zarr", "--chain", "tas=gzip:5")
    assert json.loads((out / "a.zarr" / "tas" / "zarr.json").read_text())["codecs"][-1]["name"] == "gzip"


@pytest.mark.parametrize("text", ["hello\n", "hello world\n", "# a comment\nname\n"])
def test_text_without_numbers_is_no_table(knarr, tmp_path, out, text):
    (tmp_path / "h.txt").write_text(text)
    knarr.fails(3, "repack", tmp_path / "h.txt", "-o", out / "h.nc", names=("h.txt", "no table"))
    assert not list(out.iterdir())
    (tmp_path / "h.csv").write_text("a,b\n")
    knarr("repack", tmp_path / "h.csv", "-o", out / "h.nc")


@pytest.mark.parametrize("name", ["gs://bucket/a.nc", "abfs://host/a.nc", "file:///a.nc", "-"])
def test_only_local_files_are_read(knarr, monthly, out, name):
    options = ["--", name] if name == "-" else [name]
    knarr.fails(3, "inspect", *options, names=("only files and directories of this machine",))
    if name != "-":
        knarr.fails(4, "repack", monthly, "-o", name, names=("only files and directories of this machine",))


@pytest.fixture
def tight(tmp_path: Path) -> Path:
    """A file that cannot become smaller: one chunk whose repeats lie further apart than new chunks are long."""
    path = tmp_path / "tight.h5"
    noise = np.random.default_rng(1).integers(0, 1 << 32, 1 << 19, "u4")
    with h5py.File(path, "w") as file:
        file.create_dataset("noise", data=np.tile(noise, 10), chunks=(10 << 19,), **hdf5plugin.Zstd(19))
    assert path.stat().st_size < 3 << 20
    return path


def test_growth_by_another_format_is_told(knarr, tmp_path, out):
    path = tmp_path / "mesh.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("x", 9)
        for number in range(30):
            file.createVariable(f"v{number}", "f4", ("x",))[:] = np.arange(9)
    for name in ("a.nc", "a.h5"):
        done = knarr("repack", path, "-o", out / name)
        assert "larger than the input" in done.stderr and h5py.is_hdf5(out / name)


def test_a_file_that_would_grow_is_copied(knarr, tight, out):
    done = knarr("repack", tight, "-o", out / "a.h5")
    assert (out / "a.h5").read_bytes() == tight.read_bytes()
    assert "copied byte for byte" in done.stdout
    answer = knarr.json("repack", tight, "-o", out / "b.h5")
    assert "copied byte for byte" in answer["files"][0]["copied"]
    assert (answer["totals"]["copied"], answer["files"][0]["output_bytes"]) == (1, tight.stat().st_size)
    assert "copied byte for byte" in knarr("explain", out / "b.h5").stdout
    before = tight.stat()
    knarr("repack", tight, "-o", tight, "--force")
    assert (tight.stat().st_ino, tight.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_what_was_asked_for_is_done_though_the_file_grows(knarr, tight, out):
    done = knarr("repack", tight, "-o", out / "a.h5", "--chunks", "noise=4096")
    assert chunks(out / "a.h5") == {"noise": (4096,)}
    assert "larger than the input" in done.stderr


def many(folder: Path) -> list[Path]:
    folder.mkdir()
    paths = []
    for name in ("air", "sea"):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file[name] = smooth_field((8, 64, 64))
        paths.append(folder / f"{name}.h5")
    return paths


def test_names_that_one_input_lacks_are_fine_if_another_has_them(knarr, tmp_path, out):
    paths = many(tmp_path / "in")
    knarr("repack", *paths, "-o", out, "--max-abs-error", "air=0.01", "--max-abs-error", "se*=0.1", "--force")
    with h5py.File(out / "air.h5") as air, h5py.File(out / "sea.h5") as sea:
        assert air["air"].attrs["knarr_quality"] and sea["sea"].attrs["knarr_quality"]
    knarr("advise", *paths, "--max-abs-error", "air=0.01")
    (tmp_path / "knarr.toml").write_text('[[file]]\npattern = "*"\nvariables."ai*".max_abs_error = 0.01\n')
    knarr("repack", *paths, "-o", out, "-c", tmp_path / "knarr.toml", "--force")
    for command in (["repack", "-o", out, "--force"], ["repack", "-n", "-o", out], ["advise"]):
        knarr.fails(2, *command, *paths, "--max-abs-error", "aie=1", names=("'aie'", "2 inputs", "air"))
    knarr.fails(2, "repack", paths[1], "-o", out / "x.h5", "--max-abs-error", "air=1", names=("'air'", "sea"))


def test_an_input_that_is_missing_does_not_stop_the_others(knarr, tmp_path, out):
    paths = many(tmp_path / "in")
    inputs = [paths[0], tmp_path / "nope.h5", tmp_path / "no*.h5", paths[1]]
    done = knarr("repack", *inputs, "-o", out, "--json", ok=False)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["exit_code"], answer["verified"]) == (3, 3, False)
    assert [Path(file["output"]).name for file in answer["files"]] == ["air.h5", "sea.h5"]
    assert [failed["exit_code"] for failed in answer["failed"]] == [3, 3]
    assert "no such file" in done.stderr and "no file matches" in done.stderr and "2 of 4 inputs failed" in done.stderr
    assert (answer["totals"]["files"], answer["totals"]["failed"]) == (2, 2)
    done = knarr("advise", *inputs, "--json", ok=False)
    assert done.returncode == 3 and len(json.loads(done.stdout)["plans"]) == 2
    knarr.fails(3, "repack", tmp_path / "nope.h5", tmp_path / "nope2.h5", "-o", out, names=("no such file",))


def test_the_result_says_what_it_is(knarr, tmp_path, out):
    paths = many(tmp_path / "in")
    answer = knarr.json("repack", *paths, "-o", out)
    assert (answer["version"], answer["exit_code"], answer["verified"], answer["failed"]) == (1, 0, True, [])
    assert answer["program"].startswith("knarr ")
    assert {file["reader"] for file in answer["files"]} <= PORTABLE
    sizes = [(path.stat().st_size, (out / path.name).stat().st_size) for path in paths]
    totals = answer["totals"]
    assert (totals["input_bytes"], totals["output_bytes"]) == tuple(map(sum, zip(*sizes, strict=True)))
    dry = knarr.json("repack", *paths, "-o", out, "--dry-run")
    assert dry["dry_run"] and dry["version"] == 1 and dry["totals"]["output_bytes"] < totals["input_bytes"]


def test_many_files_end_with_their_sum_and_can_be_quiet(knarr, tmp_path, out):
    paths = many(tmp_path / "in")
    lines = knarr("repack", *paths, "-o", out).stdout.splitlines()
    assert lines[-1].startswith("2 files: ") and "saved" in lines[-1]
    assert "variable" in lines[0]
    lines = knarr("repack", *paths, "-o", out, "--force", "-q").stdout.splitlines()
    assert len(lines) == 3 and all(" -> " in line for line in lines)
    assert not knarr("repack", *paths, "-o", out, "--force", "-qq").stdout
    assert "2 files: " in knarr("repack", *paths, "-o", out, "--dry-run").stdout.splitlines()[-2]
    assert knarr("advise", *paths).stdout.splitlines()[-1].startswith("2 files: ")


def test_outputs_that_are_there_are_skipped(knarr, tmp_path, out):
    paths = many(tmp_path / "in")
    knarr("repack", paths[0], "-o", out)
    answer = knarr.json("repack", *paths, "-o", out, "--skip-existing")
    assert (answer["totals"]["skipped"], answer["totals"]["files"], answer["exit_code"]) == (1, 1, 0)
    before = [(out / path.name).stat().st_ino for path in paths]
    assert "2 skipped" in knarr("repack", *paths, "-o", out, "--skip-existing").stdout.splitlines()[-1]
    os.utime(paths[1], (1, 1))
    message = knarr.fails(4, "repack", *paths, "-o", out, "--skip-existing", names=("sea.h5", "exists already"))
    assert "air.h5" not in message
    knarr("repack", *paths, "-o", out, "--skip-existing", "--force")
    after = [(out / path.name).stat().st_ino for path in paths]
    assert (before[0] == after[0], before[1] == after[1]) == (True, False)


def test_tables_fit_the_terminal(knarr, monthly, out):
    leader, follower = pty.openpty()
    subprocess.run(["stty", "cols", "80"], stdin=follower, check=True)
    command = [KNARR, "repack", monthly, "-o", out / "a.nc", "--report", out / "a.html"]
    subprocess.run(command, stdout=follower, stderr=subprocess.DEVNULL, env=knarr.environment, check=True)
    os.close(follower)
    shown = b""
    while True:
        try:
            block = os.read(leader, 65536)
        except OSError:
            break
        if not block:
            break
        shown += block
    table = shown.decode().splitlines()[:3]
    assert table[0].startswith("variable") and max(map(len, table)) <= 80, table


def test_the_plan_is_as_private_as_the_data(knarr, monthly, out):
    knarr.repack(monthly, out / "a.nc")
    plan = out / "a.nc.knarr.json"
    for mode in (0o640, 0o600, 0o644):
        (out / "a.nc").chmod(mode)
        knarr.repack(monthly, out / "a.nc", "--force")
        assert stat.S_IMODE(plan.stat().st_mode) == mode


def test_an_empty_configuration_directory_counts_as_none(knarr, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    users = type(knarr)(XDG_CONFIG_HOME="", HOME=str(home))
    users("profile", "--seconds", "0.1", cwd=tmp_path)
    assert (home / ".config" / "knarr" / "profile.json").is_file()
    assert not (tmp_path / "knarr").exists()
