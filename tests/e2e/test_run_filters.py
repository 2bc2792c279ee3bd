"""`knarr run` without `portable`: only filters that the program's own HDF5 has."""

from __future__ import annotations

import subprocess
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
import pytest

from running import ALL, c_program, filters
from test_run_linkage import VALUES
from test_run_linkage import C as WRITES

PLUGINS = {
    307: "bzip2",
    32001: "blosc",
    32004: "lz4",
    32008: "bshuf",
    32013: "zfp",
    32015: "zstd",
    32024: "sz3",
    32026: "blosc2",
}
BUILT_IN = {1, 2, 3}
BOUND = "variables.T.max_abs_error = 0.01\n"


def plugin_folder(folder: Path, ids: list[int]) -> Path:
    """A folder with some of the plugins of hdf5plugin."""
    some = folder / "plugins"
    some.mkdir()
    for name in map(PLUGINS.get, ids):
        (some / f"libh5{name}.so").symlink_to(Path(hdf5plugin.PLUGIN_PATH) / f"libh5{name}.so")
    return some


def close(run, ids: list[int], config: str) -> tuple[dict, Path, str]:
    """Runs a C program that finds these plugins; its file's report, where it looks for plugins, what is told."""
    folder = plugin_folder(run.top, ids)
    program = c_program(run.folder, WRITES)
    ran = run("env", f"HDF5_PLUGIN_PATH={folder}", program, config=ALL + config)
    return ran.file("a.h5"), folder, ran.err


@pytest.mark.parametrize(
    ("ids", "config"),
    [
        ([307, 32001, 32004, 32008, 32013, 32015, 32026], 'goal = "ratio"\n' + BOUND),
        ([32015], 'goal = "ratio"\n'),
        ([32004], 'goal = "speed"\n'),
        ([32004, 32008], 'goal = "speed"\n'),
        ([], 'goal = "ratio"\n'),
    ],
    ids=str,
)
def test_files_are_read_by_a_program_with_some_plugins(run, ids, config):
    found, folder, _ = close(run, ids, config)
    path = run.folder / "a.h5"
    assert found["outcome"] == "packed" and set(filters(path)) <= BUILT_IN | set(ids)
    dump = ["h5dump", "-d", "T", "-o", "values.bin", "-b", "LE", "a.h5"]
    environment = {"PATH": "/usr/bin:/bin", "HDF5_PLUGIN_PATH": str(folder)}
    subprocess.run(dump, cwd=run.folder, env=environment, capture_output=True, check=True)
    values = np.fromfile(run.folder / "values.bin", "f4").reshape(VALUES.shape)
    assert np.abs(values - VALUES).max() <= (0.01 if "error" in config else 0)


def test_a_plugin_that_the_program_has_is_used(run):
    found, _, _ = close(run, [32015], 'goal = "ratio"\n')
    assert found["outcome"] == "packed" and 32015 in filters(run.folder / "a.h5")


def test_a_chain_whose_filter_the_program_lacks_is_left_out(run):
    """SZ3, which this launcher has, beside all other plugins in the program."""
    ids = [id for id in PLUGINS if id != 32024]
    rule = 'variables.T = { chain = "sz3:abs,bound=0.01", max_abs_error = 0.01 }\n'
    found, _, told = close(run, ids, rule)
    assert found["outcome"] == "packed" and set(filters(run.folder / "a.h5")) <= BUILT_IN | set(ids)
    assert "sz3 (32024)" in told
    with h5py.File(run.folder / "a.h5") as file:
        assert np.abs(file["T"][...] - VALUES).max() <= 0.01


def test_readers_that_the_rule_names_decide(run):
    found, _, _ = close(run, [], 'goal = "ratio"\nportable = "standard"\n')
    assert found["outcome"] == "packed" and not set(filters(run.folder / "a.h5")) <= BUILT_IN
