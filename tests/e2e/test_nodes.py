"""One `knarr run` for each rank, on one node and on several.

Nodes are names here (KNARR_NODE): each has a launcher, a spool and an aggregator of its own, and those reach each other
by TCP only. The processes share a machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import netCDF4
import pytest

from conftest import may_mount, unmount
from nodes import (
    RANKS,
    collected,
    contents,
    encoded,
    launcher_of,
    measured,
    part,
    records,
    recovered,
    waiting,
)
from running import MPIRUN, forget, until
from test_pnetcdf import RULE, built, calls

pytestmark = pytest.mark.node

STEPS, ROWS = 3, 64


def test_a_launcher_for_each_rank_on_one_node(job, knarr, blocks, plain):
    ran = job(blocks, "hist.nc", STEPS, ROWS, nodes=None)
    knarr("verify", plain, job.folder / "hist.nc")
    assert ran.outcomes("hist.nc") == ["packed"] and len(ran.results) == 1
    with netCDF4.Dataset(job.folder / "hist.nc") as file:
        assert file.data_model == "NETCDF4"


@pytest.mark.parametrize("code", [0, 3])
def test_each_rank_gets_the_exit_code_of_its_program(job, tmp_path, code):
    ran = job("sh", "-c", f"exit $((OMPI_COMM_WORLD_RANK == 2 ? {code} : 0))", nodes=None, ok=False)
    assert ran.code == code


@pytest.mark.parametrize("nodes", [None, "abab"])
@pytest.mark.parametrize("rank", [0, 3])
def test_a_rank_that_fails_ends_the_job_though_others_wait_for_it(job, nodes, rank):
    """Rank 0 is the one whose launcher serves others, most often."""
    script = f"test $OMPI_COMM_WORLD_RANK = {rank} && sleep 1 && exit 3; exec sleep 600"
    begin = time.monotonic()
    ran = job("sh", "-c", script, nodes=nodes, ok=False)
    assert ran.code == 3 and time.monotonic() - begin < 100, ran.err


@pytest.mark.parametrize("output", ["netcdf4", "zarr", "classic"])
@pytest.mark.parametrize("nodes", ["aabb", "abab", "abcc", "baab"])
def test_several_nodes_write_the_same_bytes_as_one(job, knarr, blocks, plain, output, nodes):
    config = RULE + f'output = "{output}"\n'
    name = "hist.zarr" if output == "zarr" else "hist.nc"
    job(blocks, "hist.nc", STEPS, ROWS, nodes="aaaa", config=config)
    one = contents(job.folder / name)
    shutil.move(job.folder / name, job.top / f"one-{name}")
    ran = job(blocks, "hist.nc", STEPS, ROWS, nodes=nodes, config=config)
    assert contents(job.folder / name) == one
    knarr("verify", plain, job.folder / name)
    assert ran.outcomes("hist.nc").count("gathered") == len(set(nodes)) - 1 and len(ran.results) == len(set(nodes))


LARGE = 512
# Chunks as large as the block of a rank, in T; in the others they are of half that width, and of a third more.
CHUNKS = """
[file.variables.T]
chunks = "1x256x512"
{quality}
[file.variables.topo]
chunks = "256x256"
[file.variables.count]
chunks = "170x512"
"""


FOLLOWS = """
[file.variables."*"]
chunks = "decomposition"
"""


@pytest.mark.parametrize("output", ["netcdf4", "zarr"])
@pytest.mark.parametrize("quality", ["", "max_abs_error = 0.01", 'chain = "shuffle | zstd:3"'])
def test_chunks_are_encoded_where_their_values_are(job, knarr, blocks, tmp_path, output, quality):
    command = [*MPIRUN, str(RANKS), blocks, "plain.nc", str(STEPS), str(LARGE)]
    subprocess.run(command, cwd=tmp_path, check=True)
    config = RULE + f'output = "{output}"\n' + CHUNKS.format(quality=quality)
    made = job.folder / ("hist.zarr" if output == "zarr" else "hist.nc")
    bytes_of = encoded if "error" in quality else contents
    expected: dict[object, object] = {}
    # Ranks have the quarters of each plane: how many chunks of T and topo, and of count, are on one other node.
    for nodes, blocks_elsewhere, counts_elsewhere in [("aaaa", 0, 0), ("aabb", 2, 4), ("abab", 2, 4), ("abca", 2, 3)]:
        shutil.rmtree(made, ignore_errors=True)
        ran = job(blocks, "hist.nc", STEPS, LARGE, nodes=nodes, config=config)
        found, found_in = bytes_of(made), measured(ran)
        assert found == (expected := expected or found), nodes
        assert found_in["T"]["elsewhere_chunks"] == STEPS * blocks_elsewhere, nodes
        assert found_in["topo"]["elsewhere_chunks"] == 2 * blocks_elsewhere, nodes
        assert found_in["count"]["elsewhere_chunks"] == counts_elsewhere, nodes
        # The bound of T is recorded in the file.
        knarr("verify", tmp_path / "plain.nc", made)


def test_chunks_that_follow_the_decomposition_are_encoded_on_the_nodes_of_their_ranks(job, knarr, blocks, tmp_path):
    """Of three variables without a shape that is asked for; their blocks are quarters of planes."""
    command = [*MPIRUN, str(RANKS), blocks, "plain.nc", str(STEPS), str(LARGE)]
    subprocess.run(command, cwd=tmp_path, check=True)
    ran = job(blocks, "hist.nc", STEPS, LARGE, nodes="abcd", config=RULE + FOLLOWS)
    knarr("verify", tmp_path / "plain.nc", job.folder / "hist.nc")
    found = measured(ran)
    chunks = {name: (found[name]["chunks"], found[name]["elsewhere_chunks"]) for name in ("T", "topo", "count")}
    assert chunks == {"T": (4 * STEPS, 3 * STEPS), "topo": (4, 3), "count": (4, 3)}
    with netCDF4.Dataset(job.folder / "hist.nc") as file:
        assert file["T"].chunking() == [1, LARGE // 2, LARGE] and file["topo"].chunking() == [LARGE // 2, LARGE]


# Many chunks within the blocks of the ranks.
SMALL = """
[file.variables.T]
chunks = "1x16x128"
chain = "shuffle | zstd:3"
"""


def hiding(folder: Path, node: str) -> str:
    """A command whose launchers on a node find another directory in place of `folder`."""
    hide = f'mount -t tmpfs none "{folder}" && exec "$@"'
    return f"""test "$KNARR_NODE" = {node} && exec unshare -m sh -c '{hide}' sh "$@"\nexec "$@"\n"""


@pytest.mark.parametrize("reached", ["by all", "not by b"])
def test_nodes_write_what_they_have_encoded(job, knarr, blocks, tmp_path, reached):
    """Where a node does not see the output, it sends the bytes."""
    command = [*MPIRUN, str(RANKS), blocks, "plain.nc", str(STEPS), str(LARGE)]
    subprocess.run(command, cwd=tmp_path, check=True)
    expected, enter = None, job.top / "enter.sh"
    enter.write_text(hiding(job.folder, "b") if reached == "not by b" else 'exec "$@"\n')
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        pytest.skip("needs the right to make mount namespaces: run it as root")
    back = ["nsenter", f"--mount=/proc/{os.getpid()}/ns/mnt", f"--wdns={job.folder}", blocks]
    for nodes in ["aaaa", "abbb", "abcb"]:
        ran = job(*back, "hist.nc", STEPS, LARGE, nodes=nodes, config=RULE + SMALL, within=["sh", enter])
        found, told = contents(job.folder / "hist.nc"), measured(ran)["T"]
        assert found == (expected := expected or found), nodes
        assert (told["elsewhere_chunks"] > 0) == (nodes != "aaaa")
        places = set(nodes) - {"a"} - (set() if reached == "by all" else {"b"})
        assert (told["placed_chunks"] > 0) == bool(places), (nodes, told)
        knarr("verify", tmp_path / "plain.nc", job.folder / "hist.nc")


def encoding(launcher: int) -> bool:
    """True if a launcher encodes chunks for another node."""
    for name in Path(f"/proc/{launcher}/task").glob("*/comm"):
        # A thread may end at this moment.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if name.read_text().strip() == "encoder":
                return True
    return False


# Chains that take their time.
SLOW = [CHUNKS.format(quality='chain = "shuffle | zstd:19"'), SMALL.replace("zstd:3", "zstd:19")]


@pytest.mark.parametrize("chunks", SLOW, ids=["few chunks", "many chunks"])
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_a_node_that_goes_while_it_encodes_is_named_and_values_are_kept(job, knarr, blocks, tmp_path, sent, chunks):
    command = [*MPIRUN, str(RANKS), blocks, "plain.nc", str(STEPS), str(LARGE)]
    subprocess.run(command, cwd=tmp_path, check=True)
    config = RULE + chunks
    process = job.start(blocks, "hist.nc", STEPS, LARGE, nodes="abab", config=config)
    launcher, end = part(job, 1), time.monotonic() + 240
    while not encoding(launcher):
        assert time.monotonic() < end, "nothing was encoded on the other node"
        time.sleep(0.002)
    os.kill(launcher, sent)
    begin, result = time.monotonic(), job.top / "result.json"
    # Where a launcher is killed mpirun ends the job.
    if sent == signal.SIGSTOP:
        while not result.exists():
            assert time.monotonic() - begin < 240, "the first node waits"
            time.sleep(0.1)
        os.kill(launcher, signal.SIGCONT)
    ran = job.finish(process)
    assert ran.code != 0 and not (job.folder / "hist.nc").exists()
    if sent == signal.SIGSTOP:
        (file,) = json.loads(result.read_text())["files"]
        assert file["outcome"] == "failed" and "node 'b'" in file["reason"], file
    knarr("run", "--recover", collected(job))
    knarr("verify", tmp_path / "plain.nc", job.folder / "hist.nc")
    forget(job.top)


def test_a_disk_that_is_full_while_several_nodes_write(job, knarr, blocks, tmp_path):
    """What they hold stays, and makes the file when there is room."""
    if not may_mount():
        pytest.skip("mounting a small file system needs root")
    command = [*MPIRUN, str(RANKS), blocks, "plain.nc", str(STEPS), str(LARGE)]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "none", job.folder], check=True)
    try:
        ran = job(blocks, "hist.nc", STEPS, LARGE, nodes="abbb", config=RULE + SMALL, ok=False)
        assert ran.code != 0 and "space" in ran.err and not [*job.folder.iterdir()], ran.err
        assert "hist.nc" in ran.err and ".hist.nc" not in ran.err, "a hidden name says nothing to people"
        subprocess.run(["mount", "-o", "remount,size=8m", job.folder], check=True)
        knarr("run", "--recover", collected(job))
        knarr("verify", tmp_path / "plain.nc", job.folder / "hist.nc")
        forget(job.top)
    finally:
        unmount(job.folder)


def test_every_function_that_moves_values(job, knarr, tmp_path):
    """Puts that overlap among them: which one counts does not depend on nodes."""
    (tmp_path / "calls.c").write_text(calls.program())
    program = built(tmp_path, "calls", tmp_path / "calls.c")
    (tmp_path / "plain").mkdir()
    command = [*MPIRUN, "2", program, "plain.nc"]
    subprocess.run(command, cwd=tmp_path / "plain", check=True)
    job(program, "hist.nc", nodes="ab")
    knarr("verify", tmp_path / "plain" / "plain.nc", job.folder / "hist.nc")


@pytest.mark.parametrize("what", ["read", "twice"])
def test_a_file_that_is_opened_or_made_again(job, knarr, blocks, plain, what):
    job(blocks, "hist.nc", STEPS, ROWS, what, nodes="abab")
    if what == "read":
        knarr("verify", plain, job.folder / "hist.nc")
    else:
        with netCDF4.Dataset(job.folder / "hist.nc") as file:
            assert abs(float(file["T"][0, 0, 0]) - 281) < 1e-4


def test_closing_may_wait_for_the_file(job, knarr, blocks, plain):
    job(blocks, "hist.nc", STEPS, ROWS, nodes="abab", config=RULE + 'wait = "close"\n')
    knarr("verify", plain, job.folder / "hist.nc")


def test_a_file_that_the_program_gives_up_leaves_nothing(job, blocks):
    job(blocks, "hist.nc", STEPS, ROWS, "abort", nodes="abab")
    assert (job.folder / "hist.nc").exists(), "definitions have ended, so PnetCDF keeps the file"


def test_values_that_find_no_room_in_memory(job, knarr, blocks, plain, tmp_path):
    """A file that is larger than memory: its values are read from the disks of the nodes."""
    rows = 2048
    command = [*MPIRUN, str(RANKS), blocks, "large.nc", "2", str(rows)]
    subprocess.run(command, cwd=tmp_path / "plain", check=True)
    job(blocks, "hist.nc", 2, rows, nodes="abab")
    knarr("verify", tmp_path / "plain" / "large.nc", job.folder / "hist.nc")


@pytest.mark.parametrize("stopped", [0, 1])
def test_an_aggregator_that_is_stopped_is_named_and_values_are_kept(job, knarr, blocks, plain, stopped):
    (job.folder / "hist.nc").write_bytes(b"precious")
    process = waiting(job, blocks, "hist.nc", STEPS, ROWS)
    launcher = part(job, stopped)
    os.kill(launcher, signal.SIGSTOP)
    (job.folder / "go").touch()
    begin = time.monotonic()
    other = job.top / ("result.b.json" if stopped == 0 else "result.json")
    while not other.exists():
        assert time.monotonic() - begin < 100, "the other node waits"
        time.sleep(0.1)
    os.kill(launcher, signal.SIGCONT)
    ran = job.finish(process)
    assert ran.code != 0 and (job.folder / "hist.nc").read_bytes() == b"precious"
    told = json.loads(other.read_text())
    (file,) = told["files"]
    assert file["outcome"] == "failed" and f"node '{'ab'[stopped]}'" in file["reason"], file
    assert told["exit_code"] != 0 and "knarr run --recover" in ran.err
    (job.folder / "hist.nc").unlink()
    knarr("run", "--recover", collected(job))
    knarr("verify", plain, job.folder / "hist.nc")


@pytest.mark.parametrize("killed", [0, 1])
def test_a_launcher_that_is_killed_leaves_what_can_be_finished(job, knarr, blocks, plain, killed):
    process = waiting(job, blocks, "hist.nc", STEPS, ROWS)
    launcher = part(job, killed)
    os.kill(launcher, signal.SIGKILL)
    ran = job.finish(process)
    assert ran.code != 0 and not (job.folder / "hist.nc").exists()
    recovered(job, knarr, "hist.nc", plain)


def test_a_launcher_of_another_rank_that_is_killed_ends_the_job(job, knarr, blocks, plain):
    process = job.start(blocks, "hist.nc", STEPS, ROWS, "wait", nodes=None)
    until((job.folder / "waits").exists, "not all is put")
    places = [place for place, _ in records(job.folder) if (place / "log.3").exists()]
    first = {launcher_of(place) for place in places}
    found = subprocess.run(["pgrep", "-f", f"{job.top}/knarr.toml"], check=True, capture_output=True, text=True)
    others = [int(pid) for pid in found.stdout.split() if int(pid) not in first | {process.pid}]
    others = [pid for pid in others if Path(f"/proc/{pid}/exe").resolve().name == "knarr"]
    assert len(others) == RANKS - 1
    os.kill(others[0], signal.SIGKILL)
    ran = job.finish(process)
    assert ran.code != 0 and not (job.folder / "hist.nc").exists()
    knarr("run", "--recover", collected(job, 1))
    knarr("verify", plain, job.folder / "hist.nc")


def test_one_launcher_for_each_rank_and_restart_files_do_not_go_together(job):
    config = '[[file]]\npattern = "restart_{step}_{rank}.nc"\nroute = "checkpoint"\n'
    ran = job("true", nodes=None, config=config, ok=False)
    assert ran.code != 0 and "one serves all ranks" in ran.err


@pytest.fixture
def networks() -> Iterator[dict[str, str]]:
    """Two nodes with networks of their own, joined by a bridge: the name of the device that leads to each."""
    mark = f"k{os.getpid() % 100000}"
    nodes, commands = ("a", "b"), [["link", "add", mark, "type", "bridge"]]
    commands += [["addr", "add", "10.213.77.254/24", "dev", mark], ["link", "set", mark, "up"]]
    for number, node in enumerate(nodes, start=1):
        name, device = f"{mark}{node}", f"{mark}{node}"
        commands += [
            ["netns", "add", name],
            ["link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", name],
            ["link", "set", device, "master", mark],
            ["link", "set", device, "up"],
            ["-n", name, "addr", "add", f"10.213.77.{number}/24", "dev", "eth0"],
            ["-n", name, "link", "set", "eth0", "up"],
            ["-n", name, "link", "set", "lo", "up"],
        ]
    try:
        for command in commands:
            if shutil.which("ip") is None or subprocess.run(["ip", *command], capture_output=True).returncode != 0:
                pytest.skip("needs the right to make network namespaces: run it as root")
        yield {node: f"{mark}{node}" for node in nodes}
    finally:
        if shutil.which("ip") is not None:
            # The system removes a network when nothing of it is left, but its devices at once.
            devices = [["link", "del", name] for name in (*(f"{mark}{node}" for node in nodes), mark)]
            for command in devices + [["netns", "del", f"{mark}{node}"] for node in nodes]:
                subprocess.run(["ip", *command], capture_output=True, check=False)


def test_values_stay_on_their_node(job, knarr, blocks, tmp_path, networks):
    """And of what the node has encoded only what is looked at is sent: it writes the rest."""
    command = [*MPIRUN, str(RANKS), blocks, "plain.nc", str(STEPS), str(LARGE)]
    subprocess.run(command, cwd=tmp_path, check=True)
    enter = job.top / "enter.sh"
    enter.write_text(f'exec ip netns exec "{networks["a"][:-1]}$KNARR_NODE" "$@"\n')
    back = ["nsenter", f"--net=/proc/{os.getpid()}/ns/net", blocks, "hist.nc", STEPS, LARGE]
    # No samples are fetched to choose a chain by.
    config = RULE + CHUNKS.format(quality="").replace("170x512", "256x512")
    config = config.replace("chunks =", 'chain = "shuffle | zstd:3"\nchunks =')
    ran = job(*back, nodes="aabb", config=config, within=["sh", enter])
    device = Path("/sys/class/net") / networks["b"] / "statistics" / "rx_bytes"
    sent, values = int(device.read_text()), (STEPS + 2) * LARGE * 2 * LARGE * 4 // 2
    found = measured(ran)
    encoded = sum(variable["encoded_bytes"] for variable in found.values() if variable) / 2
    assert found["count"]["elsewhere_chunks"] == 2
    assert sum(variable["placed_chunks"] for variable in found.values() if variable) > 0
    assert sent < encoded < values / 2, (sent, encoded, values)
    knarr("verify", tmp_path / "plain.nc", job.folder / "hist.nc")


@pytest.mark.parametrize("is_cut", [False, True])
def test_nodes_with_networks_of_their_own(job, knarr, blocks, plain, networks, is_cut):
    """The launchers are in two network namespaces; the ranks stay together, as the MPI of one machine wants it."""
    # What a rank starts: its launcher in the network of the node, and the program in that of the machine again.
    enter = job.top / "enter.sh"
    enter.write_text(f'exec ip netns exec "{networks["a"][:-1]}$KNARR_NODE" "$@"\n')
    back = ["nsenter", f"--net=/proc/{os.getpid()}/ns/net", blocks, "hist.nc", STEPS, ROWS]
    process = job.start(*back, "wait" if is_cut else "", nodes="aabb", within=["sh", enter])
    if is_cut:
        part(job, 1)
        until((job.folder / "waits").exists, "not all is put")
        subprocess.run(["ip", "link", "set", networks["b"], "down"], check=True)
        (job.folder / "go").touch()
    begin = time.monotonic()
    ran = job.finish(process)
    if not is_cut:
        assert ran.code == 0, ran.err
        assert ran.outcomes("hist.nc") == ["gathered", "packed"]
    else:
        assert ran.code != 0 and time.monotonic() - begin < 100 and not (job.folder / "hist.nc").exists()
        assert "is gone" in ran.err and "knarr run --recover" in ran.err
        knarr("run", "--recover", collected(job))
    knarr("verify", plain, job.folder / "hist.nc")


TWO_FILES = """
#include <mpi.h>
#include <pnetcdf.h>
#include <stdlib.h>
#define OK(call) if ((call) != NC_NOERR) MPI_Abort(MPI_COMM_WORLD, 1)
/* Two files are open at once: one is put by rows, the other by columns. */
int main(int argc, char **argv) {
    const char *names[2] = {"rows.nc", "columns.nc"};
    int rank, size, ids[2], dims[2], variables[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int file = 0; file < 2; file++) {
        OK(ncmpi_create(MPI_COMM_WORLD, names[file], NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &ids[file]));
        OK(ncmpi_def_dim(ids[file], "y", 64, &dims[0]));
        OK(ncmpi_def_dim(ids[file], "x", 64, &dims[1]));
        OK(ncmpi_def_var(ids[file], "v", NC_INT, 2, dims, &variables[file]));
        OK(ncmpi_enddef(ids[file]));
    }
    for (int line = rank; line < 64; line += size) {
        int values[64];
        for (int i = 0; i < 64; i++) values[i] = line * 64 + i;
        MPI_Offset start[2] = {line, 0}, count[2] = {1, 64}, across[2] = {0, line}, down[2] = {64, 1};
        OK(ncmpi_iput_vara_int(ids[0], variables[0], start, count, values, NULL));
        OK(ncmpi_put_vara_int_all(ids[1], variables[1], across, down, values));
        OK(ncmpi_wait_all(ids[0], NC_REQ_ALL, NULL, NULL));
    }
    OK(ncmpi_close(ids[1]));
    OK(ncmpi_close(ids[0]));
    MPI_Finalize();
    return 0;
}
"""


@pytest.mark.parametrize("output", ["netcdf4", "zarr"])
def test_two_files_at_once_by_rows_and_by_columns(job, knarr, tmp_path, output):
    (tmp_path / "two.c").write_text(TWO_FILES)
    program = built(tmp_path, "two", tmp_path / "two.c")
    (tmp_path / "plain").mkdir()
    subprocess.run([*MPIRUN, str(RANKS), program], cwd=tmp_path / "plain", check=True)
    job(program, nodes="abca", config=RULE + f'output = "{output}"\n')
    for name in ("rows", "columns"):
        made = job.folder / (f"{name}.zarr" if output == "zarr" else f"{name}.nc")
        knarr("verify", tmp_path / "plain" / f"{name}.nc", made)
