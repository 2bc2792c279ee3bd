"""What the commands print, and the limits they keep."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import h5py
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


def test_equal_input_gives_equal_choice(knarr, made):
    path = made("netcdf", "climate_history")
    answers = [
        knarr.json("repack", path, "-o", path.with_name("x.nc"), "--dry-run", "--jobs", jobs)
        for jobs in (1, 2, 2)
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
    command = (
        f"'{KNARR}' inspect '{made('hdf5', 'newest_format')}' | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=knarr.environment)
    assert "panicked" not in done.stderr
    assert done.returncode in (0, 141, -signal.SIGPIPE)


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


@pytest.mark.parametrize("layout", ["chunked", "contiguous", "one_huge_chunk"])
def test_peak_memory_stays_within_max_mem(knarr, tmp_path, out, layout):
    """A file far larger than --max-mem; 40 MB stand for the program and its libraries.

    A single chunk has to be decoded whole, so for the last layout the limit is that chunk's need.
    """
    path, shape = tmp_path / "large.h5", (80, 1024, 1024)
    chunks = {"chunked": (1, 512, 1024), "contiguous": None, "one_huge_chunk": (16, 1024, 1024)}[layout]
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
    ]
    assert peak_memory(command, knarr.environment) < limit + 40_000_000
    require_same(path, out / "a.h5")
