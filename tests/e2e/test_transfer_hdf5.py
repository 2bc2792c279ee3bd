"""Programs that exchange HDF5 and netCDF-4 files under `knarr run`: values go through memory."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import h5py
import pytest

import test_parallel_hdf5 as parallel
from running import MPIRUN
from test_transfer import COLUMNS, ROWS, RULE, STEPS, both, command, components, coupled

__all__ = ["components", "coupled"]

PROGRAMS = Path(__file__).with_name("transfer_programs")
ANY = RULE.replace('"*.nc"', '"a*.*"')
SESSIONS = 3

EVERYTHING = """
import h5py, numpy as np
def values(session):
    random = np.random.default_rng(session)
    whole = {name: random.integers(0, 100, (7, 11)).astype(name) for name in
             ["i1", "u1", "i2", "u2", "<i4", ">i4", "u4", "i8", "u8", "f2", "<f4", ">f4", "f8", "c16", "S5"]}
    whole["f8"][2, 3], whole["f8"][2, 4], whole["<f4"][0, 0] = np.nan, -0.0, np.inf
    whole["pair"] = np.array([(1, 2.5), (session, -1)], dtype=[("a", "i4"), ("b", "f8")])
    whole["enum"] = np.array([0, 1, 1], "i1")
    whole["scalar"] = np.float64(session)
    whole["empty"] = np.zeros((0, 3))
    whole["long"] = random.standard_normal((64, 64, 64))
    return whole
"""

H5PY_WRITES = (
    EVERYTHING
    + """
import sys
for session in range(int(sys.argv[2])):
    with h5py.File(sys.argv[1], "w") as file:
        file.attrs["session"] = session
        file.attrs["text"] = "words"
        for name, array in values(session).items():
            dtype = h5py.enum_dtype({"no": 0, "yes": 1}, "i1") if name == "enum" else None
            chunks = {"compression": "gzip", "shuffle": True} if name == "long" else {}
            data = file.create_dataset(name, data=array, dtype=dtype, **chunks)
            data.attrs["units"] = f"unit of {name}"
        names = file.create_dataset("names", data=["one", "three", str(session)], dtype=h5py.string_dtype())
        file["group/inner"] = np.arange(5)
        file["group/link"] = h5py.SoftLink("/group/inner")
        file["hard"] = file["group/inner"]
        file["refs"] = np.array([file["group"].ref, file["scalar"].ref], dtype=h5py.ref_dtype)
        lengths = file.create_dataset("lengths", (2,), dtype=h5py.vlen_dtype("i4"))
        lengths[0], lengths[1] = [1, 2, 3], [session]
        parts = file.create_dataset("parts", (20, 30), "f4", fillvalue=-5)
        parts[::3, 1:20:2] = 1
        parts[4:9, 4:9] = np.arange(25).reshape(5, 5)
        parts[0, [1, 4, 5]] = [7, 8, 9]
        assert parts[5, 5] == 6 and parts[19, 29] == -5
        never = file.create_dataset("never", (3,), "i4", fillvalue=42)
        grows = file.create_dataset("grows", (0, 4), "f8", maxshape=(None, 4), chunks=(2, 4))
        for step in range(session + 2):
            grows.resize(step + 1, axis=0)
            grows[step] = step + np.arange(4)
        shrinks = file.create_dataset("shrinks", data=np.arange(10.0), maxshape=(None,))
        shrinks.resize((4,))
        shrinks.resize((6,))
        file.create_dataset("gone", data=[1, 2])
        del file["gone"]
"""
)

H5PY_READS = (
    EVERYTHING
    + """
