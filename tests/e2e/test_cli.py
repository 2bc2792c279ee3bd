"""What the commands print, and the limits they keep."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
import pytest

from conftest import KNARR
from hdf5_compare import require_same
from values import smooth_field


def test_version_and_help(knarr):
    assert knarr("--version").stdout.startswith("knarr ")
    commands = ("inspect", "advise", "repack", "verify", "hash", "profile", "explain", "doctor")
    text = knarr("--help").stdout
    assert all(command in text for command in commands)
    for command in commands:
        assert "Usage" in knarr(command, "--help").stdout


def test_inspect_names_filters(knarr, made):
    text = knarr("inspect", made("filter", "gzip_shuffle_fletcher32")).stdout
    for word in ("f4", "shuffle", "deflate", "fletcher32"):
        assert word in text
    assert "zstd" in knarr("inspect", made("filter", "zstd")).stdout


@pytest.mark.parametrize(
    ("family", "name"),
    [("hdf5", "user_types"), ("netcdf", "climate_history"), ("netcdf", "cdf5_all"), ("zarr", "v3_layouts")],
)
def test_every_reading_command_answers_in_json(knarr, made, family, name):
    path = made(family, name)
    for command in ("inspect", "advise", "hash", "doctor"):
        assert isinstance(knarr.json(command, path), dict)


def test_repack_reports_in_json(knarr, made, out):
    answer = knarr.json("repack", made("netcdf", "climate_history"), "-o", out / "a.nc")
    assert "tas" in json.dumps(answer)


def test_dry_run_writes_nothing(knarr, made, out):
    text = knarr("repack", made("netcdf", "climate_history"), "-o", out / "a.nc", "--dry-run").stdout
    assert "tas" in text
    assert not list(out.iterdir())


def test_dry_run_of_values_alone_says_what_the_job_says(knarr, made, out):
    source = made("netcdf", "climate_history")
    assert "tas" in knarr("repack", source, "-o", out / "a.bin", "--variable", "tas", "-n").stdout
    knarr.fails(5, "repack", source, "-o", out / "a.bin", "-n", names=("one variable", "--variable"))
    knarr.fails(2, "repack", source, "-o", out / "a.bin", "-n", "--variable", "nothing", names=("'nothing'",))
    assert not list(out.iterdir())


def test_one_variable_is_compared_with_what_the_input_holds_of_it(knarr, made, out):
    source = made("netcdf", "climate_history")
    done = knarr.json("repack", source, "-o", out / "a.bin", "--variable", "tas")["files"][0]
    with h5py.File(source) as file:
        assert done["input_bytes"] == file["tas"].id.get_storage_size()
    assert done["input_bytes"] < source.stat().st_size


def test_explain_of_a_file_without_a_plan_says_why(knarr, made, out):
    source = made("netcdf", "climate_history")
    knarr("repack", source, "-o", out / "a.bin", "--variable", "tas")
    message = knarr.fails(3, "explain", out / "a.bin", names=("a.bin", "no plan", "values as they are"))
    assert "give an output of 'knarr repack'" not in message


def test_one_bad_file_does_not_keep_others_from_being_repacked(knarr, made, tmp_path, out):
    good, other = made("netcdf", "climate_history"), made("hdf5", "special_values")
    bad, worse = tmp_path / "bad.nc", tmp_path / "worse.nc"
    bad.write_bytes(good.read_bytes()[:2000])
    worse.write_bytes(b"no data at all")
    report = tmp_path / "report.html"
    folder = out / "packed"
    folder.mkdir()
    done = knarr(
        *("repack", good, bad, worse, other, "-o", folder, "--report", report, "--json"),
        ok=False,
    )
    assert done.returncode == 3
    answer = json.loads(done.stdout)
    assert [file["input"] for file in answer["files"]] == [str(good), str(other)]
    assert [failed["input"] for failed in answer["failed"]] == [str(bad), str(worse)]
    for failed in answer["failed"]:
        assert failed["exit_code"] == 3 and failed["error"] in done.stderr
    assert "2 of 4 inputs failed" in done.stderr
    page = report.read_text()
    assert all(text in page for text in ("climate_history", "special_values", "bad.nc", "worse.nc", "Not repacked"))
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".json") == sorted((good.name, other.name))
    assert knarr("repack", good, worse, "-o", folder, "-n", ok=False).returncode == 3


def test_the_first_error_decides_the_exit_code(knarr, made, tmp_path, out):
    good = made("netcdf", "climate_history")
    bad = tmp_path / "bad.nc"
    bad.write_bytes(b"no data at all")
    knarr.repack(good, out / good.name)
    knarr.fails(4, "repack", good, bad, "-o", out, names=(good.name, "bad.nc"))
    knarr.fails(3, "repack", bad, good, "-o", out, names=(good.name, "bad.nc"))


def test_no_verify_is_reported(knarr, made, out):
    source = made("hdf5", "special_values")
    done = knarr("repack", source, "-o", out / "a.h5", "--no-verify")
    assert "not verified" in (done.stdout + done.stderr).lower()
    require_same(source, out / "a.h5")


def test_report_is_one_self_contained_page(knarr, made, out):
    knarr("repack", made("netcdf", "climate_history"), "-o", out / "a.nc", "--report", out / "report.html")
    page = (out / "report.html").read_text()
    assert "tas" in page and "<svg" in page
    assert 'src="http' not in page and 'href="http' not in page


def test_report_escapes_names(knarr, tmp_path, out):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["<script>alert(1)<|script>"] = smooth_field((100, 100))
    knarr("repack", path, "-o", out / "a.h5", "--report", out / "report.html")
    assert "<script>alert(1)" not in (out / "report.html").read_text()


def test_explain_tells_the_choice(knarr, made, out):
    target = knarr.repack(made("netcdf", "climate_history"), out / "a.nc")
    assert "tas" in knarr("explain", target).stdout


def test_repack_and_explain_say_the_same_of_readers(knarr, made, out):
    """Debian's netCDF-C has no plugins: who opens a .nc file has to be told."""
    options = ("-o", out / "a.nc", "--chain", "tas=shuffle | zstd:3")
    done = knarr("repack", made("netcdf", "climate_history"), *options).stdout
    needed = done.split("A reader needs: ")[1].splitlines()[0]
    assert needed.startswith("netCDF-C with its filter plugins (Debian's package has none)")
    assert "zstd (32015)" in needed
    explained = knarr("explain", out / "a.nc", "--variable", "tas").stdout
    words = next(line for line in explained.splitlines() if line.startswith("  reader "))
    assert needed.startswith(words.removeprefix("  reader ").strip())


