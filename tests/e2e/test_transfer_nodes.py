"""Components on nodes that share the rendezvous directory and nothing else.

What `test_transfer` checks with two nodes by name is not repeated. Nodes have networks of their own here, and memory of
their own at `/dev/shm`.
"""

from __future__ import annotations

import ctypes.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from running import c_program, until
from test_nodes import networks
from test_transfer import PROGRAMS, RULE, STEPS, Components, command, coupled, made_components

pytestmark = pytest.mark.node

__all__ = ["coupled", "networks"]

LINKS = {"tcp": None, "ucx": "ucp"}
"""What values go over, and the library that it needs."""
SOON_S = 50
"""Somebody who is silent is gone after 5 s, and is asked twice."""


@pytest.fixture
def components(knarr, tmp_path: Path) -> Iterator[Components]:
    yield from made_components(knarr, tmp_path, "two nodes")


@pytest.fixture(params=LINKS)
def link(components: Components, request: pytest.FixtureRequest) -> str:
    """The one that is asked for. It is set before a component is started."""
    library = LINKS[request.param]
    if library is not None and ctypes.util.find_library(library) is None:
        pytest.skip(f"there is no lib{library}: run 'make setup' as root")
    components.environment = {**components.environment, "KNARR_LINK": request.param}
    return request.param


def address(components: Components) -> Path:
    """Where the writer says how it is reached, when it does: somebody on another node wants to know it."""

    def found() -> list[Path]:
        model = components.top / ".knarr-transfer" / "model"
        return [path for path in model.glob("address.*") if path.suffix != ".new"]

    if not found():
        asks = components.start("analysis", "sleep", "60")
        until(found)
        asks.terminate()
        components.finish(asks, ok=False)
    return found()[0]


def await_session(components: Components) -> None:
    until(lambda: any(list(spool.glob("*/published.nc")) for spool in components.spools()))


@pytest.fixture
def apart(components: Components, networks: dict[str, str]) -> Components:
    """The model is on node a, the analysis on node b."""
    script = components.top / "node.sh"
    script.write_text(
        'mount -t tmpfs none /dev/shm || exit 1\nname=$1; shift\n"$@" &\ntrap "kill $!" TERM\nwait $!; code=$?\nwait\n'
        f"ls -A /dev/shm > {components.top}/left-$name\nexit $code\n"
    )

    def within(name: str) -> list:
        network = networks["a" if name == "model" else "b"]
        return ["ip", "netns", "exec", network, "unshare", "--mount", "sh", script, name]

    components.within = within
    # Processes of one machine share more than nodes do.
    components.environment = {**components.environment, "UCX_TLS": "tcp"}
    return components


@pytest.mark.parametrize("way", ["auto", "raw"])
@pytest.mark.parametrize("what", ["", "strided"])
def test_nodes_that_share_no_memory(apart, coupled, what, way):
    apart.config = RULE + f'in_flight = "{way}"\n'
    size = {"rows": 300, "columns": 500}
    model = apart.start("model", *command(coupled, "write", "a.nc", "2x1", 2, what, **size))
    analysis = apart.start("analysis", *command(coupled, "read", "a.nc", "1x2", 2, what, **size))
    assert "2 times" in apart.finish(model).file("a.nc")["reason"]
    assert "2 times" in apart.finish(analysis).file("a.nc")["reason"]
    for name in ("model", "analysis"):
        assert (apart.top / f"left-{name}").read_text().split() == [], "shared memory stays behind"


@pytest.mark.parametrize("way", ["shared", "apart"])
def test_values_go_over_what_was_asked_for(components, coupled, link, way, request):
    if way == "apart":
        request.getfixturevalue("apart")
    components.config = RULE + 'in_flight = "raw"\n'
    rows, columns, sessions = 300, 500, 2
    model = components.start("model", *command(coupled, "write", "a.nc", "2x1", sessions, rows=rows, columns=columns))
    reader = command(coupled, "read", "a.nc", "1x2", sessions, rows=rows, columns=columns)
    components.finish(components.start("analysis", *reader))
    sent = components.finish(model).result["sent_to_nodes"]
    assert list(sent) == [link] and sent[link] > sessions * STEPS * rows * columns * 4, sent


def test_a_side_without_the_link_gets_values_by_tcp(components, coupled, link):
    """Only the writer has it."""
    model = components.start("model", *command(coupled, "write", "a.nc", "2x1", 1))
    components.environment = {**components.environment, "KNARR_LINK": "tcp"}
    components.finish(components.start("analysis", *command(coupled, "read", "a.nc", "1x2", 1)))
    assert list(components.finish(model).result["sent_to_nodes"]) == ["tcp"]


WRITES = """
import h5py, numpy as np
with h5py.File("a.h5", "w") as file:
    file["values"] = np.arange(2_000_000.0)
"""

