"""Bad input, bad options, bad places: named, with the right exit code, and nothing left behind."""

from __future__ import annotations

import os
import stat

import h5py
import numcodecs
import pytest
from h5py import h5z

import filter_inputs
from conftest import Knarr
from values import smooth_field

USAGE, UNREADABLE, UNWRITABLE, CANNOT_SERVE = 2, 3, 4, 5


@pytest.fixture
def source(made):
    return made("hdf5", "special_values")


def test_absent_input(knarr, tmp_path, out):
    knarr.fails(UNREADABLE, "repack", tmp_path / "absent.nc", "-o", out / "a.nc", names=("absent.nc", "o such file"))
    assert not list(out.iterdir())


@pytest.mark.parametrize("command", ["inspect", "advise", "hash"])
def test_absent_input_of_reading_commands(knarr, tmp_path, command):
    knarr.fails(UNREADABLE, command, tmp_path / "absent.nc", names=("absent.nc",))


@pytest.mark.parametrize("content", [b"", b"\x89HDF\r\n\x1a\n", b"CDF\x01", b"CDF\x09" + bytes(100), b"text\n" * 500])
def test_not_a_data_file(knarr, tmp_path, out, content):
    path = tmp_path / "broken.nc"
    path.write_bytes(content)
    knarr.fails(UNREADABLE, "repack", path, "-o", out / "a.nc", names=("broken.nc",))
    assert not list(out.iterdir())


def test_a_classic_file_of_unknown_version_is_told_from_a_stranger(knarr, tmp_path):
    """It may be damaged or newer than Knarr; either way it is the input that cannot be read."""
    path = tmp_path / "new.nc"
    path.write_bytes(b"CDF\x09" + bytes(100))
    knarr.fails(UNREADABLE, "inspect", path, names=("new.nc", "netCDF version", "CDF-1, CDF-2, CDF-5"))


def test_a_folder_that_is_not_zarr(knarr, tmp_path, out):
    (tmp_path / "folder.zarr").mkdir()
    knarr.fails(UNREADABLE, "repack", tmp_path / "folder.zarr", "-o", out / "a.zarr", names=("folder.zarr",))
    assert not list(out.iterdir())


def test_existing_output_stays_without_force(knarr, source, out):
    target = out / "a.h5"
    target.write_bytes(b"precious")
    knarr.fails(UNWRITABLE, "repack", source, "-o", target, names=("a.h5", "--force"))
    assert target.read_bytes() == b"precious"
    assert list(out.iterdir()) == [target]


def test_force_replaces_and_keeps_permissions_sane(knarr, source, out):
    target = out / "a.h5"
    target.write_bytes(b"old")
    knarr.repack(source, target, "--force")
    assert h5py.is_hdf5(target)
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~umask


