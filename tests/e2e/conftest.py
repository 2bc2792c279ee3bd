"""Drives the `knarr` program on inputs made by other people's writers.

The program is `target/release/knarr`, or what KNARR_BIN names. Inputs are written once per run, the
first time a test asks for them. Tools and Python packages come from `make setup`.
"""

from __future__ import annotations

import environment  # isort: skip  # noqa: F401  must come before anything that loads HDF5

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hdf5plugin
import pytest

import filter_inputs
import hdf5_inputs
import namespaces
import netcdf_inputs
import zarr_inputs
from injecting import Injector, injector
from nodes import Launcher, left
from running import MPIRUN, Runner

if TYPE_CHECKING:
    from checkpoint_route import Route
    from object_server import S3, Bucket, Proxy

REPOSITORY = Path(__file__).resolve().parents[2]
KNARR = Path(os.environ.get("KNARR_BIN", REPOSITORY / "target" / "release" / "knarr")).resolve()
TIME_LIMIT_S = 300

# Programs inherit what is ignored, as under nohup or in the background of a script: tests of signals would never end.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

FAMILIES = {
    "hdf5": (hdf5_inputs.INPUTS, ".h5"),
    "filter": (filter_inputs.INPUTS, ".h5"),
    "netcdf": (netcdf_inputs.INPUTS, ".nc"),
    "zarr": (zarr_inputs.INPUTS, ".zarr"),
}


# Beside sets: what making them and restarting from them took.
COSTS = ".knarr-costs.jsonl"


def sets_in(folder: Path) -> list[str]:
    """Names of everything in a folder of sets, but for what they took."""
    return sorted(path.name for path in folder.iterdir() if path.name != COSTS)


def outputs(folder: Path) -> list[Path]:
    """What a repack wrote into `folder`, without the plans it saves beside its outputs."""
    return sorted(path for path in folder.iterdir() if not path.name.endswith(".knarr.json"))


class Knarr:
    """Runs the program with the plugins of `hdf5plugin` on HDF5's search path."""

    program = KNARR

    def __init__(self, **variables: str):
        self.environment = {**os.environ, "HDF5_PLUGIN_PATH": hdf5plugin.PLUGIN_PATH, **variables}

    def __call__(self, *arguments: object, ok: bool = True, **how: object) -> subprocess.CompletedProcess[str]:
        """Runs `knarr ARGUMENTS`; with `ok` a failure fails the test and shows what was printed."""
        done = subprocess.run(
            [KNARR, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            env=self.environment,
            check=False,
            **how,
        )
        if ok:
            assert done.returncode == 0, f"{done.args}\nexit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def start(self, *arguments: object, **how: object) -> subprocess.Popen[str]:
        """Starts `knarr ARGUMENTS`, for tests of what happens meanwhile."""
        return subprocess.Popen(
            [KNARR, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            **how,
        )

    def json(self, *arguments: object) -> dict:
        """What `knarr ARGUMENTS --json` prints. Only the result may be on standard output."""
        return json.loads(self(*arguments, "--json").stdout)

    def repack(self, source: Path, target: Path, *options: object) -> Path:
        self("repack", source, "-o", target, *options)
        return target

    def fails(self, exit_code: int, *arguments: object, names: tuple[object, ...] = (), **how: object) -> str:
        """Expects the exit code and that the message holds each of `names`; returns the message."""
        done = self(*arguments, ok=False, **how)
        assert done.returncode == exit_code, f"{done.args}\nexit {done.returncode}\n{done.stdout}\n{done.stderr}"
        for name in names:
            assert str(name) in done.stderr, f"message does not name {name!r}:\n{done.stderr}"
        assert "panicked" not in done.stderr
        return done.stderr

    def content_hash(self, path: Path) -> str:
        """The file's content hash: `hash` of the JSON answer."""
        return self.json("hash", path)["hash"]

    def variable_hashes(self, path: Path) -> dict[str, str]:
        """The variables' content hashes: `variables` of the JSON answer, name to hash."""
        return self.json("hash", path)["variables"]


@pytest.fixture(scope="session")
def knarr() -> Knarr:
    assert KNARR.is_file(), f"{KNARR} is not built: cargo build --release"
    return Knarr()


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """`made(family, name)` is the path of an input, written at the first call."""
    folder = tmp_path_factory.mktemp("inputs")

    def make(family: str, name: str) -> Path:
        writers, suffix = FAMILIES[family]
        path = folder / family / f"{name}{suffix}"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            writers[name](path)
        return path

    return make


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Injector:
    """Has system calls of commands fail."""
    made = injector(tmp_path_factory.mktemp("faults"))
    if isinstance(made, str):
        pytest.skip(made)
    return made


@pytest.fixture
def run(knarr: Knarr, tmp_path: Path) -> Runner:
    """Runs programs under `knarr run`."""
    return Runner(KNARR, knarr.environment, tmp_path)


@pytest.fixture
def job(knarr: Knarr, tmp_path: Path) -> Iterator[Launcher]:
    """Runs programs with a `knarr run` for each rank, on one node and on several."""
    launcher = Launcher(KNARR, dict(os.environ), tmp_path)
    yield launcher
    for process in launcher.started:
        # A test that has failed may leave it waiting.
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=TIME_LIMIT_S)
    for place in [*left(tmp_path), *launcher.meetings()]:
        shutil.rmtree(place)


@pytest.fixture(scope="session")
def own_memory() -> None:
    """Tests see nothing in /dev/shm but what they have put there."""
    if not namespaces.may_be_own():
        pytest.skip("needs a shared memory of its own, and so the rights of root")
    if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) == 1:
        namespaces.become_own()