FORKS = """
import h5py, numpy as np, os
with h5py.File("a.h5", "r") as file:
    values = file["values"]
    assert (values[:1000] == np.arange(1000.0)).all()
    child = os.fork()
    if child == 0:
        os._exit(0 if (values[1_000_000:] == np.arange(1_000_000.0, 2_000_000.0)).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (values[...] == np.arange(2_000_000.0)).all()
"""


def test_a_process_that_was_forked_reads_too(components, link):
    components.config = RULE.replace("*.nc", "*.h5")
    model = components.start("model", sys.executable, "-c", WRITES)
    components.finish(components.start("analysis", sys.executable, "-c", FORKS))
    sent = components.finish(model).result["sent_to_nodes"]
    # UCX does not survive a fork.
    assert list(sent) == (["tcp"] if link == "tcp" else ["tcp", link]), sent


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return c_program(tmp_path_factory.mktemp("forks"), (PROGRAMS / "forks.c").read_text())


def test_processes_that_were_forked_get_the_answers_to_their_own_questions(components, forks, link):
    components.config = RULE.replace("*.nc", "*.h5")
    model = components.start("model", forks, "write", "a.h5", 0, 0)
    components.finish(components.start("analysis", forks, "read", "a.h5", 4, 400))
    components.finish(model)


def test_doctor_says_what_nodes_use(knarr, link):
    found = type(knarr)(KNARR_LINK=link).json("doctor")["nodes"]
    assert (found["used"], found["refused"]) == ([] if link == "tcp" else [link], None), found


def test_a_link_that_there_is_not(components, coupled):
    components.environment = {**components.environment, "KNARR_LINK": "pigeon"}
    ran = components.finish(components.start("model", *command(coupled, "write", "a.nc", "2x1", 1)), ok=False)
    assert "KNARR_LINK is 'pigeon', which is no link; hint: it may be tcp or ucx" in ran.err, ran.err
    assert "the program was not started" in ran.err


def test_a_network_that_is_cut_is_noticed(apart, coupled, link, networks):
    apart.config = RULE.replace("60s", "6s") + 'publish = "sync"\n'
    model = apart.start("model", *command(coupled, "write", "a.nc", "2x1", 1, "hang"))
    apart.await_running("model")
    analysis = apart.start("analysis", *command(coupled, "read", "a.nc", "1x2", 1, "fails"))
    until((apart.folder / "opened").exists)
    time.sleep(0.5)
    begin = time.monotonic()
    subprocess.run(["ip", "link", "set", networks["b"], "down"], check=True)
    ran = apart.finish(analysis)
    assert time.monotonic() - begin < SOON_S
    assert "variable 'field'" in ran.err and "the aggregator of node 'node-model' is gone" in ran.err, ran.err
    model.terminate()
    apart.finish(model, ok=False)


@pytest.fixture
def model(components: Components, coupled: Path) -> Iterator[subprocess.Popen[str]]:
    """Its launcher, with a session that stays open."""
    components.config = RULE.replace("60s", "6s") + 'publish = "sync"\n'
    model = components.start("model", *command(coupled, "write", "a.nc", "2x1", 1, "hang"))
    await_session(components)
    yield model
    if model.poll() is None:
        os.kill(model.pid, signal.SIGCONT)
        model.terminate()
    model.communicate(timeout=60)


def test_only_this_user_may_read_the_secret(components, model):
    assert address(components).stat().st_mode & 0o777 == 0o600


def test_a_launcher_that_is_stopped_is_named(components, coupled, link, model):
    analysis = components.start("analysis", *command(coupled, "read", "a.nc", "1x2", 1, "fails"))
    until((components.folder / "opened").exists)
    time.sleep(0.5)
    begin = time.monotonic()
    os.kill(model.pid, signal.SIGSTOP)
    ran = components.finish(analysis)
    assert time.monotonic() - begin < SOON_S
    assert "variable 'field'" in ran.err and "session 1" in ran.err
    assert "node 'node-model' is gone: it has not answered for 5 s" in ran.err, ran.err


def test_a_launcher_that_is_stopped_before_is_named(components, coupled, model):
    os.kill(model.pid, signal.SIGSTOP)
    begin = time.monotonic()
    ran = components.finish(components.start("analysis", *command(coupled, "read", "a.nc", "1x2", 1, "absent")))
    assert time.monotonic() - begin < SOON_S
    said = "component 'model' has not been reached for 6 s (timeout): node 'node-model' has not said how it is reached"
    assert said in ran.err, ran.err