def test_output_onto_its_input_is_safe(knarr, tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["v"] = smooth_field((100, 100))
    before = path.read_bytes()
    done = knarr("repack", path, "-o", path, ok=False)
    assert done.returncode in (USAGE, UNWRITABLE)
    assert path.read_bytes() == before
    knarr.repack(path, path, "--force")
    with h5py.File(path) as file:
        assert file["v"][...].tobytes() == smooth_field((100, 100)).tobytes()


def test_forced_failure_keeps_the_old_output(knarr, tmp_path, out):
    broken = tmp_path / "broken.h5"
    filter_inputs.write_unknown_filter(broken)
    target = out / "a.h5"
    target.write_bytes(b"precious")
    assert knarr("repack", broken, "-o", target, "--force", ok=False).returncode != 0
    assert target.read_bytes() == b"precious"
    assert list(out.iterdir()) == [target]


@pytest.mark.parametrize("folder", ["absent", "a.file", "/proc"])
def test_unwritable_place(knarr, source, tmp_path, folder):
    (tmp_path / "a.file").write_bytes(b"")
    knarr.fails(UNWRITABLE, "repack", source, "-o", tmp_path / folder / "a.h5", names=("a.h5",))


def test_unknown_filter_is_named(knarr, tmp_path, out):
    path = tmp_path / "locked.h5"
    filter_inputs.write_unknown_filter(path)
    done = knarr("repack", path, "-o", out / "a.h5", ok=False)
    assert done.returncode in (UNREADABLE, CANNOT_SERVE)
    for part in ("locked.h5", "locked", str(filter_inputs.UNKNOWN_FILTER_ID)):
        assert part in done.stderr
    assert not list(out.iterdir())
    assert str(filter_inputs.UNKNOWN_FILTER_ID) in knarr("doctor", path, ok=False).stdout


def test_only_the_filters_that_are_missing_are_named(tmp_path, out):
    """Where one filter is part of HDF5, that decodes the whole chain, and needs plugins that Knarr does not."""
    source = tmp_path / "input.h5"
    filter_inputs.write_before_zstd(source, h5z.FILTER_NBIT)
    knarr = Knarr(HDF5_PLUGIN_PATH="/nowhere")
    names = ("filter 32015 (zstd) is", "not available", "HDF5_PLUGIN_PATH")
    message = knarr.fails(UNREADABLE, "repack", source, "-o", out / "a.h5", names=names)
    assert "nbit" not in message and "pip install" not in message


def test_damage_behind_a_filter_of_hdf5_is_no_missing_filter(knarr, tmp_path, out):
    source = tmp_path / "input.h5"
    filter_inputs.write_before_zstd(source, h5z.FILTER_NBIT)
    stored = numcodecs.Zstd().encode(bytes(4096))
    damaged = source.read_bytes().replace(stored, bytes(len(stored)))
    source.write_bytes(damaged)
    message = knarr.fails(UNREADABLE, "repack", source, "-o", out / "a.h5", names=("'T'", "chunk (0, 0)"))
    assert "not available" not in message and "HDF5_PLUGIN_PATH" not in message


def test_missing_plugin_is_named_with_its_mend(made, out, tmp_path):
    """A known filter whose plugin is not on the search path: SPERR is nobody's built-in."""
    bare = Knarr(HDF5_PLUGIN_PATH=str(tmp_path), PATH="/usr/bin:/bin", VIRTUAL_ENV="", HOME=str(tmp_path))
    done = bare("repack", made("filter", "sperr"), "-o", out / "a.h5", ok=False)
    if done.returncode != 0:
        assert done.returncode in (UNREADABLE, CANNOT_SERVE)
        assert "sperr" in done.stderr.lower()
        assert "HDF5_PLUGIN_PATH" in done.stderr or "hdf5plugin" in done.stderr
        assert not list(out.iterdir())


@pytest.mark.parametrize(
    "options",
    [
        ("--goal", "fastest"),
        ("--chain", "shuffle | nosuchcodec:5"),
        ("--chain", "deflate:99"),
        ("--chain", "shuffle |"),
        ("--chain", ""),
        ("--portable", "everywhere"),
        ("--jobs", "0"),
        ("--jobs", "-3"),
        ("--max-mem", "lots"),
        ("--max-mem", "0"),
        ("--chunks", "fill_1e20=0x4"),
        ("--chunks", "fill_1e20=axb"),
        ("--significant-digits", "0"),
        ("--nosuchoption",),
    ],
)
def test_bad_option(knarr, source, out, options):
    message = knarr.fails(USAGE, "repack", source, "-o", out / "a.h5", *options)
    assert options[0] in message or options[-1] in message
    assert not list(out.iterdir())


@pytest.mark.parametrize("option", ["--chain", "--max-abs-error", "--chunks"])
def test_unknown_variable_in_an_option(knarr, source, out, option):
    value = {"--chain": "zstd:3", "--max-abs-error": "0.1", "--chunks": "4x4"}[option]
    message = knarr.fails(USAGE, "repack", source, "-o", out / "a.h5", option, f"nosuch={value}", names=("nosuch",))
    assert "fill_1e20" in message, "the message lists the variables there are"
    assert not list(out.iterdir())


def test_chunks_of_the_wrong_rank(knarr, source, out):
    message = knarr.fails(USAGE, "repack", source, "-o", out / "a.h5", "--chunks", "fill_1e20=8", names=("fill_1e20",))
    assert "2" in message
    assert not list(out.iterdir())


def test_chain_that_cannot_serve_the_type(knarr, made, out):
    """ZFP takes no 16-bit integers."""
    arguments = (
        "repack",
        made("filter", "gzip"),
        "-o",
        out / "a.h5",
        "--chain",
        "i2=zfp",
        "--portable",
        "knarr",
    )
    done = knarr(*arguments, ok=False)
    assert done.returncode in (USAGE, CANNOT_SERVE) and "i2" in done.stderr and "zfp" in done.stderr
    assert not list(out.iterdir())


def test_contradictory_portability(knarr, source, out):
    done = knarr("repack", source, "-o", out / "a.h5", "--portable", "core", "--chain", "zstd:3", ok=False)
    assert done.returncode in (USAGE, CANNOT_SERVE)
    assert "core" in done.stderr and "zstd" in done.stderr
    assert not list(out.iterdir())


def test_unknown_output_suffix(knarr, source, out):
    message = knarr.fails(USAGE, "repack", source, "-o", out / "a.xyz", names=("a.xyz",))
    assert ".nc" in message and ".zarr" in message


def test_verify_tells_different_files(knarr, made, tmp_path, out):
    source = made("hdf5", "special_values")
    target = knarr.repack(source, out / "a.h5")
    knarr("verify", source, target)
    with h5py.File(target, "r+") as file:
        file["all_nan_f4"][3, 4] = 1
    done = knarr("verify", source, target, ok=False)
    assert done.returncode == 1
    assert "all_nan_f4" in done.stdout + done.stderr
    assert knarr("verify", source, tmp_path / "absent.h5", ok=False).returncode == UNREADABLE


def test_errors_of_the_system_say_how_to_mend_them(knarr, made, tmp_path, out):
    source = made("netcdf", "climate_history")
    nowhere = tmp_path / "none"
    for code, arguments, names in (
        (UNWRITABLE, ("repack", source, "-o", nowhere / "a.nc"), ("make the directory first",)),
        (UNWRITABLE, ("repack", source, "-o", nowhere / "a.zarr"), ("make the directory first",)),
        (UNREADABLE, ("repack", source, "-o", out / "a.nc", "-c", nowhere), ("check the name",)),
        (UNREADABLE, ("repack", source, "-o", out / "a.nc", "--model", nowhere), ("check the name",)),
        (UNREADABLE, ("verify", source, nowhere), ("check the name",)),
        (UNREADABLE, ("repack", source, "-o", out / "a.nc", "-c", tmp_path), ("name a file",)),
        (UNREADABLE, ("verify", source, source / "a.nc"), ("check the name",)),
    ):
        message = knarr.fails(code, *arguments, names=names)
        assert "; " in message and str(arguments[-1]) in message


def test_advice_for_an_unknown_format_names_what_was_typed(knarr, made):
    message = knarr.fails(USAGE, "advise", made("netcdf", "climate_history"), "--to", "grib", names=("--to", "'grib'"))
    assert "x.grib" not in message


def test_generate_gives_advice_that_it_can_take(knarr, out):
    for suffix in ("csv", "bin"):
        shapes = ("--shape", "a=8", "--shape", "b=4x5x6")
        message = knarr.fails(CANNOT_SERVE, "generate", "a=sines", "b=sines", *shapes, "-o", out / f"s.{suffix}")
        assert "--variable" not in message and "fewer patterns" in message


def test_checkpoint_says_which_pattern_or_name_is_wrong(knarr, tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    for rank in range(2):
        with h5py.File(files / f"r_{rank}.h5", "w") as file:
            file["rho"] = smooth_field((200, 300))
    sets = tmp_path / "set"
    knarr.fails(
        *(USAGE, "checkpoint", "pack", files, "-o", sets, "--pattern", "x{rank}"),
        names=("--pattern", "'x{rank}'", "r_0.h5"),
    )
    knarr("checkpoint", "pack", files, "-o", sets)
    for how in ((), ("--json",)):
        knarr.fails(USAGE, "checkpoint", "explain", sets, "--variable", "nope", *how, names=("'nope'", "rho"))
    assert "rho" in knarr("checkpoint", "explain", sets, "--variable", "rho").stdout
    taken = files / "r_0.h5"
    knarr.fails(UNWRITABLE, "checkpoint", "restore", sets, "-d", taken, names=(taken, "a file is in the way"))


@pytest.mark.parametrize("command", ["inspect", "advise", "hash", "repack"])
def test_a_pipe_is_refused_without_waiting_for_a_writer(knarr, tmp_path, out, command):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    words = ("-o", out / "a.nc") if command == "repack" else ()
    knarr.fails(UNREADABLE, command, pipe, *words, names=("pipe: is a pipe", "save it as a file first"))
    knarr.fails(UNREADABLE, command, "/dev/stdin", *words, names=("stdin: is a pipe",), input="text")
    knarr.fails(UNREADABLE, command, "/dev/null", *words, names=("null: is a device",))
    knarr.fails(USAGE, command, "", *words, names=("the name of an input is empty",))
    assert not list(out.iterdir())


def test_a_profile_that_is_none_is_told_in_words(knarr, source):
    knarr.fails(USAGE, "advise", source, "--profile", source, names=(source, "is no profile", "knarr profile"))


def test_an_error_leaves_nothing_for_readers_of_json(knarr, tmp_path):
    done = knarr("inspect", tmp_path / "absent.nc", "--json", ok=False)
    assert done.returncode == UNREADABLE and not done.stdout and "absent.nc" in done.stderr