def test_what_readers_need_counts_variables_that_are_copied(knarr, tmp_path, out):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        names = np.array(["of no fixed length"] * 300, dtype=h5py.string_dtype())
        file.create_dataset("names", data=names, chunks=(100,), **hdf5plugin.Zstd())
        file.create_dataset("small", data=smooth_field((10, 10)), chunks=(10, 10), **hdf5plugin.Zstd())
        file["large"] = smooth_field((64, 64))
    for portable, needed in [("core", "hdf5plugin, for zstd (32015)"), ("standard", "zstd (32015)")]:
        target = out / f"{portable}.h5"
        done = knarr("repack", tmp_path / "a.h5", "-o", target, "--portable", portable).stdout
        assert needed in done.split("A reader needs: ")[1], done
        # What need not be copied goes without filters that readers lack.
        assert ("without its filters" in done) == (portable == "core"), done
        assert "zstd (filter 32015" in knarr("inspect", target).stdout


def test_equal_input_gives_equal_choice(knarr, made):
    path = made("netcdf", "climate_history")
    answers = [
        knarr.json("repack", path, "-o", path.with_name("x.nc"), "--dry-run", "--jobs", jobs) for jobs in (1, 2, 2)
    ]
    chains = [json.dumps([v for k, v in sorted(_strings(answer)) if "chain" in k]) for answer in answers]
    assert len(set(chains)) == 1


def _strings(node: object, key: str = "") -> list[tuple[str, str]]:
    """(key, value) of every string in a JSON answer."""
    if isinstance(node, dict):
        return [pair for name, item in node.items() for pair in _strings(item, f"{key}.{name}")]
    if isinstance(node, list):
        return [pair for at, item in enumerate(node) for pair in _strings(item, f"{key}.{at}")]
    return [(key, node)] if isinstance(node, str) else []


def test_a_closed_pipe_ends_quietly(knarr, made):
    command = f"'{KNARR}' inspect '{made('hdf5', 'newest_format')}' | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=knarr.environment)
    assert "panicked" not in done.stderr
    assert done.returncode in (0, 141, -signal.SIGPIPE)


