"""Sessions of transferred files: who gets which, what becomes of those that nobody takes, and what is said of it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import h5py
import pytest

from running import MPIRUN, c_program, until
from test_pnetcdf import compiled
from test_transfer import PROGRAMS, RULE, both, command, components, coupled

__all__ = ["components", "coupled"]

HDF5 = RULE.replace('"*.nc"', '"*.h5"')
SOON = '"300ms"'
"""How long components are waited for that do not come."""
UNTIL_THE_READER_RUNS = "until ls ../.knarr-transfer/analysis/running.*; do sleep 0.1; done >ls 2>&1; rm ls"


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return c_program(tmp_path_factory.mktemp("sessions"), (PROGRAMS / "sessions.c").read_text())


def got(out: str) -> dict[str, list[int]]:
    """The sessions that each process says it got."""
    found: dict[str, list[int]] = {}
    for process, number in re.findall(r"^(\d+) got (\d+)$", out, re.MULTILINE):
        found.setdefault(process, []).append(int(number))
    return found


def test_a_process_never_gets_a_session_again_that_it_has_closed(components, sessions):
    """Two processes read at the same time, and one is faster."""
    components.config = HDF5
    reads = [shlex.join(map(str, [sessions, "read", "a.h5", 6, ms])) for ms in (10, 25)]
    analysis = components.start("analysis", "sh", "-ec", f"{reads[0]} & first=$!; {reads[1]}; wait $first")
    model = components.finish(components.start("model", sessions, "write", "a.h5", 6, 60))
    found = got(components.finish(analysis).out)
    assert len(found) == 2, found
    for numbers in found.values():
        assert numbers == sorted(set(numbers)), found
    assert set().union(*found.values()) == set(range(6)), found
    assert model.file("a.h5")["outcome"] == "transferred"


def test_a_slow_reader_that_lives_gets_all(components, sessions):
    """However long a session waits for it."""
    components.config = HDF5.replace('"60s"', '"3s"')
    writes = shlex.join(map(str, [sessions, "write", "a%d.h5", 4, 0]))
    model = components.start("model", "sh", "-ec", f"{UNTIL_THE_READER_RUNS}; {writes}")
    components.await_running("model")
    analysis = components.start("analysis", sessions, "read", "a%d.h5", 4, 1200)
    components.finish(model)
    (numbers,) = got(components.finish(analysis).out).values()
    assert numbers == [0, 1, 2, 3]


def test_a_reader_waits_for_a_slow_writer_that_lives(components, sessions):
    components.config = HDF5.replace('"60s"', '"2s"')
    model = components.start("model", sessions, "write", "a.h5", 2, 2500)
    components.await_running("model")
    analysis = components.finish(components.start("analysis", sessions, "read", "a.h5", 2, 0))
    assert list(got(analysis.out).values()) == [[0, 1]]
    assert "component 'model' runs and has not closed a session that was not read" in analysis.err, analysis.err
    components.finish(model)


def test_a_reader_is_told_of_a_classic_file_that_is_not_transferred(components):
    """It waits for a session, and finds the file when the writer has ended."""
    components.config = RULE.replace('"60s"', SOON)
    writes = """
        import time
        import netCDF4
        with netCDF4.Dataset("a.nc", "w", format="NETCDF3_CLASSIC") as file:
            file.createDimension("x", 3)
            file.createVariable("T", "f4", ("x",))[:] = [1, 2, 3]
        time.sleep(2)
    """
    reads = "import netCDF4; print(netCDF4.Dataset('a.nc')['T'][:].tolist())"
    model = components.start("model", sys.executable, "-c", textwrap.dedent(writes))
    components.await_running("model")
    while not (components.folder / "a.nc").exists():
        time.sleep(0.01)
    analysis = components.finish(components.start("analysis", sys.executable, "-c", reads))
    assert analysis.out.strip() == "[1.0, 2.0, 3.0]"
    assert "the file of this name on the disk is none: what netCDF-C or SciPy write" in analysis.err, analysis.err
    components.finish(model)


@pytest.mark.parametrize("policy", ["keep", "discard"])
def test_what_a_reader_does_not_take_is_kept_or_told(components, sessions, policy):
    components.config = HDF5.replace('"60s"', SOON) + f'when_late = "{policy}"\n'
    model = components.finish(components.start("model", sessions, "write", "a%d.h5", 2, 0), ok=False)
    late = "session 1: component 'analysis' did not come for it within 0.3 s"
    if policy == "discard":
        assert model.code == 4 and f"a0.h5: {late}; its values are discarded" in model.err, model.err
        assert [model.file(f"a{number}.h5")["outcome"] for number in range(2)] == ["discarded"] * 2
        assert model.result["exit_code"] == 4 and not list(components.folder.iterdir())
        return
    assert model.code == 0 and f"a1.h5: {late}; a file is made of it" in model.err, model.err
    told = model.file("a1.h5")
    assert told["outcome"] == "packed" and late in told["note"]
    with h5py.File(components.folder / "a1.h5") as file:
        assert file["x"][5] == 1005 and file["x"].shape == (1000,)
    # The writer is not there: what there is may be of an earlier run, until its time is over, once.
    begin = time.monotonic()
    analysis = components.finish(components.start("analysis", sessions, "read", "a%d.h5", 2, 0))
    assert list(got(analysis.out).values()) == [[0, 1]]
    assert time.monotonic() - begin < 20


def test_a_session_may_wait_for_its_reader_without_an_end(components, sessions):
    components.config = HDF5.replace('"60s"', SOON) + 'when_late = "wait"\n'
    model = components.start("model", sessions, "write", "a%d.h5", 2, 0)
    # Another component of that name ends without it, once the writer may have seen it.
    until_the_writer_runs = "until ls ../.knarr-transfer/model/running.*; do sleep 0.1; done >ls 2>&1; rm ls; sleep 2"
    components.finish(components.start("analysis", "sh", "-c", until_the_writer_runs))
    analysis = components.finish(components.start("analysis", sessions, "read", "a%d.h5", 2, 0))
    assert list(got(analysis.out).values()) == [[0, 1]]
    ran = components.finish(model)
    assert "component 'analysis' has ended without it; it waits for it" in ran.err, ran.err
    assert ran.file("a0.h5")["outcome"] == "transferred" and not list(components.folder.iterdir())


def test_a_reader_that_comes_late_finds_files_while_the_writer_goes_on(components, sessions):
    components.config = HDF5.replace('"60s"', SOON)
    writes = shlex.join(map(str, [sessions, "write", "a%d.h5", 2, 0]))
    more = shlex.join(map(str, [sessions, "write", "b%d.h5", 1, 0]))
    model = components.start("model", "sh", "-ec", f"{writes}; while [ ! -e go ]; do sleep 0.05; done; {more}")
    until(lambda: all((components.folder / f"a{number}.h5").exists() for number in range(2)))
    reads = shlex.join(map(str, [sessions, "read", "a%d.h5", 2, 0]))
    again = shlex.join(map(str, [sessions, "read", "b%d.h5", 1, 0]))
    analysis = components.finish(components.start("analysis", "sh", "-ec", f"{reads}; touch go; {again}"))
    assert list(got(analysis.out).values()) == [[0, 1], [0]]
    ran = components.finish(model)
    assert ran.file("a0.h5")["outcome"] == "packed" and ran.file("b0.h5")["outcome"] == "transferred"


def test_a_file_of_a_session_that_another_one_replaces_is_a_loss(components, sessions):
    """All have one name, and nobody reads them."""
    components.config = HDF5.replace('"60s"', SOON)
    model = components.finish(components.start("model", sessions, "write", "a.h5", 3, 0), ok=False)
    assert model.code == 4, model.err
    for number in (1, 2):
        said = f"session {number}: component 'analysis' has not opened the file that was made of it, and session"
        assert f"{said} {number + 1} has replaced it" in model.err, model.err
    with h5py.File(components.folder / "a.h5") as file:
        assert file["x"][0] == 2000


definitions = compiled(PROGRAMS / "definitions.c")


@pytest.mark.parametrize("reader_first", [True, False])
def test_a_reader_sees_the_definitions_of_the_session_that_it_reads(components, definitions, reader_first):
    """Those of its end, whenever the file was opened."""
    _, analysis = both(
        components,
        [*MPIRUN, 2, definitions, "write", "a.nc"],
        [*MPIRUN, 1, definitions, "read", "a.nc"],
        reader_first,
    )
    assert analysis.out == "complete data 2\n"


ranges = compiled(PROGRAMS / "ranges.c")


def test_values_that_a_type_cannot_hold_come_as_pnetcdf_gives_them(components, ranges, tmp_path):
    for way in ("write", "read"):
        plain = subprocess.run([ranges, way, "plain.nc"], cwd=tmp_path, check=True, capture_output=True, text=True)
    _, analysis = both(components, [*MPIRUN, 1, ranges, "write", "a.nc"], [*MPIRUN, 1, ranges, "read", "a.nc"])
    assert analysis.out == plain.stdout and "NC_ERANGE" in analysis.out


@pytest.mark.parametrize("what", ["kill", "exit"])
def test_a_session_that_is_not_closed_is_no_session(components, coupled, what):
    """Those that read it when it is closed do not get it, and the next one comes."""
    writes = [" ".join(map(str, command(coupled, "write", "a.nc", "2x1", 1, end))) for end in (what, "")]
    reads = [" ".join(map(str, command(coupled, "read", "a.nc", "1x2", 1, how))) for how in ("absent", "")]
    analysis = components.start("analysis", "sh", "-ec", "\n".join(reads))
    model = components.start("model", "sh", "-c", "\n".join(writes))
    read = components.finish(analysis)
    assert re.search("session 1 from component 'model': rank \\d of component 'model' has ended before", read.err), (
        read.err
    )
    wrote = components.finish(model, ok=False)
    assert wrote.code == 4, wrote.err
    assert "session 1: the program has ended before it had closed the file; its values are discarded" in wrote.err


def test_a_session_ends_with_the_last_program_that_has_it_open(components, coupled):
    """Programs of MPI, too, which know nothing of each other: memory is used again only then."""
    holds, reads = (shlex.join(map(str, command(coupled, "read", "a.nc", "1x2", 1, how))) for how in ("holds", ""))
    script = f"""
        {holds} & first=$!
        while [ ! -e opened ]; do sleep 0.02; done
        {reads}
        touch closed
        while [ ! -e again ]; do sleep 0.02; done
        touch go
        wait $first
    """
    components.config = RULE + 'when_late = "discard"\n'
    analysis = components.start("analysis", "sh", "-ec", script)
    writes = shlex.join(map(str, command(coupled, "write", "a.nc", "2x1", 1)))
    other = shlex.join(map(str, command(coupled, "write", "b.nc", "2x1", 1)))
    model = components.start(
        "model", "sh", "-ec", f"{writes}; while [ ! -e closed ]; do sleep 0.02; done; sleep 0.3; {other}; touch again"
    )
    components.finish(analysis)
    # Nobody reads the other file.
    assert components.finish(model, ok=False).file("a.nc")["outcome"] == "transferred"


ASKS = """
    import ctypes, h5py, time
    ask = ctypes.CDLL(None).knarr_session
    number, closed = ctypes.c_longlong(), ctypes.c_double()
    assert ask(b"a.h5", ctypes.byref(number), ctypes.byref(closed)) == 1 and ask(None, None, None) == 1
    for session in (1, 2):
        with h5py.File("a.h5") as file:
            assert ask(b"a.h5", ctypes.byref(number), ctypes.byref(closed)) == 0
            assert number.value == session and file["x"][0] == (session - 1) * 1000
            assert abs(time.time() - closed.value) < 100, closed
    # It has that one until it opens the next one.
    assert ask(b"../work/a.h5", ctypes.byref(number), None) == 0 and number.value == 2
    assert ask(b"b.h5", None, None) == 1
"""


def test_a_program_may_ask_which_session_it_has(components, sessions):
    components.config = HDF5
    model = components.start("model", sessions, "write", "a.h5", 2, 0)
    analysis = components.finish(components.start("analysis", sys.executable, "-c", textwrap.dedent(ASKS)))
    for ran in (analysis, components.finish(model)):
        reason = ran.file("a.h5")["reason"]
        assert re.search(r"2 times, last session 2, closed \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ(;|$)", reason), reason
    assert re.search(r"; waited \d+\.\d\d s for it, and read it in \d+\.\d\d s$", analysis.file("a.h5")["reason"])
    # Of the 1,000 numbers of each session it has read one.
    assert analysis.file("a.h5")["input_bytes"] == 2 * 4
