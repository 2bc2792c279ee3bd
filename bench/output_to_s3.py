"""Output of an MPI program to S3 on the loopback: the steps of `parallel_output`, by other ways.

*File, then upload* is what centres do: PnetCDF to the disk, and boto3 with its defaults afterwards. zarr-python writes
by obstore, each rank its own chunks. The server is moto, a program in Python on the same two cores; all ways have the
same one. Requests are counted in a run of their own, in which a proxy passes them on.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from measure import run_measured
from object_store import CREDENTIALS, S3, UPLOAD, Bucket, Proxy
from parallel_output import KNARR, PAUSE_S, RULE, SOURCES, STEPS, median, prepared
from scale_tables import Table

WAYS = {
    "upload": "PnetCDF to a file, then upload",
    "zarr": "zarr-python with obstore, chunks of each rank",
    "knarr": "PnetCDF under knarr run",
}


@dataclass
class Result:
    """Of one way to write: seconds of each step but the first, and what is in the bucket afterwards."""

    mode: str
    place: str
    blocked_s: list[float]
    until_durable_s: float
    cpu_s: float
    """Without the server's."""
    output_bytes: int
    requests: dict[str, int] | None
    """By method, of a run that is not timed."""


def command_of(program: Path, mode: str, url: str, out: Path, values: Path) -> list[str]:
    mpirun = ["mpirun", "--oversubscribe", "-n", "4"]
    rest = [str(STEPS), str(PAUSE_S), str(values)]
    if mode == "zarr":
        script = SOURCES[0].with_name("zarr_steps.py")
        return [*mpirun, sys.executable, str(script), "zarr", f"{url}/s", *rest]
    command = [*mpirun, str(program), "pnetcdf", str(out / "s"), *rest]
    if mode == "knarr":
        (out / "knarr.toml").write_text(f'{RULE}output = "{url}"\n')
        return [str(KNARR), "run", "-q", "-c", str(out / "knarr.toml"), "--", *command]
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    each = f'{sys.executable} -c "$0" "$AWS_ENDPOINT_URL" $file {bucket} {prefix}/$(basename $file)'
    then = f'"$@" && sync && for file in {out}/s*.nc; do {each} || exit 1; done'
    return ["sh", "-c", then, UPLOAD, *command]


def run(program: Path, mode: str, server: S3, folder: Path, values: Path, proxy: Proxy | None = None) -> Result:
    bucket = Bucket(server.endpoint, f"bench-{uuid.uuid4().hex}")
    with tempfile.TemporaryDirectory(dir=folder) as name:
        out = Path(name)
        command = command_of(program, mode, bucket.url("run"), out, values)
        environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **CREDENTIALS}
        environment["AWS_ENDPOINT_URL"] = (proxy or server).endpoint
        subprocess.run(["sync"], check=True)
        begin = time.monotonic()
        measured = run_measured(["sh", "-c", '"$@" > "$0"', str(out / "said"), *command], environment)
        durable = time.monotonic() - begin - STEPS * PAUSE_S
        if measured.exit_code != 0:
            raise SystemExit(f"{mode}: exit code {measured.exit_code}")
        # The first step finds memory that nobody has used.
        blocked = [float(line.split()[0]) for line in (out / "said").read_text().splitlines()][1:]
    size = sum(bucket.keys("run/").values()) // STEPS
    requests = dict(Counter(one.method for one in proxy.requests)) if proxy else None
    return Result(mode, "S3", blocked, durable, measured.cpu_s, size, requests)


def measure(repeats: int) -> list[dict]:
    """Every way in turn, `repeats` times, and once to count requests."""
    results = []
    for number in range(repeats + 1):
        for mode in WAYS:
            # A server of its own for each: moto keeps objects in memory.
            server = S3()
            proxy = Proxy(server.port) if number == repeats else None
            try:
                with prepared() as (folder, program, values):
                    results.append(asdict(run(program, mode, server, folder, values, proxy)))
            finally:
                if proxy:
                    proxy.stop()
                server.stop()
    return results


def table(results: list[dict]) -> Table:
    heads = ["way", ">blocked, s", ">until durable, s", ">CPU s", ">MB a step", "requests"]
    timed = [one for one in results if one["requests"] is None]
    rows = []
    for mode, title in WAYS.items():
        fields = ("blocked_s", "until_durable_s", "cpu_s", "output_bytes")
        blocked, durable, cpu, size = (median(timed, mode, "S3", field) for field in fields)
        counted = next(one["requests"] for one in results if one["mode"] == mode and one["requests"] is not None)
        requests = ", ".join(f"{count} {method}" for method, count in sorted(counted.items()))
        rows.append([title, f"{blocked:.3f}", f"{durable:.1f}", f"{cpu:.1f}", f"{size / 1e6:.1f}", requests])
    return Table(heads, rows)
