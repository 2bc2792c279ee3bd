"""Components of route `transfer` on several nodes each: a `knarr run` for each rank, and one launcher on each node.

Nodes are names here (KNARR_NODE): each has a launcher, a spool and an aggregator of its own, and those reach each other
by TCP only. Programs check every value that they read.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from running import MPIRUN, Ran, until
from test_pnetcdf import SHARED_MEMORY, compiled
from test_transfer import PROGRAMS, RULE, Components, command, coupled, made_components

pytestmark = pytest.mark.node

__all__ = ["coupled"]

SOON_S = 50
"""Somebody who is silent is gone after 5 s, and is asked twice."""


class Spread(Components):
    """Components whose ranks are on nodes with names of one letter."""

    def start_on(self, name: str, nodes: str, command: list, **env: str) -> subprocess.Popen[str]:
        """Starts a command of `mpirun`; rank r is on node `nodes[r]`."""
        config, pids, temporary = self.top / self.config_name, self.top / f"pids-{name}", self.top / f"tmp-{name}"
        if not config.exists() or config.read_text() != self.config:
            config.write_text(self.config)
        temporary.mkdir(exist_ok=True)
        # Seconds from SIGTERM to SIGKILL. Without it is 1: short for launchers on a busy machine.
        env.setdefault("OMPI_MCA_odls_base_sigkill_timeout", "4")
        mpirun, program = command[: len(MPIRUN) + 1], command[len(MPIRUN) + 1 :]
        assert int(mpirun[-1]) == len(nodes), "a node for each rank"
        begin = f"n=$(echo {','.join(nodes)} | cut -d, -f$((OMPI_COMM_WORLD_RANK + 1))); echo $n $$ >> {pids}; "
        each = ["sh", "-c", begin + 'KNARR_NODE=$n exec "$@"', "sh"]
        arguments = ["run", "-c", config, "--as", name, "--json", self.top / f"{name}.json", "--"]
        process = subprocess.Popen(
            [str(word) for word in [*mpirun, *each, self.program, *arguments, *program]],
            text=True,
            env={**self.environment, "TMPDIR": str(temporary), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
        )
        process.name = name
        return process

    def pids(self, name: str) -> list[tuple[str, int]]:
        """The nodes and numbers of the launchers of a component."""
        path = self.top / f"pids-{name}"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [(node, int(pid)) for node, pid in (line.split() for line in lines)]

    def spool_of(self, name: str, node: str) -> Path:
        """That of the launcher which serves a node, when it is there."""
        end = time.monotonic() + 240
        while time.monotonic() < end:
            for there, pid in self.pids(name):
                for spool in SHARED_MEMORY.glob(f"knarr-spool-{pid}-*"):
                    if there == node:
                        return spool
            time.sleep(0.02)
        raise AssertionError(f"no launcher on node {node}")

    def launcher_of(self, name: str, node: str) -> int:
        return int(self.spool_of(name, node).name.split("-")[2])

    def spools(self) -> list[Path]:
        names = [path.name.removeprefix("pids-") for path in self.top.glob("pids-*")]
        self.launchers += [pid for name in names for _, pid in self.pids(name) if pid not in self.launchers]
        return super().spools()

    def finish(self, process: subprocess.Popen[str], ok: bool = True) -> Ran:
        """What the first node says; those of all are in `results`."""
        ran = super().finish(process, ok)
        paths = sorted(self.top.glob(f"{process.name}*.json"))
        ran.results = {path.name: json.loads(path.read_text()) for path in paths}
        return ran


def is_launcher(components: Spread, pid: int) -> bool:
    try:
        return os.path.samefile(f"/proc/{pid}/exe", components.program)
    except FileNotFoundError:
        return False


@pytest.fixture
def components(knarr, tmp_path: Path) -> Iterator[Spread]:
    made: Spread
    for made in made_components(knarr, tmp_path, kind=Spread):
        yield made
        for path in tmp_path.glob("pids-*"):
            # A test that has failed may leave some.
            for _, pid in made.pids(path.name.removeprefix("pids-")):
                if is_launcher(made, pid):
                    os.kill(pid, signal.SIGCONT)
                    os.kill(pid, signal.SIGTERM)
    scratch = tmp_path / ".knarr"
    assert not scratch.exists(), f"stays behind: {list(scratch.iterdir())}"


def both_on(components: Spread, writers: str, writer: list, readers: str, reader: list) -> tuple[Ran, Ran]:
    model = components.start_on("model", writers, writer)
    analysis = components.start_on("analysis", readers, reader)
    return components.finish(model), components.finish(analysis)


def outcomes(ran: Ran, name: str) -> list[str]:
    """What the nodes say of a file."""
    files = [file for result in ran.results.values() for file in result["files"]]
    return sorted(file["outcome"] for file in files if Path(file["input"]).name == name)


WAYS = [
    ("mm", "ab"),
    ("mm", "abab"),
    ("ab", "mm"),
    ("aabb", "ccdd"),
    ("abab", "cdcd"),
    ("abc", "def"),
    ("ab", "ba"),
    ("ab", "bc"),
    ("abb", "aa"),
]


@pytest.mark.parametrize(("writers", "readers"), WAYS)
def test_rows_to_columns(components, coupled, writers, readers):
    sessions = 2
    model, analysis = both_on(
        components,
        writers,
        command(coupled, "write", "a.nc", f"{len(writers)}x1", sessions),
        readers,
        command(coupled, "read", "a.nc", f"1x{len(readers)}", sessions),
    )
    others = len(set(writers)) - 1
    assert outcomes(model, "a.nc") == ["gathered"] * others + ["transferred"], model.err
    assert outcomes(analysis, "a.nc") == ["transferred"] * len(set(readers)), analysis.err
    assert "2 times" in model.file("a.nc")["reason"] and not (components.folder / "a.nc").exists()


overlapping = compiled(PROGRAMS / "overlapping.c")


@pytest.mark.parametrize("more", ["", "replay = true\n", 'in_flight = "raw"\n'])
@pytest.mark.parametrize(("writers", "readers"), [("abba", "cd"), ("abc", "d"), ("ab", "ba")])
def test_of_puts_that_overlap_the_later_call_counts_and_then_the_higher_rank(
    components, overlapping, writers, readers, more
):
    components.config = RULE + more
    arguments = ["a.nc", 40, 12, len(writers), 3]
    both_on(
        components,
        writers,
        [*MPIRUN, len(writers), overlapping, "write", *arguments],
        readers,
        [*MPIRUN, len(readers), overlapping, "read", *arguments],
    )


@pytest.mark.parametrize("publish", ["sync", "wait"])
def test_records_that_grow_are_seen_before_the_file_is_closed(components, coupled, publish):
    components.config = RULE + f'publish = "{publish}"\n'
    both_on(
        components,
        "ab",
        command(coupled, "write", "a.nc", "2x1", 2, publish),
        "cd",
        command(coupled, "read", "a.nc", "1x2", 2, publish),
    )


@pytest.mark.parametrize("what", ["zero", "none", "strided", "fill", "many"])
def test_ranks_without_requests_strides_and_fill_values(components, coupled, what):
    both_on(
        components,
        "ab",
        command(coupled, "write", "a.nc", "2x1", 2, what),
        "ba",
        command(coupled, "read", "a.nc", "2x1" if what in ("zero", "none") else "1x2", 2, what),
    )


def test_readers_may_get_every_third_session(components, coupled):
    components.config = RULE + "every = 3\n"
    model, _ = both_on(
        components,
        "ab",
        command(coupled, "write", "a.nc", "2x1", 7, "third"),
        "cd",
        command(coupled, "read", "a.nc", "1x2", 2, "third"),
    )
    assert "2 times (5 more were skipped)" in model.file("a.nc")["reason"]


@pytest.mark.parametrize(("writers", "readers"), [("abab", "cdcd"), ("aabb", "ccdd")])
def test_the_members_of_an_ensemble_may_be_on_nodes_of_their_own(components, coupled, writers, readers):
    components.config = RULE.replace("*.nc", "{member}.nc")
    model, _ = both_on(
        components,
        writers,
        command(coupled, "write", "a.nc", "2x1", 3, "members", ranks=4),
        readers,
        command(coupled, "read", "a.nc", "1x2", 3, "members", ranks=4),
    )
    for name in ("0a.nc", "1a.nc"):
        assert outcomes(model, name) == (["transferred"] if writers == "abab" else ["gathered", "transferred"])


def test_each_of_two_components_gets_all_of_it(components, coupled):
    components.config = RULE.replace('["analysis"]', '["analysis", "plots"]')
    model = components.start_on("model", "ab", command(coupled, "write", "a.nc", "2x1", 2))
    readers = [
        components.start_on("analysis", "bc", command(coupled, "read", "a.nc", "1x2", 2)),
        components.start_on("plots", "d", command(coupled, "read", "a.nc", "1x1", 2, "late")),
    ]
    for process in (model, *readers):
        components.finish(process)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_file_that_is_kept_has_the_bytes_of_one_node(components, coupled, is_late):
    components.config = RULE.replace("60s", "1s") if is_late else RULE + "keep = true\n"
    made = {}
    for nodes in ("aaaa", "abba"):
        model = components.start_on("model", nodes, command(coupled, "write", "a.nc", "4x1"))
        if not is_late:
            reader = components.start_on("analysis", "cd", command(coupled, "read", "a.nc", "1x2"))
            components.finish(reader)
        ran = components.finish(model)
        assert outcomes(ran, "a.nc") == ["gathered"] * (len(set(nodes)) - 1) + ["packed"], ran.err
        made[nodes] = (components.folder / "a.nc").read_bytes()
        for old in components.top.glob("model*.json"):
            old.unlink()
        if not is_late:
            (components.folder / "a.nc").unlink()
    assert made["aaaa"] == made["abba"]
    if is_late:
        components.finish(components.start_on("analysis", "cd", command(coupled, "read", "a.nc", "1x2")))


def await_session(components: Spread) -> None:
    end = time.monotonic() + 240
    spool = components.spool_of("model", "a")
    while not list(spool.glob("*/published.nc")):
        assert time.monotonic() < end
        time.sleep(0.02)


def rid(components: Spread, process: subprocess.Popen[str], may_keep: bool = False) -> Ran:
    """Ends a job. mpirun kills its launchers some seconds after it has terminated them: what the program had closed may
    be kept then."""
    for _, pid in components.pids(process.name):
        if is_launcher(components, pid):
            os.kill(pid, signal.SIGCONT)
    process.terminate()
    ran = components.finish(process, ok=False)
    tidy(components, may_keep)
    return ran


def has_open(components: Spread, coupled: Path) -> tuple[subprocess.Popen[str], subprocess.Popen[str]]:
    """A writer that does not close its file, and a reader that has opened it and waits for values."""
    components.config = RULE.replace("60s", "6s") + 'publish = "sync"\n'
    model = components.start_on("model", "ab", command(coupled, "write", "a.nc", "2x1", 1, "hang"))
    await_session(components)
    analysis = components.start_on("analysis", "cd", command(coupled, "read", "a.nc", "1x2", 1, "fails"))
    until((components.folder / "opened").exists)
    time.sleep(0.5)
    return model, analysis


@pytest.mark.parametrize("node", ["a", "b"])
def test_a_node_of_the_writer_that_is_stopped_is_named(components, coupled, node):
    model, analysis = has_open(components, coupled)
    begin = time.monotonic()
    os.kill(components.launcher_of("model", node), signal.SIGSTOP)
    ran = components.finish(analysis)
    assert time.monotonic() - begin < SOON_S
    assert "variable 'field'" in ran.err and f"node '{node}' is gone: it has not answered for 5 s" in ran.err, ran.err
    rid(components, model)


@pytest.mark.parametrize("node", ["a", "b"])
def test_a_launcher_of_the_writer_that_is_killed_ends_its_job_and_the_wait(components, coupled, node):
    model, analysis = has_open(components, coupled)
    begin = time.monotonic()
    os.kill(components.launcher_of("model", node), signal.SIGKILL)
    ran = components.finish(analysis)
    assert time.monotonic() - begin < SOON_S
    assert "variable 'field'" in ran.err, ran.err
    assert f"node '{node}' is gone" in ran.err or "has ended before it had closed the file" in ran.err, ran.err
    assert components.finish(model, ok=False).code != 0
    tidy(components)


@pytest.mark.parametrize("node", ["a", "b"])
def test_a_node_of_the_writer_that_fails_after_the_close_is_named(components, coupled, node):
    components.config = RULE
    model = components.start_on("model", "ab", command(coupled, "write", "a.nc", "2x1"))
    await_session(components)
    until(lambda: all(list(components.spool_of("model", there).glob("*/handed-over.json")) for there in "ab"))
    os.kill(components.launcher_of("model", node), signal.SIGSTOP)
    begin = time.monotonic()
    # The other node ends when it has asked the first one twice, and mpirun wakes that one then.
    if node == "a":
        components.config = RULE.replace("60s", "2s")
    what = "absent" if node == "a" else "fails"
    analysis = components.start_on("analysis", "cd", command(coupled, "read", "a.nc", "1x2", 1, what))
    ran = components.finish(analysis)
    assert time.monotonic() - begin < SOON_S
    said = {
        "a": "has not been reached for 2 s (timeout): node 'a' has not said how it is reached",
        "b": "node 'b' is gone",
    }
    assert said[node] in ran.err, ran.err
    rid(components, model, may_keep=True)


@pytest.mark.parametrize("what", ["kill", "exit"])
def test_a_writer_that_does_not_close_the_file_is_noticed(components, coupled, what):
    model = components.start_on("model", "ab", command(coupled, "write", "a.nc", "2x1", 1, what))
    analysis = components.start_on("analysis", "cd", command(coupled, "read", "a.nc", "1x2", 1, "absent"))
    begin = time.monotonic()
    ran = components.finish(analysis)
    assert time.monotonic() - begin < SOON_S
    assert "of component 'model' has ended before it had closed the file" in ran.err, ran.err
    components.finish(model, ok=False)


@pytest.mark.parametrize("node", ["c", "d"])
def test_a_launcher_of_the_reader_that_is_killed_ends_its_job_and_the_wait(components, coupled, node):
    analysis = components.start_on("analysis", "cd", command(coupled, "read", "a.nc", "1x2", 1, "holds"))
    model = components.start_on("model", "ab", command(coupled, "write", "a.nc", "2x1"))
    await_session(components)
    until((components.folder / "opened").exists)
    begin = time.monotonic()
    os.kill(components.launcher_of("analysis", node), signal.SIGKILL)
    assert components.finish(analysis, ok=False).code != 0
    wrote = components.finish(model)
    assert time.monotonic() - begin < SOON_S
    assert "component 'analysis' has ended without it; a file is made of it" in wrote.err, wrote.err
    tidy(components)


def test_a_node_of_the_reader_that_is_stopped_is_named(components, coupled):
    """The other node sees the session."""
    components.config = RULE.replace("60s", "15s")
    analysis = components.start_on("analysis", "cd", command(coupled, "read", "a.nc", "1x2", 1, "absent"))
    first, stopped = (components.launcher_of("analysis", node) for node in "cd")
    time.sleep(1)
    os.kill(stopped, signal.SIGSTOP)
    begin = time.monotonic()
    model = components.start_on("model", "ab", command(coupled, "write", "a.nc", "2x1"))
    while Path(f"/proc/{first}/exe").exists():
        assert time.monotonic() - begin < 2 * SOON_S
        time.sleep(0.1)
    os.kill(stopped, signal.SIGCONT)
    read = components.finish(analysis)
    assert "node 'd' does not see session 1, which other nodes see" in read.err, read.err
    # Which of the two the model sees first is a matter of luck.
    said = r"component 'analysis' has (ended without it|not taken it, and its node 'd' has asked for nothing)"
    assert re.search(said, components.finish(model).err)


def test_a_reader_that_dies_is_noticed(components, coupled):
    model = components.start_on("model", "ab", command(coupled, "write", "a.nc", "2x1"))
    analysis = components.start_on("analysis", "cd", command(coupled, "read", "a.nc", "1x2", 1, "die"))
    read, wrote = components.finish(analysis, ok=False), components.finish(model)
    assert read.code != 0 and "component 'analysis' has ended without it; a file is made of it" in wrote.err


def test_two_runs_of_one_name_are_refused(components, coupled):
    waits = ["sh", "-c", "while ! test -e go; do sleep 0.05; done"]
    model = components.start_on("model", "ab", [*MPIRUN, 2, *waits])
    components.spool_of("model", "b")
    components.await_running("model")
    second = components.finish(components.start("model", "true"), ok=False)
    (components.folder / "go").touch()
    assert second.code == 125 and "a program runs as component 'model' already" in second.err
    components.finish(model)


def is_held(spool: Path) -> bool:
    """A launcher delivers from it."""
    try:
        with (spool / "launcher").open() as held:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def await_launchers(components: Spread) -> None:
    """mpirun does not wait for launchers that it kills, and the system ends them when their disk has answered."""

    def all_spools() -> list[Path]:
        return [*components.spools(), *(components.top / ".knarr").glob("knarr-spool-*")]

    until(lambda: not any(map(is_held, all_spools())), "launchers go on")


def tidy(components: Spread, may_keep: bool = False) -> None:
    """What launchers that were killed leave goes with the next run, or is named there and can be made."""
    await_launchers(components)
    for rest in components.top.glob("*/knarr-run-*"):
        shutil.rmtree(rest)
    kept: set[str] = set()
    for name in ("model", "analysis"):
        ran = components.finish(components.start(name, "true"))
        kept.update(re.findall(r"'knarr run --recover (\S+)' finishes", ran.err))
        assert may_keep or not kept, ran.err
    recover = [components.program, "run", "--recover"]
    together = components.top / "together"
    for spool in map(Path, filter(os.path.exists, sorted(kept))):
        made = subprocess.run(
            [*recover, spool], env=components.environment, capture_output=True, text=True, check=False
        )
        if made.returncode != 0:
            # A launcher that is terminated moves its part to the disk. Users are told to bring the parts together.
            assert "is not here" in made.stderr and "copy the spools of all nodes into one directory" in made.stderr
            shutil.copytree(spool, together / spool.name, symlinks=True)
            shutil.rmtree(spool)
    if together.exists():
        made = subprocess.run(
            [*recover, together], env=components.environment, capture_output=True, text=True, check=False
        )
        assert made.returncode == 0, made.stderr