import sys
for session in range(int(sys.argv[2])):
    with h5py.File(sys.argv[1], "r") as file:
        assert file.attrs["session"] == session and file.attrs["text"] == "words"
        assert file.filename == sys.argv[1]
        for name, array in values(session).items():
            found = file[name]
            assert found.attrs["units"] == f"unit of {name}"
            assert found.dtype == array.dtype and found.shape == array.shape, (name, found)
            assert found[()].tobytes() == array.tobytes(), (name, found[()], array)
        assert h5py.check_enum_dtype(file["enum"].dtype) == {"no": 0, "yes": 1}
        assert file["long"].compression == "gzip"
        assert file["names"].asstr()[:].tolist() == ["one", "three", str(session)]
        assert file["group/link"][:].tolist() == [0, 1, 2, 3, 4] == file["hard"][:].tolist()
        refs = file["refs"][:]
        assert file[refs[0]].name == "/group" and file[refs[1]][()] == session
        assert [list(row) for row in file["lengths"]] == [[1, 2, 3], [session]]
        expected = np.full((20, 30), -5, "f4")
        expected[::3, 1:20:2] = 1
        expected[4:9, 4:9] = np.arange(25).reshape(5, 5)
        expected[0, [1, 4, 5]] = [7, 8, 9]
        parts = file["parts"]
        assert (parts[:] == expected).all()
        assert (parts[1:18:4, ::7] == expected[1:18:4, ::7]).all()
        assert (parts[2, [0, 5, 29]] == expected[2, [0, 5, 29]]).all()
        mask = expected == 1
        assert (parts[mask] == expected[mask]).all()
        assert (parts.astype("f8")[3:5] == expected[3:5]).all()
        assert (parts.astype("i2")[:] == expected).all()
        into = np.zeros((4, 6), "f8")
        parts.read_direct(into, np.s_[4:6, 4:6], np.s_[1:3, 2:4])
        assert (into[1:3, 2:4] == expected[4:6, 4:6]).all() and into.sum() == expected[4:6, 4:6].sum()
        assert file["never"][:].tolist() == [42] * 3
        assert file["grows"].shape == (session + 2, 4) and (file["grows"][-1] == session + 1 + np.arange(4)).all()
        assert file["shrinks"][:].tolist() == [0, 1, 2, 3, 0, 0]
        assert "gone" not in file
        try:
            file["never"][0] = 1
            raise SystemExit("was written")
        except (OSError, ValueError, RuntimeError):
            pass
"""
)


def python(text: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(text), *map(str, arguments)]


@pytest.mark.parametrize("reader_first", [False, True])
def test_h5py_gives_h5py_everything(components, reader_first):
    """Types, partial writes, references, strings, filters, links: session after session."""
    components.config = ANY
    model, analysis = both(
        components, python(H5PY_WRITES, "a.h5", SESSIONS), python(H5PY_READS, "a.h5", SESSIONS), reader_first
    )
    assert model.file("a.h5")["outcome"] == analysis.file("a.h5")["outcome"] == "transferred"
    assert not list(components.folder.iterdir())


def data(session: int) -> str:
    return f"""
