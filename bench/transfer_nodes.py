"""Two programs on two nodes that are coupled by a file: route transfer, as values are, compressed in flight, and with a
loss of a thousandth of each value at most, beside a plain copy by TCP of the same bytes.

The nodes are two network namespaces of one machine, joined by a virtual cable whose rate is limited (`tc`, token
bucket): **emulated links**, whose two ends share the processors. The values are real fields, in single precision. The
time of a session goes from the writer's create to the last value at the reader; that of the reading alone is shown,
too. The plain copy sends from memory into memory that is there already.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KNARR = ROOT / "target" / "release" / "knarr"
RATES = {"10 Gbit/s": "10gbit", "1 Gbit/s": "1gbit", "0.1 Gbit/s": "100mbit"}
SIZES_MIB = (64, 256)
WAYS = ("raw", "auto", "bound")
REL = 1e-3
SESSIONS, PAUSE_S = 3, 0.5
PORT = 21077
RULE = """[[file]]
pattern = "*.h5"
route = "transfer"
from = "writer"
to = ["reader"]
timeout = "120s"
in_flight = "{way}"
"""
BOUND = f"variables.values.max_rel_error = {REL}\n"

WRITER = """
import os, sys, time, h5py, numpy as np
values, name = np.load(sys.argv[1]), sys.argv[2]
for session in range(int(sys.argv[3])):
    time.sleep(float(sys.argv[4]))
    print(time.monotonic(), flush=True)
    with h5py.File(name, "w") as file:
        file.create_dataset("values", data=values)
    while not os.path.exists(f"{name}.read.{session}"):
        time.sleep(0.01)
"""

READER = """
import sys, time, h5py, numpy as np
expected, name = np.load(sys.argv[1]), sys.argv[2]
for session in range(int(sys.argv[3])):
    found = np.zeros_like(expected)
    with h5py.File(name, "r") as file:
        begin = time.monotonic()
        file["values"].read_direct(found)
        print(begin, time.monotonic(), flush=True)
    right = found.view("u4") == expected.view("u4")
    if float(sys.argv[4]) > 0:
        right |= np.abs(found - expected) <= float(sys.argv[4]) * np.abs(expected)
    assert right.all(), "values differ"
    open(f"{name}.read.{session}", "w").close()
"""

RECEIVES = """
import socket, sys, time
count = int(sys.argv[2])
memory = memoryview(bytearray(count))
server = socket.create_server(("", int(sys.argv[1])))
print("ready", flush=True)
for session in range(int(sys.argv[3])):
    stream, _ = server.accept()
    have = 0
    while have < count:
        have += stream.recv_into(memory[have : have + (1 << 20)])
    print(time.monotonic(), flush=True)
"""

SENDS = """
import socket, sys, time
import numpy as np
values = np.load(sys.argv[1])
for session in range(int(sys.argv[4])):
    time.sleep(float(sys.argv[5]))
    print(time.monotonic(), flush=True)
    with socket.create_connection((sys.argv[2], int(sys.argv[3]))) as stream:
        stream.sendall(values.data.cast("B"))
