"""Repacks to and from S3 on the loopback, beside the same repack on a disk and a plain upload of the same bytes."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from measure import Measurement, median, run_measured
from repack import KNARR

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "e2e"))
from object_server import CREDENTIALS, S3, Bucket, Proxy

# The defaults of boto3: parts of 8 MiB, ten threads.
UPLOAD = """
import boto3, sys
client = boto3.client("s3", endpoint_url=sys.argv[1], region_name="us-east-1")
client.upload_file(sys.argv[2], sys.argv[3], sys.argv[4])
"""


@dataclass
class Result:
    """One way, with what it cost."""

    name: str
    measured: Measurement
    megabytes: float
    """What was written, or read in its stored form, in MB of 1e6 bytes."""
    requests: dict[str, int]
    """How many requests of each method, counted in a run of their own."""


def compare(source: Path, repeats: int, say: Callable[[str], None]) -> list[Result]:
    """Every way, `repeats` times, in turn."""
    server = S3()
    proxy = Proxy(server.port)
    folder = Path(tempfile.mkdtemp(prefix="knarr-object-store-"))
    try:
        return _compare(source, repeats, say, server, proxy, folder)
    finally:
        proxy.stop()
        server.stop()
        shutil.rmtree(folder)


def _compare(
    source: Path, repeats: int, say: Callable[[str], None], server: S3, proxy: Proxy, folder: Path
) -> list[Result]:
    bucket = Bucket(server.endpoint, f"bench-{uuid.uuid4().hex}")
    local, url = folder / "a.zarr", bucket.url("a.zarr")
    repack = [str(os.environ.get("KNARR_BIN", KNARR)), "repack", "-qq", "--force"]
    run_measured([*repack, str(source), "-o", str(local)])
    size = sum(path.stat().st_size for path in local.rglob("*") if path.is_file())
    plain = folder / "plain"
    plain.write_bytes(b"".join(path.read_bytes() for path in sorted(local.rglob("*")) if path.is_file()))
    ways: dict[str, Callable[[str], list[str]]] = {
        "upload of one file (boto3)": lambda at: [sys.executable, "-c", UPLOAD, at, str(plain), bucket.name, "plain"],
        "netCDF to Zarr, disk": lambda at: [*repack, str(source), "-o", str(local)],
        "netCDF to Zarr, S3": lambda at: [*repack, str(source), "-o", url],
        "Zarr to netCDF, disk": lambda at: [*repack, str(local), "-o", str(folder / "a.nc")],
        "Zarr to netCDF, S3": lambda at: [*repack, url, "-o", str(folder / "b.nc")],
    }
    costs: dict[str, list[Measurement]] = {name: [] for name in ways}
    for number in range(repeats):
        for name, command in ways.items():
            os.sync()
            environment = {**CREDENTIALS, "AWS_ENDPOINT_URL": server.endpoint}
            costs[name].append(run_measured(command(server.endpoint), environment))
            say(f"{number + 1}: {name}: {costs[name][-1].wall_s:.2f} s")
    results = []
    for name, command in ways.items():
        proxy.requests.clear()
        run_measured(command(proxy.endpoint), {**CREDENTIALS, "AWS_ENDPOINT_URL": proxy.endpoint})
        requests = dict(Counter(one.method for one in proxy.requests))
        results.append(Result(name, median(costs[name]), size / 1e6, requests))
    return results


def table(results: list[Result]) -> str:
    """A row for each way."""
    lines = ["| way | s | MB/s stored | CPU s | peak MB | requests |", "|---|---|---|---|---|---|"]
    for one in results:
        requests = ", ".join(f"{count} {method}" for method, count in sorted(one.requests.items())) or "-"
        cost = one.measured
        lines.append(
            f"| {one.name} | {cost.wall_s:.2f} | {one.megabytes / cost.wall_s:.0f} | {cost.cpu_s:.2f} "
            f"| {cost.peak_rss_mb:.0f} | {requests} |"
        )
    return "\n".join(lines)