@pytest.mark.parametrize("command", ["inspect", "hash", "verify"])
def test_results_that_a_full_disk_swallows_are_an_error(knarr, made, command):
    """A script must not take a verdict that nobody could read for "equal"."""
    source = made("hdf5", "newest_format")
    with open("/dev/full", "w") as full:
        words = [KNARR, command, source, *([source] if command == "verify" else [])]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, env=knarr.environment)
    assert done.returncode == 4
    assert "knarr: standard output: No space left on device" in done.stderr


@pytest.mark.parametrize("arguments", [("verify", "nowhere.nc", "there.nc"), ("repack",), ("repak", "a.nc")])
def test_an_error_is_one_write(knarr, tmp_path, arguments):
    """Ranks share their stderr with mpirun, whose own lines come between two writes."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with here, there:
        done = subprocess.run([KNARR, *arguments], cwd=tmp_path, stderr=there, env=knarr.environment, check=False)
        here.setblocking(False)
        said = here.recv(65536).decode()
        assert done.returncode != 0 and said.endswith("\n") and len(said.split()) > 3
        with pytest.raises(BlockingIOError):
            here.recv(65536)


def test_a_name_that_is_not_utf8_is_named(knarr, made, out):
    source = made("hdf5", "newest_format")
    done = subprocess.run(
        [KNARR, "repack", os.fsencode(source), "-o", os.fsencode(out) + b"/\xff.h5", "--json"],
        capture_output=True,
        env=knarr.environment,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(os.fsencode(out))) == [b"\xff.h5", b"\xff.h5.knarr.json"]
    done = subprocess.run(
        [KNARR, "inspect", os.fsencode(out) + b"/\xff.h5"], capture_output=True, text=True, env=knarr.environment
    )
    assert done.returncode == 2
    assert "xFF.h5" in done.stderr and "not UTF-8" in done.stderr


@pytest.mark.parametrize("option", ["max-abs-error", "significant-bits"])
def test_a_negative_bound_is_told_as_such(knarr, made, out, option):
    done = knarr("repack", made("filter", "gzip"), "-o", out / "a.h5", f"--{option}", "-1", ok=False)
    assert done.returncode == 2
    assert "unexpected argument" not in done.stderr
    assert option in done.stderr.replace("_", "-") and "-1" in done.stderr


def test_jobs_default_follows_the_scheduler(made, knarr, out):
    environment = {**knarr.environment, "SLURM_CPUS_PER_TASK": "1"}
    source = made("filter", "gzip")
    done = subprocess.run([KNARR, "repack", source, "-o", out / "a.h5"], capture_output=True, env=environment)
    assert done.returncode == 0
    require_same(source, out / "a.h5")


_PEAK = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
print(usage.ru_maxrss * 1024)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def peak_memory(command: list[object], environment: dict[str, str]) -> int:
    """Peak resident bytes of a command that must succeed.

    A small process starts it, because Linux counts the peak of the starter into that of the command.
    """
    starter = [sys.executable, "-I", "-S", "-c", _PEAK, *map(str, command)]
    return int(subprocess.run(starter, capture_output=True, text=True, env=environment, check=True).stdout)


@pytest.mark.parametrize("layout", ["chunked", "contiguous", "other_chunks", "one_huge_chunk"])
def test_peak_memory_stays_within_max_mem(knarr, tmp_path, out, layout):
    """A file far larger than --max-mem, which bounds the program and its libraries, too.

    A single chunk has to be decoded whole, so for the last layout the limit is that chunk's need.
    """
    path, shape = tmp_path / "large.h5", (80, 1024, 1024)
    chunks = {"contiguous": None, "one_huge_chunk": (16, 1024, 1024)}.get(layout, (1, 512, 1024))
    base = smooth_field(shape[1:])
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("v", shape, "f4", chunks=chunks)
        for step in range(shape[0]):
            dataset[step] = base + np.float32(step)
    limit = 64 << 20 if layout != "one_huge_chunk" else 4 * (64 << 20)
    command = [
        KNARR,
        "repack",
        path,
        "-o",
        out / "a.h5",
        "--chain",
        "shuffle | zstd:1",
        "--max-mem",
        f"{limit >> 20}M",
        *(("--chunks", "v=16,128,256") if layout == "other_chunks" else ()),
    ]
    assert peak_memory(command, knarr.environment) <= limit
    require_same(path, out / "a.h5")


@pytest.mark.parametrize("command", ["repack", "verify", "hash"])
def test_chunks_that_are_kept_count_in_max_mem(knarr, tmp_path, out, command):
    """Regions that cross chunks are cut from decoded chunks, which are kept for the next region."""
    path, shape = tmp_path / "crossed.h5", (96, 512, 1024)
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("v", shape, "f4", chunks=(8, 512, 128), compression=1)
        for step in range(0, shape[0], 8):
            dataset[step : step + 8] = np.arange(shape[1] * shape[2], dtype="f4").reshape(shape[1:]) + step
    others = {"repack": ["-o", out / "a.bin"], "verify": [path], "hash": []}[command]
    assert peak_memory([KNARR, command, path, *others, "--max-mem", "64M"], knarr.environment) <= 64 << 20


@pytest.mark.parametrize("limit", ["encode>=1000000MB/s", "ratio>=1000000", "energy<=0.0001"])
def test_a_limit_that_no_chain_meets_is_told_once(knarr, made, out, limit):
    source = made("netcdf", "climate_history")
    done = knarr("repack", source, "-o", out / "a.nc", "--goal", limit)
    said = limit.removesuffix("MB/s")
    assert done.stderr.count("\n") == 1 and f"no chain meets {said}" in done.stderr and "'tas'" in done.stderr
    assert "the nearest was taken" in done.stdout
    assert f"no chain meets {said}" in knarr("explain", out / "a.nc").stdout
    for command in (("advise", source), ("repack", source, "-o", out / "b.nc", "-n")):
        told = knarr(*command, "--goal", limit, "--json")
        assert said in told.stderr and "nearest" in json.dumps(json.loads(told.stdout))
    for unlimited in (("--goal", "ratio=1,encode>=1"), ("--goal", limit, "--chain", "zstd:1")):
        assert "no chain" not in knarr("advise", source, *unlimited).stderr


def test_directories_are_measured_in_which_files_could_wait(knarr, tmp_path):
    """What is printed on standard output is what `knarr.toml` says of them."""
    fast = Path("/dev/shm") / f"knarr-fast-{os.getpid()}"
    fast.mkdir()
    try:
        done = knarr("profile", "--tiers", "/dev/shm", fast, tmp_path)
        assert not list(fast.iterdir()) and not list(tmp_path.iterdir())
    finally:
        fast.rmdir()
    assert "place of files" in done.stderr and "lost at a restart" in done.stderr
    if not done.stdout:
        assert "nothing is printed for knarr.toml" in done.stderr
    refused = knarr("profile", "--tiers", "/dev/shm", tmp_path / "missing", ok=False)
    assert refused.returncode == 4 and "missing" in refused.stderr and "hint" in refused.stderr
    assert not refused.stdout
    assert knarr("profile", "--tiers", "-o", "x", ok=False).returncode == 2


def test_a_profile_takes_about_the_time_that_it_may(knarr, tmp_path):
    """In processor time, which other programs do not disturb."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    knarr("profile", "--seconds", "3", "-o", tmp_path / "profile.json")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 9