import numpy as np, sys, xarray
random = np.random.default_rng({session})
time = np.arange({session} + 3) * 6.0
T = random.standard_normal((len(time), 5, 8)).astype("f4")
T[1, 2, 3] = np.nan
packed = np.round(random.standard_normal((5, 8)), 1)
names = np.array(["here", "there", "somewhere", "x", "y"], dtype=object)
made = xarray.Dataset(
    {{"T": (("time", "y", "x"), T, {{"units": "K"}}), "packed": (("y", "x"), packed), "name": (("y",), names)}},
    coords={{"time": ("time", time, {{"units": "hours since 2000-01-01"}}), "x": np.arange(8) * 0.5}},
    attrs={{"session": {session}, "title": "tests"}},
)
"""


def in_sessions(text: str) -> str:
    each = [data(session) + textwrap.dedent(text) for session in range(SESSIONS)]
    return "\n".join(each)


WRITERS = {
    "xarray": """
        made.to_netcdf(sys.argv[1], engine="netcdf4", unlimited_dims=["time"],
                       encoding={"packed": {"dtype": "i2", "scale_factor": 0.1, "_FillValue": -999}})
    """,
    "netCDF4": """
        import netCDF4
        with netCDF4.Dataset(sys.argv[1], "w") as file:
            file.createDimension("time", None)
            for name in ["y", "x"]:
                file.createDimension(name, made.sizes[name])
            for name in ["time", "x"]:
                file.createVariable(name, "f8", (name,))[:] = made[name].values
            file["time"].units = "hours since 2000-01-01"
            growing = file.createVariable("T", "f4", ("time", "y", "x"), zlib=True)
            growing.units = "K"
            for step in range(len(time)):
                growing[step] = T[step]
            stored = file.createVariable("packed", "i2", ("y", "x"), fill_value=-999)
            stored.scale_factor = 0.1
            stored[:] = packed
            texts = file.createVariable("name", str, ("y",))
            for place, text in enumerate(names):
                texts[place] = text
            file.session, file.title = made.attrs["session"], "tests"
    """,
}
WRITERS["h5netcdf"] = WRITERS["xarray"].replace('"netcdf4"', '"h5netcdf"')

READERS = {
    "xarray": """
        with xarray.open_dataset(sys.argv[1], engine="netcdf4", decode_times=False) as found:
            assert "time" in found.encoding["unlimited_dims"]
            xarray.testing.assert_allclose(found.load(), made)
            assert found["T"].values.tobytes() == T.tobytes() and found.attrs == made.attrs
            assert found["name"].values.tolist() == names.tolist()
    """,
    "netCDF4": """
        import netCDF4
        with netCDF4.Dataset(sys.argv[1]) as file:
            assert file.session == made.attrs["session"] and len(file.dimensions["time"]) == len(time)
            file["T"].set_auto_mask(False)
            assert file["T"][:].tobytes() == T.tobytes() and file["T"].units == "K"
            assert (file["T"][1::2, ::-1, [1, 4]] == T[1::2, ::-1, [1, 4]]).all()
            assert np.allclose(file["packed"][:], packed) and (file["time"][:] == time).all()
            assert file["name"][:].tolist() == names.tolist()
    """,
}
READERS["h5netcdf"] = READERS["xarray"].replace('"netcdf4"', '"h5netcdf"')


@pytest.mark.parametrize(
    ("writes", "reads"), [("xarray", "netCDF4"), ("netCDF4", "xarray"), ("h5netcdf", "xarray"), ("netCDF4", "h5netcdf")]
)
def test_netcdf_of_python(components, writes, reads):
    """Coordinates, packed values, strings, attributes, an unlimited dimension that is longer each time."""
    writer, reader = in_sessions(WRITERS[writes]), in_sessions(READERS[reads])
    both(components, python(writer, "a.nc"), python(reader, "a.nc"), reads == "netCDF4")
    # h5netcdf asks whether there is a file before it opens one, so it gets one.
    left = ["a.nc", "a.nc.knarr.json"] if reads == "h5netcdf" else []
    assert sorted(path.name for path in components.folder.iterdir()) == left


@pytest.fixture(scope="module")
def netcdf4(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return parallel.built(tmp_path_factory.mktemp("netcdf4"), "netcdf", PROGRAMS / "netcdf4.c")


def of_c(program: Path, does: str, how: str, count: int, file: str = "a.nc", sessions: int = SESSIONS) -> list[object]:
    return [*MPIRUN, count, program, does, how, file, 10, 14, sessions]


@pytest.mark.parametrize(
    ("writers", "readers"),
    [("alone 1", "alone 1"), ("together 3", "alone 1"), ("alone 1", "together 2"), ("together 2", "together 3")],
)
def test_netcdf_of_c(components, netcdf4, writers, readers):
    """Alone and together: shorts and floats to double, strides, elements that nobody has written, strings."""
    sides = []
    for does, side in (("write", writers), ("read", readers)):
        how, count = side.split()
        sides.append(of_c(netcdf4, does, how, int(count)))
    both(components, *sides)
    assert not list(components.folder.iterdir())


def test_python_reads_what_ranks_write_and_the_reverse(components, netcdf4):
    """A model in C with MPI, an analysis in Python, which answers it."""
    components.config = RULE.replace('"*.nc"', '"out.nc"') + RULE.replace('"*.nc"', '"back.nc"').replace(
        'from = "model"\nto = ["analysis"]', 'from = "analysis"\nto = ["model"]'
    )
    analysis = """
        import h5py, netCDF4, numpy as np
        for session in range(2):
            with netCDF4.Dataset("out.nc") as file:
                assert file.session == session
                grows = file["grows"][:].filled(-7)
                at = np.arange(140).reshape(10, 14)
                for step in range(session + 1):
                    expected = (session * 1000000 + step * 100000 + at).astype("f4")
                    expected[5 if step == session else 10:] = -7
                    assert (grows[step] == expected).all()
            with h5py.File("back.nc", "w") as file:
                file["mean"] = grows.mean(axis=0)
    """
    model = """
        import h5py, numpy as np
        for session in range(2):
            with h5py.File("back.nc") as file:
                assert file["mean"].shape == (10, 14) and (file["mean"][5:] < file["mean"][0, 0] + 1e9).all()
                assert file["mean"][0, 0] == np.mean(
                    [np.float32(session * 1000000 + step * 100000) for step in range(session + 1)], dtype="f4")
    """
    script = components.top / "model.sh"
    writes = " ".join(map(str, of_c(netcdf4, "write", "together", 2, "out.nc", 2)))
    script.write_text(f"set -e\n{writes}\n{sys.executable} {components.top}/model.py\n")
    (components.top / "model.py").write_text(textwrap.dedent(model))
    both(components, ["sh", script], python(analysis))


WRITES = """
import h5py, numpy as np, sys, time
for session in range(int(sys.argv[1])):
    with h5py.File("a.h5", "w") as file:
        file["x"] = np.full(1000, session)
