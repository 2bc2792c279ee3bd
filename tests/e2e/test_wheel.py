"""What a user gets with `pip install knarr`: the command and what it loads, beside the Python package."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import h5py
import numpy as np
import pytest

import knarr

COMMAND = Path(sysconfig.get_path("scripts")) / "knarr"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "knarr.toml").write_text('[[file]]\npattern = "*.h5"\n')
    return tmp_path


def command(*arguments: object, folder: Path) -> str:
    done = subprocess.run([COMMAND, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_is_that_of_the_package(folder):
    assert command("--version", folder=folder).split() == ["knarr", knarr.__version__]


def test_the_command_runs_programs_and_finds_its_filter(folder):
    program = "import h5py, numpy; h5py.File('a.h5', 'w')['T'] = numpy.arange(1e5).reshape(100, 1000) // 7"
    command("run", "-c", "knarr.toml", "--", sys.executable, "-c", program, folder=folder)
    with h5py.File(folder / "a.h5") as file:
        assert np.array_equal(file["T"][:], np.arange(1e5).reshape(100, 1000) // 7)
        assert file["T"].id.get_storage_size() < file["T"].nbytes / 2
    plugins = json.loads(command("hdf5-filter", "--json", folder=folder))["plugin_path"]
    assert (Path(plugins) / "libknarr_h5.so").is_file()
