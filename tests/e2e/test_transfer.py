"""Two programs that are coupled by netCDF files under `knarr run`: values go through memory."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import netCDF4
import pytest

from running import MPIRUN, Ran, until, wait_for_the_end_of
from test_capi import free_memory
from test_pnetcdf import SHARED_MEMORY, compiled

PROGRAMS = Path(__file__).with_name("transfer_programs")
BENCH = Path(__file__).resolve().parents[2] / "bench" / "io"
TIME_LIMIT_S = 300
RULE = """
[[file]]
pattern = "*.nc"
route = "transfer"
from = "model"
to = ["analysis"]
timeout = "60s"
"""
ROWS, COLUMNS, STEPS = 24, 36, 2


coupled = compiled(PROGRAMS / "coupled.c")


class Components:
    """Programs under `knarr run --as NAME`, in one folder and with one configuration."""

    def __init__(self, program: Path, environment: dict[str, str], folder: Path):
        self.program, self.environment, self.top = program, environment, folder
        self.folder = folder / "work"
        self.folder.mkdir()
        self.config, self.config_name = RULE, "knarr.toml"
        self.launchers: list[int] = []
        # Each component is on a node of its own: nodes are names, and nothing but TCP leads from one to the other.
        self.are_apart = False
        # What starts the launcher of a component.
        self.within = lambda name: []

    def start(self, name: str | None, *command: object, options: tuple = ()) -> subprocess.Popen[str]:
        config = self.top / self.config_name
        # Another component may be reading it.
        if not config.exists() or config.read_text() != self.config:
            config.write_text(self.config)
        who = ["--as", name] if name else []
        arguments = ["run", "-c", config, *who, "--json", self.top / f"{name}.json", *options, "--"]
        # Two mpirun that start at once may fail to make the same directory there.
        temporary = self.top / f"tmp-{name}"
        temporary.mkdir(exist_ok=True)
        node = {"KNARR_NODE": f"node-{name}"} if self.are_apart else {}
        process = subprocess.Popen(
            [str(word) for word in [*self.within(name), self.program, *arguments, *command]],
            text=True,
            env={**self.environment, **node, "TMPDIR": str(temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
        )
        process.name = name
        self.launchers.append(process.pid)
        return process

    def await_running(self, name: str) -> None:
        """Others see that it runs: on a busy machine that may take longer than they wait for it."""
        end = time.monotonic() + TIME_LIMIT_S
        while not list(self.top.glob(f".knarr-transfer/{name}/running.*")):
            assert time.monotonic() < end, name
            time.sleep(0.01)

    def spools(self) -> list[Path]:
        """Those of these launchers: other tests may run on this machine."""
        return [path for pid in self.launchers for path in SHARED_MEMORY.glob(f"knarr-spool-{pid}-*")]

    def finish(self, process: subprocess.Popen[str], ok: bool = True) -> Ran:
        out, err = process.communicate(timeout=TIME_LIMIT_S)
        assert "panicked" not in err, err
        assert not ok or process.returncode == 0, f"{process.name}: exit {process.returncode}\n{out}\n{err}"
        result = self.top / f"{process.name}.json"
        return Ran(process.returncode, out, err, json.loads(result.read_text()) if result.exists() else {})


@pytest.fixture(params=["one node", "two nodes"])
def components(knarr, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Components]:
    yield from made_components(knarr, tmp_path, request.param)


def made_components(knarr, tmp_path: Path, nodes: str = "one node", kind: type = Components) -> Iterator[Components]:
    """Programs in a folder of their own. When they have ended nothing of them stays behind."""
    made = kind(knarr.program, knarr.environment, tmp_path)
    made.are_apart = nodes == "two nodes"
    yield made
    left = {spool: sorted(str(path) for path in spool.rglob("*")) for spool in made.spools()}
    for spool in left:
        shutil.rmtree(spool)
    assert not left, f"shared memory stays behind: {left}"
    assert not (tmp_path / ".knarr-transfer").exists(), "the directory in which components meet stays behind"
    assert not list(tmp_path.glob("*/knarr-run-*")), "the directory of a run stays behind"


def command(program: Path, way: str, file: str, grid: str, sessions: int = 1, what: str = "", **size: int) -> list:
    """`ranks` are as many as the grid has if nothing else is said."""
    down, across = map(int, grid.split("x"))
    shape = [size.get("rows", ROWS), size.get("columns", COLUMNS)]
    return [*MPIRUN, size.get("ranks", down * across), program, way, file, *shape, grid, STEPS, sessions, what]


def both(components: Components, writer: list, reader: list, reader_first: bool = False) -> tuple[Ran, Ran]:
    sides = [("model", writer), ("analysis", reader)]
    started = {name: components.start(name, *program) for name, program in (sides[::-1] if reader_first else sides)}
    return components.finish(started["model"]), components.finish(started["analysis"])


@pytest.mark.parametrize(
    ("writers", "readers"),
    [("2x1", "2x1"), ("2x1", "1x2"), ("2x2", "1x1"), ("2x2", "1x3"), ("1x3", "2x2"), ("1x1", "2x1"), ("3x1", "1x1")],
)
def test_blocks_to_blocks(components, coupled, writers, readers):
    """Every value is checked by the reader, whichever way the two sides cut the array."""
    model, analysis = both(
        components, command(coupled, "write", "a.nc", writers), command(coupled, "read", "a.nc", readers)
    )
    assert model.file("a.nc")["outcome"] == "transferred" and "to analysis, once" in model.file("a.nc")["reason"]
    assert analysis.file("a.nc")["outcome"] == "transferred" and "from model" in analysis.file("a.nc")["reason"]
    assert not (components.folder / "a.nc").exists()


@pytest.mark.parametrize("first", ["model", "analysis", "model alone"])
def test_the_sides_may_start_in_any_order(components, coupled, first):
    writer, reader = command(coupled, "write", "a.nc", "2x1", 3), command(coupled, "read", "a.nc", "1x2", 3)
    sides = {"model": writer, "analysis": reader}
    order = ["analysis", "model"] if first == "analysis" else ["model", "analysis"]
    started = [components.start(order[0], *sides[order[0]])]
    # Long enough for the model to have written all of it.
    time.sleep(3 if first == "model alone" else 0.3)
    started.append(components.start(order[1], *sides[order[1]]))
    for process in started:
        assert "3 times" in components.finish(process).file("a.nc")["reason"]


@pytest.mark.parametrize("what", ["zero", "none", "strided", "fill"])
def test_ranks_without_requests_strides_and_fill_values(components, coupled, what):
    # A rank that puts nothing leaves a part that its fellow in the other program does not read.
    both(
        components,
        command(coupled, "write", "a.nc", "2x1", 2, what),
        command(coupled, "read", "a.nc", "2x1" if what in ("zero", "none") else "1x2", 2, what),
        reader_first=True,
    )


def test_many_small_requests(components, coupled):
    """16,000 of 64 bytes on each rank that writes, 32,000 on each that reads."""
    size = {"rows": 32000, "columns": 8}
    both(
        components,
        command(coupled, "write", "a.nc", "2x1", 1, "many", **size),
        command(coupled, "read", "a.nc", "1x2", 1, "many", **size),
    )


segments = compiled(BENCH / "segments.c")


@pytest.mark.parametrize(("variables", "cut"), [(50, "varn"), (50, "rows"), (1, "varn"), (1, "rows")])
def test_segments_that_do_not_adjoin(components, segments, variables, cut):
    """80,000 of four values on each of three ranks, dealt out in turn, are read as segments of six or as blocks."""
    arguments = ["a.nc", variables, 80_000, cut, 2, 0, 3]
    both(components, [*MPIRUN, 3, segments, "write", *arguments], [*MPIRUN, 2, segments, "read", *arguments])


large = compiled(PROGRAMS / "large.c")


def one_variable(components: Components, large: Path, size: int, *strides: int) -> None:
    arguments = ["a.nc", size, 12, *strides]
    both(components, [*MPIRUN, 1, large, "write", *arguments], [*MPIRUN, 1, large, "read", *arguments])


def test_a_get_with_strides_takes_the_memory_of_what_it_gets(components, large):
    """Of 256 MiB, however far the elements are apart."""
    one_variable(components, large, 256 << 20, 5000, 1000, 3)


@pytest.mark.skipif(free_memory() < 9 << 30, reason="takes 9 GiB of free memory")
def test_one_request_may_have_more_than_2_gib(components, large):
    one_variable(components, large, (2 << 30) + 12345, 1000, 1)


@pytest.mark.parametrize("cut", ["varn", "rows"])
def test_equal_sessions_are_replayed(components, segments, cut):
    components.config = RULE + "replay = true\n"
    arguments = ["a.nc", 20, 20_000, cut, 4, 0, 2]
    both(components, [*MPIRUN, 2, segments, "write", *arguments], [*MPIRUN, 3, segments, "read", *arguments])


@pytest.mark.parametrize("what", ["", "strided", "fill", "many"])
def test_sessions_that_differ_are_no_replay(components, coupled, what):
    """Each has one record more."""
    components.config = RULE + "replay = true\n"
    both(
        components,
        command(coupled, "write", "a.nc", "2x1", 4, what),
        command(coupled, "read", "a.nc", "1x2", 4, what),
    )


def test_readers_may_get_every_third_session(components, coupled):
    components.config = RULE + "every = 3\n"
    model, analysis = both(
        components,
        command(coupled, "write", "a.nc", "2x1", 7, "third"),
        command(coupled, "read", "a.nc", "1x2", 2, "third"),
    )
    told = model.file("a.nc")
    assert told["outcome"] == "transferred" and "2 times (5 more were skipped)" in told["reason"], told
    assert "from model, 2 times" in analysis.file("a.nc")["reason"]


def test_sessions_that_nobody_reads_wait_for_nobody(components, coupled):
    """Without a reader, and before the program has ended: their values have left the spool."""
    components.config = RULE + "every = 100\n"
    writes = shlex.join(map(str, command(coupled, "write", "a.nc", "2x1", 4, "third")))
    model = components.start("model", "sh", "-ec", f"{writes}; touch written; while ! test -e go; do sleep 0.05; done")
    until((components.folder / "written").exists)
    (spool,) = components.spools()
    others = ("free", "images", "packed")
    until(lambda: not [path for path in spool.iterdir() if path.is_dir() and path.name not in others], "values stay")
    (components.folder / "go").touch()
    told = components.finish(model).file("a.nc")
    assert told["outcome"] == "transferred" and "4 more were skipped" in told["reason"], told


@pytest.mark.parametrize("publish", ["sync", "wait"])
def test_values_may_be_seen_before_the_file_is_closed(components, coupled, publish):
    components.config = RULE + f'publish = "{publish}"\n'
    both(
        components,
        command(coupled, "write", "a.nc", "2x1", 2, publish),
        command(coupled, "read", "a.nc", "1x2", 2, publish),
    )


def test_every_function_that_reads(components, every_call):
    program = [*MPIRUN, 2, every_call, "a.nc"]
    both(components, [*program, "write"], [*program, "read"])


def test_names_that_look_alike_are_different_files(components, coupled):
    names = ["a b.nc", "A b.nc", "b.nc", "a b.nc.nc"]
    (components.folder / "below").mkdir()

    def all_of(way: str, grid: str, names: list[str]) -> list[str]:
        lines = []
        for name in names:
            words = command(coupled, way, name, grid, rows=ROWS + len(name), columns=COLUMNS + ord(name[0]))
            lines.append(" ".join(f"'{word}'" for word in words))
        return ["sh", "-ec", "\n".join(lines)]

    both(components, all_of("write", "2x1", names), all_of("read", "1x2", [*names[2:], *names[:2]]))


def test_several_readers_get_all_of_it(components, coupled):
    components.config = RULE.replace('["analysis"]', '["analysis", "plots"]')
    model = components.start("model", *command(coupled, "write", "a.nc", "2x1", 2))
    readers = [
        components.start(name, *command(coupled, "read", "a.nc", grid, 2, what))
        for name, grid, what in (("analysis", "1x2", ""), ("plots", "1x1", "late"))
    ]
    for process in (model, *readers):
        components.finish(process)


@pytest.mark.parametrize("keep", ["true", "false"])
def test_a_file_is_kept(components, coupled, keep):
    components.config = RULE + f"keep = {keep}\n"
    model, _ = both(components, command(coupled, "write", "a.nc", "2x1"), command(coupled, "read", "a.nc", "1x2"))
    kept = components.folder / "a.nc"
    assert kept.exists() == (keep == "true")
    if kept.exists():
        assert model.file("a.nc")["outcome"] == "packed"
        with netCDF4.Dataset(kept) as file:
            assert file.data_model == "NETCDF4" and file["field"][1, 2] == 4096 + 2
            assert file["series"].shape == (STEPS, ROWS, COLUMNS)


@pytest.mark.parametrize("keep", ["", "keep = true\n"])
def test_a_session_does_not_come_again_as_a_file(components, coupled, keep):
    """A program that reads until nothing comes ends, and none takes old values for new ones."""
    components.config = RULE + keep
    read = (
        "import netCDF4\n"
        "for _ in range(3):\n"
        "    try:\n        netCDF4.Dataset('a.nc').close()\n        print('opened')\n"
        "    except FileNotFoundError:\n        print('none')\n"
    )
    _, analysis = both(components, command(coupled, "write", "a.nc", "2x1"), [sys.executable, "-c", read])
    assert analysis.out.split() == ["opened", "none", "none"], analysis.err
    assert (components.folder / "a.nc").exists() == bool(keep)


def test_a_reader_that_does_not_come_finds_a_file(components, coupled):
    components.config = RULE.replace("60s", "1s")
    model = components.finish(components.start("model", *command(coupled, "write", "a.nc", "2x1")))
    assert model.file("a.nc")["outcome"] == "packed"
    assert "component 'analysis' did not come for it within 1 s; a file is made of it" in model.err
    analysis = components.finish(components.start("analysis", *command(coupled, "read", "a.nc", "1x2")))
    said = "component 'model' was not started within 1 s (timeout); the file on the disk is read"
    assert said in analysis.err, analysis.err


def test_a_file_of_a_late_session_is_for_all_processes(components, coupled):
    """Its writer lives yet, and ends before the second one opens it."""
    components.config = RULE.replace("60s", "1s")
    write = " ".join(map(str, command(coupled, "write", "a.nc", "2x1")))
    model = components.start("model", "sh", "-c", f"{write}; sleep 4")
    until((components.folder / "a.nc").exists)
    read = f"{sys.executable} -c \"import netCDF4; print(netCDF4.Dataset('a.nc').session)\""
    analysis = components.finish(components.start("analysis", "sh", "-c", f"{read}; {read}"))
    assert analysis.out.split() == ["0", "0"], (analysis.out, analysis.err)
    components.finish(model)


def test_without_a_reader_values_are_discarded_if_the_rule_says_so(components, coupled):
    components.config = RULE.replace("60s", "1s") + 'when_late = "discard"\n'
    model = components.finish(components.start("model", *command(coupled, "write", "a.nc", "2x1", 2)), ok=False)
    assert model.code == 4 and model.file("a.nc")["outcome"] == "discarded"
    for session in (1, 2):
        said = f"session {session}: component 'analysis' did not come for it within 1 s; its values are discarded"
        assert said in model.err, model.err
    assert not (components.folder / "a.nc").exists()


def fails(components: Components, writer: list, reader: list, limit_s: float) -> tuple[Ran, Ran, float]:
    """Both sides run, and the reader ends within a time. Exit codes are theirs."""
    analysis = components.start("analysis", *reader)
    components.await_running("analysis")
    model = components.start("model", *writer)
    begin = time.monotonic()
    read = components.finish(analysis, ok=False)
    seconds = time.monotonic() - begin
    assert seconds < limit_s, read.err
    return components.finish(model, ok=False), read, seconds


@pytest.mark.parametrize("what", ["kill", "exit"])
def test_a_writer_that_does_not_close_the_file_is_noticed(components, coupled, what):
    components.config = RULE + 'publish = "sync"\n'
    model, analysis, _ = fails(
        components,
        command(coupled, "write", "a.nc", "2x1", 1, what),
        command(coupled, "read", "a.nc", "1x2", 1, "fails"),
        50,
    )
    assert analysis.code == 0, analysis.err
    assert "of component 'model' has ended before it had closed the file" in analysis.err
    assert "variable 'field', from element [0, 0]" in analysis.err and "session 1" in analysis.err
    assert analysis.file("a.nc")["outcome"] == "missed"
    assert model.code == 4 or (what == "kill" and model.code != 0)
    assert "the program has ended before it had closed the file" in model.err


def test_what_nobody_wrote_is_named(components, coupled):
    _, analysis, _ = fails(
        components,
        command(coupled, "write", "a.nc", "2x1", 1, "partly"),
        command(coupled, "read", "a.nc", "2x1", 1, "fails"),
        50,
    )
    assert analysis.code == 0, analysis.err
    assert f"variable 'field': element [{ROWS - 1}, 0] was never put" in analysis.err


def test_a_component_that_ends_without_the_file_is_noticed(components, coupled):
    writes = ["sh", "-c", "while ! test -e starts; do sleep 0.05; done; sleep 3"]
    reads = shlex.join(map(str, command(coupled, "read", "a.nc", "1x2", 1, "absent")))
    _, analysis, _ = fails(components, writes, ["sh", "-c", f"touch starts; exec {reads}"], 50)
    assert analysis.code == 0, analysis.err
    assert "component 'model' has ended, and there is no session of the file that was not read" in analysis.err


def test_waiting_for_a_component_that_is_not_started_ends(components, coupled):
    components.config = RULE.replace("60s", "1s")
    analysis = components.start("analysis", *command(coupled, "read", "a.nc", "1x2", 1, "absent"))
    ran = components.finish(analysis)
    assert "component 'model' was not started within 1 s (timeout)" in ran.err, ran.err


def test_a_get_waits_as_long_as_the_writer_lives(components, coupled):
    """And the launcher says what for."""
    components.config = RULE.replace("60s", "3s") + 'publish = "sync"\n'
    model = components.start("model", *command(coupled, "write", "a.nc", "2x1", 1, "hang"))
    components.await_running("model")
    analysis = components.start("analysis", *command(coupled, "read", "a.nc", "1x2", 1, "fails"))
    until((components.folder / "opened").exists)
    time.sleep(5)
    assert analysis.poll() is None
    model.send_signal(signal.SIGTERM)
    ran = components.finish(analysis)
    said = r"waited \d+ s: component 'model' runs and has not closed the file: variable 'field'"
    assert re.search(said, ran.err), ran.err
    assert "of component 'model' has ended before it had closed the file" in ran.err, ran.err
    components.finish(model, ok=False)


def test_the_members_of_an_ensemble_are_files_of_one_rule(components, coupled):
    """Two of each program at once, whose files have names that contain each other."""
    components.config = RULE.replace("*.nc", "{member}.nc")

    def members(way: str, grid: str) -> list[str]:
        one = [shlex.join(map(str, command(coupled, way, name, grid))) for name in ("a.nc", "a a.nc")]
        # Two mpirun that start at the same moment may both make a directory, and one fails.
        return ["sh", "-c", f"{one[0]} & first=$!; sleep 0.5; {one[1]} && wait $first"]

    model, _ = both(components, members("write", "2x1"), members("read", "1x2"))
    assert {model.file(name)["outcome"] for name in ("a.nc", "a a.nc")} == {"transferred"}


def test_a_reader_that_dies_is_noticed(components, coupled):
    model, analysis, _ = fails(
        components,
        command(coupled, "write", "a.nc", "2x1"),
        command(coupled, "read", "a.nc", "1x2", 1, "die"),
        50,
    )
    assert model.code == 0 and analysis.code != 0
    assert "component 'analysis' has ended without it; a file is made of it" in model.err
    assert model.file("a.nc")["outcome"] == "packed"


def test_a_reader_may_leave_the_file_unread(components, coupled):
    model, _ = both(
        components, command(coupled, "write", "a.nc", "2x1"), command(coupled, "read", "a.nc", "1x2", 1, "unread")
    )
    assert model.file("a.nc")["outcome"] == "transferred"


def test_two_runs_of_one_name_are_refused(components, coupled):
    model = components.start("model", "sh", "-c", "while ! test -e go; do sleep 0.05; done")
    components.await_running("model")
    second = components.finish(components.start("model", "true"), ok=False)
    (components.folder / "go").touch()
    assert second.code == 125 and "a program runs as component 'model' already" in second.err
    components.finish(model)


@pytest.mark.parametrize(
    ("name", "config", "words"),
    [
        ("modle", RULE, "the components are analysis, model"),
        (None, RULE, "add --as NAME; the components are analysis, model"),
        ("model", '[[file]]\npattern = "*"\n', "no rule has route"),
        ("model", RULE.replace('from = "model"', ""), "needs the component that writes"),
        ("model", RULE.replace('["analysis"]', '["model"]'), "is there twice"),
        ("model", RULE.replace('["analysis"]', '["a/b"]'), "no name of a component"),
        ("model", RULE + 'goal = "ratio"\nwhen_late = "discard"\n', "no file is kept"),
        ("model", RULE + "keep = 3\n", "for route"),
        ("model", RULE + 'keep = "never"\n', "line 8"),
        ("model", RULE + "every = 0\n", "line 8"),
        ("model", RULE + 'every = "often"\n', "line 8"),
    ],
)
def test_names_and_keys_that_make_no_sense_are_refused_at_the_start(components, name, config, words):
    components.config = config
    ran = components.finish(components.start(name, "touch", "began"), ok=False)
    assert ran.code == 125 and words in ran.err, ran.err
    assert not (components.folder / "began").exists()


def test_the_first_rule_that_matches_counts(components, coupled):
    other = RULE.replace("*.nc", "a*").replace('["analysis"]', '["plots"]')
    components.config = RULE.replace("*.nc", "a.nc") + other
    both(components, command(coupled, "write", "a.nc", "2x1"), command(coupled, "read", "a.nc", "1x2"))


def test_a_reader_without_its_launcher_is_given_no_later_session(components, coupled):
    """What it was to read is discarded when the launcher is gone, and the program asks for it two seconds later."""
    # The model, which may not have seen it, waits for it so long.
    components.config = RULE.replace("60s", "20s") + 'when_late = "discard"\n'
    reader = components.start("analysis", *command(coupled, "read", "a.nc", "1x2", 2, "late"))
    time.sleep(0.7)
    model = components.start("model", *command(coupled, "write", "a.nc", "2x1", 2))
    os.kill(reader.pid, signal.SIGKILL)
    _, err = reader.communicate(timeout=TIME_LIMIT_S)
    wait_for_the_end_of(coupled)
    assert "Specified netCDF file does not exist" in err and "another session" not in err, err
    assert components.finish(model, ok=False).code == 4
    components.finish(components.start("analysis", "true"))
    for rest in components.top.glob("*/knarr-run-*"):
        shutil.rmtree(rest)


def test_what_a_killed_launcher_leaves_goes_with_the_next_run(components, coupled):
    """Its program goes on."""
    components.config = RULE + 'when_late = "discard"\n'
    model = components.start("model", *command(coupled, "write", "a.nc", "2x1"))
    until(lambda: any(list(spool.glob("*/handed-over.json")) for spool in components.spools()))
    os.kill(model.pid, signal.SIGKILL)
    model.wait()
    wait_for_the_end_of(coupled)
    assert len(components.spools()) == 1
    again = components.finish(components.start("model", "true"))
    assert "not delivered" not in again.err
    for rest in components.top.glob("*/knarr-run-*"):
        shutil.rmtree(rest)


def test_what_a_writer_without_its_launcher_writes_is_not_taken_for_a_session(components, coupled):
    """The program goes on, and writes the file itself: what is there may be half of it."""
    folder = components.folder
    writes = command(coupled, "write", "a.nc", "2x1", 1, "hang")
    after = "while ! test -e go; do sleep 0.02; done; echo $$ > writer; exec "
    model = components.start("model", "sh", "-c", after + shlex.join(map(str, writes)))
    before = "touch waits; while ! test -e a.nc; do sleep 0.02; done; exec "
    reads = shlex.join(map(str, command(coupled, "read", "a.nc", "1x2", 1, "absent")))
    analysis = components.start("analysis", "sh", "-c", before + reads)
    components.await_running("model")
    until((folder / "waits").exists)
    time.sleep(1)
    os.kill(model.pid, signal.SIGKILL)
    model.wait()
    (folder / "go").touch()
    read = components.finish(analysis, ok=False)
    os.kill(int((folder / "writer").read_text()), signal.SIGTERM)
    wait_for_the_end_of(coupled)
    assert read.code == 0, read.err
    assert "the 'knarr run' of component 'model' was killed" in read.err, read.err
    both(components, command(coupled, "write", "a.nc", "2x1"), command(coupled, "read", "a.nc", "1x2"))
    for rest in components.top.glob("*/knarr-run-*"):
        shutil.rmtree(rest)