def test_reading_commands_go_on_after_a_bad_file(knarr, made, tmp_path):
    good, other = made("netcdf", "climate_history"), made("hdf5", "special_values")
    bad, absent = tmp_path / "bad.nc", tmp_path / "absent.nc"
    bad.write_bytes(b"no data at all")
    for command in ("inspect", "hash", "doctor"):
        done = knarr(command, good, bad, absent, other, ok=False)
        assert done.returncode == 3
        for name in (good, other):
            assert str(name) in done.stdout, command
        for name in ("bad.nc", "absent.nc"):
            assert re.search(rf"^knarr: .*{name}: .*; hint: ", done.stderr, re.MULTILINE), done.stderr
        assert "2 of 4 inputs failed" in done.stderr
        answer = json.loads(knarr(command, bad, good, absent, other, "--json", ok=False).stdout)
        assert [file["path"] for file in answer["files"]] == [str(good), str(other)]
        assert [failed["input"] for failed in answer["failed"]] == [str(bad), str(absent)]
        alone = knarr(command, bad, ok=False)
        assert alone.returncode == 3 and str(bad) in alone.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("repack", "a.nc", "-o", "b.nc", "--forse"),
            "unexpected argument '--forse' found; hint: .*'--force'.*--help'",
        ),
        (("repack", "a.nc"), r"arguments were not provided: --output <OUT>; hint: see 'knarr repack --help'"),
        (("repack", "a.nc", "-o"), "a value is required for '--output <OUT>' .*; hint: see 'knarr repack --help'"),
        (
            ("checkpoint", "pack", "--what"),
            "unexpected argument '--what' found; hint: .*'knarr checkpoint pack --help'",
        ),
        (("repak",), "unrecognized subcommand 'repak'; hint: .*'repack'.*"),
        (("verify", "a.nc", "b.nc", "c.nc"), "unexpected argument 'c.nc' found; hint: see 'knarr verify --help'"),
        (
            ("train", "a.nc", "--samples", "no"),
            "invalid value 'no' for '--samples <N>': .*; hint: see 'knarr train --help'",
        ),
    ],
)
def test_mistakes_on_the_command_line_read_like_all_errors(knarr, words, said):
    done = knarr(*words, ok=False)
    assert done.returncode == 2 and done.stdout == ""
    assert re.fullmatch(f"knarr: .*{said}\n", done.stderr), done.stderr


