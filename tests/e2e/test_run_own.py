"""`knarr run` with `when = "write"` through Knarr's own filter: chains chosen chunk by chunk, bounds held."""

from __future__ import annotations

import shutil
import zlib

import h5py
import numpy as np
import pytest

import plugin
from running import ALL, FIELD, c_program, script
from test_run_write import CANNOT_BEGIN, CREATES, filters

OWN = ALL + 'when = "write"\nportable = "knarr"\n'
BOUND = OWN + 'variables."*".max_abs_error = 0.01\n'


@pytest.fixture(autouse=True)
def registered():
    plugin.register()


def test_lossless_with_the_chain_chosen_from_the_data(run):
    ran = run(
        *script("""
        with h5py.File("a.h5", "w") as file:
            file.create_dataset("T", data=FIELD)
            file.create_dataset("own", data=FIELD, chunks=(1, 128, 256), compression="gzip")
        with h5py.File("a.h5", "a") as file:
            assert np.array_equal(file["T"][:], FIELD), "the program reads what it wrote"
            file["T"][3] = 0
        """),
        config=OWN,
    )
    path = run.folder / "a.h5"
    assert filters(path) == [plugin.ID] and filters(path, "own") == [2, 1][1:]
    expected = FIELD.copy()
    expected[3] = 0
    with h5py.File(path) as file:
        assert np.array_equal(file["T"][:], expected) and np.array_equal(file["own"][:], FIELD)
        assert file["T"].id.get_storage_size() < 0.7 * FIELD.nbytes
    assert "1 with Knarr's filter, whose plugin readers need" in ran.file("a.h5")["reason"]


def test_small_linear_arrays_are_no_larger_than_deflate_makes_them(run):
    """Ranges as Octave writes them: a few thousand doubles that grow by a step."""
    run(
        *script("""
        with h5py.File("a.h5", "w") as file:
            for n in range(8):
                values = np.arange(1000 * (n + 1), dtype="f8") * (0.25 * (n + 1)) - 7
                file.create_dataset(f"x{n}", data=values)
        """),
        config=OWN,
    )
    with h5py.File(run.folder / "a.h5") as file:
        stored = sum(dataset.id.get_storage_size() for dataset in file.values())
        deflated = sum(len(zlib.compress(dataset[:].tobytes(), 6)) for dataset in file.values())
    assert stored <= deflated, (stored, deflated)


@pytest.mark.parametrize("imported", ["", "import hdf5plugin"])
def test_bounds_hold_while_writing(run, imported):
    """For every element; NaN, infinities and fill values keep their bits; coordinates and whole numbers are exact."""
    ran = run(
        *script(f"""
        {imported}
        values = FIELD.copy()
        values[0, 0, :3] = np.nan, np.inf, -999
        with h5py.File("a.h5", "w") as file:
            file.create_dataset("T", data=values, fillvalue=-999)
            file.create_dataset("big", data=values.astype(">f8"))
            file.create_dataset("n", data=np.arange(100_000).reshape(100, 1000))
            file.create_dataset("x", data=np.linspace(0, 1, 100_000))
            file["unnamed"] = values
        with netCDF4.Dataset("a.nc", "w") as dataset:
            dataset.createDimension("t", None)
            for name, length in zip("yx", FIELD.shape[1:]):
                dataset.createDimension(name, length)
            variable = dataset.createVariable("T", "f4", ("t", "y", "x"), fill_value=-999)
            variable.set_auto_mask(False)
            for step in range(len(values)):
                variable[step] = values[step]
        """),
        config=BOUND,
    )
    values = FIELD.copy()
    values[0, 0, :3] = np.nan, np.inf, -999
    exact = (0, 0, slice(3))
    with h5py.File(run.folder / "a.h5") as file:
        for name in ("T", "big", "unnamed"):
            assert filters(run.folder / "a.h5", name) == [plugin.ID], ran.err
            read = file[name][:]
            difference = np.abs(read[1:] - values[1:])
            assert difference.max() <= 0.01 and difference.any(), "something was rounded, and within the bound"
            assert np.array_equal(read[exact], values[exact], equal_nan=True)
            assert file[name].id.get_storage_size() < 0.4 * file[name].nbytes
        assert np.array_equal(file["n"][:].ravel(), np.arange(100_000))
        assert np.array_equal(file["x"][:], np.linspace(0, 1, 100_000))
    with h5py.File(run.folder / "a.nc") as file:
        read = file["T"][:]
    assert np.abs(read[1:] - values[1:]).max() <= 0.01
    assert np.array_equal(read[exact], values[exact], equal_nan=True)
    assert filters(run.folder / "a.nc") == [plugin.ID]


def test_other_programs_of_the_run_read_the_files(run):
    """Debian's HDF5, with a plugin path that leads nowhere; also what `close` packed for readers with the plugin."""
    write = ["with h5py.File('a.h5', 'w') as file:", "    file.create_dataset('T', data=FIELD)"]
    program = script("\n".join([*write, "time.sleep(1)", "sys.exit(os.system('h5dump -d T -s 0,0,0 a.h5'))"]))
    for config in (OWN, ALL + 'portable = "knarr"\nvariables.T.chain = "grid"\n'):
        ran = run(*program, config=config, env={"HDF5_PLUGIN_PATH": "/nowhere"})
        assert f"{FIELD[0, 0, 0]:.3f}"[:-1] in ran.out
        assert filters(run.folder / "a.h5") == [plugin.ID]


def test_programs_in_c(run):
    program = c_program(run.folder, CREATES)
    ran = run(program, config=BOUND)
    expected = (np.arange(64 * 4096) % 5000 * 0.25).reshape(64, 4096)
    with h5py.File(run.folder / "a.h5") as file:
        for name in ("one", "two", "three"):
            assert filters(run.folder / "a.h5", name) == [plugin.ID], ran.err
            assert np.abs(file[name][:] - expected).max() <= 0.01


def test_a_plugin_that_is_missing_or_broken(run):
    """Missing, it stops the run before the program starts; broken, datasets get standard filters."""
    installed = run.top / "bin"
    installed.mkdir()
    for name in ("knarr", "libknarr_preload.so"):
        shutil.copy(run.program.parent / name, installed / name)
    run.program = installed / "knarr"
    ran = run("touch", "started", config=OWN, ok=False)
    assert ran.code == CANNOT_BEGIN and not (run.folder / "started").exists()
    assert "libknarr_h5.so" in ran.err
    (installed / "hdf5-plugins").mkdir()
    (installed / "hdf5-plugins" / "libknarr_h5.so").write_text("no library")
    program = script("""
        with h5py.File("a.h5", "w") as file:
            file.create_dataset("T", data=FIELD)
        """)
    ran = run(*program, config=BOUND)
    assert filters(run.folder / "a.h5") == [2, 1]
    assert "1 dataset with the usual chain instead: Knarr's filter plugin cannot be" in ran.file("a.h5")["reason"]
    with h5py.File(run.folder / "a.h5") as file:
        assert np.array_equal(file["T"][:], FIELD)
