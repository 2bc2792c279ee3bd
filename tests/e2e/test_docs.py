"""What the documents say can be followed: links, commands, every key of `knarr.toml`."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import h5py
import netCDF4
import pytest
import xarray

from conftest import KNARR, REPOSITORY
from values import smooth_field

# What these hold is built, installed or downloaded.
FOREIGN = {"target", "inputs", "__pycache__"}


def _pages(folder: Path) -> list[Path]:
    """All Markdown files below a folder."""
    found = []
    for directory, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in FOREIGN and not name.startswith("."))
        found += [Path(directory) / name for name in sorted(files) if name.endswith(".md")]
    return found


PAGES = _pages(REPOSITORY)
USAGE = 2
PYTHON = os.environ.get("KNARR_PYTHON", sys.executable)


def _prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.M | re.S)


def _anchors(page: Path) -> set[str]:
    """What `#` can lead to: headings, as GitHub and mdBook name them. Of equal ones the second gets `-1`."""
    anchors: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", _prose(page), re.M):
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        again = (f"{slug}-{number}" for number in itertools.count(1))
        anchors.add(slug if slug not in anchors else next(name for name in again if name not in anchors))
    return anchors


def _dead(page: Path) -> list[str]:
    """Links of a page to files or headings that are not there. Addresses of other machines are not tried."""
    prose = re.sub(r"`[^`\n]*`", "", _prose(page))
    targets = re.findall(r"\]\(<?([^)\s>]+)", prose) + re.findall(r"^\[[^\]]+\]: *(\S+)", prose, re.M)
    targets += re.findall(r"""(?:href|src)=["']([^"']+)""", prose)
    dead = []
    for target in targets:
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = target.partition("#")
        linked = page if not name else page.parent / name
        if not linked.exists() or (anchor and (linked.is_dir() or anchor not in _anchors(linked))):
            dead.append(target)
    return dead


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page):
    assert not _dead(page)


def test_a_dead_link_is_found(tmp_path):
    (tmp_path / "b.md").write_text("# One thing\n# One thing\n```\n# No heading\n```\n")
    page = tmp_path / "a.md"
    page.write_text("[a](b.md#one-thing-1) [b](b.md) `[c](none.md)` [d](none.md) [e](b.md#no-heading) [f](#none)\n")
    assert _dead(page) == ["none.md", "b.md#no-heading", "#none"]