@pytest.mark.parametrize("when", ["before", "closed", "open"])
def test_a_launcher_of_the_reader_that_is_stopped_is_named(components, coupled, when):
    """Its program lives: it waits for a session, does something else while there is one, or has it open."""
    reads = command(coupled, "read", "a.nc", "1x2", 1, "holds" if when == "open" else "absent")
    components.config = RULE.replace("60s", "3s") + 'when_late = "discard"\n'
    # Without its launcher the other one waits for it so long as for any component.
    if when == "before":
        analysis = components.start("analysis", *reads)
        until((components.top / ".knarr-transfer" / "analysis").exists)
        time.sleep(0.5)
        os.kill(analysis.pid, signal.SIGSTOP)
        model = components.start("model", *command(coupled, "write", "a.nc", "2x1", 1))
    else:
        first = [] if when == "open" else ["sh", "-c", 'while [ ! -e go ]; do sleep 0.1; done; exec "$@"', "sh"]
        analysis = components.start("analysis", *first, *reads)
        model = components.start("model", *command(coupled, "write", "a.nc", "2x1", 1))
        await_session(components)
        if when == "open":
            until((components.folder / "opened").exists)
        # It is heard.
        time.sleep(1)
        os.kill(analysis.pid, signal.SIGSTOP)
    begin = time.monotonic()
    wrote = components.finish(model, ok=False)
    assert time.monotonic() - begin < SOON_S and wrote.code == 4
    said = r"component 'analysis' has not taken it, and its node 'node-analysis' has asked for nothing for \d+ s"
    assert re.search(f"{said}; its values are discarded", wrote.err), wrote.err
    os.kill(analysis.pid, signal.SIGCONT)
    (components.folder / "go").touch()
    components.finish(analysis, ok=when != "open")


def test_a_writer_that_was_stopped_itself_does_not_take_its_reader_for_gone(components, coupled):
    components.config = RULE.replace("60s", "2s") + 'when_late = "discard"\n'
    analysis = components.start("analysis", *command(coupled, "read", "a.nc", "1x2", 1, "holds"))
    model = components.start("model", *command(coupled, "write", "a.nc", "2x1", 1))
    until((components.folder / "opened").exists)
    time.sleep(0.5)
    os.kill(model.pid, signal.SIGSTOP)
    time.sleep(3)
    os.kill(model.pid, signal.SIGCONT)
    time.sleep(1)
    (components.folder / "go").touch()
    components.finish(analysis)
    assert components.finish(model).file("a.nc")["outcome"] == "transferred"


def test_a_stranger_does_not_get_in(components, coupled, model):
    """Another secret, one that others may read, and somebody who answers nonsense."""
    path = address(components)
    right = json.loads(path.read_text())
    reads, absent = (command(coupled, "read", "a.nc", "1x2", 1, what) for what in ("unread", "absent"))

    def read_with(found: object, mode: int = 0o600, wakes: bool = False) -> str:
        """What a reader says that finds this address. The model is stopped: it would say the right one."""
        os.kill(model.pid, signal.SIGSTOP)
        path.write_text(json.dumps(found))
        path.chmod(mode)
        analysis = components.start("analysis", *(reads if wakes else absent))
        if wakes:
            time.sleep(3)
            os.kill(model.pid, signal.SIGCONT)
        err = components.finish(analysis).err
        os.kill(model.pid, signal.SIGCONT)
        assert wakes or "component 'model' has not been reached for 6 s (timeout)" in err, err
        return err

    peer = right["peer"]
    err = read_with(right, mode=0o644)
    assert "others than this user can read the secret" in err, err

    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    stream, _ = server.accept()
                    stream.sendall(b"HTTP/1.1 200 OK\r\n\r\n" * 100)
                    stream.close()
                except OSError:
                    return

        threading.Thread(target=answer, daemon=True).start()
        err = read_with({**right, "peer": {**peer, "places": [f"127.0.0.1:{server.getsockname()[1]}"]}})
        assert "somebody else answers there" in err, err
    # It gets in when it has the right one.
    err = read_with({**right, "peer": {**peer, "secret": [7] * 32}}, wakes=True)
    assert "does not know the secret" in err, err


def test_a_side_that_is_restarted_goes_on(components, coupled):
    """The reader dies with the session open and comes again; so does the writer, with a session of the same number."""
    components.config = RULE + "keep = true\n"
    sessions = 2
    model = components.start("model", *command(coupled, "write", "a.nc", "2x1", sessions))
    analysis = components.start("analysis", *command(coupled, "read", "a.nc", "1x2", sessions))
    components.finish(model)
    components.finish(analysis)
    (components.folder / "a.nc").unlink()
    analysis = components.start(
        "analysis", "sh", "-ec", " ".join(f"'{word}'" for word in command(coupled, "read", "a.nc", "1x1", sessions))
    )
    components.finish(components.start("model", *command(coupled, "write", "a.nc", "1x3", sessions)))
    components.finish(analysis)