def may_mount() -> bool:
    """Whether tests may have a small file system of their own; mounting it needs root."""
    if os.geteuid() != 0:
        return False
    probe = subprocess.run(
        ["unshare", "--mount", "sh", "-c", "mount -t tmpfs -o size=1m tmpfs /mnt"],
        capture_output=True,
        check=False,
    )
    return probe.returncode == 0


def unmount(folder: Path) -> None:
    """Ends a mount of a test. A thread that has just failed there may close its removed file a moment later."""
    end = time.monotonic() + 60
    while subprocess.run(["umount", folder], check=False).returncode != 0:
        assert time.monotonic() < end, f"{folder} stays busy"
        time.sleep(0.05)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB (a tmpfs), for tests that are skipped unless `may_mount()`."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=True)
    yield folder
    unmount(folder)


IMAGE = "truncate -s {size}m {image} && mkfs.ext4 -q {image} && mount -o loop {image} {folder}"


def may_mount_images() -> bool:
    """Whether tests may have a small ext4 of their own; a tmpfs does not allocate blocks as disks do."""
    if os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as folder:
        command = IMAGE.format(size=8, image=f"{folder}/image", folder="/mnt")
        probe = subprocess.run(["unshare", "--mount", "sh", "-c", command], capture_output=True, check=False)
    return probe.returncode == 0


@pytest.fixture
def image_disk(tmp_path: Path) -> Iterator[Path]:
    """An ext4 of about 80 MiB, for tests that are skipped unless `may_mount_images()`."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["sh", "-c", IMAGE.format(size=80, image=tmp_path / "image", folder=folder)], check=True)
    yield folder
    unmount(folder)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """An empty folder for files that a test writes."""
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An empty folder for outputs, so that anything left behind is seen."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def server() -> Iterator[S3]:
    """Who uses it needs moto."""
    from object_server import S3

    server = S3()
    yield server
    server.stop()


@pytest.fixture
def bucket(server: S3) -> Bucket:
    from object_server import Bucket

    return Bucket(server.endpoint, f"test-{uuid.uuid4().hex}")


@pytest.fixture
def proxy(server: S3) -> Iterator[Proxy]:
    from object_server import Proxy

    proxy = Proxy(server.port)
    yield proxy
    proxy.stop()


@pytest.fixture
def s3(proxy: Proxy) -> Knarr:
    """Knarr with the keys of the server, which it asks through the proxy."""
    from object_server import CREDENTIALS

    return Knarr(**CREDENTIALS, AWS_ENDPOINT_URL=proxy.endpoint)


@pytest.fixture(scope="session")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that writes with PnetCDF."""
    from test_pnetcdf import HERE, built

    return built(tmp_path_factory.mktemp("blocks"), "blocks", HERE / "blocks.c")


@pytest.fixture(scope="session")
def every_call(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that calls every function of PnetCDF."""
    from test_pnetcdf import built, calls

    folder = tmp_path_factory.mktemp("calls")
    (folder / "calls.c").write_text(calls.program())
    return built(folder, "calls", folder / "calls.c")


@pytest.fixture
def route(run: Runner, knarr: Knarr) -> Route:
    """Programs whose restart files become sets."""
    from checkpoint_route import Route

    return Route(run, knarr)


@pytest.fixture
def plain(blocks: Path, tmp_path: Path) -> Path:
    """What PnetCDF writes by itself of that program."""
    from test_pnetcdf import RANKS, ROWS, STEPS

    (tmp_path / "plain").mkdir()
    command = [*MPIRUN, str(RANKS), blocks, "plain.nc", str(STEPS), str(ROWS)]
    subprocess.run(command, cwd=tmp_path / "plain", check=True)
    return tmp_path / "plain" / "plain.nc"