"""
READS = """
import h5py, sys
for session in range(int(sys.argv[1])):
    with h5py.File("a.h5") as file:
        assert (file["x"][:] == session).all()
"""


COUPLED = f"""
import netCDF4, numpy as np
rows, columns = {ROWS}, {COLUMNS}
def field(session, step):
    return session * 1e9 + step * 1e7 + np.arange(rows)[:, None] * 4096.0 + np.arange(columns)
def series(session):
    return np.stack([field(0, step) for step in range({STEPS} + session)]).astype("f4")
"""
"""What `coupled.c` writes and expects."""


@pytest.mark.parametrize("library", ["netCDF4", "h5py"])
def test_python_reads_what_pnetcdf_writes(components, coupled, library):
    reads = {
        "netCDF4": """
            for session in range(2):
                with netCDF4.Dataset("a.nc") as file:
                    assert file.session == session and file.dimensions["time"].isunlimited()
                    assert (file["field"][:] == field(session, 0)).all()
                    assert (file["series"][:] == series(session)).all()
                    assert file["number"][...] == 41 + session
                    assert file["label"][:].tobytes() == bytes([97 + session]) * rows
        """,
        "h5py": """
            import h5py
            for session in range(2):
                with h5py.File("a.nc") as file:
                    assert (file["series"][1:, ::5] == series(session)[1:, ::5]).all()
                    assert (file["field"][:] == field(session, 0)).all()
        """,
    }
    reader = COUPLED + textwrap.dedent(reads[library])
    both(components, command(coupled, "write", "a.nc", "2x1", 2), python(reader))
    assert not list(components.folder.iterdir())


def test_pnetcdf_reads_what_python_writes(components, coupled):
    writes = """
        for session in range(2):
            with netCDF4.Dataset("a.nc", "w") as file:
                file.session = np.int32(session)
                for name, length in [("time", None), ("y", rows), ("x", columns)]:
                    file.createDimension(name, length)
                file.createVariable("field", "f8", ("y", "x"))[:] = field(session, 0)
                file.createVariable("series", "f4", ("time", "y", "x"))[:] = series(session)
                file.createVariable("number", "i4")[...] = 41 + session
                file.createVariable("label", "S1", ("y",))[:] = np.full(rows, chr(97 + session), "S1")
    """
    writer = COUPLED + textwrap.dedent(writes)
    both(components, python(writer), command(coupled, "read", "a.nc", "1x2", 2))
    assert not list(components.folder.iterdir())


def test_pnetcdf_is_told_what_classic_files_cannot_hold(components, coupled):
    writes = """
        import h5py
        with h5py.File("a.nc", "w") as file:
            file["words"] = ["of", "any", "length"]
    """
    model = components.start("model", *python(writes))
    reader = components.finish(
        components.start("analysis", *command(coupled, "read", "a.nc", "1x2", 1, "absent")), ok=False
    )
    assert "it cannot be read with PnetCDF" in reader.err, reader.err
    components.finish(model, ok=False)


def test_several_readers_have_all_sessions_each(components):
    components.config = ANY.replace('["analysis"]', '["analysis", "plots"]')
    model = components.start("model", *python(WRITES, 4))
    readers = [components.start(name, *python(READS, 4)) for name in ("analysis", "plots")]
    assert [components.finish(reader).file("a.h5")["outcome"] for reader in readers] == ["transferred"] * 2
    components.finish(model)


def test_readers_may_get_every_third_session(components):
    components.config = ANY + "every = 3\n"
    reads = """
        import h5py
        for session in (2, 5):
            with h5py.File("a.h5") as file:
                assert (file["x"][:] == session).all(), file["x"][:]
    """
    both(components, python(WRITES, 7), python(reads))


def test_members_of_an_ensemble_are_files_of_their_own(components):
    components.config = RULE.replace('"*.nc"', '"a{member}.h5"')
    script = """
        import h5py, numpy as np
        for member in {order}:
            with h5py.File(f"a{{member}}.h5", "{mode}") as file:
                {does}
    """
    writes = script.format(order=range(3), mode="w", does='file["x"] = np.full(9, member)')
    reads = script.format(order=[2, 0, 1], mode="r", does='assert (file["x"][:] == member).all()')
    both(components, python(writes), python(reads))


def test_processes_that_read_at_the_same_time_share_a_session(components):
    """They know nothing of each other. Memory is used again only when the last has closed the file."""
    reads = """
        import h5py, os, sys, time
        name = sys.argv[1]
        with h5py.File("a.h5") as file:
            open(f"opened-{name}", "w").close()
            while not (os.path.exists("opened-a") and os.path.exists("opened-b")):
                time.sleep(0.01)
            time.sleep(1.5 if name == "b" else 0)
            assert (file["x"][:] == 0).all(), file["x"][:]
        if name == "b":
            with h5py.File("a.h5") as file:
                assert (file["x"][:] == 1).all()
    """
    (components.top / "reads.py").write_text(textwrap.dedent(reads))
    script = components.top / "both.sh"
    one = f"{sys.executable} {components.top}/reads.py"
    script.write_text(f"{one} a & first=$!\n{one} b && wait $first\n")
    components.config = ANY
    both(components, python(WRITES, 2), ["sh", script])


@pytest.mark.parametrize("keep", ["true", "false"])
def test_a_file_is_kept_if_that_is_asked_for(components, keep):
    components.config = ANY + f"keep = {keep}\n"
    both(components, python(H5PY_WRITES, "a.h5", 1), python(H5PY_READS.replace("assert not os", "os"), "a.h5", 1))
    kept = components.folder / "a.h5"
    assert kept.exists() == (keep == "true")
    if keep == "true":
        subprocess.run(python(H5PY_READS.replace("assert not os", "os"), kept, 1), check=True)


def test_a_session_that_nobody_takes_becomes_a_file(components):
    components.config = ANY.replace("60s", "3s")
    model = components.start("model", *python(WRITES, 1))
    components.finish(components.start("analysis", "sleep", "1"))
    told = components.finish(model, ok=False)
    assert "has ended without it; a file is made of it" in told.err
    with h5py.File(components.folder / "a.h5") as file:
        assert (file["x"][:] == 0).all() and file["x"].shape == (1000,)
    # The writer is not there: what there is may be of an earlier run, until its time is over.
    components.finish(components.start("analysis", *python(READS, 1)))


def test_a_killed_writer_is_named_and_nobody_waits(components):
    components.config = ANY
    writes = """
        import h5py, os, signal, time
        with h5py.File("a.h5", "w") as file:
            file["x"] = range(10)
            while not os.path.exists("waits"):
                time.sleep(0.01)
            time.sleep(2)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    reads = """
        import h5py
        open("waits", "w").close()
        try:
            h5py.File("a.h5")
        except FileNotFoundError:
            raise SystemExit(3)
    """
    began = time.monotonic()
    reader = components.start("analysis", *python(reads))
    model = components.finish(components.start("model", *python(writes)), ok=False)
    analysis = components.finish(reader, ok=False)
    assert time.monotonic() - began < 30 and analysis.code == 3
    assert "component 'model' has ended, and there is no session" in analysis.err, analysis.err
    assert "the program has ended before it had closed the file" in model.err


