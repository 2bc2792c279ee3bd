"""Rules that do not fit: what no file can meet is refused before the program starts; what one file cannot meet is left
out and told, and the file is there."""

from __future__ import annotations

import netCDF4
import numpy as np
import pytest
import xarray

from running import FIELD, MPIRUN, script

RANKS, STEPS, ROWS = 4, 3, 64
UNMET = """
[[file]]
pattern = "*.nc"
variables.none.max_abs_error = 0.01
variables."zz*".chain = "zstd"
variables.count.max_abs_error = 0.5
variables.T.chunks = "4x4"
variables.T.max_abs_error = 0.01
variables.topo.chain = "round:abs=0.1 | deflate"
"""
"""Of a file with T (floats of three dimensions), topo (two), time and count (integers)."""


def blocks_of(blocks, *what: object) -> list[object]:
    return [*MPIRUN, RANKS, blocks, "hist.nc", STEPS, ROWS, *what]


def is_told(ran, output: str) -> None:
    """Names that are not there are counted; what variables cannot have is told with the reason."""
    for words in (
        "'none' were ignored in 1 file",
        "'zz*' were ignored in 1 file",
        "variable 'T' is written without a setting: chunks 4x4 have 2 dimensions, the variable has 3",
        "variable 'topo' is written without a setting: chain 'round:abs=0.1 | deflate' changes values",
        "variable 'count' is written without a setting",
    ):
        assert words in ran.err, ran.err
        assert any(words in note for note in ran.file(output)["notes"]), ran.file(output)["notes"]


def is_whole(found: xarray.Dataset, plain) -> None:
    with xarray.open_dataset(plain) as expected:
        for name in ("topo", "count", "time"):
            np.testing.assert_array_equal(found[name], expected[name])
        assert 0 < abs(found["T"].values - expected["T"].values).max() <= 0.01


@pytest.mark.parametrize("output", ["netcdf4", "zarr"])
def test_what_a_file_of_ranks_cannot_meet_is_left_out(run, blocks, plain, output):
    ran = run(*blocks_of(blocks), config=f'{UNMET}output = "{output}"\n')
    name = {"netcdf4": "hist.nc", "zarr": "hist.zarr"}[output]
    is_told(ran, name)
    path = run.folder / name
    with xarray.open_zarr(path) if output == "zarr" else xarray.open_dataset(path) as found:
        is_whole(found, plain)


def test_what_is_recovered_is_made_without_what_it_cannot_meet(run, knarr, blocks, plain):
    ran = run(*blocks_of(blocks, "kill"), config=UNMET, ok=False)
    assert ran.code != 0 and not (run.folder / "hist.nc").exists(), ran.err
    spool = ran.err.split("knarr run --recover ")[1].split("'")[0]
    told = knarr("run", "--recover", spool)
    assert "'none' were ignored in 1 file" in told.stderr and "variable 'T' is written without" in told.stderr
    with xarray.open_dataset(run.folder / "hist.nc") as found:
        is_whole(found, plain)


def test_what_a_file_of_one_process_cannot_meet_is_left_out(run):
    text = """
    with netCDF4.Dataset("hist.nc", "w") as file:
        for name, n in zip("zyx", FIELD.shape):
            file.createDimension(name, n)
        file.createVariable("T", "f4", ("z", "y", "x"))[:] = FIELD
        file.createVariable("topo", "f4", ("y", "x"))[:] = FIELD[0]
        file.createVariable("count", "i4", ("y", "x"))[:] = np.arange(FIELD[0].size).reshape(FIELD[0].shape)
    """
    ran = run(*script(text), config=UNMET)
    is_told(ran, "hist.nc")
    with netCDF4.Dataset(run.folder / "hist.nc") as found:
        assert 0 < abs(found["T"][:] - FIELD).max() <= 0.01
        np.testing.assert_array_equal(found["topo"][:], FIELD[0])
        np.testing.assert_array_equal(found["count"][:].ravel(), np.arange(FIELD[0].size))


def test_chunks_are_no_larger_than_the_memory_allows(run, blocks, plain):
    rule = '[[file]]\npattern = "*.nc"\nvariables.T.chunks = "1000x64x128"\n'
    ran = run(*blocks_of(blocks), config=rule, options=("--max-mem", "1M"))
    assert "variable 'T' is written without a setting: a chunk takes more memory" in ran.err
    with xarray.open_dataset(run.folder / "hist.nc") as found, xarray.open_dataset(plain) as expected:
        assert found.identical(expected.drop_attrs()) or found.equals(expected)


def test_an_estimate_tells_what_a_file_cannot_meet(run):
    text = 'netCDF4.Dataset("hist.nc", "w").close()'
    ran = run(*script(text), config='[[file]]\npattern = "*.nc"\nroute = "estimate"\nvariables.T.chain = "lz4"\n')
    assert "'T' were ignored in 1 file" in ran.err


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("", "says nothing"),
        ("# all of it is a comment\n", "says nothing"),
        ("[machine]\n", "no rule"),
        ('[[file]]\npattern = "hist.{a,b}.nc"\n', "braces"),
        ('[[file]]\npattern = "out/hist.nc"\n', "matches no file"),
        ('[[file]]\npattern = "*"\nvariables."{T,U}".chain = "lz4"\n', "matches no variable"),
        ('[[file]]\npattern = "*"\nvariables.T.chain = "zsdt:3"\n', "zsdt"),
        ('[[file]]\npattern = "*"\nvariables.T.chain = "zstd:300"\n', "zstd"),
        ('[[file]]\npattern = "*"\nvariables.T.chain = "zstd"\nportable = "core"\n', "--portable core"),
        ('[[file]]\npattern = "*"\noutput = "zarr"\nvariables.T.chain = "szip"\n', "Zarr"),
        ('[[file]]\npattern = "*"\nvariables.T.chain = "round:abs=1"\n', "changes values"),
        ('[[file]]\npattern = "*"\nvariables.T.chunks = "0x4"\n', "0x4"),
        (f'[[file]]\npattern = "*"\nvariables.T.chunks = "{"x".join(["2"] * 33)}"\n', "not a shape"),
    ],
)
def test_what_no_file_can_meet_is_refused_before_the_program_starts(run, config, words):
    ran = run("touch", "started", config=config, ok=False)
    assert ran.code == 125 and words in ran.err and "the program was not started" in ran.err, ran.err
    assert not (run.folder / "started").exists()