def test_the_site_has_every_page_and_no_dead_link(tmp_path):
    """What `make docs` gives to mdBook."""
    subprocess.run([sys.executable, REPOSITORY / "tools/book.py", tmp_path], check=True)
    site = _pages(tmp_path)
    written = [path for path in PAGES if path.is_relative_to(REPOSITORY / "docs")]
    assert {path.relative_to(REPOSITORY / "docs") for path in written} <= {path.relative_to(tmp_path) for path in site}
    assert not {page.name: dead for page in site if (dead := _dead(page))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_files_named_in_code_spans_exist(page):
    """Paths with a folder of the repository in front: `docs/…`, `tools/…`, `crates/…`."""
    for path in re.findall(r"`((?:docs|tools|crates|bench|tests|fuzz)/[\w./\-]+)`", page.read_text()):
        assert "NAME" in path or (REPOSITORY / path).exists(), path


def _write(path: Path) -> None:
    """Variables with the names that the documents use."""
    with netCDF4.Dataset(path, "w") as dataset:
        for name, length in zip("zyx", (4, 180, 360), strict=True):
            dataset.createDimension(name, length)
        for seed, name in enumerate(("T", "qv", "PRECIP", "mask", "U")):
            dataset.createVariable(name, "f4", ("z", "y", "x"))[:] = smooth_field((4, 180, 360), seed=seed)


def _blocks(page: str, language: str) -> list[str]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", (REPOSITORY / page).read_text(), re.M | re.S)
    return [text for found, text in blocks if found == language]


def _follow(knarr, folder: Path, blocks: list[str]) -> int:
    """Runs the commands of these blocks in the folder; returns how many there are."""
    lines = [line for block in blocks for line in block.splitlines() if line.startswith(("knarr ", "$ "))]
    for line in lines:
        program, *arguments = shlex.split(line.removeprefix("$ "))
        program = KNARR if program == "knarr" else program
        done = subprocess.run([program, *arguments], cwd=folder, env=knarr.environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    return len(lines)


def test_commands_of_the_readme_run(knarr, tmp_path):
    (tmp_path / "run/restart_0040").mkdir(parents=True)
    for name in ("history_2020.nc", "in.nc", "run/restart_0040/rank_0.nc"):
        _write(tmp_path / name)
    (configuration,) = _blocks("README.md", "toml")
    (tmp_path / "knarr.toml").write_text(configuration)
    assert _follow(knarr, tmp_path, _blocks("README.md", "")) >= 7


def test_the_python_of_the_readme_runs(tmp_path):
    _write(tmp_path / "in.nc")
    (block,) = [block for block in _blocks("README.md", "python") if "knarr.repack" in block]
    subprocess.run([PYTHON, "-c", block], cwd=tmp_path, check=True)
    for name, engine in (("small.nc", "h5netcdf"), ("small.zarr", "zarr")):
        with (
            xarray.open_dataset(tmp_path / name, engine=engine) as small,
            xarray.open_dataset(tmp_path / "in.nc") as ds,
        ):
            assert small.identical(ds), name
    assert (tmp_path / "small.nc").stat().st_size < 0.8 * (tmp_path / "in.nc").stat().st_size


def test_commands_of_the_page_on_checkpoints_run(knarr, tmp_path):
    files = tmp_path / "run/restart_0040"
    files.mkdir(parents=True)
    for rank in range(32):
        with h5py.File(files / f"rank_{rank}.h5", "w") as file:
            file["Grid1/Density"] = smooth_field((8, 9), seed=rank)
    first, *_ = _blocks("docs/checkpoints.md", "")
    assert _follow(knarr, tmp_path, [first]) == 6
    again = tmp_path / "again/restart_0040"
    assert all((again / path.name).read_bytes() == path.read_bytes() for path in files.iterdir())


def _configured(knarr, tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "knarr.toml").write_text(text)
    if not (tmp_path / "history_1.nc").exists():
        _write(tmp_path / "history_1.nc")
    return knarr("advise", "-c", tmp_path / "knarr.toml", tmp_path / "history_1.nc", ok=False)


def test_the_example_of_knarr_toml_works(knarr, tmp_path):
    example = next(block for block in _blocks("docs/cli.md", "toml") if "[[file]]" in block)
    tomllib.loads(example)
    knarr("profile", "--seconds", "1", "-o", tmp_path / "knarr-profile.json")
    shutil.copy(REPOSITORY / "crates/choose/src/predictor/built-in.json", tmp_path / "knarr-model.json")
    done = _configured(knarr, tmp_path, example)
    assert done.returncode == 0, done.stderr


def test_every_key_of_knarr_toml_is_documented(knarr, tmp_path):
    """The error for an unknown key names all keys there are: each stands in docs/cli.md."""
    page = (REPOSITORY / "docs/cli.md").read_text()
    section = page[page.index("## knarr.toml") : page.index("## Files it writes and reads")]
    section += page[page.index("## Qualities") : page.index("## Goals")]
    for text in (
        "nosuch = 1",
        "[machine]\nnosuch = 1",
        '[[file]]\npattern = "*"\nnosuch = 1',
        '[[file]]\npattern = "*"\nvariables.T.nosuch = 1',
        '[[file]]\npattern = "*"\n[file.compress]\nnosuch = 1',
        '[[file]]\npattern = "*"\n[file.checkpoint]\nnosuch = 1',
    ):
        message = _configured(knarr, tmp_path, text).stderr
        keys = set(re.findall(r"`(\w+)`", message.split("expected", 1)[1]))
        assert keys
        for key in keys:
            assert re.search(rf"\b{key}\b", section), key


@pytest.mark.parametrize(
    ("text", "line", "names"),
    [
        ('[[file]]\npattern = "*"\nroute = "stash"', 3, ("stash", "compress", "file")),
        ('[[file]]\npattern = "*"\nroute = "checkpoint"', None, ('route "checkpoint"', "knarr checkpoint pack")),
        ('[[file]]\npattern = "*"\nportable = "netcdf"', None, ("netcdf", "core, standard or knarr")),
        ('[[file]]\npattern = "*"\ngoal = "fastest"', None, ("fastest", "balanced")),
        ('[[file]]\npattern = "*"\ngroup_size = 3', None, ("group_size", 'route "checkpoint"')),
        ('[[file]]\npattern = "*"\ngroup_sise = 3', 3, ("group_sise", "group_size")),
        ('[[file]]\npattern = "*"\n[file.checkpoint]\nkeep = 3', None, ("[file.checkpoint]", 'route "checkpoint"')),
        ('[[file]]\npattern = "*"\n[file.compress]\nkeep = 3', 4, ("keep", "portable")),
        ('[[file]]\npattern = "*"\nlow = "v18"\n[file.compress]\nlow = "v18"', None, ("'low'", "[file.compress]")),
        ('[[file]]\nroute = "file"', 1, ("pattern",)),
        ("[machin]\nprofile = 'x'", 1, ("machin", "machine")),
        ('[[file]]\npattern = "*"\nvariables.T.chnks = "auto"', 3, ("chnks", "chunks")),
        ('[[file]]\npattern = "*"\nvariables.T.max_abs_error = "x"', 3, ("max_abs_error",)),
        ('[[file]]\npattern = "nothing*"', None, ("no [[file]] pattern", "history_1.nc")),
    ],
)
def test_a_mistake_in_knarr_toml_is_shown(knarr, tmp_path, text, line, names):
    done = _configured(knarr, tmp_path, text)
    assert done.returncode == USAGE
    assert "knarr.toml" in done.stderr
    assert line is None or f"line {line}," in done.stderr
    for name in names:
        assert name in done.stderr


def test_a_file_that_is_to_stay_untouched_stops_the_run_before_any_work(knarr, tmp_path, out):
    text = '[[file]]\npattern = "restart_*"\nroute = "file"\n[[file]]\npattern = "*"\n'
    (tmp_path / "knarr.toml").write_text(text)
    for name in ("a.nc", "restart_1.nc"):
        _write(tmp_path / name)
    inputs = [tmp_path / "a.nc", tmp_path / "restart_1.nc"]
    knarr.fails(USAGE, "repack", "-c", tmp_path / "knarr.toml", *inputs, "-o", out, names=("restart_1.nc",))
    assert not list(out.iterdir())