"""


@dataclass
class Result:
    """Of one run: seconds of each session, and of the reading in it."""

    way: str
    rate: str
    mib: int
    seconds: list[float]
    reading: list[float]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextmanager
def nodes(rate: str) -> Iterator[tuple[str, str]]:
    """Two network namespaces, and a cable of this rate."""
    a, b = (f"knarr{os.getpid()}{name}" for name in "ab")
    try:
        for name in (a, b):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", "eth0", "netns", a, "type", "veth", "peer", "name", "eth0", "netns", b)
        # As much as passes in a few milliseconds.
        burst = {"10gbit": "8mb", "1gbit": "1mb", "100mbit": "128kb"}[rate]
        for number, name in enumerate((a, b), start=1):
            ip("-n", name, "addr", "add", f"10.213.78.{number}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            limit = ["tbf", "rate", rate, "burst", burst, "latency", "50ms"]
            subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", *limit], check=True)
        yield a, b
    finally:
        for name in (a, b):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def fields(path: Path, mib: int, out: Path) -> Path:
    """So many MiB of the real fields in a file, in single precision."""
    import netCDF4
    import numpy as np

    wanted, parts = mib << 18, []
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        for variable in file.variables.values():
            if variable.dtype == np.float32 and wanted > 0:
                parts.append(variable[...].ravel()[:wanted])
                wanted -= parts[-1].size
    if wanted > 0:
        raise SystemExit(f"{path} has fewer than {mib} MiB of fields")
    np.save(out, np.concatenate(parts).reshape(-1, 1 << 14))
    return out


def start(node: str, words: list[object], folder: Path) -> subprocess.Popen[str]:
    command = ["ip", "netns", "exec", node, "env", f"KNARR_NODE={node}", *words]
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True, cwd=folder)


def times(process: subprocess.Popen[str]) -> list[list[float]]:
    text, _ = process.communicate(timeout=900)
    if process.returncode != 0:
        raise SystemExit(f"exit code {process.returncode}: {process.args}")
    return [list(map(float, line.split())) for line in text.splitlines()]


def run(way: str, pair: tuple[str, str], rate: str, mib: int, values: Path) -> Result:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if way == "tcp":
            count = mib << 20
            receiver = start(pair[1], [sys.executable, "-c", RECEIVES, PORT, count, SESSIONS], folder)
            receiver.stdout.readline()
            arguments = [values, "10.213.78.2", PORT, SESSIONS, PAUSE_S]
            begun = times(start(pair[0], [sys.executable, "-c", SENDS, *arguments], folder))
            ended = times(receiver)
            reading = [end - begin for (begin,), (end,) in zip(begun, ended, strict=True)]
            return Result(way, rate, mib, reading, reading)
        loses = way == "bound"
        (folder / "knarr.toml").write_text(RULE.format(way=way) + (BOUND if loses else ""))
        launch = [KNARR, "run", "-q", "-c", folder / "knarr.toml", "--as"]
        arguments = [values, folder / "a.h5", SESSIONS]
        allowed = REL if loses else 0
        reader = start(pair[1], [*launch, "reader", "--", sys.executable, "-c", READER, *arguments, allowed], folder)
        writer = start(pair[0], [*launch, "writer", "--", sys.executable, "-c", WRITER, *arguments, PAUSE_S], folder)
        begun, ended = times(writer), times(reader)
        seconds = [last - begin for (begin,), (_, last) in zip(begun, ended, strict=True)]
        return Result(way, rate, mib, seconds, [last - first for first, last in ended])


def measure(path: Path, repeats: int, tell=print) -> list[dict]:
    """Every way in turn, `repeats` times."""
    results = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        for mib in SIZES_MIB:
            values = fields(path, mib, Path(name) / "values.npy")
            for rate, limit in RATES.items():
                with nodes(limit) as pair:
                    for _ in range(repeats):
                        for way in ("tcp", *WAYS):
                            begin = time.monotonic()
                            results.append(asdict(run(way, pair, rate, mib, values)))
                            tell(f"{mib} MiB, {rate}, {way}: {time.monotonic() - begin:.1f} s")
    return results


def table(results: list[dict]) -> str:
    lines = [
        "| emulated link | values | way | create to last value, s | reading, s | plain TCP, s | rate of reading |",
        "|---|---|---|---:|---:|---:|---:|",
    ]

    def median(way: str, rate: str, mib: int, key: str) -> float:
        runs = [one[key] for one in results if (one["way"], one["rate"], one["mib"]) == (way, rate, mib)]
        return statistics.median(seconds for run in runs for seconds in run[1:])

    for rate, mib in dict.fromkeys((one["rate"], one["mib"]) for one in results):
        plain = median("tcp", rate, mib, "seconds")
        for way in WAYS:
            whole, reading = (median(way, rate, mib, key) for key in ("seconds", "reading"))
            numbers = f"{whole:.3f} | {reading:.3f} | {plain:.3f} | {plain / reading:.2f} of its rate"
            lines.append(f"| {rate} | {mib} MiB | {way} | {numbers} |")
    return "\n".join(lines)