def test_a_reader_that_is_killed_is_missed(components):
    components.config = ANY
    reads = """
        import h5py, os, signal
        with h5py.File("a.h5") as file:
            assert file["x"][0] == 0
            os.kill(os.getpid(), signal.SIGKILL)
    """
    reader = components.start("analysis", *python(reads))
    model = components.finish(components.start("model", *python(WRITES, 2)), ok=False)
    components.finish(reader, ok=False)
    assert "session 1: component 'analysis' has ended without it" in model.err, model.err


def test_a_reader_may_want_the_file_in_memory_or_change_it_or_fork(components):
    """HDF5 would hold no file then; the file is opened for reading; a child has what its parent has."""
    components.config = ANY
    reads = """
        import h5py, os, time
        with h5py.File("a.h5", "r", driver="core") as file:
            other = h5py.File("a.h5", "r", driver="core")
            other.close()
            time.sleep(1)
            assert (file["x"][:] == 0).all()
        with h5py.File("a.h5", "a") as file:
            try:
                file["x"][0] = 5
                raise SystemExit("was written")
            except OSError:
                pass
            assert (file["x"][:] == 1).all()
        file = h5py.File("a.h5")
        child = os.fork()
        if child == 0:
            time.sleep(2)
            os._exit(0)
        assert (file["x"][:] == 2).all()
        file.close()
        with h5py.File("a.h5") as file:
            assert (file["x"][:] == 3).all()
        os.waitpid(child, 0)
    """
    # Memory that is free is used again.
    writes = WRITES.replace("    with", "    time.sleep(0.5)\n    with")
    both(components, python(writes, 4), python(reads))