def test_errors_about_knarr_toml_name_the_rule(knarr, made, tmp_path, out):
    source, config = made("netcdf", "climate_history"), tmp_path / "knarr.toml"
    for line, said, code in (
        ("variables.nothing.max_abs_error = 1.0", "there is no variable 'nothing'", 2),
        ('variables.tas.chunks = "1x1"', "chunks 1x1 have 2 dimensions", 2),
        ('variables.tas.chain = "zfp:accuracy:value=1"', "has no option", 2),
        ('variables.tas.chain = "grid"', "more than a standard HDF5 filter pipeline", 5),
        ("variables.tas.max_rel_error = 1.5", "max_rel_error is 1.5", 2),
    ):
        config.write_text(f'[[file]]\npattern = "*.nc"\n{line}\n')
        for command in (
            ("repack", source, "-o", out / "a.nc"),
            ("repack", source, "-o", out / "a.nc", "-n"),
            ("advise", source),
        ):
            told = knarr.fails(code, *command, "-c", config, names=(said, "; hint: "))
            assert f"knarr: {config}: [[file]] pattern '*.nc'" in told, told
    config.write_text('[[file]]\npattern = "*.nc"\ngoal = "ratio"\n')
    told = knarr.fails(2, "advise", source, "-c", config, "--max-abs-error", "nothing=1", names=("'nothing'",))
    assert "pattern '*.nc', and the command line: " in told


def test_dimensions_that_are_not_there_are_called_so(knarr, made, out):
    for chunks in ("tme=12", "tme/12"):
        told = knarr.fails(2, "repack", made("netcdf", "climate_history"), "-o", out / "a.nc", "--chunks", chunks)
        assert "there is no dimension 'tme'" in told and "has the dimensions " in told and "time" in told


def test_other_names_of_a_variable_lead_to_the_one_to_use(knarr, tmp_path, out):
    path = tmp_path / "names.h5"
    with h5py.File(path, "w") as file:
        file["T"] = smooth_field((64, 64), seed=1)
        file["U"] = file["T"]
        file["soft"] = h5py.SoftLink("/T")
        file["g/V"] = smooth_field((64, 64), seed=2)
        file["h"] = file["g"]
    names = {"U": "T", "soft": "T", "U*": "T", "h/V": "g/V"}
    for name, known in names.items():
        for options in (("--max-abs-error", f"{name}=0.1"), ("--chunks", f"{name}=8x8"), ("--lossless", name)):
            told = knarr.fails(2, "repack", path, "-o", out / "a.h5", *options)
            assert f"is another name of '{known}'; hint: say it of '{known}'" in told, told
        if "*" not in name:
            told = (f"'{name}' is another name of '{known}'",)
            knarr.fails(2, "repack", path, "-o", out / "a.csv", "--variable", name, names=told)


def test_a_plan_that_is_none_and_how_to_mend_that(knarr, tmp_path):
    path = tmp_path / "a.nc.knarr.json"
    for text in ("{}", "no json"):
        path.write_text(text)
        knarr.fails(3, "explain", path, names=(path, "not a plan", "; hint: give an output of 'knarr repack'"))