def test_netcdf_says_that_nothing_came(components):
    reads = """
        import netCDF4
        open("waits", "w").close()
        try:
            netCDF4.Dataset("a.nc")
        except FileNotFoundError:
            raise SystemExit(3)
    """
    analysis = components.start("analysis", *python(reads))
    model = components.start("model", "sh", "-c", "while [ ! -e waits ]; do sleep 0.1; done; sleep 2")
    analysis = components.finish(analysis, ok=False)
    assert analysis.code == 3 and "component 'model' has ended" in analysis.err
    components.finish(model)


def test_what_is_not_closed_is_handed_over_at_the_end(components):
    """A program may leave that to HDF5, which does so when the process ends."""
    components.config = ANY
    writes = """
        import h5py
        file = h5py.File("a.h5", "w")
        file["x"] = [0] * 1000
    """
    both(components, python(writes), python(READS, 1))


def test_a_file_may_be_closed_before_its_datasets(components):
    """HDF5 closes it then with the last of them."""
    components.config = ANY
    writes = """
        import numpy as np
        from h5py import h5d, h5f, h5p, h5s, h5t
        for session in range(3):
            file = h5f.create(b"a.h5", fapl=h5p.create(h5p.FILE_ACCESS))
            data = h5d.create(file, b"x", h5t.NATIVE_INT64, h5s.create_simple((1000,)))
            file.close()
            data.write(h5s.ALL, h5s.ALL, np.full(1000, session))
            del data
    """
    both(components, python(writes), python(READS, 3))


def test_an_old_file_is_not_taken_for_a_session(components):
    components.config = ANY
    with h5py.File(components.folder / "a.h5", "w") as file:
        file["x"] = [7]
    both(components, python(WRITES, 2), python(READS, 2), reader_first=True)
    with h5py.File(components.folder / "a.h5") as file:
        assert file["x"][:].tolist() == [7]


def test_what_cannot_be_handed_over_fails_and_says_why(components):
    components.config = ANY
    writes = """
        import h5py, numpy as np
        with h5py.File("a.h5", "w") as file:
            file["x"] = np.zeros(1000, "i8")
            def fails(call):
                try:
                    call()
                except Exception:
                    return
                raise SystemExit("was done")
            fails(lambda: file.copy("x", "y"))
            layout = h5py.VirtualLayout((1000,), "i8")
            layout[:] = h5py.VirtualSource(".", "x", (1000,))
            fails(lambda: file.create_virtual_dataset("z", layout))
            chunked = file.create_dataset("chunked", (4,), "i8", chunks=(4,))
            fails(lambda: chunked.id.write_direct_chunk((0,), b"0" * 32))
    """
    model, _ = both(components, python(writes), python(READS, 1))
    for words in ("H5Ocopy", "virtual dataset", "H5Dwrite_chunk"):
        assert words in model.err, model.err


def test_files_in_memory_are_left_to_hdf5(components):
    components.config = ANY
    writes = """
        import h5py
        with h5py.File("a.h5", "w", driver="core") as file:
            file["x"] = [1]
    """
    reader = components.start("analysis", "sleep", "0")
    model = components.finish(components.start("model", *python(writes)))
    components.finish(reader)
    with h5py.File(components.folder / "a.h5") as file:
        assert file["x"][:].tolist() == [1]
    assert "HDF5 keeps it in memory" in str(model.result), model.result
